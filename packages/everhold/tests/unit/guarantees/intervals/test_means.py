"""Exact binomial tails hold for coins that are unlike each other, and would not without their repairs."""

import math

import mpmath as mp
import numpy as np
import pytest
from worlds import MARGIN

from everhold.guarantees.intervals.means import Chernoff, ClopperPearson, Hoeffding

LEVELS = (1.0, 0.7, 0.5, 0.1, 0.01, 1e-5)


def law_of_sum(chances):
    """Of independent coins, by convolution."""
    law = np.ones(1)
    for p in chances:
        law = np.convolve(law, [1.0 - p, p])
    return law


def coins(rows, rng):
    """Chances of unlike coins: certain ones, rare ones, equal ones, and means close to a whole number."""
    for _ in range(100):
        yield rng.random(rows)
        yield rng.beta(0.1, 0.1, rows)
        yield np.full(rows, rng.random())
    for p in np.concatenate([np.geomspace(1e-7, 0.5, 40), 1.0 - np.geomspace(1e-7, 0.5, 40)]):
        for alike in range(1, rows + 1):
            for rest in (0.0, 1.0):
                yield np.where(np.arange(rows) < alike, p, rest)


def worst_tail(span, rows, seed=1):
    """The greatest probability that the truth is beyond one end."""
    low, high = span
    worst = 0.0
    for chances in coins(rows, np.random.default_rng(seed)):
        law, truth = law_of_sum(chances), float(np.mean(chances))
        worst = max(worst, law @ (truth < low), law @ (truth > high))
    return worst


@pytest.mark.parametrize("procedure", [ClopperPearson, Chernoff, Hoeffding])
@pytest.mark.parametrize("level", LEVELS)
def test_each_end_holds_at_half_the_level_for_unlike_coins(procedure, level):
    for rows in (1, 2, 3, 6):
        means = np.arange(rows + 1) / rows
        span = procedure(rows=rows, training=rows).span(means, means, math.log(1 / level))
        assert worst_tail(span, rows) <= level / 2 + MARGIN


@pytest.mark.parametrize("level", [0.5, 0.1, 0.01])
def test_without_the_repairs_one_coin_among_certain_ones_is_a_counterexample(level):
    rows, tail = 3, level / 2
    low, high = ClopperPearson(rows=rows, training=rows).span([1 / 3, 2 / 3], [1 / 3, 2 / 3], math.log(1 / level))
    assert low[0] == pytest.approx(tail / rows)
    assert high[1] == pytest.approx(1 - tail / rows)
    unrepaired = 1.0 - (1.0 - tail) ** (1 / rows)  # P[Bin(3, q) >= 1] = tail
    chance = rows * (unrepaired + tail / rows) / 2  # the other coins never fall on yes
    assert chance / rows < unrepaired  # so the truth is excluded whenever there is a yes,
    assert chance > tail  # which is too often


def test_larger_tails_than_a_quarter_are_cut_to_it():
    procedure = ClopperPearson(rows=10, training=10)
    assert procedure.interval(0.4, 0.0) == procedure.interval(0.4, math.log(2))
    assert procedure.interval(0.4, 0.8) != procedure.interval(0.4, math.log(2))


def log_tail(ones, rows, share):
    """ln P[Bin(rows, share) <= ones] to 40 digits."""
    with mp.workdps(40):
        q = mp.mpf(float(share))
        return mp.log(mp.fsum(mp.binomial(rows, i) * q**i * (1 - q) ** (rows - i) for i in range(ones + 1)))


@pytest.mark.parametrize("nats", [0.7, 11.4, 100.0, 640.0, 700.0])
@pytest.mark.parametrize(("ones", "rows"), [(0, 2), (0, 10**6), (3, 300), (150, 300), (40, 20_000), (297, 300)])
def test_ends_are_rounded_outwards_and_close(ones, rows, nats):
    procedure = ClopperPearson(rows=rows, training=rows)
    low, _ = procedure.interval(1.0 - ones / rows, nats)
    high = procedure.interval(ones / rows, nats)[1]
    assert 1.0 - low == pytest.approx(high, rel=1e-12)
    if high < 1.0:
        assert log_tail(ones, rows, high) <= -(nats + math.log(2))
        if nats < 450.0:
            inside = high - 1e-6 * (high - ones / rows)
            assert log_tail(ones, rows, inside) > -(nats + math.log(2))


@pytest.mark.parametrize("rows", [2, 5, 30, 300, 1_000, 200_000])
def test_ends_are_numbers_and_grow_at_any_level(rows):
    """The inverse of the tail fails far out; Chernoff's bound takes its place."""
    ones = np.unique(np.concatenate([np.arange(min(rows, 60)), np.geomspace(1, rows, 30).astype(int)]))
    procedure = ClopperPearson(rows=rows, training=rows)
    ends = [procedure.span(ones / rows, ones / rows, nats) for nats in np.linspace(0.0, 800.0, 81)]
    low, high = np.moveaxis(np.array(ends), 1, 0)
    assert np.all((low >= 0.0) & (low <= ones / rows) & (ones / rows <= high) & (high <= 1.0))
    assert np.all(np.diff(high, axis=0) >= -1e-12)
    assert np.all(np.diff(low, axis=0) <= 1e-12)
    assert np.all(np.diff(high, axis=1) >= 0.0)


@pytest.mark.parametrize("nats", [20.0, 25.0, 27.0, 36.0, 60.0])
def test_the_least_lower_limits_are_no_larger_than_their_formula(nats):
    """With one yes of many rows the limit is smaller than a rounding error of 1."""
    for rows in (10, 20_000, 10**9):
        assert ClopperPearson(rows=rows, training=rows).interval(1 / rows, nats)[0] <= math.exp(-nats) / 2 / rows


def test_a_span_holds_every_interval_inside():
    procedure = ClopperPearson(rows=40, training=40)
    means = np.arange(10, 16) / 40
    low, high = procedure.span(means[0], means[-1], 5.0)
    inside = procedure.span(means, means, 5.0)
    assert low == pytest.approx(np.min(inside[0]))
    assert high == pytest.approx(np.max(inside[1]))


def test_clopper_pearson_is_narrower_than_chernoff_and_hoeffding():
    intervals = [p(rows=20_000, training=20_000).interval(0.1, 12.0) for p in (ClopperPearson, Chernoff, Hoeffding)]
    widths = [high - low for low, high in intervals]
    assert widths[0] < 0.93 * widths[1] < widths[2]


@pytest.mark.parametrize("share", [0.0005, 0.02, 0.5])
@pytest.mark.parametrize("training", [500, 2_000, 20_000])
def test_honest_guesses_are_rarely_surprises(share, training):
    rng, rows = np.random.default_rng(2), 2_000
    procedure = ClopperPearson(rows=rows, training=training)
    guesses, means = rng.binomial(training, share, 40_000) / training, rng.binomial(rows, share, 40_000) / rows
    low, high = procedure.honest(guesses, 4.0)
    assert np.mean((means < low) | (means > high)) < 1e-3
