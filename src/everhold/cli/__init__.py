"""The command line: `everhold create`, `ask`, `quote`, `status` and so on.

Nothing heavy is imported before a command runs, so that `everhold --help` answers at once.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line; the entry point of the program `everhold`."""
    from everhold.cli.application import app

    app(prog_name="everhold")
