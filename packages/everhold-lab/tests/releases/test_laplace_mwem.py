"""MWEM with Laplace measurements: what every run obeys, its curve and privacy, and the published bound."""

import math

import numpy as np
import pytest
from mwem_runs import (
    check_the_curve,
    check_the_excess,
    check_the_inequality,
    check_what_is_drawn,
    drawn_weights,
    largest_error,
    maker,
)
from synthetic_samples import plain_universe, random_family

from everhold.privacy import PureCurve, ZeroConcentratedCurve
from everhold.randomness import SeededNoise
from everhold.values.evaluation import UNIT
from everhold_lab.releases import LaplaceMWEM, TableRelease
from everhold_lab.releases.synthetic_tables import published_error
from everhold_privacy.guarantees import leakage_bound


@pytest.mark.parametrize("scale", [1e-6, 0.02, 0.2])
def test_every_run_obeys_the_inequality_of_its_analysis(scale):
    check_the_inequality(maker(LaplaceMWEM, scale=scale), "laplace")


def test_the_expected_excess_of_the_noise_is_below_its_bound():
    check_the_excess(maker(LaplaceMWEM, scale=0.2, rounds=4), np.random.default_rng(1).laplace(size=(4, 10**5)))


@pytest.mark.parametrize(("rows", "rounds"), [(10**6, 200), (10**7, 300)])
def test_the_bound_is_below_the_published_one_and_the_error_below_both(rows, rounds):
    mwem = LaplaceMWEM.hardt2012(
        epsilon=1.0, rounds=rounds, rows=rows, universe=plain_universe(8), queries=random_family(1000, 8, binary=True)
    )
    release = TableRelease(mwem, confidence=0.6)
    published, failure = published_error(rows=rows, cells=8, queries=1000, rounds=rounds, epsilon=1.0)
    assert failure == pytest.approx(1 - release.confidence, abs=0.2)
    histogram = np.random.default_rng(0).multinomial(rows, np.arange(8) / 28)
    error = largest_error(mwem, drawn_weights(mwem, histogram, SeededNoise(1)), histogram)
    assert error < release.bound().on_rows < published


def test_exactly_what_the_curve_counts_is_drawn():
    check_what_is_drawn(maker(LaplaceMWEM, rounds=7), "laplace")


def test_the_closed_curve_is_above_the_exact_composition():
    few = maker(LaplaceMWEM, rounds=2, scale=0.02, choice_epsilon=0.05)
    assert few.curve() == PureCurve(0.05, times=4)
    for mwem in (few, maker(LaplaceMWEM, rounds=5, scale=0.02)):
        check_the_curve(mwem, PureCurve(UNIT / mwem.scale_on_grid))
    assert few.privacy() == (pytest.approx(2 * (0.05 + 1 / 20)), 0.0)


def test_the_smaller_closed_curve_is_chosen():
    shared = {"universe": plain_universe(8), "queries": random_family(20, 8, binary=True), "rows": 10**6}
    for rounds, kind in ((1, PureCurve), (200, ZeroConcentratedCurve)):
        mwem = LaplaceMWEM.hardt2012(epsilon=0.5, rounds=rounds, **shared)
        assert isinstance(mwem.curve(), kind)
        pure = PureCurve(0.5 / (2 * rounds), times=2 * rounds)
        assert leakage_bound(mwem.curve(), confidence=0.95).total <= leakage_bound(pure, confidence=0.95).total


def test_the_calibration_of_the_paper_spends_what_it_is_given():
    shared = {"universe": plain_universe(8), "queries": random_family(20, 8, binary=True), "rows": 1000, "rounds": 10}
    assert LaplaceMWEM.hardt2012(epsilon=0.7, **shared).privacy() == (pytest.approx(0.7), 0.0)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_wrong_budgets_are_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        LaplaceMWEM.hardt2012(
            epsilon=epsilon, rounds=3, rows=10, universe=plain_universe(8), queries=random_family(2, 8)
        )
