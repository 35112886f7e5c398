"""Columns whose values name whole groups that were put on one side each, found in the rows that are sealed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from everhold.dependence.base import ISO_TIME
from everhold.sealing.intake.checks import is_missing
from everhold.sealing.intake.reading import reading_errors_hidden
from everhold.values.expressions.tree import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import duckdb

    from everhold.sealing.intake.files import SealedFiles
    from everhold.values.expressions import ColumnKind

__all__ = ["BY_TYPE", "TIMES", "SealedTables", "is_apart", "whole_groups"]

TIMES = re.compile(r"DATE|TIMESTAMP")
BY_TYPE = ("time", "other")
"""Kinds whose columns compare only where they are of one type."""

_FEW_COLUMNS = 64
_MANY_ROWS = 2**20
_BY_CHANCE = -14.0  # logarithm of the chance with which rows that were put on a side one by one leave groups whole


@dataclass(frozen=True, slots=True)
class SealedTables:
    """Sealed and training rows as tables of a connection.

    Attributes:
        connection: It has the views ``holdout`` and ``training``.
        sealed: What was written there.
        types: The engine's type of each column, by table, as far as they are known already.
    """

    connection: duckdb.DuckDBPyConnection
    sealed: SealedFiles
    types: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def columns(self) -> Mapping[str, ColumnKind]:
        """Kinds of the columns."""
        return self.sealed.columns

    @property
    def rows(self) -> int:
        """Number of sealed rows."""
        return self.sealed.rows

    @property
    def training_rows(self) -> int:
        """Number of training rows."""
        return self.sealed.guess_rows

    @property
    def sets(self) -> tuple[str, ...]:
        """Names of the tables that have rows."""
        return ("holdout", "training") if self.training_rows else ("holdout",)

    def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a result."""
        with reading_errors_hidden("holdout"):
            return self.connection.execute(sql).fetchall()

    def count(self, sql: str) -> int:
        """The one number of a result."""
        return int(self.fetch(sql)[0][0])

    def type_of(self, what: str, column: str) -> str:
        """The engine's type of a column."""
        known = self.types.setdefault(what, {})
        if column not in known:  # columns of an engine's table are brought one after the other
            with reading_errors_hidden("holdout"):
                view = self.connection.view(what)
                known |= {name: str(kind) for name, kind in zip(view.columns, view.types, strict=True)}
        return known[column]

    def a_few_at_a_time(self, columns: Sequence[str]) -> Iterator[str]:
        """Columns one after the other, with only a few in the tables while each is looked at.

        A statement on a wide file costs as much as its columns, whatever it reads. Long tables cost more than that.
        """
        if not columns or len(self.columns) <= _FEW_COLUMNS or max(self.rows, self.training_rows) > _MANY_ROWS:
            yield from columns
            return
        for what in self.sets:
            self.type_of(what, columns[0])  # of the whole tables
        self.fetch("CREATE SCHEMA narrow")
        for start in range(0, len(columns), _FEW_COLUMNS):
            some = columns[start : start + _FEW_COLUMNS]
            for what in self.sets:
                listed = ", ".join(map(quoted, some))
                self.fetch(f"CREATE OR REPLACE TABLE narrow.{what} AS SELECT {listed} FROM main.{what}")
            self.fetch("SET search_path = 'narrow,main'")
            yield from some
            self.fetch("SET search_path = 'main'")
        self.fetch("DROP SCHEMA narrow CASCADE")


def is_apart(tables: SealedTables, column: str) -> bool:
    """True if no value of a column stands both in sealed and in training rows."""
    kind, name = tables.columns[column].value, quoted(column)
    types = {tables.type_of(what, column) for what in tables.sets}
    if not tables.training_rows or kind == "boolean" or (kind in BY_TYPE and len(types) > 1):
        return False
    known = f"NOT ({is_missing(column, tables.columns)})"
    if not all(tables.fetch(f"SELECT 1 FROM {what} WHERE {known} LIMIT 1") for what in tables.sets):
        return False
    shared = f"SELECT 1 FROM holdout WHERE {known} AND {name} IN (SELECT {name} FROM training WHERE {known}) LIMIT 1"
    return not tables.fetch(shared)


def whole_groups(tables: SealedTables, apart: Collection[str], declared: Sequence[str]) -> tuple[str, ...]:
    """Columns of whole groups that were put on one side each, the one with the fewest training groups first.

    None of their values stand on both sides, although rows that were put there one by one would have left some on
    both. Columns that only follow the time of a split, and groups inside declared ones, are left out.

    Args:
        tables: The rows.
        apart: Columns none of whose values stand on both sides; see `is_apart`.
        declared: Columns that the dependence names; groups inside those of the first are declared, too.
    """
    known = sorted({*apart} - {*declared})
    found = {name: groups for name in tables.a_few_at_a_time(known) if (groups := _unlikely_groups(tables, name))}
    clocks = [name for name in tables.a_few_at_a_time(sorted(apart)) if _is_clock(tables, name)] if found else []
    inside = [name for name in found if declared and _is_inside(tables, name, declared[0])]
    calendar = [name for name in found if any(_follows(tables, name, clock) for clock in clocks)]
    return tuple(sorted(found.keys() - set(inside) - set(calendar), key=lambda name: (found[name], name)))


def _unlikely_groups(tables: SealedTables, column: str) -> int:
    """Number of groups of training rows, if chance would hardly have put each on one side; else 0."""
    name, known = quoted(column), f"NOT ({is_missing(column, tables.columns)})"
    training, sealed = tables.training_rows, tables.rows
    most, least = max(training, sealed) / (training + sealed), min(training, sealed) / max(training, sealed)
    groups, chance = tables.fetch(
        f"SELECT count(*), sum(k * ln({most!r}) + ln(1 + pow({least!r}, k))) "
        f"FROM (SELECT count(*) AS k FROM training WHERE {known} GROUP BY {name})"
    )[0]
    others = tables.count(f"SELECT count(*) FROM (SELECT DISTINCT {name} FROM holdout WHERE {known} LIMIT 2)")
    return int(groups) if groups + others > 2 and chance < _BY_CHANCE else 0


def _is_clock(tables: SealedTables, column: str) -> bool:
    """True if a column is a time, or numbers training rows, by which the two sides follow each other."""
    name = quoted(column)
    if not TIMES.match(tables.type_of("training", column)):
        if tables.columns[column].value not in ("number", "string"):
            return False
        repeated = f"SELECT count(*) - count(DISTINCT {name}) FROM training"
        texts = f"SELECT count(*) FROM training WHERE NOT regexp_full_match({name}, '{ISO_TIME}')"
        number = tables.columns[column].value == "number"
        if tables.count(repeated if number else texts):
            return False
    return _follow_each_other(tables, column)


def _follow_each_other(tables: SealedTables, column: str) -> bool:
    name = quoted(column)
    (first, last), (start, end) = (tables.fetch(f"SELECT min({name}), max({name}) FROM {w}")[0] for w in tables.sets)
    return bool(first > end or last < start)


def _follows(tables: SealedTables, column: str, clock: str) -> bool:
    """True if a column is the clock, or never falls while the clock goes on, as weeks and months do."""
    if column == clock:
        return True
    name, time = quoted(column), quoted(clock)
    falls = f"SELECT {name} < lag({name}) OVER (ORDER BY {time}, {name}) AS falls FROM training"
    return _follow_each_other(tables, column) and not tables.count(f"SELECT count(*) FROM ({falls}) WHERE falls")


def _is_inside(tables: SealedTables, column: str, declared: str) -> bool:
    """True if all training rows with one value of a column are of one declared group."""
    name, of = quoted(column), quoted(declared)
    return not tables.fetch(f"SELECT 1 FROM training GROUP BY {name} HAVING count(DISTINCT {of}) > 1 LIMIT 1")
