"""A sealed holdout that answers adaptive queries, with intervals that hold for the population."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from everhold.extensions import NAMES, added_name, installed
from everhold.queries import KINDS

__version__ = "0.1.0"

_HOMES = {
    "everhold.answers": "Answer Transcript",
    "everhold.boards": "board",
    "everhold.gates.gate": "Gate",
    "everhold.certificate": "Certificate verify_certificate",
    "everhold.dependence": "DependenceModel GaussianAR1 Groups InOrder Independent MarkovChain",
    "everhold.diagnosis.diagnosis": "Diagnosis",
    "everhold.errors": (
        "AuthError BudgetExhausted BudgetWarning CaseRejected ColumnWarning DependenceError DependenceWarning "
        "EverholdError EverholdWarning HoldoutNotFound HoldoutRejected IntegrityError NonAdaptiveWarning NotFound "
        "QueryRejected SmallHoldoutWarning Unavailable VacuousGuaranteeWarning"
    ),
    "everhold.families.grid": "grid",
    "everhold.families.listed": "listed",
    "everhold.families.pool": "pool",
    "everhold.families.protocol": "protocol",
    "everhold.families.study": "plan",
    "everhold.families.subgroups": "subgroups",
    "everhold.families.texts": "texts",
    "everhold.holdout": "Holdout",
    "everhold.mechanisms": "GuessAndCheck",
    "everhold.planning": "Plan least_step queries_allowed rows_needed",
    "everhold.queries.predictions.columns": "predictions_in",
    "everhold.queries.metrics.scores": "at_thresholds metric",
    "everhold.sealing.intake.request": "Planning Rows",
    "everhold.suites": "add_cases seal_cases",
}
"""Modules of the core's public names, beside its kinds of queries; each is imported when it is first used.

Extensions add kinds of queries, and names by entry points of `everhold.names`. Type checkers read ``__init__.pyi``.
"""

_OWN = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted({*_OWN, *(kind.name for kind in KINDS), *installed(NAMES)})
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = _found(name)
    return value


def _found(name: str) -> Any:
    if name in _OWN:
        return getattr(import_module(_OWN[name]), name)
    if kind := KINDS.named(name):
        return kind.make
    if missing := KINDS.missing(name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}. {missing}")
    return added_name(name)


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *__getattr__("__all__")})
