"""The program `everhold`: its story, its options, and where each command comes from."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from everhold.cli import certificate, demonstration, holdouts, ledger
from everhold.cli.failures import CommandGroup

__all__ = ["app"]

app = typer.Typer(cls=CommandGroup, rich_markup_mode="rich", add_completion=False, pretty_exceptions_enable=False)


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
    """Keep a holdout sealed and question it thousands of times: every answer stays true of the population.

    A story in three commands:

      everhold create flights.db flights --holdout sealed.parquet --training train.parquet
        seals the rows and prints what is promised about all answers together

      everhold ask flights.db flights --mean "arr_delay > 15 and carrier = 'UA'"
        answers with an interval that holds, however your questions depend on earlier answers

      everhold certificate save flights.db flights --output flights.certificate.html
        writes the promise down and signs it

    No data at hand? 'everhold demo' plays the story on real flights.

    STORAGE is a path or a URL such as sqlite:///flights.db. With EVERHOLD_STORAGE set, it is left out:
    'everhold ask flights --mean "arr_delay > 15"'. Every command takes --format table, json or csv; results go to
    stdout, all else to stderr; with --format json errors are JSON too.

    Exit codes: 0 done (a refused answer, too), 1 a fault, 2 wrong usage, 3 the rows cannot be sealed, 4 no such
    holdout, 5 the question cannot be asked, 6 refused under --strict, 7 rows, ledger or certificate were altered,
    8 the steward's key is missing or another one, 9 the dependence model does not fit, 130 interrupted.
    """


for module in (holdouts, ledger, certificate, demonstration):  # a new module of commands is added here
    module.register(app)
