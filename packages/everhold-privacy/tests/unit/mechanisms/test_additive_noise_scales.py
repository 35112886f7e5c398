"""The noise that really enters a reply has the declared scale: Kolmogorov-Smirnov, at fixed seeds."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest, laplace, norm

from everhold.mechanisms import Source, State
from everhold.mechanisms.records import Evaluations
from everhold.randomness import SeededNoise
from everhold_privacy.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from everhold_privacy.mechanisms.thresholdout import Thresholdout

ROWS, DRAWS = 1000, 1500
MECHANISM = Thresholdout(
    rows=ROWS, queries=10**6, surprises=10**5, threshold=0.2, threshold_scale=0.010, comparison_scale=0.004,
    answer_scale=0.007,
)  # fmt: skip


class Doubled(SeededNoise):
    """The planted error: one stream at twice its scale."""

    __slots__ = ("doubled",)

    def __init__(self, seed, doubled):
        super().__init__(seed)
        self.doubled = doubled

    def laplace(self, scale, size, *, stream):
        return super().laplace(scale * (1 + (stream == self.doubled)), size, stream=stream)

    def gaussian(self, scale, size, *, stream):
        return super().gaussian(scale * (1 + (stream == self.doubled)), size, stream=stream)


def ask(mechanism, state, totals, guesses, noise):
    return mechanism.answer_many(state, Evaluations(totals[:, None], guesses, mechanism.rows, mechanism.unit), noise)


def released_noise(noise):
    """Answer noise: every query is far from its guess."""
    totals = np.full(DRAWS, MECHANISM.steps // 2)
    _, replies = ask(MECHANISM, State(), totals, np.zeros(DRAWS, dtype=np.int64), noise)
    assert np.all(replies.sources == Source.HOLDOUT)
    return replies.values - 0.5


def threshold_noise(noise):
    """Carried noise after fresh starts and after releases."""
    started = [MECHANISM.start(noise).carried_noise for _ in range(DRAWS // 2)]
    state, after = State(), []
    for _ in range(DRAWS // 2):
        state, _ = ask(MECHANISM, state, np.array([MECHANISM.steps]), np.array([0]), noise)
        after.append(state.carried_noise)
    return np.array(started + after) / MECHANISM.steps


def comparison_quantiles(noise):
    """Each comparison is hidden; distances uniform over four scales around the threshold turn it into a uniform.

    A distance that is the threshold plus a Laplace quantile is released with that quantile's tail probability.
    """
    levels = np.random.default_rng(8).uniform(0.02, 0.98, DRAWS)
    offsets = laplace.ppf(levels, scale=MECHANISM.comparison_scale)
    totals = np.rint((MECHANISM.threshold + offsets) * MECHANISM.steps).astype(np.int64)
    released = []
    for total in totals:
        _, replies = ask(MECHANISM, State(), np.array([total]), np.array([0]), noise)
        released.append(replies.sources[0] == Source.HOLDOUT)
    return levels, np.array(released)  # released with probability levels, independently


def comparison_score(noise):
    """Standardised distance of the calibration slope from the declared law; standard normal if the scale is right."""
    levels, released = comparison_quantiles(noise)
    weights = levels - 0.5
    return float(np.sum(weights * (released - levels)) / np.sqrt(np.sum(weights**2 * levels * (1 - levels))))


def p_value(draws, scale):
    return kstest(draws, laplace(scale=scale).cdf).pvalue


def test_thresholdout_uses_its_three_scales():
    assert p_value(released_noise(SeededNoise(1)), MECHANISM.answer_scale) > 1e-3
    assert p_value(threshold_noise(SeededNoise(1)), MECHANISM.threshold_scale) > 1e-3
    assert abs(comparison_score(SeededNoise(1))) < 4


@pytest.mark.parametrize("stream", ["answer", "threshold", "comparison"])
def test_a_doubled_scale_is_seen(stream):
    noise = Doubled(1, stream)
    if stream == "comparison":
        assert abs(comparison_score(noise)) > 4
    elif stream == "answer":
        assert p_value(released_noise(noise), MECHANISM.answer_scale) < 1e-6
    else:
        assert p_value(threshold_noise(noise), MECHANISM.threshold_scale) < 1e-6


@pytest.mark.parametrize(("kind", "law"), [(LaplaceMechanism, laplace), (GaussianMechanism, norm)])
def test_additive_mechanisms_use_their_scale(kind, law):
    mechanism = kind(rows=ROWS, queries=DRAWS, scale=0.01)
    totals, guesses = np.full(DRAWS, mechanism.steps // 2), np.full(DRAWS, -1)
    for noise, honest in ((SeededNoise(4), True), (Doubled(4, "answer"), False)):
        _, replies = ask(mechanism, mechanism.start(noise), totals, guesses, noise)
        assert (kstest(replies.values - 0.5, law(scale=0.01).cdf).pvalue > 1e-3) == honest


def test_a_quiet_run_keeps_its_threshold():
    noise = SeededNoise(2)
    mechanism = replace(MECHANISM, threshold=0.9)
    state = mechanism.start(noise)
    after, _ = ask(mechanism, state, np.zeros(50, dtype=np.int64), np.zeros(50, dtype=np.int64), noise)
    assert after.carried_noise == state.carried_noise
