"""Joint bets: the capital against a value and its nuisance values, and the values it excludes (S8).

Proofs are in docs/theory/interval-procedures.md.

Units k = 1, 2, ... are independent: rows, or groups of rows. The move x_k(p) of a unit is linear in a point p, which is
``(1, theta)``, or ``(1, theta, nuisance)``. At the true point the moves have the sum 0 on average, or less. No unit
loses more than r(p). A bet with the public stake c < 1 has the capital ``prod (1 + c x_k(p) / r(p))``, and bets with
several stakes share the capital with public weights.

*Valid.* Every factor is at least ``1 - c``. At the true point, by independence and because arithmetic means are at
least geometric ones, the expected capital is at most 1, and so is that of a mixture. By Markov's inequality it reaches
``exp(L)`` with probability at most ``exp(-L)``. This needs no equal means, no variances and no identical laws. So a
value is excluded if the capital reaches ``exp(L)`` at every nuisance value, because the true one is among them.

*Cells.* A cell is the segment between two points. In a cell bets share one loss r, as large as those at both ends. Then
the logarithm of each bet's capital is concave in p, as each factor is linear, and is least at an end. The mixture of
these least values is a certified lower bound in the whole cell.

*Ratios and means.* Unit k has a value Y_k with ``0 <= Y_k <= n_k``, and ``theta = sum E Y_k / sum E n_k``; the sizes
n_k may be public or themselves random, as long as no unit can be larger than a public size N. Then
``x_k = theta n_k - Y_k`` and ``r = (1 - theta) N``. Where a public guess of the spread names a rate s, its bet has
``min(s, u / r)`` in place of ``c / r``. Each capital grows with theta, so the values that are not excluded reach up to
the first root: where the rate is s, each move grows, and elsewhere ``x_k / r`` has the derivative
``(n_k - Y_k) / ((1 - theta)^2 N)``. Without a guess, c takes fixed fractions of the largest loss.

*Groups of unlike sizes.* Where sizes n_k are public, a rate may be larger than the largest group allows. With
``a_k = max(rate (1 - theta) n_k - u, 0)`` its factor is ``exp(-a_k) (1 + a_k + rate x_k)``, which is at least
``exp(-a_k) (1 - u)``. Its mean is ``exp(-a_k) (1 + a_k + rate E x_k) <= exp(rate E x_k)``, and these multiply to at
most 1. Its logarithm has the derivative ``rate n_k`` less ``rate n_k`` plus one that is not negative, so it grows.

*A hedge.* Half of the weight lies on the stake that the guess names, the other half is spread evenly over `FRACTIONS`.
A good guess costs ln 2 nats, and no guess costs more than ln 32 nats beyond the best of the fractions.

*Summaries.* The logarithm is concave, so replacing a unit by a lottery over (size, value) with the same mean can only
lower the capital: still valid, only wider. Histograms, and very many groups or pairs, are read in this way: units of
one cell are lotteries over its ends, or over the three corners of the half of a square in which (n_k, Y_k) lies. The
weights of three corners are linear in the point between them, so for all units of a half together they follow from its
sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

CAP = 0.95  # u: one unit as large as can be costs at most ln 20 of the capital
_BEYOND = 12.0  # what a group of the largest size may lose at a rate, where sizes are public
FRACTIONS = 0.9 * 2.0 ** -np.arange(16.0)
"""Fixed stakes, as parts of what one unit could lose; shape (16,)."""

MOST_PAID = math.log(2.0 * len(FRACTIONS))
"""Nats that each of the fractions pays for standing beside other stakes: ln 32."""

_HEDGE = np.log(np.append(0.5, np.full(len(FRACTIONS), 0.5 / len(FRACTIONS))))
_MULTIPLES = np.array([0.35, 0.5, 0.62, 0.75, 0.87, 1.0, 1.15, 1.35, 1.7, 2.5, 5.0, 15.0, 100.0, 1e4])
_OF_FAIR = np.array([0.35, 0.5, 0.62, 0.75, 0.87, 1.0, 1.15, 1.35, 1.6, 1.9, 2.3, 2.8, 3.5, 4.5, 6.0, 8.0, 11.0])
_STEPS, _SECANTS, _ROUNDS = 80, 8, 6  # after so many secants each step halves the bracket
_BELOW_ONE = math.nextafter(1.0, 0.0)
_DOUBT, _DOUBT_BY_UNIT = 1e-9, 1e-14
_UNITS_AT_ONCE, _MOST_NUMBERS = 2**14, 2**19  # bounds of the memory


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Independent units with sizes and values, counted by kind.

    Attributes:
        sizes: Size n_k of a unit of each kind, shape (kinds,); for ratios the denominators.
        values: Value Y_k of a unit of each kind in [0, n_k], shape (kinds,).
        counts: Number of units of each kind, shape (kinds,). It can have fractions, because values may be split between
            two grid points.
        largest: Largest size that any unit of the population can have; public.
        public: True if the size of each unit is public; False if sizes are sealed.
    """

    sizes: NDArray[np.float64] = field(repr=False)
    values: NDArray[np.float64] = field(repr=False)
    counts: NDArray[np.float64] = field(repr=False)
    largest: float
    public: bool = False

    @property
    def total(self) -> float:
        """Sum of the sizes."""
        return float(np.sum(self.counts * self.sizes))

    @property
    def mean(self) -> float:
        """Sum of the values divided by the sum of the sizes, nan without units."""
        total = self.total
        return min(float(np.sum(self.counts * self.values)) / total, 1.0) if total > 0.0 else math.nan

    @property
    def score(self) -> float:
        """Sum of the values divided by the sum of the sizes, even if above 1, or 0 without units."""
        below = float(self.counts @ self.sizes)
        return float(self.counts @ self.values) / below if below > 0.0 else 0.0

    @property
    def mirrored(self) -> Units:
        """Units with each value replaced by its size minus the value.

        A lower end for them gives an upper end for these units.
        """
        return replace(self, values=self.sizes - self.values)

    def times(self, scale: float) -> Units:
        """Return the same units with every count multiplied by ``scale``."""
        return replace(self, counts=scale * self.counts)

    def spread(self) -> float:
        """Return V, the sum of squared differences between each value and the mean times the size."""
        return float(np.sum(self.counts * (self.values - self.mean * self.sizes) ** 2))


@dataclass(frozen=True, eq=False)
class JointBets:
    """Bets against values of unknown parameters, called points. All stakes are fixed before sealed rows are read.

    Attributes:
        moves: Shape (games, units, coordinates): at the point p a unit multiplies capital by ``1 + rate (moves @ p)``.
        losses: Shape (games, coordinates): for no unit of a game is ``moves @ p`` less than ``-losses @ p``.
        counts: Shape (units,): how many equal units there are. Or (units, looks): how many of them count at each look.
        stakes: Shape (stakes,): parts of the largest loss, in [0, 1).
        weights: Shape (games, stakes) or (stakes,): logarithms of the shares of the capital.
        rates: Shape (stakes,): a bet has no higher rate than this, whatever the largest loss is.
        parts: Share of the largest loss that each unit can lose, shape (units,), if it is public; stakes may then
            exceed 1. None if any unit can lose the most.
    """

    moves: NDArray[np.float64] = field(repr=False)
    losses: NDArray[np.float64] = field(repr=False)
    counts: NDArray[np.float64] = field(repr=False)
    stakes: NDArray[np.float64] = field(repr=False)
    weights: NDArray[np.float64] = field(repr=False)
    rates: NDArray[np.float64] | float = field(default=math.inf, repr=False)
    parts: NDArray[np.float64] | None = field(default=None, repr=False)

    @cached_property
    def _largest_moves(self) -> NDArray[np.float64]:
        """Largest absolute value of `moves` over all units, shape (games, coordinates)."""
        return np.asarray(np.abs(self.moves).max(axis=1, initial=0.0))

    def gains(self, paths: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log capital of each bet at the points, less a bound of the rounding error.

        Args:
            paths: Shape (paths, points, coordinates): neighbours in a path span a cell, and its bets share one loss.

        Returns:
            Shape (paths, points, games, stakes, looks).
        """
        counts = self.counts if self.counts.ndim > 1 else self.counts[:, None]
        room = (paths @ self.losses.T).max(axis=1, keepdims=True)[..., None]
        gained = np.zeros((1, 1, 1, 1, 1))
        rates = np.minimum(self.stakes / room, self.rates)
        for start in range(0, self.moves.shape[1], _UNITS_AT_ONCE):
            some = slice(start, start + _UNITS_AT_ONCE)
            moves = np.einsum("pvd,gud->pvgu", paths, self.moves[:, some])
            factors = rates[..., None] * moves[..., None, :]
            factors += 1.0
            if self.parts is not None:
                beyond = np.maximum((rates * room)[..., None] * self.parts[some] - CAP, 0.0)
                factors += beyond
                gained = gained - beyond @ counts[some]
            gained = gained + np.log(factors, out=factors) @ counts[some]
        sizes = (np.abs(paths) @ self._largest_moves.T)[..., None]
        return np.asarray(
            gained + self.weights[..., None] - doubt_of(counts.sum(axis=0), (1.0 + rates * sizes)[..., None])
        )

    def capital(self, paths: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return lower bounds of the log capital between neighbouring points, or its value where a path has one point.

        Returns:
            Shape (cells, looks).
        """
        each = paths.shape[1] * self.moves.shape[0] * len(self.stakes) * min(self.moves.shape[1], _UNITS_AT_ONCE)
        at_once = max(_MOST_NUMBERS // max(each, 1), 1)
        return np.concatenate(
            [least_in_cells(self.gains(paths[start : start + at_once])) for start in range(0, len(paths), at_once)]
        )

    def at(self, *point: float) -> float:
        """Return the log capital of all bets against one point ``(1, *point)``."""
        return float(self.capital(np.array([[[1.0, *point]]]))[0, 0])


@dataclass(frozen=True, eq=False)
class MovedBets:
    """`JointBets` at points ``start + f direction``. Everything that depends neither on f nor on counts is cached.

    Only the first game depends on f, and no largest loss does.

    Attributes:
        bets: The bets without counts; the bets of a path share one loss.
        start: Points at f = 0, shape (paths, points, coordinates).
        direction: Direction in which the points move, of the same shape.
    """

    bets: JointBets
    start: NDArray[np.float64] = field(repr=False)
    direction: NDArray[np.float64] = field(repr=False)

    @cached_property
    def _rates(self) -> NDArray[np.float64]:
        """Stakes divided by the largest loss on each path, shape (paths, 1, games, stakes)."""
        return np.asarray(self.bets.stakes / (self.start @ self.bets.losses.T).max(axis=1, keepdims=True)[..., None])

    @cached_property
    def _still(self) -> NDArray[np.float64]:
        """Log factors of each unit in all games but the first, shape (paths, points, games, stakes, units)."""
        moves = np.einsum("pvd,gud->pvgu", self.start, self.bets.moves[1:])
        return np.asarray(np.log1p(self._rates[:, :, 1:, :, None] * moves[..., None, :]))

    @cached_property
    def _moving(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """The different factors in the first game at f = 0, their slopes in f, and which units have which factor."""
        kinds, kind_of = np.unique(self.bets.moves[0], axis=0, return_inverse=True)
        told = np.flatnonzero(kinds.any(axis=1))  # the factor of the others is 1
        of_kind = (kind_of.ravel() == told[:, None]).astype(np.float64)
        at, by = (
            self._rates[:, :, 0, :, None] * (points @ kinds[told].T)[:, :, None]
            for points in (self.start, self.direction)
        )
        return 1.0 + at, by, of_kind

    @cached_property
    def _largest(self) -> NDArray[np.float64]:
        """Upper bounds of all factors for f in [-1, 1], shape (paths, points, games, stakes)."""
        points = np.abs(self.start) + np.abs(self.direction)
        return np.asarray(1.0 + self._rates * (points @ self.bets._largest_moves.T)[..., None])

    def capital(self, counts: NDArray[np.float64]) -> Callable[[float], float]:
        """Return the function from f in [-1, 1] to a lower bound of the log capital on all paths.

        Args:
            counts: Number of equal units, shape (units,).
        """
        shares = self.bets.weights - doubt_of(counts.sum(), self._largest)
        still = least_in_cells((self._still @ counts + shares[:, :, 1:])[..., None])
        at, by, of_kind = self._moving
        kinds = of_kind @ counts

        def least(number: float) -> float:
            factors = number * by
            factors += at
            gained = np.log(factors, out=factors) @ kinds
            gained += shares[:, :, 0]
            ends = np.minimum(gained[:, :-1], gained[:, 1:]).reshape(len(still), -1)
            return float(log_of_sum(np.concatenate([ends, still], axis=1), axis=1).min())

        return least


def doubt_of(units: Any, factors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a generous bound of the rounding error of a log capital, in nats.

    Args:
        units: Number of units by which the capital is multiplied.
        factors: Upper bounds of the factors by which units multiply the capital.
    """
    return np.asarray(_DOUBT + _DOUBT_BY_UNIT * units * factors)


def least_in_cells(gains: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return lower bounds of the log capital of all bets together between neighbouring points, shape (cells, looks).

    Args:
        gains: Log capital of each bet at points, shape (paths, points, ..., looks); the dots stand for bets.
    """
    ends = gains if gains.shape[1] == 1 else np.minimum(gains[:, :-1], gains[:, 1:])
    logs = ends.reshape(ends.shape[0] * ends.shape[1], -1, ends.shape[-1])
    return log_of_sum(logs, axis=1)


def log_of_sum(logs: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Return ``ln sum e^l`` of finite numbers along an axis, ten times as fast as `scipy.special.logsumexp`."""
    most = logs.max(axis=axis, keepdims=True)
    return np.asarray(np.log(np.exp(logs - most).sum(axis=axis)) + most.squeeze(axis))


def first_excluded(
    capital: Callable[[float], float], nats: float, *, inside: float, outside: float, start: float,
    tolerance: float = 1e-9, steps: int | None = None,
) -> float:  # fmt: skip
    """Return the excluded value nearest to ``inside``, rounded outwards, or ``outside`` if no value is excluded.

    The search uses secant steps inside a bracket, each a little beyond the expected root, so that both ends of the
    bracket move. Then it halves the bracket, because the least capital of many cells may jump. The capital against the
    returned value was computed, and reaches the level.

    Args:
        capital: Function from a value to the log capital against it, which grows on the way outwards.
        nats: ln(1 / level) of this side.
        inside: A value that is not excluded.
        outside: End of the search, above or below ``inside``.
        start: The value that is tried first.
        tolerance: Share of the end's distance from ``inside`` by which it may lie too far out.
        steps: Number of values to try, so that the time reveals nothing; None for as many as are needed.
    """
    span = outside - inside or 1e-300
    least, most = 0.0, 1.0  # parts of the way
    at, before = min(max((start - inside) / span, 1e-15), 0.9), (0.0, 0.0)
    for step in range(1, 1 + (steps or _STEPS)):
        gained = capital(inside + at * span)
        least, most = (at, most) if gained < nats else (least, at)
        if steps is None and most - least <= tolerance * most + 1e-15 / abs(span):
            break
        if step == 1:  # the capital is nearly a square of the distance
            following = at * math.sqrt(nats / max(gained, nats / 16.0))
        else:
            slope = (gained - before[1]) / (at - before[0]) if at != before[0] else 0.0
            following = at + (nats - gained) / slope if 0.0 < slope < math.inf else 0.0
        following += math.copysign(0.25 * tolerance * at, nats - gained)
        if step >= _SECANTS or not least < following < most:
            following = (least + most) / 2.0 if most < 1.0 else min(4.0 * least, (least + 1.0) / 2.0)
        at, before = following, (at, gained)
    return inside + most * span if most < 1.0 else outside


def ratio_bets(units: Units, stake: float | NDArray[np.float64], *, hedged: bool = True) -> JointBets:
    """Return bets against ratios theta that are too large, for points ``(1, theta)`` with theta below 1.

    Args:
        units: The sealed units, with sizes and values.
        stake: The rate that a public guess of the spread names, fixed before the look.
        hedged: True if bets with fixed fractions have half of the weight. False if the given rate has all of it. With
            several rates, the result is then not a bet, and only its `gains` can be compared, as `best_stake` does.
    """
    moves = np.stack([-units.values, units.sizes], axis=-1)[None]
    losses = np.array([[units.largest, -units.largest]])
    parts, most = (units.sizes / units.largest, _BEYOND) if units.public else (None, CAP)
    if not hedged:
        rates = np.atleast_1d(stake)
        stakes, weights = np.full(len(rates), most), np.zeros(len(rates))
        return JointBets(moves, losses, units.counts, stakes, weights, rates, parts=parts)
    rates = np.append(stake, np.full(len(FRACTIONS), math.inf))
    return JointBets(moves, losses, units.counts, np.append(most, FRACTIONS), _HEDGE, rates, parts=parts)


def upper_end(units: Units, stake: float, nats: float, *, hedged: bool = True, tolerance: float = 1e-9) -> float:
    """Return the least ratio above which all ratios are excluded, rounded up; 1 if no ratio is excluded.

    Args:
        units: The sealed units, with sizes and values.
        stake: Rate of the bets, as for `ratio_bets`.
        nats: ln(1 / level) of this side.
        hedged: True if bets with fixed fractions have half of the weight, as for `ratio_bets`.
        tolerance: Share of its distance from the mean by which the end may be too far out.
    """
    mean = units.mean
    if not mean < 1.0:
        return 1.0
    bets = ratio_bets(units, stake, hedged=hedged)
    likely = math.sqrt(2.0 * nats * units.spread()) if hedged else nats / stake + stake * units.spread() / 2.0
    wide = (likely + nats * units.largest * hedged) / units.total
    return first_excluded(
        lambda theta: bets.at(min(theta, _BELOW_ONE)), nats, inside=mean, outside=1.0, start=mean + wide,
        tolerance=tolerance,
    )  # fmt: skip


def best_stake(predicted: Units, nats: float) -> float:
    """Return the stake with the smallest upper end if sealed units are like ``predicted``, to six digits.

    It is near ``sqrt(2 L / V)`` where sums are nearly normal, and above or below it for skewed values and small levels.
    """
    multiples, unit = _MULTIPLES, math.sqrt(2.0 * nats / predicted.spread())
    if predicted.public and unit > (fair := CAP / ((1.0 - predicted.mean) * predicted.largest)):
        multiples, unit = _OF_FAIR, fair
    stakes, best = unit * multiples, int(np.flatnonzero(multiples == 1.0)[0])
    for _ in range(_ROUNDS):
        end = min(upper_end(predicted, float(stakes[best]), nats, hedged=False, tolerance=1e-4), _BELOW_ONE)
        gains = ratio_bets(predicted, stakes, hedged=False).gains(np.array([[[1.0, end]]]))[0, 0, 0, :, 0]
        if int(np.argmax(gains)) == best:
            break
        best = int(np.argmax(gains))  # its capital suffices there already, so its end is less
    return float(f"{stakes[best]:.6g}")
