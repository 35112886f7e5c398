"""The champions of a gate one after the other: what is proved of each, and what was spent; all of it public."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold.answers import estimand_in_words
from everhold.display import Display, at_least, at_most, left_in_words
from everhold.gates.metrics import SCORE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everhold.ledger import Entry
    from everhold.ledger.gates import GateAccount

_CASES = "cases"


@dataclass(frozen=True, slots=True)
class GateHistory(Display):
    """All champions of a gate.

    Attributes:
        gate: The gate's name.
        metric: What is compared, in words; guards and their slacks are part of it.
        margin: By more than this each champion is better than the one before, in the metric's units.
        challenges: Challenges answered so far.
        promotions: How many of them were promoted; each cost a surprise.
        remaining: What is left of the budget, by name.
        nats: ln(1 / level) of the next challenge.
        about: What the promises are about, where that is not the population.
        confidence: Probability with which all intervals hold at once, together with all answers of the holdout.
        statement: The statement that the promise rests on.
        champions: The first champion and one row for each promotion: ``number``, ``champion`` and ``over`` (SHA-256),
            ``entry`` of the ledger, ``asked_at`` (UTC), the gain over the champion before in [``low``, ``high``]
            (``high`` is None for ratios), the least gain over the first champion ``since_first`` (None where gains do
            not add up), and ``nats``, the ln(1 / level) at which it was proved (None where a query has no level of its
            own).
    """

    gate: str
    metric: str
    margin: float
    challenges: int
    promotions: int
    remaining: Mapping[str, int]
    nats: float
    about: str | None
    confidence: float
    statement: str
    champions: Sequence[dict[str, Any]]

    def to_rows(self) -> list[dict[str, Any]]:
        """The champions."""
        return [dict(row) for row in self.champions]

    def explain(self) -> str:
        """In words: what holds, and what was spent."""
        last = self.champions[-1]
        since = last["since_first"]
        most = " or more" if last["high"] is None else f" to {at_most(last['high'])}"
        total = (
            "" if since is None else f" The present champion is better than the first one by {at_least(since)}{most}."
        )
        return (
            f"{self.promotions} of {self.challenges} challenges were promoted. Each champion is better than the one "
            f"before by more than {at_least(self.margin)}, by {self.metric}; all at once with probability "
            f"{100.0 * self.confidence:.8g}% (statement {self.statement}).{total} Kept challengers prove nothing. "
            f"{left_in_words(self.remaining)} left. {estimand_in_words(self.about)}"
        ).strip()


def most_gain(metric: Mapping[str, Any]) -> float | None:
    """The largest gain that there can be, in the metric's units: the width of its range; None for R2 and for ratios."""
    if metric.get("kind") == _CASES:
        if not set(metric["better"]).isdisjoint(metric.get("ratios", ())):
            return None
        widths = {each["name"]: float(each["high"]) - float(each["low"]) for each in metric["metrics"]}
        return max(widths[name] for name in metric["better"])
    if metric.get("kind") == SCORE and metric["name"] == "r2":
        return None
    return gain_width(metric)


def gain_width(metric: Mapping[str, Any]) -> float:
    """Worth of a gain of 1 in the units of a metric about rows."""
    if metric.get("kind") == SCORE:
        return float(metric.get("width", 1.0))
    return float(metric["high"]) - float(metric["low"]) if {"high", "low"} <= set(metric) else 1.0


def gain_bounds(gate: GateAccount, margin: float, number: int, *, adds: bool) -> dict[str, float | None]:
    """Bounds of the gain of one champion: over the one before, and from below over the first.

    Args:
        gate: The gate.
        margin: Its margin in the metric's units.
        number: Promotions up to this champion, from 1.
        adds: True if gains add up, as each promotion is about the same mean.
    """
    return {"low": margin, "high": most_gain(gate.metric), "since_first": number * margin if adds else None}


def champions_of(gate: GateAccount, margin: float, promoted: Sequence[Entry], *, adds: bool) -> list[dict[str, Any]]:
    """The rows of a history.

    Args:
        gate: The gate.
        margin: Its margin in the metric's units.
        promoted: The entries of its promotions in order.
        adds: As for `gain_bounds`.
    """
    first: dict[str, Any] = {
        "number": 0, "champion": gate.first, "over": None, "entry": None, "asked_at": None, "low": None, "high": None,
        "since_first": None, "nats": None,
    }  # fmt: skip
    return [first] + [
        {**first, "number": number, "champion": entry.description["challenger"], "over": entry.description["champion"],
         "entry": entry.sequence, "asked_at": entry.asked_at, **gain_bounds(gate, margin, number, adds=adds),
         "nats": entry.answer.get("node", {}).get("nats")}
        for number, entry in enumerate(promoted, 1)
    ]  # fmt: skip
