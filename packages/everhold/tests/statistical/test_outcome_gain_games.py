"""Games about gates that compare scores of outcomes: an analyst who knows the population climbs; no model is better.

A longer run: ``python packages/everhold/tests/statistical/test_outcome_gain_games.py 40``; its numbers are in
docs/theory/gates.md.
"""

import sys

import numpy as np
import pytest
from gain_proofs import proves

from everhold.guarantees.intervals.gains import GAINS, gain_of
from everhold.mechanisms.guess_and_check import GuessAndCheck

ROWS, POSITIVE, BETA = 2_000, 0.2, 0.2


def lost(seed, *, challenges, score="f1", adaptive=True, more_often=0):
    """True if a model is promoted that is no better: labels follow no prediction, and each model says 1 as often.

    Balanced accuracy is one half for all models here, also if challengers say 1 on so many rows more.
    """
    rng = np.random.default_rng([seed, 31])
    labels = (rng.random(ROWS) < POSITIVE).astype(int)
    champion = rng.permutation((np.arange(ROWS) < ROWS // 4).astype(int))
    mechanism = GuessAndCheck.tuned(rows=ROWS, queries=challenges, confidence=1.0 - BETA)
    procedure = gain_of(score, ROWS)
    for asked in range(challenges):
        ones, zeros = (rng.permutation(np.flatnonzero(champion == value))[: ROWS // 20] for value in (1, 0))
        challenger = champion.copy()
        challenger[ones], challenger[zeros] = 0, 1
        challenger[np.flatnonzero(challenger == 0)[:more_often]] = 1
        nats = float(mechanism.nats(asked + 1, 0, 0.0)) if adaptive else -np.log(BETA)
        seen = procedure.cells(*(1 + predicted + 2 * labels for predicted in (challenger, champion)))
        if proves(procedure, seen, 0.0, nats):
            return True
    return False


@pytest.mark.parametrize("score", GAINS)
def test_games_are_lost_no_more_often_than_promised(score):
    assert sum(lost(seed, challenges=40, score=score) for seed in range(5)) <= 1


def test_a_gain_in_recall_alone_is_no_gain_in_balanced_accuracy():
    wanted = {"challenges": 40, "more_often": ROWS // 10}
    assert sum(lost(seed, score="balanced", **wanted) for seed in range(5)) <= 1
    assert sum(lost(seed, score="recall", **wanted) for seed in range(3)) == 3  # so much is seen


def test_without_levels_for_each_challenge_games_are_lost():
    assert sum(lost(seed, challenges=1_000, adaptive=False) for seed in range(3)) >= 2


def main():
    """Play longer games and print how many were lost."""
    games = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    for score in GAINS:
        kept = [lost(seed, challenges=1_000, score=score) for seed in range(games)]
        bare = [lost(seed, challenges=1_000, score=score, adaptive=False) for seed in range(games // 10)]
        sys.stdout.write(f"{score}: lost {sum(kept)} of {len(kept)}; without levels {sum(bare)} of {len(bare)}\n")


if __name__ == "__main__":
    main()
