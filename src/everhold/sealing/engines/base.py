"""What an engine is: a table somewhere, and whoever runs a statement about it.

Everything that is asked of sealed rows is a statement that everhold wrote itself, in the engine's dialect
(`everhold.values.expressions`), and an engine only runs it. `everhold.sealing.table.StoredRows` is on top of it and
knows questions; ledger, mechanism and promise never see which engine it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from numpy.typing import NDArray

    from everhold.values.expressions import ColumnKind
    from everhold.values.expressions.dialects import Dialect

__all__ = ["POSITION", "Engine"]

POSITION = "file_row_number"
"""Column of the embedded engine's source with the position of a row, from 0; of others where rows are numbered."""


class Engine(Protocol):
    """One table of rows and whoever adds it up; safe to be used by several threads.

    An engine's own words never leave it: it quotes rows in its errors, so every foreign error becomes an
    `EverholdError` (`everhold.sealing.engines.errors`), and nothing that was read is logged.

    Attributes:
        kind: Name of the engine in ledger and certificate, such as ``"duckdb"`` or ``"spark"``.
        title: Its name in sentences.
        dialect: How statements are written for it.
        embedded: Whether it is the engine beside everhold, whose `source` has the column `POSITION` and whose row
            values are read into this process; every other engine counts itself.
        most_expressions: How many expressions one statement may have.
    """

    kind: ClassVar[str]
    title: ClassVar[str]
    embedded: ClassVar[bool]
    most_expressions: ClassVar[int]

    @property
    def path(self) -> Path | None:
        """The file of the rows, where it is one beside everhold."""

    @property
    def dialect(self) -> Dialect:
        """See above."""

    @property
    def source(self) -> str:
        """What stands after FROM for the table, in the dialect."""

    def columns(self) -> dict[str, ColumnKind]:
        """The kind of each column, by name, in the table's order.

        Raises:
            HoldoutRejected: If there is no such table, or two of its columns have names that differ in case only.
        """

    def beside(self, table: str) -> Engine:
        """Another table in the same engine, with the same session or connection, as it is now.

        Raises:
            QueryRejected: If the rows are in a file of their own.
            ValueError: If that is no name of a table.
        """

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """What the engine says: whole numbers as ints, exact however large."""

    def arrays(self, statement: str) -> dict[str, NDArray[Any]]:
        """The same as an array for each column, by name; masked where a value is missing."""

    def batches(self, statement: str) -> Iterator[dict[str, NDArray[Any]]]:
        """The same as `arrays`, some 65,536 rows at a time where the engine can; at least one batch, even if empty."""

    def reading(self) -> AbstractContextManager[None]:
        """Context in which sealed rows are read, in which whatever can be noticed of a change is noticed.

        Raises:
            IntegrityError: If the table is not the one that was sealed. Nothing is charged.
        """

    def contents(self, key: str = "") -> str:
        """What changes when any row changes, in hex: a fingerprint of the file, or a digest that the engine computes.

        It may be guessed by whoever knows all rows and the key, so it is kept under another key and never shown.

        Args:
            key: Goes into the text of every row, so that nobody can aim at a digest; the engine's logs may show it.
        """

    def to_dict(self) -> dict[str, Any]:
        """Public facts by which it is found again: kind, table, place, snapshot. Never credentials."""

    def pinned(self, facts: Mapping[str, Any]) -> Engine:
        """The same table at the snapshot of some facts; itself where that is its own, or there is none.

        Raises:
            IntegrityError: If there is no such snapshot any more.
        """

    def interrupt(self) -> None:
        """End whatever statement runs now; from any thread, and without waiting for it."""

    def close(self) -> None:
        """Let go of whatever it opened itself; it opens again when needed."""
