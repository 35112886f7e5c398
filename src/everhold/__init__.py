"""A sealed holdout that answers adaptive questions, with intervals that hold for the population."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everhold.accounting import Spending
    from everhold.allotments import Allotments
    from everhold.answers import Answer, QuotedPrice, Shares, Transcript
    from everhold.certificate import Certificate, verify_certificate
    from everhold.dependence import (
        BayesianNetwork,
        DependenceModel,
        GaussianAR1,
        Groups,
        Independent,
        MarkovChain,
        MarkovNetwork,
        pedigree,
    )
    from everhold.diagnosis import Diagnosis
    from everhold.errors import (
        AuthError,
        BudgetExhausted,
        DependenceError,
        DependenceWarning,
        EverholdError,
        EverholdWarning,
        HoldoutNotFound,
        HoldoutRejected,
        IntegrityError,
        NonAdaptiveWarning,
        QueryRejected,
        SmallHoldoutWarning,
        VacuousGuaranteeWarning,
    )
    from everhold.holdout import Holdout
    from everhold.ledger.allotments import Allotment
    from everhold.mechanisms import (
        Empirical,
        GaussianMechanism,
        GuessAndCheck,
        Ladder,
        LaplaceMechanism,
        PrivacyBudget,
        Promise,
        RandomRows,
        SampleSplitting,
        Subsampling,
        Thresholdout,
    )
    from everhold.planning import Plan, plan, queries_allowed, rows_needed
    from everhold.privacy.noise import SecureNoise, SeededNoise
    from everhold.purchases.above import AboveQuery, FirstAbove
    from everhold.purchases.choice import BestCandidate, MinimizationQuery
    from everhold.purchases.gradient import GradientQuery, VectorAnswer, gradient
    from everhold.purchases.low_sensitivity import LowSensitivityQuery
    from everhold.purchases.quantile import QuantileAnswer, QuantileQuery
    from everhold.purchases.ranking_scores import auc, f1
    from everhold.purchases.synthesis import SynthesisQuery, SyntheticAnswer
    from everhold.queries.derived import DerivedQuery
    from everhold.queries.histogram import histogram
    from everhold.queries.mean import mean
    from everhold.queries.metrics import accuracy, brier, error
    from everhold.queries.moments import correlation, covariance, variance
    from everhold.queries.risk import risk
    from everhold.queries.statistical import StatisticalQuery

__version__ = "0.1.0"

_HOMES = {
    "everhold.accounting": ("Spending",),
    "everhold.allotments": ("Allotments",),
    "everhold.ledger.allotments": ("Allotment",),
    "everhold.purchases.above": (
        "AboveQuery",
        "FirstAbove",
    ),
    "everhold.purchases.gradient": (
        "GradientQuery",
        "VectorAnswer",
        "gradient",
    ),
    "everhold.purchases.low_sensitivity": ("LowSensitivityQuery",),
    "everhold.purchases.ranking_scores": (
        "auc",
        "f1",
    ),
    "everhold.purchases.synthesis": (
        "SynthesisQuery",
        "SyntheticAnswer",
    ),
    "everhold.answers": (
        "Answer",
        "QuotedPrice",
        "Shares",
        "Transcript",
    ),
    "everhold.dependence": (
        "BayesianNetwork",
        "DependenceModel",
        "GaussianAR1",
        "Groups",
        "Independent",
        "MarkovChain",
        "MarkovNetwork",
        "pedigree",
    ),
    "everhold.diagnosis": ("Diagnosis",),
    "everhold.errors": (
        "AuthError",
        "BudgetExhausted",
        "DependenceError",
        "DependenceWarning",
        "EverholdError",
        "EverholdWarning",
        "HoldoutNotFound",
        "HoldoutRejected",
        "IntegrityError",
        "NonAdaptiveWarning",
        "QueryRejected",
        "SmallHoldoutWarning",
        "VacuousGuaranteeWarning",
    ),
    "everhold.certificate": (
        "Certificate",
        "verify_certificate",
    ),
    "everhold.holdout": ("Holdout",),
    "everhold.mechanisms": (
        "Empirical",
        "GaussianMechanism",
        "GuessAndCheck",
        "Ladder",
        "LaplaceMechanism",
        "PrivacyBudget",
        "Promise",
        "RandomRows",
        "SampleSplitting",
        "Subsampling",
        "Thresholdout",
    ),
    "everhold.planning": (
        "Plan",
        "plan",
        "queries_allowed",
        "rows_needed",
    ),
    "everhold.privacy.noise": (
        "SecureNoise",
        "SeededNoise",
    ),
    "everhold.purchases.choice": (
        "BestCandidate",
        "MinimizationQuery",
    ),
    "everhold.purchases.quantile": (
        "QuantileAnswer",
        "QuantileQuery",
    ),
    "everhold.queries.derived": ("DerivedQuery",),
    "everhold.queries.histogram": ("histogram",),
    "everhold.queries.mean": ("mean",),
    "everhold.queries.metrics": (
        "accuracy",
        "brier",
        "error",
    ),
    "everhold.queries.moments": (
        "correlation",
        "covariance",
        "variance",
    ),
    "everhold.queries.risk": ("risk",),
    "everhold.queries.statistical": ("StatisticalQuery",),
}
"""Where the public names live; a name is imported when it is first used, so that the command line starts at once."""

__all__ = [
    "AboveQuery",
    "Allotment",
    "Allotments",
    "Answer",
    "AuthError",
    "BayesianNetwork",
    "BestCandidate",
    "BudgetExhausted",
    "Certificate",
    "DependenceError",
    "DependenceModel",
    "DependenceWarning",
    "DerivedQuery",
    "Diagnosis",
    "Empirical",
    "EverholdError",
    "EverholdWarning",
    "FirstAbove",
    "GaussianAR1",
    "GaussianMechanism",
    "GradientQuery",
    "Groups",
    "GuessAndCheck",
    "Holdout",
    "HoldoutNotFound",
    "HoldoutRejected",
    "Independent",
    "IntegrityError",
    "Ladder",
    "LaplaceMechanism",
    "LowSensitivityQuery",
    "MarkovChain",
    "MarkovNetwork",
    "MinimizationQuery",
    "NonAdaptiveWarning",
    "Plan",
    "PrivacyBudget",
    "Promise",
    "QuantileAnswer",
    "QuantileQuery",
    "QueryRejected",
    "QuotedPrice",
    "RandomRows",
    "SampleSplitting",
    "SecureNoise",
    "SeededNoise",
    "Shares",
    "SmallHoldoutWarning",
    "Spending",
    "StatisticalQuery",
    "Subsampling",
    "SynthesisQuery",
    "SyntheticAnswer",
    "Thresholdout",
    "Transcript",
    "VacuousGuaranteeWarning",
    "VectorAnswer",
    "accuracy",
    "auc",
    "brier",
    "correlation",
    "covariance",
    "error",
    "f1",
    "gradient",
    "histogram",
    "mean",
    "pedigree",
    "plan",
    "queries_allowed",
    "risk",
    "rows_needed",
    "variance",
    "verify_certificate",
]


if not TYPE_CHECKING:  # a checker sees the imports above, and unknown names stay errors

    def __getattr__(name: str) -> Any:
        for home, names in _HOMES.items():
            if name in names:
                globals()[name] = value = getattr(import_module(home), name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
