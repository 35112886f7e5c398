"""Charts of the laboratory: of climbing analysts, a night of proposals, the worth of sealed rows, and Markov quilts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.charts import INK, styled
from everhold_lab.releases.markov_quilt import MarkovQuiltMechanism

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import altair as alt

    from everhold_lab.releases.markov_quilt import ActiveQuilt


_REPORTED, _BAND, _TRUTH = "#d55e00", "#56b4e9", INK
_BAND_OPACITY = 0.35


@dataclass(frozen=True, slots=True)
class ClimbPoint:
    """One point of the chart of a climb.

    Attributes:
        panel: Title of the panel in which the point is drawn.
        reported: Score that the analyst got. None if the query was refused.
        low: Lower end of the stated interval. None if no interval was stated.
        high: Upper end of the stated interval. None if no interval was stated.
    """

    panel: str
    queries: int
    reported: float | None
    fresh: float
    low: float | None = None
    high: float | None = None


def climb_chart(points: Sequence[ClimbPoint], *, score: str) -> alt.FacetChart:
    """Return a chart of reported score, stated interval and truth against the queries asked."""
    import altair as alt

    # room to the right of each label: a reader's font may be wider than the one that was measured
    legend: dict[str, Any] = {"title": None, "orient": "bottom", "labelLimit": 0, "padding": 14, "columnPadding": 44}
    names, band_name = ("what the analyst is told", "the truth, on fresh flights"), "the interval that everhold states"
    vertical = alt.Scale(zero=False)
    line = partial(
        _line, x=("queries", "queries asked"), y={"title": score, "scale": vertical},
        looks=dict(zip(names, (_REPORTED, _TRUTH), strict=True)), legend=legend,
    )  # fmt: skip
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
    point = alt.OverlayMarkDef(size=36, filled=True, color=_REPORTED)
    told = line(alt.Chart(), "reported", names[0], point=point)
    return _side_by_side([band, line(alt.Chart(), "fresh", names[1]), told], points, "panel")


def _side_by_side(layers: Sequence[alt.Chart], points: Sequence[ClimbPoint | Moment], field: str) -> alt.FacetChart:
    """Return a chart with a panel for each value of a field, in the order of the points."""
    import altair as alt

    values = [asdict(point) for point in points]
    order = list(dict.fromkeys(value[field] for value in values))
    column = alt.Column(f"{field}:N", title=None, sort=order, header=alt.Header(labelFontSize=14))
    layered = alt.layer(*layers, data=alt.InlineData(values=values)).properties(width=340, height=260)
    chart: alt.FacetChart = styled(layered.facet(column=column))
    return chart


def _line(
    chart: alt.Chart, field: str, name: str, *, x: tuple[str, str], y: Mapping[str, Any], looks: Mapping[str, str],
    legend: Mapping[str, Any], **mark: Any,
) -> alt.Chart:  # fmt: skip
    """Draw a field as one of two named lines, of which the second is dashed.

    Args:
        chart: Chart with the filters of the line.
        field: Field on the vertical axis.
        name: Name of the line.
        x: Field on the horizontal axis, and its title.
        y: Title and scale of the vertical axis.
        looks: Colour of both lines by name.
        legend: Settings of the legend.
        **mark: Further properties of the line.
    """
    import altair as alt

    shown = alt.Legend(**legend, symbolType="stroke", symbolSize=400, symbolStrokeWidth=2.5)
    colour, dash = (alt.Scale(domain=list(looks), range=each) for each in ([*looks.values()], [[1, 0], [6, 4]]))
    drawn: alt.Chart = (
        chart.transform_calculate(line=f"'{name}'")
        .mark_line(strokeWidth=2.5, **mark)
        .encode(
            x=alt.X(f"{x[0]}:Q", title=x[1], axis=alt.Axis(format=",d", tickCount=5)),
            y=alt.Y(f"{field}:Q", axis=alt.Axis(format=".0%"), **y),
            color=alt.Color("line:N", scale=colour, legend=shown),
            strokeDash=alt.StrokeDash("line:N", scale=dash, legend=shown),
        )
    )
    return drawn


_PROMOTED = "#009e73"
_NAMES = ("the score that the agent is told", "the truth, on fresh rows")
_DOT = "a promotion: proved to be better"


@dataclass(frozen=True, slots=True)
class Moment:
    """State of a simulated night of proposals after some of them.

    Attributes:
        reported: Score of the kept model on the judge's own rows. None if it is not told.
        promoted: Whether the judge accepted the proposal of this moment.
    """

    judge: str
    proposals: int
    reported: float | None
    truth: float
    promoted: bool


def night_chart(moments: Sequence[Moment]) -> alt.FacetChart:
    """Return a chart of accuracy against proposals, a panel for each judge, with promotions as dots."""
    import altair as alt

    # room to the right of each label: a reader's font may be wider than the one that was measured
    legend: dict[str, Any] = {"title": None, "orient": "bottom", "labelLimit": 400, "padding": 14, "columnPadding": 44}
    vertical = alt.Scale(zero=False, nice=True)
    lines = [
        _line(
            alt.Chart().transform_filter(f"isValid(datum.{field})"), field, name, x=("proposals", "models proposed"),
            y={"title": "accuracy", "scale": vertical},
            looks=dict(zip(_NAMES, (_REPORTED, INK), strict=True)), legend=legend, interpolate="step-after",
        )
        for field, name in (("truth", _NAMES[1]), ("reported", _NAMES[0]))
    ]  # fmt: skip
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
    return _side_by_side([*lines, dots], moments, "judge")


_BAR = "#56b4e9"
_MOST = 0.5  # a radius of half the range promises nothing
_WIDTH = 400
_PADDING = {"left": 48, "top": 16, "right": 64, "bottom": 16}  # a reader's font may be wider than the measured one


@dataclass(frozen=True, slots=True)
class WorthBar:
    """One bar of the chart that shows how much the sealed rows are worth under an assumption.

    Attributes:
        assumption: Name of the assumption.
        label: Note beside the bar.
    """

    assumption: str
    radius: float
    label: str


def worth_chart(bars: Sequence[WorthBar], *, title: str) -> alt.LayerChart:
    """Return a chart with a labelled bar for each assumption.

    Args:
        bars: Bars from top to bottom. A radius of more than half the range is drawn as half the range.
        title: The title of the horizontal axis.
    """
    import altair as alt

    lengths = [min(bar.radius, _MOST) for bar in bars]
    values = [asdict(bar) | {"length": length} for bar, length in zip(bars, lengths, strict=True)]
    scale = alt.Scale(domainMin=0.0, nice=True)
    named = alt.Axis(title=None, labelLimit=0, labelPadding=8, ticks=False, domain=False)
    ticks = alt.Axis(format="~%", grid=False, tickCount=6)
    shared: dict[str, Any] = {
        "x": alt.X("length:Q", title=title, scale=scale, axis=ticks),
        "y": alt.Y("assumption:N", sort=[bar.assumption for bar in bars], axis=named),
    }
    drawn = alt.Chart().mark_bar(color=_BAR, height={"band": 0.62}).encode(**shared)
    said = (
        alt.Chart()
        .mark_text(align="left", color=INK, fontSize=13)
        .encode(x=alt.value(_WIDTH + 12), y=shared["y"], text="label:N")
    )
    bars_and_text = alt.layer(drawn, said, data=alt.InlineData(values=values))
    sized = bars_and_text.properties(width=_WIDTH, height=52 * len(values))
    layered: alt.LayerChart = styled(sized, label_size=13, padding=_PADDING)
    return layered


_ROLES = {"the row": "#d55e00", "nearby": "#e69f00", "quilt": "#0072b2", "remote": "#999999"}  # Okabe and Ito, grey
_AROUND = 6  # remote rows shown to either side
_LEAST_WIDTH, _GAP = 0.012, 0.0012  # of the width of the picture


def quilts_chart(shown: MarkovQuiltMechanism | ActiveQuilt, row: int | None = None) -> alt.LayerChart:
    """Return a chart of a row of a chain with its nearby rows, its quilt and the remote rows.

    Args:
        shown: A mechanism on a chain, or one of its quilts.
        row: Position of a row of the mechanism, counted from 0. By default one of the rows that need most noise is
            shown.
    """
    import altair as alt

    if isinstance(shown, MarkovQuiltMechanism):
        shown = shown.quilt_of(_hardest(shown) if row is None else row)
    quilt = shown.quilt
    role = {quilt.row: "the row"} | dict.fromkeys(quilt.nearby, "nearby") | dict.fromkeys(quilt.quilt, "quilt")
    window = range(max(min(role) - _AROUND, 0), min(max(role) + _AROUND, shown.rows - 1) + 1)
    gap = len(window) * _GAP
    runs = []
    for name, members in groupby(window, lambda node: role.get(node, "remote")):
        nodes = list(members)
        rows = f"{nodes[0]:,}" if len(nodes) == 1 else f"{nodes[0]:,} to {nodes[-1]:,}"
        middle, half = (nodes[0] + nodes[-1]) / 2, max(len(nodes), len(window) * _LEAST_WIDTH) / 2
        ends = {"first": middle - half + gap, "last": middle + half - gap, "middle": middle}
        runs.append({"role": name, "rows": rows, **ends})
    runs.sort(key=lambda run: run["role"] in ("the row", "quilt"))  # drawn last, on top of the others
    colour = alt.Color(
        "role:N",
        scale=alt.Scale(domain=list(_ROLES), range=list(_ROLES.values())),
        legend=alt.Legend(title=None, orient="bottom", symbolType="square", symbolSize=220, columnPadding=30),
    )
    axis = alt.Axis(format="d", tickMinStep=1, grid=False)
    bars = (
        alt.Chart({"values": runs})
        .mark_rect(height=44)
        .encode(
            x=alt.X("first:Q", title="row", scale=alt.Scale(zero=False, nice=False), axis=axis),
            x2="last:Q",
            y=alt.value(50),
            color=colour,
            tooltip=["role:N", "rows:N"],
        )
    )
    labels = (
        alt.Chart({"values": [run for run in runs if run["role"] in ("the row", "quilt")]})
        .mark_text(fontSize=13, color=INK)
        .encode(x="middle:Q", y=alt.value(14), text="rows:N")
    )
    quilt = shown.quilt
    names = " and ".join(f"{node:,}" for node in quilt.quilt) or "empty"
    title = alt.TitleParams(
        f"Row {quilt.row:,}: {len(quilt.nearby):,} rows nearby, quilt {names}",
        subtitle=f"influence on the quilt {shown.influence:.3g}, noise scale of this row {shown.scale:.4g}",
    )
    drawn: alt.LayerChart = styled(alt.layer(bars, labels).properties(width=620, height=80, title=title), frame=False)
    return drawn


def _hardest(mechanism: MarkovQuiltMechanism) -> int:
    """Return the middle row among those that need the most noise."""
    scales = mechanism.found.scale
    rows = np.flatnonzero(scales >= np.max(scales) * (1.0 - 1e-9))
    return int(rows[len(rows) // 2])


def plots_available() -> bool:
    """Return whether the packages of ``everhold[plots]`` are installed."""
    try:
        import altair
        import vl_convert
    except ModuleNotFoundError:
        return False
    return bool(altair.__name__ and vl_convert.__name__)
