"""Draws docs/images/growth.svg and serving.svg: what a query costs as rows grow, and who waits how long.

Run ``python docs/growth_picture.py``; it needs the extra ``[plots]``, and ``benchmarks/growth.json`` as
``python -m benchmarks growth`` writes it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import everhold as eh
from everhold_lab.serving import ServiceTimes, served

HOME = Path(__file__).parent
MEASURED = HOME.parent / "benchmarks" / "growth.json"
RATE, WINDOW, ENGINES = 1_000, 0.02, 1  # of engines: cores, one for each pass
PROCESS, COMMIT, RECORD = 0.0056, 0.0027, 0.0007  # seconds: 1/179 asks, a durable ask, a query of `ask_many`


def looks() -> list[dict[str, Any]]:
    """Seconds of the processors for one pass, as measured."""
    found = json.loads(MEASURED.read_text(encoding="utf-8"))
    return [
        {"rows": line["rows"], "seconds": line["processor s"], "queries": f"{line['queries']} in one pass"}
        for line in found
    ]


def widths() -> list[dict[str, Any]]:
    """Half-widths of a thousand answers that hold at once, by the plan."""
    places = range(4, 10)
    return [{"rows": 10**at, "width": eh.plan(rows=10**at, queries=1_000).line("gaussian").radius} for at in places]


def waits() -> list[dict[str, Any]]:
    """How long the slowest hundredth waits, by the model, fed with what was measured of one pass."""
    found = {(line["rows"], line["queries"]): line["processor s"] for line in json.loads(MEASURED.read_text())}
    lines = []
    for rows in (100_000, 1_000_000):
        one, many = found[rows, 1], found[rows, 64]
        looking = (many - one) / 63
        times = ServiceTimes(
            process=PROCESS, passing=max(one - looking, 0.0), looking=looking, committing=COMMIT, recording=RECORD
        )
        for processes in (5, 6, 7, 8, 10, 12):
            found_so = served(times, rate=RATE, processes=processes, engines=ENGINES, window=WINDOW)
            lines.append({"processes": processes, "seconds": found_so.slow, "rows": f"{rows:,} rows"})
    return lines


def draw() -> None:
    """Both pictures."""
    import altair as alt
    import pandas as pd

    from everhold.charts import save_chart, styled

    colours = alt.Scale(range=["#0072b2", "#009e73", "#d55e00"])
    rows = alt.X(
        "rows:Q",
        title="sealed rows",
        scale=alt.Scale(type="log"),
        axis=alt.Axis(format="~e", values=[10**at for at in range(4, 10)]),
    )

    def curve(data: list[dict[str, Any]], y: str, title: str, colour: str | None, x: Any = rows) -> Any:
        drawn = alt.Chart(pd.DataFrame(data)).mark_line(point=True).properties(width=280, height=220)
        named = alt.Y(f"{y}:Q", title=title, scale=alt.Scale(type="log"))
        if colour is None:
            return drawn.encode(x=x, y=named, color=alt.value("#0072b2"))
        legend = alt.Legend(title=None, orient="top")
        return drawn.encode(x=x, y=named, color=alt.Color(f"{colour}:N", scale=colours, legend=legend, sort=None))

    left = curve(looks(), "seconds", "processor seconds of a pass", "queries")
    right = curve(widths(), "width", "half-width of 1,000 answers", None)
    said = "Time of a pass grows with the rows; the width of answers falls with their root"
    save_chart(styled(alt.hconcat(left, right)), HOME / "images" / "growth.svg", title=said, caption=said)
    processes = alt.X("processes:Q", title="service processes", scale=alt.Scale(zero=False))
    slow = curve(waits(), "seconds", "seconds, slowest hundredth", "rows", processes)
    said = "A thousand queries a second: how long the slowest hundredth waits, by the model"
    save_chart(styled(slow), HOME / "images" / "serving.svg", title=said, caption=said)


if __name__ == "__main__":
    draw()
