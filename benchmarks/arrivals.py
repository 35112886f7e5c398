"""Rows that arrive: an append beside sealing as many rows anew, and a query beside one before the append.

A tenth as many rows as are sealed arrive, of 20 columns, in a holdout that was created with ``grows=True``. Times are
those of the processors (of all threads). Wanted are at most 1.5 times sealing and 1.1 times the query.
``EVERHOLD_ARRIVALS_ROWS`` is the number of rows that are sealed first; 1e7 take 5 GB of disk and some minutes.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

import everhold as eh

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["measure"]

_ASKS = 41
_NUMBERS, _WHOLE, _TEXTS = 12, 5, 3


def measure() -> list[dict[str, Any]]:
    """One line for each step: rows, processor seconds, and the ratio to what it is held against."""
    rows = int(float(os.environ.get("EVERHOLD_ARRIVALS_ROWS", "1e7")))
    some = rows // 10
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings(action="ignore"):
        folder = Path(name)
        first, alone, new = (
            _table(folder / f"{what}.parquet", count, seed)
            for what, count, seed in (("first", rows, 0.1), ("alone", some, 0.2), ("new", some, 0.3))
        )
        _sealed(folder, "warm", _table(folder / "warm.parquet", 1_000, 0.4)).close()  # what is loaded and tuned once
        sealing = _spent(lambda: _sealed(folder, "alone", alone).close())
        with _sealed(folder, "grown", first) as holdout:
            before = _asked(holdout, 0)
            appending = _spent(lambda: holdout.append(new))
            after = _asked(holdout, 1)
    return [
        {"step": "seal", "rows": some, "columns": 20, "processor s": sealing, "ratio": None},
        {"step": f"append to {rows:,}", "rows": some, "columns": 20, "processor s": appending,
         "ratio": appending / sealing},
        {"step": "query", "rows": rows, "columns": 2, "processor s": before, "ratio": None},
        {"step": "query after the append", "rows": rows + some, "columns": 2, "processor s": after,
         "ratio": after / before},
    ]  # fmt: skip


def _table(path: Path, rows: int, seed: float) -> Path:
    """Rows of numbers, whole numbers and texts in a file."""
    columns = [f"random() * 100 AS x{place}" for place in range(_NUMBERS)]
    columns += [f"CAST(random() * 1000 AS INTEGER) AS n{place}" for place in range(_WHOLE)]
    columns += [f"CASE WHEN random() < 0.3 THEN 'AA' ELSE 'UA' END AS t{place}" for place in range(_TEXTS)]
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute(f"SELECT setseed({seed})")
        connection.execute(f"COPY (SELECT {', '.join(columns)} FROM range({rows})) TO '{path}' (FORMAT parquet)")
    return path


def _sealed(folder: Path, name: str, rows: Path) -> eh.Holdout:
    planning = eh.Planning(grows=True)
    return eh.Holdout.create(f"sqlite:///{folder}/{name}.db", name, holdout=rows, queries=1_000, planning=planning)


def _asked(holdout: eh.Holdout, turn: int) -> float:
    """Median processor seconds of a new query, with its columns in memory."""
    spent = [
        _spent(lambda level=level: holdout.ask(f"x0 > {level + turn / 100:.2f} and n0 < 500", guess=_guess(level)))
        for level in range(_ASKS)
    ]
    return statistics.median(spent[1:])


def _guess(level: float) -> float:
    return (1.0 - level / 100.0) / 2.0


def _spent(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before
