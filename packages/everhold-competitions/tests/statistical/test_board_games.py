"""Games of whole competitions at a probability of failure of .2: teams that are equally good are told apart by chance.

Labels are drawn anew in each game. All teams have the same expected loss by construction, so each pair that the board
tells apart is an error. The last team knows the law and hands in what looks best beside the others.
"""

import numpy as np
import pytest
from board_samples import board_of
from scipy.stats import norm

import everhold as eh

ROWS, TEAMS = 250, 4


def squared(rng):
    """Labels with a long tail, symmetric about 0, and predictions that are as far from it on either side."""
    labels = rng.standard_t(3, ROWS) * 3
    sides = rng.choice([-2.0, 2.0], (TEAMS, ROWS))
    sides[-1] = -sides[0]
    return labels, sides, {"loss": "squared", "high": 400.0}


def rare(rng):
    """Labels of 1 are rare, and each team gives the same probabilities to other rows of the same chance."""
    labels = (rng.random(ROWS) < 0.05).astype(int)
    probabilities = np.array([rng.permutation(np.repeat([0.0, 0.3], ROWS // 2)) for _ in range(TEAMS)])
    probabilities[-1] = 0.3 - probabilities[0]
    return labels, probabilities, "brier"


def coins(rng):
    """Labels that cannot be known."""
    predictions = rng.integers(0, 2, (TEAMS, ROWS))
    predictions[-1] = 1 - predictions[0]
    return rng.integers(0, 2, ROWS), predictions, "accuracy"


def by_score(name):
    """The same coins, ranked by a score that is no mean."""
    return lambda rng: (*coins(rng)[:2], name)


WORLDS = {
    "long tail": squared, "rare": rare, "coins": coins, "classes": by_score("balanced_accuracy"), "F1": by_score("f1"),
    "ranks": by_score("roc_auc"), "correlation": by_score("matthews_corrcoef"),
}  # fmt: skip


def told_apart(folder, labels, predictions, metric):
    competition = eh.Competition(metric=metric, teams=TEAMS, submissions=1)
    holdout = board_of(folder, labels, competition)
    with holdout:
        for number, each in enumerate(predictions):
            holdout.competition.submit(each, team=f"team {number}")
        holdout.unseal()
        return sum(each.better is not None for each in holdout.competition.leaderboard().comparisons)


@pytest.mark.parametrize("world", WORLDS)
def test_equal_teams_are_seldom_told_apart(world, tmp_path):
    rng, lost = np.random.default_rng(1), 0
    for game in range(8):
        (tmp_path / str(game)).mkdir()
        lost += told_apart(tmp_path / str(game), *WORLDS[world](rng)) > 0
    assert lost <= 4  # more than 4 of 8 have a probability of .01 where each game is lost with one of .2


def test_an_interval_for_each_pair_alone_tells_equal_teams_apart():
    """The protection removed: a normal interval at 80 % for each pair, as if there were no others."""
    rng, lost = np.random.default_rng(1), 0
    for _ in range(100):
        labels, predictions, _ = squared(rng)
        losses = np.minimum((predictions - labels) ** 2, 400.0)
        gains = [losses[one] - losses[other] for one in range(TEAMS) for other in range(one)]
        lost += any(abs(gain.mean()) > norm.isf(0.1) * gain.std() / np.sqrt(ROWS) for gain in gains)
    assert lost > 30
