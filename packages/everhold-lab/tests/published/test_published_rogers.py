import math

import numpy as np
import pytest
from scipy.stats import binom

from everhold_lab.published import rogers_width
from everhold_lab.published.rogers2020 import rogers_2020_monitor, rogers_2020_monitor_rows

SESSION = {"queries": 1000, "surprises": 1, "confidence": 0.95, "slack": 0.0}


def width_on_a_grid(rows, queries, scale, beta):
    rho = 1 / (8 * rows**2 * scale**2)
    odds = np.linspace(1e-4, 1 - 1e-6, 200_001)
    least = np.min((2 * rho * queries * rows - np.log1p(-odds)) / odds)
    return math.sqrt(least / (2 * rows * beta)) + scale * math.sqrt(2 * math.log(4 * queries / beta))


@pytest.mark.parametrize("scale", [0.001, 0.005, 0.02, 0.5])
def test_the_width_is_the_formula_minimised_over_the_grid(scale):
    assert rogers_width(10_000, queries=100, scale=scale, confidence=0.95) == pytest.approx(
        width_on_a_grid(10_000, 100, scale, 0.05), rel=1e-4
    )


def test_the_scale_is_at_its_best():
    bound = rogers_2020_monitor(100_000, **SESSION)
    scale = bound.parameters["scale"]
    width = {f: rogers_width(100_000, queries=1000, scale=scale * f, confidence=0.95) for f in (0.5, 0.99, 1.01, 2)}
    assert bound.radius == pytest.approx(rogers_width(100_000, queries=1000, scale=scale, confidence=0.95), rel=1e-9)
    assert bound.radius <= min(width.values())
    assert bound.radius == pytest.approx(width_on_a_grid(100_000, 1000, scale, 0.05), rel=1e-4)


def test_the_radius_falls_with_the_root_of_the_rows():
    wide, narrow = (rogers_2020_monitor(rows, **SESSION).radius for rows in (10**5, 10**7))
    assert wide == pytest.approx(10 * narrow)
    assert rogers_2020_monitor_rows(wide, **SESSION).rows == pytest.approx(10**5, abs=1)


@pytest.mark.parametrize("prior", [0.5, 0.2, 0.03])
def test_a_gaussian_answer_carries_at_most_rho_nats_about_a_row(prior):
    """I(X_i; answer) by quadrature, for a binary row: below 1/(8 n^2 sigma^2) with n = 1, tight for a fair coin."""
    for scale in (0.5, 2.0, 8.0):
        answers = np.linspace(-12 * scale, 1 + 12 * scale, 20_001)
        given = np.exp(-((answers[:, None] - np.array([0.0, 1.0])) ** 2) / (2 * scale**2))
        given /= given.sum(axis=0)
        weights = np.array([1 - prior, prior])
        mixture = given @ weights
        ratio = np.divide(given, mixture[:, None], out=np.ones_like(given), where=given > 0)
        information = float((given * np.log(ratio)).sum(axis=0) @ weights)
        rho = 1 / (8 * scale**2)
        assert information <= rho
        if prior == 0.5 and scale == 8.0:
            assert information == pytest.approx(rho, rel=0.02)


def test_the_second_moment_behind_the_monitor_holds_by_enumeration():
    """Two answers about three rows of two fair bits each; the monitor picks the query that looks further off."""
    rows, scale = 3, 0.2
    means = np.arange(rows + 1) / rows
    answers = np.linspace(-1.5, 2.5, 801)
    joint = np.exp(-((answers[:, None] - means) ** 2) / (2 * scale**2)) * binom.pmf(np.arange(rows + 1), rows, 0.5)
    joint /= joint.sum()
    seen = joint.sum(axis=1)
    looks = joint @ (means - 0.5) ** 2 / seen
    chosen = float(seen @ np.maximum.outer(looks, looks) @ seen)
    information = 2 / (8 * rows * scale**2)
    odds = np.linspace(1e-3, 1 - 1e-3, 999)
    assert chosen <= np.min((2 * information - np.log1p(-odds)) / (4 * rows * odds))
    assert chosen > 1.2 / (4 * rows)  # a query fixed in advance has 1/(4n): the choice is a real attack
