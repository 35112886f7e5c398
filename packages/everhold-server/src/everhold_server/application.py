"""The service as an ASGI application: its middleware, its routes, and what it opens and closes."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from fastapi import Depends, FastAPI
from starlette.middleware import Middleware

from everhold.ledger import LedgerStore
from everhold.sealing.storage import storage_url
from everhold_server.api import ROUTERS
from everhold_server.api.contract import check_parameters
from everhold_server.api.operations import add_operations
from everhold_server.audit import AuditLog, AuditMiddleware
from everhold_server.authentication import AuthenticationMiddleware
from everhold_server.health import HEALTH, Metrics
from everhold_server.jobs import Jobs
from everhold_server.login import LOGIN
from everhold_server.logs import RequestLogMiddleware
from everhold_server.mcp_endpoint import Agents
from everhold_server.middleware import (
    BodyLimitMiddleware,
    ConcurrencyLimitMiddleware,
    HostMiddleware,
    RateLimiter,
    RateLimitMiddleware,
)
from everhold_server.open_holdouts import OpenHoldouts
from everhold_server.planners import Planners
from everhold_server.problems import add_problems
from everhold_server.sessions import Sessions
from everhold_server.tables import Records
from everhold_server.token_store import TokenStore
from everhold_server.web import add_pages
from everhold_server.wire.reading import query_schemas

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from fastapi import APIRouter

    from everhold_server.settings import Settings

API = "/api/v1"

ROOT: tuple[APIRouter, ...] = (HEALTH, LOGIN)
"""Routers that are mounted without a prefix."""

_HOUR = 3_600.0
_THREADS = 16


def make_app(settings: Settings) -> FastAPI:
    """Build the ASGI application that serves a storage.

    Args:
        settings: The operator's settings.
    """
    from everhold import __version__

    holdouts, store = OpenHoldouts(settings.storage), LedgerStore.open(storage_url(settings.storage))
    token_store = TokenStore(Records(store.database))
    sessions, audit, metrics = Sessions(token_store), AuditLog(token_store.records), Metrics()
    agents, planners = Agents(holdouts, settings, audit), Planners()
    failures, jobs = RateLimiter(settings.failures_a_minute), Jobs(token_store.records, settings.storage)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        # Endpoints have the threads of anyio: those that wait keep no authentication and no act of the audit log out.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS))
        planners.start()
        jobs.start()
        with contextlib.closing(store), contextlib.closing(holdouts):
            async with agents.running():
                yield
                planners.stop()
                jobs.stop()

    app = FastAPI(
        title="everhold",
        version=__version__,
        lifespan=lifespan,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # its redirects go to http, also behind a proxy with TLS
        middleware=[  # the outermost first
            Middleware(RequestLogMiddleware, metrics=metrics, settings=settings),
            Middleware(HostMiddleware, allowed_hosts=sorted(settings.host_names), www_redirect=False),
            Middleware(BodyLimitMiddleware, settings=settings),
            Middleware(AuditMiddleware, log=audit),
            Middleware(AuthenticationMiddleware, sessions=sessions, failures=failures, settings=settings),
            Middleware(RateLimitMiddleware, settings=settings),
            Middleware(ConcurrencyLimitMiddleware, metrics=metrics),
        ],
    )
    state = app.state
    state.settings, state.holdouts, state.planners, state.jobs = settings, holdouts, planners, jobs
    state.token_store, state.sessions, state.audit, state.metrics = token_store, sessions, audit, metrics
    state.failures, state.sealings = failures, RateLimiter(settings.sealings_an_hour, period=_HOUR)
    add_problems(app)
    add_operations(app.router, API)
    for router in ROUTERS:
        app.include_router(router, prefix=API, dependencies=[Depends(check_parameters)])
    for router in ROOT:
        app.include_router(router)
    app.router.routes.append(agents.route)
    add_pages(app, api=API)
    app.openapi = partial(_documented, app.openapi)  # type: ignore[method-assign]
    return app


def _documented(document_of: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the OpenAPI document, with the schemas of all kinds of queries added."""
    document = document_of()
    document.setdefault("components", {}).setdefault("schemas", {}).update(query_schemas())
    return document
