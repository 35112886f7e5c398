"""Base of engines whose rows are not in a sealed file: errors, names, digests and detection of changes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from everhold.errors import EverholdError, HoldoutRejected, IntegrityError, QueryRejected, Unavailable
from everhold.sealing.engines.errors import errors_hidden
from everhold.sealing.row_store import ENGINE_VARIABLE
from everhold_engines.arrays import plain
from everhold_engines.base import Sealable
from everhold_engines.table_names import name_parts, overlap
from everhold_engines.watermark import Watermark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from everhold.values.expressions import ColumnKind
    from everhold_engines.sql.dialects import Dialect

__all__ = [
    "PIECES",
    "Remote",
]

PIECES = (1, 16, 31, 46)
"""Starts of the four numbers of 60 bits in the 64 hexadecimal digits of a row's SHA-256, from 1."""


class Remote(Sealable, ABC):
    """An `Engine` on a table that others may write to: what is pinned by no snapshot is checked by its digest.

    Args:
        table: Its name.
        max_seconds: Limit for each statement, except the digest of all rows, which takes as long as it takes.
        arrived: Column that says when a row arrived, for a table to which rows arrive; None for one that stays.
        until: Time up to which rows are sealed, such as ``"2026-12-01"``; rows of that time are not.
    """

    kind: ClassVar[str]
    title: ClassVar[str]
    most_expressions: ClassVar[int] = 64
    _elsewhere: ClassVar[Mapping[str, Any]] = {"_checked": None, "_is_mine": True}
    """Facts that another process knows; an engine adds its connection."""

    def __init__(
        self, table: str, *, max_seconds: float = 600.0, arrived: str | None = None, until: str | None = None
    ) -> None:
        self.table, self._max_seconds = table, float(max_seconds)
        if until is not None and arrived is None:
            raise ValueError("until needs the column that says when a row arrived; expected arrived=")
        self.watermark = None if arrived is None else Watermark(arrived, None, until)
        self._parts: tuple[Remote, ...] = ()
        self._checked: tuple[str, object, str] | None = None  # key, state and digest of the rows that were checked
        self._read: str | None = None  # the source with columns that are guarded, once these are known
        self._fresh()

    def _fresh(self) -> None:
        """Name that no other process uses."""
        self._lock, self._pid = threading.RLock(), os.getpid()
        self._running: set[Any] = set()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(table={self.table!r})"

    def __getstate__(self) -> dict[str, Any]:
        hidden = {"_lock", "_pid", "_running"}
        return {name: value for name, value in vars(self).items() if name not in hidden} | {**self._elsewhere}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self._fresh()

    @classmethod
    def from_url(cls, url: str, table: str) -> Self:
        """The table in the engine at an address, which may hold credentials."""
        return cls(url, table)  # type: ignore[call-arg, arg-type]  # all take an address first, or have their own way

    @property
    @abstractmethod
    def dialect(self) -> Dialect:
        """SQL dialect of the engine."""

    @property
    def source(self) -> str:
        """SQL that follows FROM for the rows, in the dialect; guarded columns are replaced by their values."""
        return self._window if self._read is None else self._read

    @property
    def _window(self) -> str:
        """SQL that follows FROM for the rows that are read, as they are stored."""
        return self._stored if self.watermark is None else self.watermark.source(self._stored, self.dialect)

    def between(self, since: str | None, until: str, parts: Sequence[Remote] = ()) -> Self:
        """The rows of a window of the same table.

        Args:
            since: First time; None for all before.
            until: End, which is no part of it.
            parts: The same rows in windows whose digests are known; a change is looked for in each of them.
        """
        assert self.watermark is not None
        other = object.__new__(type(self))
        window = Watermark(self.watermark.column, since, until)
        vars(other).update(vars(self), watermark=window, _checked=None, _read=None, _parts=tuple(parts))
        if (connected := getattr(self, "_connected", None)) is not None:
            vars(other).update(_connected=connected, close=self.close)  # the connection is that of the whole table
        return other

    def arriving_by(self, arrived: str, until: str | None) -> Self:
        """The same table, as one to which rows arrive; see the arguments of the class."""
        other = object.__new__(type(self))
        vars(other).update(vars(self), watermark=Watermark(arrived, None, until), _checked=None, _read=None)
        return other

    @property
    @abstractmethod
    def _stored(self) -> str:
        """SQL that follows FROM for the stored table, in the dialect."""

    def _guarded(self, column: str, data_type: str) -> str | None:
        """A column of the table without the values that the engine cannot compute with; None where it can."""
        return None

    @property
    @abstractmethod
    def place(self) -> str:
        """Its address without credentials."""

    @property
    def snapshot(self) -> str | None:
        """The state of the table that is read, if the table keeps earlier ones; None if not."""
        return None

    @abstractmethod
    def _types(self) -> list[tuple[str, str]]:
        """Name and type of each column in the engine's words, in the table's order; none if there is no table."""

    @abstractmethod
    def _kind(self, data_type: str) -> ColumnKind:
        """Kind that a type of the engine has in expressions."""

    @abstractmethod
    def _run(self, statement: str, *, max_seconds: float | None) -> Iterator[tuple[list[str], list[Any]]]:
        """Names of columns, and their values as sequences or arrays; at least one batch, even if it is empty."""

    @abstractmethod
    def _digest_sql(self, types: Sequence[tuple[str, str]], key: str) -> str:
        """A statement whose one row is the number of rows and the sums of the four `PIECES` of their SHA-256."""

    @abstractmethod
    def interrupt(self) -> None:
        """End what runs now, from any thread; does not wait."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what it opened itself; it opens again when needed."""

    def _is_unreachable(self, error: Exception) -> bool:
        """True if an error says that the engine cannot be reached."""
        return isinstance(error, (ConnectionError, TimeoutError))

    def _is_refused(self, error: Exception) -> bool:
        """True if an error says that the engine rejected this user and password."""
        return False

    def _state(self) -> object:
        """Cheap state that changes when the table is written to; None if the engine has none.

        It may change although no row did.
        """
        return None

    def _refresh(self) -> None:
        """Forget what is remembered of the table's files."""

    def columns(self) -> dict[str, ColumnKind]:
        """The kind of each column, by name, in the table's order."""
        with self._hidden(self._missing):
            types = self._types()
            if not types:
                raise LookupError(self.table)
        if len({name.casefold() for name, _ in types}) < len(types):
            raise HoldoutRejected(
                "two columns have names that differ in case only; expected names that differ otherwise; rename one "
                "of them in a view, and seal that"
            )
        self._read = self._guarding(types)
        return {name: self._kind(data_type) for name, data_type in types}

    def _guarding(self, types: Sequence[tuple[str, str]]) -> str | None:
        """The rows with all columns that need it guarded, so that no value of theirs is an error."""
        columns = {name: self.dialect.column(name) for name, _ in types}
        guarded = {name: self._guarded(columns[name], data_type) for name, data_type in types}
        if not any(guarded.values()):
            return None
        listed = (f"{guarded[name] or column} AS {self.dialect.quoted(name)}" for name, column in columns.items())
        return f"(SELECT {', '.join(listed)} FROM {self._window} AS {self.dialect.rows})"

    def beside(self, table: str) -> Self:
        """See `Engine.beside`."""
        name_parts(table)
        with self._hidden():
            own = self._known_as()  # both share the connection that is open from here on
        other = object.__new__(type(self))
        vars(other).update(vars(self), table=table, watermark=None, _checked=None, _read=None, _parts=())
        other._begin_anew()
        with other._hidden(other._missing):
            known = other._known_as()
        if not known:
            raise QueryRejected(
                f"the table {table!r} is a view or something else whose rows are not stored there, so they could "
                "depend on sealed rows, or on the question; expected a plain table; nothing was charged; write its "
                "rows to one"
            )
        if any(overlap(one, each) for one in known for each in own):
            raise QueryRejected(
                f"{table!r} has the rows that are sealed; expected a table of its own; nothing was charged"
            )
        return other

    def _begin_anew(self) -> None:
        """Forget what is known of the table that another one was made from."""

    @abstractmethod
    def _known_as(self) -> set[str]:
        """Identity of a stored table; empty for a name whose rows are stored elsewhere.

        Raises:
            LookupError: If there is no such table.
        """

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Result rows of a statement; whole numbers are exact ints of any size."""
        found: list[tuple[Any, ...]] = []
        with self._hidden():
            for _, columns in self._run(statement, max_seconds=self._max_seconds):
                found += zip(*map(self._values, columns), strict=True)
        return found

    def arrays(self, statement: str) -> dict[str, NDArray[Any]]:
        """The same as an array for each column, by name; masked where a value is missing."""
        parts = list(self.batches(statement))
        return {name: _joined([part[name] for part in parts]) for name in parts[0]}

    def batches(self, statement: str) -> Iterator[dict[str, NDArray[Any]]]:
        """As `arrays`, a part of the rows at a time."""
        with self._hidden():
            for names, columns in self._run(statement, max_seconds=self._max_seconds):
                yield dict(zip(names, map(self._array, columns), strict=True))

    @abstractmethod
    def _array(self, column: Any) -> NDArray[Any]:
        """A column of `_run` as an array."""

    def _values(self, column: Any) -> list[Any]:
        """A column of `_run` as Python values."""
        return list(map(plain, column))

    def contents(self, key: str = "") -> str:
        """Digest of names, types and all rows, whatever their order, in hex.

        Every row is hashed with SHA-256, over a text that no other row has; what is kept is the number of rows and
        the sums of four numbers of 60 bits. So it changes when any row does, except once in 2^240. Who may choose
        thousands of rows as they like and knows the key could make another table of the same digest; hence the key.

        Args:
            key: Goes into every row's text, so that only the key's holder can compute or aim at a digest.
        """
        with self._hidden():
            self._refresh()
        before = self._watched()
        with self._hidden():
            types = self._types()
            found = self._digest(types, key)
        text = json.dumps([[list(pair) for pair in types], *found])
        digest = hashlib.sha256(text.encode()).hexdigest()
        if self._watched() == before:
            self._checked = key, before, digest
        return digest

    def _digest(self, types: Sequence[tuple[str, str]], key: str) -> list[int]:
        """The number of rows, and the sums of the pieces of their hashes."""
        for _, columns in self._run(self._digest_sql(types, key), max_seconds=None):
            for values in zip(*map(self._values, columns), strict=True):
                return [int(value or 0) for value in values]
        raise LookupError(self.table)

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Context in which rows are read: a change since the digest was computed is noticed where the engine tells."""
        self._check("before")
        yield
        self._check("while")

    def _check(self, when: str) -> None:
        for part in self._parts:
            part._check(when)
        if self._checked is None:
            return
        key, state, digest = self._checked
        if state is None or self._watched() == state:
            return
        if self.contents(key) != digest:
            self._checked = key, state, digest  # it stays refused
            raise IntegrityError(
                f"rows of {self.table!r} were changed {'while they were read' if when == 'while' else 'after sealing'};"
                " expected the rows that were sealed, without changes; nothing was charged; restore them"
            )

    def _watched(self) -> object:
        with self._hidden():
            return self._state()

    def to_dict(self) -> dict[str, Any]:
        """Public facts by which it is found again."""
        named = {"kind": self.kind, "table": self.table, "place": self.place, "snapshot": self.snapshot}
        return named if self.watermark is None else {**named, **self.watermark.facts()}

    def pinned(self, facts: Mapping[str, Any]) -> Self:
        """The same table as it was at an earlier time, or up to one; itself where it keeps none."""
        return self._until(facts)

    def _until(self, facts: Mapping[str, Any]) -> Self:
        """The rows that were sealed, of a table to which rows arrive."""
        return self.arriving_by(str(facts["arrived"]), facts["until"]) if facts.get("arrived") is not None else self

    def _hidden(self, instead: Callable[[Exception], EverholdError] | None = None) -> AbstractContextManager[None]:
        return errors_hidden(instead or self._instead)

    @property
    def _install(self) -> str:
        """Instruction that installs its package."""
        return f"pip install 'everhold[{self.kind}]'"

    def _missing(self, error: Exception) -> EverholdError:
        if isinstance(error, ModuleNotFoundError) or self._is_unreachable(error) or self._is_refused(error):
            return self._instead(error)
        return HoldoutRejected(
            f"there is no table {self.table!r} that can be read; expected its name as {self.title} has it, and the "
            "right to read it; nothing was created"
        )

    def _instead(self, error: Exception) -> EverholdError:
        if isinstance(error, ModuleNotFoundError):
            return EverholdError(
                f"{self.title} needs a package that is not installed; expected {error.name}; {self._install}"
            )
        if self._is_refused(error):
            return Unavailable(
                f"{self.title} does not let everhold in; expected a user and a password that it knows at {self.place}, "
                f"and a database that is there; nothing was charged; put them into the address or {ENGINE_VARIABLE}, "
                "then ask again"
            )
        if self._is_unreachable(error):
            return Unavailable(
                f"{self.title} cannot be reached, or the connection to it was lost; expected it at {self.place}; "
                "nothing was charged; check the address, and that it runs, then ask again"
            )
        return EverholdError(
            f"{self.title} could not evaluate the rows of {self.table!r}; expected a table that can be read, and "
            "enough memory and time; nothing was charged; ask its administrator to look at its log"
        )


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Parts of a column; one all of whose values are missing takes the type of the others."""
    if len(parts) == 1:
        return parts[0]
    known = [part for part in parts if part.dtype != object or np.ma.count(part)]
    alike = [part.astype(known[0].dtype) if known and not np.ma.count(part) else part for part in parts]
    joined: NDArray[Any] = np.ma.concatenate(alike)  # type: ignore[no-untyped-call]
    return joined
