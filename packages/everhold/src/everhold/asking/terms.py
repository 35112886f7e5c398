"""Keywords that methods of a holdout share, as types, and the values of those that are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["USUAL_FIT", "USUAL_GATE", "USUAL_SUITE", "AskTerms", "CaseClaims", "FitTerms", "GateTerms", "SuiteTerms"]


class AskTerms(TypedDict, total=False):
    """Options of a query; see `Holdout.ask`."""

    strict: bool
    silent: bool


class FitTerms(AskTerms, total=False):
    """Options of a model that is fitted and judged; see `Holdout.evaluate`."""

    cv: Any
    features: Sequence[str] | None
    where: str | None
    guess: float | None


class CaseClaims(TypedDict, total=False):
    """Claims of a gate about cases; see `Holdout.gate`."""

    better: str | None
    any_of: Sequence[str] | None
    not_worse: Mapping[str, float] | None
    baseline: Any
    at_most: Mapping[str, float] | None
    at_least: Mapping[str, float] | None
    units: str
    ranges: Mapping[str, tuple[float, float]] | None
    lower: Iterable[str] | None


class GateTerms(CaseClaims, total=False):
    """Terms of a gate; see `Holdout.gate`."""

    margin: float
    challenges: int | None
    training: Any


class SuiteTerms(CaseClaims, total=False):
    """Terms of a suite of cases with its gate; see `everhold.seal_cases`."""

    margin: float
    challenges: int
    surprises: int | None
    confidence: float
    allow_resealing: bool


USUAL_FIT = FitTerms(cv=5, features=None, where=None, guess=None, strict=False, silent=False)
USUAL_GATE = GateTerms(units="cases", margin=0.0)
USUAL_SUITE = {
    **USUAL_GATE, "challenges": 200, "surprises": None, "confidence": 0.95, "allow_resealing": False
}  # fmt: skip
