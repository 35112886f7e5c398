"""Every error and warning that everhold raises, as one tree.

::

    EverholdError ├── HoldoutRejected      (also ValueError)   the rows or settings cannot be sealed; nothing was
    created ├── HoldoutNotFound      (also LookupError)  no holdout of that name in that storage ├── QueryRejected
    (also ValueError)   the query cannot be asked; nothing was charged │   └── CaseRejected                         a
    case has no result, or its row in a file is no outcome of a run ├── BudgetExhausted only if a caller asked for an
    exception instead of a refused answer ├── IntegrityError                           rows, ledger or certificate are
    not what was sealed or signed ├── AuthError                                the steward's key is missing or is the
    wrong one ├── ExtensionError                           an installed extension breaks its contract, or one is missing
    ├── Unavailable                              ledger or engine are busy or cannot be reached just now; try again └──
    DependenceError      (also ValueError)   the dependence model does not match the rows EverholdWarning          (a
    UserWarning) ├── SmallHoldoutWarning                      too few rows for a useful promise ├──
    VacuousGuaranteeWarning                  the radius is half the range or more ├── NonAdaptiveWarning
    the promise holds only for queries fixed in advance ├── BudgetWarning                            the last surprise
    is spent, or the next one is the last └── DependenceWarning                        rows seem to depend on each other
    more than was declared

Bad arguments of pure functions stay ``ValueError`` and ``TypeError``. A message says what is wrong, with the value that
was given, and what to do. It never quotes sealed rows.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


class EverholdError(Exception):
    """Base of all errors. Carries data, an exit code for shells and a status for HTTP.

    Args:
        message: What is wrong, and what to do.
        unchanged: What did not happen, such as "nothing was charged". By default the words of the error's class.
        data: Public facts about the error, safe to log and to return to an analyst.
    """

    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500
    unchanged: str = ""

    def __init__(self, message: str, *, unchanged: str | None = None, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.data = data
        if unchanged is not None:
            self.unchanged = unchanged

    @property
    def told(self) -> str:
        """The message, followed by what did not happen, such as "nothing was charged", if that is known."""
        if not self.unchanged or "othing was" in self.message:
            return self.message
        end = "" if self.message.endswith((".", "?")) else "."
        return f"{self.message}{end} {self.unchanged.capitalize()}."

    def to_dict(self) -> dict[str, Any]:
        """Return the error as plain data: ``{"error", "message", **data}``, with `told` as the message."""
        return {"error": type(self).__name__, "message": self.told, **self.data}


class HoldoutRejected(EverholdError, ValueError):
    """The rows or settings cannot be sealed. Nothing was created."""

    unchanged = "nothing was created"
    exit_code = 3
    http_status = 409


class HoldoutNotFound(EverholdError, LookupError):
    """There is no holdout of that name in that storage."""

    exit_code = 4
    http_status = 404


class QueryRejected(EverholdError, ValueError):
    """The query cannot be asked as it stands. Nothing was charged."""

    unchanged = "nothing was charged"
    exit_code = 5
    http_status = 409


class CaseRejected(QueryRejected):
    """The results of a case (an example of a sealed test suite) cannot be used. Nothing was charged.

    The error's data has two entries: ``case`` names the case, and ``fault`` says what is wrong with it. Faults are
    ``"missing"``, ``"unknown"``, ``"doubled"``, ``"crashed"``, ``"skipped"``, ``"retried"``, ``"copied"``,
    ``"broken"``, ``"not a number"``, ``"beyond the range"`` and ``"runs"``.
    """


class NotFound(QueryRejected):
    """The holdout has no such gate, no arrivals or no competition. Nothing was charged."""

    http_status = 404


class BudgetExhausted(EverholdError):
    """The remaining budget does not cover the request.

    With ``strict=True`` `ask` and similar methods raise it in place of a refused answer.
    """

    exit_code = 6
    http_status = 429


class IntegrityError(EverholdError):
    """Rows, ledger or certificate differ from what was sealed, recorded or signed."""

    exit_code = 7
    http_status = 409


class AuthError(EverholdError):
    """The key of the steward, who created the holdout, is missing or belongs to another holdout."""

    exit_code = 8
    http_status = 401


class Unavailable(EverholdError):
    """The ledger, or the engine that has the rows, is busy or cannot be reached. You may send the same request again.

    The error's data has the entry `may_be_recorded` if it is unknown whether the request was recorded and charged.
    """

    http_status = 503


class ExtensionError(EverholdError, LookupError):
    """An installed extension breaks its contract, two have one name, or the one that is needed is not installed."""

    http_status = 501


class DependenceError(EverholdError, ValueError):
    """The declared model of how rows depend on each other does not match the rows, or has invalid arguments."""

    exit_code = 9
    http_status = 409


class EverholdWarning(UserWarning):
    """Base of all warnings."""


class SmallHoldoutWarning(EverholdWarning):
    """So few rows are sealed that the promise is of little use."""


class ColumnWarning(EverholdWarning):
    """A column may be read wrongly: its texts are nearly all numbers, or some are words for missing values."""


class CaseWarning(EverholdWarning):
    """All runs of each case are alike, as copies of one response are, and would count as independent runs."""


class VacuousGuaranteeWarning(EverholdWarning):
    """The guaranteed half-width of answers is half the range or more, so the promise says nothing useful."""


class NonAdaptiveWarning(EverholdWarning):
    """The mechanism's promise holds only if all queries were fixed before the first answer was seen."""


class BudgetWarning(EverholdWarning):
    """At most one surprise is left: in an analyst's allotment (their part of the budget) or in the holdout's plan.

    A surprise is an answer that differs from its guess. It reveals something about the sealed rows and is charged.
    """


class ClippingWarning(EverholdWarning):
    """Many rows lie beyond a clip, so the mean of the clipped values may differ much from the mean of the values."""


class DependenceWarning(EverholdWarning):
    """Warning that values contradict the declared dependence of sealed rows on each other or on training rows.

    Args:
        message: Message for users of Python.
        for_shell: Message for users of the command line. The default is `message`.
    """

    def __init__(self, message: str, *, for_shell: str | None = None) -> None:
        super().__init__(message)
        self.for_shell = message if for_shell is None else for_shell


_COLLECTED: ContextVar[list[EverholdWarning] | None] = ContextVar("everhold_warnings", default=None)


@contextlib.contextmanager
def warnings_collected() -> Iterator[list[EverholdWarning]]:
    """Context that collects this thread's everhold warnings in a list, in place of Python's process-wide filters.

    Examples:
        >>> with warnings_collected() as warned:
        ...     warn_caller(SmallHoldoutWarning("only 20 rows are sealed"))
        >>> [str(warning) for warning in warned]
        ['only 20 rows are sealed']
    """
    warned: list[EverholdWarning] = []
    before = _COLLECTED.set(warned)
    try:
        yield warned
    finally:
        _COLLECTED.reset(before)


def is_of_everhold(frame: FrameType) -> bool:
    """Return whether a frame runs code of `everhold`, or of a distribution with a module ``everhold_...``."""
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return package == "everhold" or package.startswith("everhold_")


def warn_caller(warning: EverholdWarning) -> None:
    """Warn at the caller's line, the first one outside everhold, or in this thread's list of warnings."""
    collected = _COLLECTED.get()
    if collected is not None:
        collected.append(warning)
        return
    warnings.warn(warning, stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """Return the stack level of the first line outside everhold, for a function called from inside."""
    level, frame = 2, sys._getframe(2)
    while frame.f_back is not None and is_of_everhold(frame):
        level, frame = level + 1, frame.f_back
    return level
