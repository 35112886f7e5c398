"""One draw for a whole vector: its length and every coordinate stay within what is promised, and no more is paid."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from noise_laws import discrete_gaussian_pmf
from scipy.integrate import quad
from scipy.stats import chi

from everhold.mechanisms import State
from everhold.randomness import NoNoise, SeededNoise
from everhold_privacy.guarantees import (
    gaussian_exceedance,
    gaussian_norm_allowance,
    gaussian_norm_exceedance,
)
from everhold_privacy.mechanisms.privacy_budget import CREDITS, PrivacyBudget, VectorNoise, release

MECHANISM = PrivacyBudget.tuned(rows=20_000, queries=50)
DIMENSIONS = [1, 2, 10, 300, 10_000]


def exact_exceedance(alpha, dimension):
    """E(||Z|| - alpha)_+ of a standard Gaussian."""
    return quad(lambda t: chi.sf(t, dimension), alpha, max(alpha, math.sqrt(dimension)) + 12, limit=200, epsabs=0)[0]


@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("beyond", [-0.5, 0.0, 1.0, 3.0, 5.0])
def test_the_bound_on_the_length_is_above_the_exact_one_and_near_it(dimension, beyond):
    alpha = math.sqrt(dimension) + beyond
    bound = gaussian_norm_exceedance(alpha=0.02 * alpha, scale=0.02, dimension=dimension) / 0.02
    exact = exact_exceedance(alpha, dimension)
    assert exact <= bound
    assert exact_exceedance(alpha - 0.8, dimension) >= bound


@pytest.mark.parametrize("scale", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_the_bound_holds_for_discrete_noise_of_any_scale(scale, dimension):
    support = np.arange(-math.ceil(11 * scale), math.ceil(11 * scale) + 1)
    points = np.stack(np.meshgrid(*[support] * dimension), axis=-1).reshape(-1, dimension)
    lengths = np.linalg.norm(points, axis=1)
    law = discrete_gaussian_pmf(scale, points).prod(axis=1)
    for alpha in np.linspace(0.1, 6 * scale, 25):
        exact = law @ np.maximum(lengths - alpha, 0)
        assert exact <= gaussian_norm_exceedance(alpha=alpha, scale=scale, dimension=dimension) + 1e-14


@given(st.integers(1, 10_000), st.floats(1e-14, 0.3), st.floats(1e-6, 1.0))
@settings(max_examples=60, deadline=None)
def test_the_allowance_is_the_inverse_and_never_too_small(dimension, share, scale):
    alpha = gaussian_norm_allowance(exceedance=share * scale, scale=scale, dimension=dimension)
    assert gaussian_norm_exceedance(alpha=alpha, scale=scale, dimension=dimension) <= share * scale
    less = max(alpha - 1e-3 * scale, 0.0)
    assert alpha == 0.0 or gaussian_norm_exceedance(alpha=less, scale=scale, dimension=dimension) > share * scale


@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("factor", [0.2, 1.0, 5.0])
def test_length_and_coordinates_together_add_no_more_than_one_mean(dimension, factor):
    vector, scale = VectorNoise(MECHANISM, dimension), factor * MECHANISM.scale
    length = gaussian_norm_exceedance(alpha=vector.length_allowance(scale), scale=scale, dimension=dimension)
    single = gaussian_exceedance(alpha=vector.coordinate_allowance(scale), scale=scale, answers=dimension)
    own = MECHANISM._sampling()[1] / MECHANISM.queries
    assert 0.99 * own <= length + single <= own * (1 + 1e-9)


def test_a_vector_costs_what_one_mean_costs_however_long_it_is():
    for dimension in DIMENSIONS:
        sums = np.zeros(dimension, dtype=np.int64)
        state, drawn = VectorNoise(MECHANISM, dimension).answer(
            State(), sums, SeededNoise(1), scale=MECHANISM.scale / 2
        )
        assert (state.asked, state.charged, drawn.charged) == (1, 4 * CREDITS, 4 * CREDITS)
        assert len(drawn.values) == len(drawn.lows) == len(drawn.highs) == dimension


@pytest.mark.parametrize("shift", [(5, 0), (3, 4), (-4, 3)])
def test_one_draw_of_a_vector_is_as_private_as_one_mean(shift):
    """Exact Renyi divergence of order 2 between neighbours, whose sums differ by one unit of 5 in some direction."""
    mechanism = PrivacyBudget(rows=3, queries=1, scale=0.4, unit=5)
    scale, reach = mechanism.scale_on_grid(mechanism.scale), 80
    support = np.arange(-reach, reach + 1)
    laws = [[discrete_gaussian_pmf(scale, support - step) for step in steps] for steps in ((0, 0), shift)]
    ratio = np.prod([(one**2 / other).sum() for one, other in zip(*laws, strict=True)])
    assert math.log(ratio) == pytest.approx(2 * mechanism.curve().rho, rel=1e-9)


def test_what_the_budget_does_not_pay_for_is_not_drawn():
    before = State(asked=3, charged=MECHANISM.credits - CREDITS + 1)
    sums = np.zeros(2, dtype=np.int64)
    with pytest.raises(ValueError, match="more than the budget can pay"):
        VectorNoise(MECHANISM, 2).answer(before, sums, NoNoise(), scale=MECHANISM.scale)


def test_the_noise_stays_within_its_allowances_and_not_within_those_of_one_number():
    """Planted error: an allowance that forgets the dimension is sqrt(d) too small."""
    dimension, scale = 400, MECHANISM.scale
    vector = VectorNoise(MECHANISM, dimension)
    drawn = [
        release(MECHANISM, State(), np.zeros(dimension, dtype=np.int64), SeededNoise(seed), scale=scale)[1]
        for seed in range(200)
    ]
    noise = np.array(drawn) / MECHANISM.steps
    lengths, largest = np.linalg.norm(noise, axis=1), np.abs(noise).max(axis=1)
    assert np.mean(lengths > vector.length_allowance(scale)) <= 0.02
    assert np.mean(largest > vector.coordinate_allowance(scale)) <= 0.02
    alone = VectorNoise(MECHANISM, 1)
    assert np.all(lengths > alone.length_allowance(scale))
    assert np.all(lengths > 0.9 * math.sqrt(dimension) * scale)


def test_the_whole_is_wider_than_a_mean_and_grows_like_the_root_of_the_dimension():
    radii = [VectorNoise(MECHANISM, dimension).radius_at(MECHANISM.scale) for dimension in DIMENSIONS]
    assert MECHANISM.radius_at(MECHANISM.scale) < radii[0]
    assert radii == sorted(radii)
    allowances = [VectorNoise(MECHANISM, d).length_allowance(MECHANISM.scale) for d in (100, 10_000)]
    assert 5 < allowances[1] / allowances[0] < 10


def test_intervals_contain_what_was_there_before_the_noise():
    truth = np.array([0.3, -0.2, 0.0])
    sums = np.round(truth * MECHANISM.steps).astype(np.int64)
    for seed in range(20):
        _, drawn = VectorNoise(MECHANISM, 3).answer(State(), sums, SeededNoise(seed), scale=MECHANISM.scale)
        assert np.all((drawn.lows <= truth + 0.5) & (truth + 0.5 <= drawn.highs))
        assert np.linalg.norm(drawn.values - 0.5 - truth) <= drawn.within
        assert np.all(drawn.highs - drawn.lows <= 2 * drawn.within)
