"""The program `everhold`: its story, its options, and where each command comes from."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from everhold.cli.commands import ExtensibleGroup

app = typer.Typer(cls=ExtensibleGroup, rich_markup_mode="rich", add_completion=False, pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:
    if wanted:
        from everhold import __version__

        sys.stdout.write(f"everhold {__version__}\n")
        raise typer.Exit


@app.callback()
def everhold(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version and leave.")
    ] = False,
) -> None:
    r"""Query a sealed holdout thousands of times; every answer stays true.

    A story in three commands:

      everhold create flights.db flights --holdout sealed.parquet \
        --training train.parquet
          seals the rows and prints what is promised about all answers together

      everhold ask flights.db flights --mean "arr_delay > 15"
          answers with an interval that holds for the population, however the
          query depends on the answers before

      everhold certificate save flights.db flights --output flights.html
          writes the promise down and signs it

    No data at hand? 'everhold demo' plays the story on real flights; it comes
    with 'pip install everhold\[lab]'.

    'everhold ask' also chooses among models, finds a quantile or the first of
    many queries above a threshold, and synthesizes a table. What is known before
    the study is declared, and then costs nothing: 'everhold declare --help'.

    STORAGE is a path or a URL such as sqlite:///flights.db. The environment
    variable EVERHOLD_STORAGE replaces it: everhold ask flights --mean "late".
    Every command takes --format table, json or csv. Results go to stdout, all
    else to stderr; with --format json errors are JSON, too.

    Exit codes:
        0  done; also when an answer is refused because the budget is spent
        1  a fault, a missing package, or a file that cannot be used
        2  wrong usage
        3  the rows or settings cannot be sealed; nothing was created
        4  no such holdout or storage
        5  the query cannot be asked; nothing was charged
        6  refused, under --strict
        7  rows, ledger or certificate were altered
        8  the steward's key is missing or wrong
        9  the dependence model does not fit the rows
       10  a certificate of another version, whose words were not checked
      130  interrupted
    """
