"""The chosen candidate against every other one, pair by pair: only rows on which both differ spread."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.guarantees.intervals.base import CELLS, Cells, GroupSums
from everhold.guarantees.intervals.bets.betting import Bets, Betting
from everhold.guarantees.intervals.bets.in_order import betting_on
from everhold.queries.means.batch import Prepared, RowwiseQuery
from everhold.queries.metrics.difference import DifferenceQuery
from everhold.queries.selection.candidates import SealedValues, evaluate_sealed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Needs, Procedure
    from everhold.mechanisms.guess_and_check import GuessAndCheck
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.sealing.rows.table import StoredRows
    from everhold.values.base import BoundQuery

LEAST_REGRET = 1e-6
"""Expected and told regrets are no smaller: a clear choice would be dear to tell to the last digit."""


@dataclass(frozen=True, eq=False)
class WinnerPairs:
    """Differences of the candidates of one choice; which ones are looked at is decided by the sealed rows.

    Every pair has its interval procedure by public facts, whichever candidate will be chosen.

    Attributes:
        compiler: What is known of the holdout, and its training rows.
        queries: The candidates.
        bound: The same for the holdout's rows.
    """

    compiler: QueryCompiler
    queries: Sequence[RowwiseQuery]
    bound: Sequence[BoundQuery]

    @classmethod
    def of(
        cls, compiler: QueryCompiler, queries: Sequence[RowwiseQuery], bound: Sequence[BoundQuery]
    ) -> WinnerPairs | None:
        """None where differences have no procedure that is as narrow as they spread."""
        dependence = compiler.mechanism.dependence
        known = dependence.independent or dependence.unit_column is not None
        slack = compiler.mechanism.parameters().get("slack")
        return cls(compiler, queries, bound) if known and not slack else None

    @property
    def mechanism(self) -> GuessAndCheck:
        """The mechanism that answers."""
        return self.compiler.mechanism  # type: ignore[return-value]  # checked by `checks_guesses`

    def _prepared(self, one: int) -> list[Prepared]:
        """The differences of all others and one candidate."""
        differences = [
            DifferenceQuery(self.queries[other], self.queries[one]).combined(self.bound[other], self.bound[one])
            for other in range(len(self.bound)) if other != one
        ]  # fmt: skip
        needs: Needs = "cells" if self.mechanism.dependence.independent else "groups"
        seen = [self._nothing(needs)] * len(differences)
        training = self.compiler.training
        if training is not None and all(each.trained for each in differences):
            rows, group_by = training.counting(differences[0]), self.mechanism.dependence.unit_column
            _, seen = rows.evaluate(
                differences, [needs] * len(differences), group_by=group_by, unit=self.mechanism.unit
            )
        return [
            Prepared(bound, -1, from_training=False, procedure=self._procedure(needs, spread))
            for bound, spread in zip(differences, seen, strict=True)
        ]

    def _procedure(self, needs: Needs, training: Any) -> Procedure:
        if needs == "cells":
            return Betting(rows=self.mechanism.rows, training=training)
        units = self.mechanism.dependence
        return betting_on(in_order=units.assumes_no_law)(sizes=units.unit_counts, training=training)

    def _nothing(self, needs: Needs) -> Any:
        """An empty summary, for a spread without training rows."""
        unit, none = self.mechanism.unit, np.zeros(0, dtype=np.int64)
        if needs == "cells":
            zeros = np.zeros(CELLS, dtype=np.int64)
            return Cells(zeros, zeros, unit)
        return GroupSums(none, none, none, unit)

    def evaluate(self, sealed: StoredRows, one: int) -> PairsOfOne:
        """The differences of one candidate and their sealed values; secret."""
        prepared = self._prepared(one)
        return PairsOfOne(one, prepared, evaluate_sealed(prepared, sealed, self.compiler.schema, self.mechanism))

    def largest(self, pairs: PairsOfOne, nats: float, *, lowest: bool) -> float:
        """The most by which any other candidate is better than one, in units of a mean (Lemma M).

        Only the largest limit is told, so a pair whose limit one test shows to be smaller is not looked at further.

        Args:
            pairs: What `look` returned of the candidate.
            nats: ln(1 / level) of a two-sided procedure.
            lowest: Whether lower values are better.
        """
        middles = [_better(each.bound, mean, mean, lowest=lowest) for each, mean in pairs.means]
        best, rounding = -math.inf, self.mechanism.rounding
        for place in np.argsort(middles)[::-1].tolist():  # mostly one of the first has the largest limit
            bound, procedure, seen = pairs.prepared[place].bound, pairs.procedures[place], pairs.sealed.seen[place]
            assert isinstance(procedure, Bets)
            upper = (bound.at_one > bound.at_zero) != lowest
            outwards = rounding if upper else -rounding
            known = None if math.isinf(best) else _end_of(bound, best, lowest=lowest) - outwards
            end = procedure.farthest_end(seen, nats, upper=upper, known=known)
            if end is not None:  # beyond all before it
                end = min(max(end + outwards, 0.0), 1.0)
                best = max(best, _better(bound, end, end, lowest=lowest))
        return best

    def expected(self, pairs: PairsOfOne, goodness: NDArray[np.float64], nats: float, *, lowest: bool) -> float:
        """The expected value of `largest`, from the other candidate that is the best on training rows."""
        others = np.delete(goodness, pairs.one)
        if np.all(np.isnan(others)):
            return math.inf
        rival = int(np.nanargmax(others))
        procedure = pairs.procedures[rival]
        middle = procedure.prediction.mean  # type: ignore[attr-defined]  # of bets
        return max(_better(pairs.prepared[rival].bound, *procedure.expected(middle, nats), lowest=lowest), LEAST_REGRET)


@dataclass(frozen=True, slots=True, eq=False)
class PairsOfOne:
    """The differences of all other candidates and one; the sealed values are secret.

    Attributes:
        prepared: The differences, in the order of the others.
    """

    one: int
    prepared: Sequence[Prepared]
    sealed: SealedValues

    @property
    def means(self) -> list[tuple[Prepared, float]]:
        """Each difference with its sealed mean."""
        return list(zip(self.prepared, self.sealed.means.tolist(), strict=True))

    @property
    def procedures(self) -> list[Procedure]:
        """The interval procedures."""
        return [each.procedure for each in self.prepared if each.procedure is not None]


def _better(bound: BoundQuery, low: float, high: float, *, lowest: bool) -> float:
    """The most by which the other candidate is better, as a share of the candidates' range."""
    ends = [bound.at_zero + (bound.at_one - bound.at_zero) * end for end in (low, high)]
    width = abs(bound.at_one - bound.at_zero) / 2.0
    return (-min(ends) if lowest else max(ends)) / width


def _end_of(bound: BoundQuery, better: float, *, lowest: bool) -> float:
    """The inverse of `_better`: the end, as a mean, at which the other candidate is so much better."""
    value = better * abs(bound.at_one - bound.at_zero) / 2.0
    return ((-value if lowest else value) - bound.at_zero) / (bound.at_one - bound.at_zero)
