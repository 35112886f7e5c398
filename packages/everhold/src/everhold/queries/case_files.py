"""Results of cases from files: JUnit XML, promptfoo JSON, CSV. All become a table for `CaseSuite.values`.

Files come from a build, perhaps of a stranger. XML is read by events without a tree; a document type or an entity is
refused, so nothing external is read and nothing expands.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

from everhold.arguments import brief
from everhold.errors import CaseRejected, QueryRejected
from everhold.queries.case_results import CASE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PASSED, DURATION = "passed", "duration"
"""Metrics of JUnit files: 1 or 0, and seconds."""

_MOST_BYTES = 64 * 2**20
_MOST_DEPTH = 64
_CRASHED = 2  # failureReason of promptfoo: the provider or the test itself failed, and no assertion did


def read_case_file(path: str | Path, *, kind: str | None = None) -> dict[str, list[Any]]:
    """Read the results of a file as a table.

    Args:
        path: ``*.xml`` is JUnit, with the metrics ``passed`` and ``duration`` (seconds) of the cases
            ``classname::name``. ``*.json`` is promptfoo, with ``passed``, ``score``, ``cost`` and ``latency`` (seconds)
            of cases that are named by their description, or by their variables. ``*.csv`` has a column ``case``.
        kind: ``".xml"``, ``".json"`` or ``".csv"``; by default the ending of the path.

    Raises:
        QueryRejected: If it is none of these. Nothing was charged.
        CaseRejected: If a test was skipped. Nothing was charged.
    """
    path = Path(path)
    readers: dict[str, Callable[[bytes], list[dict[str, Any]]]] = {".xml": _junit, ".json": _promptfoo, ".csv": _csv}
    kind = path.suffix.lower() if kind is None else kind
    reader = readers.get(kind)
    if reader is None:
        raise _unreadable(path, "expected a .xml (JUnit), .json (promptfoo) or .csv file")
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise _unreadable(path, f"expected at most {_MOST_BYTES // 2**20} MiB")
    try:
        rows = reader(content)
    except (expat.ExpatError, ValueError, KeyError, TypeError, AttributeError, csv.Error) as fault:
        if isinstance(fault, QueryRejected):
            raise
        raise _unreadable(path, f"expected well-formed {kind[1:].upper()} results") from None
    if not rows:
        raise _unreadable(path, "it has no results; expected at least one case")
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: [row.get(name) for row in rows] for name in names}


def _unreadable(path: Path, why: str) -> QueryRejected:
    return QueryRejected(f"the file {brief(path.name)} cannot be used: {why}")


def _junit(content: bytes) -> list[dict[str, Any]]:
    reader = _JUnit()
    parser = expat.ParserCreate()
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = _refuse_declarations
    parser.Parse(content, True)
    return reader.rows


def _refuse_declarations(*_: Any) -> None:
    raise QueryRejected("the XML file declares a document type or an entity; expected plain JUnit results")


class _JUnit:
    """Rows of the test cases of a JUnit file."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._depth = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """A test case, or what became of the latest one."""
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise ValueError
        if tag == "testcase":
            case = "::".join(filter(None, (attributes.get("classname"), attributes["name"])))
            self.rows.append({CASE: case, PASSED: 1, DURATION: float(attributes.get("time") or 0.0)})
        elif tag == "failure":
            self.rows[-1][PASSED] = 0
        elif tag == "error":
            self.rows[-1][PASSED] = None
        elif tag == "skipped":
            case = self.rows[-1][CASE]
            raise CaseRejected(
                f"case {brief(case)} was skipped; expected a result of each case; run it, or seal a suite without it",
                case=case,
                fault="missing",
            )

    def end(self, tag: str) -> None:
        """The end of an element."""
        self._depth -= 1


def _promptfoo(content: bytes) -> list[dict[str, Any]]:
    document = json.loads(content)
    found = document["results"]
    rows = found["results"] if isinstance(found, dict) else found
    arms = {json.dumps([row.get("provider"), row.get("promptIdx")], sort_keys=True) for row in rows}
    if len(arms) > 1:
        raise QueryRejected(
            f"the promptfoo results are of {len(arms)} providers or prompts; expected one, as a challenger is one; run "
            "promptfoo with --filter-providers"
        )
    return [_promptfoo_row(row) for row in rows]


def _promptfoo_row(row: Mapping[str, Any]) -> dict[str, Any]:
    test = row.get("testCase") or {}
    variables = row.get("vars") or test.get("vars") or {}
    case = test.get("description") or json.dumps(variables, sort_keys=True, ensure_ascii=False)
    if row.get("failureReason") == _CRASHED:
        return {CASE: case, PASSED: None, "score": None, "cost": None, "latency": None}
    latency = row.get("latencyMs")
    return {
        CASE: case, PASSED: int(bool(row["success"])), "score": row.get("score"), "cost": row.get("cost"),
        "latency": None if latency is None else float(latency) / 1000.0,
    }  # fmt: skip


def _csv(content: bytes) -> list[dict[str, Any]]:
    reader = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""))
    if CASE not in (reader.fieldnames or ()):
        raise QueryRejected(f"the CSV file has no column {CASE!r}; expected the case ids")
    return [{name: None if value == "" else value for name, value in row.items()} for row in reader]
