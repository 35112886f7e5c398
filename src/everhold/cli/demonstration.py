"""The command `demo`: the whole idea on real flights."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from everhold.cli.arguments import FormatOption
from everhold.cli.output import Format, show_list

__all__ = ["register"]

_COLUMNS = ("holdout", "reported", "low", "high", "fresh", "questions", "refused")


def register(app: typer.Typer) -> None:
    """Add the command `demo`."""
    app.command()(demo)


def demo(
    output: Annotated[Path, typer.Option(help="Folder for the charts, the certificate and the ledger.")] = Path(
        "everhold-demo"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rules; a few seconds.")] = False,
    form: FormatOption = Format.TABLE,
) -> None:
    r"""Let an analyst climb a score on real flights, and see which score survives.

    Example:
      everhold demo --output demo-output

    Needs the packages of pip install 'everhold\[demo]'; takes less than a minute.

    Exit codes:
      0  done
      1  a package is missing, or the folder cannot be written
    """
    from everhold.lab.demo import run_demo

    result = run_demo(output, progress=form is Format.TABLE and sys.stderr.isatty(), quick=quick)
    if form is Format.TABLE:
        from rich.console import Console

        result.print_to(Console())
    else:
        document = result.to_dict()
        rows = [dict.fromkeys(_COLUMNS) | {"holdout": name} | numbers for name, numbers in document.items()]
        show_list(rows, _COLUMNS, form, document=document)
