"""Widths over time of a holdout that grows, as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt

from everhold.charts import styled

if TYPE_CHECKING:
    from everhold.planning.growing import GrowthPlan

_LINES = {"within": "guess confirmed", "unsealed": "unsealed", "static": "unsealed, no arrivals"}
_COLOURS = ("#009e73", "#0072b2", "#7b8994")


def growth_plan_chart(plan: GrowthPlan) -> alt.LayerChart:
    """Half-widths against months; a month without an interval has no point."""
    points = [
        {"month": row["month"], "half-width": row[name], "answer": words}
        for row in plan.rows
        for name, words in _LINES.items()
        if row[name] < 1.0
    ]
    order = list(_LINES.values())
    lines = (
        alt.Chart(alt.InlineData(values=points))
        .mark_line(point=True)
        .encode(
            x=alt.X("month:Q", title="months", axis=alt.Axis(tickMinStep=1)),
            y=alt.Y("half-width:Q", scale=alt.Scale(domainMin=0)),
            color=alt.Color("answer:N", title=None, sort=order, scale=alt.Scale(domain=order, range=list(_COLOURS))),
        )
        .properties(width=460, height=280)
    )
    return styled(alt.layer(lines))  # type: ignore[no-any-return]
