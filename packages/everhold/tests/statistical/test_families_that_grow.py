"""S14: members of declared families over arrivals, against every schedule that depends on what was told."""

import math
from functools import cache
from itertools import product

import numpy as np
import pytest
from summaries import cells

from everhold.guarantees.intervals.betting import Betting
from everhold.guarantees.intervals.in_order import CoinMixture, at_all_sizes
from everhold.guarantees.intervals.means import ClopperPearson

MOST, BATCHES = 12, (1, 2, 3)
NATS = (1.5, 2.5, 4.0)


def mixture(rows, *, first=2, nats=2.5):
    return at_all_sizes(ClopperPearson(rows=rows, training=rows), first_rows=first, nats=nats)


def worst_schedule(misses, chances, most):
    """Largest chance that an interval ever misses, if the analyst chooses after each batch whether one more comes.

    Args:
        misses: Of the counts of each value among the rows that are there, whether the interval misses.
        chances: Of the values of a row.
        most: Largest number of rows.
    """
    kinds = len(chances)

    @cache
    def lost(counts):
        if misses(counts):
            return 1.0
        rows, best = sum(counts), 0.0
        for size in BATCHES:
            if rows + size <= most:
                best = max(best, sum(chance * lost(tuple(np.add(counts, more))) for more, chance in batches(size)))
        return best

    @cache
    def batches(size):
        found = {}
        for row in product(range(kinds), repeat=size):
            counts = tuple(row.count(kind) for kind in range(kinds))
            found[counts] = found.get(counts, 0.0) + math.prod(chances[kind] for kind in row)
        return tuple(found.items())

    return max(sum(chance * lost(counts) for counts, chance in batches(size)) for size in (2, 3))


def coins_miss(theta, nats, procedure_of):
    @cache
    def misses(counts):
        rows = sum(counts)
        low, high = procedure_of(rows).interval(counts[1] / rows, nats)
        return not low <= theta <= high

    return misses


@pytest.mark.parametrize("nats", NATS)
def test_no_schedule_beats_the_mixture_of_coins(nats):
    worst = [
        worst_schedule(coins_miss(theta, nats, lambda rows: mixture(rows, nats=nats)), (1 - theta, theta), MOST)
        for theta in np.linspace(0.02, 0.98, 25)
    ]
    assert max(worst) <= math.exp(-nats)
    assert max(worst) > 0.1 * math.exp(-nats)


@pytest.mark.parametrize("nats", NATS)
def test_a_schedule_beats_the_tails_of_a_fixed_number_of_rows(nats):
    """The protection removed: the interval of as many rows as are there."""

    def fixed(rows):
        return ClopperPearson(rows=rows, training=rows)

    worst = [
        worst_schedule(coins_miss(theta, nats, fixed), (1 - theta, theta), MOST)
        for theta in np.linspace(0.02, 0.98, 25)
    ]
    assert max(worst) > 1.2 * math.exp(-nats)


@pytest.mark.parametrize("chances", [(0.2, 0.6, 0.2), (0.7, 0.2, 0.1), (0.05, 0.15, 0.8)])
def test_no_schedule_beats_fixed_stakes(chances):
    nats, values = 1.0, np.array([0.0, 0.5, 1.0])
    theta, training = float(values @ chances), cells([0.0, 0.5, 1.0])

    @cache
    def misses(counts):
        usual = Betting(rows=sum(counts), training=training)
        low, high = at_all_sizes(usual, first_rows=2, nats=nats).interval(cells(np.repeat(values, counts)), nats)
        return not low <= theta <= high

    assert worst_schedule(misses, chances, 7) <= math.exp(-nats)


@pytest.mark.parametrize(("grows", "most"), [(True, 0.2), (False, 1.0)])
def test_rows_that_arrive_until_an_answer_looks_extreme(grows, most):
    """1,000 games at a level of .2: 40 batches of 50 rows, and an answer after each."""
    nats, rng, sizes = math.log(5.0), np.random.default_rng(7), np.arange(1, 41) * 50
    ones = np.cumsum(rng.binomial(50, 0.3, (1_000, len(sizes))), axis=1)
    missed = np.zeros(len(ones), dtype=bool)
    for place, rows in enumerate(sizes.tolist()):
        usual = ClopperPearson(rows=rows, training=rows)
        made = at_all_sizes(usual, first_rows=50, nats=nats) if grows else usual
        low, high = made.span(ones[:, place] / rows, ones[:, place] / rows, np.full(len(ones), nats))
        missed |= (low > 0.3) | (high < 0.3)
    assert missed.mean() <= most
    assert grows or missed.mean() > 0.4


def test_the_capital_is_convex_so_what_remains_is_an_interval():
    thetas = np.linspace(1e-4, 1 - 1e-4, 2_001)
    for rows, ones, concentration in product((1, 3, 50), (0, 1, 20), (0.1, 2.0, 300.0)):
        if ones <= rows:
            made = CoinMixture(rows=rows, training=rows, concentration=concentration)
            assert np.all(np.diff(made._capital(np.array(float(ones)), thetas), 2) > -1e-9)
