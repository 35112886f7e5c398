import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from noise_laws import (
    discrete_gaussian_exceedance,
    discrete_gaussian_pmf,
    discrete_laplace_exceedance,
    discrete_laplace_pmf,
)
from scipy.stats import norm

SCALES = st.floats(0.05, 500)


@pytest.mark.parametrize("scale", [0.3, 1, 2.5, 40])
@pytest.mark.parametrize("pmf", [discrete_laplace_pmf, discrete_gaussian_pmf])
def test_probabilities_sum_to_one_with_the_right_ratios(pmf, scale):
    support = np.arange(-2000, 2001)
    masses = pmf(scale, support)
    exponent = 1 / scale if pmf is discrete_laplace_pmf else 0.5 / scale**2
    assert masses.sum() == pytest.approx(1, rel=1e-13)
    assert masses[2001] / masses[2000] == pytest.approx(np.exp(-exponent), rel=1e-13)
    np.testing.assert_array_equal(masses, masses[::-1])


@pytest.mark.parametrize("pmf", [discrete_laplace_pmf, discrete_gaussian_pmf])
def test_bad_arguments_are_refused(pmf):
    for scale in (0, -1, np.inf, np.nan):
        with pytest.raises(ValueError, match="scale"):
            pmf(scale, [0])
    with pytest.raises(ValueError, match="integer"):
        pmf(1, [0.5])


@given(scale=st.floats(0.2, 40), threshold=st.floats(-60, 200))
def test_laplace_exceedance_is_the_sum_over_its_law(scale, threshold):
    support = np.arange(-3000, 3001)
    summed = np.sum(np.maximum(support - threshold, 0) * discrete_laplace_pmf(scale, support))
    assert discrete_laplace_exceedance(scale, threshold) == pytest.approx(summed, rel=1e-10, abs=1e-30)


@given(scale=SCALES, threshold=st.floats(0, 2000))
def test_discrete_laplace_is_below_the_continuous_in_the_convex_order(scale, threshold):
    continuous = 0.5 * scale * np.exp(-threshold / scale)
    assert discrete_laplace_exceedance(scale, threshold) <= continuous * (1 + 1e-12)


@given(first=st.integers(1, 6), second=st.integers(1, 6), threshold=st.floats(0, 60))
def test_the_order_survives_sums(first, second, threshold):
    """Equal and different scales; the continuous exceedance of two Laplaces is the one used for Thresholdout (S1)."""
    support = np.arange(-400, 401)
    law = np.convolve(discrete_laplace_pmf(first, support), discrete_laplace_pmf(second, support))
    exceedance = np.sum(np.maximum(np.arange(-800, 801) - threshold, 0) * law)
    assert exceedance <= continuous_sum_exceedance(first, second, threshold) * (1 + 1e-9) + 1e-15


def continuous_sum_exceedance(first, second, x):
    if first == second:
        return np.exp(-x / first) * (3 * first + x) / 4
    return (first**3 * np.exp(-x / first) - second**3 * np.exp(-x / second)) / (2 * (first**2 - second**2))


@pytest.mark.parametrize("scale", [1, 2, 5, 20])
def test_discrete_gaussian_is_below_the_continuous_at_integers_and_not_between(scale):
    def continuous(a):
        return scale * norm.pdf(a / scale) - a * norm.sf(a / scale)

    for a in range(6 * scale):
        assert discrete_gaussian_exceedance(scale, a) <= continuous(a)
        assert discrete_gaussian_exceedance(scale, a + 0.5) <= (continuous(a) + continuous(a + 1)) / 2
    assert discrete_gaussian_exceedance(scale, 0.5) > continuous(0.5)


def test_gaussian_exceedance_of_a_threshold_far_below_is_the_distance():
    assert discrete_gaussian_exceedance(2.0, -300.25) == pytest.approx(300.25, rel=1e-12)
    assert discrete_gaussian_exceedance(2.0, 300.0) == 0.0


def test_gaussian_normaliser_at_scale_one_to_the_last_digit():
    with mp.workdps(40):
        total = mp.nsum(lambda x: mp.exp(-(x**2) / 2), [-mp.inf, mp.inf])
    assert discrete_gaussian_pmf(1, 0) == pytest.approx(float(1 / total), rel=1e-15)
