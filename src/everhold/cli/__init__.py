"""The command line: `everhold create`, `ask`, `quote`, `status` and so on.

Nothing heavy is imported before a command runs, so that `everhold --help` answers at once.
"""

from __future__ import annotations

import io
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; the entry point of the program `everhold`."""
    from everhold.cli.application import app

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a sign that the terminal does not know is no fault
    app(prog_name="everhold")
