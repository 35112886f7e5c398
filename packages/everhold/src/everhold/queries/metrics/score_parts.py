"""Rows as scores read them, and the parts of each score, row by row (docs/theory/composites.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from everhold.guarantees.intervals.pairs.gains import RATIOS
from everhold.values.evaluation import largest_losses, says

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.queries.metrics.registry import Setting

Floats: TypeAlias = "NDArray[np.float64]"


@dataclass(frozen=True, slots=True)
class Judged:
    """Predictions and labels of some rows: classes by their number, from 0, and -1 for none.

    Attributes:
        outputs: Shape (rows,), or (rows, classes) of probabilities; nan where a model fails.
        labels: Shape (rows,).
        groups: Shape (rows,): the group of each row, from 0; None where rows are independent.
        counting: Shape (rows,): True for rows of the slice that is asked about; None for all rows.
        order: Shape (rows,): in which rows are dealt to blocks; None for any.
    """

    outputs: Floats
    labels: Floats
    groups: NDArray[np.int64] | None = None
    counting: NDArray[np.bool_] | None = None
    order: NDArray[np.intp] | None = None


@dataclass(frozen=True, slots=True)
class Sized:
    """Numbers of rows.

    Attributes:
        training: Training rows that guesses are made from; as many as are sealed if unknown.
        planned: Rows that show how far values spread.
        largest: Rows of the largest sealed group; 1 of independent rows.
        unlike: Whether scores are known and labels are drawn anew on these rows.
        sliced: Whether only some rows count, and how many is unknown.
        counting: Planned number of sealed rows that count; None where all do.
        guess: The analyst's own, on the scale [0, 1].
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
    """One part of a score, row by row.

    Attributes:
        numerators: Shape (rows,), in [0, 1].
        denominators: Shape (rows,), in [0, 1]; None for a mean over all rows.
        how: ``"share"`` for a mean of 0 and 1; ``"mean"``; ``"ratio"`` of a part to the whole; ``"free"`` ratio.
        empty: Value of the part where no row counts.
    """

    numerators: Floats
    denominators: Floats | None = None
    how: str = "mean"
    empty: float = 0.0

    @property
    def whole(self) -> Floats:
        """Denominators, 1 of a mean."""
        return np.ones(len(self.numerators)) if self.denominators is None else self.denominators

    def minus(self, other: RowPart, reach: float) -> RowPart:
        """Half of one more than the difference over its reach, of two parts that have the same denominators."""
        apart = np.clip((self.numerators - other.numerators) / reach, -1.0, 1.0)
        how = "mean" if self.how == "share" else self.how
        return self._replace(numerators=(self.whole + apart) / 2.0, how=how, empty=0.5)

    def among(self, counting: NDArray[np.bool_] | None) -> RowPart:
        """The same part of the rows that count, of which a mean is a ratio; of all rows it stays as it is."""
        if counting is None:
            return self
        how = "free" if self.how == "free" else "ratio"
        return RowPart(self.numerators * counting, self.whole * counting, how, self.empty)


def rate_part(rows: Judged, number: float, rate: str) -> RowPart:
    """A rate of one class, as a ratio: ``"precision"``, ``"recall"`` or ``"f1"``, by the outcomes of its rows.

    Numerator and denominator are those by which two models are compared (`ratio_gain.RATIOS`).
    """
    predicted, actual = says(rows.outputs, rows.labels, number), rows.labels == number
    top, bottom = (np.array(of)[1 + predicted + 2 * actual] for of in RATIOS[rate])
    return RowPart(top, bottom, "ratio")


def class_parts(rows: Judged, setting: Setting, *, rate: str) -> list[RowPart]:
    """A rate of each class; see `rate_part`."""
    return [rate_part(rows, number, rate) for number in range(setting.classes)]


def weighted_parts(rows: Judged, setting: Setting) -> list[RowPart]:
    """F1 of each class, 0 for labels of no class; then the shares of these labels."""
    none = ~np.isin(rows.labels, np.arange(setting.classes))
    shares = [rows.labels == number for number in range(setting.classes)] + [none]
    nothing = RowPart(np.zeros(len(none)), none.astype(np.float64), "ratio")
    scores = [*class_parts(rows, setting, rate="f1"), nothing]
    return [*scores, *(RowPart(share.astype(np.float64), None, "share") for share in shares)]


def correlation_parts(rows: Judged, setting: Setting) -> list[RowPart]:
    """The share of label 1, and the rates of predictions 1 among labels 1 and 0."""
    predicted, actual = says(rows.outputs, rows.labels, 1.0), rows.labels == 1.0
    return [
        RowPart(actual.astype(np.float64), None, "share"),
        *(
            RowPart((predicted & label).astype(np.float64), label.astype(np.float64), "ratio")
            for label in (actual, ~actual)
        ),
    ]


def loss(rows: Judged, setting: Setting, *, of: str) -> list[RowPart]:
    """The mean of a loss, as a share of the largest one.

    Args:
        rows: Numbers, probabilities of label 1, or probabilities of each class.
        setting: The range of labels and of the loss.
        of: ``"absolute"``, ``"squared"`` or ``"log"``.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        if of == "log":
            losses = -np.log(_of_what_happened(rows))
        else:
            apart = np.abs(np.clip(rows.outputs, setting.low, setting.high) - _labels(rows, setting))
            losses = apart if of == "absolute" else apart**2
    return [RowPart(np.minimum(largest_losses(losses), setting.clip) / setting.clip)]


def largest_loss(rows: Judged, of: str) -> Floats:
    """The loss of each row before it is clipped; infinite where there is no prediction."""
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.abs(rows.outputs - rows.labels) if of != "log" else -np.log(_of_what_happened(rows))
    found = apart**2 if of == "squared" else apart
    return np.where(np.isnan(found), np.inf, found)


def _of_what_happened(rows: Judged) -> Floats:
    """The probability of each label."""
    if rows.outputs.ndim == 1:
        return np.where(rows.labels == 1.0, rows.outputs, 1.0 - rows.outputs)
    places = np.clip(rows.labels, 0, rows.outputs.shape[1] - 1).astype(np.int64)
    return np.where(rows.labels >= 0, rows.outputs[np.arange(len(places)), places], 0.0)


def _labels(rows: Judged, setting: Setting) -> Floats:
    return np.clip(np.nan_to_num(rows.labels, nan=setting.low), setting.low, setting.high)


def explained_parts(rows: Judged, setting: Setting) -> list[RowPart]:
    """Squared errors, as shares of the largest one, over squares about the centre; labels; these squares."""
    width = setting.high - setting.low
    labels = (_labels(rows, setting) - setting.low) / width
    (errors,), squares = loss(rows, setting, of="squared"), (labels - setting.centre) ** 2
    return [RowPart(errors.numerators, squares, "free"), RowPart(labels), RowPart(squares)]


def failing_parts(rows: Judged, setting: Setting) -> list[RowPart]:
    """The share of rows on which the model fails."""
    return [RowPart(np.isnan(rows.outputs).astype(np.float64), None, "share")]


def right_parts(rows: Judged, setting: Setting) -> list[RowPart]:
    """The share of rows whose class is predicted."""
    known = (rows.labels >= 0.0) & (rows.labels < setting.classes)
    return [RowPart(((rows.outputs == rows.labels) & known).astype(np.float64), None, "share")]
