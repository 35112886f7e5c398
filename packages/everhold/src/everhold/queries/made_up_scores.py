"""Rows that stand in for training rows where nobody knows their predictions: they have about the guessed score.

They decide how wide an interval is expected to be, and no promise. All of it is public.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy

from everhold.queries.score_kinds import Judged, ScoreKind, Setting

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["made_up"]

_ROWS = 2_000
_FEW = 1e-3


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
        signed = kind.ends(setting)[0] < 0.0
        wrong = rng.random(len(labels)) > (at if not signed else max(2.0 * at - 1.0, 0.0) / 2.0 + 0.5)
        return Judged(np.where(wrong, (labels + 1.0) % setting.classes, labels), labels)
    if kind.outputs == "numbers":
        return Judged(labels + _error(kind, setting, at, labels) * rng.normal(size=len(labels)), labels)
    if kind.outputs == "probabilities":
        return _distributions(setting, at, labels, rng)
    if kind.outputs == "probability" and kind.name == "neg_brier_score":
        apart = np.clip(np.abs(rng.normal(size=len(labels))) * np.sqrt(at), 0.0, 1.0)
        return Judged(np.where(labels == 1.0, 1.0 - apart, apart), labels)
    if kind.outputs == "probability":
        told = rng.random(len(labels))
        return Judged(told, (rng.random(len(labels)) < np.clip(told + at * np.sign(told - 0.5), 0, 1)).astype(float))
    apart = float(scipy.special.ndtri(min(max(at, 0.55), 1.0 - _FEW))) * 1.4
    return Judged(rng.normal(size=len(labels)) + apart * labels, labels)


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
