"""Leakage curves put together from bounds about classes of rows."""

import math

import numpy as np
import pytest

from everhold_lab.published.classical import ApproximateCurve
from everhold_privacy.curves import PureCurve
from everhold_privacy.leakage import LeakageCurve, RowClass, Spread

CURVE = PureCurve(0.3, times=3)
EPSILONS = np.linspace(0.0, 5.0, 26)


def leak(*bounds, curve=CURVE):
    return LeakageCurve(curve, (RowClass(1.0, bounds),))


def test_a_coupling_averages_over_the_number_of_rows():
    expected = 0.5 * CURVE.delta(EPSILONS) + 0.2 * CURVE.group(4).delta(EPSILONS)
    np.testing.assert_allclose(leak(Spread((1, 4), (0.5, 0.2))).delta(EPSILONS), expected, rtol=1e-12)


def test_a_quilt_shifts_the_curve_by_the_influence():
    curve = leak(Spread.quilt(nearby=2, influence=0.7))
    assert curve.delta(0.69) == 1.0
    assert curve.delta(2.0) == pytest.approx(min(1.0, math.exp(0.7) * CURVE.group(3).delta(1.3)))


def test_the_smallest_bound_counts_at_every_epsilon():
    wide, quilt = Spread.quilt(nearby=9), Spread.quilt(nearby=0, influence=1.0)
    both = leak(wide, quilt).delta(EPSILONS)
    np.testing.assert_array_equal(both, np.minimum(leak(wide).delta(EPSILONS), leak(quilt).delta(EPSILONS)))
    assert np.any(both < leak(wide).delta(EPSILONS))
    assert np.any(both < leak(quilt).delta(EPSILONS))


def test_what_is_lost_is_lost_at_every_epsilon():
    assert leak(Spread((1,), (0.9,), lost=0.1)).delta(math.inf) == pytest.approx(0.1)
    assert leak(Spread((1,), (1.0,)), curve=ApproximateCurve(0.1, 0.01)).delta(math.inf) == pytest.approx(0.01)


def test_classes_are_weighted_by_their_share():
    curve = LeakageCurve(CURVE, (RowClass(0.25, (Spread.quilt(nearby=0),)), RowClass(0.75, (Spread.quilt(nearby=1),))))
    expected = 0.25 * CURVE.delta(EPSILONS) + 0.75 * CURVE.group(2).delta(EPSILONS)
    np.testing.assert_allclose(curve.delta(EPSILONS), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "spread",
    [((), ()), ((0,), (1.0,)), ((2, 1), (0.5, 0.5)), ((1,), (0.5, 0.5)), ((1,), (1.1,)), ((1,), (-0.1,)),
     ((1,), (1.0,), -1.0), ((1,), (1.0,), math.inf), ((1,), (1.0,), 0.0, 2.0)],
)  # fmt: skip
def test_bounds_that_make_no_sense(spread):
    with pytest.raises(ValueError, match=r"increase|Pass"):
        Spread(*spread)


def test_shares_have_to_sum_to_one():
    with pytest.raises(ValueError, match=r"shares"):
        LeakageCurve(CURVE, (RowClass(0.5, (Spread.quilt(nearby=0),)),))


def test_a_coupling_in_which_nothing_ever_differs_leaks_nothing():
    np.testing.assert_array_equal(leak(Spread((1,), (0.0,))).delta(EPSILONS), 0.0)
