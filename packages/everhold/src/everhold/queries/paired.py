"""Questions that are made of two others row by row, such as a difference."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from everhold.queries.means import RowwiseQuery

if TYPE_CHECKING:
    from everhold.values.base import BoundQuery, Schema

__all__ = ["PairedQuery", "in_units"]


class PairedQuery(RowwiseQuery):
    """The mean of what is computed from the row values of two questions."""

    __slots__ = ()

    @property
    @abstractmethod
    def operands(self) -> tuple[RowwiseQuery, RowwiseQuery]:
        """The two questions."""

    @abstractmethod
    def joined(self, first: BoundQuery, second: BoundQuery) -> BoundQuery:
        """The one question that the two make, both bound to the same rows.

        Raises:
            QueryRejected: If they do not fit together. Nothing is charged.
        """

    def bind(self, schema: Schema) -> BoundQuery:
        """The question about rows of this schema."""
        first, second = self.operands
        return self.joined(first.bind(schema), second.bind(schema))


def in_units(low: float, high: float) -> str:
    """A range as it is told."""
    return f"from {min(low, high):g} to {max(low, high):g}"
