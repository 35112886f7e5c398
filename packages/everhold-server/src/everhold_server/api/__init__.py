"""The HTTP API, one file for each resource; `ROUTERS` is what the service mounts under ``/api/v1``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold_server.api import (
    allotments,
    arrivals,
    asking,
    audit,
    case_gates,
    certificates,
    competitions,
    document,
    events,
    families,
    gates,
    holdouts,
    plans,
    tokens,
    unsealing,
)

if TYPE_CHECKING:
    from fastapi import APIRouter

__all__ = ["ROUTERS"]

ROUTERS: tuple[APIRouter, ...] = (
    holdouts.router, asking.router, arrivals.router, competitions.router, gates.router, case_gates.router,
    certificates.router,
    allotments.router, families.router, unsealing.router, plans.router, tokens.router, audit.router, events.router,
    document.router,
)  # fmt: skip
