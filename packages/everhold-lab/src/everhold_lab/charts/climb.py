"""The picture *the climb*: what an analyst is told, the stated interval, and the truth."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from everhold.charts import INK, styled

if TYPE_CHECKING:
    from collections.abc import Sequence

    import altair as alt

_REPORTED, _BAND, _TRUTH = "#d55e00", "#56b4e9", INK
_BAND_OPACITY = 0.35


@dataclass(frozen=True, slots=True)
class ClimbPoint:
    """One point of the picture *the climb*.

    Attributes:
        panel: Title of the panel it belongs to.
        reported: Score that the analyst was told; None if refused.
        low: Lower end of the stated interval; None without one.
        high: Upper end; None without one.
    """

    panel: str
    queries: int
    reported: float | None
    fresh: float
    low: float | None = None
    high: float | None = None


def climb_chart(points: Sequence[ClimbPoint], *, score: str) -> alt.FacetChart:
    """*The climb*: what the analyst was told, the stated interval, and the truth, against the queries asked."""
    import altair as alt

    # room to the right of each label: a reader's font may be wider than the one that was measured
    legend: dict[str, Any] = {"title": None, "orient": "bottom", "labelLimit": 0, "padding": 14, "columnPadding": 44}
    names, band_name = ["what the analyst is told", "the truth, on fresh flights"], "the interval that everhold states"
    vertical = alt.Scale(zero=False)

    def line(field: str, name: str, **mark: Any) -> alt.Chart:
        lines = alt.Legend(**legend, symbolType="stroke", symbolSize=400, symbolStrokeWidth=2.5)
        drawn: alt.Chart = (
            alt.Chart()
            .transform_calculate(line=f"'{name}'")
            .mark_line(strokeWidth=2.5, **mark)
            .encode(
                x=alt.X("queries:Q", title="queries asked", axis=alt.Axis(format=",d", tickCount=5)),
                y=alt.Y(f"{field}:Q", title=score, scale=vertical, axis=alt.Axis(format=".0%")),
                color=alt.Color("line:N", scale=alt.Scale(domain=names, range=[_REPORTED, _TRUTH]), legend=lines),
                strokeDash=alt.StrokeDash(
                    "line:N", scale=alt.Scale(domain=names, range=[[1, 0], [6, 4]]), legend=lines
                ),
            )
        )
        return drawn

    band = (
        alt.Chart()
        .transform_filter("isValid(datum.low)")
        .transform_calculate(area=f"'{band_name}'")
        .mark_area(opacity=_BAND_OPACITY)
        .encode(
            x="queries:Q",
            y=alt.Y("low:Q", title=score, scale=vertical),
            y2="high:Q",
            fill=alt.Fill(
                "area:N",
                scale=alt.Scale(domain=[band_name], range=[_BAND]),
                legend=alt.Legend(**legend, symbolType="square", symbolSize=250, symbolOpacity=_BAND_OPACITY),
            ),
        )
    )
    told = line("reported", names[0], point=alt.OverlayMarkDef(size=36, filled=True, color=_REPORTED))
    values = alt.InlineData(values=[asdict(point) for point in points])
    panels = (
        alt.layer(band, line("fresh", names[1]), told, data=values)
        .properties(width=340, height=260)
        .facet(column=alt.Column("panel:N", title=None, sort=_in_order(points), header=alt.Header(labelFontSize=14)))
    )
    chart: alt.FacetChart = styled(panels)
    return chart


def _in_order(points: Sequence[ClimbPoint]) -> list[str]:
    return list(dict.fromkeys(point.panel for point in points))
