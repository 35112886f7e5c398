"""`holdout.gates`: all gates of a holdout, in public facts and at work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from everhold.asking.accessor import HoldoutAccessor
from everhold.asking.session import CaseClaims
from everhold.gates.challenge import described_gate
from everhold.gates.history import certified_gates, completions_of
from everhold.gates.records import Gates
from everhold.gates.rows import open_row_gate, rows_left

if TYPE_CHECKING:
    from everhold.asking.session import GateTerms
    from everhold.gates.gate import Gate
    from everhold.gates.records import GateAccount
    from everhold.ledger import Head
    from everhold.ledger.acts import EntryCounts


class HoldoutGates(HoldoutAccessor):
    """The gates of a holdout: `holdout.gates`."""

    def named(self, name: str, metric: Any, *, champion: Any, **terms: Unpack[GateTerms]) -> Gate:
        """Return the gate called ``name``. A gate that does not exist yet is opened first."""
        given: dict[str, Any] = {**terms}
        claimed = given.get("better") is not None or given.get("any_of") is not None
        if metric is None and (claimed or self._is_about_cases(name)):
            from everhold.gates.cases.opening import CaseRules, open_case_gate

            given.pop("training", None)
            baseline = given.pop("baseline", None)
            rules = CaseRules(name=name, **given)
            return open_case_gate(self._executor, self._folder, rules, champion=champion, baseline=baseline)
        claims = {claim: given.pop(claim) for claim in CaseClaims.__annotations__ if claim in given}
        if others := [claim for claim, value in claims.items() if value is not None]:
            raise TypeError(f"{others[0]} is only for gates about cases. Pass better= or any_of= with it.")
        return open_row_gate(self._executor, self._folder, name, metric, champion=champion, **given)

    def _is_about_cases(self, name: str) -> bool:
        """Return whether a gate of this name exists and is about cases."""
        ledger = self._executor.ledger
        for read in (ledger.latest, ledger.head):
            if (gate := read().accounts.of(Gates).by_name.get(name)) is not None:
                return not gate.about_rows
        return False

    def status_facts(self, head: Head) -> dict[str, Any]:
        """Return the public facts of all gates, for `Holdout.status`."""
        gates = [
            {**described_gate(gate), **self._waiting(gate)} for gate in head.accounts.of(Gates).by_name.values()
        ]  # fmt: skip
        return {"gates": gates} if gates else {}

    def _waiting(self, gate: GateAccount) -> dict[str, int]:
        """Return the number of arrived rows for which the champion has no values, by name, if rows arrive."""
        grown = self._executor.growth is not None and gate.about_rows
        return {"rows_left": rows_left(gate, self._executor)} if grown else {}

    def certificate_facts(self, head: Head, counts: EntryCounts) -> dict[str, Any]:
        """Return all gates with their promotions, for the certificate."""
        gates = certified_gates(head.accounts, counts.promotions, completions_of(self._executor, head.accounts))
        return {"gates": gates} if gates else {}
