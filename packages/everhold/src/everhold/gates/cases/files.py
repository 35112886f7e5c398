"""Files of results: JUnit XML, promptfoo JSON and CSV become runs of cases, and `outcomes` says which runs count.

A row of a file need not be a run: a test may not have run, it may have crashed, passed at a retry, or been copied from
a cache. Each reader makes a `CaseRun` of each row and says what it is. `outcomes` is the one place that decides: only a
run that passed, failed or was measured counts, and each run counts once. Everything else is refused by name, because a
champion would be compared with something that never happened.

Files may come from strangers. XML is read by events, and a document type or an entity is refused. Size, depth, rows and
columns are limited.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

from everhold.arguments import brief
from everhold.errors import CaseRejected, QueryRejected
from everhold.gates.cases.results import CASE, RUN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

__all__ = ["REFUSED", "CaseRun", "outcomes", "read_case_file"]

PASSED, DURATION = "passed", "duration"
"""Metrics of JUnit files: 1 or 0, and seconds."""

REFUSED = {
    "skipped": ("did not run", "Run it, or leave it out of the suite."),
    "crashed": ("crashed", "Run it again. Only a failed assertion is a failure."),
    "retried": ("was retried", "Run each test once, without retries."),
    "copied": ("is a copy from a cache", "Run it again without a cache (promptfoo eval --no-cache)."),
    "doubled": (
        "is there twice", "Give different tests different names. Number the runs of one test in a column 'run'."
    ),
    "broken": ("cannot be read", "Write the file again."),
}  # fmt: skip
"""Runs that are no outcomes: by the fault, what a message says and what helps."""

_MOST_BYTES = 64 * 2**20
_MOST_DEPTH = 64
_MOST_ROWS, _MOST_COLUMNS = 250_000, 200
_MOST_OBJECTS = 2_500_000  # of a JSON file
_MOST_NAMED = 3  # runs that a message names


@dataclass(frozen=True, slots=True)
class CaseRun:
    """A row of a file of results.

    Attributes:
        case: Id of the case.
        where: Its place in the file, such as "line 7".
        metrics: Numbers by name; empty for a run that is refused.
        run: What tells it from other runs of the case; None where the file names no runs.
        fault: A key of `REFUSED`; None for an outcome.
        why: What the file says about the fault.
    """

    case: Any
    where: str
    metrics: Mapping[str, Any] = field(default_factory=dict)
    run: Any = None
    fault: str | None = None
    why: str = ""


def outcomes(runs: Iterable[CaseRun]) -> dict[str, list[Any]]:
    """The table of runs that are outcomes, each once; see `everhold.gates.cases.results`.

    Raises:
        CaseRejected: If a run is no outcome, or is there twice. Nothing was charged.

    Examples:
        >>> outcomes([CaseRun("a", "line 2", {"passed": 1}), CaseRun("b", "line 3", {"passed": 0})])
        {'case': ['a', 'b'], 'passed': [1, 0]}
        >>> outcomes([CaseRun("a", "line 2", fault="skipped", why="its status is 'notrun'")])
        Traceback (most recent call last):
        everhold.errors.CaseRejected: Of 1 runs 1 is refused: case 'a' (line 2) did not run, its status is 'notrun'. ...
    """
    found: list[CaseRun] = []
    refused: list[tuple[CaseRun, str, str]] = []
    seen: dict[tuple[Any, Any], str] = {}
    for run in runs:
        if run.fault is not None:
            refused.append((run, run.fault, run.why))
        elif (place := (run.case, None if run.run is None else str(run.run))) in seen:
            which = "" if run.run is None else f"run {brief(run.run)} "
            refused.append((run, "doubled", f"{which}also at {seen[place]}"))
        else:
            seen[place] = run.where
            found.append(run)
    if refused:
        first, fault, _ = refused[0]
        named = [
            f"case {brief(run.case)} ({run.where}) {REFUSED[each][0]}{f', {why}' if why else ''}"
            for run, each, why in refused[:_MOST_NAMED]
        ]
        left = len(refused) - len(named)
        more = f", and {left} more" if left else ""
        raise CaseRejected(
            f"Of {len(found) + len(refused)} runs {len(refused)} {'is' if len(refused) == 1 else 'are'} refused: "
            f"{', '.join(named)}{more}. {REFUSED[fault][1]}",
            case=first.case, fault=fault,
        )  # fmt: skip
    names = list(dict.fromkeys(name for run in found for name in run.metrics))
    numbered = {RUN: [run.run for run in found]} if any(run.run is not None for run in found) else {}
    return {
        CASE: [run.case for run in found], **numbered,
        **{name: [run.metrics.get(name) for run in found] for name in names},
    }  # fmt: skip


def read_case_file(path: str | Path, *, kind: str | None = None) -> dict[str, list[Any]]:
    """Read the results of a file as a table.

    Args:
        path: ``*.xml`` is JUnit, with the metrics ``passed`` and ``duration`` (seconds) of cases that are named by
            suite, class and test. ``*.json`` is promptfoo, with ``passed``, ``score``, ``cost`` and ``latency``
            (seconds) of cases that are named by their description and variables. ``*.csv`` has a column ``case``,
            a column ``run`` where a case has several, and a metric in each other column.
        kind: ``".xml"``, ``".json"`` or ``".csv"``; by default the ending of the path.

    Raises:
        QueryRejected: If it is none of these. Nothing was charged.
        CaseRejected: If a run is no outcome; see `outcomes`. Nothing was charged.
    """
    path = Path(path)
    readers: dict[str, Callable[[bytes], Iterable[CaseRun]]] = {".xml": _junit, ".json": _promptfoo, ".csv": _csv}
    kind = path.suffix.lower() if kind is None else kind
    reader = readers.get(kind)
    if reader is None:
        raise _unreadable(path, "Pass a .xml (JUnit), .json (promptfoo) or .csv file.")
    if path.exists() and not path.is_file():
        raise _unreadable(path, "It is no regular file. Write the results to one first.")
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise _unreadable(path, f"It has more than {_MOST_BYTES // 2**20} MiB. Leave out what the suite does not need.")
    runs: list[CaseRun] = []
    try:
        for run in reader(content):
            runs.append(run)
            if len(runs) > _MOST_ROWS:
                raise _unreadable(
                    path, f"It has more than {_MOST_ROWS:,} runs. Leave out what the suite does not need."
                )
        if not runs:
            raise _unreadable(path, "It has no results. Expected at least one case.")
        return outcomes(runs)
    except (
        expat.ExpatError, csv.Error, ValueError, LookupError, TypeError, AttributeError, RecursionError, MemoryError,
    ) as fault:  # fmt: skip
        if isinstance(fault, QueryRejected):
            raise
        raise _unreadable(path, f"It is not well-formed {kind[1:].upper()} with results of cases.") from None


def _unreadable(path: Path, why: str) -> QueryRejected:
    return QueryRejected(f"The file {brief(path.name)} cannot be used. {why}")


def _duration(text: str | None) -> Any:
    """Seconds; None where there are none, and the text as it is where it is no number."""
    if not text:
        return None
    plain = text.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d*)?", text) else text
    return float(plain) if re.fullmatch(r"\d+\.?\d*([eE][-+]?\d+)?|\.\d+", plain) else text


_WORDS = {
    **dict.fromkeys(("", "run", "completed", "executed"), None),
    **dict.fromkeys(("passed", "pass", "success", "successful", "ok"), 1),
    **dict.fromkeys(("failed", "fail", "failure"), 0),
}
"""What the attributes status, result and outcome say of a test that ran: passed, failed, or nothing about it."""

_NOT_RUN = {
    **dict.fromkeys(("error", "errored", "crashed", "crash", "timeout", "timedout", "timed out", "aborted"), "crashed"),
    **dict.fromkeys(
        ("skipped", "skip", "notrun", "not run", "not_run", "disabled", "suppressed", "suspended", "ignored", "pending",
         "inconclusive", "xfail", "xfailed", "xpass", "xpassed", "cancelled", "canceled"), "skipped",
    ),
}  # fmt: skip
"""What they say of a test that did not run to its end, and the fault; JUnit has it for all other words, too."""

_TRIED_AGAIN = ("retries", "retry", "retried", "attempts", "reruns", "flaky")
_NO = ("", "0", "false", "no", "none")
_ASSERTION = re.compile(
    r"assert|expectation|comparisonfail|conditionnotsatisfied|multiplefail|^failed$|^failure$", re.IGNORECASE
)
_EXCEPTION = re.compile(r"(Error|Exception|Exit|Interrupt(ed)?|Timeout|Expired|Fault|Panic|Abort(ed)?|Refused|Killed)$")
_CRASH = re.compile(
    r"\b(timed?[ -]?out|abort(ed)?|signal|sig(segv|abrt|kill|term|bus|ill|fpe|trap|int)|seg(mentation )?fault|killed|"
    r"crash(ed)?)\b",
    re.IGNORECASE,
)
_HEAD = re.compile(r"\s*([A-Za-z_][\w.$\\]*)\s*(?::|$)")
_PYTHON_TAIL = re.compile(r"\.py:\d+: ([A-Za-z_][\w.]*)\s*$")
_LONGEST_MESSAGE = 4096


def exception_in(kind: str, message: str, text: str) -> str | None:
    r"""Name of what a failure of a test was, if that was no assertion; None for a failed assertion.

    Some tools write every exception as a failure, so an outage looks like a wrong answer. The name is in the type, at
    the start of the message or text, or at the end of a traceback of Python.

    Examples:
        >>> exception_in("java.net.ConnectException", "refused", ""), exception_in("AssertionError", "1 != 2", "")
        ('ConnectException', None)
        >>> exception_in("", "down", "E   down\ntest_a.py:3: Boom"), exception_in("", "assert 1 == 2", "")
        ('Boom', None)
    """
    found = ["" if kind.lower() in ("failure", "failed") else kind.strip()]
    for words in (message, text):
        if head := _HEAD.match(words):
            found.append("assertion" if head[1] == "Error" and "expect(" in words[:400] else head[1])
    names = ["assertion" if name.startswith("Xunit.Sdk.") else re.split(r"[.\\$:]", name)[-1] for name in found]
    named = [name for name in names if _ASSERTION.search(name) or _EXCEPTION.search(name)]
    if tail := _PYTHON_TAIL.search(text):
        named.insert(0, tail[1].rpartition(".")[2])
    if named:
        return None if any(map(_ASSERTION.search, named)) else named[0]
    short = message if len(message.split()) <= 3 else ""  # a state such as "Timeout", not a sentence
    crash = _CRASH.search(kind) or _CRASH.search(short)
    return crash[0] if crash else None


def _junit(content: bytes) -> list[CaseRun]:
    reader = _JUnit()
    parser = reader.parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler = reader.characters
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = _refuse_declarations
    parser.Parse(content, True)
    return reader.runs


def _refuse_declarations(*_: Any) -> None:
    raise QueryRejected("The XML file declares a document type or an entity. Pass plain JUnit results.")


class _JUnit:
    """The test cases of a JUnit file, while it is read."""

    def __init__(self) -> None:
        self.runs: list[CaseRun] = []
        self.parser: Any = None
        self._tags: list[str] = []
        self._suites: list[str] = []
        self._case: dict[str, str] | None = None
        self._faults: list[tuple[str, str]] = []
        self._failures: list[tuple[str, str]] = []
        self._text = ""
        self._run: str | None = None

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """A suite, a test case, or what became of it."""
        name, parent = tag.rpartition(" ")[2], self._tags[-1] if self._tags else ""
        self._tags.append(name)
        if len(self._tags) > _MOST_DEPTH:
            raise ValueError
        if name == "testsuite":
            self._suites.append(attributes.get("name", ""))
        elif name == "testcase":
            if self._case is not None:
                raise ValueError
            self._case, self._faults, self._failures, self._run = attributes, [], [], None
        elif name in ("failure", "error") and self._case is None:
            raise QueryRejected(
                f"The suite {brief((self._suites or [''])[-1])} reports an error outside of its cases (line "
                f"{self.parser.CurrentLineNumber}). Run it again."
            )
        elif parent == "testcase":
            if name == "failure":
                self._failures.append((attributes.get("type", ""), attributes.get("message", "")))
                self._text = ""
            elif name.lower().startswith(("flaky", "rerun", "retr")):
                self._faults.append(("retried", f"as <{name}> says"))
            elif name == "error":
                self._faults.append(("crashed", (attributes.get("type") or attributes.get("message") or "")[:80]))
            elif name in ("skipped", "disabled", "ignored", "notrun", "not-run", "pending"):
                self._faults.append(("skipped", (attributes.get("message") or f"as <{name}> says")[:80]))
        elif name == "property" and parent == "properties" and self._case is not None and attributes.get("name") == RUN:
            self._run = attributes.get("value")

    def characters(self, text: str) -> None:
        """Text of a failure; its start and its end tell what failed."""
        if self._tags[-1] == "failure" and self._case is not None:
            whole = self._text + text
            self._text = whole if len(whole) <= _LONGEST_MESSAGE else whole[:500] + whole[-500:]

    def end(self, tag: str) -> None:
        """The end of an element."""
        name = self._tags.pop()
        if name == "testsuite":
            self._suites.pop()
        elif name == "failure" and self._tags[-1] == "testcase":
            found = exception_in(*self._failures[-1], self._text)
            if found is not None:
                self._faults.append(("crashed", f"its failure is {brief(found)} and no assertion"))
        elif name == "testcase":
            self._finish(self._case or {})
            self._case = None

    def _finish(self, attributes: Mapping[str, str]) -> None:
        parts = [*self._suites, attributes.get("classname", ""), attributes["name"]]
        case = "::".join(part for place, part in enumerate(parts) if part and part not in parts[:place])
        passed = 0 if self._failures else 1
        for name in ("status", "result", "outcome"):
            word = attributes.get(name, "").strip().lower()
            if word not in _WORDS:
                self._faults.append((_NOT_RUN.get(word, "skipped"), f"its {name} is {brief(attributes[name])}"))
            elif _WORDS[word] == 0:
                passed = 0
            elif _WORDS[word] == 1 and self._failures:
                self._faults.append(("retried", f"its {name} is {brief(attributes[name])} beside a failure"))
        for name in _TRIED_AGAIN:
            if attributes.get(name, "").strip().lower() not in (*_NO, *(("1",) if name == "attempts" else ())):
                self._faults.append(("retried", f"its {name} is {brief(attributes[name])}"))
        for name, no in (("skipped", _NO), ("disabled", _NO), ("executed", ("true", "1", "yes", ""))):
            if attributes.get(name, "").strip().lower() not in no:
                self._faults.append(("skipped", f"its {name} is {brief(attributes[name])}"))
        fault, why = self._faults[0] if self._faults else (None, "")
        metrics = {PASSED: passed, DURATION: _duration(attributes.get("time"))}
        where = f"test case {len(self.runs) + 1}"
        self.runs.append(CaseRun(case, where, metrics, self._run, fault, why))


_CRASHED = 2  # failureReason of promptfoo: the provider or the test itself failed, and no assertion did


def _promptfoo(content: bytes) -> Iterator[CaseRun]:
    if content.count(b"{") > _MOST_OBJECTS:
        raise QueryRejected(f"The JSON file has more than {_MOST_OBJECTS:,} objects. Pass results of promptfoo alone.")
    document = json.loads(content, object_pairs_hook=_once, parse_constant=_refuse_constant)
    found = document["results"]
    rows = found["results"] if isinstance(found, dict) else found
    if not isinstance(rows, list):
        raise ValueError
    arms = {json.dumps([row.get("provider"), row.get("promptIdx")], sort_keys=True) for row in rows}
    if len(arms) > 1:
        raise QueryRejected(
            f"The promptfoo results are of {len(arms)} providers or prompts, and a challenger is one. Run promptfoo "
            "with --filter-providers."
        )
    runs: Counter[str] = Counter()
    tests: dict[str, str] = {}
    seen: dict[str, int] = {}
    for number, row in enumerate(rows, 1):
        test = row.get("testCase") or {}
        variables, described = row.get("vars") or test.get("vars") or {}, test.get("description")
        if not (described is None or isinstance(described, str)):
            raise QueryRejected(f"The description of test {number} is {brief(described)}. Expected a text.")
        written = json.dumps(variables, sort_keys=True, ensure_ascii=False)
        case = " ".join(filter(None, (described, written if variables or not described else "")))
        whole = json.dumps({**test, "vars": variables}, sort_keys=True)
        fault, why = _promptfoo_fault(row)
        if fault is None and tests.setdefault(case, whole) != whole:
            fault, why = "doubled", "with other assertions or options"
        identity = ("id", row["id"]) if row.get("id") is not None else ("test", row.get("testIdx"))
        for key in (json.dumps(identity), json.dumps(row, sort_keys=True)):
            if fault is None and key != '["test", null]' and seen.setdefault(key, number) != number:
                fault, why = "doubled", f"the same run as row {seen[key]}"
        index = row.get("testIdx")
        if fault is None and index is not None and seen.setdefault(json.dumps(["test", index]), number) != number:
            fault, why = "doubled", f"test {brief(index)} is also row {seen[json.dumps(['test', index])]}"
        runs[case] += 1
        latency = row.get("latencyMs")
        measured = {"score": row.get("score"), "cost": row.get("cost"),
                    "latency": latency / 1000.0 if isinstance(latency, (int, float)) else latency}  # fmt: skip
        metrics = {} if fault else {PASSED: int(_promptfoo_passed(row)), **measured}
        yield CaseRun(case, f"row {number}", metrics, runs[case], fault, why)


def _promptfoo_passed(row: Mapping[str, Any]) -> Any:
    """Whether the assertions held: True or False, or what is written there."""
    return row["success"] if "success" in row else (row.get("gradingResult") or {}).get("pass")


def _promptfoo_fault(row: Mapping[str, Any]) -> tuple[str | None, str]:
    """Why a row is no outcome of a run: a key of `REFUSED`, and what the row says."""
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


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        name = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise QueryRejected(f"The JSON file has {brief(name)} twice in one object. Expected each name once.")
    return found


def _refuse_constant(name: str) -> Any:
    raise QueryRejected(f"The JSON file has the value {name}. Expected finite numbers.")


def _csv(content: bytes) -> Iterator[CaseRun]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise QueryRejected("The CSV file is not encoded in UTF-8. Write it again as UTF-8.") from None
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    names = next(lines, [])
    if CASE not in names:
        wide = next((sign for sign in (";", "\t") if sign in "".join(names)), None)
        if wide is not None:
            raise QueryRejected(f"The CSV file separates values by {wide!r}. Write commas, and points in numbers.")
        raise QueryRejected(f"The CSV file has no column {CASE!r}. Name the case ids so.")
    if len(names) > _MOST_COLUMNS:
        raise QueryRejected(f"The CSV file has {len(names):,} columns. Expected at most {_MOST_COLUMNS}.")
    if doubled := [name for name, times in Counter(names).items() if times > 1]:
        raise QueryRejected(f"The CSV file has the column {brief(doubled[0])} twice. Expected each column once.")
    for values in lines:
        if not values:
            continue
        if len(values) != len(names):
            raise QueryRejected(
                f"Line {lines.line_num} of the CSV file has {len(values)} values for {len(names)} columns. Expected "
                "one for each, and quotes around texts with commas."
            )
        row: dict[str, Any] = {name: None if value == "" else value for name, value in zip(names, values, strict=True)}
        case, run, where = row.pop(CASE), row.pop(RUN, None), f"line {lines.line_num}"
        if case is None or (RUN in names and run is None):
            raise QueryRejected(f"Line {lines.line_num} of the CSV file has no {RUN if case else CASE}. Name each.")
        fault, why = None, ""
        if str(row.pop("cached", None) or "").lower() not in _NO:
            fault, why = "copied", "as the column 'cached' says"
        for name in ("status", "result", "outcome"):
            if (word := str(row.get(name) or "").strip().lower()) in _NOT_RUN:
                fault, why = _NOT_RUN[word], f"its {name} is {brief(row[name])}"
        yield CaseRun(case, where, row, run, fault, why)
