"""McDiarmid's bound holds for statistics of tiny worlds."""

import math

import numpy as np
import pytest
from worlds import NATS, Outcomes, laws_of, misses

from everhold.guarantees.intervals.means import BoundedDifferences


def halved_range(values):
    """No mean: half of the largest value and half of the smallest one, which a row can move by 1/2 at most."""
    return (values.max(axis=1) + values.min(axis=1)) / 2


@pytest.mark.parametrize("nats", NATS)
@pytest.mark.parametrize(("statistic", "sensitivity"), [(lambda x: x.mean(axis=1), 0.25), (halved_range, 0.5)])
def test_it_holds_and_a_smaller_sensitivity_is_caught(nats, statistic, sensitivity):
    outcomes = Outcomes.of(4, 2)
    values = statistic(outcomes.choices.astype(float))
    worst = {1.0: 0.0, 0.2: 0.0}
    for share in worst:
        procedure = BoundedDifferences(rows=4, sensitivity=sensitivity * share, training=4)
        low, high = np.array([procedure.interval(value, nats) for value in values]).T
        for laws in laws_of(4, 2, np.random.default_rng(1), number=100):
            truth = float(outcomes.probabilities(laws) @ values)
            worst[share] = max(worst[share], *misses(outcomes, laws, low, high, truth))
    assert worst[1.0] <= math.exp(-nats) / 2
    assert worst[0.2] > math.exp(-nats) / 2 or nats < 1.0


def test_the_standard_error_is_the_most_that_is_possible_unless_told():
    guess = BoundedDifferences(rows=400, sensitivity=1 / 400, training=400)
    assert guess.standard_error(0.5) == pytest.approx(0.5 / math.sqrt(400) * math.sqrt(2))
    told = BoundedDifferences(rows=400, sensitivity=1 / 400, training=400, spread=0.001)
    assert told.standard_error(0.5) == pytest.approx(0.001 * math.sqrt(2))
    assert told.worth == 400
    assert told.expected(0.5, 3.0) == told.interval(0.5, 3.0)


@pytest.mark.parametrize("nats", NATS)
def test_groups_count_by_the_squares_of_their_sizes(nats):
    """Groups of 3, 2, 1 and 1 equal rows. Planted error: each row counted as one of its own."""
    sizes = np.array([3, 2, 1, 1])
    outcomes = Outcomes.of(len(sizes), 2)
    values = outcomes.choices.astype(float) @ sizes / sizes.sum()
    worst = {int(np.sum(sizes**2)): 0.0, int(sizes.sum()): 0.0}
    for rows in worst:
        procedure = BoundedDifferences(rows=rows, sensitivity=1 / sizes.sum(), training=rows)
        low, high = np.array([procedure.interval(value, nats) for value in values]).T
        for laws in laws_of(4, 2, np.random.default_rng(1), number=100):
            truth = float(outcomes.probabilities(laws) @ values)
            worst[rows] = max(worst[rows], *misses(outcomes, laws, low, high, truth))
    right, wrong = worst.values()
    assert right <= math.exp(-nats) / 2
    assert wrong >= right
