"""Health of the service: whether it lives, whether it can answer, and metrics for Prometheus.

Labels of the metrics are the method, the route pattern, the status, the kind of outcome, and, for remaining budgets,
the holdout. No label names an analyst or a query. The metrics still show how much is asked and when, so `/metrics`
needs a steward's token. The operator may allow this machine to read them without one.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
import sqlalchemy as sa
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from everhold.errors import EverholdError
from everhold.ledger.schema import CURRENT_REVISION, VERSION_TABLE
from everhold_server.mcp.server import LOOPBACK
from everhold_server.principals import Forbidden, Role, current_principal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everhold.holdout import Holdout
    from everhold.ledger.database import LedgerDatabase

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """Prometheus metrics of one application, in a separate registry."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry(auto_describe=True)
        self.requests = Counter(
            "everhold_requests", "Requests that were answered.", ("method", "route", "status"), registry=registry
        )
        self.seconds = Histogram(
            "everhold_request_seconds", "From a request to its answer.", ("method", "route"), buckets=_SECONDS,
            registry=registry,
        )  # fmt: skip
        self.asks = Counter(
            "everhold_asks", "Queries that were asked, by how they ended.", ("outcome",), registry=registry
        )
        self.in_flight = Gauge("everhold_requests_in_flight", "Requests that are being answered.", registry=registry)
        self.waiting = Gauge(
            "everhold_requests_waiting", "Requests that wait for others of their token.", registry=registry
        )
        self._threads = Gauge("everhold_threads_busy", "Threads that work on requests.", registry=registry)
        self._writers = Gauge(
            "everhold_writers_waiting", "Threads that wait for their turn to write to a ledger.", registry=registry
        )
        self._connections = Gauge(
            "everhold_connections_in_use", "Connections to the database that are in use.", registry=registry
        )
        self._left = Gauge(
            "everhold_budget_left", "What is left of the budget of an open holdout.", ("holdout", "of"),
            registry=registry,
        )  # fmt: skip
        ProcessCollector(registry=registry)

    def text(self, holdouts: Mapping[str, Holdout], databases: Sequence[LedgerDatabase], *, threads: int) -> bytes:
        """Return all metrics of the service in the text format of Prometheus.

        Args:
            holdouts: The open holdouts by name.
            databases: Databases of the open holdouts, and the service's own.
            threads: Number of threads that work on requests.
        """
        self._threads.set(threads)
        self._writers.set(sum(map(len, {line for database in databases for line in database.lines()})))
        self._connections.set(sum(database.connections for database in databases))
        for name, holdout in holdouts.items():
            with suppress(EverholdError):
                for part, left in holdout.remaining.items():
                    self._left.labels(name, part).set(left)
        return generate_latest(self._registry)


HEALTH = APIRouter(include_in_schema=False)


@HEALTH.get("/healthz")
async def healthz() -> dict[str, str]:
    """Say that the process lives, without a look at the database and without a worker thread."""
    return {"status": "alive"}


@HEALTH.get("/readyz")
def readyz(request: Request) -> Response:
    """Say whether the database can be read and has the tables of this version."""
    ready = False
    with suppress(EverholdError), request.app.state.token_store.records.reading() as connection:
        ready = connection.scalar(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")) == CURRENT_REVISION
    return JSONResponse({"status": "ready" if ready else "not ready"}, 200 if ready else 503)


@HEALTH.get("/metrics")
def metrics(request: Request) -> Response:
    """Return metrics for Prometheus, to a steward of all holdouts, or to this machine if the operator allows it."""
    here = request.client is not None and request.client.host in LOOPBACK
    if not (here and request.app.state.settings.open_metrics):
        principal = current_principal(request)
        if not principal.at_least(Role.STEWARD) or principal.holdouts is not None:
            raise Forbidden(
                "The metrics are about all holdouts, and this token is not. Use the token of a steward of all holdouts."
            )
    state = request.app.state
    databases = [state.token_store.records.database, *state.holdouts.databases()]
    threads = anyio.from_thread.run_sync(anyio.to_thread.current_default_thread_limiter).borrowed_tokens
    text = state.metrics.text(state.holdouts.open(), databases, threads=int(threads))
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")
