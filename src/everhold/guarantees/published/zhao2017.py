"""Zhao 2017, Adaptive Statistical Learning with Bayesian Differential Privacy: statements P1, P2, P4, P5.

Every function takes what the dependence between rows adds as an argument whose default means independent rows.
For independent rows the proofs are complete; for dependent rows they are not (theory, erratum 5), and the
results say so. P3 stands in :mod:`everhold.guarantees.published.max_information`; P6 (Lemma 4, chains), and Lemmas 2
and 3 for many rows and quilts in both directions, in :mod:`everhold_lab.theory.bayesian_privacy`, where dependence
models find them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from everhold.guarantees.published.bound import (
    PublishedBound,
    check_count,
    check_fraction,
    check_nonnegative,
    check_positive,
    check_radius,
    check_session,
    smallest_radius,
    whole_rows,
)

__all__ = [
    "ZhaoCalibration",
    "blanket_price",
    "independent_price",
    "quilt_price",
    "zhao_lemma_1",
    "zhao_lemma_2",
    "zhao_lemma_3",
    "zhao_n_sharp",
    "zhao_n_star",
    "zhao_privacy",
    "zhao_theorem_2",
    "zhao_theorem_2_calibration",
    "zhao_theorem_2_rows",
    "zhao_theorem_2_rows_as_printed",
]

_STATEMENT = "zhao_theorem_2"
_SOURCE = "Zhao 2017, Theorem 2"


@dataclass(frozen=True, slots=True)
class ZhaoCalibration:
    """Parameters of Zhao's Algorithm 1: noise scales `scale`, `4 scale`, `2 scale`, and the threshold.

    Attributes:
        scale: sigma, of the threshold's Laplace noise; the answer has `4 sigma`, the comparison `2 sigma`.
        threshold: T, in units of the query.
    """

    scale: float
    threshold: float


def zhao_privacy(rows: int, *, overfits: int, scale: float) -> float:
    """Pure privacy loss of Algorithm 1 about one row: ``9 B / (4 sigma n)``.

    Each top costs ``Delta (1/sigma + 2/(2 sigma) + 1/(4 sigma))`` with sensitivity ``Delta = 1/n``.

    Raises:
        ValueError: If a count is below 1 or the scale is not positive.

    Source: Zhao 2017, Algorithm 1 (theory, section 1).
    """
    check_count("rows", rows)
    check_count("overfits", overfits)
    check_positive("scale", scale)
    return 9.0 * overfits / (4.0 * scale * rows)


def independent_price(tolerance: float) -> float:
    """Price of noise for independent rows, ``1 / (tau/3)``: the reciprocal of the privacy loss that P4 allows."""
    return 3.0 / tolerance


def quilt_price(tolerance: float, *, nearby: int = 0, quilt_influence: float = 0.0) -> float:
    """Price of noise with a Markov quilt, ``(|N|+1) / (tau/3 - 4 b)``, ``inf`` where the quilt does not count.

    Args:
        tolerance: tau, in units of the query.
        nearby: |N|, rows between the row and its quilt.
        quilt_influence: b, the max-influence of the row on its quilt; at ``4 b >= tau/3`` the quilt does not count.
    """
    return (nearby + 1) * blanket_price(tolerance, blanket_influence=quilt_influence)


def blanket_price(tolerance: float, *, blanket_influence: float = 0.0) -> float:
    """Price of noise with the Markov blanket, ``1 / (tau/3 - 4 a)``, ``inf`` where that is not positive."""
    check_positive("tolerance", tolerance)
    check_nonnegative("influence", blanket_influence)
    room = tolerance / 3.0 - 4.0 * blanket_influence
    return 1.0 / room if room > 0.0 else math.inf


def _theorem_1_rows(overfits: float, scale: float, tolerance: float, failure: float, price: float) -> float:
    return max(9.0 * math.log(4.0 / failure) / tolerance**2, 9.0 * overfits * price / (4.0 * scale))


def _check_theorem_1(overfits: float, scale: float, tolerance: float, failure: float) -> None:
    check_count("overfits", overfits)
    check_positive("scale", scale)
    check_positive("tolerance", tolerance)
    check_fraction("failure", failure)


def zhao_n_star(
    overfits: int, scale: float, tolerance: float, failure: float, *, blanket_influence: float = 0.0
) -> float:
    """Rows by Markov blankets, ``n_* = max{9 ln(4/beta)/tau^2, 9B/(4 sigma (tau/3 - 4a))}`` (statement P1).

    With so many rows ``P[|Q_i(X) - Q_i(P)| >= tau] <= beta`` for each question i of Algorithm 1.

    Args:
        overfits: B.
        scale: sigma, in units of the query.
        tolerance: tau, in units of the query.
        failure: beta, in (0, 1), for one question.
        blanket_influence: a = max_i a_i; 0 for independent rows.

    Returns:
        Rows, not rounded; ``inf`` where ``4 a >= tau/3``.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Zhao 2017, Theorem 1. Erratum 1: the proof applies Lemma 2 backwards, the condition is right; erratum 5:
    for dependent rows the proof has an open gap.
    """
    _check_theorem_1(overfits, scale, tolerance, failure)
    price = blanket_price(tolerance, blanket_influence=blanket_influence)
    return _theorem_1_rows(overfits, scale, tolerance, failure, price)


def zhao_n_sharp(
    overfits: int,
    scale: float,
    tolerance: float,
    failure: float,
    *,
    nearby: int = 0,
    quilt_influence: float = 0.0,
) -> float:
    """Rows by Markov quilts, ``n_# = max{9 ln(4/beta)/tau^2, 9B(|N|+1)/(4 sigma (tau/3 - 4b))}`` (statement P1).

    For several rows and quilts take the largest over rows of the smallest over quilts. See :func:`zhao_n_star`
    for the promise, the arguments and the errata.

    Args:
        overfits: B.
        scale: sigma, in units of the query.
        tolerance: tau, in units of the query.
        failure: beta, in (0, 1), for one question.
        nearby: |N_i|; 0 for independent rows.
        quilt_influence: b_i; 0 for independent rows.

    Returns:
        Rows, not rounded; ``inf`` where ``4 b >= tau/3``.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Zhao 2017, Theorem 1.
    """
    _check_theorem_1(overfits, scale, tolerance, failure)
    check_nonnegative("nearby", nearby)
    price = quilt_price(tolerance, nearby=nearby, quilt_influence=quilt_influence)
    return _theorem_1_rows(overfits, scale, tolerance, failure, price)


def zhao_theorem_2_calibration(radius: float, *, queries: int, confidence: float, slack: float) -> ZhaoCalibration:
    """Noise and threshold of statement P2: ``sigma = (1-c) tau / (12 ln(4m/beta))``, ``T = (1+c) tau / 2``.

    Raises:
        ValueError: If `radius`, `confidence` or `slack` is outside (0, 1).

    Source: Zhao 2017, Theorem 2.
    """
    check_radius(radius)
    check_count("queries", queries)
    check_fraction("confidence", confidence)
    check_fraction("slack", slack)
    scale = (1.0 - slack) * radius / (12.0 * math.log(4.0 * queries / (1.0 - confidence)))
    return ZhaoCalibration(scale=scale, threshold=(1.0 + slack) * radius / 2.0)


def zhao_theorem_2_rows(
    radius: float,
    /,
    *,
    queries: int,
    overfits: int,
    confidence: float,
    slack: float,
    price: Callable[[float], float] = independent_price,
) -> PublishedBound:
    """Rows for a wished radius, ``n_#(B, sigma, (1-c) tau/4, beta/(2m))`` (statement P2).

    With probability `confidence`, every question before the budget of `overfits` is used up is answered within
    `radius` of the population; budget is not spent while ``|Q(D) - Q(P)| < c tau``.

    Args:
        radius: tau, in units of the query, in (0, 1).
        queries: m, at least `overfits`.
        overfits: B.
        confidence: 1 - beta, in (0, 1).
        slack: c, in (0, 1).
        price: Tolerance to price of noise; for dependent rows ``max_i min_Q`` of :func:`quilt_price`, which is
            ``model.bayesian_price(tolerance / 3, rows)`` of a dependence model, or 1/h of Lemma 4 for a chain
            (``h = chain_privacy_for(tolerance / 3, ...)``, erratum 7).

    Returns:
        Rows, noise scale and threshold.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Zhao 2017, Theorem 2. Erratum 2: the printed (31) is not the definition of n_#; the definition is
    evaluated here. Erratum 9: the proof adds one probability too few, and stands when it is added.

    Examples:
        >>> zhao_theorem_2_rows(0.1, queries=1000, overfits=10, confidence=0.95, slack=1 / 3).rows
        8230252
    """
    check_session(queries=queries, overfits=overfits, confidence=confidence, slack=slack)
    rows = _theorem_2_rows(radius, queries, overfits, confidence, slack, price)
    return _bound(radius, whole_rows(rows), queries, confidence, slack, price)


def zhao_theorem_2(
    rows: float,
    /,
    *,
    queries: int,
    overfits: int,
    confidence: float,
    slack: float,
    price: Callable[[float], float] = independent_price,
) -> PublishedBound:
    """Radius of statement P2 for the rows at hand: the inverse of :func:`zhao_theorem_2_rows`, same arguments.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Zhao 2017, Theorem 2.
    """
    check_count("rows", rows)
    check_session(queries=queries, overfits=overfits, confidence=confidence, slack=slack)
    check_fraction("slack", slack)
    radius = smallest_radius(lambda tau: _theorem_2_rows(tau, queries, overfits, confidence, slack, price), rows)
    return _bound(radius, rows, queries, confidence, slack, price)


def zhao_theorem_2_rows_as_printed(
    radius: float, *, queries: int, overfits: int, confidence: float, slack: float
) -> float:
    """Rows of the printed (31), ``n_#(B, sigma, tau, beta)``, for comparison only (erratum 2).

    It is smaller than the definition requires and promises nothing.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Zhao 2017, equation (31).
    """
    check_session(queries=queries, overfits=overfits, confidence=confidence, slack=slack)
    scale = zhao_theorem_2_calibration(radius, queries=queries, confidence=confidence, slack=slack).scale
    return _theorem_1_rows(overfits, scale, radius, 1.0 - confidence, independent_price(radius))


def _theorem_2_rows(
    radius: float, queries: int, overfits: int, confidence: float, slack: float, price: Callable[[float], float]
) -> float:
    scale = zhao_theorem_2_calibration(radius, queries=queries, confidence=confidence, slack=slack).scale
    tolerance = (1.0 - slack) * radius / 4.0
    return _theorem_1_rows(overfits, scale, tolerance, (1.0 - confidence) / (2.0 * queries), price(tolerance))


def _bound(
    radius: float, rows: float, queries: int, confidence: float, slack: float, price: Callable[[float], float]
) -> PublishedBound:
    parameters: dict[str, float] = {"slack": slack}
    if math.isfinite(radius):
        chosen = zhao_theorem_2_calibration(radius, queries=queries, confidence=confidence, slack=slack)
        parameters |= {"scale": chosen.scale, "threshold": chosen.threshold}
    return PublishedBound(_STATEMENT, _SOURCE, radius, rows, parameters, proof_complete=price is independent_price)


def zhao_lemma_1(rows: int, *, tolerance: float, epsilon: float, sensitivity: float | None = None) -> float:
    """Failure probability of one chosen query, ``4 exp(-tau^2 / (9 n Delta^2))`` (statement P4).

    Args:
        rows: n.
        tolerance: tau, in units of the query.
        epsilon: Bayesian privacy loss of the choice; for independent rows its pure privacy loss.
        sensitivity: Delta, by default 1/n: a statistical query.

    Returns:
        A bound on ``P[|Y(X) - Y(P)| >= tau]``, at most 1.

    Raises:
        ValueError: If `epsilon` is above ``tau / (3 n Delta)`` or an argument is out of its range.

    Source: Zhao 2017, Lemma 1. Erratum 5: the proof uses bounded differences of the rows, so it needs them
    independent.
    """
    check_count("rows", rows)
    check_positive("tolerance", tolerance)
    check_nonnegative("epsilon", epsilon)
    step = 1.0 / rows if sensitivity is None else sensitivity
    check_positive("sensitivity", step)
    allowed = tolerance / (3.0 * rows * step)
    if epsilon > allowed * (1.0 + 1e-12):
        raise ValueError(f"epsilon is {epsilon:.6g}, above tolerance/(3 n sensitivity) = {allowed:.6g}; add noise")
    return min(1.0, 4.0 * math.exp(-(tolerance**2) / (9.0 * rows * step**2)))


def zhao_lemma_2(epsilon: float, *, nearby: int = 0, quilt_influence: float = 0.0) -> float:
    """Bayesian privacy loss by a quilt, ``(|N|+1) eps' + 4 b``; ``eps'`` itself for independent rows (statement P5).

    The lemma reads: eps'-DP implies eps-BDP for ``eps' = min_i max_Q (eps - 4 b_i)/(|N_i|+1)``. This is that
    sentence read forwards for one row and quilt; take the largest over rows of the smallest over quilts (erratum 1).

    Raises:
        ValueError: If an argument is negative.

    Source: Zhao 2017, Lemma 2.
    """
    check_nonnegative("epsilon", epsilon)
    check_nonnegative("nearby", nearby)
    check_nonnegative("quilt_influence", quilt_influence)
    return (nearby + 1) * epsilon + 4.0 * quilt_influence


def zhao_lemma_3(epsilon: float, *, blanket_influence: float = 0.0) -> float:
    """Bayesian privacy loss by the blanket, ``eps' + 4 a``; ``eps'`` itself for independent rows (statement P5).

    Raises:
        ValueError: If an argument is negative.

    Source: Zhao 2017, Lemma 3 read forwards (erratum 1).
    """
    return zhao_lemma_2(epsilon, quilt_influence=blanket_influence)
