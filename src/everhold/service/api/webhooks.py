"""Webhooks: where a steward has the news of the ledgers sent, and whether it arrived."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from everhold.service.api.contract import json_of, refusals, said
from everhold.service.audit import noted
from everhold.service.open_holdouts import Holdouts
from everhold.service.uploads import document_of
from everhold.service.visitors import Steward, Visitor
from everhold.service.webhooks import Kind, Sender, Webhook, WebhookNotFound, WebhookRejected, WebhookStore

__all__ = ["router"]

router = APIRouter(prefix="/webhooks", tags=["webhooks"])

_HOOK = {
    "id": "wh_5f2c...", "url": "https://example.org/everhold", "events": ["answer.released"], "holdout": "flights",
}  # fmt: skip
_DELIVERY = {"id": "msg_0f4c...", "webhook": "wh_5f2c...", "event": "answer.released", "status": "delivered"}
_TOLD_ONCE = "told once; delete this webhook and make another one if the secret is lost"


class NewWebhook(BaseModel):
    """A webhook that is to be made."""

    model_config = ConfigDict(extra="forbid")

    url: str = Field(max_length=2_000, description="Address of the receiver, with https")
    events: list[Kind] = Field(list(Kind), min_length=1, max_length=len(Kind), description="What it is told of")
    holdout: str | None = Field(None, description="Name of a holdout; null for all, also later ones")


def _webhooks(request: Request) -> WebhookStore:
    store: WebhookStore = request.app.state.webhooks
    return store


def _sender(request: Request) -> Sender:
    sender: Sender = request.app.state.sender
    return sender


WebhookId = Annotated[str, Path(description="The webhook's identifier.", examples=["wh_5f2c..."])]
Webhooks = Annotated[WebhookStore, Depends(_webhooks)]


@router.get(
    "",
    summary="The webhooks",
    responses={200: said("All that you may see.", {"webhooks": [_HOOK]}), **refusals()},
)
def list_webhooks(visitor: Steward, webhooks: Webhooks) -> dict[str, Any]:
    """All webhooks that you may see, without their secrets."""
    return {"webhooks": [each.to_dict() for each in webhooks.every() if _is_for(each, visitor)]}


@router.post(
    "", summary="Make a webhook", status_code=201, openapi_extra=json_of(NewWebhook),
    responses={201: said("The webhook, with its secret.", {**_HOOK, "secret": "whsec_...", "note": _TOLD_ONCE}),
               **refusals(404, 415)},
)  # fmt: skip
def make_webhook(
    request: Request, visitor: Steward, webhooks: Webhooks, holdouts: Holdouts,
    sender: Annotated[Sender, Depends(_sender)], wish: Annotated[NewWebhook, Depends(document_of(NewWebhook))],
) -> dict[str, Any]:  # fmt: skip
    """Have what happens from now on sent to a receiver; the secret that signs it is told here, and never again."""
    if wish.holdout is not None:
        holdouts.whole(wish.holdout, visitor)
    elif visitor.holdouts is not None:
        raise WebhookRejected(
            "the token is limited to some holdouts, and the webhook would be for all; expected one of them as "
            "'holdout'; nothing was made"
        )
    sender.check(wish.url)
    made = webhooks.create(wish.url, events=wish.events, holdout=wish.holdout, by=visitor.name)
    noted(request, "make a webhook", of=made.id, holdout=wish.holdout)
    request.state.kept = json.dumps({**made.to_dict(), "secret": None, "note": _TOLD_ONCE}).encode()
    return {**made.to_dict(), "secret": made.secret, "note": _TOLD_ONCE}


@router.delete("/{webhook}", summary="Delete a webhook", status_code=204, responses=refusals(404, 409))
def delete_webhook(webhook: WebhookId, request: Request, visitor: Steward, webhooks: Webhooks) -> Response:
    """Delete a webhook; what was not sent yet never is."""
    webhooks.delete(_found(webhooks, webhook, visitor).id)
    noted(request, "delete a webhook", of=webhook)
    return Response(status_code=204)


@router.post(
    "/{webhook}/test", summary="Try a webhook", status_code=202,
    responses={202: said("The delivery.", {**_DELIVERY, "event": "test", "status": "waiting"}), **refusals(404, 409)},
)  # fmt: skip
def test_webhook(visitor: Steward, webhooks: Webhooks, webhook: WebhookId) -> dict[str, Any]:
    """Send an event that tells nothing; the list of deliveries says whether it arrived."""
    return webhooks.test(_found(webhooks, webhook, visitor)).to_dict()


@router.get(
    "/{webhook}/deliveries",
    summary="What was sent",
    responses={200: said("The latest, the newest first.", {"deliveries": [_DELIVERY]}), **refusals(404)},
)
def list_deliveries(
    visitor: Steward,
    webhooks: Webhooks,
    webhook: WebhookId,
    limit: Annotated[int, Query(ge=1, le=1_000, description="The most deliveries.")] = 100,
) -> dict[str, Any]:
    """The latest deliveries, the newest first: what was sent, how often it was tried, and what came of it."""
    found = _found(webhooks, webhook, visitor)
    return {"deliveries": [each.to_dict() for each in webhooks.deliveries(found.id, limit=limit)]}


def _found(webhooks: WebhookStore, webhook: str, visitor: Visitor) -> Webhook:
    found = webhooks.find(webhook)
    if not _is_for(found, visitor):
        raise WebhookNotFound.of()
    return found


def _is_for(webhook: Webhook, visitor: Visitor) -> bool:
    """Whether a webhook is there for a steward, whose token may be limited to some holdouts."""
    return visitor.holdouts is None or (webhook.holdout is not None and visitor.may_see(webhook.holdout))
