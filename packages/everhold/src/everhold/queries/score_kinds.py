"""Scores that follow from parts: their summaries of rows, and bounds over all parts (docs/theory/composites.md)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from everhold.guarantees.intervals import composites
from everhold.guarantees.intervals.parts import (
    Bounds,
    Composite,
    CountedPart,
    FreeRatio,
    PartBets,
    PartInterval,
    SeenParts,
    units_of,
)
from everhold.queries.score_parts import (
    Judged,
    RowPart,
    Setting,
    Sized,
    class_parts,
    correlation_parts,
    explained_parts,
    hit_part,
    loss,
    right_parts,
    weighted_parts,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold.guarantees.intervals.base import Procedure
    from everhold.queries.score_parts import Floats
    from everhold.queries.scored_rows import Outputs

__all__ = ["OfParts", "ScoreKind", "halved", "kinds"]

_LEAST_REACH, _ROUNDING = 1e-9, 1e-12


def _by_group(values: Floats, rows: Judged) -> Floats:
    """Sums of groups of rows, or the rows themselves."""
    return values if rows.groups is None else np.asarray(np.bincount(rows.groups, values), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class ScoreKind:
    """A score of a model by its name.

    Attributes:
        name: As in scikit-learn, where it is there.
        outputs: What is predicted.
        labels: Kinds of label columns that it takes.
        ends: From the setting to what 0 and 1 of the scale [0, 1] stand for.
        settings: Names of the numbers of `Setting` that define it.
        greater: Whether a higher score is a better one.
    """

    name: str
    outputs: Outputs
    labels: tuple[str, ...]
    ends: Callable[[Setting], tuple[float, float]]
    settings: tuple[str, ...] = ()
    greater: bool = True

    takes_groups: ClassVar[bool] = False
    takes_slices: ClassVar[bool] = False
    by_rank: ClassVar[bool] = False

    @abstractmethod
    def see(self, rows: Judged, setting: Setting, largest: float = 1.0) -> Any:
        """Summary of rows for the procedure; its ``score`` is on the scale [0, 1]."""

    def is_known(self, seen: Any) -> bool:
        """True if some row counts in the score of these rows, so that it estimates that of others."""
        return True

    def thinned(self, seen: Any, share: float) -> Any:
        """Summary of a share of these rows."""
        return seen

    @abstractmethod
    def procedure(self, planned: Any, setting: Setting, sized: Sized) -> Procedure:
        """Interval procedure, made from public rows."""


@dataclass(frozen=True, slots=True)
class OfParts(ScoreKind):
    """A score that follows from parts.

    Attributes:
        parts: From rows and the setting to the parts.
        bounds: From the setting to the bounds of the score on the scale [0, 1].
        weights: Of the level, from the setting to one share for each part; by default all alike.
        paired: Whether the score is the average of its parts, and denominators are those of all predictions. Then two
            models are compared part by part.
    """

    parts: Callable[[Judged, Setting], Sequence[RowPart]] = field(kw_only=True)
    bounds: Callable[[Setting], Bounds] = field(kw_only=True)
    weights: Callable[[Setting], Sequence[float]] | None = field(default=None, kw_only=True)
    paired: bool = field(default=False, kw_only=True)

    takes_groups: ClassVar[bool] = True
    takes_slices: ClassVar[bool] = True

    def see(self, rows: Judged, setting: Setting, largest: float = 1.0) -> SeenParts:
        """Units of each part."""
        return _seen(self.parts(rows, setting), rows, self.bounds(setting), largest, empty=0.0)

    def is_known(self, seen: SeenParts) -> bool:
        """See `ScoreKind.is_known`: some part has a denominator."""
        return any(len(units.sizes) for units in seen.parts)

    def thinned(self, seen: SeenParts, share: float) -> SeenParts:
        """See `ScoreKind.thinned`."""
        return replace(seen, parts=tuple(replace(units, counts=share * units.counts) for units in seen.parts))

    def see_difference(
        self, first: Judged, second: Judged, setting: Setting, largest: float = 1.0, *, reach: float = 1.0
    ) -> SeenParts:
        """Units of each part's difference for the same rows; a score of 1/2 is no difference.

        Args:
            first: Rows as one model predicts them.
            second: The same rows as the other model predicts them.
            setting: Numbers that define the score.
            largest: Rows of the largest group.
            reach: No row moves a part farther; public.
        """
        pairs = zip(self.parts(first, setting), self.parts(second, setting), strict=True)
        apart = [part.minus(other, reach) for part, other in pairs]
        return _seen(apart, first, partial(_stretched, self.bounds(setting), reach), largest, empty=0.5)

    def reach(self, first: Floats, second: Floats, setting: Setting) -> float:
        """Farthest that a row can move a difference, whatever its label is, from public predictions.

        A difference of squared or absolute errors is monotone in the label, so the ends of its range decide, and
        clipping brings losses nearer to each other.
        """
        if self.outputs == "numbers":
            wide = replace(setting, clip=max((setting.high - setting.low) ** 2, setting.high - setting.low))
            labels, scale = [setting.low, setting.high], wide.clip / setting.clip
        else:
            wide, labels, scale = setting, [float(number) for number in range(-1, max(setting.classes, 2))], 1.0
        found = [0.0]
        for label in labels:
            each = [Judged(outputs, np.full(len(outputs), label)) for outputs in (first, second)]
            for part, other in zip(*(self.parts(rows, wide) for rows in each), strict=True):
                found.append(scale * float(np.max(np.abs(part.numerators - other.numerators), initial=0.0)))
        return min(max(max(found) * (1.0 + _ROUNDING), _LEAST_REACH), 1.0)

    def procedure(self, planned: SeenParts, setting: Setting, sized: Sized, *, reach: float | None = None) -> Procedure:
        """See `ScoreKind.procedure`; with a reach, the procedure of a difference."""
        bounds = self.bounds(setting) if reach is None else partial(_stretched, self.bounds(setting), reach)
        nothing = np.zeros(0)
        how = [part.how for part in self.parts(self._empty(setting), setting)]
        scale = sized.sealed / max(sized.planned, 1)
        made: list[PartInterval] = []
        for kind, units in zip(how, planned.parts, strict=True):
            if kind == "free":
                made.append(FreeRatio(units, scale))
            elif kind == "share" and sized.largest == 1.0 and not sized.sliced:
                made.append(CountedPart(sized.sealed, sized.training))
            else:
                made.append(PartBets(units if len(units.sizes) else units_of(nothing, nothing), scale))
        shares = [1.0] * len(made) if self.weights is None else [*self.weights(setting)]
        of_level = tuple(share / math.fsum(shares) for share in shares)
        return Composite(tuple(made), of_level, bounds, planned, sized.sealed)

    def _empty(self, setting: Setting) -> Judged:
        width = (0, setting.classes) if self.outputs == "probabilities" else (0,)
        return Judged(np.zeros(width), np.zeros(0))


def _seen(parts: Sequence[RowPart], rows: Judged, bounds: Bounds, largest: float, *, empty: float) -> SeenParts:
    """Units of parts; ``empty`` is the value of a part without rows."""
    units, means = [], []
    for row_part in parts:
        part = row_part.among(rows.counting)
        above, below = (_by_group(values, rows) for values in (part.numerators, part.whole))
        total = float(below.sum())
        means.append(float(above.sum()) / total if total > 0.0 else empty)
        units.append(units_of(above, below, largest=largest))
    at = np.array(means)
    return SeenParts(min(max(bounds(at, at)[0], 0.0), 1.0), tuple(units))


def _stretched(bounds: Bounds, reach: float, low: Floats, high: Floats) -> tuple[float, float]:
    """Bounds of a difference over its reach, on the scale of the difference."""
    least, most = bounds(low, high)
    return (1.0 + reach * (2.0 * least - 1.0)) / 2.0, (1.0 + reach * (2.0 * most - 1.0)) / 2.0


def _bounds_of_explained(setting: Setting) -> Bounds:
    scale = setting.clip / (setting.high - setting.low) ** 2
    return partial(halved, partial(composites.explained, centre=setting.centre, scale=scale))


def halved(bounds: Bounds, low: Floats, high: Floats) -> tuple[float, float]:
    """Bounds in [-1, 1], on the scale [0, 1]."""
    least, most = bounds(low, high)
    return (1.0 + least) / 2.0, (1.0 + most) / 2.0


def kinds() -> tuple[OfParts, ...]:
    """Scores that follow from parts, except those that are one mean or ratio of the library already."""
    unit, signed = (lambda _: (0.0, 1.0)), (lambda _: (-1.0, 1.0))
    every, two, number = ("binary", "number", "string"), ("binary",), ("binary", "number")

    def of_loss(name: str, what: str, outputs: Outputs, labels: tuple[str, ...], *settings: str) -> OfParts:
        return OfParts(
            name, outputs, labels, lambda setting: (0.0, -setting.clip), settings,
            parts=partial(loss, of=what), bounds=lambda _: composites.itself, paired=True,
        )  # fmt: skip

    return (
        OfParts("accuracy", "classes", every, unit, parts=right_parts, bounds=lambda _: composites.itself, paired=True),
        OfParts("error", "classes", every, lambda _: (1.0, 0.0), greater=False, parts=right_parts,
                bounds=lambda _: composites.itself, paired=True),
        OfParts("brier", "probability", two, unit, greater=False, parts=partial(loss, of="squared"),
                bounds=lambda _: composites.itself, paired=True),
        OfParts("balanced_accuracy", "classes", every, unit, parts=partial(class_parts, of="actual"),
                bounds=lambda _: composites.average, paired=True),
        OfParts("f1_macro", "classes", every, unit, parts=partial(class_parts, of="both"),
                bounds=lambda _: composites.average),
        OfParts("f1_weighted", "classes", every, unit, parts=weighted_parts,
                bounds=lambda _: composites.weighted_average,
                weights=lambda setting: [3.0] * setting.classes + [0.1] + [1.0] * setting.classes + [0.1]),
        OfParts("precision", "classes", two, unit, parts=lambda rows, _: [hit_part(rows, rows.outputs)],
                bounds=lambda _: composites.itself),
        OfParts("recall", "classes", two, unit, parts=lambda rows, _: [hit_part(rows, rows.labels)],
                bounds=lambda _: composites.itself),
        OfParts("f1", "classes", two, unit, parts=lambda rows, setting: class_parts(rows, setting, of="both")[1:],
                bounds=lambda _: composites.itself),
        OfParts("matthews_corrcoef", "classes", two, signed, parts=correlation_parts,
                bounds=lambda _: partial(halved, composites.correlation_of_classes), weights=lambda _: (1.0, 4.0, 4.0)),
        of_loss("neg_log_loss", "log", "probabilities", every, "clip"),
        of_loss("neg_brier_score", "squared", "probability", two),
        of_loss("neg_mean_absolute_error", "absolute", "numbers", number, "low", "high", "clip"),
        of_loss("neg_mean_squared_error", "squared", "numbers", number, "low", "high", "clip"),
        OfParts("neg_root_mean_squared_error", "numbers", number, lambda setting: (0.0, -math.sqrt(setting.clip)),
                ("low", "high", "clip"), parts=partial(loss, of="squared"), bounds=lambda _: composites.root),
        OfParts("r2", "numbers", number, signed, ("low", "high", "clip"), parts=explained_parts,
                bounds=_bounds_of_explained, weights=lambda _: (6.0, 1.0, 1.0)),
    )  # fmt: skip
