"""Training rows with and without a plant in them."""

from functools import lru_cache

import duckdb
import numpy as np
from coverage_studies.open_columns import columns_of

from everhold.diagnosis.diagnosis import diagnose_rows
from everhold.planning import PlanRequest, tuned_mechanism

ROWS = 2_000
DAY = np.datetime64("2020-01-01", "us")
WISH = {"queries": 100, "surprises": 5, "confidence": 0.9}


@lru_cache
def planned(name="guess_and_check", rows=4_000, **changes):
    return tuned_mechanism(name, PlanRequest(rows=rows, **{**WISH, **changes}))


def diagnosed(table, label="late", **wanted):
    return diagnose_rows(columns_of(table), label=label, mechanism=wanted.pop("mechanism", planned()), **wanted)


def plain(seed=0, rows=ROWS):
    """Independent rows with every kind of column: a text of many values, a measurement, an index, a date."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 200, rows)
    return {
        "zip": np.array([f"z{code}" for code in rng.integers(0, 600, rows)], dtype=object),
        "age": age,
        "index": np.arange(rows),
        "day": DAY + 86_400_000_000 * rng.permutation(rows),
        "size": rng.normal(size=rows),
        "late": (rng.random(rows) < 0.2 + age / 400).astype(int),
    }


def households(seed=0, rows=ROWS, size=4, *, shuffled=True):
    """Rows that come in homes of one size, and each home has its own chance to be late."""
    rng = np.random.default_rng(seed)
    home = np.repeat(np.arange(rows // size), size)
    late = (rng.random(rows) < rng.random(rows // size)[home]).astype(int)
    order = rng.permutation(rows) if shuffled else np.arange(rows)
    return {**plain(seed, rows), "home": home[order], "late": late[order]}


def series(seed=0, rows=ROWS, stay=0.8):
    """A day each row; the weather stays as it is with some probability."""
    rng = np.random.default_rng(seed)
    flips = np.cumsum(rng.random(rows) > stay) % 2
    return {"day": DAY + 86_400_000_000 * np.arange(rows), "wind": rng.normal(size=rows), "late": flips}


def written(path, table):
    """The table as a Parquet file."""
    with duckdb.connect(":memory:") as connection:
        connection.register("source", table)
        connection.execute(f"COPY source TO '{path}' (FORMAT parquet)")
    return path
