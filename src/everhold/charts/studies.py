"""Pictures of a study: its answers, its budget, its guesses and its gates, as they came (needs ``[plots]``).

They are drawn from what the visitor may see of the ledger, and from nothing else. Shares and differences of shares
stand in their own units, on a panel each. Numbers in different units share a panel, each as its place in its own range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from everhold.charts import INK, NARROW, styled
from everhold.values.measures import DIFFERENCES, POINTS, RATES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import altair as alt

__all__ = [
    "MOST_DRAWN", "SOURCES", "answers_chart", "budget_chart", "drawable", "estimates_chart", "gates_chart",
    "on_a_panel",
]  # fmt: skip

SOURCES = {  # name in the legend, colour, shape
    "training": ("confirmed: training estimate", "#009e73", "circle"),
    "guess": ("confirmed: own guess", "#0072b2", "square"),
    "holdout": ("from the sealed rows", "#d55e00", "triangle-up"),
    "standing": ("not better than the best", "#cc79a7", "diamond"),
}
"""Sources of answers that have an interval, and how they look."""

MOST_DRAWN = 300
"""Answers in a picture: of more, the latest."""

_HEIGHT = 220
_LOW_PANEL = 150  # height of one of several
_COUNTED = 10  # whole numbers that get a tick each
_LEFT = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
_BAND = "#56b4e9"
_STEP = "#009e73"
_NUMBERS = ("value", "low", "high", "estimate")


class _Panel(NamedTuple):
    """An axis that several answers share.

    Attributes:
        title: Its name.
        format: How its ticks read.
        ends: The least and the largest value that there can be.
    """

    title: str
    format: str
    ends: tuple[float, float]

    @property
    def width(self) -> float:
        """What a half-width of a mean over [0, 1] is multiplied by."""
        return self.ends[1] - self.ends[0]


_PANELS = {
    "share": _Panel("share", ".0%", (0.0, 1.0)),
    "points": _Panel("difference in percentage points", "~f", (-100.0, 100.0)),
    "number": _Panel("number, as its place in its range", ".0%", (0.0, 1.0)),
    "difference": _Panel("difference, as a share of the range", ".0%", (-1.0, 1.0)),
}


def on_a_panel(row: Mapping[str, Any], *, measure: str, ends: tuple[float, float]) -> dict[str, Any]:
    """An answer with its ``panel``, and its numbers in the units of that panel.

    Args:
        row: ``value``, ``low``, ``high`` and ``estimate`` in the units of the question.
        measure: One of `everhold.values.measures.MEASURES`.
        ends: The least and the largest value that the question can have, in its units.

    Examples:
        >>> row = {"value": 0.06, "low": -0.01, "high": 0.13, "estimate": None}
        >>> on_a_panel(row, measure="right more", ends=(-1.0, 1.0))["value"]
        6.0
        >>> on_a_panel({**row, "value": 12.0}, measure="mean", ends=(0.0, 60.0))["value"]
        0.2
    """
    least, most = ends
    if measure in RATES:
        panel, zero, one = "share", 0.0, 1.0
    elif measure in POINTS:
        panel, zero, one = "points", 0.0, 0.01
    elif measure in DIFFERENCES:
        panel, zero, one = "difference", 0.0, max(abs(least), abs(most)) or 1.0
    else:
        panel, zero, one = "number", least, (most - least) or 1.0
    placed = {name: (row[name] - zero) / one for name in _NUMBERS if row.get(name) is not None}
    return {**row, **placed, "panel": panel}


def drawable(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a transcript that have a place on an axis of means, the latest `MOST_DRAWN` of them."""
    named = ("sequence", "value", "low", "high", "source", "estimate")
    found = [
        {name: row.get(name) for name in named}
        for row in rows
        if row.get("source") in SOURCES and None not in (row.get("value"), row.get("low"), row.get("high"))
    ]
    return found[-MOST_DRAWN:]


def answers_chart(answers: Sequence[Mapping[str, Any]]) -> alt.VConcatChart:
    """Answers in the order of the ledger, each with its interval, coloured by where it comes from.

    Args:
        answers: Of `drawable`, each with its ``panel`` where it has one.

    Raises:
        ValueError: If there is none.
    """
    import altair as alt

    points = _points(answers)
    across = alt.X(
        "sequence:Q", title="entry in the ledger", axis=_counting(points, "sequence"), scale=_entries(points)
    )

    def drawn(panel: _Panel, shown: list[dict[str, Any]]) -> Any:
        axis = alt.Axis(format=panel.format)
        up = alt.Y("low:Q", title=None, axis=axis, scale=alt.Scale(zero=False))
        bars = alt.Chart({"values": shown}).mark_rule(strokeWidth=2 if len(points) <= 60 else 1.2, opacity=0.75)
        return alt.layer(
            bars.encode(x=across, y=up, y2="high:Q", color=_by(points)),
            _dots(shown, points).encode(x=across, y=alt.Y("value:Q", title=None)),
        ).properties(title=panel.title)

    return _panelled(points, drawn)


def budget_chart(left: Sequence[Mapping[str, Any]]) -> alt.LayerChart:
    """How the budget burns down: what is left of each part, in per cent of the plan.

    Args:
        left: For each part and each number of questions, ``{"part", "asked", "left", "planned"}``.

    Raises:
        ValueError: If there is none.
    """
    import altair as alt

    if not left:
        raise ValueError("there is no budget; expected at least one part of it; there is nothing to draw")
    parts = list(dict.fromkeys(point["part"] for point in left))
    shares = [{**point, "share": point["left"] / max(point["planned"], 1)} for point in left]
    legend = alt.Legend(title=None, orient="top", symbolType="stroke", symbolSize=350, symbolStrokeWidth=2.5)
    lines = (
        alt.Chart({"values": shares})
        .mark_line(interpolate="step-after", strokeWidth=2.4, clip=True)
        .encode(
            x=alt.X("asked:Q", title="questions asked", axis=_counting(left, "asked"), scale=alt.Scale(nice=False)),
            y=alt.Y("share:Q", title="left", axis=alt.Axis(format=".0%"), scale=alt.Scale(domain=[0, 1])),
            color=alt.Color("part:N", scale=alt.Scale(domain=parts, range=_LEFT[: len(parts)]), legend=legend),
            strokeDash=alt.StrokeDash(
                "part:N", scale=alt.Scale(domain=parts, range=[[1, 0], [6, 3], [2, 3], [8, 3, 2, 3]][: len(parts)]),
                legend=legend,
            ),
        )
    )  # fmt: skip
    return _finished(alt.layer(lines))


def estimates_chart(answers: Sequence[Mapping[str, Any]], *, band: float | None) -> alt.VConcatChart:
    """Training estimates against released answers: on the line where the estimate was confirmed.

    Args:
        answers: Of `drawable`, each with its ``panel`` where it has one; those without an estimate are left out.
        band: Half-width around the line within which an estimate is as good as the promise, of a mean over [0, 1];
            None for no band.

    Raises:
        ValueError: If no answer has an estimate.
    """
    import altair as alt

    points = _points([answer for answer in answers if answer["estimate"] is not None])

    def drawn(panel: _Panel, shown: list[dict[str, Any]]) -> Any:
        half, (least, most) = (band or 0.0) * panel.width, panel.ends
        numbers = [point[name] for point in shown for name in ("estimate", "value")]
        room = max(0.04 * panel.width, 0.06 * (max(numbers) - min(numbers)))
        ends = [max(min(numbers) - room, least), min(max(numbers) + room, most)]
        line = [{"estimate": end, "low": end - half, "high": end + half} for end in ends]
        axis, scale = alt.Axis(format=panel.format), alt.Scale(domain=ends, nice=False)
        across = alt.X("estimate:Q", title="training estimate", axis=axis, scale=scale)
        up = alt.Y("estimate:Q", title="released answer", axis=axis, scale=scale)
        around = alt.Chart({"values": line}).mark_area(color=_BAND, opacity=0.22, clip=True)
        diagonal = alt.Chart({"values": line}).mark_line(color=INK, strokeDash=[4, 4], strokeWidth=1.2)
        return alt.layer(
            *([around.encode(x=across, y=alt.Y("low:Q", scale=scale), y2="high:Q")] if band else []),
            diagonal.encode(x=across, y=up),
            _dots(shown, points).encode(x=across, y=alt.Y("value:Q", title="released answer", axis=axis, scale=scale)),
        ).properties(title=panel.title)

    return _panelled(points, drawn)


def gates_chart(steps: Sequence[Mapping[str, Any]], *, last: int) -> alt.LayerChart:
    """The champion's way as a staircase: each step is a promotion, proved to be better than the step below.

    Args:
        steps: Of one gate or several: ``{"gate", "sequence", "promotions"}``, beginning with 0 promotions.
        last: The ledger's last entry, where every staircase ends.

    Raises:
        ValueError: If there is no gate.
    """
    import altair as alt

    if not steps:
        raise ValueError("there is no gate; expected at least one; there is nothing to draw")
    gates = list(dict.fromkeys(step["gate"] for step in steps))
    names = {gate: f"gate {number}" for number, gate in enumerate(gates, start=1)}  # a name may be long
    ends = {gate: [step for step in steps if step["gate"] == gate][-1] for gate in gates}
    drawn = [*steps, *({**end, "sequence": last} for end in ends.values())]
    legend = alt.Legend(title=None, orient="top") if len(gates) > 1 else None
    colours = [_STEP, *_LEFT[:2], *_LEFT[3:]]
    colour = alt.Color("name:N", legend=legend, scale=alt.Scale(domain=list(names.values()), range=colours))
    entries, heights = _counting(drawn, "sequence"), _counting(drawn, "promotions")
    across = alt.X("sequence:Q", title="entry in the ledger", axis=entries, scale=alt.Scale(nice=False))
    up = alt.Y("promotions:Q", title="promotions, each proved", axis=heights, scale=alt.Scale(domainMin=0))

    def of(values: Sequence[Mapping[str, Any]]) -> alt.Chart:
        return alt.Chart({"values": [{**value, "name": names[value["gate"]]} for value in values]})

    promoted = [step for step in steps if step["promotions"]]
    stairs = of(drawn).mark_line(interpolate="step-after", strokeWidth=2.6).encode(x=across, y=up, color=colour)
    dots = of(promoted).mark_point(filled=True, size=90, opacity=1).encode(x=across, y=up, color=colour)
    return _finished(alt.layer(stairs, dots))


def _points(answers: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    if not answers:
        raise ValueError("there is no answer with an interval; expected at least one; there is nothing to draw")
    return [{"panel": "number", **answer, "by": SOURCES[answer["source"]][0]} for answer in answers]


def _panelled(
    points: Sequence[dict[str, Any]], draw: Callable[[_Panel, list[dict[str, Any]]], Any]
) -> alt.VConcatChart:
    """One panel below the other, of those that have answers, with one legend."""
    import altair as alt

    shown = {name: [point for point in points if point["panel"] == name] for name in _PANELS}
    there = [name for name, some in shown.items() if some]
    height = _HEIGHT if len(there) == 1 else _LOW_PANEL
    panels = [draw(_PANELS[name], shown[name]).properties(width=NARROW, height=height) for name in there]
    drawn: alt.VConcatChart = styled(alt.vconcat(*panels).resolve_scale(color="shared", shape="shared"), padding=8)
    return drawn


def _looks(points: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """Those that are in the picture."""
    found = {point["by"] for point in points}
    return [look for look in SOURCES.values() if look[0] in found]


def _by(points: Sequence[Mapping[str, Any]]) -> alt.Color:
    import altair as alt

    looks = _looks(points)
    scale = alt.Scale(domain=[look[0] for look in looks], range=[look[1] for look in looks])
    legend = alt.Legend(title=None, orient="top", direction="vertical", labelLimit=300, symbolOpacity=1)
    return alt.Color("by:N", scale=scale, legend=legend)


def _dots(shown: Sequence[Mapping[str, Any]], points: Sequence[Mapping[str, Any]]) -> alt.Chart:
    """Answers of a panel as dots, in a colour and a shape for each source that the picture has."""
    import altair as alt

    looks = _looks(points)
    scale = alt.Scale(domain=[look[0] for look in looks], range=[look[2] for look in looks])
    drawn: alt.Chart = (
        alt.Chart({"values": list(shown)})
        .mark_point(filled=True, opacity=1, size=60 if len(points) <= 60 else 26)
        .encode(color=_by(points), shape=alt.Shape("by:N", scale=scale))
    )
    return drawn


def _entries(points: Sequence[Mapping[str, Any]]) -> alt.Scale:
    """The same stretch of the ledger on every panel."""
    import altair as alt

    numbers = [point["sequence"] for point in points]
    return alt.Scale(domain=[min(numbers) - 0.5, max(numbers) + 0.5], nice=False)


def _counting(points: Sequence[Mapping[str, Any]], name: str) -> alt.Axis:
    """An axis of whole numbers, of few a tick for each."""
    import altair as alt

    least, most = (end(int(point[name]) for point in points) for end in (min, max))
    ticks = list(range(least, most + 1)) if most - least < _COUNTED else alt.Undefined
    return alt.Axis(format=",d", tickMinStep=1, grid=False, values=ticks)


def _finished(layers: alt.LayerChart | alt.FacetChart) -> alt.LayerChart:
    drawn: alt.LayerChart = styled(layers.properties(width=NARROW, height=_HEIGHT), padding=8)
    return drawn
