"""The picture of half-widths: a group of bars for each kind of query (needs ``[plots]``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold.charts import styled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import altair as alt

_COLOURS = ("#0072b2", "#e69f00")


def width_bars(widths: Mapping[str, Sequence[float]], *, values: Sequence[float], rows: int) -> alt.LayerChart:
    """Half-widths by kind of query and by true value.

    Args:
        widths: Half-widths of each kind of query, one for each value.
        values: True values of a share, at most two.
        rows: Number of sealed rows.
    """
    import altair as alt

    names = [f"share near {value:g}" for value in values]
    points = [
        {"queries": queries, "value": name, "width": width, "label": f"{width:.3g}"}
        for queries, halves in widths.items() for name, width in zip(names, halves, strict=True)
    ]  # fmt: skip
    bars = alt.Chart({"values": points}).encode(
        y=alt.Y("queries:N", sort=list(widths), title=None, axis=alt.Axis(labelLimit=0, ticks=False)),
        yOffset=alt.YOffset("value:N", sort=names),
        x=alt.X("width:Q", title=f"half-width, {rows:,} sealed rows", axis=alt.Axis(format="~g")),
        color=alt.Color(
            "value:N", scale=alt.Scale(domain=names, range=list(_COLOURS)),
            legend=alt.Legend(title=None, orient="bottom"),
        ),
        tooltip=["queries:N", "value:N", alt.Tooltip("width:Q", format=".4f")],
    )  # fmt: skip
    numbers = bars.mark_text(align="left", dx=4).encode(text="label:N", color=alt.value("#57606a"))
    drawn = alt.layer(bars.mark_bar(), numbers)
    layered: alt.LayerChart = styled(drawn.properties(width=420, height=alt.Step(15)))
    return layered
