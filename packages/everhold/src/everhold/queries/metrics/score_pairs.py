"""Two models on the same rows: the parts of the difference of their scores (docs/theory/composites.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from everhold.guarantees.intervals.composites import boxes
from everhold.guarantees.intervals.composites.parts import Bounds
from everhold.queries.metrics.score_parts import Judged, RowPart, correlation_parts, explained_parts, loss

if TYPE_CHECKING:
    from everhold.queries.metrics.registry import Setting
    from everhold.queries.metrics.score_parts import Floats

Parts = Callable[[Judged, "Setting"], Sequence[RowPart]]


@dataclass(frozen=True, slots=True)
class PairedScores:
    """Parts of the difference of two models in a score.

    Attributes:
        parts: From the rows as either model predicts them, the setting and the reach of `OfParts.reach`, to the parts.
        bounds: From the setting and the reach to the bounds of half of one more than the difference, whose unit is the
            width of the score's range.
        weights: Of the level, one share for each part; all alike by default. A part that counts from either side has
            half of its share, so that the lower limit alone holds with half of the level (docs/theory/gates.md).
        only_below: True if differences may be larger than the range, so that there is no upper limit.
    """

    parts: Callable[[Judged, Judged, Setting, float], Sequence[RowPart]]
    bounds: Callable[[Setting, float], Bounds]
    weights: tuple[float, ...] | None = None
    only_below: bool = False


def part_by_part(parts: Parts, bounds: Callable[[Setting], Bounds]) -> PairedScores:
    """Of a score that is the average of its parts, whose denominators are those of all predictions."""

    def apart(first: Judged, second: Judged, setting: Setting, reach: float) -> list[RowPart]:
        pairs = zip(parts(first, setting), parts(second, setting), strict=True)
        return [part.minus(other, reach) for part, other in pairs]

    return PairedScores(apart, lambda setting, reach: partial(_stretched, bounds(setting), reach))


def _stretched(bounds: Bounds, reach: float, low: Floats, high: Floats) -> tuple[float, float]:
    """Bounds of a difference over its reach, on the scale of the difference."""
    least, most = bounds(low, high)
    return (1.0 + reach * (2.0 * least - 1.0)) / 2.0, (1.0 + reach * (2.0 * most - 1.0)) / 2.0


def of_root() -> PairedScores:
    """Roots of mean squared errors: the difference of the means, and the first mean."""

    def apart(first: Judged, second: Judged, setting: Setting, reach: float) -> list[RowPart]:
        ((own,), (other,)) = (loss(rows, setting, of="squared") for rows in (first, second))
        return [own.minus(other, reach), own]

    return PairedScores(apart, lambda _, reach: partial(_signed, boxes.root_gain, reach, 1, 1.0), weights=(0.95, 0.025))


def of_explained() -> PairedScores:
    """R2: the difference of squared errors, the mean label, and the mean square of labels about the centre."""

    def apart(first: Judged, second: Judged, setting: Setting, reach: float) -> list[RowPart]:
        (own, labels, squares), (other, _, _) = (explained_parts(rows, setting) for rows in (first, second))
        errors = [RowPart(part.numerators) for part in (own, other)]
        return [errors[0].minus(errors[1], reach), labels, squares]

    def bounds(setting: Setting, reach: float) -> Bounds:
        scale = setting.clip / (setting.high - setting.low) ** 2
        gain = partial(boxes.explained_gain, centre=setting.centre, scale=scale)
        return partial(_signed, gain, reach, 1, 0.5)

    return PairedScores(apart, bounds, weights=(0.95, 0.0125, 0.0125), only_below=True)


def of_correlation() -> PairedScores:
    """Matthews' correlation: differences of two rates, the share of label 1, and the second model's rates."""

    def apart(first: Judged, second: Judged, setting: Setting, reach: float) -> list[RowPart]:
        (_, up, down), (share, other_up, other_down) = (correlation_parts(rows, setting) for rows in (first, second))
        return [up.minus(other_up, reach), down.minus(other_down, reach), share, other_up, other_down]

    return PairedScores(
        apart, lambda _, reach: partial(_signed, boxes.correlation_gain, reach, 2, 0.5),
        weights=(0.425, 0.425, 0.015, 0.03, 0.03),
    )  # fmt: skip


def _signed(
    gain: Bounds, reach: float, differences: int, scale: float, low: Floats, high: Floats
) -> tuple[float, float]:
    """Bounds of half of one more than a gain, from parts of which the first ones are differences over the reach.

    Args:
        gain: From ends of signed differences and of other parts to the least and the largest gain.
        reach: Of the differences.
        differences: Number of them.
        scale: Of the gain.
        low: Lower ends, on the scale [0, 1].
        high: Upper ends.
    """
    ends = [np.concatenate([reach * (2.0 * end[:differences] - 1.0), end[differences:]]) for end in (low, high)]
    least, most = gain(*ends)
    return (1.0 + scale * least) / 2.0, (1.0 + scale * most) / 2.0
