"""The HTTP API, one file for each resource; `ROUTERS` is what the service mounts under ``/api/v1``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold.service.api import audit, tokens, webhooks

if TYPE_CHECKING:
    from fastapi import APIRouter

__all__ = ["ROUTERS"]

ROUTERS: tuple[APIRouter, ...] = (tokens.router, audit.router, webhooks.router)
