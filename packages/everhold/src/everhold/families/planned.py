"""A family for plans, in which only the number of members is known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from everhold.arguments import as_whole, brief
from everhold.errors import QueryRejected
from everhold.families.base import BoundFamily, Family

if TYPE_CHECKING:
    from everhold.queries.query_compiler import QueryCompiler


@dataclass(frozen=True, slots=True)
class PlannedFamily(Family):
    """A family with a given number of equally likely members, for plans made before the members are known.

    Raises:
        QueryRejected: If that is no number of members.
    """

    what: str
    members: int

    def __post_init__(self) -> None:
        if (as_whole(self.members) or 0) < 1:
            raise QueryRejected(f"{self.what} has {brief(self.members)} members. Pass a whole number of at least 1.")

    def bind(self, compiler: QueryCompiler) -> BoundFamily:
        """Refuse to bind, because declaring needs the members and a plan only counts them.

        Raises:
            QueryRejected: Always.
        """
        raise QueryRejected(
            f"{self.what} says how many members it has and not which, so it can only be planned. Use listed, "
            "subgroups or texts in place of members."
        )

    def planned_nats(self, *, training: bool) -> float | None:
        """See `Family.planned_nats`."""
        return math.log(self.members)
