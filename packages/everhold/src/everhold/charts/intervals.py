"""Charts of intervals and widths: of a search, over windows of arrivals, by kind of query. Need ``[plots]``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.charts import INK, styled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import altair as alt

_SOURCES = {"a confirmed guess": "#009e73", "what the sealed rows said": "#d55e00"}
_TRUTH = "the truth"
_OPAQUE = 40  # bars beside each other, beyond which they are drawn thinner and fainter


def search_chart(lines: Sequence[Mapping[str, Any]], *, metric: str, title: str) -> alt.LayerChart:
    """Draw the intervals of all configurations, ordered by their values.

    Args:
        lines: One for each configuration: ``value``, ``low``, ``high`` and ``source`` of its answer; and ``truth``,
            where it is known.
        metric: Title of the axis.
        title: Title of the picture.

    Raises:
        ValueError: If ``lines`` is empty, because no configuration was answered.
    """
    import altair as alt

    answered = sorted((dict(line) for line in lines if line["value"] == line["value"]), key=lambda line: line["value"])
    if not answered:
        raise ValueError(
            "No configuration has an answer of its own to draw. Search with reveal='checked', or unseal the study."
        )
    points = [
        {**line, "place": place, "by": list(_SOURCES)[line["source"] == "holdout"]}
        for place, line in enumerate(answered, start=1)
    ]
    looks = {name: colour for name, colour in _SOURCES.items() if any(point["by"] == name for point in points)}
    true = [{**point, "by": _TRUTH} for point in points if point.get("truth") is not None]
    looks |= {_TRUTH: INK} if true else {}
    legend = alt.Legend(title=None, orient="top", symbolType="circle", symbolSize=80, symbolOpacity=1, labelLimit=300)
    by = alt.Color("by:N", scale=alt.Scale(domain=list(looks), range=list(looks.values())), legend=legend)
    across = alt.X(
        "place:Q", title="configurations, by the answer's value", axis=alt.Axis(format="d", tickMinStep=1, grid=False),
        scale=alt.Scale(domain=[0, len(points) + 1], nice=False),
    )  # fmt: skip
    scale = alt.Scale(zero=False)
    crowded = len(points) > _OPAQUE
    bars = alt.Chart({"values": points}).mark_rule(strokeWidth=1.5 if crowded else 2.5, opacity=0.45 if crowded else 1)
    dots = alt.Chart({"values": points + true}).mark_point(filled=True, opacity=1, size=14 if crowded else 40)
    drawn: alt.LayerChart = styled(
        alt.layer(
            bars.encode(x=across, y=alt.Y("low:Q", title=metric, scale=scale), y2="high:Q", color=by),
            dots.encode(x=across, y=alt.Y("shown:Q", scale=scale), color=by).transform_calculate(
                shown=f"datum.by === '{_TRUTH}' ? datum.truth : datum.value"
            ),
        ).properties(width=640, height=340, title=title)
    )
    return drawn


_TOLD, _SURPRISE = "#009e73", "#d55e00"


def over_time_chart(rows: Sequence[Mapping[str, Any]], *, title: str) -> alt.LayerChart:
    """Draw the interval of each time window, and the joint interval so far if one law is assumed.

    Args:
        rows: One for each window: window, value, low, high, source; joint_low and joint_high under one law.
        title: Title of the picture.

    Raises:
        ValueError: If ``rows`` is empty, because no window was answered.
    """
    import altair as alt

    told = [dict(row) for row in rows if row["value"] is not None]
    if not told:
        raise ValueError("No window was answered, so there is nothing to draw. Ask about at least one window.")
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


_COLOURS = ("#0072b2", "#e69f00")


def width_bars(widths: Mapping[str, Sequence[float]], *, values: Sequence[float], rows: int) -> alt.LayerChart:
    """Draw half-widths by kind of query and by true value.

    Args:
        widths: Half-widths of each kind of query, one for each value.
        values: True values of a share at which half-widths are drawn, at most two.
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


# Widths over time of a holdout that grows, as a picture.

_LINES = {"within": "guess confirmed", "unsealed": "unsealed", "static": "unsealed, no arrivals"}
_MONTH_COLOURS = ("#009e73", "#0072b2", "#7b8994")


def growth_plan_chart(months: Sequence[Mapping[str, Any]]) -> alt.LayerChart:
    """Draw half-widths against months of a `GrowthPlan`. A month without an interval has no point."""
    import altair as alt

    points = [
        {"month": row["month"], "half-width": row[name], "answer": words}
        for row in months
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
            color=alt.Color(
                "answer:N", title=None, sort=order, scale=alt.Scale(domain=order, range=list(_MONTH_COLOURS))
            ),
        )
        .properties(width=460, height=280)
    )
    return styled(alt.layer(lines))  # type: ignore[no-any-return]
