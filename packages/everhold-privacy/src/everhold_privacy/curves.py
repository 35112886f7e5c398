"""Hockey-stick curves: how much a mechanism reveals about one row, for every epsilon at once.

``delta(eps)`` is the largest ``E_{e^eps}(M(x) || M(x')) = sup_S M(x)(S) - e^eps M(x')(S)`` over neighbours, which
differ by replacing one row. A curve is an immutable value; ``group``, ``repeat`` and ``compose`` make new ones. The
work is done in log space, since planners look far into the tail.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib import import_module
from typing import Any, ClassVar, Self, overload

import numpy as np
import scipy
from numpy.typing import NDArray

from everhold.arguments import whole


class PrivacyCurve(ABC):
    """Upper bound on the hockey-stick divergence of neighbouring data sets, exact where a class says so.

    Curves are frozen, hashable and comparable. ``delta`` is nonincreasing with values in [0, 1]; at 0 it is the total
    variation distance. A new curve defines `kind` and `_log_delta`, `_parameters` if the constructor does not take its
    fields, and `_largest_loss` and `_log_delta_at_infinity` where they are not infinite.
    """

    __slots__ = ()

    kind: ClassVar[str]

    @abstractmethod
    def _log_delta(self, epsilon: Floats) -> Floats:
        """Return the logarithm of delta at `epsilon`, shape (points,), non-negative and finite."""

    def _parameters(self) -> dict[str, Any]:
        """Return the constructor's arguments by name, by default the fields."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    @overload
    def log_delta(self, epsilon: float) -> float: ...
    @overload
    def log_delta(self, epsilon: NDArray[Any]) -> Floats: ...
    def log_delta(self, epsilon: float | NDArray[Any]) -> float | Floats:
        """Return the natural logarithm of ``delta(epsilon)``, -inf where delta is 0.

        Args:
            epsilon: Non-negative privacy loss, a number or an array of any shape.

        Returns:
            A number for a number, an array of the same shape for an array.

        Raises:
            ValueError: If an epsilon is negative or not a number.
        """
        points = np.asarray(epsilon, dtype=np.float64)
        if not np.all(points >= 0):
            raise ValueError("epsilon is negative or not a number. Pass numbers of at least 0.")
        flat = points.ravel()
        finite = np.isfinite(flat)
        values = np.full(flat.shape, self._log_delta_at_infinity())
        values[finite] = self._log_delta(flat[finite])
        return float(values[0]) if np.ndim(epsilon) == 0 else values.reshape(points.shape)

    @overload
    def delta(self, epsilon: float) -> float: ...
    @overload
    def delta(self, epsilon: NDArray[Any]) -> Floats: ...
    def delta(self, epsilon: float | NDArray[Any]) -> float | Floats:
        """Return ``delta(epsilon)``. See `log_delta` for arguments and errors.

        Examples:
            >>> round(GaussianCurve(1.0).delta(1.0), 6)
            0.126937
        """
        value = np.exp(self.log_delta(epsilon))
        return float(value) if np.ndim(epsilon) == 0 else np.asarray(value)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon with ``delta(epsilon) <= delta``, infinite if no finite number is one.

        Args:
            delta: Delta at which the epsilon holds, in [0, 1].

        Returns:
            The privacy loss, to about 1e-14 relative of the curve's own accuracy.

        Raises:
            ValueError: If `delta` is outside [0, 1].

        Examples:
            >>> round(GaussianCurve(1.0).epsilon(1e-5), 4)
            4.3772
        """
        if not 0 <= delta <= 1:
            raise ValueError(f"delta is {delta}. Pass a number from 0 to 1.")
        target = math.log(delta) if delta > 0 else -math.inf
        if self.log_delta(0.0) <= target:
            return 0.0
        if self._log_delta_at_infinity() >= target:
            return self._largest_loss() if self._log_delta_at_infinity() == target else math.inf

        def excess(point: float) -> float:
            return max(self.log_delta(point) - target, -50.0)

        high = min(1.0, self._largest_loss())
        while excess(high) > 0:
            if high == sys.float_info.max:
                return math.inf
            high = min(2.0 * high, sys.float_info.max)
        low = high / 2.0
        while low > 1e-300 and excess(low) <= 0:
            low, high = low / 2.0, low
        return float(scipy.optimize.brentq(excess, low, high, xtol=1e-300, rtol=4 * np.finfo(float).eps, maxiter=500))

    def group(self, rows: int) -> PrivacyCurve:
        """Return the curve for data sets that differ in `rows` rows. The fallback is `GroupCurve`."""
        return GroupCurve(self, rows) if whole(rows, "rows") > 1 else self

    def repeat(self, times: int) -> PrivacyCurve:
        """Return the curve of `times` adaptively chosen mechanisms that each have this curve."""
        return composed([(self, whole(times, "times"))])

    def compose(self, other: PrivacyCurve) -> PrivacyCurve:
        """Return the curve of this mechanism and `other` together, the second chosen after the first answer.

        Two curves of the same family have a closed form. Other pairs become a `ComposedCurve`, which is evaluated with
        privacy loss distributions.
        """
        return composed([(self, 1), (other, 1)])

    def to_dict(self) -> dict[str, Any]:
        """Return the curve as plain data: ``{"kind": ..., **parameters}``."""
        said = self._parameters()
        return {"kind": self.kind} | {
            name: each.to_dict() if isinstance(each, PrivacyCurve) else each for name, each in said.items()
        }

    def _family(self, times: int) -> tuple[Any, PrivacyCurve, int]:
        """Return a key, a base curve, and how many times it is used. `_joined` joins curves with equal keys."""
        return self, self, times

    def _joined(self, times: int, other: Self, more: int) -> tuple[PrivacyCurve, int]:
        """Return a curve and its count, equal to `times` times this curve and `more` times another of its family."""
        return self, times + more

    def _largest_loss(self) -> float:
        """Return the smallest epsilon from which on delta stays at its limit."""
        return math.inf

    def _log_delta_at_infinity(self) -> float:
        return -math.inf

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self._parameters().items())
        return f"{type(self).__name__}({arguments})"


@dataclass(frozen=True, slots=True, repr=False, init=False)
class PureCurve(PrivacyCurve):
    """Exact worst case of `times` pure mechanisms in a row, each ``epsilon``-private.

    Args:
        epsilon: Pure privacy loss of one mechanism, non-negative and finite.
        times: Number of mechanisms, chosen adaptively.

    Raises:
        ValueError: If an argument is out of range.

    Source: Kairouz, Oh, Viswanath 2015, Theorem 3.3.

    Examples:
        >>> PureCurve(0.1, times=20).delta(1.0)
        0.002396...
        >>> PureCurve(0.1, times=20).epsilon(0.0)
        2.0
    """

    kind: ClassVar[str] = "pure"

    level: float
    times: int

    def __init__(self, epsilon: float, times: int = 1) -> None:
        object.__setattr__(self, "level", non_negative(epsilon, "epsilon"))
        object.__setattr__(self, "times", whole(times, "times"))

    def _log_delta(self, epsilon: Floats) -> Floats:
        return log_delta_pure(epsilon, self.level, self.times)

    def group(self, rows: int) -> PureCurve:
        """Return the exact curve for data sets that differ in `rows` rows: that of the loss ``rows * epsilon``."""
        return PureCurve(whole(rows, "rows") * self.level, self.times)

    def repeat(self, times: int) -> PureCurve:
        """Return the exact curve of `times` as many of these mechanisms."""
        return PureCurve(self.level, self.times * whole(times, "times"))

    def _family(self, times: int) -> tuple[Any, PureCurve, int]:
        single = PureCurve(self.level)
        return single, single, self.times * times

    def _largest_loss(self) -> float:
        return self.level * self.times

    def _parameters(self) -> dict[str, Any]:
        return {"epsilon": self.level, "times": self.times}


@dataclass(frozen=True, slots=True, repr=False)
class GaussianCurve(PrivacyCurve):
    """Exact curve of Gaussian noise, ``Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2)``.

    Args:
        mu: Sensitivity in standard deviations of the noise, ``sqrt(k)/(n sigma)`` for k averages over n rows.

    Raises:
        ValueError: If `mu` is negative or infinite.

    Source: Dong, Roth, Su 2022; Balle, Wang 2018.

    Examples:
        >>> GaussianCurve(3.0).compose(GaussianCurve(4.0))
        GaussianCurve(mu=5.0)
    """

    kind: ClassVar[str] = "gaussian"

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", non_negative(self.mu, "mu"))

    def _log_delta(self, epsilon: Floats) -> Floats:
        if self.mu == 0:
            return np.full(epsilon.shape, -np.inf)
        with np.errstate(over="ignore"):
            near = np.clip(epsilon / self.mu - self.mu / 2, -1e150, 1e150)  # its square is taken
        close = np.minimum(near, FAR)
        mills = log_gaussian_small(close, self.mu) if self.mu <= 1 else log_gaussian_large(close, self.mu)
        beyond = np.maximum(near, FAR)
        far = log_density(beyond) + math.log(self.mu) - np.log(beyond) - np.log(beyond + self.mu)
        return np.where(near > FAR, far, mills)

    def group(self, rows: int) -> GaussianCurve:
        """Return the exact curve for data sets that differ in `rows` rows: the one with `rows` times the mu."""
        return GaussianCurve(whole(rows, "rows") * self.mu)

    def repeat(self, times: int) -> GaussianCurve:
        """Return the exact curve of `times` mechanisms with this curve: the one with ``sqrt(times)`` times the mu."""
        return GaussianCurve(math.sqrt(whole(times, "times")) * self.mu)

    def _family(self, times: int) -> tuple[Any, GaussianCurve, int]:
        return self.kind, self.repeat(times), 1

    def _joined(self, times: int, other: Self, more: int) -> tuple[GaussianCurve, int]:
        return GaussianCurve(math.hypot(self.mu, other.mu)), 1


@dataclass(frozen=True, slots=True, repr=False)
class ZeroConcentratedCurve(PrivacyCurve):
    """Curve of any mechanism whose Renyi divergence of order a is at most ``a rho`` for every ``a > 1``.

    The smaller of ``inf_a e^{(a-1)(a rho - eps)} (1-1/a)^{a-1} / a`` and of the total variation bounds
    ``sqrt(rho/2)`` (Pinsker) and ``sqrt(1 - e^{-rho})`` (Bretagnolle-Huber).

    Args:
        rho: Zero-concentrated privacy loss, non-negative and finite.

    Raises:
        ValueError: If `rho` is negative or infinite.

    Source: Canonne, Kamath, Steinke 2020, Corollary 13.

    Examples:
        >>> ZeroConcentratedCurve(0.5).delta(1.0) >= GaussianCurve(1.0).delta(1.0)
        True
    """

    kind: ClassVar[str] = "zero-concentrated"

    rho: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", non_negative(self.rho, "rho"))

    def _log_delta(self, epsilon: Floats) -> Floats:
        if self.rho == 0:
            return np.full(epsilon.shape, -np.inf)
        with np.errstate(over="ignore"):
            order = np.minimum(best_order(epsilon, self.rho), 1e150)  # a - 1
            exponent = order * ((order + 1) * self.rho - epsilon)
        renyi = exponent - order * np.log1p(1 / order) - np.log1p(order)
        variation = 0.5 * math.log(min(self.rho / 2, -math.expm1(-self.rho)))
        return np.asarray(np.minimum(renyi, variation))

    def group(self, rows: int) -> ZeroConcentratedCurve:
        """Return the curve for data sets that differ in `rows` rows (Bun and Steinke 2016, Proposition 27)."""
        return ZeroConcentratedCurve(whole(rows, "rows") ** 2 * self.rho)

    def repeat(self, times: int) -> ZeroConcentratedCurve:
        """Return the curve of `times` mechanisms, whose rho add up."""
        return ZeroConcentratedCurve(whole(times, "times") * self.rho)

    def _family(self, times: int) -> tuple[Any, ZeroConcentratedCurve, int]:
        return self.kind, self.repeat(times), 1

    def _joined(self, times: int, other: Self, more: int) -> tuple[ZeroConcentratedCurve, int]:
        return ZeroConcentratedCurve(self.rho + other.rho), 1


@dataclass(frozen=True, slots=True, repr=False, init=False)
class BoundedRangeCurve(PrivacyCurve):
    """Exact worst case of a mechanism whose privacy losses about a row span at most ``epsilon``.

    For neighbours ``x, x'`` all of ``ln M(x)(y)/M(x')(y)`` lie in one interval of length epsilon, which then contains
    0. That is less than pure epsilon-privacy allows, where they span ``2 epsilon``: the curve starts at
    ``tanh(epsilon/4)`` instead of ``tanh(epsilon/2)``. Several in a row are composed by privacy loss distributions.

    Args:
        epsilon: Width of the range, non-negative and finite.

    Raises:
        ValueError: If `epsilon` is negative or infinite.

    Source: docs/theory, selection; Durfee, Rogers 2019 (bounded range); Dong, Durfee, Rogers 2020 (the worst laws).

    Examples:
        >>> round(BoundedRangeCurve(1.0).delta(0.0), 4), round(PureCurve(1.0).delta(0.0), 4)
        (0.2449, 0.4621)
        >>> BoundedRangeCurve(1.0).epsilon(0.0)
        1.0
    """

    kind: ClassVar[str] = "bounded-range"

    width: float

    def __init__(self, epsilon: float) -> None:
        object.__setattr__(self, "width", non_negative(epsilon, "epsilon"))

    def _log_delta(self, epsilon: Floats) -> Floats:
        """Return the logarithm of ``(1 - e^{-(w - eps)/2})^2 / (1 - e^{-w})``."""
        left = np.maximum(self.width - epsilon, 0.0)
        with np.errstate(divide="ignore"):
            within = 2.0 * np.log(-np.expm1(-left / 2.0))
        return within - math.log(-math.expm1(-self.width)) if self.width > 0 else within

    def group(self, rows: int) -> BoundedRangeCurve:
        """Return the exact curve for data sets that differ in `rows` rows: the range is `rows` times as wide."""
        return BoundedRangeCurve(whole(rows, "rows") * self.width)

    def _largest_loss(self) -> float:
        return self.width

    def _parameters(self) -> dict[str, Any]:
        return {"epsilon": self.width}


def non_negative(value: float, name: str) -> float:
    """Return `value` as a float, or raise ValueError unless it is non-negative and finite."""
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} is {value}. Pass a finite number of at least 0.")
    return float(value)


# Several mechanisms in a row: closed forms within a family, privacy loss distributions across families.

Part = tuple[PrivacyCurve, int]


def composed(parts: Iterable[Part]) -> PrivacyCurve:
    """Return the curve of all parts in a row, each chosen after the ones before it have answered.

    Gaussian, zero-concentrated and equal pure parts are joined in closed form first; a
    `ComposedCurve` is built only if several families are left.

    Args:
        parts: Pairs of a curve and how many times it is used.

    Examples:
        >>> composed([(GaussianCurve(1.0), 9), (GaussianCurve(4.0), 1)])
        GaussianCurve(mu=5.0)
    """
    parts = list(parts)
    if not parts:
        raise ValueError("There is nothing to compose. Pass at least one curve.")
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
    """Composition of different curves by privacy loss distributions: an upper bound, tight up to its grid.

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
        values = np.asarray(_distribution_of_all(self.parts).get_delta_for_epsilon(epsilon))
        with np.errstate(divide="ignore"):
            logs = np.log(np.clip(values, 0.0, 1.0))
        return np.where(epsilon >= self._largest_loss(), self._log_delta_at_infinity(), logs)

    def group(self, rows: int) -> PrivacyCurve:
        """Return the curve for data sets that differ in `rows` rows: the composition of the parts' own such curves."""
        return composed([(curve.group(rows), times) for curve, times in self.parts])

    def _largest_loss(self) -> float:
        return math.fsum(curve._largest_loss() * times for curve, times in self.parts)

    def _log_delta_at_infinity(self) -> float:
        kept = math.fsum(times * _log_complement(curve._log_delta_at_infinity()) for curve, times in self.parts)
        return math.log(-math.expm1(kept)) if kept < 0 else -math.inf

    def to_dict(self) -> dict[str, Any]:
        """Return the curve as plain data, with its parts as ``{"curve", "times"}``."""
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
        """Return the curve for data sets that differ in `rows` times as many rows."""
        return self.base.group(self.rows * whole(rows, "rows"))

    def _largest_loss(self) -> float:
        return self.rows * self.base._largest_loss()

    def _log_delta_at_infinity(self) -> float:
        return float(_group_table(self.base, self.rows)[1][-1])


@lru_cache(maxsize=64)
def _group_table(base: PrivacyCurve, rows: int) -> tuple[Floats, Floats]:
    """Return a grid of epsilons ``h x`` and the nonincreasing bound of `GroupCurve` there, both of shape (4097,)."""
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
    """Return ``ln(1 - e^{-x})``, -inf at 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(-np.expm1(-x)))


def _log_complement(log_probability: float) -> float:
    """Return ``ln(1 - e^x)``."""
    return math.log1p(-math.exp(log_probability)) if log_probability < 0 else -math.inf


# Privacy loss distributions: a curve stands for its dominating pair ---------------------------------------------------

_STEPS_PER_SPREAD, _LARGEST_GRID = 1000, 200_000
"""Grid steps for the spread of the total loss, and the most steps one curve may take."""


@lru_cache(maxsize=32)
def _distribution_of_all(parts: tuple[Part, ...]) -> Any:
    """Return the pessimistic ``PrivacyLossDistribution`` of all `parts` on its grid, by `dp-accounting`."""
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
            "Composing different kinds of curves needs the package dp-accounting. Install "
            "it: pip install 'everhold[accounting]'."
        ) from error


def _spread(curve: PrivacyCurve) -> float:
    """Return a scale for the curve's grid: the epsilon at which delta has fallen to a tenth of its value at 0."""
    start, floor = curve.delta(0.0), curve.delta(math.inf)
    return curve.epsilon(max(0.1 * start, floor)) if floor < 0.1 * start else curve.epsilon(0.5 * (start + floor))


def _distribution(curve: PrivacyCurve, step: float, library: Any) -> Any:
    """Return the distribution that connects `curve` at multiples of `step`, mirrored to negative losses.

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
    """Return the indices of the lower convex hull in ``e^eps``, in which the true divergence is convex."""
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
    """Return the change of slope at the middle point, times ``e^{e1}`` so that nothing overflows."""
    return (d2 - d1) / np.expm1(e2 - e1) + (d1 - d0) / np.expm1(e0 - e1)


# Tails of privacy losses on the logarithmic scale: of Gaussian noise, and of pure mechanisms in a row.


Floats = NDArray[np.float64]
FAR = 1e8
"""Standard deviations beyond which Mills' ratio is ``1/x`` to the last digit of the logarithm."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


def log_gaussian_small(near: Floats, mu: float) -> Floats:
    """Return ln of ``phi(a) int_0^inf e^{-a s - s^2/2} (1 - e^{-mu s}) ds``, ``a = eps/mu - mu/2``, ``mu <= 1``.

    It is ``Phi(-a) - e^eps Phi(-a-mu)`` by ``e^eps phi(a+mu) = phi(a)`` and Mills' ratio as a Laplace transform; the
    integrand is positive. It is cut where the exponent reaches 45; 64 Gauss-Legendre points leave 1e-15.
    """
    reach = 90.0 / (near + np.sqrt(near * near + 90.0))
    points = reach[:, None] * (0.5 + 0.5 * _NODES)
    integrand = np.exp(-points * (near[:, None] + 0.5 * points)) * -np.expm1(-mu * points)
    return np.asarray(log_density(near) + np.log(0.5 * reach * (integrand @ _WEIGHTS)))


def log_gaussian_large(near: Floats, mu: float) -> Floats:
    """Return the same logarithm as `log_gaussian_small`, here for ``mu > 1``."""
    upper = _mills(near + mu)
    above = near > 0
    result = np.empty(near.shape)
    result[above] = log_density(near[above]) + np.log(_mills(near[above]) - upper[above])
    below = near[~above]
    result[~above] = np.log1p(-(scipy.special.ndtr(below) + np.exp(log_density(below)) * upper[~above]))
    return result


def _mills(x: Floats) -> Floats:
    """Return Mills' ratio ``Phi(-x)/phi(x)``."""
    return np.asarray(math.sqrt(math.pi / 2) * scipy.special.erfcx(x / math.sqrt(2)))


def log_density(x: Floats) -> Floats:
    """Return the logarithm of the standard normal density."""
    return np.asarray(-0.5 * x * x - 0.5 * math.log(2 * math.pi))


def best_order(epsilon: Floats, rho: float) -> Floats:
    """Return the t = a - 1 that solves ``(2t+1) rho - eps = ln(1 + 1/t)``.

    The difference of the sides is concave and increasing, so Newton climbs from the left without overshooting. Left of
    the root lie ``(eps-rho)/(2 rho)`` and, since ``ln(1 + 1/t) <= 1/t``, also ``1/expm1((rho-eps)_+ + sqrt(2 rho))``.
    Any t gives a valid bound.
    """
    exponent = np.minimum(np.maximum(rho - epsilon, 0.0) + math.sqrt(2 * rho), 700.0)
    order = np.maximum((epsilon - rho) / (2 * rho), 1 / np.expm1(exponent))
    for _ in range(30):
        deficit = np.log1p(1 / order) + epsilon - (2 * order + 1) * rho
        before, order = order, order + np.maximum(deficit, 0.0) / (2 * rho + 1 / (order * (order + 1)))
        if np.array_equal(before, order):  # it climbs no more
            break
    return order


# The exact curve of B pure mechanisms in a row (Kairouz, Oh, Viswanath 2015), to 1e-12 relative.
#
# With ``w_l = C(B,l) e^{l e0} / (1+e^{e0})^B`` and ``d_l = (2l-B) e0 - eps`` the curve is
# ``sum_{l>=k} w_l (1 - e^{-d_l})``, k the first index with ``d_k > 0``. With ``r = e^{-2 e0}`` and each
# factor split at k,
#
#     delta = A_k (1 - e^{-d_k}) + e^{-d_k} B_k,   A_k = sum_{l>=k} w_l,   B_k = sum_{l>k} w_l (1 - r^{l-k}),
#
# and ``B_k = r B_{k+1} + (1-r) A_{k+1}``: only positive terms, so nothing cancels however small e0 or eps is. A and B
# are
# tabulated once per (e0, B) around the mode; indices far out in the tail are summed from their own first term.

Integers = NDArray[np.int64]

SMALLEST_WEIGHT = 1e-278
"""Relative weight down to which the table keeps the terms that matter after it away from underflow."""


def log_delta_pure(epsilon: Floats, level: float, times: int) -> Floats:
    """Return the logarithm of ``sum_l C(B,l) [e^{l e0} - e^{eps+(B-l) e0}]_+ / (1+e^{e0})^B``.

    Args:
        epsilon: Shape (points,), non-negative.
        level: e0 of one mechanism, non-negative and finite.
        times: B, the number of mechanisms.

    Returns:
        Shape (points,), -inf from ``B e0`` on.
    """
    result = np.full(epsilon.shape, -np.inf)
    inside = epsilon < times * level
    if inside.any():
        inner = epsilon[inside]
        # The smallest l with (2l - B) e0 > eps, where the rounded quotient may be one off.
        first = np.floor((times + inner / level) / 2).astype(np.int64) + 1
        first -= _loss_minus_epsilon(first - 1, inner, level, times) > 0
        first += _loss_minus_epsilon(first, inner, level, times) <= 0
        inner_result = np.full(inner.shape, -np.inf)
        reached = first <= times
        inner_result[reached] = _sum_from(first[reached], inner[reached], level, times)
        result[inside] = inner_result
    return result


def _sum_from(first: Integers, epsilon: Floats, level: float, times: int) -> Floats:
    table = _table(level, times)
    start = np.maximum(first, table.lower)
    gap = _loss_minus_epsilon(start, epsilon, level, times)
    known = start <= table.last
    result = np.empty(epsilon.shape)
    at = start[known] - table.lower
    result[known] = table.log_unit + np.log(_split(table.above[at], table.beyond[at], gap[known]))
    for point in np.flatnonzero(~known):
        result[point] = _far_tail(int(start[point]), float(gap[point]), level, times)
    return np.minimum(result, 0.0)


def _split(above: Floats, beyond: Floats, gap: Floats) -> Floats:
    """Return ``A (1 - e^{-d}) + e^{-d} B``."""
    return np.asarray(-above * np.expm1(-gap) + np.exp(-gap) * beyond)


def _loss_minus_epsilon(index: Integers, epsilon: Floats, level: float, times: int) -> Floats:
    """Return ``(2l-B) e0 - eps`` with the product's rounding error put back (Dekker's exact product)."""
    count = (2 * index - times).astype(np.float64)
    product = count * level
    # 2l-B needs at most 53-27 bits up to B = 6e7, so that splitting e0 alone makes both partial products exact
    high = math.ldexp(float(round(math.ldexp(math.frexp(level)[0], 26))), math.frexp(level)[1] - 26)
    error = (count * high - product) + count * (level - high)
    return np.asarray((product - epsilon) + error)


@dataclass(frozen=True, slots=True)
class _Table:
    """Tail sums of the weights in `log_delta_pure`, from index `lower` to `last`, in units of ``exp(log_unit)``."""

    lower: int
    last: int
    log_unit: float
    log_last: float
    above: Floats
    beyond: Floats


@lru_cache(maxsize=256)
def _table(level: float, times: int) -> _Table:
    ratio_up, mode = math.exp(min(level, 700.0)), min(times, int((times + 1) / (1 + math.exp(-level))))
    lower = max(0, mode - _reach(times, 60.0))
    upper = min(times, mode + _reach(times, 700.0))
    rising = np.arange(mode, upper, dtype=np.float64)
    falling = np.arange(mode, lower, -1, dtype=np.float64)
    with np.errstate(under="ignore"):
        right = np.cumprod((times - rising) / (rising + 1) * ratio_up)
        left = np.cumprod(falling / (times - falling + 1) * math.exp(-level))
        weights = np.concatenate([left[::-1], [1.0], right])
        above = np.cumsum(weights[::-1])[::-1]
        beyond = _beyond(above, level)
    last = lower + int(np.flatnonzero(weights >= SMALLEST_WEIGHT)[-1])
    log_unit = -math.log(float(above[0]))
    return _Table(lower, last, log_unit, math.log(float(weights[last - lower])), above, beyond)


def _beyond(above: Floats, level: float) -> Floats:
    """Return B from A by ``B_k - r B_{k+1} = (1-r) A_{k+1}``, a bidiagonal system solved backwards."""
    bands = np.ones((2, len(above)))
    bands[0] = -math.exp(-2 * level)
    right_side = np.append(-math.expm1(-2 * level) * above[1:], 0.0)
    return np.asarray(scipy.linalg.solve_banded((0, 1), bands, right_side))


def _far_tail(first: int, gap: float, level: float, times: int) -> float:
    """Return the log of the sum that starts at the term `first`, where the table's weights underflow."""
    table = _table(level, times)
    way = np.arange(table.last, first, dtype=np.float64)
    log_first = table.log_unit + table.log_last + float(np.sum(np.log((times - way) / (way + 1)) + level))
    index = np.arange(first, min(times, first + _reach(times, 60.0)), dtype=np.float64)
    weights = np.append(1.0, np.cumprod((times - index) / (index + 1) * math.exp(min(level, 700.0))))
    total = float(weights @ -np.expm1(-(gap + 2 * level * np.arange(len(weights)))))
    return log_first + math.log(total) if total > 0 else -math.inf


def _reach(times: int, decades: float) -> int:
    """Return the steps from the mode after which the log-concave weight has fallen by ``exp(-decades)``.

    ``ln w_{l-1} - 2 ln w_l + ln w_{l+1} <= -4/(B+2)``, so j steps cost at least ``2 j (j-1)/(B+2)``.
    """
    return math.ceil(math.sqrt(decades * (times + 2) / 2)) + 2
