"""Who may come in: ``/me``, and the tokens that stewards make and take back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from everhold.arguments import brief
from everhold.errors import EverholdError, QueryRejected
from everhold.service.api.contract import json_of, refusals, said
from everhold.service.audit import noted
from everhold.service.open_holdouts import Holdouts, OpenHoldouts
from everhold.service.people import LONGEST, People, said_of
from everhold.service.uploads import document_of
from everhold.service.visitors import Forbidden, Role, Steward, Viewer

if TYPE_CHECKING:
    from everhold.service.visitors import Visitor

__all__ = ["router"]

router = APIRouter(tags=["people"])

_TOKEN = {
    "id": "5f2c9a01b3d4e6f7", "role": "analyst", "name": "reports", "holdouts": ["flights"],
    "made": "2026-01-31T12:00:00.000000+00:00", "made_by": "steward", "expires": None, "revoked": None, "used": None,
    "state": "valid",
}  # fmt: skip
_TOLD_ONCE = "told once, and not kept; revoke this token and make another one if the secret is lost"


class TokenNotFound(EverholdError, LookupError):
    """There is no such token, or it is not for whoever asks."""

    exit_code = 4
    http_status = 404


class Part(BaseModel):
    """An allotment that is made together with a token."""

    model_config = ConfigDict(extra="forbid")

    questions: int = Field(ge=0, description="Most new questions that may be answered.")
    charges: int | None = Field(None, ge=0, description="Most that may be charged; by default what they can cost.")


class Wish(BaseModel):
    """A token that is wished for."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="Who comes with it; an analyst asks, and spends, under this name.", max_length=100)
    role: Role = Role.ANALYST
    holdouts: list[str] | None = Field(None, description="To which it is limited; all of yours by default.")
    days: float | None = Field(None, gt=0, le=LONGEST, description="How long it lasts; for ever by default.")
    allotments: dict[str, Part] = Field(
        default_factory=dict, description="For an analyst, what they may spend, by holdout."
    )


def _of_request(request: Request) -> People:
    people: People = request.app.state.people
    return people


TokenId = Annotated[str, Path(description="The token's public part.", examples=["5f2c9a01b3d4e6f7"])]
Everybody = Annotated[People, Depends(_of_request)]


@router.get(
    "/me", summary="Who you are",
    responses={200: said("What the token says of you.", {
        "name": "reports", "role": "analyst", "holdouts": ["flights"], "token": "5f2c9a01b3d4e6f7", "expires": None,
        "session": False,
    }), **refusals()},
)  # fmt: skip
def me(visitor: Viewer, people: Everybody) -> dict[str, Any]:
    """Who you are to the service, and what you may do."""
    token = people.find(visitor.token)
    return {
        "name": visitor.name,
        "role": visitor.role.value,
        "holdouts": None if visitor.holdouts is None else sorted(visitor.holdouts),
        "token": visitor.token,
        "expires": None if token is None else token.expires,
        "session": visitor.session is not None,
    }


@router.get(
    "/tokens",
    summary="The tokens",
    responses={200: said("All that you may see, newest first.", {"tokens": [_TOKEN]}), **refusals()},
)
def tokens(visitor: Steward, people: Everybody) -> dict[str, Any]:
    """All tokens that you may see, newest first, without their secrets."""
    moment = people.records.clock()
    mine = [token for token in people.all() if _is_within(token.holdouts, visitor)]
    return {"tokens": [{**token.to_dict(), "state": said_of(token, moment)} for token in mine]}


@router.post(
    "/tokens", summary="Make a token", status_code=201, openapi_extra=json_of(Wish),
    responses={201: said("The token, with its secret.", {**_TOKEN, "secret": "eh_...", "note": _TOLD_ONCE}),
               **refusals(404, 415)},
)  # fmt: skip
def make(
    request: Request, visitor: Steward, people: Everybody, holdouts: Holdouts,
    wish: Annotated[Wish, Depends(document_of(Wish))],
) -> dict[str, Any]:  # fmt: skip
    """Make a token. Its secret is told in this response and never again.

    Allotments are acts of the ledger, and made first: if one of them cannot be made, there is no token.
    """
    scope = wish.holdouts
    if scope is None and visitor.holdouts is not None:
        scope = sorted(visitor.holdouts)
    if not _is_within(None if scope is None else tuple(scope), visitor):
        raise Forbidden(
            "the token would reach holdouts that yours does not; expected some of yours; name fewer; nothing was made"
        )
    _allot(wish, scope, visitor, holdouts)
    made = people.make(wish.role, wish.name, holdouts=scope, days=wish.days, by=visitor.name)
    noted(request, "make a token", of=made.token.id, role=made.token.role.value)
    told = {**made.token.to_dict(), "state": "valid"}
    request.state.kept = json.dumps({**told, "secret": None, "note": _TOLD_ONCE}).encode()
    return {**told, "secret": made.secret, "note": _TOLD_ONCE}


@router.delete(
    "/tokens/{identifier}",
    summary="Take a token back",
    responses={200: said("The token as it is now.", {**_TOKEN, "state": "revoked"}), **refusals(404, 409)},
)
def revoke(identifier: TokenId, request: Request, visitor: Steward, people: Everybody) -> dict[str, Any]:
    """Take a token back, and end its sessions, at once."""
    found = people.find(identifier)
    if found is None or not _is_within(found.holdouts, visitor):
        raise TokenNotFound(
            f"there is no token {brief(identifier)} for you; expected one of GET /tokens; nothing was changed"
        )
    revoked = people.revoke(identifier)
    assert revoked is not None
    noted(request, "revoke a token", of=identifier)
    return {**revoked.to_dict(), "state": "revoked"}


def _is_within(scope: tuple[str, ...] | None, visitor: Visitor) -> bool:
    """Whether a token reaches no further than a visitor; a steward of some holdouts is no steward of the others."""
    return visitor.holdouts is None or (scope is not None and visitor.holdouts.issuperset(scope))


def _allot(wish: Wish, scope: list[str] | None, visitor: Visitor, holdouts: OpenHoldouts) -> None:
    if wish.allotments and wish.role is not Role.ANALYST:
        raise QueryRejected(
            f"a {wish.role.value} spends no allotment; expected the role analyst, or no allotments; nothing was made"
        )
    for name in wish.allotments:
        if scope is not None and name not in scope:
            raise QueryRejected(
                f"there is an allotment for {brief(name)}, which the token does not reach; expected its own holdouts; "
                "name it among them, or leave the allotment out; nothing was made"
            )
        holdouts.whole(name, visitor)  # all of them are there before the first is changed
    for name, part in wish.allotments.items():
        try:
            holdouts.whole(name, visitor).allot(wish.name, questions=part.questions, charges=part.charges)
        except EverholdError:
            raise
        except ValueError as fault:
            raise QueryRejected(f"{fault}; no token was made") from None
