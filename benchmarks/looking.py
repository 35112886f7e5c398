"""What the time of an answered query tells about the sealed rows, and what repeats and refusals cost.

Six holdouts differ in the share of rows that meet a secret condition only. Each query is asked of all of them in
turn, always in a new spelling, so that each is answered from the sealed rows; its median processor time is fitted by a
line in the share. The slope is what the time tells; a slope of few of its standard errors is noise. "Before" is the
form that everhold once had: a branch where a value may be null, and null carried along.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import warnings
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from everhold import Holdout
from everhold.display import text_table

if TYPE_CHECKING:
    from collections.abc import Callable

    Asking = Callable[[float, int], object]
    """Asks the holdout of a share, in another spelling every turn."""

__all__ = ["measure"]

_ROWS, _ROUNDS = 100_000, 12
_SHARES = (0.02, 0.25, 0.4, 0.6, 0.75, 0.98)
_TERMS = 60
_SECRET = "case when secret then null else x end"
_QUERIES: dict[str, Callable[[int], str]] = {
    "least": lambda turn: f"least({_SECRET}, " + ", ".join(f"x + {turn}.{k}1" for k in range(_TERMS)) + ") > 0",
    "divisions": lambda turn: " / ".join([f"({_SECRET} + {turn})", *(f"(x + {k}.5)" for k in range(_TERMS))]) + " > 0",
    "branches": lambda turn: (
        "case when secret then x "
        + " ".join(f"when x > {turn}.{k}1 then x / {k + 1}" for k in range(_TERMS))
        + " end > 0"
    ),
    "sums, as a control": lambda turn: f"x + {turn} + " + " + ".join(["x"] * _TERMS) + " > 0",
}


def measure() -> list[dict[str, Any]]:
    """One line for each query: times at both ends, and the slope with its standard error."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tables = {share: _rows(share) for share in _SHARES}
        holdouts = {
            share: Holdout.create(f"{folder}/s.db", f"h{share}", holdout=rows, mechanism="gaussian", queries=99)
            for share, rows in tables.items()
        }
        lines = [_line(name, _asking(holdouts, text)) for name, text in _QUERIES.items()]
        with duckdb.connect() as engine:
            for share, rows in tables.items():
                _load(engine, _name(share), rows)
            lines.insert(1, _line("least, before", _running(engine)))
        lines.append(_line("a repeat", _asking(holdouts, lambda _: _QUERIES["least"](1))))
        for holdout in holdouts.values():
            holdout.ask_many([f"x > {k}" for k in range(99)])
        lines.append(_line("a refusal", _asking(holdouts, lambda turn: _QUERIES["least"](100 + turn))))
        for holdout in holdouts.values():
            holdout.close()
    return lines


def _asking(holdouts: dict[float, Holdout], text: Callable[[int], str]) -> Asking:
    return lambda share, turn: holdouts[share].ask(text(turn))


def _running(engine: duckdb.DuckDBPyConnection) -> Asking:
    return lambda share, turn: engine.execute(_before(_name(share), turn)).fetchall()


def _name(share: float) -> str:
    return f"t{round(100 * share)}"


def _rows(share: float) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(round(1_000 * share))
    return {"x": rng.normal(size=_ROWS), "secret": rng.random(_ROWS) < share}


def _load(engine: duckdb.DuckDBPyConnection, name: str, rows: dict[str, np.ndarray]) -> None:
    engine.register("rows_of_numpy", rows)
    engine.execute(f"CREATE TABLE {name} AS SELECT * FROM rows_of_numpy")
    engine.unregister("rows_of_numpy")


def _before(table: str, turn: int) -> str:
    """The query "least" with the branches that everhold once had."""
    names = ["s", *(f"s{k}" for k in range(_TERMS))]
    inputs = ", ".join(f"x + {turn}.{k}1 AS s{k}" for k in range(_TERMS))
    missing = " OR ".join(f"{name} IS NULL" for name in names)
    least = f"CASE WHEN {missing} THEN NULL ELSE least({', '.join(names)}) END"
    source = f"(SELECT CASE WHEN secret THEN NULL ELSE x END AS s, {inputs} FROM {table})"
    return f"SELECT sum(CASE WHEN {least} > 0 THEN 1 ELSE 0 END) FROM {source}"


def _line(name: str, ask: Asking) -> dict[str, Any]:
    """Each in turn, the order turned round from one round to the next."""
    times: dict[float, list[float]] = {share: [] for share in _SHARES}
    for turn in range(1, _ROUNDS + 2):
        for share in _SHARES[:: 1 if turn % 2 else -1]:
            start = time.process_time()  # of all threads; what other processes do does not count
            ask(share, turn)
            times[share].append(1e3 * (time.process_time() - start))
    medians = np.array([statistics.median(found[1:]) for found in times.values()])
    slope, error = _slope(np.array(list(times)), medians)
    return {
        "query": name,
        "ms at share .02": float(f"{medians[0]:.3g}"),
        "ms at share .98": float(f"{medians[-1]:.3g}"),
        "slope (ms)": float(f"{slope:.2g}"),
        "standard error": float(f"{error:.2g}"),
    }


def _slope(shares: np.ndarray, times: np.ndarray) -> tuple[float, float]:
    """Of the line of least squares, with its standard error."""
    centred = shares - shares.mean()
    slope = float(centred @ times / (centred @ centred))
    rest = times - times.mean() - slope * centred
    return slope, float(np.sqrt(rest @ rest / (len(shares) - 2) / (centred @ centred)))


if __name__ == "__main__":
    print(text_table(measure()))
