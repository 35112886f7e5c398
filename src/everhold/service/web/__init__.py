"""The service in a browser: pages that call the same holdouts as the API, without a script that is needed for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Response
from starlette.staticfiles import StaticFiles

from everhold.certificate.page import ARTICLE_STYLE
from everhold.charts import page_style
from everhold.service.web import asking, certificates, competitions, gates, holdouts, planner, stewards
from everhold.service.web.faults import FaultPages
from everhold.service.web.pictures import Pictures
from everhold.service.web.published import Publications
from everhold.service.web.rendering import STATIC

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["add_pages"]

_ROUTERS = (
    holdouts.router, asking.router, competitions.router, gates.router, certificates.router, planner.router,
    stewards.router,
)  # fmt: skip
_HOUSE_STYLE = f"{ARTICLE_STYLE}\n{page_style('figure.chart')}"

_KEPT = "public, max-age=3600"

assets = APIRouter()


@assets.get("/assets/house.css")
def house_style() -> Response:
    """How certificates and pictures look, in the words of those who make them."""
    return Response(_HOUSE_STYLE, media_type="text/css", headers={"cache-control": _KEPT})


class _Files(StaticFiles):
    """Our own files, which browsers may keep for a while."""

    def file_response(self, *arguments: Any, **more: Any) -> Response:
        """A file, for whoever has not kept it."""
        response = super().file_response(*arguments, **more)
        response.headers["cache-control"] = _KEPT
        return response


def add_pages(app: FastAPI, *, api: str) -> None:
    """Let an app have pages beside its API.

    Args:
        app: With its holdouts, its people, and whoever else stands at the door.
        api: Path of the API.
    """
    app.state.pictures, app.state.published = Pictures(), Publications(app.state.people.records)
    for router in (assets, *_ROUTERS):
        app.include_router(router, include_in_schema=False)
    app.mount("/static", _Files(directory=STATIC), name="static")
    app.add_middleware(FaultPages, api=api)
