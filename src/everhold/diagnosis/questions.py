"""Are the values of one question worth as many rows as is promised? Asked of the training rows before any charge."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from everhold.dependence.stretches import stretch_of_rows, wandering_of_means
from everhold.diagnosis.orders import declared_columns
from everhold.errors import DependenceError, DependenceWarning, warn_caller

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everhold.mechanisms import Mechanism

__all__ = ["QuestionWorth", "Watch", "warn_of_questions"]

_LEVEL = 5e-3  # of a false alarm on independent rows, all questions of a plan together


@dataclass(frozen=True, slots=True)
class QuestionWorth:
    """What the training rows say about one question.

    Attributes:
        rows: Number of training rows.
        worth: How many independent rows the average of the question's values is worth, about.
        promised: How many it is worth as the rows are declared.
        stretch: So many rows in a row are surely worth one.
    """

    rows: int
    worth: float
    promised: float
    stretch: int


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
            QuestionWorth(rows, rows / max(effect, 1.0), rows / self.rows_for_one, math.ceil(at_most))
            if p_value <= _LEVEL / questions
            else None
            for p_value, effect, at_most in zip(
                found.p_values.tolist(), found.design_effects.tolist(), found.at_most.tolist(), strict=True
            )
        ]


@lru_cache(maxsize=64)
def _watch(mechanism: Mechanism) -> Watch:
    try:
        rows_for_one = mechanism.rows / mechanism.dependence.concentration(mechanism.rows)
    except DependenceError:
        rows_for_one = None
    return Watch(declared_columns(mechanism.dependence), rows_for_one)


def warn_of_questions(found: Sequence[tuple[str, QuestionWorth]]) -> None:
    """Warn of questions whose values on the training rows are worth less than is promised.

    Args:
        found: Questions as people read them, with what was found.
    """
    for shown, worth in found:
        text, for_shell = (_warning(shown, worth, advice) for advice in ("eh.Groups('stretch')", "--groups stretch"))
        warn_caller(DependenceWarning(text, for_shell=for_shell))


def _warning(shown: str, found: QuestionWorth, advice: str) -> str:
    return (
        f"the values of this question ({shown[:80]}) on the training rows are worth about {found.worth:,.0f} rows, and "
        f"the declared dependence promises {found.promised:,.0f}, so its interval is too narrow if the sealed rows are "
        "like these; nothing was charged yet; expected values that depend on each other as declared; seal rows with a "
        f"column that numbers stretches of at least {found.stretch:,} rows in a row and declare {advice}, or, if the "
        "rows were drawn independently and only sorted, shuffle them before they are sealed"
    )
