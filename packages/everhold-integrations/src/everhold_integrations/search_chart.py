"""The chart of a search: the interval of every configuration. Needs ``[plots]``."""

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
        title: Of the picture.

    Raises:
        ValueError: If no configuration was answered.
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
