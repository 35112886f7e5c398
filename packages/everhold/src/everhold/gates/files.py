"""Files of results become runs of cases, and `outcomes` says which runs count.

A row of a file may be no run with an outcome: a test may not have run, it may have crashed, passed at a retry, or been
copied from a cache. Each reader makes a `CaseRun` of each row and says which of these it is. `outcomes` decides for all
readers: only a run that passed, failed or was measured counts, and each run counts once. Any other row is refused, and
the error names it.

CSV tables are read here, other files by `everhold_integrations.readers`. They may come from strangers, so size, rows
and columns are limited.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everhold.arguments import advice_for, brief
from everhold.errors import CaseRejected, ExtensionError, QueryRejected
from everhold.extensions import imported
from everhold.gates.results import CASE, RUN, cases_and_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

REFUSED = {
    "skipped": ("did not run", "Run it, or leave it out of the suite."),
    "crashed": ("crashed", "Run it again. Only a failed assertion is a failure."),
    "retried": ("was retried", "Run each test once, without retries."),
    "copied": ("is a copy from a cache", "Run it again without a cache (promptfoo eval --no-cache)."),
    "doubled": (
        "is there twice", "Give different tests different names. Number the runs of one test in a column 'run'."
    ),
    "broken": ("cannot be read", "Write the file again."),
    "unclear": ("uses the name of a metric twice", "Give each metric a name of its own, other than case and run."),
}  # fmt: skip
"""Runs that are no outcomes: by the fault, what a message says and what helps."""

_MOST_BYTES = 64 * 2**20
_MOST_ROWS, _MOST_COLUMNS, _MOST_NUMBERS = 250_000, 200, 5_000_000
_MOST_NAMED = 3  # runs that a message names

_OTHERS = (".xml", ".json", ".jsonl", ".eval", ".parquet")
"""Kinds of files that everhold-integrations reads."""

_PASSED = {
    **dict.fromkeys(("true", "1", "1.0", "yes", "pass", "passed", "success", "ok"), 1),
    **dict.fromkeys(("false", "0", "0.0", "no", "fail", "failed", "failure"), 0),
}
"""Words of a column that says whether a case passed."""

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
    """One row of a file of results: a run of a case.

    Attributes:
        case: Id of the case.
        where: Position of the run in the file, such as "line 7".
        metrics: Numbers by name; empty for a run that is refused.
        run: Name or number of the run within its case; None if the file names no runs.
        fault: A key of `REFUSED`; None for an outcome.
        why: What the file says about the fault.
    """

    case: Any
    where: str
    metrics: Mapping[str, Any] = field(default_factory=dict)
    run: Any = None
    fault: str | None = None
    why: str = ""


def measured(case: Any, where: str, metrics: Iterable[tuple[str, Any]], run: Any = None) -> CaseRun:
    """Return a run with these metrics, or with a fault if a name is there twice or is that of the ids.

    Examples:
        >>> measured("a", "line 2", [("passed", 1), ("passed", 0)]).why
        "'passed'"
    """
    pairs = list(metrics)
    names = Counter([CASE, RUN, *(name for name, _ in pairs)])
    twice = next((name for name, times in names.items() if times > 1), None)
    if twice is None:
        return CaseRun(case, where, dict(pairs), run)
    return CaseRun(case, where, {}, run, "unclear", brief(twice))


def outcomes(
    runs: Iterable[CaseRun], *, missing: str = "refuse", keep: str | None = None
) -> dict[str, list[Any]]:  # fmt: skip
    """Return the table of the runs that count, each once.

    Args:
        runs: The runs in the file.
        missing: The gate's rule for crashed runs, from `everhold.gates.challenge.MISSING`. Unless crashed runs are
            refused, each crashed run is a row without numbers.
        keep: Name of a column whose values crashed runs have as well.

    Raises:
        CaseRejected: If a run has no outcome, or is in the file twice. Nothing was charged.

    Examples:
        >>> outcomes([CaseRun("a", "line 2", {"passed": 1}), CaseRun("b", "line 3", {"passed": 0})])
        {'case': ['a', 'b'], 'passed': [1, 0]}
        >>> outcomes([CaseRun("a", "line 2", fault="skipped", why="its status is 'notrun'")])
        Traceback (most recent call last):
        everhold.errors.CaseRejected: 1 case x 1 run, 1 refused: case 'a' (line 2) did not run, its status is ...
    """
    found: list[CaseRun] = []
    refused: list[tuple[CaseRun, str, str]] = []
    seen: dict[tuple[Any, Any], str] = {}
    for run in runs:
        if missing != "refuse" and run.fault == "crashed":
            kept = {name: value for name, value in run.metrics.items() if name == keep}
            run = replace(run, metrics=kept, fault=None)
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
        times = Counter(run.case for run in (*found, *(run for run, _, _ in refused))).values()
        left = len(refused) - len(named)
        more = f", and {left} more" if left else ""
        raise CaseRejected(
            f"{cases_and_runs(len(times), *sorted({min(times), max(times)}))}, {len(refused)} refused: "
            f"{', '.join(named)}{more}. {REFUSED[fault][1]}",
            case=first.case, fault=fault,
        )  # fmt: skip
    names = list(dict.fromkeys(name for run in found for name in run.metrics))
    numbered = {RUN: [run.run for run in found]} if any(run.run is not None for run in found) else {}
    return {
        CASE: [run.case for run in found], **numbered,
        **{name: [run.metrics.get(name) for run in found] for name in names},
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns of a table of results that are not metrics, by their meaning.

    Attributes:
        case: Id of the case.
        run: Name or number of the run; not needed where each case has one run.
        passed: Column that says whether the run passed, as a truth value or a word; it becomes the metric ``passed``.
        score: A number of the run; it becomes the metric ``score``.
        cluster: Cases of one cluster may depend on each other.
    """

    case: str = CASE
    run: str = RUN
    passed: str | None = None
    score: str | None = None
    cluster: str | None = None

    def check(self, names: Sequence[str], what: str) -> None:
        """Raise QueryRejected if a table lacks one of these columns, has one twice, or has too many.

        Raises:
            QueryRejected: If the columns of the table cannot be used. If one is missing, the message names those of the
                table.
        """
        if len(names) > _MOST_COLUMNS:
            raise QueryRejected(f"{what} has {len(names):,} columns. Keep at most {_MOST_COLUMNS}.")
        if doubled := [name for name, times in Counter(names).items() if times > 1]:
            raise QueryRejected(f"{what} has the column {brief(doubled[0])} twice. Rename one of them.")
        for option, column in asdict(self).items():
            if column not in (None, *names) and (option, column) != ("run", RUN):
                listed = ", ".join(map(brief, names[:20]))
                raise QueryRejected(f"{what} has no column {column!r}, but {listed}. Name it with --{option}.")


def table_run(row: dict[str, Any], where: str, columns: Columns) -> CaseRun:
    """Return the run in one row of a table of results. An empty cell is None in the row.

    Raises:
        QueryRejected: If the row has no case, or no run although other rows of the table have one.
    """
    case, run = row.pop(columns.case), row.pop(columns.run, "")
    if case is None or run is None:
        what = columns.case if case is None else columns.run
        raise QueryRejected(
            f"{where.capitalize()} of the file has no value in the column {what!r}. Fill it in for each row."
        )
    fault, why = None, ""
    renamed = {}
    if columns.passed:
        told = row.pop(columns.passed)
        word = str(told).strip().lower()
        renamed["passed"] = _PASSED.get(word)
        if renamed["passed"] is None:
            fault, why = NOT_RUN.get(word, "broken"), f"its {columns.passed} is {brief(told)}"
    if columns.score:
        renamed["score"] = row.pop(columns.score)
    if str(row.pop("cached", None) or "").lower() not in SAYS_NO:
        fault, why = "copied", "as the column 'cached' says"
    for name in ("status", "result", "outcome"):
        if (word := str(row.get(name) or "").strip().lower()) in NOT_RUN:
            fault, why = NOT_RUN[word], f"its {name} is {brief(row[name])}"
    found = measured(case, where, [*row.items(), *renamed.items()], run if run != "" else None)
    return found if fault is None else replace(found, fault=fault, why=why)


def groups_in(results: Mapping[str, Sequence[Any]], column: str) -> dict[Any, Any]:
    """Return the group of each case, from a column of a table of results.

    Raises:
        QueryRejected: If the table has no column of this name.
        CaseRejected: If a case has no group, or its runs are in different groups.
    """
    others = [each for each in results if each not in (CASE, RUN)]
    if column not in others:
        raise QueryRejected(f"The results have no column {column!r} of groups. {advice_for(column, others)}")
    groups: dict[Any, Any] = {}
    for case, group in zip(results[CASE], results[column], strict=True):
        if group is None or groups.setdefault(case, group) != group:
            told = "no group" if group is None else f"the groups {brief(groups[case])} and {brief(group)}"
            raise CaseRejected(f"The case {brief(case)} has {told}. Give it one group.", case=case, fault="broken")
    return groups


def read_case_file(
    path: str | Path, *, kind: str | None = None, columns: Columns | None = None, missing: str = "refuse"
) -> dict[str, list[Any]]:
    """Read the results of a file as a table.

    Args:
        path: ``*.csv`` has a column ``case``, a column ``run`` where a case has several, and a metric in each other
            column. ``*.xml`` is JUnit, with ``passed`` and ``duration`` (seconds) of cases that are named by suite,
            class and test, and numbers that are properties of a test case. ``*.json`` is promptfoo, with ``passed``,
            ``score``, ``cost`` and ``latency`` (seconds) of cases that are named by their description and variables, or
            Inspect (also ``*.eval``), with its scorers, or deepeval. ``*.jsonl`` is promptfoo, samples of
            lm-evaluation-harness, or a table, as ``*.parquet`` is. All but CSV need everhold-integrations.
        kind: Kind of the file as an ending, such as ``".xml"``; by default the ending of the path.
        columns: Names of the columns of a table, if the columns for case and run are not named ``case`` and ``run``.
        missing: The gate's rule for crashed runs, as for `outcomes`.

    Raises:
        QueryRejected: If the file is of another kind. Nothing was charged.
        CaseRejected: If a run has no outcome or is there twice, as `outcomes` says. Nothing was charged.
        ExtensionError: If the reader for this kind of file is not installed.
    """
    path = Path(path)
    kind = path.suffix.lower() if kind is None else kind
    if kind != ".csv" and kind not in _OTHERS:
        raise _unreadable(path, f"Pass JUnit as .xml, a table as .csv, or a file of a tool: {', '.join(_OTHERS[1:])}.")
    try:
        reader: Callable[[bytes, str, Columns], Iterable[CaseRun]] = (
            table_runs if kind == ".csv" else imported("everhold_integrations.readers:runs_of")
        )
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
    names: set[str] = set()
    numbers = 0
    try:
        columns = columns or Columns()
        for run in reader(content, kind, columns):
            runs.append(run)
            names |= run.metrics.keys()
            numbers += len(run.metrics)
            if len(runs) > _MOST_ROWS or len(names) > _MOST_COLUMNS or numbers > _MOST_NUMBERS:
                raise _unreadable(
                    path,
                    f"It has more than {_MOST_ROWS:,} runs, {_MOST_COLUMNS} metrics or {_MOST_NUMBERS:,} numbers. "
                    "Leave out what the suite does not need.",
                )
        if not runs:
            raise _unreadable(path, "It has no results. Expected at least one case.")
        return outcomes(runs, missing=missing, keep=columns.cluster)
    except (
        csv.Error, ValueError, LookupError, TypeError, AttributeError, RecursionError, MemoryError,
    ) as fault:  # fmt: skip
        if isinstance(fault, QueryRejected):
            raise
        raise _unreadable(path, f"It is not well-formed {kind[1:].upper()} with results of cases.") from None


def _unreadable(path: Path, why: str) -> QueryRejected:
    return QueryRejected(f"The file {brief(path.name)} cannot be used. {why}")


def table_runs(content: bytes, _kind: str, columns: Columns) -> Iterator[CaseRun]:
    """Yield the runs of a CSV table.

    Raises:
        QueryRejected: If the content is not a CSV table of results.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise QueryRejected("The CSV file is not encoded in UTF-8. Write it again as UTF-8.") from None
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    names = next(lines, [])
    if not names:
        raise QueryRejected("The CSV file is empty. Write the names of the columns, and a line for each run.")
    if columns.case not in names:
        wide = next((sign for sign in (";", "\t") if sign in "".join(names)), None)
        if wide is not None:
            raise QueryRejected(f"The CSV file separates values by {wide!r}. Write commas, and points in numbers.")
    columns.check(names, "The CSV file")
    for values in lines:
        if not values:
            continue
        if len(values) != len(names):
            raise QueryRejected(
                f"Line {lines.line_num} of the CSV file has {len(values)} values for {len(names)} columns. Write one "
                "value for each column, with quotes around texts that have commas."
            )
        row: dict[str, Any] = {name: None if value == "" else value for name, value in zip(names, values, strict=True)}
        yield table_run(row, f"line {lines.line_num}", columns)
