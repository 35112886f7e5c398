"""Gates in public facts: for status, pages and certificates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.gates.cases.challenge import RUNS_OF_THESE, claims_in_words
from everhold.gates.cases.results import NEW_RUNS
from everhold.gates.history import GateHistory, champions_of, gain_bounds, gain_width
from everhold.gates.metrics import metric_in_words
from everhold.ledger.allotments import Accounts
from everhold.ledger.arrivals import Arrivals
from everhold.ledger.entry_counts import EntryCounts
from everhold.ledger.gates import CASES, COMPLETED, PROMOTED, GateAccount, Gates
from everhold.ledger.store import all_entries, charged_entries
from everhold.mechanisms import GuessAndCheck

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.asking.query_executor import QueryExecutor

__all__ = ["certified_gates", "completions_of", "described_gate", "history_of", "promotions_of"]


def described_gate(gate: GateAccount) -> dict[str, Any]:
    """A gate in public facts."""
    if gate.metric.get("kind") == CASES:
        return _described_case_gate(gate)
    return {
        "gate": gate.name,
        "metric": metric_in_words(gate.metric),
        "margin": gate.margin * gain_width(gate.metric),
        "champion": gate.champion,
        "first_champion": gate.first,
        "challenges": gate.challenges,
        "promotions": gate.promotions,
        "limit": gate.limit,
    }


def promotions_of(executor: QueryExecutor, name: str) -> list[dict[str, Any]]:
    """All promotions of a gate in order."""
    counts = EntryCounts()
    for entry in charged_entries(executor.ledger):  # as every promotion was
        counts.take(entry.sequence, entry.description, entry.answer)
    return counts.promotions.get(name, [])


def history_of(executor: QueryExecutor, name: str) -> GateHistory:
    """The champions of a gate, with the intervals of their gains and what was spent."""
    data = executor.ledger.head().state
    accounts, state = Accounts.from_state(data), executor.state_from(data)
    gate = accounts.of(Gates).by_name[name]
    promoted = [
        entry for entry in charged_entries(executor.ledger)
        if entry.answer.get("source") == PROMOTED and entry.description.get("gate") == name
    ]  # fmt: skip
    margin = described_gate(gate)["margin"]
    limits = {} if gate.limit is None else {"challenges": gate.left}
    new_runs = gate.metric.get("population") == NEW_RUNS
    assert isinstance(executor.mechanism, GuessAndCheck)
    return GateHistory(
        gate=name, metric=described_gate(gate)["metric"], margin=margin, challenges=gate.challenges,
        promotions=gate.promotions, remaining={**executor.remaining(data), **limits},
        nats=float(executor.mechanism.nats(state.asked + 1, state.charged, state.labels / 1e6)),
        about=RUNS_OF_THESE if new_runs else None, confidence=executor.promise.confidence,
        statement=executor.promise.statement,
        champions=champions_of(gate, margin, promoted[: gate.promotions], adds=_gains_add(gate, accounts)),
    )  # fmt: skip


def completions_of(executor: QueryExecutor, accounts: Accounts) -> dict[str, list[dict[str, Any]]]:
    """By gate, the entries by which champions got values for rows that arrived; reads the ledger if there are any."""
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
    """All gates with their promotions, as a certificate lists them; margins and gains in the metric's units."""
    named = ("gate", "metric", "margin", "limit", "challenges")
    found = []
    for gate in accounts.of(Gates).by_name.values():
        said = described_gate(gate)
        adds = _gains_add(gate, accounts)
        steps = [
            {**step, **gain_bounds(gate, said["margin"], number, adds=adds)}
            for number, step in enumerate(promotions.get(gate.name, []), 1)
        ]
        about = f"; about {RUNS_OF_THESE}" if gate.metric.get("population") == NEW_RUNS else ""
        facts = {**{name: said[name] for name in named}, "metric": said["metric"] + about}
        later = {"completed": completions[gate.name]} if gate.name in completions else {}
        found.append({**facts, "first": gate.first, "promotions": steps, **later})
    return found


def _gains_add(gate: GateAccount, accounts: Accounts) -> bool:
    """True if all promotions of a gate are about the same mean: one success, about cases that stayed the same."""
    if gate.metric.get("kind") != CASES or len(gate.metric["better"]) > 1:
        return False
    return gate.metric.get("population") != NEW_RUNS or not accounts.of(Arrivals).arrivals


def _described_case_gate(gate: GateAccount) -> dict[str, Any]:
    """A gate about cases in public facts."""
    return {
        "gate": gate.name,
        "metric": f"cases: {claims_in_words(gate.metric)}",
        "margin": gate.metric["margin"],
        "champion": gate.champion,
        "first_champion": gate.first,
        "challenges": gate.challenges,
        "promotions": gate.promotions,
        "limit": gate.limit,
    }
