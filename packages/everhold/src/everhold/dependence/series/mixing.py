"""Mixing of finite Markov chains, and how much a row tells about rows at a distance.

Given row i, past and future are independent. So for two states x, x' of row i, its influence on an earlier and a later
row together is a sum of two parts. The bound is the largest sum over x, x'.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from everhold.errors import DependenceError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

TINY = 1e-290
"""Probability below which floating-point numbers lose digits."""

_EXPLORED = 512  # steps after which contraction coefficients of a set of chains are only multiplied
OUTWARD = 1.0 + 1e-12
"""Factor by which an upper bound grows more than rounding can lower it."""

_ROUNDING = 2.0**-50


class Chain:
    """A finite, time-homogeneous Markov chain with a known matrix.

    Args:
        transition: ``P[next state | state]``, shape (states, states); rows are scaled to sum to 1.
        stationary: Stationary law of the chain; None if it is not known.
    """

    def __init__(self, transition: ArrayLike, *, stationary: NDArray[np.float64] | None = None) -> None:
        matrix = np.array(transition, dtype=np.float64)
        self.transition = matrix / matrix.sum(axis=1, keepdims=True)
        self.states = len(matrix)
        if stationary is not None:
            self.stationary = stationary

    @cached_property
    def fault(self) -> str | None:
        """Text that says why the chain does not forget its first state, or None if the chain forgets it."""
        steps = self.transition > 0
        connected = _many_steps(steps | np.eye(self.states, dtype=bool), self.states)
        if not connected.all():
            return "some states cannot be reached from others"
        primitive = _many_steps(steps, (self.states - 1) ** 2 + 1)  # Wielandt: a primitive matrix is positive by then
        return None if primitive.all() else "it returns to a state only after multiples of a fixed number of steps"

    @cached_property
    def stationary(self) -> NDArray[np.float64]:
        """The stationary law, shape (states,), each entry to nearly full relative accuracy.

        Source: Grassmann, Taksar, Heyman 1985.
        """
        if self.fault == "some states cannot be reached from others":
            raise DependenceError(
                "The chain has no unique stationary distribution, because some states cannot be reached from others. "
                "Model the parts one by one, or tell them apart with groups=..."
            )
        reduced = self.transition.copy()
        for last in range(self.states - 1, 0, -1):
            reduced[:last, last] /= reduced[last, :last].sum()
            reduced[:last, :last] += np.outer(reduced[:last, last], reduced[last, :last])
        law = np.ones(self.states)
        for state in range(1, self.states):
            law[state] = law[:state] @ reduced[:state, state]
        return np.asarray(law / law.sum())

    @cached_property
    def reversal(self) -> Chain:
        """The chain in reversed time, ``P*(y, x) = pi(x) P(x, y) / pi(y)``. A reversible chain returns itself."""
        if self.is_reversible:
            return self
        flow = self.stationary[:, None] * self.transition
        return Chain(flow.T / self.stationary[:, None], stationary=self.stationary)

    @cached_property
    def is_reversible(self) -> bool:
        """Whether the law of the series is the same in reversed time, up to rounding."""
        flow = self.stationary[:, None] * self.transition
        return bool(np.allclose(flow, flow.T, rtol=1e-12, atol=1e-15))

    @cached_property
    def spectral_gap(self) -> float:
        """1 minus the second largest absolute eigenvalue."""
        return 1.0 - float(np.abs(np.linalg.eigvals(self._centred)).max(initial=0.0))

    @cached_property
    def norm(self) -> float:
        """Norm of the kernel on mean-zero functions in L2 of the stationary law, at most 1, rounded up (S5)."""
        root = np.sqrt(self.stationary)
        kernel = root[:, None] * self._centred / root[None, :]
        return min(float(np.linalg.norm(kernel, 2)) * (1.0 + 1e-12) + 1e-14, 1.0)

    @cached_property
    def _centred(self) -> NDArray[np.float64]:
        """The matrix ``P - 1 pi``. Its powers tend to zero, and differ from those of P by a matrix of equal rows."""
        law = self.stationary if self.fault is None else np.full(self.states, 1.0 / self.states)
        return np.asarray(self.transition - law)

    def distances(self, step: int, count: int) -> NDArray[np.float64]:
        """Return ``TV(P^h(x, .), P^h(x', .))`` for all pairs and h = 0, step, ..., (count - 1) step.

        Shape (pairs x < x', count), pairs in the order of ``np.triu_indices(states, 1)``.
        """
        result = np.ones((self.states * (self.states - 1) // 2, count))
        leap = np.linalg.matrix_power(self._centred, step)
        block = max(min((1 << 18) // self.states**2, count), 1)
        powers = leap[None]  # leap^1 ... leap^block, by doubling
        while len(powers) < block:
            powers = np.concatenate([powers, powers @ powers[-1]])
        powers, far = powers[:block], np.eye(self.states)
        for start in range(1, count, block):
            taken, pair = min(block, count - start), 0
            reached = powers[:taken] @ far
            for state in range(self.states - 1):  # half the L1 distances of this row and all later ones
                apart = np.abs(reached[:, state, None, :] - reached[:, state + 1 :, :]).sum(axis=2) / 2.0
                result[pair : pair + apart.shape[1], start : start + taken] = apart.T
                pair += apart.shape[1]
            far = powers[-1] @ far
        return result

    def distance_to_stationary(self, steps: int) -> float:
        """Return ``E_s TV(P^steps(s, .), pi)``, the dependence of two stationary rows at this distance."""
        power = np.linalg.matrix_power(self._centred, steps)
        return float(min(self.stationary @ np.abs(power).sum(axis=1) / 2.0, 1.0))


class Contraction:
    """A bound ``d(h)`` on ``max TV(P^h(x, .), P^h(x', .))`` over x, x' and all chains P of a set.

    The set contains the chains whose row s is within ``radii[s]`` of the estimate's row in L1. All radii are 0 for a
    known chain. Bound and proof are in docs/theory/series.
    """

    def __init__(self, chain: Chain, radii: NDArray[np.float64]) -> None:
        self.chain, self.radii = chain, radii

    @property
    def exact(self) -> bool:
        """Whether the set contains a single chain, so that the bound is exact."""
        return not self.radii.any() or self.chain.states == 1

    @cached_property
    def rate(self) -> float:
        """The least ``d(h)^(1/h)`` found, which bounds every eigenvalue but 1 of all chains of the set."""
        if self.exact:
            return 1.0 - self.chain.spectral_gap
        return float(np.min(self._first[1:] ** (1.0 / np.arange(1, len(self._first)))))

    def at(self, step: int, count: int) -> NDArray[np.float64]:
        """Return d(h) for h = 0, step, ..., (count - 1) step, shape (count,).

        Beyond 512 steps ``d(h) <= d(a)^k d(h - k a)`` with the a whose d falls fastest; it never underflows to 0.
        """
        if self.exact:
            return np.asarray(self.chain.distances(step, count).max(axis=0, initial=0.0))
        steps = step * np.arange(count)
        best = 1 + int(np.argmin(self._first[1:] ** (1.0 / np.arange(1, len(self._first)))))
        times, rest = np.divmod(steps, best)
        far = np.maximum(self._first[best] ** times * self._first[rest], TINY)
        return np.where(steps <= _EXPLORED, self._first[np.minimum(steps, _EXPLORED)], far)

    @cached_property
    def _first(self) -> NDArray[np.float64]:
        """The values d(h) for h up to 512, by the best of all ways to divide the steps."""
        pairs = self.chain.distances(1, _EXPLORED + 1)
        coefficients = pairs.max(axis=0)
        first, second = np.triu_indices(self.chain.states, 1)
        own = (self.radii[first] + self.radii[second]) / 2.0
        before = np.concatenate([[0.0], np.cumsum(coefficients[:-1])])[:-1]  # sum over j < h - 1
        drift = own[:, None] * coefficients[:-1] + self.radii.max() * before
        d = np.ones(_EXPLORED + 1)
        d[1:] = np.minimum((pairs[:, 1:] + drift).max(axis=0) * OUTWARD, 1.0)  # more than sums and products round
        for steps in range(2, _EXPLORED + 1):
            d[steps] = min(d[steps], float(np.min(d[1:steps] * d[steps - 1 : 0 : -1])))
            d[steps] = max(d[steps], TINY)  # an upper bound must not underflow: roots are taken of it
        return d


def _many_steps(steps: NDArray[np.bool_], least: int) -> NDArray[np.bool_]:
    """Return which states are reached in exactly 2^k steps, for a 2^k of at least ``least``."""
    for _ in range(max(least - 1, 0).bit_length()):
        steps = (steps.astype(np.float64) @ steps.astype(np.float64)) > 0
    return steps


def stationary_sides(
    transition: NDArray[np.float64], law: NDArray[np.float64], reach: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the influences of a row of a stationary chain on an earlier and on a later row, by distance.

    States of probability 0 are left out.
    """
    kept = law > 0.0
    transition, law = transition[np.ix_(kept, kept)], law[kept]
    forward, possible = powers_of(transition, reach)
    backward = forward.transpose(0, 2, 1) * law / law[:, None]
    return log_ratios(backward, possible.transpose(0, 2, 1)), log_ratios(forward, possible)


def set_growth(
    transition: NDArray[np.float64], radii: NDArray[np.float64], contraction: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return ``r_t`` with ``P^t(x, y) <= (1 + r_t) P^t(x', y)`` for t = 1 .. and all chains P near an estimate.

    Backwards the ratio is at most its square (proof in the guide on releases for dependent rows).
    """
    reach = len(contraction) - 1
    powers = np.concatenate([np.eye(len(transition))[None], powers_of(transition, reach)[0]])
    most, least = powers.max(axis=1), powers.min(axis=1)
    drift = float(radii.max()) / 2.0 * np.cumsum(most - least, axis=0)[:-1] + _ROUNDING * reach
    high, low = most[1:] + drift, least[1:] - drift
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.where(low > 0.0, (high - low) / low, math.inf).max(axis=1)
    return np.array([np.min(own[:t] * np.maximum(contraction[t - 1 :: -1][:t], TINY)) for t in range(1, reach + 1)])


def mixing_of(chain: Chain) -> tuple[float, float]:
    """Return the kernel's norm on mean-zero functions, and the least stationary probability, each as a safe bound."""
    return chain.norm, float(chain.stationary.min()) * (1.0 - 1e-12)


def influence_bound(distance: NDArray[np.int64], *, norm: float, least: float) -> NDArray[np.float64]:
    """Return ``ln((1 + d_t)/(1 - d_t))``, ``d_t = norm^t (1/least - 1)``, infinite where ``d_t >= 1``.

    This number bounds the influence across t steps, forwards and backwards (proof in the guide on releases for
    dependent rows).
    """
    far = norm**distance * (1.0 / least - 1.0) * (1.0 + _ROUNDING * distance)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(far < 1.0, np.log1p(far) - np.log1p(-far), math.inf) * (1.0 + _ROUNDING)


def powers_of(transition: NDArray[np.float64], most: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return ``P^1 .. P^most`` and where they are positive, each of shape (most, states, states)."""
    states = len(transition)
    powers = np.empty((most, states, states))
    possible = np.empty((most, states, states), dtype=bool)
    power, reached = np.eye(states), np.eye(states, dtype=bool)
    for step in range(most):
        power = power @ transition
        reached = (reached.astype(np.float64) @ (transition > 0.0)) > 0.0
        powers[step], possible[step] = power, reached
    return powers, possible


def log_ratios(kernels: NDArray[np.float64], possible: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return ``max_y ln K(x,y)/K(x',y)`` by distance and pair x, x', rounded up, (distances, states, states).

    A probability too small to be computed accurately counts as 0 in a denominator, and as computed in a numerator.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        above = np.log(np.maximum(kernels, TINY))
        below = np.where(kernels >= TINY, np.log(kernels), -math.inf)
        largest = np.full(kernels.shape[:2] + kernels.shape[1:2], -math.inf)
        for y in range(kernels.shape[2]):
            ratio = np.where(possible[:, :, None, y], above[:, :, None, y] - below[:, None, :, y], -math.inf)
            np.maximum(largest, ratio, out=largest)
    distance = np.arange(1, len(kernels) + 1)[:, None, None]
    return np.asarray(largest + _ROUNDING * distance * kernels.shape[2])
