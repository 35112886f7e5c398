"""The difference of two arms in one query: bets on both arms at once (docs/theory/contrasts.md, Statement K).

Unit i, a row or a group of rows, has ``v`` rows and the sum ``u`` of row values in either arm: T for treated, C for
control. ``b`` and ``a`` are the claimed means of the arms. With public weights ``V``, a public stake s and

    x_i(a, b) = (u_T - b v_T) / V_T + (a v_C - u_C) / V_C,

the capital ``prod (1 + s x_i)`` is fair at the true pair. It falls in b and grows with a, and its logarithm is concave
in both. So the pairs that it excludes are a convex set, and the least ``b - a`` among the other pairs of a box lies at
one of a few corners.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from everhold.guarantees.intervals.bets.betting import refuse_larger, side_of
from everhold.guarantees.intervals.bets.capital import Units, doubt
from everhold.guarantees.intervals.bets.hedge import FRACTIONS
from everhold.guarantees.intervals.composites.parts import OfScore, PartBets

if TYPE_CHECKING:
    from numpy.typing import NDArray

_JOINT = 15.0 / 16.0  # of the level for both bets together, the rest for the box
_HONEST_ERRORS = 6.0  # standard errors from the planned means up to which bets are made
_HALVINGS = 40
_CAP = 0.99  # of the stake with which one unit could lose everything
_OWN = 0.75  # of the level of a bet, for the stake that the training rows name
_LEAST_ERROR, _ROUNDING = 1e-9, 1e-12

Ends = tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class SeenArms:
    """The units of both arms.

    Attributes:
        treated: Rows of each unit in the arm that is subtracted from, and sums of their values; shape (units,) each.
        control: The same in the other arm, of the same units.
        rounded: By how much the value of one row may have been rounded down.
    """

    treated: Units = field(repr=False)
    control: Units = field(repr=False)
    rounded: float = 0.0

    @property
    def score(self) -> float:
        """``(1 + difference) / 2``; 1/2 for the mean of an arm without rows."""
        return (1.0 + _mean(self.treated) - _mean(self.control)) / 2.0

    @property
    def swapped(self) -> SeenArms:
        """With the arms in each other's place."""
        return SeenArms(self.control, self.treated, self.rounded)

    def times(self, scale: float) -> SeenArms:
        """So many units for each one."""
        return SeenArms(_times(self.treated, scale), _times(self.control, scale), self.rounded)

    def ends(self, procedure: PartBets, nats: float, *, control: bool) -> Ends:
        """Means of one arm that are not excluded, whatever the values were before they were rounded."""
        units = _counting(self.control if control else self.treated)
        low, high = procedure.ends(units, nats)
        return low, high if self.rounded == 0.0 else procedure.ends(_raised(units, self.rounded), nats)[1]


@dataclass(frozen=True)
class _BettingPlan:
    """Public numbers of a bet against small differences.

    Attributes:
        treated: V_T, the planned number of rows in the arm.
        control: V_C.
        most: The largest b that is bet against.
        least: The least a.
        variance: Of the difference of the sealed means, as planned.
        largest: Rows of the largest unit.
    """

    treated: float
    control: float
    most: float
    least: float
    variance: float
    largest: float

    @property
    def cap(self) -> float:
        """No factor is 0 with a smaller stake."""
        worst = max(self.most / self.treated, (1.0 - self.least) / self.control)
        return 1.0 / (worst * self.largest)

    def stake(self, nats: float) -> float:
        """The stake that is best where sealed units spread as planned; six digits."""
        best = math.sqrt(2.0 * nats / max(self.variance, 1e-300))
        return float(f"{min(best, _CAP * self.cap):.6g}")


@dataclass(frozen=True, eq=False)
class ArmDifference(OfScore):
    """Bets on the difference of the means of two arms, over independent rows or groups of rows.

    Values are on the scale [0, 1]: a difference d stands at ``(1 + d) / 2``.

    Attributes:
        planned: Units of the training rows, with rows in both arms.
        scale: Sealed rows for each training row.
    """

    planned: SeenArms
    scale: float
    rows: int

    name: ClassVar[str] = "arm_difference"
    title: ClassVar[str] = "betting on the difference of two arms"
    why: ClassVar[str] = (
        "a fair bet against both true means at once gains that much with this probability at most, and so do bets "
        "against either of them"
    )

    def interval(self, seen: SeenArms, nats: float) -> Ends:
        """See `Procedure.interval`; the difference of the sealed rows is always inside."""
        low, high = self._ends(seen, nats, joint=self._is_joint(nats))
        return max(min((1.0 + low) / 2.0 - _ROUNDING, seen.score), 0.0), min(
            max((1.0 + high) / 2.0 + _ROUNDING, seen.score), 1.0
        )

    def _planned_ends(self, nats: float) -> Ends:
        return self.interval(self._likely, nats)

    def _ends(self, seen: SeenArms, nats: float, *, joint: bool) -> Ends:
        """The least and the largest difference that is not excluded.

        Args:
            seen: The units.
            nats: ln(1 / level) of all bets.
            joint: Whether most of the level is for bets on both arms; else all of it is for either arm alone.
        """
        alone = nats - math.log((1.0 - _JOINT) / 2.0 if joint else 0.5)
        treated = seen.ends(self._of_treated, alone, control=False)
        control = seen.ends(self._of_control, alone, control=True)
        if not joint:
            return treated[0] - control[1], treated[1] - control[0]
        side = side_of(nats - math.log(_JOINT))
        low = _least_difference(seen, self._from_below, side, treated, control)
        high = -_least_difference(seen.swapped, self._from_above, side, control, treated)
        return low, high

    def _is_joint(self, nats: float) -> bool:
        """True if bets on both arms are expected to be narrower, from public facts."""
        if nats not in self._joint:
            widths = [
                high - low for low, high in (self._ends(self._likely, nats, joint=both) for both in (False, True))
            ]
            self._joint[nats] = widths[1] < widths[0]
        return self._joint[nats]

    def stakes(self, nats: float) -> dict[str, float]:
        """See `Procedure.stakes`: of the bets on both arms, against small and large differences; 0 where none is."""
        if not self._is_joint(nats):
            return {"stake_low": 0.0, "stake_high": 0.0}
        side = side_of(nats - math.log(_JOINT)) - math.log(_OWN)
        return {"stake_low": self._from_below.stake(side), "stake_high": self._from_above.stake(side)}

    def standard_error(self, guess: float) -> float:
        """See `Procedure.standard_error`: of the planned units."""
        return min(self._error, 1.0)

    @property
    def worth(self) -> float:
        """See `Procedure.worth`."""
        return min(0.25 / self._error**2, float(self.rows))

    @cached_property
    def _error(self) -> float:
        return max(math.sqrt(self._from_below.variance * (1.0 + self.scale)) / 2.0, _LEAST_ERROR)

    @cached_property
    def _likely(self) -> SeenArms:
        """As many units as are sealed, like the training units."""
        return self.planned.times(self.scale)

    @cached_property
    def _joint(self) -> dict[float, bool]:
        return {}

    @cached_property
    def _of_treated(self) -> PartBets:
        return PartBets(_counting(self.planned.treated), self.scale)

    @cached_property
    def _of_control(self) -> PartBets:
        return PartBets(_counting(self.planned.control), self.scale)

    @cached_property
    def _from_below(self) -> _BettingPlan:
        return _plan(self.planned, self.scale)

    @cached_property
    def _from_above(self) -> _BettingPlan:
        return _plan(self.planned.swapped, self.scale)


def _plan(planned: SeenArms, scale: float) -> _BettingPlan:
    """Weights, the pairs that are bet against, and the variance, from training units."""
    treated, control = planned.treated, planned.control
    errors = [math.sqrt(units.spread() * (1.0 + 1.0 / scale)) / units.total for units in (treated, control)]
    rest = (treated.values - treated.mean * treated.sizes) / treated.total
    rest = rest - (control.values - control.mean * control.sizes) / control.total
    return _BettingPlan(
        treated=treated.total * scale, control=control.total * scale,
        most=min(treated.mean + _HONEST_ERRORS * errors[0] + 1.0 / treated.total, 1.0),
        least=max(control.mean - _HONEST_ERRORS * errors[1] - 1.0 / control.total, 0.0),
        variance=float(treated.counts @ rest**2) / scale, largest=treated.largest,
    )  # fmt: skip


def _least_difference(seen: SeenArms, plan: _BettingPlan, nats: float, treated: Ends, control: Ends) -> float:
    """The least ``b - a`` in the box of both intervals that the bets leave, rounded down (Statement K).

    All stakes hold at once, so whichever is best for these units may be taken.

    Args:
        seen: The units; values of the treated arm rounded down.
        plan: Public numbers.
        nats: ln(1 / level) of this side.
        treated: Interval of b.
        control: Interval of a.
    """
    up, down = seen.treated, _raised(seen.control, seen.rounded)
    refuse_larger(np.asarray(np.rint(up.sizes + down.sizes), dtype=np.int64), plan.largest)
    (least_b, most_b), (least_a, most_a) = treated, control
    stakes = np.append(plan.stake(nats - math.log(_OWN)), FRACTIONS * plan.cap)
    pays = -np.log(np.append(_OWN, np.full(len(FRACTIONS), (1.0 - _OWN) / len(FRACTIONS))))
    spread = _moves(up, down, plan, _mean(seen.treated), _mean(seen.control))
    costs = stakes * float(up.counts @ spread**2) / 2.0 + (nats + pays) / stakes
    best = int(np.argmin(costs))
    stake = float(stakes[best])
    needed = nats + float(pays[best]) + doubt(up, stake * (1.0 / plan.treated + 1.0 / plan.control))

    def excluded(a: float, b: float) -> bool:
        return float(up.counts @ np.log1p(stake * _moves(up, down, plan, b, a))) >= needed

    start, most_b = max(least_a, min(plan.least, most_a)), min(most_b, plan.most)
    least = least_b - start if start > least_a else math.inf  # pairs that are not bet against
    if most_b <= least_b or not excluded(most_a, least_b):
        return min(least, least_b - most_a)

    def largest_excluded(a: float) -> float:
        return _halved(lambda b: excluded(a, b), least_b, most_b)

    if excluded(start, least_b):
        corner = largest_excluded(start) - start
    else:
        corner = least_b + _halved(lambda minus_a: excluded(-minus_a, least_b), -most_a, -start)
    return min(least, corner, largest_excluded(most_a) - most_a)


def _moves(up: Units, down: Units, plan: _BettingPlan, b: float, a: float) -> NDArray[np.float64]:
    """``x_i(a, b)``, shape (units,)."""
    gains: NDArray[np.float64] = (up.values - b * up.sizes) / plan.treated
    return gains + (a * down.sizes - down.values) / plan.control


def _halved(holds: Callable[[float], bool], inside: float, outside: float) -> float:
    """The farthest value from ``inside``, where it holds, towards ``outside`` that was tried and holds."""
    if holds(outside):
        return outside
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2.0
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return inside


def _counting(units: Units) -> Units:
    """Without the units that have no row in the arm."""
    some = units.sizes > 0.0
    return Units(units.sizes[some], units.values[some], units.counts[some], units.largest)


def _raised(units: Units, rounded: float) -> Units:
    """With values as large as they may have been before they were rounded down."""
    values = np.minimum(units.values + rounded * units.sizes, units.sizes)
    return Units(units.sizes, values, units.counts, units.largest)


def _times(units: Units, scale: float) -> Units:
    return Units(units.sizes, units.values, units.counts * scale, units.largest)


def _mean(units: Units) -> float:
    return units.mean if units.total > 0.0 else 0.5
