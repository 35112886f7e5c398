"""How much one row of a chain tells about rows at a distance: influences on either side, exact and from two numbers.

Given row i, past and future are independent, so that for two states x, x' of row i the influence on a row before and a
row after it is a sum of two parts; their largest sum over x, x' counts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from everhold.dependence.series.mixing import Chain, Contraction
from everhold.errors import DependenceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.dependence.series.markov_chain import MarkovChain

__all__ = [
    "TINY", "chain_influences", "influence_bound", "log_ratios", "mixing_of", "powers_of", "radii_of", "set_growth",
    "sides_of", "stationary_sides",
]  # fmt: skip

TINY = 1e-290
"""A probability below it has lost digits."""

_ROUNDING = 2.0**-50
_SAFETY = 1e-12


def chain_influences(chain: MarkovChain, distances: int) -> dict[str, NDArray[np.float64]]:
    """Max-influence of a row of a stationary chain on rows at the distances 1, 2, ...; all arrays of that length.

    Args:
        chain: A chain.
        distances: Largest distance.

    Returns:
        Upper bounds, exact for a known chain: on one later row, on one earlier row, on both; for a known chain also the
        bound for both from the spectral gap.

    Raises:
        DependenceError: If the chain is not declared to be stationary.
    """
    before, after = sides_of(chain, distances)
    found = {
        "both sides": (before + after).max(axis=(1, 2)),
        "one row later": after.max(axis=(1, 2)),
        "one row earlier": before.max(axis=(1, 2)),
    }
    if chain.uncertainty is None:
        norm, least = mixing_of(Chain(chain.transition))
        bound = influence_bound(np.arange(1, distances + 1), norm=norm, least=least)
        found["bound from the spectral gap"] = 2.0 * bound
    return found


def sides_of(model: MarkovChain, reach: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Influences on one row before and on one row after, of a stationary chain or all chains of a set.

    Returns:
        Two arrays of shape (reach, states, states), for the distances 1, 2, ... and the pairs of states of the row; of
        shape (reach, 1, 1) for a set, where pairs of states are not told apart.

    Raises:
        DependenceError: If the chain is not stationary.
    """
    if model.initial != "stationary":
        raise DependenceError("the chain starts in a law of its own; expected a stationary chain; leave it out")
    chain, radii = Chain(model.transition), radii_of(model)
    if radii is None:
        return stationary_sides(chain.transition, chain.stationary, reach)
    contraction = Contraction(chain, radii).at(1, reach + 1) * (1.0 + _SAFETY)
    growth = set_growth(chain.transition, radii, contraction)
    later = (np.log1p(growth) * (1.0 + _SAFETY))[:, None, None]
    return 2.0 * later, later


def stationary_sides(
    transition: NDArray[np.float64], law: NDArray[np.float64], reach: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Influences of a row of a stationary chain on one row before and on one after; see `sides_of`.

    Args:
        transition: Row-stochastic matrix, shape (states, states).
        law: Its stationary law, shape (states,); states of probability 0 are left out.
        reach: Largest distance.
    """
    kept = law > 0.0
    transition, law = transition[np.ix_(kept, kept)], law[kept]
    forward, possible = powers_of(transition, reach)
    backward = forward.transpose(0, 2, 1) * law / law[:, None]
    return log_ratios(backward, possible.transpose(0, 2, 1)), log_ratios(forward, possible)


def set_growth(
    transition: NDArray[np.float64], radii: NDArray[np.float64], contraction: NDArray[np.float64]
) -> NDArray[np.float64]:
    """``r_t`` with ``P^t(x, y) <= (1 + r_t) P^t(x', y)`` for t = 1 .. and all chains P near an estimate; rounded up.

    Every entry of ``P^h`` is within ``e_h(y) = max(radii)/2 sum_{j<h} (max_x Q^j(x, y) - min_x Q^j(x, y))`` of that of
    ``Q^h``, which gives its range ``[low, high]``, and ``r_t = min_h d_(t-h) max_y (high - low)/low``. Forwards the
    ratio is ``1 + r_t``; backwards ``P^t(y, x)/pi(x)`` is between ``1/(1 + r_t)`` and ``1 + r_t``, so that the ratio is
    at most its square.
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
    """Norm of the kernel on mean-zero functions, rounded up, and least stationary probability, rounded down."""
    return chain.norm, float(chain.stationary.min()) * (1.0 - _SAFETY)


def influence_bound(distance: NDArray[np.int64], *, norm: float, least: float) -> NDArray[np.float64]:
    """``ln((1 + d_t)/(1 - d_t))``, ``d_t = norm^t (1/least - 1)``; infinite where ``d_t >= 1``.

    ``|P^t(x,y)/pi(y) - 1| <= d_t`` forwards and backwards, so it bounds the influence across t steps; those of both
    sides add up (proof in the guide on releases for dependent rows).
    """
    far = norm**distance * (1.0 / least - 1.0) * (1.0 + _ROUNDING * distance)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(far < 1.0, np.log1p(far) - np.log1p(-far), math.inf) * (1.0 + _ROUNDING)


def radii_of(model: MarkovChain) -> NDArray[np.float64] | None:
    """L1 radius of every row of the matrix; None for a known chain."""
    radii = np.array(model.uncertainty or (0.0,))
    return radii if radii.any() else None


def powers_of(transition: NDArray[np.float64], most: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """``P^1 .. P^most`` and where they are positive, each of shape (most, states, states)."""
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
    """``max_y ln K(x,y)/K(x',y)`` for each distance and pair x, x'; shape (distances, states, states), rounded up.

    Where K(x,y) = 0 there is nothing to see; where only K(x',y) = 0 the ratio is infinite. A probability so small that
    it lost its digits counts as 0 below the line and as itself above it.
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
