"""Six tools with which an agent challenges a gate about cases: it runs cases and reports results, to the verdict.

Every result and every refusal names the next call. An agent that follows it is never stuck, even if it forgot the
challenger's name or another challenge is open.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from everhold.errors import EverholdError, QueryRejected
from everhold.gates.results import cases_and_runs
from everhold.suites import is_suite
from everhold_server.mcp.tools import GateName, gate_named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.gates.gate import Gate
    from everhold.gates.open_challenge import OpenChallenge
    from everhold.holdout import Holdout

INSTRUCTIONS = """A sealed suite proves which of your versions is better. Every reply and refusal names the next call.
1. describe: what is compared, how many runs each case needs, and which cases are open to climb on.
2. worth_asking with results on open cases, where there are some. yes: go on. no: improve the version. never: stop.
3. open_challenge with the name of a finished version: it hands out cases. Run exactly these.
4. report their results under that name. Go on with the cases of each reply until it has none, also after a verdict.
5. promoted: your version is the champion, go on from it. kept: nothing is proved, go back to the champion."""

_PARTS = 4  # in which cases are handed out by default
_AGAIN = "call open_challenge with the name of another version"


class SuiteOutput(TypedDict):
    """The tool's reply."""

    says: str
    next: Annotated[str, Field(description="What to call next.")]
    verdict: Annotated[str | None, Field(description="Null while a challenge goes on.")]
    cases: Annotated[list[str], Field(description="Cases to run now.")]
    left: Annotated[dict[str, int], Field(description="Budget.")]
    facts: dict[str, Any]


Challenger = Annotated[str, Field(description="Name of your finished version, such as its commit.")]
Results = Annotated[
    dict[str, list[Any]],
    Field(description="By case the list of its runs: {metric: number}, or a number if there is one metric. Null if it "
          "crashed."),
]  # fmt: skip
NewResults = Annotated[
    dict[str, list[Any]] | None,
    Field(description="That version's results on these cases, if run anew. Else known ones count."),
]


class CaseTools:
    """Tools of an agent at gates about cases.

    Args:
        holdout: The holdout, opened for the analyst as whom the agent acts.
    """

    def __init__(self, holdout: Holdout) -> None:
        self._holdout = holdout

    def describe(self, gate: GateName = None) -> SuiteOutput:
        """Say what is compared and promised, how many runs a case needs, and which cases are open. Call this first."""
        found = self._gate(gate)
        status, suite = found.status(), found.suite
        told = {name: status[name] for name in ("gate", "metric", "margin", "population", "runs", "missing")}
        sure = f"all verdicts hold at once with probability {status['confidence']:.4g}"
        told |= {"sealed_cases": len(suite.ids), "promise": sure}
        told["metrics"] = {name: [low, high] for metric in suite.metrics for name, low, high in metric.ranges}
        cases = [str(case) for case in found.open_cases]
        told["champion"] = self._champion(found)
        sees = status["sees_open"]
        least = "" if sees is None else f"The next challenge can prove a gain of {sees:.3g} or more. "
        says = f"{status['metric']}, on {status['results']}. {least}{len(cases)} cases are open"
        return self._reply(found, says, self.advice(gate), cases=cases, facts=told)

    def worth_asking(
        self, challenger: Challenger, results: Results, gate: GateName = None, champion: NewResults = None
    ) -> SuiteOutput:  # fmt: skip
        """Say from results on all open cases whether a challenge is worth its place. Free."""
        found = self._gate(gate)
        known = {"champion": self._known(found, champion), "challenger": challenger}
        told = found.worth_asking(self._known(found, results), **known)
        steps = {
            "yes": "call open_challenge with the name of this version",
            "no": "improve your version on the open cases and call worth_asking again",
            "never": "stop, and tell whoever sealed the suite that it needs more sealed cases",
        }
        step = steps[told.verdict] if self._lacking(found) is None else self.advice(gate)
        return self._reply(found, told.explain(), step, verdict=told.verdict, facts=told.to_rows()[0])

    def open_challenge(
        self, challenger: Challenger, gate: GateName = None,
        batch: Annotated[int | None, Field(description="Cases at a time (a quarter of all by default).")] = None,
    ) -> SuiteOutput:  # fmt: skip
        """Challenge the champion with a finished version, and get the first cases to run.

        It costs a query, another at the verdict, and a surprise if promoted. With the same name, the same challenge
        continues.
        """
        found = self._gate(gate)
        usual = math.ceil(len(found.suite.ids) / _PARTS)
        return self._after(found, found.open(challenger, batch=usual if batch is None else batch), "")

    def report(
        self, challenger: Challenger, results: Results, gate: GateName = None, champion: NewResults = None,
        baseline: NewResults = None,
    ) -> SuiteOutput:  # fmt: skip
        """Report the cases that were handed out, and get the next ones or the verdict.

        If you ran the champion yourself, run it anew on these cases and pass them as champion; where there are guards,
        the first champion as baseline.
        """
        found = self._gate(gate)
        opened = self._opened(found, challenger)
        given, *others = (self._known(found, each) for each in (results, champion, baseline))
        if opened.cases_left():
            opened.complete(given, baseline=others[1])
            return self._after(found, opened, "the champion has results for all cases")
        return self._after(found, opened, str(opened.report(given, champion=others[0], baseline=others[1])))

    def withdraw(self, challenger: Challenger, gate: GateName = None) -> SuiteOutput:
        """End an open challenge as kept, so that the gate takes others. Its surprise comes back."""
        found = self._gate(gate)
        opened = self._opened(found, challenger)
        opened.withdraw()
        return self._after(found, opened, "")

    def status(self, gate: GateName = None) -> SuiteOutput:
        """Say what is open, which cases to run now, and what is left. Free."""
        found = self._gate(gate)
        status = found.status()
        status["champion"] = self._champion(found)
        if (name := status.get("open_challenge", {}).get("challenger")) is not None:
            return self._after(found, self._opened(found, name), f"the challenge {name!r} is open", facts=status)
        if (lacking := self._lacking(found)) is not None:
            return self._after(found, lacking, f"the champion {lacking.challenger!r} lacks cases", facts=status)
        says = f"{status['promotions']} of {status['challenges']} challenges were promoted"
        return self._reply(found, says, self.advice(gate), facts=status)

    def advice(self, gate: str | None = None) -> str:
        """Return a sentence with the next call for an agent, from public facts and the agent's own challenges."""
        try:
            found = self._gate(gate)
            status = found.status()
            if (name := status.get("open_challenge", {}).get("challenger")) is not None:
                count = len(self._opened(found, name).next_cases())
                return f"call report with challenger {name!r} and its {count} cases, which status lists, or withdraw it"
            if status["open"]:
                return "another agent's challenge is open: call status until it has ended"
            if self._holdout.status()["closed"] or not all(status["remaining"].values()) or not status["provable"]:
                return "stop, because no further challenge can be proved or paid for, and ask the steward"
            if (lacking := self._lacking(found)) is not None:
                return f"call report with challenger {lacking.challenger!r}, the champion, and the cases of status"
            return "call worth_asking with results on the open cases" if found.open_cases else _AGAIN
        except EverholdError:
            if not is_suite(self._holdout):  # whose describe has no argument
                return "call describe, which names the gates"
            gates = ", ".join(repr(each["gate"]) for each in self._holdout.status().get("gates", []))
            return f"call describe with a gate, one of {gates or 'none yet'}"

    def _after(
        self, gate: Gate, opened: OpenChallenge, says: str, facts: Mapping[str, Any] | None = None
    ) -> SuiteOutput:
        """Return the tool's reply about an open or ended challenge, with the next cases to run."""
        verdict, left = opened.verdict, opened.cases_left()
        cases = [str(case) for case in (left or opened.next_cases())]
        report = f"run these cases and call report with challenger {opened.challenger!r}"
        step = report if cases else self.advice(gate.name)
        if left:
            step = f"this version is the champion, which has to have run all cases: {step}"
        word = None if verdict is None else verdict.to_dict()["verdict"]
        says = says or (f"run {cases_and_runs(len(cases), gate.suite.runs)}" if verdict is None else str(verdict))
        return self._reply(gate, says, step, verdict=word, cases=cases, facts=facts or {})

    def _reply(self, gate: Gate, says: str, step: str, **more: Any) -> SuiteOutput:
        left = dict(gate.status()["remaining"])
        return {"verdict": None, "cases": [], "facts": {}, "left": left, "says": says, "next": step, **more}  # type: ignore[typeddict-item]

    def _opened(self, gate: Gate, challenger: str) -> OpenChallenge:
        found = gate.find_open(challenger)
        if found is None:
            raise QueryRejected(
                f"There is no open challenge of the challenger {challenger!r}. Open one with open_challenge first."
            )
        return found

    def _lacking(self, gate: Gate) -> OpenChallenge | None:
        """Return the champion's own challenge, if this agent made it and the champion lacks results, else None."""
        try:
            return self._opened(gate, self._champion(gate)) if gate.cases_left() else None
        except QueryRejected:
            return None

    def _champion(self, gate: Gate) -> str:
        """Return the champion's name, or its digest if it has no name."""
        champion: str = gate.champion
        return self._holdout.ledger.model_names().get(champion, champion)

    def _known(self, gate: Gate, results: Any) -> Any:
        """Return results by the holdout's own ids of cases. In JSON, all ids are texts."""
        ids = {str(case): case for case in (*gate.suite.ids, *gate.open_cases)}
        return None if results is None else {ids.get(case, case): runs for case, runs in results.items()}

    def _gate(self, name: str | None) -> Gate:
        found: Gate = gate_named(self._holdout, name, cases=True)
        return found
