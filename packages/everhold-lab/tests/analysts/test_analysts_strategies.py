"""Strategies: what they ask, what they make of answers, and that the attack bites where nothing protects."""

from __future__ import annotations

import math

import numpy as np
import pytest

from everhold_lab.analysts import (
    Claim,
    HillClimbingAnalyst,
    HonestAnalyst,
    RandomRules,
    RunningVote,
    Vote,
    best_claim,
)


class BareTest:
    """Exact scores on fixed labels; remembers what was asked."""

    def __init__(self, rows=2_000, rules=600, seed=0, refused_after=10**6):
        rng = np.random.default_rng(seed)
        self.labels = rng.random(rows) < 0.5
        self.sampled = RandomRules(rng.integers(0, 2**63, rows).astype(np.uint64), seed=1)
        self.vote = RunningVote(self.sampled)
        self.rules, self.asked, self.refused_after = rules, [], refused_after

    def score_rules(self, first, last, *, guess):
        self.asked.append((first, last, guess))
        scores = self.sampled.scores(self.labels, first, last)
        scores[max(self.refused_after - first, 0) :] = np.nan
        return scores

    def score_vote(self, vote):
        self.asked.append(len(vote.weights))
        return float(np.mean(self.vote.predict(vote) == self.labels))


def test_the_honest_analyst_asks_once_and_claims_the_best_rule():
    board = BareTest()
    (claim,) = HonestAnalyst().play(board)
    assert board.asked == [(0, 600, None)]
    assert claim.score == board.sampled.scores(board.labels, 0, 600).max() == board.score_vote(claim.vote)
    assert claim.queries == 600


def test_the_honest_analyst_claims_nothing_if_everything_is_refused():
    assert list(HonestAnalyst().play(BareTest(refused_after=0))) == []


def test_the_climber_asks_in_rounds_and_sends_its_guess():
    board = BareTest(rules=250)
    claims = list(HillClimbingAnalyst(100, guess=0.6).play(board))
    assert board.asked == [0, (0, 100, 0.6), 100, (100, 200, 0.6), 200, (200, 250, 0.6), 250]
    assert [claim.queries for claim in claims] == [1, 102, 203, 254]


def test_the_climber_beats_any_real_score_on_bare_averages():
    """k rules separate n labels like a signal of sqrt(k / n): the score climbs to Phi(sqrt(600 / 2000)) = 0.708."""
    best = best_claim(HillClimbingAnalyst(150).play(BareTest()))
    assert best.score == pytest.approx(0.708, abs=0.03)


def test_the_first_claim_is_that_nothing_is_ever_so():
    board = BareTest(rules=10)
    first = next(HillClimbingAnalyst(10, log_odds=1.0).play(board))
    assert first.score == pytest.approx(1.0 - board.labels.mean(), abs=1e-12)


def test_refused_rules_do_not_vote():
    claims = list(HillClimbingAnalyst(100).play(BareTest(rules=200, refused_after=120)))
    assert np.all(claims[-1].vote.weights[120:] == 0.0)
    assert np.all(np.isfinite(claims[-1].vote.weights))


def test_a_round_has_at_least_one_rule():
    with pytest.raises(ValueError, match="rules_per_round"):
        HillClimbingAnalyst(0)


def test_the_best_claim_is_the_highest_that_was_not_refused():
    claims = [Claim(i, Vote(np.zeros(0), 0.0), score) for i, score in enumerate((0.6, math.nan, 0.7, 0.65))]
    assert best_claim(claims).queries == 2
    with pytest.raises(ValueError, match="refused"):
        best_claim(claims[1:2])
