"""The booster, the crowd and the optimiser: what they ask, what they make of answers, how far they get."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from everhold.mechanisms import GuessAndCheck
from everhold_lab.analysts import (
    BoostingAnalyst,
    CrowdAnalyst,
    GreedySelectionAnalyst,
    HillClimbingAnalyst,
    HonestAnalyst,
    OptimisingAnalyst,
    RandomRules,
    Vote,
    best_claim,
    row_keys,
    scores_of_votes,
)
from everhold_lab.audit.boards import BareBoard
from everhold_lab.audit.coverage import coverage_study
from everhold_privacy.mechanisms.additive import GaussianMechanism
from everhold_privacy.mechanisms.averages import Empirical

ROWS = 1_000


class Told:
    """Rule scores from a list; every vote scores what it is told, and is remembered."""

    def __init__(self, scores, vote_score=0.6):
        self.scores, self.vote_score = np.array(scores, dtype=float), vote_score
        self.rules, self.spans, self.votes = len(scores), [], []

    def score_rules(self, first, last, *, guess):
        assert guess is None
        self.spans.append((first, last))
        return self.scores[first:last]

    def score_vote(self, vote):
        self.votes.append(vote.weights.copy())
        return self.vote_score(vote.weights) if callable(self.vote_score) else self.vote_score


class OneByOne:
    """A board without batches of votes."""

    def __init__(self, board):
        self.rules, self.score_rules, self.score_vote = board.rules, board.score_rules, board.score_vote


def bare(rules=200, seed=0, rows=ROWS):
    labels = np.random.default_rng(seed).random(rows) < 0.5
    return BareBoard(row_keys(np.arange(rows)), labels, rules=rules, seed=seed)


ATTACKS = {
    "boosting": BoostingAnalyst(),
    "crowd": CrowdAnalyst(members=5, rules_per_turn=10),
    "a crowd of others": CrowdAnalyst((HillClimbingAnalyst(25), GreedySelectionAnalyst(10), HonestAnalyst())),
    "optimising": OptimisingAnalyst(rules_per_study=40, trials_per_study=40),
}
attacks = pytest.mark.parametrize("analyst", ATTACKS.values(), ids=ATTACKS)


# Boosting -------------------------------------------------------------------------------------------------------------


def test_rules_above_one_half_vote_alike_and_no_others():
    board = Told([0.51, 0.49, 0.5, 0.9, np.nan])
    (claim,) = BoostingAnalyst().play(board)
    assert claim.vote.weights.tolist() == [1, 0, 0, 1, 0]
    assert (claim.vote.threshold, claim.score, claim.queries) == (0.0, 0.6, 6)
    assert board.spans == [(0, 5)]


def test_where_the_best_so_far_is_shown_only_those_that_raised_it_vote():
    shown = [np.nan, 0.51, 0.51, np.nan, 0.53, 0.53, 0.55]
    (claim,) = BoostingAnalyst(improving=True).play(Told(shown))
    assert np.flatnonzero(claim.vote.weights).tolist() == [1, 4, 6]
    (low,) = BoostingAnalyst(improving=True).play(Told([0.48, 0.49, 0.49]))
    assert low.vote.weights.tolist() == [0, 1, 0]


def test_the_vote_scores_what_the_docstring_says():
    boards = [bare(rules=400, seed=seed, rows=4_000) for seed in range(20)]
    scores = [next(BoostingAnalyst().play(board)).score for board in boards]
    assert np.mean(scores) == pytest.approx(0.5 + np.sqrt(400 / 8_000) / np.pi, abs=0.005)


# The crowd ------------------------------------------------------------------------------------------------------------


def test_members_have_rules_of_their_own_and_start_from_the_best_public_vote():
    board = Told([0.6, 0.7] * 4, vote_score=lambda weights: 0.5 + 0.01 * np.count_nonzero(weights) + weights[0] / 100)
    claims = list(CrowdAnalyst(members=2, rules_per_turn=2).play(board))
    assert board.spans == [(0, 4), (4, 8)]
    voices = [np.flatnonzero(weights).tolist() for weights in board.votes]
    leader, mine = [0, 1], [2, 3]  # in the first turn, the vote with rule 0 is best
    assert voices == [leader, mine, [*leader, 4, 5], [*leader, *mine, 6, 7]]
    assert board.votes[0][:2].tolist() == pytest.approx([np.log(0.6 / 0.4), np.log(0.7 / 0.3)])
    assert [claim.queries for claim in claims] == [6, 12]


def test_a_last_turn_may_be_short():
    board = Told([0.6] * 7)
    claims = list(CrowdAnalyst(members=3, rules_per_turn=2).play(board))
    assert board.spans == [(0, 6), (6, 7)]
    assert (len(board.votes), claims[-1].queries) == (6, 13)


def test_other_analysts_take_turns_on_disjoint_rules():
    board = Told(np.linspace(0.51, 0.6, 9))
    crowd = CrowdAnalyst((HillClimbingAnalyst(2), HonestAnalyst(), HillClimbingAnalyst(3)))
    claims = list(crowd.play(board))
    assert board.spans == [(3, 6), (0, 2), (6, 9), (2, 3)]
    assert [np.flatnonzero(weights).tolist() for weights in board.votes] == [[], [], [0, 1], [6, 7, 8], [0, 1, 2]]
    assert [claim.queries for claim in claims] == [5, 12, 14]
    assert claims[0].score == 0.6


def test_the_claim_is_the_best_of_all_members():
    scores = iter([0.55, 0.61, 0.58, 0.57, 0.56, 0.54])
    board = Told([0.6] * 6, vote_score=lambda weights: next(scores))
    best = best_claim(CrowdAnalyst(members=3, rules_per_turn=1).play(board))
    assert (best.score, np.flatnonzero(best.vote.weights).tolist()) == (0.61, [1])


# The optimiser --------------------------------------------------------------------------------------------------------


def test_studies_build_on_the_best_vote_so_far():
    board = Told([0.5] * 6, vote_score=lambda weights: 0.5 + 0.01 * weights.sum())
    analyst = OptimisingAnalyst(rules_per_study=3, trials_per_study=20, batch=5)
    first, last = analyst.play(board)
    assert board.spans == []
    assert (len(board.votes), last.queries, analyst.queries(6)) == (40, 40, 40)
    assert all(len(weights) == 6 and np.array_equal(weights[:3], first.vote.weights) for weights in board.votes[20:])
    assert set(np.concatenate(board.votes).tolist()) == {-1.0, 0.0, 1.0}
    assert last.score == max(0.5 + 0.01 * weights.sum() for weights in board.votes) > first.score


def test_the_sampler_learns_from_reported_scores():
    """20 rules of which yes is always better: chance alone would reach about half of the best sum in 60 trials."""
    board = Told([0.5] * 20, vote_score=lambda weights: 0.5 + 0.01 * weights.sum())
    list(OptimisingAnalyst(rules_per_study=20, trials_per_study=60, batch=1).play(board))
    sums = np.array([weights.sum() for weights in board.votes])
    assert sums[40:].mean() > sums[:10].mean() + 4.0


def test_without_optuna_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'everhold-lab\[optuna\]'"):
        next(OptimisingAnalyst().play(Told([0.5] * 8)))


# All of them ----------------------------------------------------------------------------------------------------------


@attacks
def test_bare_averages_are_overfitted(analyst):
    """On fresh rows the claim is worth 1/2; on the bare ones it seems to be three standard deviations better."""
    fresh = RandomRules(row_keys(np.arange(ROWS, 101 * ROWS)), seed=0)
    claim = best_claim(analyst.play(bare()))
    assert claim.score > 0.5 + 3 * 0.5 / np.sqrt(ROWS)
    assert bare().score_vote(claim.vote) == claim.score
    coins = np.random.default_rng(9).random(len(fresh)) < 0.5
    assert np.mean(fresh.predictions([claim.vote])[0] == coins) == pytest.approx(0.5, abs=0.006)


@attacks
def test_the_same_seed_gives_the_same_claims(analyst):
    first, again = ([(c.queries, c.score, *c.vote.weights) for c in analyst.play(bare(rules=80))] for _ in range(2))
    assert first == again


@attacks
def test_a_batch_of_votes_equals_the_loop(analyst):
    batch, loop = ([(c.queries, c.score) for c in analyst.play(board)] for board in (bare(80), OneByOne(bare(80))))
    assert batch == loop


@attacks
def test_refusals_end_the_game_without_a_claim(analyst):
    board = Told([np.nan] * 40, vote_score=np.nan)
    assert all(np.isnan(claim.score) for claim in analyst.play(board))


def test_some_refusals_are_passed_over():
    def odd_refused(weights):
        return np.nan if len(board.votes) % 2 else 0.5 + 0.001 * len(board.votes)

    for analyst in (CrowdAnalyst(members=4, rules_per_turn=2), OptimisingAnalyst(4, trials_per_study=6, batch=3)):
        board = Told([0.6, np.nan] * 8, vote_score=odd_refused)
        best = best_claim(analyst.play(board))
        assert best.score == pytest.approx(0.5 + 0.001 * 2 * (len(board.votes) // 2))


def test_other_seeds_are_other_searches():
    first, other = (list(OptimisingAnalyst(seed=seed).play(bare(8)))[-1].vote.weights for seed in (0, 1))
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (CrowdAnalyst, {"members": 0}),
        (CrowdAnalyst, {"members": ()}),
        (CrowdAnalyst, {"rules_per_turn": 0}),
        (OptimisingAnalyst, {"rules_per_study": 0}),
        (OptimisingAnalyst, {"trials_per_study": 0}),
        (OptimisingAnalyst, {"batch": 0}),
    ],
)
def test_sizes_are_positive(kind, wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} is .*Pass a whole number of at least 1"):
        kind(**wrong)


QUERIES = 1_000
WISH = {"rows": 1_024, "queries": QUERIES, "confidence": 0.8}
GAMES = {"boosting": (BoostingAnalyst(), QUERIES - 1), "crowd": (CrowdAnalyst(10, 24), QUERIES - 40)}


@pytest.mark.parametrize("name", GAMES)
def test_promises_are_kept_and_break_without_protection(name):
    analyst, rules = GAMES[name]
    for mechanism in (GuessAndCheck.tuned(surprises=1, **WISH), GaussianMechanism.tuned(**{**WISH, "rows": 4_096})):
        assert coverage_study(mechanism, analyst, rules=rules, runs=15, seed=0).consistent
        if mechanism.rows == 1_024:
            radius, empirical = mechanism.promise().radius, Empirical(rows=1_024, queries=QUERIES)
            assert coverage_study(empirical, analyst, rules=rules, runs=10, seed=0, radius=radius).rate > 0.9


def test_the_optimiser_breaks_no_promise():
    mechanism = GuessAndCheck.tuned(rows=1_024, queries=320, surprises=1, confidence=0.8)
    assert coverage_study(mechanism, OptimisingAnalyst(8, 40), rules=64, runs=2, seed=0).consistent


# Batches of votes, and keys -------------------------------------------------------------------------------------------


def test_votes_are_tallied_at_once_as_one_by_one():
    rng = np.random.default_rng(3)
    rules = RandomRules(row_keys(np.arange(300)), seed=2)
    gaps = np.where(rng.random(200) < 0.3, rng.normal(size=200), 0.0)
    gaps[64:128] = 0.0
    weights = [rng.normal(size=150), gaps, np.zeros(0), np.sign(rng.normal(size=64))]
    together = rules.tallies(weights, 7)
    assert all(np.array_equal(row, rules.tally(own, 7)) for row, own in zip(together, weights, strict=True))
    votes = [Vote(own, 0.3) for own in weights]
    signs = [2.0 * rules.says(0, len(own)) - 1.0 for own in weights]
    assert np.array_equal(rules.predictions(votes), [own @ s > 0.3 for own, s in zip(weights, signs, strict=True)])
    assert rules.predictions([]).shape == (0, 300)


def test_scores_of_votes_are_asked_at_once_where_that_can_be():
    board, asked = bare(20), []
    board.score_vote = lambda vote: asked.append(vote) or 0.0
    votes = [Vote(np.ones(5), 0.0), Vote(np.zeros(0), 0.0)]
    assert scores_of_votes(board, votes)[1] > 0.4
    assert asked == []
    assert scores_of_votes(OneByOne(board), votes).tolist() == [0.0, 0.0]
    assert asked == votes


def test_keys_depend_on_all_columns_of_a_row_and_on_nothing_else():
    airports, hours = np.array(["EWR", "JFK", "EWR", "LGA"]), [7, 7, 8, 7]
    keys = row_keys(airports, hours)
    assert len(set(keys.tolist())) == 4
    assert np.array_equal(row_keys(airports[[2, 0]], [8, 7]), keys[[2, 0]])
    assert not np.array_equal(row_keys(hours, airports), keys)
    assert np.array_equal(row_keys(airports.astype(object), hours), keys)


@pytest.mark.parametrize("wrong", [(), ([1, 2], [1]), ([[1, 2]],)])
def test_columns_of_other_lengths_have_no_keys(wrong):
    with pytest.raises(ValueError, match="Pass one or more"):
        row_keys(*wrong)
