"""Rows as metrics read them, the parts of each metric, row by row, and losses by name (docs/theory/composites.md).

The parts of one model come first, then those of the difference of two models on the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from everhold.guarantees.intervals import boxes
from everhold.guarantees.intervals.gains import RATIOS
from everhold.guarantees.intervals.parts import Bounds
from everhold.values.evaluation import largest_losses, says

if TYPE_CHECKING:
    from numpy.typing import NDArray

Floats: TypeAlias = "NDArray[np.float64]"


@dataclass(frozen=True, slots=True)
class Setting:
    """The public numbers that define a metric for one holdout.

    Attributes:
        classes: Number of classes of the label; 0 if the label is a number.
        low: Least label and prediction of a number; smaller ones count as this.
        high: Largest label and prediction of a number; larger ones count as this.
        clip: Largest loss of a row; larger ones count as this.
        centre: Centre of the labels, on the scale [0, 1].
        threshold: Least probability with which a row is treated as positive.
        floor: Least number by which errors are divided, as shares of the label; 0 if they are not divided.
        share: Planned share of label 1.
        shares: Planned share of each class.
        dealt: Units of an AUC's interval: ``"blocks"`` of rows, ``"ranks"`` of known scores, or blocks of ``"groups"``.
    """

    classes: int = 0
    low: float = 0.0
    high: float = 1.0
    clip: float = 1.0
    centre: float = 0.5
    bins: int = 10
    rate: float = 0.05
    threshold: float = 0.5
    floor: float = 0.0
    share: float = 0.5
    shares: tuple[float, ...] = ()
    dealt: Literal["blocks", "ranks", "groups"] = "blocks"


@dataclass(frozen=True, slots=True)
class Judged:
    """Predictions and labels of some rows, with classes as numbers from 0, and -1 for no class.

    Attributes:
        outputs: Shape (rows,), or (rows, classes) of probabilities; nan where a model fails.
        labels: Classes or numbers of the rows' labels, of shape (rows,).
        groups: Group of each row as a number from 0, shape (rows,); None if rows are independent.
        counting: Shape (rows,): True for rows of the queried slice, or weights of rows in [0, 1]; None for
            all rows.
        order: Order in which rows are assigned to blocks, shape (rows,); None if any order will do.
    """

    outputs: Floats
    labels: Floats
    groups: NDArray[np.int64] | None = None
    counting: NDArray[Any] | None = None
    order: NDArray[np.intp] | None = None


@dataclass(frozen=True, slots=True)
class Sized:
    """The numbers of rows that an interval procedure is planned for.

    Attributes:
        training: Number of training rows from which guesses are made. If it is unknown, the number of sealed rows.
        planned: Number of public rows that show how far values spread.
        largest: Number of rows of the largest sealed group; 1 for independent rows.
        unlike: True if scores are known and the promise is about labels drawn anew on these rows.
        sliced: True if only some rows count, and how many is unknown.
        counting: Planned number of sealed rows that count; None if all rows count.
        guess: The analyst's own guess, on the scale [0, 1]; None if there is none.
    """

    sealed: int
    training: int
    planned: int
    largest: float = 1.0
    unlike: bool = False
    sliced: bool = False
    counting: float | None = None
    guess: float | None = None


class RowPart(NamedTuple):
    """One part of a metric: a numerator, and for a ratio a denominator, in each row.

    Attributes:
        numerators: Numerator of each row in [0, 1], shape (rows,).
        denominators: Denominator of each row in [0, 1], shape (rows,); None for a mean over all rows.
        how: ``"share"`` for a mean of 0 and 1; ``"mean"`` for any other mean; ``"ratio"`` if the numerator is a part of
            the denominator; ``"free"`` for any other ratio.
        empty: Value of the part if no row counts.
    """

    numerators: Floats
    denominators: Floats | None = None
    how: str = "mean"
    empty: float = 0.0

    @property
    def whole(self) -> Floats:
        """The denominator of each row, which is 1 for a mean."""
        return np.ones(len(self.numerators)) if self.denominators is None else self.denominators

    def minus(self, other: RowPart, reach: float) -> RowPart:
        """Return the part ``(1 + difference / reach) / 2`` of two parts with equal denominators."""
        apart = np.clip((self.numerators - other.numerators) / reach, -1.0, 1.0)
        how = "mean" if self.how == "share" else self.how
        return self._replace(numerators=(self.whole + apart) / 2.0, how=how, empty=0.5)

    def among(self, counting: NDArray[Any] | None) -> RowPart:
        """Return the part over the rows that count, by their weights. A mean becomes a ratio."""
        if counting is None:
            return self
        how = "free" if self.how == "free" else "ratio"
        return RowPart(self.numerators * counting, self.whole * counting, how, self.empty)


def rate_part(rows: Judged, number: float, rate: str) -> RowPart:
    """Return precision, recall or F1 of one class as a ratio, from the outcome of each row.

    Numerators and denominators are those of `RATIOS`, by which two models are compared.
    """
    predicted, actual = says(rows.outputs, rows.labels, number), rows.labels == number
    top, bottom = (np.array(of)[1 + predicted + 2 * actual] for of in RATIOS[rate])
    return RowPart(top, bottom, "ratio")


def class_parts(rows: Judged, setting: Setting, *, rate: str) -> list[RowPart]:
    """Return precision, recall or F1 of each class, as parts that `rate_part` makes."""
    return [rate_part(rows, number, rate) for number in range(setting.classes)]


def weighted_parts(rows: Judged, setting: Setting) -> list[RowPart]:
    """Return F1 of each class and 0 for labels of no class, followed by the shares of these labels."""
    none = ~np.isin(rows.labels, np.arange(setting.classes))
    shares = [rows.labels == number for number in range(setting.classes)] + [none]
    nothing = RowPart(np.zeros(len(none)), none.astype(np.float64), "ratio")
    scores = [*class_parts(rows, setting, rate="f1"), nothing]
    return [*scores, *(RowPart(share.astype(np.float64), None, "share") for share in shares)]


def correlation_parts(rows: Judged, setting: Setting) -> list[RowPart]:
    """Return the share of label 1, and the rates of predictions 1 among labels 1 and 0."""
    predicted, actual = says(rows.outputs, rows.labels, 1.0), rows.labels == 1.0
    return [
        RowPart(actual.astype(np.float64), None, "share"),
        *(
            RowPart((predicted & label).astype(np.float64), label.astype(np.float64), "ratio")
            for label in (actual, ~actual)
        ),
    ]


def loss(rows: Judged, setting: Setting, *, of: str) -> list[RowPart]:
    """Return the mean of a loss, as a share of the largest loss.

    Args:
        rows: Numbers, probabilities of label 1, or probabilities of each class.
        setting: The range of labels and of the loss.
        of: Name of the loss: ``"absolute"``, ``"relative"``, ``"squared"`` or ``"log"``.
    """
    inside = rows
    if of != "log":
        inside = replace(rows, outputs=np.clip(rows.outputs, setting.low, setting.high), labels=_labels(rows, setting))
    return [RowPart(np.minimum(losses_of(inside, setting, of=of), setting.clip) / setting.clip)]


def losses_of(rows: Judged, setting: Setting, *, of: str) -> Floats:
    """Return each row's loss without clipping, which is infinite where there is no prediction.

    `of` is the name of the loss: log, relative, squared or absolute.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        if rows.outputs.ndim > 1:  # the log loss of the probability that the model gave to the class of each row
            places = np.clip(rows.labels, 0, rows.outputs.shape[1] - 1).astype(np.int64)
            chances = np.where(rows.labels >= 0, rows.outputs[np.arange(len(places)), places], 0.0)
            return largest_losses(-np.log(chances))
        if of == "relative":
            apart = _absolute(rows.outputs, rows.labels)
            return largest_losses(apart / np.maximum(np.abs(rows.labels), setting.floor))
        return largest_losses(LOSSES[of](rows.outputs, rows.labels))


def benefit_parts(rows: Judged, setting: Setting) -> list[RowPart]:
    """Return the net benefit of each row on [0, 1]: 1 for a true positive, minus the odds for a false positive."""
    odds = setting.threshold / (1.0 - setting.threshold)
    positive, told = rows.labels == 1.0, rows.outputs >= setting.threshold
    told = np.where(np.isnan(rows.outputs), ~positive, told)  # a failing row is a false alarm, or a missed positive
    benefit = np.where(told, np.where(positive, 1.0, -odds), 0.0)
    return [RowPart((benefit + odds) / (1.0 + odds))]


def excess_parts(rows: Judged, setting: Setting) -> list[RowPart]:
    """Return ``(1 + probability - label) / 2`` of each row, which is 0 or 1 where the model fails."""
    apart = np.where(np.isnan(rows.outputs), 1.0 - 2.0 * (rows.labels == 1.0), rows.outputs - (rows.labels == 1.0))
    return [RowPart((1.0 + apart) / 2.0)]


def _labels(rows: Judged, setting: Setting) -> Floats:
    """Return the labels clipped to their range, with the lower end in place of missing ones, shape (rows,)."""
    return np.clip(np.nan_to_num(rows.labels, nan=setting.low), setting.low, setting.high)


def explained_parts(rows: Judged, setting: Setting) -> list[RowPart]:
    """Return the parts of R2: squared errors over squares of labels less a centre, labels, and these squares."""
    width = setting.high - setting.low
    labels = (_labels(rows, setting) - setting.low) / width
    (errors,), squares = loss(rows, setting, of="squared"), (labels - setting.centre) ** 2
    return [RowPart(errors.numerators, squares, "free"), RowPart(labels), RowPart(squares)]


def failing_parts(rows: Judged, setting: Setting) -> list[RowPart]:
    """Return the share of rows on which the model fails, as the only part."""
    return [RowPart(np.isnan(rows.outputs).astype(np.float64), None, "share")]


def right_parts(rows: Judged, setting: Setting) -> list[RowPart]:
    """Return the share of rows whose class is predicted, as the only part."""
    known = (rows.labels >= 0.0) & (rows.labels < setting.classes)
    return [RowPart(((rows.outputs == rows.labels) & known).astype(np.float64), None, "share")]


Parts = Callable[[Judged, "Setting"], Sequence[RowPart]]


@dataclass(frozen=True, slots=True)
class PairedScores:
    """The parts from which the difference of two models in a metric is computed.

    Attributes:
        parts: Function to the parts from the rows with the first model's predictions, those with the second one's, the
            setting, and the reach that `PartsMeasure.reach` returns.
        bounds: Function from the setting and the reach to the bounds of ``(1 + difference) / 2``, where the difference
            is in units of the width of the score's range.
        weights: Share of the level for each part; equal shares by default. If both ends of a part affect the lower
            limit, the part has half of its share, so that the lower limit alone holds at half of the level
            (docs/theory/gates.md).
        only_below: True if differences may be larger than the range, so that there is no upper limit.
    """

    parts: Callable[[Judged, Judged, Setting, float], Sequence[RowPart]]
    bounds: Callable[[Setting, float], Bounds]
    weights: tuple[float, ...] | None = None
    only_below: bool = False


def part_by_part(parts: Parts, bounds: Bounds) -> PairedScores:
    """Return the comparison of two models by the differences of their parts, which have equal denominators."""

    def apart(first: Judged, second: Judged, setting: Setting, reach: float) -> list[RowPart]:
        pairs = zip(parts(first, setting), parts(second, setting), strict=True)
        return [part.minus(other, reach) for part, other in pairs]

    return PairedScores(apart, lambda _, reach: partial(_stretched, bounds, reach))


def _stretched(bounds: Bounds, reach: float, low: Floats, high: Floats) -> tuple[float, float]:
    """Return bounds of a difference, computed from bounds of the difference divided by its reach."""
    least, most = bounds(low, high)
    return (1.0 + reach * (2.0 * least - 1.0)) / 2.0, (1.0 + reach * (2.0 * most - 1.0)) / 2.0


def of_root() -> PairedScores:
    """Return the comparison of roots of mean squared errors, by the difference of the means and the first mean."""

    def apart(first: Judged, second: Judged, setting: Setting, reach: float) -> list[RowPart]:
        ((own,), (other,)) = (loss(rows, setting, of="squared") for rows in (first, second))
        return [own.minus(other, reach), own]

    return PairedScores(apart, lambda _, reach: partial(_signed, boxes.root_gain, reach, 1, 1.0), weights=(0.95, 0.025))


def of_explained() -> PairedScores:
    """Return the comparison by R2: the difference of errors, the mean label and the mean square of labels."""

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
    """Return the comparison by Matthews' correlation, from two rates, the share of label 1 and other rates."""

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
    """Return bounds of ``(1 + scale gain) / 2``, from parts of which the first are differences over their reach.

    Args:
        gain: Function from the ends of differences and of other parts to the least and the largest gain.
        reach: Reach of the differences.
        differences: Number of the first parts that are differences over their reach.
        scale: Factor by which the gain is multiplied.
        low: Lower ends, on the scale [0, 1].
        high: Upper ends of the parts.
    """
    ends = [np.concatenate([reach * (2.0 * end[:differences] - 1.0), end[differences:]]) for end in (low, high)]
    least, most = gain(*ends)
    return (1.0 + scale * least) / 2.0, (1.0 + scale * most) / 2.0


# Losses by name, and the row values of metrics that are means over rows.

Loss = Callable[["NDArray[Any]", Any], "NDArray[Any]"]
"""Function from predictions and labels to one loss per row, each from its own row alone."""


def _absolute(predictions: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.abs(predictions - labels))


def _squared(predictions: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.square(predictions - labels))


def _log(predictions: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    """Return the logarithmic loss of each row: minus the log probability of its label, 0 or 1."""
    with np.errstate(divide="ignore"):  # a probability of 0 for what happened costs inf, which is clipped
        return np.asarray(-np.log(np.where(labels == 1, predictions, 1.0 - predictions)))


LOSSES: dict[str, Loss] = {"absolute": _absolute, "squared": _squared, "log": _log}
"""Losses by name."""


def named_values(description: Mapping[str, Any]) -> Loss | None:
    """Return the function from predictions and labels to row values of a named metric, or None for other queries.

    Args:
        description: The public description of the query. If it names a positive class, labels are 1 for this class and
            0 for all others.
    """
    kind, loss = description.get("kind"), description.get("loss")
    if kind == "accuracy":
        return lambda predictions, labels: np.asarray(predictions == labels, dtype=np.float64)
    if kind == "brier":
        return lambda predictions, labels: _squared(predictions.astype(np.float64), labels)
    if kind != "risk" or loss not in LOSSES:
        return None
    low, width = description["low"], description["high"] - description["low"]
    return lambda predictions, labels: (
        (LOSSES[loss](predictions.astype(np.float64), np.asarray(labels, dtype=np.float64)) - low) / width
    )
