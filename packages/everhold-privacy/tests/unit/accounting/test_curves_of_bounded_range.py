"""The curve of bounded-range mechanisms, against the worst laws and in composition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold_privacy.curves import BoundedRangeCurve, ComposedCurve, PureCurve, ZeroConcentratedCurve

WIDTHS = [0.01, 0.5, 1.0, 4.0, 12.0]


def two_point_laws(width, top):
    """The only law of two outcomes whose losses are `top` and `top - width`, and its neighbour."""
    share = np.expm1(top - width) / np.expm1(-width)
    law = np.array([share, 1 - share])
    return law, law * np.exp([-top, width - top])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("part", [0.0, 0.3, 0.99])
def test_the_curve_is_the_worst_of_two_point_laws(width, part):
    epsilon = part * width
    tops = np.linspace(0, width, 4001)
    law, other = two_point_laws(width, tops)
    np.testing.assert_allclose(other.sum(axis=0), 1, rtol=1e-9)
    worst = np.maximum(law - np.exp(epsilon) * other, 0).sum(axis=0).max()
    assert worst == pytest.approx(BoundedRangeCurve(width).delta(epsilon), rel=1e-3, abs=1e-13)


@given(st.lists(st.tuples(st.floats(0.001, 1), st.floats(0, 1)), min_size=2, max_size=8), st.floats(0, 1))
def test_no_law_of_bounded_range_exceeds_it(outcomes, epsilon):
    law, loss = np.array(outcomes).T
    law = law / law.sum()
    loss = loss + np.log(np.sum(law * np.exp(-loss)))  # so that the neighbour is a law as well
    width = float(np.ptp(loss))
    found = np.maximum(law - np.exp(epsilon) * law * np.exp(-loss), 0).sum()
    assert found <= BoundedRangeCurve(width).delta(epsilon) + 1e-15


@pytest.mark.parametrize("width", WIDTHS)
def test_it_lies_between_nothing_and_the_pure_curve(width):
    curve, points = BoundedRangeCurve(width), np.linspace(0, 1.2 * width, 50)
    assert curve.delta(0.0) == pytest.approx(np.tanh(width / 4))
    assert np.all(curve.delta(points) <= PureCurve(width).delta(points) + 1e-15)
    assert np.all(curve.delta(points) <= ZeroConcentratedCurve(width**2 / 8).delta(points) + 1e-15)
    assert np.all(np.diff(curve.delta(points)) <= 0)
    assert curve.delta(width) == 0.0
    assert curve.epsilon(0.0) == width


def test_groups_and_plain_data():
    assert BoundedRangeCurve(0.5).group(3) == BoundedRangeCurve(1.5)
    assert BoundedRangeCurve(0.5).to_dict() == {"kind": "bounded-range", "epsilon": 0.5}
    assert BoundedRangeCurve(0.0).delta(0.0) == 0.0
    for epsilon in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="epsilon"):
            BoundedRangeCurve(epsilon)


def test_many_choices_cost_far_less_than_pure_privacy_would_say():
    pytest.importorskip("dp_accounting")
    together = BoundedRangeCurve(0.1).repeat(50)
    assert isinstance(together, ComposedCurve)
    assert together.epsilon(1e-6) < 0.6 * PureCurve(0.1, times=50).epsilon(1e-6)
    law, other = (np.array(x) for x in two_point_laws(0.1, 0.05))
    many, others = np.ones(1), np.ones(1)
    for _ in range(10):
        many, others = np.outer(many, law).ravel(), np.outer(others, other).ravel()
    for epsilon in (0.0, 0.1, 0.3):
        found = np.maximum(many - np.exp(epsilon) * others, 0).sum()
        assert found <= BoundedRangeCurve(0.1).repeat(10).delta(epsilon) + 1e-12
