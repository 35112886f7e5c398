"""Privacy loss distributions of curves, through the package `dp-accounting` (an extra, imported when needed)."""

from __future__ import annotations

import math
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from everhold.privacy.curves import PrivacyCurve

__all__ = ["composed_distribution"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

STEPS_PER_SPREAD, LARGEST_GRID = 1000, 200_000
"""Grid steps for the spread of the total loss, and the most steps one curve may take."""


@lru_cache(maxsize=32)
def composed_distribution(parts: tuple[tuple[PrivacyCurve, int], ...]) -> Any:
    """The loss distribution of all `parts`, pessimistic on its grid.

    Args:
        parts: Pairs of a curve and how many times it is used.

    Returns:
        A ``dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution``.

    Raises:
        ImportError: If `dp-accounting` is not installed.
    """
    library = _library()
    spreads = [_spread(curve) for curve, _ in parts]
    step = (
        math.sqrt(math.fsum(times * s * s for (_, times), s in zip(parts, spreads, strict=True))) / STEPS_PER_SPREAD
        or 1.0
    )
    total: Any = None
    for curve, times in parts:
        single = _distribution(curve, step, library)
        repeated = single.self_compose(times) if times > 1 else single
        total = repeated if total is None else total.compose(repeated)
    return total


def _library() -> Any:
    try:
        return import_module("dp_accounting.pld.privacy_loss_distribution"), import_module("dp_accounting.pld.pld_pmf")
    except ImportError as error:
        raise ImportError(
            "mixed composition of curves needs the package dp-accounting, which is not installed; "
            "run: pip install 'everhold[accounting]'"
        ) from error


def _spread(curve: PrivacyCurve) -> float:
    """A scale of the privacy loss: where the curve has fallen to a tenth of its start."""
    start, floor = curve.delta(0.0), curve.delta(math.inf)
    return curve.epsilon(max(0.1 * start, floor)) if floor < 0.1 * start else curve.epsilon(0.5 * (start + floor))


def _distribution(curve: PrivacyCurve, step: float, library: Any) -> Any:
    """Connect the dots of `curve` on multiples of `step`, mirrored to negative losses.

    Neighbours are symmetric, so ``delta(-eps) = 1 - e^{-eps} (1 - delta(eps))`` bounds the divergence at
    negative losses.
    """
    distributions, masses = library
    reach = _reach(curve)
    step_count = min(math.ceil(reach / step), LARGEST_GRID) or 1
    stride = math.ceil(reach / (step * step_count)) or 1
    positive = np.arange(step_count + 1) * stride
    deltas = np.asarray(curve.delta(positive * step))
    shrink = np.exp(-positive[:0:-1] * step)
    support = np.concatenate([-positive[:0:-1], positive])
    values = np.concatenate([-np.expm1(-positive[:0:-1] * step) + shrink * deltas[:0:-1], deltas])
    kept = _convex_hull(support * step, values)
    pmf = masses.create_pmf_pessimistic_connect_dots(step, support[kept], values[kept])
    return distributions.PrivacyLossDistribution(pmf)


def _reach(curve: PrivacyCurve) -> float:
    """A loss beyond which less than 1e-18 of delta is left to lose."""
    floor = curve.delta(math.inf)
    return min(curve._largest_loss(), curve.epsilon(min(1.0, floor + max(1e-18, floor * 1e-12))))


def _convex_hull(epsilon: Floats, delta: Floats) -> Integers:
    """Indices of the lower convex hull in ``e^eps``: the divergence behind an upper bound is convex there."""
    everything = np.arange(len(epsilon))
    if np.all(_bend(epsilon[:-2], epsilon[1:-1], epsilon[2:], delta[:-2], delta[1:-1], delta[2:]) >= -1e-14):
        return everything
    hull: list[int] = []
    for k in everything.tolist():
        while len(hull) > 1:
            i, j = hull[-2], hull[-1]
            if _bend(epsilon[i], epsilon[j], epsilon[k], delta[i], delta[j], delta[k]) > 0:
                break
            hull.pop()
        hull.append(k)
    return np.asarray(hull)


def _bend(e0: Any, e1: Any, e2: Any, d0: Any, d1: Any, d2: Any) -> Any:
    """Change of slope at the middle point, times ``e^{e1}`` so that nothing overflows."""
    return (d2 - d1) / np.expm1(e2 - e1) + (d1 - d0) / np.expm1(e0 - e1)
