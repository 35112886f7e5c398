"""Predictions in another table of the engine, joined to the sealed rows by row id inside each statement.

Row ids and predictions are public, so their faults are found and reported before anything is charged. Each sealed row
is joined to at most one line of the table, even if the table changes meanwhile. The digest of the predictions is
computed again after the sums, so that an answer is about the predictions that its query names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import EverholdError, HoldoutRejected, QueryRejected
from everhold.values.base import BoundQuery, Joined, JoinedColumn
from everhold.values.expressions import ColumnKind, RowValue
from everhold_engines.sql.compiler import row_values_sql, texts_in_order, totals_sql

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Needs
    from everhold.sealing.rows.evaluated_rows import RowStore
    from everhold_engines.base import Engine

_SHOWN = 3
_DIGITS = 3  # hexadecimal ones of an id's hash: so many lines are hashed together as have them in common


@dataclass(frozen=True, slots=True)
class IdFaults:
    """Counts and examples of wrong row ids in a table of predictions.

    Attributes:
        unknown: Ids that are in the table but not among the sealed rows: their number, with examples.
        doubled: Ids that are in the table more than once: their number, with examples.
        lacking: Ids of sealed rows that are not in the table: their number, with examples.
    """

    empty: int
    unknown: tuple[int, Sequence[Any]]
    doubled: tuple[int, Sequence[Any]]
    lacking: tuple[int, Sequence[Any]]


@dataclass(frozen=True)
class JoinedTable:
    """A table of predictions in the engine of the sealed rows, joined by row id.

    Attributes:
        engine: Engine on the table of predictions.
        sealed: Engine on the table of the sealed rows.
        row_id: Column of ids of the sealed rows.
        own_id: Column of row ids in the table of predictions.
        kinds: Kind of each column of predictions, by name.
    """

    engine: Engine
    sealed: Engine
    row_id: str
    own_id: str
    kinds: Mapping[str, ColumnKind] = field(default_factory=dict)

    @classmethod
    def of(cls, sealed: Engine, table: str, *, row_id: str, own_id: str) -> JoinedTable:
        """Return the table of predictions with this name, after a check that it exists and may be used.

        Raises:
            QueryRejected: If there is no such table, or the sealed rows are in a file. Nothing is charged.
        """
        if table.casefold() == str(sealed.to_dict()["table"]).casefold():
            raise QueryRejected("The predictions are in the table of the sealed rows. Write them to another table.")
        try:
            engine = sealed.beside(table)
            return cls(engine, sealed, row_id, own_id, engine.columns())
        except QueryRejected:
            raise
        except (HoldoutRejected, ValueError):
            raise QueryRejected(
                f"There is no table {table!r} of predictions that can be read in the engine of the sealed rows. Pass "
                "its name as the engine has it, and check the right to read it."
            ) from None

    @property
    def name(self) -> str:
        """Name of the table."""
        return str(self.engine.to_dict()["table"])

    @property
    def called(self) -> str:
        """Name of the table in messages."""
        return f"the table {self.name!r}"

    @property
    def _lines(self) -> str:
        """SQL for the table's lines after FROM, with an alias that keeps column names unambiguous."""
        return f"{self.engine.source} AS {self.engine.dialect.rows}"

    def column(self, name: str) -> JoinedColumn:
        """Return one of the table's columns, without a digest."""
        told = hashlib.sha256(json.dumps([self.name, name]).encode()).hexdigest()[:16]
        return JoinedColumn(self, name, self.kinds[name], f"prediction_{told}")

    def id_faults(self) -> IdFaults | None:
        """Return the faults of the row ids, or None if the table has exactly one line for each sealed row."""
        of = self.engine.dialect
        mine, theirs = of.column(self.own_id), of.column(self.row_id)
        given = f"{self._lines} WHERE {mine} IS NOT NULL GROUP BY {mine}"
        lines = f"SELECT {mine} AS given_id, count(*) AS given_lines FROM {given}"
        known = f"SELECT {theirs} AS known_id, 1 AS known_lines FROM {self.sealed.source} AS {of.rows}"
        both = (
            "(SELECT given_id, known_id, coalesce(given_lines, 0) AS n, coalesce(known_lines, 0) AS m "
            f"FROM ({lines}) AS a FULL OUTER JOIN ({known}) AS b ON a.given_id = b.known_id) AS f"
        )
        tests = {"unknown": ("m = 0", "n"), "doubled": ("m > 0 AND n > 1", "1"), "lacking": ("n = 0", "1")}
        counted = ", ".join(
            f"coalesce(sum(CASE WHEN {test} THEN {many} ELSE 0 END), 0)" for test, many in tests.values()
        )
        ((unknown, doubled, lacking),) = self.engine.rows(f"SELECT {counted} FROM {both}")
        ((empty,),) = self.engine.rows(f"SELECT count(*) FROM {self._lines} WHERE {mine} IS NULL")
        if not (empty or unknown or doubled or lacking):
            return None

        def some(count: int, name: str) -> tuple[int, Sequence[Any]]:
            if not count:
                return 0, ()
            own = "known_id" if name == "lacking" else "given_id"
            found = self.engine.rows(f"SELECT {own} FROM {both} WHERE {tests[name][0]} ORDER BY {own} LIMIT {_SHOWN}")
            return int(count), [value for (value,) in found]

        return IdFaults(int(empty), some(unknown, "unknown"), some(doubled, "doubled"), some(lacking, "lacking"))

    def counts(self, conditions: Sequence[tuple[JoinedColumn, RowValue]]) -> list[int]:
        """Return for each condition the number of lines of the table for which it holds."""
        found: list[int] = []
        for some in _parts(conditions, self.engine.most_expressions):
            source = self._selected(list(dict.fromkeys(column for column, _ in some)))
            sql = totals_sql([value for _, value in some], source, unit=1, dialect=self.engine.dialect)
            found += [int(total) for total in self.engine.rows(sql)[0]]
        return found

    def example(self, column: JoinedColumn, condition: RowValue) -> Any:
        """Return a value that does not meet a condition, or None."""
        source, of = self._selected([column]), self.engine.dialect
        rows, end = row_values_sql([condition], source, position=column.alias, unit=1, dialect=of), of.write("closing")
        found = self.engine.rows(f"SELECT p FROM ({rows.removesuffix(end)}) AS e WHERE v0 = 0 LIMIT 1{end}")
        return found[0][0] if found else None

    def digests(self, columns: Sequence[JoinedColumn]) -> list[str]:
        """Return for each column a SHA-256 of its values by row id, independent of the order of lines."""
        found: list[str] = []
        for some in _parts(columns, self.engine.most_expressions):
            for ids, *told in self.engine.rows(self._digest_sql(some)) or [(None,) * (1 + len(some))]:
                texts = (f"{column.kind.value}:{ids}:{own}" for column, own in zip(some, told, strict=True))
                found += [hashlib.sha256(text.encode()).hexdigest() for text in texts]
        return found

    def _digest_sql(self, columns: Sequence[JoinedColumn]) -> str:
        """Return a statement that hashes columns by id in groups, and combines the hashes in order."""
        of = self.engine.dialect
        ids = of.write("text", of.column(self.own_id))
        given = {"given_ids": self._measured(ids)}
        given |= {f"given_{place}": self._text(column) for place, column in enumerate(columns)}
        texts = ", ".join(f"{text} AS {name}" for name, text in given.items())
        bucket = of.write("piece", of.write("sha256", ids), 1, _DIGITS)  # no name of a column is used for anything else
        lines = f"(SELECT {bucket} AS given_part, {ids} AS given_text, {texts} FROM {self._lines})"
        told = texts_in_order(of, lines, [*given], part="given_part", by="given_text")
        hashed = ", ".join(f"{of.write('sha256', name)} AS {name}" for name in given)
        parts = f"(SELECT 0 AS given_all, given_part, {hashed} FROM ({told}) AS t)"
        told = texts_in_order(of, parts, [*given], part="given_all", by="given_part")
        return f"SELECT {', '.join(map(of.words['sha256'].format, given))} FROM ({told}) AS t"

    def _text(self, column: JoinedColumn) -> str:
        """Return SQL that converts a column to text injectively, among values of its kind."""
        of, value = self.engine.dialect, self._value(column)
        if column.kind is ColumnKind.STRING:
            text = self._measured(value)
        else:
            text = of.write("shown", f"({value} + {of.literal(0.0)})")  # -0.0 is 0.0
        return f"coalesce({text}, '')"

    def _measured(self, text: str) -> str:
        """Return SQL for a text prefixed by its length, so that concatenated texts stay unambiguous."""
        of = self.engine.dialect
        return f"concat({of.write('shown', of.write('length', text))}, ':', {text})"

    def _value(self, column: JoinedColumn) -> str:
        """Return SQL for a column as a double, or as a text."""
        of, name = self.engine.dialect, self.engine.dialect.column(column.name)
        if column.kind is ColumnKind.STRING:
            return of.write("text", name)
        if column.kind is ColumnKind.NUMBER:
            return of.write("number", name)
        one, zero, truth = of.literal(1.0), of.literal(0.0), of.write("truth", name)
        return f"CASE WHEN {name} IS NULL THEN NULL WHEN {truth} THEN {one} ELSE {zero} END"

    def _selected(self, columns: Sequence[JoinedColumn]) -> str:
        quoted = self.engine.dialect.quoted
        listed = ", ".join(f"{self._value(column)} AS {quoted(column.alias)}" for column in columns)
        return f"(SELECT {listed} FROM {self._lines})"

    def beside(self, source: str, columns: Sequence[JoinedColumn], *, number: int) -> str:
        """Return SQL that joins these columns to a source. No row appears twice, even if the table changed."""
        of, name = self.engine.dialect, f"{self.engine.dialect.rows}_{number}"
        own, quoted = of.column(self.own_id), of.quoted
        listed = ", ".join(f"max({self._value(column)}) AS {quoted(column.alias)}" for column in columns)
        lines = f"(SELECT {own} AS joined_id, {listed} FROM {self._lines} GROUP BY {own})"
        taken = ", ".join(f"{name}.{quoted(column.alias)} AS {quoted(column.alias)}" for column in columns)
        own_row = f"{of.column(self.row_id)} = {name}.joined_id"
        return f"(SELECT {of.rows}.*, {taken} FROM {source} AS {of.rows} LEFT JOIN {lines} AS {name} ON {own_row})"


class _Beside:
    """Engine of the sealed rows whose source is the rows joined with predictions."""

    def __init__(self, engine: Engine, columns: Sequence[JoinedColumn]) -> None:
        self._engine, self.source = engine, engine.source
        for number, (table, own) in enumerate(_by_table(columns)):
            self.source = table.beside(self.source, own, number=number)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def reads_predictions(query: BoundQuery) -> bool:
    """Return whether a query reads predictions from a table of the engine."""
    return bool(_columns_of(query))


def evaluate_with_predictions(
    sealed: RowStore, engine: Engine, on: Callable[[Any], RowStore], queries: Sequence[BoundQuery],
    needs: Sequence[Needs], *, parts: int, group_by: str | None, unit: int,
) -> tuple[NDArray[np.int64], list[Any]]:  # fmt: skip
    """Evaluate queries of which some read predictions in tables, in as few statements as the engine allows.

    Args:
        sealed: The sealed rows.
        engine: Engine that holds the sealed rows.
        on: Function that returns the same rows with columns of predictions joined to them.
        queries: Queries, as for `RowStore.evaluate`.
        needs: Statistics that the interval procedure of each query needs.
        parts: Number of parts of the rows, for each of which totals are returned.
        group_by: Column whose equal values make a group. None if no query needs groups.
        unit: Grid steps between 0 and 1.

    Raises:
        EverholdError: If a table of predictions was changed since the query was prepared. Nothing is charged.
    """
    totals = np.zeros((len(queries), parts), dtype=np.int64)
    seen: list[Any] = [None] * len(queries)
    asked = {place: _columns_of(query) for place, query in enumerate(queries)}
    joined = [place for place, columns in asked.items() if columns]
    rounds = [[place for place, columns in asked.items() if not columns], *_rounds(asked, joined, engine)]
    for places in filter(None, rounds):
        columns = list(dict.fromkeys(column for place in places for column in asked[place]))
        rows = on(_Beside(engine, columns)) if columns else sealed
        some, own = [_written(queries[place]) for place in places], [needs[place] for place in places]
        totals[places], found = rows.evaluate(some, own, parts=parts, group_by=group_by, unit=unit)
        for place, what in zip(places, found, strict=True):
            seen[place] = what
    for table, every in _by_table([column for place in joined for column in asked[place]]):
        if table.digests(every) != [column.digest for column in every]:
            raise EverholdError(
                f"The predictions in {table.called} were changed while the query was answered. Leave the table alone, "
                "and ask again.",
                unchanged="nothing was charged",
            )
    return totals, seen


def _rounds(
    asked: Mapping[int, tuple[JoinedColumn, ...]], places: Sequence[int], engine: Engine
) -> Iterator[list[int]]:
    """Yield the indices of queries in batches whose columns fit into one statement."""
    some: list[int] = []
    columns: set[JoinedColumn] = set()
    for place in places:
        if some and len(columns | {*asked[place]}) > engine.most_expressions:
            yield some
            some, columns = [], set()
        some.append(place)
        columns |= {*asked[place]}
    yield some


def _columns_of(query: BoundQuery) -> tuple[JoinedColumn, ...]:
    if query.pair is not None:
        return tuple(dict.fromkeys((*_columns_of(query.pair.first), *_columns_of(query.pair.second))))
    return (query.sealed.column,) if isinstance(query.sealed, Joined) else ()


def _written(query: BoundQuery) -> BoundQuery:
    """Return a query whose predictions are read from columns of the joined rows."""
    if query.pair is not None:
        first, second = _written(query.pair.first), _written(query.pair.second)
        return replace(query, pair=replace(query.pair, first=first, second=second))
    if not isinstance(query.sealed, Joined):
        return query
    return replace(query, row_value=query.sealed.value, sealed=None, training=None)


def _by_table(columns: Sequence[JoinedColumn]) -> list[tuple[JoinedTable, list[JoinedColumn]]]:
    found: dict[int, tuple[JoinedTable, list[JoinedColumn]]] = {}
    for column in dict.fromkeys(columns):
        found.setdefault(id(column.table), (column.table, []))[1].append(column)
    return list(found.values())


def _parts(items: Sequence[Any], most: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + most] for start in range(0, len(items), most))
