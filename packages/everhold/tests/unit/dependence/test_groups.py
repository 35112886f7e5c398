"""Groups: S4 and S5 by hand, against enumeration, and the declarations that make no sense."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold.dependence import Groups, Independent
from everhold.errors import DependenceError
from everhold.testing import DependenceContract
from everhold_privacy.curves import GaussianCurve, PureCurve
from everhold_privacy.leakage import leakage

CURVE = GaussianCurve(0.4)
EPSILONS = np.linspace(0.0, 4.0, 9)


class TestGroups(DependenceContract):
    def make(self):
        return Groups([1, 2, 2, 5])


class TestPairs(DependenceContract):
    def make(self):
        return Groups(2)


def test_the_leakage_is_the_average_over_rows_of_the_group_curve():
    expected = (CURVE.delta(EPSILONS) + 4 * CURVE.group(2).delta(EPSILONS) + 5 * CURVE.group(5).delta(EPSILONS)) / 10
    np.testing.assert_allclose(leakage(Groups([5, 2, 1, 2]), CURVE, 10).delta(EPSILONS), expected, rtol=1e-12)


def test_groups_of_one_are_independent_rows_exactly():
    assert leakage(Groups(1), CURVE, 100) is CURVE
    assert Groups([1, 1, 1]).concentration(3) == Independent().concentration(3)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30))
def test_effective_rows_by_definition(sizes):
    assert math.isclose(Groups(sizes).concentration(sum(sizes)), sum(sizes) ** 2 / sum(k * k for k in sizes))


def test_other_numbers_of_rows_keep_the_shares():
    assert Groups([2, 3]).concentration(50) == pytest.approx(10 * Groups([2, 3]).concentration(5))


def test_a_pair_of_copies_leaks_exactly_its_group_curve_under_randomised_response():
    """Two copies of one fair bit, each told truthfully with odds e: the transcript's leakage is that of two rows."""
    epsilon = 1.0
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    law = {bit: [math.prod(truth if told == bit else 1 - truth for told in both) for both in
                 itertools.product((0, 1), repeat=2)] for bit in (0, 1)}  # fmt: skip
    for point in (0.0, 0.5, 1.5):
        exact = sum(max(a - math.exp(point) * b, 0.0) for a, b in zip(law[1], law[0], strict=True))
        bound = leakage(Groups(2), PureCurve(epsilon), 2).delta(point)
        single = PureCurve(epsilon).delta(point)
        assert exact * 0.5 <= bound  # the two values of the bit are drawn independently: half of the pairs differ
        assert exact > single  # what would be claimed if the copies were taken for independent rows


def test_a_tight_concentration_bound_for_copies():
    """Groups of copies are worth one row each: the bound must not be better than for that many independent rows."""
    assert Groups(5).concentration(1_000) == 200.0


@pytest.mark.parametrize("sizes", [0, -1, [2, 0], [1.5], [], ["a"], [None], True, [True], 2.5, "", None])
def test_sizes_that_make_no_sense(sizes):
    with pytest.raises(DependenceError, match=r"[Pp]ass"):
        Groups(sizes)


def test_a_column_has_no_sizes_until_rows_are_sealed():
    with pytest.raises(DependenceError, match=r"until rows are sealed"):
        Groups("household").concentration(10)
