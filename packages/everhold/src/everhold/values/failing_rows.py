"""Rows on which a model fails: what they count as, once for every metric.

A model fails on a sealed row if it raises, or if it gives nothing, no finite number, a probability outside [0, 1], or a
class that the label does not have. That is a wrong answer, and the worst one:

- of classes the other class; with several classes the row is wrong for each of them, one class against all others;
- of scores the worst rank: a positive row is below every negative row, a negative row above every positive one;
- of losses the largest one that is declared;
- of calibration the largest distance, in a bin of its own, so that it cancels nothing.

Outputs of a failing row are nan until one of these functions reads them. Each value is a function of the row alone, so
whatever is promised of values of independent rows holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def models_in(description: Any) -> tuple[str, ...]:
    """Digests of the models that a query runs, from its public description; none of arrays, texts and functions.

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


def failing_in_words(description: Any, *, training_rows: int, classes: bool) -> str:
    """What is known of rows on which the models of a query fail, in sentences; empty for queries without models.

    Args:
        description: Of the query.
        training_rows: Number of training rows, on which a model that fails is refused.
        classes: Whether the classes of the label are known.
    """
    if not models_in(description):
        return ""
    tried = (
        "No training row on which it was tried makes the model fail"
        if training_rows
        else "Whether the model fails on real rows is not known, because there are no training rows"
    )
    asks = "; ask eh.metric('failing_rows', model) for the share of such rows" if classes else ""
    return f"{tried}. A sealed row on which it fails counts as the worst{asks}."


def other_class(labels: NDArray[Any]) -> NDArray[np.float64]:
    """The class 0 or 1 that a label is not.

    Examples:
        >>> other_class(np.array([0, 1])).tolist()
        [1.0, 0.0]
    """
    return np.where(np.asarray(labels) == 1, 0.0, 1.0)


def says(outputs: NDArray[np.float64], labels: NDArray[np.float64], number: float) -> NDArray[np.bool_]:
    """Rows that are predicted to be of a class; of a failing row the opposite of what its label says.

    Args:
        outputs: Numbers of predicted classes, shape (rows,).
        labels: Numbers of the classes of labels, shape (rows,).
        number: The class.

    Examples:
        >>> says(np.array([1.0, np.nan, np.nan]), np.array([1.0, 1.0, 0.0]), 1.0).tolist()
        [True, False, True]
    """
    return np.asarray(np.where(np.isnan(outputs), labels != number, outputs == number), dtype=np.bool_)


def worst_ranks(scores: NDArray[np.float64], labels: NDArray[Any]) -> NDArray[np.float64]:
    """Scores with failing rows at the wrong end: positive ones below all others, negative ones above them.

    Examples:
        >>> worst_ranks(np.array([0.3, np.nan, np.nan]), np.array([0, 1, 0])).tolist()
        [0.3, -inf, inf]
    """
    return np.where(np.isnan(scores), np.where(np.asarray(labels) == 1, -np.inf, np.inf), scores)


def largest_losses(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Losses with those of failing rows infinite, so that clipping makes them the largest that is declared."""
    return np.where(np.isnan(losses), np.inf, losses)
