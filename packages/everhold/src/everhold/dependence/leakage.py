"""Leakage about one row, averaged over rows, by couplings and Markov quilts (S4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from everhold.privacy.curves import PrivacyCurve

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Spread:
    """One bound on the leakage about a row (S4): ``lost + e^b sum_h w_h delta_h(eps - b)``.

    By coupling, ``w_h = P[H = h]`` is the law of the number of rows in which two data sets differ when one row is
    replaced, and b = 0. By a quilt, ``h = |N| + 1`` is certain and b is the influence on the quilt.

    Attributes:
        counts: Numbers of rows h that may differ, at least 1, increasing; shape (k,).
        weights: Their probabilities, shape (k,); what they lack to 1 is the probability that nothing differs.
        influence: b, at least 0 and finite.
        lost: Probability (eta) with which everything may be told, in [0, 1].

    Raises:
        ValueError: If they are not as described.
    """

    counts: tuple[int, ...]
    weights: tuple[float, ...]
    influence: float = 0.0
    lost: float = 0.0

    def __post_init__(self) -> None:
        counts, weights = np.asarray(self.counts), np.asarray(self.weights)
        if not len(counts) == len(weights) > 0 or np.any(np.diff(counts) <= 0) or np.any(counts < 1):
            raise ValueError("The numbers of rows must increase from 1 on, with one probability for each of them.")
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
        share: Their share of all rows, in [0, 1].
        bounds: Bounds on the leakage about each of them; at every eps the smallest counts.
    """

    share: float
    bounds: tuple[Spread, ...]


@dataclass(frozen=True, slots=True, repr=False)
class LeakageCurve(PrivacyCurve):
    """The privacy curve of the leakage ``leak(eps)`` about one row, averaged over rows (S4).

    Attributes:
        curve: The mechanism's own curve.
        classes: What is known about the rows; their shares sum to 1.
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
