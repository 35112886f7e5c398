"""A series that lengthens in one tree, against an analyst who lets rows arrive until an answer looks extreme.

Games at a probability of failure of .2: one query, asked again after each of 24 arrivals of 100 rows.
"""

import numpy as np
import pytest

import everhold as eh
from everhold.dependence import Independent
from everhold.guarantees.intervals.means import Hoeffding
from everhold.mechanisms import GuessAndCheck

STAY, GAMES, BATCH, ARRIVALS = 0.95, 400, 100, 24
CHAIN = eh.MarkovChain([[STAY, 1 - STAY], [1 - STAY, STAY]], lengths=[(BATCH, 1)])


def played(rng):
    """States of all games in order, shape (games, rows); half of the rows are ones in the population."""
    switches = rng.random((GAMES, BATCH * (ARRIVALS + 1))) > STAY
    first = rng.integers(0, 2, (GAMES, 1))
    return (first + np.cumsum(switches, axis=1)) % 2


def misses(states, dependence_of):
    """Games in which an interval misses, if every answer is a place of one tree."""
    tree = GuessAndCheck.tuned(rows=BATCH, queries=ARRIVALS + 1, surprises=1, confidence=0.8)
    missed = np.zeros(len(states), dtype=bool)
    for place in range(ARRIVALS + 1):
        rows, nats = BATCH * (place + 1), float(tree.nats(place + 1, 0, 0.0))
        means, worth = states[:, :rows].mean(axis=1), dependence_of(rows).concentration(rows)
        low, high = Hoeffding(rows=worth, training=worth).span(means, means, nats)
        missed |= (low > 0.5) | (high < 0.5)
    return missed.mean()


@pytest.mark.parametrize(
    ("of", "most"),
    [(lambda rows: CHAIN.with_rows(rows, {}), 0.2), (lambda _: Independent(), 1.0)],
    ids=["chain", "rows"],
)
def test_the_longer_series_keeps_the_promise_and_independent_rows_do_not(of, most):
    found = misses(played(np.random.default_rng(3)), of)
    assert found <= most
    assert most < 1.0 or found > 0.3
