"""S13 on the real mechanism, in every world of a small population: two batches, two trees, an analyst who adapts.

Rows have two independent bits. So a world is the number of ones of each bit in each batch, and all worlds are
enumerated with their exact probability. The analyst has both bits told, lets rows arrive if one was a surprise, and
goes on with the bit whose label is further from the mean, in both trees. A world is lost if one interval misses.
"""

from functools import cache
from itertools import product
from math import comb

import numpy as np

from everhold.mechanisms import GuessAndCheck, State
from everhold.mechanisms.records import Evaluations
from everhold.mechanisms.suffixes import Suffix, since, together, tree_of
from everhold.randomness import SeededNoise

UNIT, BETA, ROWS, MEAN = 2**20, 0.9, 60, 0.5
WRONG = 0.98
CHANCES = [comb(ROWS, ones) * MEAN**ones * (1 - MEAN) ** (ROWS - ones) for ones in range(ROWS + 1)]


@cache
def of_tree(number, rows):
    first = GuessAndCheck.tuned(
        rows=ROWS, queries=4, surprises=4, grid=ROWS, confidence=1.0 - BETA, unit=UNIT
    ).sharing(0.5)  # fmt: skip
    return tree_of(first, Suffix(number), rows=rows, training_rows=0)


@cache
def step(number, rows, ones, state):
    """Value, interval and next state: one step of the mechanism itself."""
    mechanism = of_tree(number, rows)
    evaluation = Evaluations(
        totals=np.array([[ones * UNIT]]), guesses=np.array([int(WRONG * mechanism.steps)]), rows=rows, unit=UNIT,
        procedures=[mechanism.yes_no_procedure],
    )  # fmt: skip
    after, replies = mechanism.answer_many(state, evaluation, SeededNoise(0))
    return float(replies.values[0]), float(replies.lows[0]), float(replies.highs[0]), after


@cache
def begun(ones):
    """Labels of both bits before any arrival, the state after them, and True if an interval missed."""
    state, labels, lost = State(), [], False
    for each in ones:
        told, low, high, state = step(1, ROWS, each, state)
        labels.append(told)
        lost |= not low <= MEAN <= high
    return labels, state, lost


@cache
def continued(state, all_ones, new_ones, counted):
    """True if an interval of the later tree, or of the first one after it, misses."""
    later = Suffix(2, 1, ROWS, state)
    _, low, high, after = step(2, ROWS, new_ones, since(state, later.before))
    lost = not low <= MEAN <= high
    state = together(after, later.before) if counted else state
    _, low, high, _ = step(1, 2 * ROWS, all_ones, state)
    return lost or not low <= MEAN <= high


def chance(*, copied=False, counted=True):
    """Exact probability that some interval misses."""
    total = 0.0
    for first in product(range(ROWS + 1), repeat=2):
        labels, state, lost = begun(first)
        before = CHANCES[first[0]] * CHANCES[first[1]]
        if lost or not state.charged:
            total += before * lost
            continue
        bit = int(abs(labels[1] - MEAN) > abs(labels[0] - MEAN))
        for new, likely in enumerate(CHANCES):
            arrived = first[bit] if copied else new
            total += before * likely * continued(state, first[bit] + arrived, arrived, counted)
    return total


def worst_given_old_rows(*, copied=False):
    """Largest probability, over all first batches, that the interval of the later tree misses, given that batch."""
    worst = 0.0
    for first in product(range(ROWS + 1), repeat=2):
        labels, state, _ = begun(first)
        bit = int(abs(labels[1] - MEAN) > abs(labels[0] - MEAN))
        missed = 0.0
        for new, likely in enumerate(CHANCES):
            ones = first[bit] if copied else new
            _, low, high, _ = step(2, ROWS, ones, since(state, state))
            missed += likely * (not low <= MEAN <= high)
        worst = max(worst, missed)
    return worst


def test_in_exact_probability_the_promise_is_kept():
    assert 0.0 < chance() <= BETA


def test_a_tree_keeps_its_part_whatever_the_older_rows_are():
    assert 0.0 < worst_given_old_rows() <= of_tree(2, ROWS).beta


def test_rows_that_are_not_new_break_it():
    assert worst_given_old_rows(copied=True) > of_tree(2, ROWS).beta
    assert chance(copied=True) > chance()
