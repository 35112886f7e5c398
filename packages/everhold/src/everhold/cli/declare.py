"""The command about families of queries: declare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from everhold.cli.arguments import FormatOption, NameArgument, StorageArgument, opened
from everhold.cli.failures import arguments_checked
from everhold.cli.output import Format, note, show_list

_COLUMNS = ["name", "holds", "declared", "bits", "within"]

_ProtocolOption = Annotated[
    Path | None, typer.Option(help="A TOML file of families; without it, those that are declared are printed.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(declare)


def declare(
    storage: StorageArgument, name: NameArgument = None, *, protocol: _ProtocolOption = None,
    form: FormatOption = Format.TABLE,
) -> None:  # fmt: skip
    r"""Declare families of queries, whose members cost nothing from then on.

    Example:
      everhold create flights.db flights --holdout sealed.parquet \
        --training training.parquet --protocol study.toml
      everhold declare flights.db flights
      everhold declare flights.db flights --protocol more.toml

    A protocol is a TOML file:
      \[families."end points"]
      listed = \["late", {difference = \["arr_delay > 15", "dep_delay > 15"]}]
      \[families.carriers]
      subgroups = \["carrier", "origin"]
      of = "arr_delay > 15"
      \[families.texts]
      texts = 40                     # all expressions of up to 40 bits

    Members are answered from the sealed rows, in any order, as often as you like, at a width
    that is known beforehand and never changes. Families of the holdout's creation
    have the narrowest answers; each later one takes one query of the budget.
    'within' is the half-width of a share of rows that takes as many bits.

    Exit codes:
      0  declared or printed
      4  no such holdout
      5  a family cannot be declared; nothing was changed
      6  no query is left that a family could take
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    with opened(storage, name) as holdout, arguments_checked():
        if protocol is not None:
            from everhold.families.protocol import protocol as read

            holdout.declare_all(read(protocol).families)
        found = holdout.declared.families()
    show_list(found.to_rows(), _COLUMNS, form, document=found.to_dict())
    if form is Format.TABLE and not found.rows:
        note("no family is declared")
