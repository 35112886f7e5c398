"""The rows of a holdout behind a service, and those that arrive."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote as escaped

from everhold.errors import HoldoutRejected
from everhold_server.client_gates import plain
from everhold_server.wire.answers import result_from
from everhold_server.wire.connection import Connection, Part
from everhold_server.wire.queries import written
from everhold_server.wire.row_files import row_files
from everhold_server.wire.table_parts import PARQUET_TYPE, parquet_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import ExitStack

    from everhold.asking.arrivals.appending import Arrived
    from everhold.asking.arrivals.drift import Drift
    from everhold.asking.arrivals.over_time import OverTime
    from everhold.queries.predictions.arrays import PredictionTable
    from everhold.queries.query import Query
    from everhold.sealing.intake.reading import RowSource
    from everhold.values.base import Schema


class RemoteGrowingHoldout:
    """The part of `RemoteHoldout` that is about its rows, and about those that arrive."""

    def __init__(self, connection: Connection, name: str) -> None:
        """Use `connect` instead."""
        self._connection, self._name = connection, name
        self._path = f"/holdouts/{escaped(name, safe='')}"
        self._schema: Schema = result_from(self._described().get("schema", {}))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _described(self) -> dict[str, Any]:
        return self._connection.get(self._path)

    @property
    def name(self) -> str:
        """The holdout's name."""
        return self._name

    @property
    def schema(self) -> Schema:
        """See `Holdout.schema`."""
        return self._schema

    def append(
        self, rows: RowSource | None = None, training: RowSource | None = None, *, until: str | None = None
    ) -> Arrived:
        """See `Holdout.append`; for stewards. A lost response is asked for again, and nothing arrives twice.

        Args:
            rows: As for `Holdout.append`. A file stays where it is: put it away.
            training: Open rows.
            until: As for `Holdout.append`.

        Raises:
            HoldoutRejected: If the rows do not fit or are there already. Nothing was changed.
        """
        with row_files(rows=rows, training=training) as files:
            if not files:
                raise HoldoutRejected("there are no rows to append; expected rows; nothing was appended")
            sent = self._connection.send("POST", self._path + "/arrivals", {"until": until}, files, named="settings")
        arrived: Arrived = result_from(sent)
        self._schema = result_from(self._described().get("schema", {}))
        return arrived

    def over_time(
        self, query: Query[Any] | str, by: str | int = "arrival", *, law: str = "windows",
        guess: float | None = None,
    ) -> OverTime:  # fmt: skip
        """See `Holdout.over_time`."""
        asked, tables = written(query)
        document = {"query": asked, "by": by, "law": law, "guess": plain(guess)}
        found: OverTime = result_from(self._send("/over-time", document, tables))
        return found

    def drift(
        self, arrival: int | None = None, *, columns: Sequence[str] | None = None,
        also: Sequence[Query[Any] | str] = (),
    ) -> Drift:  # fmt: skip
        """See `Holdout.drift`."""
        tables: dict[str, PredictionTable] = {}
        asked = [written(query, tables)[0] for query in also]
        document = {"arrival": arrival, "columns": None if columns is None else list(columns), "also": asked}
        found: Drift = result_from(self._send("/drift", document, tables))
        return found

    def retire(self, before: int) -> Any:
        """See `Holdout.retire`; for stewards. A lost response is asked for again, and the same rows come back.

        Args:
            before: Number of an arrival at which a tree opened.

        Returns:
            The opened rows, as an Arrow table.

        Raises:
            QueryRejected: If no tree opened there. Nothing was changed.
        """
        from pyarrow import BufferReader, parquet

        sent = self._connection.download(self._path + "/retire", {"before": before}, media_type=PARQUET_TYPE)
        opened = parquet.read_table(BufferReader(sent))
        self._schema = result_from(self._described().get("schema", {}))
        return opened

    def timeline(self) -> list[dict[str, Any]]:
        """See `holdout.arrivals.timeline` of a `Holdout`."""
        rows: list[dict[str, Any]] = self._connection.get(f"{self._path}/arrivals")["arrivals"]
        return rows

    def _send(
        self, path: str, document: Mapping[str, Any], tables: Mapping[str, PredictionTable] | None = None
    ) -> dict[str, Any]:
        contents = {name: parquet_of(table, self._schema.row_id) for name, table in (tables or {}).items()}
        parts: dict[str, Part] = {name: partial(_sent, content) for name, content in contents.items()}
        return self._connection.send("POST", self._path + path, document, parts)


def _sent(content: bytes, _: ExitStack) -> bytes:
    return content
