"""The integer grid on which row values are summed exactly, so that every engine gives the same number.

Row values are clipped to [0, 1] and rounded down to the grid ``0, 1, ..., UNIT`` (theory, section 6), so every engine
and every order of summation gives the same number, one row moves a sum by at most ``UNIT``, and rounding moves a mean
by at most ``1 / UNIT``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import QueryRejected

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

UNIT = 2**30
"""Steps of the grid between the row values 0 and 1."""


def to_grid(values: ArrayLike, *, unit: int = UNIT, losses: tuple[float, float] | None = None) -> NDArray[np.int64]:
    """Convert public row values in [0, 1] to integers in ``[0, unit]``, rounded down, and refuse other values.

    Args:
        values: Row values, boolean or real, shape (rows,). Values that are nan, infinite or outside [0, 1] are refused.
        unit: Steps between 0 and 1.
        losses: Declared range of losses, if the row values are losses on training rows, for the message.

    Raises:
        QueryRejected: If a row value is not a number in [0, 1].

    Examples:
        >>> to_grid([0.0, 0.5, 1.0], unit=4)
        array([0, 2, 4])
    """
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise QueryRejected(
            "The values of the query are not real numbers. Return an array of floats or booleans, with one number "
            "from 0 to 1 for each row."
        )
    real = array.astype(np.float64)
    if not bool(np.all((real >= 0.0) & (real <= 1.0))):  # also false for nan
        if losses is None:
            raise QueryRejected(
                "Some values of the query are nan or outside [0, 1]. Scale and clip the values to [0, 1]."
            )
        low, high = losses
        least, most = (low + (high - low) * float(end) for end in (np.min(real), np.max(real)))
        raise QueryRejected(
            f"The losses of the training rows lie between {least:.6g} and {most:.6g}, outside the declared range "
            f"[{low:.6g}, {high:.6g}]. Declare a wider range, or clip the loss yourself."
        )
    return clip_to_grid(real, unit=unit)


def clip_to_grid(
    values: NDArray[np.float64] | NDArray[np.bool_], *, unit: int = UNIT, fault: float = 0.0
) -> NDArray[np.int64]:
    """Convert sealed row values to the grid without refusing any, because a refusal would tell about sealed rows.

    nan becomes ``fault``, and all other values are clipped to [0, 1].
    """
    clipped = np.clip(np.nan_to_num(values.astype(np.float64), nan=fault), 0.0, 1.0)
    return np.floor(clipped * unit).astype(np.int64)


# Rows on which a model fails: what they count as, once for every metric.
#
# A model fails on a sealed row if it raises, or if it gives nothing, no finite number, a probability outside [0, 1], or
# a class that the label does not have. That is a wrong answer, and the worst one:
#
# - of classes the other class; with several classes the row is wrong for each of them, one class against all others;
# - of scores the worst rank: a positive row is below every negative row, a negative row above every positive one;
# - of losses the largest one that is declared;
# - of calibration the largest distance, in a bin of its own, so that it cancels nothing.
#
# Outputs of a failing row are nan until one of these functions reads them. Each value is a function of the row alone,
# so whatever is promised of values of independent rows holds.


def models_in(description: Any) -> tuple[str, ...]:
    """Return the digests of all models that a query runs, from its public description.

    Examples:
        >>> models_in({"kind": "difference", "of": [{"estimator": "aa"}, {"estimator": "bb"}, {"predictions": "cc"}]})
        ('aa', 'bb')
    """
    if isinstance(description, Mapping):
        own = description.get("estimator")
        found = (own,) if isinstance(own, str) else ()
        return (*found, *(each for part in description.values() for each in models_in(part)))
    if isinstance(description, (list, tuple)):
        return tuple(each for part in description for each in models_in(part))
    return ()


def other_class(labels: NDArray[Any]) -> NDArray[np.float64]:
    """Return the opposite class of each label: 0 for label 1, and 1 for all others.

    Examples:
        >>> other_class(np.array([0, 1])).tolist()
        [1.0, 0.0]
    """
    return np.where(np.asarray(labels) == 1, 0.0, 1.0)


def says(outputs: NDArray[np.float64], labels: NDArray[np.float64], number: float) -> NDArray[np.bool_]:
    """Return which rows count as predicted to be of a class.

    A row on which the model fails counts as predicted wrongly.

    Args:
        outputs: Numbers of predicted classes, shape (rows,).
        labels: Numbers of the classes of labels, shape (rows,).
        number: Number that stands for the class in ``outputs`` and ``labels``.

    Examples:
        >>> says(np.array([1.0, np.nan, np.nan]), np.array([1.0, 1.0, 0.0]), 1.0).tolist()
        [True, False, True]
    """
    return np.asarray(np.where(np.isnan(outputs), labels != number, outputs == number), dtype=np.bool_)


def worst_ranks(scores: NDArray[np.float64], labels: NDArray[Any]) -> NDArray[np.float64]:
    """Return scores with failing rows at the wrong end: positive rows lowest, negative rows highest.

    Examples:
        >>> worst_ranks(np.array([0.3, np.nan, np.nan]), np.array([0, 1, 0])).tolist()
        [0.3, -inf, inf]
    """
    return np.where(np.isnan(scores), np.where(np.asarray(labels) == 1, -np.inf, np.inf), scores)


def largest_losses(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return losses with infinity where the model fails, which clipping turns into the largest loss."""
    return np.where(np.isnan(losses), np.inf, losses)
