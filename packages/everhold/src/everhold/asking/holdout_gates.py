"""`holdout.gates`: all gates of a holdout, in public facts and at work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.asking.accessor import HoldoutAccessor
from everhold.asking.gate import Gate, GateRules, open_gate
from everhold.asking.gate_arrivals import model_store_of, rows_left
from everhold.asking.gate_facts import certified_gates, completions_of, described_gate
from everhold.ledger.allotments import Accounts
from everhold.ledger.gates import Gates

if TYPE_CHECKING:
    from everhold.asking.case_gate import CaseGate
    from everhold.ledger import Head
    from everhold.ledger.gates import GateAccount
    from everhold.ledger.tally import Tally

__all__ = ["HoldoutGates"]


class HoldoutGates(HoldoutAccessor):
    """The gates of a holdout: `holdout.gates`."""

    def open(
        self, metric: Any = None, *, champion: Any = None, margin: float = 0.0, challenges: int | None = None,
        name: str = "gate", training: Any = None,
    ) -> Gate:  # fmt: skip
        """See `Holdout.gate`."""
        self._executor.state()  # other rows may be there by now
        rules = GateRules(name=name, metric=metric, margin=margin, challenges=challenges)
        champions = model_store_of(self._executor, self._folder)
        return open_gate(self._executor, champions, rules, champion=champion, training=training)

    def is_about_cases(self, name: str) -> bool:
        """True if there is a gate of this name, and it is about cases."""
        gate = Accounts.from_state(self._executor.ledger.head().state).of(Gates).by_name.get(name)
        return gate is not None and not gate.about_rows

    def of_cases(
        self, name: str = "gate", *, champion: Any = None, baseline: Any = None, **rules: Any
    ) -> CaseGate:  # fmt: skip
        """A gate about cases; see `Holdout.gate`."""
        from everhold.asking.case_gate_opening import CaseRules, open_case_gate

        made = CaseRules(name=name, **rules)
        return open_case_gate(self._executor, self._folder, made, champion=champion, baseline=baseline)

    def status_facts(self, head: Head) -> dict[str, Any]:
        """All gates in public facts."""
        gates = [
            {**described_gate(gate), **self._waiting(gate)} for gate in head.accounts.of(Gates).by_name.values()
        ]  # fmt: skip
        return {"gates": gates} if gates else {}

    def _waiting(self, gate: GateAccount) -> dict[str, int]:
        """Number of rows that wait for the champion's values, where rows arrived."""
        grown = self._executor.growth is not None and gate.about_rows
        return {"rows_left": rows_left(gate, self._executor)} if grown else {}

    def certificate_facts(self, head: Head, tally: Tally) -> dict[str, Any]:
        """All gates with their promotions."""
        gates = certified_gates(head.accounts, tally.promotions, completions_of(self._executor, head.accounts))
        return {"gates": gates} if gates else {}
