"""OpenDP's building blocks, assembled as a user would who wants adaptive answers from them.

OpenDP guards the privacy of rows; the width for the population comes from a published theorem about private answers.
The predictions are Python arrays, so a query is a user-defined count over an opaque data set: that spares OpenDP the
copying of all rows at each query and is its fastest way here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import opendp.prelude as dp
from scipy.optimize import minimize_scalar

from benchmarks.peer_base import CONFIDENCE, REFUSED, SURPRISES, Peer, around
from everhold_lab.published import gaussian_sample_failure, jung_pure_radius, jung_radius, rogers_width
from everhold_lab.published.rogers2020 import rogers_2020_monitor
from everhold_lab.published.thresholdout import dwork_lemma_23_pure
from everhold_privacy.curves import PrivacyCurve, ZeroConcentratedCurve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.peer_base import Sample

__all__ = ["GaussianComposition", "LaplaceThresholdout", "threshold_failure", "threshold_settings"]

dp.enable_features("contrib", "honest-but-curious")


def _sealed_space() -> tuple[Any, Any]:
    return dp.user_domain("sealed labels", lambda _: True), dp.user_distance("replaced rows")


def _count() -> tuple[Any, Any]:
    return dp.atom_domain(T=int), dp.absolute_distance(T=int)


class GaussianComposition(Peer):
    """A Gaussian count for every query, inside OpenDP's adaptive composition, which ends the session.

    Args:
        sample: The rows.
        queries: Queries the composition is made for.
        theorem: Where the width comes from: "P7" (Jung et al. 2020), with the (eps, delta) profile OpenDP states, or
            "Rogers" (Rogers et al. 2020). The noise scale is the best one for it.
    """

    def __init__(self, sample: Sample, *, queries: int, theorem: str) -> None:
        rows = len(sample.sealed)
        scale = _best_scale(rows, queries, theorem)
        self._space, self._noise = _sealed_space(), dp.m.then_gaussian(scale=scale * rows)
        price = self._measurement(sample.sealed).map(1)
        composition = dp.c.make_adaptive_composition(
            *self._space, output_measure=dp.zero_concentrated_divergence(), d_in=1, d_mids=[price] * queries
        )
        if theorem == "P7":
            curve: Any = _Profile(dp.c.make_zCDP_to_approxDP(composition).map(1))
            width = jung_radius(gaussian_sample_failure(scale, answers=queries), curve, CONFIDENCE).radius
        else:
            width = rogers_width(rows, queries=queries, scale=scale, confidence=CONFIDENCE)
        super().__init__(sample, width=width, setting=f"sd {scale:.2g}")
        self._session = composition(sample.sealed)

    def _measurement(self, predicted: NDArray[np.bool_]) -> Any:
        count = dp.t.make_user_transformation(
            *self._space, *_count(), lambda labels: int(np.count_nonzero(labels == predicted)), lambda changed: changed
        )
        return count >> self._noise

    def _answer(self, sealed: NDArray[np.bool_], training: NDArray[np.bool_]) -> tuple[float, float, float]:
        try:
            count = self._session(self._measurement(sealed))
        except dp.OpenDPException as refusal:
            if "out of queries" not in str(refusal):
                raise
            return REFUSED
        return around(count / len(self.sample.sealed), self.width)


class _Profile:
    """OpenDP's privacy profile in the shape of a curve."""

    def __init__(self, profile: Any) -> None:
        self._profile = profile

    def delta(self, epsilon: Any) -> Any:
        return np.vectorize(self._profile.delta, otypes=[float])(epsilon)


@cache
def _best_scale(rows: int, queries: int, theorem: str) -> float:
    """Standard deviation of a mean's noise that makes the theorem's width least."""
    if theorem == "Rogers":
        bound = rogers_2020_monitor(rows, queries=queries, surprises=1, confidence=CONFIDENCE, slack=0.0)
        return bound.parameters["scale"]

    def width(log_scale: float) -> float:
        scale = math.exp(log_scale)
        curve: PrivacyCurve = ZeroConcentratedCurve(queries / (2.0 * (rows * scale) ** 2))
        return min(jung_radius(gaussian_sample_failure(scale, answers=queries), curve, CONFIDENCE).radius, 1.0)

    centre = 0.5 * math.log(math.sqrt(queries) / rows)  # where noise and leakage balance, but for logarithms
    return math.exp(_minimum(width, centre - 3.0, centre + 3.0))


def _minimum(width: Any, low: float, high: float) -> float:
    """The best of a grid, then of its neighbourhood: widths are flat at 1 where nothing is promised."""
    grid = np.linspace(low, high, 41)
    best = int(np.argmin([width(point) for point in grid]))
    bounds = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    return float(minimize_scalar(width, bounds=bounds, method="bounded", options={"xatol": 1e-4}).x)


def threshold_failure(alpha: float, *, queries: int, scale: float, threshold: float) -> float:
    """How often some answer of Thresholdout is farther than alpha from the sealed average, at most.

    A guess that far off passes only if Lap(2 sigma) covers a third of the excess or Lap(4 sigma) two thirds of it.
    """
    excess = max(alpha - threshold, 0.0)
    passed = 0.5 * (queries + SURPRISES) * math.exp(-excess / (6.0 * scale))
    return min(1.0, passed + SURPRISES * math.exp(-alpha / scale))


@dataclass(frozen=True, slots=True)
class ThresholdSettings:
    """Noise scale sigma and threshold of Thresholdout, in units of a mean, and the width they give."""

    scale: float
    threshold: float
    width: float


@cache
def threshold_settings(rows: int, training_rows: int, queries: int) -> ThresholdSettings:
    """The sigma with the least width by P7 for pure privacy (Dwork et al. 2015, Lemma 23).

    The threshold leaves room for the noise and for the honest distance of sealed and training averages.
    """
    beta = 1.0 - CONFIDENCE
    honest = math.sqrt(0.5 * math.log(2.0 * queries / beta) * (1.0 / rows + 1.0 / training_rows))

    def settings(log_scale: float) -> ThresholdSettings:
        scale = math.exp(log_scale)
        threshold = honest + 6.0 * scale * math.log((queries + SURPRISES) / beta)

        def failure(alpha: float) -> float:
            return threshold_failure(alpha, queries=queries, scale=scale, threshold=threshold)

        epsilon = dwork_lemma_23_pure(rows, surprises=SURPRISES, scale=scale)
        width = jung_pure_radius(failure, epsilon=epsilon, rows=rows, confidence=CONFIDENCE).radius
        return ThresholdSettings(scale, threshold, min(width, 1.0))

    return settings(_minimum(lambda log_scale: settings(log_scale).width, math.log(1e-5), math.log(1.0)))


class LaplaceThresholdout(Peer):
    """Thresholdout (Dwork et al. 2015, noise 2, 4 and 1 sigma) from OpenDP's Laplace draws; its state is the user's."""

    def __init__(self, sample: Sample, *, queries: int) -> None:
        self._rows = len(sample.sealed)
        chosen = threshold_settings(self._rows, len(sample.training), queries)
        super().__init__(sample, width=chosen.width, setting=f"sigma {chosen.scale:.2g}, T {chosen.threshold:.2g}")
        scale = chosen.scale * self._rows
        self._release, self._raise, self._compare = (
            _count() >> dp.m.then_laplace(scale=times * scale) for times in (1.0, 2.0, 4.0)
        )
        self._threshold = chosen.threshold * self._rows
        self._noisy_threshold = self._threshold + self._raise(0)
        self._queries, self._releases = queries, SURPRISES

    def _answer(self, sealed: NDArray[np.bool_], training: NDArray[np.bool_]) -> tuple[float, float, float]:
        if not self._queries or not self._releases:
            return REFUSED
        self._queries -= 1
        guess = float(np.mean(training == self.sample.training))
        count = int(np.count_nonzero(sealed == self.sample.sealed))
        if self._compare(round(abs(count - guess * self._rows))) <= self._noisy_threshold:
            return around(guess, self.width)
        self._releases -= 1
        self._noisy_threshold = self._threshold + self._raise(0)
        return around(self._release(count) / self._rows, self.width)
