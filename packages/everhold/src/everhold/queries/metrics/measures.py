"""Computations of metrics: summaries of rows, and the procedures of their intervals (docs/theory/composites.md).

The table at the end of the file has one for each metric of `everhold.queries.metrics.registry`, by its name.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import scipy

from everhold.extensions import imported
from everhold.guarantees.intervals import boxes as composites
from everhold.guarantees.intervals import thresholds
from everhold.guarantees.intervals.arms import ArmDifference, SeenArms
from everhold.guarantees.intervals.gains import ClassGains, losses_of_pairs
from everhold.guarantees.intervals.joint import Units
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
from everhold.queries.metrics import score_parts
from everhold.queries.metrics.score_parts import Floats, Judged, PairedScores, Parts, RowPart, Setting, Sized
from everhold.values.base import Clip
from everhold.values.evaluation import worst_ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.queries.metrics.registry import Metric

_LEAST_REACH, _ROUNDING = 1e-9, 1e-12


@dataclass(frozen=True, slots=True)
class Measure:
    """The computation of one metric: how rows are summarised and which interval procedure is used.

    Attributes:
        metric: The public facts about the metric.
        likely: Function that makes artificial rows with about a wanted value of the metric, to plan with if no
            predictions for public rows are known. None for the usual rows of its kind of outputs. No promise depends
            on these rows.
        power: Power of the distance between number and label in the loss of a row.
        by_rank: True if the metric's proof does not hold for a split that fixed the shares of classes.
        compares: True if the difference of two models is computed (`see_difference`).
        weighs: True if rows may count with weights.
        needs_rows: True if a procedure is planned from public rows. If the predictions for these are unknown, made-up
            rows take their place.
    """

    metric: Metric
    likely: Likely | None = field(default=None, kw_only=True)
    power: int = field(default=2, kw_only=True)

    by_rank: ClassVar[bool] = False
    compares: ClassVar[bool] = False
    needs_rows: ClassVar[bool] = True
    weighs: ClassVar[bool] = False

    @abstractmethod
    def see(self, rows: Judged, setting: Setting, largest: float = 1.0) -> Any:
        """Summarise rows for the interval procedure. The summary has a ``score`` on the scale [0, 1]."""

    def clips(self, rows: Judged | None, labels: Floats | None, setting: Setting) -> list[Clip]:
        """Return notes about ranges at which labels, predictions or losses are clipped, with shares of rows outside.

        Only metrics with the setting ``clip`` have such notes.

        Args:
            rows: Training rows with predictions; None if their predictions are not known.
            labels: Labels of training rows, for the case that their predictions are not known.
            setting: The ranges at which numbers are clipped.
        """

        def share(beyond: Callable[[Judged], Any]) -> float | None:
            with np.errstate(divide="ignore", invalid="ignore"):
                return None if rows is None else float(np.mean(beyond(rows)))

        if self.metric.outputs == "probabilities":
            return [
                Clip(
                    "losses",
                    None,
                    setting.clip,
                    share(lambda rows: score_parts.losses_of(rows, setting, of="log") > setting.clip),
                )
            ]
        low, high = setting.low, setting.high
        if rows is not None:
            labels = rows.labels
        of_labels = None if labels is None else float(np.mean((labels < low) | (labels > high)))
        of = "relative" if setting.floor else "absolute" if self.power == 1 else "squared"
        found = [
            Clip("labels", low, high, of_labels),
            Clip("predictions", low, high, share(lambda rows: (rows.outputs < low) | (rows.outputs > high))),
        ]
        widest = (high - low) / setting.floor if setting.floor else (high - low) ** self.power
        if setting.clip < widest * (1.0 - 1e-9):
            apart = share(lambda rows: score_parts.losses_of(rows, setting, of=of) > setting.clip)
            found.append(Clip(f"{of} errors", None, setting.clip, apart))
        return found

    def see_difference(
        self, first: Judged, second: Judged, setting: Setting, largest: float = 1.0, *, reach: float = 1.0
    ) -> Any:
        """Summarise the difference of two models on the same rows, on a scale where 1/2 is no difference."""
        raise NotImplementedError

    def reach(self, first: Floats, second: Floats, setting: Setting) -> float:
        """Return a bound of how far one row, with any label, can move the difference of two public predictions."""
        return 1.0

    def is_known(self, rows: Judged, seen: Any) -> bool:
        """Return whether enough of the given rows count, so that the metric can be computed from them."""
        return True

    def thinned(self, seen: Any, share: float) -> Any:
        """Return the summary with all counts multiplied by ``share``, as if fewer or more rows counted."""
        return seen

    @abstractmethod
    def procedure(self, planned: Any, setting: Setting, sized: Sized, *, reach: float | None = None) -> Procedure:
        """Return the interval procedure, planned from public rows; for a difference if a reach is given."""


@cache
def measure_of(metric: Metric) -> Measure:
    """Return the computation of a metric: one of everhold's own, or the one that an extension names."""
    made: Measure = imported(metric.measure_at)(metric) if metric.measure_at else _OWN[metric.name](metric)
    return made


@dataclass(frozen=True, slots=True)
class PartsMeasure(Measure):
    """The computation of a metric as a function of parts, each of which has an interval of its own.

    Attributes:
        parts: Function from rows and the setting to the parts.
        bounds: Function from the setting to the bounds of the score on the scale [0, 1].
        weights: Function from the setting to each part's share of the level; by default all shares are equal.
        compared: Parts of the difference of two models; None if a difference has no interval.
        of_classes: Function from the number of independent rows to bets on the gain in each class, for gates.
    """

    parts: Parts = field(kw_only=True)
    bounds: Callable[[Setting], Bounds] = field(kw_only=True)
    weights: Callable[[Setting], Sequence[float]] | None = field(default=None, kw_only=True)
    compared: PairedScores | None = field(default=None, kw_only=True)
    of_classes: Callable[[int], ClassGains] | None = field(default=None, kw_only=True)

    weighs: ClassVar[bool] = True

    def see(self, rows: Judged, setting: Setting, largest: float = 1.0) -> SeenParts:
        """Return for each part of the metric its sums in each independent unit, a row or a group."""
        return _seen(self.parts(rows, setting), rows, self.bounds(setting), largest)

    @property
    def compares(self) -> bool:  # type: ignore[override]
        """Whether the difference of two models can be computed from parts."""
        return self.compared is not None

    def is_known(self, rows: Judged, seen: SeenParts) -> bool:
        """Return whether some part has a unit with a denominator above 0."""
        return any(len(units.sizes) for units in seen.parts)

    def thinned(self, seen: SeenParts, share: float) -> SeenParts:
        """Return the summary with all counts multiplied by ``share``."""
        return replace(seen, parts=tuple(units.times(share) for units in seen.parts))

    def see_difference(
        self, first: Judged, second: Judged, setting: Setting, largest: float = 1.0, *, reach: float = 1.0
    ) -> SeenParts:
        """Return for each part of the difference of two models its sums in each independent unit."""
        assert self.compared is not None
        apart = self.compared.parts(first, second, setting, reach)
        return _seen(apart, first, self.compared.bounds(setting, reach), largest)

    def reach(self, first: Floats, second: Floats, setting: Setting) -> float:
        """Return a bound of how far one row, with any label, can move the difference of two public predictions.

        A difference of squared or absolute errors is monotone in the label, so it is largest at an end of the labels'
        range. Clipping only makes differences of losses smaller.
        """
        if self.metric.outputs == "numbers":
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
        """Return the interval procedure of the score, or of a difference, from procedures of its parts."""
        empty = self.no_rows(setting)
        if self.compared is None or reach is None:
            parts, bounds = self.parts(empty, setting), self.bounds(setting)
            weights = None if self.weights is None else [*self.weights(setting)]
        else:
            parts, bounds = self.compared.parts(empty, empty, setting, reach), self.compared.bounds(setting, reach)
            weights = None if self.compared.weights is None else [*self.compared.weights]
        scale = sized.sealed / max(sized.planned, 1)
        made: list[PartInterval] = []
        for part, units in zip(parts, planned.parts, strict=True):
            made.append(FreeRatio(units, scale) if part.how == "free" else _interval_of(part.how, units, sized))
        likely = self.thinned(planned, scale)
        return Composite(tuple(made), _shares(weights, len(made)), bounds, likely, sized.sealed)

    def no_rows(self, setting: Setting) -> Judged:
        """Return an empty set of rows, with predictions of the shape that the metric needs."""
        width = (0, setting.classes) if self.metric.outputs == "probabilities" else (0,)
        return Judged(np.zeros(width), np.zeros(0))


@dataclass(frozen=True, slots=True)
class RatesMeasure(PartsMeasure):
    """The computation of ratios of counts, such as F1, whose denominators a model decides.

    The ratios of two models are compared by bets on both of them at once (Statement K).

    Attributes:
        rate: Name of the ratio, one of `RATIOS`.
    """

    rate: str = field(kw_only=True)

    @property
    def compares(self) -> bool:  # type: ignore[override]
        """True: the difference of two models can be computed."""
        return True

    def see_difference(
        self, first: Judged, second: Judged, setting: Setting, largest: float = 1.0, *, reach: float = 1.0
    ) -> SeenParts:
        """Return for each ratio the units of both models, as the two arms of a contrast."""
        seen, apart, losses = [], [], losses_of_pairs(self.rate)
        for pair in zip(self.parts(first, setting), self.parts(second, setting), strict=True):
            both = [part.among(first.counting) for part in pair]
            sums = np.array([values for part in both for values in (part.numerators, part.whole)])
            if first.groups is not None:
                sums = np.array([np.bincount(first.groups, values) for values in sums])
            kinds, found = np.unique(sums, axis=1, return_counts=True)
            arms = [Units(kinds[place + 1], kinds[place], found.astype(np.float64), largest) for place in (0, 2)]
            own, other = (
                units.score if units.total > 0.0 else part.empty for units, part in zip(arms, both, strict=True)
            )
            apart.append((1.0 + own - other) / 2.0)
            seen.append(SeenArms(arms[0], arms[1], losses=losses))
        return SeenParts(float(np.mean(apart)), tuple(seen))

    def reach(self, first: Floats, second: Floats, setting: Setting) -> float:
        """Return 1: what a row can move depends on the values of both ratios, against which bets are made."""
        return 1.0

    def procedure(self, planned: SeenParts, setting: Setting, sized: Sized, *, reach: float | None = None) -> Procedure:
        """Return the interval procedure of the score, or of the difference of two models."""
        if reach is None:
            return PartsMeasure.procedure(self, planned, setting, sized)
        scale = sized.sealed / max(sized.planned, 1)
        parts: list[PartInterval] = []
        for arms in planned.parts:
            if not (arms.treated.total > 0.0 and arms.control.total > 0.0):  # public rows show nothing of the ratio
                rows, largest = np.full(2, max(sized.planned, 4) / 4.0), arms.treated.largest
                even = Units(np.ones(2), np.array([0.0, 1.0]), rows, largest)  # half right and half wrong
                arms = replace(arms, treated=even, control=even)
            parts.append(ArmDifference(arms, scale, sized.sealed))
        likely = self.thinned(planned, scale)
        return Composite(tuple(parts), _shares(None, len(parts)), composites.average, likely, sized.sealed)


def _interval_of(how: str, planned: Units, sized: Sized) -> CountedPart | PartBets:
    """Return the interval procedure of a mean or a ratio: exact limits of a share of independent rows, or bets."""
    if how == "share" and sized.largest == 1.0 and not sized.sliced:
        return CountedPart(sized.sealed, sized.training)
    nothing = np.zeros(0)
    scale = sized.sealed / max(sized.planned, 1)
    return PartBets(planned if len(planned.sizes) else units_of(nothing, nothing), scale)


def _shares(weights: Sequence[float] | None, parts: int) -> tuple[float, ...]:
    """Return how the allowed probability of error is split among the parts: shares that add up to at most 1."""
    given = [1.0] * parts if weights is None else weights
    return tuple(share / max(math.fsum(given), 1.0) for share in given)


def _seen(parts: Sequence[RowPart], rows: Judged, bounds: Bounds, largest: float) -> SeenParts:
    """Return the value of each part on the given rows, and its sums in each independent unit (a row or a group)."""
    units, means = [], []
    for row_part in parts:
        part = row_part.among(rows.counting)
        above, below = part.numerators, part.whole
        if rows.groups is not None:
            above, below = (np.bincount(rows.groups, values).astype(np.float64) for values in (above, below))
        total = float(below.sum())
        means.append(float(above.sum()) / total if total > 0.0 else part.empty)
        by_sizes = part.denominators is None and rows.groups is not None
        units.append(units_of(above, below, largest=largest, public=by_sizes))
    at = np.array(means)
    return SeenParts(min(max(bounds(at, at)[0], 0.0), 1.0), tuple(units))


def halved(bounds: Bounds, low: Floats, high: Floats) -> tuple[float, float]:
    """Convert bounds in [-1, 1] to the scale [0, 1]."""
    least, most = bounds(low, high)
    return (1.0 + least) / 2.0, (1.0 + most) / 2.0


@dataclass(frozen=True, slots=True)
class CalibrationMeasure(Measure):
    """The computation of the expected calibration error, by equal bins of the probability of label 1."""

    def see(self, rows: Judged, setting: Setting, largest: float = 1.0) -> thresholds.SeenBins:
        """Summarise rows by bin."""
        return thresholds.seen_bins(rows.outputs, rows.labels, setting.bins)

    def procedure(
        self, planned: thresholds.SeenBins, setting: Setting, sized: Sized, *, reach: float | None = None
    ) -> Procedure:
        """Return the interval procedure of the calibration error, planned from public rows."""
        return thresholds.CalibrationBets(planned, sized.sealed, sized.training)


@dataclass(frozen=True, slots=True)
class RecallAtRate(Measure):
    """The computation of the largest recall among thresholds whose false positive rate is at most a given one."""

    by_rank: ClassVar[bool] = True

    def see(self, rows: Judged, setting: Setting, largest: float = 1.0) -> thresholds.SeenRules:
        """Return the numbers of positive and negative rows predicted as 1 at each threshold."""
        return thresholds.seen_rules(worst_ranks(rows.outputs, rows.labels), rows.labels == 1.0, setting.rate)

    def procedure(
        self, planned: thresholds.SeenRules, setting: Setting, sized: Sized, *, reach: float | None = None
    ) -> Procedure:
        """Return the interval procedure of the recall, planned from public rows."""
        return thresholds.OperatingPoint(planned, sized.sealed, sized.training, setting.rate, sized.unlike)


@dataclass(frozen=True, slots=True)
class MedianMeasure(Measure):
    """The computation of the median distance of predicted numbers from labels."""

    def see(self, rows: Judged, setting: Setting, largest: float = 1.0) -> thresholds.SeenLosses:
        """Return the losses of the rows, with the units that count rows up to a given loss."""
        (losses,) = (part.numerators for part in score_parts.loss(rows, setting, of="absolute"))
        counting = losses if rows.counting is None else losses[rows.counting]

        def up_to(edge: float) -> Units:
            share = RowPart((losses <= edge).astype(np.float64), None, "share")
            return _seen([share], rows, composites.itself, largest).parts[0]  # type: ignore[no-any-return]

        return thresholds.SeenLosses(float(np.median(counting)) if len(counting) else 0.5, np.unique(counting), up_to)

    def is_known(self, rows: Judged, seen: thresholds.SeenLosses) -> bool:
        """Return whether at least one row counts."""
        return len(seen.edges) > 0

    def thinned(self, seen: thresholds.SeenLosses, share: float) -> thresholds.SeenLosses:
        """Return the summary with all counts multiplied by ``share``."""

        def up_to(edge: float) -> Units:
            units = seen.up_to(edge)
            return replace(units, counts=share * units.counts)

        return replace(seen, up_to=up_to)

    def procedure(
        self, planned: thresholds.SeenLosses, setting: Setting, sized: Sized, *, reach: float | None = None
    ) -> Procedure:
        """Return the interval procedure of the median. It tests all losses by one procedure with fixed stakes."""
        likely = self.thinned(planned, sized.sealed / max(sized.planned, 1))
        return thresholds.MedianOfLosses(
            likely, sized.sealed, _interval_of("share", planned.up_to(planned.score), sized)
        )


def average_of(metric: Metric, parts: Parts, **more: Any) -> PartsMeasure:
    """Return the computation of a metric that is the average of its parts, whose denominators no model decides.

    Args:
        metric: The entry of the metric in the registry.
        parts: Function from rows and the setting to the parts.
        **more: Other attributes of `PartsMeasure`.
    """
    pairs = score_parts.part_by_part(parts, composites.average)
    return PartsMeasure(metric, parts=parts, bounds=lambda _: composites.average, compared=pairs, **more)


# Made-up rows whose score is about a guessed one, where predictions of training rows are unknown.
#
# They decide only the expected width of an interval, and no promise. All of them are public.

_ROWS = 2_000
_FEW = 1e-3
_EVEN, _UNEXPLAINED = 0.5, 0.5


class RowsWanted(NamedTuple):
    """Properties that artificial rows should have.

    Attributes:
        metric: The metric for which rows are made up.
        setting: Numbers that define it.
        at: Value that the metric should have on the rows, on the scale [0, 1].
        labels: Public labels of the rows.
        rng: Generator of the random numbers that are used.
        told: Predictions that were passed for the sealed rows, shape (sealed rows,) or (sealed rows, classes). None for
            other predictions.
    """

    metric: Metric
    setting: Setting
    at: float
    labels: NDArray[np.float64]
    rng: np.random.Generator
    told: NDArray[np.float64] | None


Likely: TypeAlias = Callable[[RowsWanted], Judged]
"""Function that makes up rows."""


def made_up(
    metric: Metric, setting: Setting, at: float, labels: NDArray[np.float64] | None, likely: Likely | None,
    told: NDArray[np.float64] | None = None,
) -> Judged:  # fmt: skip
    """Return made-up predictions and labels with about the guessed score.

    Args:
        metric: The metric for which rows are made up.
        setting: Numbers that define it.
        at: The guessed score, on the scale [0, 1].
        labels: Labels of the training rows, if there are any; classes as their numbers.
        likely: The function that makes the rows; by default that for the metric's kind of outputs.
        told: Predictions that were passed for the sealed rows. None for other predictions.
    """
    rng, outputs = np.random.default_rng(0), metric.outputs
    if labels is None or not len(labels):
        numbers = np.linspace(setting.low, setting.high, _ROWS)
        labels = numbers if outputs == "numbers" else (np.arange(_ROWS) % max(setting.classes, 2)).astype(np.float64)
    labels = rng.choice(labels, _ROWS) if len(labels) > _ROWS else rng.permutation(labels)
    return (likely or _USUAL[outputs])(RowsWanted(metric, setting, at, labels, rng, told))


def shuffled_within(labels: NDArray[np.float64], outputs: NDArray[Any]) -> NDArray[Any]:
    """Return predictions exchanged at random among rows of the same label, as of another model with the same score."""
    found = outputs.copy()
    found[np.argsort(labels, kind="stable")] = outputs[
        np.lexsort((np.random.default_rng(1).random(len(labels)), labels))
    ]
    return found


def exchanged(kept: Callable[[NDArray[np.float64], NDArray[np.float64]], float] | None) -> Likely:
    """Return a maker of predicted classes, correct except for some that are exchanged at random.

    Args:
        kept: Function from labels and shares of the classes to the value that the metric keeps if all predictions are
            exchanged. None for a correlation, which becomes 0.
    """

    def likely(wanted: RowsWanted) -> Judged:
        labels, share = wanted.labels, min(2.0 - 2.0 * wanted.at, 1.0)
        if kept is not None:  # a class of the share p keeps 1 - w (1 - p) of its F1
            shares = np.unique(labels, return_counts=True)[1] / len(labels)
            share = min(max((1.0 - wanted.at) / max(1.0 - kept(labels, shares), _FEW), 0.0), 1.0)
        mixed = wanted.rng.random(len(labels)) < share
        outputs = labels.copy()
        outputs[mixed] = wanted.rng.permutation(labels[mixed])
        return Judged(outputs, labels)

    return likely


def with_errors(size: Callable[[float, NDArray[np.float64]], float]) -> Likely:
    """Return a maker of predicted numbers with normal errors.

    Args:
        size: Function from the requested value of the metric and the labels to the standard deviation of errors, in
            units of the labels.
    """

    def likely(wanted: RowsWanted) -> Judged:
        labels, (zero, one) = wanted.labels, wanted.metric.ends(wanted.setting)
        errors = size(zero + (one - zero) * wanted.at, labels) * wanted.rng.normal(size=len(labels))
        return Judged(labels + errors, labels)

    return likely


def unexplained(told: float, labels: NDArray[np.float64]) -> float:
    """Return the standard deviation of errors with which the share ``told`` of the labels' variance is explained."""
    return float(np.sqrt(max(1.0 - told, _FEW) * max(float(np.var(labels)), _FEW**2)))


def near_labels(wanted: RowsWanted) -> Judged:
    """Return probabilities whose mean squared distance from the labels is about the wanted one."""
    labels = wanted.labels
    apart = np.clip(np.abs(wanted.rng.normal(size=len(labels))) * np.sqrt(wanted.at), 0.0, 1.0)
    return Judged(np.where(labels == 1.0, 1.0 - apart, apart), labels)


def _uncalibrated(wanted: RowsWanted) -> Judged:
    """Return probabilities, public or artificial, and artificial labels with about the wanted calibration error."""
    told = wanted.rng.random(len(wanted.labels)) if wanted.told is None else wanted.told
    chances = np.clip(told - wanted.at * np.sign(told - 0.5), 0, 1)  # as of a model that is too sure
    return Judged(told, (wanted.rng.random(len(told)) < chances).astype(float))


def _shifted(wanted: RowsWanted) -> Judged:
    """Return normal scores that are higher for label 1, with about the wanted recall at the false positive rate."""
    at = min(max(wanted.at, _FEW), 1.0 - _FEW)
    apart = float(scipy.special.ndtri(at) + scipy.special.ndtri(1.0 - wanted.setting.rate))
    return Judged(wanted.rng.normal(size=len(wanted.labels)) + apart * wanted.labels, wanted.labels)


def _distributions(wanted: RowsWanted) -> Judged:
    """Return artificial probabilities of all classes with about the wanted logarithmic loss."""
    setting, labels = wanted.setting, wanted.labels
    chance = np.exp(-wanted.at * setting.clip * wanted.rng.exponential(size=len(labels)))
    told = np.repeat(((1.0 - chance) / max(setting.classes - 1, 1))[:, None], setting.classes, axis=1)
    places = np.clip(labels, 0, setting.classes - 1).astype(np.int64)
    told[np.arange(len(labels)), places] = chance
    return Judged(told, labels)


def probabilities_apart(wanted: RowsWanted) -> Judged:
    """Return artificial probabilities of all classes with about the wanted AUC of each class against all others."""
    classes, labels = wanted.setting.classes, wanted.labels
    apart = float(np.sqrt(2.0) * scipy.special.ndtri(min(max(wanted.at, _FEW), 1.0 - _FEW)))
    scores = wanted.rng.normal(size=(len(labels), classes)) + apart * (labels[:, None] == np.arange(classes))
    return Judged(scipy.special.softmax(scores, axis=1), labels)


_USUAL: dict[str, Likely] = {
    "classes": exchanged(lambda _, shares: 1.0 / len(shares)), "numbers": with_errors(lambda told, _: -told),
    "probability": _uncalibrated, "probabilities": _distributions, "scores": _shifted,
}  # fmt: skip


def likely_labels(
    metric: Metric, first: NDArray[np.float64], second: NDArray[np.float64], labels: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Draw labels of rows with public predictions, as if both models were about right, shape (rows,).

    Args:
        metric: The metric that compares the models.
        first: Predictions of one model, shape (rows,) or (rows, classes).
        second: Predictions of the other model, of the same shape.
        labels: Labels of the training rows; None if there are none. If labels are numbers, they are spread about
            predictions half as far as the training labels.
    """
    rng, rows = np.random.default_rng(0), len(first)
    if metric.outputs == "classes":
        return np.where(rng.random(rows) < _EVEN, first, second)
    middle = (first + second) / 2.0
    if metric.outputs == "numbers":
        spread = float(np.std(middle if labels is None or not len(labels) else labels))
        return np.asarray(middle + _UNEXPLAINED * spread * rng.normal(size=rows))
    if middle.ndim == 1:
        return (rng.random(rows) < middle).astype(np.float64)
    return np.asarray((rng.random(rows)[:, None] > np.cumsum(middle, axis=1)[:, :-1]).sum(axis=1), dtype=np.float64)


# The computation of each metric.


def _rate(metric: Metric) -> PartsMeasure:
    """Return the computation of precision, recall or F1 of label 1, which are ratios of counts."""
    return RatesMeasure(
        metric, parts=lambda rows, _: [score_parts.rate_part(rows, 1, metric.name)], bounds=lambda _: composites.itself,
        likely=exchanged(lambda labels, _: float(np.mean(labels == 1.0))), rate=metric.name,
    )  # fmt: skip


def _bounds_of_explained(setting: Setting) -> Bounds:
    """Return the bounds of R2, converted to the scale [0, 1]."""
    scale = setting.clip / (setting.high - setting.low) ** 2
    return partial(halved, partial(composites.explained, centre=setting.centre, scale=scale))


_squared, _absolute = partial(score_parts.loss, of="squared"), partial(score_parts.loss, of="absolute")
_brier = partial(average_of, parts=_squared, likely=near_labels)

_OWN: Mapping[str, Callable[[Metric], Measure]] = {
    "accuracy": partial(average_of, parts=score_parts.right_parts),
    "error": partial(average_of, parts=score_parts.right_parts),  # the same share, told the other way round
    "failing_rows": partial(average_of, parts=score_parts.failing_parts),
    "brier": _brier,
    "neg_brier_score": _brier,
    "neg_log_loss": partial(average_of, parts=partial(score_parts.loss, of="log")),
    "neg_mean_absolute_error": partial(
        average_of, parts=_absolute, likely=with_errors(lambda told, _: -1.25 * told), power=1
    ),
    "neg_median_absolute_error": partial(
        MedianMeasure, likely=with_errors(lambda told, _: -1.48 * told), power=1
    ),
    "mape": partial(
        average_of, parts=partial(score_parts.loss, of="relative"), power=1,
        likely=with_errors(lambda told, labels: 1.25 * told * float(np.mean(np.abs(labels)))),
    ),
    "net_benefit": partial(average_of, parts=score_parts.benefit_parts, likely=near_labels),
    "calibration_in_the_large": partial(average_of, parts=score_parts.excess_parts),
    "neg_mean_squared_error": partial(
        average_of, parts=_squared, likely=with_errors(lambda told, _: math.sqrt(-told))
    ),
    "neg_root_mean_squared_error": partial(
        PartsMeasure, parts=_squared, bounds=lambda _: composites.root, compared=score_parts.of_root()
    ),
    "r2": partial(
        PartsMeasure, parts=score_parts.explained_parts, bounds=_bounds_of_explained, weights=lambda _: (6.0, 1.0, 1.0),
        compared=score_parts.of_explained(), likely=with_errors(unexplained),
    ),
    "balanced_accuracy": partial(average_of, parts=partial(score_parts.class_parts, rate="recall")),
    "f1_macro": partial(
        RatesMeasure, parts=partial(score_parts.class_parts, rate="f1"), bounds=lambda _: composites.average, rate="f1",
        of_classes=partial(ClassGains, "f1"),
    ),
    "f1_weighted": partial(
        PartsMeasure, parts=score_parts.weighted_parts, bounds=lambda _: composites.weighted_average,
        weights=lambda setting: [3.0] * setting.classes + [0.1] + [1.0] * setting.classes + [0.1],
        likely=exchanged(lambda labels, shares: float(np.sum(shares**2))),
        of_classes=partial(ClassGains, "f1", weighted=True),
    ),
    "precision": _rate,
    "recall": _rate,
    "f1": _rate,
    "matthews_corrcoef": partial(
        PartsMeasure, parts=score_parts.correlation_parts,
        bounds=lambda _: partial(halved, composites.correlation_of_classes), weights=lambda _: (1.0, 4.0, 4.0),
        compared=score_parts.of_correlation(), likely=exchanged(None),
    ),
    "expected_calibration_error": CalibrationMeasure,
    "recall_at_fpr": RecallAtRate,
}  # fmt: skip
"""Functions from a metric of everhold to its computation, by name."""
