"""Charts of a plan: radius against queries or rows, half-widths against true values. Need ``[plots]``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.charts import INK, coloured_lines, covered_lines, mechanism_labels, styled
from everhold.mechanisms import MECHANISMS, Mechanism, answering, has_public_levels
from everhold.planning.inverse import BOUNDS, published_bound, published_statements, radius_of
from everhold.planning.request import MOST_ROWS, PlanRequest
from everhold.planning.widths import width_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    import altair as alt


_REACH = 30.0  # how far the picture looks to either side of the request
_POINTS = 13
_MOST_QUERIES = 10**7
_VALUES = 51
_ANSWERS = {"confirmed": "#009e73", "released": "#d55e00", "unsealed": "#0072b2"}
_EXPECTED = "guess_and_check_expected"
_WIDTH, _HEIGHT = 560, 380


def plan_by_queries(request: PlanRequest, *, at: float, radius: float) -> alt.LayerChart:
    """Draw the radius against the number of queries, for the plan's rows. The request is a cross.

    A picture point with fewer queries than surprises is planned with one surprise for each query.

    Args:
        request: The request that the plan is made for.
        at: Population value of a yes-or-no query, in [0, 1], at which the mechanisms' lines are compared.
        radius: Radius at which the cross of the request is drawn.
    """
    asked = {number: request.with_queries(number) for number in _around(request.queries, most=_MOST_QUERIES)}
    title = f"adaptive queries, for {request.rows:,} rows"
    return _picture(request, asked, title=title, at=at, cross=(request.queries, radius))


def plan_by_rows(request: PlanRequest, *, at: float, radius: float) -> alt.LayerChart:
    """Draw the radius against the number of sealed rows, for the plan's queries. See `plan_by_queries`."""
    asked = {number: request.with_rows(number) for number in _around(request.rows, most=MOST_ROWS)}
    title = f"sealed rows, for {request.queries:,} adaptive queries"
    return _picture(request, asked, title=title, at=at, cross=(request.rows, radius))


def plan_by_values(tuned: Mechanism | None) -> alt.LayerChart:
    """Draw half-widths of guess-and-check against the true value of a yes-or-no query, by earlier surprises.

    Raises:
        ValueError: If guess-and-check cannot serve the request, so that there is no tuned mechanism.
    """
    import altair as alt

    if not has_public_levels(tuned):
        raise ValueError(
            "guess_and_check cannot serve the request, so there are no half-widths to draw. Change the request."
        )
    counts = sorted({0, min(tuned.surprises, tuned.queries - 1)})
    points: list[dict[str, Any]] = [
        {"value": round(value, 6), "surprises": surprises, "answer": answer, "width": getattr(width, answer)}
        for surprises in counts
        for value in np.linspace(0.0, 1.0, _VALUES).tolist()
        for width in [width_at(tuned, value, surprises)]
        for answer in _ANSWERS
    ]
    dashes = [[1, 0], [6, 4]][: len(counts)]
    said = ["no surprise before" if not count else f"{count:,} before" for count in counts]
    legend = alt.Legend(title=None, symbolType="stroke", symbolSize=350, symbolStrokeWidth=2.5)
    lines = (
        alt.Chart({"values": [point | {"before": said[counts.index(point["surprises"])]} for point in points]})
        .mark_line(strokeWidth=2.2)
        .encode(
            x=alt.X("value:Q", title="true value of a yes-or-no query", axis=alt.Axis(format="~g")),
            y=alt.Y("width:Q", title=f"half-width at query {tuned.queries:,} of {tuned.queries:,}"),
            color=alt.Color(
                "answer:N", scale=alt.Scale(domain=list(_ANSWERS), range=list(_ANSWERS.values())), legend=legend
            ),
            strokeDash=alt.StrokeDash("before:N", scale=alt.Scale(domain=said, range=dashes), legend=legend),
            tooltip=["answer:N", "surprises:Q", "value:Q", alt.Tooltip("width:Q", format=".4f")],
        )
    )
    layered: alt.LayerChart = styled(alt.layer(lines).properties(width=_WIDTH, height=_HEIGHT))
    return layered


def _around(center: int, *, most: int) -> list[int]:
    """Return whole numbers around a centre on a logarithmic scale, including the centre."""
    low, high = max(center / _REACH, 1.0), min(center * _REACH, max(most, center))
    return sorted({center, *np.rint(np.geomspace(low, high, _POINTS)).astype(int).tolist()})


def _picture(
    request: PlanRequest, asked: Mapping[int, PlanRequest], *, title: str, at: float, cross: tuple[int, float]
) -> alt.LayerChart:
    """Return the chart of radii below 1 as lines, with a cross where the request is.

    Args:
        request: The request that is planned.
        asked: Requests by their number of queries or rows.
        title: Title of the axis of these numbers.
        at: Population value at which the mechanisms' lines are compared.
        cross: Number and radius of the request.
    """
    import altair as alt

    points: list[dict[str, Any]] = []
    for number, each in asked.items():
        radii = {name: radius_of(name, each) for name in answering()}
        radii[_EXPECTED] = radius_of("guess_and_check", each, at=at)
        radii |= {name: published_bound(name, each).radius for name in published_statements(each)}
        points += [{"number": number, "radius": radius, "by": name} for name, radius in radii.items() if radius < 1.0]

    looks = {name: (kind.presentation.colour, [1, 0]) for name, kind in answering().items()}
    looks[_EXPECTED] = MECHANISMS["guess_and_check"].presentation.colour, [1, 3]
    looks |= {name: (statement.colour, [5, 4]) for name, statement in BOUNDS.items()}
    by_line: dict[str, dict[float, float]] = {}
    for point in points:
        by_line.setdefault(point["by"], {})[point["number"]] = point["radius"]
    # lines that end early come first, and of those that end together the one that ends highest
    heights = dict(sorted(by_line.items(), key=lambda line: (max(line[1]), -line[1][max(line[1])])))
    points = sorted(points, key=lambda point: list(heights).index(point["by"]))
    incomplete = {} if request.dependence.independent else dict.fromkeys(BOUNDS, "proof incomplete")
    expected = f"guess_and_check (if guesses hold around {at:g})"
    crossed = [{"number": cross[0], "radius": cross[1]}]
    least = min(point["radius"] for point in points)
    lines = coloured_lines(
        points,
        {name: looks[name] for name in heights},
        labels=f"datum.label == '{_EXPECTED}' ? '{expected}' : " + mechanism_labels(**incomplete),
        covered=covered_lines(heights, log=True),
    ).encode(
        x=alt.X("number:Q", title=title, scale=alt.Scale(type="log", nice=False), axis=alt.Axis(format="~s")),
        y=alt.Y(
            "radius:Q",
            title=f"radius at {request.confidence:.4g} confidence",
            scale=alt.Scale(type="log", domain=[min(least, cross[1]) / 1.5, 1.0], nice=False),
            axis=alt.Axis(format="~g"),
        ),
        tooltip=["by:N", "number:Q", alt.Tooltip("radius:Q", format=".4f")],
    )
    here = alt.Chart({"values": crossed}).encode(x="number:Q", y="radius:Q")
    place = here.mark_point(shape="cross", size=180, color=INK, filled=True, angle=45, opacity=1)
    said = here.mark_text(text="your plan", dy=-16, color=INK, fontSize=12)
    layered: alt.LayerChart = styled(alt.layer(lines, place, said).properties(width=_WIDTH, height=_HEIGHT))
    return layered
