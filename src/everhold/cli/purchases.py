"""Commands for what has a price of its own: choose, quantile, above, synthesize."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from everhold.cli.arguments import AnalystOption, FormatOption, NameArgument, StorageArgument, opened
from everhold.cli.failures import Misuse
from everhold.cli.output import Format, note, show_list, show_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold.answers import QuotedPrice
    from everhold.display import Display
    from everhold.holdout import Holdout
    from everhold.questions.priced import Paid, PricedQuery
    from everhold.synthetic import SyntheticTable
    from everhold.values.base import Query, Schema

__all__ = ["register"]

_CANDIDATES, _PAYMENT = "What is compared, one kind of", "What it may cost"
_MEANT = ("charged", "remaining", "question")
_CHOSEN = ("index", "candidate", "regret", *_MEANT)
_QUANTILE = ("low", "high", "quantile", "error", *_MEANT)
_ABOVE = ("index", "found", "asked", "threshold", "within", *_MEANT)
_TABLE = ("method", "cells", "questions", "within", "saved", *_MEANT)
_SHARPNESS = {"regret": "a regret", "error": "an error of the level", "within": "a distance beyond the threshold"}
"""An answer has one of them."""
_ENDINGS = (".csv", ".parquet")


class Method(StrEnum):
    """How a synthetic table is made."""

    MWEM = "mwem"
    BLR = "blr"


MeansOption = Annotated[
    list[str] | None,
    typer.Option(
        "--mean", metavar="EXPR", help="A condition or a number; give it several times.", rich_help_panel=_CANDIDATES
    ),
]
AccuraciesOption = Annotated[
    list[Path] | None,
    typer.Option("--accuracy", help="A file of predictions; several times.", rich_help_panel=_CANDIDATES),
]
ErrorsOption = Annotated[
    list[Path] | None, typer.Option("--error", help="The same, by what they miss.", rich_help_panel=_CANDIDATES)
]
LinesOption = Annotated[
    Path | None,
    typer.Option("--questions", help="A file with one condition or number a line.", rich_help_panel=_CANDIDATES),
]
ColumnOption = Annotated[str | None, typer.Option(help="Column of the predictions files, where they have several.")]
LowOption = Annotated[float | None, typer.Option(help="Of numbers: smaller and missing values count as this.")]
HighOption = Annotated[float | None, typer.Option(help="Of numbers: larger values count as this.")]
PriceOption = Annotated[
    int, typer.Option(help="Credits; more of them come closer. A mean costs 100.", rich_help_panel=_PAYMENT)
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Exit with code 6 if it is refused.", rich_help_panel=_PAYMENT)
]
DryRunOption = Annotated[
    bool,
    typer.Option("--dry-run", help="Only say what it would cost and how sharp it would be.", rich_help_panel=_PAYMENT),
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (choose, quantile, above, synthesize):
        app.command()(command)


def choose(
    storage: StorageArgument,
    name: NameArgument = None,
    *,
    mean: MeansOption = None,
    accuracy: AccuraciesOption = None,
    error: ErrorsOption = None,
    highest: Annotated[bool, typer.Option("--highest/--lowest", help="Which mean is the best.")] = False,
    low: LowOption = None,
    high: HighOption = None,
    column: ColumnOption = None,
    price: PriceOption = 100,
    analyst: AnalystOption = None,
    dry_run: DryRunOption = False,
    strict: StrictOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Choose the best of several means or models, without telling their values.

    Example:
      everhold choose flights.db flights --error a.csv --error b.csv --price 500

    The regret bounds how much worse the chosen one is for the population than
    the best. It needs a holdout that was created with
    --mechanism privacy_budget.

    Exit codes:
      0  chosen, or refused because the budget is spent
      2  wrong usage
      4  no such holdout
      5  these cannot be compared; nothing was charged
      6  refused, under --strict
      7  the rows or the ledger were altered
      8  the steward's key is missing or another one
    """
    from everhold.questions.choice import ChoiceQuery

    _check_one_kind({"mean": mean, "accuracy": accuracy, "error": error})
    best: Literal["lowest", "highest"] = "highest" if highest else "lowest"
    with opened(storage, name, analyst) as holdout:
        candidates = _means(mean, low, high) + _predictions(accuracy, error, column, holdout.schema)
        contest = ChoiceQuery(candidates, best, price)
        _buy(
            holdout,
            contest,
            _CHOSEN,
            form,
            dry_run=dry_run,
            strict=strict,
            named=("candidate", _files(accuracy, error)),
        )


def quantile(
    storage: StorageArgument,
    name: NameArgument = None,
    expression: Annotated[str | None, typer.Argument(metavar="EXPR", help="A column or a number made of some.")] = None,
    *,
    low: Annotated[float, typer.Option(help="Where the bins begin; not read off the sealed rows.")],
    high: Annotated[float, typer.Option(help="Where they end.")],
    level: Annotated[float, typer.Option("--quantile", help="Which quantile; 0.5 is the median.")] = 0.5,
    bins: Annotated[int, typer.Option(help="Number of bins, all equally wide.")] = 100,
    price: PriceOption = 100,
    analyst: AnalystOption = None,
    dry_run: DryRunOption = False,
    strict: StrictOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Find a median or another quantile of a number, to the width of a bin.

    Example:
      everhold quantile flights.db flights arr_delay --low -60 --high 180

    The error says by how much the level is off at most, for the population. It
    needs a holdout that was created with --mechanism privacy_budget.

    Exit codes:
      0  found, or refused because the budget is spent
      2  wrong usage
      4  no such holdout
      5  it cannot be asked; nothing was charged
      6  refused, under --strict
      7  the rows or the ledger were altered
      8  the steward's key is missing or another one
    """
    from everhold.questions.quantile import QuantileQuery

    if expression is None:
        expression, name = name, None  # the storage is in the environment
    if expression is None:
        raise Misuse("there is no number to look at; expected STORAGE NAME EXPR, such as flights.db flights arr_delay")
    with opened(storage, name, analyst) as holdout:
        query = QuantileQuery(expression, level, low, high, bins, price)
        _buy(holdout, query, _QUANTILE, form, dry_run=dry_run, strict=strict)


def above(
    storage: StorageArgument,
    name: NameArgument = None,
    *,
    threshold: Annotated[float, typer.Option(help="What the means are compared with, in their units.")],
    mean: MeansOption = None,
    accuracy: AccuraciesOption = None,
    error: ErrorsOption = None,
    questions: LinesOption = None,
    low: LowOption = None,
    high: HighOption = None,
    column: ColumnOption = None,
    price: PriceOption = 100,
    analyst: AnalystOption = None,
    dry_run: DryRunOption = False,
    strict: StrictOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    r"""Find the first of many means that is above a threshold.

    Example:
      everhold above flights.db flights --mean "arr_delay > 60" \
        --mean "arr_delay > 30" --threshold 0.2 --price 1000

    The means are scanned in their order and none is told; thousands of them are
    one question with one price. For the population, the one that is found is at
    least the threshold minus 'within', and all before it are at most the
    threshold plus 'within'. It needs --mechanism privacy_budget.

    Exit codes:
      0  scanned, or refused because the budget is spent
      1  the file of questions cannot be read
      2  wrong usage
      4  no such holdout
      5  it cannot be asked; nothing was charged
      6  refused, under --strict
      7  the rows or the ledger were altered
      8  the steward's key is missing or another one
    """
    from everhold.questions.first_above import AboveQuery

    _check_one_kind({"mean": mean, "accuracy": accuracy, "error": error, "questions": questions})
    texts = mean if questions is None else _lines(questions)
    with opened(storage, name, analyst) as holdout:
        listed = _means(texts, low, high) + _predictions(accuracy, error, column, holdout.schema)
        scan = AboveQuery(listed, threshold, price)
        _buy(holdout, scan, _ABOVE, form, dry_run=dry_run, strict=strict, named=("asked", _files(accuracy, error)))


def synthesize(
    storage: StorageArgument,
    name: NameArgument = None,
    *,
    universe: Annotated[Path, typer.Option(help="The columns and their values or bins: a JSON file.")],
    output: Annotated[
        Path | None, typer.Option(help="The file for the table; its ending, .csv or .parquet, decides the form.")
    ] = None,
    marginals: Annotated[int, typer.Option(help="Promise all counts of so many columns at a time.")] = 2,
    method: Annotated[Method, typer.Option(help="'blr' is for universes of a few cells.")] = Method.MWEM,
    rounds: Annotated[int | None, typer.Option(help="Rounds of mwem; by default the best number.")] = None,
    price: PriceOption = 100,
    analyst: AnalystOption = None,
    dry_run: DryRunOption = False,
    strict: StrictOption = False,
    form: FormatOption = Format.TABLE,
) -> None:
    r"""Make a table of weighted cells that may be queried for ever at no further cost.

    Example:
      everhold synthesize flights.db flights --universe cells.json \
        --price 3000 --output table.csv

    The universe lists what rows may look like, without a look at the sealed ones:
      {"columns": [{"name": "carrier", "values": ["AA", "UA"]},
                   {"name": "arr_delay", "edges": [-60, 0, 15, 60]}]}
    Rows with other values are counted as "other", or as the value that "rest"
    names. All marginals of the table are within 'within' of the population's.
    The same command again costs nothing. It needs --mechanism privacy_budget.

    Exit codes:
      0  made, or refused because the budget is spent
      1  a file cannot be read or written
      2  wrong usage
      4  no such holdout
      5  the universe or the wish cannot be used; nothing was charged
      6  refused, under --strict
      7  the rows or the ledger were altered
      8  the steward's key is missing or another one
    """
    from everhold.cli.universe_file import read_universe
    from everhold.errors import QueryRejected
    from everhold.questions.synthesis import SynthesisQuery

    if not dry_run:
        _check_output(output)
    cells = read_universe(universe)
    try:
        queries = cells.marginals(marginals)
    except ValueError as reason:
        raise QueryRejected(f"marginals is {marginals}: {reason}; nothing was charged") from None
    query = SynthesisQuery(cells, queries, method.value, price, rounds)
    with opened(storage, name, analyst) as holdout:
        if dry_run or output is None:
            _show_price(holdout.quote(query), "an error of the table", form)
            return
        answer = holdout.ask(query, strict=strict)
    if answer.table is not None:
        _save(answer.table, output)
    _show(answer, {**answer.to_dict(), "saved": None if answer.table is None else str(output)}, _TABLE, form)


def _buy(
    holdout: Holdout, query: PricedQuery[Any], columns: Sequence[str], form: Format, *, dry_run: bool, strict: bool,
    named: tuple[str, Sequence[str]] = ("", ()),
) -> None:  # fmt: skip
    """Quote or ask, and print; files of predictions are called by their names, under that key."""
    if dry_run:
        sharpness = next(_SHARPNESS[name] for name in columns if name in _SHARPNESS)
        _show_price(holdout.quote(query), sharpness, form)
        return
    answer = holdout.ask(query, strict=strict)
    record, (key, files) = answer.to_dict(), named
    if files and record["index"] is not None:
        record[key] = files[record["index"]]
    _show(answer, record, columns, form)


def _show(answer: Paid, record: dict[str, Any], columns: Sequence[str], form: Format) -> None:
    if all(record.get(name) is None for name in _SHARPNESS):
        note(f"{answer}; nothing was charged")
    show_list([record], columns, form, document=record)


def _show_price(price: QuotedPrice, sharpness: str, form: Format) -> None:
    """The price, and for people what its radius means here."""
    show_record(price.to_dict(), form)
    if form is not Format.TABLE:
        return
    if price.refused or price.radius is None:
        note("it would be refused; nothing was charged")
    else:
        cost = "nothing, because it was asked before" if price.answered_before else f"{price.charged_at_most:,} credits"
        note(f"it would cost {cost}, for {sharpness} of at most {price.radius:.4g}; nothing was charged")


def _files(accuracy: Sequence[Path] | None, error: Sequence[Path] | None) -> list[str]:
    """Questions about files of predictions by the files' names; a hash would tell people nothing."""
    kinds = (("accuracy", accuracy), ("error", error))
    return [f"{kind} of {path}" for kind, paths in kinds for path in paths or []]


def _check_output(output: Path | None) -> None:
    """Before anything is charged: whether the table can be written."""
    if output is None or output.suffix.lower() not in _ENDINGS:
        found = "there is no --output" if output is None else f"--output is {str(output)!r}"
        raise Misuse(f"{found}; expected a file such as table.csv or table.parquet, or --dry-run; nothing was charged")
    if not output.absolute().parent.is_dir():
        raise Misuse(f"--output is {str(output)!r}; expected a file in a folder that exists; nothing was charged")


def _check_one_kind(given: dict[str, Any]) -> None:
    """Means of different kinds are in different units, or were not meant together."""
    chosen = [f"--{kind}" for kind, values in given.items() if values]
    if len(chosen) != 1:
        listed = ", ".join(f"--{kind}" for kind in given)
        raise Misuse(f"expected one kind of questions, found {' and '.join(chosen) or 'none'}; give one of {listed}")


def _means(texts: Sequence[str] | None, low: float | None, high: float | None) -> list[Query]:
    from everhold.questions.mean import MeanQuery

    if not texts and (low is not None or high is not None):
        raise Misuse("--low and --high belong to --mean; leave them out")
    return [MeanQuery(text, low, high) for text in texts or []]


def _predictions(
    accuracy: Sequence[Path] | None, error: Sequence[Path] | None, column: str | None, schema: Schema
) -> list[Query]:
    from everhold.cli.predictions import read_predictions
    from everhold.questions.metrics import accuracy as accuracy_of
    from everhold.questions.metrics import error as error_of

    if column is not None and not (accuracy or error):
        raise Misuse("--column belongs to --accuracy and --error; leave it out")
    make = accuracy_of if accuracy else error_of
    return [make(read_predictions(path, schema, column=column)) for path in accuracy or error or []]


def _lines(path: Path) -> list[str]:
    """The questions of a file, without empty lines."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise Misuse(f"{path.name} is no text in UTF-8; expected one condition or number a line") from None
    found = [line for line in lines if line.strip()]
    if not found:
        raise Misuse(f"{path.name} holds no question; expected one condition or number a line")
    return found


def _save(table: SyntheticTable, path: Path) -> None:
    """One line for each cell that has any weight."""
    if path.suffix.lower() == ".parquet":
        from everhold.table_files import write_parquet

        write_parquet(path, table.to_rows())
        return
    _write_csv(table, path)


def _write_csv(table: Display, path: Path) -> None:
    import csv

    rows = table.to_rows()
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
