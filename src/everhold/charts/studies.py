"""Pictures of a study: its answers, its budget, its guesses and its gates, as they came (needs ``[plots]``).

They are drawn from what the visitor may see of the ledger, and from nothing else. Values are those of the ledger: means
over [0, 1], so that questions in different units stand on one axis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.charts import INK, styled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import altair as alt

__all__ = ["MOST_DRAWN", "SOURCES", "answers_chart", "budget_chart", "drawable", "estimates_chart", "gates_chart"]

SOURCES = {  # name in the legend, colour, shape
    "training": ("confirmed: training estimate", "#009e73", "circle"),
    "guess": ("confirmed: own guess", "#0072b2", "square"),
    "holdout": ("from the sealed rows", "#d55e00", "triangle-up"),
    "standing": ("not better than the best", "#cc79a7", "diamond"),
}
"""Sources of answers that have an interval, and how they look."""

MOST_DRAWN = 300
"""Answers in a picture: of more, the latest."""

_WIDTH, _HEIGHT = 520, 260
_LEFT = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
_BAND = "#56b4e9"
_STEP = "#009e73"


def drawable(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a transcript that have a place on an axis of means, the latest `MOST_DRAWN` of them."""
    named = ("sequence", "value", "low", "high", "source", "estimate")
    found = [
        {name: row.get(name) for name in named}
        for row in rows
        if row.get("source") in SOURCES and None not in (row.get("value"), row.get("low"), row.get("high"))
    ]
    return found[-MOST_DRAWN:]


def answers_chart(answers: Sequence[Mapping[str, Any]]) -> alt.LayerChart:
    """Answers in the order of the ledger, each with its interval, coloured by where it comes from.

    Args:
        answers: Of `drawable`.

    Raises:
        ValueError: If there is none.
    """
    import altair as alt

    points = _points(answers)
    across = alt.X("sequence:Q", title="entry in the ledger", axis=_counting(), scale=alt.Scale(nice=False, padding=12))
    up = alt.Y("low:Q", title="answer, in its own units", scale=alt.Scale(zero=False))
    bars = alt.Chart({"values": points}).mark_rule(strokeWidth=2 if len(points) <= 60 else 1.2, opacity=0.75)
    layers = alt.layer(
        bars.encode(x=across, y=up, y2="high:Q", color=_by(points)),
        _dots(points, len(points)).encode(x=across, y=alt.Y("value:Q")),
    )
    return _finished(layers)


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
            x=alt.X("asked:Q", title="questions asked", axis=_counting(), scale=alt.Scale(nice=False)),
            y=alt.Y("share:Q", title="left", axis=alt.Axis(format=".0%"), scale=alt.Scale(domain=[0, 1])),
            color=alt.Color("part:N", scale=alt.Scale(domain=parts, range=_LEFT[: len(parts)]), legend=legend),
            strokeDash=alt.StrokeDash(
                "part:N", scale=alt.Scale(domain=parts, range=[[1, 0], [6, 3], [2, 3], [8, 3, 2, 3]][: len(parts)]),
                legend=legend,
            ),
        )
    )  # fmt: skip
    return _finished(alt.layer(lines))


def estimates_chart(answers: Sequence[Mapping[str, Any]], *, band: float | None) -> alt.LayerChart:
    """Training estimates against released answers: on the line where the estimate was confirmed.

    Args:
        answers: Of `drawable`; those without an estimate are left out.
        band: Half-width around the line within which an estimate is as good as the promise; None for no band.

    Raises:
        ValueError: If no answer has an estimate.
    """
    import altair as alt

    points = _points([answer for answer in answers if answer["estimate"] is not None])
    least = min(min(point["estimate"], point["value"]) for point in points)
    most = max(max(point["estimate"], point["value"]) for point in points)
    room = max(0.04, 0.06 * (most - least))
    shares = least >= 0.0 and most <= 1.0
    ends = [max(least - room, 0.0), min(most + room, 1.0)] if shares else [least - room, most + room]
    band = band if shares else None  # it is one of means over [0, 1]
    line = [{"estimate": end, "low": end - (band or 0.0), "high": end + (band or 0.0)} for end in ends]
    across = alt.X("estimate:Q", title="training estimate", scale=alt.Scale(domain=ends, nice=False))
    scale = alt.Scale(domain=ends, nice=False)
    told = alt.Y("value:Q", title="released answer", scale=scale)
    diagonal = alt.Chart({"values": line}).mark_line(color=INK, strokeDash=[4, 4], strokeWidth=1.2)
    around = alt.Chart({"values": line}).mark_area(color=_BAND, opacity=0.22, clip=True)
    layers = alt.layer(
        *([around.encode(x=across, y=alt.Y("low:Q", scale=scale), y2="high:Q")] if band else []),
        diagonal.encode(x=across, y=alt.Y("low:Q", scale=scale).title("")) if not band else
        diagonal.encode(x=across, y=alt.Y("estimate:Q", scale=scale)),
        _dots(points, len(points)).encode(x=across, y=told),
    )  # fmt: skip
    return _finished(layers)


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
    across = alt.X("sequence:Q", title="entry in the ledger", axis=_counting(), scale=alt.Scale(nice=False))
    up = alt.Y("promotions:Q", title="promotions, each proved", axis=_counting(), scale=alt.Scale(domainMin=0))

    def of(values: Sequence[Mapping[str, Any]]) -> alt.Chart:
        return alt.Chart({"values": [{**value, "name": names[value["gate"]]} for value in values]})

    promoted = [step for step in steps if step["promotions"]]
    stairs = of(drawn).mark_line(interpolate="step-after", strokeWidth=2.6).encode(x=across, y=up, color=colour)
    dots = of(promoted).mark_point(filled=True, size=90, opacity=1).encode(x=across, y=up, color=colour)
    return _finished(alt.layer(stairs, dots))


def _points(answers: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    if not answers:
        raise ValueError("there is no answer with an interval; expected at least one; there is nothing to draw")
    return [{**answer, "by": SOURCES[answer["source"]][0]} for answer in answers]


def _looks(points: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """Those that are in the picture."""
    found = {point["by"] for point in points}
    return [look for look in SOURCES.values() if look[0] in found]


def _by(points: Sequence[Mapping[str, Any]]) -> alt.Color:
    import altair as alt

    looks = _looks(points)
    scale = alt.Scale(domain=[look[0] for look in looks], range=[look[1] for look in looks])
    return alt.Color("by:N", scale=scale, legend=alt.Legend(title=None, orient="top", labelLimit=300, symbolOpacity=1))


def _dots(points: Sequence[Mapping[str, Any]], count: int) -> alt.Chart:
    """Where answers are, in a colour and a shape for each source."""
    import altair as alt

    looks = _looks(points)
    scale = alt.Scale(domain=[look[0] for look in looks], range=[look[2] for look in looks])
    drawn: alt.Chart = (
        alt.Chart({"values": list(points)})
        .mark_point(filled=True, opacity=1, size=60 if count <= 60 else 26)
        .encode(color=_by(points), shape=alt.Shape("by:N", scale=scale))
    )
    return drawn


def _counting() -> alt.Axis:
    import altair as alt

    return alt.Axis(format=",d", tickMinStep=1, grid=False)


def _finished(layers: alt.LayerChart | alt.FacetChart) -> alt.LayerChart:
    drawn: alt.LayerChart = styled(layers.properties(width=_WIDTH, height=_HEIGHT), padding=8)
    return drawn
