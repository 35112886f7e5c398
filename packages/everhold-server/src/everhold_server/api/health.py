"""True if the process lives, whether it can answer, and its numbers; at the root, not under the API."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from everhold.errors import EverholdError
from everhold.ledger.database import CURRENT_REVISION, VERSION_TABLE
from everhold_server.mcp.server import LOOPBACK
from everhold_server.principals import Forbidden, Role, current_principal

if TYPE_CHECKING:
    from everhold_server.tables import Records

HEALTH = APIRouter(include_in_schema=False)


@HEALTH.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process lives; asks nothing, and waits for no thread."""
    return {"status": "alive"}


@HEALTH.get("/readyz")
def readyz(request: Request) -> Response:
    """The database can be read and has the tables of this version."""
    ready = _is_ready(request.app.state.token_store.records)
    return JSONResponse({"status": "ready" if ready else "not ready"}, 200 if ready else 503)


@HEALTH.get("/metrics")
def metrics(request: Request) -> Response:
    """Numbers for Prometheus, for a steward of all holdouts; or for this machine, if the operator says so."""
    here = request.client is not None and request.client.host in LOOPBACK
    if not (here and request.app.state.settings.open_metrics):
        principal = current_principal(request)
        if not principal.at_least(Role.STEWARD) or principal.holdouts is not None:
            raise Forbidden("the numbers are about all holdouts; expected the token of a steward who may see them all")
    return Response(request.app.state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _is_ready(records: Records) -> bool:
    try:
        with records.reading() as connection:
            return bool(connection.scalar(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")) == CURRENT_REVISION)
    except EverholdError:
        return False
