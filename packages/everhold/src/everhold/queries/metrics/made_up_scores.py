"""Rows that stand in for training rows whose predictions are unknown: they have about the guessed score.

They decide how wide an interval is expected to be, and no promise. All of it is public.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy

from everhold.queries.metrics.score_kinds import ScoreKind
from everhold.queries.metrics.score_parts import Judged, Setting

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROWS = 2_000
_FEW = 1e-3
_EVEN, _UNEXPLAINED = 0.5, 0.5


def made_up(kind: ScoreKind, setting: Setting, at: float, labels: NDArray[np.float64] | None) -> Judged:
    """Rows with about this score.

    Args:
        kind: The score.
        setting: Numbers that define it.
        at: The guess on the scale [0, 1].
        labels: Of the training rows, if there are any; classes by their number.
    """
    rng = np.random.default_rng(0)
    if labels is None or not len(labels):
        labels = _labels(kind, setting)
    labels = rng.choice(labels, _ROWS) if len(labels) > _ROWS else rng.permutation(labels)
    if kind.outputs == "classes":
        mixed = rng.random(len(labels)) < _mixed(kind, at, labels)
        outputs = labels.copy()
        outputs[mixed] = rng.permutation(labels[mixed])
        return Judged(outputs, labels)
    if kind.outputs == "numbers":
        return Judged(labels + _error(kind, setting, at, labels) * rng.normal(size=len(labels)), labels)
    if kind.outputs == "probabilities":
        return _distributions(setting, at, labels, rng)
    if kind.outputs == "probability" and kind.name in ("brier", "neg_brier_score"):
        apart = np.clip(np.abs(rng.normal(size=len(labels))) * np.sqrt(at), 0.0, 1.0)
        return Judged(np.where(labels == 1.0, 1.0 - apart, apart), labels)
    if kind.outputs == "probability":
        told = rng.random(len(labels))
        return Judged(told, (rng.random(len(labels)) < np.clip(told + at * np.sign(told - 0.5), 0, 1)).astype(float))
    apart = float(scipy.special.ndtri(min(max(at, _FEW), 1.0 - _FEW)) + scipy.special.ndtri(1.0 - setting.rate))
    return Judged(rng.normal(size=len(labels)) + apart * labels, labels)


def likely_labels(
    kind: ScoreKind, first: NDArray[np.float64], second: NDArray[np.float64], labels: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Labels of rows with public predictions, as if both models were about right; shape (rows,).

    Args:
        kind: The score.
        first: Shape (rows,) or (rows, classes).
        second: The same of the other model.
        labels: Of the training rows, if there are any; numbers spread about predictions half as far as these.
    """
    rng, rows = np.random.default_rng(0), len(first)
    if kind.outputs == "classes":
        return np.where(rng.random(rows) < _EVEN, first, second)
    middle = (first + second) / 2.0
    if kind.outputs == "numbers":
        spread = float(np.std(middle if labels is None or not len(labels) else labels))
        return np.asarray(middle + _UNEXPLAINED * spread * rng.normal(size=rows))
    if middle.ndim == 1:
        return (rng.random(rows) < middle).astype(np.float64)
    return np.asarray((rng.random(rows)[:, None] > np.cumsum(middle, axis=1)[:, :-1]).sum(axis=1), dtype=np.float64)


def _mixed(kind: ScoreKind, at: float, labels: NDArray[np.float64]) -> float:
    """The share of rows whose predictions are exchanged at random, so that the score is about the guess.

    Predictions then have the shares of the classes. A class of the share p keeps ``1 - w (1 - p)`` of its F1.
    """
    if kind.name == "matthews_corrcoef":
        return float(min(2.0 - 2.0 * at, 1.0))
    shares = np.unique(labels, return_counts=True)[1] / len(labels)
    if kind.name in ("precision", "recall", "f1"):
        kept = float(np.mean(labels == 1.0))
    else:
        kept = float(np.sum(shares**2)) if kind.name == "f1_weighted" else 1.0 / len(shares)
    return min(max((1.0 - at) / max(1.0 - kept, _FEW), 0.0), 1.0)


def _labels(kind: ScoreKind, setting: Setting) -> NDArray[np.float64]:
    if kind.outputs == "numbers":
        return np.linspace(setting.low, setting.high, _ROWS)
    return (np.arange(_ROWS) % max(setting.classes, 2)).astype(np.float64)


def _error(kind: ScoreKind, setting: Setting, at: float, labels: NDArray[np.float64]) -> float:
    """The standard deviation of normal errors that have this score, in units of the labels."""
    zero, one = kind.ends(setting)
    score = zero + (one - zero) * at
    if kind.name == "r2":
        return float(np.sqrt(max(1.0 - score, _FEW) * max(float(np.var(labels)), _FEW**2)))
    if kind.name == "neg_mean_squared_error":
        return float(np.sqrt(-score))
    return -score * (1.25 if kind.name == "neg_mean_absolute_error" else 1.0)


def _distributions(setting: Setting, at: float, labels: NDArray[np.float64], rng: np.random.Generator) -> Judged:
    chance = np.exp(-at * setting.clip * rng.exponential(size=len(labels)))
    told = np.repeat(((1.0 - chance) / max(setting.classes - 1, 1))[:, None], setting.classes, axis=1)
    places = np.clip(labels, 0, setting.classes - 1).astype(np.int64)
    told[np.arange(len(labels)), places] = chance
    return Judged(told, labels)
