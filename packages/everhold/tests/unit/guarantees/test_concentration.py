"""P9 and S3's intervals: exact binomial coverage, and never wider than Hoeffding."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from everhold.guarantees.description_length import binomial_interval, hoeffding_radius

LEVELS = (0.5, 0.1, 0.01, 1e-5)


def missed(rows, level, shares):
    """P[the interval excludes q] for every q, by the binomial law."""
    counts = np.arange(rows + 1)
    low, high = binomial_interval(counts / rows, counts / rows, rows=rows, log_inverse_level=math.log(1 / level))
    outside = (shares[:, None] < low) | (shares[:, None] > high)
    return np.sum(outside * binom.pmf(counts, rows, shares[:, None]), axis=1)


@pytest.mark.parametrize("level", LEVELS)
def test_binomial_interval_covers_every_share(level):
    shares = np.concatenate([np.linspace(0, 1, 301), np.geomspace(1e-6, 0.01, 40)])
    for rows in range(1, 31):
        assert missed(rows, level, shares).max() <= level


def test_an_interval_at_four_times_the_level_is_caught():
    shares = np.linspace(0, 1, 301)
    assert max(missed(rows, 4 * 0.1, shares).max() for rows in range(1, 31)) > 0.1


@given(mean=st.floats(0, 1), rows=st.integers(1, 10**7), log_inverse_level=st.floats(0, 400), width=st.floats(0, 0.3))
def test_never_wider_than_hoeffding_and_monotone(mean, rows, log_inverse_level, width):
    low, high = binomial_interval(mean, mean, rows=rows, log_inverse_level=log_inverse_level)
    reach = float(hoeffding_radius(rows=rows, log_inverse_level=log_inverse_level))
    assert max(mean - reach, 0.0) - 1e-12 <= low <= mean + 1e-12
    assert mean - 1e-12 <= high <= min(mean + reach, 1.0) + 1e-12
    wide_low, wide_high = binomial_interval(mean - width, mean + width, rows=rows, log_inverse_level=log_inverse_level)
    assert wide_low <= low + 1e-12
    assert wide_high >= high - 1e-12


@pytest.mark.parametrize("mean", [0.0, 1e-6, 0.03, 0.5, 0.999])
@pytest.mark.parametrize("rows", [10, 10**4, 10**9])
@pytest.mark.parametrize("level", [0.05, 1e-12])
def test_the_end_solves_its_equation_to_many_digits(mean, rows, level):
    _, high = binomial_interval(mean, mean, rows=rows, log_inverse_level=math.log(1 / level))
    if high == 1.0:
        return
    with mp.workdps(50):
        m, q = mp.mpf(mean), mp.mpf(float(high))
        first = m * mp.log(m / q) if mean > 0 else mp.mpf(0)
        spent = rows * (first + (1 - m) * mp.log((1 - m) / (1 - q)))
    assert float(spent) == pytest.approx(math.log(2 / level), rel=1e-6)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="rows"):
        hoeffding_radius(rows=0, log_inverse_level=1.0)
