"""The HTTP API: `operations` makes most routes, and `ROUTERS` are the others, under ``/api/v1``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold_server.api import (
    asking,
    audit,
    certificates,
    competitions,
    document,
    events,
    holdouts,
    plans,
    tokens,
)

if TYPE_CHECKING:
    from fastapi import APIRouter

__all__ = ["ROUTERS"]

ROUTERS: tuple[APIRouter, ...] = (
    holdouts.router, asking.router, competitions.router,
    certificates.router,
    plans.router, tokens.router, audit.router, events.router,
    document.router,
)  # fmt: skip
