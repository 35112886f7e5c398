"""Files that an analyst hands in: the cells of a synthetic table, Python functions.

They are the analyst's own, so what is wrong with them may be told.
"""

from __future__ import annotations

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everhold.errors import QueryRejected

if TYPE_CHECKING:
    from collections.abc import Callable

    from everhold.synthetic import Universe
    from everhold.synthetic.universe import Column

__all__ = ["read_function", "read_universe"]

_MOST_BYTES = 10_000_000
_FORM = '{"columns": [{"name": "carrier", "values": ["AA", "UA"]}, {"name": "delay", "edges": [-60, 0, 60]}]}'


def read_universe(path: Path) -> Universe:
    """Read the cells of a synthetic table from a JSON file.

    Each column has a ``name`` and either ``values``, of which ``rest`` may name the one that also takes what is not
    listed, or ``edges`` of bins.

    Raises:
        QueryRejected: If the file does not hold a universe.
        OSError: If it cannot be read.
    """
    from everhold.synthetic import Universe

    columns = _parsed(path)
    if not isinstance(columns, dict) or set(columns) != {"columns"} or not isinstance(columns["columns"], list):
        raise _rejected(f"{path.name} holds no universe", f"expected JSON such as {_FORM}")
    try:
        return Universe(tuple(_column(column) for column in columns["columns"]))
    except (ValueError, TypeError, OverflowError) as reason:
        raise _rejected(f"{path.name} holds no universe", str(reason)) from None


def _parsed(path: Path) -> Any:
    if path.stat().st_size > _MOST_BYTES:
        raise _rejected(f"{path.name} is too large for a universe", f"expected at most {_MOST_BYTES:,} bytes")
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None


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
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"column {name!r} has the edge {value!r}; expected numbers")
    return value if abs(value) < 2**53 else float(value)


def read_function(place: str) -> Callable[..., Any]:
    """The function of this name in a Python file, which is run.

    Args:
        place: Such as ``pulls.py:pull``.

    Raises:
        QueryRejected: If there is no such file or function, or the file fails.
    """
    path, _, name = place.rpartition(":")
    if not path.endswith(".py") or not Path(path).is_file():
        raise _rejected(
            f"{place!r} names no function", "expected a Python file and a name in it, such as pulls.py:pull"
        )
    spec = spec_from_file_location(f"everhold_code_{Path(path).stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there for the module of their own
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as fault:
        raise _rejected(f"{Path(path).name} fails with {type(fault).__name__}: {fault}", "correct the file") from fault
    function = getattr(module, name, None)
    if not callable(function):
        raise _rejected(f"{Path(path).name} has no function {name!r}", "expected the name of one of its functions")
    called: Callable[..., Any] = function
    return called


def _rejected(problem: str, advice: str) -> QueryRejected:
    return QueryRejected(f"{problem}; {advice}; nothing was charged")
