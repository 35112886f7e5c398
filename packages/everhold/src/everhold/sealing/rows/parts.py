"""Rows in several files that follow each other: those that were sealed first, and those that arrived later.

Each file keeps its columns, so rows that arrive cost nothing for those that are there. A look goes through the parts in
order, and no column is copied.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from everhold.sealing.rows.columns import Span
from everhold.sealing.rows.embedded_rows import EmbeddedRows
from everhold.sealing.rows.table import StoredRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from everhold.sealing.rows.columns import ColumnStore
    from everhold.values.base import Schema
    from everhold.values.expressions import ColumnKind

__all__ = ["PartedRows", "parted"]


class _Chained:
    """Column stores of several files as one."""

    def __init__(self, stores: Sequence[ColumnStore], sizes: Sequence[int]) -> None:
        self._stores, self._sizes = stores, sizes

    def spans(self, wanted: Mapping[str, ColumnKind]) -> Iterator[Span]:
        """See `ColumnStore.spans`."""
        before = 0
        for store, rows in zip(self._stores, self._sizes, strict=True):
            for span in store.spans(wanted):
                yield Span(before + span.start, before + span.stop, span.columns)
            before += rows

    def close(self) -> None:
        """See `ColumnStore.close`."""
        for store in self._stores:
            store.close()


class PartedRows(StoredRows):
    """The rows of several files, in order.

    Args:
        parts: One store for each file.
        schema: What is known of the rows; their number is that of all parts.
        sealed: As for `StoredRows`.
        order_key: As for `StoredRows`.
    """

    def __init__(
        self, parts: Sequence[StoredRows], schema: Schema, *, sealed: bool, order_key: bytes | None = None
    ) -> None:
        rows = sum(part.rows for part in parts)
        super().__init__(parts[0].engine, schema, rows=rows, sealed=sealed, order_key=order_key)
        self.parts = tuple(parts)

    def close(self) -> None:
        """Close all parts; they open again when needed."""
        for part in self.parts:
            part.close()

    @cached_property
    def _embedded(self) -> EmbeddedRows:
        stores = [part._embedded._store for part in self.parts]
        return EmbeddedRows(cast("ColumnStore", _Chained(stores, [part.rows for part in self.parts])), self.rows)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """See `EvaluatedRows.reading`; every file is compared before and after."""
        with ExitStack() as stack:
            for part in self.parts:
                stack.enter_context(part.reading())
            yield

    def _column_arrays(self, names: Sequence[str]) -> Mapping[str, Any]:
        found = [part._column_arrays(names) for part in self.parts]
        return {name: _joined([some[name] for some in found]) for name in names}

    def _row_ids(self, name: str) -> list[Any]:
        return [each for part in self.parts for each in part._row_ids(name)]

    def _index_of_groups(self, column: str) -> NDArray[np.int64]:
        values = self._column_arrays([column])[column]
        texts = np.where(np.ma.getmaskarray(values), "", np.ma.getdata(values).astype(str))
        _, index = np.unique(texts, return_inverse=True)
        return np.asarray(index, dtype=np.int64)

    def _blocks(self, order_by: tuple[str, ...]) -> NDArray[np.int64] | None:
        """See `StoredRows`; rows that arrive are in no order but that of their arrival."""
        return None


def parted(
    parts: Sequence[StoredRows], schema: Schema, *, sealed: bool, order_key: bytes | None = None
) -> StoredRows:  # fmt: skip
    """The rows of several files; those of a single one are its store itself, and a table puts its windows together."""
    if len(parts) > 1 and not isinstance(parts[0], StoredRows):
        return cast("StoredRows", parts[0].together(parts, schema))
    return parts[0] if len(parts) == 1 else PartedRows(parts, schema, sealed=sealed, order_key=order_key)


def _joined(columns: Sequence[Any]) -> Any:
    """Columns of several files as one, masked where a value is missing."""
    return np.ma.concatenate(columns)  # type: ignore[no-untyped-call]
