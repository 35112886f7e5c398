"""What is proved of synthetic tables: the potential of an update, the error on the rows, and S1 by exact laws."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mwem_runs import HISTOGRAM, drawn_weights, largest_error, maker
from scipy import stats
from synthetic_samples import plain_universe

from everhold.randomness import SeededNoise
from everhold.values.universe import QueryMatrix
from everhold_privacy.guarantees import leakage_bound
from everhold_privacy.synthetic import BLR, ROUNDING, mean_under, taught


def relative_entropy(histogram, weights):
    share = histogram / histogram.sum()
    held = share > 0
    return float(np.sum(share[held] * np.log(share[held] / weights[held])))


@given(seed=st.integers(0, 10**6), cells=st.integers(1, 6), error=st.floats(-0.3, 0.3))
@settings(max_examples=200, deadline=None)
def test_an_update_brings_the_weights_closer_by_what_is_promised(seed, cells, error):
    generator = np.random.default_rng(seed)
    sealed, start = generator.integers(0, 5, (2, cells)) + np.eye(2, cells, dtype=int)[:1]
    weights = (start + 1.0) / (start + 1.0).sum()
    query, share = generator.random(cells), sealed / sealed.sum()
    gap = float(share @ query) - mean_under(weights, query)
    after = taught(weights, query, float(np.clip(share @ query + error, 0, 1)))
    fall = relative_entropy(sealed, weights) - relative_entropy(sealed, after)
    assert fall >= 2 * (gap**2 - error**2) - 1e-12
    assert relative_entropy(sealed, after) >= -1e-12  # up to rounding


def test_the_promised_fall_cannot_be_much_larger():
    """Half of the cells, hardly more than half of the rows: Hoeffding's lemma is nearly attained."""
    sealed, weights = np.array([51, 49]), np.array([0.5, 0.5])
    after = taught(weights, np.array([1.0, 0.0]), 0.51)
    fall = relative_entropy(sealed, weights) - relative_entropy(sealed, after)
    assert fall == pytest.approx(2 * 0.01**2, rel=1e-3)


SHARE = 0.3


def two_cells(rows, epsilon):
    family = QueryMatrix(np.array([[True, False]]))
    return BLR(universe=plain_universe(2), queries=family, rows=rows, epsilon=epsilon, size=10)


def exact_errors(blr):
    """Law of ``|f(y) - f(P)|`` with independent rows: errors of the candidates, and their probabilities."""
    ones = np.arange(blr.rows + 1)
    laws = np.array([blr.selection.law(blr.losses([k, blr.rows - k])) for k in ones])
    values = np.array([blr.table(index)[0] / blr.size for index in range(blr.candidates)])
    return np.abs(values - SHARE), stats.binom.pmf(ones, blr.rows, SHARE) @ laws


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 2.0])
@pytest.mark.parametrize("rows", [20, 200])
def test_S1_holds_exactly_on_two_cells(rows, epsilon):
    blr = two_cells(rows, epsilon)
    errors, law = exact_errors(blr)
    alpha, exceedance = blr.sampling(0.2)
    radius = alpha + exceedance / 0.2 + leakage_bound(blr.curve(), confidence=0.8).total + ROUNDING
    assert law[errors > radius].sum() <= 0.2
    for point in (0.0, 0.1, epsilon / 2, epsilon):
        excess = law @ np.maximum(errors - alpha - math.tanh(point / 4), 0)
        assert excess <= exceedance + blr.curve().delta(point)


def test_S1_without_the_leakage_is_refuted():
    """With a large epsilon the table repeats the rows, whose error the population's bound must not forget."""
    errors, law = exact_errors(two_cells(10, 50.0))
    alpha, exceedance = 0.05, 10 * 2 / 500 * math.exp(-0.05 * 500 / 20)
    assert law @ np.maximum(errors - alpha, 0) > exceedance
    assert law @ np.maximum(errors - alpha - math.tanh(50 / 4), 0) <= exceedance


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_the_error_of_MWEM_on_the_rows_stays_below_the_bound(confidence):
    def errors(mwem):
        return [
            largest_error(mwem, drawn_weights(mwem, HISTOGRAM, SeededNoise(seed)), HISTOGRAM) for seed in range(100)
        ]

    mwem = maker(rounds=40, scale=0.02)
    alpha, exceedance = mwem.sampling(1.0 - confidence)
    bound = alpha + exceedance / (1.0 - confidence)
    assert np.mean(np.array(errors(mwem)) > bound) <= 1 - confidence
    noisy = maker(rounds=2, scale=2.0, choice_epsilon=1e-3)
    assert np.mean(np.array(errors(noisy)) > bound) > 1 - confidence  # the check can fail
