"""The picture of a plan: radius against questions or rows, a line for each mechanism (needs the extra ``[plots]``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.charts import INK, coloured_lines, mechanism_labels, styled
from everhold.dependence import Independent
from everhold.guarantees.published import STATEMENTS
from everhold.mechanisms import MECHANISMS
from everhold.planning.inverse import published_bound, published_statements, radius_of
from everhold.planning.wish import MOST_ROWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import altair as alt

    from everhold.planning.plan import Plan
    from everhold.planning.wish import Wish

__all__ = ["plan_by_queries", "plan_by_rows"]

_REACH = 30.0  # how far the picture looks to either side of the wish
_POINTS = 13
_MOST_QUERIES = 10**7
_PUBLISHED = {  # muted beside the mechanisms, which have colours of their own
    "zhao_theorem_2": "#999999",
    "dwork_theorem_25": "#4d4d4d",
    "jung_2020": "#8c6bb1",
    "rogers_2020_monitor": "#a6761d",
    "hoeffding_splitting": "#c9a2bf",
}


def plan_by_queries(plan: Plan) -> alt.LayerChart:
    """Radius against the number of questions, for the plan's rows; the wish is a cross.

    A picture point with fewer questions than overfits is planned with one overfit for each question.
    """
    wish = _drawn_wish(plan)
    numbers = _around(plan.queries, most=_MOST_QUERIES)
    points = [_point_of(wish.with_queries(number), number) for number in numbers]
    title = f"adaptive questions, for {wish.rows:,} rows"
    return _picture(plan, _flat(points), at=plan.queries, title=title)


def plan_by_rows(plan: Plan) -> alt.LayerChart:
    """Radius against the number of sealed rows, for the plan's questions; the wish is a cross."""
    wish = _drawn_wish(plan)
    numbers = _around(wish.rows, most=MOST_ROWS)
    points = [_point_of(wish.with_rows(number), number) for number in numbers]
    title = f"sealed rows, for {plan.queries:,} adaptive questions"
    return _picture(plan, _flat(points), at=wish.rows, title=title)


def _drawn_wish(plan: Plan) -> Wish:
    """The plan's wish; where it asks for rows, those that its best line needs."""
    return plan.wish() if plan.rows is not None else plan.wish(rows=plan.best.rows_needed)


def _around(center: int, *, most: int) -> list[int]:
    low, high = max(center / _REACH, 1.0), min(center * _REACH, max(most, center))
    return sorted({center, *np.rint(np.geomspace(low, high, _POINTS)).astype(int).tolist()})


def _point_of(wish: Wish, number: int) -> list[dict[str, Any]]:
    """Every radius below 1 at one place of the picture."""
    radii = {name: radius_of(name, wish) for name in MECHANISMS}
    radii |= {name: published_bound(name, wish).radius for name in published_statements(wish)}
    return [
        {"number": number, "radius": radius, "by": name, "published": name in STATEMENTS}
        for name, radius in radii.items()
        if radius < 1.0
    ]


def _flat(points: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [point for places in points for point in places]


def _picture(plan: Plan, points: list[dict[str, Any]], *, at: int, title: str) -> alt.LayerChart:
    import altair as alt

    looks = {name: (kind.colour, [1, 0]) for name, kind in MECHANISMS.items()}
    looks |= {name: (colour, [5, 4]) for name, colour in _PUBLISHED.items()}
    drawn = {point["by"] for point in points}
    incomplete = {} if isinstance(plan.dependence, Independent) else {"zhao_theorem_2": "proof incomplete"}
    cross_at = plan.wished_radius or plan.best.radius or 1.0
    least = min(point["radius"] for point in points)
    lines = coloured_lines(
        points, {name: look for name, look in looks.items() if name in drawn}, labels=mechanism_labels(**incomplete)
    ).encode(
        x=alt.X("number:Q", title=title, scale=alt.Scale(type="log", nice=False), axis=alt.Axis(format="~s")),
        y=alt.Y(
            "radius:Q",
            title=f"radius at {plan.confidence:.4g} confidence",
            scale=alt.Scale(type="log", domain=[min(least, cross_at) / 1.5, 1.0], nice=False),
            axis=alt.Axis(format="~g"),
        ),
        tooltip=["by:N", "number:Q", alt.Tooltip("radius:Q", format=".4f")],
    )
    cross = (
        alt.Chart({"values": [{"number": at, "radius": cross_at}]})
        .mark_point(shape="cross", size=180, color=INK, filled=True, angle=45)
        .encode(x="number:Q", y="radius:Q")
    )
    layered: alt.LayerChart = styled(alt.layer(lines, cross).properties(width=560, height=380))
    return layered
