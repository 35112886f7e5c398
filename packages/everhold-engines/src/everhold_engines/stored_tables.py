"""Stored tables: what an engine says of one, and the SQL that only this engine understands."""

from __future__ import annotations

import copy
import hashlib
import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from everhold.errors import IntegrityError
from everhold_engines.connections import EngineConnection

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from everhold.values.expressions import ColumnKind
    from everhold_engines.sql.dialects import Dialect
    from everhold_engines.watermark import Watermark

PIECES = (1, 16, 31, 46)
"""Starts of the four numbers of 60 bits in the 64 hexadecimal digits of a row's SHA-256, from 1."""

Way = TypeVar("Way", bound=EngineConnection)


class StoredTable(ABC, Generic[Way]):
    """One table of an engine.

    Attributes:
        kind: Name of the engine in ledger and certificate.
        connection: The way to the engine; tables of one engine share it.
        max_seconds: Limit for each statement, except the digest of all rows, which takes as long as it takes.
    """

    kind: ClassVar[str]

    def __init__(self, name: str, connection: Way, max_seconds: float) -> None:
        self.name, self.connection, self.max_seconds = name, connection, float(max_seconds)

    @property
    @abstractmethod
    def dialect(self) -> Dialect:
        """SQL dialect of the engine."""

    @property
    @abstractmethod
    def sql(self) -> str:
        """SQL that follows FROM for the table, in the dialect."""

    @property
    def snapshot(self) -> str | None:
        """The state of the table that is read, if the table keeps earlier ones; None if not."""
        return None

    @abstractmethod
    def types(self) -> list[tuple[str, str]]:
        """Name and type of each column in the engine's words, in the table's order; none if there is no table."""

    @abstractmethod
    def column_kind(self, data_type: str) -> ColumnKind:
        """Kind that a type of the engine has in expressions."""

    def guarded(self, column: str, data_type: str) -> str | None:
        """A column of the table without the values that the engine cannot compute with; None where it can."""
        return None

    @abstractmethod
    def digest_sql(self, window: str, types: Sequence[tuple[str, str]], key: str) -> str:
        """A statement whose one row is the number of rows and the sums of the four `PIECES` of their SHA-256."""

    def digest(self, window: str, types: Sequence[tuple[str, str]], key: str) -> list[int]:
        """The number of rows, and the sums of the pieces of their hashes."""
        way = self.connection
        for _, columns in way.run(self.digest_sql(window, types, key), max_seconds=None):
            for values in zip(*map(way.values, columns), strict=True):
                return [int(value or 0) for value in values]
        raise LookupError(self.name)

    @abstractmethod
    def identities(self) -> set[str]:
        """Identity of a stored table; empty for a name whose rows are stored elsewhere.

        Raises:
            LookupError: If there is no such table.
        """

    def state(self) -> object:
        """Cheap state that changes when the table is written to; None if the engine has none.

        It may change although no row did.
        """
        return None

    def refresh(self) -> None:
        """Forget what is remembered of the table's files."""

    def named(self, name: str) -> Self:
        """Another table behind the same connection, as it is now."""
        other = copy.copy(self)
        other.name = name
        return other

    def pinned(self, facts: Mapping[str, Any]) -> Self:
        """The same table as it was at an earlier snapshot; itself where it keeps none."""
        return self

    def said(self, statement: str) -> list[tuple[Any, ...]]:
        """Result rows of a statement about the table."""
        way = self.connection
        found: list[tuple[Any, ...]] = []
        for _, columns in way.run(statement, max_seconds=self.max_seconds):
            found += zip(*map(way.values, columns), strict=True)
        return found

    def hidden(self, *, missing: bool = False) -> AbstractContextManager[None]:
        """Context in which errors of the engine become everhold's; see `EngineConnection.hidden`."""
        return self.connection.hidden(self.name, missing=missing)


class TableWindow:
    """The rows of a table that are read, and whether they are still those whose digest was computed.

    Args:
        stored: The table.
        watermark: Window of the rows that are read; None for all.
        parts: The same rows in windows whose digests are known; a change is looked for in each of them.
    """

    def __init__(
        self, stored: StoredTable[Any], watermark: Watermark | None, parts: Sequence[TableWindow] = ()
    ) -> None:
        self._stored, self._watermark, self._parts = stored, watermark, tuple(parts)
        self._checked: tuple[str, object, str] | None = None  # key, state and digest of the rows that were checked

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_checked": None}  # another process has not looked

    @property
    def sql(self) -> str:
        """SQL that follows FROM for the rows, as they are stored."""
        stored = self._stored
        return stored.sql if self._watermark is None else self._watermark.source(stored.sql, stored.dialect)

    def digest(self, key: str) -> str:
        """Digest of names, types and all rows, whatever their order; see `Remote.contents`."""
        stored = self._stored
        with stored.hidden():
            stored.refresh()
        before = self._state()
        with stored.hidden():
            types = stored.types()
            found = stored.digest(self.sql, types, key)
        text = json.dumps([[list(pair) for pair in types], *found])
        digest = hashlib.sha256(text.encode()).hexdigest()
        if self._state() == before:
            self._checked = key, before, digest
        return digest

    def check(self, when: str) -> None:
        """Look for a change since the digest was computed, where the engine tells.

        Raises:
            IntegrityError: If a row was changed.
        """
        for part in self._parts:
            part.check(when)
        if self._checked is None:
            return
        key, state, digest = self._checked
        if state is None or self._state() == state:
            return
        if self.digest(key) != digest:
            self._checked = key, state, digest  # it stays refused
            raise IntegrityError(
                f"rows of {self._stored.name!r} were changed "
                f"{'while they were read' if when == 'while' else 'after sealing'};"
                " expected the rows that were sealed, without changes; nothing was charged; restore them"
            )

    def _state(self) -> object:
        with self._stored.hidden():
            return self._stored.state()
