"""Limits of a mean that a judge's verdicts on a public pool help to know (docs/theory/assisted.md, Statement S18).

Rows are identically distributed, and each is in stratum 1 or 0 by the judge's verdict. A share is ``q a + (1 - q) b``:
q is the share of stratum 1, and a and b are the shares within the strata. The pool bounds q. Given the strata of the
sealed rows, the numbers K and M of rows with the property in each stratum are independent and binomial. A statistic
S(K, M) that grows with both puts their values in order. A pair (a, b) is excluded from below if ``P[S(K, M) >= s]`` is
at most the level (Buehler's limits).

Any other mean is ``E[h - sum l_k t_k] + sum l_k E[t_k]`` with public weights l_k of what the judge says (control
variates). Bets on the sealed rows, or on groups of them, bound the first part, and the pool bounds the second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy

from everhold.guarantees.intervals.betting import Bets, side_of
from everhold.guarantees.intervals.means import ClopperPearson
from everhold.guarantees.intervals.parts import OfScore

if TYPE_CHECKING:
    from numpy.typing import NDArray

Ends = tuple[float, float]

_OF_BOX = 0.02  # of a side's level, for the box of (a, b) in which its pairs are looked for
_CELLS = 256  # of a's interval
_BLOCKS = 512  # of values of K
_MOST_NATS = 300.0  # beyond them tails are not computed
_CLOSE = 0.002  # of the planned distance of the limit
_ROUNDING = 1e-9
_TIES = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class SeenStrata:
    """Number of rows in each of two strata, and how many of them have a property.

    Attributes:
        rows: Number of rows of stratum 1 and of stratum 0.
        counts: Number of rows with the property in each stratum, in the same order.
        weight: Share q of stratum 1 in the population, as counted in the pool.
    """

    rows: tuple[int, int] = field(repr=False)
    counts: tuple[int, int] = field(repr=False)
    weight: float

    @property
    def shares(self) -> Ends:
        """Shares with the property in each stratum; a stratum without rows has the share of all rows."""
        whole = sum(self.counts) / max(sum(self.rows), 1)
        first, second = (k / n if n else whole for k, n in zip(self.counts, self.rows, strict=True))
        return first, second

    @property
    def score(self) -> float:
        """The estimated share of the population: the shares of the strata, weighted by the pool."""
        first, second = self.shares
        return self.weight * first + (1.0 - self.weight) * second

    @property
    def mirrored(self) -> SeenStrata:
        """The same strata with the opposite property."""
        first, second = (n - k for k, n in zip(self.counts, self.rows, strict=True))
        return SeenStrata(self.rows, (first, second), self.weight)

    def scaled(self, rows: int) -> SeenStrata:
        """Return strata with ``rows`` rows in all and the same proportions, rounded to whole numbers."""
        scale = rows / max(sum(self.rows), 1)
        first = round(self.rows[0] * scale)
        sizes = first, rows - first
        counts = [min(round(share * n), n) for share, n in zip(self.shares, sizes, strict=True)]
        return SeenStrata(sizes, (counts[0], counts[1]), self.weight)


@dataclass(frozen=True, eq=False)
class StratifiedShare(OfScore):
    """Interval procedure of a share of independent rows of one law in two strata whose sizes a pool estimates.

    Attributes:
        planned: Counts by stratum for as many rows as are sealed, distributed as public facts say.
        training: Number of rows from which an honest guess was made.
        within: Interval of q from the pool, whose probability of failure is counted separately.
    """

    planned: SeenStrata
    rows: int
    training: int
    within: Ends

    name: ClassVar[str] = "stratified_share"
    title: ClassVar[str] = "exact binomial tails of two strata that a pool counts"
    why: ClassVar[str] = "counts in both strata so unusual are this unlikely, whatever the shares within them"

    def _ends(self, seen: SeenStrata, nats: float) -> Ends:
        """Return both limits of the share, which are cached for equal counts and levels."""
        key = seen.rows, seen.counts, nats
        if key not in self._known:
            low, high = (lower_limit(each, self.within, side_of(nats)) for each in (seen, seen.mirrored))
            self._known[key] = low, 1.0 - high
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple[tuple[int, int], tuple[int, int], float], Ends]:
        return {}

    @cached_property
    def _error(self) -> float:
        variance = _variance(self.planned, np.array(self.planned.counts[0]), np.array(self.planned.counts[1]), 0.5)
        return math.sqrt(float(variance) * (1.0 + self.rows / max(self.training, 1)))


def lower_limit(seen: SeenStrata, within: Ends, nats: float) -> float:
    """Return a lower limit of the share: all smaller shares are excluded (Statement S18). Rounded down.

    Args:
        seen: Counts of the sealed rows by stratum.
        within: Interval of q, the share of stratum 1.
        nats: ln(1 / level) of this side.
    """
    if nats > _MOST_NATS:
        return 0.0
    box = [
        ClopperPearson(rows=n, training=n).interval(k / n, nats - math.log(_OF_BOX / 2.0)) if n else (0.0, 1.0)
        for k, n in zip(seen.counts, seen.rows, strict=True)
    ]
    tails, edges = _Tails(seen, nats), np.linspace(*box[0], _CELLS + 1)
    wanted = math.sqrt(nats - math.log1p(-_OF_BOX))

    def distance(share: float) -> float:
        """Return ``sqrt(ln(1 / P))`` of the likeliest shares (a, b) in the box with at most this weighted share."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = [(share - q * edges[:-1]) / (1.0 - q) for q in within]
        largest = np.where(np.isnan(ends), 1.0, ends).max(axis=0)  # of b in each cell of a
        there = largest >= box[1][0]
        if not there.any():
            return math.inf
        found = float(np.max(tails.at(edges[1:][there], np.minimum(largest[there], box[1][1]))))
        return math.sqrt(max(-math.log(max(found, 1e-300)), 0.0))

    low, high, far, near = 0.0, seen.score, math.inf, distance(seen.score)
    if near >= wanted:
        return high
    at = high - tails.reach
    while high - low > _CLOSE * tails.reach:
        if (found := distance(at)) >= wanted:
            low, far = at, found
        else:
            high, near = at, found
        slope = (far - near) / (high - low)
        at = high - (wanted - near) / slope if math.isfinite(far) else (low + high) / 2.0
        if math.isinf(far) and near < wanted and low == 0.0:  # as far again
            at = max(high - tails.reach / 4.0, 0.0)
        at = min(max(at, low + 0.05 * (high - low)), high - 0.05 * (high - low))
    return max(low - _ROUNDING, 0.0)


class _Tails:
    """Probabilities that a statistic S of both strata's counts is at least as large as the observed one.

    ``S = q k / n + (1 - q) m / n' - z sd``, where the standard deviation is that of shares shrunk towards 1/2 by z^2 /
    4 rows on either side. Then S grows in k and in m.
    """

    def __init__(self, seen: SeenStrata, nats: float) -> None:
        self._seen, self._nats = seen, nats
        self._z = float(-scipy.special.ndtri(math.exp(-nats)))
        variance = float(_variance(seen, np.array(float(seen.counts[0])), np.array(float(seen.counts[1])), 1.0))
        self.reach = max(self._z, 1.0) * math.sqrt(max(variance, 1e-12))
        first, second = seen.rows
        least = float(self._statistic(np.array(float(seen.counts[0])), np.array(float(seen.counts[1])))) - _TIES
        k = np.arange(first + 1.0)
        low, high = np.full(len(k), -1.0), np.full(len(k), second + 1.0)  # the least m with S >= s is in (low, high]
        for _ in range(second.bit_length() + 1):
            at = np.floor((low + high) / 2.0)
            inside = self._statistic(k, np.clip(at, 0.0, second)) >= least
            inner = (at > low) & (at < high)
            high, low = np.where(inner & inside, at, high), np.where(inner & ~inside, at, low)
        self.needed = high  # for each k; second + 1 where there is none; falls in k

    def _statistic(self, k: NDArray[np.float64], m: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return S for ``k`` rows with the property in stratum 1 and ``m`` in stratum 0."""
        seen, z = self._seen, self._z
        weights = seen.weight, 1.0 - seen.weight
        mean = sum(w * x / max(n, 1) for w, x, n in zip(weights, (k, m), seen.rows, strict=True))
        return np.asarray(mean - z * np.sqrt(_variance(seen, k, m, z * z / 4.0)))

    def at(self, a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return upper bounds of ``P[S >= s]`` if the shares of the strata are a and b, shape (pairs,)."""
        first, second = self._seen.rows
        reach = math.sqrt((self._nats + 12.0) * first / 2.0)  # Hoeffding: there is next to nothing beyond it
        start, stop = max(math.floor(first * a.min() - reach), 0), min(math.ceil(first * a.max() + reach), first)
        step = -(-(stop - start + 1) // _BLOCKS)
        starts = np.unique(np.append(np.arange(start, stop + 1, step), [0, stop + 1]))  # of blocks of counts
        most = np.append(starts[1:] - 1, first)  # of each block, for which the least other count is enough
        above = _at_least(self.needed[np.minimum(most, first)], second, b[:, None])
        return np.asarray(np.minimum((_masses(starts, first, a[:, None]) * above).sum(axis=1) * (1.0 + 1e-9), 1.0))


def _masses(starts: NDArray[np.int64], rows: int, share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability that a binomial count falls in each block of counts. The last block has no upper end."""
    inner = starts[1:]
    upper = inner > rows * share
    ends = np.where(upper, inner, rows - inner + 1.0), np.where(upper, rows - inner + 1.0, inner)
    beyond = inner > rows
    tails = scipy.special.betainc(
        np.where(beyond, 1.0, ends[0]), np.where(beyond, 1.0, ends[1]), np.where(upper, share, 1.0 - share)
    )
    tails = np.where(beyond, 0.0, tails)
    ones = np.ones_like(share)
    above = np.hstack([ones, np.where(upper, tails, np.nan), 0.0 * ones])
    below = np.hstack([0.0 * ones, np.where(upper, np.nan, tails), ones])
    from_above, from_below = above[:, :-1] - above[:, 1:], below[:, 1:] - below[:, :-1]
    within = np.where(np.isnan(from_above), 1.0 - below[:, :-1] - above[:, 1:], from_above)
    return np.asarray(np.where(np.isnan(from_below), within, from_below))


def _at_least(
    counts: NDArray[np.float64] | NDArray[np.int64], rows: int, share: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the binomial probability of at least ``counts`` successes in ``rows`` trials, shape (..., counts)."""
    inside = np.clip(np.asarray(counts, dtype=np.float64), 1.0, max(rows, 1))
    found = scipy.special.betainc(inside, rows - inside + 1.0, share)
    return np.asarray(np.where(counts <= 0.0, 1.0, np.where(counts > rows, 0.0, found)))


def _variance(
    seen: SeenStrata, k: NDArray[np.float64], m: NDArray[np.float64], shrunk: float
) -> NDArray[np.float64]:  # fmt: skip
    """Return the variance of the weighted share. Shares are shrunk towards 1/2 by ``shrunk`` rows on either side."""
    found = np.zeros(np.broadcast_shapes(np.shape(k), np.shape(m)))
    for weight, x, n in zip((seen.weight, 1.0 - seen.weight), (k, m), seen.rows, strict=True):
        if n:
            share = (x + shrunk) / (n + 2.0 * shrunk)
            found = found + weight**2 * share * (1.0 - share) / n
    return found


@dataclass(frozen=True, slots=True, eq=False)
class SeenResiduals:
    """Estimate of a mean from rows and a pool, with the summary of residuals on which bets are made.

    Attributes:
        score: The estimate, as a share of the range.
        residuals: Summary of the residuals, each as a share of its own range.
    """

    score: float = field(repr=False)
    residuals: object = field(repr=False)


@dataclass(frozen=True, eq=False)
class ControlledMean(OfScore):
    """Interval procedure of a mean: that of residuals, plus a term that a pool estimates (Statement S18).

    Attributes:
        planned: The estimate and the residuals from training rows.
        bets: Bets on the mean of the residuals.
        width: Length of the range of a residual, in units of the mean's range.
        added: Interval of the term added to ``width`` times the mean of the residuals; it holds with a probability of
            its own.
        rounding: Largest error from rounding to grids.
    """

    planned: SeenResiduals
    rows: int
    bets: Bets
    width: float
    added: Ends
    rounding: float

    name: ClassVar[str] = "controlled_mean"
    title: ClassVar[str] = "betting on what a judge leaves unexplained, and a pool for the rest"
    why: ClassVar[str] = "a fair bet against the true mean of the residuals gains so much with this probability at most"

    def _ends(self, seen: SeenResiduals, nats: float) -> Ends:
        return self._moved(self.bets.interval(seen.residuals, nats))

    def _moved(self, ends: Ends) -> Ends:
        low, high = (self.width * end + added for end, added in zip(ends, self.added, strict=True))
        return max(low - self.rounding, 0.0), min(high + self.rounding, 1.0)

    def _planned_ends(self, nats: float) -> Ends:
        return self._moved(self.bets.expected(self.bets.prediction.mean, nats))

    @cached_property
    def _error(self) -> float:
        return self.width * self.bets.standard_error(self.bets.prediction.mean)
