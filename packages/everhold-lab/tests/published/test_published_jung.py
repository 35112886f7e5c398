import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from everhold_lab.published import gaussian_sample_failure, jung_pure_radius, jung_radius, laplace_sample_failure
from everhold_lab.published.jung2020 import jung_2020, jung_2020_rows
from everhold_privacy.curves import GaussianCurve, PureCurve

SESSION = {"surprises": 1, "confidence": 0.95, "slack": 0.0}


def test_sample_failures_by_hand():
    assert gaussian_sample_failure(0.1, answers=3)(0.3) == pytest.approx(6 * ndtr(-3))
    assert laplace_sample_failure(0.1, answers=3)(0.3) == pytest.approx(3 * math.exp(-3))
    assert gaussian_sample_failure(0.1, answers=3)(0.0) == laplace_sample_failure(0.1, answers=3)(0.0) == 1.0


def test_the_radius_is_the_formula_at_the_parameters_it_reports():
    failure, curve = gaussian_sample_failure(0.01, answers=100), GaussianCurve(0.01)
    bound = jung_radius(failure, curve, 0.95)
    alpha, epsilon, c, d = (bound.parameters[name] for name in ("alpha", "epsilon", "c", "d"))
    assert bound.radius == pytest.approx(alpha + math.expm1(epsilon) + c + 2 * d)
    assert failure(alpha) / c + curve.delta(epsilon) / d == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("failure", "curve"),
    [
        (gaussian_sample_failure(0.01, answers=100), GaussianCurve(0.01)),
        (laplace_sample_failure(0.003, answers=10), PureCurve(0.002, times=10)),
    ],
)
def test_no_point_of_a_fine_grid_is_better(failure, curve):
    alphas, epsilons = np.linspace(0.001, 0.3, 600), np.linspace(1e-4, 0.2, 600)
    lost = np.sqrt([failure(alpha) for alpha in alphas])
    leaked = np.sqrt(2 * curve.delta(epsilons))
    grid = np.add.outer(alphas, np.expm1(epsilons)) + np.add.outer(lost, leaked) ** 2 / 0.05
    assert jung_radius(failure, curve, 0.95).radius <= grid.min() * (1 + 1e-6)
    assert jung_radius(failure, curve, 0.95).radius == pytest.approx(grid.min(), rel=0.01)


@pytest.mark.parametrize("split", [0.5, 0.8, 1.25, 2.0])
def test_c_and_d_are_at_their_best(split):
    beta_s, delta, beta = 1e-5, 1e-7, 0.05
    step = (math.sqrt(beta_s) + math.sqrt(2 * delta)) / beta
    c = math.sqrt(beta_s) * step * split
    d = delta / (beta - beta_s / c) if beta_s / c < beta else math.inf
    assert beta * step**2 < c + 2 * d


@pytest.mark.parametrize(
    ("rows", "queries"), [(3000, 1), (10**5, 100), (10**6, 1000), (10**9, 10**6), (40_000, 10**5), (10**8, 10)]
)
def test_the_gaussian_optimum_is_no_worse_than_a_search_over_scales(rows, queries):
    bound = jung_2020(rows, queries=queries, **SESSION)
    scale = bound.parameters["scale"]

    def at(candidate):
        failure = gaussian_sample_failure(candidate, answers=queries)
        return jung_radius(failure, GaussianCurve(math.sqrt(queries) / (rows * candidate)), 0.95).radius

    assert bound.radius == pytest.approx(at(scale), rel=1e-5)
    assert bound.radius <= min(at(scale * factor) for factor in np.geomspace(0.1, 10, 31)) * (1 + 1e-5)


def test_the_rows_of_a_radius_come_with_the_scale_to_use():
    bound = jung_2020_rows(0.1, queries=1000, **SESSION)
    assert bound.rows == pytest.approx(182_225, rel=1e-3)
    assert bound.parameters["scale"] == pytest.approx(
        jung_2020(bound.rows, queries=1000, **SESSION).parameters["scale"], rel=1e-2
    )


def test_the_pure_radius_is_the_formula_and_near_a_fine_grid():
    failure = laplace_sample_failure(0.01, answers=5)
    bound = jung_pure_radius(failure, epsilon=0.05, rows=10_000, confidence=0.95)
    alpha, eta = bound.parameters["alpha"], bound.parameters["eta"]
    assert bound.radius == pytest.approx(alpha + math.expm1(0.05) + math.sqrt(-2 * math.log(eta) / 10_000))
    assert failure(alpha) + eta == pytest.approx(0.05)
    grid = [
        alpha + math.expm1(0.05) + math.sqrt(-2 * math.log(0.05 - failure(alpha)) / 10_000)
        for alpha in np.linspace(0.047, 0.2, 3000)
    ]
    assert bound.radius == pytest.approx(min(grid), rel=1e-5)


@pytest.mark.parametrize("probability", [0.5, 0.1])
def test_the_pure_radius_covers_one_noisy_average_exactly(probability):
    rows, epsilon = 2000, 0.02
    scale = 1 / (rows * epsilon)
    radius = jung_pure_radius(
        laplace_sample_failure(scale, answers=1), epsilon=epsilon, rows=rows, confidence=0.95
    ).radius
    assert radius < 0.25
    assert error_probability(radius, rows, epsilon, probability) <= 0.05
    assert error_probability(radius / 5, rows, epsilon, probability) > 0.05


def error_probability(radius, rows, epsilon, probability):
    """P[|count/n + discrete Laplace/n - p| >= radius], by summing over counts and noises."""
    counts, noises = np.arange(rows + 1), np.arange(-3000, 3001)
    law = np.exp(-epsilon * np.abs(noises))
    error = np.abs((counts[:, None] + noises[None, :]) / rows - probability)
    return binom.pmf(counts, rows, probability) @ (error >= radius) @ (law / law.sum())


def test_a_vacuous_bound_is_infinite():
    failure = laplace_sample_failure(0.01, answers=5)
    assert jung_pure_radius(failure, epsilon=0.8, rows=10_000, confidence=0.95).radius == math.inf
    assert jung_pure_radius(failure, epsilon=1e6, rows=10_000, confidence=0.95).radius == math.inf
    assert jung_radius(failure, PureCurve(2.0), 0.95).radius == math.inf
