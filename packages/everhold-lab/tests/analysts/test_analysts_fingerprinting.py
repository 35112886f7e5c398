"""Fingerprinting: what the trace is made of, and that it reads off all labels where nothing protects."""

from __future__ import annotations

import numpy as np
import pytest

from everhold.mechanisms import GuessAndCheck
from everhold_lab.analysts import FingerprintingAnalyst
from everhold_lab.audit.coverage import coverage_study
from everhold_privacy.mechanisms.additive import GaussianMechanism
from everhold_privacy.mechanisms.averages import Empirical
from everhold_privacy.mechanisms.thresholdout import Thresholdout


class Linear:
    """A board of orthogonal rules without rows: a vote scores by the angle between its weights and secret labels."""

    def __init__(self, secret, refused_after=10**9):
        self.secret, self.rules = np.array(secret, dtype=float), len(secret)
        self.asked, self.refused_after = [], refused_after

    def score_rules(self, first, last, *, guess):
        assert guess is None
        scores = 0.5 + self.secret[first:last]
        scores[max(self.refused_after - first, 0) :] = np.nan
        self.asked.append((first, last))
        return scores

    def score_vote(self, vote):
        self.asked.append(vote.weights)
        length = np.linalg.norm(vote.weights) or 1.0
        return 0.5 + float(vote.weights @ self.secret) / length if self.rules <= self.refused_after else float("nan")


def test_rules_weigh_what_their_answer_is_off_one_half():
    board = Linear([0.1, -0.2, 0.05])
    first, last = FingerprintingAnalyst(rounds=1, votes_per_round=0).play(board)
    assert first.vote.weights.tolist() == pytest.approx([0.1, -0.2, 0.05])
    assert last.vote.weights.tolist() == first.vote.weights.tolist()
    assert (first.queries, last.queries) == (4, 5)


def test_queries_come_in_rounds_and_are_counted():
    board, analyst = Linear(np.full(10, 0.01)), FingerprintingAnalyst(rounds=2, votes_per_round=3)
    claims = list(analyst.play(board))
    kinds = [asked if isinstance(asked, tuple) else "vote" for asked in board.asked]
    assert kinds == [(0, 5), *["vote"] * 4, (5, 10), *["vote"] * 4, "vote"]
    assert [claim.queries for claim in claims] == [6, 15, 19]
    assert analyst.votes == 9


def test_correlated_votes_share_half_their_direction_with_the_trace():
    board = Linear(np.linspace(-0.1, 0.1, 400))
    list(FingerprintingAnalyst(rounds=1, votes_per_round=20).play(board))
    trace, *correlated, _ = board.asked[1:]
    shared = [trace @ vote / np.linalg.norm(trace) / np.linalg.norm(vote) for vote in correlated]
    assert np.mean(shared) == pytest.approx(np.sqrt(0.5), abs=0.03)


def test_correlated_votes_tell_about_rules_that_were_never_asked_alone():
    """After the first of many rounds nearly all of the secret lies outside the rules that were scored."""
    secret = np.random.default_rng(0).normal(size=300) / 600.0
    claims = FingerprintingAnalyst(rounds=30, votes_per_round=250).play(Linear(secret))
    trace = [next(claims).vote.weights for _ in range(2)][1]
    unseen = slice(20, None)
    assert np.corrcoef(trace[unseen], secret[unseen])[0, 1] > 0.4
    assert np.all(next(FingerprintingAnalyst(rounds=30).play(Linear(secret))).vote.weights[unseen] == 0.0)


def test_the_seed_decides_which_votes_are_asked():
    first, again, other = (
        list(FingerprintingAnalyst(rounds=1, seed=seed).play(Linear([0.1, 0.2])))[-1].vote.weights for seed in (0, 0, 1)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_refused_answers_leave_no_trace():
    (*_, last) = FingerprintingAnalyst(rounds=2).play(Linear(np.full(8, 0.1), refused_after=3))
    assert last.vote.weights.tolist() == pytest.approx([0.1] * 3 + [0.0] * 5)


@pytest.mark.parametrize("wrong", [{"rounds": 0}, {"votes_per_round": -1}])
def test_sizes_make_sense(wrong):
    with pytest.raises(ValueError, match="Pass a whole number of at least"):
        FingerprintingAnalyst(**wrong)


ROWS, QUERIES = 2_048, 2_000
WISH = {"rows": ROWS, "queries": QUERIES, "confidence": 0.8}
MECHANISMS = (
    GuessAndCheck.tuned(surprises=1, **WISH),
    Thresholdout.tuned(surprises=1, **WISH),
    GaussianMechanism.tuned(**WISH),
)
TRACER = FingerprintingAnalyst()
GAME = {"analyst": TRACER, "rules": QUERIES - TRACER.votes, "seed": 0}


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.name)
def test_the_same_radius_holds_with_protection_and_breaks_without(mechanism):
    radius = mechanism.promise().radius
    assert radius < 0.5
    assert coverage_study(mechanism, runs=30, **GAME).consistent
    assert coverage_study(Empirical(rows=ROWS, queries=QUERIES), runs=20, radius=radius, **GAME).rate > 0.9
