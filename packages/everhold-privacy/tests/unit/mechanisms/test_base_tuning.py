"""Tuned parameters are the best ones, and the radii are as good as published."""

import math
from dataclasses import replace

import numpy as np
import pytest

from everhold.dependence import Groups
from everhold.guarantees.intervals.base import GroupSums
from everhold.guarantees.intervals.betting import GroupBetting
from everhold.guarantees.intervals.means import ClopperPearson
from everhold.mechanisms import GuessAndCheck, State
from everhold.values.evaluation import UNIT
from everhold_privacy.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from everhold_privacy.mechanisms.privacy_budget import PrivacyBudget
from everhold_privacy.mechanisms.subsampling import Subsampling
from everhold_privacy.mechanisms.thresholdout import Thresholdout

WISHES = [(2_000, 50, 0.95), (20_000, 1_000, 0.9), (300_000, 20, 0.999)]


@pytest.mark.parametrize(
    ("rows", "queries", "radius"),
    [(5_000, 100, 0.1402), (50_000, 1_000, 0.0842), (500_000, 5_000, 0.0413), (5_000_000, 50_000, 0.0244)],
)
def test_gaussian_reaches_its_targets(rows, queries, radius):
    assert GaussianMechanism.tuned(rows=rows, queries=queries).promise().radius <= radius


WANTED = {0: (0.0362, 0.0220, 0.0077), 3: (0.0540, 0.0326, 0.0110), 10: (0.0742, 0.0447, 0.0150)}


@pytest.mark.parametrize("surprises", WANTED)
def test_guess_and_check_reaches_its_targets_at_the_last_planned_query(surprises):
    mechanism = GuessAndCheck.tuned(rows=20_000, queries=1_000, training_rows=20_000)
    yes_no = ClopperPearson(20_000.0, 20_000.0)
    state = State(999, surprises, labels=math.ceil(surprises * 1e6 * math.log(94)))
    for truth, wanted in zip((0.5, 0.9, 0.99), WANTED[surprises], strict=True):
        assert half(mechanism.expected(state, truth, yes_no).confirmed) <= wanted


def test_released_and_unsealed_answers_reach_their_targets():
    mechanism = GuessAndCheck.tuned(rows=20_000, queries=1_000, training_rows=20_000)
    yes_no, state = ClopperPearson(20_000.0, 20_000.0), State(999, 0)
    for truth, released, unsealed in [(0.5, 0.0245, 0.0156), (0.9, 0.0148, 0.0094), (0.99, 0.0050, 0.0032)]:
        expected = mechanism.expected(state, truth, yes_no)
        assert half(expected.released) <= released
        assert half(expected.unsealed) <= unsealed


def half(interval):
    return (min(interval[1], 1.0) - max(interval[0], 0.0)) / 2


@pytest.mark.parametrize(("surprises", "rows"), [(10, 41_400), (1, 9_600)])
def test_rows_that_the_request_of_zhao_2017_needs(surprises, rows):
    mechanism = GuessAndCheck.tuned(rows=rows, queries=1_000, surprises=surprises, slack=1 / 3)
    assert mechanism.promise().radius <= 0.1
    assert mechanism.promise().spends_only_beyond >= mechanism.promise().radius / 3 - 1e-8


@pytest.mark.parametrize("kind", [GaussianMechanism, LaplaceMechanism])
@pytest.mark.parametrize(("rows", "queries", "confidence"), WISHES)
def test_no_noise_scale_on_a_fine_grid_is_better(kind, rows, queries, confidence):
    best = kind.tuned(rows=rows, queries=queries, confidence=confidence)
    scales = best.scale * np.concatenate([np.geomspace(0.02, 50, 120), np.linspace(0.9, 1.1, 41)])
    radii = [replace(best, scale=min(scale, 64)).promise().radius for scale in scales.tolist()]
    assert best.promise().radius <= min(radii) * (1 + 1e-6)


@pytest.mark.parametrize(("rows", "queries", "confidence"), WISHES)
def test_no_grid_of_guess_and_check_is_better_with_a_slack(rows, queries, confidence):
    wanted = {"rows": rows, "queries": queries, "confidence": confidence, "slack": 1 / 3, "surprises": 5}
    best = GuessAndCheck.tuned(**wanted)
    for grid in [*range(1, 300), 1000, 4000]:
        assert best.tolerance <= GuessAndCheck.tuned(**wanted, grid=grid).tolerance + 1e-12


def least_radius(mechanism, slack):
    """Radius at the least threshold that keeps needless spending beyond slack times the radius; by bisection."""
    low, high = 0.0, 4 * mechanism.threshold
    for _ in range(40):
        middle = (low + high) / 2
        promise = replace(mechanism, threshold=middle).promise()
        beyond = promise.spends_only_beyond
        error = promise.radius - middle
        kept = beyond is not None and middle - error >= slack * promise.radius
        low, high = (low, middle) if kept else (middle, high)
    return replace(mechanism, threshold=high).promise().radius


@pytest.mark.parametrize("slack", [0.0, 1 / 3])
@pytest.mark.parametrize(("rows", "queries", "surprises"), [(50_000, 100, 2), (500_000, 1_000, 10)])
def test_no_perturbed_scales_of_thresholdout_are_better(rows, queries, surprises, slack):
    best = Thresholdout.tuned(rows=rows, queries=queries, surprises=surprises, slack=slack)
    radius = best.promise().radius
    generator = np.random.default_rng(1)
    for width in (0.03, 0.3):
        for factors in np.exp(generator.normal(0, width, (5, 3))).tolist():
            perturbed = replace(
                best,
                threshold_scale=best.threshold_scale * factors[0],
                comparison_scale=best.comparison_scale * factors[1],
                answer_scale=best.answer_scale * factors[2],
            )
            assert radius <= least_radius(perturbed, slack) * (1 + 1e-5)


def test_radius_grows_with_the_surprises():
    for kind in (Thresholdout, GuessAndCheck):
        radii = [kind.tuned(rows=100_000, queries=500, surprises=b).promise().radius for b in (1, 3, 10, 30)]
        assert radii == sorted(radii)


@pytest.mark.parametrize("together", [5, 50, 500])
@pytest.mark.parametrize("kind", [GaussianMechanism, LaplaceMechanism, PrivacyBudget, Subsampling, Thresholdout])
def test_groups_are_tuned_as_well_as_as_many_independent_rows(kind, together):
    """What n groups of k rows promise is what n rows promise: the scales of a mean may be the same."""
    wanted = {"queries": 1_010, **({"surprises": 10} if kind is Thresholdout else {})}
    alone = kind.tuned(rows=10_000, **wanted).promise().radius
    groups = kind.tuned(rows=10_000 * together, dependence=Groups(together), **wanted).promise().radius
    assert groups == pytest.approx(alone, rel=1e-4)


def test_bets_on_groups_are_used_whether_their_sizes_are_alike_or_not():
    """One group of 1,000 beside 19,000 of one row: bets whose rate goes beyond the largest group are sharper there."""
    groups = Groups.of_counts({1000: 1, 1: 19_000})
    rng = np.random.default_rng(0)
    sums = GroupSums(np.array([1, 1, 1000]), np.array([0, UNIT, 500 * UNIT]), np.array([9_500, 9_500, 1]), UNIT)
    bets = GroupBetting(sizes=groups.counts, training=sums)
    mechanism = GuessAndCheck.tuned(rows=20_000, queries=1_000, dependence=groups)
    assert mechanism.procedure_at(bets, 0.5, 11.4) is bets
    even = Groups.of_counts({40: 500})
    shares = np.round(40 * rng.beta(20, 20, 500)).astype(np.int64)
    kinds, counts = np.unique(shares, return_counts=True)
    alike = GroupBetting(even.counts, GroupSums(np.full(len(kinds), 40), kinds * UNIT, counts, UNIT))
    assert replace(mechanism, dependence=even).procedure_at(alike, 0.5, 11.4) is alike
