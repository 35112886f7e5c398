"""The capital of a bet: fair at the truth, growing in theta, and rounded against whoever bets."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import Outcomes, laws_of

from everhold.guarantees.intervals.bets import capital as module
from everhold.guarantees.intervals.bets.capital import Units, best_stake, capital, upper_end

SIZES = np.array([1.0, 1.0, 4.0])
SHARES = np.array([0.0, 0.3, 1.0])
STAKES = (0.1, 0.5, 2.0, 30.0, 1e6)


def units_of(shares, sizes=SIZES):
    return Units(sizes, shares * sizes, np.ones(len(sizes)), float(np.max(sizes)))


def expected_capital(function):
    """The greatest E exp K at the truth, over laws and stakes."""
    outcomes, worst = Outcomes.of(len(SIZES), len(SHARES)), 0.0
    for laws in laws_of(len(SIZES), len(SHARES), np.random.default_rng(1), number=40):
        truth = float(SIZES @ (laws @ SHARES)) / SIZES.sum()
        if truth > 1.0 - 1e-9:
            continue
        chances = outcomes.probabilities(laws)
        for stake in STAKES:
            gains = [math.exp(function(units_of(SHARES[choice]), truth, stake)[0]) for choice in outcomes.choices]
            worst = max(worst, float(chances @ gains))
    return worst


def test_at_the_truth_nobody_gains_on_average():
    assert 0.99 < expected_capital(capital) <= 1.0


def test_without_the_cap_somebody_gains():
    def uncapped(units, theta, stake):
        factors = 1.0 + stake * (theta * units.sizes - units.values)
        return float(np.sum(units.counts * np.log(np.maximum(factors, 0.05)))), 0.0

    assert expected_capital(uncapped) > 2.0


@given(
    shares=st.lists(st.floats(0, 1), min_size=1, max_size=8),
    stake=st.floats(-3, 6).map(lambda x: 10.0**x),
    theta=st.floats(0, 0.999),
    further=st.floats(0, 1),
)
def test_it_grows_with_theta(shares, stake, theta, further):
    sizes = 1.0 + np.arange(len(shares)) % 3
    units = units_of(np.array(shares), sizes)
    beyond = theta + further * (0.999 - theta)
    value, slope = capital(units, theta, stake)
    rounding = 1e-9 * (1.0 + stake)  # what is taken off for floating point grows with the rate
    assert slope >= 0.0
    assert capital(units, beyond, stake)[0] >= value - rounding


@pytest.mark.parametrize("stake", [0.3, 4.0])
def test_the_slope_is_the_derivative(stake):
    units, step = units_of(np.array([0.2, 0.9, 0.4])), 1e-6
    for theta in (0.3, 0.6, 0.8):
        difference = capital(units, theta + step, stake)[0] - capital(units, theta - step, stake)[0]
        assert capital(units, theta, stake)[1] == pytest.approx(difference / (2 * step), rel=1e-4)


def exact(units, theta, stake):
    """K to 40 digits."""
    with mp.workdps(40):
        theta, cap = mp.mpf(theta), mp.mpf(module.CAP)
        rate = min(mp.mpf(stake), cap / ((1 - theta) * mp.mpf(units.largest)))
        kinds = zip(units.sizes, units.values, units.counts, strict=True)
        return mp.fsum(mp.mpf(c) * mp.log(1 + rate * (theta * mp.mpf(n) - mp.mpf(y))) for n, y, c in kinds)


@pytest.mark.parametrize("nats", [0.7, 12.0, 700.0])
@pytest.mark.parametrize("number", [2, 300, 10**8])
def test_an_end_is_rounded_outwards_and_close(nats, number):
    rng = np.random.default_rng(2)
    units = Units(np.ones(9), rng.random(9), rng.multinomial(number, np.full(9, 1 / 9)).astype(float), 1.0)
    stake = math.sqrt(2.0 * nats / (units.spread() + 1.0))
    end = upper_end(units, stake, nats)
    if end < 1.0:
        assert exact(units, end, stake) >= nats
        assert exact(units, units.mean + (1 - 1e-6) * (end - units.mean), stake) < nats
    assert end > units.mean


def test_units_at_the_top_and_no_units_exclude_nothing():
    assert upper_end(units_of(np.ones(3)), 1.0, 5.0) == 1.0
    assert upper_end(Units(np.zeros(0), np.zeros(0), np.zeros(0), 1.0), 1.0, 5.0) == 1.0


@pytest.mark.parametrize("nats", [1.0, 12.0, 100.0])
def test_no_other_stake_is_much_better(nats):
    rng = np.random.default_rng(3)
    units = Units(np.ones(400), rng.beta(0.5, 5.0, 400), np.full(400, 5.0), 1.0)
    best = upper_end(units, best_stake(units, nats), nats) - units.mean
    others = [upper_end(units, stake, nats) - units.mean for stake in np.geomspace(1e-3, 1e3, 300)]
    assert best <= 1.01 * min(others)


OVERSHOT = [  # one kind of units each: Newton's last step lands beyond the root, and used to be rounded on from there
    (0.1, 684.0948990101994, [15.0], [13.42], [929.0]),
    (3.0, 0.03504752935722971, [17.0], [14.85], [73_490.0]),
    (3.0, 0.010464234229558804, [268.0, 336.0, 393.0], [226.121, 308.144, 356.602], [11_897.0, 12_984.0, 42_696.0]),
]


@pytest.mark.parametrize(("nats", "stake", "sizes", "values", "counts"), OVERSHOT)
def test_an_end_is_as_close_as_its_tolerance_says_where_newton_overshoots(nats, stake, sizes, values, counts):
    units = Units(np.array(sizes), np.array(values), np.array(counts), max(sizes))
    end = upper_end(units, stake, nats, tolerance=1e-9)
    assert capital(units, end, stake)[0] >= nats
    assert capital(units, end - 3e-9 * (end - units.mean), stake)[0] < nats
