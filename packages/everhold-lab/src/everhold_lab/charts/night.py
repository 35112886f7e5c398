"""The picture of a night: what the agent is told, and what its model is worth on fresh rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from everhold.charts import INK, styled

if TYPE_CHECKING:
    from collections.abc import Sequence

    import altair as alt

_REPORTED, _PROMOTED = "#d55e00", "#009e73"
_NAMES = ("the score that the agent is told", "the truth, on fresh rows")
_DOT = "a promotion: proved to be better"


@dataclass(frozen=True, slots=True)
class Moment:
    """State after some proposals.

    Attributes:
        reported: What the judge's own rows say of the model that is kept; None where it is not told.
        promoted: Whether this very proposal was taken.
    """

    judge: str
    proposals: int
    reported: float | None
    truth: float
    promoted: bool


def night_chart(moments: Sequence[Moment]) -> alt.FacetChart:
    """Accuracy against proposals, a panel for each judge; promotions of the gate are dots."""
    import altair as alt

    # room to the right of each label: a reader's font may be wider than the one that was measured
    legend: dict[str, Any] = {"title": None, "orient": "bottom", "labelLimit": 400, "padding": 14, "columnPadding": 44}
    vertical, horizontal = alt.Scale(zero=False, nice=True), alt.Axis(format=",d", tickCount=5)

    def line(field: str, name: str) -> alt.Chart:
        looks = alt.Legend(**legend, symbolType="stroke", symbolSize=400, symbolStrokeWidth=2.5)
        drawn: alt.Chart = (
            alt.Chart()
            .transform_filter(f"isValid(datum.{field})")
            .transform_calculate(line=f"'{name}'")
            .mark_line(strokeWidth=2.5, interpolate="step-after")
            .encode(
                x=alt.X("proposals:Q", title="models proposed", axis=horizontal),
                y=alt.Y(f"{field}:Q", title="accuracy", scale=vertical, axis=alt.Axis(format=".0%")),
                color=alt.Color("line:N", scale=alt.Scale(domain=_NAMES, range=[_REPORTED, INK]), legend=looks),
                strokeDash=alt.StrokeDash(
                    "line:N", scale=alt.Scale(domain=_NAMES, range=[[1, 0], [6, 4]]), legend=looks
                ),
            )
        )
        return drawn

    dots = (
        alt.Chart()
        .transform_filter("datum.promoted && !isValid(datum.reported)")
        .transform_calculate(dot=f"'{_DOT}'")
        .mark_point(filled=True, size=110, opacity=1.0)
        .encode(
            x="proposals:Q",
            y=alt.Y("truth:Q", title="accuracy", scale=vertical),
            fill=alt.Fill(
                "dot:N",
                scale=alt.Scale(domain=[_DOT], range=[_PROMOTED]),
                legend=alt.Legend(**legend, symbolType="circle", symbolSize=110),
            ),
        )
    )
    panels = (
        alt.layer(
            line("truth", _NAMES[1]),
            line("reported", _NAMES[0]),
            dots,
            data=alt.InlineData(values=[asdict(moment) for moment in moments]),
        )
        .properties(width=340, height=260)
        .facet(
            column=alt.Column(
                "judge:N", title=None, sort=list(dict.fromkeys(moment.judge for moment in moments)),
                header=alt.Header(labelFontSize=14, labelLimit=400),
            )
        )
    )  # fmt: skip
    chart: alt.FacetChart = styled(panels)
    return chart
