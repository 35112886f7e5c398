"""A sealed holdout that answers adaptive questions, with intervals that hold for the population."""

from everhold.answers import Answer, QuotedPrice, Transcript
from everhold.dependence import DependenceModel, Independent
from everhold.errors import (
    AuthError,
    BudgetExhausted,
    DependenceError,
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
from everhold.mechanisms import (
    Empirical,
    GaussianMechanism,
    GuessAndCheck,
    LaplaceMechanism,
    Promise,
    SampleSplitting,
    Thresholdout,
)
from everhold.privacy.noise import SecureNoise, SeededNoise
from everhold.queries.mean import mean
from everhold.queries.metrics import accuracy, brier, error
from everhold.queries.statistical import StatisticalQuery

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "AuthError",
    "BudgetExhausted",
    "DependenceError",
    "DependenceModel",
    "Empirical",
    "EverholdError",
    "EverholdWarning",
    "GaussianMechanism",
    "GuessAndCheck",
    "Holdout",
    "HoldoutNotFound",
    "HoldoutRejected",
    "Independent",
    "IntegrityError",
    "LaplaceMechanism",
    "NonAdaptiveWarning",
    "Promise",
    "QueryRejected",
    "QuotedPrice",
    "SampleSplitting",
    "SecureNoise",
    "SeededNoise",
    "SmallHoldoutWarning",
    "StatisticalQuery",
    "Thresholdout",
    "Transcript",
    "VacuousGuaranteeWarning",
    "accuracy",
    "brier",
    "error",
    "mean",
]
