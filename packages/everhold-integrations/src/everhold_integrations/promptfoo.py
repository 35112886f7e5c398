"""Reads results of promptfoo, in JSON or JSONL, as runs of cases."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.gates.files import CaseRun

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CRASHED = 2  # failureReason of promptfoo: the provider or the test itself failed, and no assertion did


def promptfoo_runs(results: Any) -> Iterator[CaseRun]:
    """Yield the runs in promptfoo's results: ``passed``, ``score``, ``cost``, ``latency`` (seconds), named scores.

    Cases are named by their description and variables.

    Args:
        results: The document of a JSON file, or the lines of a JSONL file by their numbers.

    Raises:
        ValueError: If these are no results of promptfoo.
        QueryRejected: If they are of several providers.
    """
    if "results" in results:
        found = results["results"]
        rows = found["results"] if isinstance(found, dict) else found
        if not isinstance(rows, list):
            raise ValueError
        places = [f"row {number}" for number in range(1, len(rows) + 1)]
    else:
        rows, places = list(results.values()), [f"line {number}" for number in results]
    arms = {json.dumps([row.get("provider"), row.get("promptIdx")], sort_keys=True) for row in rows}
    if len(arms) > 1:
        raise QueryRejected(
            f"The promptfoo results are of {len(arms)} providers or prompts, and a challenger is a single one. Run "
            "promptfoo for one, with --filter-providers."
        )
    runs: Counter[str] = Counter()
    tests: dict[str, str] = {}
    seen: dict[str, int] = {}
    for number, (place, row) in enumerate(zip(places, rows, strict=True)):
        test = row.get("testCase") or {}
        variables, described = row.get("vars") or test.get("vars") or {}, test.get("description")
        if not (described is None or isinstance(described, str)):
            raise QueryRejected(f"The description of test {number + 1} is {brief(described)}. Expected a text.")
        written = json.dumps(variables, sort_keys=True, ensure_ascii=False)
        case = " ".join(filter(None, (described, written if variables or not described else "")))
        whole = json.dumps({**test, "vars": variables}, sort_keys=True)
        fault, why = _promptfoo_fault(row)
        if fault is None and tests.setdefault(case, whole) != whole:
            fault, why = "doubled", "with other assertions or options"
        identity = ("id", row["id"]) if row.get("id") is not None else ("test", row.get("testIdx"))
        for key in (json.dumps(identity), json.dumps(row, sort_keys=True)):
            if fault is None and key != '["test", null]' and seen.setdefault(key, number) != number:
                fault, why = "doubled", f"the same run as {places[seen[key]]}"
        index = row.get("testIdx")
        if fault is None and index is not None and seen.setdefault(json.dumps(["test", index]), number) != number:
            fault, why = "doubled", f"test {brief(index)} is also {places[seen[json.dumps(['test', index])]]}"
        runs[case] += 1
        latency = row.get("latencyMs")
        measured = {**(row.get("namedScores") or {}), "score": row.get("score"), "cost": row.get("cost"),
                    "latency": latency / 1000.0 if isinstance(latency, (int, float)) else latency}  # fmt: skip
        metrics = {} if fault else {"passed": int(_promptfoo_passed(row)), **measured}
        yield CaseRun(case, place, metrics, runs[case], fault, why)


def _promptfoo_passed(row: Mapping[str, Any]) -> Any:
    """Return the field that says whether the assertions of a row held. It may be of any type."""
    return row["success"] if "success" in row else (row.get("gradingResult") or {}).get("pass")


def _promptfoo_fault(row: Mapping[str, Any]) -> tuple[str | None, str]:
    """Return the kind of fault for which a row has no outcome, as a key of `REFUSED`, and the row's text about it."""
    response, passed, graded = row.get("response") or {}, _promptfoo_passed(row), row.get("gradingResult") or {}
    told = response if isinstance(response, dict) else {}
    tokens = [each.get("tokenUsage") for each in (row, told)]
    cached = [each.get("cached") for each in (row, told, *tokens) if isinstance(each, dict)]
    if any(cached):
        return "copied", ""
    reason = row.get("failureReason")
    if (
        reason == _CRASHED
        or told.get("error")
        or (row.get("error") and (passed is True or (reason is None and not graded)))
    ):
        return "crashed", str(told.get("error") or row.get("error") or "")[:80]
    if not isinstance(passed, bool):
        return "broken", f"its success is {brief(passed)}"
    if isinstance(graded.get("pass"), bool) and graded["pass"] is not passed:
        return "broken", "its success is not that of its grading"
    return None, ""
