"""The service as an ASGI application: who recognises a visitor, which routes there are, what opens and closes."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI

from everhold.service.api import ROUTERS
from everhold.service.open_holdouts import OpenHoldouts
from everhold.service.problems import add_problems
from everhold.service.web import add_pages

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

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        app.state.pictures.close()
        holdouts.close()

    app = FastAPI(
        title="everhold", version=__version__, lifespan=lifespan, openapi_url=f"{API}/openapi.json", docs_url=None,
        redoc_url=None,
    )  # fmt: skip
    app.state.settings, app.state.holdouts = settings, holdouts
    add_problems(app)
    for router in ROUTERS:
        app.include_router(router, prefix=API)
    add_pages(app, api=API)
    return app
