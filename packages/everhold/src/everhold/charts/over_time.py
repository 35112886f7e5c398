"""The picture of a query over windows of arrivals; needs ``[plots]``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.charts import styled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import altair as alt

_TOLD, _SURPRISE = "#009e73", "#d55e00"


def over_time_chart(rows: Sequence[Mapping[str, Any]], *, title: str) -> alt.LayerChart:
    """Each window with its interval, and a band of what all windows so far leave possible where there is one law.

    Args:
        rows: One for each window: window, value, low, high, source; joint_low and joint_high under one law.
        title: Of the picture.

    Raises:
        ValueError: If no window was answered.
    """
    import altair as alt

    told = [dict(row) for row in rows if row["value"] is not None]
    if not told:
        raise ValueError("no window was answered; expected at least one; there is nothing to draw")
    names = [row["window"] for row in told]
    across = alt.X("window:N", sort=names, title=None, axis=alt.Axis(labelAngle=-45))
    scale = alt.Scale(zero=False)
    colour = alt.condition("datum.source === 'holdout'", alt.value(_SURPRISE), alt.value(_TOLD))
    base = alt.Chart({"values": told})
    layers = [
        base.mark_rule(strokeWidth=2.5).encode(
            x=across, y=alt.Y("low:Q", title="interval", scale=scale), y2="high:Q", color=colour
        ),
        base.mark_point(filled=True, opacity=1, size=40).encode(
            x=across, y=alt.Y("value:Q", scale=scale), color=colour
        ),
    ]
    if "joint_low" in told[0]:
        band = base.mark_area(opacity=0.18, interpolate="step").encode(x=across, y="joint_low:Q", y2="joint_high:Q")
        layers.insert(0, band)
    drawn: alt.LayerChart = styled(alt.layer(*layers).properties(width=640, height=300, title=title))
    return drawn
