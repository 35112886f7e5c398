"""The command `diagnose`: do the rows depend on each other?"""

from __future__ import annotations

import typer

from everhold.cli.arguments import FormatOption, NameArgument, StorageHereArgument, opened_here
from everhold.cli.output import Format, note, show_list

_TABLE = (
    "column", "role", "alike_in", "correlation", "error", "clear", "groups", "design_effect", "effective_rows",
    "radius",
)  # fmt: skip
_ALL = (*_TABLE, "estimate", "suggestion")


def register(app: typer.Typer) -> None:
    """Add the command `diagnose`."""
    app.command()(diagnose)


def diagnose(storage: StorageHereArgument, name: NameArgument = None, form: FormatOption = Format.TABLE) -> None:
    """Look for rows that depend on each other more than declared; reads training rows only.

    Example:
      everhold diagnose flights.db flights

    Each line is a column that may group the rows (households, patients, days)
    or put them in order (dates), with the correlation of rows that it brings
    together, how many rows are worth one (the design effect), what the sealed
    rows would be worth, and the radius that would then hold. Columns with few
    values are attributes: they describe rows. That a column is 'clear' is no
    proof; how the rows were drawn decides.

    Exit codes:
      0  printed
      4  no such holdout
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
      9  the holdout has no training rows
    """
    from everhold.diagnosis.diagnosis import informed

    with opened_here(storage, name) as holdout:
        found = holdout.diagnose()
    rows = found.to_rows()
    show_list(rows, _TABLE if form is Format.TABLE else _ALL, form, document=found.to_dict())
    if form is Format.TABLE:
        for suspect in found.suspects:
            advice = suspect.suggestion(shell=True)
            note(f"{suspect.column}: if rows were drawn together or follow each other, declare {advice}")
        if not found.suspects:
            note("no clear column is suspect: rows that share its values are as alike as was declared")
        if found.informative:
            note(informed(found.declared, found.informative))
        for left_out in found.notes:
            note(left_out)
