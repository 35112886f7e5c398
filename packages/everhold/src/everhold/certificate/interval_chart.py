"""The chart on a certificate's first page: each chosen answer as a bar between its bounds, in SVG.

It needs no package, scales with the page without scaling its text, and takes its colours from the page.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from everhold.certificate.summary import bounds_of, confirmed
from everhold.display import escaped
from everhold.values.units import POINTS, RATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_MARGIN = 0.07  # of the width, on either side
_TICKS = 5


@dataclass(frozen=True, slots=True)
class Axis:
    """Axis that several intervals share.

    Attributes:
        unit: What stands behind a tick.
    """

    low: float
    high: float
    step: float
    unit: str

    @classmethod
    def over(cls, ends: Sequence[float], *, unit: str) -> Axis:
        """Build an axis over all of these numbers, with room on both sides."""
        low, high = min(ends), max(ends)
        width = (high - low) or max(abs(high), 1.0) * 0.1
        low, high = low - _MARGIN * width, high + _MARGIN * width
        rough = (high - low) / _TICKS
        power = 10.0 ** math.floor(math.log10(rough))
        return cls(low, high, next((n for n in (1, 2, 5) if n * power >= rough), 10) * power, unit)

    def place(self, value: float) -> str:
        """Return the position of a value in per cent of the width. Values beyond the axis get its nearer end."""
        inside = min(max(value, self.low), self.high)
        return f"{100.0 * (inside - self.low) / (self.high - self.low):.2f}%"

    def ticks(self) -> Iterator[tuple[str, str]]:
        """Yield position and label of each tick."""
        decimals = max(0, -math.floor(math.log10(self.step)))
        for count in range(math.ceil(self.low / self.step), math.floor(self.high / self.step) + 1):
            yield self.place(count * self.step), f"{count * self.step:,.{decimals}f}{self.unit}"


def interval_chart(answers: Sequence[Mapping[str, Any]]) -> str:
    """Return the chart of these answers as HTML with SVG, or an empty text if there are none."""
    if not answers:
        return ""
    figures = [_figure(list(group)) for _, group in groupby(sorted(answers, key=_scale), key=_scale)]
    return f'<figure class="strips">\n{"".join(figures)}<figcaption>{_caption(answers)}</figcaption>\n</figure>'


def _scale(fact: Mapping[str, Any]) -> tuple[int, str]:
    """Return the key of the scale on which an answer is drawn: one for shares, one for points, else its own."""
    if fact["measure"] in RATES:
        return 0, ""
    return (1, "") if fact["measure"] in POINTS else (2, fact["name"])


def _caption(answers: Sequence[Mapping[str, Any]]) -> str:
    claims = [confirmed(fact) for fact in answers]
    said = ["Bars reach from bound to bound."]
    if not all(claims):
        said.append("A full point is what was taken from the sealed rows.")
    if any(claims):
        said.append("A hollow point is a claim, of which the sealed rows say only that the bounds are right.")
    return " ".join(said)


def _figure(answers: Sequence[Mapping[str, Any]]) -> str:
    """Return the HTML of the bars of answers that share a scale, with the scale's axis below."""
    order, _ = _scale(answers[0])
    factor = 100.0 if order < 2 else 1.0
    drawn = [_numbers(fact, factor) for fact in answers]
    ends = [number for numbers in drawn for number in numbers if math.isfinite(number)]
    axis = Axis.over(ends + [0.0] * (order == 1 or not ends), unit=" %" if order == 0 else "")
    rows = [_bar(fact, numbers, axis) for fact, numbers in zip(answers, drawn, strict=True)]
    labels = "".join(f'<text x="{place}" y="12">{label}</text>' for place, label in axis.ticks())
    title = "percentage points" if order == 1 else ""
    return "".join(rows) + (
        f'<div class="strip axis"><span>{title}</span><svg role="presentation">{labels}</svg><span></span></div>\n'
    )


def _numbers(fact: Mapping[str, Any], factor: float) -> tuple[float, float, float]:
    told = fact.get("unsealed", fact)
    return factor * float(told["low"]), factor * float(told["value"]), factor * float(told["high"])


def _bar(fact: Mapping[str, Any], numbers: tuple[float, float, float], axis: Axis) -> str:
    low, value, high = map(axis.place, numbers)
    bounds, name = bounds_of(fact), escaped(fact["name"])
    unit = " %" if fact["measure"] in RATES else ""
    told = f"{bounds.value}{unit}, between {bounds.low} and {bounds.high}{unit}"
    lines = "".join(f'<line class="tick" x1="{place}" x2="{place}" y1="0" y2="100%"/>' for place, _ in axis.ticks())
    zero = axis.place(0.0) if axis.low < 0.0 < axis.high else ""
    nought = f'<line class="zero" x1="{zero}" x2="{zero}" y1="0" y2="100%"/>' if zero else ""
    kind = "claim" if confirmed(fact) else "taken"
    return (
        f'<div class="strip"><span>{name}</span><svg role="img" aria-label="{name}: {told}">{lines}{nought}'
        f'<line class="bar" x1="{low}" x2="{high}" y1="50%" y2="50%"/>'
        f'<circle class="{kind}" cx="{value}" cy="50%" r="5"/></svg>'
        f"<span><b>{bounds.value}{unit}</b> {bounds.low} to {bounds.high}</span></div>\n"
    )
