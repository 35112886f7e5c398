"""Games about a declared search space, at a probability of failure of .2, against an analyst who knows the population.

The analyst asks in rounds, each about the members whose neighbours erred most. A game is lost if the interval of any
told member misses its population value. With the protection removed, the fits of the last round read what was told, so
these members were not fixed before the answers.

A longer run: ``python packages/everhold/tests/statistical/test_declared_space_games.py GAMES``; its numbers are in
docs/theory/families.md.
"""

import json
import os
import sys
import tempfile

import numpy as np
from scipy.stats import binom
from sklearn.base import BaseEstimator, ClassifierMixin

import everhold as eh

BETA, DOUBT = 0.2, 1e-3
ROWS, TRAINED, PEOPLE, VOTERS, ROUND = 100, 20, 2_000, 40, 8
WEIGHTS = "WEIGHTS_OF_VOTERS"


def said(bits, voter, weights):
    """Predictions for rows, shape (rows,): what a voter says, or all of them by their weights."""
    votes = bits.astype(np.int64)[:, None] >> np.arange(VOTERS) & 1
    return votes[:, voter] if weights is None else ((2 * votes - 1) @ np.array(weights) > 0).astype(int)


class Voter(ClassifierMixin, BaseEstimator):
    """Says what one voter says; a fit that finds weights in the environment says what all of them say."""

    def __init__(self, voter=0):
        self.voter = voter

    def fit(self, features, labels):
        self.classes_, self.n_features_in_ = np.unique(labels), features.shape[1]
        self.feature_names_in_ = np.array(features.columns, dtype=object)
        self.weights_ = json.loads(os.environ.get(WEIGHTS, "null"))
        return self

    def predict(self, features):
        return said(np.asarray(features)[:, 0], self.voter, self.weights_)


def people(rng):
    """The population: what its voters say, as the bits of a number, and labels. Voters are near their neighbours."""
    labels, votes = rng.integers(0, 2, PEOPLE), rng.integers(0, 2, (PEOPLE, VOTERS))
    for voter in range(1, VOTERS):
        votes[:, voter] = np.where(rng.random(PEOPLE) < 0.2, votes[:, voter - 1], votes[:, voter])
    know = rng.random((PEOPLE, VOTERS)) < rng.uniform(0.0, 0.2, VOTERS)
    return np.where(know, labels[:, None], votes) @ (1 << np.arange(VOTERS)), labels


def by_hope(errors):
    """Members that were not asked about, first those whose neighbours erred most."""

    def hope(voter):
        return sum(abs(errors.get(beside, 0.0)) for beside in (voter - 1, voter + 1))

    return sorted({*range(VOTERS)} - {*errors}, key=hope, reverse=True)  # fmt: skip


def lost(seed, folder, *, reads_what_was_told=False):
    """True if the interval of some told member misses."""
    rng = np.random.default_rng([seed, 25])
    bits, labels = people(rng)
    chosen = (rng.integers(0, PEOPLE, count) for count in (ROWS, TRAINED))
    sealed, training = ({"bits": bits[rows], "y": labels[rows]} for rows in chosen)
    space, errors, weights = eh.grid(Voter(), {"voter": [*range(VOTERS)]}), {}, None
    with eh.Holdout.create(
        f"sqlite:///{folder}/{seed}.db", "game", holdout=sealed, training=training, label="y",
        declared={"voters": space}, share=0.99, confidence=1.0 - BETA,
    ) as holdout:  # fmt: skip
        while left := by_hope(errors):
            if reads_what_was_told and len(left) == ROUND:
                weights = [errors.get(voter, 0.0) for voter in range(VOTERS)]
            told = _told(holdout, [space.at(voter=voter) for voter in left[:ROUND]], weights)
            for voter, answer in zip(left, told, strict=False):
                truth = float(np.mean(said(bits, voter, weights) == labels))
                if not answer.low <= truth <= answer.high:
                    return True
                errors[voter] = answer.value - truth
    return False


def _told(holdout, members, weights):
    """Answers to members, whose fits may find weights."""
    try:
        if weights is not None:
            os.environ[WEIGHTS] = json.dumps(weights)
        answers = holdout.ask_many(members)
        assert {answer.source for answer in answers} == {"declared"}
        return answers
    finally:
        os.environ.pop(WEIGHTS, None)


def broken(games):
    """True if more games were lost than chance makes of the level."""
    return bool(binom.sf(sum(games) - 1, len(games), BETA) < DOUBT)


def test_games_are_lost_no_more_often_than_promised(tmp_path):
    assert not broken([lost(seed, tmp_path) for seed in range(10)])


def test_games_whose_fits_read_what_was_told_are_lost(tmp_path):
    assert broken([lost(seed, tmp_path, reads_what_was_told=True) for seed in range(6)])


if __name__ == "__main__":
    for how, count in (("as it is", int(sys.argv[1])), ("fits read what was told", int(sys.argv[1]) // 4)):
        with tempfile.TemporaryDirectory() as place:
            played = [lost(seed, place, reads_what_was_told=how != "as it is") for seed in range(count)]
        sys.stdout.write(f"{how}: {sum(played)} of {count} lost, {'broken' if broken(played) else 'kept'}\n")
