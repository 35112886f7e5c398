"""A family of which a plan knows the number of members only."""

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
    """So many members, all alike likely; for plans, before anybody knows which.

    Raises:
        QueryRejected: If that is no number of members.
    """

    what: str
    members: int

    def __post_init__(self) -> None:
        if (as_whole(self.members) or 0) < 1:
            raise QueryRejected(
                f"{self.what} has {brief(self.members)} members; expected a whole number of at least 1; nothing was "
                "changed"
            )

    def bind(self, compiler: QueryCompiler) -> BoundFamily:
        """Refused: a plan only counts the members, and declaring needs to know them.

        Raises:
            QueryRejected: Always.
        """
        raise QueryRejected(
            f"{self.what} says how many members it has and not which; expected listed, subgroups or texts in place of "
            "members; nothing was changed"
        )

    def planned_nats(self, *, training: bool) -> float | None:
        """See `Family.planned_nats`."""
        return math.log(self.members)
