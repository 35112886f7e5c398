"""Commands about parts of the budget for named analysts: allot, allotments."""

from __future__ import annotations

from typing import Annotated

import typer

from everhold.cli.arguments import FormatOption, NameArgument, StorageArgument, opened
from everhold.cli.failures import arguments_checked
from everhold.cli.holdouts import ALLOTTED
from everhold.cli.output import Format, note, show_list, show_record


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(allot)
    app.command()(allotments)


def allot(
    storage: StorageArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The holdout's name.")],
    analyst: Annotated[str | None, typer.Argument(metavar="ANALYST", help="Any name, such as team-a.")] = None,
    *,
    queries: Annotated[int, typer.Option(help="Most new queries that may be answered.")],
    charges: Annotated[
        int | None,
        typer.Option(
            help="Most that may be charged: credits of a privacy_budget, surprises where guesses are checked, "
            "otherwise answers; by default what that many queries can cost.",
        ),
    ] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Let an analyst spend a part of the budget, and no more.

    Example:
      everhold allot flights.db flights team-a --queries 200 --charges 5
      everhold ask flights.db flights --mean late --analyst team-a

    It is an act of the steward, kept in the ledger. The same command with other
    limits raises or lowers them, never below what is spent. Parts may add up to
    more than the whole: then it is first come, first served.
    Analysts share answers: what one has asked is free for all others. A name
    proves nothing: anyone who can open the storage can ask under any name.

    Exit codes:
      0  allotted
      2  the name or a limit cannot be used; nothing was changed
      4  no such holdout
      5  more was spent already, or the name looks like another; nothing was changed
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    # with the storage in the environment, the two that are given are the holdout's name and the analyst
    place, who = ((storage, None), name) if analyst is None else ((storage, name), analyst)
    with opened(*place) as holdout, arguments_checked():
        allotted = holdout.allot(who, queries=queries, charges=charges)
    show_record(allotted.to_dict(), form)


def allotments(storage: StorageArgument, name: NameArgument = None, form: FormatOption = Format.TABLE) -> None:
    """Print what analysts may spend and have spent.

    Example:
      everhold allotments flights.db flights

    With --format json also the steward's acts, in order, and what is not allotted.

    Exit codes:
      0  printed
      4  no such holdout
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    with opened(storage, name) as holdout:
        found = holdout.allotments()
    show_list(found.to_rows(), ALLOTTED, form, document=found.to_dict())
    if form is Format.TABLE:
        left = " and ".join(f"{count:,} {what}" for what, count in found.not_allotted.items())
        note(f"not allotted: {left}")
