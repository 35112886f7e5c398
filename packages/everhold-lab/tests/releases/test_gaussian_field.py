"""The Laplace mechanism for sums of Gaussian fields, against every adversary by conditional covariances."""

import itertools
import json
import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everhold.errors import DependenceError
from everhold.randomness import SecureNoise, SeededNoise
from everhold_lab.releases.one_shot import GaussianFieldMechanism, NoiseGrid


def positive_field(rows, seed, *, density=0.6):
    """The precision matrix of a random field without negative partial correlations."""
    rng = np.random.default_rng(seed)
    upper = np.triu(-rng.exponential(size=(rows, rows)) * (rng.random((rows, rows)) < density), 1)
    matrix = upper + upper.T
    return matrix + np.diag(-matrix.sum(axis=1) + rng.exponential(0.3, rows) + 0.01)


def any_field(rows, seed):
    """The precision matrix of a random field of any signs."""
    root = np.random.default_rng(seed).normal(size=(rows, rows + 2))
    return root @ root.T / rows + 0.2 * np.eye(rows)


def leakage_of_adversary(precision, row, known):
    """What the sum moves when a row moves by one, from the covariance by the regression formula."""
    covariance = np.linalg.inv(precision)
    unknown = [j for j in range(len(precision)) if j != row and j not in known]
    given_rows = [row, *known]
    weights = np.linalg.solve(covariance[np.ix_(given_rows, given_rows)], covariance[np.ix_(given_rows, unknown)])
    return abs(1.0 + weights[0].sum())


def adversaries(rows):
    for row in range(rows):
        others = [j for j in range(rows) if j != row]
        for size in range(rows):
            yield from ((row, known) for known in itertools.combinations(others, size))


@settings(deadline=None, max_examples=25)
@given(rows=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_with_positive_correlations_the_adversary_who_knows_nothing_sees_most(rows, seed):
    field = positive_field(rows, seed)
    worst = max(leakage_of_adversary(field, row, known) for row, known in adversaries(rows))
    assert GaussianFieldMechanism(field, width=1.0, epsilon=1.0).scale == pytest.approx(worst, rel=1e-9)
    for row, known in adversaries(rows):
        assert all(
            leakage_of_adversary(field, row, (*known, more)) <= leakage_of_adversary(field, row, known) * (1 + 1e-9)
            for more in set(range(rows)) - {row, *known}
        )


@pytest.mark.parametrize("seed", range(6))
def test_with_other_signs_all_adversaries_are_enumerated(seed):
    field = any_field(5, seed)
    made = GaussianFieldMechanism(field, width=2.0, epsilon=0.5)
    assert not made.positively_correlated
    worst = max(leakage_of_adversary(field, row, known) for row, known in adversaries(5))
    assert made.scale == pytest.approx(4.0 * worst, rel=1e-9)


def test_knowing_more_can_leak_more_with_negative_correlations():
    field = np.linalg.inv([[1.0, 0.5, -0.6], [0.5, 1.0, 0.0], [-0.6, 0.0, 1.0]])
    nothing_known = max(leakage_of_adversary(field, row, ()) for row in range(3))
    assert GaussianFieldMechanism(field, width=1.0, epsilon=1.0).scale > nothing_known + 0.1


def log_density_ratios(field, scale, width):
    """Log ratios of the density of sum + Laplace noise for two values of row 0, by quadrature; nothing is known."""
    covariance = np.linalg.inv(field)
    mean = covariance[0, 1:].sum() / covariance[0, 0]
    variance = covariance[1:, 1:].sum() - covariance[0, 1:].sum() ** 2 / covariance[0, 0]
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    outputs = np.linspace(-60.0, 60.0, 241)

    def log_density(value):
        centers = value * (1.0 + mean) + math.sqrt(variance) * nodes
        return np.log(np.exp(-np.abs(outputs[:, None] - centers) / scale) @ weights)

    return log_density(width) - log_density(0.0)


def test_the_density_ratio_reaches_epsilon_and_no_more():
    field = np.array([[1.5, -0.6, -0.2], [-0.6, 1.5, -0.6], [-0.2, -0.6, 1.5]])
    made = GaussianFieldMechanism(field, width=1.5, epsilon=0.8)
    worst = int(np.argmax(np.linalg.inv(field).sum(axis=0) / np.diag(np.linalg.inv(field))))
    order = [worst, *(j for j in range(3) if j != worst)]
    ratios = log_density_ratios(field[np.ix_(order, order)], made.scale, 1.5)
    assert np.max(np.abs(ratios)) == pytest.approx(0.8, abs=1e-6)
    too_small = log_density_ratios(field[np.ix_(order, order)], made.scale / 1.1, 1.5)
    assert np.max(np.abs(too_small)) > 0.8 + 0.05


def test_independent_rows_need_the_plain_laplace_scale():
    assert GaussianFieldMechanism(np.diag([1.0, 2.0, 5.0]), width=3.0, epsilon=1.5).scale == pytest.approx(2.0)


def test_a_release_has_the_stated_noise_on_a_fine_grid():
    made = GaussianFieldMechanism([[1.0, -0.4], [-0.4, 1.0]], width=1.0, epsilon=1.0)
    noise = SeededNoise(3)
    errors = [made.release(12.5, noise).value - 12.5 for _ in range(4000)]
    assert np.mean(np.abs(errors)) == pytest.approx(1.4, rel=0.06)  # 4 standard errors
    release = made.release(12.5, SecureNoise())
    assert made.scale <= release.scale <= made.scale * (1 + 1e-6)
    assert round(release.value / release.step) * release.step == release.value  # dividing may round
    assert not release.simulated
    assert json.loads(json.dumps(release.to_dict()))["epsilon"] == 1.0
    assert "Bayesian differential privacy" in release.statement


@pytest.mark.parametrize(
    ("matrix", "reason"),
    [
        ([[1.0, 0.2], [0.3, 1.0]], "not symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], "eigenvalues from -1"),
        ([[-1.0, 0.0], [0.0, 1.0]], "not positive"),
        ([[1.0, 0.2]], "the shape"),
        ([["a"]], "the shape"),
        ([[1.0, math.nan], [math.nan, 1.0]], "the shape"),
        ([[1.0, -1.0 + 1e-10], [-1.0 + 1e-10, 1.0]], "close to singular"),
        (any_field(13, 0), "negative partial correlations"),
    ],
)
def test_what_is_no_such_field_is_refused(matrix, reason):
    with pytest.raises(DependenceError, match=reason):
        GaussianFieldMechanism(matrix, width=1.0, epsilon=1.0)


@pytest.mark.parametrize("faulty", [{"width": 0.0}, {"epsilon": -1.0}, {"epsilon": math.inf}, {"width": True}])
def test_faulty_numbers_are_refused(faulty):
    with pytest.raises(ValueError, match="Pass a finite number above 0"):
        GaussianFieldMechanism([[1.0]], **{"width": 1.0, "epsilon": 1.0} | faulty)


@pytest.mark.parametrize("number", [3, np.int64(3), np.uint8(3), np.float32(3.0), np.float64(3.0)])
def test_a_sum_may_be_any_real_number(number):
    made = GaussianFieldMechanism([[1.0]], width=1.0, epsilon=1.0)
    assert made.release(number, SeededNoise(4)) == made.release(3.0, SeededNoise(4))


def test_a_whole_sum_keeps_every_digit():
    """Rounded to floating point, two neighbouring counts would be as far apart as 256 rows."""
    grid, fixed = NoiseGrid(step=Fraction(1), scale=1), SimpleNamespace(laplace=lambda *_, stream: [-(2**60)])
    assert [grid.noisy(2**60 + one, fixed, stream="") for one in (0, 1)] == [0.0, 1.0]


def test_a_sum_that_is_not_finite_is_refused_and_not_quoted():
    for value in (math.inf, "inf"):
        with pytest.raises(ValueError, match="not finite") as refusal:
            GaussianFieldMechanism([[1.0]], width=1.0, epsilon=1.0).release(value, SecureNoise())
        assert "inf" not in str(refusal.value).replace("finite", "")
