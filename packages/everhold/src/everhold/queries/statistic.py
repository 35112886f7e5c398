"""Plans for statistics of all rows: answered with noise from a privacy budget, or by comparing a guess with the value.

A privacy budget pays for one draw of noise (S1 for low sensitivity). A mechanism that checks guesses answers a
statistic like any other query, with the interval of McDiarmid's inequality (S8). In both cases the interval is for the
expected value of the statistic over sets of the same number of rows.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.answers import Answer
from everhold.arguments import as_float, brief
from everhold.errors import QueryRejected
from everhold.extensions import imported
from everhold.queries.interval_planner import Prepared
from everhold.queries.means.plans import Batch, OneMean
from everhold.queries.procedures import paying, statistic_procedure
from everhold.queries.query import CompileContext, Query, QueryPlan
from everhold.values.base import BoundQuery, Clip, with_clips
from everhold.values.evaluation import UNIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.ledger.acts import Accounts
    from everhold.mechanisms import Mechanism, State
    from everhold.mechanisms.base import Quote
    from everhold.sealing.rows.table import StoredRows

_MOST_STEPS = 2**62
_LEFT_OUT = 20  # parts of the training rows, each of which is left out once


@dataclass(frozen=True, slots=True)
class StatisticGrid:
    """A grid of whole numbers on which the values of a statistic are computed exactly.

    One replaced row moves the statistic by at most Delta and its position on the grid by at most ``unit`` steps. A step
    is ``Delta / (unit - 1)``, so that there is one to spare: it covers errors of floating point in the statistic of up
    to ``Delta / unit``; rounding down needs none, because ``unit`` is whole.

    Attributes:
        low: Least value of the grid.
        high: Largest value of the grid.
        unit: Number of grid steps by which one row may move the statistic.
    """

    low: float
    high: float
    sensitivity: float
    unit: int = UNIT

    @property
    def step(self) -> Fraction:
        """One grid step in the statistic's units."""
        return Fraction(self.sensitivity) / (self.unit - 1)

    @property
    def share(self) -> Fraction:
        """One grid step as a share of the range."""
        return self.step / (Fraction(self.high) - Fraction(self.low))

    def at(self, share: float) -> float:
        """Return the value at a share of the range, exact to the last digit."""
        low = Fraction(self.low)
        return float(low + Fraction(share) * (Fraction(self.high) - low))

    def position(self, value: float | Fraction) -> int:
        """Return the value as a number of whole grid steps above the least one. nan counts as the least value."""
        clipped = self.low if math.isnan(value) else min(max(value, self.low), self.high)
        return math.floor((Fraction(clipped) - Fraction(self.low)) / self.step)


@dataclass(frozen=True, slots=True)
class Statistic:
    """A statistic of all rows, bound to one holdout.

    Attributes:
        grid: The grid on which its values are whole numbers.
        evaluate: Function from sealed rows to the statistic's value. It never raises an error, and returns nan for a
            fault.
        reads: Columns that the statistic reads; None for all columns.
        trained: Function from positions of some training rows to the statistic's value for them, scaled to the number
            of sealed rows. None if it is unknown.
        by_position: True if the statistic reads predictions by the position of rows.
        claimed: True if the analyst gave the range of the statistic, so that values outside are clipped.
    """

    grid: StatisticGrid
    evaluate: Callable[[StoredRows], float | Fraction]
    described: Mapping[str, Any]
    shown: str
    reads: tuple[str, ...] | None = None
    trained: Callable[[NDArray[np.intp]], float | Fraction] | None = None
    by_position: bool = False
    claimed: bool = False

    def clips(self, training_rows: int) -> list[Clip]:
        """Return the note about clipping to the analyst's range, or an empty list if the analyst gave no range."""
        if not self.claimed:
            return []
        value = self.trained(np.arange(training_rows)) if self.trained is not None and training_rows else None
        beyond = None if value is None else float(not self.grid.low <= value <= self.grid.high)
        return [Clip("values of the statistic", self.grid.low, self.grid.high, beyond, whole=True)]

    def share_of(self, value: float | Fraction) -> Fraction:
        """Return a value as a share of the range, rounded down to the grid."""
        return self.grid.position(value) * self.grid.share

    def sealed_share(self, sealed: StoredRows) -> tuple[Fraction, float]:
        """Return the sealed value as a share of the range, exactly and as a float. Secret."""
        share = self.share_of(self.evaluate(sealed))
        return share, float(share)

    def on_training_rows(self, rows: int, groups: NDArray[np.int64] | None = None) -> tuple[Fraction, float] | None:
        """Return the training value as a share of its range, and its spread times ``sqrt(rows)``, or None.

        The spread is estimated by a jackknife over parts of the rows. It decides only how far from the value an honest
        guess may be.

        Args:
            rows: Number of training rows.
            groups: Group of each row; a group is left out as a whole. None if rows are independent.

        Returns:
            None if the training value is not known.
        """
        places = np.arange(rows)
        units = places if groups is None else groups
        if self.trained is None or not math.isfinite(whole := self.trained(places)):
            return None
        without = [
            float(self.share_of(self.trained(places[units % _LEFT_OUT != part])))
            for part in range(_LEFT_OUT if len(np.unique(units)) >= 2 * _LEFT_OUT else 0)
        ]
        spread = math.sqrt((_LEFT_OUT - 1) * float(np.var(without)) * rows) if without else math.inf
        return self.share_of(whole), spread


class StatisticQuery(Query[Answer]):
    """Base of queries for a statistic of all rows together that is not a mean of row values."""

    __slots__ = ()

    @abstractmethod
    def bound_to(self, compiler: CompileContext) -> Statistic:
        """Return the statistic bound to the rows of one holdout."""

    def compile(
        self, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Answer]:
        """Compile the statistic: for sale with noise, or to be compared with its guess, as the mechanism allows."""
        mechanism, schema = compiler.mechanism, compiler.schema
        if seller := mechanism.traits.statistics:
            sold: QueryPlan[Answer] = imported(seller)(self, compiler, guess=guess, tolerance=tolerance)
            return sold
        if not mechanism.traits.unsealable:
            raise QueryRejected(
                f"The mechanism {mechanism.name} answers means of row values, and this is a statistic of all rows "
                "together. Use a holdout that was created with mechanism='guess_and_check' or 'privacy_budget'."
            )
        if tolerance is not None:
            paying(mechanism)
        statistic = self.bound_to(compiler)
        check_rows(statistic, mechanism, groups=True)
        self.check(compiler)
        column, groups = mechanism.dependence.group_column, None
        if column is not None and compiler.training is not None:
            groups = compiler.training.groups_of_rows(column)
        shows_spread = groups is not None or mechanism.dependence.independent
        known = statistic.on_training_rows(schema.training_rows, groups) if schema.training_rows else None
        procedure = statistic_procedure(
            mechanism, schema, moved=math.nextafter(float(statistic.grid.unit * statistic.grid.share), math.inf),
            spread=known[1] if known and shows_spread else None,
            own_guess=guess is not None or known is None,
        )  # fmt: skip
        bound = BoundQuery(
            {**statistic.described, **dict(schema.about)}, statistic.shown, statistic.grid.low, statistic.grid.high,
            reads=statistic.reads, by_position=statistic.by_position,
        )  # fmt: skip
        bound = with_clips(bound, statistic.clips(schema.training_rows))
        prepared = compiler.planner.of_statistic(
            bound, guess, None if known is None else known[0], procedure, statistic.sealed_share
        )
        return OneStatistic([prepared], schema, mechanism)


def joined(plans: Sequence[QueryPlan[Any]]) -> Sequence[QueryPlan[Any]]:
    """Return one plan for several numbers of all rows, so that they share a transaction; other plans unchanged."""
    numbers = [plan for plan in plans if isinstance(plan, OneMean) and plan.is_number]
    if len(numbers) < len(plans):
        return plans
    first = numbers[0]
    return [Batch([plan.prepared[0] for plan in numbers], first.schema, first.mechanism, silent=first.silent)]


@dataclass(frozen=True)
class OneStatistic(OneMean):
    """A plan for one statistic, which compares its guess with the sealed value."""

    def capacity(self, state: State, accounts: Accounts, count: int) -> int:
        """Return ``count``, or raise QueryRejected if the interval would be the whole range of the statistic."""
        (mean,) = self.prepared
        ends = None if self.silent or not count else self.price(mean, state).confirmed
        if ends is not None and ends[0] <= 0.0 and ends[1] >= 1.0:
            raise QueryRejected(
                f"The interval of {brief(mean.bound.shown)} would be the whole range of values. Pass predictions for "
                "training rows, larger counts or a smaller sensitivity, or ask with silent=True and unseal later."
            )
        return count

    def price(self, mean: Prepared, state: State) -> Quote:
        """Return the price of the statistic. Without a guess it is that for the middle of the range."""
        return OneMean.price(self, mean if mean.guess >= 0 else replace(mean, guess=self.mechanism.steps // 2), state)


def check_rows(statistic: Statistic, mechanism: Mechanism, *, groups: bool) -> None:
    """Raise QueryRejected unless rows are independent, or in groups if allowed, and the range is not too wide."""
    if not (mechanism.dependence.independent or (groups and mechanism.dependence.in_groups)):
        allowed = "independent rows or groups of rows only" if groups else "independent rows only"
        raise QueryRejected(
            f"A statistic of all rows together is promised for {allowed}, and these rows were declared to depend on "
            "each other. Ask about means instead."
        )
    grid = statistic.grid
    if mechanism.unit < 2 or 1 / grid.share > _MOST_STEPS:
        raise QueryRejected(
            f"The range [{grid.low:g}, {grid.high:g}] is too wide for a sensitivity of {grid.sensitivity:g}. Pass a "
            "range that is at most about a billion times the sensitivity."
        )


def check_range(sensitivity: float, low: float, high: float) -> None:
    """Check the sensitivity and range that an analyst claims for a statistic."""
    check_positive("sensitivity", sensitivity)
    least, most = as_float(low), as_float(high)
    if not (least < most and math.isfinite(most - least)):
        raise ValueError(
            f"low is {brief(low)} and high is {brief(high)}. Pass two finite numbers, the lower one as low."
        )
    if float(sensitivity) > 2.0 * (most - least):  # 2: a proven one may be rounded up a little
        raise ValueError(
            f"sensitivity is {float(sensitivity):g}, more than the width of the range [{least:g}, {most:g}]. Pass at "
            "most the width, because values outside the range are clipped."
        )


def check_positive(name: str, value: object) -> None:
    """Check that a value is a positive finite number."""
    if not 0.0 < as_float(value) < math.inf:
        raise ValueError(f"{name} is {brief(value)}. Pass a positive finite number.")
