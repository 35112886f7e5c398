"""Commands that the laboratory adds to the program `everhold`, by its entry point."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add `audit`, `demo`, `lab` and `dependence quilts`."""
    from everhold_lab.commands import audit, demonstration, lab
    from everhold_lab.commands import quilts as quilts  # joins the group `dependence` when it is imported
    from everhold_lab.commands import statements as statements  # joins the group `lab`

    for module in (audit, demonstration, lab):
        module.register(app)
