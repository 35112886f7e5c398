"""The papers' pictures: accuracy on training rows, as reported, and on fresh rows, with bands of one deviation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.charts import INK, styled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import altair as alt

    from everhold_lab.experiments.base import Row

_BAND_OPACITY = 0.22
_DRAWN = ("reported", "training", "fresh")  # what has gaps over what has none
_SERIES = {
    "training": ("on the training rows", "#0072b2", [2, 3]),
    "reported": ("as the holdout reports", "#d55e00", [1, 0]),
    "fresh": ("on fresh rows", INK, [7, 4]),
}


def accuracy_bands(
    rows: Sequence[Row],
    *,
    horizontal: tuple[str, str],
    panels: str,
    panel_titles: Mapping[str, str],
    domain: tuple[float, float] | None = None,
) -> alt.FacetChart:
    """Accuracy against something, a panel for each analyst, all with the same vertical scale.

    Args:
        rows: Lines of a summary, with ``training``, ``reported`` and ``fresh`` (None where there is none), each with
            its standard deviation as ``sd_training`` and so on.
        horizontal: The key on the horizontal axis, and the title of that axis.
        panels: The key that tells the panels from each other.
        panel_titles: Title of each panel by value of that key, in the order in which they stand; rows of others are
            left out.
        domain: Lowest and highest accuracy of the vertical axis; by default what the rows need.
    """
    import altair as alt

    names = [name for name, _, _ in _SERIES.values()]
    colours, dashes = [colour for _, colour, _ in _SERIES.values()], [dash for _, _, dash in _SERIES.values()]
    # room to the right of each label: a reader's font may be wider than the one that was measured
    legend = alt.Legend(
        title=None, orient="bottom", labelLimit=0, columnPadding=44, symbolType="stroke", symbolSize=400,
        symbolStrokeWidth=2.5, symbolOpacity=1.0,
    )  # fmt: skip
    limits: Any = alt.Undefined if domain is None else list(domain)
    scale = alt.Scale(zero=False, nice=domain is None, domain=limits)
    colour = alt.Scale(domain=names, range=colours)
    x = alt.X("at:Q", title=horizontal[1], axis=alt.Axis(tickCount=6))
    band = alt.Chart().mark_area(opacity=_BAND_OPACITY, clip=True).encode(
        x=x, y=alt.Y("low:Q", title="accuracy", scale=scale, axis=alt.Axis(format=".0%")), y2="high:Q",
        color=alt.Color("series:N", scale=colour, legend=legend),
    )  # fmt: skip
    line = alt.Chart().mark_line(strokeWidth=2.5, clip=True).encode(
        x=x, y=alt.Y("mean:Q", title="accuracy", scale=scale),
        color=alt.Color("series:N", scale=colour, legend=legend),
        strokeDash=alt.StrokeDash("series:N", scale=alt.Scale(domain=names, range=dashes), legend=legend),
    )  # fmt: skip
    values = alt.InlineData(values=_points(rows, horizontal=horizontal[0], panels=panels, panel_titles=panel_titles))
    drawn = (
        alt.layer(band, line, data=values)
        .properties(width=340, height=240)
        .facet(
            facet=alt.Facet(
                "panel:N", title=None, sort=list(panel_titles.values()), header=alt.Header(labelFontSize=14)
            ),
            columns=2,
        )
    )
    chart: alt.FacetChart = styled(drawn, grid=0.5)
    return chart


def _points(
    rows: Sequence[Row], *, horizontal: str, panels: str, panel_titles: Mapping[str, str]
) -> list[dict[str, Any]]:
    """One point for each line and series; the band is one deviation to each side."""
    return [
        {
            "panel": panel_titles[row[panels]],
            "series": _SERIES[key][0],
            "at": row[horizontal],
            "mean": row[key],
            "low": row[key] - row[f"sd_{key}"],
            "high": row[key] + row[f"sd_{key}"],
        }
        for row in rows
        if row[panels] in panel_titles
        for key in _DRAWN
        if row[key] is not None
    ]
