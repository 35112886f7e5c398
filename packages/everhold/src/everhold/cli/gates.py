"""Commands about gates, and of continuous integration: suite seals cases, challenge and check compare results."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from everhold.cli import arguments
from everhold.cli.failures import CommandGroup, Misuse, arguments_checked, leave_reader, said_of
from everhold.cli.output import Format, note, show_list, show_record, show_sentence
from everhold.errors import BudgetExhausted
from everhold.queries.metrics.registry import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable

    from everhold.gates.challenge import Verdict
    from everhold.gates.checks import CheckVerdict
    from everhold.gates.gate import Gate
    from everhold.values.base import Schema

_METRICS = (*METRICS.of_gates, "risk")
_COLUMNS = ("gate", "metric", "margin", "champion", "challenges", "promotions", "limit")

group = typer.Typer(cls=CommandGroup, rich_markup_mode="rich")

GateOption = Annotated[str, typer.Option("--gate", help="The gate's name. A holdout may have several.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """A model: its predictions in a file, or a rule."""

    file: Path | None = None
    rule: Annotated[
        str | None, "Instead of predictions: a rule over the features, which says label 1 where it is true."
    ] = None
    training_predictions: Annotated[
        Path | None, "The same model's predictions for the training rows, which make the test sharper."
    ] = None
    column: Annotated[str | None, "Column of the predictions file, where it has several."] = None

    def check(self, option: str) -> None:
        """Check that there is either a file or a rule.

        Raises:
            Misuse: If the model is missing, or given twice.
        """
        if (self.file is None) == (self.rule is None):
            found = "neither" if self.rule is None else "both"
            raise Misuse(f"The command line has {found} of {option} and --rule. Pass one of them.")

    def read(self, schema: Schema) -> tuple[Any, Any]:
        """Return the model, and its predictions for the training rows or None."""
        from everhold.queries.predictions.files import read_predictions

        found = [
            None if path is None else read_predictions(path, schema, column=self.column)
            for path in (self.file, self.training_predictions)
        ]
        return self.rule or found[0], found[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChampionOptions(ModelOptions):
    """Options for the first champion, the model to beat."""

    file: Annotated[
        Path | None, typer.Option("--champion", help="Predictions of the model to beat, for the sealed rows.")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChallengerOptions(ModelOptions):
    """Options for the model that challenges."""

    file: Annotated[
        Path | None, typer.Option("--challenger", help="Predictions of the challenger, for the sealed rows.")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionOptions(ModelOptions):
    """Options for the champion's predictions for rows that arrived."""

    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Predictions of the champion, for the rows that arrived alone."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TermOptions:
    """Options for the metric and the limits of the gate."""

    metric: Annotated[str, f"What is compared: {', '.join(_METRICS)}."] = "accuracy"
    loss: Annotated[str | None, "With --metric risk: 'absolute', 'squared' or 'log'."] = None
    low: Annotated[float | None, "Smaller losses of a risk, or labels and predictions of r2, count as this."] = None
    high: Annotated[float | None, "Larger losses of a risk, or labels and predictions of r2, count as this."] = None
    margin: Annotated[float, "A challenger has to be better by more than this."] = 0.0
    challenges: Annotated[int | None, "Most challenges of this gate. By default no limit but the budget."] = None

    def measure(self) -> str | Callable[..., Any]:
        """Return the metric, with its loss for the metric ``risk``."""
        known = METRICS.get(self.metric)
        if self.metric != "risk" and (known is None or known.gain == "none"):
            from everhold.gates.candidates import why_no_gain

            reason = why_no_gain(self.metric) or f"--metric is {self.metric!r}."
            raise Misuse(f"{reason} Pass one of {', '.join(_METRICS)}.")
        given = arguments.given_options(self, "loss", "low", "high")
        if not given and self.metric != "risk":
            return self.metric
        if known is not None and ("loss" in given or "low" not in known.settings):
            raise Misuse(f"--{next(iter(given))} is only for --metric risk. Leave it out or compare risks.")
        from functools import partial

        from everhold.queries.metrics.row_scores import risk
        from everhold.queries.metrics.scores import metric

        return partial(risk, **given) if self.metric == "risk" else partial(metric, self.metric, **given)


@group.command()
@arguments.with_option_groups
def create(
    *,
    place: arguments.HoldoutPlace,
    champion: ChampionOptions,
    terms: TermOptions,
    gate: GateOption = "gate",
    form: arguments.FormatOption = Format.TABLE,
) -> None:
    """Open a gate with its first champion, once; an act of the steward, kept in the ledger.

    Example:
      everhold gate create flights.db flights --champion baseline.csv
      everhold gate challenge flights.db flights --challenger new_model.csv
      everhold gate create flights.db flights --gate rules --rule "delay > 15"

    From then on a challenger becomes the champion if and only if it is proved to
    be better by more than the margin. All promotions hold at once, however many
    challengers failed in between and however they were chosen. The planned number
    of queries is no limit to a gate, as it is none to 'everhold ask'. Beyond it
    promotions are proved all the same, and need larger gains: see 'gate status'.
    For a limit give --challenges, or 'everhold allot'. It needs a holdout
    with --mechanism guess_and_check, whose surprises pay for promotions.
    The same command again changes nothing.

    Exit codes:
      0  opened, or open already with the same champion, metric and limits
      1  a file cannot be read
      2  wrong usage
      4  no such holdout
      5  there can be no such gate; nothing was changed
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    champion.check("--champion")
    measure = terms.measure()
    with place.opened() as holdout, arguments_checked():
        first, training = champion.read(holdout.schema)
        opened_gate = holdout.gate(
            measure, champion=first, margin=terms.margin, challenges=terms.challenges, name=gate, training=training
        )
        status = opened_gate.status()
    show_record(status, form)


@group.command()
@arguments.with_option_groups
def challenge(
    *,
    place: arguments.HoldoutPlace,
    challenger: ChallengerOptions,
    gate: GateOption = "gate",
    analyst: arguments.AnalystOption = None,
    strict: Annotated[bool, "Exit with code 6 if the challenge is refused."] = False,
    form: arguments.FormatOption = Format.TABLE,
) -> None:
    r"""Let a challenger try to beat the champion, and print whether it is promoted.

    Example:
      everhold gate challenge flights.db flights --challenger new_model.csv

    'promoted' is proved: the challenger is better by more than the margin, and is
    the champion now; it costs a surprise. 'kept' promises nothing and costs only
    one of the planned queries. Challenges beyond the plan are answered, too,
    and need a larger gain. No number is told. The same challenge of the same
    champion again is free and has the same verdict. In a script:
      everhold gate challenge flights.db flights --challenger new.csv \
        --format json | jq .promoted

    Exit codes:
      0  promoted, kept, or refused because what is left does not pay for it
      1  a file cannot be read
      2  wrong usage
      4  no such holdout
      5  the challenger cannot be compared, or there is no such gate or analyst
      6  refused, under --strict
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    challenger.check("--challenger")
    with place.opened(analyst) as holdout, arguments_checked():
        model, training = challenger.read(holdout.schema)
        verdict = holdout.gate(name=gate).challenge(model, training=training, strict=strict)
    show_sentence(str(verdict), verdict.to_dict(), form)


@group.command()
@arguments.with_option_groups
def complete(
    *,
    place: arguments.HoldoutPlace,
    gate: Annotated[str, typer.Argument(metavar="GATE", help="The gate's name.")] = "gate",
    champion: CompletionOptions,
    form: arguments.FormatOption = Format.TABLE,
) -> None:
    """Give a champion's values for rows that arrived; the gate answers no challenge before.

    Example:
      everhold append models.db models march.parquet
      everhold gate complete models.db models gate champion_march.csv
      everhold gate complete models.db models rules --rule "delay > 15"

    The file has the champion's predictions for the rows that arrived, with row ids
    or in their order. They must come from the same model, which nobody can
    check but the steward; the ledger keeps their digest. A rule is recognised. From
    then on these values are fixed. Nothing is charged.

    Exit codes:
      0  completed
      1  a file cannot be read
      2  wrong usage
      4  no such holdout
      5  nothing is left, or it is not the champion; nothing was changed
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    champion.check("a file")
    with place.opened() as holdout, arguments_checked():
        found = holdout.gate(name=gate)
        model, training = champion.read(holdout.schema)
        found.complete(model, training=training)
        status = found.status()
    show_record(status, form)


@group.command()
def status(
    storage: arguments.StorageArgument,
    name: arguments.NameArgument = None,
    *,
    gate: Annotated[str | None, typer.Option("--gate", help="One gate (all of them by default).")] = None,
    form: arguments.FormatOption = Format.TABLE,
) -> None:
    """Print which champion each gate has, and how often it was challenged.

    Example:
      everhold gate status flights.db flights
      everhold gate status flights.db flights --gate gate

    Of one gate it also says how many queries were answered beyond the plan,
    which is no limit, and the least gain in accuracy that the next challenge can
    see ('sees.gain'), if the models differ on one row in twenty.

    Exit codes:
      0  printed
      2  wrong usage
      4  no such holdout
      5  no such gate
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    with arguments.opened(storage, name) as holdout, arguments_checked():
        if gate is not None:
            show_record(holdout.gate(name=gate).status(), form)
            return
        found = holdout.status().get("gates", [])
    show_list(found, _COLUMNS, form, document={"gates": found})


_FAULT, _SPENT = 2, 3
_CODES = {"promoted": 0, "not worse": 0, "kept": 1, "regression": 1, "refused": _SPENT, "undecided": 4}

FileArgument = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="JUnit XML, a table (CSV, JSONL, Parquet), or promptfoo, Inspect, deepeval, lm-eval.",
    ),
]
StorageOption = Annotated[
    str | None, typer.Option(help=f"Path or URL of the storage. {arguments.STORAGE_VARIABLE} replaces it.")
]
HoldoutOption = Annotated[str, typer.Option("--holdout", help="Name of the holdout of the cases.")]
SuiteGateOption = Annotated[str, typer.Option("--gate", help="Name of the gate.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimOptions:
    """Options for the claims of the gate, and its limits."""

    better: Annotated[str, "Metric that has to get better: a column, or 'a - b' or 'a / b' of two."] = "passed"
    not_worse: Annotated[list[str] | None, "A guard, as METRIC=SLACK: at most so much worse than now."] = None
    at_most: Annotated[list[str] | None, "A guard against a number, as METRIC=NUMBER. Also of a ratio, 'a / b'."] = None
    at_least: Annotated[list[str] | None, "The same, from below."] = None
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range", help="Range of a metric, as METRIC=LOW:HIGH (by default 0:1). A value beyond it is an error."
        ),
    ] = None
    units: Annotated[str, "'runs': these cases, new runs. 'cases': cases like these."] = "runs"
    margin: Annotated[float, "A challenger has to be better by more than this."] = 0.0
    missing: Annotated[
        str, "Runs without a result: 'refuse', 'worst' counts them so, 'drop-case' not if both lack one."
    ] = "refuse"
    challenges: Annotated[int, "Challenges that are planned."] = 200
    open: Annotated[
        float | None, "Share of the cases that stay open, drawn by chance: climb on them, ask about the others."
    ] = None

    def terms(self) -> dict[str, Any]:
        """Return the claims by the names of `seal_cases`."""
        slacks, most, least = (
            {name: _number(value) for name, value in map(_pair, each or [])}
            for each in (self.not_worse, self.at_most, self.at_least)
        )
        limits = {name: _range(value) for name, value in map(_pair, self.ranges or [])}
        return {
            "better": self.better, "not_worse": slacks, "ranges": limits, "units": self.units, "margin": self.margin,
            "challenges": self.challenges, "at_most": most, "at_least": least, "open": self.open,
            "missing": self.missing,
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AddingOptions:
    """Options for further cases."""

    add: Annotated[bool, "Add the cases that the suite does not have, with the champion's results."] = False
    baseline_results: Annotated[Path | None, "With --add: results of the baseline, where there are guards."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """Options for the columns of tables of results."""

    case: Annotated[str, "Column of the case ids."] = "case"
    run: Annotated[str, "Column that tells the runs of a case apart."] = "run"
    passed: Annotated[str | None, "Column that says whether a run passed."] = None
    score: Annotated[str | None, "Column of a number, which becomes the metric 'score'."] = None
    cluster: Annotated[str | None, "Column of clusters: cases of one cluster may depend on each other."] = None

    def read(self, file: Path | None, missing: str) -> Any:
        """Return the results in a file, or None without a file. ``missing`` says how runs without a result count."""
        from everhold.gates.files import Columns, read_case_file

        return file and read_case_file(file, columns=Columns(**asdict(self)), missing=missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class SuitePlace:
    """Options for the holdout of the cases, and its storage."""

    holdout: HoldoutOption = "suite"
    storage: StorageOption = None

    def address(self) -> str:
        """Return the storage from the command line, or from the environment if none was given."""
        found = self.storage or os.environ.get(arguments.STORAGE_VARIABLE)
        if not found:
            raise Misuse(f"No storage is given. Pass --storage or set {arguments.STORAGE_VARIABLE}.")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionOptions:
    """The challenger with its files, and the file for the verdict."""

    challenger: Annotated[
        str | None, "Its name, such as a commit: the same results again have their stored verdict, others are refused."
    ] = None
    champion_results: Annotated[Path | None, "New results of the champion, where makers may know the stored ones."] = (
        None
    )
    baseline_results: Annotated[Path | None, "The same for the baseline, where there are guards."] = None
    summary: Annotated[Path | None, "Append the verdict or the error in Markdown to this file."] = None


def suite(
    file: FileArgument,
    *,
    claims: ClaimOptions,
    adding: AddingOptions,
    columns: TableOptions,
    gate: SuiteGateOption = "main",
    place: SuitePlace,
    form: arguments.FormatOption = Format.TABLE,
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
    from everhold.gates.files import groups_in
    from everhold.gates.results import counted
    from everhold.suites import add_cases, seal_cases

    if adding.baseline_results is not None and not adding.add:
        raise Misuse("--baseline-results is given without --add. Pass both, or none.")
    storage = place.address()

    def read(missing: str) -> tuple[Any, Any]:
        results = columns.read(file, missing)
        return results, None if columns.cluster is None else groups_in(results, columns.cluster)

    if adding.add:
        with arguments_checked(), arguments.opened_here(storage, place.holdout) as found:
            missing = found.gate(name=gate).suite.missing
            results, groups = read(missing)
            fixed = columns.read(adding.baseline_results, missing)
            add_cases(found, results, gate=gate, baseline=fixed, groups=groups)
            note(f"read {counted(results)}")
            show_record(found.gate(name=gate).status(), form)
        return
    terms = claims.terms()
    with arguments_checked():
        results, groups = read(claims.missing)
        made = seal_cases(storage, place.holdout, results=results, gate=gate, groups=groups, **terms)
        with made:
            status = made.gate(name=gate).status()
            more = f" of {counted(results)}, and the others are open" if "open_cases" in status else ""
            note(f"sealed {status['results']}{more}")
            show_record(status, form)


def challenge_results(
    file: FileArgument,
    *,
    gate: SuiteGateOption = "main",
    challenger: VersionOptions,
    columns: TableOptions,
    place: SuitePlace,
    analyst: arguments.AnalystOption = None,
    form: arguments.FormatOption = Format.TABLE,
) -> None:
    r"""Compare a file of results with the champion of a gate, with the verdict as exit code.

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
      3  refused: what is left of the budget does not pay for it, or no results of so
         few cases could prove it
    """

    def asked(found: Gate, results: Any, baseline: Any, missing: str) -> Verdict:
        champion = columns.read(challenger.champion_results, missing)
        return found.challenge(results, challenger=challenger.challenger, champion=champion, baseline=baseline)

    _decide(asked, file, gate, challenger, columns, place, analyst, form)


def check(
    file: FileArgument,
    *,
    gate: SuiteGateOption = "main",
    challenger: VersionOptions,
    margin: Annotated[float, "The version may be worse by so much, in the metric's units."] = 0.0,
    columns: TableOptions,
    place: SuitePlace,
    analyst: arguments.AnalystOption = None,
    form: arguments.FormatOption = Format.TABLE,
) -> None:
    r"""Check a file of results against the baseline of a gate, with the verdict as exit code.

    The baseline is the version with which the suite was sealed. No champion changes,
    and all verdicts of the gate hold at once. One verdict is free: that of the
    latest charged check, at first 'undecided'. Later checks have to prove more. If
    the latest charged check said 'not worse', and results that equal the baseline's
    would have proved that then and no longer do, 'undecided' is free in its place.
    Any other verdict costs a surprise.

    Example:
      everhold check results.xml --gate main --margin 0.02 \
        --challenger "$GITHUB_SHA" --storage suite.db

    Exit codes:
      0  not worse than the baseline by more than the margin (proved)
      1  a regression (proved)
      2  an error; nothing was charged
      3  refused: what is left of the budget does not pay for it
      4  undecided: neither is proved; about so many more cases would decide
    """

    def asked(found: Gate, results: Any, baseline: Any, missing: str) -> CheckVerdict:
        if challenger.champion_results is not None:
            raise Misuse(
                "--champion-results is only for 'everhold challenge', and a check is against "
                "the baseline. Leave it out."
            )
        return found.check(results, margin=margin, challenger=challenger.challenger, baseline=baseline)

    _decide(asked, file, gate, challenger, columns, place, analyst, form)


def _decide(
    asked: Callable[[Gate, Any, Any, str], Verdict | CheckVerdict], file: Path, gate: str, challenger: VersionOptions,
    columns: TableOptions, place: SuitePlace, analyst: str | None, form: Format,
) -> None:  # fmt: skip
    """Ask a gate about a file, print the verdict, append it to the summary, and leave with its exit code.

    If there is no verdict for any reason, the summary gives the reason, and the exit code is that of an error.
    """
    from everhold.gates.checks import markdown_of, write_fault, write_summary
    from everhold.gates.results import counted

    summary = challenger.summary
    try:
        with arguments_checked(), arguments.opened(place.address(), place.holdout, analyst) as holdout:
            found = holdout.gate(name=gate)
            missing = found.status().get("missing", "refuse")
            results, baseline = (columns.read(each, missing) for each in (file, challenger.baseline_results))
            verdict = asked(found, results, baseline, missing)
            note(f"read {counted(results)}")
            said = verdict.to_dict()
            show_sentence(str(verdict), said, form)
            sys.stdout.flush()
            write_summary(summary, markdown_of(verdict, found.status()))
            raise typer.Exit(_CODES[said["verdict"]])
    except typer.Exit:
        raise
    except (Exception, KeyboardInterrupt) as fault:
        if isinstance(fault, BrokenPipeError):
            leave_reader()
        said = said_of(fault)["message"]
        note(f"error: {said}")
        write_fault(summary, gate, said)
        raise typer.Exit(_SPENT if isinstance(fault, BudgetExhausted) else _FAULT) from None


def _pair(text: str) -> tuple[str, str]:
    """Return name and value of a text such as "duration=0.5"."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise Misuse(f"{text!r} is not a pair. Pass METRIC=VALUE.")
    return name, value


def _number(text: str) -> float:
    """Return a typed number as a float."""
    try:
        return float(text)
    except ValueError:
        raise Misuse(f"{text!r} is not a number. Pass a number such as 0.02.") from None


def _range(text: str) -> tuple[float, float]:
    """Return both ends of a text such as "0:10"."""
    low, colon, high = text.partition(":")
    if not colon:
        raise Misuse(f"{text!r} is not a range. Pass LOW:HIGH, such as 0:10.")
    return _number(low), _number(high)


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    said = "Keep or revert: a champion and proved promotions: create, challenge, complete, status."
    app.add_typer(group, name="gate", help=said)
    app.command()(arguments.with_option_groups(suite))
    app.command("challenge")(arguments.with_option_groups(challenge_results))
    app.command()(arguments.with_option_groups(check))
