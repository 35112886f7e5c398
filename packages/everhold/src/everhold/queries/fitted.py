"""Queries about models that everhold fits itself, on the training rows, when they are asked."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from everhold.errors import QueryRejected
from everhold.queries.means import RowwiseQuery

if TYPE_CHECKING:
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.values.base import BoundQuery, Schema

__all__ = ["FittedQuery"]


class FittedQuery(RowwiseQuery):
    """A query whose row values need the training rows before they are known."""

    __slots__ = ()

    @abstractmethod
    def bound(self, compiler: QueryCompiler) -> BoundQuery:
        """The query about the holdout's rows; the model is fitted here.

        Raises:
            QueryRejected: If it cannot be asked. Nothing is charged.
        """

    def bind(self, schema: Schema) -> BoundQuery:
        """Refused: it is no part of another query."""
        raise QueryRejected(
            "a point of a declared space is asked for itself, not as a part of another question; expected "
            "ask(space.at(...)) or ask_many([...]); nothing was charged"
        )
