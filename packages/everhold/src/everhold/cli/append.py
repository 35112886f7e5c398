"""Commands about rows that arrive: append, over-time, drift, retire."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from everhold.cli.arguments import FormatOption, StorageArgument, opened
from everhold.cli.failures import Misuse, arguments_checked
from everhold.cli.option_groups import with_option_groups
from everhold.cli.output import Format, note, show_list, show_record

_NamedArgument = Annotated[str, typer.Argument(metavar="NAME", help="The holdout's name.")]
_WINDOWS = ["window", "rows", "value", "low", "high", "source", "charged"]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(append)
    app.command("over-time")(with_option_groups(over_time))
    app.command()(drift)
    app.command()(retire)


def append(
    storage: StorageArgument,
    name: _NamedArgument,
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="New rows: Parquet or CSV.")] = None,
    *,
    training: Annotated[Path | None, typer.Option(help="New open rows, for guesses.")] = None,
    until: Annotated[
        str | None, typer.Option(help="When these rows had come, such as 2026-12-01; never before an earlier one.")
    ] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Append rows that arrived: old answers stay true, new ones are narrower.

    Example:
      everhold append flights.db flights march.parquet --until 2026-04-01

    Of a table in an engine, sealed with --arrived, --until alone takes the rows up to
    that time.

    What is appended, and when, may depend on all answers, and on nothing else of the
    sealed rows. Rows whose labels come late are appended when the labels are there,
    all at the same age. Asking again after an arrival is a new query. A gate answers
    no challenge until 'everhold gate complete' gives its champion's values for them.
    The budget refills in holdouts that were created with --grows.

    Exit codes:
      0  appended
      3  the rows do not fit, are empty or are there already; nothing was changed
      4  no such holdout
      5  this holdout cannot grow; nothing was changed
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    if file is None and training is None and (until is None or Path(name).is_file()):
        # with the storage in the environment, the two are the name and the file; else rows arrive in their table
        file, storage, name = Path(name), None, storage  # type: ignore[assignment]
    with opened(storage, name) as holdout, arguments_checked():
        arrived = holdout.append(file, training=training, until=until)
    show_record(arrived.to_dict(), form)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowOptions:
    """The windows of arrivals, and a guess for them."""

    by: Annotated[str, typer.Option(help="arrival, a number of arrivals, day, month or year.")] = "arrival"
    law: Annotated[str, typer.Option(help="windows, or one: all rows are of one law.")] = "windows"
    guess: Annotated[float | None, typer.Option(help="Your own guess, for all windows.")] = None


def over_time(
    storage: StorageArgument,
    name: _NamedArgument,
    query: Annotated[str, typer.Argument(metavar="EXPRESSION", help="Such as 'arr_delay > 15'.")],
    *,
    windows: WindowOptions,
    save: Annotated[Path | None, typer.Option(help="Write the picture to this SVG or PNG file.")] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Ask one query about the rows of each window of arrivals.

    Example:
      everhold over-time flights.db flights "arr_delay > 15" --by month

    Each window is a query of its own, and free when it is asked again. Windows whose
    intervals do not meet prove that the population changed.

    Exit codes:
      0  answered
      4  no such holdout
      5  the query cannot be asked; nothing was charged
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    with opened(storage, name) as holdout, arguments_checked():
        by = int(windows.by) if windows.by.isdecimal() else windows.by
        found = holdout.over_time(query, by=by, law=windows.law, guess=windows.guess)
    if save is not None:
        from everhold.charts import save_chart

        save_chart(found.plot(), save, title=found.asked, caption="Each window of arrivals with its interval.")
    columns = [*_WINDOWS, *(["joint_low", "joint_high"] if windows.law == "one" else [])]
    show_list(found.to_rows(), columns, form, document=found.to_dict())
    if form is Format.TABLE and found.changed:
        note(f"the population changed: {len(found.changed):,} pairs of windows do not meet")


def drift(
    storage: StorageArgument,
    name: _NamedArgument,
    *,
    arrival: Annotated[int | None, typer.Option(help="Its number; by default the latest one.")] = None,
    columns: Annotated[str | None, typer.Option(help="Comma-separated; by default the label and 19 others.")] = None,
    also: Annotated[list[str] | None, typer.Option(help="A further condition to compare; may be repeated.")] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Compare the rows of an arrival with all before it.

    Example:
      everhold drift flights.db flights --columns arr_delay,carrier

    Each comparison is two queries, and pays like them. Where two intervals do not meet,
    the population changed.

    Exit codes:
      0  compared
      4  no such holdout
      5  there is nothing to compare; nothing was charged
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    named = None if columns is None else [each.strip() for each in columns.split(",")]
    with opened(storage, name) as holdout, arguments_checked():
        found = holdout.drift(arrival, columns=named, also=also or ())
    shown = ["asked", "before_low", "before_high", "since_low", "since_high", "changed"]
    show_list(found.to_rows(), shown, form, document=found.to_dict())


def retire(
    storage: StorageArgument,
    name: _NamedArgument,
    before: Annotated[int, typer.Argument(metavar="ARRIVAL", help="An arrival at which a tree opened.")],
    *,
    to: Annotated[Path, typer.Option(help="Parquet file for the rows that are opened.")],
    form: FormatOption = Format.TABLE,
) -> None:
    """End the trees about rows before an arrival, and open those rows.

    Example:
      everhold retire flights.db flights 6 --to opened.parquet

    Answers that were given stay true. The rows are training rows from now on. It works
    with the address of a service, too, with a steward's token. Where
    the command was interrupted, run it again: the rows are written, nothing is changed.
    'everhold status' lists the trees with the arrivals at which they opened.

    Exit codes:
      0  retired
      4  no such holdout
      5  no tree opened at that arrival; nothing was changed
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    if to.exists():
        raise Misuse(f"{to} is there already. Name a new file.")
    with opened(storage, name) as holdout, arguments_checked():
        retired = holdout.retire(before)
    from pyarrow import parquet

    written = to.with_name(f".{to.name}.{os.getpid()}")  # a file of this name is whole, or not there
    try:
        parquet.write_table(retired, written)
        written.rename(to)
    finally:
        written.unlink(missing_ok=True)
    show_record({"retired_before": before, "rows": retired.num_rows, "file": str(to)}, form)
