"""Tools of an agent for a gate about cases: open_challenge, next_cases, report; only where there is such a gate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from everhold.errors import QueryRejected
from everhold_server.mcp.results import CasesOutput, ReportOutput

if TYPE_CHECKING:
    from everhold.asking.case_gate import CaseGate
    from everhold.asking.open_challenge import OpenChallenge
    from everhold.holdout import Holdout

Challenger = Annotated[
    str, Field(description="Name of your version, such as its commit. It must be finished before it is opened.")
]
GateName = Annotated[str, Field(description="Name of the gate.")]
Results = Annotated[
    dict[str, list[dict[str, float | None]]],
    Field(description="For each case that was handed out: one object of metrics for each run; null if a run crashed."),
]
NewResults = Annotated[
    dict[str, list[dict[str, float | None]]] | None,
    Field(description="The same for new runs of the champion, or of the baseline; null to use the stored ones."),
]


def has_cases(holdout: Holdout) -> bool:
    """True if one of the gates is about cases."""
    return any(gate["metric"].startswith("cases: ") for gate in holdout.status().get("gates", []))


class CaseTools:
    """Tools of an agent for gates about cases."""

    def __init__(self, holdout: Holdout) -> None:
        self._holdout = holdout

    def open_challenge(self, challenger: Challenger, gate: GateName = "main") -> CasesOutput:
        """Open a challenge that ends as early as is proved, and get the first cases to run.

        It takes one of the planned queries. Opened again under the same name, it goes on where it is.
        """
        return self._output(self._gate(gate).open(challenger))

    def next_cases(self, challenger: Challenger, gate: GateName = "main") -> CasesOutput:
        """Say which cases to run next; the same ones until they are reported. Free."""
        found = self._gate(gate)
        if not found.status()["open"]:
            raise QueryRejected("no challenge is open; expected open_challenge first")
        return self._output(found.open(challenger))

    def report(
        self, challenger: Challenger, results: Results, gate: GateName = "main", champion: NewResults = None,
        baseline: NewResults = None,
    ) -> ReportOutput:  # fmt: skip
        """Report the results of the cases that were handed out last: go on, promoted or kept.

        If you ran the present champion yourself, you know its stored results. Then run it anew on these cases and pass
        them as champion, and as baseline those of the first champion where the gate has guards.
        'promoted' is proved and costs a surprise; 'kept' promises nothing. No score and no failed claim is told.
        """
        found = self._gate(gate)
        if not found.status()["open"]:
            raise QueryRejected("no challenge is open; expected open_challenge first")
        reply = found.open(challenger).report(results, champion=champion, baseline=baseline)
        told = reply.verdict
        word = "go on" if told is None else "refused" if told.refused else "promoted" if told.promoted else "kept"
        left = dict(found.status()["remaining"])
        step = "run next_cases and report them" if told is None else "change your version and open a new challenge"
        return {"verdict": word, "reported": reply.reported, "left": left, "says": str(reply), "next": step}

    def _output(self, opened: OpenChallenge) -> CasesOutput:
        cases: list[Any] = opened.next_cases()
        says = f"run {len(cases)} cases" if cases else f"it has ended: {opened.verdict}"
        step = "run each of these cases as often as the champion was, then report" if cases else "open a new challenge"
        return {"cases": [str(case) for case in cases], "says": says, "next": step}

    def _gate(self, name: str) -> CaseGate:
        gate: Any = self._holdout.gate(name=name)
        if not hasattr(gate, "open"):
            raise QueryRejected(f"gate {name!r} is not about cases; expected challenge for it")
        return gate  # type: ignore[no-any-return]
