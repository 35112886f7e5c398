"""Engines: databases and other systems whose tables can be sealed without being copied.

To seal a table, pass its engine in place of rows::

    holdout = everhold.Holdout.create("study.db", "flights", holdout=everhold_engines.Spark(session, "flights_sealed"))

To open the holdout again, pass the same engine, or its address in the variable ``EVERHOLD_ENGINE``. A class is imported
when it is first used, and needs the package of its engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from everhold.sealing.rows.row_store import ENGINE_VARIABLE
from everhold.sealing.rows.row_store import table_at as engine_at

if TYPE_CHECKING:
    from everhold_engines.clickhouse import ClickHouse
    from everhold_engines.database import Database
    from everhold_engines.located_predictions import Predictions
    from everhold_engines.spark import Spark

__all__ = ["ENGINE_VARIABLE", "ClickHouse", "Database", "Predictions", "Spark", "engine_at"]

_HOMES = {
    "ClickHouse": "clickhouse",
    "Database": "database",
    "Predictions": "located_predictions",
    "Spark": "spark",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
