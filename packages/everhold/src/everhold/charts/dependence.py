"""Charts of dependent rows: a description of a model, influence by distance, and radius by correlation.

The charts need the extra ``[plots]``; `everhold.charts.save_chart` saves them.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.charts import INK, NARROW, PAPER, coloured_lines, mechanism_labels, styled
from everhold.dependence import DependenceModel, MarkovChain
from everhold.errors import DependenceError
from everhold.mechanisms import answering
from everhold.planning.inverse import radius_of
from everhold.planning.request import PlanRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import altair
    import altair as alt
    from numpy.typing import NDArray

    from everhold.dependence.base import Links

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
    """A chart of a dependence model with its title, caption and alternative text.

    Attributes:
        title: Text above the chart.
        alt: Description of the chart for readers who do not see it.
        caption: Text below the chart.
    """

    title: str
    alt: str
    caption: str
    draw: Callable[[], altair.LayerChart | None]


@lru_cache(maxsize=64)
def portrait_of(model: DependenceModel) -> Portrait | None:
    """Return a chart of a model: influence by distance, a graph of rows, or sizes of independent sets.

    The chart is drawn from the model alone, which is public: certificates hold the model.

    Returns:
        The chart with its texts, or None if the model has no such picture.
    """
    told = None
    with suppress(DependenceError):
        told = model.influences(_DISTANCES)
    if told and any(_LEAST_INFLUENCE <= value < math.inf for line in told[1].values() for value in line):
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


def influence_chart(
    model: DependenceModel, *, distances: int = _DISTANCES, alone: bool = True
) -> alt.LayerChart | None:  # fmt: skip
    """Draw the max-influence of a row on rows at a distance: later, earlier, both, and the bound from the gap.

    If the influences on later and on earlier rows are equal, as for all chains of two states, they are one line.

    Args:
        model: The dependence model, a stationary chain.
        distances: Largest distance in rows that is shown.
        alone: True for a picture with a title, for use outside a page; False in a page whose text explains it.

    Returns:
        None if a model's influence does not depend on distance alone.

    Raises:
        DependenceError: If the chain is not stationary, so that influence depends on the place in the series.
        ValueError: If no influence can be drawn, because all influences are infinite or all are close to 0.
    """
    import altair as alt

    told = model.influences(distances)
    if told is None:
        return None
    rows_are, found = told[0], dict(told[1])
    if "one row later" in found:  # one line instead of two if both directions have the same influence
        later, earlier = found["one row later"], found["one row earlier"]
        if np.allclose(later, earlier, rtol=1e-3, atol=_LEAST_INFLUENCE / 10.0):
            names = {"one row later": "one row, either side"}
            found = {names.get(name, name): each for name, each in found.items() if name != "one row earlier"}
    points = [
        {"distance": place + 1, "influence": float(value), "by": name}
        for name, values in found.items()
        for place, value in enumerate(values)
        if _LEAST_INFLUENCE <= value < math.inf
    ]
    if not points:
        raise ValueError(
            "Every influence of the chain is infinite or nearly 0, so there is nothing to "
            "draw. Pass a chain that forgets its state, but not at once."
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
        subtitle=f"{rows_are}, infinite influences are not drawn",
    )
    drawn = styled(alt.layer(lines).properties(width=560, height=360, title=title))
    return drawn


def correlation_chart(
    *,
    rows: int,
    queries: int,
    surprises: int = 10,
    model: DependenceModel | None = None,
) -> alt.LayerChart:
    """Draw the radius against the correlation of neighbouring rows, for symmetric chains of two states.

    Args:
        rows: Number of sealed rows.
        queries: Number of adaptive queries.
        surprises: Answers that may come from the holdout.
        model: A model to mark in the chart, at the correlation for which a chain has as many effective rows as the
            model.
    """
    import altair as alt

    request = PlanRequest(rows=rows, queries=queries, surprises=min(surprises, queries))
    chains = {strength: _two_states(strength) for strength in _CORRELATIONS}
    points = [
        {"correlation": strength, "radius": radius, "by": name}
        for strength, chain in chains.items()
        for name in _mechanisms()
        if (radius := radius_of(name, replace(request, dependence=chain))) < 1.0
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
        subtitle="for symmetric Markov chains of two states, for all answers at once",
    )
    layers = alt.layer(lines, *_worth(rows, worth, own=model is not None))
    drawn: alt.LayerChart = styled(layers.properties(width=560, height=360, title=title))
    return drawn


def _mechanisms() -> dict[str, tuple[str, list[int]]]:
    """Return colour and dash of the first installed mechanism by S3, by S1, and for fixed queries."""
    kinds = list(answering().values())
    looks: dict[str, tuple[str, list[int]]] = {}
    for dash, drawn in (
        ([1, 0], [kind for kind in kinds if kind.traits.needs_guess]),
        ([6, 3], [kind for kind in kinds if kind.traits.leakage]),
        ([2, 3], [kind for kind in kinds if not kind.traits.adaptive]),
    ):
        looks |= {kind.name: (kind.presentation.colour, dash) for kind in drawn[:1]}
    return looks


def _worth(rows: int, ratio: float, *, own: bool) -> list[alt.Chart]:
    """Return a vertical rule and its label, at the correlation for which rows are worth ``rows / ratio`` rows.

    `own` says whether these are the reader's own rows, for the label.
    """
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
    """Return the symmetric Markov chain with two states and this correlation of neighbouring rows."""
    same, other = (1.0 + correlation) / 2.0, (1.0 - correlation) / 2.0
    return MarkovChain([[same, other], [other, same]])


# Pictures of rows and what joins them: dots with lines, and how large sets of rows are (needs ``[plots]``).

_HEIGHT = 220
_ROW, _SET = "#0072b2", "#009e73"
_SIZES = 30  # of sets, that have a bar of their own
_STEPS = 120
_IN_A_ROW = 12  # dots without lines
_FULL = 60  # dots, of which more are drawn smaller


def links_chart(links: Links) -> alt.LayerChart:
    """Return a chart with rows as dots, and lines between rows that depend on each other. Latent nodes are hollow."""
    import altair as alt

    dots = [
        {"x": float(x), "y": float(y), "kind": "latent" if place in links.latent else "row"}
        for place, (x, y) in enumerate(placed(links))
    ]
    ends = [
        {"x": dots[first]["x"], "y": dots[first]["y"], "to_x": dots[second]["x"], "to_y": dots[second]["y"]}
        for first, second in links.lines
    ]
    across, up = (alt.X("x:Q", axis=None), alt.Y("y:Q", axis=None))
    lines = alt.Chart({"values": ends}).mark_rule(color=INK, opacity=0.55, strokeWidth=1.3)
    marks = (
        alt.Chart({"values": dots})
        .mark_point(filled=True, opacity=1, size=110 if len(dots) <= _FULL else 36, strokeWidth=1.6)
        .encode(
            x=across, y=up, stroke=alt.value(_ROW),
            fill=alt.Fill("kind:N", scale=alt.Scale(domain=["row", "latent"], range=[_ROW, PAPER]), legend=None),
        )
    )  # fmt: skip
    drawn = alt.layer(*([lines.encode(x=across, y=up, x2="to_x:Q", y2="to_y:Q")] if ends else []), marks)
    high = _HEIGHT if ends else _HEIGHT // 3
    finished: alt.LayerChart = styled(drawn.properties(width=NARROW, height=high), frame=False, padding=8)
    return finished


def sets_chart(sets: Mapping[int, int]) -> alt.LayerChart:
    """Return a bar chart of the share of rows in sets of each size.

    Args:
        sets: Number of sets by the number of rows in a set.
    """
    import altair as alt

    rows = sum(size * number for size, number in sets.items())
    least, most = min(sets), max(sets)
    width = max(math.ceil((most - least + 1) / _SIZES), 1)
    shares: dict[int, float] = {}
    for size, number in sets.items():
        begin = least + (size - least) // width * width
        shares[begin] = shares.get(begin, 0.0) + size * number / rows
    bars = [
        {"from": begin - 0.5, "to": begin + width - 0.5, "share": share, "none": 0.0} for begin, share in shares.items()
    ]
    first, last = max(least - 1, 0), most + max(width, 1)
    ticks = list(range(first, last + 1)) if last - first <= _SIZES // 2 else alt.Undefined
    across = alt.X(
        "from:Q", title="rows in a set", scale=alt.Scale(domain=[first, last], nice=False),
        axis=alt.Axis(format=",d", tickMinStep=1, grid=False, values=ticks),
    )  # fmt: skip
    up = alt.Y("share:Q", title="share of all rows", axis=alt.Axis(format=".0%"), scale=alt.Scale(domainMin=0))
    drawn = alt.Chart({"values": bars}).mark_bar(color=_SET, opacity=0.85, stroke=PAPER, strokeWidth=1)
    drawn = drawn.encode(x=across, x2="to:Q", y=up, y2="none:Q")
    finished: alt.LayerChart = styled(alt.layer(drawn).properties(width=NARROW, height=_HEIGHT), padding=8)
    return finished


def placed(links: Links) -> NDArray[np.float64]:
    """Return positions for the nodes of a graph, with linked nodes near each other, shape (nodes, 2).

    Without lines the dots stand in rows. Otherwise they push each other away and lines pull them together, ever more
    slowly.

    Source: Fruchterman and Reingold 1991.
    """
    count = links.places
    if not links.lines:
        return np.array([(place % _IN_A_ROW, -(place // _IN_A_ROW)) for place in range(count)], dtype=np.float64)
    turn = 2.0 * np.pi * np.arange(count) / count
    at = np.column_stack([np.cos(turn), np.sin(turn)])
    joined = np.zeros((count, count))
    first, second = np.array(links.lines).T
    joined[first, second] = joined[second, first] = 1.0
    near = math.sqrt(4.0 / count)
    for step in range(_STEPS):
        apart = at[:, None, :] - at[None, :, :]
        distance = np.maximum(np.linalg.norm(apart, axis=2), 0.01 * near)
        push = near**2 / distance**2 - joined * distance / near - 0.05  # the last keeps parts of the graph together
        force = np.sum(apart * push[:, :, None], axis=1)
        length = np.maximum(np.linalg.norm(force, axis=1, keepdims=True), 1e-12)
        at = at + force / length * np.minimum(length, 0.2 * (1.0 - step / _STEPS))
    return np.asarray(at)
