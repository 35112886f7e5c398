"""Every model keeps the contract of leakage, and a model that bounds none is refused."""

import numpy as np
import pytest

import everhold as eh
from everhold.errors import DependenceError
from everhold_privacy.curves import PureCurve
from everhold_privacy.leakage import leakage, leaked
from everhold_privacy.testing import LeakageContract

RAIN = [[0.9, 0.1], [0.4, 0.6]]
MODELS = {
    "independent": eh.Independent(),
    "groups": eh.Groups([3, 2, 5]),
    "pairs": eh.Groups(2),
    "known chain": eh.MarkovChain(RAIN),
    "fitted chain": eh.MarkovChain(RAIN, uncertainty=0.02, gap=20, miss=0.01),
    "chain from anywhere": eh.MarkovChain(RAIN, initial=[0.2, 0.8]),
    "autoregression": eh.GaussianAR1(0.4),
    "fitted autoregression": eh.GaussianAR1(-0.5, gap=30, miss=0.01),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_every_model_of_the_core_keeps_the_contract(model):
    class Contract(LeakageContract):
        def make(self):
            return model

    Contract().test_the_leakage_is_a_curve_and_never_below_that_of_independent_rows()


def test_the_contract_notices_a_leakage_below_that_of_independent_rows():
    class Silent(LeakageContract):
        def make(self):
            return Hushed(2)

    with pytest.raises(AssertionError):
        Silent().test_the_leakage_is_a_curve_and_never_below_that_of_independent_rows()


class Hushed(eh.dependence.DependenceModel):
    """A model whose leakage is half of what independent rows leak."""

    def __init__(self, times):
        self.times = times

    def leakage(self, curve, rows):
        return PureCurve(curve.epsilon(1e-6) / self.times)

    concentration = describe = to_dict = from_dict = None


class Households(eh.Groups):
    """Groups that lie side by side, so that more rows than those of one group change with a row."""

    def leakage(self, curve, rows):
        return curve.group(10)


def test_a_model_that_is_derived_from_another_one_says_its_own_leakage():
    assert leakage(Households(2), PureCurve(0.1), 100).epsilon(1e-9) == PureCurve(0.1).group(10).epsilon(1e-9)
    assert leakage(eh.Groups(2), PureCurve(0.1), 100).epsilon(1e-9) < 0.3


class Copies(eh.dependence.Independent):
    """Rows that are copies of fewer ones, in a class that says nothing of leakage."""

    def concentration(self, rows):
        return rows / 10


def test_a_derived_model_without_a_leakage_is_refused():
    with pytest.raises(DependenceError, match="does not bound what a row tells"):
        leakage(Copies(), PureCurve(0.1), 100)


def test_rows_in_order_bound_no_leakage():
    with pytest.raises(DependenceError, match="guess_and_check"):
        leakage(eh.InOrder([1] * 50), PureCurve(0.1), 50)
    assert leaked(eh.InOrder([1] * 50), loss=0.01, delta=1e-6, rows=50) == np.inf


def test_what_leaks_about_a_row_of_a_pair_is_at_most_twice_as_much():
    assert 0.01 < leaked(eh.Groups(2), loss=0.01, delta=1e-9, rows=50) <= 0.02
