"""The sparse vector technique: which of many values are above a threshold, at the price of those that are.

These are pure steps on integers (sums over the sealed rows in grid units), for streams that are answered "below" or
"above". "Above" alone says next to nothing about a statistical query, so the technique is not a mechanism of a holdout.
`Thresholdout` adds answers to it: the training estimate below the threshold, and a noisy release above. The scan of
`private_first_above` is such a stream that ends at the first value above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from everhold.arguments import below_one, fraction, positive, whole
from everhold.randomness import LARGEST_SCALE
from everhold_privacy.curves import PureCurve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.randomness import Noise


_FIRST_WINDOW = 4096
_LARGEST_VALUE = 2**62  # with its noise a value stays inside 64 bits


class SparseVerdict(IntEnum):
    """Verdict of the stream about one value: above, below, or not looked at."""

    BELOW = 0
    ABOVE = 1
    HALTED = 2


@dataclass(frozen=True, slots=True)
class SparseState:
    """State of a sparse vector stream between two values.

    Attributes:
        tops: Values that were found above so far.
        threshold_noise: The noise that is now added to the threshold, in grid units. It is secret.
    """

    tops: int = 0
    threshold_noise: int = field(default=0, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVector:
    """Says "above" where ``value + Lap(query_scale) >= threshold + Lap(threshold_scale)``, and stops after c tops.

    Everything is in grid units. One replaced row moves a value by at most ``sensitivity``, in either direction; if
    ``monotone``, it moves all values of the stream in the same direction (counts, when a row is added or removed: not
    distances, and not averages when a row is replaced).

    Attributes:
        threshold: Threshold T that every value is compared with, of any sign.
        tops: Number c of "above" verdicts after which the mechanism stops.
        sensitivity: Delta, the most by which one row can move a value.
        threshold_scale: s1, of the Laplace noise on the threshold.
        query_scale: s3, of the Laplace noise on each value.
        redraws: Whether the threshold gets fresh noise after every top (Dwork and Roth) or keeps it (Lyu, Su and Li).
        monotone: Whether one row moves all values in the same direction.

    Examples:
        >>> from everhold.randomness import SeededNoise
        >>> stream = SparseVector.sparse(epsilon=1.0, tops=2, threshold=500, sensitivity=1)
        >>> noise = SeededNoise(1)
        >>> _, verdicts = stream.ask(stream.start(noise), [0, 900, 0, 950, 0, 0], noise)
        >>> verdicts.tolist()
        [0, 1, 0, 1, 2, 2]
    """

    threshold: int
    tops: int
    sensitivity: int
    threshold_scale: int
    query_scale: int
    redraws: bool = True
    monotone: bool = False

    def __post_init__(self) -> None:
        whole(self.threshold, "threshold", least=-_LARGEST_VALUE, most=_LARGEST_VALUE)
        for name in ("tops", "sensitivity"):
            whole(getattr(self, name), name)
        for name in ("threshold_scale", "query_scale"):
            whole(getattr(self, name), name, most=LARGEST_SCALE)

    @classmethod
    def sparse(cls, *, epsilon: float, tops: int, threshold: int, sensitivity: int, delta: float = 0.0) -> SparseVector:
        """Return Sparse by Dwork and Roth: ``Lap(theta)`` on the threshold of each top, ``Lap(2 theta)`` on values.

        With one top it is their AboveThreshold: ``Lap(2 Delta/eps)`` and ``Lap(4 Delta/eps)``.

        `curve` has the exact privacy loss. It is at most (epsilon, delta) for ``delta = 0``, and for
        ``epsilon <= 8 ln(1/delta)`` (docs/theory, the sparse vector technique). For other values it may be more.

        Args:
            epsilon: Privacy loss of the whole stream.
            tops: Number c of "above" verdicts after which it stops.
            threshold: T, in grid units.
            sensitivity: Delta, in grid units.
            delta: Probability with which more may be lost; see `dwork_roth_scale`.
        """
        theta = dwork_roth_scale(epsilon, tops=tops, delta=delta)
        return cls(
            threshold=threshold, tops=tops, sensitivity=sensitivity,
            threshold_scale=math.ceil(theta * sensitivity), query_scale=math.ceil(2.0 * theta * sensitivity),
        )  # fmt: skip

    @classmethod
    def lyu_su_li(
        cls, *, epsilon: float, tops: int, threshold: int, sensitivity: int, monotone: bool = False
    ) -> SparseVector:
        """Return the variant of Lyu, Su and Li 2017: one noisy threshold, epsilon split by `best_split`.

        ``Lap(Delta/eps1)`` on the threshold, ``Lap(2 c Delta/eps2)`` on values (half of that if monotone); pure.

        Args:
            epsilon: Privacy loss ``eps1 + eps2`` of the whole stream.
            tops: Number c of "above" verdicts after which it stops.
            threshold: T, in grid units.
            sensitivity: Delta, in grid units.
            monotone: Whether one row moves all values in the same direction.
        """
        share = best_split(tops, monotone=monotone)
        first = positive(epsilon, "epsilon") / (1.0 + share)
        factor = (1 if monotone else 2) * tops
        return cls(
            threshold=threshold, tops=tops, sensitivity=sensitivity, redraws=False, monotone=monotone,
            threshold_scale=math.ceil(sensitivity / first),
            query_scale=math.ceil(factor * sensitivity / (epsilon - first)),
        )  # fmt: skip

    def start(self, noise: Noise) -> SparseState:
        """Return the state before the first value, with the first noisy threshold."""
        return SparseState(threshold_noise=self._threshold_noise(noise))

    def _threshold_noise(self, noise: Noise) -> int:
        return int(noise.laplace(self.threshold_scale, 1, stream="threshold")[0])

    def ask(
        self, state: SparseState, values: NDArray[np.int64] | list[int], noise: Noise
    ) -> tuple[SparseState, NDArray[np.int8]]:
        """Return the new state and a `SparseVerdict` for each value of a batch, as if the values came one by one.

        Args:
            state: The state that `start` or the last call returned.
            values: Shape (values,), integers in grid units of at most 2**62 in size; each may depend on all earlier
                replies.
            noise: Source of noise.

        Raises:
            ValueError: If the values are not such integers. They are secret and never quoted.
        """
        stream = np.asarray(values)
        if stream.ndim != 1 or (len(stream) and stream.dtype.kind not in "iu"):
            raise ValueError(
                f"values has the shape {stream.shape} and the type {stream.dtype}. Pass a list of whole numbers in "
                "grid units."
            )
        if bool(np.any((stream < -_LARGEST_VALUE) | (stream > _LARGEST_VALUE))):
            raise ValueError("A value is beyond 2**62 in size. Pass values on a coarser grid.")
        stream = stream.astype(np.int64)
        verdicts = np.full(len(stream), SparseVerdict.HALTED, dtype=np.int8)
        count = len(stream) if state.tops < self.tops else 0
        noisy = stream[:count] + noise.laplace(self.query_scale, count, stream="comparison")
        done = 0
        while done < count and state.tops < self.tops:
            top = _first_at_least(noisy, self.threshold + state.threshold_noise, start=done)
            verdicts[done:top] = SparseVerdict.BELOW
            done = top + 1
            if top < count:
                verdicts[top] = SparseVerdict.ABOVE
                kept = self._threshold_noise(noise) if self.redraws else state.threshold_noise
                state = SparseState(state.tops + 1, kept)
        return state, verdicts

    def first(self, values: NDArray[np.int64] | list[int], noise: Noise) -> int | None:
        """Return the index of the first value that is found above the threshold, or None."""
        _, verdicts = self.ask(self.start(noise), values, noise)
        above = np.flatnonzero(verdicts == SparseVerdict.ABOVE)
        return int(above[0]) if len(above) else None

    def curve(self) -> PureCurve:
        """Return the privacy curve of all verdicts of the stream together.

        With fresh threshold noise every value above the threshold ends an epoch of pure loss ``Delta (1/s1 + 2/s3)``,
        and c epochs compose exactly. With one threshold for all, the stream is pure ``Delta (1/s1 + 2 c/s3)``, and
        nothing better is known. For monotone values, 2 is replaced by 1.
        """
        top = self.sensitivity * (1.0 if self.monotone else 2.0) / self.query_scale
        threshold = self.sensitivity / self.threshold_scale
        if self.redraws:
            return PureCurve(threshold + top, times=self.tops)
        return PureCurve(threshold + self.tops * top)

    def accuracy(self, queries: int, *, failure: float) -> int:
        """Return the distance from the threshold within which a verdict may be wrong, in grid units.

        ``s1 ln(2 d/beta) + s3 ln(2 k/beta)`` for d draws of the threshold's noise: except with probability beta, every
        value that is called below is at most T plus it, and every value called above at least T minus it, however the
        k values are chosen. With Sparse's scales it is less than ``4 theta (ln k + ln(2 c/beta))``, the book's.

        Args:
            queries: k, values that are asked about.
            failure: beta, in (0, 1).
        """
        fraction(failure, "failure")
        draws = self.tops if self.redraws else 1
        threshold = self.threshold_scale * math.log(2.0 * draws / failure)
        return math.ceil(threshold) + math.ceil(self.query_scale * math.log(2.0 * whole(queries, "queries") / failure))


def _first_at_least(values: NDArray[np.int64], level: int, *, start: int) -> int:
    """Return the index of the first value from ``start`` on that reaches the level, or the length."""
    window = _FIRST_WINDOW
    while start < len(values):
        reached = values[start : start + window] >= level
        first = int(np.argmax(reached))
        if reached[first]:
            return start + first
        start, window = start + window, 2 * window
    return len(values)


def dwork_roth_scale(epsilon: float, *, tops: int, delta: float = 0.0) -> float:
    """Return theta of Sparse per unit of sensitivity: ``2c/eps``, or ``sqrt(32 c ln(1/delta))/eps`` if delta > 0.

    Args:
        epsilon: Privacy loss of the whole stream, positive.
        tops: Number c of "above" verdicts after which the mechanism stops.
        delta: Delta of the privacy loss, in [0, 1). 0 for pure differential privacy.

    Source: Dwork and Roth 2014, Algorithm 2; some slides print the second without the root (theory, erratum 6).

    Examples:
        >>> dwork_roth_scale(0.5, tops=10)
        40.0
        >>> round(dwork_roth_scale(0.5, tops=10, delta=1e-6), 2)  # composition is no help to few tops
        132.98
    """
    positive(epsilon, "epsilon")
    if below_one(delta, "delta") == 0.0:
        return 2.0 * whole(tops, "tops") / epsilon
    return math.sqrt(32.0 * whole(tops, "tops") * math.log(1.0 / delta)) / epsilon


def best_split(tops: int, *, monotone: bool = False) -> float:
    """Return ``eps2 / eps1 = (2c)^(2/3)``, or ``c^(2/3)`` if monotone, which has the least variance.

    It is for a threshold whose noise is drawn once: the variance is ``2 (1/eps1)^2 + 2 (2c/eps2)^2`` at Delta = 1. For
    one epoch of a threshold drawn anew, take c = 1.

    Source: Lyu, Su and Li 2017, section 4.2.

    Examples:
        >>> round(best_split(4), 6)
        4.0

    Args:
        tops: Number c of "above" verdicts after which the mechanism stops.
        monotone: Whether a change of one row moves all values in the same direction.
    """
    return float(((1 if monotone else 2) * whole(tops, "tops")) ** (2.0 / 3.0))
