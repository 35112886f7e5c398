"""Lines in panels: colour tells whose line it is, the dash tells what kind of number, bars tell how far runs spread."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from everhold.charts import INK, covered_lines, line_width, styled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DASHES = ([1, 0], [6, 4], [2, 3])


@dataclass(frozen=True, slots=True)
class PanelPoint:
    """One point of a line.

    Attributes:
        kind: What kind of number it is.
        low: Lower end of the bar; None without one.
        high: Upper end of the bar.
    """

    panel: str
    series: str
    kind: str
    at: float
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class PanelAxis:
    """An axis of all panels: its title, and whether it is logarithmic."""

    title: str
    log: bool = True


def panel_chart(
    points: Sequence[PanelPoint],
    *,
    horizontal: PanelAxis,
    vertical: PanelAxis,
    colours: Mapping[str, str],
    kinds: Sequence[str],
    columns: int = 3,
) -> Any:
    """Panels side by side.

    Args:
        points: All points, in the order in which the panels shall stand.
        horizontal: The horizontal axis, the same for all panels.
        vertical: The vertical axis.
        colours: Of each series, in the order of the legend; those without points are left out of it.
        kinds: Kinds of numbers; the first is drawn solid, the second dashed, the third dotted.
        columns: Panels in a line.

    Returns:
        An Altair chart with facets.
    """
    import altair as alt

    names = [name for name in colours if any(point.series == name for point in points)]
    drawn_kinds = [kind for kind in kinds if any(point.kind == kind for point in points)]
    dashes = [_DASHES[kinds.index(kind)] for kind in drawn_kinds]
    legend: dict[str, Any] = {
        "title": None, "symbolType": "stroke", "symbolSize": 400, "symbolStrokeWidth": 2.5, "symbolOpacity": 1,
        "labelLimit": 0,
    }  # fmt: skip
    colour = alt.Color(
        "series:N",
        scale=alt.Scale(domain=names, range=[colours[name] for name in names]),
        legend=alt.Legend(**legend, orient="right") if len(names) > 1 else None,
    )
    dash = alt.StrokeDash(
        "kind:N",
        scale=alt.Scale(domain=drawn_kinds, range=dashes),
        legend=alt.Legend(**legend, symbolStrokeColor=INK, orient="right") if len(drawn_kinds) > 1 else None,
    )
    x = alt.X(
        "at:Q", title=horizontal.title,
        axis=alt.Axis(format="~s" if horizontal.log else "~g", tickCount=5, labelOverlap=True),
        scale=alt.Scale(type="log" if horizontal.log else "linear", nice=False, padding=8),
    )  # fmt: skip
    heights = alt.Scale(type="log", nice=False, padding=10) if vertical.log else alt.Scale(zero=True)
    y = alt.Y("value:Q", title=vertical.title, scale=heights, axis=alt.Axis(format="~g", tickCount=6))
    width = line_width(names, _covered(points, names, log=vertical.log), field="series")
    lines = alt.Chart().mark_line().encode(x=x, y=y, color=colour, strokeDash=dash, strokeWidth=width)
    dots = alt.Chart().mark_circle(size=26, opacity=1).encode(x=x, y=y, color=colour)
    bars = (
        alt.Chart()
        .transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=5, opacity=0.35)
        .encode(x=x, y=alt.Y("low:Q", title=vertical.title, scale=heights), y2="high:Q", color=colour)
    )
    in_order = sorted(points, key=lambda point: names.index(point.series))
    values = alt.InlineData(values=[asdict(point) for point in in_order])
    order = list(dict.fromkeys(point.panel for point in points))
    facet = alt.Facet("panel:N", title=None, sort=order, header=alt.Header(labelFontSize=14))
    panels = alt.layer(bars, lines, dots, data=values).properties(width=260, height=260).facet(facet, columns=columns)
    return styled(panels, grid=0.5)


def _covered(points: Sequence[PanelPoint], names: Sequence[str], *, log: bool) -> frozenset[str]:
    """Series that a later one covers wherever both are drawn."""
    lines = {
        name: {(point.panel, point.kind, point.at): point.value for point in points if point.series == name}
        for name in names
    }
    return covered_lines(lines, log=log)
