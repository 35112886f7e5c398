"""How the cells of a synthetic table travel: the columns of a universe, each with its values or with edges of bins."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from everhold.errors import QueryRejected

if TYPE_CHECKING:
    from everhold.synthetic import Universe
    from everhold.synthetic.universe import Column

__all__ = ["universe_from"]

_FORM = '{"columns": [{"name": "carrier", "values": ["AA", "UA"]}, {"name": "delay", "edges": [-60, 0, 60]}]}'
_MOST_COLUMNS = 100


def universe_from(written: Any, *, called: str) -> Universe:
    """The cells of a synthetic table.

    Each column has a ``name`` and either ``values``, of which ``rest`` may name the one that also takes what is not
    listed, or ``edges`` of bins.

    Args:
        written: Plain data, as JSON has it.
        called: How messages call it.

    Raises:
        QueryRejected: If it is no universe. Nothing is charged.
    """
    from everhold.synthetic import Universe

    columns = written.get("columns") if isinstance(written, dict) and len(written) == 1 else None
    if not isinstance(columns, list) or len(columns) > _MOST_COLUMNS:
        raise _rejected(called, f"expected JSON such as {_FORM}")
    try:
        return Universe(tuple(_column(column) for column in columns))
    except (ValueError, TypeError, OverflowError) as reason:
        raise _rejected(called, str(reason)) from None


def _rejected(called: str, reason: str) -> QueryRejected:
    return QueryRejected(f"{called} holds no universe; {reason}; nothing was charged")


def _column(column: Any) -> Column:
    from everhold.synthetic import BinnedColumn, ListedColumn

    if not isinstance(column, dict) or not isinstance(column.get("name"), str):
        raise ValueError('a column has no name; expected {"name": ..., "values": [...]} or {"name": ..., "edges": ...}')
    name, others = column["name"], set(column) - {"name"}
    if others == {"edges"}:
        return BinnedColumn(name, tuple(_number(edge, name) for edge in _list(column["edges"], name)))
    if "values" in others and others <= {"values", "rest"}:
        return ListedColumn(name, tuple(_list(column["values"], name)), column.get("rest"))
    raise ValueError(f"column {name!r} has {sorted(others)}; expected 'values' and perhaps 'rest', or 'edges'")


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"column {name!r} has no list; expected values or edges in brackets")
    return value


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"column {name!r} has the edge {value!r}; expected finite numbers")
    return value if abs(value) < 2**53 else float(value)
