"""Who may log in, and what they did: routes of ``/me``, of the tokens that stewards make and revoke, and of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from everhold.arguments import brief
from everhold.errors import EverholdError, QueryRejected
from everhold.operations.operation import PRINTABLE
from everhold_server.api.contract import json_of, refusals, said
from everhold_server.audit import noted
from everhold_server.open_holdouts import Holdouts, OpenHoldouts
from everhold_server.principals import Forbidden, Role, Steward, Viewer, kept
from everhold_server.token_store import LONGEST, TokenStore, said_of
from everhold_server.uploads import document_of

if TYPE_CHECKING:
    from everhold_server.principals import Principal

router = APIRouter(tags=["people"])

_TOKEN = {
    "id": "5f2c9a01b3d4e6f7", "role": "analyst", "name": "reports", "holdouts": ["flights"],
    "made": "2026-01-31T12:00:00.000000+00:00", "made_by": "steward", "expires": None, "revoked": None, "used": None,
    "state": "valid",
}  # fmt: skip
_TOLD_ONCE = "shown once, and not kept. Revoke this token and make another one if the secret is lost"


class TokenNotFound(EverholdError, LookupError):
    """The token does not exist, or the principal may not see it."""

    exit_code = 4
    http_status = 404


class Part(BaseModel):
    """An allotment that is made together with a token."""

    model_config = ConfigDict(extra="forbid")

    queries: int = Field(ge=0, description="Most new queries that may be answered.")
    charges: int | None = Field(None, ge=0, description="Most that may be charged (by default what they can cost).")


class TokenRequest(BaseModel):
    """Fields of a request for a new token."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(
        description="Who comes with it. An analyst asks, and spends, under this name.", min_length=1, max_length=100,
        pattern=PRINTABLE,
    )  # fmt: skip
    role: Role = Role.ANALYST
    holdouts: list[str] | None = Field(None, description="To which it is limited (all of yours by default).")
    days: float | None = Field(None, gt=0, le=LONGEST, description="How long it lasts (for ever by default).")
    allotments: dict[str, Part] = Field(
        default_factory=dict, description="For an analyst, what they may spend, by holdout."
    )


TokenId = Annotated[str, Path(description="The token's public part.", examples=["5f2c9a01b3d4e6f7"])]
Tokens = Annotated[TokenStore, kept("token_store")]


@router.get(
    "/me", summary="Who you are",
    responses={200: said("What the token says of you.", {
        "name": "reports", "role": "analyst", "holdouts": ["flights"], "token": "5f2c9a01b3d4e6f7", "expires": None,
        "session": False,
    }), **refusals()},
)  # fmt: skip
def me(principal: Viewer, token_store: Tokens) -> dict[str, Any]:
    """The sender's identity for the service, and its permissions."""
    token = token_store.find(principal.token)
    return {
        "name": principal.name,
        "role": principal.role.value,
        "holdouts": None if principal.holdouts is None else sorted(principal.holdouts),
        "token": principal.token,
        "expires": None if token is None else token.expires,
        "session": principal.session is not None,
    }


@router.get(
    "/tokens",
    summary="The tokens",
    responses={200: said("All that you may see, newest first.", {"tokens": [_TOKEN]}), **refusals()},
)
def tokens(principal: Steward, token_store: Tokens) -> dict[str, Any]:
    """All tokens that you may see, newest first, without their secrets."""
    moment = token_store.records.clock()
    mine = [token for token in token_store.all() if _is_within(token.holdouts, principal)]
    return {"tokens": [{**token.to_dict(), "state": said_of(token, moment)} for token in mine]}


@router.post(
    "/tokens", summary="Make a token", status_code=201, openapi_extra=json_of(TokenRequest),
    responses={201: said("The token, with its secret.", {**_TOKEN, "secret": "eh_...", "note": _TOLD_ONCE}),
               **refusals(404, 415)},
)  # fmt: skip
def make(
    request: Request, principal: Steward, token_store: Tokens, holdouts: Holdouts,
    settings: Annotated[TokenRequest, Depends(document_of(TokenRequest))],
) -> dict[str, Any]:  # fmt: skip
    """Make a token. Its secret is told in this response and never again.

    A token that a steward of some holdouts makes shares that steward's limits of sealings and requests. Allotments are
    written to the ledger first: if one of them cannot be made, no token is made.
    """
    scope = settings.holdouts
    if scope is None and principal.holdouts is not None:
        scope = sorted(principal.holdouts)
    if not _is_within(None if scope is None else tuple(scope), principal):
        raise Forbidden(
            "The token would reach holdouts that your own token does not reach. Name only holdouts of yours."
        )
    _allot(settings, scope, principal, holdouts)
    account = None if principal.holdouts is None else principal.limited_as
    made = token_store.make(
        settings.role, settings.name, holdouts=scope, days=settings.days, by=principal.name, account=account
    )
    noted(request, "make a token", of=made.token.id, role=made.token.role.value)
    told = {**made.token.to_dict(), "state": "valid"}
    return {**told, "secret": made.secret, "note": _TOLD_ONCE}


@router.delete(
    "/tokens/{identifier}",
    summary="Take a token back",
    responses={200: said("The token as it is now.", {**_TOKEN, "state": "revoked"}), **refusals(404)},
)
def revoke(identifier: TokenId, request: Request, principal: Steward, token_store: Tokens) -> dict[str, Any]:
    """Revoke a token and end its sessions, with immediate effect."""
    found = token_store.find(identifier)
    if found is None or not _is_within(found.holdouts, principal):
        raise TokenNotFound(f"No token {brief(identifier)} is visible to you. Send an id from GET /tokens.")
    revoked = token_store.revoke(identifier)
    assert revoked is not None
    noted(request, "revoke a token", of=identifier)
    return {**revoked.to_dict(), "state": "revoked"}


def _is_within(scope: tuple[str, ...] | None, principal: Principal) -> bool:
    """Return whether the principal may see all holdouts to which a token is limited."""
    return principal.holdouts is None or (scope is not None and principal.holdouts.issuperset(scope))


def _allot(settings: TokenRequest, scope: list[str] | None, principal: Principal, holdouts: OpenHoldouts) -> None:
    if settings.allotments and settings.role is not Role.ANALYST:
        raise QueryRejected(
            f"allotments= is given for the role {settings.role.value}, and only analysts have allotments. Send the "
            "role analyst, or no allotments."
        )
    for name in settings.allotments:
        if scope is not None and name not in scope:
            raise QueryRejected(
                f"The allotment is for {brief(name)}, which the token does not reach. Add "
                "it to the token's holdouts, or leave the allotment out."
            )
        holdouts.whole(name, principal)  # all of them are there before the first is changed
    for name, part in settings.allotments.items():
        try:
            holdouts.whole(name, principal).allot(settings.name, queries=part.queries, charges=part.charges)
        except EverholdError:
            raise
        except ValueError as fault:
            raise QueryRejected(f"{str(fault).removesuffix('.')}. No token was made.") from None


_ACT = {
    "number": 7, "at": "2026-01-31T12:00:00.000000+00:00", "request": "0f4c...", "name": "reports", "token": "5f2c...",
    "act": "ask", "holdout": "flights", "outcome": "guess", "facts": {"status": 200, "query": "5a0c..."},
}  # fmt: skip


@router.get(
    "/audit",
    summary="Who did what",
    responses={200: said("The acts, newest first.", {"acts": [_ACT], "next": None}), **refusals()},
)
def audit(
    request: Request,
    principal: Steward,
    before: Annotated[int | None, Query(ge=1, le=2**31 - 1, description="Only acts with a smaller number.")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000, description="The most acts.")] = 100,
) -> dict[str, Any]:
    """Audit log: actor, act, time and outcome; newest first. `next` is the value of `before` for the next page."""
    acts = request.app.state.audit.page(principal, before=before, limit=limit)
    return {"acts": acts, "next": acts[-1]["number"] if len(acts) == limit else None}
