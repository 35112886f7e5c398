"""The common style of all charts, and saving them. Needs the extra ``[plots]``.

Colours are those of Okabe and Ito, and of Tol, which people with colour-blindness can tell apart. A line that is
covered by another one is drawn wider, so that both are visible. Saved pictures are readable on light and dark pages:
the SVG carries a style for dark mode, and the HTML page holds the SVG itself and loads nothing.
"""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any, Literal

from everhold.mechanisms import MECHANISMS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set
    from pathlib import Path

    import altair as alt

__all__ = [
    "FAINT",
    "INK",
    "NARROW",
    "PAPER",
    "coloured_lines",
    "covered_lines",
    "html_page",
    "line_width",
    "mechanism_labels",
    "save_chart",
    "styled",
    "svg_text",
]

INK, FAINT, PAPER = "#24292f", "#d0d7de", "#ffffff"
NARROW = 330
"""Width of a picture within a page, in points: readable on a phone, where a wider one would be cut or tiny."""
_DARK = {
    INK: "#e6edf3", FAINT: "#3d444d", PAPER: "#0d1117",
    "#0072b2": "#3f9fdb", "#117733": "#4fb870", "#332288": "#9a8cf0", "#882255": "#d6659b",
    "#4d4d4d": "#b3b3b3", "#57606a": "#aab4be",
}  # fmt: skip
_FONT = "system-ui, 'Helvetica Neue', Arial, sans-serif"
_MEASURED_FONT = "Arial, 'Liberation Sans', Helvetica, sans-serif"  # of one width everywhere, so that no label is cut
_WIDTH, _COVERED_WIDTH = 2.2, 6.5  # of lines, in points
_AS_ONE = 0.01  # of the height of a picture
_NOTHING_RUNS = "default-src 'none'; style-src 'unsafe-inline'"  # nor is anything loaded, whatever a picture holds


def styled(chart: Any, *, label_size: int = 12, grid: float = 1.0, frame: bool = True, padding: Any = 16) -> Any:
    """Return a chart in the common style, whose ink, paper and faint lines follow a page's dark mode.

    Args:
        chart: The Altair chart to style.
        label_size: Font size of the labels of axes, in points.
        grid: Opacity of the lines of the grid.
        frame: True to draw a frame around each panel; False for panels without a frame.
        padding: Around the picture, in points; one number, or one for each side by name.
    """
    axis = {"labelColor": INK, "titleColor": INK, "gridColor": FAINT, "domainColor": INK, "tickColor": INK}
    return (
        chart.configure(background=PAPER, font=_MEASURED_FONT, padding=padding)
        .configure_axis(**axis, labelFontSize=label_size, titleFontSize=13, titleFontWeight="normal", gridOpacity=grid)
        .configure_legend(labelColor=INK, labelFontSize=12, rowPadding=4)
        .configure_header(labelColor=INK, labelFontWeight="bold", labelLimit=0)
        .configure_title(color=INK, subtitleColor=INK, fontSize=14, anchor="start")
        .configure_view(stroke=FAINT if frame else None)
    )


def covered_lines(lines: Mapping[str, Mapping[Any, float]], *, log: bool) -> frozenset[str]:
    """Return the names of lines that a later line hides everywhere.

    Args:
        lines: Heights by place of each line, in the order in which they are drawn.
        log: True if the vertical axis is logarithmic; False if it is linear.

    Examples:
        >>> sorted(covered_lines({"a": {1: 0.5, 2: 0.7}, "b": {1: 0.1, 2: 0.2}, "c": {1: 0.501, 2: 0.7}}, log=False))
        ['a']
    """
    scaled = {
        name: {place: math.log(height) if log else height for place, height in line.items() if height > 0 or not log}
        for name, line in lines.items()
    }
    heights = [height for line in scaled.values() for height in line.values()]
    near = _AS_ONE * (max(heights, default=0.0) - min(heights, default=0.0))
    names = list(scaled)

    def covers(upper: str, lower: str) -> bool:
        shared = scaled[upper].keys() & scaled[lower].keys()
        return bool(shared) and all(abs(scaled[upper][place] - scaled[lower][place]) <= near for place in shared)

    return frozenset(
        lower for place, lower in enumerate(names) if any(covers(upper, lower) for upper in names[place + 1 :])
    )


def line_width(names: Sequence[str], covered: Set[str], *, field: str) -> alt.StrokeWidth:
    """Return the encoding of line widths. A line hidden by another line is wider."""
    import altair as alt

    widths = [_COVERED_WIDTH if name in covered else _WIDTH for name in names]
    return alt.StrokeWidth(f"{field}:N", scale=alt.Scale(type="ordinal", domain=list(names), range=widths), legend=None)


def coloured_lines(
    points: list[dict[str, Any]], looks: Mapping[str, tuple[str, list[int]]], *,
    labels: str = "datum.label", covered: Set[str] = frozenset(),
    legend_at: Literal["right", "bottom"] = "right",
) -> alt.Chart:  # fmt: skip
    """Return a chart of lines that differ in colour and dash.

    Args:
        points: Points of the lines, each with the name of its line under ``by``. A line is drawn over the lines whose
            points come before.
        looks: Colour and dash of each line, by name, in the order of the legend.
        labels: Vega expression for the name of a line in the legend.
        covered: Names of lines that others cover; see `covered_lines`.
        legend_at: Side of the picture that has the legend. At the bottom the legend has a line for each name, so that
            it fits a narrow picture.
    """
    import altair as alt

    names = list(looks)
    colours, dashes = [look[0] for look in looks.values()], [look[1] for look in looks.values()]
    legend = alt.Legend(
        title=None, symbolType="stroke", symbolSize=350, symbolStrokeWidth=2.5, labelLimit=0, labelExpr=labels,
        orient=legend_at,
        direction="vertical" if legend_at == "bottom" else alt.Undefined,
    )  # fmt: skip
    drawn: alt.Chart = (
        alt.Chart({"values": points})
        .mark_line()
        .encode(
            strokeWidth=line_width(names, covered, field="by"),
            color=alt.Color("by:N", scale=alt.Scale(domain=names, range=colours), legend=legend),
            strokeDash=alt.StrokeDash("by:N", scale=alt.Scale(domain=names, range=dashes), legend=legend),
        )
    )
    return drawn


def mechanism_labels(**more: str) -> str:
    """Return a Vega expression for labels in a legend: a line's name with a necessary remark."""
    known = {name: kind.presentation.legend for name, kind in MECHANISMS.items() if kind.presentation.legend} | more
    cases = (f"datum.label == '{name}' ? '{name} ({remark})' : " for name, remark in known.items())
    return "".join(cases) + "datum.label"


def svg_text(chart: alt.TopLevelMixin, *, title: str) -> str:
    """Return the chart as SVG, with a title for screen readers and a style for dark pages."""
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(chart.to_dict())
    rules = "".join(
        f'[fill="{light}"]{{fill:{dark}}}[stroke="{light}"]{{stroke:{dark}}}' for light, dark in _DARK.items()
    )
    style = f"<style>@media (prefers-color-scheme:dark){{{rules}}}</style>"
    head, rest = svg.split(">", 1)
    return f'{head} role="img"><title>{html.escape(title)}</title>{style}{rest}'


def html_page(svg: str, *, title: str, caption: str) -> str:
    """Return a self-contained page with the chart inside."""
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_NOTHING_RUNS}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{html.escape(title)}</title>
<style>
body {{ margin: 2rem auto; max-width: 60rem; padding: 0 1rem; font: 1rem/1.5 {_FONT};
  color: {INK}; background: {PAPER}; }}
svg {{ max-width: 100%; height: auto; }}
@media (prefers-color-scheme: dark) {{ body {{ color: {_DARK[INK]}; background: {_DARK[PAPER]}; }} }}
</style>
<h1>{html.escape(title)}</h1>
{svg}
<p>{html.escape(caption)}</p>
</html>
"""


def save_chart(chart: alt.TopLevelMixin, path: Path, *, title: str, caption: str) -> None:
    """Save a chart as ``.svg``, or as a self-contained ``.html`` page.

    Raises:
        ValueError: If the path ends neither in ``.svg`` nor in ``.html``.
    """
    if path.suffix not in (".svg", ".html"):
        raise ValueError(f"The chart's file ends in {path.suffix!r}. Pass a name that ends in .svg or .html.")
    svg = svg_text(chart, title=title)
    path.write_text(svg if path.suffix == ".svg" else html_page(svg, title=title, caption=caption), encoding="utf-8")
