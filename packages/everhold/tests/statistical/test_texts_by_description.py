"""Texts that are checked at the level of their description, which the weights of the tree leave (S10)."""

import math

import numpy as np
import pytest
from scipy.special import gammaln
from test_declared_families_exact import chance_of_a_miss, told

from everhold.guarantees.description_length import QueryTree
from everhold.mechanisms.guess_and_check import GuessAndCheck
from everhold.mechanisms.records import Description, Evaluations
from everhold.mechanisms.releases import cell_nats, release_all
from everhold.randomness import SeededNoise

ROWS, TEXTS, CONFIDENCE = 40, 25, 0.9


@pytest.mark.parametrize("queries", [1, 7, 200])
def test_the_tree_leaves_what_its_weights_do_not_take(queries):
    """All histories before each place are counted; the places that are left out are bounded."""
    tree, places = QueryTree(queries=queries), 1_200
    weight = 0.0
    for place in range(1, places + 1):
        surprises = np.arange(min(place, 300))  # more of them have no weight to speak of
        ways = gammaln(place) - gammaln(surprises + 1) - gammaln(place - surprises)
        nats = tree.log_inverse_weight(asked=place, surprises=surprises)
        weight += float(np.exp(ways - nats).sum())
    beyond = (1.0 - tree.planned) / places + 1.0 / 300
    assert 0.0 <= 1.0 - tree.left_over - weight <= beyond


def mechanism(**wanted):
    return GuessAndCheck.tuned(rows=ROWS, queries=10, confidence=CONFIDENCE, text_bits=100, **wanted)


def chance_of_any_miss(nats):
    worst = max(chance_of_a_miss(nats, share) for share in np.linspace(0.01, 0.99, 197))
    return 1.0 - (1.0 - worst) ** TEXTS


def test_all_texts_hold_at_once_with_what_the_tree_leaves():
    left = (1.0 - CONFIDENCE) * mechanism().tree.of_texts
    assert left / 10.0 < chance_of_any_miss(mechanism().of_text(math.log(TEXTS))) <= left


def test_texts_that_do_not_pay_for_their_description_miss():
    assert chance_of_any_miss(mechanism().of_text(0.0)) > 3.0 * (1.0 - CONFIDENCE) * mechanism().tree.of_texts


def asked(made, count, guess, described, state):
    evaluations = Evaluations(
        np.array([[count * made.unit]]), np.array([guess * made.unit]), made.rows, made.unit,
        procedures=[made.yes_no_procedure], described=described,
    )  # fmt: skip
    state, replies = made.answer_many(state, evaluations, SeededNoise(1))
    return state, replies, float(replies.highs[0] - replies.lows[0])


def test_the_narrower_of_both_is_told_and_a_text_takes_its_place():
    made = GuessAndCheck.tuned(rows=20_000, queries=1_000, training_rows=20_000, text_bits=100)
    text = [Description(made.of_text(20.0 * math.log(2.0)), made.yes_no_procedure)]
    state, fresh = made.start(SeededNoise(1)), made.start(SeededNoise(1))
    _, replies, first = asked(made, 10_000, 10_000, text, state)
    assert first == asked(made, 10_000, 10_000, None, state)[2]  # the tree is narrower before the first surprise
    for _ in range(10):
        state, *_ = asked(made, 10_000, 2_000, None, state)
    after, replies, described = asked(made, 10_000, 10_000, text, state)
    assert (after.asked, after.charged, after.labels) == (state.asked + 1, state.charged, state.labels)
    assert replies.nats[0] == text[0].nats
    assert described / 2.0 < 0.0418 < 0.058 < asked(made, 10_000, 10_000, None, state)[2] / 2.0
    _, surprised, _ = asked(made, 10_000, 2_000, text, state)
    assert surprised.charged[0] == 1  # what it tells is paid for like any other surprise
    assert made.quote(state, guess=0.5, procedure=made.yes_no_procedure, described=text[0]).radius == pytest.approx(
        described / 2.0
    )
    assert made.quote(fresh, guess=0.5, procedure=made.yes_no_procedure, described=text[0]).radius == first / 2.0


@pytest.mark.parametrize("pays_for_answers", [True, False])
def test_a_family_that_is_declared_after_its_answers_needs_a_later_level(pays_for_answers):
    """The vote of columns that were told to agree with the label: as the only member of a new family."""
    rows, columns, rng = 400, 400, np.random.default_rng(5)
    made = GuessAndCheck.tuned(rows=rows, queries=10, training_rows=rows).sharing(0.5)
    label, votes = rng.integers(0, 2, rows), rng.integers(0, 2, (columns, rows))
    agree = (votes == label).sum(axis=1)
    state, _ = told(made, agree.tolist(), [rows // 2] * columns, [made.described(math.log(columns))] * columns)
    signs = np.where(agree * 2 > rows, 1, -1)
    right = int((((signs[:, None] * (2 * votes - 1)).sum(axis=0) > 0) == label).sum())
    later = float(made.nats(state.asked + 1, state.charged, state.labels / 1e6))
    _, reply = told(made, [right], [rows // 2], [later if pays_for_answers else made.described(0.0)])
    assert (reply.lows[0] <= 0.5) == pays_for_answers  # the truth is 1/2


@pytest.mark.parametrize(("at", "guessed"), [(0.5, True), (0.03, True), (0.999, True), (0.5, False)])
def test_the_labels_of_cells_have_a_prior(at, guessed):
    made = GuessAndCheck.tuned(rows=2_000, queries=100, training_rows=2_000)
    cells = {made.cells.released(count * made.unit): count for count in range(2_001)}
    assert len(cells) == made.grid
    nats = [cell_nats(made, count * made.unit, at=at, guessed=guessed) for count in cells.values()]
    assert 0.99 < np.exp(-np.array(nats)).sum() <= 1.0 + 1e-9
    assert not guessed or min(nats) < 2.2


@pytest.mark.parametrize("labels_are_paid", [True, False])
def test_a_step_of_which_everything_is_told_is_paid_for_by_the_next(labels_are_paid):
    """Freedman's paradox again, with a step of the tree in place of a family."""
    rows, columns, rng = 400, 400, np.random.default_rng(5)
    made = GuessAndCheck.tuned(rows=rows, queries=1_000, training_rows=rows)
    label, votes = rng.integers(0, 2, rows), rng.integers(0, 2, (columns, rows))
    agree = (votes == label).sum(axis=1)
    step = Evaluations(
        agree[:, None] * made.unit, np.full(columns, rows // 2 * made.unit), rows, made.unit,
        procedures=[made.yes_no_procedure] * columns,
    )  # fmt: skip
    state, replies = release_all(made, made.start(SeededNoise(1)), step)
    assert (state.asked, state.charged) == (columns, 0)
    assert np.all((replies.lows <= 0.5) & (replies.highs >= 0.5))
    signs = np.where(replies.values > 0.5, 1, -1)
    right = int((((signs[:, None] * (2 * votes - 1)).sum(axis=0) > 0) == label).sum())
    asked_from = state if labels_are_paid else made.start(SeededNoise(1)).after(asked=columns, charged=0)
    _, reply, _ = asked(made, right, right, None, asked_from)
    assert (not reply.lows[0] > 0.5) == labels_are_paid


def game(seed, *, pays):
    """An analyst who knows the truth surprises the holdout, chooses by what was told, and asks all texts at the end.

    Returns:
        True if any interval of the game misses, told or sealed.
    """
    rng, rows, beta = np.random.default_rng(seed), 200, 0.2
    made = GuessAndCheck.tuned(
        rows=rows, queries=60, surprises=3, confidence=1.0 - beta, training_rows=rows, text_bits=100
    )
    nats = made.of_text(math.log(30.0)) if pays else 0.0
    truths, state, misses = rng.uniform(0.2, 0.8, 30), made.start(SeededNoise(1)), False
    seen = rng.binomial(rows, truths)
    for _ in range(3):  # opaque ones that fit the sealed rows: the best of twenty coins
        state, told_of, _ = asked(made, int(rng.binomial(rows, 0.5, 20).max()), rows // 10, None, state)
        misses |= not told_of.lows[0] <= 0.5 <= told_of.highs[0]
    order = np.argsort(-np.abs(seen / rows - truths))  # the worst first
    step = Evaluations(
        seen[order, None] * made.unit, np.round(truths[order] * rows).astype(np.int64) * made.unit, rows, made.unit,
        procedures=[made.yes_no_procedure] * 30, described=[Description(nats, made.yes_no_procedure)] * 30,
    )  # fmt: skip
    _, replies = made.answer_many(state, step, SeededNoise(1))
    ends = np.stack([replies.lows, replies.highs, replies.sealed[:, 1], replies.sealed[:, 2]])
    right = (ends[::2] <= truths[order]) & (truths[order] <= ends[1::2])
    return bool(misses or not right.all())


def test_five_hundred_games_keep_the_promise():
    assert sum(game(seed, pays=True) for seed in range(500)) <= 0.2 * 500


def test_games_whose_texts_pay_nothing_break_it():
    assert sum(game(seed, pays=False) for seed in range(100)) > 0.9 * 100
