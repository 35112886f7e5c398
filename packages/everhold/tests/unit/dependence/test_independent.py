"""Independent rows: the i.i.d. numbers, exactly."""

from everhold.dependence import Independent
from everhold.testing import DependenceContract
from everhold_privacy.curves import GaussianCurve
from everhold_privacy.leakage import leakage


class TestIndependent(DependenceContract):
    def make(self):
        return Independent()


def test_the_curve_is_the_mechanisms_own():
    curve = GaussianCurve(0.1)
    assert leakage(Independent(), curve, 10) is curve


def test_differential_privacy_is_bayesian_differential_privacy():
    assert Independent().bayesian_price(0.25, 1_000) == 4.0
