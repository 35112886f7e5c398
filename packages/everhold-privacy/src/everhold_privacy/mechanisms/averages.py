"""Mechanisms that answer with the bare average: all rows at once, or fresh rows for every query."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from everhold.dependence import Independent
from everhold.errors import DependenceError
from everhold.guarantees.description_length import hoeffding_radius
from everhold.guarantees.intervals.means import OfMeans
from everhold.mechanisms.base import Mechanism, Promise, Replies, Source, State, Traits
from everhold.mechanisms.records import Presentation

if TYPE_CHECKING:
    from everhold.guarantees.intervals.base import Procedure
    from everhold.mechanisms.records import Evaluations
    from everhold.randomness import Noise


_NO_NOISE = "no noise is added to the answers"


@dataclass(frozen=True, kw_only=True)
class BareAverage(Mechanism):
    """Base of mechanisms that answer with the average of the query's part of the rows, without noise."""

    traits: ClassVar[Traits] = Traits(adds_noise=False)

    @classmethod
    def tuned(cls, *, rows: int, queries: int, confidence: float = 0.95, **shared: Any) -> Self:
        """Return the mechanism for this number of rows and queries. It has no parameter to tune."""
        return cls(rows=rows, queries=queries, confidence=confidence, **shared)

    @property
    def _log_inverse_level(self) -> float:
        return math.log(self.queries / self.beta)

    def _on_part(self, procedure: Procedure, rows: int) -> Procedure:
        """Return an interval procedure adapted to one part with this many rows."""
        if self.parts == 1:
            return procedure
        return replace(procedure if isinstance(procedure, OfMeans) else self.procedure, rows=float(rows))

    @property
    def _rows_per_answer(self) -> int:
        return self.rows // self.parts

    def answer_many(self, state: State, evaluations: Evaluations, noise: Noise) -> tuple[State, Replies]:
        """Answer a batch with the averages themselves, until the planned queries are used up."""
        count = min(len(evaluations), self.queries - state.asked)
        replies = Replies.refused(len(evaluations))
        parts = (state.asked + np.arange(count)) % self.parts
        sizes = (self.rows - parts + self.parts - 1) // self.parts  # row i belongs to part i modulo the number of parts
        values = evaluations.totals[np.arange(count), parts] / (sizes * float(self.unit))
        procedures = list(map(self._on_part, self.procedures_of(evaluations), sizes.tolist()))
        interval = self.not_excluded(procedures, values, values, np.full(count, self._log_inverse_level))
        replies.put(slice(0, count), values, interval, Source.HOLDOUT)
        return state.after(asked=count, charged=count), replies

    def promise(self) -> Promise:
        """Return the promise that follows from one two-sided Hoeffding bound for each planned query."""
        rows = self.effective_rows(self._rows_per_answer)
        radius = float(hoeffding_radius(rows=rows, log_inverse_level=self._log_inverse_level))
        return self._promised(radius + self.rounding, {"rows_per_answer": float(self._rows_per_answer)})


@dataclass(frozen=True, kw_only=True)
class Empirical(BareAverage):
    """Mechanism that answers with plain averages of the sealed rows, without protection against adaptive queries.

    Its intervals hold if all queries were fixed in advance. Adaptive queries break them (Statement P9 of docs/theory).

    Examples:
        >>> round(Empirical(rows=20_000, queries=10).promise().radius, 4)
        0.0122
    """

    name: ClassVar[str] = "empirical"
    statement: ClassVar[str] = "P9"
    presentation: ClassVar[Presentation] = Presentation(
        no_privacy=_NO_NOISE,
        page="concentration",
        colour="#24292f",
        explanation=(
            "Each answer is the bare average over all sealed rows. Nothing protects it from queries that were "
            "chosen after an answer was seen. Every query is charged."
        ),
        theorem=(
            "For a query fixed in advance, the average over n rows is further than sqrt(ln(2 m / beta) / (2 "
            "n)) from the population's value with probability at most beta / m, where m is the number of "
            "queries. So with probability at least 1 - beta all of them are within it. It says nothing about a "
            "query that was chosen after an answer was seen."
        ),
        sentence=(
            "If all queries were fixed before the first answer was seen, every one of up to {answers} is {reach}, "
            "all of them at once, {holds}. Otherwise nothing is promised."
        ),
        note="only for queries fixed in advance",
        legend="queries fixed in advance",
    )
    traits: ClassVar[Traits] = replace(BareAverage.traits, adaptive=False)

    def assumptions(self) -> tuple[str, ...]:
        """Return the promise's assumptions as sentences: those about rows, and that queries were fixed in advance."""
        fixed = "all queries were fixed before the first answer was seen, and nothing is promised to anyone who adapts"
        return (*super().assumptions(), fixed)


@dataclass(frozen=True, kw_only=True)
class SampleSplitting(BareAverage):
    """Mechanism that uses fresh rows for every one of m queries: row i serves query i modulo m.

    Its promise is Statement S3 of docs/theory.

    It needs rows of one law (independent and identically distributed): a part has the same expected average as all rows
    only if all rows have the same law, and if the query asks the same of every row. So predictions by position are
    refused, and the mechanism is neither the default nor recommended. Parts that are drawn at random would not solve
    this, because answers reveal which rows were used and which are left (docs/theory, description length).

    Examples:
        >>> round(SampleSplitting(rows=20_000, queries=10).promise().radius, 4)
        0.0387
    """

    name: ClassVar[str] = "sample_splitting"
    statement: ClassVar[str] = "S3"
    presentation: ClassVar[Presentation] = Presentation(
        no_privacy=_NO_NOISE,
        page="description length",
        colour="#cc79a7",
        explanation=(
            "The sealed rows are split by their order into as many parts as queries were planned. Each answer "
            "is the average over a part that no other query touches. Predictions as arrays or files are "
            "refused, because no part stands for the whole then. Every query is charged."
        ),
        theorem=(
            "All rows are of one law, and each query is answered from rows that had no part in choosing it. "
            "For such a query the average over its rows is further than sqrt(ln(2 m / beta) / (2 k)) from the "
            "population's value with probability at most beta / m, where m is the number of queries and k the "
            "number of rows for each. So with probability at least 1 - beta all are within it."
        ),
        note="only for rows of one law",
    )
    traits: ClassVar[Traits] = replace(BareAverage.traits, one_law=True, independent_rows=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.dependence, Independent):
            raise DependenceError(
                "Sample splitting needs independent rows, and these are declared as "
                f"{self.dependence.to_dict()['kind']!r}. Choose another mechanism."
            )
        if self.queries > self.rows:
            raise ValueError(
                f"queries is {self.queries} and rows is {self.rows}, and each query needs at least one row of its "
                "own. Plan for fewer queries or choose another mechanism."
            )

    @cached_property
    def parts(self) -> int:
        """Number of parts into which the sealed rows are divided: one for each planned query."""
        return self.queries

    def assumptions(self) -> tuple[str, ...]:
        """Return the assumptions of the promise as sentences: rows are independent and identically distributed."""
        return (*super().assumptions(), "the sealed rows are of one law (independent and identically distributed)")
