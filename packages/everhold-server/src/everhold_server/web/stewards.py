"""Pages for stewards: who may log in, allotments, the log of acts, the public page, the end of a study."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import ValidationError

from everhold.errors import EverholdError, QueryRejected
from everhold.operations.accounts import Unseal
from everhold_server.api import people as api
from everhold_server.api.contract import warned_of
from everhold_server.api.holdouts import listed
from everhold_server.api.people import Part, TokenRequest, Tokens
from everhold_server.audit import noted
from everhold_server.open_holdouts import Holdouts
from everhold_server.principals import Principal, Role, Steward
from everhold_server.token_store import TokenStore
from everhold_server.web.competitions import Published
from everhold_server.web.pages import Fields, Form, page, place
from everhold_server.web.views import StewardView, View

router = APIRouter()

_ACTS = 50


@router.get("/tokens")
def tokens(request: Request, principal: Steward, token_store: Tokens) -> Response:
    """Return the page with all tokens, without their secrets."""
    return _tokens(request, principal, token_store)


@router.post("/tokens")
def make_token(request: Request, principal: Steward, token_store: Tokens, holdouts: Holdouts, fields: Form) -> Response:
    """Make a token, and return the page that shows its secret once."""
    try:
        with warned_of():
            made = api.make(request, principal, token_store, holdouts, _token_request(fields))
    except EverholdError as fault:
        return _tokens(request, principal, token_store, fields=fields, fault=fault.told)
    return _tokens(request, principal, token_store, made=made)


@router.post("/tokens/{identifier}/revoke")
def revoke_token(identifier: str, request: Request, principal: Steward, token_store: Tokens, _: Form) -> Response:
    """Revoke a token."""
    api.revoke(identifier, request, principal, token_store)
    return RedirectResponse(place("tokens"), 303)


def _token_request(fields: Fields) -> TokenRequest:
    """Return the token request that a form describes.

    Raises:
        QueryRejected: If the fields contradict each other. Nothing was made.
    """
    named = [name.strip() for name in fields.text("holdouts").split(",") if name.strip()]
    queries, charges = fields.whole("queries"), fields.whole("charges")
    if queries is None and charges is not None:
        raise QueryRejected(
            "The form has charges to spend, and its queries are empty. Fill in the number of queries, or leave the "
            "charges empty."
        )
    if queries is not None and not named:
        raise QueryRejected(
            "The form limits queries and names no holdout. Name the holdouts, or leave the queries empty."
        )
    try:
        part = None if queries is None else Part(queries=queries, charges=charges)
        allotments = {} if part is None else dict.fromkeys(named, part)
        role = Role(fields.text("role") or Role.ANALYST.value)
        return TokenRequest(
            name=fields.text("name"), role=role, holdouts=named or None, days=fields.number("days"),
            allotments=allotments,
        )  # fmt: skip
    except (ValidationError, ValueError):
        raise QueryRejected(
            "The form cannot be used. Pass a name of at most 100 characters, a role, and a number of days."
        ) from None


def _tokens(
    request: Request, principal: Principal, token_store: TokenStore, *, fields: Fields | None = None,
    made: Any = None, fault: str = "",
) -> Response:  # fmt: skip
    names = [each["name"] for each in listed(request.app.state.holdouts, principal)]
    return page(
        request, "tokens.html", status=422 if fault else 200, tokens=api.tokens(principal, token_store)["tokens"],
        made=made, fault=fault, fields=fields or Fields(), roles=list(Role), names=names,
        address=request.app.state.settings.address,
    )  # fmt: skip


@router.get("/audit")
def audit(
    request: Request, principal: Steward, before: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None
) -> Response:
    """Return the page with the audit log, newest first."""
    acts = request.app.state.audit.page(principal, before=before, limit=_ACTS)
    return page(request, "audit.html", acts=acts, older=acts[-1]["number"] if len(acts) == _ACTS else None)


@router.post("/holdouts/{name}/allot")
def allot(request: Request, view: StewardView, fields: Form) -> Response:
    """Allot the part of the budget in the form to an analyst, and return the next page."""
    queries = fields.whole("queries")
    if queries is None:
        raise QueryRejected("The number of queries is missing. Pass a whole number.")
    with warned_of():
        view.whole.allot(fields.text("analyst"), queries=queries, charges=fields.whole("charges"))
    noted(request, "allot", analyst=fields.text("analyst"), queries=queries)
    return RedirectResponse(place("holdouts", view.name) + "#allotted", 303)


@router.post("/holdouts/{name}/publish")
def publish(request: Request, view: StewardView, published: Published, fields: Form) -> Response:
    """Publish a competition's public page, or end its publication, according to the form."""
    public = fields.ticked("public")
    if public and view.competition is None:
        raise QueryRejected("This holdout is not a competition, so it has no public page. Publish only a competition.")
    published.put(view.name, public=public, by=view.principal.name)
    noted(request, "publish" if public else "hide")
    return RedirectResponse(place("holdouts", view.name) + "#steward", 303)


@router.get("/holdouts/{name}/unseal")
def ask_to_unseal(request: Request, view: StewardView) -> Response:
    """Return the page before unsealing, with the holdouts that would lose their promise."""
    return _unseal(request, view)


@router.post("/holdouts/{name}/unseal")
def unseal(request: Request, view: StewardView, fields: Form) -> Response:
    """Unseal the holdout, which ends the study, and return the page with the results."""
    if fields.text("confirm") != view.name:
        fault = f"That is not the holdout's name. Type {view.name!r} to confirm, because unsealing cannot be undone."
        return _unseal(request, view, fault=fault)
    asked = Unseal(confirm=view.name)
    try:
        if (job := request.app.state.jobs.begin(asked, view.whole, by=view.principal.name)) is not None:
            noted(request, "unseal", job=job.id)
            return RedirectResponse(place("holdouts", view.name, "unseal"), 303)
        with warned_of():
            told = view.whole.perform(asked)
    except EverholdError as reason:
        return _unseal(request, view, fault=reason.told)
    noted(request, "unseal")
    return _unseal(request, view.anew(), told=told)


def _unseal(request: Request, view: View, *, told: Any = None, fault: str = "") -> Response:
    """Return the page for unsealing, with its consequences before it and the results after it."""
    losing, why_not = list[str](), ""
    jobs = request.app.state.jobs.of(view.name)
    job = next((each for each in jobs if each.verb == Unseal.verb and not view.status["closed"]), None)
    try:
        with warned_of():
            losing = [view.holdouts.shown_to(view.principal, text) for text in view.whole.affected_holdouts()]
    except EverholdError as reason:
        why_not = reason.told
    return page(
        request, "unseal.html", status=422 if fault else 200, view=view, losing=losing, job=job, why_not=why_not,
        told=told, fault=fault, tab="unseal", rows=[] if told is None else view.named(told.to_rows()),
    )  # fmt: skip
