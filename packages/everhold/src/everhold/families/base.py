"""The protocol of declared families: weights of their queries, with sum at most 1, which no sealed row affects."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from everhold.arguments import as_float, as_whole, brief
from everhold.errors import QueryRejected
from everhold.values.expressions.tree import ColumnKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold.queries.query_compiler import QueryCompiler
    from everhold.sealing.rows.table import StoredRows
    from everhold.values.base import BoundQuery

MOST_SHARE = 0.99
"""Largest part of the failure probability for declared families. The rest is left to other queries."""

Categories = dict[str, tuple[Any, ...]]
"""Type of a mapping from column names to the public values that the column can have."""

_MOST = 1_000
"""Largest number of different texts for which a column has categories."""


class Family(ABC):
    """A family of queries as a user declares it, before it is bound to the rows of one holdout."""

    __slots__ = ()

    @abstractmethod
    def bind(self, compiler: QueryCompiler) -> BoundFamily:
        """Return the family bound to one holdout, computed from public facts and training rows alone.

        Raises:
            QueryRejected: If the family cannot be declared on this holdout. Nothing is charged.
        """

    def planned_nats(self, *, training: bool) -> float | None:
        """Return ln(1 / weight) of the member with the smallest weight, or None if it is unknown before there are rows.

        ``training`` is True if there will be training rows. Without training rows some members count as two queries.
        """
        return None


class BoundFamily(ABC):
    """A declared family bound to one holdout, which gives each of its queries a weight.

    Attributes:
        kind: Name of the family's kind in the ledger, such as ``"texts"``.
    """

    kind: ClassVar[str]

    @abstractmethod
    def nats(self, bound: BoundQuery) -> float | None:
        """Return ln(1 / weight) of a query if it is a member of the family, else None.

        The weights of all members sum to at most 1. The query, the schema and the training rows alone determine the row
        values and the interval procedure of a member.
        """

    def check_training(self, bound: BoundQuery, training: StoredRows | None) -> None:  # noqa: B027  # most have none
        """Refuse a member whose predictions for the training rows have changed since it was declared."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the family as plain JSON data with its ``kind``, for the ledger and the certificate."""

    @property
    @abstractmethod
    def shown(self) -> str:
        """A short description of the members for people, such as "3 listed queries"."""

    @property
    @abstractmethod
    def most_nats(self) -> float:
        """ln(1 / weight) of the member with the smallest weight."""

    def half_width(self, nats: float) -> float | None:
        """Return the half-width of the interval that the family itself gives, or None if only members have intervals.

        Args:
            nats: ln(1 / level) of the family.
        """
        return None


def share_of(share: object) -> float | None:
    """Return `share` as a float if declared families may use that part of the failure probability, else None."""
    part = as_float(share)
    return part if 0.0 < part <= MOST_SHARE else None


def categories_of(compiler: QueryCompiler, names: Sequence[str]) -> Categories:
    """Return the known categories of each column, from training rows and public facts, never from sealed rows.

    Args:
        compiler: The compiler of the holdout, which knows its public facts.
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


# A family for plans, in which only the number of members is known.


@dataclass(frozen=True, slots=True)
class PlannedFamily(Family):
    """A family with a given number of equally likely members, for plans made before the members are known.

    Raises:
        QueryRejected: If the number of members is not valid.
    """

    what: str
    members: int

    def __post_init__(self) -> None:
        if (as_whole(self.members) or 0) < 1:
            raise QueryRejected(
                f"members of {self.what} is {brief(self.members)}. Pass the number of its queries, a whole number of "
                "at least 1."
            )

    def bind(self, compiler: QueryCompiler) -> BoundFamily:
        """Raise QueryRejected, because the family has a number of members and does not say which they are.

        Raises:
            QueryRejected: In every case.
        """
        raise QueryRejected(
            f"{self.what} has only members, the number of its queries, which is enough for a plan but not for a "
            "declaration. Write listed, subgroups or texts in place of members."
        )

    def planned_nats(self, *, training: bool) -> float | None:
        """Return ln(number of members), which are all equally likely."""
        return math.log(self.members)
