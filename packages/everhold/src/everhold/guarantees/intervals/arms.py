"""The difference of two arms in one query: bets on both arms at once (docs/theory/contrasts.md, Statement K).

Unit i, a row or a group of rows, has ``v`` rows and the sum ``u`` of row values in either arm: T for treated, C for
control. ``b`` and ``a`` are the claimed means of the arms. With public weights ``V`` and a public stake s, a bet on

    x_i(a, b) = (u_T - b v_T) / V_T + (a v_C - u_C) / V_C

is fair at the true pair. Its capital falls in b and grows with a. So a difference and all smaller ones are excluded if
all pairs ``(a, a + difference)`` in a box are excluded. They form one cell of `JointBets`.

The arms may also be two models, whose precision or F1 are ratios on the same rows: then a row counts in both arms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from everhold.guarantees.intervals.betting import refuse_larger, side_of
from everhold.guarantees.intervals.joint import FRACTIONS, JointBets, Units, first_excluded
from everhold.guarantees.intervals.parts import OfScore, PartBets

_JOINT = 15.0 / 16.0  # of the level for both bets together, the rest for the box
_HONEST_ERRORS = 6.0  # standard errors from the planned means up to which bets are made
_CAP = 0.99  # of the stake with which one unit could lose everything
_OWN = 0.75  # of the capital, for the stake that the training rows name; the rest for `FRACTIONS`
_WEIGHTS = np.log(np.append(_OWN, np.full(len(FRACTIONS), (1.0 - _OWN) / len(FRACTIONS))))

Ends = tuple[float, float]
Losses = tuple[tuple[float, float], ...]

APART: Losses = ((1.0, 0.0), (0.0, 1.0))
"""What one row can take from a bet if it is in one arm at most. See `SeenArms`."""


@dataclass(frozen=True, slots=True, eq=False)
class SeenArms:
    """Evaluated units of both arms.

    Attributes:
        treated: Rows of each unit in the arm from which the other is subtracted, and sums of their values; shape
            (units,) each.
        control: Rows of each unit in the other arm and sums of their values, for the same units.
        rounded: Largest amount by which the value of one row was rounded down.
        losses: The most that one row of any kind can take from a bet is the largest of ``f b / V_T + g (1 - a) / V_C``
            over these pairs (f, g).
    """

    treated: Units = field(repr=False)
    control: Units = field(repr=False)
    rounded: float = 0.0
    losses: Losses = APART

    @property
    def score(self) -> float:
        """Difference on the scale ``(1 + difference) / 2``. The mean of an arm without rows counts as 1/2."""
        means = [units.mean if units.total > 0.0 else 0.5 for units in (self.treated, self.control)]
        return (1.0 + means[0] - means[1]) / 2.0

    @property
    def swapped(self) -> SeenArms:
        """The same units with the two arms exchanged."""
        return replace(self, treated=self.control, control=self.treated)

    def times(self, scale: float) -> SeenArms:
        """Return the same units with every count multiplied by ``scale``."""
        return replace(self, treated=self.treated.times(scale), control=self.control.times(scale))

    def ends(self, procedure: PartBets, nats: float, *, control: bool) -> Ends:
        """Return both ends of the interval of one arm's mean, which hold for all values before rounding.

        The arm is the control arm if ``control`` is True, else the treated arm.
        """
        units = _counting(self.control if control else self.treated)
        low, high = procedure.interval(units, nats)
        return low, high if self.rounded == 0.0 else procedure.interval(_raised(units, self.rounded), nats)[1]


@dataclass(frozen=True)
class _BettingPlan:
    """Public numbers of a bet against small differences.

    Attributes:
        treated: V_T, the planned number of rows in the treated arm.
        control: V_C, the planned number of rows in the control arm.
        most: The largest mean b of the treated arm that is bet against.
        least: The least mean a of the control arm that is bet against.
        variance: Planned variance of the difference of the sealed means.
        largest: Rows of the largest unit.
        losses: Largest share of the capital that one row can take from a bet, as for `SeenArms`.
    """

    treated: float
    control: float
    most: float
    least: float
    variance: float
    largest: float
    losses: Losses

    @property
    def cap(self) -> float:
        """Largest stake with which no factor of the bet can become 0."""
        worst = max(f * self.most / self.treated + g * (1.0 - self.least) / self.control for f, g in self.losses)
        return 1.0 / (worst * self.largest)

    def stake(self, nats: float) -> float:
        """Return the stake that is best if sealed units spread as planned, to six digits."""
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

    widened: ClassVar[float] = 1e-12
    name: ClassVar[str] = "arm_difference"
    title: ClassVar[str] = "betting on the difference of two arms"
    why: ClassVar[str] = (
        "a fair bet against both true means at once gains that much with this probability at most, and so do bets "
        "against either of them"
    )

    def _ends(self, seen: SeenArms, nats: float) -> Ends:
        low, high = self._differences(seen, nats, joint=self._is_joint(nats))
        return (1.0 + low) / 2.0, (1.0 + high) / 2.0

    def _planned_ends(self, nats: float) -> Ends:
        return self.interval(self._likely, nats)

    def _differences(self, seen: SeenArms, nats: float, *, joint: bool) -> Ends:
        """Return the least and the largest difference of the two means that is not excluded.

        Args:
            seen: The evaluated units of both arms.
            nats: ln(1 / level) of all bets.
            joint: True if most of the level is for a bet on both arms together; False if each arm alone gets half of
                it.
        """
        alone = nats - math.log((1.0 - _JOINT) / 2.0 if joint else 0.5)
        treated = seen.ends(self._arms[0], alone, control=False)
        control = seen.ends(self._arms[1], alone, control=True)
        if not joint:
            return treated[0] - control[1], treated[1] - control[0]
        side = side_of(nats - math.log(_JOINT))
        low = _least_difference(seen, self._plans[0], side, treated, control)
        return low, -_least_difference(seen.swapped, self._plans[1], side, control, treated)

    def _is_joint(self, nats: float) -> bool:
        """Return whether a bet on both arms together is expected to give the narrower interval, from public facts."""
        if nats not in self._joint:
            widths = [
                high - low
                for low, high in (self._differences(self._likely, nats, joint=both) for both in (False, True))
            ]
            self._joint[nats] = widths[1] < widths[0]
        return self._joint[nats]

    def stakes(self, nats: float) -> dict[str, float]:
        """Return the stakes of bets on both arms together for the lower and the upper end, 0 if none are made."""
        if not self._is_joint(nats):
            return {"stake_low": 0.0, "stake_high": 0.0}
        low, high = (plan.stake(side_of(nats - math.log(_JOINT)) - math.log(_OWN)) for plan in self._plans)
        return {"stake_low": low, "stake_high": high}

    @property
    def _error(self) -> float:
        return math.sqrt(self._plans[0].variance * (1.0 + self.scale)) / 2.0

    @cached_property
    def _likely(self) -> SeenArms:
        """The training units, with counts multiplied up to the number of sealed rows."""
        return self.planned.times(self.scale)

    @cached_property
    def _joint(self) -> dict[float, bool]:
        return {}

    @cached_property
    def _arms(self) -> list[PartBets]:
        """Bets on the mean of the treated arm and on the mean of the control arm."""
        return [PartBets(_counting(units), self.scale) for units in (self.planned.treated, self.planned.control)]

    @cached_property
    def _plans(self) -> list[_BettingPlan]:
        """Plans of the bets against small and against large differences."""
        return [_plan(planned, self.scale) for planned in (self.planned, self.planned.swapped)]


def _plan(planned: SeenArms, scale: float) -> _BettingPlan:
    """Return the public numbers of a bet against small differences, computed from training units."""
    treated, control = planned.treated, planned.control
    errors = [math.sqrt(units.spread() * (1.0 + 1.0 / scale)) / units.total for units in (treated, control)]
    rest = (treated.values - treated.mean * treated.sizes) / treated.total
    rest = rest - (control.values - control.mean * control.sizes) / control.total
    return _BettingPlan(
        treated=treated.total * scale, control=control.total * scale,
        most=min(treated.mean + _HONEST_ERRORS * errors[0] + 1.0 / treated.total, 1.0),
        least=max(control.mean - _HONEST_ERRORS * errors[1] - 1.0 / control.total, 0.0),
        variance=float(treated.counts @ rest**2) / scale, largest=treated.largest, losses=planned.losses,
    )  # fmt: skip


def _least_difference(seen: SeenArms, plan: _BettingPlan, nats: float, treated: Ends, control: Ends) -> float:
    """Return the least difference ``b - a`` of both means that the bets do not exclude, rounded down (Statement K).

    Args:
        seen: The units; values of the treated arm rounded down.
        plan: Public numbers from which stakes follow.
        nats: ln(1 / level) of this side.
        treated: Interval of the mean b of the treated arm.
        control: Interval of the mean a of the control arm.
    """
    up, down = seen.treated, _raised(seen.control, seen.rounded)
    rows = up.sizes + down.sizes if plan.losses == APART else np.maximum(up.sizes, down.sizes)  # at least
    refuse_larger(np.asarray(np.rint(rows), dtype=np.int64), plan.largest)
    moves = [up.values / plan.treated - down.values / plan.control, down.sizes / plan.control, -up.sizes / plan.treated]
    stakes = np.append(plan.stake(nats - math.log(_OWN)) / plan.cap, FRACTIONS)
    largest_loss = np.array([[1.0 / plan.cap, 0.0, 0.0]])
    bets = JointBets(np.stack(moves, axis=-1)[None], largest_loss, up.counts, stakes, _WEIGHTS)

    def capital(difference: float) -> float:
        """Return the log capital against all means in both intervals with this difference.

        It is -inf for means outside the plan.
        """
        ends = max(control[0], treated[0] - difference), min(control[1], treated[1] - difference)
        if ends[0] < plan.least or ends[1] + difference > plan.most:
            return -math.inf
        return float(bets.capital(np.array([[[1.0, a, a + difference] for a in ends]]))[0, 0])

    inside, outside = 2.0 * seen.score - 1.0, treated[0] - control[1]
    start = inside - math.sqrt(2.0 * nats * plan.variance)
    return first_excluded(capital, nats, inside=inside, outside=outside, start=start) if outside < inside else outside


def _counting(units: Units) -> Units:
    """Return the units that have at least one row in an arm."""
    some = units.sizes > 0.0
    return Units(units.sizes[some], units.values[some], units.counts[some], units.largest)


def _raised(units: Units, rounded: float) -> Units:
    """Return the units with the largest values that they can have had before they were rounded down."""
    values = np.minimum(units.values + rounded * units.sizes, units.sizes)
    return Units(units.sizes, values, units.counts, units.largest)
