"""The champions of gates in order, what is proved of each champion, and what was spent. All of it is public."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold.answers import estimand_in_words
from everhold.asking.unsealing import as_row, disclosed
from everhold.display import Display, at_least, at_most, left_in_words
from everhold.gates.challenge import about_runs, described_gate, margin_of, most_gain, next_nats, promotions_of
from everhold.gates.records import COMPLETED, Gates
from everhold.ledger.acts import Accounts, Arrivals
from everhold.ledger.store import all_entries
from everhold.values.units import GAIN_WIDTH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everhold.asking.query_executor import QueryExecutor
    from everhold.gates.records import GateAccount
    from everhold.ledger import Entry


@dataclass(frozen=True, slots=True)
class GateHistory(Display):
    """The champions of a gate in order, with the gain that is proved for each.

    Attributes:
        gate: Name of the gate.
        metric: The metric or the claims in words, with guards and their slacks.
        margin: Each champion is proved better than the one before by more than this, in the metric's units.
        challenges: Number of challenges answered so far.
        promotions: Number of promoted challengers. Each promotion cost a surprise.
        remaining: The budget that is left, by name.
        nats: ln(1 / level) of the next challenge.
        about: Words for what the promises are about, if not the population.
        confidence: Probability with which all intervals hold at once, together with all answers of the holdout.
        statement: The proved statement in docs/theory on which the promise rests.
        champions: The first champion and one row for each promotion: ``number``, ``champion`` and ``over`` (SHA-256),
            ``entry`` of the ledger, ``asked_at`` (UTC), the gain over the champion before in [``low``, ``high``]
            (``high`` is None for ratios), the least gain over the first champion ``since_first`` (None where gains do
            not add up), and ``nats``, the ln(1 / level) at which it was proved (None where a query has no level of its
            own). After an unsealing, also the mean ``gain`` of all reported cases and its lower end ``gain_low``,
            except for ratios.
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
        """Return one row for each champion."""
        return [dict(row) for row in self.champions]

    def explain(self) -> str:
        """Explain in words which gains are proved and how much budget they cost."""
        last = self.champions[-1]
        since = last["since_first"]
        most = " or more" if last["high"] is None else f" to {at_most(last['high'])}"
        total = (
            "" if since is None else f" The present champion is better than the first one by {at_least(since)}{most}."
        )
        return (
            f"{self.promotions} of {self.challenges} challenges were promoted. Each champion is better than the one "
            f"before by more than {at_least(self.margin)}, by {self.metric}. All of this holds at once with "
            f"probability {100.0 * self.confidence:.8g}% (statement {self.statement}).{total} Kept challengers prove "
            f"nothing. {left_in_words(self.remaining)} left. {estimand_in_words(self.about)}"
        ).strip()


def history_of(executor: QueryExecutor, name: str) -> GateHistory:
    """Return the champions of a gate with the intervals of their gains, and the budget spent on them."""
    head = executor.ledger.head()
    gate, said = head.accounts.of(Gates).by_name[name], described_gate(head.accounts.of(Gates).by_name[name])
    limits = {} if gate.limit is None else {"challenges": gate.left}
    first: dict[str, Any] = {
        "number": 0, "champion": gate.first, "over": None, "entry": None, "asked_at": None, "low": None, "high": None,
        "since_first": None, "nats": None,
    }  # fmt: skip
    told = disclosed(all_entries(executor.ledger)) if head.accounts.closed else {}

    def gain(entry: Entry) -> dict[str, float]:
        """Return the unsealed mean gain of a promotion and its lower end, or nothing before the unsealing."""
        width = float(entry.description.get(GAIN_WIDTH, 1.0))
        ends = as_row(entry, told[entry.sequence])[:2] if entry.sequence in told else ()
        return {name: width * end for name, end in zip(("gain", "gain_low"), ends, strict=False)}

    champions = [first] + [
        {**first, "number": number, "champion": entry.description["challenger"], "over": entry.description["champion"],
         "entry": entry.sequence, "asked_at": entry.asked_at, **_bounds(gate, number, head.accounts),
         "nats": entry.answer.get("node", {}).get("nats"), **gain(entry)}
        for number, entry in enumerate(promotions_of(executor, name)[: gate.promotions], 1)
    ]  # fmt: skip
    return GateHistory(
        gate=name, metric=said["metric"], margin=said["margin"], challenges=gate.challenges,
        promotions=gate.promotions, remaining={**executor.remaining(head.state), **limits},
        nats=next_nats(executor.mechanism, executor.state_from(head.state)), about=about_runs(gate.metric),
        confidence=executor.promise.confidence, statement=executor.promise.statement, champions=champions,
    )  # fmt: skip


def completions_of(executor: QueryExecutor, accounts: Accounts) -> dict[str, list[dict[str, Any]]]:
    """Return for each gate the ledger entries that gave its champion values for rows that arrived later."""
    found: dict[str, list[dict[str, Any]]] = {}
    if not any(gate.completions for gate in accounts.of(Gates).by_name.values()):
        return found
    for entry in all_entries(executor.ledger):
        if entry.answer["source"] == COMPLETED:
            facts = {"entry": entry.sequence, **{name: entry.description[name] for name in ("arrived", "rows")}}
            found.setdefault(entry.description["gate"], []).append(facts)
    return found


def certified_gates(
    accounts: Accounts, promotions: Mapping[str, list[dict[str, Any]]],
    completions: Mapping[str, list[dict[str, Any]]],
) -> list[dict[str, Any]]:  # fmt: skip
    """Return all gates with their promotions for a certificate. Margins and gains are in the metric's units."""
    found = []
    for gate in accounts.of(Gates).by_name.values():
        said, about = described_gate(gate), about_runs(gate.metric)
        facts = {name: said[name] for name in ("gate", "metric", "margin", "limit", "challenges")}
        steps = [
            {**step, **_bounds(gate, number, accounts)} for number, step in enumerate(promotions.get(gate.name, []), 1)
        ]
        later: dict[str, Any] = {"completed": completions[gate.name]} if gate.name in completions else {}
        if gate.checks:
            later["checks"] = {"made": gate.checks, "charged": gate.marks}
        metric = said["metric"] + (f"; about {about}" if about else "")
        found.append({**facts, "metric": metric, "first": gate.first, "promotions": steps, **later})
    return found


def _bounds(gate: GateAccount, number: int, accounts: Accounts) -> dict[str, float | None]:
    """Return the bounds of a champion's gain over the champion before it, and over the first one.

    Args:
        gate: Public record of the gate.
        number: Number of promotions up to this champion, from 1.
        accounts: The accounts of the ledger.
    """
    metric, margin = gate.metric, margin_of(gate)
    adds = not gate.about_rows and len(metric["better"]) == 1  # all promotions are about the same mean
    adds = adds and not (about_runs(metric) and accounts.of(Arrivals).arrivals)
    return {"low": margin, "high": most_gain(metric), "since_first": number * margin if adds else None}
