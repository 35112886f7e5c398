"""Commands about a holdout: ask, quote, status, transcript, list."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from everhold.answers import UNSEALED
from everhold.cli.answers import check_output, save_table, show_answer, show_columns
from everhold.cli.arguments import (
    STORAGE_VARIABLE,
    AnalystOption,
    FormatOption,
    HoldoutPlace,
    NameArgument,
    StorageArgument,
    address_of,
    opened,
    storage_of,
)
from everhold.cli.failures import Misuse, arguments_checked
from everhold.cli.option_groups import with_option_groups
from everhold.cli.output import Format, note, show_list, show_record
from everhold.cli.queries import Spelled, with_query_options
from everhold.display import at_most
from everhold.queries import Form
from everhold.remote import is_address, remote_storage

if TYPE_CHECKING:
    pass

_TRANSCRIPT = ("sequence", "asked_at", "query", "asked", "value", "low", "high", "source", "charged")
ALLOTTED = ("analyst", "asked", "queries", "charged", "charges")
"""Columns of a table of allotments."""
_LISTED = ("name", "rows", "training_rows", "mechanism", "queries", "confidence", "asked", "charged", "created")
_DETAILS, _RESULT = "More about the query", "The result"

GuessOption = Annotated[
    float | None, typer.Option(help="Your own guess, in place of the training estimate.", rich_help_panel=_DETAILS)
]
ToleranceOption = Annotated[
    float | None,
    typer.Option(
        help="Half-width requested; sharper costs more credits. Only with --mechanism privacy_budget.",
        rich_help_panel=_DETAILS,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (ask, quote, status, transcript):
        app.command()(command)
    app.command("list")(list_holdouts)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRequest:
    """The analyst's own guess and the requested width."""

    guess: GuessOption = None
    tolerance: ToleranceOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOptions(AnswerRequest):
    """The same, and where a table is written."""

    output: Annotated[
        Path | None,
        typer.Option(
            help="With --synthesize or --private-synthesize: the file for the table, .csv or .parquet.",
            rich_help_panel=_RESULT,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingOptions:
    """Ways of asking."""

    strict: Annotated[bool, typer.Option("--strict", help="Exit with code 6 if the query is refused.")] = False
    silent: Annotated[
        bool, typer.Option("--silent", help="Only register it: nothing is told before 'everhold unseal'.")
    ] = False
    all_columns: Annotated[
        bool,
        typer.Option(
            "--all-columns",
            help="Ask about each column of the predictions file, all at once.",
            rich_help_panel=_DETAILS,
        ),
    ] = False


@with_option_groups
@with_query_options
def ask(
    *,
    place: HoldoutPlace,
    spelled: Spelled,
    details: AnswerOptions,
    analyst: AnalystOption = None,
    ways: AskingOptions,
    form: FormatOption = Format.TABLE,
) -> None:
    r"""Ask one query and print the answer with what holds for the population.

    Examples:
      everhold ask flights.db flights --mean "arr_delay > 15"
      everhold ask flights.db flights --mean arr_delay --low -60 --high 180
      everhold ask flights.db flights --accuracy predictions.csv
      everhold ask flights.db flights --accuracy models.parquet --all-columns
      everhold ask flights.db flights --correlation "late = 1" --with "hour > 17"
      everhold ask flights.db flights --histogram arr_delay --edges -60,0,15,60
      everhold ask flights.db flights --mean "late = 1" --analyst team-a

    A repeated query gets the same answer, free of charge. With --all-columns a
    file has one column for each of thousands of models; it is read once, and
    nothing is charged if one column is wrong.
    With --silent a query is only registered; its answer is told, with all
    others, when the study ends: see 'everhold unseal --help'.
    When the budget is spent, answers are refused: value, low and high are null.
    So are queries that an analyst's allotment may not pay for; refusals cost
    nothing, are not recorded, and anybody may ask again.

    These take no guess, and charge no surprise:
      everhold ask flights.db flights --choose lowest --error a.csv --error b.csv
      everhold ask flights.db flights --quantile arr_delay
      everhold ask flights.db flights --first-above 0.2 --mean "arr_delay > 60" \
        --mean "arr_delay > 30"
      everhold ask flights.db flights --synthesize cells.json --output table.csv
    With --mechanism privacy_budget they are --private-choose and so on, at a --price.
    The file of cells lists what rows may look like, without a look at the sealed
    ones; rows with other values count as "other", or as the value named "rest":
      {"columns": [{"name": "carrier", "values": ["AA", "UA"]},
                   {"name": "arr_delay", "edges": [-60, 0, 15, 60]}]}

    Exit codes:
      0  answered, or refused because the budget is spent
      1  a file cannot be read or written
      2  wrong usage
      4  no such holdout
      5  the query cannot be asked, or there is no such analyst; nothing was charged
      6  refused, under --strict
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    makes_table = spelled.kind is not None and spelled.kind.form is Form.CELLS
    guess, tolerance, output = details.guess, details.tolerance, details.output
    check_output(output, wanted=makes_table)
    with place.opened(analyst) as holdout:
        if ways.all_columns:
            if tolerance is not None or ways.strict or output is not None:
                raise Misuse("--all-columns takes no --tolerance, --strict or --output; leave them out")
            queries = spelled.columns(holdout.schema)
            guesses = None if guess is None else [guess] * len(queries)
            answers = holdout.ask_many(list(queries.values()), guesses=guesses, silent=ways.silent)  # type: ignore[arg-type]
            show_columns(dict(zip(queries, answers, strict=True)), form)
            return
        query, tolerance = spelled.query(holdout.schema, tolerance)
        assert query is not None
        answer = holdout.ask(query, guess=guess, tolerance=tolerance, strict=ways.strict, silent=ways.silent)
        whole = holdout.planned
    if output is not None and answer.table is not None:
        save_table(answer.table, output)
    show_answer(answer, form, whole=whole, files=spelled.files())


@with_option_groups
@with_query_options
def quote(
    *,
    place: HoldoutPlace,
    spelled: Spelled | None = None,
    request: AnswerRequest,
    analyst: AnalystOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Say what a query would cost and how wide its interval would be; free.

    Examples:
      everhold quote flights.db flights --mean "arr_delay > 15"
      everhold quote flights.db flights --choose lowest --error a.csv --error b.csv

    Without a query it is the price of any new one, for a mean between 0 and 1.
    A query that is made of several costs what its new parts cost. The radius is
    a half-width; of a choice it is the regret, of a quantile the error of its
    level, of a scan how far beyond the threshold a verdict may be wrong.

    Exit codes:
      0  quoted
      2  wrong usage
      4  no such holdout
      5  the query could not be asked, or there is no such analyst
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    assert spelled is not None
    with place.opened(analyst) as holdout:
        query, tolerance = spelled.query(holdout.schema, request.tolerance)
        price = holdout.quote(query, guess=request.guess, tolerance=tolerance)
    show_record(price.to_dict(), form)


def status(storage: StorageArgument, name: NameArgument = None, form: FormatOption = Format.TABLE) -> None:
    """Print rows, mechanism, promise, what was asked and what is left.

    Example:
      everhold status flights.db flights --format json

    Two bars follow for each kind of query: the half-width of its next answer, and
    that after five more surprises, for shares near one half. Where parts of the
    budget are allotted, a table of analysts follows: what each has asked and been
    charged, with the limits of each.

    Exit codes:
      0  printed
      4  no such holdout
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    with opened(storage, name) as holdout:
        found = holdout.status()
    if form is not Format.TABLE:
        show_record(found, form)
        return
    show_record({name: value for name, value in found.items() if name not in ("allotments", "worth")}, form)
    if "worth" in found:
        from everhold.asking.reports.status import Worth

        sys.stdout.write(f"\n{Worth(found['worth'])}\n")
    if "allotments" in found:
        sys.stdout.write("\n")
        show_list(found["allotments"], ALLOTTED, form, document=found)
    if outlook := found.get("outlook"):
        widths = ", ".join(f"{when} within {at_most(half)}" for when, half in outlook.items())
        note(f"the next confirmed answers to yes-or-no queries: {widths}")


def transcript(storage: StorageArgument, name: NameArgument = None, form: FormatOption = Format.TABLE) -> None:
    """Print every query with its answer, in order; the same as 'everhold ledger show'.

    Example:
      everhold transcript flights.db flights --format csv

    Values are means of row values between 0 and 1, as the ledger holds them. Of a
    choice, a quantile or a scan the value is the number of the candidate, bin or
    query, from 0, and 'within' says how sharp it is: the regret, the error of
    the level, or the distance beyond the threshold.
    Of an unsealed study there is also what the sealed rows say of each query,
    with an interval for the population.

    Exit codes:
      0  printed
      4  no such holdout
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    show_transcript(storage, name, form)


def show_transcript(storage: str, name: str | None, form: Format) -> None:
    """Print the transcript of the holdout at a place."""
    with opened(storage, name) as holdout:
        entries = holdout.transcript()
    rows = entries.to_rows()
    columns = [*_TRANSCRIPT, *(name for name in (*UNSEALED, "analyst", "about") if rows and name in rows[0])]
    if any(row.get("within") is not None for row in rows):  # a choice says nothing without its regret
        columns.insert(columns.index("source"), "within")
    show_list(rows, columns, form, document=entries.to_dict())


def list_holdouts(
    storage: Annotated[
        str | None,
        typer.Argument(metavar="STORAGE", help=f"Where the holdouts are; {STORAGE_VARIABLE} by default."),
    ] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Print all holdouts of a storage.

    Example:
      everhold list flights.db

    Exit codes:
      0  printed
      2  no storage is given
      4  no such storage
      8  the token of a service is missing or wrong
    """
    place = storage_of(storage)
    if is_address(place):
        with arguments_checked():
            rows = remote_storage(place).holdouts(place)
    else:
        rows = _of_storage(place)
    show_list(rows, _LISTED, form, document={"holdouts": rows})


def _of_storage(place: str) -> list[dict[str, Any]]:
    from everhold.ledger import LedgerStore
    from everhold.sealing.configuration import listed_facts

    with LedgerStore.open(address_of(place), create=False) as store:
        records = store.records()
        return [listed_facts(record, store.head(record.id)) for record in records]
