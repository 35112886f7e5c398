"""The protocol of declared families: weights of its members, which sum to at most 1 and never depend on sealed rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from everhold.arguments import as_float
from everhold.values.expressions.tree import ColumnKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold.queries.query_compiler import QueryCompiler
    from everhold.sealing.rows.table import StoredRows
    from everhold.values.base import BoundQuery

MOST_SHARE = 0.99
"""The largest such part: the rest is left to other queries."""

Categories = dict[str, tuple[Any, ...]]
"""Values that a column can have, by its name; public."""

_MOST = 1_000
"""A column with more texts than this has no categories."""


class Family(ABC):
    """A family as a user declares it."""

    __slots__ = ()

    @abstractmethod
    def bind(self, compiler: QueryCompiler) -> BoundFamily:
        """The family of one holdout, from public facts and training rows alone.

        Raises:
            QueryRejected: If it cannot be declared there. Nothing is charged.
        """

    def planned_nats(self, *, training: bool) -> float | None:
        """ln(1 / weight) of its least likely member, as far as that is known without any rows; else None."""
        return None


class BoundFamily(ABC):
    """A family of one holdout.

    Attributes:
        kind: In the ledger, such as ``"texts"``.
    """

    kind: ClassVar[str]

    @abstractmethod
    def nats(self, bound: BoundQuery) -> float | None:
        """ln(1 / weight) of a member, in nats; None for a query that is none.

        The weights of all members sum to at most 1. What a query's row values and its interval procedure are follows
        from the query, the schema and the training rows.
        """

    def check_training(self, bound: BoundQuery, training: StoredRows | None) -> None:  # noqa: B027  # most have none
        """Refuse a member with other predictions for the training rows than it was declared with."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data with its ``kind``, which the ledger and the certificate hold."""

    @property
    @abstractmethod
    def shown(self) -> str:
        """Its members, as people read it."""

    @property
    @abstractmethod
    def most_nats(self) -> float:
        """ln(1 / weight) of the least likely member."""


def share_of(share: object) -> float | None:
    """A part of the probability of failure that declared families can have; None for anything else."""
    part = as_float(share)
    return part if 0.0 < part <= MOST_SHARE else None


def categories_of(compiler: QueryCompiler, names: Sequence[str]) -> Categories:
    """Categories of columns as the training rows say them: never those of sealed rows, which would be an answer.

    Args:
        compiler: What is known of the holdout.
        names: The columns; those whose categories are unknown are left out.
    """
    found: Categories = {}
    for name in names:
        kind = compiler.schema.asked[name]
        if name in compiler.schema.categories:
            found[name] = compiler.schema.categories[name]
        elif kind is ColumnKind.BOOLEAN:
            found[name] = (False, True)
        elif kind is ColumnKind.STRING and compiler.training is not None:
            values = {value for value in compiler.training.table([name])[name].tolist() if isinstance(value, str)}
            if 0 < len(values) <= _MOST:
                found[name] = tuple(sorted(values))
    return found
