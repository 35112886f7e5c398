"""The service in a browser: pages that use the same holdouts as the API, and work without scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Response
from starlette.staticfiles import StaticFiles

from everhold.certificate.page import article_style
from everhold_competitions.leaderboard import board_style
from everhold_server.web import arrivals, asking, competitions, gates, holdouts, planner, stewards
from everhold_server.web.competitions import Publications
from everhold_server.web.pages import STATIC, FaultPages

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["add_pages"]

_ROUTERS = (
    holdouts.router, asking.router, arrivals.router, competitions.router, gates.router, planner.router, stewards.router,
)  # fmt: skip

_KEPT = "public, max-age=3600"

assets = APIRouter()


@assets.get("/assets/results.css")
def style_of_results() -> Response:
    """Return the style sheet of certificates and leaderboards."""
    return Response(article_style() + board_style(), media_type="text/css", headers={"cache-control": _KEPT})


class _Files(StaticFiles):
    """Static files of the web pages, with headers that let browsers cache them."""

    def file_response(self, *arguments: Any, **more: Any) -> Response:
        """Return a static file with a header that lets browsers cache it."""
        response = super().file_response(*arguments, **more)
        response.headers["cache-control"] = _KEPT
        return response


def add_pages(app: FastAPI, *, api: str) -> None:
    """Add the pages to an app beside its API."""
    app.state.published = Publications(app.state.token_store.records)
    for router in (assets, *_ROUTERS):
        app.include_router(router, include_in_schema=False)
    app.mount("/static", _Files(directory=STATIC), name="static")
    app.add_middleware(FaultPages, api=api)
