"""Statistics of all rows that are bought from a privacy budget: one draw of noise (S1 for low sensitivity)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.answers import Answer
from everhold.errors import QueryRejected
from everhold.queries.statistic import Statistic, StatisticGrid, StatisticQuery, check_rows
from everhold.values.base import Clip, clips_in_words
from everhold_privacy.mechanisms.privacy_budget import largest_scale, release
from everhold_privacy.queries.priced import MechanismResult, Price, PricedQuery, Purchase, paying

if TYPE_CHECKING:
    from everhold.mechanisms import State
    from everhold.queries.query import QueryPlan
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.randomness import Noise
    from everhold.sealing.rows.table import StoredRows
    from everhold_privacy.mechanisms.privacy_budget import PrivacyBudget


def bought(
    query: StatisticQuery, compiler: QueryCompiler, *, guess: float | None = None, tolerance: float | None = None
) -> QueryPlan[Answer]:
    """The query as one draw of the privacy budget."""
    return _PricedStatistic(query).compile(compiler, guess=guess, tolerance=tolerance)


@dataclass(frozen=True, slots=True)
class _PricedStatistic(PricedQuery[Answer]):
    query: StatisticQuery

    def purchase(self, compiler: QueryCompiler) -> StatisticPurchase:
        """The statistic with what it costs."""
        mechanism, statistic = paying(compiler.mechanism), self.query.bound_to(compiler)
        check_rows(statistic, mechanism, groups=False)
        scale = mechanism.scale
        if self.query.tolerance is not None:
            statistic = replace(
                statistic, described={**statistic.described, "tolerance": float(self.query.tolerance)},
                shown=f"{statistic.shown}, within {self.query.tolerance:g}",
            )  # fmt: skip
            try:
                scale = largest_scale(
                    mechanism, float(self.query.tolerance), lambda scale: half_width(statistic.grid, mechanism, scale)
                )
            except ValueError as reason:
                raise QueryRejected(f"{reason}") from None
        self.query.check(compiler)
        return StatisticPurchase(statistic, scale, statistic.clips(compiler.schema.training_rows))


@dataclass(frozen=True, slots=True)
class StatisticPurchase(Purchase[int, Answer]):
    """A statistic that is ready to be asked for.

    Attributes:
        scale: Noise scale, in the units of a mean.
        clips: What counts as an end of its range.
    """

    statistic: Statistic
    scale: float
    clips: Sequence[Clip] = ()

    @property
    def description(self) -> dict[str, Any]:
        """Public and canonical."""
        return dict(self.statistic.described)

    @property
    def shown(self) -> str:
        """The query as people read it."""
        return self.statistic.shown

    @property
    def by_position(self) -> bool:
        """True if it is about predictions as arrays."""
        return self.statistic.by_position

    def price(self, mechanism: PrivacyBudget) -> Price:
        """Its credits, and the half-width in its units."""
        return Price(mechanism.credits_for(self.scale), half_width(self.statistic.grid, mechanism, self.scale))

    def evaluate(self, sealed: StoredRows, unit: int) -> int:
        """Its position on the grid."""
        return self.statistic.grid.position(self.statistic.evaluate(sealed))

    def answer(self, mechanism: PrivacyBudget, state: State, seen: int, noise: Noise) -> MechanismResult:
        """The position plus noise (S1 for low sensitivity), as a share of the range."""
        share = self.statistic.grid.share
        after, drawn = release(mechanism, state, np.array([seen], dtype=np.int64), noise, scale=self.scale)
        if drawn is None:
            return MechanismResult.refused(state)
        value = float(int(drawn[0]) * share)
        within = math.nextafter(mechanism.radius_at(self.scale) * float(mechanism.steps * share), math.inf)
        ends = (min(max(end, 0.0), 1.0) for end in (value, value - within - 1e-15, value + within + 1e-15))
        answer = {**dict(zip(("value", "low", "high"), ends, strict=True)), "source": "holdout", "within": within}
        return MechanismResult(after, answer, after.charged - state.charged)

    def result(self, answer: Mapping[str, Any], **paid: Any) -> Answer:
        """The answer in the statistic's units."""
        grid = self.statistic.grid
        value, low, high = (None if answer[end] is None else grid.at(answer[end]) for end in ("value", "low", "high"))
        if low is not None and high is not None:  # rounded outwards
            low, high = max(math.nextafter(low, -math.inf), grid.low), min(math.nextafter(high, math.inf), grid.high)
        clipped = clips_in_words(self.clips)
        return Answer(
            value=value, low=low, high=high, source=answer["source"], statement="S1", clipped=clipped, **paid
        )  # fmt: skip


def half_width(grid: StatisticGrid, mechanism: PrivacyBudget, scale: float) -> float:
    """``n Delta`` times the half-width of a mean, in the statistic's units."""
    return math.nextafter(mechanism.radius_at(scale) * float(mechanism.steps * grid.step), math.inf)
