"""Bets whose intervals are as narrow as the values spread, for rows and for groups of rows (S8).

How far the values spread is predicted from training units or from the analyst's own guess. Half of the capital is
staked for that prediction, the other half is spread over fixed stakes (`joint`). If the sealed units are as predicted,
the interval is about as narrow as a normal approximation. If not, it is only a little wider than the sealed spread
allows, which costs a few nats.

A ratio of two sums, such as a conditional mean, precision or a rate by arm, is ``theta = sum E u / sum E v`` with ``0
<= u <= v <= 1`` in every row. At the true theta the sum of ``u - theta v`` has mean 0. So the same bets can be used,
with the random denominators as sizes, because no unit's denominator is larger than its number of rows. If no sealed row
is in the denominator, no value is excluded.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from everhold.guarantees.intervals.base import CELLS, Cells, GroupSums, Needs, Pairs, Procedure
from everhold.guarantees.intervals.joint import FRACTIONS, MOST_PAID, Units, best_stake, ratio_bets, upper_end

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

NO_STAKE = 1e-6
"""The stake of a guess of the spread that does not help."""

_HONEST_ERRORS = 4.0  # standard errors of the number of rows that count
_PLANNED_UNIT = 2**20  # grid steps of sums that are only planned


@dataclass(frozen=True)
class Bets(Procedure):
    """Base of hedged bets, one against too large and one against too small values, each at half the level (`joint`).

    Attributes:
        guess: The analyst's own guess in [0, 1], which is used in place of the training mean. None if there is no own
            guess.
        fixed_stakes: True if no stake depends on training rows or on numbers of rows, so that the bet stays the same
            when rows arrive (`everhold.guarantees.intervals.in_order`).
    """

    guess: float | None = field(default=None, kw_only=True)
    fixed_stakes: bool = field(default=False, kw_only=True)

    why: ClassVar[str] = "a fair bet against the true value gains that much with this probability at most"

    @property
    @abstractmethod
    def prediction(self) -> Prediction:
        """Prediction of the sealed units' spread from the training units."""

    @abstractmethod
    def _units(self, seen: Any) -> Units:
        """Return the evaluated rows or groups as units.

        A value may be split between two grid points with the same mean.
        """

    @cached_property
    def _chosen(self) -> dict[tuple[float, bool], float]:
        """Cache of stakes, by ln(1 / level) and by whether the stake is for the upper end."""
        return {}

    @cached_property
    def _cautious(self) -> Units:
        """Predicted sealed units around the guess or the training mean, half a typical unit more at 0 and at 1."""
        predicted = self.prediction
        near, typical = predicted.around(predicted.mean if self.guess is None else self.guess), predicted.typical
        residuals, ghosts = near.values - near.mean * near.sizes, _GHOSTS * predicted.scale
        sizes, residuals, counts = _in_classes(near.sizes, residuals, near.counts, _FEW_CLASSES)
        return Units(
            np.append(sizes, [typical, typical]),
            np.append(np.clip(near.mean * sizes + residuals, 0.0, sizes), [0.0, typical]),
            np.append(counts, [ghosts, ghosts]),
            predicted.largest,
            predicted.public,
        )

    def _stake(self, nats: float, *, upper: bool) -> float:
        """Return the stake of the bet that makes one end, computed from public facts.

        `upper` is true for the upper end.
        """
        if self.fixed_stakes:
            return NO_STAKE
        if (nats, upper) not in self._chosen:
            units = self._cautious if upper else self._cautious.mirrored
            self._chosen[nats, upper] = best_stake(units, side_of(nats))
        return self._chosen[nats, upper]

    def _stakes(self, nats: float) -> tuple[float, float]:
        """Return the stakes of the bets that make the lower and the upper end."""
        return self._stake(nats, upper=False), self._stake(nats, upper=True)

    def farthest_end(self, seen: Any, nats: float, *, upper: bool, known: float | None) -> float | None:
        """Return one end of the interval, or None if a test shows that it lies no farther out than ``known``.

        Args:
            seen: The evaluated rows, as for `interval`, of a mean over all rows.
            nats: ln(1 / level) of both sides together.
            upper: True for the upper end of the interval; False for the lower end.
            known: The value to which the end is compared; None to return the end in any case.
        """
        units, side, stake = self._units(seen), side_of(nats), self._stake(nats, upper=upper)
        units, value = (units, known) if upper else (units.mirrored, None if known is None else 1.0 - known)
        if value is not None and units.mean < value < 1.0 and ratio_bets(units, stake).at(value) >= side:
            return None
        end = upper_end(units, stake, side)
        return end if upper else 1.0 - end

    def stakes(self, nats: float) -> dict[str, float]:
        """Return both stakes that were predicted from training units. The other stakes are `FRACTIONS`."""
        low, high = self._stakes(nats)
        return {"stake_low": low, "stake_high": high}

    def _ends(self, units: Units, nats: float, *, tolerance: float) -> tuple[float, float]:
        """Return the least and the greatest mean that bets on these units do not exclude at ``exp(-nats)``."""
        side = side_of(nats)
        low, high = self._stakes(nats)
        return (
            1.0 - upper_end(units.mirrored, low, side, tolerance=tolerance),
            upper_end(units, high, side, tolerance=tolerance),
        )

    def interval(self, seen: Any, nats: float) -> tuple[float, float]:
        """Return both ends of the interval at the level ``exp(-nats)``, which are 0 and 1 if no unit counts."""
        units = self._units(seen)
        return self._ends(units, nats, tolerance=1e-9) if units.total > 0.0 else (0.0, 1.0)

    def expected(self, guess: float, nats: float) -> tuple[float, float]:
        """Return the interval of predicted units: training units, scaled to sealed rows and shifted to the guess."""
        return self._ends(self.prediction.around(guess), nats, tolerance=1e-6)

    def standard_error(self, guess: float) -> float:
        """Return ``sqrt(V_t / n_t^2 + V / n^2)``, with V predicted from the spread V_t of the training units."""
        predicted = self.prediction
        return math.sqrt(predicted.spread(guess) * (1.0 + 1.0 / predicted.scale)) / predicted.total

    @property
    def worth(self) -> float:
        """Number of yes-or-no rows with the same variance: ``1 / (4 v)``, v the sealed value's predicted variance."""
        predicted = self.prediction
        return 0.25 * predicted.scale * predicted.total**2 / predicted.spread(predicted.mean)


@dataclass(frozen=True)
class Betting(Bets):
    """Bets on independent rows with values in [0, 1], whose laws may differ.

    Rows are read from a histogram. Each row is replaced by a mixture of the two edges of its cell with the same mean.
    This can only lower the capital, because the logarithm is concave.

    Attributes:
        training: Values of the training rows.
    """

    rows: int
    training: Cells

    name: ClassVar[str] = "hedged_betting"
    title: ClassVar[str] = "betting with stakes that are fixed before the look"
    needs: ClassVar[Needs] = "cells"

    def _units(self, seen: Cells) -> Units:
        return _edges(seen)

    @cached_property
    def prediction(self) -> Prediction:
        """Prediction of the sealed rows' spread from the training rows."""
        units = _edges(self.training)
        total = int(self.training.counts.sum())
        return Prediction.of(units, scale=self.rows / max(total, 1), excess=_excess(self.training))

    def widest(self, nats: float) -> float:
        """Return the largest possible half-width: ``sqrt((L + ln 32) / n)``, or the least fixed stake if larger."""
        return _widest(nats, self.rows)


def _widest(nats: float, coins: float) -> float:
    """Return a half-width that no interval over ``coins`` independent yes-or-no units exceeds at this level."""
    return min(max(math.sqrt((side_of(nats) + MOST_PAID) / coins), float(np.min(FRACTIONS))), 0.5)


@dataclass(frozen=True)
class OfGroups(Bets):
    """Bets on independent groups of rows. Rows of one group may depend on each other in any way.

    Attributes:
        sizes: Pairs of a size and the number of sealed groups of that size; public. In plans the numbers can have
            fractions.
        largest_group: Largest number of rows of any group that is sealed now or will ever arrive. None for the largest
            of ``sizes``.
    """

    sizes: tuple[tuple[int, float], ...]
    largest_group: int | None = field(default=None, kw_only=True)

    @property
    def rows(self) -> float:
        """Number of sealed rows."""
        return sum(size * number for size, number in self.sizes)

    @cached_property
    def _largest(self) -> float:
        return float(self.largest_group or max(size for size, _ in self.sizes))

    def widest(self, nats: float) -> float:
        """Return the largest possible half-width. With ``largest_group`` all groups are taken to be of that size.

        The capital is concave in size and value of a group, so it is least where groups are as large as can be and have
        all ones or all zeros. These are ``rows / largest_group`` coins.
        """
        if self.largest_group is None or not self.of_all_rows:
            return super().widest(nats)
        return _widest(nats, self.rows / self.largest_group)

    def _predicted(self, training: GroupSums | Pairs, units: Callable[[Any, float], Units]) -> Prediction:
        """Return the prediction that sealed groups spread as training groups do, with as much spread for each row."""
        total = round(float(np.sum(training.sizes * training.counts)))
        largest = float(np.max(training.sizes, initial=self._largest))
        return Prediction.of(units(training, largest), scale=self.rows / max(total, 1))


@dataclass(frozen=True)
class GroupBetting(OfGroups):
    """Bets on the sums of groups of rows.

    Attributes:
        training: Sums of the training groups.
    """

    training: GroupSums

    name: ClassVar[str] = "hedged_group_betting"
    title: ClassVar[str] = "betting on sums of groups with stakes that are fixed before the look"
    needs: ClassVar[Needs] = "groups"

    @classmethod
    def planned(
        cls, sizes: tuple[tuple[int, float], ...], *, at: float, alike: float, training_rows: int
    ) -> GroupBetting:
        """Return the procedure of a yes-or-no query before its values are known.

        A group of k rows has the mean ``p + (1 - p) s`` with probability p and ``p (1 - s)`` otherwise, where
        ``s^2 = (1 + (k - 1) rho) / k``: so its mean and variance are those of k rows with the correlation rho.

        Args:
            sizes: Pairs of a size and the number of sealed groups of that size.
            at: The population's value p of the query, in [0, 1].
            alike: rho, the correlation of two rows of one group, in [0, 1].
            training_rows: Number of training rows, whose groups are taken to have the same sizes.
        """
        size, number = np.array([size for size, _ in sizes]), np.array([number for _, number in sizes])
        root = np.sqrt((1.0 + (size - 1.0) * alike) / size)
        means = np.concatenate([at + (1.0 - at) * root, at * (1.0 - root)])
        both, share = np.concatenate([size, size]), training_rows / float(np.sum(size * number))
        counts = np.concatenate([at * number, (1.0 - at) * number]) * share
        some = counts > 0.0
        sums = np.rint(both * means * _PLANNED_UNIT).astype(np.int64)
        return cls(sizes=sizes, training=GroupSums(both[some], sums[some], counts[some], _PLANNED_UNIT))

    def _units(self, seen: GroupSums) -> Units:
        return _sums(seen, self._largest)

    @cached_property
    def prediction(self) -> Prediction:
        """Prediction of the sealed groups' spread from the training groups."""
        return self._predicted(self.training, _sums)

    def independent_rows(self, row_variance: float) -> float:
        """Return the number of independent rows whose mean would have the same standard error.

        Args:
            row_variance: Variance of single rows on the scale [0, 1], such as ``p (1 - p)``.
        """
        return 4.0 * row_variance * self.worth


@dataclass(frozen=True)
class _RatioBets(Bets):
    """Bets on pairs of row values that were rounded down.

    Each end of the interval holds for the values before rounding.
    """

    of_all_rows: ClassVar[bool] = False  # of however few are in the denominator
    why: ClassVar[str] = "a fair bet against the true ratio gains that much with this probability at most"

    @property
    def _largest(self) -> float:
        """Number of rows of the largest unit."""
        return 1.0

    def _units(self, seen: Pairs) -> Units:
        return _pairs(seen, self._largest)

    def interval(self, seen: Pairs, nats: float) -> tuple[float, float]:
        """Return both ends of the ratio's interval, each computed as if rounding had moved the ratio towards it."""
        less = _pairs(seen, self._largest, denominators=1)
        more = _pairs(seen, self._largest, numerators=1)
        side, (low, high) = side_of(nats), self._stakes(nats)
        return 1.0 - upper_end(less.mirrored, low, side), upper_end(more, high, side)


@dataclass(frozen=True)
class RatioBetting(_RatioBets):
    """Interval procedure of a ratio of two means over independent rows, by bets. Laws of rows may differ.

    Attributes:
        training: Numerators and denominators of the training rows.
    """

    rows: int
    training: Pairs

    name: ClassVar[str] = "hedged_ratio_betting"
    title: ClassVar[str] = "betting on a ratio of two sums"
    needs: ClassVar[Needs] = "pairs"

    @cached_property
    def prediction(self) -> Prediction:
        """Prediction of the sealed rows' spread from the training rows."""
        total = round(float(np.sum(self.training.counts)))
        return Prediction.of(self._units(self.training), scale=self.rows / max(total, 1))

    def widest_if_honest(self, nats: float) -> float:
        """Return the largest half-width if about as many sealed rows count as training rows suggest.

        In the worst case each row that counts has the denominator 1, and half of these rows have the numerator 1 and
        the others 0. Such rows have the least capital, and the widest interval.
        """
        predicted = self.prediction
        expected = predicted.total * predicted.scale
        rows = expected - _HONEST_ERRORS * math.sqrt(expected * (1.0 + predicted.scale))
        if rows < 1.0:
            return 0.5
        halves = Units(np.ones(2), np.array([0.0, 1.0]), np.full(2, rows / 2.0), 1.0)
        return min(upper_end(halves, NO_STAKE, side_of(nats), tolerance=1e-4) - 0.5, 0.5)


@dataclass(frozen=True)
class GroupRatioBetting(OfGroups, _RatioBets):
    """Bets on the ratio of two sums over independent groups of rows.

    Attributes:
        training: Pairs of the training groups.
    """

    training: Pairs

    name: ClassVar[str] = "hedged_group_ratio_betting"
    title: ClassVar[str] = "betting on a ratio of two sums over groups"
    needs: ClassVar[Needs] = "group_pairs"

    @cached_property
    def prediction(self) -> Prediction:
        """Prediction of the sealed groups' spread from the training groups."""
        return self._predicted(self.training, _pairs)


def side_of(nats: float) -> float:
    """Return ln(1 / level) of one side of an interval, which has half of the level; at least `LEAST_NATS`."""
    return max(nats + math.log(2.0), LEAST_NATS)


def _edges(cells: Cells) -> Units:
    """Return a histogram as units: each row is split between both edges of its cell, with the same mean."""
    up = _upwards(cells)
    mass = np.append(cells.counts - up, 0.0)
    mass[1:] += up
    filled = mass > 0.0
    values = np.linspace(0.0, 1.0, CELLS + 1)[filled]
    return Units(np.ones_like(values), values, mass[filled], 1.0)


def _upwards(cells: Cells) -> NDArray[np.float64]:
    """Return the weight that each cell's rows give to its upper edge. Exact if the unit is a multiple of `CELLS`."""
    index, counts = np.arange(CELLS), cells.counts
    if cells.unit % CELLS == 0:
        step = cells.unit // CELLS
        beyond = (cells.sums - index * counts * step) / step
    else:
        beyond = cells.sums / cells.unit * CELLS - index * counts
    return np.asarray(np.clip(beyond, 0.0, counts), dtype=np.float64)


def _excess(cells: Cells) -> float:
    """Return how much splitting rows between cell edges adds to the sum of squares, if values fill cells evenly."""
    up = _upwards(cells)
    lottery = up * (1.0 - up / np.maximum(cells.counts, 1))
    return float(np.sum(np.maximum(lottery - cells.counts / 12.0, 0.0))) / CELLS**2


def _sums(groups: GroupSums, largest: float) -> Units:
    """Return groups of rows as units: the size is the number of rows, and the value is the sum over them."""
    refuse_larger(groups.sizes, largest)
    sizes = np.asarray(groups.sizes, dtype=np.float64)
    values = np.minimum(groups.sums / groups.unit, sizes)
    return Units(sizes, values, np.asarray(groups.counts, dtype=np.float64), largest, public=True)


def refuse_larger(sizes: NDArray[np.int64], largest: float) -> None:
    """Raise ValueError if a unit is larger than the public sizes allow, because bets on it would be unfair."""
    if np.max(sizes, initial=0) > largest:
        raise ValueError(
            "A group is larger than the public sizes of the sealed groups allow. Pass the sizes of the sealed groups."
        )


def _pairs(pairs: Pairs, largest: float, *, numerators: int = 0, denominators: int = 0) -> Units:
    """Return pairs of a ratio as units, whose sizes are the denominators and whose values are the numerators.

    Both were rounded down. They are raised by ``denominators`` and ``numerators`` grid steps for each row.
    """
    refuse_larger(pairs.sizes, largest)
    sizes = (pairs.denominators + denominators * pairs.sizes) / pairs.unit
    values = (pairs.numerators + numerators * pairs.sizes) / pairs.unit
    sizes = np.maximum(sizes, values)  # a numerator is no larger than its denominator, also before both were rounded
    within = sizes > 0.0
    return Units(sizes[within], values[within], pairs.counts[within].astype(np.float64), largest)


# Predicts sealed units from training units, to choose a stake.

_CLASSES = 256  # of training units by residual, and no more than so many for the choice of a stake
_FEW_CLASSES = 64
_SIZES = 16  # classes of sizes
LEAST_NATS = 1e-3
_GHOSTS = 0.5  # of a typical training unit at either end: what n_t units cannot exclude


@dataclass(frozen=True, eq=False)
class Prediction:
    """Prediction of the sealed units' spread from training units. Public.

    Attributes:
        sizes: Size of training units of each kind, shape (kinds,).
        residuals: Value of training units of each kind less the value that the training mean predicts, shape (kinds,).
        counts: Number of training units of each kind, shape (kinds,).
        mean: Mean of the training values.
        excess: Amount by which splitting rows between grid points adds to the sum of squared residuals.
        scale: Sealed rows for each training row.
        largest: Largest size of any unit, sealed or training.
        public: True if the sizes of sealed units are public.
    """

    sizes: NDArray[np.float64]
    residuals: NDArray[np.float64]
    counts: NDArray[np.float64]
    mean: float
    excess: float
    scale: float
    largest: float
    public: bool = False

    @classmethod
    def of(cls, units: Units, *, scale: float, excess: float = 0.0) -> Prediction:
        """Build the prediction from training units, of which there may be none."""
        if not units.total > 0.0:
            size = np.array([units.largest, units.largest])
            units = Units(size, size * [0.0, 1.0], np.array([0.5, 0.5]), units.largest, units.public)
        mean = units.mean
        sizes, residuals, counts = units.sizes, units.values - mean * units.sizes, units.counts
        sizes, residuals, counts = _in_classes(sizes, residuals, counts, _CLASSES)
        return cls(sizes, residuals, counts, mean, excess, scale, units.largest, units.public)

    @property
    def total(self) -> float:
        """Number of rows of all training units."""
        return float(np.sum(self.counts * self.sizes))

    @property
    def typical(self) -> float:
        """Expected size of the unit to which a random row belongs."""
        return float(np.sum(self.counts * self.sizes**2)) / self.total

    def around(self, guess: float) -> Units:
        """Return the predicted sealed units: the training units, changed so that their mean is the guess.

        If the guess is far from the training mean, as for a model that was fitted on the training rows, the sealed
        units are expected to spread more. For a higher guess values are scaled up. If that does not reach the guess, a
        share of the units counts as 1. For a lower guess all this is mirrored. Values that are 0, 1/2 or 1 of
        their size are not scaled, because sealed values are expected to be of the same kind.
        """
        values = np.clip(self.mean * self.sizes + self.residuals, 0.0, self.sizes)
        likely = Units(self.sizes, values, self.counts * self.scale, self.largest, self.public)
        return _raised(likely, guess) if guess >= likely.mean else _raised(likely.mirrored, 1.0 - guess).mirrored

    def spread(self, guess: float) -> float:
        """Return the predicted sum of squared residuals of as many units as in training, if the mean is the guess."""
        units = float(np.sum(self.counts))
        squares = max(self.around(guess).spread() / self.scale - self.excess, 0.0)
        ghosts = _GHOSTS * self.typical**2 * (guess**2 + (1.0 - guess) ** 2)
        return squares * units / max(units - 1.0, 1.0) + ghosts


def _raised(units: Units, mean: float) -> Units:
    """Return the units with values raised until their mean is ``mean``, as `Prediction.around` describes."""
    values, shares = units.values, units.values / np.maximum(units.sizes, 1e-300)
    if not np.all(np.isin(shares, (0.0, 0.5, 1.0))):
        values = np.minimum(values * (mean / max(units.mean, 1e-300)), units.sizes)
    reached = float(np.sum(units.counts * values)) / units.total
    share = min(max((mean - reached) / max(1.0 - reached, 1e-300), 0.0), 1.0)
    sizes, values = np.append(units.sizes, units.sizes), np.append(values, units.sizes)
    counts = np.append(units.counts * (1.0 - share), units.counts * share)
    return Units(sizes[counts > 0.0], values[counts > 0.0], counts[counts > 0.0], units.largest, units.public)


def _in_classes(
    sizes: NDArray[np.float64], residuals: NDArray[np.float64], counts: NDArray[np.float64], number: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return sizes, residuals and counts, with units alike in both merged if there are too many kinds."""
    if len(sizes) <= 2 * number:
        return sizes, residuals, counts
    least, greatest = float(residuals.min()), float(residuals.max())
    classes = np.minimum((residuals - least) / max(greatest - least, 1e-300) * number, number - 1).astype(np.int64)
    classes += number * np.ceil(sizes / float(sizes.max()) * _SIZES).astype(np.int64)  # large groups limit the stakes
    weights = np.bincount(classes, counts)
    filled = weights > 0
    means = [np.bincount(classes, counts * x)[filled] / weights[filled] for x in (sizes, residuals)]
    return means[0], means[1], np.asarray(weights[filled], dtype=np.float64)


# Closed form of a bet's interval: for plans and explanations, a little wider than the bet itself (S7, S8).
#
# Units are independent with ``0 <= Y_k <= n_k``. For centres ``c_k <= n_k`` and rates ``lambda_k`` with
# ``u_k = lambda_k (n_k - c_k) < 1``,
#
#     P[ sum lambda_k (E Y_k - Y_k) >= L + sum lambda_k^2 psi(u_k) (Y_k - c_k)^2 ] <= exp(-L),
#     psi(u) = (-u - ln(1 - u)) / u^2 .
#
# *Proof.* ``ln(1 + x) >= x - psi(u) x^2`` for ``x >= -u``. With ``x_k = lambda_k (c_k - Y_k) >= -u_k``,
# ``E exp(x_k - psi(u_k) x_k^2) <= 1 + E x_k <= exp(lambda_k (c_k - E Y_k))``; multiply, and Markov.


_SMALL = 1e-3


def psi(u: ArrayLike) -> NDArray[np.float64]:
    """Return ``(-u - ln(1 - u)) / u^2`` for ``u < 1``, growing from 1/2 at 0, shape (...)."""
    u = np.asarray(u, dtype=np.float64)
    series = 0.5 + u / 3.0 + u**2 / 4.0 + u**3 / 5.0 + u**4 / 6.0
    safe = np.where(np.abs(u) < _SMALL, 0.5, u)
    return np.where(np.abs(u) < _SMALL, series, (-safe - np.log1p(-safe)) / safe**2)


def planned_radius(*, spread: float, total: float, largest: float, nats: float) -> float:
    """Estimate the half-width of one side of a bet's interval at the best stake, for plans.

    The estimate is ``min over lambda of (L / lambda + lambda psi(lambda N) V) / n``, near ``sqrt(2 L V) / n``.

    Args:
        spread: V, the predicted sum of squared distances of the units from their centres.
        total: n, the number of rows, or of rows in the denominator.
        largest: N, the farthest that a unit can lie above its centre.
        nats: L of this side.

    Examples:
        >>> round(planned_radius(spread=20_000 * 0.07**2, total=20_000, largest=0.8, nats=12.1), 6)
        0.002768
    """
    u = np.linspace(0.0, 1.0, 1002)[1:-1]
    radii = (nats * largest / u + u * psi(u) * spread / largest) / total
    return float(np.min(radii))
