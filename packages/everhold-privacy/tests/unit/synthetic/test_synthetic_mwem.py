"""MWEM: an independent run, the inequality path by path, what one row changes, error against the bounds."""

import math
import re

import numpy as np
import pytest
from mwem_runs import (
    HISTOGRAM,
    check_the_curve,
    check_the_excess,
    check_the_inequality,
    check_what_is_drawn,
    drawn_weights,
    maker,
)
from synthetic_samples import all_histograms, neighbours, plain_universe, random_family

from everhold.randomness import SecureNoise
from everhold.values.evaluation import UNIT
from everhold_privacy.curves import GaussianCurve
from everhold_privacy.guarantees import exponential_exceedance
from everhold_privacy.synthetic import MWEM


@pytest.mark.parametrize("scale", [1e-6, 0.02, 0.2])
def test_every_run_obeys_the_inequality_of_its_analysis(scale):
    check_the_inequality(maker(scale=scale), "gaussian")


def test_the_expected_excess_of_the_noise_is_below_its_bound():
    check_the_excess(maker(scale=0.2, rounds=4), np.random.default_rng(1).standard_normal((4, 10**5)))


@pytest.mark.parametrize("beta", [0.05, 0.5])
def test_the_choice_of_queries_adds_the_excess_of_the_exponential_mechanism(beta):
    mwem = maker()
    learning, total = mwem._apart(beta), mwem.sampling(beta)
    extra = min(
        alpha + exponential_exceedance(alpha=alpha, scale=2 / (0.5 * 1000), candidates=20) / beta
        for alpha in np.linspace(0, 0.1, 20_001)
    )
    assert total[0] + total[1] / beta == pytest.approx(learning[0] + learning[1] / beta + extra, rel=1e-6)


# Privacy --------------------------------------------------------------------------------------------------------------


def test_one_row_moves_losses_and_measured_sums_by_one_unit_at_most():
    family, rows = random_family(6, 3, seed=2), 3
    worst = 0
    for histogram in all_histograms(rows, 3):
        totals = family.totals(histogram)
        for other in neighbours(histogram):
            moved = family.totals(other)
            for public in np.random.default_rng(3).integers(0, rows * UNIT, (5, 6)):
                worst = max(worst, *np.abs(np.abs(totals - public) - np.abs(moved - public)), *np.abs(totals - moved))
    assert 0.5 * UNIT < worst <= UNIT


def test_exactly_what_the_curve_counts_is_drawn():
    check_what_is_drawn(maker(rounds=7), "gaussian")


def test_the_closed_curve_is_above_the_exact_composition():
    mwem = maker(rounds=5, scale=0.02)
    check_the_curve(mwem, GaussianCurve(UNIT / mwem.scale_on_grid))
    epsilon, delta = maker().privacy()
    assert maker().curve().delta(epsilon) <= delta * (1 + 1e-9)


# Parameters -----------------------------------------------------------------------------------------------------------


def test_the_calibration_spends_what_it_is_given():
    shared = {"universe": plain_universe(8), "queries": random_family(20, 8, binary=True), "rows": 1000, "rounds": 10}
    assert MWEM.concentrated(rho=0.2, **shared).curve().rho == pytest.approx(0.2)


PASS = {
    "rounds": "Pass a whole number of at least 1.",
    "choice_epsilon": "Pass a finite number above 0",
    "scale": "Pass a positive number of at most ",
}
WRONG = [{"rounds": 0}, {"rounds": 1.5}, {"choice_epsilon": 0.0}, {"choice_epsilon": math.inf}, {"scale": 0.0}]


@pytest.mark.parametrize("wrong", [*WRONG, {"scale": math.nan}, {"scale": 1e9}], ids=str)
def test_wrong_parameters_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=rf"^{name} is .*{re.escape(PASS[name])}"):
        maker(**wrong)


@pytest.mark.parametrize("rho", [0.0, -1.0, math.inf, math.nan])
def test_wrong_budgets_are_refused(rho):
    with pytest.raises(ValueError, match="rho"):
        MWEM.concentrated(rho=rho, rounds=3, rows=10, universe=plain_universe(8), queries=random_family(2, 8))


def test_it_runs_with_secure_noise():
    assert drawn_weights(maker(rounds=3), HISTOGRAM, SecureNoise()).sum() == pytest.approx(1)
