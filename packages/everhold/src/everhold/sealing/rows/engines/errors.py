"""Errors of engines in words of everhold, never the engine's own, because engines quote rows."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from everhold.errors import EverholdError, EverholdWarning

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["engine_errors_hidden", "errors_hidden"]


class errors_hidden(contextlib.AbstractContextManager[None]):  # noqa: N801  a context manager reads like a function
    """Context in which every foreign error becomes one of everhold's, because engines quote rows in theirs.

    Interrupts, and errors and warnings of everhold pass.

    Args:
        instead: From an error to the one that replaces it.
    """

    def __init__(self, instead: Callable[[Exception], EverholdError]) -> None:
        self._instead = instead

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Replace an error."""
        if not isinstance(error, Exception) or isinstance(error, (EverholdError, EverholdWarning)):
            return
        hidden = self._instead(error)
        try:
            raise hidden from None
        finally:
            hidden.__context__ = None  # `from None` hides the engine's error from print only


engine_errors_hidden = errors_hidden(
    lambda _: EverholdError(
        "the engine could not evaluate the sealed rows; expected a sealed file that is readable and enough "
        "memory and time; ask the steward to look at the server"
    )
)
