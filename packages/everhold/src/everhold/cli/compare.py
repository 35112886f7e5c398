"""The command about two files of predictions: compare."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from everhold.cli.answers import show_answer
from everhold.cli.arguments import AnalystOption, FormatOption, StorageArgument, opened
from everhold.cli.failures import Misuse, arguments_checked
from everhold.cli.option_groups import with_option_groups
from everhold.cli.output import Format
from everhold.queries.metrics.registry import METRICS

_RISK = "risk"
_METRICS = (*METRICS.compared, _RISK)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileArguments:
    """The holdout, and the two files."""

    storage: StorageArgument
    name: Annotated[str, typer.Argument(metavar="NAME", help="The holdout's name.")]
    first: Annotated[Path, typer.Argument(metavar="FIRST", help="Predictions: CSV, TSV or Parquet.")]
    second: Annotated[Path, typer.Argument(metavar="SECOND", help="The predictions that are subtracted.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonOptions:
    """The comparison, row by row, and its rows."""

    metric: Annotated[str, typer.Option(help=f"What is compared: {', '.join(_METRICS)}.")] = "accuracy"
    loss: Annotated[str | None, typer.Option(help="With --metric risk: 'absolute', 'squared' or 'log'.")] = None
    low: Annotated[float, typer.Option(help="With --metric risk: smaller losses count as this.")] = 0.0
    high: Annotated[float | None, typer.Option(help="With --metric risk: larger losses count as this.")] = None
    where: Annotated[str | None, typer.Option(help="Compare on the rows that meet this condition.")] = None

    def asked(self) -> Any:
        """The metric, or the loss of a risk with its ends."""
        if self.metric != _RISK and (self.metric not in METRICS or METRICS[self.metric].two == "none"):
            raise Misuse(f"--metric is {self.metric!r}. Pass one of {', '.join(_METRICS)}")
        if (self.metric == _RISK) != (self.loss is not None):
            raise Misuse("--loss belongs to --metric risk, which needs it")
        if self.metric == _RISK:
            return {"loss": self.loss, "low": self.low, "high": self.high}
        if self.high is not None or self.low:
            raise Misuse("--low and --high belong to --metric risk; leave them out")
        return self.metric


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(with_option_groups(compare))


def compare(
    *,
    files: FileArguments,
    comparison: ComparisonOptions,
    guess: Annotated[float, typer.Option(help="Your guess of the difference.")] = 0.0,
    column: Annotated[str | None, typer.Option(help="Column of the predictions, where there are several.")] = None,
    analyst: AnalystOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Ask how much better or larger the score of one file of predictions is than that of another.

    Examples:
      everhold compare study.db study forest.csv linear.csv
      everhold compare study.db study a.csv b.csv --metric risk --loss squared --high 2500
      everhold compare study.db study a.csv b.csv --metric f1 --where "region = 'N'"

    One query, row by row. The answer is about labels drawn anew on these rows:
    where both files predict the same, they tie whatever the label is, so only the
    other rows are bet on. The guess is no difference, unless you give another one;
    if the sealed rows contradict it, one surprise is charged.

    Exit codes:
      0  answered, or refused because the budget is spent
      1  a file cannot be read
      2  wrong usage
      4  no such holdout
      5  the files cannot be compared, or there is no such analyst; nothing was charged
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    asked = comparison.asked()
    from everhold.queries.metrics.difference import difference
    from everhold.queries.metrics.slices import in_slice, of_predictions
    from everhold.queries.predictions.files import read_predictions

    with opened(files.storage, files.name, analyst) as holdout, arguments_checked():
        both = [
            of_predictions(asked, read_predictions(path, holdout.schema, column=column))
            for path in (files.first, files.second)
        ]
        answer = holdout.ask(in_slice(difference(*both), comparison.where, guessed=True), guess=guess)
    show_answer(answer, form, whole=None)
