"""Several mechanisms in a row: closed forms within a family, privacy loss distributions across families."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from everhold.privacy.curves import (
    ApproximateCurve,
    GaussianCurve,
    PrivacyCurve,
    PureCurve,
    ZeroConcentratedCurve,
    whole,
)
from everhold.privacy.loss_distribution import composed_distribution

__all__ = ["AdvancedCompositionCurve", "ComposedCurve", "GroupCurve", "basic_composition", "composed"]

Floats = NDArray[np.float64]
Part = tuple[PrivacyCurve, int]


def composed(parts: Iterable[Part]) -> PrivacyCurve:
    """The curve of all parts in a row, each chosen after the ones before it have answered.

    Gaussian, zero-concentrated and equal pure or approximate parts are joined in closed form first; a
    `ComposedCurve` is built only if several families are left.

    Args:
        parts: Pairs of a curve and how many times it is used.

    Raises:
        ValueError: If there is no part.

    Examples:
        >>> composed([(GaussianCurve(1.0), 9), (GaussianCurve(4.0), 1)])
        GaussianCurve(mu=5.0)
    """
    parts = list(parts)
    if not parts:
        raise ValueError("there is nothing to compose; pass at least one curve")
    joined: dict[Any, Part] = {}
    for curve, times in _flat(parts):
        key, single, count = _family(curve, times)
        joined[key] = _join(joined[key], (single, count)) if key in joined else (single, count)
    closed = [(curve.repeat(n), 1) if _has_closed_form(curve) else (curve, n) for curve, n in joined.values()]
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


def _family(curve: PrivacyCurve, times: int) -> tuple[Any, PrivacyCurve, int]:
    """What curves can be joined by, and the curve as a multiple of a single one."""
    if isinstance(curve, PureCurve):
        return ("pure", curve.level), PureCurve(curve.level), curve.times * times
    if isinstance(curve, ApproximateCurve):
        single = ApproximateCurve(curve.level, curve.failure)
        return ("approximate", single), single, curve.times * times
    if isinstance(curve, GaussianCurve | ZeroConcentratedCurve):
        return curve.kind, curve.repeat(times), 1
    return curve, curve, times  # joined only with its equals


def _has_closed_form(curve: PrivacyCurve) -> bool:
    return type(curve).repeat is not PrivacyCurve.repeat


def _join(first: Part, second: Part) -> Part:
    one, other = first[0], second[0]
    if isinstance(one, GaussianCurve) and isinstance(other, GaussianCurve):
        return GaussianCurve(math.hypot(one.mu, other.mu)), 1
    if isinstance(one, ZeroConcentratedCurve) and isinstance(other, ZeroConcentratedCurve):
        return ZeroConcentratedCurve(one.rho + other.rho), 1
    return one, first[1] + second[1]


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
        >>> PureCurve(0.5).compose(GaussianCurve(1.0))
        ComposedCurve(parts=((GaussianCurve(mu=1.0), 1), (PureCurve(epsilon=0.5, times=1), 1)))
    """

    kind: ClassVar[str] = "composed"

    parts: tuple[Part, ...]

    def _log_delta(self, epsilon: Floats) -> Floats:
        if not epsilon.size:
            return epsilon
        values = np.asarray(composed_distribution(self.parts).get_delta_for_epsilon(epsilon))
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


def basic_composition(parts: Sequence[tuple[float, float]]) -> ApproximateCurve:
    """Basic composition: the epsilons add up, and so do the deltas.

    Args:
        parts: Pairs ``(epsilon, delta)``, one for each mechanism.

    Returns:
        The curve of one ``(sum epsilon, sum delta)``-private mechanism.

    Raises:
        ValueError: If a parameter is out of range.

    Source: Dwork, Roth 2014, Theorem 3.16.

    Examples:
        >>> basic_composition([(0.1, 0.0), (0.2, 1e-6)])
        ApproximateCurve(epsilon=0.3..., delta=1e-06, times=1)
    """
    checked = [ApproximateCurve(epsilon, delta) for epsilon, delta in parts]
    failure = math.fsum(part.failure for part in checked)
    return ApproximateCurve(math.fsum(part.level for part in checked), min(1.0, failure))


@dataclass(frozen=True, slots=True, repr=False, init=False)
class AdvancedCompositionCurve(PrivacyCurve):
    """Advanced composition with the constants of the book, as a curve; for comparison, `ApproximateCurve` is exact.

    For every ``d > 0``, k mechanisms that are (e, f)-private are together private with
    ``(sqrt(2k ln(1/d)) e + k e (e^e - 1), k f + d)``; from ``k e`` on basic composition takes over.

    Args:
        epsilon: e, non-negative and finite.
        delta: f, in [0, 1].
        times: k.

    Raises:
        ValueError: If an argument is out of range.

    Source: Dwork, Roth 2014, Theorem 3.20.

    Examples:
        >>> AdvancedCompositionCurve(0.1, times=100).delta(4.0) > PureCurve(0.1, times=100).delta(4.0)
        True
    """

    kind: ClassVar[str] = "advanced"

    level: float
    failure: float
    times: int

    def __init__(self, epsilon: float, delta: float = 0.0, times: int = 1) -> None:
        single = ApproximateCurve(epsilon, delta, times)
        object.__setattr__(self, "level", single.level)
        object.__setattr__(self, "failure", single.failure)
        object.__setattr__(self, "times", single.times)

    def _log_delta(self, epsilon: Floats) -> Floats:
        drift = self.times * self.level * math.expm1(min(self.level, 700.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            deviations = np.maximum(epsilon - drift, 0.0) / self.level
        slack = np.where(epsilon >= self.times * self.level, -np.inf, -(deviations**2) / (2 * self.times))
        return np.minimum(np.logaddexp(self._log_delta_at_infinity(), slack), 0.0)

    def group(self, rows: int) -> AdvancedCompositionCurve:
        """Advanced composition of the mechanisms' group parameters."""
        single = ApproximateCurve(self.level, self.failure).group(rows)
        return AdvancedCompositionCurve(single.level, single.failure, self.times)

    def _largest_loss(self) -> float:
        return self.level * self.times

    def _log_delta_at_infinity(self) -> float:
        return math.log(min(1.0, self.times * self.failure)) if self.failure > 0 else -math.inf

    def _parameters(self) -> dict[str, Any]:
        return {"epsilon": self.level, "delta": self.failure, "times": self.times}


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
