"""Bonferroni: every answer is the average, at the level beta / m, for queries fixed in advance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from everhold.guarantees.description_length import hoeffding_radius
from everhold.mechanisms import Mechanism, Promise, Replies, Source, State, Traits
from everhold.mechanisms.records import Evaluations, Presentation
from everhold.randomness import Noise

__all__ = ["Bonferroni"]


@dataclass(frozen=True, kw_only=True)
class Bonferroni(Mechanism):
    """The bare average of up to m queries that were all fixed before the first answer was seen."""

    name: ClassVar[str] = "bonferroni"
    statement: ClassVar[str] = "P9"
    presentation: ClassVar[Presentation] = Presentation(
        page="concentration",
        colour="#332288",
        explanation="Each answer is the bare average over all sealed rows.",
        theorem="Each of m fixed queries misses with probability at most beta / m, so any with beta.",
        sentence=("If all queries were fixed in advance, each of up to {answers} is {reach}, all at once, {holds}."),
        no_privacy="no noise is added to the answers",
        note="only for queries fixed in advance",
    )
    traits: ClassVar[Traits] = Traits(adaptive=False, adds_noise=False)

    @classmethod
    def tuned(cls, *, rows: int, queries: int, confidence: float = 0.95, **shared: Any) -> Bonferroni:
        """There is nothing to tune."""
        return cls(rows=rows, queries=queries, confidence=confidence, **shared)

    def answer_many(self, state: State, evaluations: Evaluations, noise: Noise) -> tuple[State, Replies]:
        """The averages, until the planned number of queries is used up."""
        count = min(len(evaluations), self.queries - state.asked)
        replies, values = Replies.refused(len(evaluations)), evaluations.totals[:count, 0] / self.steps
        procedures = self.procedures_of(evaluations)[:count]
        ends = self.not_excluded(procedures, values, values, np.full(count, math.log(self.queries / self.beta)))
        replies.put(slice(0, count), values, ends, Source.HOLDOUT)
        return state.after(asked=count, charged=count), replies

    def promise(self) -> Promise:
        """The union of one bound for each query (P9)."""
        rows, nats = self.effective_rows(self.rows), math.log(self.queries / self.beta)
        return self._promised(float(hoeffding_radius(rows=rows, log_inverse_level=nats)) + self.rounding, {})
