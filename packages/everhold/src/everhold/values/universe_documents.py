"""Cells of a synthetic table as plain data: the columns of a universe, each with its values or with edges of bins."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from everhold.errors import QueryRejected

if TYPE_CHECKING:
    from everhold.values.universe import Column, Universe

__all__ = ["check_marginals", "universe_from"]

_FORM = '{"columns": [{"name": "carrier", "values": ["AA", "UA"]}, {"name": "delay", "edges": [-60, 0, 60]}]}'
_MOST_COLUMNS = 100
_MOST_VALUES = 2**26  # of queries over all cells, one byte each


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
    from everhold.values.universe import Universe

    columns = written.get("columns") if isinstance(written, dict) and len(written) == 1 else None
    if not isinstance(columns, list) or len(columns) > _MOST_COLUMNS:
        raise _rejected(called, f"expected JSON such as {_FORM}")
    try:
        return Universe(tuple(_column(column) for column in columns))
    except (ValueError, TypeError, OverflowError) as reason:
        raise _rejected(called, str(reason)) from None


def check_marginals(universe: Universe, width: int) -> None:
    """Refuse what would fill far more memory than the text that asks for it, before it does.

    Args:
        universe: The cells.
        width: Number of columns at a time.

    Raises:
        QueryRejected: If all marginal counts have too many values over all cells. Nothing is charged.
    """
    ways = [1, *[0] * min(max(width, 0), _MOST_COLUMNS)]  # products of so many different numbers, added up
    for size in universe.shape:
        ways = [1, *(several + one * size for one, several in pairwise(ways))]
    if (values := universe.cells * ways[-1]) > _MOST_VALUES:
        raise QueryRejected(
            f"these marginals have {values:,} values over all cells; expected at most {_MOST_VALUES:,} from elsewhere; "
            "use fewer columns at a time, fewer values or wider bins; nothing was charged"
        )


def _rejected(called: str, reason: str) -> QueryRejected:
    return QueryRejected(f"{called} holds no universe; {reason}; nothing was charged")


def _column(column: Any) -> Column:
    from everhold.values.universe import BinnedColumn, ListedColumn

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
