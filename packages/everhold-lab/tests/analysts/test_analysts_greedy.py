"""Greedy selection: what joins the vote, what is asked, and that it bites where nothing protects."""

from __future__ import annotations

import numpy as np
import pytest

from everhold.mechanisms import GuessAndCheck
from everhold_lab.analysts import GreedySelectionAnalyst
from everhold_lab.audit.coverage import coverage_study
from everhold_privacy.mechanisms.additive import GaussianMechanism
from everhold_privacy.mechanisms.averages import Empirical


class Told:
    """Answers from a list of rule scores and from a function of a vote's members."""

    def __init__(self, scores, score_of_members):
        self.scores, self.score_of_members = np.array(scores), score_of_members
        self.rules, self.ballots = len(scores), []

    def score_rules(self, first, last, *, guess):
        assert guess is None
        return self.scores[first:last]

    def score_vote(self, vote):
        members = frozenset(np.flatnonzero(vote.weights).tolist())
        self.ballots.append(members)
        return self.score_of_members(members)


def members(claim):
    return frozenset(np.flatnonzero(claim.vote.weights).tolist())


def test_the_rule_that_raises_the_vote_most_joins_and_losers_are_tried_again():
    board = Told([0.52, 0.40, 0.53, 0.55], lambda members: 0.6 + 0.1 * (2 in members) - 0.01 * len(members))
    claims = list(GreedySelectionAnalyst(most_tries=5, width=2).play(board))
    assert board.ballots == [{1, 3}, {1, 2}, {1, 2, 3}, {0, 1, 2}, {0, 1, 2, 3}]  # 3 loses twice to better, then joins
    assert [members(claim) for claim in claims] == [{1}, {1, 2}, {1, 2, 3}, {0, 1, 2, 3}]
    assert [claim.queries for claim in claims] == [4, 6, 8, 9]
    assert claims[0].score == pytest.approx(0.6)  # rule 1 is wrong in 60 % of the rows


def test_a_rule_that_is_mostly_wrong_speaks_against_itself():
    (*_, last) = GreedySelectionAnalyst(most_tries=2).play(Told([0.4, 0.7, 0.5], lambda members: 0.8))
    assert last.vote.weights.tolist() == pytest.approx([-0.1, 0.2])  # and one that is right by half says nothing


def test_no_more_votes_are_asked_than_allowed():
    board = Told(np.linspace(0.51, 0.6, 30), lambda members: 0.7)
    list(GreedySelectionAnalyst(most_tries=7, width=3).play(board))
    assert [len(ballot) for ballot in board.ballots] == [2, 2, 2, 3, 3, 3, 4]


def test_refusals_end_the_search():
    nothing = Told([np.nan] * 4, lambda members: np.nan)
    assert list(GreedySelectionAnalyst(most_tries=9).play(nothing)) == []
    rules_only = Told([0.6, 0.7, np.nan, 0.6], lambda members: np.nan)
    (claim,) = GreedySelectionAnalyst(most_tries=9).play(rules_only)
    assert (members(claim), len(rules_only.ballots)) == ({1}, 2)


@pytest.mark.parametrize("wrong", [{"most_tries": 0}, {"most_tries": 5, "width": 0}])
def test_sizes_are_positive(wrong):
    with pytest.raises(ValueError, match="Pass a whole number of at least 1"):
        GreedySelectionAnalyst(**wrong)


QUERIES, TRIES = 1_000, 128
GAME = {"analyst": GreedySelectionAnalyst(TRIES), "rules": QUERIES - TRIES, "seed": 0}
PROTECTED = GuessAndCheck.tuned(rows=1_024, queries=QUERIES, surprises=1, confidence=0.8)


def test_bare_averages_break_a_radius_that_could_be_promised():
    bare, radius = Empirical(rows=1_024, queries=QUERIES), PROTECTED.promise().radius
    assert radius < 0.2
    assert coverage_study(bare, runs=20, radius=radius, **GAME).rate > 0.9


@pytest.mark.parametrize(
    "mechanism", [PROTECTED, GaussianMechanism.tuned(rows=2_048, queries=QUERIES, confidence=0.8)], ids=lambda m: m.name
)
def test_promises_are_kept(mechanism):
    assert mechanism.promise().radius < 0.4
    assert coverage_study(mechanism, runs=20, **GAME).consistent
