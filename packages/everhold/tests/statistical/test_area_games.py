"""Games about AUC without counts, at a probability of failure of .2, against an analyst who knows the population.

500 games of each kind: ``python packages/everhold/tests/statistical/test_area_games.py`` (docs/theory/auc.md).
"""

import itertools
import sys

import numpy as np
import pytest
import scipy.stats

from everhold.guarantees.intervals.ranking import BlockBetting, SeenScores, block_averages
from everhold.mechanisms import GuessAndCheck, State
from everhold.mechanisms.records import Evaluations
from everhold.queries.metrics.ranking import area_of
from everhold.randomness import SeededNoise

ROWS, SHIFT = 400, np.array([1.0, 0.5, 0.0])
POPULATIONS = {"rare": (0.06, 0.0), "rare, tied": (0.06, 1.0), "equal": (0.5, 0.0), "equal, tied": (0.5, 1.0)}
MECHANISM = GuessAndCheck.tuned(rows=ROWS, queries=6, surprises=3, confidence=0.8, training_rows=ROWS)


def true_area(direction, step):
    apart = float(SHIFT @ direction)
    if not step:
        return float(scipy.stats.norm.cdf(apart / np.sqrt(2.0)))
    edges = (np.arange(-9, 12) - 0.5) * step
    upper, lower = np.diff(scipy.stats.norm.cdf(edges - apart)), np.diff(scipy.stats.norm.cdf(edges))
    return float(upper @ (np.cumsum(lower) - lower / 2.0))


def sealed_rows(rng, share, direction):
    """Features and labels of a file that is sorted by a model's score."""
    positive = rng.random(ROWS) < share
    features = rng.normal(size=(ROWS, 3)) + SHIFT * positive[:, None]
    order = np.argsort(features @ direction)
    return features[order], positive[order]


def game(rng, share, step, *, keyed=True):
    """Whether some interval, told or unsealed, misses."""
    directions = [d / np.linalg.norm(d) for d in (SHIFT, *rng.normal(size=(4, 3)))]
    features, positive = sealed_rows(rng, share, SHIFT)
    order, state = rng.permutation(ROWS), State()
    for number, direction in enumerate(directions):
        scores = features @ direction
        scores = np.rint(scores / step) * step if step else scores
        dealt = order if keyed else np.argsort(scores, kind="stable")
        true, area = true_area(direction, step), area_of(scores, positive)
        seen = SeenScores(area, block_averages(scores, positive, dealt), 0.0)
        guess = min(max(true + (0.0, -0.25)[number % 2], 0.0), 1.0)  # each second one is to be a surprise
        asked = Evaluations(
            totals=np.array([[int(area * MECHANISM.steps)]]), guesses=np.array([round(guess * MECHANISM.steps)]),
            rows=ROWS, unit=MECHANISM.unit, procedures=[BlockBetting(min(share, 1 - share) * ROWS, None, guess=guess)],
            seen=[seen],
        )  # fmt: skip
        state, told = MECHANISM.answer_many(state, asked, SeededNoise(0))
        low, high = max(told.lows[0], told.sealed[0, 1]), min(told.highs[0], told.sealed[0, 2])
        if not low <= true <= high:
            return True
    return False


def failures(games, name, *, keyed=True, seed=1):
    rng = np.random.default_rng(seed)
    return sum(game(rng, *POPULATIONS[name], keyed=keyed) for _ in range(games))


@pytest.mark.parametrize("name", POPULATIONS)
def test_intervals_hold(name):
    assert failures(6, name) <= 3  # 4 of 6 have probability .02 at the bound


def test_rows_dealt_by_value_break_them():
    """The protection removed."""
    assert failures(6, "equal", keyed=False) >= 4  # probability .02 at the bound


if __name__ == "__main__":
    for name, keyed in itertools.product(POPULATIONS, (True, False)):
        kind = f"{name}, {'keyed' if keyed else 'by value'}"
        sys.stdout.write(f"{kind}: {failures(500, name, keyed=keyed)} of 500\n")
