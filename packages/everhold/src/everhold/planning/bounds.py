"""Published statements that a plan shows beside our own; distributions add them to the group ``everhold.bounds``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from everhold.extensions import Registry


class PublishedBound(Protocol):
    """Result of a statement: a radius, the rows it holds for, both possibly infinite, and the reason."""

    @property
    def radius(self) -> float:
        """Half-width in units of the query."""

    @property
    def rows(self) -> float:
        """Rows for which the radius holds."""

    @property
    def note(self) -> str:
        """Why the bound is infinite, where that is not a matter of rows."""


class PublishedStatement(Protocol):
    """A statement about a whole session, in both directions."""

    @property
    def name(self) -> str:
        """Name of its entry point."""

    @property
    def source(self) -> str:
        """Authors, year and number in their paper."""

    @property
    def colour(self) -> str:
        """In charts; muted beside the colours of mechanisms."""

    @property
    def radius(self) -> Callable[..., PublishedBound]:
        """From rows, and the session's settings, to a radius."""

    @property
    def rows_needed(self) -> Callable[..., PublishedBound]:
        """From a radius, and the session's settings, to rows."""

    @property
    def dependent(self) -> tuple[Callable[..., PublishedBound], Callable[..., PublishedBound]] | None:
        """The same two for dependent rows, with a ``price`` of noise."""


def _check(name: str, statement: Any) -> str:
    lacking = [
        part for part in ("source", "colour", "radius", "rows_needed", "dependent") if not hasattr(statement, part)
    ]
    if lacking:
        return f"it has no {lacking[0]}"
    return "" if getattr(statement, "name", None) == name else f"its name is {getattr(statement, 'name', None)!r}"


BOUNDS: Registry[PublishedStatement] = Registry("everhold.bounds", {}, _check)
"""Published statements by name."""
