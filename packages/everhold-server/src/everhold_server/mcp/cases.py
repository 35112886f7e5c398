"""Tools of an agent for a gate about cases, from open_challenge to complete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from everhold.errors import QueryRejected
from everhold_server.mcp.results import CasesOutput, ReportOutput
from everhold_server.mcp.tools import GateName, gate_named

if TYPE_CHECKING:
    from everhold.gates.cases.open_challenge import OpenChallenge
    from everhold.gates.challenge import Verdict
    from everhold.gates.gate import Gate
    from everhold.holdout import Holdout

Challenger = Annotated[
    str, Field(description="Name of your version, such as its commit. It must be finished before it is opened.")
]
Results = Annotated[
    dict[str, list[dict[str, float | None]]],
    Field(description="For each case that was handed out: one object of metrics for each run; null if a run crashed."),
]
NewResults = Annotated[
    dict[str, list[dict[str, float | None]]] | None,
    Field(description="The same for new runs of the champion, or of the baseline; null to use the stored ones."),
]


_OPEN = "change your version and call open_challenge under a new name"


class CaseTools:
    """Tools of an agent for gates about cases."""

    def __init__(self, holdout: Holdout) -> None:
        self._holdout = holdout

    def open_challenge(self, challenger: Challenger, gate: GateName = None) -> CasesOutput:
        """Challenge a gate about cases with a version that ends as early as is proved, and get the first cases to run.

        It costs two of the planned queries, and a surprise if it is promoted; all of it is reserved now. Opened again
        under the same name, it goes on where it is. Only you and the steward can report for it or withdraw it.
        """
        found = self._gate(gate)
        return self._output(found, found.open(challenger))

    def next_cases(self, challenger: Challenger, gate: GateName = None) -> CasesOutput:
        """Say which cases to run next; the same ones until they are reported. Free."""
        return self._output(self._gate(gate), self._opened(challenger, gate))

    def report(
        self, challenger: Challenger, results: Results, gate: GateName = None, champion: NewResults = None,
        baseline: NewResults = None,
    ) -> ReportOutput:  # fmt: skip
        """Report the results of the cases that were handed out last: go on, promoted or kept.

        If you ran the present champion yourself, you know its stored results. Then run it anew on these cases and pass
        them as champion, and as baseline those of the first champion where the gate has guards.
        'promoted' is proved and costs a surprise; 'kept' promises nothing. No score and no failed claim is told.
        """
        reply = self._opened(challenger, gate).report(results, champion=champion, baseline=baseline)
        return self._ended(gate, reply.verdict, str(reply), reported=reply.reported)

    def withdraw(self, challenger: Challenger, gate: GateName = None) -> ReportOutput:
        """End an open challenge as kept, so that the gate takes others. Status names the one that is open.

        The two queries that it reserved stay spent; the surprise comes back.
        """
        verdict = self._opened(challenger, gate).withdraw()
        return self._ended(gate, verdict, str(verdict), reported=None)

    def cases_left(self, gate: GateName = None) -> CasesOutput:
        """Say which cases the champion has no results for, as it was promoted early or cases were added. Free."""
        cases = [str(case) for case in self._gate(gate).cases_left()]
        says = f"the champion has no results for {len(cases)} cases" if cases else "the champion has results for all"
        step = "run the champion on these cases and pass the results to complete" if cases else _OPEN
        return {"cases": cases, "says": says, "next": step}

    def _output(self, gate: Gate, opened: OpenChallenge) -> CasesOutput:
        cases: list[Any] = opened.next_cases()
        whole = gate.status()["results"]
        says = f"run {len(cases)} cases of {whole}" if cases else f"it has ended: {opened.verdict}"
        run = "run each of these cases as often as the champion was, then report"
        step = run if cases else self._after(gate, opened.verdict)
        return {"cases": [str(case) for case in cases], "says": says, "next": step}

    def _ended(self, gate: str | None, told: Verdict | None, says: str, *, reported: int | None) -> ReportOutput:
        """The reply to a report, or to the end of a challenge."""
        found = self._gate(gate)
        word = "go on" if told is None else "refused" if told.refused else "promoted" if told.promoted else "kept"
        step = "run next_cases and report them" if told is None else self._after(found, told)
        left = dict(found.status()["remaining"])
        return {"verdict": word, "reported": reported, "left": left, "says": says, "next": step}

    def _after(self, gate: Gate, told: Verdict | None) -> str:
        """What to do after a challenge has ended."""
        if told is not None and told.promoted and told.champion == gate.champion and gate.cases_left():
            return "run the cases of cases_left and pass the results to complete; then open_challenge again"
        return _OPEN

    def _opened(self, challenger: str, gate: str | None) -> OpenChallenge:
        """A challenge that is open, or was; none is opened here."""
        found = self._gate(gate).find_open(challenger)
        if found is None:
            raise QueryRejected(f"No challenge {challenger!r} is open. Call open_challenge first, or see status.")
        return found

    def _gate(self, name: str | None) -> Gate:
        found: Gate = gate_named(self._holdout, name, cases=True)
        return found
