"""Arguments that many commands share, above all where the holdout is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from everhold.cli.failures import Misuse, arguments_checked
from everhold.cli.output import Format

if TYPE_CHECKING:
    from everhold.holdout import Holdout

__all__ = ["STORAGE_VARIABLE", "FormatOption", "Place", "opened", "place_of", "storage_of"]

STORAGE_VARIABLE = "EVERHOLD_STORAGE"

Place = Annotated[
    list[str],
    typer.Argument(
        metavar="STORAGE NAME",
        help=f"Where the holdout is and how it is called. With {STORAGE_VARIABLE} set, NAME alone is enough.",
    ),
]
FormatOption = Annotated[Format, typer.Option("--format", help="How the result is printed on stdout.")]


def place_of(place: list[str]) -> tuple[str, str]:
    """Storage and name from the command line, or the storage from the environment."""
    storage = os.environ.get(STORAGE_VARIABLE)
    if len(place) == 2:
        return place[0], place[1]
    if len(place) == 1 and storage:
        return storage, place[0]
    if len(place) == 1:
        raise Misuse(
            f"only {place[0]!r} is given; expected STORAGE and NAME, such as flights.db flights; "
            f"or set {STORAGE_VARIABLE} and give NAME alone"
        )
    raise Misuse(f"there are {len(place)} names instead of two; expected STORAGE and NAME; quote names with blanks")


def storage_of(storage: str | None) -> str:
    """The storage from the command line or from the environment."""
    found = storage or os.environ.get(STORAGE_VARIABLE)
    if not found:
        raise Misuse(f"no storage is given; expected STORAGE, such as flights.db; or set {STORAGE_VARIABLE}")
    return found


def opened(place: list[str]) -> Holdout:
    """The open holdout at a place."""
    storage, name = place_of(place)
    from everhold.holdout import Holdout

    with arguments_checked():
        return Holdout.open(storage, name)
