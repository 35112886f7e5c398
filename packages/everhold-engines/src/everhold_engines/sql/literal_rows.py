"""Made-up rows as a sub-select, so that an engine can be tried without writing a table there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everhold_engines.sql.dialects import Dialect

_EPOCH = datetime(1970, 1, 1)
_TIMES = ("timestamp", "date", "instant")


def literal_rows_sql(columns: Mapping[str, tuple[str, Sequence[Any]]], dialect: Dialect) -> str:
    """A sub-select in brackets that gives these rows, each value as a literal of its type.

    Args:
        columns: By name the type, a key of `Dialect.types`, and the values: numbers, texts, truth values, `datetime` in
            UTC without a zone, or None.
        dialect: Whose text to write.

    Examples:
        >>> import duckdb
        >>> from everhold_engines.sql.dialects import DUCKDB
        >>> with duckdb.connect() as engine:
        ...     engine.sql(f"FROM {literal_rows_sql({'x': ('double', [0.5, None])}, DUCKDB)}").fetchall()
        [(0.5,), (None,)]
    """
    names = list(map(dialect.quoted, columns))
    cells = [[_cell(value, kind, dialect) for value in values] for kind, values in columns.values()]
    rows = [", ".join(row) for row in zip(*cells, strict=True)]
    if dialect.name == "spark":  # what VALUES gives would be computed while the plan is made, in another way
        pairs = [
            ", ".join(f"{dialect.literal(name)}, {cell}" for name, cell in zip(columns, row, strict=True))
            for row in zip(*cells, strict=True)
        ]
        structures = ", ".join(f"named_struct({row})" for row in pairs)
        return f"(SELECT inline(array({structures})))"
    if dialect.name == "clickhouse":
        picked = ", ".join(f"r.{place} AS {name}" for place, name in enumerate(names, 1))
        return f"(SELECT {picked} FROM (SELECT arrayJoin([{', '.join(f'tuple({row})' for row in rows)}]) AS r))"
    return f"(SELECT * FROM (VALUES {', '.join(f'({row})' for row in rows)}) AS r({', '.join(names)}))"


def _cell(value: Any, kind: str, dialect: Dialect) -> str:
    if value is None:
        return f"CAST(NULL AS {dialect.types[kind]})"
    if kind in _TIMES and dialect.name == "clickhouse":  # its texts of times begin in 1900
        micros = (value - _EPOCH) // timedelta(microseconds=1)
        moment = f"toDate32('{value:%Y-%m-%d}')" if kind == "date" else f"fromUnixTimestamp64Micro({micros}, 'UTC')"
        return f"CAST({moment} AS {dialect.types[kind]})"
    return f"CAST({_literal(value, kind, dialect)} AS {dialect.types[kind]})"


def _literal(value: Any, kind: str, dialect: Dialect) -> str:
    match value:
        case datetime():
            written = value.date().isoformat() if kind == "date" else value.isoformat(" ", "microseconds")
            return f"'{written}+00:00'" if kind == "instant" else f"'{written}'"
        case bool():
            return str(value).upper()
        case float() | str():
            return dialect.literal(value)
        case _:
            return f"'{value}'"
