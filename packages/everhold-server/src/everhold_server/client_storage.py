"""Commands that get the address of a service instead of a storage create and list holdouts by this module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold_server.client import connect
from everhold_server.client import create as _create
from everhold_server.client import holdouts as _holdouts
from everhold_server.wire.connection import Connection

if TYPE_CHECKING:
    from pathlib import Path

    from everhold.holdout import Holdout

__all__ = ["connect", "create", "holdouts"]


def create(address: str, name: str, *, holdout: Path, training: Path | None, **settings: Any) -> Holdout:
    """Seal the rows of files in the service at an address, and return the new holdout."""
    return _create(Connection(address), name, holdout=holdout, training=training, **settings)


def holdouts(address: str) -> list[dict[str, Any]]:
    """Return the public facts of each holdout at an address that the token may see."""
    with Connection(address) as service:
        return _holdouts(service)
