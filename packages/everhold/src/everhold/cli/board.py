"""The command about open results: board."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from everhold.cli.arguments import FormatOption
from everhold.cli.failures import Misuse, arguments_checked
from everhold.cli.output import Format, note, show_list

_COLUMNS = ("tier", "model", "score", "low", "high", "best_rank", "worst_rank")


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(board)


def board(
    results: Annotated[Path, typer.Argument(metavar="FILE", help="CSV or Parquet: a row for each item.")],
    *,
    model: Annotated[str | None, typer.Option(help="Of a long table: the column of models.")] = None,
    item: Annotated[str | None, typer.Option(help="Of a long table: the column of items.")] = None,
    score: Annotated[str | None, typer.Option(help="Of a long table: the column of scores.")] = None,
    low: Annotated[float | None, typer.Option(help="Least possible score; 0 if all are 0 or 1.")] = None,
    high: Annotated[float | None, typer.Option(help="Largest possible score; 1 if all are 0 or 1.")] = None,
    lowest: Annotated[bool, typer.Option("--lowest", help="The lowest score is best.")] = False,
    confidence: Annotated[float, typer.Option(help="Probability with which everything holds.")] = 0.95,
    output: Annotated[Path | None, typer.Option(help="Also write a page (.html) or a picture (.svg).")] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Rank models by open results: proved tiers, rank intervals, and who is first.

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
      5  the results cannot be ranked; the item is named
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
