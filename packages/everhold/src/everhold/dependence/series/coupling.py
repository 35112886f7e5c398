"""Couplings of series: how many rows change when one row does (S4), and their sums (S5).

Time is divided on two scales. Up to a few thousand steps every step counts; beyond, meeting times are rounded up to a
multiple of a coarser step. Rounding up can only raise a bound.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import scipy

from everhold.dependence.leakage import Spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.dependence.series.mixing import Chain, Contraction

Lengths = tuple[tuple[int, int], ...]
"""Pairs (length of a series, number of series of that length)."""

_FORGOTTEN = 1e-16  # a tail below this is not followed further; what is left counts as never meeting
_ROUNDING = 1e-12  # more than the transforms below can lose to rounding; counted as never meeting
_MOST_COUNTS = 40  # different numbers of rows in the result; each costs one evaluation of a curve
_TAIL = 16.0  # -ln of the smallest tail along which numbers of rows are told apart
_CELLS = 1 << 22  # numbers held at once by one table of tails


class Coupling(ABC):
    """The couplings forwards and backwards in time from a row whose state is replaced.

    Pairs of states come in kinds. Given the kind, the two meeting times are independent. ``P[T > 0] = 1`` for every
    kind; pairs of equal states belong to no kind, for nothing but the row itself changes.

    Attributes:
        weights: Probability of each kind, shape (kinds,); their sum is at most 1.
        stuck: Probability of further pairs, about which nothing is known.
    """

    weights: NDArray[np.float64]
    stuck: float = 0.0

    @abstractmethod
    def forward(self, step: int, count: int) -> NDArray[np.float64]:
        """Return ``P[T_forward > h]``, or more, for h = 0, step, ..., (count - 1) step, shape (kinds, count)."""

    def backward(self, step: int, count: int) -> NDArray[np.float64]:
        """Return the same probabilities backwards in time, by default equal to those forwards."""
        return self.forward(step, count)


class ChainCoupling(Coupling):
    """The maximal couplings of a known chain in its stationary law: ``P[T > h] = TV(P^h(x, .), P^h(x', .))``.

    Source: Griffeath 1975; backwards the kernel is the time reversal.
    """

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        law = chain.stationary
        first, second = np.triu_indices(chain.states, 1)
        self.weights = 2.0 * law[first] * law[second]

    def forward(self, step: int, count: int) -> NDArray[np.float64]:
        """Return the total variation distances of the kernel's powers."""
        return self.chain.distances(step, count)

    def backward(self, step: int, count: int) -> NDArray[np.float64]:
        """Return the total variation distances of the powers of the time reversal."""
        return self.chain.reversal.distances(step, count)


class UniformCoupling(Coupling):
    """A coupling bound for every chain of a set and every first state: ``P[T_forward > h] <= d(h)``.

    Backwards ``E P[T_backward > h] <= min(1, 2 (1 - 1/S) d(h))``, an average over pairs that is allowed since the bound
    forwards is the same for all pairs.
    """

    def __init__(self, contraction: Contraction, states: int) -> None:
        self.contraction = contraction
        self.factor = 2.0 * (1.0 - 1.0 / states)
        self.weights = np.ones(1)

    def forward(self, step: int, count: int) -> NDArray[np.float64]:
        """Return the contraction coefficients d(h)."""
        return self.contraction.at(step, count)[None, :]

    def backward(self, step: int, count: int) -> NDArray[np.float64]:
        """Return a bound of at most twice d(h), which holds on average over pairs."""
        tail = np.minimum(self.factor * self.contraction.at(step, count), 1.0)
        tail[0] = 1.0
        return np.asarray(tail[None, :])


class GaussianCoupling(Coupling):
    """The couplings of a Gaussian AR(1) series, for rows x and x' with |x - x'| = D rounded up to 320 values.

    ``P[T > h] = 2 Phi(r^h D / (2 sqrt(1 - r^(2h)))) - 1`` for ``r = |correlation|`` in both directions of time.

    Args:
        correlation: r, in [0, 1).
    """

    def __init__(self, correlation: float) -> None:
        self.correlation = correlation
        self.apart = np.geomspace(2e-3, 12.2, 320)  # D = |N(0, 2)| is larger with probability 6e-18
        below = scipy.special.erf(np.concatenate([[0.0], self.apart]) / 2.0)
        self.weights = np.diff(below)
        self.stuck = 1e-17

    def forward(self, step: int, count: int) -> NDArray[np.float64]:
        """Return the total variation distances of normal laws with equal variance."""
        tail = np.ones((len(self.apart), count))
        if self.correlation == 0.0:
            tail[:, 1:] = 0.0
            return tail
        logs = math.log(self.correlation) * step * np.arange(1, count)
        tail[:, 1:] = scipy.special.erf(np.outer(self.apart, np.exp(logs) / np.sqrt(-8.0 * np.expm1(2.0 * logs))))
        return tail


@dataclass(frozen=True, slots=True)
class StepTail:
    """A nonincreasing step function of the number of steps, with a value from each edge to the next."""

    edges: NDArray[np.int64]
    values: NDArray[np.float64]

    def total(self, start: int, stop: int) -> float:
        """Return the sum over h = start, ..., stop - 1."""
        ends = np.concatenate([self.edges[1:], [max(stop, int(self.edges[-1]))]])
        width = np.minimum(ends, stop) - np.maximum(self.edges, start)
        return float(self.values @ np.maximum(width, 0))

    def squares(self, length: int) -> float:
        """Return ``sum_i D_i^2`` over the rows of a series, where ``D_i`` sums over the rows from row i on (S5)."""
        near = min(length, len(self.edges))
        regular = int(np.searchsorted(np.diff(self.edges[:near]), 2))  # so many edges are single steps
        exact = np.cumsum(self.values[: min(regular, length)])
        return float(exact @ exact) + (length - len(exact)) * self.total(0, length) ** 2


def mean_tail(coupling: Coupling, longest: int, *, backward: bool, worst: bool = False) -> StepTail:
    """Return the tail of the meeting time up to ``longest`` steps, over all pairs of states or of the worst kind."""
    table = _table(coupling, _power_of_two(longest))
    fine, coarse = (table.backward, table.coarse_backward) if backward else (table.forward, table.coarse_forward)
    near, far = (_reduced(coupling, part, worst=worst) for part in (fine, coarse))
    start = (len(near) - 1) // table.step + 1
    edges = np.concatenate([np.arange(len(near)), table.step * np.arange(start, len(far))])
    return StepTail(edges, np.concatenate([near, far[start:]]))


def _reduced(coupling: Coupling, tails: NDArray[np.float64], *, worst: bool) -> NDArray[np.float64]:
    values = tails.max(axis=0) if worst else coupling.weights @ tails
    return np.asarray(np.minimum(values + coupling.stuck, 1.0))


@lru_cache(maxsize=256)
def spread(coupling: Coupling, lengths: Lengths, *, lost: float = 0.0) -> Spread:
    """Return the leakage bound of a coupling, averaged over all rows of all series (S4).

    A row with f rows from itself to one end of its series and b to the other has
    ``H = min(T_forward, f) + min(T_backward, b) - 1``; docs/theory/series averages it over the places in a series.
    """
    sums = _sums(coupling, _power_of_two(max(length for length, _ in lengths)))
    total = sum(length * number for length, number in lengths)
    near, far = np.zeros_like(sums.both), np.zeros_like(sums.coarse_both)
    ends: dict[int, float] = {1: sums.equal}
    for length, number in lengths:
        share = number * length / total
        fine = _placed(sums.both, sums.cut, 1, length)
        coarse = _placed(sums.coarse_both, sums.coarse_cut, sums.step, length)
        near += share * fine
        far += share * coarse
        rest = max(1.0 - sums.equal - float(fine.sum() + coarse.sum()), 0.0) + _ROUNDING
        ends[length] = ends.get(length, 0.0) + share * rest
    counts = np.concatenate([np.arange(len(near)) - 1, sums.step * np.arange(len(far)) - 1, list(ends)])
    masses = np.concatenate([near, far, list(ends.values())])
    return _rounded_up(counts, masses, lost=lost)


def _placed(both: NDArray[np.float64], cut: NDArray[np.float64], step: int, length: int) -> NDArray[np.float64]:
    """Return ``P[H = step k - 1]`` for k = 0, 1, ..., averaged over the rows of a series, except where H = length."""
    ends = step * np.arange(len(both))
    inner = np.maximum(length - ends, 0)
    outer = np.clip(length - ends + step, 0, step)
    return np.asarray(np.where(ends - 1 <= length, both * inner + cut * outer, 0.0) / length)


@dataclass(frozen=True, slots=True, eq=False)
class _CouplingTable:
    """Tail probabilities of meeting times on a fine grid, and on a coarse grid for long times."""

    forward: NDArray[np.float64]
    backward: NDArray[np.float64]
    step: int
    coarse_forward: NDArray[np.float64]
    coarse_backward: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Convolutions of meeting times on the fine grid, and on the coarse grid for multiples of its step."""

    both: NDArray[np.float64]
    cut: NDArray[np.float64]
    step: int
    coarse_both: NDArray[np.float64]
    coarse_cut: NDArray[np.float64]
    equal: float


@lru_cache(maxsize=32)
def _table(coupling: Coupling, longest: int) -> _CouplingTable:
    most = min(max(1 << (_CELLS // max(len(coupling.weights), 1)).bit_length() >> 1, 256), 4096)
    reach = 1
    while reach < longest and _at(coupling, reach) > _FORGOTTEN:
        reach *= 2
    fine = min(reach, most)
    step = min(max(reach // most, 1), most)
    points = 1 if reach <= fine else min(reach // step, most) + 1
    near, far = _both(coupling, 1, fine + 1), _both(coupling, step, points)
    return _CouplingTable(near[0], near[1], step, far[0], far[1])


def _both(coupling: Coupling, step: int, count: int) -> list[NDArray[np.float64]]:
    return [_monotone(coupling.forward(step, count)), _monotone(coupling.backward(step, count))]


def _at(coupling: Coupling, steps: int) -> float:
    return max(float(tails[:, 1].max(initial=0.0)) for tails in _both(coupling, steps, 2))


@lru_cache(maxsize=32)
def _sums(coupling: Coupling, longest: int) -> _Sums:
    table = _table(coupling, longest)
    fine = table.forward.shape[1] - 1
    near = _ended(table.forward, 1, longest), _ended(table.backward, 1, longest)
    both, cut = _convolved(coupling.weights, *near, fine)
    equal = max(1.0 - math.fsum(coupling.weights) - coupling.stuck, 0.0)
    if table.coarse_forward.shape[1] == 1:
        return _Sums(both, cut, 1, np.zeros(1), np.zeros(1), equal)
    coarse = table.coarse_forward.shape[1] - 1
    ends = _ended(table.coarse_forward, table.step, longest), _ended(table.coarse_backward, table.step, longest)
    whole = _convolved(coupling.weights, *ends, coarse)
    counted = _convolved(coupling.weights, *ends, fine // table.step)  # both times on the fine scale: already there
    far = [np.maximum(every - part, 0.0) for every, part in zip(whole, counted, strict=True)]
    return _Sums(both, cut, table.step, far[0], far[1], equal)


def _ended(tails: NDArray[np.float64], step: int, longest: int) -> NDArray[np.float64]:
    """Return tail probabilities of ``min(T, longest)``, because a series ends after its longest length."""
    reach = step * (tails.shape[1] - 1)
    return np.concatenate([tails[:, :-1], np.zeros((len(tails), 1))], axis=1) if reach >= longest else tails


def _convolved(
    weights: NDArray[np.float64], forward: NDArray[np.float64], backward: NDArray[np.float64], last: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ``sum_a P[F=a] P[B=k-a]`` and the sums with one time cut, for times of at most ``last``."""
    size = scipy.fft.next_fast_len(2 * forward.shape[1], real=True)
    both = np.zeros(size // 2 + 1, dtype=np.complex128)
    cut = np.zeros_like(both)
    block = max(_CELLS // (4 * size), 1)
    for start in range(0, len(weights), block):
        part = slice(start, start + block)
        front, front_tail = _spectra(forward[part], last, size)
        back, back_tail = _spectra(backward[part], last, size)
        both += weights[part] @ (front * back)
        cut += weights[part] @ (front_tail * back + front * back_tail)
    values = np.maximum(scipy.fft.irfft(np.stack([both, cut]), size), 0.0)
    values[:, :2] = 0.0
    return values[0], values[1]


def _spectra(tails: NDArray[np.float64], last: int, size: int) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Return the Fourier transforms of ``P[T = a]`` and ``P[last >= T >= a]``, a = 1, ..., last."""
    masses, least = np.zeros((2, len(tails), last + 1))
    masses[:, 1:] = tails[:, :last] - tails[:, 1 : last + 1]
    least[:, 1:] = tails[:, :last] - tails[:, last : last + 1]
    return np.asarray(scipy.fft.rfft(masses, size)), np.asarray(scipy.fft.rfft(least, size))


def _rounded_up(counts: NDArray[np.int64], masses: NDArray[np.float64], *, lost: float) -> Spread:
    """Return the law of H rounded up to few different numbers of rows, so that curves can be evaluated."""
    used = masses > 0.0
    distinct, place = np.unique(counts[used], return_inverse=True)
    merged = np.asarray(np.bincount(place, weights=masses[used]), dtype=np.float64)
    ends = distinct if len(distinct) <= _MOST_COUNTS else distinct[_kept(distinct, merged)]
    larger = np.searchsorted(ends, distinct)
    weights = np.bincount(larger, weights=merged, minlength=len(ends))
    filled = np.unique(larger)
    return Spread(tuple(map(int, ends[filled])), tuple(map(float, weights[filled])), lost=min(lost, 1.0))


def _kept(counts: NDArray[np.int64], masses: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the indices of the counts to keep: dense where they lower the mean most, sparse along the tail.

    Points of a density proportional to the root of the law's lose least of the mean by rounding up.
    """
    bulk = np.cumsum(np.sqrt(masses * np.diff(counts, prepend=0)))
    tail = -np.log(np.cumsum(masses[::-1])[::-1])
    kept = np.arange(0)
    for points in range(24, 240, 6):  # equal places merge: the more, the better, as long as they fit
        dense = np.searchsorted(bulk, np.linspace(0.0, bulk[-1], points))
        sparse = np.searchsorted(tail, np.linspace(0.0, _TAIL, 15))
        more = np.unique(np.minimum(np.concatenate([dense, sparse]), len(counts) - 1))
        if len(more) > _MOST_COUNTS - 1:
            break
        kept = more
    return np.union1d(kept, [len(counts) - 1])


def _monotone(tails: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the least nonincreasing tail probabilities above the given ones, which removes rounding errors."""
    rising = np.maximum.accumulate(tails[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(np.clip(rising, 0.0, 1.0))


def _power_of_two(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()


def says_nothing(coupling: Coupling) -> bool:
    """Return whether a row is independent of the next row."""
    return not coupling.forward(1, 2)[:, 1:].any()


def uniform_rows(coupling: Coupling, lengths: Lengths, rows: int) -> float:
    """Return ``n^2 / sum_i D_i^2`` (S5, Kontorovich and Ramanan) or ``n^2 / sum_c L_c^2`` for lengths L_c."""
    if says_nothing(coupling):
        return float(rows)
    total = sum(length * number for length, number in lengths)
    tail = mean_tail(coupling, max(length for length, _ in lengths), backward=False, worst=True)
    squares = sum(number * min(tail.squares(length), length * length) for length, number in lengths)
    return max(rows * total / squares * (1.0 - 1e-9), 1.0)  # an average in [0, 1] is worth one row at least
