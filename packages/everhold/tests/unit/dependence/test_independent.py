"""Independent rows: the i.i.d. numbers, exactly."""

from everhold.dependence import Independent
from everhold.privacy.curves import GaussianCurve
from everhold.testing import DependenceContract


class TestIndependent(DependenceContract):
    def make(self):
        return Independent()


def test_the_curve_is_the_mechanisms_own():
    curve = GaussianCurve(0.1)
    assert Independent().leakage(curve, 10) is curve


def test_differential_privacy_is_bayesian_differential_privacy():
    assert Independent().bayesian_price(0.25, 1_000) == 4.0
