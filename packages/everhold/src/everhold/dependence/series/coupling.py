"""Couplings of series: how many rows change if one row does, and how many independent rows a series is worth (S5).

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

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.dependence.series.mixing import Chain, Contraction

Lengths = tuple[tuple[int, int], ...]
"""Pairs (length of a series, number of series of that length)."""

_FORGOTTEN = 1e-16  # a tail below this is not followed further; what is left counts as never meeting
CELLS = 1 << 22  # numbers held at once by one table of tails


class Coupling(ABC):
    """The couplings forwards and backwards in time from a row whose state is replaced.

    Pairs of states come in kinds. Given the kind, the two meeting times are independent. ``P[T > 0] = 1`` for every
    kind. Pairs of equal states belong to no kind, because only the row itself changes.

    Attributes:
        weights: Probability of each kind, shape (kinds,); their sum is at most 1.
        stuck: Probability of all other pairs, whose meeting times are unknown.
    """

    weights: NDArray[np.float64]
    stuck: float = 0.0

    @abstractmethod
    def forward(self, step: int, count: int) -> NDArray[np.float64]:
        """Return upper bounds of ``P[T_forward > h]`` for h = 0, step, ..., (count - 1) step, shape (kinds, count)."""

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
    """Return the tail of the meeting time up to ``longest`` steps, over all pairs of states or of the worst kind.

    If ``backward`` is True, steps go backwards in time. If ``worst`` is True, the tail is that of the worst kind of
    pairs of states, else the average over all pairs.
    """
    table = meeting_tails(coupling, power_of_two(longest))
    fine, coarse = (table.backward, table.coarse_backward) if backward else (table.forward, table.coarse_forward)
    usual = [part.max(axis=0) if worst else coupling.weights @ part for part in (fine, coarse)]
    near, far = (np.asarray(np.minimum(tails + coupling.stuck, 1.0)) for tails in usual)
    start = (len(near) - 1) // table.step + 1
    edges = np.concatenate([np.arange(len(near)), table.step * np.arange(start, len(far))])
    return StepTail(edges, np.concatenate([near, far[start:]]))


@dataclass(frozen=True, slots=True, eq=False)
class MeetingTails:
    """Tail probabilities of meeting times on a fine grid, and on a coarse grid for long times."""

    forward: NDArray[np.float64]
    backward: NDArray[np.float64]
    step: int
    coarse_forward: NDArray[np.float64]
    coarse_backward: NDArray[np.float64]


@lru_cache(maxsize=32)
def meeting_tails(coupling: Coupling, longest: int) -> MeetingTails:
    """Return the tails of meeting times up to ``longest`` steps, a power of two."""
    most = min(max(1 << (CELLS // max(len(coupling.weights), 1)).bit_length() >> 1, 256), 4096)
    reach = 1
    while reach < longest and _at(coupling, reach) > _FORGOTTEN:
        reach *= 2
    fine = min(reach, most)
    step = min(max(reach // most, 1), most)
    points = 1 if reach <= fine else min(reach // step, most) + 1
    near, far = _both(coupling, 1, fine + 1), _both(coupling, step, points)
    return MeetingTails(near[0], near[1], step, far[0], far[1])


def _both(coupling: Coupling, step: int, count: int) -> list[NDArray[np.float64]]:
    return [_monotone(coupling.forward(step, count)), _monotone(coupling.backward(step, count))]


def _at(coupling: Coupling, steps: int) -> float:
    return max(float(tails[:, 1].max(initial=0.0)) for tails in _both(coupling, steps, 2))


def _monotone(tails: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the least nonincreasing tail probabilities above the given ones, which removes rounding errors."""
    rising = np.maximum.accumulate(tails[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(np.clip(rising, 0.0, 1.0))


def power_of_two(number: int) -> int:
    """Return the least power of two that is not below a positive number."""
    return 1 << max(number - 1, 0).bit_length()


def says_nothing(coupling: Coupling) -> bool:
    """Return whether a row is independent of the next row, so that it says nothing about it."""
    return not coupling.forward(1, 2)[:, 1:].any()


def uniform_rows(coupling: Coupling, lengths: Lengths, rows: int) -> float:
    """Return ``n^2 / sum_i D_i^2`` (S5, Kontorovich and Ramanan) or ``n^2 / sum_c L_c^2`` for lengths L_c."""
    if says_nothing(coupling):
        return float(rows)
    total = sum(length * number for length, number in lengths)
    tail = mean_tail(coupling, max(length for length, _ in lengths), backward=False, worst=True)
    squares = sum(number * min(tail.squares(length), length * length) for length, number in lengths)
    return max(rows * total / squares * (1.0 - 1e-9), 1.0)  # an average in [0, 1] is worth one row at least
