"""The picture of errors in shares of the radius that was claimed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold.charts import INK, styled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import altair as alt

    from everhold_lab.experiments.base import Row

_COLOURS = ("#56b4e9", "#0072b2", "#009e73", "#e69f00", "#d55e00", "#cc79a7")  # of Okabe and Ito
_DASHES = ([7, 3], [1, 0], [1, 0], [2, 3], [2, 3], [7, 3])


def error_shares(rows: Sequence[Row], *, analysts: Mapping[str, str], populations: Mapping[str, str]) -> alt.FacetChart:
    """``worst_error / radius`` against the number of attributes, a panel for each population.

    Args:
        rows: Lines of a summary, with ``rows_move``, ``analyst``, ``k``, ``worst_error`` and ``radius``.
        analysts: Title of each analyst, in the order of the legend; others are left out.
        populations: Title of each population, in the order of the panels; others are left out.
    """
    import altair as alt

    shown = [row for row in rows if row["analyst"] in analysts and row["rows_move"] in populations]
    present = [title for name, title in analysts.items() if any(row["analyst"] == name for row in shown)]
    values = [
        {
            "k": row["k"],
            "share": row["worst_error"] / row["radius"],
            "analyst": analysts[row["analyst"]],
            "population": populations[row["rows_move"]],
        }
        for row in shown
    ]
    legend = alt.Legend(
        title=None, orient="bottom", columns=2, labelLimit=0, symbolType="stroke", symbolSize=400,
        symbolStrokeWidth=2.5,
    )  # fmt: skip
    colour = alt.Scale(domain=present, range=list(_COLOURS[: len(present)]))
    dash = alt.Scale(domain=present, range=list(_DASHES[: len(present)]))
    line = alt.Chart().mark_line(strokeWidth=2.5).encode(
        x=alt.X("k:Q", title="number of attributes that vote", axis=alt.Axis(tickCount=6)),
        y=alt.Y("share:Q", title="worst error / claimed radius", axis=alt.Axis(format=".1f", tickCount=6)),
        color=alt.Color("analyst:N", scale=colour, legend=legend),
        strokeDash=alt.StrokeDash("analyst:N", scale=dash, legend=legend),
    )  # fmt: skip
    claim = alt.Chart().mark_rule(color=INK, strokeWidth=1.0).encode(y=alt.datum(1.0))
    drawn: alt.FacetChart = (
        alt.layer(claim, line, data=alt.InlineData(values=values))
        .properties(width=340, height=220)
        .facet(
            facet=alt.Facet(
                "population:N", title=None, sort=list(populations.values()), header=alt.Header(labelFontSize=14)
            ),
            columns=2,
        )
    )
    chart: alt.FacetChart = styled(drawn, grid=0.5)
    return chart
