"""The service as an ASGI application: who recognises a visitor, which routes there are, what opens and closes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from fastapi import FastAPI

from everhold.ledger import LedgerStore
from everhold.sealing.storage import storage_url
from everhold.service.api import ROUTERS
from everhold.service.api.health import HEALTH
from everhold.service.audit import Audit, AuditLog
from everhold.service.headers import SecurityHeaders
from everhold.service.idempotency import Idempotency, Keys
from everhold.service.limits import AtOnce, BodyLimit, Buckets, HostCheck, RateLimit
from everhold.service.login import DOORS
from everhold.service.logs import Watch
from everhold.service.mcp import Agents
from everhold.service.metrics import Metrics
from everhold.service.open_holdouts import OpenHoldouts
from everhold.service.people import People
from everhold.service.planners import Planners
from everhold.service.problems import Problems, add_problems
from everhold.service.recognition import Recognition
from everhold.service.sessions import Sessions
from everhold.service.tables import Records
from everhold.service.web import add_pages
from everhold.service.webhooks import Sender, WebhookStore, WebhookWorker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fastapi import APIRouter

    from everhold.service.settings import Settings

__all__ = ["API", "ROOT", "make_app"]

API = "/api/v1"

ROOT: tuple[APIRouter, ...] = (HEALTH, DOORS)
"""What is mounted without a prefix: the doors, the pages, and whatever watches the process."""


def make_app(settings: Settings) -> FastAPI:
    """The service of a storage, as an ASGI application.

    Args:
        settings: What its operator decided.
    """
    from everhold import __version__

    holdouts, store = OpenHoldouts(settings.storage), LedgerStore.open(storage_url(settings.storage))
    agents = Agents(holdouts, settings)
    webhooks, sender = WebhookStore(store.database), Sender(internal=settings.internal_webhooks)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        worker = WebhookWorker(webhooks, holdouts, sender=sender)
        app.state.planners.start()
        with contextlib.closing(store), contextlib.closing(holdouts), contextlib.closing(app.state.pictures), worker:
            async with agents.running():
                yield
                app.state.planners.stop()

    app = FastAPI(
        title="everhold", version=__version__, lifespan=lifespan, openapi_url=f"{API}/openapi.json", docs_url=None,
        redoc_url=None, redirect_slashes=False,  # its redirects go to http, also behind a proxy with TLS
    )  # fmt: skip
    app.state.settings, app.state.holdouts = settings, holdouts
    app.state.webhooks, app.state.sender = webhooks, sender
    app.state.planners = Planners()
    _add_doorkeepers(app, settings, People(Records(store.database)))
    add_problems(app)
    for router in ROUTERS:
        app.include_router(router, prefix=API)
    for router in ROOT:
        app.include_router(router)
    app.router.routes.append(agents.route)
    add_pages(app, api=API)
    return app


def _add_doorkeepers(app: FastAPI, settings: Settings, people: People) -> None:
    """What every request passes on its way in, the last one first."""
    state, sessions = app.state, Sessions(people)
    state.people, state.sessions, state.audit, state.metrics = people, sessions, AuditLog(people.records), Metrics()
    state.failures = Buckets(settings.failures_a_minute)
    state.sealings = Buckets(settings.sealings_an_hour, period=3_600.0)
    app.add_middleware(Idempotency, keys=Keys(people.records))
    app.add_middleware(AtOnce)
    app.add_middleware(RateLimit, settings=settings)
    app.add_middleware(Recognition, sessions=sessions, failures=state.failures, settings=settings)
    app.add_middleware(Audit, log=state.audit)
    app.add_middleware(BodyLimit, settings=settings)
    app.add_middleware(HostCheck, settings=settings)
    app.add_middleware(Problems)
    app.add_middleware(SecurityHeaders, settings=settings)
    app.add_middleware(Watch, metrics=state.metrics, settings=settings)
