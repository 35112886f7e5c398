"""Effective number of sealed flights when some of them move together, and a holdout that states it.

Flights of one hour at one airport wait in the same queue, flights of one day fly through the same weather, and one
aircraft carries its delay from flight to flight. Each assumption about what moves together makes groups; the larger the
groups, the fewer independent rows the same flights are worth (S5).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.dependence import Groups, Independent
from everhold.planning import PlanRequest, tuned_mechanism
from everhold_lab.demo.flights import Flights

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from everhold.dependence import DependenceModel
    from everhold_lab.demo.flights import FlightRows

DEPARTURE = "departure"
"""Column that names the airport and the hour of a flight; equal values are a group."""

_ORDER_SEED = 2013


@dataclass(frozen=True, slots=True)
class Assumption:
    """Assumption about which flights move together.

    Attributes:
        name: What people call it.
        columns: Flights with equal values in all of them are a group; without columns each flight is its own.
    """

    name: str
    columns: tuple[str, ...]

    def groups_of(self, part: FlightRows) -> NDArray[np.int64]:
        """Number of the group of each flight, shape (rows,)."""
        if not self.columns:
            return np.arange(len(part))
        return part.table.groupby(list(self.columns), sort=False, dropna=False).ngroup().to_numpy().astype(np.int64)

    def model_of(self, part: FlightRows) -> DependenceModel:
        """The dependence model of these flights."""
        if not self.columns:
            return Independent()
        return Groups.of_counts(Counter(np.bincount(self.groups_of(part)).tolist()))


EACH_FLIGHT = Assumption("each flight alone", ())
ONE_HOUR = Assumption("one hour, one airport", ("origin", "month", "day", "hour"))
ASSUMPTIONS = (EACH_FLIGHT, ONE_HOUR, Assumption("one aircraft", ("tailnum",)), Assumption("one day", ("month", "day")))
"""Fixed in advance; the second one is sealed."""


@dataclass(frozen=True, slots=True)
class GroupsWorth:
    """The sealed flights under one assumption.

    Attributes:
        assumption: Its name.
        groups: Groups of the sealed flights.
        largest: Flights of the largest group.
        effective_rows: Independent rows that the sealed flights are worth (S5).
        within: Correlation of being late between training flights of one group; None without pairs.
        left: The same between training flights of different groups on one day, or on successive days where a group has
            all flights of its day; None without pairs. The assumption says that it is 0.
        radius: Radius of guess and check for the same request; more than 1/2 promises nothing.
    """

    assumption: str
    groups: int
    largest: int
    effective_rows: float
    within: float | None
    left: float | None
    radius: float

    def to_dict(self) -> dict[str, Any]:
        """The line as plain data."""
        return asdict(self)


def worth_of(flights: Flights, *, queries: int, surprises: int) -> tuple[GroupsWorth, ...]:
    """The sealed flights under each assumption, for the same request.

    The sealed flights give the sizes of the groups, which are public; whether they are late is looked up for training
    flights alone.
    """
    return tuple(_worth_under(assumption, flights, queries, surprises) for assumption in ASSUMPTIONS)


def _worth_under(assumption: Assumption, flights: Flights, queries: int, surprises: int) -> GroupsWorth:
    sealed, training, model = flights.sealed, flights.training, assumption.model_of(flights.sealed)
    sizes = np.bincount(assumption.groups_of(sealed))
    request = PlanRequest(
        rows=len(sealed), queries=queries, surprises=surprises, dependence=model, training_rows=len(training)
    )
    mechanism = tuned_mechanism("guess_and_check", request)
    groups = assumption.groups_of(training)
    return GroupsWorth(
        assumption=assumption.name,
        groups=len(sizes),
        largest=int(sizes.max()),
        effective_rows=model.concentration(len(sealed)),
        within=correlation_within(training.late, groups),
        left=correlation_left(training, groups),
        radius=mechanism.promise().radius,
    )


def correlation_within(late: NDArray[np.bool_], groups: NDArray[np.int64]) -> float | None:
    """Correlation of the label between the rows of a pair in one group, over all such pairs.

    Args:
        late: The label, shape (rows,).
        groups: Number of each row's group, shape (rows,).

    Examples:
        >>> correlation_within(np.array([True, True, False, False]), np.array([0, 0, 1, 1]))
        1.0
        >>> correlation_within(np.array([True, False, True, False]), np.array([0, 0, 1, 1]))
        -1.0
    """
    return _ratio(*_pairs(_standard(late), groups))


def correlation_left(part: FlightRows, groups: NDArray[np.int64]) -> float | None:
    """Correlation of being late between flights of different groups on one day; if there are none, on successive days.

    Args:
        part: Flights.
        groups: Number of each flight's group, shape (rows,).
    """
    late, day = _standard(part.late), part.features[:, 0].astype(np.int64)
    shared = np.unique(np.column_stack([groups, day]), axis=0, return_inverse=True)[1].ravel()
    of_day, of_group = _pairs(late, day), _pairs(late, shared)
    if of_day[1] > of_group[1]:
        return _ratio(of_day[0] - of_group[0], of_day[1] - of_group[1])
    sums, counts = np.bincount(day, weights=late), np.bincount(day)
    return _ratio(float(sums[1:] @ sums[:-1]), float(counts[1:] @ counts[:-1]))


def _standard(late: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The label with mean 0 and variance 1."""
    centred = late - np.mean(late)
    return np.asarray(centred / (np.std(late) or 1.0), dtype=np.float64)


def _pairs(values: NDArray[np.float64], groups: NDArray[np.int64]) -> tuple[float, float]:
    """Sum of the products over ordered pairs of different rows in one group, and the number of pairs."""
    sums, counts = np.bincount(groups, weights=values), np.bincount(groups)
    return float(sums @ sums - values @ values), float(counts @ (counts - 1))


def _ratio(products: float, pairs: float) -> float | None:
    return products / pairs if pairs else None


def with_departures(flights: Flights) -> Flights:
    """The same sealed flights with a column for the hour at the airport, and training flights of other hours only.

    A group must not have flights on both sides: a training flight of a sealed hour tells about that hour. Training
    flights come hour by hour, the hours in a fixed random order, so that a cut between them parts hours, too. Fresh
    flights are those of all hours that nobody trains on.
    """
    named = [replace(part, table=_named(part)) for part in (flights.sealed, flights.training, flights.fresh)]
    sealed, training, fresh = named
    others = training.take(np.flatnonzero(~_hours(training).isin(_hours(sealed)).to_numpy()))
    hour = ONE_HOUR.groups_of(others)
    place = np.random.default_rng(_ORDER_SEED).permutation(int(hour.max(initial=-1)) + 1)[hour]
    return Flights(
        sealed=sealed,
        training=others.take(np.argsort(place, kind="stable")),
        fresh=fresh.take(np.flatnonzero(~_hours(fresh).isin(_hours(others)).to_numpy())),
    )


def _hours(part: FlightRows) -> pd.Series[str]:
    return part.table[DEPARTURE]


def _named(part: FlightRows) -> pd.DataFrame:
    """The table with a column such as ``"JFK 03-14 08h"``."""
    table = part.table
    month, day, hour = (table[name].astype(str).str.zfill(2) for name in ("month", "day", "hour"))
    return table.assign(**{DEPARTURE: table["origin"] + " " + month + "-" + day + " " + hour + "h"})
