"""Losses by name, and functions that compute a metric's row values from the description of its query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Loss = Callable[["NDArray[Any]", Any], "NDArray[Any]"]
"""Function from predictions and labels to one loss per row, each from its own row alone."""


def _absolute(predictions: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.abs(predictions - labels))


def _squared(predictions: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.square(predictions - labels))


def _log(predictions: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(divide="ignore"):  # a probability of 0 for what happened costs inf, which is clipped
        return np.asarray(-np.log(np.where(labels == 1, predictions, 1.0 - predictions)))


LOSSES: dict[str, Loss] = {"absolute": _absolute, "squared": _squared, "log": _log}
"""Losses by name."""


def named_values(description: Mapping[str, Any]) -> Loss | None:
    """Return the function from predictions and labels to row values of a named metric, or None if it is none.

    Args:
        description: The public description of the query.
    """
    if "positive" in description:
        return None
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
