"""Tables that stay where they are: engines whose rows can be sealed without being copied.

A table is sealed by handing in its engine in place of rows::

    holdout = everhold.Holdout.create("study.db", "flights", holdout=everhold.engines.Spark(session, "flights_sealed"))

and opened by the same, or by its address in the variable ``EVERHOLD_ENGINE``. A class is imported when it is first
used, and needs the package of its engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from everhold.sealing.engines.connecting import ENGINE_VARIABLE, engine_at

if TYPE_CHECKING:
    from everhold.sealing.engines.clickhouse import ClickHouse
    from everhold.sealing.engines.database import Database
    from everhold.sealing.engines.spark import Spark
    from everhold.sealing.joined import Predictions

__all__ = ["ENGINE_VARIABLE", "ClickHouse", "Database", "Predictions", "Spark", "engine_at"]

_HOMES = {
    "ClickHouse": "engines.clickhouse", "Database": "engines.database", "Predictions": "joined",
    "Spark": "engines.spark",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"everhold.sealing.{_HOMES[name]}"), name)
    return value
