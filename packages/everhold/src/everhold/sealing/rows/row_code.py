"""Code and predictions on rows: a function meets sealed rows in a secret order, and its faults are not told."""

from __future__ import annotations

import hmac
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.sealing.rows.code_trials import public_values, sealed_values
from everhold.sealing.rows.estimated_values import EstimatedValues
from everhold.values.base import Joined, Kept
from everhold.values.evaluation import clip_to_grid, to_grid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from everhold.sealing.rows.evaluated_rows import EvaluatedRows
    from everhold.values.base import BoundQuery, RowFunction, Schema, Table

__all__ = ["NOTED", "CodeOnRows", "NotedRows", "noting_failing_rows"]


@dataclass(frozen=True, slots=True)
class NotedRows:
    """Sealed rows on which models fail, as they were evaluated. Secret.

    Attributes:
        by_model: Shape (rows,) by a model's source; None where it fails on no row.
    """

    by_model: dict[Any, NDArray[np.bool_] | None] = field(default_factory=dict, repr=False)

    def of(self, query: BoundQuery, rows: int) -> NDArray[np.bool_]:
        """Rows on which a model of a query fails; of all models where the query names none itself."""
        sources = set(_sources(query)) or self.by_model.keys()
        found = np.zeros(rows, dtype=bool)
        for source in sources:
            if (fails := self.by_model.get(source)) is not None:
                found |= fails
        return found


NOTED: ContextVar[NotedRows | None] = ContextVar("NOTED", default=None)


@contextmanager
def noting_failing_rows() -> Iterator[NotedRows]:
    """Context in which is noted on which sealed rows models fail."""
    token = NOTED.set(noted := NotedRows())
    try:
        yield noted
    finally:
        NOTED.reset(token)


def _sources(query: BoundQuery) -> Iterator[Any]:
    """What tells the models of a query apart."""
    if query.pair is not None:
        yield from _sources(query.pair.first)
        yield from _sources(query.pair.second)
    elif isinstance(query.sealed, EstimatedValues):
        yield query.sealed.source


@dataclass(frozen=True)
class CodeOnRows:
    """Functions of rows, and predictions that were handed in, on the rows of one store.

    Attributes:
        rows: The store.
        schema: Of the holdout.
        are_sealed: Whether faults of functions must go unreported.
        order_key: Makes the secret order in which code meets sealed rows; None for their own order.
    """

    rows: EvaluatedRows
    schema: Schema
    are_sealed: bool
    order_key: bytes | None

    def grid(self, query: BoundQuery, *, unit: int) -> NDArray[np.int64]:
        """Row values in grid units; on sealed rows nothing is refused.

        Args:
            query: The query.
            unit: Grid steps between 0 and 1.
        """
        function = query.sealed if self.are_sealed else query.training
        if function is None:
            raise ValueError(f"{query.shown!r} has no values for these rows; expected an expression or a function")
        return self._on_grid(self._of(function, query), query, unit)

    def totals(self, function: RowFunction, query: BoundQuery, *, parts: int, unit: int) -> NDArray[np.int64]:
        """Sums of row values over each part of the rows, in grid units."""
        values = self._of(function, query)
        if values.dtype == np.bool_ and parts == 1:
            return np.array([np.count_nonzero(values) * unit], dtype=np.int64)
        grid = self._on_grid(values, query, unit)
        return np.array([grid[part::parts].sum() for part in range(parts)], dtype=np.int64)

    def _of(self, function: RowFunction, query: BoundQuery) -> NDArray[Any]:
        rows, names = self.rows, tuple(self.schema.columns) if query.reads is None else query.reads
        if isinstance(function, Joined):
            raise TypeError(f"{query.shown!r} is computed by the engine; expected look or totals")
        if isinstance(function, Kept):
            function = function.in_memory()  # here, because a disk that fails is no row's fault
        if not self.are_sealed:
            return public_values(function, rows.table(names), rows.rows, of=rows)
        if query.by_position:
            return sealed_values(function, rows.table(names), rows.rows, fault=query.at_fault)
        return self.values(function, names, fault=query.at_fault)

    def _on_grid(self, values: NDArray[Any], query: BoundQuery, unit: int) -> NDArray[np.int64]:
        """Values of code on the grid; of a yes-no query whatever is not 1 is 0."""
        sealed = self.are_sealed
        grid = clip_to_grid(values, unit=unit, fault=query.at_fault) if sealed else to_grid(values, unit=unit)
        return grid // unit * unit if query.yes_no else grid

    def values(
        self,
        function: RowFunction,
        names: Sequence[str],
        width: tuple[int, ...] = (),
        *,
        fault: float = 0.0,
    ) -> NDArray[Any]:
        """Values of sealed rows by code, as in `sealed_values`: it meets the rows in a secret order.

        So what it makes of a row's place, against the rules, meets a row that has nothing to do with it.
        """
        note = None if (noted := NOTED.get()) is None else partial(self._note, noted)
        found = sealed_values(function, self.table(names), self.rows.rows, width, fault=fault, of=self.rows, note=note)
        if self._order is None:
            return found
        values = np.empty_like(found)
        values[self._order] = found
        return values

    def _note(self, noted: NotedRows, source: Any, fails: NDArray[np.bool_]) -> None:
        """Note on which rows a model fails, in the order of the rows."""
        if not fails.any():
            noted.by_model[source] = None
            return
        noted.by_model[source] = in_order = np.empty_like(fails)
        in_order[slice(None) if self._order is None else self._order] = fails

    def table(self, names: Sequence[str]) -> Table:
        """The named columns as in `RowStore.table`, in the order in which code meets the rows."""
        table = self.rows.table(names)
        if self._order is None:
            return table
        met = {name: column[self._order] for name, column in table.items()}
        for column in met.values():
            column.flags.writeable = False
        return met

    @cached_property
    def _order(self) -> NDArray[np.int64] | None:
        """Positions of the rows in the order in which code meets them; None for their own order."""
        if self.order_key is None:
            return None
        return np.random.default_rng(int.from_bytes(self.order_key)).permutation(self.rows.rows)

    def dealing_order(self) -> NDArray[np.int64]:
        """A permutation of the rows, shape (rows,), that no value and no place decides: keyed where rows are sealed."""
        if self.order_key is None:
            return np.random.default_rng(0).permutation(self.rows.rows)
        key = hmac.digest(self.order_key, b"everhold dealing of rows", "sha256")
        return np.random.default_rng(int.from_bytes(key)).permutation(self.rows.rows)
