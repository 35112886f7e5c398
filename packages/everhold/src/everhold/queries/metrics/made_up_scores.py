"""Made-up rows whose score is about a guessed one, used in place of training rows if their predictions are unknown.

They decide only the expected width of an interval, and no promise. All of them are public.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import scipy

from everhold.queries.metrics.score_parts import Judged

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from everhold.queries.metrics.registry import Metric
    from everhold.queries.metrics.score_parts import Setting

_ROWS = 2_000
_FEW = 1e-3
_EVEN, _UNEXPLAINED = 0.5, 0.5


Likely: TypeAlias = "Callable[[Metric, Setting, float, NDArray[np.float64], np.random.Generator], Judged]"
"""Function from a metric, its setting, a number in [0, 1] and public labels to rows with about that number."""


def made_up(
    metric: Metric, setting: Setting, at: float, labels: NDArray[np.float64] | None, likely: Likely | None
) -> Judged:
    """Return made-up predictions and labels with about the guessed score.

    Args:
        metric: The metric.
        setting: Numbers that define it.
        at: The guess on the scale [0, 1].
        labels: Of the training rows, if there are any; classes by their number.
        likely: The function that makes the rows; by default that for the metric's kind of outputs.
    """
    rng, outputs = np.random.default_rng(0), metric.outputs
    if labels is None or not len(labels):
        numbers = np.linspace(setting.low, setting.high, _ROWS)
        labels = numbers if outputs == "numbers" else (np.arange(_ROWS) % max(setting.classes, 2)).astype(np.float64)
    labels = rng.choice(labels, _ROWS) if len(labels) > _ROWS else rng.permutation(labels)
    return (likely or _USUAL[outputs])(metric, setting, at, labels, rng)


def exchanged(kept: Callable[[NDArray[np.float64], NDArray[np.float64]], float] | None) -> Likely:
    """Return a maker of predicted classes, correct except for some that are exchanged at random.

    Args:
        kept: From labels and shares of the classes to the part of the number that remains if all are exchanged. None
            for a correlation, of which nothing remains.
    """

    def likely(
        metric: Metric, setting: Setting, at: float, labels: NDArray[np.float64], rng: np.random.Generator
    ) -> Judged:
        shares = np.unique(labels, return_counts=True)[1] / len(labels)
        share = min(2.0 - 2.0 * at, 1.0)
        if kept is not None:  # a class of the share p keeps 1 - w (1 - p) of its F1
            share = min(max((1.0 - at) / max(1.0 - kept(labels, shares), _FEW), 0.0), 1.0)
        mixed = rng.random(len(labels)) < share
        outputs = labels.copy()
        outputs[mixed] = rng.permutation(labels[mixed])
        return Judged(outputs, labels)

    return likely


def with_errors(size: Callable[[float, NDArray[np.float64]], float]) -> Likely:
    """Return a maker of predicted numbers with normal errors.

    Args:
        size: From the number that is told and the labels to the standard deviation of errors, in units of the labels.
    """

    def likely(
        metric: Metric, setting: Setting, at: float, labels: NDArray[np.float64], rng: np.random.Generator
    ) -> Judged:
        zero, one = metric.ends(setting)
        return Judged(labels + size(zero + (one - zero) * at, labels) * rng.normal(size=len(labels)), labels)

    return likely


def unexplained(told: float, labels: NDArray[np.float64]) -> float:
    """Return the size of errors that leave the share `told` of the labels' variance explained."""
    return float(np.sqrt(max(1.0 - told, _FEW) * max(float(np.var(labels)), _FEW**2)))


def near_labels(
    metric: Metric, setting: Setting, at: float, labels: NDArray[np.float64], rng: np.random.Generator
) -> Judged:
    """Return probabilities with about the mean squared distance `at` from the labels."""
    apart = np.clip(np.abs(rng.normal(size=len(labels))) * np.sqrt(at), 0.0, 1.0)
    return Judged(np.where(labels == 1.0, 1.0 - apart, apart), labels)


def _uncalibrated(
    metric: Metric, setting: Setting, at: float, labels: NDArray[np.float64], rng: np.random.Generator
) -> Judged:
    told = rng.random(len(labels))
    return Judged(told, (rng.random(len(labels)) < np.clip(told + at * np.sign(told - 0.5), 0, 1)).astype(float))


def _shifted(
    metric: Metric, setting: Setting, at: float, labels: NDArray[np.float64], rng: np.random.Generator
) -> Judged:
    apart = float(scipy.special.ndtri(min(max(at, _FEW), 1.0 - _FEW)) + scipy.special.ndtri(1.0 - setting.rate))
    return Judged(rng.normal(size=len(labels)) + apart * labels, labels)


def _distributions(
    metric: Metric, setting: Setting, at: float, labels: NDArray[np.float64], rng: np.random.Generator
) -> Judged:
    chance = np.exp(-at * setting.clip * rng.exponential(size=len(labels)))
    told = np.repeat(((1.0 - chance) / max(setting.classes - 1, 1))[:, None], setting.classes, axis=1)
    places = np.clip(labels, 0, setting.classes - 1).astype(np.int64)
    told[np.arange(len(labels)), places] = chance
    return Judged(told, labels)


def probabilities_apart(
    metric: Metric, setting: Setting, at: float, labels: NDArray[np.float64], rng: np.random.Generator
) -> Judged:
    """Return probabilities of each class with about the AUC `at` against the rest."""
    apart = float(np.sqrt(2.0) * scipy.special.ndtri(min(max(at, _FEW), 1.0 - _FEW)))
    scores = rng.normal(size=(len(labels), setting.classes)) + apart * (labels[:, None] == np.arange(setting.classes))
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
        metric: The metric.
        first: Predictions of one model, shape (rows,) or (rows, classes).
        second: Predictions of the other model, of the same shape.
        labels: Of the training rows, if there are any; numbers spread about predictions half as far as these.
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
