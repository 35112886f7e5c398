"""Commands for continuous integration: suite seals cases, challenge and check compare results."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from everhold.cli.arguments import STORAGE_VARIABLE, AnalystOption, FormatOption, opened, opened_here
from everhold.cli.failures import Misuse, arguments_checked
from everhold.cli.option_groups import with_option_groups
from everhold.cli.output import Format, note, show_record, show_sentence
from everhold.errors import BudgetExhausted, EverholdError

_KEPT, _FAULT, _SPENT, _UNDECIDED = 1, 2, 3, 4

FileArgument = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="JUnit XML, a table (CSV, JSONL, Parquet), or promptfoo, Inspect, deepeval, lm-eval.",
    ),
]
StorageOption = Annotated[str | None, typer.Option(help=f"Path or URL of the storage; or set {STORAGE_VARIABLE}.")]
HoldoutOption = Annotated[str, typer.Option("--holdout", help="Name of the holdout of the cases.")]
GateOption = Annotated[str, typer.Option("--gate", help="Name of the gate.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimOptions:
    """The claims of the gate, and its limits."""

    better: Annotated[
        str, typer.Option(help="Metric that has to get better: a column, or 'a - b' or 'a / b' of two.")
    ] = "passed"
    not_worse: Annotated[
        list[str] | None, typer.Option(help="A guard, as METRIC=SLACK: at most so much worse than now.")
    ] = None
    at_most: Annotated[
        list[str] | None, typer.Option(help="A guard against a number, as METRIC=NUMBER; also of a ratio, 'a / b'.")
    ] = None
    at_least: Annotated[list[str] | None, typer.Option(help="The same, from below.")] = None
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range", help="Range of a metric, as METRIC=LOW:HIGH; by default 0:1. A value beyond it is an error."
        ),
    ] = None
    units: Annotated[str, typer.Option(help="'runs': these cases, new runs; 'cases': cases like these.")] = "runs"
    margin: Annotated[float, typer.Option(help="A challenger has to be better by more than this.")] = 0.0
    challenges: Annotated[int, typer.Option(help="Challenges that are planned.")] = 200
    open: Annotated[
        float | None,
        typer.Option(help="Share of the cases that stay open, drawn by chance: climb on them, ask about the others."),
    ] = None

    def terms(self) -> dict[str, Any]:
        """The claims, by the names of `seal_cases`."""
        slacks, most, least = (
            {name: _number(value) for name, value in map(_pair, each or [])}
            for each in (self.not_worse, self.at_most, self.at_least)
        )
        limits = {name: _range(value) for name, value in map(_pair, self.ranges or [])}
        return {
            "better": self.better, "not_worse": slacks, "ranges": limits, "units": self.units, "margin": self.margin,
            "challenges": self.challenges, "at_most": most, "at_least": least, "open": self.open,
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AddingOptions:
    """Options for further cases."""

    add: Annotated[
        bool, typer.Option("--add", help="Add the cases that the suite does not have, with the champion's results.")
    ] = False
    baseline_results: Annotated[
        Path | None, typer.Option(help="With --add: results of the baseline, where there are guards.")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """Columns of tables of results."""

    case: Annotated[str, typer.Option(help="Column of the case ids.")] = "case"
    run: Annotated[str, typer.Option(help="Column that tells the runs of a case apart.")] = "run"
    passed: Annotated[str | None, typer.Option(help="Column that says whether a run passed.")] = None

    def read(self, file: Path | None) -> Any:
        """The results in a file; None without one."""
        from everhold.gates.cases.files import Columns, read_case_file

        return file and read_case_file(file, columns=Columns(self.case, self.run, self.passed))


@dataclass(frozen=True, slots=True, kw_only=True)
class SuitePlace:
    """The holdout of the cases, and its storage."""

    holdout: HoldoutOption = "suite"
    storage: StorageOption = None

    def address(self) -> str:
        """The storage from the command line or from the environment."""
        found = self.storage or os.environ.get(STORAGE_VARIABLE)
        if not found:
            raise Misuse(f"no storage is named; expected --storage or {STORAGE_VARIABLE}")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionOptions:
    """The challenger with its files, and the file for the verdict."""

    challenger: Annotated[
        str | None,
        typer.Option(help="Its name, such as a commit: named again, it has its stored verdict, and costs nothing."),
    ] = None
    champion_results: Annotated[
        Path | None, typer.Option(help="New results of the champion, where makers may know the stored ones.")
    ] = None
    baseline_results: Annotated[
        Path | None, typer.Option(help="The same for the baseline, where there are guards.")
    ] = None
    summary: Annotated[Path | None, typer.Option(help="Append the verdict in Markdown to this file.")] = None


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (suite, challenge, check):
        app.command()(with_option_groups(command))


def suite(
    file: FileArgument,
    *,
    claims: ClaimOptions,
    adding: AddingOptions,
    columns: TableOptions,
    group: Annotated[
        str | None, typer.Option(help="Column of groups: cases of one group may depend on each other.")
    ] = None,
    gate: GateOption = "main",
    place: SuitePlace,
    form: FormatOption = Format.TABLE,
) -> None:
    r"""Seal the cases of a suite with the results of the present version, and open a gate.

    With --add the suite and its gate are there already, and new cases of the file
    are added: run them with the champion's version first.

    Example:
      pytest --junitxml results.xml
      everhold suite results.xml --better passed --not-worse duration=0.5 \
        --range duration=0:10 --storage suite.db
      everhold challenge results.xml --gate main --storage suite.db
      everhold suite more.xml --add --storage suite.db

    Exit codes:
      0  sealed
      1  the file cannot be read
      2  wrong usage
      3  the cases cannot be sealed
      5  the results or claims cannot be used
    """
    from everhold.gates.cases.files import groups_in
    from everhold.gates.cases.results import counted
    from everhold.suites import add_cases, seal_cases

    if adding.baseline_results is not None and not adding.add:
        raise Misuse("--baseline-results belongs to --add; pass both, or none")
    storage = place.address()
    with arguments_checked():
        results = columns.read(file)
        groups = None if group is None else groups_in(results, group)
    if adding.add:
        with arguments_checked(), opened_here(storage, place.holdout) as found:
            fixed = columns.read(adding.baseline_results)
            add_cases(found, results, gate=gate, baseline=fixed, groups=groups)
            note(f"read {counted(results)}")
            show_record(found.gate(name=gate).status(), form)
        return
    terms = claims.terms()
    with arguments_checked():
        made = seal_cases(storage, place.holdout, results=results, gate=gate, groups=groups, **terms)
        with made:
            note(f"sealed {counted(results)}")
            show_record(made.gate(name=gate).status(), form)


def challenge(
    file: FileArgument,
    *,
    gate: GateOption = "main",
    challenger: VersionOptions,
    columns: TableOptions,
    place: SuitePlace,
    analyst: AnalystOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    r"""Compare a file of results with the champion of a gate; the exit code is the verdict.

    Example:
      everhold challenge results.xml --gate main --challenger "$GITHUB_SHA" \
        --storage suite.db --summary "$GITHUB_STEP_SUMMARY"

    Promoted means that all claims are proved: the success against the champion,
    each guard against the fixed baseline. Kept promises nothing, and never says
    which claim failed.

    Exit codes:
      0  promoted: it is the champion from now on
      1  kept
      2  an error: a case has no outcome, as it is missing, did not run, crashed,
         was retried or copied, or the file or storage cannot be used; nothing was
         charged, and the same challenger can be reported anew
      3  refused: what is left of the budget does not pay for it
    """
    from everhold.gates.cases.results import counted
    from everhold.gates.cases.summary import markdown_of

    try:
        with arguments_checked(), opened(place.address(), place.holdout, analyst) as found:
            asked = found.gate(name=gate)
            results = columns.read(file)
            verdict = asked.challenge(
                results, challenger=challenger.challenger,
                champion=columns.read(challenger.champion_results),
                baseline=columns.read(challenger.baseline_results),
            )  # fmt: skip
            facts: dict[str, Any] = dict(asked.status())
    except BudgetExhausted as fault:
        _leave(fault, _SPENT)
    except (EverholdError, OSError, Misuse) as fault:
        _leave(fault, _FAULT)
    note(f"read {counted(results)}")
    show_sentence(str(verdict), verdict.to_dict(), form)
    if challenger.summary is not None:
        with challenger.summary.open("a", encoding="utf-8") as report:
            report.write(markdown_of(verdict, facts))
    code = 0 if verdict.promoted else _SPENT if verdict.refused else _KEPT
    raise typer.Exit(code)


def check(
    file: FileArgument,
    *,
    gate: GateOption = "main",
    challenger: VersionOptions,
    margin: Annotated[float, typer.Option(help="The version may be worse by so much, in the metric's units.")] = 0.0,
    place: SuitePlace,
    analyst: AnalystOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    r"""Check a file of results against the baseline of a gate; the exit code is the verdict.

    The baseline is the version with which the suite was sealed. No champion changes,
    and all verdicts of the gate hold at once. A verdict is free while it is the same
    as before, and another one costs a surprise.

    Example:
      everhold check results.xml --gate main --margin 0.02 \
        --challenger "$GITHUB_SHA" --storage suite.db

    Exit codes:
      0  not worse than the baseline by more than the margin (proved)
      1  a regression (proved)
      2  an error; nothing was charged
      3  refused: what is left of the budget does not pay for it
      4  undecided: neither is proved, and about so many more cases would tell
    """
    from everhold.gates.cases.files import read_case_file
    from everhold.gates.cases.results import counted

    if challenger.champion_results is not None:
        raise Misuse("--champion-results belongs to 'everhold challenge'; a check is against the baseline")
    try:
        with arguments_checked(), opened(place.address(), place.holdout, analyst) as found:
            results = read_case_file(file)
            verdict = found.gate(name=gate).check(
                results, margin=margin, challenger=challenger.challenger,
                baseline=challenger.baseline_results and read_case_file(challenger.baseline_results),
            )  # fmt: skip
    except BudgetExhausted as fault:
        _leave(fault, _SPENT)
    except (EverholdError, OSError, Misuse) as fault:
        _leave(fault, _FAULT)
    note(f"read {counted(results)}")
    show_sentence(str(verdict), verdict.to_dict(), form)
    if challenger.summary is not None:
        with challenger.summary.open("a", encoding="utf-8") as report:
            report.write(f"### Gate {gate}: {verdict.verdict}\n\n{verdict.explain()}\n")
    raise typer.Exit({"not worse": 0, "regression": _KEPT, "undecided": _UNDECIDED, "refused": _SPENT}[verdict.verdict])


def _leave(fault: Exception, code: int) -> None:
    note(f"error: {fault}")
    raise typer.Exit(code)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise Misuse(f"{text!r} is no pair; expected METRIC=VALUE")
    return name, value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Misuse(f"{text!r} is no number; expected one such as 0.02") from None


def _range(text: str) -> tuple[float, float]:
    low, colon, high = text.partition(":")
    if not colon:
        raise Misuse(f"{text!r} is no range; expected LOW:HIGH, such as 0:10")
    return _number(low), _number(high)
