"""A declared family of the demonstration: lateness of each carrier at each airport."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from everhold.families.subgroups import subgroups
from everhold.queries.means.mean import mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from everhold.holdout import Holdout

COLUMNS = ("carrier", "origin")
FAMILY = {"carriers and airports": subgroups(COLUMNS, of="late = 1")}
"""The family, by its name."""

_FEWEST = 200  # fresh flights of a subgroup, so that its fresh value says something
_STANDARD_ERRORS = 3.0


@dataclass(frozen=True, slots=True)
class Member:
    """The answer about one subgroup.

    Attributes:
        high: Upper end of the interval.
        fresh: Share of late flights among the fresh ones.
        fresh_flights: Number of fresh flights of the subgroup.
        charged: What the answer cost.
    """

    subgroup: str
    low: float
    high: float
    fresh: float
    fresh_flights: int
    charged: int

    @property
    def true(self) -> bool:
        """True if the interval contains the fresh value, up to the sampling error of the fresh flights."""
        allowed = _STANDARD_ERRORS * math.sqrt(self.fresh * (1.0 - self.fresh) / self.fresh_flights)
        return self.low - allowed <= self.fresh <= self.high + allowed


def ask_members(holdout: Holdout, fresh: pd.DataFrame) -> tuple[Member, ...]:
    """Ask every member about a subgroup with enough fresh flights.

    Args:
        holdout: With the declared family.
        fresh: Flights that were not sealed.
    """
    found = []
    for said, rows in _subgroups(fresh):
        if len(rows) >= _FEWEST:
            answer = holdout.ask(mean("late = 1", given=said))
            assert answer.low is not None
            assert answer.high is not None
            share = float(rows["late"].mean())
            found.append(Member(said, answer.low, answer.high, share, len(rows), answer.charged))
    return tuple(found)


def _subgroups(flights: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Each combination of categories that there is, with its condition and its flights."""
    carriers, origins = (sorted(flights[name].unique()) for name in COLUMNS)
    for name, values in zip(COLUMNS, (carriers, origins), strict=True):
        for value in values:
            yield f"{name} = '{value}'", flights[flights[name] == value]
    for carrier, origin in product(carriers, origins):
        chosen = (flights["carrier"] == carrier) & (flights["origin"] == origin)
        yield f"carrier = '{carrier}' and origin = '{origin}'", flights[chosen]
