"""The picture of a plan for a study protocol: a bar for each kind of query (needs ``[plots]``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold.charts import NARROW, styled
from everhold.planning.study import VALUES

if TYPE_CHECKING:
    import altair as alt

    from everhold.planning.study import StudyPlan

__all__ = ["study_chart"]

_COLOURS = ("#0072b2", "#e69f00")


def study_chart(plan: StudyPlan, *, narrow: bool = False) -> alt.LayerChart:
    """Half-widths at each value, one group of bars for each line of the plan.

    Args:
        plan: The plan.
        narrow: For a page: as wide as a phone.
    """
    import altair as alt

    names = [line.queries for line in plan.lines]
    values = [f"share near {value:g}" for value in VALUES]
    points = [
        {"queries": line.queries, "value": name, "width": width, "label": f"{width:.3g}"}
        for line in plan.lines for name, width in zip(values, line.widths, strict=True)
    ]  # fmt: skip
    bars = alt.Chart({"values": points}).encode(
        y=alt.Y("queries:N", sort=names, title=None, axis=alt.Axis(labelLimit=0, ticks=False)),
        yOffset=alt.YOffset("value:N", sort=values),
        x=alt.X("width:Q", title=f"half-width, {plan.rows:,} sealed rows", axis=alt.Axis(format="~g")),
        color=alt.Color(
            "value:N", scale=alt.Scale(domain=values, range=list(_COLOURS)),
            legend=alt.Legend(title=None, orient="bottom"),
        ),
        tooltip=["queries:N", "value:N", alt.Tooltip("width:Q", format=".4f")],
    )  # fmt: skip
    drawn = alt.layer(
        bars.mark_bar(), bars.mark_text(align="left", dx=4).encode(text="label:N", color=alt.value("#57606a"))
    )
    layered: alt.LayerChart = styled(drawn.properties(width=NARROW if narrow else 420, height=alt.Step(15)))
    return layered
