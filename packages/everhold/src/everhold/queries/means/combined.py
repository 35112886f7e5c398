"""Queries that are made of two others row by row, such as a difference."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from everhold.queries.means.batch import RowwiseQuery

if TYPE_CHECKING:
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.values.base import BoundQuery, Schema


class CombinedQuery(RowwiseQuery):
    """The mean of what is computed from the row values of two queries."""

    __slots__ = ()

    @property
    @abstractmethod
    def operands(self) -> tuple[RowwiseQuery, RowwiseQuery]:
        """The two queries."""

    @abstractmethod
    def combined(self, first: BoundQuery, second: BoundQuery) -> BoundQuery:
        """The one query that the two make, both bound to the same rows.

        Raises:
            QueryRejected: If they do not fit together. Nothing is charged.
        """

    def needed(self, schema: Schema) -> frozenset[str]:
        """See `RowwiseQuery.needed`."""
        return frozenset[str]().union(*(each.needed(schema) for each in self.operands))

    def tested(self, schema: Schema) -> frozenset[str]:
        """See `RowwiseQuery.tested`."""
        return frozenset[str]().union(*(each.tested(schema) for each in self.operands))

    def bind(self, schema: Schema) -> BoundQuery:
        """The query about rows of this schema."""
        first, second = self.operands
        return self.combined(first.bind(schema), second.bind(schema))

    def bound_to(self, compiler: QueryCompiler, *, part: bool = False) -> BoundQuery:
        """The query about the holdout's rows; two arrays of predictions are set apart, to bet on each."""
        from everhold.queries.predictions.public import set_apart

        first, second = self.operands
        bound = self.combined(compiler.parsed(first, part=True), compiler.parsed(second, part=True))
        bound = bound if part else set_apart(bound, compiler.schema, compiler.mechanism)
        return compiler.checked(bound, part=part)


def in_units(low: float, high: float) -> str:
    """A range as it is told."""
    return f"from {min(low, high):g} to {max(low, high):g}"
