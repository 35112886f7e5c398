"""Test suite for the method `leakage` of a dependence model, in addition to `everhold.testing.DependenceContract`."""

from typing import Any

import numpy as np

from everhold_privacy.curves import GaussianCurve, PureCurve
from everhold_privacy.leakage import leakage

EPSILONS = np.concatenate([[0.0], np.geomspace(1e-4, 20.0, 40)])
CURVES = (GaussianCurve(0.3), PureCurve(0.05, times=4), PureCurve(0.0))


class LeakageContract:
    """Test suite for a model's leakage.

    Subclass it, and let `make` return a model with which a holdout can be planned.
    """

    rows = 2_000

    def make(self) -> Any:
        """Return the model to test."""
        raise NotImplementedError

    def test_the_leakage_is_a_curve_and_never_below_that_of_independent_rows(self) -> None:
        """No model promises more secrecy than independent rows have."""
        model = self.make()
        for curve in CURVES:
            leak = leakage(model, curve, self.rows).delta(EPSILONS)
            assert np.all((leak >= 0.0) & (leak <= 1.0 + 1e-12))
            assert np.all(np.diff(leak) <= 1e-12)
            assert np.all(leak >= curve.delta(EPSILONS) * (1.0 - 1e-9))
