"""The command `demo`: the whole idea on real flights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from everhold.cli.arguments import FormatOption, with_option_groups
from everhold.cli.output import Format, show_list


def register(app: typer.Typer) -> None:
    """Add the command `demo`."""
    app.command()(with_option_groups(demo))


def demo(
    output: Annotated[Path, "Folder for the charts, the certificate and the ledger."] = Path("demo-output"),
    form: FormatOption = Format.TABLE,
) -> None:
    r"""Let an analyst climb a score on real flights, and see which score survives.

    Example:
      everhold demo --output demo-output

    Needs the packages of pip install 'everhold-lab'; takes less than a minute.

    Exit codes:
      0  done
      1  a package is missing, or the folder cannot be written
    """
    from everhold_lab.demo.story import run_demo

    result = run_demo(output)
    if form is Format.TABLE:
        from rich.console import Console

        result.print_to(Console())
    else:
        rows = result.to_rows()
        show_list(rows, list(rows[0]), form, document=result.to_dict())
