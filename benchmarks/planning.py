"""Seconds to compare all mechanisms, to invert the plan and to draw it; promised are 1 s for a plan, 3 s for rows."""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

from benchmarks.timing import seconds
from everhold.display import text_table
from everhold.planning import plan, queries_allowed, rows_needed

__all__ = ["measure"]

ROUNDS = 3


def measure() -> list[dict[str, Any]]:
    """One line for each task: the median and the longest of some rounds."""
    small = {"queries": 1_000, "surprises": 10}
    large = {"queries": 1_000_000, "surprises": 1_000}
    tasks = {
        "plan, 1,000 queries": partial(plan, rows=50_000, **small),
        "plan, 1,000,000 queries": partial(plan, rows=5_000_000, **large),
        "rows needed, 1,000 queries": partial(rows_needed, radius=0.1, slack=1 / 3, **small),
        "rows needed, 1,000,000 queries": partial(rows_needed, radius=0.1, slack=1 / 3, **large),
        "queries allowed": partial(queries_allowed, radius=0.05, rows=50_000),
        "chart": plan(rows=50_000, **small).chart,
    }
    return [_line(name, [seconds(task) for _ in range(ROUNDS)]) for name, task in tasks.items()]


def _line(task: str, times: list[float]) -> dict[str, Any]:
    return {"task": task, "median (s)": round(statistics.median(times), 3), "longest (s)": round(max(times), 3)}


if __name__ == "__main__":
    print(text_table(measure()))
