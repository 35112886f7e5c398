"""Connections to engines: statements, what ends them, and errors in words of everhold."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from everhold.errors import EverholdError, HoldoutRejected, Unavailable
from everhold.sealing.rows.embedded import errors_hidden
from everhold.sealing.rows.row_store import ENGINE_VARIABLE
from everhold_engines.arrays import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray


class EngineConnection(ABC):
    """The way to an engine, which is opened when it is needed, and again in another process.

    Attributes:
        title: The engine's name in sentences.
        install: Instruction that installs its package.
        address: Of the engine; may hold credentials.
        opened: What is open; None if nothing is.
        is_mine: True if everhold opens it and closes it.
        running: What runs now.
    """

    title: ClassVar[str]
    install: ClassVar[str]
    here: ClassVar[frozenset[str]] = frozenset({"opened"})
    """Attributes that another process makes anew."""

    def __init__(self, address: Any, opened: Any = None) -> None:
        self.address, self.opened, self.is_mine = address, opened, opened is None
        self._begin()

    def _begin(self) -> None:
        self.lock, self.pid = threading.RLock(), os.getpid()
        self.running: set[Any] = set()

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in vars(self).items() if name not in {"lock", "pid", "running"}}
        return {**kept, **dict.fromkeys(self.here), "is_mine": True}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self._begin()

    @property
    @abstractmethod
    def place(self) -> str:
        """The address without credentials and options."""

    @abstractmethod
    def run(self, statement: str, *, max_seconds: float | None) -> Iterator[tuple[list[str], list[Any]]]:
        """Names of columns, and their values as sequences or arrays; at least one batch, even if it is empty."""

    @abstractmethod
    def array(self, column: Any) -> NDArray[Any]:
        """A column of `run` as an array."""

    def values(self, column: Any) -> list[Any]:
        """A column of `run` as Python values."""
        return list(map(plain, column))

    @abstractmethod
    def interrupt(self) -> None:
        """End what runs now, from any thread; does not wait."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what it opened itself; it opens again when needed."""

    def is_unreachable(self, error: Exception) -> bool:
        """True if an error says that the engine cannot be reached."""
        return isinstance(error, (ConnectionError, TimeoutError))

    def is_refused(self, error: Exception) -> bool:
        """True if an error says that the engine rejected this user and password."""
        return False

    def hidden(self, table: str, *, missing: bool = False) -> AbstractContextManager[None]:
        """Context in which errors of the engine become everhold's.

        Args:
            table: The name of the table that is read.
            missing: True where other errors say that there is no such table.
        """
        return errors_hidden(partial(self._fault, table, missing))

    def _fault(self, table: str, missing: bool, error: Exception) -> EverholdError:
        if isinstance(error, ModuleNotFoundError):
            return EverholdError(
                f"{self.title} needs a package that is not installed; expected {error.name}; {self.install}"
            )
        if self.is_refused(error):
            return Unavailable(
                f"{self.title} does not let everhold in; expected a user and a password that it knows at {self.place}, "
                f"and a database that is there; nothing was charged; put them into the address or {ENGINE_VARIABLE}, "
                "then ask again"
            )
        if self.is_unreachable(error):
            return Unavailable(
                f"{self.title} cannot be reached, or the connection to it was lost; expected it at {self.place}; "
                "nothing was charged; check the address, and that it runs, then ask again"
            )
        if missing:
            return HoldoutRejected(
                f"there is no table {table!r} that can be read; expected its name as {self.title} has it, and the "
                "right to read it"
            )
        return EverholdError(
            f"{self.title} could not evaluate the rows of {table!r}; expected a table that can be read, and "
            "enough memory and time; nothing was charged; ask its administrator to look at its log"
        )
