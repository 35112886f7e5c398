"""Commands that need no holdout: plan compares mechanisms, split makes the rows to seal, board ranks open results."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol

import typer

from everhold.answers import with_shares
from everhold.cli import arguments
from everhold.cli.failures import Misuse, arguments_checked
from everhold.cli.output import Format, note, show_list, show_record
from everhold.progress import progress

if TYPE_CHECKING:
    from everhold.dependence import DependenceModel
    from everhold.families.study import StudyPlan
    from everhold.gates.steps import CasePlan
    from everhold.planning import Plan
    from everhold.planning.widths import GrowthPlan
    from everhold.sealing.intake.splitting import Parts, SplitRule

_USUAL_VALUE = 0.9  # that of the planner, which is imported only when it is needed


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTerms:
    """Options for the planned queries, rows and guarantee."""

    queries: Annotated[int | None, "Number of adaptive queries, or of those of a month. Not with --cases."] = None
    rows: Annotated[int | None, "Number of sealed rows. May be left out with --radius."] = None
    surprises: Annotated[
        int | None,
        "Answers that may come from the holdout, for mechanisms that check guesses. By default 10, or one for each "
        "query if fewer.",
    ] = None
    confidence: Annotated[float, "Probability that all answers are within the radius."] = 0.95
    slack: Annotated[float, "No budget is spent on guesses closer than this share of the radius."] = 0.0
    radius: Annotated[float | None, "A requested half-width: also print the rows needed and the queries allowed."] = (
        None
    )
    training_rows: Annotated[
        int | None, "Rows that guesses are made from. By default as many as are sealed, 0 if there are none."
    ] = None
    at: Annotated[float, "True value of a yes-or-no query at which mechanisms are compared."] = _USUAL_VALUE
    disagreement: Annotated[
        float | None, "Share of the rows on which two models differ: also print the least step a gate can see."
    ] = None

    def planned(self, dependence: PlannedDependence) -> Plan:
        """Return the plan with all mechanisms.

        Raises:
            Misuse: If the number of queries is missing, or options do not fit.
        """
        queries = self.needed_queries()
        if dependence.alike is not None and dependence.model is None and dependence.group_size is None:
            raise Misuse("--alike is only for groups. Pass --group-size or --model with it.")
        from everhold.planning import plan as make_plan

        return make_plan(
            rows=self.rows, queries=queries, surprises=self.surprises, confidence=self.confidence,
            slack=self.slack, radius=self.radius, dependence=dependence.declared(), training_rows=self.training_rows,
            at=self.at, disagreement=self.disagreement, alike=dependence.alike,
        )  # fmt: skip

    def needed_queries(self) -> int:
        """Return the number of queries, or raise Misuse if it is missing."""
        if self.queries is None:
            raise Misuse("The number of queries is missing. Pass --queries, --cases for a suite, or --protocol.")
        return self.queries

    def of_study(self, protocol: Path, dependence: PlannedDependence) -> StudyPlan:
        """Return the widths of every kind of query of a protocol.

        Raises:
            Misuse: If options do not fit, or the number of rows is missing.
        """
        if (self.radius, self.slack, self.disagreement, dependence.alike) != (None, 0.0, None, None):
            raise Misuse(
                "--protocol cannot be combined with --radius, --slack, --disagreement or --alike. Leave those out."
            )
        declared = dependence.declared()
        from everhold.families.study import plan_study

        if self.rows is None:
            raise Misuse("--rows is missing. A protocol is planned for a number of sealed rows, so pass it.")
        return plan_study(
            protocol, rows=self.rows, queries=self.queries, surprises=self.surprises, confidence=self.confidence,
            dependence=declared, training_rows=self.training_rows,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDependence:
    """Dependence of the rows on each other."""

    model: arguments.ModelOption = None
    group_size: Annotated[
        int | None,
        typer.Option(metavar="INT", help="Rows of one group, which may depend in any way. Not with --model."),
    ] = None
    alike: Annotated[
        float | None,
        "Expected correlation of two rows of one group, from 0 to 1 (by default 1, the worst case). What is expected "
        "rests on it, and no promise does.",
    ] = None

    def declared(self) -> DependenceModel | None:
        """Return the declared dependence model, or None for independent rows."""
        if self.model is not None and self.group_size is not None:
            raise Misuse("--model and --group-size are both given. Pass one of them.")
        if self.model is not None:
            return arguments.model_from(self.model)
        if self.group_size is None:
            return None
        if self.group_size < 1:
            raise Misuse(f"--group-size is {self.group_size}. Pass a whole number of at least 1.")
        from everhold.dependence import Groups

        return Groups(self.group_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteOptions:
    """Options for a gate about the cases of a suite."""

    cases: Annotated[int | None, "Instead of rows: cases of a suite. Prints the steps that a gate can prove."] = None
    runs: Annotated[int, "With --cases: runs of each case."] = 1
    challenges: Annotated[int, "With --cases: planned challenges."] = 200
    nights: Annotated[int, "With --cases: simulated nights of an optimiser, to compare policies; 0 for none."] = 20

    def planned(self, cases: int, request: SessionTerms) -> CasePlan:
        """Return the smallest gains that the gate can prove, and a comparison of policies."""
        from everhold.gates.nights import compare_policies
        from everhold.gates.steps import plan_cases

        made = plan_cases(
            cases=cases, runs=self.runs, challenges=self.challenges, confidence=request.confidence,
            disagreement=0.2 if request.disagreement is None else request.disagreement,
        )  # fmt: skip
        if self.nights == 0:
            return made
        policies = compare_policies(
            cases=cases, runs=self.runs, challenges=self.challenges, confidence=request.confidence, nights=self.nights
        )
        return replace(made, policies=policies)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthOptions:
    """Options for rows that arrive every month."""

    rows_per_month: Annotated[int | None, "Sealed rows that arrive each month, with --months: widths over time."] = None
    months: Annotated[int | None, "Months over which rows arrive."] = None

    def planned(self, request: SessionTerms) -> GrowthPlan:
        """Return the widths over time.

        Raises:
            Misuse: If one of the options is missing.
        """
        queries = request.needed_queries()
        if self.rows_per_month is None or self.months is None:
            raise Misuse("--rows-per-month and --months belong together. Give both.")
        from everhold.planning.widths import plan_growth

        return plan_growth(
            rows_per_month=self.rows_per_month, months=self.months, queries=queries, confidence=request.confidence,
            at=request.at, surprises=1.0 if request.surprises is None else request.surprises / self.months,
            training_rows=request.training_rows,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """Output of a plan: chart and format."""

    chart: Annotated[
        Path | None, "Also draw the plan to this .svg or .html file. With --rows-per-month, widths over time."
    ] = None
    form: arguments.FormatOption = Format.TABLE

    def show(
        self, made: Any, tables: Sequence[Any] = (), *, title: str, caption: str, against: tuple[str, ...] = (),
        first: Any = None,
    ) -> None:  # fmt: skip
        """Draw the chart of a plan, and print its tables, the first of all before it, and its explanation."""
        if self.chart is not None:
            from everhold.charts import save_chart

            with arguments_checked():
                save_chart(made.chart(*against), self.chart, title=title, caption=caption)
        if self.form is Format.TABLE and first is not None:
            lines = first.to_rows()
            show_list(lines, list(lines[0]), self.form, document=lines)
        lines = made.to_rows()
        show_list(lines, list(lines[0]), self.form, document=made.to_dict())
        if self.form is Format.TABLE:
            for table in tables:
                more = table.to_rows()
                show_list(more, list(more[0]), self.form, document=more)
            for sentence in made.explain().splitlines():
                note(sentence)


class FurtherPlans(Protocol):
    """Options by which a distribution adds a plan to `everhold plan`: the `plans` of its options of `everhold create`.

    Attributes:
        title: Title of the plan's picture.
    """

    title: ClassVar[str]

    def planned(self, request: SessionTerms) -> Any | None:
        """Return the plan, or None if no option asks for one.

        Raises:
            Misuse: If options do not fit together.
        """


def plan(
    *,
    request: SessionTerms,
    dependence: PlannedDependence,
    protocol: Annotated[
        Path | None, "A TOML file of declared families: print widths for each, and for all other queries."
    ] = None,
    suite: SuiteOptions,
    growth: GrowthOptions,
    extensions: Mapping[str, FurtherPlans],
    output: OutputOptions,
) -> None:
    r"""Compare all mechanisms, each at its best, for a study that you plan.

    Example:
      everhold plan --rows 50000 --queries 1000 --surprises 10 --radius 0.05
      everhold plan --rows 20000 --protocol study.toml
      everhold plan --cases 150 --runs 4 --challenges 300
      everhold plan --teams 30 --submissions 100 --rows 5000 --feedback score --public .3

    The first table has the three ways to ask, for a yes-or-no query around 0.9:
    declared before, silent until the end, or told as you go; and the usual
    intervals beside them. The second compares mechanisms for told answers.
    A radius is the half-width that holds for all answers at once, whatever
    happens. What is 'expected' is narrower where guesses hold; a third table
    shows half-widths by true value or spread, and by surprises. Lines marked
    'published' are bounds from the literature, for comparison. The line
    'empirical' is for queries that are fixed before the first answer. With
    --model the rows depend on each other as the file says; with --group-size 5
    they come in groups of 5, such as households, that are independent; --alike
    .05 says how alike rows of one group are expected to be. With --cases it
    prints the smallest gain that a gate promotes in four of five nights, about new
    cases and about new runs of these, or 'not provable'. A second table compares
    policies by simulated nights of an optimiser that tries as many changes: every
    change through the gate, or climb on open cases and ask once. It recommends the
    one that ends highest, and says how often nothing can be proved. With --teams
    it prints for each feedback of a competition how wide scores will be, and how
    many pairs of teams the final board tells apart.

    A study protocol has widths before there are any data:
      queries = 500                  # not declared, such as models
      \[families."end points"]
      members = 30
      \[families.subgroups]
      members = 200
      \[families.texts]
      texts = 40
    To declare such a family, replace 'members'; see 'everhold declare --help'.

    Exit codes:
      0  done
      1  the chart cannot be written, or a package for it is missing
      2  the request is not valid, or no number of rows reaches the radius
      9  the file holds no dependence model, or the model does not suit the request
    """
    with arguments_checked():
        further = next(
            ((each.title, made) for each in extensions.values() if (made := each.planned(request)) is not None), None
        )
    if further is not None:
        title, made = further
        output.show(made, title=title, caption=made.explain())
    elif protocol is not None:
        with arguments_checked():
            study = request.of_study(protocol, dependence)
        output.show(study, title="The plan: width of every kind of query", caption=study.explain())
    elif suite.cases is not None:
        with arguments_checked():
            steps = suite.planned(suite.cases, request)
        caption = "Smallest gain that is promoted in four of five nights, without a point where none is."
        tables = [] if steps.policies is None else [steps.policies]
        output.show(steps, tables, title="The plan: steps that a gate proves", caption=caption)
    elif growth.rows_per_month is not None or growth.months is not None:
        with arguments_checked():
            widths = growth.planned(request)
        output.show(widths, title="The plan: widths over time", caption=widths.explain())
    else:
        with arguments_checked():
            made = request.planned(dependence)
        output.show(
            made,
            [table for table in (made.widths, made.steps) if table is not None],
            first=made.ways,
            title="The plan: radius of every mechanism",
            caption="Half-width of all answers at once. Published bounds are dashed, and the request is a cross.",
            against=("rows" if made.rows is None else "queries",),
        )


_APART, _SEALING = "What belongs together, at most one of", "The command that is printed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOptions:
    """The rule of the split, and the folder of both files."""

    holdout: Annotated[float, typer.Option(metavar="SHARE", help="About which share of the rows is to be sealed.")]
    output: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for training.parquet and holdout.parquet, made if need be.")
    ]
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Equal values belong together: patients, households.", rich_help_panel=_APART
        ),
    ] = None
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Dates, times or numbers: the last rows are sealed.", rich_help_panel=_APART
        ),
    ] = None
    stratify: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Both files have its values in the same shares.", rich_help_panel=_APART),
    ] = None
    gap: Annotated[
        float | None,
        "With --time: days (of numbers, units) between both files that are given to no analyst. Blocks of days are "
        "then declared to be independent.",
    ] = None
    block: Annotated[
        float | None, "With --gap: days that are declared to belong together (four times the gap by default)."
    ] = None
    seed: Annotated[int | None, "For the same split another time (by default random)."] = None

    def rule(self) -> SplitRule:
        """Return the rule that decides which rows are sealed.

        Raises:
            Misuse: If the options do not fit together.
        """
        if not 0.0 < self.holdout < 1.0:
            raise Misuse(f"--holdout is {self.holdout}. Pass a share of the rows between 0 and 1, such as 0.2.")
        given = {"--groups": self.groups, "--time": self.time, "--stratify": self.stratify}
        named = [option for option, column in given.items() if column is not None]
        if len(named) > 1:
            raise Misuse(f"{' and '.join(named)} are given together. Pass only one of them.")
        if self.time is None and (self.gap is not None or self.block is not None):
            raise Misuse("--gap and --block are only for --time. Leave them out or name the column of times.")
        if self.block is not None and self.gap is None:
            raise Misuse("--block is given without --gap. Pass the days before the first block, such as --gap 30.")
        for option, length in (("--gap", self.gap), ("--block", self.block)):
            if length is not None and not 0.0 < length < float("inf"):
                raise Misuse(f"{option} is {length}. Pass a positive number of days or units.")
        from everhold.sealing.intake.splitting import SplitRule

        return SplitRule(
            share=self.holdout, groups=self.groups, time=self.time, stratify=self.stratify, gap=self.gap or 0.0,
            block=self.block,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SealingOptions:
    """Options of the command that seals."""

    panel: ClassVar[str] = _SEALING

    label: Annotated[str | None, typer.Option(metavar="COLUMN", help="The truth (by default that of --stratify).")] = (
        None
    )
    row_id: Annotated[str | None, typer.Option(metavar="COLUMN", help="Names rows, each once.")] = None
    queries: Annotated[int, "Number of queries to plan for."] = 1_000


def split(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="All rows: a .parquet, .csv or .tsv file.")],
    *,
    options: SplitOptions,
    sealing: SealingOptions,
    form: arguments.FormatOption = Format.TABLE,
) -> None:
    r"""Split a table into training and sealed rows, and print the command that seals.

    Examples:
      everhold split flights.parquet --holdout 0.5 --output data
      everhold split visits.csv --holdout 0.2 --groups patient --output data
      everhold split days.csv --holdout 0.3 --time date --output data
      everhold split days.csv --holdout 0.3 --time date --gap 30 --output data
      everhold split loans.csv --holdout 0.2 --stratify paid --output data

    Which rows are sealed follows from chance, groups, times or classes alone; no
    outcome decides. All columns are kept, and no file is ever overwritten.
    --groups seals whole groups. --time seals the last rows, and the command
    declares that they are in order of time: rows may depend on each other in any
    way. With --gap, rows less than the gap before the sealed ones are left out,
    and a column 'block' is added, by which the command declares that blocks are
    independent of each other.
    --stratify tells how often each value is sealed; the command declares that, and
    answers are for rows with the values in these shares.
    Put TABLE away when the rows are sealed: it contains the sealed rows.

    Exit codes:
      0  split
      1  a file cannot be written
      2  wrong usage
      3  the rows cannot be read, or cannot be split so; nothing was written
    """
    rule, output = options.rule(), options.output
    named = [column for column in (sealing.label, sealing.row_id) if column is not None]
    from everhold.diagnosis.columns import likeness
    from everhold.sealing.intake.request import checked_seed
    from everhold.sealing.intake.splitting import split_file
    from everhold.sealing.storage import TRAINING_FILE

    with arguments_checked(), progress("splitting"):
        parts = split_file(table, output, rule, named=named, seed=checked_seed(options.seed))
    column, label, queries = rule.group_column, sealing.label or rule.stratify, sealing.queries
    alike = None if column is None else likeness(output / TRAINING_FILE, groups=column, label=label)
    from everhold.planning.choice import FEWER_QUERIES

    counts = (queries, *(fewer for fewer in FEWER_QUERIES if fewer < queries))
    allowed = next((count for count in counts if _is_worth_it(parts, rule, count, alike)), None)
    command = _sealing_command(table, output, rule, label=label, row_id=sealing.row_id, queries=allowed or queries)
    record = {
        "training": str(output / "training.parquet"),
        "holdout": str(output / "holdout.parquet"),
        "training_rows": parts.training_rows,
        "holdout_rows": parts.sealed_rows,
        "left_out": parts.left_out,
        "groups": len(parts.sealed_sizes) if rule.group_column else None,
        "about": _about(rule),
        "create": command,
    }
    if form is not Format.TABLE:
        show_record(record, form)
    else:
        show_record({name: value for name, value in record.items() if name != "create" and value is not None}, form)
        sys.stdout.write(f"\n{command}\n")
    _say(table, parts, rule, queries=queries, allowed=allowed, label=sealing.label)


def _about(rule: SplitRule) -> str:
    """Return which population the answers are about, in words."""
    if rule.groups is not None:
        return f"groups of such sizes, drawn as these values of {rule.groups!r} were"
    if rule.time is not None and not rule.gap:
        return f"the sealed rows in order of {rule.time!r}, given what came before each"
    if rule.time is not None:
        return (
            f"the sealed block of {rule.time!r} as it might have turned out, and later "
            "times only if they follow the same law"
        )
    if rule.stratify is not None:
        return with_shares(rule.stratify)
    return "rows drawn one by one, as these were"


def _is_worth_it(parts: Parts, rule: SplitRule, queries: int, alike: float | None) -> bool:
    """Return whether the promise for these rows would be useful, so that `everhold create` would seal them.

    ``alike`` is as for `Mechanism.expected_radius`.
    """
    from everhold.dependence import Groups, Independent, InOrder
    from everhold.mechanisms.base import planned_surprises
    from everhold.planning import PlanRequest, best_mechanism
    from everhold.planning.choice import is_worth

    with arguments_checked():
        request = PlanRequest(
            rows=parts.sealed_rows, queries=queries, surprises=planned_surprises(None, queries),
            dependence=Independent() if parts.groups is None
            else (Groups if rule.group_column else InOrder)(parts.sealed_sizes),
            training_rows=parts.training_rows, alike=alike,
        )  # fmt: skip
        best = best_mechanism(request)
    return is_worth(best, alike)


def _sealing_command(
    table: Path, output: Path, rule: SplitRule, *, label: str | None, row_id: str | None, queries: int
) -> str:  # fmt: skip
    """Return the shell command that seals the rows."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", table.name.partition(".")[0]).strip("-") or "holdout"
    options = {"holdout": output / "holdout.parquet", "training": output / "training.parquet", "label": label,
               "row-id": row_id, "groups": rule.group_column,
               "in-order": None if rule.gap else rule.time, "stratified": rule.stratify,
               "queries": queries}  # fmt: skip
    given = [f"--{option}={value}" if str(value).startswith("-") else (f"--{option}", str(value))
             for option, value in options.items() if value is not None]  # fmt: skip
    words = [word for each in given for word in ([each] if isinstance(each, str) else each)]
    return shlex.join(["everhold", "create", f"{name}.db", name, *words])


def _say(
    table: Path, parts: Parts, rule: SplitRule, *, queries: int, allowed: int | None, label: str | None
) -> None:  # fmt: skip
    """Print further remarks on the error stream."""
    if rule.gap:
        note(
            f"{parts.left_out:,} rows within {rule.gap:g} of the sealed ones were left out, because the analyst must "
            "not have seen them. Blocks are declared to be independent of each other, which is nearly so only if they "
            "are several times as long as the dependence of rows. By default they are four gaps long (--block changes "
            "it). Or fit a model: see 'everhold dependence fit --help'."
        )
    if allowed is None:
        note("The sealed rows are worth too few independent ones to promise anything: the command will be refused.")
    elif allowed < queries:
        note(f"The sealed rows are worth too few independent ones for {queries:,} queries, so {allowed:,} are planned.")
    if rule.group_column is not None and label is None and (allowed or 0) < queries:
        note("Give --label to plan with the spread of the label between training groups: more may be planned then.")
    note(f"Put {table.name} away when the rows are sealed: it contains the sealed rows.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    from everhold.cli.create import further_options

    plans = {name: options.plans for name, options in further_options().items()}
    app.command()(arguments.with_option_groups(plan, plans))
    app.command()(arguments.with_option_groups(split))
    app.command()(arguments.with_option_groups(board))


# The command about open results: board.


_COLUMNS = ("tier", "model", "score", "low", "high", "best_rank", "worst_rank")


def board(
    results: Annotated[Path, typer.Argument(metavar="FILE", help="CSV or Parquet: a row for each item.")],
    *,
    model: Annotated[str | None, "Of a long table: the column of models."] = None,
    item: Annotated[str | None, "Of a long table: the column of items."] = None,
    score: Annotated[str | None, "Of a long table: the column of scores."] = None,
    low: Annotated[float | None, "Least possible score; 0 if all are 0 or 1."] = None,
    high: Annotated[float | None, "Largest possible score; 1 if all are 0 or 1."] = None,
    lowest: Annotated[bool, "The lowest score is best."] = False,
    confidence: Annotated[float, "Probability with which everything holds."] = 0.95,
    output: Annotated[Path | None, "Also write a page (.html) or a picture (.svg)."] = None,
    form: arguments.FormatOption = Format.TABLE,
) -> None:
    r"""Rank models by open results: proved tiers, rank intervals, and who is first.

    Examples:
      everhold board results.csv
      everhold board long.csv --model model --item question --score points \
        --low 0 --high 10 --output board.html

    The file has a row for each item and a column of numbers for each model. All
    tiers, ranks and intervals hold at once for the population that the items were
    drawn from independently. Nothing is sealed: models that were tuned on these
    items are not covered.

    Exit codes:
      0  printed
      2  wrong usage
      3  the results cannot be ranked; the item is named
    """
    from everhold.boards import board as ranked

    if not results.is_file():
        raise Misuse(f"There is no file {str(results)!r}. Pass a CSV or Parquet file.")
    with arguments_checked():
        found = ranked(
            results, model=model, item=item, score=score, low=low, high=high, lowest=lowest, confidence=confidence
        )
        if output is not None:
            found.save(output)
    show_list(found.to_rows(), _COLUMNS, form, document=found.to_dict())
    note(found.explain())
