"""How sealed and training rows are arranged: what a dependence model may learn when rows are sealed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import duckdb

from everhold.dependence.base import SeriesFacts
from everhold.errors import DependenceError
from everhold.queries.expressions.sql import quoted
from everhold.rows.reading import file_pattern, reading_errors_hidden
from everhold.rows.sealing import HOLDOUT_FILE, TRAINING_FILE

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from everhold.rows.sealing import SealedFiles

__all__ = ["FileStructure"]


class FileStructure:
    """The arrangement of rows in the files of a holdout; the `RowStructure` that models are bound to.

    Args:
        folder: Where the files are.
        sealed: What was written there.
    """

    def __init__(self, folder: Path, sealed: SealedFiles) -> None:
        self._sealed = sealed
        self._connection = duckdb.connect(":memory:")
        for name, file in (("holdout", HOLDOUT_FILE), ("training", TRAINING_FILE)):
            if name == "holdout" or sealed.training_rows:
                rows = self._connection.read_parquet(file_pattern(folder / file), hive_partitioning=False)
                rows.create_view(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    @property
    def rows(self) -> int:
        """Number of sealed rows."""
        return self._sealed.rows

    @property
    def training_rows(self) -> int:
        """Number of training rows."""
        return self._sealed.training_rows

    def group_sizes(self, column: str) -> dict[int, int]:
        """Size of a group to the number of sealed groups of that size."""
        name = self._column(column)
        found = self._rows(
            f"SELECT size, count(*) FROM (SELECT count(*) AS size FROM holdout GROUP BY {name}) GROUP BY size"
        )
        return {int(size): int(number) for size, number in sorted(found)}

    def shared_groups(self, column: str) -> int:
        """How many groups have rows on both sides."""
        name = self._column(column)
        if not self.training_rows:
            return 0
        return self._count(f"SELECT count(DISTINCT {name}) FROM holdout WHERE {name} IN (SELECT {name} FROM training)")

    def series(self, order_by: str, *, within: str | None) -> SeriesFacts:
        """How the rows stand when each group of the column ``within`` is put in order."""
        place = self._column(order_by)
        group = "'all'" if within is None else self._column(within)
        lengths = self._rows(
            f"SELECT length, count(*) FROM (SELECT count(*) AS length FROM holdout GROUP BY {group}) GROUP BY length"
        )
        ties = self._count(
            f"SELECT count(*) FROM (SELECT 1 FROM holdout GROUP BY {group}, {place} HAVING count(*) > 1)"
        )
        return SeriesFacts(
            lengths={int(length): int(number) for length, number in sorted(lengths)},
            ties=ties > 0,
            training=self._training_side(place, group),
        )

    def unknown_values(
        self, column: str, known: frozenset[str], *, side: Literal["both", "sealed", "training"] = "both"
    ) -> int:
        """How many rows of one side or both have a value whose text is none of the known ones."""
        name = self._column(column)
        counted = 0
        for what in self._sets():
            if side not in ("both", "sealed" if what == "holdout" else what):
                continue
            values = self._rows(f"SELECT CAST({name} AS VARCHAR), count(*) FROM {what} GROUP BY 1")
            counted += sum(int(number) for value, number in values if str(value) not in known)
        return counted

    def _training_side(self, place: str, group: str) -> Literal["none", "before", "after", "among"]:
        if not self.training_rows:
            return "none"
        sides = f"SELECT {group} AS series, min({place}) AS first, max({place}) AS last FROM"
        before, after, both = self._rows(
            f"SELECT coalesce(bool_and(t.last < h.first), true), coalesce(bool_and(t.first > h.last), true), count(*) "
            f"FROM ({sides} holdout GROUP BY 1) h JOIN ({sides} training GROUP BY 1) t USING (series)"
        )[0]
        if not both:
            return "none"
        return "before" if before else "after" if after else "among"

    def _column(self, column: str) -> str:
        """The quoted name of a column that exists and has a value in every row."""
        if column not in self._sealed.columns:
            raise DependenceError(
                f"the column {column!r} of the dependence does not exist; expected one of "
                f"{', '.join(map(repr, self._sealed.columns))}; name a column of the rows"
            )
        name = quoted(column)
        number = self._sealed.columns[column].value == "number"
        missing = f"{name} IS NULL" + (f" OR isnan(CAST({name} AS DOUBLE))" if number else "")
        for what in self._sets():
            if self._count(f"SELECT count(*) FROM {what} WHERE {missing}"):
                raise DependenceError(
                    f"the column {column!r} of the dependence has missing values in the {what} rows; expected a value "
                    "in every row; drop those rows, or give each a value of its own"
                )
        return name

    def _sets(self) -> tuple[str, ...]:
        return ("holdout", "training") if self.training_rows else ("holdout",)

    def _count(self, sql: str) -> int:
        return int(self._rows(sql)[0][0])

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        with reading_errors_hidden("holdout"):
            return self._connection.execute(sql).fetchall()
