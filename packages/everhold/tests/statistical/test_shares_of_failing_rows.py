"""S16: a query about a model has a second event, the share of rows on which the model fails, at no price for the first.

By exhaustion no analyst of a tree gets more levels than there are, and in games the model that seems to fail least is
chosen. Beside each stands the version without its protection.
"""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from everhold.guarantees.description_length import QueryTree
from everhold.mechanisms import GuessAndCheck
from everhold.mechanisms.labels import failing_rows_cost
from everhold.mechanisms.records import Evaluations

PLANNED, PLACES, LABELS = 6, 9, 3


def all_levels(*, of_share=None, told=None):
    """The largest sum of the levels of all events, in units of the probability of failure, over all analysts.

    Every query is about a model. After a surprise the label of its number is one of `LABELS`, and the share of failing
    rows is as guessed or has one of `LABELS` labels.

    Args:
        of_share: Level of a share, in units of that of its query.
        told: What it costs to tell a share, in nats.
    """
    tree = QueryTree(queries=PLANNED)
    level = tree.failing_rows if of_share is None else of_share
    kept, label = (math.exp(-failing_rows_cost(told=each) / 1e6) for each in (False, True))
    label = label if told is None else math.exp(-told)

    @cache
    def from_here(place, surprises):
        if place > PLACES:
            return 0.0
        weight = math.exp(-float(tree.log_inverse_weight(asked=place, surprises=surprises)))
        labels = LABELS * (1.0 / LABELS) * (kept + LABELS * label / LABELS)
        marked = labels * from_here(place + 1, surprises + 1) if surprises + 1 <= place else 0.0
        return weight * (1.0 + level) + from_here(place + 1, surprises) + marked

    return from_here(1, 0) + tree.of_texts


def test_no_analyst_has_more_levels_than_there_are():
    assert 0.6 < all_levels() <= 1.0


@pytest.mark.parametrize("broken", [{"of_share": 1.0}, {"told": 0.0}], ids=["a level for nothing", "told for nothing"])
def test_a_share_that_is_not_paid_for_gives_more(broken):
    assert all_levels(**broken) > 1.0


@pytest.mark.parametrize("queries", [1, 8, 1_000])
def test_weights_shares_and_texts_have_all_there_is_and_no_more(queries):
    tree = QueryTree(queries=queries)
    weights = 1.0 - tree.left_over
    assert weights * (1.0 + tree.failing_rows) + tree.of_texts == pytest.approx(1.0)
    assert -math.log(tree.of_texts / tree.left_over) < 0.011  # texts are wider by less than a thousandth


ROWS, SHARE = 4_000, 0.1


def asked(mechanism, fails, right, guess, of_share=0.0):
    """A query about the accuracy of a model with the share of rows on which it fails; failing rows are wrong."""
    procedure = mechanism.failing_rows_procedure

    def one(values, guess):
        return Evaluations(
            totals=np.array([[int(values.sum()) * mechanism.unit]]), guesses=np.array([int(guess * mechanism.steps)]),
            rows=ROWS, unit=mechanism.unit, procedures=[procedure], seen=[None],
        )  # fmt: skip

    return replace(one(right & ~fails, guess), failing=[one(fails, of_share)])


def night(seed, models=25):
    """All shares of one night that were told, and the naive interval of the model that seems to fail least."""
    rng = np.random.default_rng(seed)
    mechanism = GuessAndCheck.tuned(rows=ROWS, queries=models, surprises=models, training_rows=ROWS)
    state, told, seen = mechanism.start(None), [], []
    for _ in range(models):  # on training rows no model fails: the new category is in sealed rows alone
        fails, right = rng.random(ROWS) < SHARE, rng.random(ROWS) < 0.8
        state, replies = mechanism.answer_many(state, asked(mechanism, fails, right, 0.8), None)
        (share,) = replies.failing.values()
        told.append((*share, replies.lows[0], replies.highs[0]))
        seen.append(fails.mean())
    least = min(seen)
    naive = least - 1.96 * math.sqrt(SHARE * 0.9 / ROWS), least + 1.96 * math.sqrt(SHARE * 0.9 / ROWS)
    return np.array(told), naive


def test_shares_of_all_models_hold_where_that_of_the_best_seems_smaller_than_it_is():
    nights = [night(seed) for seed in range(60)]
    for told, _ in nights:
        assert np.all((told[:, 1] <= SHARE) & (told[:, 2] >= SHARE))
        assert np.all((told[:, 3] <= 0.8 * (1.0 - SHARE)) & (told[:, 4] >= 0.8 * (1.0 - SHARE)))
        assert told[0, 2] - told[0, 1] < 0.2  # they say something
    assert sum(not low <= SHARE <= high for _, (low, high) in nights) > 12  # without the tree


def test_a_model_that_never_fails_pays_nothing_and_one_that_fails_is_one_surprise():
    mechanism = GuessAndCheck.tuned(rows=ROWS, queries=100, surprises=10, training_rows=ROWS)
    none, right = np.zeros(ROWS, dtype=bool), np.arange(ROWS) % 5 > 0
    query = asked(mechanism, none, right, 0.8)
    alone = mechanism.answer_many(mechanism.start(None), replace(query, failing=None), None)
    state, replies = mechanism.answer_many(mechanism.start(None), query, None)
    assert (state, replies.lows[0], replies.highs[0]) == (alone[0], alone[1].lows[0], alone[1].highs[0])
    value, low, high = replies.failing[0]
    assert (value, low) == (0.0, 0.0)
    assert high < 0.006
    fails = np.arange(ROWS) % 20 == 0  # where it would be wrong: the number is as guessed, and the share is not
    query = asked(mechanism, fails, right, 0.8)
    alone = mechanism.answer_many(mechanism.start(None), replace(query, failing=None), None)
    assert alone[0].charged == 0
    state, replies = mechanism.answer_many(mechanism.start(None), query, None)
    assert (state.asked, state.charged) == (1, 1)
    assert replies.failing[0][1] < 0.05 < replies.failing[0][2]
    assert state.labels == 2 * mechanism.cells.cost + failing_rows_cost(told=True)
    again = asked(mechanism, fails, right, replies.values[0], replies.failing[0][0])
    assert mechanism.answer_many(state, again, None)[0].charged == 1  # what was told is the next guess
