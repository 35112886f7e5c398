"""The capital of a bet: fair at the truth, growing in theta, and rounded against whoever bets."""

import math
from functools import partial

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import Outcomes, laws_of

from everhold.guarantees.intervals import joint as module
from everhold.guarantees.intervals.joint import (
    JointBets,
    MovedBets,
    Units,
    best_stake,
    first_excluded,
    ratio_bets,
    upper_end,
)

SIZES = np.array([1.0, 1.0, 4.0])
SHARES = np.array([0.0, 0.3, 1.0])
STAKES = (0.1, 0.5, 2.0, 30.0, 1e6)
alone = partial(upper_end, hedged=False)


def units_of(shares, sizes=SIZES):
    return Units(sizes, shares * sizes, np.ones(len(sizes)), float(np.max(sizes)))


def capital(units, theta, stake):
    """Logarithm of the capital of one stake."""
    return ratio_bets(units, stake, hedged=False).at(theta)


def expected_capital(function):
    """The greatest E exp K at the truth, over laws and stakes."""
    outcomes, worst = Outcomes.of(len(SIZES), len(SHARES)), 0.0
    for laws in laws_of(len(SIZES), len(SHARES), np.random.default_rng(1), number=40):
        truth = float(SIZES @ (laws @ SHARES)) / SIZES.sum()
        if truth > 1.0 - 1e-9:
            continue
        chances = outcomes.probabilities(laws)
        for stake in STAKES:
            gains = [math.exp(function(units_of(SHARES[choice]), truth, stake)) for choice in outcomes.choices]
            worst = max(worst, float(chances @ gains))
    return worst


def test_at_the_truth_nobody_gains_on_average():
    assert 0.99 < expected_capital(capital) <= 1.0


def test_without_the_cap_somebody_gains():
    def uncapped(units, theta, stake):
        factors = 1.0 + stake * (theta * units.sizes - units.values)
        return float(np.sum(units.counts * np.log(np.maximum(factors, 0.05))))

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
    rounding = 1e-9 * (1.0 + stake)  # what is taken off for floating point grows with the rate
    assert capital(units, beyond, stake) >= capital(units, theta, stake) - rounding


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
    end = alone(units, stake, nats)
    if end < 1.0:
        assert exact(units, end, stake) >= nats
        assert exact(units, units.mean + (1 - 1e-6) * (end - units.mean), stake) < nats
    assert end > units.mean


def test_units_at_the_top_and_no_units_exclude_nothing():
    assert alone(units_of(np.ones(3)), 1.0, 5.0) == 1.0
    assert alone(Units(np.zeros(0), np.zeros(0), np.zeros(0), 1.0), 1.0, 5.0) == 1.0


@pytest.mark.parametrize("nats", [1.0, 12.0, 100.0])
def test_no_other_stake_is_much_better(nats):
    rng = np.random.default_rng(3)
    units = Units(np.ones(400), rng.beta(0.5, 5.0, 400), np.full(400, 5.0), 1.0)
    best = alone(units, best_stake(units, nats), nats) - units.mean
    others = [alone(units, stake, nats) - units.mean for stake in np.geomspace(1e-3, 1e3, 300)]
    assert best <= 1.01 * min(others)


OVERSHOT = [  # one kind of units each: steps land beyond the root
    (0.1, 684.0948990101994, [15.0], [13.42], [929.0]),
    (3.0, 0.03504752935722971, [17.0], [14.85], [73_490.0]),
    (3.0, 0.010464234229558804, [268.0, 336.0, 393.0], [226.121, 308.144, 356.602], [11_897.0, 12_984.0, 42_696.0]),
]


@pytest.mark.parametrize(("nats", "stake", "sizes", "values", "counts"), OVERSHOT)
def test_an_end_is_as_close_as_its_tolerance_says_where_steps_overshoot(nats, stake, sizes, values, counts):
    units = Units(np.array(sizes), np.array(values), np.array(counts), max(sizes))
    end = alone(units, stake, nats, tolerance=1e-9)
    assert capital(units, end, stake) >= nats
    assert capital(units, end - 3e-9 * (end - units.mean), stake) < nats


def test_the_bound_of_a_cell_is_below_the_capital_at_each_of_its_points():
    rng = np.random.default_rng(0)
    moves = rng.normal(size=(2, 30, 3))
    losses = np.abs(moves).sum(axis=1)  # of points whose coordinates are in [0, 1]
    counts, weights = rng.integers(1, 5, 30) * 1.0, np.log(np.full((2, 2), 0.25))
    bets = JointBets(moves, losses, counts, np.array([0.9, 0.3]), weights)
    paths = rng.random((40, 3, 3))
    bound = bets.capital(paths).reshape(40, 2)
    for part in np.linspace(0.0, 1.0, 9):
        inside = (1.0 - part) * paths[:, :-1] + part * paths[:, 1:]
        room = (paths @ losses.T).max(axis=1, keepdims=True)
        rates = bets.stakes[:, None] / room[..., None, None]
        gains = np.log1p(rates * np.einsum("gud,pvd->pvgu", moves, inside)[..., None, :]) @ counts
        capital = np.logaddexp.reduce(gains + weights, axis=(2, 3))
        assert (capital >= bound).all()


@pytest.mark.parametrize("root", [1e-3, 0.3, 1.0])
@pytest.mark.parametrize("power", [1.0, 2.0, 5.0])
def test_the_end_that_is_found_was_tried_in_either_direction(root, power):
    for sign in (1.0, -1.0):
        tried = []

        def gained(value, *, sign=sign, tried=tried):
            tried.append(value)
            return 7.0 * (sign * value / root) ** power if sign * value > root / 2.0 else -math.inf

        end = first_excluded(gained, 7.0, inside=0.0, outside=sign * 50.0, start=sign)
        assert root <= sign * end <= root * (1.0 + 3e-9)
        assert end in tried
        assert len(tried) < 60
    assert first_excluded(lambda _: 0.0, 7.0, inside=0.0, outside=1.0, start=0.5) == 1.0


def test_bets_at_points_that_move_have_the_capital_of_bets_at_each_of_them():
    rng = np.random.default_rng(4)
    moves = rng.integers(-1, 2, (3, 12, 3)) * 0.5
    moves[1:, :, 2] = 0.0  # only the first game moves with the third coordinate, and no loss does
    counts, weights = rng.integers(1, 40, 12) * 1.0, np.log(np.full((3, 2), 1.0 / 6.0))
    start = np.concatenate([rng.random((9, 4, 2)) + 0.1, np.zeros((9, 4, 1))], axis=2)
    direction = start[..., :1] * np.array([0.0, 0.0, 1.0])
    bets = JointBets(moves, np.full((3, 3), [2.0, 2.0, 0.0]), counts, np.array([0.9, 0.3]), weights)
    moved = MovedBets(bets, start, direction).capital(counts)
    for number in (-1.0, -0.3, 0.0, 0.7):
        exact = float(bets.capital(start + number * direction).min())
        assert exact - 1e-9 <= moved(number) <= exact + 1e-12
