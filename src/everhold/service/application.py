"""The service as an ASGI application: who recognises a visitor, which routes there are, what opens and closes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from fastapi import FastAPI

from everhold.ledger import LedgerStore
from everhold.service.api import ROUTERS
from everhold.service.open_holdouts import OpenHoldouts
from everhold.service.problems import add_problems
from everhold.service.webhooks import Sender, WebhookStore, WebhookWorker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from everhold.service.settings import Settings

__all__ = ["API", "make_app"]

API = "/api/v1"


def make_app(settings: Settings) -> FastAPI:
    """The service of a storage, as an ASGI application.

    Args:
        settings: What its operator decided.
    """
    from everhold import __version__

    holdouts = OpenHoldouts(settings.storage)
    webhooks = WebhookStore(LedgerStore.open(settings.storage).database)
    sender = Sender(internal=settings.internal_webhooks)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with contextlib.closing(holdouts), WebhookWorker(webhooks, holdouts, sender=sender):
            yield

    app = FastAPI(
        title="everhold", version=__version__, lifespan=lifespan, openapi_url=f"{API}/openapi.json", docs_url=None,
        redoc_url=None,
    )  # fmt: skip
    app.state.settings, app.state.holdouts = settings, holdouts
    app.state.webhooks, app.state.sender = webhooks, sender
    add_problems(app)
    for router in ROUTERS:
        app.include_router(router, prefix=API)
    return app
