"""The sign test: so many wins of unlike coins, with the rows that differ known to everybody."""

import math

import numpy as np
import pytest
from scipy.stats import binom
from worlds import MARGIN, NATS, Outcomes, laws_of, misses

from everhold.guarantees.intervals.means import Chernoff, SignTest

ROWS, DIFFERING = 9, 4


def mean_of(wins, differing, rows):
    return 0.5 + (2 * wins - differing) / (2 * rows)


@pytest.mark.parametrize("nats", NATS)
def test_each_end_holds_at_half_the_level_for_unlike_coins(nats):
    outcomes = Outcomes.of(DIFFERING, 2)
    means = mean_of(outcomes.choices.sum(axis=1), DIFFERING, ROWS)
    low, high = SignTest(rows=ROWS, training=ROWS, differing=DIFFERING).span(means, means, nats)
    for laws in laws_of(DIFFERING, 2, np.random.default_rng(1), number=400):
        truth = mean_of(laws[:, 1].sum(), DIFFERING, ROWS)
        assert max(misses(outcomes, laws, low, high, truth)) <= math.exp(-nats) / 2 + MARGIN


def test_a_promotion_is_the_exact_binomial_tail():
    """Promoted, one-sided at level exp(-L): the lower limit is above 0 as soon as the sign test rejects."""
    procedure, nats = SignTest(rows=20_000, training=20_000, differing=1_000), 11.4
    wins = np.arange(1_001)
    means = mean_of(wins, 1_000, 20_000)
    low, _ = procedure.span(means, means, nats - math.log(2))
    rejects = binom.sf(wins - 1, 1_000, 0.5) <= math.exp(-nats)
    assert np.array_equal(low > 0.5, rejects)


def test_it_is_far_narrower_than_an_interval_that_does_not_know_the_ties():
    low, high = SignTest(rows=20_000, training=20_000, differing=1_000).interval(0.502, 11.4)
    blind = Chernoff(rows=20_000, training=20_000).interval(0.502, 11.4)
    assert high - low < 0.25 * (blind[1] - blind[0])


def test_models_that_never_differ_are_equal():
    procedure = SignTest(rows=50, training=50, differing=0)
    assert procedure.interval(0.5, 3.0) == (0.5, 0.5)
    assert procedure.expected(0.5, 3.0) == (0.5, 0.5)
    assert procedure.honest(np.full(3, 0.5), 4.0)[0].tolist() == [0.5] * 3
    assert procedure.standard_error(0.5) == 0.0


def test_worth_and_honest_guesses_know_the_ties():
    procedure, rng = SignTest(rows=2_000, training=2_000, differing=100), np.random.default_rng(2)
    assert procedure.worth == 40_000
    wins = rng.binomial(100, 0.6, (2, 20_000))
    guesses, means = mean_of(wins, 100, 2_000)
    low, high = procedure.honest(guesses, 4.0)
    assert np.mean((means < low) | (means > high)) < 1e-3
    assert np.std(means - guesses) == pytest.approx(procedure.standard_error(mean_of(60, 100, 2_000)), rel=0.03)
