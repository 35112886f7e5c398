"""MWEM run by hand, and what every run of it has to obey, whatever the noise of its measurements."""

import math

import numpy as np
import pytest
from synthetic_samples import matrix_of, plain_universe, random_family

from everhold.randomness import SeededNoise
from everhold.values.evaluation import UNIT
from everhold_privacy.curves import composed
from everhold_privacy.mechanisms.selection import ExponentialMechanism
from everhold_privacy.synthetic import MWEM

HISTOGRAM = np.array([500, 20, 0, 300, 100, 0, 0, 80])


def maker(kind=MWEM, *, rounds=30, choice_epsilon=0.5, scale=0.01, rows=1000, **others):
    shared = {"universe": plain_universe(8), "queries": random_family(20, 8, seed=1, binary=True), **others}
    return kind(rounds=rounds, choice_epsilon=choice_epsilon, scale=scale, rows=rows, **shared)


def drawn_weights(mwem, histogram, noise):
    return mwem.learned(mwem.release(histogram, noise))


def run_by_hand(mwem, histogram, noise, measurement):
    """The algorithm written down once more, with what its analysis needs: weights, measurement errors, regrets."""
    queries, steps = matrix_of(mwem.queries), mwem.rows * UNIT
    totals = mwem.queries.totals(histogram)
    weights, average, errors, regrets = np.full(8, 1 / 8), np.zeros(8), [], []
    for _ in range(mwem.rounds):
        average += weights / mwem.rounds
        gaps = np.abs(totals - np.rint(queries @ weights * steps).astype(np.int64))
        choice = ExponentialMechanism(mwem.choice_epsilon).choose(steps - gaps, noise, stream="choice")
        draw = getattr(noise, measurement)(math.ceil(mwem.scale * steps), 1, stream="measurement")[0]
        measured = min(max((totals[choice] + draw) / steps, 0.0), 1.0)
        weights = weights * np.exp(4 * (measured - queries[choice] @ weights) * queries[choice])
        weights /= weights.sum()
        errors.append(measured - totals[choice] / steps)
        regrets.append((gaps.max() - gaps[choice]) / steps)
    return average, np.array(errors), np.array(regrets)


def largest_error(mwem, weights, histogram):
    return np.abs(matrix_of(mwem.queries) @ (weights - histogram / histogram.sum())).max()


class Spying:
    """Counts what is drawn."""

    simulated = True

    def __init__(self):
        self.source, self.drawn = SeededNoise(1), []

    def __getattr__(self, kind):
        def draw(*args, stream):
            self.drawn.append((kind, stream, args[0]))
            return getattr(self.source, kind)(*args, stream=stream)

        return draw


def check_the_inequality(mwem, measurement):
    for seed in range(15):
        weights, errors, regrets = run_by_hand(mwem, HISTOGRAM, SeededNoise(seed), measurement)
        drawn = drawn_weights(mwem, HISTOGRAM, SeededNoise(seed))
        np.testing.assert_allclose(drawn, weights, rtol=1e-6, atol=1e-12)
        bound = math.sqrt(math.log(8) / (2 * mwem.rounds) + np.mean(errors**2)) + regrets.mean()
        assert largest_error(mwem, weights, HISTOGRAM) <= bound + 1e-9


def check_the_excess(mwem, draws):
    """Of noise of scale 0.2 in 4 rounds; draws of scale 1, shape (4, many)."""
    for beta in (0.01, 0.1, 0.5):
        alpha, exceedance = mwem._apart(beta)
        norms = np.sqrt(math.log(8) / 8 + 0.04 * (draws**2).mean(axis=0))
        assert 0 < np.maximum(norms - alpha, 0).mean() <= exceedance


def check_what_is_drawn(mwem, measurement):
    """Of 7 rounds with the scale 0.01 on 1,000 rows."""
    noise = Spying()
    drawn_weights(mwem, HISTOGRAM, noise)
    assert {stream for _, stream, _ in noise.drawn} == {"choice", "measurement"}
    measured = [(kind, scale) for kind, stream, scale in noise.drawn if stream == "measurement"]
    assert measured == [(measurement, math.ceil(0.01 * 1000 * UNIT))] * 7


def check_the_curve(mwem, single):
    """The closed form against the exact composition; `single` is the curve of one measurement."""
    pytest.importorskip("dp_accounting")
    points = np.array([0.1, 0.5, 1.0])
    tight = composed([(mwem.selection.curve(), mwem.rounds), (single, mwem.rounds)])
    assert np.all(tight.delta(points) <= mwem.curve().delta(points) + 1e-9)
