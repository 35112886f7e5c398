"""Reads the test cases of a JUnit XML file as runs of cases.

Files may come from strangers. XML is read by events, and a document type or an entity is refused.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.gates.files import NOT_RUN, SAYS_NO, CaseRun, measured
from everhold.gates.results import RUN

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_DEPTH = 64
_PART = 2**16  # bytes that are parsed at once
_LONGEST_NAMES = 2**26  # characters of all names of cases, which repeat the names of their suites
_WORDS = {
    **dict.fromkeys(("", "run", "completed", "executed"), None),
    **dict.fromkeys(("passed", "pass", "success", "successful", "ok"), 1),
    **dict.fromkeys(("failed", "fail", "failure"), 0),
}
"""What the attributes status, result and outcome say of a test that ran: passed, failed, or nothing about it."""

_TRIED_AGAIN = ("retries", "retry", "retried", "attempts", "reruns", "flaky")
_ASSERTION = re.compile(
    r"assert|expectation|comparisonfail|conditionnotsatisfied|multiplefail|^failed$|^failure$", re.IGNORECASE
)
_EXCEPTION = re.compile(
    r"(Error|Exception|Exit|Interrupt(ed)?|Timeout|Expired|Fault|Panic|Abort(ed)?|Refused|Killed)(Group)?$"
)
_CRASH = re.compile(
    r"\b(timed?[ -]?out|abort(ed)?|signal|sig(segv|abrt|kill|term|bus|ill|fpe|trap|int)|seg(mentation )?fault|killed|"
    r"crash(ed)?)\b",
    re.IGNORECASE,
)
_HEAD = re.compile(r"\s*([A-Za-z_][\w.$\\<>]*)\s*(?::|$)")
_CLASS_OF_MODULE = re.compile(r"\.[A-Z]\w*$")
_PYTHON_TAIL = re.compile(r"\.py:\d+: ([A-Za-z_][\w.]*)\s*$")
_LONGEST_MESSAGE = 4096
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def exception_in(kind: str, message: str, text: str) -> str | None:
    r"""Return the name of the exception in a failure, or None for a failed assertion.

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
    if not named and (head := _HEAD.match(message)) and _CLASS_OF_MODULE.search(head[1]):  # as pytest writes exceptions
        named.append(names[1])
    if tail := _PYTHON_TAIL.search(text):
        named.insert(0, tail[1].rpartition(".")[2])
    if named:
        return None if any(map(_ASSERTION.search, named)) else named[0]
    short = message if len(message.split()) <= 3 else ""  # a state such as "Timeout", not a sentence
    crash = _CRASH.search(kind) or _CRASH.search(short)
    return crash[0] if crash else None


def junit_runs(content: bytes) -> Iterator[CaseRun]:
    """Yield the runs of a JUnit file: ``passed`` and ``duration`` (seconds) by suite, class and test.

    Properties of a test case that are numbers are metrics too, by their names.

    Raises:
        QueryRejected: If the content is not JUnit XML, declares a document type, or reports an error outside its cases.
    """
    reader = _JUnit()
    parser = reader.parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler = reader.characters
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = _refuse_declarations
    for start in range(0, len(content) + 1, _PART):
        reader.runs = []
        try:
            parser.Parse(content[start : start + _PART], start + _PART > len(content))
        except expat.ExpatError as fault:
            raise QueryRejected(
                f"Line {fault.lineno} of the file is not well-formed XML. Write the file again."
            ) from None
        yield from reader.runs


def _refuse_declarations(*_: Any) -> None:
    raise QueryRejected("The XML file declares a document type or an entity. Pass plain JUnit results.")


class _JUnit:
    """Parser that collects the test cases of a JUnit file."""

    def __init__(self) -> None:
        self.runs: list[CaseRun] = []
        self.parser: Any = None
        self._tags: list[str] = []
        self._suites: list[str] = []
        self._case: dict[str, str] | None = None
        self._line, self._letters = 0, 0
        self._scores: list[tuple[str, float]] = []
        self._faults: list[tuple[str, str]] = []
        self._failures: list[tuple[str, str]] = []
        self._text = ""
        self._run: str | None = None

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Handle the start of a suite, a test case or a failure."""
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
            self._line, self._scores = self.parser.CurrentLineNumber, []
            if "name" not in attributes:
                raise QueryRejected(f"Line {self._line} of the file names no test. Pass well-formed XML of JUnit.")
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
        elif name == "property" and parent == "properties" and self._case is not None:
            named = attributes.get("name", "")
            value = attributes.get("value", "")
            if named == RUN:
                self._run = value
            elif _NUMBER.fullmatch(value):
                self._scores.append((named, float(value)))

    def characters(self, text: str) -> None:
        """Collect the text of a failure. Of a long text, only the beginning and the end are kept."""
        if self._tags[-1] == "failure" and self._case is not None:
            whole = self._text + text
            self._text = whole if len(whole) <= _LONGEST_MESSAGE else whole[:500] + whole[-500:]

    def end(self, tag: str) -> None:
        """Handle the end of an element."""
        name = self._tags.pop()
        if name == "testsuite":
            self._suites.pop()
        elif name == "failure" and self._tags[-1] == "testcase":
            found = exception_in(*self._failures[-1], self._text)
            if found is not None:
                self._faults.append(("crashed", f"its failure is {brief(found)} and no assertion"))
        elif name == "testcase":
            attributes = self._case or {}
            parts = [*self._suites, attributes.get("classname", ""), attributes["name"]]
            self._letters += sum(map(len, parts))
            if self._letters > _LONGEST_NAMES:
                raise QueryRejected("The names of the tests are too long. Shorten the names of their suites.")
            case = "::".join(part for place, part in enumerate(parts) if part and part not in parts[:place])
            passed = 0 if self._failures else 1
            for kind in ("status", "result", "outcome"):
                word = attributes.get(kind, "").strip().lower()
                if word not in _WORDS:
                    self._faults.append((NOT_RUN.get(word, "skipped"), f"its {kind} is {brief(attributes[kind])}"))
                elif _WORDS[word] == 0:
                    passed = 0
                elif _WORDS[word] == 1 and self._failures:
                    self._faults.append(("retried", f"its {kind} is {brief(attributes[kind])} beside a failure"))
            for kind in _TRIED_AGAIN:
                if attributes.get(kind, "").strip().lower() not in (*SAYS_NO, *(("1",) if kind == "attempts" else ())):
                    self._faults.append(("retried", f"its {kind} is {brief(attributes[kind])}"))
            for kind, no in (("skipped", SAYS_NO), ("disabled", SAYS_NO), ("executed", ("true", "1", "yes", ""))):
                if attributes.get(kind, "").strip().lower() not in no:
                    self._faults.append(("skipped", f"its {kind} is {brief(attributes[kind])}"))
            metrics = [("passed", passed), ("duration", _duration(attributes.get("time"))), *self._scores]
            run = measured(case, f"line {self._line}", metrics, self._run)
            if self._faults:
                run = replace(run, fault=self._faults[0][0], why=self._faults[0][1])
            self.runs.append(run)
            self._case = None


def _duration(text: str | None) -> Any:
    """Return a duration in seconds, None if it is missing, or the text if it is not a number."""
    if not text:
        return None
    plain = text.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d*)?", text) else text
    return float(plain) if re.fullmatch(r"\d+\.?\d*([eE][-+]?\d+)?|\.\d+", plain) else text
