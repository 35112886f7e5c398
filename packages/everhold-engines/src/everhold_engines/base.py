"""Protocol of an engine: a table, and a connection that runs statements about it.

Everything that is asked of sealed rows is a statement that everhold wrote itself, in the engine's dialect
(`everhold.values.expressions`), and an engine only runs it. `everhold_engines.remote_rows.RemoteRows` is on top of it
and knows queries; ledger, mechanism and promise never see which engine it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from numpy.typing import NDArray

    from everhold.sealing.arrivals import ArrivedFiles
    from everhold.sealing.intake.request import SealRequest
    from everhold.sealing.rows.row_store import RowStore, SealedRows
    from everhold.sealing.storage import StewardKey
    from everhold.values.base import Schema
    from everhold.values.expressions import ColumnKind
    from everhold_engines.sql.dialects import Dialect


class Sealable:
    """Sealing and opening of an engine's table; see `everhold.sealing.rows.row_store.SealableTable`.

    An engine that has the other methods of `Engine` inherits this.
    """

    def sealing(
        self: Any, folder: Path, request: SealRequest, *, key: StewardKey
    ) -> AbstractContextManager[SealedRows]:  # fmt: skip
        """See `SealableTable.sealing`."""
        from everhold_engines.tables import sealing

        return sealing(folder, self, request, key=key)

    def check_unaltered(self: Any, configuration: Mapping[str, Any], key: StewardKey) -> None:
        """See `SealableTable.check_unaltered`; the engine reads all rows."""
        from everhold_engines.pinning import check_pinned

        check_pinned(self, configuration, key)

    def sealed_rows(self: Any, schema: Schema, *, order_key: bytes) -> RowStore:
        """See `SealableTable.sealed_rows`."""
        from everhold_engines.remote_rows import RemoteRows

        return RemoteRows(self, schema, rows=schema.rows, sealed=True, order_key=order_key)

    def arrival_rows(self: Any, window: tuple[str, str], fingerprint: str, schema: Schema, key: StewardKey) -> RowStore:
        """See `SealableTable.arrival_rows`; the engine reads all of these rows."""
        from everhold_engines.watermark import check_parts

        part = self.between(*window)
        part.columns()
        check_parts([(part, fingerprint)], key)
        rows: RowStore = part.sealed_rows(schema, order_key=key.order_key)
        return rows

    def arriving(
        self: Any, window: tuple[str, str], schema: Schema, key: StewardKey, *, training_ids: set[Any]
    ) -> ArrivedFiles:  # fmt: skip
        """See `SealableTable.arriving`."""
        from everhold_engines.watermark import arriving_rows

        before = self.between(None, window[0])
        before.columns()
        return arriving_rows(self.between(*window), before, schema, training_ids, key)

    def training_rows(self: Any, facts: Mapping[str, Any], schema: Schema) -> RowStore:
        """See `SealableTable.training_rows`."""
        from everhold_engines.remote_rows import RemoteRows
        from everhold_engines.training_tables import check_training_table

        table = check_training_table(self, facts, schema.columns)
        return RemoteRows(table, schema, rows=facts["rows"], sealed=False)


class Engine(Protocol):
    """One table of rows and the engine that adds it up; safe to be used by several threads.

    An engine's own words never leave it: it quotes rows in its errors, so every foreign error becomes an
    `EverholdError` (`everhold.sealing.rows.embedded`), and nothing that was read is logged.

    Attributes:
        kind: Name of the engine in ledger and certificate, such as ``"duckdb"`` or ``"spark"``.
        dialect: How statements are written for it.
        most_expressions: How many expressions one statement may have.
    """

    most_expressions: ClassVar[int]

    @property
    def kind(self) -> str:
        """See above."""

    @property
    def title(self) -> str:
        """See above."""

    @property
    def dialect(self) -> Dialect:
        """See above."""

    @property
    def source(self) -> str:
        """SQL that follows FROM for the table, in the dialect."""

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
        """Result rows of a statement; whole numbers are exact ints of any size."""

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
        """Fingerprint in hex that changes when any row changes: of the file, or a digest that the engine computes.

        It may be guessed from all rows and the key, so it is kept under another key and never shown.

        Args:
            key: Goes into the text of every row, so that no text aims at a digest; the engine's logs may show it.
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
