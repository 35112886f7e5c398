"""Are the values of one question worth as many rows as is promised? Asked of the training rows before any charge."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from everhold.dependence.stretches import sizes_of_stretches, wandering_of_means
from everhold.diagnosis.columns import OpenFile, is_order
from everhold.errors import DependenceError, DependenceWarning, warn_caller
from everhold.values.expressions import ColumnKind
from everhold.values.expressions.tree import Operation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from everhold.mechanisms import Mechanism
    from everhold.sealing.table import StoredRows
    from everhold.values.base import BoundQuery

__all__ = ["LEVEL", "QuestionWorth", "Watch", "warn_of_questions", "watch_over"]

LEVEL = 5e-3
"""Of a false alarm on independent rows, all questions of a plan and all orders together."""

_MOST_ORDERS = 4  # besides the one that is declared, or that of the file
_MOST_ROWS = 100_000  # by which it is judged whether a column is an order


@dataclass(frozen=True, slots=True)
class QuestionWorth:
    """How many independent training rows the average of a question is worth, and as how many they are declared.

    So many rows in a row as `stretch` says are surely worth one. `order_by` is the column in whose order that shows;
    None for the order that is declared, or that of the file.
    """

    worth: float
    promised: float
    stretch: int
    p_value: float
    order_by: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Watch:
    """Holds the values of questions on the training rows against what is declared.

    Attributes:
        rows: Number of training rows.
        order_by: Columns that put the training rows in the declared order; none for the order of the file.
        rows_for_one: How many rows are worth one as they are declared; None where no average is bounded.
        sizes: Rows of each stretch.
        others: Columns that put the training rows in another order.
    """

    rows: int
    order_by: tuple[str, ...]
    rows_for_one: float | None
    sizes: NDArray[np.int64]
    others: tuple[str, ...] = ()

    @classmethod
    def of(cls, mechanism: Mechanism, rows: int, others: tuple[str, ...] = ()) -> Watch:
        """For the dependence of a mechanism and so many training rows."""
        try:
            rows_for_one = mechanism.rows / mechanism.dependence.concentration(mechanism.rows)
        except DependenceError:
            rows_for_one = None
        return cls(rows, mechanism.dependence.sorting_columns, rows_for_one, sizes_of_stretches(rows), others)

    def look(
        self, training: StoredRows, bound: Sequence[BoundQuery], *, unit: int, plan: int
    ) -> tuple[NDArray[np.int64], dict[int, QuestionWorth]]:
        """Totals of questions over the training rows, and what is worth a warning, by the place of the question.

        That is looked for in the declared order, or that of the file, and in those that columns name. An expression is
        not judged in the order of a column that it reads: sorted by it, any rows look alike. One that reads a time is
        judged in the order of no column, because times and numbers of rows mostly rise together.

        Args:
            training: The training rows.
            bound: Questions that can be evaluated on them.
            unit: Grid steps between 0 and 1.
            plan: How many are planned; each has its share of the level.
        """
        sums = training.stretch_totals(bound, order_by=self.order_by, unit=unit)
        level = LEVEL / (plan * (1 + len(self.others)))
        clearest = dict(self.seen(sums, unit=unit, level=level))
        for column in self.others:
            again = training.stretch_totals(bound, order_by=(column,), unit=unit)
            for place, worth in self.seen(again, unit=unit, level=level, order_by=column):
                if not _reads(bound[place], column) and (
                    place not in clearest or worth.p_value < clearest[place].p_value
                ):
                    clearest[place] = worth
        return np.asarray(sums.sum(axis=1)), clearest

    def seen(
        self, sums: NDArray[np.int64], *, unit: int, level: float, order_by: str | None = None
    ) -> list[tuple[int, QuestionWorth]]:
        """Places of questions that are worth a warning, by sums over stretches, shape (questions, stretches)."""
        if self.rows_for_one is None:
            return []
        found, told = wandering_of_means(sums / unit, self.sizes, promised=self.rows_for_one), []
        for place in np.flatnonzero(found.p_values <= level).tolist():
            worth, promised = self.rows / max(float(found.design_effects[place]), 1.0), self.rows / self.rows_for_one
            stretch, p_value = math.ceil(found.at_most[place]), float(found.p_values[place])
            told.append((place, QuestionWorth(worth, promised, stretch, p_value, order_by)))
        return told


def _reads(bound: BoundQuery, column: str) -> bool:
    """Whether an expression reads a column, or a time."""
    nodes = () if bound.row_value is None else bound.row_value.expression.nodes
    read = [node for node in nodes if node.operation is Operation.COLUMN]
    return any(node.value == column or node.kind is ColumnKind.TIME for node in read)


_watches: WeakKeyDictionary[StoredRows, tuple[tuple[Mechanism, str | None], Watch]] = WeakKeyDictionary()


def watch_over(training: StoredRows, mechanism: Mechanism, label: str | None) -> Watch:
    """The watch of one holdout, made with its first question and kept as long as its training rows."""
    kept = _watches.get(training)
    if kept is None or kept[0] != (mechanism, label):
        plain = Watch.of(mechanism, training.rows)
        known = {label, *plain.order_by}
        others = [] if plain.rows_for_one is None else [
            name for name in _order_columns(training, label) if name not in known and not training.is_in_order(name)
        ]  # fmt: skip
        kept = _watches[training] = (mechanism, label), Watch.of(mechanism, training.rows, (*others[:_MOST_ORDERS],))
    return kept[1]


def _order_columns(training: StoredRows, label: str | None) -> Iterator[str]:
    """Columns of times, and of numbers that count the rows, with a value in every row, as `is_order` judges them."""
    if (path := training.engine.path) is None:  # rows elsewhere are in no order of their own
        return iter(())
    with OpenFile(path, label=label) as file:
        rows = file.first(_MOST_ROWS, ("time", "whole"))
    whole = (column for column in rows.columns if column.sorted_alike and bool(np.all(column.ranks >= 0)))
    return (column.name for column in whole if is_order(column))


def warn_of_questions(found: Sequence[tuple[str, QuestionWorth]]) -> None:
    """Warn of questions, as people read them, whose values on the training rows are worth less than is promised."""
    for shown, worth in found:
        text, for_shell = (_warning(shown, worth, advice) for advice in ("eh.Groups('stretch')", "--groups stretch"))
        warn_caller(DependenceWarning(text, for_shell=for_shell))


def _warning(shown: str, found: QuestionWorth, advice: str) -> str:
    ordered = "" if found.order_by is None else f", in the order of {found.order_by!r},"
    apart = (
        "if the rows were drawn independently and only sorted, shuffle them before they are sealed"
        if found.order_by is None
        else f"if {found.order_by!r} is only a property of rows that were drawn independently, silence "
        "DependenceWarning"
    )
    return (
        f"the values of this question ({shown[:80]}) on the training rows{ordered} are worth about {found.worth:,.0f} "
        f"rows, and the declared dependence promises {found.promised:,.0f}, so its interval is too narrow if the "
        "sealed rows are like these; nothing was charged yet; expected values that depend on each other as declared; "
        f"seal rows with a column that numbers stretches of at least {found.stretch:,} rows in a row and declare "
        f"{advice}, or, {apart}"
    )
