"""Differences of AUCs beside the least distance that any valid interval has to reach (docs/theory/auc.md, A5).

The table of the page: ``python packages/everhold/tests/statistical/test_least_width_of_area_differences.py``.
"""

import sys

import numpy as np
import pytest
import scipy.stats
from scipy.optimize import brentq, minimize_scalar

from everhold.guarantees.intervals.ranking import BlockDifference, RankDifference, SeenScores, block_averages

POSITIVES, NEGATIVES, SHIFT, CORRELATION = 240, 11_500, 2.2, 0.9
NATS = 12.1  # ln(1 / level) of an answer that is told, with 1,000 planned queries and 10 surprises
ROWS = POSITIVES + NEGATIVES


def two_models(rng):
    """Scores of two models, as columns, and labels; each AUC is .94."""
    positive = np.arange(ROWS) < POSITIVES
    shared, own = rng.normal(size=(2, ROWS))
    second = CORRELATION * shared + np.sqrt(1.0 - CORRELATION**2) * own
    return np.column_stack([shared, second]) + SHIFT * positive[:, None], positive


def divergence(values, mean, largest):
    """The least relative entropy from the law of the values to a law on at most `largest` that has this mean."""
    gains = (values - mean) / (largest - mean)
    capital = minimize_scalar(lambda bet: -np.mean(np.log1p(-bet * gains)), bounds=(0.0, 1.0 - 1e-9), method="bounded")
    return -float(capital.fun)


def least_distance(values, largest, nats):
    """Largest shift of the mean at which the relative entropy of all positives is at most ``nats``."""
    mean = float(np.mean(values))
    return brentq(lambda far: POSITIVES * divergence(values, mean + far, largest) - nats, 1e-6, largest / 2.0)


def ranks_of(scores):
    return (scipy.stats.rankdata(scores, axis=0) - 0.5) / len(scores)


def widths(seed, nats=NATS):
    """Half-widths of models and of arrays, each beside the least distance."""
    scores, positive = two_models(np.random.default_rng(seed))
    before, known = two_models(np.random.default_rng(1000 + seed))
    order = np.random.default_rng(seed).permutation(ROWS)

    def blocks(both, labels):
        first, second = (block_averages(each, labels, order) for each in both.T)
        return (1.0 + first - second) / 2.0

    units = blocks(scores, positive)
    seen = SeenScores(float(units.mean()), units, POSITIVES / ROWS)
    training = blocks(before, known)
    models = BlockDifference(POSITIVES, SeenScores(float(training.mean()), training, POSITIVES / ROWS))
    low, high = models.interval(seen, nats)
    found = [high - low, least_distance(2.0 * units - 1.0, 1.0, nats)]  # a value d stands at (1 + d) / 2

    apart = np.subtract(*ranks_of(scores).T)
    reach, share = float(np.max(np.abs(apart))), POSITIVES / ROWS
    units = (1.0 + apart[positive] / reach) / 2.0
    value = (1.0 + np.mean(apart[positive]) / (1.0 - share)) / 2.0
    training = (1.0 + np.subtract(*ranks_of(before).T)[known] / reach) / 2.0
    arrays = RankDifference(
        POSITIVES, SeenScores(0.5, np.clip(training, 0.0, 1.0), share), rows=ROWS, expected_share=share, reach=reach
    )
    low, high = arrays.interval(SeenScores(value, units, share), nats)
    return [*found, high - low, least_distance(apart[positive], reach, nats) / (1.0 - share)]


@pytest.mark.parametrize("seed", range(2))
def test_no_valid_interval_is_much_narrower(seed):
    models, least_of_models, arrays, least_of_arrays = widths(seed)
    assert least_of_models > 0.045
    assert least_of_models * 0.9 < models < least_of_models * 1.25
    assert least_of_arrays * 0.9 < arrays < least_of_arrays * 1.25


if __name__ == "__main__":
    for each in (NATS, 8.0, 6.0):
        means = np.mean([widths(seed, each) for seed in range(20)], axis=0)
        models, least_of_models, arrays, least_of_arrays = means
        sys.stdout.write(f"{each:5.1f} nats: models {models:.4f}, least {least_of_models:.4f}; ")
        sys.stdout.write(f"arrays {arrays:.4f}, least {least_of_arrays:.4f}\n")
