"""Pictures of dependent rows: what a model says of them, influence against distance, radius against correlation.

They need the extra ``[plots]``; `everhold.charts.save_chart` saves them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.charts import INK, NARROW, coloured_lines, mechanism_labels, styled
from everhold.charts.arrangements import links_chart, sets_chart
from everhold.dependence import MarkovChain
from everhold.errors import DependenceError
from everhold.mechanisms import answering
from everhold.planning.inverse import radius_of
from everhold.planning.request import PlanRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import altair
    import altair as alt
    from numpy.typing import NDArray

    from everhold.dependence import DependenceModel

_DISTANCES = 40
_MOST_DOTS = 120

_SIDES = {  # colour and dash
    "both sides": ("#d55e00", [1, 0]),
    "one row later": ("#0072b2", [1, 0]),
    "one row earlier": ("#009e73", [4, 8]),
    "one row, either side": ("#0072b2", [6, 3]),
    "bound from the spectral gap": ("#999999", [2, 3]),
}
_CORRELATIONS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_LEAST_INFLUENCE = 1e-5  # nothing below it is drawn


@dataclass(frozen=True, slots=True)
class Portrait:
    """The picture of a model of dependence, before it is drawn.

    Attributes:
        title: What stands above it.
        alt: What it shows, for those who do not see it.
        caption: What stands below it.
    """

    title: str
    alt: str
    caption: str
    draw: Callable[[], altair.LayerChart | None]


@lru_cache(maxsize=64)
def portrait_of(model: DependenceModel) -> Portrait | None:
    """Picture of a model: influence by distance, rows and lines between them, or sets of rows.

    It is drawn from the model alone, which is public: certificates hold it.

    Returns:
        None for a model that says nothing of the three.
    """
    if _reach(model):
        return Portrait(
            "How far rows reach", f"{model.influence_in[0].upper()}{model.influence_in[1:]}, between rows at a "
            f"distance, on a logarithmic scale, for distances from 1 to {_DISTANCES}.",
            "What one row says of another falls with the distance between them.",
            partial(influence_chart, model, alone=False),
        )  # fmt: skip
    links = model.links(_MOST_DOTS)
    if links is not None:
        latent = " Hollow dots are no rows." if links.latent else ""
        rows = "Some of the rows" if not links.lines else "The rows"
        return Portrait(
            "Which rows tell about each other",
            f"{rows} as {links.places:,} dots, with {len(links.lines):,} lines between them.",
            f"A line is between two rows that tell about each other.{latent}" if links.lines else
            "No line: no row tells about another one.", partial(links_chart, links),
        )  # fmt: skip
    sets = model.independent_sets()
    if sets is None:
        return None
    return Portrait(
        "Which rows belong together",
        f"Share of the rows by the size of their set: {sum(sets.values()):,} sets of {min(sets):,} to {max(sets):,} "
        "rows.", "Rows of different sets tell nothing about each other.", partial(sets_chart, sets),
    )  # fmt: skip


def _reach(model: DependenceModel) -> bool:
    """True if the model has influences that can be drawn."""
    try:
        told = model.influences(_DISTANCES)
    except DependenceError:
        return False
    return told is not None and any(_LEAST_INFLUENCE <= value < math.inf for line in told[1].values() for value in line)


def influence_chart(
    model: DependenceModel, *, distances: int = _DISTANCES, alone: bool = True
) -> alt.LayerChart | None:  # fmt: skip
    """Max-influence of a row on rows at a distance: one later, one earlier, both, and the bound from the gap.

    Where one row later and one earlier are alike, as for all chains of two states, they are drawn as one line.

    Args:
        model: A stationary chain.
        distances: Largest distance shown.
        alone: Whether the picture says itself what it shows; in a page the page does.

    Returns:
        None where a model's influence does not go by distance.

    Raises:
        DependenceError: If the chain is not stationary.
        ValueError: If no influence can be drawn: all are infinite, or all next to nothing.
    """
    import altair as alt

    told = model.influences(distances)
    if told is None:
        return None
    rows_are, found = told[0], _either_side(told[1])
    points = [
        {"distance": place + 1, "influence": float(value), "by": name}
        for name, values in found.items()
        for place, value in enumerate(values)
        if _LEAST_INFLUENCE <= value < math.inf
    ]
    if not points:
        raise ValueError(
            "every influence of the chain is infinite or next to nothing; expected a chain that forgets its state, but "
            "not at once; there is nothing to draw"
        )
    looks = {name: look for name, look in _SIDES.items() if name in found}
    lines = coloured_lines(points, looks, legend_at="right" if alone else "bottom").encode(
        x=alt.X("distance:Q", title="distance in rows", axis=alt.Axis(format="d", tickMinStep=1)),
        y=alt.Y(
            "influence:Q",
            title=model.influence_in,
            scale=alt.Scale(type="log"),
            axis=alt.Axis(format="~g", values=[10.0**power for power in range(-5, 4)]),
        ),
    )
    drawn: alt.LayerChart
    if not alone:
        drawn = styled(alt.layer(lines).properties(width=NARROW, height=220), padding=8)
        return drawn
    title = alt.TitleParams(
        "Influence of a row on rows at a distance",
        subtitle=f"{rows_are}; infinite influences are not drawn",
    )
    drawn = styled(alt.layer(lines).properties(width=560, height=360, title=title))
    return drawn


def _either_side(found: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    """The influences on one row as one line where later and earlier rows are alike, as far as a picture can show."""
    if "one row later" not in found:
        return dict(found)
    later, earlier = found["one row later"], found["one row earlier"]
    if not np.allclose(later, earlier, rtol=1e-3, atol=_LEAST_INFLUENCE / 10.0):
        return dict(found)
    names = {"one row later": "one row, either side"}
    return {names.get(name, name): values for name, values in found.items() if name != "one row earlier"}


def correlation_chart(
    *,
    rows: int,
    queries: int,
    surprises: int = 10,
    model: DependenceModel | None = None,
) -> alt.LayerChart:
    """Radius against the correlation of neighbouring rows, for symmetric chains of two states.

    Args:
        rows: Number of sealed rows.
        queries: Number of adaptive queries.
        surprises: Answers that may come from the holdout.
        model: A model to be marked by what its rows are worth: it stands where a chain has as many effective rows.
    """
    import altair as alt

    request = PlanRequest(rows=rows, queries=queries, surprises=min(surprises, queries))
    chains = {strength: _two_states(strength) for strength in _CORRELATIONS}
    points = [
        {"correlation": strength, "radius": radius, "by": name}
        for strength, chain in chains.items()
        for name, radius in _radii(request, chain).items()
        if radius < 1.0
    ]
    lines = coloured_lines(points, _mechanisms(), labels=mechanism_labels()).encode(
        x=alt.X("correlation:Q", title="correlation of neighbouring rows", axis=alt.Axis(format=".1f")),
        y=alt.Y(
            "radius:Q",
            title=f"radius at {request.confidence:.4g} confidence",
            scale=alt.Scale(type="log"),
            axis=alt.Axis(format="~g"),
        ),
    )
    worth = rows / (_two_states(0.73) if model is None else model).concentration(rows)
    title = alt.TitleParams(
        f"Radius of {queries:,} queries to {rows:,} rows",
        subtitle="for symmetric Markov chains of two states; the radius holds for all answers at once",
    )
    layers = alt.layer(lines, *_worth(rows, worth, own=model is not None))
    drawn: alt.LayerChart = styled(layers.properties(width=560, height=360, title=title))
    return drawn


def _mechanisms() -> dict[str, tuple[str, list[int]]]:
    """Colour and dash of the first mechanism by S3, by S1, and where nobody adapts, of those that are installed."""
    kinds = list(answering().values())
    looks: dict[str, tuple[str, list[int]]] = {}
    for dash, drawn in (
        ([1, 0], [kind for kind in kinds if kind.traits.needs_guess]),
        ([6, 3], [kind for kind in kinds if kind.traits.reads_leakage]),
        ([2, 3], [kind for kind in kinds if not kind.traits.adaptive]),
    ):
        looks |= {kind.name: (kind.presentation.colour, dash) for kind in drawn[:1]}
    return looks


def _radii(request: PlanRequest, chain: DependenceModel) -> dict[str, float]:
    made = replace(request, dependence=chain)
    return {name: radius_of(name, made) for name in _mechanisms()}


def _worth(rows: int, ratio: float, *, own: bool) -> list[alt.Chart]:
    """A vertical line where chains have that many effective rows, ``(1 - c)/(1 + c)`` of all, and what it says."""
    import altair as alt

    at = max((ratio - 1.0) / (ratio + 1.0), 0.0)
    place = [{"correlation": at, "text": f"{'your ' if own else ''}{rows:,} rows are worth {rows / ratio:,.0f}"}]
    rule = alt.Chart({"values": place}).mark_rule(color=INK, strokeDash=[3, 3]).encode(x="correlation:Q")
    side: dict[str, Any] = {"align": "right", "dx": -6} if at > 0.5 else {"align": "left", "dx": 6}
    text = (
        alt.Chart({"values": place})
        .mark_text(fontSize=13, color=INK, **side)
        .encode(x="correlation:Q", y=alt.value(14), text="text:N")
    )
    return [rule, text]


def _two_states(correlation: float) -> MarkovChain:
    """The symmetric chain of two states in which neighbouring rows have this correlation."""
    same, other = (1.0 + correlation) / 2.0, (1.0 - correlation) / 2.0
    return MarkovChain([[same, other], [other, same]])
