"""Several mechanisms in a row: closed forms within a family, privacy loss distributions across families."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from everhold.privacy.curves import PrivacyCurve, PureCurve, whole

Floats = NDArray[np.float64]
Part = tuple[PrivacyCurve, int]

_STEPS_PER_SPREAD, _LARGEST_GRID = 1000, 200_000
"""Grid steps for the spread of the total loss, and the most steps one curve may take."""


def composed(parts: Iterable[Part]) -> PrivacyCurve:
    """The curve of all parts in a row, each chosen after the ones before it have answered.

    Gaussian, zero-concentrated and equal pure parts are joined in closed form first; a
    `ComposedCurve` is built only if several families are left.

    Args:
        parts: Pairs of a curve and how many times it is used.

    Examples:
        >>> from everhold.privacy.curves import GaussianCurve
        >>> composed([(GaussianCurve(1.0), 9), (GaussianCurve(4.0), 1)])
        GaussianCurve(mu=5.0)
    """
    parts = list(parts)
    if not parts:
        raise ValueError("there is nothing to compose; pass at least one curve")
    joined: dict[Any, Part] = {}
    for curve, times in _flat(parts):
        family, single, count = curve._family(times)
        joined[family] = single._joined(count, *joined[family]) if family in joined else (single, count)
    closed = [
        (curve.repeat(n), 1) if type(curve).repeat is not PrivacyCurve.repeat else (curve, n)  # a closed form or none
        for curve, n in joined.values()
    ]
    if not closed:
        return PureCurve(0.0)
    if len(closed) == 1 and closed[0][1] == 1:
        return closed[0][0]
    return ComposedCurve(tuple(sorted(closed, key=repr)))


def _flat(parts: Iterable[Part]) -> Iterable[Part]:
    for curve, times in parts:
        if isinstance(curve, ComposedCurve):
            yield from ((inner, count * times) for inner, count in curve.parts)
        elif whole(times, "times") and curve.delta(0.0) > 0:
            yield curve, times


@dataclass(frozen=True, slots=True, repr=False)
class ComposedCurve(PrivacyCurve):
    """Mixed composition by privacy loss distributions: an upper bound, tight to its grid.

    The bound is about 1e-3 above the exact value, relatively, where a part has corners and 1e-6 where it is smooth;
    values below 1e-12 are not resolved. Build it with `composed` or `PrivacyCurve.compose`, which join parts of one
    family first. Evaluation needs the package `dp-accounting`.

    Args:
        parts: Pairs of a curve and how many times it is used.

    Raises:
        ImportError: On evaluation, if `dp-accounting` is not installed.

    Source: Doroshenko et al. 2022 (connect the dots); Zhu, Dong, Wang 2022 (a curve stands for its dominating pair).

    Examples:
        >>> from everhold.privacy.curves import GaussianCurve
        >>> PureCurve(0.5).compose(GaussianCurve(1.0))
        ComposedCurve(parts=((GaussianCurve(mu=1.0), 1), (PureCurve(epsilon=0.5, times=1), 1)))
    """

    kind: ClassVar[str] = "composed"

    parts: tuple[Part, ...]

    def _log_delta(self, epsilon: Floats) -> Floats:
        if not epsilon.size:
            return epsilon
        values = np.asarray(_distribution_of_all(self.parts).get_delta_for_epsilon(epsilon))
        with np.errstate(divide="ignore"):
            logs = np.log(np.clip(values, 0.0, 1.0))
        return np.where(epsilon >= self._largest_loss(), self._log_delta_at_infinity(), logs)

    def group(self, rows: int) -> PrivacyCurve:
        """The composition of the parts' own group curves."""
        return composed([(curve.group(rows), times) for curve, times in self.parts])

    def _largest_loss(self) -> float:
        return math.fsum(curve._largest_loss() * times for curve, times in self.parts)

    def _log_delta_at_infinity(self) -> float:
        kept = math.fsum(times * _log_complement(curve._log_delta_at_infinity()) for curve, times in self.parts)
        return math.log(-math.expm1(kept)) if kept < 0 else -math.inf

    def _parameters(self) -> dict[str, Any]:
        return {"parts": self.parts}

    def to_dict(self) -> dict[str, Any]:
        """The curve as plain data, its parts as ``{"curve", "times"}``."""
        return {"kind": self.kind, "parts": [{"curve": c.to_dict(), "times": n} for c, n in self.parts]}


@dataclass(frozen=True, slots=True, repr=False)
class GroupCurve(PrivacyCurve):
    """Group privacy of any curve: ``delta_h(h x) <= delta(x) (e^{h x} - 1)/(e^x - 1)`` for every ``x >= 0``.

    The bound is taken on a grid of x, made nonincreasing, and joined by chords in ``e^eps``: the true curve is convex
    there, so chords of upper bounds are upper bounds. Families with a closed form do not need it.

    Args:
        base: The curve for one row.
        rows: h, the number of rows that differ.

    Raises:
        ValueError: If `rows` is below 1.

    Source: Vadhan 2017, Lemma 2.2, for hockey-stick divergences step by step.
    """

    kind: ClassVar[str] = "group"

    base: PrivacyCurve
    rows: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", whole(self.rows, "rows"))

    def _log_delta(self, epsilon: Floats) -> Floats:
        grid, logs = _group_table(self.base, self.rows)
        cell = np.minimum(np.searchsorted(grid, epsilon, side="right") - 1, len(grid) - 2)
        start, width = grid[cell], grid[cell + 1] - grid[cell]
        past = np.minimum(epsilon - start, width)
        # share of the cell in e^eps, (e^past - 1)/(e^width - 1), without overflow
        log_share = past - width + _log_decay(past) - _log_decay(width)
        share = np.minimum(np.exp(log_share), 1.0)
        with np.errstate(divide="ignore"):
            return np.asarray(np.logaddexp(np.log1p(-share) + logs[cell], np.log(share) + logs[cell + 1]))

    def group(self, rows: int) -> PrivacyCurve:
        """Groups of groups."""
        return self.base.group(self.rows * whole(rows, "rows"))

    def _largest_loss(self) -> float:
        return self.rows * self.base._largest_loss()

    def _log_delta_at_infinity(self) -> float:
        return float(_group_table(self.base, self.rows)[1][-1])

    def _parameters(self) -> dict[str, Any]:
        return {"base": self.base, "rows": self.rows}

    def to_dict(self) -> dict[str, Any]:
        """The curve as plain data, with its base."""
        return {"kind": self.kind, "base": self.base.to_dict(), "rows": self.rows}


@lru_cache(maxsize=64)
def _group_table(base: PrivacyCurve, rows: int) -> tuple[Floats, Floats]:
    """Grid of epsilons ``h x`` and the running minimum of the bound there, both shape (4097,)."""
    last = 1.0
    while last < min(base._largest_loss(), 1e6) and base.log_delta(last) > -700.0:
        last *= 2.0
    last = min(last, base._largest_loss())
    single = np.append(0.0, last * np.geomspace(1e-9, 1.0, 4096)) if last > 0 else np.array([0.0, 1.0])
    growth = np.full(single.shape, math.log(rows))
    steps = single[1:]
    growth[1:] = (rows - 1) * steps + _log_decay(rows * steps) - _log_decay(steps)
    return rows * single, np.minimum.accumulate(np.minimum(base.log_delta(single) + growth, 0.0))


def _log_decay(x: Floats) -> Floats:
    """``ln(1 - e^{-x})``, -inf at 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(-np.expm1(-x)))


def _log_complement(log_probability: float) -> float:
    """``ln(1 - e^x)``."""
    return math.log1p(-math.exp(log_probability)) if log_probability < 0 else -math.inf


# Privacy loss distributions: a curve stands for its dominating pair ---------------------------------------------------

_STEPS_PER_SPREAD, _LARGEST_GRID = 1000, 200_000
"""Grid steps for the spread of the total loss, and the most steps one curve may take."""


@lru_cache(maxsize=32)
def _distribution_of_all(parts: tuple[Part, ...]) -> Any:
    """The ``PrivacyLossDistribution`` of all `parts`, pessimistic on its grid, by the package `dp-accounting`."""
    library = _library()
    spreads = [_spread(curve) for curve, _ in parts]
    step = (
        math.sqrt(math.fsum(times * s * s for (_, times), s in zip(parts, spreads, strict=True))) / _STEPS_PER_SPREAD
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
    # A loss beyond which less than 1e-18 of delta is left to lose
    floor = curve.delta(math.inf)
    reach = min(curve._largest_loss(), curve.epsilon(min(1.0, floor + max(1e-18, floor * 1e-12))))
    step_count = min(math.ceil(reach / step), _LARGEST_GRID) or 1
    stride = math.ceil(reach / (step * step_count)) or 1
    positive = np.arange(step_count + 1) * stride
    deltas = np.asarray(curve.delta(positive * step))
    shrink = np.exp(-positive[:0:-1] * step)
    support = np.concatenate([-positive[:0:-1], positive])
    values = np.concatenate([-np.expm1(-positive[:0:-1] * step) + shrink * deltas[:0:-1], deltas])
    kept = _convex_hull(support * step, values)
    pmf = masses.create_pmf_pessimistic_connect_dots(step, support[kept], values[kept])
    return distributions.PrivacyLossDistribution(pmf)


def _convex_hull(epsilon: Floats, delta: Floats) -> NDArray[np.int64]:
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
