"""S7 in closed form: its factor psi is needed, and it is a little wider than the bet."""

import math

import numpy as np
import pytest
from worlds import Outcomes, laws_of

from everhold.guarantees.intervals.betting import planned_radius, psi
from everhold.guarantees.intervals.joint import Units, upper_end

SIZES, SHARES = np.array([1.0, 2.0, 5.0]), np.array([0.0, 0.25, 1.0])
CENTRES = np.array([0.3, 0.5, 0.1]) * SIZES


def shortfall(values, sizes, centres, *, stake, nats, cap=0.9):
    """Return how far the sum of expectations can exceed the sum of values, except with probability exp(-nats) (S7)."""
    room = sizes - centres
    rates = np.minimum(stake, cap / room)
    paid = nats + np.sum(rates**2 * psi(rates * room) * (values - centres) ** 2)
    return float((paid + np.sum((stake - rates) * (sizes - values))) / stake)


def test_psi_bounds_the_logarithm_exactly():
    for u in (1e-4, 0.2, 0.9, 0.999):
        x = np.linspace(-u, 3.0, 2_001)
        assert np.all(np.log1p(x) >= x - psi(u) * x**2 - 1e-12)
        assert math.log1p(-u) == pytest.approx(-u - float(psi(u)) * u**2, abs=1e-12)
    assert psi(0.0) == 0.5
    assert psi(1.01e-3) == pytest.approx(float(psi(0.99e-3)), rel=1e-4)


def largest_expectation(factor):
    """The greatest E exp(sum x - factor x^2) exp(-E sum x) for one unit, which the proof holds at 1."""
    worst = 0.0
    for stake in (0.3, 0.9):
        for centre in (0.0, 0.2, 0.6):
            x = stake * (centre - np.array([0.0, 1.0]))
            u = stake * (1.0 - centre)
            for p in np.linspace(0.0, 1.0, 101):
                chances = np.array([1.0 - p, p])
                worst = max(worst, float(chances @ np.exp(x - factor(u) * x**2)) * math.exp(-float(chances @ x)))
    return worst


def test_the_capital_of_the_proof_is_fair_with_psi_and_not_with_one_half():
    assert largest_expectation(psi) <= 1.0 + 1e-12
    assert largest_expectation(lambda u: 0.5) > 1.0 + 1e-3


@pytest.mark.parametrize("nats", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("stake", [0.1, 0.5, 3.0])
def test_it_holds_with_and_without_caps(stake, nats):
    outcomes = Outcomes.of(3, 3)
    values = SHARES[outcomes.choices] * SIZES
    bounds = np.array([shortfall(v, SIZES, CENTRES, stake=stake, nats=nats) for v in values])
    for laws in laws_of(3, 3, np.random.default_rng(1), number=300):
        gaps = SIZES @ (laws @ SHARES) - values.sum(axis=1)
        assert outcomes.probabilities(laws) @ (gaps >= bounds) <= math.exp(-nats) + 1e-12


def test_it_is_a_little_wider_than_the_bet():
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 6, 20_000).astype(float)
    values, nats = sizes * rng.beta(2, 6, 20_000), 12.0
    theta = values.sum() / sizes.sum()
    spread = float(np.sum((values - theta * sizes) ** 2))
    stake = math.sqrt(2 * nats / spread)
    closed = shortfall(values, sizes, theta * sizes, stake=stake, nats=nats) / sizes.sum()
    bet = upper_end(Units(sizes, values, np.ones(20_000), 5.0), stake, nats, hedged=False) - theta
    planned = planned_radius(spread=spread, total=sizes.sum(), largest=5.0 * (1 - theta), nats=nats)
    assert bet < closed < 1.15 * bet
    assert closed < planned < 1.2 * bet
    assert planned > math.sqrt(2 * nats * spread) / sizes.sum()
