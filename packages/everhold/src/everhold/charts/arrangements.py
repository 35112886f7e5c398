"""Pictures of rows and what joins them: dots with lines, and how large sets of rows are (needs ``[plots]``)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from everhold.charts import INK, NARROW, PAPER, styled

if TYPE_CHECKING:
    from collections.abc import Mapping

    import altair as alt
    from numpy.typing import NDArray

    from everhold.dependence.base import Links

_HEIGHT = 220
_ROW, _SET = "#0072b2", "#009e73"
_SIZES = 30  # of sets, that have a bar of their own
_STEPS = 120
_IN_A_ROW = 12  # dots without lines
_FULL = 60  # dots, of which more are drawn smaller


def links_chart(links: Links) -> alt.LayerChart:
    """Rows as dots, with a line between two that tell about each other; latent nodes are hollow."""
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
    """Share of all rows in sets of each size.

    Args:
        sets: Rows of a set to the number of such sets.
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
    """A place for each dot, joined ones near each other, all others apart; always the same, shape (places, 2).

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
