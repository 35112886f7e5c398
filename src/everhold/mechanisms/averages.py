"""Mechanisms that answer with the bare average: all rows at once, or fresh rows for every question."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from everhold.dependence import Independent
from everhold.errors import DependenceError
from everhold.guarantees.concentration import hoeffding_radius
from everhold.mechanisms.base import Mechanism, Promise, Replies, Source, State

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.privacy.noise import Noise
    from everhold.values.evaluation import Evaluations

__all__ = ["Empirical", "SampleSplitting"]


@dataclass(frozen=True, kw_only=True)
class BareAverage(Mechanism):
    """Common steps: the average of the question's part of the rows, nothing added."""

    @classmethod
    def tuned(cls, *, rows: int, queries: int, confidence: float = 0.95, **shared: Any) -> Self:
        """The mechanism for a wish; it has nothing to tune."""
        return cls(rows=rows, queries=queries, confidence=confidence, **shared)

    @property
    def _log_inverse_level(self) -> float:
        return math.log(self.queries / self.beta)

    def answer_many(self, state: State, evaluations: Evaluations, noise: Noise) -> tuple[State, Replies]:
        """The averages themselves, until the planned number of questions is used up."""
        count = min(len(evaluations), self.queries - state.asked)
        replies = Replies.refused(len(evaluations))
        values = self._averages(state, evaluations, count)
        interval = self.not_excluded(
            values, values, rows=self._rows_per_answer, log_inverse_level=self._log_inverse_level
        )
        replies.put(slice(0, count), values, interval, Source.HOLDOUT)
        return replace(state, asked=state.asked + count, overfits=state.overfits + count), replies

    @property
    def _rows_per_answer(self) -> int:
        return self.rows // self.parts

    def _averages(self, state: State, evaluations: Evaluations, count: int) -> NDArray[np.float64]:
        parts = (state.asked + np.arange(count)) % self.parts
        sizes = (self.rows - parts + self.parts - 1) // self.parts  # row i belongs to part i modulo the number of parts
        return evaluations.totals[np.arange(count), parts] / (sizes * float(self.unit))

    def promise(self) -> Promise:
        """The union of one two-sided bound per question."""
        radius = float(
            hoeffding_radius(rows=self.effective_rows(self._rows_per_answer), log_inverse_level=self._log_inverse_level)
        )
        return Promise(
            statement=self._statement,
            radius=radius + self.rounding,
            confidence=self.confidence,
            assumptions=self._assumptions(),
            details={"rows_per_answer": float(self._rows_per_answer)},
        )

    _statement: ClassVar[str]

    def _assumptions(self) -> tuple[str, ...]:
        return (self.dependence.describe(),)


@dataclass(frozen=True, kw_only=True)
class Empirical(BareAverage):
    """The bare holdout: right for questions fixed in advance, and the baseline that adaptive use breaks (P9).

    Examples:
        >>> round(Empirical(rows=20_000, queries=10).promise().radius, 4)
        0.0122
    """

    name: ClassVar[str] = "empirical"
    adaptive: ClassVar[bool] = False
    _statement: ClassVar[str] = "P9"

    def _assumptions(self) -> tuple[str, ...]:
        return (
            *super()._assumptions(),
            "all questions were fixed before the first answer was seen; nothing is promised to anyone who adapts",
        )


@dataclass(frozen=True, kw_only=True)
class SampleSplitting(BareAverage):
    """Fresh rows for every question: row i serves question i modulo m (S3 with one node per question).

    It needs rows of one law (independent and identically distributed): a part stands for the whole only if no row is
    unlike the others, in its law or in what is asked of it. So predictions by position are refused, and it is neither
    taken by default nor recommended. Parts drawn at random would not do either: answers tell which rows served, and so
    which are left (docs/theory, description length).

    Examples:
        >>> round(SampleSplitting(rows=20_000, queries=10).promise().radius, 4)
        0.0387
    """

    name: ClassVar[str] = "sample_splitting"
    one_law: ClassVar[bool] = True
    _statement: ClassVar[str] = "S3"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.dependence, Independent):
            raise DependenceError(
                "sample splitting needs independent rows and these are declared as "
                f"{self.dependence.to_dict()['kind']!r}; parts of rows that depend on each other would tell about the "
                "parts to come; expected independent rows; choose another mechanism"
            )
        if self.queries > self.rows:
            raise ValueError(
                f"queries is {self.queries} and rows is {self.rows}; expected at least one row per question; "
                "ask fewer questions or choose another mechanism"
            )

    @property
    def parts(self) -> int:
        """One part for each planned question."""
        return self.queries

    def _assumptions(self) -> tuple[str, ...]:
        return (
            *super()._assumptions(),
            "the sealed rows are of one law (independent and identically distributed)",
        )
