"""Base of engines that read a named table through a connection."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from everhold.errors import HoldoutRejected, IntegrityError, QueryRejected
from everhold_engines.base import EngineConnection
from everhold_engines.remote_rows import RemoteRows
from everhold_engines.tables import check_training_table, sealing
from everhold_engines.watermark import Watermark, arriving_rows, check_parts, check_pinned

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from numpy.typing import NDArray

    from everhold.sealing.arrivals import ArrivedFiles
    from everhold.sealing.intake.request import SealRequest
    from everhold.sealing.rows.evaluated_rows import RowStore
    from everhold.sealing.rows.row_store import SealedRows
    from everhold.sealing.storage import StewardKey
    from everhold.values.base import Schema
    from everhold.values.expressions import ColumnKind
    from everhold_engines.sql.dialects import Dialect


_PATTERN = re.compile(r"[*?\[\]{}\\]")
_PART = re.compile(r'`(?:[^`]|``)+`|"(?:[^"]|"")+"|[^.`"]+')


def name_parts(table: str) -> list[str]:
    """Return the parts of a table's name, which may be quoted by double quotes or backquotes.

    Examples:
        >>> name_parts('study.flights'), name_parts('study."flights.2024"')
        (['study', 'flights'], ['study', 'flights.2024'])
    """
    found = _PART.findall(table) if isinstance(table, str) else []
    if not found or ".".join(found) != table or "\0" in table:
        raise ValueError(
            f"{table!r} is not the name of a table. Pass a name such as flights or "
            "study.flights, with other characters in double quotes."
        )
    return [part if part[0] not in '`"' else part[1:-1].replace(part[0] * 2, part[0]) for part in found]


def known_path(path: str) -> set[str]:
    """Return the real path of a file in a set, empty for a pattern of paths.

    Examples:
        >>> known_path("file:/data/../lake/flights/"), known_path("/data/*")
        ({'/lake/flights'}, set())
    """
    if _PATTERN.search(path):
        return set()
    return {os.path.realpath(re.sub(r"^file:/+", "/", path))}


def overlap(*names: str) -> bool:
    """Return whether two names mean the same table, or one is a folder that contains the other."""
    shorter, longer = sorted((f"{name.casefold()}/" for name in names), key=len)
    return longer.startswith(shorter)


PIECES = (1, 16, 31, 46)
"""Starts of the four numbers of 60 bits in the 64 hexadecimal digits of a row's SHA-256, from 1."""

Way = TypeVar("Way", bound=EngineConnection)


class StoredTable(ABC, Generic[Way]):
    """One table of an engine, with methods to read, digest and identify it.

    Attributes:
        kind: Name of the engine in ledger and certificate.
        connection: Connection to the engine. Tables of one engine share it.
        max_seconds: Time limit for each statement in seconds. The digest of all rows has no limit.
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
        """Snapshot at which the table is read, None for a table without snapshots."""
        return None

    @abstractmethod
    def types(self) -> list[tuple[str, str]]:
        """Return the name and the engine's type of each column, empty if the table does not exist."""

    @abstractmethod
    def column_kind(self, data_type: str) -> ColumnKind:
        """Return the kind that a type of the engine has in expressions."""

    def guarded(self, column: str, data_type: str) -> str | None:
        """Return SQL that reads a column safely if its plain values could fail or compare differently, else None."""
        return None

    @abstractmethod
    def digest_sql(self, window: str, types: Sequence[tuple[str, str]], key: str) -> str:
        """Return a statement for the number of rows and the sums of the four `PIECES` of their SHA-256."""

    def digest(self, window: str, types: Sequence[tuple[str, str]], key: str) -> list[int]:
        """Return the number of rows, and the sums of the pieces of their hashes."""
        way = self.connection
        for _, columns in way.run(self.digest_sql(window, types, key), max_seconds=None):
            for values in zip(*map(way.values, columns), strict=True):
                return [int(value or 0) for value in values]
        raise LookupError(self.name)

    @abstractmethod
    def identities(self) -> set[str]:
        """Return names that identify the stored table, empty for a view on other tables.

        Raises:
            LookupError: If there is no such table.
        """

    def state(self) -> object:
        """Return a cheap value that changes with every write to the table, None if the engine has none.

        It may change even if no row was changed.
        """
        return None

    def refresh(self) -> None:
        """Drop the engine's cached knowledge of the table's files."""

    def named(self, name: str) -> Self:
        """Return another table behind the same connection."""
        other = copy.copy(self)
        other.name = name
        return other

    def pinned(self, facts: Mapping[str, Any]) -> Self:
        """Return the table at the snapshot named in the facts, or itself if the table has no snapshots."""
        return self

    def said(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the result rows of a statement about the table, with errors of the engine replaced."""
        way = self.connection
        found: list[tuple[Any, ...]] = []
        for _, columns in way.run(statement, max_seconds=self.max_seconds):
            found += zip(*map(way.values, columns), strict=True)
        return found

    def hidden(self, *, missing: bool = False) -> AbstractContextManager[None]:
        """Return a context that replaces errors of the engine by everhold's errors.

        Args:
            missing: Whether an error of the engine may mean that the table does not exist. Then the new error says so.
        """
        return self.connection.hidden(self.name, missing=missing)


class TableWindow:
    """The rows of a table that are read, with a check for changes since their digest was computed.

    Args:
        stored: The stored table.
        watermark: Window of the rows that are read. None for all rows.
        parts: Windows that together have the same rows and whose digests are known. Each of them is checked for a
            change.
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
        """SQL for the rows after FROM, with all columns as they are stored."""
        stored = self._stored
        return stored.sql if self._watermark is None else self._watermark.source(stored.sql, stored.dialect)

    def digest(self, key: str) -> str:
        """Return a digest of column names, types and all rows, independent of the order of the rows."""
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
        """Raise IntegrityError if the rows changed since the digest was computed.

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
                f"Rows of the table {self._stored.name!r} were changed "
                f"{'while they were read' if when == 'while' else 'after sealing'}. Restore the rows that were sealed."
            )

    def _state(self) -> object:
        with self._stored.hidden():
            return self._stored.state()


class Sealable:
    """Mixin that seals and opens an engine's table, as `SealableTable` of the core requires.

    An engine that has the other methods of `Engine` inherits this.
    """

    def sealing(
        self: Any, folder: Path, request: SealRequest, *, key: StewardKey
    ) -> AbstractContextManager[SealedRows]:  # fmt: skip
        """Return a context that seals the table, see `SealableTable.sealing`."""
        return sealing(folder, self, request, key=key)

    def check_unaltered(self: Any, configuration: Mapping[str, Any], key: StewardKey) -> None:
        """Check that the table still has the sealed rows. The engine reads all rows for it."""
        check_pinned(self, configuration, key)

    def sealed_rows(self: Any, schema: Schema, *, order_key: bytes) -> RowStore:
        """Return the sealed rows, see `SealableTable.sealed_rows`."""
        return RemoteRows(self, schema, rows=schema.rows, sealed=True, order_key=order_key)

    def arrival_rows(self: Any, window: tuple[str, str], fingerprint: str, schema: Schema, key: StewardKey) -> RowStore:
        """Return the rows of one arrival after a check of their fingerprint, for which the engine reads all of them."""
        part = self.between(*window)
        part.columns()
        check_parts([(part, fingerprint)], key)
        rows: RowStore = part.sealed_rows(schema, order_key=key.order_key)
        return rows

    def arriving(
        self: Any, window: tuple[str, str], schema: Schema, key: StewardKey, *, training_ids: set[Any]
    ) -> ArrivedFiles:  # fmt: skip
        """Check the rows of the next window, see `SealableTable.arriving`."""
        before = self.between(None, window[0])
        before.columns()
        return arriving_rows(self.between(*window), before, schema, training_ids, key)

    def training_rows(self: Any, facts: Mapping[str, Any], schema: Schema) -> RowStore:
        """Return the training rows of a table, see `SealableTable.training_rows`."""
        table = check_training_table(self, facts, schema.columns)
        return RemoteRows(table, schema, rows=facts["rows"], sealed=False)


class Remote(Sealable):
    """Engine for a table that others may change. A digest of all rows or a snapshot detects changes.

    Args:
        stored: The stored table.
        arrived: Column with the time at which a row arrived, for a table that receives rows. None for a table that
            stays the same.
        until: Time before which rows are sealed, such as ``"2026-12-01"``. Rows of exactly that time are not sealed.
    """

    most_expressions: ClassVar[int] = 64

    def __init__(self, stored: StoredTable[Any], *, arrived: str | None = None, until: str | None = None) -> None:
        if until is not None and arrived is None:
            raise ValueError("until= needs the column that says when a row arrived. Pass arrived=.")
        self.kind, self.title = stored.kind, stored.connection.title
        self._read_at(stored, None if arrived is None else Watermark(arrived, None, until))

    def _read_at(self, stored: StoredTable[Any], watermark: Watermark | None, parts: Sequence[Remote] = ()) -> Self:
        """Set the table or window to read. Windows are read in the present state, which has the rows that arrived."""
        self.stored = stored if watermark is None else stored.pinned({})
        self.table, self.watermark = stored.name, watermark
        self._window: TableWindow = TableWindow(self.stored, watermark, [part._window for part in parts])
        self._guarded: str | None = None  # the source with columns that are guarded, once these are known
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}(table={self.table!r})"

    @classmethod
    def from_url(cls, url: str, table: str) -> Self:
        """Return a table in the engine at an address, which may hold credentials."""
        return cls(url, table)  # type: ignore[call-arg, arg-type]  # all take an address first, or have their own way

    @property
    def dialect(self) -> Dialect:
        """SQL dialect of the engine."""
        return self.stored.dialect

    @property
    def source(self) -> str:
        """SQL for the rows after FROM, in which columns that could raise errors are guarded."""
        return self._window.sql if self._guarded is None else self._guarded

    @property
    def place(self) -> str:
        """Address of the engine without credentials."""
        return str(self.stored.connection.place)

    @property
    def snapshot(self) -> str | None:
        """Snapshot at which the table is read, None for a table without snapshots."""
        return self.stored.snapshot

    def between(self, since: str | None, until: str, parts: Sequence[Remote] = ()) -> Self:
        """Return the rows of a window of the same table.

        Args:
            since: First time of the window. None if the window has no beginning.
            until: End of the window. Rows of exactly that time are not in the window.
            parts: Windows that together have the same rows and whose digests are known. Each of them is checked for a
                change.
        """
        assert self.watermark is not None
        return copy.copy(self)._read_at(self.stored, Watermark(self.watermark.column, since, until), parts)

    def arriving_by(self, arrived: str, until: str | None) -> Self:
        """Return the same table as one to which rows arrive, with the arguments of the class."""
        return copy.copy(self)._read_at(self.stored, Watermark(arrived, None, until))

    def interrupt(self) -> None:
        """Cancel the running statement without waiting for its end. Any thread may call this."""
        self.stored.connection.interrupt()

    def close(self) -> None:
        """Close the connection if it was opened here. It is opened again when needed."""
        self.stored.connection.close()

    def columns(self) -> dict[str, ColumnKind]:
        """Return the kind of each column by name, in the table's order."""
        stored = self.stored
        with stored.hidden(missing=True):
            types = stored.types()
            if not types:
                raise LookupError(self.table)
        if len({name.casefold() for name, _ in types}) < len(types):
            raise HoldoutRejected(
                "Two columns have names that differ only in case. Rename one of them in a view, and seal the view."
            )
        self._guarded = _guarding(stored, types, self._window.sql)
        return {name: stored.column_kind(data_type) for name, data_type in types}

    def beside(self, table: str) -> Self:
        """Return another table in the same engine, read through the same connection."""
        name_parts(table)
        with self.stored.hidden():
            own = self.stored.identities()
        other = self.stored.named(table)
        with other.hidden(missing=True):
            known = other.identities()
        if not known:
            raise QueryRejected(
                f"The table {table!r} is a view or has rows that are not stored in it, so they could depend on "
                "sealed rows or on the query. Write the rows to a plain table."
            )
        if any(overlap(one, each) for one in known for each in own):
            raise QueryRejected(f"{table!r} has the rows that are sealed. Use another table.")
        return copy.copy(self)._read_at(other, None)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the result rows of a statement. Whole numbers are exact ints of any size."""
        with self.stored.hidden():
            return self.stored.said(statement)

    def arrays(self, statement: str) -> dict[str, NDArray[Any]]:
        """Return the result of a statement as an array for each column, masked where a value is missing."""
        parts = list(self.batches(statement))
        return {name: _joined([part[name] for part in parts]) for name in parts[0]}

    def batches(self, statement: str) -> Iterator[dict[str, NDArray[Any]]]:
        """Yield the result of a statement as arrays, a part of the rows at a time."""
        way = self.stored.connection
        with self.stored.hidden():
            for names, columns in way.run(statement, max_seconds=self.stored.max_seconds):
                yield dict(zip(names, map(way.array, columns), strict=True))

    def contents(self, key: str = "") -> str:
        """Return a hexadecimal digest of column names, types and all rows, independent of the order of the rows.

        Each row is hashed with SHA-256 over a text that differs for different rows. The digest is made from the number
        of rows and the sums of four 60-bit pieces of these hashes. It changes with any row, except with probability
        2^-240. The key is needed because somebody who can choose thousands of rows, and knows all that is hashed, could
        make another table with the same digest.

        Args:
            key: Part of the text of every row, so that only the holder of the key can compute a digest.
        """
        return self._window.digest(key)

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Return a context for reading rows that raises an error if the engine reports a change before or during it."""
        self._window.check("before")
        yield
        self._window.check("while")

    def to_dict(self) -> dict[str, Any]:
        """Return public facts that find the table again."""
        named = {"kind": self.kind, "table": self.table, "place": self.place, "snapshot": self.snapshot}
        return named if self.watermark is None else {**named, **self.watermark.facts()}

    def pinned(self, facts: Mapping[str, Any]) -> Self:
        """Return the table at an earlier snapshot, or with rows up to a time, or itself if nothing earlier is named."""
        if facts.get("arrived") is not None:
            return self.arriving_by(str(facts["arrived"]), facts["until"])
        earlier = self.stored.pinned(facts)
        return self if earlier is self.stored else copy.copy(self)._read_at(earlier, None)


def _guarding(stored: StoredTable[Any], types: Sequence[tuple[str, str]], window: str) -> str | None:
    """Return a subquery with guards around columns whose values could raise errors, None if no column needs one."""
    columns = {name: stored.dialect.column(name) for name, _ in types}
    guarded = {name: stored.guarded(columns[name], data_type) for name, data_type in types}
    if not any(guarded.values()):
        return None
    listed = (f"{guarded[name] or column} AS {stored.dialect.quoted(name)}" for name, column in columns.items())
    return f"(SELECT {', '.join(listed)} FROM {window} AS {stored.dialect.rows})"


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return parts of a column as one array. A part without values takes the type of the others."""
    if len(parts) == 1:
        return parts[0]
    known = [part for part in parts if part.dtype != object or np.ma.count(part)]
    alike = [part.astype(known[0].dtype) if known and not np.ma.count(part) else part for part in parts]
    joined: NDArray[Any] = np.ma.concatenate(alike)  # type: ignore[no-untyped-call]
    return joined
