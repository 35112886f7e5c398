"""Scores that follow from parts: their summaries of rows, and bounds over all parts (docs/theory/composites.md)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from everhold.guarantees.intervals.composites import boxes as composites
from everhold.guarantees.intervals.composites.parts import (
    Bounds,
    Composite,
    CountedPart,
    FreeRatio,
    PartBets,
    PartInterval,
    SeenParts,
    units_of,
)
from everhold.queries.metrics.score_pairs import PairedScores, of_correlation, of_explained, of_root, part_by_part
from everhold.queries.metrics.score_parts import (
    Judged,
    RowPart,
    Setting,
    Sized,
    class_parts,
    correlation_parts,
    explained_parts,
    failing_parts,
    hit_part,
    largest_loss,
    loss,
    right_parts,
    weighted_parts,
)
from everhold.values.clips import Clip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold.guarantees.intervals.base import Procedure
    from everhold.queries.metrics.score_parts import Floats
    from everhold.queries.metrics.scored_rows import Outputs

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
        unbounded: Whether it can be below the scale that `ends` gives, and above it.
    """

    name: str
    outputs: Outputs
    labels: tuple[str, ...]
    ends: Callable[[Setting], tuple[float, float]]
    settings: tuple[str, ...] = ()
    greater: bool = True
    unbounded: tuple[bool, bool] = (False, False)

    takes_groups: ClassVar[bool] = False
    takes_slices: ClassVar[bool] = False
    by_rank: ClassVar[bool] = False

    @abstractmethod
    def see(self, rows: Judged, setting: Setting, largest: float = 1.0) -> Any:
        """Summary of rows for the procedure; its ``score`` is on the scale [0, 1]."""

    def clips(self, rows: Judged | None, labels: Floats | None, setting: Setting) -> list[Clip]:
        """What of a row counts as the end of a range, with the share of public rows beyond.

        Args:
            rows: Training rows; None where their predictions are not known.
            labels: Of training rows, where only they are known.
            setting: The ranges.
        """
        if "clip" not in self.settings:
            return []

        def share(beyond: Callable[[Judged], Any]) -> float | None:
            with np.errstate(divide="ignore", invalid="ignore"):
                return None if rows is None else float(np.mean(beyond(rows)))

        if self.outputs == "probabilities":
            return [Clip("losses", None, setting.clip, share(lambda rows: largest_loss(rows, "log") > setting.clip))]
        low, high = setting.low, setting.high
        if rows is not None:
            labels = rows.labels
        of_labels = None if labels is None else float(np.mean((labels < low) | (labels > high)))
        of = "absolute" if self.name.endswith("absolute_error") else "squared"
        found = [
            Clip("labels", low, high, of_labels),
            Clip("predictions", low, high, share(lambda rows: (rows.outputs < low) | (rows.outputs > high))),
        ]
        widest = (high - low) ** (1 if of == "absolute" else 2)
        if setting.clip < widest * (1.0 - 1e-9):
            apart = share(lambda rows: largest_loss(rows, of) > setting.clip)
            found.append(Clip(f"{of} errors", None, setting.clip, apart))
        return found

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
        compared: Parts of the difference of two models; None where none is promised.
    """

    parts: Callable[[Judged, Setting], Sequence[RowPart]] = field(kw_only=True)
    bounds: Callable[[Setting], Bounds] = field(kw_only=True)
    weights: Callable[[Setting], Sequence[float]] | None = field(default=None, kw_only=True)
    compared: PairedScores | None = field(default=None, kw_only=True)

    takes_groups: ClassVar[bool] = True
    takes_slices: ClassVar[bool] = True

    def see(self, rows: Judged, setting: Setting, largest: float = 1.0) -> SeenParts:
        """Units of each part."""
        return _seen(self.parts(rows, setting), rows, self.bounds(setting), largest)

    def is_known(self, seen: SeenParts) -> bool:
        """See `ScoreKind.is_known`: some part has a denominator."""
        return any(len(units.sizes) for units in seen.parts)

    def thinned(self, seen: SeenParts, share: float) -> SeenParts:
        """See `ScoreKind.thinned`."""
        return replace(seen, parts=tuple(replace(units, counts=share * units.counts) for units in seen.parts))

    def see_difference(
        self, first: Judged, second: Judged, setting: Setting, largest: float = 1.0, *, reach: float = 1.0
    ) -> SeenParts:
        """Units of each part's difference for the same rows; a score of 1/2 is no difference."""
        assert self.compared is not None
        apart = self.compared.parts(first, second, setting, reach)
        return _seen(apart, first, self.compared.bounds(setting, reach), largest)

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
        nothing, empty = np.zeros(0), self.no_rows(setting)
        if self.compared is None or reach is None:
            parts, bounds = self.parts(empty, setting), self.bounds(setting)
            weights = None if self.weights is None else [*self.weights(setting)]
        else:
            parts, bounds = self.compared.parts(empty, empty, setting, reach), self.compared.bounds(setting, reach)
            weights = None if self.compared.weights is None else [*self.compared.weights]
        scale = sized.sealed / max(sized.planned, 1)
        made: list[PartInterval] = []
        for part, units in zip(parts, planned.parts, strict=True):
            if part.how == "free":
                made.append(FreeRatio(units, scale))
            elif part.how == "share" and sized.largest == 1.0 and not sized.sliced:
                made.append(CountedPart(sized.sealed, sized.training))
            else:
                made.append(PartBets(units if len(units.sizes) else units_of(nothing, nothing), scale))
        return Composite(tuple(made), _shares(weights, len(made)), bounds, planned, sized.sealed)

    def no_rows(self, setting: Setting) -> Judged:
        """No rows, with predictions of the shape that the score needs."""
        width = (0, setting.classes) if self.outputs == "probabilities" else (0,)
        return Judged(np.zeros(width), np.zeros(0))


def _shares(weights: Sequence[float] | None, parts: int) -> tuple[float, ...]:
    """Shares of the level, which add up to 1 at most."""
    given = [1.0] * parts if weights is None else weights
    return tuple(share / max(math.fsum(given), 1.0) for share in given)


def _seen(parts: Sequence[RowPart], rows: Judged, bounds: Bounds, largest: float) -> SeenParts:
    """Units of parts."""
    units, means = [], []
    for row_part in parts:
        part = row_part.among(rows.counting)
        above, below = (_by_group(values, rows) for values in (part.numerators, part.whole))
        total = float(below.sum())
        means.append(float(above.sum()) / total if total > 0.0 else part.empty)
        units.append(units_of(above, below, largest=largest))
    at = np.array(means)
    return SeenParts(min(max(bounds(at, at)[0], 0.0), 1.0), tuple(units))


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

    squares, recalls = partial(loss, of="squared"), partial(class_parts, of="actual")

    def only(_: Setting) -> Bounds:
        return composites.itself

    def mean(_: Setting) -> Bounds:
        return composites.average

    def of_loss(name: str, what: str, outputs: Outputs, labels: tuple[str, ...], *settings: str) -> OfParts:
        return OfParts(
            name, outputs, labels, lambda setting: (0.0, -setting.clip), settings,
            parts=partial(loss, of=what), bounds=only, compared=part_by_part(partial(loss, of=what), only),
        )  # fmt: skip

    return (
        OfParts("accuracy", "classes", every, unit, parts=right_parts, bounds=only,
                compared=part_by_part(right_parts, only)),
        OfParts("error", "classes", every, lambda _: (1.0, 0.0), greater=False, parts=right_parts,
                bounds=only, compared=part_by_part(right_parts, only)),
        OfParts("failing_rows", "classes", every, unit, greater=False, parts=failing_parts, bounds=only,
                compared=part_by_part(failing_parts, only)),
        OfParts("brier", "probability", two, unit, greater=False, parts=squares, bounds=only,
                compared=part_by_part(squares, only)),
        OfParts("balanced_accuracy", "classes", every, unit, parts=recalls, bounds=mean,
                compared=part_by_part(recalls, mean)),
        OfParts("f1_macro", "classes", every, unit, parts=partial(class_parts, of="both"),
                bounds=mean),
        OfParts("f1_weighted", "classes", every, unit, parts=weighted_parts,
                bounds=lambda _: composites.weighted_average,
                weights=lambda setting: [3.0] * setting.classes + [0.1] + [1.0] * setting.classes + [0.1]),
        OfParts("precision", "classes", two, unit, parts=lambda rows, _: [hit_part(rows, among="predicted")],
                bounds=only),
        OfParts("recall", "classes", two, unit, parts=lambda rows, _: [hit_part(rows, among="actual")],
                bounds=only),
        OfParts("f1", "classes", two, unit, parts=lambda rows, setting: class_parts(rows, setting, of="both")[1:],
                bounds=only),
        OfParts("matthews_corrcoef", "classes", two, signed, parts=correlation_parts,
                bounds=lambda _: partial(halved, composites.correlation_of_classes), weights=lambda _: (1.0, 4.0, 4.0),
                compared=of_correlation()),
        of_loss("neg_log_loss", "log", "probabilities", every, "clip"),
        of_loss("neg_brier_score", "squared", "probability", two),
        of_loss("neg_mean_absolute_error", "absolute", "numbers", number, "low", "high", "clip"),
        of_loss("neg_mean_squared_error", "squared", "numbers", number, "low", "high", "clip"),
        OfParts("neg_root_mean_squared_error", "numbers", number, lambda setting: (0.0, -math.sqrt(setting.clip)),
                ("low", "high", "clip"), parts=squares, bounds=lambda _: composites.root, compared=of_root()),
        OfParts("r2", "numbers", number, signed, ("low", "high", "clip"), parts=explained_parts,
                unbounded=(True, False), bounds=_bounds_of_explained, weights=lambda _: (6.0, 1.0, 1.0),
                compared=of_explained()),
    )  # fmt: skip
