import math
import sys
from itertools import product

import numpy as np
import pytest

from everhold_lab.published.classical import ApproximateCurve
from everhold_privacy.curves import ComposedCurve, GaussianCurve, GroupCurve, PureCurve, ZeroConcentratedCurve, composed

EPSILON = np.linspace(0, 4, 41)


def divergence(first, second, epsilon):
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


def test_one_family_is_joined_in_closed_form():
    assert GaussianCurve(3.0).compose(GaussianCurve(4.0)) == GaussianCurve(5.0)
    assert ZeroConcentratedCurve(1.0).compose(ZeroConcentratedCurve(2.0)) == ZeroConcentratedCurve(3.0)
    assert PureCurve(0.1, 3).compose(PureCurve(0.1, 4)) == PureCurve(0.1, 7)
    assert ApproximateCurve(0.1, 1e-6).compose(ApproximateCurve(0.1, 1e-6)) == ApproximateCurve(0.1, 1e-6, 2)
    assert PureCurve(0.1).compose(PureCurve(0.0)) == PureCurve(0.1)
    assert PureCurve(0.0).compose(GaussianCurve(0.0)) == PureCurve(0.0)


def test_composition_does_not_depend_on_order():
    a, b, c = PureCurve(0.2, 4), GaussianCurve(0.3), ZeroConcentratedCurve(0.01)
    assert a.compose(b).compose(c) == c.compose(b).compose(a) == composed([(b, 1), (c, 1), (a, 1)])


def test_nothing_cannot_be_composed():
    with pytest.raises(ValueError, match="nothing to compose"):
        composed([])
    with pytest.raises(ValueError, match="times"):
        composed([(PureCurve(0.1), 0)])


def test_mixed_composition_is_above_and_close_to_two_different_responses():
    """Randomised responses with different losses: enumerated exactly."""
    truths = [np.array([math.exp(e), 1.0]) / (1 + math.exp(e)) for e in (0.3, 0.3, 1.1)]
    outcomes = list(product([0, 1], repeat=3))
    first = np.array([math.prod(t[o] for t, o in zip(truths, outcome, strict=True)) for outcome in outcomes])
    second = np.array([math.prod(t[1 - o] for t, o in zip(truths, outcome, strict=True)) for outcome in outcomes])
    curve = PureCurve(0.3, 2).compose(PureCurve(1.1))
    for epsilon in np.linspace(0, 1.6, 17):
        exact = divergence(first, second, epsilon)
        assert exact - 1e-12 <= curve.delta(epsilon) <= exact * 1.01 + 1e-3
    assert curve.epsilon(0.0) == pytest.approx(1.7)


def test_mixed_composition_agrees_with_the_library_and_with_quadrature():
    """A Gaussian with one randomised response: delta is the mean of the Gaussian's curve at shifted losses."""
    mu, level = 0.8, 0.5
    curve = GaussianCurve(mu).compose(PureCurve(level))
    share = 1 / (1 + math.exp(-level))
    for epsilon in (0.6, 1.0, 2.0, 3.0):
        low, high = GaussianCurve(mu).delta(epsilon - level), GaussianCurve(mu).delta(epsilon + level)
        exact = share * low + (1 - share) * high
        assert exact * (1 - 1e-9) <= curve.delta(epsilon) <= exact * (1 + 1e-4)


def test_closed_forms_agree_with_privacy_loss_distributions():
    library = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    common = pytest.importorskip("dp_accounting.pld.common")
    gaussian = library.from_gaussian_mechanism(1 / 0.7, value_discretization_interval=1e-3)
    one = common.DifferentialPrivacyParameters(0.1, 1e-5)
    response = library.from_privacy_parameters(one, value_discretization_interval=0.1).self_compose(30)
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        assert gaussian.get_delta_for_epsilon(epsilon) == pytest.approx(GaussianCurve(0.7).delta(epsilon), rel=1e-4)
        exact = ApproximateCurve(0.1, 1e-5, 30).delta(epsilon)
        assert response.get_delta_for_epsilon(epsilon) == pytest.approx(exact, rel=1e-8)


def test_mixed_composition_with_an_uneven_curve_is_an_upper_bound():
    """The bound of a zero-concentrated part is not convex; its hull still covers the Gaussian it stands for."""
    curve = ZeroConcentratedCurve(0.08).compose(PureCurve(0.2, 5))
    exact = GaussianCurve(0.4).compose(PureCurve(0.2, 5))
    assert np.all(curve.delta(EPSILON) >= exact.delta(EPSILON) * 0.9999)
    assert np.all(np.diff(curve.delta(EPSILON)) <= 1e-12)


def test_the_group_of_a_composition_is_the_composition_of_groups():
    curve = PureCurve(0.2, 5).compose(GaussianCurve(0.3))
    assert curve.group(3) == PureCurve(0.6000000000000001, 5).compose(GaussianCurve(0.8999999999999999))
    assert curve.to_dict()["parts"][0] == {"curve": {"kind": "gaussian", "mu": 0.3}, "times": 1}


def test_a_missing_library_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting.pld.privacy_loss_distribution", None)
    curve = ComposedCurve(((GaussianCurve(0.123), 1), (PureCurve(0.1), 1)))
    with pytest.raises(ImportError, match=r"everhold\[accounting\]"):
        curve.delta(1.0)


@pytest.mark.parametrize("rows", [2, 5])
@pytest.mark.parametrize("base", [PureCurve(0.1, 4), GaussianCurve(0.3), ApproximateCurve(0.2, 1e-4, 3)], ids=repr)
def test_generic_group_curve_covers_the_closed_form(base, rows):
    generic = GroupCurve(base, rows)
    points = np.linspace(0, 3, 301)
    values = generic.delta(points)
    assert np.all(np.diff(values) <= 1e-15)
    assert np.all(values >= base.group(rows).delta(points) * (1 - 1e-12))
    growth = np.expm1(rows * 0.37) / np.expm1(0.37)
    assert generic.delta(rows * 0.37) <= base.delta(0.37) * growth * (1 + 1e-3)
    assert generic.delta(generic.epsilon(0.03)) == pytest.approx(0.03, rel=1e-9)
