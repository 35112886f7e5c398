"""Files of results become runs of cases, and `outcomes` says which runs count.

A row of a file need not be a run: a test may not have run, it may have crashed, passed at a retry, or been copied from
a cache. Each reader makes a `CaseRun` of each row and says what it is. `outcomes` is the one place that decides: only a
run that passed, failed or was measured counts, and each run counts once. Everything else is refused by name, because a
champion would be compared with something that never happened.

Tables are read here. Readers of what tools write (JUnit, promptfoo) are in everhold-integrations. Files may come from
strangers, so size, rows and columns are limited.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everhold.arguments import brief
from everhold.errors import CaseRejected, ExtensionError, QueryRejected
from everhold.extensions import imported
from everhold.gates.cases.results import CASE, RUN
from everhold.untrusted import ReadingLimits, read_in_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

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
_MOST_ROWS, _MOST_COLUMNS = 250_000, 200
_MOST_NAMED = 3  # runs that a message names

_READERS = {
    ".csv": "everhold.gates.cases.files:table_runs",
    ".xml": "everhold_integrations.junit:junit_runs",
    ".json": "everhold_integrations.promptfoo:promptfoo_runs",
}
"""Reader of each kind of file, from its content to its runs."""

NOT_RUN = {
    **dict.fromkeys(("error", "errored", "crashed", "crash", "timeout", "timedout", "timed out", "aborted"), "crashed"),
    **dict.fromkeys(
        ("skipped", "skip", "notrun", "not run", "not_run", "disabled", "suppressed", "suspended", "ignored", "pending",
         "inconclusive", "xfail", "xfailed", "xpass", "xpassed", "cancelled", "canceled"), "skipped",
    ),
}  # fmt: skip
"""Words for a test that did not run to its end, and the fault."""

SAYS_NO = ("", "0", "false", "no", "none")
"""Words for no."""


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
        path: ``*.csv`` has a column ``case``, a column ``run`` where a case has several, and a metric in each other
            column. ``*.xml`` is JUnit, with ``passed`` and ``duration`` (seconds) of cases that are named by suite,
            class and test. ``*.json`` is promptfoo, with ``passed``, ``score``, ``cost`` and ``latency`` (seconds) of
            cases that are named by their description and variables. The last two need everhold-integrations.
        kind: ``".xml"``, ``".json"`` or ``".csv"``; by default the ending of the path.

    Raises:
        QueryRejected: If it is none of these. Nothing was charged.
        CaseRejected: If a run is no outcome; see `outcomes`. Nothing was charged.
        ExtensionError: If the reader of its kind is not installed.
    """
    path = Path(path)
    kind = path.suffix.lower() if kind is None else kind
    if kind not in _READERS:
        raise _unreadable(path, "Pass a .xml (JUnit), .json (promptfoo) or .csv file.")
    try:
        reader: Callable[[bytes], Iterable[CaseRun]] = imported(_READERS[kind])
    except ModuleNotFoundError:
        raise ExtensionError(
            f"{brief(path.name)} is no CSV table. Install its reader: pip install 'everhold[integrations]'."
        ) from None
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
        csv.Error, ValueError, LookupError, TypeError, AttributeError, RecursionError, MemoryError,
    ) as fault:  # fmt: skip
        if isinstance(fault, QueryRejected):
            raise
        raise _unreadable(path, f"It is not well-formed {kind[1:].upper()} with results of cases.") from None


def _unreadable(path: Path, why: str) -> QueryRejected:
    return QueryRejected(f"The file {brief(path.name)} cannot be used. {why}")


def table_runs(content: bytes) -> Iterator[CaseRun]:
    """The runs of a CSV table: a column ``case``, ``run`` where cases have several, and a metric in each other one.

    Raises:
        QueryRejected: If it is no such table.
    """
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
        if str(row.pop("cached", None) or "").lower() not in SAYS_NO:
            fault, why = "copied", "as the column 'cached' says"
        for name in ("status", "result", "outcome"):
            if (word := str(row.get(name) or "").strip().lower()) in NOT_RUN:
                fault, why = NOT_RUN[word], f"its {name} is {brief(row[name])}"
        yield CaseRun(case, where, row, run, fault, why)


# Results of cases from strangers' files, read by a worker; their form is told by their content.

_LIMITS = ReadingLimits(content=2**26, memory=2**30)
_MOST_COLUMNS = 100
_MOST_VALUES = 2**19
_FIRST_BYTES, _LONGEST_LINE = 2**10, 2**16


def read_untrusted_results(path: Path, *, name: str) -> dict[str, list[Any]]:
    """Read results of cases from a stranger's file, JUnit XML, promptfoo JSON or CSV, as `read_case_file` does.

    Raises:
        QueryRejected: If it cannot be read within the limits. Nothing was charged.
        CaseRejected: If a case has no result. Nothing was charged.
    """
    found: dict[str, list[Any]] = read_in_worker(
        "everhold.gates.cases.files:listed_results", path, name=name, limits=_LIMITS,
        advice="expected the results of the cases of this suite and nothing else",
    )  # fmt: skip
    return found


def listed_results(path: Path, *, name: str) -> dict[str, list[Any]]:
    """The results in a file by metric; run by the worker."""
    with path.open("rb") as file:
        begins = file.read(_FIRST_BYTES).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    kind = {b"<": ".xml", b"{": ".json", b"[": ".json"}.get(begins, ".csv")
    if kind == ".csv":
        with path.open("rb") as file:
            columns = 1 + file.readline(_LONGEST_LINE + 1).count(b",")
        if columns > _MOST_COLUMNS:
            raise QueryRejected(
                f"{name} has more than {_MOST_COLUMNS} columns. Keep one for the case and one for each metric."
            )
    found = read_case_file(path, kind=kind)
    cells = sum(map(len, found.values()))
    if len(found) > _MOST_COLUMNS or cells > _MOST_VALUES:
        raise QueryRejected(
            f"{name} has {len(found):,} columns with {cells:,} values. "
            f"Send at most {_MOST_COLUMNS} and {_MOST_VALUES:,}."
        )
    return found
