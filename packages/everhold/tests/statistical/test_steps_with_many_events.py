"""S9 by exhaustion: no analyst on a tiny tree gets more levels in all than there are, and each broken rule gives more.

The sealed rows can be anything, so the worst analyst is the one whose courses of steps have the largest sum of levels
over all of their events. Here every way to cut the places into steps, and to end their words, is tried.
"""

from functools import cache
from math import exp

import numpy as np
import pytest

from everhold.guarantees.description_length import QueryTree
from everhold.mechanisms.guess_and_check import GuessAndCheck
from everhold.randomness import SeededNoise
from everhold.testing.mechanisms import MechanismContract

PLANNED, PLACES = 8, 8
LABELS = 3


def worst(*, grown=None, label=1 / LABELS, quiet_may_end=False):
    """Largest sum of the weights of all events, over all analysts who ask in steps.

    A word may end before its step does, unless nothing in it is marked.

    Args:
        grown: Places that a whole word takes, from that of its last mark, their number and the size of the step; by
            default all of them.
        label: What a surprise's label counts for, of `LABELS` equally likely ones.
        quiet_may_end: Whether a word without a mark may end before its step does, too.
    """
    tree = QueryTree(queries=PLANNED)

    @cache
    def weight(place, surprises):
        return exp(-float(tree.log_inverse_weight(asked=place, surprises=surprises)))

    @cache
    def step(asked, surprises):
        """Of everything that may follow."""
        sizes = range(1, PLACES - asked + 1)
        return max(
            (events(asked, surprises, size) + words(asked, surprises, size, 0, 0, 0) for size in sizes), default=0
        )

    def events(asked, surprises, size):
        return sum(weight(asked + place, surprises) for place in range(1, size + 1))

    @cache
    def words(asked, surprises, size, length, last, marks):
        """Of all steps that follow words with this beginning."""

        def after(places):
            return (LABELS * label) ** marks * step(asked + places, min(surprises + marks, asked + places))

        if length == size:
            return after(size if grown is None else grown(last, marks, size))
        longer = words(asked, surprises, size, length + 1, last, marks)
        longer += words(asked, surprises, size, length + 1, length + 1, marks + 1)
        return max(longer, after(length)) if marks or (quiet_may_end and length) else longer

    return step(0, 0)


def test_no_analyst_has_more_levels_than_there_are():
    assert 0.5 < worst() <= 1.0


@pytest.mark.parametrize(
    "broken",
    [
        {"label": 1.0},  # what a surprise tells is not paid for
        {"grown": lambda last, marks, size: 1},  # a step counts as one place, whatever its size
        {"grown": lambda last, marks, size: last or size},  # places after the last mark are given back: no prefix code
        {"quiet_may_end": True},  # the places after a quiet word that ends early are used twice
    ],
    ids=["labels for nothing", "the size is ignored", "places are given back", "a quiet word ends early"],
)
def test_a_broken_rule_gives_more(broken):
    assert worst(**broken) > 1.0


def evaluations(mechanism, means):
    """Queries with the given sealed mean and error of the guess."""
    return MechanismContract().evaluations(mechanism, means)


@pytest.mark.parametrize("surprises", [(), (0,), (1, 3), (0, 1, 2, 3)])
def test_all_of_a_step_have_the_levels_of_its_start(surprises):
    mechanism = GuessAndCheck.tuned(rows=2_000, queries=20, surprises=2)
    means = [(float(place in surprises), 0.5 * (place not in surprises)) for place in range(4)]
    before, _ = mechanism.answer_many(
        mechanism.start(SeededNoise(1)), evaluations(mechanism, [(1.0, 0.0)]), SeededNoise(1)
    )
    after, replies = mechanism.answer_many(before, evaluations(mechanism, means), SeededNoise(2))
    np.testing.assert_array_equal(
        replies.nats, mechanism.nats(before.asked + 1 + np.arange(4), before.charged, before.labels / 1e6)
    )
    assert (after.asked, after.charged) == (before.asked + 4, before.charged + int(replies.charged.sum()))
    assert after.labels == before.labels + int(replies.charged.sum()) * mechanism.cells.cost
