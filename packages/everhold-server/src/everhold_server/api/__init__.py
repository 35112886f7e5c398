"""The HTTP API, under ``/api/v1``.

Read `contract` (what all routes share), `operations` (which makes most routes) and `arguments` (how a request is read).
`ROUTERS` are the routes that are written by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold_server.api import document, holdouts, people, plans, reports

if TYPE_CHECKING:
    from fastapi import APIRouter

__all__ = ["ROUTERS"]

ROUTERS: tuple[APIRouter, ...] = (
    holdouts.router, reports.router, reports.certified, plans.router, people.router, reports.followed, document.router,
)  # fmt: skip
