"""Are the values of one question worth as many rows as is promised? Asked of the training rows before any charge."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from everhold.dependence.stretches import stretch_of_rows, wandering_of_means
from everhold.diagnosis.columns import OpenFile
from everhold.diagnosis.orders import is_order
from everhold.errors import DependenceError, DependenceWarning, warn_caller

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everhold.mechanisms import Mechanism
    from everhold.sealing.table import StoredRows
    from everhold.values.base import BoundQuery

__all__ = ["QuestionWorth", "Watch", "warn_of_questions"]

_LEVEL = 5e-3  # of a false alarm on independent rows, all questions of a plan and all orders together
_MOST_ORDERS = 4  # besides the one that is declared, or that of the file
_MOST_ROWS = 100_000  # by which it is judged whether a column is an order


@dataclass(frozen=True, slots=True)
class QuestionWorth:
    """What the training rows say about one question.

    Attributes:
        rows: Number of training rows.
        worth: How many independent rows the average of the question's values is worth, about.
        promised: How many it is worth as the rows are declared.
        stretch: So many rows in a row are surely worth one.
        p_value: Chance of as much where rows are worth what is promised.
        order_by: The column in whose order that shows; None for the order that is declared, or that of the file.
    """

    rows: int
    worth: float
    promised: float
    stretch: int
    p_value: float
    order_by: str | None = None


@dataclass(frozen=True, slots=True)
class Watch:
    """Holds the values of questions on the training rows against what is declared.

    Attributes:
        order_by: Columns that put the training rows in the declared order; none for the order of the file.
        rows_for_one: How many rows are worth one as they are declared; None where no average is bounded.
    """

    order_by: tuple[str, ...]
    rows_for_one: float | None

    @classmethod
    def of(cls, mechanism: Mechanism) -> Watch:
        """For the dependence of a mechanism; computed once."""
        return _watch(mechanism)

    def told(
        self, training: StoredRows, bound: Sequence[BoundQuery], sums: NDArray[np.int64], *, label: str | None,
        unit: int, questions: int,
    ) -> list[QuestionWorth | None]:  # fmt: skip
        """What is worth a warning in the declared order, or that of the file, and in those that columns name.

        An expression is not judged in the order of a column that it reads: sorted by it, any rows look alike.

        Args:
            training: The training rows.
            bound: Questions that can be evaluated on them.
            sums: Over stretches of training rows in the order of `order_by`, shape (questions, stretches).
            label: The label, which is no order.
            unit: Grid steps between 0 and 1.
            questions: How many are planned; each has its share of the level.
        """
        columns = [] if self.rows_for_one is None else self.others(training, label)
        share = questions * (1 + len(columns))
        clearest = self.seen(sums, rows=training.rows, unit=unit, questions=share)
        for column in columns:
            again = training.stretch_totals(bound, order_by=(column,), unit=unit)
            found = self.seen(again, rows=training.rows, unit=unit, questions=share)
            for place, (question, worth) in enumerate(zip(bound, found, strict=True)):
                known = clearest[place]
                if worth is None or (question.row_value is not None and column in (question.columns or ())):
                    continue
                if known is None or worth.p_value < known.p_value:
                    clearest[place] = replace(worth, order_by=column)
        return clearest

    def others(self, training: StoredRows, label: str | None) -> list[str]:
        """Columns that put the training rows in another order; decided once, by these rows alone."""
        if training not in _orders:
            _orders[training] = _order_columns(training, label)
        known = {label, *self.order_by}
        found = [name for name in _orders[training] if name not in known and not training.is_in_order(name)]
        return found[:_MOST_ORDERS]

    def seen(self, sums: NDArray[np.int64], *, rows: int, unit: int, questions: int) -> list[QuestionWorth | None]:
        """What is worth a warning, one entry for each question.

        Args:
            sums: Over stretches of training rows, in grid units, shape (questions, stretches).
            rows: Number of training rows.
            unit: Grid steps between 0 and 1.
            questions: How many are planned; each has its share of the level.
        """
        if self.rows_for_one is None:
            return [None] * len(sums)
        sizes = np.bincount(stretch_of_rows(rows))
        found = wandering_of_means(sums / unit, sizes, promised=self.rows_for_one)
        return [
            QuestionWorth(rows, rows / max(effect, 1.0), rows / self.rows_for_one, math.ceil(at_most), p_value)
            if p_value <= _LEVEL / questions
            else None
            for p_value, effect, at_most in zip(
                found.p_values.tolist(), found.design_effects.tolist(), found.at_most.tolist(), strict=True
            )
        ]


_orders: WeakKeyDictionary[StoredRows, tuple[str, ...]] = WeakKeyDictionary()


def _order_columns(training: StoredRows, label: str | None) -> tuple[str, ...]:
    """Columns of times, and of numbers that count the rows, with a value in every row, as `is_order` judges them."""
    with OpenFile(training.path, label=label) as file:
        rows = file.first(_MOST_ROWS, ("time", "whole"))
    return tuple(column.name for column in rows.columns if is_order(column) and bool(np.all(column.ranks >= 0)))


@lru_cache(maxsize=64)
def _watch(mechanism: Mechanism) -> Watch:
    try:
        rows_for_one = mechanism.rows / mechanism.dependence.concentration(mechanism.rows)
    except DependenceError:
        rows_for_one = None
    return Watch(mechanism.dependence.sorting_columns, rows_for_one)


def warn_of_questions(found: Sequence[tuple[str, QuestionWorth]]) -> None:
    """Warn of questions whose values on the training rows are worth less than is promised.

    Args:
        found: Questions as people read them, with what was found.
    """
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
