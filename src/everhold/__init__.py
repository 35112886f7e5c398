"""A sealed holdout that answers adaptive questions, with intervals that hold for the population."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everhold.answers import Answer, QuotedPrice, Shares, Transcript
    from everhold.asking.budget import Allotments
    from everhold.asking.spending import Spending
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
    from everhold.questions.choice import BestCandidate, MinimizationQuery
    from everhold.questions.derived import DerivedQuery
    from everhold.questions.first_above import AboveQuery, FirstAbove
    from everhold.questions.gradient import GradientQuery, VectorAnswer, gradient
    from everhold.questions.histogram import histogram
    from everhold.questions.low_sensitivity import LowSensitivityQuery
    from everhold.questions.mean import mean
    from everhold.questions.metrics import accuracy, brier, error
    from everhold.questions.moments import correlation, covariance, variance
    from everhold.questions.quantile import QuantileAnswer, QuantileQuery
    from everhold.questions.ranking_scores import auc, f1
    from everhold.questions.risk import risk
    from everhold.questions.statistical import StatisticalQuery
    from everhold.questions.synthesis import SynthesisQuery, SyntheticAnswer

__version__ = "0.1.0"

_HOMES = {
    "everhold.asking.spending": ("Spending",),
    "everhold.asking.budget": ("Allotments",),
    "everhold.ledger.allotments": ("Allotment",),
    "everhold.questions.first_above": (
        "AboveQuery",
        "FirstAbove",
    ),
    "everhold.questions.gradient": (
        "GradientQuery",
        "VectorAnswer",
        "gradient",
    ),
    "everhold.questions.low_sensitivity": ("LowSensitivityQuery",),
    "everhold.questions.ranking_scores": (
        "auc",
        "f1",
    ),
    "everhold.questions.synthesis": (
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
    "everhold.questions.choice": (
        "BestCandidate",
        "MinimizationQuery",
    ),
    "everhold.questions.quantile": (
        "QuantileAnswer",
        "QuantileQuery",
    ),
    "everhold.questions.derived": ("DerivedQuery",),
    "everhold.questions.histogram": ("histogram",),
    "everhold.questions.mean": ("mean",),
    "everhold.questions.metrics": (
        "accuracy",
        "brier",
        "error",
    ),
    "everhold.questions.moments": (
        "correlation",
        "covariance",
        "variance",
    ),
    "everhold.questions.risk": ("risk",),
    "everhold.questions.statistical": ("StatisticalQuery",),
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
