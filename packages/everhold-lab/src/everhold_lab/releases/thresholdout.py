"""Thresholdout with the constants of the literature; its promise is what S1 proves for them, and is not copied."""

from __future__ import annotations

import math
from typing import Any

from everhold_lab.releases.sparse_vector import numeric_sparse_scales
from everhold_privacy.mechanisms.thresholdout import Thresholdout

__all__ = ["thresholdout_dwork2015", "thresholdout_numeric", "thresholdout_zhao2017"]


def thresholdout_zhao2017(
    *, rows: int, queries: int, surprises: int, tolerance: float, confidence: float = 0.95,
    slack: float = 1.0 / 3.0, **shared: Any,
) -> Thresholdout:  # fmt: skip
    """The calibration of Zhao 2017, Theorem 2 (P2): ``sigma = (1-c) tau/(12 ln(4m/beta))``, ``T = (1+c) tau/2``.

    Args:
        rows: Number of sealed rows.
        queries: Number of queries m.
        surprises: Number of releases B.
        tolerance: tau, the half-width that Theorem 2 is after.
        confidence: 1 - beta, in (0, 1).
        slack: c in (0, 1).
        **shared: ``dependence`` and ``unit``, as in `Thresholdout`.
    """
    scale = (1.0 - slack) * tolerance / (12.0 * math.log(4.0 * queries / (1.0 - confidence)))
    return Thresholdout(
        rows=rows, queries=queries, surprises=surprises, confidence=confidence,
        threshold=(1.0 + slack) * tolerance / 2.0,
        threshold_scale=scale, comparison_scale=2.0 * scale, answer_scale=4.0 * scale, **shared,
    )  # fmt: skip


def thresholdout_dwork2015(
    *, rows: int, queries: int, surprises: int, tolerance: float, confidence: float = 0.95, **shared: Any
) -> Thresholdout:
    """The calibration of Dwork et al., NIPS 2015, Theorem 25: ``sigma = tau/(96 ln(4m/beta))``, ``T = 3 tau/4``.

    Args:
        rows: Number of sealed rows.
        queries: Number of queries m.
        surprises: Number of releases B.
        tolerance: tau, the half-width that Theorem 25 is after.
        confidence: 1 - beta, in (0, 1).
        **shared: ``dependence`` and ``unit``, as in `Thresholdout`.
    """
    scale = tolerance / (96.0 * math.log(4.0 * queries / (1.0 - confidence)))
    return Thresholdout(
        rows=rows, queries=queries, surprises=surprises, confidence=confidence, threshold=0.75 * tolerance,
        threshold_scale=2.0 * scale, comparison_scale=4.0 * scale, answer_scale=scale, **shared,
    )  # fmt: skip


def thresholdout_numeric(
    *, rows: int, queries: int, surprises: int, threshold: float, epsilon: float, delta: float = 0.0, **shared: Any
) -> Thresholdout:
    """NumericSparse on the distances between guesses and sealed averages: Thresholdout with its scales.

    Its promise to the population is S1's, with the exact curve. `Thresholdout.tuned` has better scales.

    Args:
        rows: Number of sealed rows n; one of them moves a distance by ``1/n``.
        queries: Number of queries m.
        surprises: c, releases from the holdout.
        threshold: How far guess and sealed average may be apart.
        epsilon: Privacy loss of the whole session by the theorem.
        delta: Its delta, in [0, 1).
        **shared: ``confidence``, ``dependence`` and ``unit``, as in `Thresholdout`.

    Examples:
        >>> session = thresholdout_numeric(rows=10**6, queries=100, surprises=5, threshold=0.05, epsilon=1.0)
        >>> round(session.curve().epsilon(0.0), 6)
        1.0
    """
    theta, answer = numeric_sparse_scales(epsilon, tops=surprises, delta=delta)
    return Thresholdout(
        rows=rows, queries=queries, surprises=surprises, threshold=threshold, threshold_scale=theta / rows,
        comparison_scale=2.0 * theta / rows, answer_scale=answer / rows, **shared,
    )  # fmt: skip
