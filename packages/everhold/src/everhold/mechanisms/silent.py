"""Silent: nothing is told before the study is unsealed, so no query can depend on an answer (S8)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from everhold.arguments import as_whole, brief
from everhold.guarantees.description_length import hoeffding_radius
from everhold.guarantees.intervals.means import ClopperPearson, Hoeffding
from everhold.mechanisms.accounting import Accounting, NothingCharged
from everhold.mechanisms.base import REFUSED, Mechanism, Promise, Quote, Replies, Source, State, Traits
from everhold.mechanisms.public_levels import bets_on_groups
from everhold.mechanisms.records import Evaluations, Presentation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.randomness import Noise


@dataclass(frozen=True, kw_only=True)
class Silent(Mechanism):
    """Mechanism that tells nothing before the unsealing, so that no surprise has to be paid for (S8).

    The first queries, such as the scores of a leaderboard, share half of the probability of failure. All other
    queries, such as the comparisons of its teams, share the other half.

    Attributes:
        first: Number of queries that share the first half; 0 if all queries have equal parts.

    Examples:
        >>> mechanism = Silent(rows=10_000, queries=50 + 1_225, first=50)
        >>> scores, comparisons = np.exp(-mechanism.nats([50, 51]))
        >>> round(0.05 / scores), round(0.05 / comparisons)
        (100, 2450)
    """

    first: int = 0

    name: ClassVar[str] = "silent"
    statement: ClassVar[str] = "S8"
    presentation: ClassVar[Presentation] = Presentation(
        page="intervals",
        colour="#5b6770",
        explanation=(
            "Queries are only registered: nothing is told of any of them before the study is unsealed, not even "
            "whether a guess was right. Then all of them are answered with what the sealed rows say, and the "
            "study is closed. Where scores were planned to come first, they share one half of the probability of "
            "failure, and all other queries share the other half."
        ),
        theorem=(
            "As nothing is told before the end, no query can depend on what the sealed rows say: all queries "
            "are fixed, and each of them is known by its number. Each number has its share of the probability of "
            "failure, beta, and an interval procedure that misses the population's value of one fixed query "
            "with at most that probability. The shares sum to at most beta. So with probability at least 1 - beta "
            "no interval that is unsealed misses."
        ),
        sentence=(
            "Nothing is told before the study is unsealed. Then every one of up to {answers} is {reach}, all of them "
            "at once, {holds}."
        ),
        no_privacy="no noise is added to what is unsealed",
        note="nothing is told before the end",
    )
    traits: ClassVar[Traits] = Traits(adds_noise=False, unsealable=True, only_silent=True, sources=(), most_charged=0)
    accounting: ClassVar[type[Accounting[Any]]] = NothingCharged
    largest: ClassVar[Mapping[str, int]] = {**Mechanism.largest, "first": 10**9}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= (-1 if (number := as_whole(self.first)) is None else number) <= self.queries:
            raise ValueError(
                f"first is {brief(self.first)}. Pass a whole number from 0 to {self.queries}, the number of queries."
            )

    @classmethod
    def recommendable(cls) -> bool:
        """Return False, because analysts expect answers."""
        return False

    @classmethod
    def tuned(cls, *, rows: int, queries: int, confidence: float = 0.95, **shared: Any) -> Self:
        """Return the mechanism for a request. Nothing is tuned. See `Mechanism.tuned`."""
        return cls(rows=rows, queries=queries, confidence=confidence, **shared)

    def with_first(self, number: int) -> Self:
        """Return the mechanism with half of the failure probability for the first ``number`` queries."""
        return replace(self, first=number)

    def nats(self, asked: ArrayLike) -> NDArray[np.float64]:
        """Return ln(1 / level) of query number ``asked``, from 1 to the planned number, shape (...)."""
        later = self.queries - self.first
        first, others = (2.0 * self.first, 2.0 * later) if self.first and later else (self.queries, self.queries)
        return np.log(np.where(np.asarray(asked) <= self.first, first, others)) - math.log(self.beta)

    def answer_many(self, state: State, evaluations: Evaluations, noise: Noise) -> tuple[State, Replies]:
        """Store the intervals of silent queries until the unsealing. Other queries, or too many, are refused."""
        replies = Replies.refused(len(evaluations))
        count = self.surely_answers(state, len(evaluations), silent=evaluations.silent)
        nats = self.nats(state.asked + 1 + np.arange(count))
        for place, procedure in enumerate(self.procedures_of(evaluations)[:count]):
            mean = int(evaluations.totals[place].sum()) / self.steps
            low, high = procedure.interval(evaluations.summary(place, procedure, mean), float(nats[place]))
            replies.sealed[place] = np.clip([mean, low - self.rounding, high + self.rounding], 0.0, 1.0)
        replies.procedures[:count] = self.procedures_of(evaluations)[:count]
        replies.nats[:count], replies.sources[:count] = nats, Source.SILENT
        return state.after(asked=count, charged=0), replies

    def in_force(self, procedure: Procedure) -> Procedure:
        """Return the procedure unchanged."""
        return procedure

    @cached_property
    def _widest(self) -> float:
        """Half-width of the planned query with the smallest level, for values of unknown spread."""
        nats = self.nats([1, self.queries]).max()
        return float(hoeffding_radius(rows=self.effective_rows(self.rows), log_inverse_level=nats))

    def promise(self) -> Promise:
        """Return the promise that the intervals of all planned queries hold at once."""
        rows = self.effective_rows(self.rows)
        scores = float(hoeffding_radius(rows=rows, log_inverse_level=float(self.nats(1)))) + self.rounding
        return self._promised(self._widest + self.rounding, {"first_queries": scores} if self.first else {})

    def expected_radius(self, at: float, alike: float | None = None) -> float:
        """Return the half-width that the first yes-or-no query is expected to have when it is unsealed."""
        rows, nats = self.effective_rows(self.rows), float(self.nats(1))
        kind = ClopperPearson if self.dependence.independent else Hoeffding
        bets = bets_on_groups(self, at, alike, training_rows=self.rows)
        low, high = (bets or kind(rows=rows, training=rows)).expected(at, nats)
        return (high - low) / 2.0 + self.rounding

    def surely_answers(
        self, state: State, most: int, procedures: Sequence[Procedure] | None = (), *, silent: bool = False
    ) -> int:
        """Return how many more silent queries the plan allows. It is 0 for queries that are not silent."""
        return min(most, max(self.queries - state.asked, 0)) if silent else 0

    def quote(self, state: State, *, guess: float | None = None, procedure: Procedure | None = None) -> Quote:
        """Return the quote of a silent query: it is free, and its interval is told at the unsealing."""
        if state.asked >= self.queries:
            return REFUSED
        nats = float(self.nats(state.asked + 1))
        reach = float(hoeffding_radius(rows=self.effective_rows(self.rows), log_inverse_level=nats)) + self.rounding
        return Quote(None, None, 0, 0, refused=False, radius_unsealed=reach)
