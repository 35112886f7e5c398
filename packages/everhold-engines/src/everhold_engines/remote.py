"""Base of engines whose rows are not in a sealed file: a table behind a connection, as an `Engine`."""

from __future__ import annotations

import contextlib
import copy
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from everhold.errors import HoldoutRejected, QueryRejected
from everhold_engines.base import Sealable
from everhold_engines.stored_tables import StoredTable, TableWindow
from everhold_engines.table_names import name_parts, overlap
from everhold_engines.watermark import Watermark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from everhold.values.expressions import ColumnKind
    from everhold_engines.sql.dialects import Dialect


class Remote(Sealable):
    """An `Engine` on a table that others may write to: what is pinned by no snapshot is checked by its digest.

    Args:
        stored: The table.
        arrived: Column that says when a row arrived, for a table to which rows arrive; None for one that stays.
        until: Time up to which rows are sealed, such as ``"2026-12-01"``; rows of that time are not.
    """

    most_expressions: ClassVar[int] = 64

    def __init__(self, stored: StoredTable[Any], *, arrived: str | None = None, until: str | None = None) -> None:
        if until is not None and arrived is None:
            raise ValueError("until needs the column that says when a row arrived; expected arrived=")
        self.kind, self.title = stored.kind, stored.connection.title
        self._read_at(stored, None if arrived is None else Watermark(arrived, None, until))

    def _read_at(self, stored: StoredTable[Any], watermark: Watermark | None, parts: Sequence[Remote] = ()) -> Self:
        """Read a table, or a window of it as it is now: an earlier state would never have the rows that arrive."""
        self.stored = stored if watermark is None else stored.pinned({})
        self.table, self.watermark = stored.name, watermark
        self._window: TableWindow = TableWindow(self.stored, watermark, [part._window for part in parts])
        self._guarded: str | None = None  # the source with columns that are guarded, once these are known
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}(table={self.table!r})"

    @classmethod
    def from_url(cls, url: str, table: str) -> Self:
        """The table in the engine at an address, which may hold credentials."""
        return cls(url, table)  # type: ignore[call-arg, arg-type]  # all take an address first, or have their own way

    @property
    def dialect(self) -> Dialect:
        """SQL dialect of the engine."""
        return self.stored.dialect

    @property
    def source(self) -> str:
        """SQL that follows FROM for the rows, in the dialect; guarded columns are replaced by their values."""
        return self._window.sql if self._guarded is None else self._guarded

    @property
    def place(self) -> str:
        """Its address without credentials."""
        return str(self.stored.connection.place)

    @property
    def snapshot(self) -> str | None:
        """The state of the table that is read, if the table keeps earlier ones; None if not."""
        return self.stored.snapshot

    def between(self, since: str | None, until: str, parts: Sequence[Remote] = ()) -> Self:
        """The rows of a window of the same table.

        Args:
            since: First time; None for all before.
            until: End, which is no part of it.
            parts: The same rows in windows whose digests are known; a change is looked for in each of them.
        """
        assert self.watermark is not None
        return copy.copy(self)._read_at(self.stored, Watermark(self.watermark.column, since, until), parts)

    def arriving_by(self, arrived: str, until: str | None) -> Self:
        """The same table, as one to which rows arrive; see the arguments of the class."""
        return copy.copy(self)._read_at(self.stored, Watermark(arrived, None, until))

    def interrupt(self) -> None:
        """End what runs now, from any thread; does not wait."""
        self.stored.connection.interrupt()

    def close(self) -> None:
        """Let go of what it opened itself; it opens again when needed."""
        self.stored.connection.close()

    def columns(self) -> dict[str, ColumnKind]:
        """The kind of each column, by name, in the table's order."""
        stored = self.stored
        with stored.hidden(missing=True):
            types = stored.types()
            if not types:
                raise LookupError(self.table)
        if len({name.casefold() for name, _ in types}) < len(types):
            raise HoldoutRejected(
                "two columns have names that differ in case only; expected names that differ otherwise; rename one "
                "of them in a view, and seal that"
            )
        self._guarded = _guarding(stored, types, self._window.sql)
        return {name: stored.column_kind(data_type) for name, data_type in types}

    def beside(self, table: str) -> Self:
        """See `Engine.beside`."""
        name_parts(table)
        with self.stored.hidden():
            own = self.stored.identities()
        other = self.stored.named(table)
        with other.hidden(missing=True):
            known = other.identities()
        if not known:
            raise QueryRejected(
                f"the table {table!r} is a view or something else whose rows are not stored there, so they could "
                "depend on sealed rows, or on the query; expected a plain table; nothing was charged; write its "
                "rows to one"
            )
        if any(overlap(one, each) for one in known for each in own):
            raise QueryRejected(f"{table!r} has the rows that are sealed; expected a table of its own")
        return copy.copy(self)._read_at(other, None)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Result rows of a statement; whole numbers are exact ints of any size."""
        with self.stored.hidden():
            return self.stored.said(statement)

    def arrays(self, statement: str) -> dict[str, NDArray[Any]]:
        """The same as an array for each column, by name; masked where a value is missing."""
        parts = list(self.batches(statement))
        return {name: _joined([part[name] for part in parts]) for name in parts[0]}

    def batches(self, statement: str) -> Iterator[dict[str, NDArray[Any]]]:
        """As `arrays`, a part of the rows at a time."""
        way = self.stored.connection
        with self.stored.hidden():
            for names, columns in way.run(statement, max_seconds=self.stored.max_seconds):
                yield dict(zip(names, map(way.array, columns), strict=True))

    def contents(self, key: str = "") -> str:
        """Digest of names, types and all rows, whatever their order, in hex.

        Every row is hashed with SHA-256, over a text that no other row has; what is kept is the number of rows and
        the sums of four numbers of 60 bits. So it changes when any row does, except once in 2^240. Who may choose
        thousands of rows as they like and knows the key could make another table of the same digest; hence the key.

        Args:
            key: Goes into every row's text, so that only the key's holder can compute or aim at a digest.
        """
        return self._window.digest(key)

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Context in which rows are read: a change since the digest was computed is noticed where the engine tells."""
        self._window.check("before")
        yield
        self._window.check("while")

    def to_dict(self) -> dict[str, Any]:
        """Public facts by which it is found again."""
        named = {"kind": self.kind, "table": self.table, "place": self.place, "snapshot": self.snapshot}
        return named if self.watermark is None else {**named, **self.watermark.facts()}

    def pinned(self, facts: Mapping[str, Any]) -> Self:
        """The same table as it was at an earlier time, or up to one; itself where it keeps none."""
        if facts.get("arrived") is not None:
            return self.arriving_by(str(facts["arrived"]), facts["until"])
        earlier = self.stored.pinned(facts)
        return self if earlier is self.stored else copy.copy(self)._read_at(earlier, None)


def _guarding(stored: StoredTable[Any], types: Sequence[tuple[str, str]], window: str) -> str | None:
    """The rows, with a guard around each column whose values could raise an error."""
    columns = {name: stored.dialect.column(name) for name, _ in types}
    guarded = {name: stored.guarded(columns[name], data_type) for name, data_type in types}
    if not any(guarded.values()):
        return None
    listed = (f"{guarded[name] or column} AS {stored.dialect.quoted(name)}" for name, column in columns.items())
    return f"(SELECT {', '.join(listed)} FROM {window} AS {stored.dialect.rows})"


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Parts of a column; one all of whose values are missing takes the type of the others."""
    if len(parts) == 1:
        return parts[0]
    known = [part for part in parts if part.dtype != object or np.ma.count(part)]
    alike = [part.astype(known[0].dtype) if known and not np.ma.count(part) else part for part in parts]
    joined: NDArray[Any] = np.ma.concatenate(alike)  # type: ignore[no-untyped-call]
    return joined
