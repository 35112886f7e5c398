"""Bets on ratios hold in worlds written down in full."""

import math

import numpy as np
import pytest
from summaries import UNIT, cells, grid, pairs, public_sizes
from worlds import MARGIN, NATS, Outcomes, laws_of, misses

from everhold.guarantees.intervals.betting import Betting, GroupRatioBetting, RatioBetting

SUPPORT = grid([(0, 0), (0, 1), (1, 1), (0.3, 0.45)]) / UNIT  # pairs of u and v
TRAINING = (([0, 1, 0.2, 0], [1, 1, 0.5, 0]), ([0.0], [0.0]), ([1] * 9, [1] * 9))


def side(nats):
    return nats + math.log(2.0)


def truths_of(units, sizes, seed=1, number=150):
    """Laws and their ratios; where nothing can be in the denominator there is no ratio."""
    for laws in laws_of(units, len(SUPPORT), np.random.default_rng(seed), number=number):
        u, v = (laws @ SUPPORT).T @ sizes
        if v > 0:
            yield laws, u / v


def worst_miss(ends, outcomes, truths):
    low, high = np.array(ends).T
    return max(max(misses(outcomes, laws, low, high, truth)) for laws, truth in truths)


@pytest.mark.parametrize("training", TRAINING)
@pytest.mark.parametrize("nats", NATS)
def test_rows_each_end_holds_at_half_the_level(training, nats):
    outcomes = Outcomes.of(4, 4)
    procedure = RatioBetting(rows=4, training=pairs(*training))
    ends = outcomes.of_units_alike(lambda choice: procedure.interval(pairs(*SUPPORT[choice].T), nats))
    assert worst_miss(ends, outcomes, truths_of(4, np.ones(4))) <= math.exp(-nats) / 2 + MARGIN


@pytest.mark.parametrize("nats", NATS)
def test_groups_each_end_holds_at_half_the_level(nats):
    sizes, outcomes = np.array([1, 1, 4]), Outcomes.of(3, 4)
    procedure = GroupRatioBetting(sizes=public_sizes(sizes), training=pairs([0, 1, 2], [1, 1, 3], [1, 2, 4]))
    ends = [
        procedure.interval(pairs(*(SUPPORT[choice] * sizes[:, None]).T, sizes), nats) for choice in outcomes.choices
    ]
    assert worst_miss(ends, outcomes, truths_of(3, sizes, number=300)) <= math.exp(-nats) / 2 + MARGIN


def test_bets_that_take_denominators_as_numbers_of_rows_are_caught():
    """The planted error: theta in place of theta v, that is a mean over all rows, not over those in query."""
    u, v = np.array([1.0] * 8 + [0.0] * 32), np.array([1.0] * 10 + [0.0] * 30)
    procedure = RatioBetting(rows=40, training=pairs(u, v))
    assert procedure.interval(pairs(u, v), 3.0)[0] < 0.8 < procedure.interval(pairs(u, v), 3.0)[1]
    assert procedure.interval(pairs(u, np.ones(40)), 3.0)[1] < 0.8


def test_without_a_denominator_nothing_is_excluded():
    procedure = RatioBetting(rows=50, training=pairs([0, 1], [1, 1]))
    assert procedure.interval(pairs(np.zeros(50), np.zeros(50)), 1.0) == (0.0, 1.0)


def test_bets_on_a_mean_are_bets_on_a_ratio_with_denominator_one():
    rng = np.random.default_rng(2)
    edges = rng.integers(0, 257, 300) / 256.0
    ones = np.ones(300)
    as_mean = Betting(rows=300, training=cells(edges))
    as_ratio = RatioBetting(rows=300, training=pairs(edges, ones))
    assert as_ratio.interval(pairs(edges, ones), 5.0) == pytest.approx(as_mean.interval(cells(edges), 5.0), rel=1e-3)


def test_ends_allow_for_what_rounding_down_took():
    """The truth is .53, and all values round to one step of the grid, as if the ratio were 1."""
    step = 1.0 / UNIT
    procedure = RatioBetting(rows=400, training=pairs([0, 1], [1, 1]))
    low, high = procedure.interval(pairs(np.full(400, step), np.full(400, 1.9 * step)), 3.0)
    assert low <= 1.0 / 1.9 <= high


def test_ratios_cost_what_their_residuals_spread():
    rng = np.random.default_rng(4)

    def draw():
        v = (rng.random(20_000) < 0.2) * 1.0
        return v * rng.beta(2.0, 8.0, 20_000), v

    (u, v), training = draw(), draw()
    procedure = RatioBetting(rows=20_000, training=pairs(*training))
    low, high = procedure.interval(pairs(u, v), 11.4)
    theta = u.sum() / v.sum()
    spread = np.sum((u - theta * v) ** 2)
    assert (high - low) / 2 == pytest.approx(math.sqrt(2 * (side(11.4) + math.log(2)) * spread) / v.sum(), rel=0.02)
    expected = procedure.expected(training[0].sum() / training[1].sum(), 11.4)
    assert expected[1] - expected[0] == pytest.approx(high - low, rel=0.06)
    assert procedure.standard_error(theta) == pytest.approx(math.sqrt(2 * spread) / v.sum(), rel=0.05)
    assert procedure.worth == pytest.approx(0.25 * v.sum() ** 2 / spread, rel=0.1)


def test_a_numerator_rounded_up_is_no_larger_than_its_denominator():
    """The capital of a larger one would be negative near 1, so that values there would seem to be excluded."""
    procedure = RatioBetting(rows=1_000, training=pairs([0, 1], [0, 1]))
    seen = [0] * 500 + [1] * 499, [0] * 500 + [1] * 499
    low, high = procedure.interval(pairs([0, *seen[0]], [1, *seen[1]]), 18.0)
    assert 0.9 < low < high == 1.0
