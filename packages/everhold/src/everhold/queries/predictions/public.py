"""Differences of the scores of two arrays of predictions, by bets on the rows on which the arrays differ (D1).

The analyst who sent the arrays knows them, so they count as public. All results of this module depend only on the
arrays, on declared classes and ranges, and on the labels of training rows. The rows on which the arrays differ, and the
largest possible gain in each, determine which interval is valid. Likely labels determine only stakes and the range
around a guess.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.special

from everhold.guarantees.intervals import means
from everhold.guarantees.intervals.base import CELLS, Cells
from everhold.guarantees.intervals.betting import Betting
from everhold.queries.metrics.score_parts import named_values
from everhold.sealing.rows.sums import cells_of
from everhold.values.base import Apart, BoundQuery, Pair, Schema
from everhold.values.evaluation import clip_to_grid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from everhold.mechanisms import Mechanism

    Floats = NDArray[np.float64]

_STEPS = 2  # that rounding may add to a gain on the grid
_MOST_LIKELY = 4096  # rows whose labels are imagined
_RESIDUALS = scipy.special.logit((np.arange(16) + 0.5) / 16) / (math.pi / math.sqrt(3.0))  # logistic, variance near 1
_SURE = 0.02  # no predicted probability is taken to be nearer to 0 or 1
_RIGHT = 0.4  # chance of either of two different classes, of more than two
_UNEXPLAINED = 0.05  # part of the variance of labels that is at least left unexplained
_FEWEST = 30  # differing training rows that say more than the sealed predictions
_USUAL_NATS = 12.0
_UNCLEAR = 0.25


def set_apart(bound: BoundQuery, schema: Schema, mechanism: Mechanism) -> BoundQuery:
    """Return a difference of two arrays with the rows on which they differ; other queries are unchanged.

    A difference is also unchanged if rows depend on each other, if the split fixed the shares of classes, if
    predictions stay in an engine, or if the loss is a function, because its values for equal rows can differ.
    """
    pair, unit = bound.pair, mechanism.unit
    if pair is None or pair.how != "difference" or pair.first.pair is not None or pair.second.pair is not None:
        return bound
    if mechanism.traits.adds_noise or not mechanism.dependence.independent or schema.stratified == schema.label:
        return bound
    if unit % (2 * CELLS) or not _alike(pair):
        return bound
    first, second = pair.first.predictions, pair.second.predictions
    if first is None or second is None:
        return bound
    rows = np.flatnonzero(first != second)
    low, high = _range(pair.first.description, schema, first[rows], second[rows], unit)
    if low is None or high is None:
        return bound
    far = int(max(np.max(high - unit // 2, initial=0), np.max(unit // 2 - low, initial=0))) + _STEPS
    reach = min(-(-far * 2 // CELLS) * CELLS // 2, unit // 2)  # so that cells divide its double
    squares = float(np.sum(((high - low) / unit) ** 2))
    return replace(bound, pair=replace(pair, apart=Apart(rows, reach, unit, squares)))


def apart_procedure(
    bound: BoundQuery, apart: Apart, schema: Schema, labels: Floats | None, *, own_guess: bool, guess: float | None
) -> means.OfDisagreement:
    """Return the narrowest procedure for the difference of two arrays: signs, bets or ranges.

    Args:
        bound: The difference, with its values for the training rows if they are known.
        apart: The rows on which the arrays differ.
        schema: Public facts about the rows.
        labels: Labels of the training rows, if they are numbers; else None.
        own_guess: True if the guess is the analyst's own; False if it is the training estimate.
        guess: The guess in units of a mean; None if there is no guess.
    """
    assert bound.pair is not None
    kind, differing = bound.pair.first.description, len(apart.rows)
    reach, trained = 2.0 * apart.reach / apart.unit, 0 if own_guess else schema.training_rows
    ranges = means.RowRanges(schema.rows, differing, reach, apart.squares, training=trained)
    if not differing:
        return ranges
    if kind["kind"] == "accuracy" and schema.label_kind == "binary":
        return means.DisagreementSigns(schema.rows, differing, 1.0, training=trained)
    known = None if bound.training_values is None else bound.training_values[bound.training_values != apart.unit // 2]
    if known is not None and len(known) >= _FEWEST:
        training = cells_of(Apart(np.arange(len(known)), apart.reach, apart.unit).shares(known), unit=2 * apart.reach)
    else:
        training = _likely_shares(bound.pair, apart, schema, labels)
    at = None if guess is None or not own_guess else ranges.share(guess)
    bets = means.DisagreementBetting(
        schema.rows, differing, reach, Betting(differing, training, guess=at), training=trained
    )  # fmt: skip
    share = ranges.widest(_USUAL_NATS) / max(bets.roughly(_USUAL_NATS), 1e-300)
    if 1.0 - _UNCLEAR < share < 1.0 + _UNCLEAR:
        at = 0.5 if guess is None else guess
        (low, high), (least, most) = (each.expected(at, _USUAL_NATS) for each in (ranges, bets))
        return ranges if high - low < most - least else bets
    return ranges if share < 1.0 else bets


def likely_values(bound: BoundQuery, schema: Schema, labels: Floats | None, *, guess: float | None) -> Cells:
    """Return a histogram of row values to plan with if no training rows show their spread.

    For an array of probabilities, labels are assumed to be drawn with these probabilities. For numbers, residuals are
    assumed to be logistic. For other queries each row value is assumed to be 0 or 1.

    Args:
        bound: The query, which is no yes-or-no query.
        schema: Public facts about the rows.
        labels: Labels of the training rows, if they are numbers; else None.
        guess: The analyst's own guess, in units of a mean.
    """
    given, kind = bound.predictions, bound.description
    values_of, two_classes = named_values(kind), _of_two_classes(kind, schema)
    if given is None or values_of is None:
        at = 0.5 if guess is None else guess
        return _planned(np.array([0.0, 1.0]), np.array([1.0 - at, at]), rows=schema.rows)
    some = given[:: -(-len(given) // _MOST_LIKELY)].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # predictions may be as large as numbers can be
        imagined, chances = _imagined(some, labels, float(np.std(given.astype(np.float64))), two_classes)
        values = _clipped(values_of(some[:, None], imagined))
    return _planned(values, chances, rows=schema.rows)


def _alike(pair: Pair) -> bool:
    """Return whether both queries of a difference have the same named metric."""
    kinds = [{name: of for name, of in each.description.items() if name != "predictions"} for each in
             (pair.first, pair.second)]  # fmt: skip
    return kinds[0] == kinds[1] and named_values(kinds[0]) is not None


def _range(
    kind: Mapping[str, Any], schema: Schema, first: NDArray[Any], second: NDArray[Any], unit: int
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """Return the least and the greatest row value of a difference on each row for any label, shape (rows,) each."""
    values_of = named_values(kind)
    assert values_of is not None
    if _of_two_classes(kind, schema):
        values = []
        for label in (0.0, 1.0):
            one, other = (clip_to_grid(values_of(each, label), unit=unit) for each in (first, second))
            values.append((unit + one - other) // 2)
        return np.minimum(*values), np.maximum(*values)
    if kind["kind"] == "accuracy":
        return np.zeros(len(first), dtype=np.int64), np.full(len(first), unit, dtype=np.int64)
    if kind["kind"] != "risk" or kind["loss"] not in ("absolute", "squared"):
        return None, None
    with np.errstate(over="ignore"):
        apart = np.abs(first.astype(np.float64) - second.astype(np.float64))
    high = float(kind["high"])
    furthest = apart
    if kind["loss"] == "squared":  # where the other loss is just clipped
        root = math.sqrt(max(high, 0.0))
        furthest = high - np.maximum(root - apart, 0.0) ** 2
    width = high - float(kind["low"])
    steps = np.ceil(np.clip(furthest * (1.0 + 1e-9) / width, 0.0, 1.0) * (unit // 2)).astype(np.int64) + _STEPS
    return np.maximum(unit // 2 - steps, 0), np.minimum(unit // 2 + steps, unit)


def _likely_shares(pair: Pair, apart: Apart, schema: Schema, labels: Floats | None) -> Cells:
    """Return a histogram of likely values for planning, over the rows on which two arrays differ."""
    kind, first, second = pair.first.description, pair.first.predictions, pair.second.predictions
    values_of = named_values(kind)
    assert first is not None
    assert second is not None
    assert values_of is not None
    if kind["kind"] == "accuracy":
        return _planned(
            np.array([0.0, 0.5, 1.0]), np.array([_RIGHT, 1.0 - 2.0 * _RIGHT, _RIGHT]), rows=len(apart.rows)
        )  # fmt: skip
    some = apart.rows[:: -(-len(apart.rows) // _MOST_LIKELY)]
    one, other = first[some].astype(np.float64)[:, None], second[some].astype(np.float64)[:, None]
    with np.errstate(over="ignore", invalid="ignore"):  # predictions may be as large as numbers can be
        middle, spread = (one + other)[:, 0] / 2.0, float(np.std(first.astype(np.float64)))
        imagined, chances = _imagined(middle, labels, spread, _of_two_classes(kind, schema))
        gains = _clipped(values_of(one, imagined)) - _clipped(values_of(other, imagined))
    shares = np.clip(0.5 + gains * (apart.unit / (4.0 * apart.reach)), 0.0, 1.0)
    return _planned(shares, chances, rows=len(apart.rows))


def _of_two_classes(kind: Mapping[str, Any], schema: Schema) -> bool:
    """Return whether a query reads labels as 0 and 1, because they are, or as one class against the rest."""
    return schema.label_kind == "binary" or "positive" in kind


def _imagined(
    predictions: Floats, labels: Floats | None, spread: float, two_classes: bool
) -> tuple[Floats, Floats]:  # fmt: skip
    """Return possible labels of rows and their probabilities, both broadcasting to (rows, labels).

    Args:
        predictions: Probabilities of label 1, or numbers; shape (rows,).
        labels: Labels of the training rows; None if there are no training rows.
        spread: Standard deviation of all predictions.
        two_classes: True if labels are read as 0 and 1.
    """
    if two_classes:
        likely = np.clip(predictions, _SURE, 1.0 - _SURE)
        return np.array([[0.0, 1.0]]), np.column_stack([1.0 - likely, likely])
    variance = spread**2
    if labels is not None and len(labels):
        whole = float(np.var(labels))
        variance = max(whole - variance, _UNEXPLAINED * whole)
    residuals = math.sqrt(variance) * _RESIDUALS[None, :]
    return predictions[:, None] + residuals, np.ones((1, len(_RESIDUALS)))


def _clipped(values: Floats) -> Floats:
    """Return row values clipped to [0, 1], with 1 in place of nan."""
    return np.clip(np.nan_to_num(values, nan=1.0), 0.0, 1.0)


def _planned(values: Floats, chances: Floats, *, rows: int) -> Cells:
    """Return the histogram of these values with these probabilities, scaled to ``rows`` rows."""
    every, weights = (each.ravel() for each in np.broadcast_arrays(values, chances))
    weights = weights * (rows / float(np.sum(weights)))
    cell = np.minimum((every * CELLS).astype(np.int64), CELLS - 1)
    counts, sums = np.bincount(cell, weights, CELLS), np.bincount(cell, weights * every, CELLS)
    return Cells(counts, sums * CELLS, CELLS)
