"""Leakage about one row, averaged over rows, by couplings and Markov quilts (S4).

`leakage` turns the privacy curve of a mechanism, for data sets that differ in one row, into the curve of its transcript
about a row whose change may change others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy

from everhold.dependence.base import DependenceModel, Independent, require_rows
from everhold.dependence.series.base import SeriesModel, is_linked, refuse_unknown_number
from everhold.dependence.series.coupling import CELLS, mean_tail, meeting_tails, power_of_two, says_nothing
from everhold.dependence.series.gaussian_ar1 import GaussianAR1
from everhold.dependence.series.markov_chain import MarkovChain
from everhold.dependence.units import Groups
from everhold.errors import DependenceError
from everhold_privacy.curves import PrivacyCurve, PureCurve

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from everhold.dependence.series.coupling import Coupling, Lengths

_ROUNDING = 1e-12  # more than the transforms below can lose to rounding; counted as never meeting
_MOST_COUNTS = 40  # different numbers of rows in the result; each costs one evaluation of a curve
_TAIL = 16.0  # -ln of the smallest tail along which numbers of rows are told apart


def leakage(model: DependenceModel, curve: PrivacyCurve, rows: int) -> PrivacyCurve:
    """Return the privacy curve of a transcript about one row, averaged over rows (S4).

    A model of an extension must have a method ``leakage(curve, rows)``, even if its class is derived from another
    model.

    Args:
        model: How rows depend on each other.
        curve: The mechanism's own curve, for data sets that differ in one row.
        rows: Number of sealed rows.

    Raises:
        DependenceError: If the model does not determine a bound on the leakage.
    """
    own = getattr(model, "leakage", None)
    if own is not None:
        found: PrivacyCurve = own(curve, rows)
        return found
    known = _KNOWN.get(type(model))  # what holds for a model may be false for one that is derived from it
    if known is None:
        raise DependenceError(
            f"The dependence {model.kind!r} does not bound what a row tells about others, so what noise hides is not "
            "known. Use mechanism='guess_and_check', which adds no noise."
        )
    return known(model, curve, rows)


def _of_independent(model: Independent, curve: PrivacyCurve, rows: int) -> PrivacyCurve:
    return curve


def _of_groups(model: Groups, curve: PrivacyCurve, rows: int) -> PrivacyCurve:
    """Return the leakage for rows in groups: a row's whole group may change with it (S4, H = group size)."""
    total = model.rows
    classes = tuple(
        RowClass(size * number / total, (Spread.quilt(nearby=size - 1),)) for size, number in model.known_counts
    )
    return curve if model.counts[-1][0] == 1 else LeakageCurve(curve, classes)


def _of_series(model: SeriesModel, curve: PrivacyCurve, rows: int) -> PrivacyCurve:
    """Return the leakage for rows in series, in which neighbours on both sides may change with a row (S4).

    The probability that a change reaches the training rows beyond the gap counts as lost.

    Raises:
        DependenceError: If the series may depend on its first state for ever, or the number of series is needed and
            unknown.
    """
    require_rows(rows)
    coupling, lengths = model.law.coupling(), model.lengths or ((rows, 1),)
    if says_nothing(coupling):
        return curve
    bound = spread(coupling, lengths, lost=_lost_to_training(model, lengths))
    return LeakageCurve(curve, (RowClass(1.0, (bound,)),))


_KNOWN: dict[type, Callable[[Any, PrivacyCurve, int], PrivacyCurve]] = {
    Independent: _of_independent, Groups: _of_groups, MarkovChain: _of_series, GaussianAR1: _of_series,
}  # fmt: skip


def leaked(model: DependenceModel, *, loss: float, delta: float, rows: int) -> float:
    """Return the epsilon at delta about a row, of answers that would lose ``loss`` if rows were independent.

    The result is infinite if the dependence model gives no bound.
    """
    try:
        return leakage(model, PureCurve(loss), rows).epsilon(delta)
    except DependenceError:
        return math.inf


@dataclass(frozen=True, slots=True)
class Spread:
    """One bound on the leakage about a row (S4): ``lost + e^b sum_h w_h delta_h(eps - b)``.

    By coupling, ``w_h = P[H = h]`` is the law of the number of rows in which two data sets differ when one row is
    replaced, and b = 0. By a quilt, ``h = |N| + 1`` is certain and b is the influence on the quilt.

    Attributes:
        counts: Numbers of rows h that may differ, at least 1, increasing; shape (k,).
        weights: Probabilities of the values, shape (k,). If they sum to less than 1, the rest is the probability that
            nothing differs.
        influence: b, at least 0 and finite.
        lost: Probability (eta), in [0, 1], that the transcript may reveal everything about the row.

    Raises:
        ValueError: If an attribute is not as described.
    """

    counts: tuple[int, ...]
    weights: tuple[float, ...]
    influence: float = 0.0
    lost: float = 0.0

    def __post_init__(self) -> None:
        counts, weights = np.asarray(self.counts), np.asarray(self.weights)
        if not len(counts) == len(weights) > 0 or np.any(np.diff(counts) <= 0) or np.any(counts < 1):
            raise ValueError(
                "The numbers of rows must be at least 1 and increase, with one probability for each of them."
            )
        if np.any(weights < 0) or math.fsum(self.weights) > 1 + 1e-9:
            raise ValueError(
                f"The probabilities sum to {math.fsum(self.weights)}. Pass probabilities that are not negative and "
                "sum to at most 1."
            )
        if not (0.0 <= self.influence < math.inf and 0.0 <= self.lost <= 1.0 + 1e-12):
            raise ValueError(
                f"influence is {self.influence} and lost is {self.lost}. Pass influence of at least 0 and lost from 0 "
                "to 1."
            )

    @classmethod
    def quilt(cls, *, nearby: int, influence: float = 0.0) -> Spread:
        """Build the leakage bound of a Markov quilt with ``nearby`` nearby rows and this max-influence on the quilt."""
        return cls((nearby + 1,), (1.0,), influence)


@dataclass(frozen=True, slots=True)
class RowClass:
    """A set of rows that have the same bounds on leakage.

    Attributes:
        share: Share of all rows that are in the class, in [0, 1].
        bounds: Bounds on the leakage about each of them; at every eps the smallest counts.
    """

    share: float
    bounds: tuple[Spread, ...]


@dataclass(frozen=True, slots=True, repr=False)
class LeakageCurve(PrivacyCurve):
    """The privacy curve of the leakage ``leak(eps)`` about one row, averaged over rows (S4).

    Attributes:
        curve: The mechanism's own curve.
        classes: Classes of rows with their bounds. The shares of all classes sum to 1.
    """

    kind: ClassVar[str] = "leakage"

    curve: PrivacyCurve
    classes: tuple[RowClass, ...]

    def __post_init__(self) -> None:
        total = math.fsum(rows.share for rows in self.classes)
        if not math.isclose(total, 1.0, rel_tol=1e-9):
            raise ValueError(f"The shares of the rows sum to {total}. Pass shares that sum to 1.")

    def _log_delta(self, epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self._leak(epsilon)))

    def _log_delta_at_infinity(self) -> float:
        return float(self._log_delta(np.array([math.inf]))[0])

    def _leak(self, epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        bounds = {bound for rows in self.classes for bound in rows.bounds}
        keys = {(count, bound.influence) for bound in bounds for count in bound.counts}
        table = {key: _shifted(self.curve, *key, epsilon) for key in keys}
        value = {bound: _evaluated(bound, table) for bound in bounds}
        least = [rows.share * np.min([value[bound] for bound in rows.bounds], axis=0) for rows in self.classes]
        return np.asarray(np.sum(least, axis=0))

    def _parameters(self) -> dict[str, Any]:
        return {"curve": self.curve.to_dict(), "classes": len(self.classes)}


def _shifted(curve: PrivacyCurve, count: int, influence: float, epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``e^b delta_h(eps - b)`` for each eps, and 1 where eps < b."""
    within = epsilon >= influence
    value = np.ones(epsilon.shape)
    value[within] = math.exp(influence) * curve.group(count).delta(epsilon[within] - influence)
    return value


def _evaluated(bound: Spread, table: dict[tuple[int, float], NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return a bound on the leakage for each epsilon, as a weighted sum of shifted privacy curves."""
    rows = np.array([table[count, bound.influence] for count in bound.counts])
    return np.asarray(np.minimum(bound.lost + np.asarray(bound.weights) @ rows, 1.0))


# The law of the number of rows of a series that change with one row.


@lru_cache(maxsize=256)
def spread(coupling: Coupling, lengths: Lengths, *, lost: float = 0.0) -> Spread:
    """Return the leakage bound of a coupling, averaged over all rows of all series (S4).

    A row with f rows from itself to one end of its series and b to the other has
    ``H = min(T_forward, f) + min(T_backward, b) - 1``; docs/theory/series averages it over the places in a series.
    """
    sums = _sums(coupling, power_of_two(max(length for length, _ in lengths)))
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
class _Sums:
    """Convolutions of meeting times on the fine grid, and on the coarse grid for multiples of its step."""

    both: NDArray[np.float64]
    cut: NDArray[np.float64]
    step: int
    coarse_both: NDArray[np.float64]
    coarse_cut: NDArray[np.float64]
    equal: float


@lru_cache(maxsize=32)
def _sums(coupling: Coupling, longest: int) -> _Sums:
    table = meeting_tails(coupling, longest)
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
    block = max(CELLS // (4 * size), 1)
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

    Their density is proportional to the root of the law's density, so that rounding counts up raises the mean least.
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


def _lost_to_training(model: SeriesModel, lengths: Lengths) -> float:
    """Return the probability that the coupling from a sealed row reaches a training row, averaged over rows."""
    if model.fitted or not is_linked(model):
        return 0.0
    refuse_unknown_number(model)
    first = int(model.gap or 0) + 1
    longest = first + max(length for length, _ in lengths)
    tails = [mean_tail(model.law.coupling(), longest, backward=side) for side in (False, True)]
    reached = [sum(number * tail.total(first, first + length) for length, number in lengths) for tail in tails]
    return min(max(reached) / sum(length * number for length, number in lengths), 1.0)
