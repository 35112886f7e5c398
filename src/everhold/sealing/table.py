"""Evaluating questions on stored rows: an engine for expressions, NumPy for functions and predictions.

The engine beside everhold gives row values, which are summed here in a time that says nothing of them. Every other
engine adds up and counts itself, so that no more than counts leave it, and hands over rows only for code: in the order
of their row ids, and no more than `MOST_CELLS` numbers at once. All of that is decided by public facts.
"""

from __future__ import annotations

import re
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.dependence.stretches import bits_of_stretch, sizes_of_stretches, stretch_of_rows
from everhold.errors import QueryRejected
from everhold.progress import progress
from everhold.sealing.counting import counted_cells, counted_groups, counted_pairs
from everhold.sealing.engines.base import POSITION
from everhold.sealing.engines.errors import engine_errors_hidden
from everhold.sealing.engines.waiting import heard_while
from everhold.sealing.joined import is_joined, look_joined
from everhold.sealing.probe import public_values, sealed_values
from everhold.sealing.sums import cells_across, cells_of, exact_sums, group_sums_of, pairs_of, row_pairs_of
from everhold.values.base import Joined, Kept
from everhold.values.evaluation import UNIT, clip_to_grid, to_grid
from everhold.values.expressions import (
    group_totals_sql,
    part_totals_sql,
    row_values_sql,
    stretch_totals_sql,
    totals_sql,
)
from everhold.values.expressions.coarse import group_sizes_sql
from everhold.values.expressions.tree import ColumnKind, JoinedValue

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Needs
    from everhold.sealing.engines.base import Engine
    from everhold.values.base import BoundQuery, RowFunction, Table
    from everhold.values.expressions import RowValue
    from everhold.values.expressions.tree import AnyValue

__all__ = ["MOST_CELLS", "StoredRows"]

MOST_CELLS = 2**27
"""So many cells, rows by columns, are read from another engine at once: 1 GB of numbers."""

_COLUMNS_AT_ONCE = 8  # of row values that are held in memory
_NUMBERS = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?$|UINTEGER$|FLOAT$|DOUBLE$|DECIMAL\(")
_BEYOND_NUMPY = ("HUGEINT", "UHUGEINT")


class StoredRows:
    """The rows of one table, as exact integer sums. Columns are read when a question first needs them.

    Args:
        engine: Where they are, and who runs statements about them.
        rows: Number of rows.
        columns: Names of all columns.
        sealed: Whether faults of functions must go unreported, because a report would be a free answer.
        label: Column without missing values that keeps its own type.
        row_id: Column that names rows, each once; it puts the rows of a table without positions in order.
        order_key: Makes the secret order in which code meets sealed rows; None for their own order.
        whole: Public rows in an engine of which these are some; None where these are all.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        rows: int,
        columns: Sequence[str],
        sealed: bool,
        label: str | None = None,
        row_id: str | None = None,
        order_key: bytes | None = None,
        whole: StoredRows | None = None,
    ) -> None:
        self.engine = engine
        self._columns = tuple(columns)
        self._sealed = sealed
        self._label = label
        self._row_id = row_id
        self._order_key = order_key
        self.whole = whole
        self._arrays: dict[str, NDArray[Any]] = {}
        self._orders: dict[tuple[str, ...], NDArray[np.int64] | None] = {}
        self._ids: list[Any] | None = None
        self._group_indices: dict[str, NDArray[np.int64]] = {}
        self._group_sizes: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        self.rows = rows

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rows={self.rows})"

    def close(self) -> None:
        """Close the engine, and that of all rows; they open again when needed."""
        self.engine.close()
        if self.whole is not None:
            self.whole.close()

    def on(self, engine: Engine) -> StoredRows:
        """The same rows as another engine has them, with more columns beside them."""
        return StoredRows(
            engine, rows=self.rows, columns=self._columns, sealed=self._sealed, label=self._label, row_id=self._row_id,
            order_key=self._order_key,
        )  # fmt: skip

    def counting(self, query: BoundQuery) -> StoredRows:
        """The rows in which a question to public rows is counted: all, where their engine can evaluate it."""
        whole, parts = self.whole, _parts_of_ratio(query) or (query,)
        return self if whole is None or any(whole._value(part) is None for part in parts) else whole

    def totals(self, queries: Sequence[BoundQuery], *, parts: int = 1, unit: int = UNIT) -> NDArray[np.int64]:
        """Exact sums of row values over each part of the rows; row i belongs to part i modulo ``parts``.

        Returns:
            Shape (queries, parts), in grid units.

        Raises:
            QueryRejected: If these are public rows and a function fails on them.
        """
        if self._sealed and any(map(is_joined, queries)):
            return self.look(queries, ["total"] * len(queries), parts=parts, unit=unit)[0]
        totals = np.zeros((len(queries), parts), dtype=np.int64)
        written: dict[int, AnyValue] = {}
        with self.engine.reading():  # also where all columns are in memory already
            for place, query in enumerate(queries):
                function = query.sealed if self._sealed else query.training
                if (value := self._value(query)) is not None:
                    written[place] = value
                elif query.pair is not None or self._is_known(query):
                    (grid,) = self._grids([query], unit=unit)
                    totals[place] = [grid[part::parts].sum() for part in range(parts)]
                elif function is not None:
                    totals[place] = self._function_totals(function, query, parts=parts, unit=unit)
            with progress("reading rows", len(written)) as line:
                for places, values in self._chunks(written):
                    if parts == 1:
                        totals[places, 0] = self._fetch(totals_sql(values, self.engine.source, **self._how(unit)))[0]
                    else:
                        sql = part_totals_sql(
                            values, self._in_order(), parts=parts, position=POSITION, **self._how(unit)
                        )  # fmt: skip
                        for part, *sums in self._fetch(sql):
                            totals[places, int(part)] = sums
                    line(line.done + len(places))
        return totals

    def _how(self, unit: int) -> dict[str, Any]:
        return {"unit": unit, "dialect": self.engine.dialect}

    def _value(self, query: BoundQuery) -> AnyValue | None:
        """What the engine computes for each row; None for code, and for what is better made of row values here."""
        if self._is_known(query):
            return None
        if query.row_value is not None or query.pair is None or query.pair.how == "ratio" or self.engine.embedded:
            return query.row_value
        first, second = self._value(query.pair.first), self._value(query.pair.second)
        return None if first is None or second is None else JoinedValue(query.pair.how, first, second)

    def _in_order(self, columns: Sequence[str] = ()) -> str:
        """What stands after FROM where rows need positions: of the file, or by the row ids of a table without them.

        Args:
            columns: Put the rows in order before that.

        Raises:
            QueryRejected: If the table has neither. Nothing is charged.
        """
        if self.engine.embedded:
            return self.engine.source
        if self._row_id is None:
            raise QueryRejected(
                "this question needs rows in an order, and a table in an engine has none; expected a holdout that was "
                "created with row_id=..., or an expression for a mechanism that asks all rows; nothing was charged"
            )
        of = self.engine.dialect
        number = f"row_number() OVER (ORDER BY {', '.join(map(of.column, (*columns, self._row_id)))}) - 1"
        return f"(SELECT {of.rows}.*, {number} AS {POSITION} FROM {self.engine.source} AS {of.rows})"

    def _check_cells(self, columns: int) -> None:
        """Refuse to read more than a public number of cells from an engine elsewhere.

        Raises:
            QueryRejected: If it is more. Nothing is charged.
        """
        if not self.engine.embedded and self.rows * columns > MOST_CELLS:
            raise QueryRejected(
                f"this question needs {columns} columns of {self.rows:,} rows beside everhold; expected at most "
                f"{MOST_CELLS:,} cells; ask an expression, which the engine evaluates itself, or name the columns "
                "that the code reads; nothing was charged"
            )

    def look(
        self, queries: Sequence[BoundQuery], needs: Sequence[Needs], *,
        parts: int = 1, group_by: str | None = None, unit: int = UNIT,
    ) -> tuple[NDArray[np.int64], list[Any]]:  # fmt: skip
        """What interval procedures have to know of the rows, and totals that come from the same reading.

        The row values of what needs more than a total are computed as for `totals`, without a branch that depends on
        them, and then summed up by `everhold.sealing.sums`, which says what its time depends on. Sums of groups follow
        the column of the groups, which is public. Code meets sealed rows in the secret order, here as well.

        Args:
            queries: The questions.
            needs: What the procedure of each has to know; see `everhold.guarantees.intervals.base.Procedure`.
            parts: As for `totals`; where it is not 1, nothing but totals may be needed.
            group_by: Column whose equal values make a group, for what needs groups.
            unit: Grid steps between 0 and 1.

        Returns:
            Totals as for `totals`, of a ratio ``rows * unit * sum(min(a, b)) / sum(b)`` rounded down, 0 if no row
            counts; and for each question `Cells`, `GroupSums`, `Pairs`, or None where the total is all that is needed.

        Raises:
            QueryRejected: If these are public rows and a function fails on them.
        """
        if self._sealed and any(map(is_joined, queries)):
            return look_joined(self, queries, needs, parts=parts, group_by=group_by, unit=unit)
        totals = np.zeros((len(queries), parts), dtype=np.int64)
        seen: list[Any] = [None] * len(queries)
        plain = [place for place, need in enumerate(needs) if need == "total"]
        more = [place for place, need in enumerate(needs) if need != "total"]
        if parts != 1 and more:
            raise ValueError(f"{len(more)} questions need more than totals of {parts} parts; expected totals alone")
        with self.engine.reading():
            if plain:
                totals[plain] = self.totals([queries[place] for place in plain], parts=parts, unit=unit)
            with progress("reading rows", len(more)) as line:
                at_once = _COLUMNS_AT_ONCE if self.engine.embedded else self.engine.most_expressions
                for start in range(0, len(more), at_once):
                    some = more[start : start + at_once]
                    shown = self._shown(
                        [queries[place] for place in some], [needs[place] for place in some], group_by, unit
                    )
                    for place, (total, what) in zip(some, shown, strict=True):
                        totals[place, 0], seen[place] = total, what
                    line(start + len(some))
        return totals, seen

    def _shown(
        self, queries: Sequence[BoundQuery], needs: Sequence[Needs], group_by: str | None, unit: int
    ) -> list[tuple[int, Any]]:
        """The total of each question, and what its procedure needs; a few questions at once."""
        if self.engine.embedded:
            return self._shown_here(queries, needs, group_by, unit)
        shown: dict[int, tuple[int, Any]] = {}
        for need in sorted(set(needs)):
            places = [place for place, own in enumerate(needs) if own == need]
            for across in {self._across(need, queries[place].yes_no, group_by, unit) for place in places}:
                some = [
                    place for place in places
                    if across == self._across(need, queries[place].yes_no, group_by, unit)
                ]  # fmt: skip
                shown |= self._counted(some, queries, need, group_by, across, unit)
        left = [place for place in range(len(queries)) if place not in shown]
        if left:
            found = self._shown_here(
                [queries[place] for place in left], [needs[place] for place in left], group_by, unit
            )
            shown |= dict(zip(left, found, strict=True))
        return [shown[place] for place in range(len(queries))]

    def _counted(
        self, places: Sequence[int], queries: Sequence[BoundQuery], need: Needs, group_by: str | None, across: int,
        unit: int,
    ) -> dict[int, tuple[int, Any]]:  # fmt: skip
        """What the engine counts itself, by place: all questions that are made of expressions alone."""
        fetch, source, how = partial(self._fetch, as_arrays=True), self.engine.source, self._how(unit)
        if need in ("pairs", "group_pairs"):
            shown: dict[int, tuple[int, Any]] = {}
            for place in places:
                numerator, denominator = map(self._value, _parts_of_ratio(queries[place]))
                if numerator is not None and denominator is not None:
                    by = group_by if need == "group_pairs" else None
                    part, whole, pairs = counted_pairs(
                        fetch, numerator, denominator, source, group_by=by, across=across, **how
                    )  # fmt: skip
                    shown[place] = self._ratio(part, whole, unit), pairs
            return shown
        values = {place: value for place in places if (value := self._value(queries[place])) is not None}
        if not values:
            return {}
        if need == "cells":
            return dict(zip(values, counted_cells(fetch, list(values.values()), source, **how), strict=True))
        by = self._named(group_by)
        groups = counted_groups(fetch, list(values.values()), source, group_by=by, across=across, **how)
        return dict(zip(values, groups, strict=True))

    def _shown_here(
        self, queries: Sequence[BoundQuery], needs: Sequence[Needs], group_by: str | None, unit: int
    ) -> list[tuple[int, Any]]:
        """The same from row values that are read into this process, or sums of groups."""
        embedded = self.engine.embedded
        values = [query.row_value for query in queries if query.row_value is not None and not self._is_known(query)]
        if embedded and group_by is not None and len(values) == len(queries) and all(n == "groups" for n in needs):
            sizes, columns = self._grouped_expressions(values, group_by, unit=unit)
            across = [self._across("groups", query.yes_no, group_by, unit) for query in queries]
            return [
                (int(sums.sum()), group_sums_of(sizes, sums, unit=unit, across=cells))
                for sums, cells in zip(columns, across, strict=True)
            ]
        if embedded and len(values) == len(queries) and all(need == "cells" for need in needs):  # in any order
            found = self._fetch(row_values_sql(values, self.engine.source, **self._how(unit)), as_arrays=True)
            columns = [np.ma.getdata(found[f"v{place}"]) for place in range(len(values))]
            return [self._summary(need, [grid], None, unit) for need, grid in zip(needs, columns, strict=True)]
        parts = [_parts_of_ratio(query) or (query,) for query in queries]
        grids = iter(self._grids([part for own in parts for part in own], unit=unit))
        return [
            self._summary(need, [next(grids) for _ in own], group_by, unit, yes_no=all(part.yes_no for part in own))
            for need, own in zip(needs, parts, strict=True)
        ]

    def _summary(
        self, need: Needs, grids: Sequence[NDArray[np.int64]], group_by: str | None, unit: int, *, yes_no: bool = False
    ) -> tuple[int, Any]:
        """The total of one question and what its procedure needs, from its row values, or from two of a ratio."""
        if need == "cells":
            cells = cells_of(grids[0], unit=unit)
            return int(cells.sums.sum()), cells
        across = self._across(need, yes_no, group_by, unit)
        if need == "groups":
            sizes, (sums,) = self._grouped(grids, group_by, unit=unit)
            return int(sums.sum()), group_sums_of(sizes, sums, unit=unit, across=across)
        if need not in ("pairs", "group_pairs"):
            raise ValueError(f"a procedure needs a {need}; expected what the values of rows can show of it")
        numerators, denominators = np.minimum(*grids), grids[1]
        part, whole = int(numerators.sum()), int(denominators.sum())
        if need == "pairs":
            pairs = row_pairs_of(numerators, denominators, unit=unit, across=across)
        else:
            sizes, sums_of_both = self._grouped([numerators, denominators], group_by, unit=unit)
            pairs = pairs_of(sizes, *sums_of_both, unit=unit, across=across)
        return self._ratio(part, whole, unit), pairs

    def _ratio(self, part: int, whole: int, unit: int) -> int:
        """A ratio in the units of a sum over all rows, rounded down; 0 if no row counts."""
        return part * self.rows * unit // whole if whole else 0

    def _across(self, need: Needs, yes_no: bool, group_by: str | None, unit: int) -> int:
        """Cells in which units are counted; 0 where they are told apart, from public facts alone."""
        if need in ("cells", "total"):
            return 0
        sizes, counts = np.ones(1, dtype=np.int64), np.full(1, self.rows)
        if need != "pairs":
            sizes, counts = self._sizes_of_groups(self._named(group_by))
        return cells_across(sizes, counts, axes=1 if need == "groups" else 2, unit=unit, yes_no=yes_no)

    def _sizes_of_groups(self, group_by: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sizes of groups, and how many have each; public as the column is."""
        if group_by not in self._group_sizes:
            sql = group_sizes_sql(self.engine.source, group_by=group_by, dialect=self.engine.dialect)
            found = np.array(self._fetch(sql), dtype=np.int64)
            self._group_sizes[group_by] = found[:, 0], found[:, 1]
        return self._group_sizes[group_by]

    def _named(self, group_by: str | None) -> str:
        if group_by is None:
            raise ValueError("a procedure needs groups and no column names them; expected one")
        return group_by

    def grids(self, query: BoundQuery, *, unit: int = UNIT) -> tuple[NDArray[np.int64], ...]:
        """Row values of public rows in grid units, shape (rows,): one array, or two of a ratio.

        Raises:
            QueryRejected: If a function fails.
            ValueError: If the rows are sealed.
        """
        if self._sealed:
            raise ValueError("the rows are sealed; expected a question to the training rows")
        with self.engine.reading():
            return tuple(self._grids(_parts_of_ratio(query) or (query,), unit=unit))

    def each_grid(self, queries: Sequence[BoundQuery], *, unit: int = UNIT) -> Iterator[NDArray[np.int64]]:
        """Row values of public rows in grid units, shape (rows,) for each question; none of them is a ratio.

        Raises:
            QueryRejected: If a function fails.
            ValueError: If the rows are sealed.
        """
        if self._sealed:
            raise ValueError("the rows are sealed; expected questions to the training rows")
        for start in range(0, len(queries), _COLUMNS_AT_ONCE):
            with self.engine.reading():
                yield from self._grids(queries[start : start + _COLUMNS_AT_ONCE], unit=unit)

    def row_values(self, query: BoundQuery, *, unit: int = UNIT) -> NDArray[np.int64]:
        """The value of every row in grid units, shape (rows,); of sealed rows it is secret."""
        with self.engine.reading():
            return self._grids([query], unit=unit)[0]

    def summary(
        self, need: Needs, grid: NDArray[np.int64], *, group_by: str | None = None, unit: int = UNIT
    ) -> tuple[int, Any]:
        """The total of row values that are known already, and what a procedure needs of them besides; see `look`."""
        if need == "total":
            return int(grid.sum()), None
        with self.engine.reading():
            return self._summary(need, [grid], group_by, unit)

    def _grids(self, queries: Sequence[BoundQuery], *, unit: int) -> list[NDArray[np.int64]]:
        """Row values in grid units, in the order of the file; secret where the rows are sealed."""
        leaves = [leaf for query in queries for leaf in self._leaves(query)]
        written = [leaf.row_value for leaf in leaves if not self._is_known(leaf) and leaf.row_value is not None]
        columns = iter(self._expression_grids(written, unit=unit))
        found = iter([
            next(columns) if not self._is_known(leaf) and leaf.row_value is not None else self._code_grid(leaf, unit)
            for leaf in leaves
        ])  # fmt: skip
        return [self._joined(query, found, unit) for query in queries]

    def _leaves(self, query: BoundQuery) -> list[BoundQuery]:
        if query.pair is None or self._is_known(query):
            return [query]
        return [*self._leaves(query.pair.first), *self._leaves(query.pair.second)]

    def _joined(self, query: BoundQuery, found: Iterator[NDArray[np.int64]], unit: int) -> NDArray[np.int64]:
        if query.pair is None or self._is_known(query):
            return next(found)
        if query.pair.how == "ratio":
            raise ValueError("a ratio has no row values; expected its numerator and its denominator")
        first, second = (self._joined(part, found, unit) for part in (query.pair.first, query.pair.second))
        if query.pair.how == "difference":
            return (unit + first - second) // 2
        return np.minimum(first, second if query.pair.how == "within" else unit - second)

    def _is_known(self, query: BoundQuery) -> bool:
        """Whether the row values of these rows were computed before."""
        return not self._sealed and query.training_values is not None

    def _expression_grids(self, values: Sequence[RowValue], *, unit: int) -> Iterator[NDArray[np.int64]]:
        self._check_cells(len(values))
        for start in range(0, len(values), _COLUMNS_AT_ONCE):
            some = values[start : start + _COLUMNS_AT_ONCE]
            sql = row_values_sql(some, self._in_order(), position=POSITION, **self._how(unit))
            found = self._fetch(sql, as_arrays=True)
            positions = np.ma.getdata(found["p"])
            for place in range(len(some)):
                grid = np.empty(self.rows, dtype=np.int64)
                grid[positions] = np.ma.getdata(found[f"v{place}"])
                yield grid

    def _code_grid(self, query: BoundQuery, unit: int) -> NDArray[np.int64]:
        """Row values by code or from predictions; on sealed rows nothing is refused."""
        if self._is_known(query):
            return np.asarray(query.training_values)
        function = query.sealed if self._sealed else query.training
        if function is None:
            raise ValueError(f"{query.shown!r} has no values for these rows; expected an expression or a function")
        return self._on_grid(self._function_values(function, query), query, unit)

    def _grouped(
        self, grids: Sequence[NDArray[np.int64]], group_by: str | None, *, unit: int
    ) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
        """Sizes of the groups, and sums of row values by group."""
        index = self._group_index(self._named(group_by))
        sizes = np.bincount(index).astype(np.int64)
        return sizes, [exact_sums(grid, index, len(sizes), unit=unit) for grid in grids]

    def _group_index(self, group_by: str) -> NDArray[np.int64]:
        if group_by not in self._group_indices:
            self._check_cells(1)
            of = self.engine.dialect
            group = f"dense_rank() OVER (ORDER BY {of.column(group_by)}) - 1"
            sql = f"SELECT {of.rows}.{POSITION} AS p, {group} AS g FROM {self._in_order()} AS {of.rows}"
            found = self._fetch(sql, as_arrays=True)
            index = np.empty(self.rows, dtype=np.int64)
            index[np.ma.getdata(found["p"])] = np.ma.getdata(found["g"])
            self._group_indices[group_by] = index
        return self._group_indices[group_by]

    def groups_of_rows(self, column: str) -> NDArray[np.int64]:
        """The group of each public row, by equal values of a column, from 0; shape (rows,).

        Raises:
            ValueError: If the rows are sealed.
        """
        if self._sealed:
            raise ValueError("the rows are sealed; expected the training rows")
        with self.engine.reading():
            return self._group_index(column)

    def stretches_of_rows(self, order_by: Sequence[str]) -> NDArray[np.int64]:
        """The stretch of each public row in an order, as for `stretch_totals`; shape (rows,)."""
        with self.engine.reading():
            stretches = self._stretches(tuple(order_by)) if order_by else None
        return stretch_of_rows(self.rows) if stretches is None else stretches

    def _grouped_expressions(
        self, values: Sequence[RowValue], group_by: str, *, unit: int
    ) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
        """The same of expressions, by the engine, in any order of the groups."""
        found = self._fetch(
            group_totals_sql(values, self.engine.source, group_by=group_by, **self._how(unit)), as_arrays=True
        )
        sums = [np.ma.getdata(found[f"v{place}"]).astype(np.int64) for place in range(len(values))]
        return np.ma.getdata(found["size"]).astype(np.int64), sums

    def stretch_totals(
        self, queries: Sequence[BoundQuery], *, order_by: Sequence[str] = (), unit: int = UNIT
    ) -> NDArray[np.int64]:
        """Exact sums of row values over stretches of public rows that follow each other, in one pass as for `totals`.

        Args:
            queries: Questions with an expression or with a function of training rows.
            order_by: Columns that put rows in order, the first one first; none for the order of the file.
            unit: Grid steps between 0 and 1.

        Returns:
            Shape (queries, stretches), in grid units; the stretches are those of `stretch_of_rows`.

        Raises:
            QueryRejected: If a function fails.
        """
        totals = np.zeros((len(queries), len(sizes_of_stretches(self.rows))), dtype=np.int64)
        written: dict[int, AnyValue] = {}
        with self.engine.reading():
            stretches = self._stretches(tuple(order_by)) if order_by else None
            for place, query in enumerate(queries):
                if (value := self._value(query)) is not None:
                    written[place] = value
                elif query.trained:
                    (grid,) = self._grids([query], unit=unit)
                    totals[place] = _sums(grid, stretch_of_rows(self.rows) if stretches is None else stretches)
            at_once = None if stretches is None else _COLUMNS_AT_ONCE
            for places, values in self._chunks(written, at_once):
                totals[places] = self._stretches_of_expressions(values, stretches, unit=unit)
        return totals

    def is_in_order(self, column: str) -> bool:
        """Whether the file is in the order of a column already; of public rows only."""
        with self.engine.reading():
            return self._stretches((column,)) is None

    def _stretches_of_expressions(
        self, values: Sequence[AnyValue], stretches: NDArray[np.int64] | None, *, unit: int
    ) -> NDArray[np.int64]:
        if stretches is None:
            bits = bits_of_stretch(self.rows)
            sql = stretch_totals_sql(values, self._in_order(), bits=bits, position=POSITION, **self._how(unit))
            return np.array(sorted(self._fetch(sql)), dtype=np.int64)[:, 1:].T
        sql = row_values_sql(values, self._in_order(), position=POSITION, **self._how(unit))
        found = self._fetch(sql, as_arrays=True)
        of_row = stretches[np.asarray(found["p"])]
        return np.array([_sums(np.asarray(found[f"v{place}"]), of_row) for place in range(len(values))])

    def _stretches(self, order_by: tuple[str, ...]) -> NDArray[np.int64] | None:
        """The stretch of each row in an order; None if that is the order of the file."""
        if order_by not in self._orders:
            of = self.engine.dialect
            place = f"row_number() OVER (ORDER BY {', '.join(map(of.column, (*order_by, POSITION)))}) - 1"
            sql = f"SELECT {of.rows}.{POSITION} AS p, {place} AS place FROM {self._in_order()} AS {of.rows}"
            found = self._fetch(sql, as_arrays=True)
            places = np.empty(self.rows, dtype=np.int64)
            places[np.asarray(found["p"])] = found["place"]
            in_file = bool(np.all(np.diff(places) > 0))
            self._orders[order_by] = None if in_file else stretch_of_rows(self.rows)[places]
        return self._orders[order_by]

    def _fetch(self, sql: str, *, as_arrays: bool = False) -> Any:
        """What the engine says: a list of rows, or an array for each column by name."""
        run = partial(self.engine.arrays if as_arrays else self.engine.rows, sql)
        with engine_errors_hidden:  # a second wall
            return run() if self.engine.embedded else heard_while(run, self.engine.interrupt)

    def _chunks(
        self, written: dict[int, AnyValue], at_once: int | None = None
    ) -> Iterator[tuple[list[int], list[AnyValue]]]:
        """Places of questions and their expressions, as many as the engine takes at once unless it is said."""
        places, values, most = list(written), list(written.values()), at_once or self.engine.most_expressions
        for start in range(0, len(places), most):
            some = slice(start, start + most)
            yield places[some], values[some]

    def _function_totals(self, function: RowFunction, query: BoundQuery, *, parts: int, unit: int) -> NDArray[np.int64]:
        values = self._function_values(function, query)
        if values.dtype == np.bool_ and parts == 1:
            return np.array([np.count_nonzero(values) * unit], dtype=np.int64)
        grid = self._on_grid(values, query, unit)
        return np.array([grid[part::parts].sum() for part in range(parts)], dtype=np.int64)

    def _function_values(self, function: RowFunction, query: BoundQuery) -> NDArray[Any]:
        names, fault = self._columns if query.reads is None else query.reads, query.at_fault
        if isinstance(function, Joined):
            raise TypeError(f"{query.shown!r} is computed by the engine; expected look or totals")
        if isinstance(function, Kept):
            function = function.in_memory()  # here, because a disk that fails is no row's fault
        if not self._sealed:
            return public_values(function, self.table(names), self.rows)
        if query.by_position:
            return sealed_values(function, self.table(names), self.rows, fault=fault)
        return self.values_of_code(function, names, fault=fault)

    def _on_grid(self, values: NDArray[Any], query: BoundQuery, unit: int) -> NDArray[np.int64]:
        """Values of code on the grid; of a yes-no question whatever is not 1 is 0."""
        grid = clip_to_grid(values, unit=unit, fault=query.at_fault) if self._sealed else to_grid(values, unit=unit)
        return grid // unit * unit if query.yes_no else grid

    def values_of_code(
        self, function: RowFunction, names: Sequence[str], width: tuple[int, ...] = (), *, fault: float = 0.0
    ) -> NDArray[Any]:
        """Values of sealed rows by code, as in `sealed_values`: it meets the rows in a secret order.

        So what it makes of a row's place, against the rules, meets a row that has nothing to do with it.
        """
        found = sealed_values(function, self.table_for_code(names), self.rows, width, fault=fault)
        if self._order_for_code is None:
            return found
        values = np.empty_like(found)
        values[self._order_for_code] = found
        return values

    def table_for_code(self, names: Sequence[str]) -> Table:
        """The named columns as in `table`, in the order in which code meets the rows."""
        table, met = self.table(names), self._order_for_code
        if met is None:
            return table
        met_table = {name: column[met] for name, column in table.items()}
        for column in met_table.values():
            column.flags.writeable = False
        return met_table

    @cached_property
    def _order_for_code(self) -> NDArray[np.int64] | None:
        """Positions of the rows in the order in which code meets them; None for their own order."""
        if self._order_key is None:
            return None
        return np.random.default_rng(int.from_bytes(self._order_key)).permutation(self.rows)

    def table(self, names: Sequence[str]) -> Table:
        """The named columns as NumPy arrays: numbers as float64, nan if missing; booleans, false if missing; objects.

        The types do not depend on whether a value is missing: a function that fails on one of them would tell.
        """
        missing = [name for name in names if name not in self._arrays]
        with self.engine.reading():
            if missing:
                self._read(missing)
        return {name: self._arrays[name].view() for name in names}  # a view cannot be made writable again

    def _read(self, names: Sequence[str]) -> None:
        if not self.engine.embedded:
            self._check_cells(len(names))
            if (len(self._arrays) + len(names)) * self.rows > MOST_CELLS:
                self._arrays.clear()
        of = self.engine.dialect
        sql = f"SELECT {', '.join(map(of.column, names))} FROM {self._in_order()} AS {of.rows}"
        found = self._fetch(f"{sql} ORDER BY {of.rows}.{POSITION}", as_arrays=True)
        columns = [found[name] for name in names]
        self._arrays |= {
            name: _as_label(column) if name == self._label else _plain(column)
            for name, column in zip(names, columns, strict=True)
        }

    def row_ids(self, name: str) -> list[Any]:
        """The column of row ids, which are public: exact numbers, everything else as text."""
        if self._ids is None:
            with self.engine.reading():
                self._ids = self._ids_of_file(name) if self.engine.embedded else self._ids_elsewhere(name)
        return self._ids

    def _ids_of_file(self, name: str) -> list[Any]:
        column = self.engine.dialect.quoted(name)
        kind = self._fetch(f"SELECT typeof({column}) FROM {self.engine.source} LIMIT 1")[0][0]
        exact = column if _NUMBERS.match(kind) else f"CAST({column} AS VARCHAR)"
        sql = f"SELECT {exact} AS name FROM {self.engine.source} ORDER BY {POSITION}"
        if kind in _BEYOND_NUMPY or kind.startswith("DECIMAL"):
            return [row[0] for row in self._fetch(sql)]
        ids: list[Any] = np.ma.getdata(self._fetch(sql, as_arrays=True)["name"]).tolist()
        return ids

    def _ids_elsewhere(self, name: str) -> list[Any]:
        self._check_cells(1)
        dialect, kind = self.engine.dialect, self.engine.columns()[name]
        column = dialect.column(name)
        exact = column if kind in (ColumnKind.NUMBER, ColumnKind.STRING) else dialect.as_text(column)
        rows = dialect.rows
        sql = f"SELECT {exact} AS name FROM {self._in_order()} AS {rows} ORDER BY {rows}.{POSITION}"
        ids: list[Any] = np.ma.getdata(self._fetch(sql, as_arrays=True)["name"]).tolist()
        return ids


def _parts_of_ratio(query: BoundQuery) -> tuple[BoundQuery, ...]:
    """Numerator and denominator; none of what is no ratio."""
    return (query.pair.first, query.pair.second) if query.pair is not None and query.pair.how == "ratio" else ()


def _sums(values: NDArray[Any], of_row: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sums of whole numbers over stretches; doubles hold them exactly up to 2^53."""
    return np.bincount(of_row, weights=values).astype(np.int64)


def _plain(column: Any) -> NDArray[Any]:
    """A column of DuckDB as a plain, read-only array without a mask."""
    missing = np.ma.getmaskarray(column)
    plain: NDArray[Any] = np.array(np.ma.getdata(column))
    if plain.dtype.kind == "b":
        plain[missing] = False
    elif plain.dtype.kind in "iuf":
        plain = plain.astype(np.float64)
        plain[missing] = np.nan
    else:
        plain = plain.astype(object)
        plain[missing] = None
    plain.flags.writeable = False
    return plain


def _as_label(column: Any) -> NDArray[Any]:
    """The label as it is, text in fixed width: it compares in one pass."""
    label: NDArray[Any] = np.array(np.ma.getdata(column))
    label = label.astype(str) if label.dtype.kind == "O" else label
    label.flags.writeable = False
    return label
