"""Registry of readers for files of test and evaluation tools, each of which yields runs of cases.

`FORMATS` is the registry. A reader takes the content of a file and yields a `CaseRun` for each result, with its
position in the file. It marks results without an outcome, which `everhold.gates.files.outcomes` refuses. JUnit and
Inspect have modules of their own. Files may come from strangers, so JSON is read strictly, and XML with declarations is
refused.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

from everhold.arguments import brief
from everhold.errors import ExtensionError, QueryRejected
from everhold.gates.files import CaseRun, Columns, measured, table_run
from everhold.strict_json import JsonFault, read_json
from everhold_integrations.junit import junit_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


_MOST_OBJECTS = 2_500_000  # and lists, of a JSON file
_MOST_UNPACKED = 2**29  # bytes of a compressed file
_ROWS_AT_ONCE = 1_000
_LONGEST_FILTER = 200  # characters, which each metric repeats


@dataclass(frozen=True, slots=True)
class ResultFormat:
    """A file format of results, with its reader.

    Attributes:
        name: Name of the tool or form that writes the files.
        kind: Ending of the files, with its dot.
        read: Function from the content to runs. For JSON the content is the document, for JSONL the lines by their
            numbers.
        marks: Names that the JSON document or each JSONL line must have. They distinguish the format from others of
            the same ending.
    """

    name: str
    kind: str
    read: Callable[[Any, Columns], Iterable[CaseRun]]
    marks: frozenset[str] = frozenset()


def runs_of(content: bytes, kind: str, columns: Columns) -> Iterable[CaseRun]:
    """Return the runs in a file of a given format.

    Args:
        content: Content of the file.
        kind: Ending of the file, with its dot.
        columns: Roles of the columns, for tables.

    Raises:
        QueryRejected: If no format has this ending and these marks.
        ValueError: If the content is not well-formed.
    """
    found: Any = content
    names: set[str] = set()
    if kind in (".json", ".jsonl") and content.count(b"{") + content.count(b"[") > _MOST_OBJECTS:
        raise QueryRejected(
            f"The file has more than {_MOST_OBJECTS:,} objects and lists. Pass a file that has only results."
        )
    if kind == ".json":
        found = _document(content)
        names = set(found) if isinstance(found, dict) else set()
    elif kind == ".jsonl":
        found = dict(_lines(content))
        names = set.intersection(*map(set, found.values())) if found else set()
    known = [each for each in FORMATS if each.kind == kind]
    for each in known:
        if each.marks <= names:
            return each.read(found, columns)
    listed = " or ".join(f"{each.name} ({', '.join(sorted(each.marks))})" for each in known)
    raise QueryRejected(f"The {kind[1:].upper()} file has no form that can be read. Pass results of {listed}.")


def _document(content: bytes, what: str = "The JSON file") -> Any:
    try:
        return read_json(content)
    except JsonFault as wrong:
        raise QueryRejected(f"{what} {wrong}. Write it again, with each name once and finite numbers.") from None


def _lines(content: bytes) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            found = _document(line, f"Line {number} of the JSONL file")
            if not isinstance(found, dict):
                raise QueryRejected(f"Line {number} of the JSONL file is {brief(found)}. Expected an object.")
            yield number, found


def _inspect(content: bytes, _: Columns) -> Iterator[CaseRun]:
    try:
        from inspect_ai.log import read_eval_log
    except ModuleNotFoundError:
        raise ExtensionError("Logs of Inspect are read by its own package. Install inspect-ai.") from None
    from everhold_integrations.inspect_ai import runs_of_log

    is_packed = content[:2] == b"PK"
    try:
        unpacked = sum(each.file_size for each in ZipFile(io.BytesIO(content)).infolist()) if is_packed else 0
        if unpacked <= _MOST_UNPACKED:
            log = read_eval_log(io.BytesIO(content), format="eval" if is_packed else "json")
    except Exception:  # of zip files, JSON and pydantic, which quote what they read
        raise QueryRejected(
            "The log of Inspect cannot be read. Write it again, with this version of Inspect."
        ) from None
    if unpacked > _MOST_UNPACKED:
        raise _too_large("The log of Inspect", unpacked)
    return runs_of_log(log)


def _too_large(what: str, unpacked: int) -> QueryRejected:
    return QueryRejected(
        f"{what} unpacks to {unpacked:,} bytes, more than {_MOST_UNPACKED:,}. Leave out what the suite does not need."
    )


def _lm_eval(lines: Mapping[int, Mapping[str, Any]], _: Columns) -> Iterator[CaseRun]:
    """Yield the runs of lm-evaluation-harness, a case for each document. Filters become prefixes of metrics."""
    filters = list(dict.fromkeys(line.get("filter") or "none" for line in lines.values()))
    if max(map(len, filters)) > _LONGEST_FILTER:
        raise ValueError
    found: dict[Any, tuple[int, dict[str, Any]]] = {}
    for number, line in lines.items():
        case, prefix = line["doc_id"], "" if len(filters) == 1 else f"{line.get('filter') or 'none'}:"
        metrics = {f"{prefix}{name}": line[name] for name in line["metrics"]}
        where, known = found.setdefault(case, (number, {}))
        if known.keys() & metrics.keys():
            yield CaseRun(case, f"line {number}", fault="doubled", why=f"also at line {where}")
        odd = next((name for name, value in metrics.items() if not isinstance(value, (bool, int, float))), None)
        if odd is not None:
            why = f"its {odd} is {brief(metrics[odd])}, which is no number of one document"
            yield CaseRun(case, f"line {number}", fault="broken", why=why)
        known.update({name: float(value) for name, value in metrics.items() if isinstance(value, (bool, int, float))})
    for case, (number, metrics) in found.items():
        yield measured(case, f"line {number}", metrics.items())


def _deepeval(document: Mapping[str, Any], _: Columns) -> Iterator[CaseRun]:
    """Yield the runs of a deepeval test run: ``passed`` and each metric's score, by name and input."""
    told = document.get("testRunData", document)
    rows = [*(told.get("testCases") or []), *(told.get("conversationalTestCases") or [])]
    numbers: dict[str, int] = {}
    for place, row in enumerate(rows, 1):
        numbered = str(row["name"]).startswith("test_case_") and row.get("input")  # by its place, which may change
        case = " ".join(filter(None, ("" if numbered else row["name"], row.get("input"))))
        numbers[case] = numbers.get(case, 0) + 1
        judged = row.get("metricsData") or []
        error = next((each["error"] for each in judged if each.get("error")), None)
        fault, why = (None, "") if error is None else ("crashed", str(error)[:80])
        if fault is None and not isinstance(row.get("success"), bool):
            fault, why = "broken", f"its success is {brief(row.get('success'))}"
        where, run = f"test case {place}", numbers[case]
        if fault is not None:
            yield CaseRun(case, where, {}, run, fault, why)
            continue
        scores = [(each["name"], each.get("score")) for each in judged]
        rest = [("seconds", row.get("runDuration")), ("cost", row.get("evaluationCost"))]
        yield measured(case, where, [("passed", int(row["success"])), *scores, *rest], run)


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
        if fault is not None:
            yield CaseRun(case, place, {}, runs[case], fault, why)
            continue
        latency = row.get("latencyMs")
        named = (row.get("namedScores") or {}).items()
        seconds = latency / 1000.0 if isinstance(latency, (int, float)) else latency
        rest = [("score", row.get("score")), ("cost", row.get("cost")), ("latency", seconds)]
        yield measured(case, place, [("passed", int(_promptfoo_passed(row))), *named, *rest], runs[case])


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


def _rows(lines: Mapping[int, Mapping[str, Any]], columns: Columns) -> Iterator[CaseRun]:
    names = list(dict.fromkeys(name for line in lines.values() for name in line))
    columns.check(names, "The JSONL file")
    for number, line in lines.items():
        yield table_run({name: line.get(name) for name in names}, f"line {number}", columns)


def _parquet(content: bytes, columns: Columns) -> Iterator[CaseRun]:
    import pyarrow as pa
    from pyarrow import parquet

    what = "The Parquet file"
    try:
        file = parquet.ParquetFile(pa.BufferReader(content))
        schema, facts = file.schema_arrow, file.metadata
        columns.check(schema.names, what)
        unpacked = sum(facts.row_group(place).total_byte_size for place in range(facts.num_row_groups))
        if unpacked > _MOST_UNPACKED:
            raise _too_large(what, unpacked)
        texts = [each.name for each in schema if pa.types.is_string(each.type) or pa.types.is_large_string(each.type)]
        others = [
            each.name for each in schema
            if pa.types.is_primitive(each.type) or pa.types.is_dictionary(each.type) or pa.types.is_decimal(each.type)
        ]  # fmt: skip  # lists and bytes can be no results, and unpack to any size
        file = parquet.ParquetFile(pa.BufferReader(content), read_dictionary=texts)
        number = 0
        for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=[*texts, *others]):
            for values in zip(*map(_cells, batch.columns), strict=True):
                number += 1
                yield table_run(dict(zip(batch.schema.names, values, strict=True)), f"row {number}", columns)
    except (pa.ArrowException, OSError):
        raise ValueError from None


def _cells(column: Any) -> list[Any]:
    """Return the values of an Arrow array. A text that a dictionary has once is in memory once."""
    if not hasattr(column, "dictionary"):
        found: list[Any] = column.to_pylist()
        return found
    known = column.dictionary.to_pylist()
    return [None if place is None else known[place] for place in column.indices.to_pylist()]


FORMATS = (
    ResultFormat("JUnit", ".xml", lambda content, _: junit_runs(content)),
    ResultFormat("Inspect", ".eval", _inspect),
    ResultFormat(
        "Inspect", ".json", lambda log, _: _inspect(json.dumps(log).encode(), _), frozenset({"eval", "samples"})
    ),
    ResultFormat("deepeval", ".json", _deepeval, frozenset({"testCases"})),
    ResultFormat("deepeval", ".json", _deepeval, frozenset({"testRunData"})),
    ResultFormat("promptfoo", ".json", lambda document, _: promptfoo_runs(document), frozenset({"results"})),
    ResultFormat("promptfoo", ".jsonl", lambda lines, _: promptfoo_runs(lines), frozenset({"testCase", "promptIdx"})),
    ResultFormat("lm-evaluation-harness", ".jsonl", _lm_eval, frozenset({"doc_id", "metrics"})),
    ResultFormat("a table", ".jsonl", _rows),
    ResultFormat("a table", ".parquet", _parquet),
)
"""Every format that is read, beside CSV, which everhold reads itself; of one ending the first whose marks are there."""
