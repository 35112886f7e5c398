"""Checks of the cells that a table is asked for, by public facts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from everhold.errors import QueryRejected
from everhold.values.expressions import ColumnKind
from everhold.values.universe import BinnedColumn, ListedColumn, Universe

if TYPE_CHECKING:
    from everhold.values.base import Schema
    from everhold.values.universe import Column


def check_universe(universe: object) -> None:
    """Check that it is a universe.

    Raises:
        QueryRejected: If not. Nothing is charged.
    """
    if not isinstance(universe, Universe):
        raise QueryRejected(f"the universe is a {type(universe).__name__}; expected Universe((ListedColumn(...), ...))")


def check_universe_columns(universe: Universe, schema: Schema) -> None:
    """Refuse a universe of other columns than the rows have, or of values that they cannot have; public facts only."""
    check_universe(universe)
    for column in universe.columns:
        kind = schema.asked.get(column.name)
        if kind is None:
            raise QueryRejected(f"the rows have no column {column.name!r}; expected one of {', '.join(schema.asked)}")
        if not _fits(column, kind):
            raise QueryRejected(
                f"the column {column.name!r} holds {kind.value}s, and the universe describes it otherwise; expected "
                "listed values of its kind, or edges for numbers"
            )


def _fits(column: Column, kind: ColumnKind) -> bool:
    """True if a row can have any of these values; only such columns are read as cannot tell what they see."""
    if type(column) is BinnedColumn:
        return kind in (ColumnKind.NUMBER, ColumnKind.BOOLEAN)
    if type(column) is not ListedColumn:
        return False
    text = [isinstance(value, str) for value in column.values]
    return kind in (ColumnKind.TIME, ColumnKind.OTHER) or (all(text) if kind is ColumnKind.STRING else not any(text))


def plain_universe(universe: Universe) -> Universe:
    """The same universe, made of plain values: no code of the analyst's runs while the sealed rows are looked at."""
    return Universe.from_dict(json.loads(json.dumps(universe.to_dict(), default=lambda number: number.item())))
