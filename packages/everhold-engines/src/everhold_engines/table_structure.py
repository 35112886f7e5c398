"""Arrangement of the rows of a table that stays in an engine, for dependence models and for diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold.sealing.duplicates.splits import is_apart
from everhold.sealing.intake.structure import FileStructure
from everhold.values.expressions.tree import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from types import TracebackType

    from everhold.dependence.base import SeriesFacts
    from everhold.sealing.intake.files import SealedFiles
    from everhold_engines.column_copies import ColumnCopies


class TableStructure(FileStructure):
    """The arrangement of rows in an engine's table: columns that a check needs are brought beside the training rows."""

    def __init__(self, copies: ColumnCopies, sealed: SealedFiles) -> None:
        self._sealed, self._copies, self._connection = sealed, copies, copies.connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Its maker closes it."""

    def lacking(self) -> tuple[frozenset[str], frozenset[str]]:
        """See `FileStructure`; what training rows of a table lack that were not copied is told as of sealed ones."""
        sides = self._copies.sides
        somewhere = frozenset[str]().union(*(side.lacking() for side in sides.values()))
        if not self.training_rows or "training" not in sides:
            return somewhere, self._lacking("training") if self.training_rows else frozenset()
        self._bring(*sorted(somewhere))
        return somewhere, self._lacking("training", somewhere)

    def group_sizes(self, column: str) -> dict[int, int]:
        """See `FileStructure`; the engine counts."""
        self._ids(column)
        engine, of = self._copies.engine, self._copies.engine.dialect
        sizes = f"SELECT count(*) AS size FROM {engine.source} AS {of.rows} GROUP BY {of.column(column)}"
        found = engine.rows(f"SELECT size, count(*) AS number FROM ({sizes}) AS sizes GROUP BY size")
        return {int(size): int(number) for size, number in sorted(found)}

    def apart(self) -> frozenset[str]:
        """See `FileStructure`; of a long table only columns that could be ids of groups of training rows."""
        self._copies.bring_some()
        some = [column for column in self._copies.comparable if is_apart(self._tables, column)]
        if self._copies.all_whole:
            return frozenset(some)
        return frozenset(column for column in list(filter(self._repeats, some)) if self._still_apart(column))

    def _repeats(self, column: str) -> bool:
        """True if two training rows have the same value of a column."""
        if (side := self._copies.sides.get("training")) is not None:
            return side.different(column) < side.rows - side.missing(column)
        name = quoted(column)
        return self._tables.count(f"SELECT count({name}) - count(DISTINCT {name}) FROM training") > 0

    def _still_apart(self, column: str) -> bool:
        """True if a column that is apart in a sample of the rows is apart in all of them."""
        self._copies.distinct(column)
        return is_apart(self._tables, column)

    def whole_groups(self, apart: Collection[str], declared: Sequence[str]) -> tuple[str, ...]:
        """See `FileStructure`; of rows that are not all beside everhold nothing is said."""
        if not self._copies.all_whole or not self.training_rows:
            return ()
        self._bring(*apart, *declared[:1])
        return super().whole_groups(apart, declared)

    def series(self, order_by: str, *, within: str | None) -> SeriesFacts:
        """See `FileStructure`."""
        self._bring(order_by, *([] if within is None else [within]))
        return super().series(order_by, within=within)

    def _column(self, column: str) -> str:
        self._bring(column)
        return super()._column(column)

    def _bring(self, *columns: str) -> None:
        if all(column in self._sealed.columns for column in columns):  # else it is said elsewhere that they are not
            self._copies.bring(columns)
