"""A sealed holdout that answers adaptive questions, with intervals that hold for the population."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from everhold.questions import KINDS

__version__ = "0.1.0"

_HOMES = {
    "everhold.answers": "Answer Transcript",
    "everhold.certificate": "Certificate verify_certificate",
    "everhold.dependence": (
        "BayesianNetwork DependenceModel GaussianAR1 Groups Independent MarkovChain MarkovNetwork pedigree"
    ),
    "everhold.diagnosis": "Diagnosis",
    "everhold.errors": (
        "AuthError BudgetExhausted DependenceError DependenceWarning EverholdError EverholdWarning "
        "HoldoutNotFound HoldoutRejected IntegrityError NonAdaptiveWarning QueryRejected SmallHoldoutWarning "
        "VacuousGuaranteeWarning"
    ),
    "everhold.holdout": "Holdout",
    "everhold.mechanisms": (
        "Empirical GaussianMechanism GuessAndCheck Ladder LaplaceMechanism PrivacyBudget SampleSplitting "
        "Subsampling Thresholdout"
    ),
    "everhold.planning": "Plan plan queries_allowed rows_needed",
}
"""Where the public names live, beside the kinds of questions; one is imported when it is first used.

Type checkers read ``__init__.pyi`` instead.
"""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
_HOME_OF |= {kind.name: f"everhold.questions.{kind.home}" for kind in KINDS}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
