"""Random rules: the same for the same row, fair, and counted without ever making the matrix of rows by rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everhold_lab.analysts import RandomRules, RunningVote, Vote

KEYS = np.random.default_rng(0).integers(0, 2**63, 500).astype(np.uint64)
LABELS = np.random.default_rng(1).random(500) < 0.3
ranges = st.tuples(st.integers(0, 200), st.integers(0, 200)).map(sorted)


@settings(max_examples=30)
@given(ranges)
def test_scores_are_those_of_what_the_rules_say(span):
    rules = RandomRules(KEYS, seed=5)
    expected = (rules.says(*span) == LABELS).mean(axis=1)
    assert np.allclose(rules.scores(LABELS, *span), expected, rtol=0, atol=1e-12)


@settings(max_examples=30)
@given(ranges, st.integers(0, 2**32 - 1))
def test_a_tally_adds_up_what_the_rules_say(span, seed):
    rules = RandomRules(KEYS, seed=5)
    weights = np.random.default_rng(seed).normal(size=span[1] - span[0])
    expected = weights @ (2.0 * rules.says(*span) - 1.0)
    assert np.allclose(rules.tally(weights, span[0]), expected, rtol=0, atol=1e-4)


def test_a_rule_says_the_same_of_the_same_row_wherever_it_stands():
    order = np.random.default_rng(2).permutation(len(KEYS))
    said, shuffled = (RandomRules(keys, seed=5).says(70, 140) for keys in (KEYS, KEYS[order]))
    assert np.array_equal(said[:, order], shuffled)


def test_any_range_of_rules_is_part_of_the_whole():
    rules = RandomRules(KEYS, seed=5)
    assert np.array_equal(rules.says(0, 200)[63:130], rules.says(63, 130))


def test_rules_are_fair_and_do_not_hang_together():
    said = 2.0 * RandomRules(KEYS, seed=5).says(0, 640) - 1.0
    correlations = said @ said.T / len(KEYS)
    others = correlations[~np.eye(640, dtype=bool)]
    assert abs(said.mean()) < 0.01
    assert np.abs(others).max() < 6.0 / np.sqrt(len(KEYS))  # 200,000 pairs of fair coins
    assert np.sqrt((others**2).mean()) == pytest.approx(1.0 / np.sqrt(len(KEYS)), rel=0.02)


def test_other_seeds_are_other_rules():
    first, other = (RandomRules(KEYS, seed=seed).says(0, 64) for seed in (1, 2))
    assert 0.45 < (first == other).mean() < 0.55


def test_a_running_vote_is_the_vote_of_all_rules_so_far():
    rules, running = RandomRules(KEYS, seed=5), RunningVote(RandomRules(KEYS, seed=5))
    weights = np.random.default_rng(3).normal(size=150)
    changed = np.concatenate([-weights[:10], weights[10:90]])
    for vote in (weights[:40], weights[:150], weights[:0], changed):
        expected = vote @ (2.0 * rules.says(0, len(vote)) - 1.0) > 0.3
        assert np.array_equal(running.predict(Vote(vote, 0.3)), expected)
