"""Operations: each thing that can be done with a holdout, written once, as a frozen dataclass.

Its fields with their help are the arguments, its docstring is the help, its result is a dataclass or a table. The
methods of `everhold.holdout.Holdout`, the commands, the routes of the HTTP API, the tools of agents and the client are
derived from it. Read `operation`, then `transport`, then one of the others.

A distribution adds an operation by an entry point of the group ``everhold.operations`` with the operation's name.
"""

from __future__ import annotations

from typing import Any

from everhold.extensions import Registry
from everhold.operations.operation import HoldoutOperation

__all__ = ["OPERATIONS"]

_HOMES = {
    "accounts": {
        "allot": "Allot", "allotments": "ListAllotments", "declare": "Declare", "families": "ListFamilies",
        "unseal": "Unseal", "affected_holdouts": "AffectedHoldouts",
    },
    "arrivals": {
        "append": "Append", "list_arrivals": "ListArrivals", "over_time": "AskOverTime", "drift": "CompareArrival",
        "retire": "Retire",
    },
    "asking": {"quote": "QuoteQuery", "ask": "Ask", "ask_many": "AskMany"},
    "gates": {
        "gates": "ListGates", "history": "ReadHistory", "open_gate": "OpenGate", "challenge": "ChallengeChampion",
        "complete": "Complete", "open_case_gate": "OpenCaseGate", "send_results": "SendResults",
        "open_challenge": "StartChallenge", "next_cases": "NextCases", "report": "Report", "withdraw": "Withdraw",
        "cases_left": "ListCasesLeft", "complete_results": "CompleteResults",
    },
    "reports": {
        "status": "ReadStatus", "promise": "ReadPromise", "promised": "ReadPromised", "remaining": "ReadRemaining",
        "planned": "ReadPlanned", "transcript": "ReadTranscript", "certificate": "Certify",
    },
}  # fmt: skip


def _check(name: str, kind: Any) -> str:
    if not (isinstance(kind, type) and issubclass(kind, HoldoutOperation)):
        return "expected a subclass of everhold.operations.operation.HoldoutOperation"
    return "" if kind.verb == name else f"it calls itself {kind.verb!r}"


OPERATIONS: Registry[type[HoldoutOperation[Any]]] = Registry(
    "everhold.operations",
    {name: f"everhold.operations.{home}:{kind}" for home, kinds in _HOMES.items() for name, kind in kinds.items()},
    _check,
)
"""All operations by name, everhold's own and those of installed distributions."""
