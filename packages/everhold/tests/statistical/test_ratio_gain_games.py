"""Games about gates that compare F1: an analyst who knows the population climbs, and no model is better than another.

A longer run: ``python packages/everhold/tests/statistical/test_ratio_gain_games.py 40``; its numbers are in
docs/theory/gates.md.
"""

import sys

import numpy as np
import pytest

from everhold.guarantees.intervals.ratio_gain import RatioGain
from everhold.mechanisms.guess_and_check import GuessAndCheck

ROWS, POSITIVE, BETA = 2_000, 0.2, 0.2


def lost(seed, *, challenges, score="f1", adaptive=True):
    """True if a model is promoted that is no better: labels follow no prediction, and each model says 1 as often."""
    rng = np.random.default_rng([seed, 31])
    labels = (rng.random(ROWS) < POSITIVE).astype(int)
    champion = rng.permutation((np.arange(ROWS) < ROWS // 4).astype(int))
    mechanism = GuessAndCheck.tuned(rows=ROWS, queries=challenges, confidence=1.0 - BETA)
    procedure = RatioGain(score, ROWS)
    for asked in range(challenges):
        ones, zeros = (rng.permutation(np.flatnonzero(champion == value))[: ROWS // 20] for value in (1, 0))
        challenger = champion.copy()
        challenger[ones], challenger[zeros] = 0, 1
        nats = float(mechanism.nats(asked + 1, 0, 0.0)) if adaptive else -np.log(BETA)
        seen = procedure.cells(*(1 + predicted + 2 * labels for predicted in (challenger, champion)))
        if procedure.proves(seen, 0.0, nats):
            return True
    return False


@pytest.mark.parametrize("score", ["f1", "precision", "recall"])
def test_games_are_lost_no_more_often_than_promised(score):
    assert sum(lost(seed, challenges=40, score=score) for seed in range(5)) <= 1


def test_without_levels_for_each_challenge_games_are_lost():
    assert sum(lost(seed, challenges=1_000, adaptive=False) for seed in range(3)) >= 2


def main():
    """Play longer games and print how many were lost."""
    games = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    for score in ("f1", "precision", "recall"):
        kept = [lost(seed, challenges=1_000, score=score) for seed in range(games)]
        bare = [lost(seed, challenges=1_000, score=score, adaptive=False) for seed in range(games // 10)]
        sys.stdout.write(f"{score}: lost {sum(kept)} of {len(kept)}; without levels {sum(bare)} of {len(bare)}\n")


if __name__ == "__main__":
    main()
