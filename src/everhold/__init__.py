"""A sealed holdout that answers adaptive questions, with intervals that hold for the population."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from everhold import questions

__version__ = "0.1.0"

_HOMES = {
    "everhold.answers": "Answer Transcript",
    "everhold.asking.gate": "Gate",
    "everhold.certificate": "Certificate verify_certificate",
    "everhold.client": "connect",
    "everhold.dependence": (
        "BayesianNetwork DependenceModel GaussianAR1 Groups Independent MarkovChain MarkovNetwork pedigree"
    ),
    "everhold.diagnosis.diagnosis": "Diagnosis",
    "everhold.errors": (
        "AuthError BudgetExhausted BudgetWarning DependenceError DependenceWarning EverholdError EverholdWarning "
        "HoldoutNotFound HoldoutRejected IntegrityError NonAdaptiveWarning QueryRejected SmallHoldoutWarning "
        "Unavailable VacuousGuaranteeWarning"
    ),
    "everhold.holdout": "Holdout",
    "everhold.mechanisms": (
        "Empirical GaussianMechanism GuessAndCheck Ladder LaplaceMechanism PrivacyBudget SampleSplitting "
        "Subsampling Thresholdout"
    ),
    "everhold.minimisation": "Minimum minimise",
    "everhold.planning": "Plan least_step plan queries_allowed rows_needed",
    "everhold.questions.prediction_columns": "predictions_in",
}
"""Where the public names live, beside the kinds of questions; one is imported when it is first used.

Type checkers read ``__init__.pyi`` instead.
"""


def _homes() -> dict[str, str]:
    """Where each public name lives; kinds of questions are public names as soon as they are registered."""
    homes = {name: home for home, names in _HOMES.items() for name in names.split()}
    return homes | {kind.name: f"everhold.questions.{kind.home}" for kind in questions.KINDS}


__all__ = sorted({"engines", *_homes()})


def __getattr__(name: str) -> Any:
    if name == "engines":  # a module, so that it is there without an import of its own
        return import_module("everhold.engines")
    if name not in (homes := _homes()):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(homes[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
