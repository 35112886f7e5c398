"""A quantile's bin: its losses, its law and its promise on the population."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from everhold.randomness import SecureNoise, SeededNoise
from everhold_lab.releases.selection import PermuteAndFlip, QuantileBin, QuantileRelease
from everhold_privacy.mechanisms.selection import ExponentialMechanism

BOTH = pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlip])


def query(quantile=0.5, *, rows, epsilon=1.0, kind=PermuteAndFlip, bins=4, unit=8):
    selection = kind(epsilon, sensitivity=unit)
    return QuantileRelease(quantile=quantile, low=0, high=bins, bins=bins, rows=rows, selection=selection, unit=unit)


def loss_by_definition(column, q, low, high, *, last):
    """In rows: how far q n lies from the numbers of values below the bin's edges."""
    clipped = [min(max(x, 0.0), 4.0) for x in column]
    above = sum(x < low for x in clipped) - q * len(clipped)
    short = q * len(clipped) - (len(clipped) if last else sum(x < high for x in clipped))
    return max(above, short, 0.0)


COLUMNS = st.lists(st.floats(-1, 6).map(lambda x: round(x * 4) / 4), min_size=1, max_size=7)


@given(column=COLUMNS, q=st.sampled_from([0.0, 0.125, 0.5, 0.75, 1.0]))
def test_losses_are_those_of_the_definition_and_one_is_nought(column, q):
    asked = query(q, rows=len(column))
    losses = asked.losses(asked.below(column))
    assert losses.tolist() == [8 * loss_by_definition(column, q, k, k + 1, last=k == 3) for k in range(4)]
    assert losses.min() == 0


@given(column=COLUMNS, q=st.floats(0, 1), data=st.data())
def test_one_row_moves_a_loss_by_at_most_one_row(column, q, data):
    asked, other = query(q, rows=len(column)), list(column)
    other[data.draw(st.integers(0, len(column) - 1))] = data.draw(st.floats(-1, 6))
    moved = asked.losses(asked.below(column)) - asked.losses(asked.below(other))
    assert np.abs(moved).max() <= 8


def test_a_row_that_crosses_moves_losses_by_a_whole_row_in_both_directions():
    """So neither the sensitivity nor the factor 2 of the mechanisms can be halved, for no quantile."""
    asked = query(0.5, rows=40, bins=8)
    before, after = np.repeat([0.5, 1.5, 6.5], [10, 20, 10]), np.repeat([0.5, 1.5, 5.5, 6.5], [10, 19, 1, 10])
    low, high = np.repeat([0.5, 3.5, 7.5], [19, 2, 19]), np.repeat([0.5, 3.5, 7.5], [18, 2, 20])
    assert set((asked.losses(asked.below(after)) - asked.losses(asked.below(before))).tolist()) >= {0, -8}
    assert set((asked.losses(asked.below(high)) - asked.losses(asked.below(low))).tolist()) >= {8, -8}


def test_missing_values_lie_below_no_edge_and_all_values_count():
    assert query(rows=4).below([math.nan, -5.0, 1.0, 99.0]).tolist() == [8, 16, 16]


@BOTH
def test_the_law_is_that_of_the_selection(kind):
    asked = query(0.3, rows=6, kind=kind, epsilon=0.7)
    below = asked.below([0.5, 0.5, 1.5, 2.0, 3.5, 3.9])
    rows = np.array([loss_by_definition([0.5, 0.5, 1.5, 2.0, 3.5, 3.9], 0.3, k, k + 1, last=k == 3) for k in range(4)])
    chance = np.exp(-0.7 * rows / 2)
    if kind is ExponentialMechanism:
        expected = chance / chance.sum()
    else:
        expected = np.zeros(4)
        for coins in itertools.product((0, 1), repeat=4):
            weight = np.prod(np.where(coins, chance, 1 - chance))
            expected += weight * np.array(coins) / max(sum(coins), 1)
    np.testing.assert_allclose(asked.law(below), expected, rtol=0.05)  # q n is rounded to an eighth of a row
    fine = query(0.3, rows=6, kind=kind, epsilon=0.7, unit=2**30)
    np.testing.assert_allclose(fine.law(below * 2**27), expected, rtol=1e-8)


@BOTH
@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(3)], ids=["secure", "seeded"])
def test_bins_are_drawn_by_the_law(kind, noise):
    asked = query(0.25, rows=5, kind=kind, epsilon=0.5)
    below = asked.below([0.5, 1.5, 1.6, 2.5, 3.5])
    found = [asked.choose(below, noise) for _ in range(2000)]
    drawn = [[QuantileBin(*asked.bin(index)) for index in range(4)].index(one) for one in found]
    assert stats.chisquare(np.bincount(drawn, minlength=4), 2000 * asked.law(below)).pvalue > 1e-6


# The promise ----------------------------------------------------------------------------------------------------------


def tiny_population(masses, rows, asked):
    """Joint law of three rows' values and the bin, and F at the edges."""
    data = np.array(list(itertools.product(range(len(masses)), repeat=rows))) + 0.5
    prior = np.prod(np.asarray(masses)[np.floor(data).astype(int)], axis=1)
    law = np.array([asked.law(asked.below(row)) for row in data])
    return prior, law, np.concatenate([[0.0], np.cumsum(masses)])


@BOTH
@given(seed=st.integers(0, 10**6), q=st.floats(0, 1))
@settings(max_examples=25, deadline=None)
def test_S1_covers_the_chosen_bin(kind, seed, q):
    """In expectation, by enumeration; at the mechanism's own epsilon nothing more leaks."""
    generator = np.random.default_rng(seed)
    epsilon, masses = float(generator.uniform(0.3, 5)), generator.dirichlet(np.full(4, 0.5))
    asked = query(q, rows=3, kind=kind, epsilon=epsilon)
    prior, law, F = tiny_population(masses, 3, asked)
    error = np.maximum(np.maximum(F[:-1] - q, q - F[1:]), 0.0)
    for loss in (0.0, 0.4 * epsilon, epsilon):
        within = asked.curve().delta(loss)
        for alpha in (0.0, 0.1, 0.4):
            excess = float(prior @ law @ np.maximum(error - alpha - 1 / asked.steps - math.tanh(loss / 4), 0.0))
            assert excess <= asked.exceedance(alpha) + within + 1e-12


def normal_failures(asked, bound, *, runs, seed):
    """How often the promise fails for normal columns whose quantile lies anywhere."""
    generator, noise, failures = np.random.default_rng(seed), SeededNoise(seed), np.zeros(2)
    for _ in range(runs):
        centre = generator.uniform(10, 30)
        chosen = asked.choose(asked.below(generator.normal(centre, 3, asked.rows)), noise)
        low, high = stats.norm.cdf([chosen.low, chosen.high], centre, 3)
        failures += low - bound.radius > asked.quantile or high + bound.radius < asked.quantile, 0
        failures += 0, low > bound.most or high < bound.least
    return failures


@BOTH
@pytest.mark.parametrize("q", [0.5, 0.95])
def test_the_promise_holds_by_simulation_and_a_shorter_one_fails(kind, q):
    asked = QuantileRelease(quantile=q, low=0, high=40, bins=160, rows=3000, selection=kind(0.05))
    bound = asked.bound(confidence=0.9)
    assert bound.radius < 0.2
    assert np.all(normal_failures(asked, bound, runs=200, seed=1) <= 35)
    shorter = type(bound)(bound.radius / 50, q - bound.radius / 50, q + bound.radius / 50, 0.9)
    assert np.all(normal_failures(asked, shorter, runs=200, seed=1) > 40)


def test_near_the_ends_the_levels_are_sharper_than_the_radius():
    bound = QuantileRelease(
        quantile=0.99, low=0, high=1, bins=100, rows=20_000, selection=PermuteAndFlip(0.3)
    ).bound()  # fmt: skip
    assert 0.99 - bound.radius < bound.least < 0.99 < bound.most <= 1.0
    assert bound.least > 0.99 - 0.75 * bound.radius


def test_another_transcript_costs_more():
    asked = query(rows=10_000, epsilon=0.05, unit=2**30)
    assert asked.bound(asked.curve().repeat(3)).radius > asked.bound().radius


@pytest.mark.parametrize(
    "wrong",
    [
        {"quantile": -0.1}, {"quantile": math.nan}, {"low": math.nan}, {"low": 5.0}, {"high": math.inf}, {"bins": 0},
        {"bins": 2.5}, {"rows": 0}, {"rows": 2**40}, {"unit": 0}, {"low": 1.0, "high": 1.0 + 1e-15, "bins": 100},
        {"selection": PermuteAndFlip(1.0, sensitivity=3)},
    ],
    ids=str,
)  # fmt: skip
def test_wrong_inputs_are_refused(wrong):
    good = {"quantile": 0.5, "low": 0.0, "high": 4.0, "bins": 4, "rows": 10, "selection": PermuteAndFlip(1.0)}
    with pytest.raises(ValueError, match=r"Pass|pass"):
        QuantileRelease(**good | wrong)


def test_wrong_counts_are_refused():
    asked = query(rows=4)
    for below in (np.zeros(4, dtype=np.int64), np.zeros(3)):
        with pytest.raises(ValueError, match="below"):
            asked.losses(below)
    with pytest.raises(ValueError, match="column"):
        asked.below([1.0])


def test_a_single_bin_is_chosen_for_sure():
    asked = query(rows=2, bins=1)
    assert asked.choose(asked.below([0.1, 0.2]), SeededNoise(1)) == QuantileBin(-math.inf, math.inf)
    assert asked.exceedance(0.0) == 0.0
