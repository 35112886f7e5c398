"""Boards over real holdouts: any mechanism, any two labels, with and without training rows."""

from __future__ import annotations

import numpy as np
import pytest

import everhold as eh
from everhold.asking.creation import settings_from
from everhold_competitions.ladder import Ladder
from everhold_lab.analysts import (
    BoostingAnalyst,
    CrowdAnalyst,
    HillClimbingAnalyst,
    RandomRules,
    Vote,
    best_claim,
    row_keys,
)
from everhold_lab.audit.boards import BareBoard, HoldoutBoard

ROWS = 400
LABEL = np.random.default_rng(0).integers(0, 2, 2 * ROWS)
KEYS = row_keys(np.arange(2 * ROWS))
SEALED, TRAINING = slice(ROWS), slice(ROWS, None)
VOTES = [Vote(np.random.default_rng(seed).normal(size=20), 0.0) for seed in range(6)]


@pytest.fixture
def seal(tmp_path):
    opened = []

    def make(*, label=LABEL, training=True, **wanted):
        wanted = {"queries": 300, "surprises": 1, "mechanism": "guess_and_check", "seed": 1, **wanted}
        if wanted["mechanism"] != "guess_and_check":
            del wanted["surprises"]
        rows = {"holdout": {"y": label[SEALED]}, "training": {"y": label[TRAINING]} if training else None}
        holdout = eh.Holdout.create(
            tmp_path / "boards.db", f"h{len(opened)}", label="y", **settings_from({**rows, **wanted})
        )
        opened.append(holdout)
        return holdout

    yield make
    for holdout in opened:
        holdout.close()


def over(holdout, *, training=True, **more):
    keys = KEYS[TRAINING] if training else None
    return HoldoutBoard(holdout, KEYS[SEALED], training_keys=keys, **{"rules": 100, "seed": 1, **more})


@pytest.mark.filterwarnings("ignore::everhold.errors.SmallHoldoutWarning")
@pytest.mark.filterwarnings("ignore::everhold.errors.VacuousGuaranteeWarning")
@pytest.mark.filterwarnings("ignore::everhold.errors.NonAdaptiveWarning")
class TestHoldoutBoard:
    def test_rules_are_guessed_from_training_rows(self, seal):
        scores = over(seal()).score_rules(0, 30, guess=None)
        expected = RandomRules(KEYS[TRAINING], seed=1).scores(LABEL[TRAINING] == 1, 0, 30)
        assert scores == pytest.approx(expected, abs=1e-6)

    def test_without_training_rows_one_half_is_guessed_where_a_guess_is_needed(self, seal):
        board = over(seal(training=False), training=False)
        assert board.score_rules(0, 5, guess=None).tolist() == [0.5] * 5
        assert board.score_rules(5, 8, guess=0.48).tolist() == pytest.approx([0.48] * 3)
        assert board.score_votes(VOTES[:2]).tolist() == [0.5, 0.5]
        assert [len(board.rule_answers), len(board.vote_answers)] == [8, 2]

    def test_other_mechanisms_take_no_guess(self, seal):
        board = over(seal(mechanism="empirical", training=False), training=False)
        sealed = RandomRules(KEYS[SEALED], seed=1)
        assert board.score_rules(3, 40, guess=None) == pytest.approx(sealed.scores(LABEL[SEALED] == 1, 3, 40))
        assert board.score_votes(VOTES) == pytest.approx((sealed.predictions(VOTES) == LABEL[SEALED]).mean(axis=1))

    def test_a_ladder_shows_the_best_so_far(self, seal):
        mechanism = Ladder.tuned(rows=ROWS, queries=300, better="higher")
        scores = over(seal(mechanism=mechanism)).score_rules(0, 50, guess=None)
        assert np.all(np.diff(scores) >= 0.0)

    @pytest.mark.parametrize("classes", [("no", "yes"), (3, 8)])
    def test_labels_have_names(self, seal, classes):
        named = np.array(classes, dtype=object if isinstance(classes[0], str) else int)[LABEL]
        plain, other = over(seal()), over(seal(label=named), classes=classes)
        for ask in (lambda b: b.score_rules(0, 20, guess=None), lambda b: b.score_votes(VOTES)):
            assert np.array_equal(ask(plain), ask(other))
        assert plain.score_vote(VOTES[0]) == other.score_vote(VOTES[0])

    @pytest.mark.parametrize("mechanism", ["guess_and_check", "empirical"])  # seeded noise differs from call to call
    def test_a_batch_of_votes_equals_the_loop(self, seal, mechanism):
        batch, loop = (over(seal(mechanism=mechanism, allow_resealing=True)) for _ in range(2))
        assert batch.score_votes(VOTES).tolist() == [loop.score_vote(vote) for vote in VOTES]

    def test_refused_queries_have_no_score(self, seal):
        board = over(seal(queries=5, mechanism="empirical"))  # others may go on beyond the plan
        scores = board.score_rules(0, 8, guess=None)
        assert np.isnan(scores).tolist() == [False] * 5 + [True] * 3
        assert np.isnan(board.score_vote(VOTES[0]))

    def test_batches_are_reported(self, seal):
        steps = []
        board = over(seal(), advance=steps.append)
        board.score_rules(0, 7, guess=None)
        board.score_votes(VOTES)
        board.score_vote(VOTES[0])
        assert steps == [7, 6, 1]

    @pytest.mark.parametrize(("keys", "training"), [(ROWS - 1, ROWS), (ROWS, ROWS + 1), (2 * ROWS, None)])
    def test_there_is_one_key_for_each_row(self, seal, keys, training):
        known = None if training is None else row_keys(np.arange(training))
        with pytest.raises(ValueError, match="Pass one for each"):
            HoldoutBoard(seal(), row_keys(np.arange(keys)), training_keys=known, rules=5, seed=0)

    def test_training_keys_need_training_rows(self, seal):
        with pytest.raises(ValueError, match="for 0 training rows"):
            over(seal(training=False))

    def test_a_label_is_needed(self, tmp_path):
        holdout = eh.Holdout.create(
            tmp_path / "none.db", holdout={"x": np.arange(50.0)}, queries=5, planning=eh.Planning(allow_vacuous=True)
        )
        with holdout, pytest.raises(ValueError, match="no label to attack"):
            HoldoutBoard(holdout, KEYS[:50], rules=5, seed=0)


@pytest.mark.parametrize(
    "analyst", [BoostingAnalyst(), HillClimbingAnalyst(50), CrowdAnalyst(5, 10)], ids=lambda a: type(a).__name__
)
def test_what_the_attack_finds_on_bare_rows_it_does_not_find_on_sealed_ones(tmp_path, analyst):
    rows, rules = 1_500, 900
    rng = np.random.default_rng(4)
    label, keys = rng.integers(0, 2, rows), row_keys(np.arange(rows))
    bare = best_claim(analyst.play(BareBoard(keys, label == 1, rules=rules, seed=1)))
    wanted = {"queries": 1_000, "surprises": 1, "mechanism": "guess_and_check", "confidence": 0.8}
    with eh.Holdout.create(tmp_path / "sealed.db", holdout={"y": label}, label="y", **settings_from(wanted)) as holdout:
        board = HoldoutBoard(holdout, keys, rules=rules, seed=1)
        sealed, radius = best_claim(analyst.play(board)), holdout.promise.radius
        answers = [answer for answer in (*board.rule_answers, *board.vote_answers) if answer.value is not None]
    assert bare.score > 0.5 + radius
    assert abs(sealed.score - 0.5) <= radius
    assert all(answer.low <= 0.5 <= answer.high for answer in answers)


def test_a_bare_board_counts_and_wants_a_label_for_each_key():
    steps = []
    board = BareBoard(KEYS, LABEL == 1, rules=100, seed=1, advance=steps.append)
    assert np.array_equal(board.score_votes(VOTES), [board.score_vote(vote) for vote in VOTES])
    board.score_rules(0, 9, guess=None)
    assert steps == [6] + [1] * 6 + [9]
    with pytest.raises(ValueError, match="one key for each row"):
        BareBoard(KEYS, LABEL[1:] == 1, rules=1, seed=0)
