"""How sealed and training rows are arranged: groups and series, for dependence models to learn at sealing."""

from __future__ import annotations

import re
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

from everhold.arguments import advice_for
from everhold.dependence.base import ISO_TIME, ONE_STEP, SeriesFacts
from everhold.errors import DependenceError
from everhold.sealing.intake.checks import count_respelled, is_missing, lacking_columns
from everhold.sealing.intake.duckdb_files import limit_memory, spilling_into, view_files
from everhold.sealing.intake.reading import reading_errors_hidden
from everhold.sealing.storage import HOLDOUT_FILE, TRAINING_FILE
from everhold.values.expressions.tree import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from everhold.sealing.configuration import SealedFiles

_TIMES = re.compile(r"DATE|TIMESTAMP")
_BY_TYPE = ("time", "other")  # kinds whose columns compare only where they are of one type
_FEW_COLUMNS = 64
_MANY_ROWS = 2**20
_LEFT_WHOLE = -14.0  # logarithm of the chance with which rows that were put on a side one by one leave groups whole


class FileStructure:
    """Arrangement of the rows in a holdout's files. It is the `RowStructure` that models are bound to.

    Args:
        folder: Private folder with the files.
        sealed: Facts about the files in this folder.
        files: Paths of the files, by ``"holdout"`` and ``"training"``. None for the files of the creation.
    """

    def __init__(self, folder: Path, sealed: SealedFiles, files: Mapping[str, Sequence[Path]] | None = None) -> None:
        self._sealed, self._types = sealed, dict[str, dict[str, str]]()  # the engine's types, as far as they are known
        with ExitStack() as stack:
            self._connection = stack.enter_context(spilling_into(folder))
            limit_memory(self._connection, len(sealed.columns))
            found = files or {"holdout": [folder / HOLDOUT_FILE], "training": [folder / TRAINING_FILE]}
            for name, paths in found.items():
                if name == "holdout" or sealed.training_rows:
                    view_files(self._connection, name, *paths)
            self._close = stack.pop_all().close

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    @property
    def rows(self) -> int:
        """Number of sealed rows."""
        return self._sealed.rows

    @property
    def training_rows(self) -> int:
        """Number of training rows."""
        return self._sealed.guess_rows

    @property
    def _sets(self) -> tuple[str, ...]:
        """Names of the tables that have rows."""
        return ("holdout", "training") if self.training_rows else ("holdout",)

    def _fetch(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query's result."""
        with reading_errors_hidden("holdout"):
            return self._connection.execute(sql).fetchall()

    def _count(self, sql: str) -> int:
        """Return the single number of a query's result."""
        return int(self._fetch(sql)[0][0])

    def _type_of(self, what: str, column: str) -> str:
        """Return the engine's type of a column."""
        known = self._types.setdefault(what, {})
        if column not in known:  # columns of an engine's table are brought one after the other
            with reading_errors_hidden("holdout"):
                view = self._connection.view(what)
                known |= {name: str(kind) for name, kind in zip(view.columns, view.types, strict=True)}
        return known[column]

    def _a_few_at_a_time(self, columns: Sequence[str]) -> Iterator[str]:
        """Yield names of columns one by one.

        Meanwhile the tables of a wide file are replaced by copies of a few columns.

        A statement on a wide file takes time for all its columns, even if it reads one. A long table is not copied,
        because copying would take longer than it saves.
        """
        if not columns or len(self._sealed.columns) <= _FEW_COLUMNS or max(self.rows, self.training_rows) > _MANY_ROWS:
            yield from columns
            return
        for what in self._sets:
            self._type_of(what, columns[0])  # of the whole tables
        self._fetch("CREATE SCHEMA narrow")
        for start in range(0, len(columns), _FEW_COLUMNS):
            some = columns[start : start + _FEW_COLUMNS]
            for what in self._sets:
                listed = ", ".join(map(quoted, some))
                self._fetch(f"CREATE OR REPLACE TABLE narrow.{what} AS SELECT {listed} FROM main.{what}")
            self._fetch("SET search_path = 'narrow,main'")
            yield from some
            self._fetch("SET search_path = 'main'")
        self._fetch("DROP SCHEMA narrow CASCADE")

    @cached_property
    def lacking(self) -> tuple[frozenset[str], frozenset[str]]:
        """The columns with missing values in sealed rows, and those with missing values in training rows."""
        return self._lacking("holdout"), self._lacking("training") if self.training_rows else frozenset()

    def _lacking(self, what: str, among: Collection[str] | None = None) -> frozenset[str]:
        """Return the columns of a table, or of a selection, that have missing values."""
        columns = {name: kind for name, kind in self._sealed.columns.items() if among is None or name in among}
        if not columns:
            return frozenset()
        with reading_errors_hidden("holdout"):
            return lacking_columns(lambda sql: self._connection.execute(sql).fetchall(), columns, what)

    def group_sizes(self, column: str) -> dict[int, int]:
        """Return the number of sealed groups of each size."""
        name = self._ids(column)
        found = self._fetch(
            f"SELECT size, count(*) FROM (SELECT count(*) AS size FROM holdout GROUP BY {name}) GROUP BY size"
        )
        return {int(size): int(number) for size, number in sorted(found)}

    def shared_groups(self, column: str) -> int:
        """Return the number of groups with rows on both sides."""
        name = self._ids(column)
        if not self.training_rows:
            return 0
        return self._count(f"SELECT count(DISTINCT {name}) FROM holdout WHERE {name} IN (SELECT {name} FROM training)")

    def apart(self) -> frozenset[str]:
        """Return the columns with no value in common between sealed and training rows, such as ids of groups.

        Truth values are left out, and so are columns of different types, which do not compare.
        """
        complete = self._sealed.columns.keys() - self.lacking[0] - self.lacking[1]
        columns = self._a_few_at_a_time([*self._sealed.columns])
        return frozenset(name for name in columns if self._is_apart(name, complete=name in complete))

    def _is_apart(self, column: str, *, complete: bool = False) -> bool:
        """Return whether sealed and training rows have values of a column, and none in common.

        `complete` is true if the column is known to have a value in every row.
        """
        kind, name = self._sealed.columns[column].value, quoted(column)
        types = {self._type_of(what, column) for what in self._sets}
        if not self.training_rows or kind == "boolean" or (kind in _BY_TYPE and len(types) > 1):
            return False
        known = "true" if complete else f"NOT ({is_missing(column, self._sealed.columns)})"
        shared = (
            f"SELECT 1 FROM holdout WHERE {known} AND {name} IN (SELECT {name} FROM training WHERE {known}) LIMIT 1"
        )
        if self._fetch(shared):
            return False
        if complete:
            return True
        there = [f"EXISTS (SELECT 1 FROM {what} WHERE {known})" for what in self._sets]
        return all(self._fetch(f"SELECT {', '.join(there)}")[0])

    def whole_groups(self, apart: Collection[str], declared: Sequence[str]) -> tuple[str, ...]:
        """Return the columns by which the table was apparently split in whole groups, fewest groups first.

        No value of such a column is on both sides, although a random split row by row would have put some values on
        both. Columns that only follow the time of a split, and groups inside declared ones, are left out.

        Args:
            apart: Columns with no value on both sides; see the method `apart`.
            declared: Columns that the dependence names. Groups inside the groups of the first column count as declared.
        """
        known = sorted({*apart} - {*declared})
        found = {name: groups for name in self._a_few_at_a_time(known) if (groups := self._unlikely_groups(name))}
        clocks = [name for name in self._a_few_at_a_time(sorted(apart)) if self._is_clock(name)] if found else []
        several = "SELECT 1 FROM training GROUP BY {name} HAVING count(DISTINCT {declared}) > 1 LIMIT 1"
        inside = [
            name for name in found
            if declared and not self._fetch(several.format(name=quoted(name), declared=quoted(declared[0])))
        ]  # fmt: skip
        calendar = [name for name in found if any(self._follows(name, clock) for clock in clocks)]
        return tuple(sorted(found.keys() - set(inside) - set(calendar), key=lambda name: (found[name], name)))

    def _unlikely_groups(self, column: str) -> int:
        """Return a column's number of training groups if a random split would hardly leave each whole, else 0."""
        name, known = quoted(column), f"NOT ({is_missing(column, self._sealed.columns)})"
        training, sealed = self.training_rows, self.rows
        most, least = max(training, sealed) / (training + sealed), min(training, sealed) / max(training, sealed)
        groups, chance = self._fetch(
            f"SELECT count(*), sum(k * ln({most!r}) + ln(1 + pow({least!r}, k))) "
            f"FROM (SELECT count(*) AS k FROM training WHERE {known} GROUP BY {name})"
        )[0]
        if chance >= _LEFT_WHOLE:
            return 0
        others = self._count(f"SELECT count(*) FROM (SELECT DISTINCT {name} FROM holdout WHERE {known} LIMIT 2)")
        return int(groups) if groups + others > 2 else 0

    def _is_clock(self, column: str) -> bool:
        """Return whether a column is a time or row number in which sealed and training rows do not overlap."""
        name = quoted(column)
        if not _TIMES.match(self._type_of("training", column)):
            if self._sealed.columns[column].value not in ("number", "string"):
                return False
            repeated = f"SELECT count(*) - count(DISTINCT {name}) FROM training"
            texts = f"SELECT count(*) FROM training WHERE NOT regexp_full_match({name}, '{ISO_TIME}')"
            number = self._sealed.columns[column].value == "number"
            if self._count(repeated if number else texts):
                return False
        return self._follow_each_other(column)

    def _follow_each_other(self, column: str) -> bool:
        """Return whether a column's sealed values all come before or all come after its training values."""
        name = quoted(column)
        (first, last), (start, end) = (self._fetch(f"SELECT min({name}), max({name}) FROM {w}")[0] for w in self._sets)
        return bool(first > end or last < start)

    def _follows(self, column: str, clock: str) -> bool:
        """Return whether a column is the given time column, or never decreases with time, as weeks and months do."""
        if column == clock:
            return True
        name, time = quoted(column), quoted(clock)
        falls = f"SELECT {name} < lag({name}) OVER (ORDER BY {time}, {name}) AS falls FROM training"
        return self._follow_each_other(column) and not self._count(f"SELECT count(*) FROM ({falls}) WHERE falls")

    def series(self, order_by: str, *, within: str | None) -> SeriesFacts:
        """Return lengths, ties and steps of the series that a column makes of the rows within each group."""
        place = self._place(order_by)
        group = "'all'" if within is None else self._ids(within)
        lengths = self._fetch(
            f"SELECT length, count(*) FROM (SELECT count(*) AS length FROM holdout GROUP BY {group}) GROUP BY length"
        )
        ties = self._count(
            f"SELECT count(*) FROM (SELECT 1 FROM holdout GROUP BY {group}, {place} HAVING count(*) > 1)"
        )
        step, least = self._step("holdout", place, group)
        training_step = self._step("training", place, group)[0] if self.training_rows else None
        side, apart = self._training_side(place, group, usual=step or training_step)
        return SeriesFacts(
            lengths={int(length): int(number) for length, number in sorted(lengths)},
            ties=ties > 0,
            training=side,
            step=step,
            training_step=training_step,
            apart=apart,
            least_step=least,
        )

    def is_number(self, column: str) -> bool:
        """Return whether a column holds numbers, and not truth values, text or times."""
        self._column(column)
        return self._sealed.columns[column].value == "number"

    def unknown_values(
        self, column: str, known: frozenset[str], *, side: Literal["both", "sealed", "training"] = "both"
    ) -> int:
        """Return the number of sealed rows, training rows or both whose text is not among the known values."""
        name = self._column(column)
        counted = 0
        for what in self._sets:
            if side not in ("both", "sealed" if what == "holdout" else what):
                continue
            values = self._fetch(f"SELECT CAST({name} AS VARCHAR), count(*) FROM {what} GROUP BY 1")
            counted += sum(int(number) for value, number in values if str(value) not in known)
        return counted

    def _training_side(
        self, place: str, group: str, *, usual: float | None
    ) -> tuple[Literal["none", "before", "after", "among"], float | None]:
        """Return on which side of the sealed series the training rows lie, and the least distance in steps.

        If all rows of a series are farther apart than the usual step, their smallest distance is used as the step. The
        distance is None if training rows lie among sealed rows, or if it is unknown.
        """
        if not self.training_rows:
            return "none", None
        sealed, training = (
            f"(SELECT series, min(place) AS first, max(place) AS last, min(step) AS least "
            f"FROM ({_steps(what, place, group)}) GROUP BY 1)"
            for what in ("holdout", "training")
        )
        before, after, both, apart = self._fetch(
            "SELECT coalesce(bool_and(t.last < h.first), true), coalesce(bool_and(t.first > h.last), true), count(*), "
            "min(greatest(h.first - t.last, t.first - h.last) "
            f"/ greatest({usual or 'NULL'}, least(h.least, t.least))) "  # those without a value are left out of both
            f"FROM {sealed} h JOIN {training} t USING (series)"
        )[0]
        if not both:
            return "none", None
        side: Literal["before", "after", "among"] = "before" if before else "after" if after else "among"
        return side, None if side == "among" or not usual else float(apart)

    def _step(self, what: str, place: str, group: str) -> tuple[float | None, float | None]:
        """Return the usual and the smallest distance of neighbouring rows of a series."""
        found = self._fetch(
            f"WITH steps AS ({_steps(what, place, group)}), middle AS (SELECT quantile_disc(step, 0.5) AS median FROM "
            f"steps) SELECT avg(step) FILTER (abs(step - median) <= {ONE_STEP} * median), min(step) FROM steps, middle"
        )[0]
        usual, least = (None if value is None else float(value) for value in found)
        return usual, least

    def _place(self, column: str) -> str:
        """Return SQL for the position of a row in an order, as a number."""
        name = self._column(column)
        kind = self._sealed.columns[column].value
        if kind == "number":
            return f"CAST({name} AS DOUBLE)"
        if kind in _BY_TYPE and all(_TIMES.match(self._type_of(what, column)) for what in self._sets):
            return f"epoch({name})"
        if kind == "string" and not sum(
            self._count(f"SELECT count(*) FROM {what} WHERE NOT regexp_full_match({name}, '{ISO_TIME}')")
            for what in self._sets
        ):
            return f"epoch(CAST({name} AS TIMESTAMP))"
        holds = self._type_of("holdout", column).lower()
        raise DependenceError(
            f"Column {column!r} does not put the rows in order: it has type {holds}, and "
            "as text '10' comes before '9'. Pass a column of numbers, dates or times."
        )

    def _column(self, column: str) -> str:
        """Return the quoted name of a column, after a check that it exists and has no missing value."""
        if column not in self._sealed.columns:
            raise DependenceError(
                f"The column {column!r} of the dependence does not exist. {advice_for(column, self._sealed.columns)}"
            )
        name = quoted(column)
        types = {self._type_of(what, column) for what in self._sets}
        if len(types) > 1 and self._sealed.columns[column].value in _BY_TYPE:
            raise DependenceError(
                f"Column {column!r} has type {' in one table and '.join(sorted(map(str.lower, types)))} in the other. "
                "Convert one of them."
            )
        missing = is_missing(column, self._sealed.columns)
        for what in self._sets:
            if self._count(f"SELECT count(*) FROM {what} WHERE {missing}"):
                raise DependenceError(
                    f"The column {column!r} of the dependence has missing values in the "
                    f"{what} rows. Drop those rows, or give each a value of its own."
                )
        return name

    def _ids(self, column: str) -> str:
        """Return the quoted name of a group column, after a check that ids do not differ only in spelling."""
        name = self._column(column)
        if self._sealed.columns[column].value != "string":
            return name
        with reading_errors_hidden("holdout"):
            respelled = count_respelled(self._connection, column, self._sets)
        if respelled:
            raise DependenceError(
                f"{respelled:,} ids in column {column!r} are spelled in several ways that differ only in case, spaces "
                "or leading zeros. Spell the id of a group in one way. If they are different groups, number the groups "
                "in a new column.",
                respelled=respelled,
            )
        return name


def _steps(what: str, place: str, group: str) -> str:
    """Return SQL that gives for each row its series, its position, and its distance from the previous row."""
    return (
        f"SELECT {group} AS series, {place} AS place, "
        f"{place} - lag({place}) OVER (PARTITION BY {group} ORDER BY {place}) AS step FROM {what}"
    )
