"""The command that ends a study: unseal."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated

import typer

from everhold.answers import UNSEALED
from everhold.cli.arguments import FormatOption, NameArgument, StorageArgument, opened
from everhold.cli.failures import Misuse
from everhold.cli.output import Format, note, show_list
from everhold.errors import EverholdWarning

_FOR_EVER = (
    "unsealing releases the sealed value of every query and closes the study: no new query is answered afterwards. "
    "This cannot be undone."
)


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(unseal)


def unseal(
    storage: StorageArgument,
    name: NameArgument = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for a confirmation.")] = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """End the study: print what the sealed rows say about all queries asked.

    Example:
      everhold unseal flights.db flights

    For each query, also those asked with --silent, there are the value on the
    sealed rows and an interval that holds for the population, mostly narrower than
    the answer. All of them hold together, and cost nothing. No new query is answered
    afterwards. Repeats and the transcript carry these numbers, too.
    Holdouts that share rows with this one, or hold the next block of the same
    series without an embargo, lose their promise: it says which of this storage
    do, and asks for a confirmation. Unsealed again, a study prints the same.
    Of a competition, final submissions are compared with each other first; then
    'everhold leaderboard' is final.

    Exit codes:
      0  unsealed, now or before
      1  the answer was no; nothing was told or changed
      2  there is no terminal to confirm it, and no --yes
      4  no such holdout
      5  it rests on noise, or nothing was asked; nothing was told or changed
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    with opened(storage, name) as holdout:
        if not holdout.status()["closed"]:
            _confirm(holdout.affected_holdouts(), yes=yes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EverholdWarning)  # they were said before the confirmation
            unsealed = holdout.unseal()
    rows = unsealed.to_rows()
    columns = ["sequence", "query", "asked", *UNSEALED, *(name for name in ("analyst", "about") if name in rows[0])]
    show_list(rows, columns, form, document=unsealed.to_dict())
    note(unsealed.explain())


def _confirm(losses: list[str], *, yes: bool) -> None:
    """Say what it means, and ask.

    Raises:
        Misuse: If there is no terminal to answer in.
    """
    for text in (_FOR_EVER, *losses):
        note(f"warning: {text}")
    if yes:
        return
    if not _has_terminal():
        raise Misuse(
            "confirmation required; run it in a terminal, or pass --yes to close the study for ever; nothing was told "
            "or changed"
        )
    typer.confirm("Unseal?", abort=True, err=True)


def _has_terminal() -> bool:
    return sys.stdin.isatty()
