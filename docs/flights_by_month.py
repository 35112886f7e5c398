"""Measures the year of flights in docs/guides/arrivals.md: flights of 2013 that arrive month by month, and day by day.

Run ``python docs/flights_by_month.py``; it draws docs/images/flights-months.svg and flights-widths.svg. It needs the
extra ``[plots]`` and the flights of ``everhold-lab``.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import everhold as eh
from everhold.planning.widths import plan_growth
from everhold_lab.demo.flights import all_flights

HOME = Path(__file__).parent
COLUMNS = ["month", "day", "hour", "carrier", "origin", "distance", "dep_delay", "arr_delay"]
NEAR = 0.9


def parts(months: int = 12, *, rows: int = 2_000, seed: int = 2013) -> list[tuple[pd.DataFrame, pd.DataFrame]]:
    """Sealed and training rows of each month, drawn at random."""
    flights = all_flights()
    flights = flights[flights["arr_delay"].notna()]
    found = []
    for month in range(1, months + 1):
        some = flights[flights["month"] == month].sample(2 * rows, random_state=seed + month)[COLUMNS]
        found.append((some.iloc[:rows].reset_index(drop=True), some.iloc[rows:].reset_index(drop=True)))
    return found


def studied(
    folder: str, *, months: int = 12, queries: int = 50, surprises: bool = True, grows: bool = True, texts: bool = True
) -> Any:
    """A holdout after so many months, with 50 queries a month, of which one is a surprise.

    Queries are short texts, or so long that their description is no cheaper than a place in the tree, as of a model.
    """
    tables, rng = parts(months), np.random.default_rng(1)
    planned = {"queries": queries * months, "surprises": months if surprises else 1}
    sealed, training = tables[0]
    holdout = eh.Holdout.create(
        f"{folder}/s.db", "flights", holdout=sealed, training=training, **planned, planning=eh.Planning(grows=grows)
    )
    for month, (sealed, training) in enumerate(tables, 1):
        if month > 1 and grows:
            holdout.append(sealed, training=training, until=f"2013-{month:02}-28")
        usual = queries - 1 if surprises else queries
        thresholds = [*rng.uniform(-40, 90, usual - 1), near(tables[:month] if grows else tables[:1]) + 0.001 * month]
        holdout.ask_many([below(threshold, text=texts) for threshold in thresholds])
        if surprises:
            holdout.ask(below(10 + month, text=texts), guess=0.01)
    return holdout


def below(threshold: float, *, text: bool) -> str:
    """Share of flights that arrive at most so many minutes late."""
    if text:
        return f"arr_delay <= {threshold:.3f}"
    return f"arr_delay <= {threshold:.12f} and distance > 1.234567891234 and dep_delay > -9999.876543212345"


def near(tables: list[tuple[pd.DataFrame, pd.DataFrame]]) -> float:
    """A threshold below which nine in ten training flights of these months arrive."""
    return float(np.quantile(np.concatenate([open_rows["arr_delay"] for _, open_rows in tables]), NEAR))


def measured(**how: Any) -> dict[str, float]:
    """Half-width at .9 after the last month: as it is told, and unsealed; and how many surprises there were."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        holdout = studied(folder, **how)
        surprises, rows = holdout.status()["charged"], holdout.status()["rows"]
        holdout.unseal()
        lines = [row for row in holdout.transcript().to_rows() if row["value"] is not None]
        line = min(lines[-how.get("queries", 50) :], key=lambda row: abs(row["sealed"] - NEAR))
        holdout.close()
    half = {name: (line[high] - line[low]) / 2 for name, low, high in
            (("told", "low", "high"), ("unsealed", "sealed_low", "sealed_high"))}  # fmt: skip
    return {"rows": rows, "surprises": surprises, "sealed": line["sealed"], **half}


def draw(folder: str) -> Any:
    """Both pictures: late flights by month, and the width of the next answer around each arrival."""
    from everhold.charts import save_chart

    holdout = studied(folder)
    found = holdout.over_time("arr_delay > 15", by="month")
    save_chart(found.plot(), HOME / "images" / "flights-months.svg", title="Late flights of 2013, month by month",
               caption="Share of flights more than 15 minutes late; each window has an interval.")  # fmt: skip
    plan = plan_growth(rows_per_month=2_000, months=12, queries=50)
    save_chart(plan.chart(), HOME / "images" / "flights-widths.svg", title="Half-widths at .9 over twelve months",
               caption="2,000 rows, 50 queries and one surprise a month.")  # fmt: skip
    return found


def by_day(days: int = 28, *, rows: int = 120, seed: int = 3) -> Any:
    """One query over the days of February: 120 flights of each are appended."""
    flights = all_flights()
    flights = flights[(flights["month"] == 2) & flights["arr_delay"].notna()]
    tables = [flights[flights["day"] == day].sample(2 * rows, random_state=seed)[COLUMNS] for day in range(1, days + 1)]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        holdout = eh.Holdout.create(
            f"{folder}/d.db", "days", holdout=tables[0][:rows], training=tables[0][rows:], queries=100, surprises=10,
            planning=eh.Planning(grows=True),
        )  # fmt: skip
        for day, table in enumerate(tables[1:], 2):
            holdout.append(table[:rows], training=table[rows:], until=f"2013-02-{day:02}")
        found = holdout.over_time("arr_delay > 15", by=7)
        holdout.close()
    return found


if __name__ == "__main__":
    for texts in (False, True):
        for settings in ({}, {"surprises": False}, {"grows": False}):
            sys.stdout.write(f"{settings} texts={texts} {measured(texts=texts, **settings)}\n")
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.stdout.write(f"{draw(place)}\n")
    sys.stdout.write(f"{by_day()}\n")
