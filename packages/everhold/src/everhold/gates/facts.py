"""What a gate compares, in words and in the units of its metric: public facts that its description says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.display import at_least
from everhold.gates.metrics import SCORE, metric_in_words
from everhold.gates.records import CASES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.gates.records import GateAccount

__all__ = [
    "NEW_CASES", "NEW_RUNS", "RUNS_OF_THESE", "about_runs", "claims_in_words", "compared_in_words", "described_gate",
    "margin_of", "most_gain",
]  # fmt: skip

NEW_CASES = "new cases"
"""Population: cases drawn like these. A case is one unit, with the mean of its runs."""

NEW_RUNS = "these cases, new runs"
"""Population: new runs of these very cases. A run is one unit."""

RUNS_OF_THESE = "new runs of these cases"
"""Subject of a promise about `NEW_RUNS`."""


def described_gate(gate: GateAccount) -> dict[str, Any]:
    """A gate in public facts."""
    prefix = "" if gate.about_rows else "cases: "
    return {
        "gate": gate.name, "metric": prefix + compared_in_words(gate.metric), "margin": margin_of(gate),
        "champion": gate.champion, "first_champion": gate.first, "challenges": gate.challenges,
        "promotions": gate.promotions, "limit": gate.limit,
    }  # fmt: skip


def compared_in_words(metric: Mapping[str, Any]) -> str:
    """What a gate compares: a metric of rows, or claims about cases."""
    return claims_in_words(metric) if metric.get("kind") == CASES else metric_in_words(metric)


def margin_of(gate: GateAccount) -> float:
    """By more than this a promoted challenger is better, in the metric's units."""
    return gate.margin * _width(gate.metric) if gate.about_rows else float(gate.metric["margin"])


def about_runs(metric: Mapping[str, Any]) -> str | None:
    """What is promised of cases that stay the same; None for what is about a population."""
    return RUNS_OF_THESE if metric.get("population") == NEW_RUNS else None


def most_gain(metric: Mapping[str, Any]) -> float | None:
    """The largest gain that there can be, in the metric's units: the width of its range; None for R2 and for ratios."""
    if metric.get("kind") == CASES:
        if not set(metric["better"]).isdisjoint(metric.get("ratios", ())):
            return None
        widths = {each["name"]: float(each["high"]) - float(each["low"]) for each in metric["metrics"]}
        return max(widths[name] for name in metric["better"])
    if metric.get("kind") == SCORE and metric["name"] == "r2":
        return None
    return _width(metric)


def _width(metric: Mapping[str, Any]) -> float:
    """Worth of a gain of 1 in the units of a metric about rows."""
    if metric.get("kind") == SCORE:
        return float(metric.get("width", 1.0))
    return float(metric["high"]) - float(metric["low"]) if {"high", "low"} <= set(metric) else 1.0


def claims_in_words(description: Mapping[str, Any]) -> str:
    """The claims of a gate as people read them.

    Examples:
        >>> claims_in_words({"better": ["accuracy"], "not_worse": {"cost": 0.02}})
        'accuracy (guard: cost at most 0.02 worse than the baseline)'
    """
    better = " or ".join(description["better"])
    slacks = description["not_worse"].items()
    held = [f"{name} at most {at_least(slack)} worse than the baseline" for name, slack in slacks]
    guards = ", ".join([*held, *description.get("limits", {})])
    return f"{better} (guard: {guards})" if guards else str(better)
