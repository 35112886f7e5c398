"""The command line: `everhold create`, `ask`, `quote`, `status` and so on.

Nothing heavy is imported before a command runs, so that `everhold --help` answers at once.
"""

from __future__ import annotations

import gc
import io
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; the entry point of the program `everhold`."""
    gc.set_threshold(100_000, 50, 50)  # imports make many objects and no garbage: a seventh of a command's time
    from everhold.cli.application import app

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a sign that the terminal does not know is no fault
    app(prog_name="everhold")
