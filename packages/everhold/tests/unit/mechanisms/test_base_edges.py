"""Small and strange requests: each must give a mechanism or one clear refusal."""

import math
from dataclasses import replace

import pytest
from noise_laws import discrete_laplace_exceedance

from everhold.mechanisms import GuessAndCheck
from everhold_privacy.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from everhold_privacy.mechanisms.thresholdout import Thresholdout


@pytest.mark.parametrize("queries", [1, 2, 10])
@pytest.mark.parametrize("kind", [Thresholdout, GuessAndCheck])
def test_as_many_surprises_as_queries(kind, queries):
    assert 0.0 < kind.tuned(rows=10_000, queries=queries, surprises=queries).promise().radius < math.inf


@pytest.mark.parametrize("kind", [GaussianMechanism, LaplaceMechanism])
@pytest.mark.parametrize(("rows", "queries"), [(1, 1), (2, 1000), (5, 1000), (20, 10**6)])
def test_tiny_holdouts_can_be_tuned(kind, rows, queries):
    assert kind.tuned(rows=rows, queries=queries).promise().radius > 0.0


@pytest.mark.parametrize("rows", [1, 2, 5, 20])
def test_tiny_holdouts_can_be_tuned_for_thresholdout(rows):
    assert Thresholdout.tuned(rows=rows, queries=1000, surprises=10).promise().radius > 0.0


@pytest.mark.parametrize("wrong", [math.nan, 2.5])
def test_surprises_and_grid_are_whole_numbers(wrong):
    shared = {"rows": 1000, "queries": 10, "tolerance": 0.2}
    with pytest.raises(ValueError, match="surprises"):
        GuessAndCheck(**shared, surprises=wrong, grid=5)
    with pytest.raises(ValueError, match="grid"):
        GuessAndCheck(**shared, surprises=1, grid=wrong)


def test_exceedance_uses_the_scale_that_is_drawn():
    """One row, coarse grid: the scale is rounded up to a whole step, and r has to follow."""
    mechanism = LaplaceMechanism(rows=1, unit=100, queries=1, scale=0.0101, confidence=0.9999)
    drawn = mechanism.scale_on_grid(mechanism.scale)
    alpha = mechanism.promise().details["alpha"] + mechanism.rounding / 2
    true_r = 2 * float(discrete_laplace_exceedance(drawn, alpha * mechanism.steps)) / mechanism.steps
    claimed_r = (drawn / mechanism.steps) * math.exp(-mechanism.promise().details["alpha"] * mechanism.steps / drawn)
    assert true_r <= claimed_r


def test_needless_spending_promise_pays_for_rounding():
    mechanism = GuessAndCheck(rows=1000, queries=10, surprises=1, tolerance=0.5, slack=0.2, unit=100)
    assert 0.0 < mechanism.promise().spends_only_beyond <= 0.2 * mechanism.tolerance - 1 / 100
    assert replace(mechanism, slack=0.0).promise().spends_only_beyond is None


def test_the_usual_surprises_are_no_more_than_the_queries():
    assert GuessAndCheck.tuned(rows=1000, queries=5).surprises == 5
    assert Thresholdout.tuned(rows=1000, queries=5).surprises == 5


@pytest.mark.parametrize("kind", [LaplaceMechanism, GaussianMechanism])
def test_scales_that_cannot_be_drawn_are_refused(kind):
    with pytest.raises(ValueError, match="scale"):
        kind(rows=2**26, queries=3, scale=2.0)
