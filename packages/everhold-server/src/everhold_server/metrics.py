"""Numbers for Prometheus: requests, how long they took, how asks ended, and how many are under way.

Labels are method, route as it is written in the code, status and kind of outcome: no holdout, no analyst, no query.
How much is asked, and when, is still no one else's business, so `/metrics` needs a steward's token; or none from this
machine itself, if the operator says so.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """The numbers of one process; those of an app are its own, so that there may be several."""

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

    def text(self) -> bytes:
        """All of them, in the text format of Prometheus."""
        return generate_latest(self._registry)
