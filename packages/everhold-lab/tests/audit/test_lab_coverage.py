"""The board of the coverage studies: exact truths, exact scores, and violations that are seen."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from coverage_studies.families import CopiedInFamilies
from hypothesis import given
from hypothesis import strategies as st

from everhold.mechanisms import GuessAndCheck
from everhold.randomness import SeededNoise
from everhold_lab.analysts import HillClimbingAnalyst, HonestAnalyst, Vote
from everhold_lab.audit.boards import CopiedInGroups, CopiedInOrder
from everhold_lab.audit.coverage import (
    CoverageStudy,
    CubeBoard,
    StudyOutcome,
    coverage_study,
    play_once,
    walsh_transform,
)
from everhold_privacy.mechanisms.additive import GaussianMechanism
from everhold_privacy.mechanisms.averages import Empirical, SampleSplitting


def parity_rules(rows: int) -> np.ndarray:
    """All Walsh functions by definition, shape (rules, rows)."""
    index = np.arange(rows)
    return 1 - 2 * (np.bitwise_count(index[:, None] & index[None, :]) % 2).astype(int)


@given(st.integers(0, 5).flatmap(lambda bits: st.lists(st.integers(-9, 9), min_size=2**bits, max_size=2**bits)))
def test_the_transform_is_the_matrix(values):
    array = np.array(values)
    assert np.array_equal(walsh_transform(array), parity_rules(len(values)) @ array)


def test_the_transform_needs_a_power_of_two():
    with pytest.raises(ValueError, match="power of 2"):
        walsh_transform(np.zeros(6))


def board_of(mechanism, seed=0, rules=7):
    return CubeBoard(mechanism, SeededNoise(0), rules=rules, labels=np.random.default_rng(seed))


@pytest.mark.parametrize("rules", [0, 8])
def test_a_board_has_fewer_rules_than_rows(rules):
    with pytest.raises(ValueError, match="rules"):
        board_of(Empirical(rows=8, queries=10), rules=rules)


def test_rules_are_right_as_often_as_counting_says():
    labels = 2 * np.random.default_rng(3).integers(0, 2, (2, 16)) - 1
    board = board_of(Empirical(rows=16, queries=20), seed=3, rules=15)
    expected = (parity_rules(16)[1:] == labels[0]).mean(axis=1)
    assert np.array_equal(board.score_rules(0, 15, guess=None), expected)


def test_a_vote_is_right_as_often_as_counting_says():
    labels = 2 * np.random.default_rng(4).integers(0, 2, (2, 16)) - 1
    board = board_of(Empirical(rows=16, queries=20), seed=4, rules=15)
    weights = np.array([0.5, -2.0, 1.0])
    predicted = np.where(weights @ parity_rules(16)[1:4] > 0.25, 1, -1)
    assert board.score_vote(Vote(weights, 0.25)) == (predicted == labels[0]).mean()


def test_split_rows_answer_from_their_own_part():
    labels = (2 * np.random.default_rng(5).integers(0, 2, (2, 16)) - 1)[0]
    board = board_of(SampleSplitting(rows=16, queries=4), seed=5, rules=3)
    right = parity_rules(16)[1:4] == labels
    assert board.score_rules(0, 3, guess=None).tolist() == [right[j, j::4].mean() for j in range(3)]


def test_population_values_are_exactly_one_half():
    """Over all 2^4 labels of four rows every rule and every vote is right half of the time."""
    rules = parity_rules(4)
    vote = np.where(np.array([1.0, 0.5]) @ rules[1:3] > 0.0, 1, -1)
    for predicted in (*rules, vote):
        shares = [np.mean(predicted == np.array(labels)) for labels in itertools.product((-1, 1), repeat=4)]
        assert np.mean(shares) == 0.5


POPULATIONS = [
    CopiedInGroups(points=8, size=4),
    CopiedInGroups(points=8, size=4, share=0.5),
    CopiedInOrder(points=8, correlation=0.7),
    CopiedInFamilies(points=8, children=2),
]


@pytest.mark.parametrize("population", POPULATIONS, ids=repr)
def test_rules_and_votes_on_a_population_are_right_as_often_as_counting_its_rows_says(population):
    rows = population.rows(20, np.random.default_rng(6))
    board = CubeBoard(
        Empirical(rows=20, queries=20), SeededNoise(0), rules=7, labels=np.random.default_rng(6), population=population
    )
    point, label = rows
    said = parity_rules(8)[:, point]
    assert board.score_rules(0, 7, guess=None).tolist() == (said[1:] == label).mean(axis=1).tolist()
    weights = np.array([0.5, -2.0, 1.0])
    assert board.score_vote(Vote(weights, 0.25)) == (np.where(weights @ said[1:4] > 0.25, 1, -1) == label).mean()


def test_a_population_needs_rules_of_its_cube_and_a_mechanism_that_asks_all_rows():
    population = CopiedInGroups(points=8, size=2)
    for mechanism, rules, says in [
        (Empirical(rows=64, queries=20), 8, r"rules is 8\. Pass a number from 1 to 7\."),
        (SampleSplitting(rows=64, queries=4), 3, r"sample_splitting answers from a part of the rows\. Pass a"),
    ]:
        with pytest.raises(ValueError, match=says):
            CubeBoard(
                mechanism, SeededNoise(0), rules=rules, labels=np.random.default_rng(0), population=population
            )  # fmt: skip


def test_runs_can_be_repeated_and_differ_by_seed():
    mechanism = GaussianMechanism.tuned(rows=1_024, queries=70)
    first, again, other = (play_once(mechanism, HillClimbingAnalyst(20), rules=60, seed=s) for s in (1, 1, 2))
    assert first == again
    assert first != other


def test_bare_averages_with_a_claimed_radius_are_found_out():
    """Exact scores of nearly all parities give the labels away; one round, one vote, an error near one half."""
    study = coverage_study(
        Empirical(rows=256, queries=300), HillClimbingAnalyst(250), rules=250, runs=10, seed=0, radius=0.3
    )
    assert study.violations == 10
    assert study.tightness < 0.7


def test_refused_queries_are_counted_and_break_nothing():
    outcome = play_once(Empirical(rows=64, queries=10), HonestAnalyst(), rules=30, seed=0, radius=0.6)
    assert (outcome.queries, outcome.refused, outcome.violated) == (30, 20, False)


@dataclass(frozen=True)
class WellGuessing:
    """Guesses the truth itself, which must never cost anything."""

    def play(self, board):
        board.score_rules(0, board.rules, guess=0.5)
        return iter(())


@dataclass(frozen=True, kw_only=True)
class PromisingTooMuch(GuessAndCheck):
    """Claims that budget is spent on far guesses only, but checks strictly."""

    def promise(self):
        honest = super().promise()
        return type(honest)("S8", 0.9, honest.confidence, (), {}, spends_only_beyond=0.3)


def test_needless_spending_is_seen():
    strict = PromisingTooMuch(rows=64, queries=63, surprises=63, tolerance=0.9, grid=4, allowance=0.01)
    lax = GuessAndCheck.tuned(rows=64, queries=63, surprises=1)
    outcome = play_once(strict, HillClimbingAnalyst(20, guess=0.75), rules=60, seed=0)
    assert outcome.needless
    assert not play_once(lax, WellGuessing(), rules=60, seed=0).needless


def study_of(violations: int, runs: int) -> CoverageStudy:
    outcomes = [StudyOutcome(0.1, violated=i < violations, needless=False, queries=5, refused=0) for i in range(runs)]
    return CoverageStudy("m", "a", 64, 0.2, 0.95, tuple(outcomes))


def test_a_study_states_its_exact_interval():
    low, high = study_of(3, 300).clopper_pearson
    assert (round(low, 5), round(high, 5)) == (0.00207, 0.02894)  # published tables of Clopper and Pearson
    assert study_of(0, 10).clopper_pearson[0] == 0.0
    assert study_of(10, 10).clopper_pearson[1] == 1.0


def test_a_study_is_consistent_up_to_chance():
    assert study_of(15, 300).consistent
    assert study_of(28, 300).consistent  # P[more than 28 of 300 at 5 %] is below 1 in 1,000, P[more than 27] is not
    assert not study_of(29, 300).consistent


def test_a_study_is_one_row_of_a_table():
    row = study_of(3, 300).to_dict()
    assert (row["violations"], row["runs"], row["tightness"]) == (3, 300, 2.0)
