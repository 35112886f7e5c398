"""The command `split`: rows to train on and rows to seal, and the command that seals them."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from everhold.answers import with_shares
from everhold.cli.arguments import FormatOption
from everhold.cli.failures import Misuse, arguments_checked
from everhold.cli.option_groups import with_option_groups
from everhold.cli.output import Format, note, show_record
from everhold.progress import progress

if TYPE_CHECKING:
    from everhold.dependence import DependenceModel
    from everhold.sealing.intake.splitting import Parts, SplitRule

_APART, _SEALING = "What belongs together, at most one of", "The command that is printed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOptions:
    """The rule of the split, and the folder of both files."""

    holdout: Annotated[float, typer.Option(metavar="SHARE", help="About which share of the rows is to be sealed.")]
    output: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for training.parquet and holdout.parquet; made if need be.")
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
        typer.Option(help="With --time: days (of numbers, units) between both files that are given to no analyst."),
    ] = None
    block: Annotated[
        float | None,
        typer.Option(help="With --time: days that are declared to belong together; four times the gap by default."),
    ] = None
    seed: Annotated[int | None, typer.Option(help="For the same split another time; by default chance decides.")] = None

    def rule(self) -> SplitRule:
        """The rule that decides which rows are sealed.

        Raises:
            Misuse: If the options do not fit together.
        """
        if not 0.0 < self.holdout < 1.0:
            raise Misuse(f"--holdout is {self.holdout}; expected a share of the rows between 0 and 1, such as 0.2")
        given = {"--groups": self.groups, "--time": self.time, "--stratify": self.stratify}
        named = [option for option, column in given.items() if column is not None]
        if len(named) > 1:
            raise Misuse(f"{' and '.join(named)} are given together; expected one of them; leave the others out")
        if self.time is None and (self.gap is not None or self.block is not None):
            raise Misuse("--gap and --block belong to --time; leave them out or name the column of times")
        if self.time is not None and self.gap is None:
            raise Misuse(
                "--time is given without --gap; expected for how many days rows tell of each other, such as --gap 30: "
                "the rows in between are given to no analyst"
            )
        for option, length in (("--gap", self.gap), ("--block", self.block)):
            if length is not None and not 0.0 < length < float("inf"):
                raise Misuse(f"{option} is {length}; expected a positive number of days or units")
        from everhold.sealing.intake.splitting import SplitRule

        return SplitRule(
            share=self.holdout, groups=self.groups, time=self.time, stratify=self.stratify, gap=self.gap or 0.0,
            block=self.block,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SealingOptions:
    """Options of the command that seals."""

    label: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The truth; by default that of --stratify.", rich_help_panel=_SEALING),
    ] = None
    row_id: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Names rows, each once.", rich_help_panel=_SEALING)
    ] = None
    queries: Annotated[int, typer.Option(help="Number of queries to plan for.", rich_help_panel=_SEALING)] = 1_000


def register(app: typer.Typer) -> None:
    """Add the command `split`."""
    app.command()(with_option_groups(split))


def split(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="All rows: a .parquet, .csv or .tsv file.")],
    *,
    options: SplitOptions,
    sealing: SealingOptions,
    form: FormatOption = Format.TABLE,
) -> None:
    r"""Split a table into training and sealed rows, and print the command that seals.

    Examples:
      everhold split flights.parquet --holdout 0.5 --output data
      everhold split visits.csv --holdout 0.2 --groups patient --output data
      everhold split days.csv --holdout 0.3 --time date --gap 30 --output data
      everhold split loans.csv --holdout 0.2 --stratify paid --output data

    Which rows are sealed follows from chance, groups, times or classes alone; no
    outcome decides. All columns are kept, and no file is ever overwritten.
    --groups seals whole groups. --time seals the last rows; those less than the
    gap before them are left out, and a column 'block' is added, by which
    the command declares that blocks are independent of each other.
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
    from everhold.diagnosis.columns import likeness
    from everhold.sealing.intake.request import checked_seed
    from everhold.sealing.intake.splitting import split_file
    from everhold.sealing.storage import TRAINING_FILE

    with arguments_checked(), progress("splitting"):
        parts = split_file(table, output, rule, seed=checked_seed(options.seed))
    column, label, queries = rule.group_column, sealing.label or rule.stratify, sealing.queries
    alike = None if column is None else likeness(output / TRAINING_FILE, groups=column, label=label)
    allowed = _allowed(parts, queries, alike)
    command = _command(table, output, rule, label=label, row_id=sealing.row_id, queries=allowed or queries)
    record = {
        "training": str(output / "training.parquet"),
        "holdout": str(output / "holdout.parquet"),
        "training_rows": parts.training_rows,
        "holdout_rows": parts.sealed_rows,
        "left_out": parts.left_out,
        "groups": len(parts.sealed_sizes) if rule.groups or rule.time else None,
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
    """The population of the answers."""
    if rule.groups is not None:
        return f"groups of such sizes, drawn as these values of {rule.groups!r} were"
    if rule.time is not None:
        return (
            f"the sealed block of {rule.time!r} as it might have turned out; later times only if they follow the "
            "same law"
        )
    if rule.stratify is not None:
        return with_shares(rule.stratify)
    return "rows drawn one by one, as these were"


def _model(parts: Parts) -> DependenceModel:
    from everhold.dependence import Groups, Independent

    return Independent() if parts.groups is None else Groups(parts.sealed_sizes)


def _allowed(parts: Parts, queries: int, alike: float | None) -> int | None:
    """The number of queries that is requested, or the largest smaller one that rows would be sealed for."""
    from everhold.planning.choice import FEWER_QUERIES

    counts = (queries, *(fewer for fewer in FEWER_QUERIES if fewer < queries))
    return next((count for count in counts if _is_worth_it(parts, count, alike)), None)


def _is_worth_it(parts: Parts, queries: int, alike: float | None) -> bool:
    """True if the command that seals would be accepted; `alike` is as for `Mechanism.expected_radius`."""
    from everhold.mechanisms.checks_guesses import planned_surprises
    from everhold.planning import PlanRequest, best_mechanism
    from everhold.planning.choice import is_worth

    with arguments_checked():
        request = PlanRequest(
            rows=parts.sealed_rows, queries=queries, surprises=planned_surprises(None, queries),
            dependence=_model(parts), training_rows=parts.training_rows, alike=alike,
        )  # fmt: skip
        best = best_mechanism(request)
    return is_worth(best, alike)


def _command(
    table: Path, output: Path, rule: SplitRule, *, label: str | None, row_id: str | None, queries: int
) -> str:  # fmt: skip
    """The command that seals the rows, to be pasted into a shell."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", table.name.partition(".")[0]).strip("-") or "holdout"
    options = {"holdout": output / "holdout.parquet", "training": output / "training.parquet", "label": label,
               "row-id": row_id, "groups": rule.group_column, "stratified": rule.stratify,
               "queries": queries}  # fmt: skip
    given = [f"--{option}={value}" if str(value).startswith("-") else (f"--{option}", str(value))
             for option, value in options.items() if value is not None]  # fmt: skip
    words = [word for each in given for word in ([each] if isinstance(each, str) else each)]
    return shlex.join(["everhold", "create", f"{name}.db", name, *words])


def _say(
    table: Path, parts: Parts, rule: SplitRule, *, queries: int, allowed: int | None, label: str | None
) -> None:  # fmt: skip
    """Print further remarks on the error stream."""
    if rule.time is not None:
        note(
            f"{parts.left_out:,} rows within {rule.gap:g} of the sealed ones were left out: the analyst must not have "
            "seen them. Blocks are declared to be independent of each other, which is nearly so only if they are "
            "several times as long as rows remember. By default they are four gaps long; --block says otherwise. "
            "Or fit a model: see 'everhold dependence fit --help'."
        )
    if allowed is None:
        note("The sealed rows are worth too few independent ones to promise anything: the command will be refused.")
    elif allowed < queries:
        note(f"The sealed rows are worth too few independent ones for {queries:,} queries; {allowed:,} are planned.")
    if parts.groups is not None and label is None and (allowed or 0) < queries:
        note("Give --label to plan with the spread of the label between training groups: more may be planned then.")
    note(f"Put {table.name} away when the rows are sealed: it contains the sealed rows.")
