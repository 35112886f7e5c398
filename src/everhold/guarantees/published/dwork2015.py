"""Dwork et al. 2015 (NIPS), Generalization in Adaptive Data Analysis and Holdout Reuse: Thresholdout.

The authors are Dwork, Feldman, Hardt, Pitassi, Reingold and Roth. Thresholdout has noise scales `2 sigma` (threshold),
`4 sigma` (comparison) and `sigma` (answer). Rows must be independent and identically distributed. Theorems 17, 19 and
20 stand in :mod:`everhold.guarantees.published.max_information`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from everhold.guarantees.published.bound import (
    PublishedBound,
    check_count,
    check_fraction,
    check_positive,
    check_radius,
    check_session,
    smallest_radius,
    whole_rows,
)

__all__ = [
    "DworkCalibration",
    "dwork_lemma_23_approximate",
    "dwork_lemma_23_pure",
    "dwork_lemma_24",
    "dwork_n_0",
    "dwork_n_1",
    "dwork_theorem_25",
    "dwork_theorem_25_calibration",
    "dwork_theorem_25_rows",
]

_STATEMENT = "dwork_theorem_25"
_SOURCE = "Dwork et al. 2015 (NIPS), Theorem 25"
_SLACK = 0.5


@dataclass(frozen=True, slots=True)
class DworkCalibration:
    """Parameters of Thresholdout: noise scales `2 scale`, `4 scale`, `scale`, and the threshold.

    Attributes:
        scale: sigma, of the released answer's Laplace noise.
        threshold: T, in units of the query.
    """

    scale: float
    threshold: float


def dwork_lemma_23_pure(rows: int, *, overfits: int, scale: float) -> float:
    """Pure privacy loss of Thresholdout about one row: ``2 B / (sigma n)``.

    Raises:
        ValueError: If a count is below 1 or the scale is not positive.

    Source: Dwork et al. 2015 (NIPS), Lemma 23, first half.
    """
    check_count("rows", rows)
    check_count("overfits", overfits)
    check_positive("scale", scale)
    return 2.0 * overfits / (scale * rows)


def dwork_lemma_23_approximate(rows: int, *, overfits: int, scale: float, delta: float) -> float:
    """Epsilon of Thresholdout at a given delta: ``sqrt(32 B ln(2/delta)) / (sigma n)``.

    Stated in the source for every delta > 0. It is advanced composition of B tops of ``e = 2/(sigma n)`` each, which
    yields this number while ``e sqrt(B) <= sqrt(8 ln(2/delta))``. Beyond that it can be false and is refused: for
    B = 100, e = 10, delta = 1/2 it is 333, while the 100 released answers alone have a mean privacy loss of 401.

    Args:
        rows: n.
        overfits: B.
        scale: sigma, in units of the query.
        delta: In (0, 1).

    Raises:
        ValueError: If an argument is out of its range, or the noise is too small for advanced composition.

    Source: Dwork et al. 2015 (NIPS), Lemma 23, second half.
    """
    check_fraction("delta", delta)
    check_count("overfits", overfits)
    top = dwork_lemma_23_pure(rows, overfits=1, scale=scale)
    if top * math.sqrt(overfits) > math.sqrt(8.0 * math.log(2.0 / delta)):
        raise ValueError(
            f"scale is {scale:.6g}, too small for advanced composition of {overfits} overfits; "
            "use the pure form, a larger scale or more rows"
        )
    return math.sqrt(32.0 * overfits * math.log(2.0 / delta)) / (scale * rows)


def dwork_n_0(overfits: int, scale: float, tolerance: float, failure: float) -> float:
    """Rows by pure privacy, ``n_0 = max{2B/(sigma tau), ln(6/beta)/tau^2}``, not rounded.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Dwork et al. 2015 (NIPS), Lemma 24.
    """
    _check_lemma_24(overfits, scale, tolerance, failure)
    return max(2.0 * overfits / (scale * tolerance), math.log(6.0 / failure) / tolerance**2)


def dwork_n_1(overfits: int, scale: float, tolerance: float, failure: float) -> float:
    """Rows by approximate privacy, ``n_1 = 80 sqrt(B ln(1/(tau beta))) / (tau sigma)``, not rounded.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Dwork et al. 2015 (NIPS), Lemma 24.
    """
    _check_lemma_24(overfits, scale, tolerance, failure)
    return 80.0 * math.sqrt(overfits * math.log(1.0 / (tolerance * failure))) / (tolerance * scale)


def dwork_lemma_24(overfits: int, scale: float, tolerance: float, failure: float) -> float:
    """Rows for one question, ``min{n_0, n_1}``: then ``P[|f_i(X) - f_i(P)| >= tau] <= beta`` for each question i.

    Args:
        overfits: B.
        scale: sigma, in units of the query.
        tolerance: tau, in (0, 1).
        failure: beta, in (0, 1), for one question.

    Returns:
        Rows, not rounded.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Dwork et al. 2015 (NIPS), Lemma 24; for independent, identically distributed rows.
    """
    return min(dwork_n_0(overfits, scale, tolerance, failure), dwork_n_1(overfits, scale, tolerance, failure))


def _check_lemma_24(overfits: int, scale: float, tolerance: float, failure: float) -> None:
    check_count("overfits", overfits)
    check_positive("scale", scale)
    check_fraction("tolerance", tolerance)
    check_fraction("failure", failure)


def dwork_theorem_25_calibration(radius: float, *, queries: int, confidence: float) -> DworkCalibration:
    """Noise and threshold of Theorem 25: ``sigma = tau/(96 ln(4m/beta))``, ``T = 3 tau/4``.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Dwork et al. 2015 (NIPS), Theorem 25.
    """
    check_radius(radius)
    check_count("queries", queries)
    check_fraction("confidence", confidence)
    scale = radius / (96.0 * math.log(4.0 * queries / (1.0 - confidence)))
    return DworkCalibration(scale=scale, threshold=0.75 * radius)


def dwork_theorem_25_rows(
    radius: float, /, *, queries: int, overfits: int, confidence: float, slack: float = _SLACK
) -> PublishedBound:
    """Rows for a wished radius: ``min{n_0, n_1}(B, sigma, tau/8, beta/(2m))``.

    With probability `confidence`, every question before the budget is used up is answered within `radius` of the
    population; budget is not spent while ``|f(D) - f(P)| <= tau/2``.

    Args:
        radius: tau, in units of the query, in (0, 1).
        queries: m, at least `overfits`.
        overfits: B.
        confidence: 1 - beta, in (0, 1).
        slack: c, in [0, 1). The theorem has c = 1/2 built in: it serves every c up to 1/2 and none above.

    Returns:
        Rows, noise scale and threshold; ``inf`` rows for a slack above 1/2.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Dwork et al. 2015 (NIPS), Theorem 25.
    """
    check_radius(radius)
    check_session(queries=queries, overfits=overfits, confidence=confidence, slack=slack)
    rows = math.inf if slack > _SLACK else _theorem_25_rows(radius, queries, overfits, confidence)
    return _bound(radius, whole_rows(rows), queries, confidence, slack)


def dwork_theorem_25(
    rows: float, /, *, queries: int, overfits: int, confidence: float, slack: float = _SLACK
) -> PublishedBound:
    """Radius of Theorem 25 for the rows at hand: the inverse of :func:`dwork_theorem_25_rows`, same arguments.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Dwork et al. 2015 (NIPS), Theorem 25.
    """
    check_count("rows", rows)
    check_session(queries=queries, overfits=overfits, confidence=confidence, slack=slack)
    radius = math.inf
    if slack <= _SLACK:
        radius = smallest_radius(lambda tau: _theorem_25_rows(tau, queries, overfits, confidence), rows)
    return _bound(radius, rows, queries, confidence, slack)


def _theorem_25_rows(radius: float, queries: int, overfits: int, confidence: float) -> float:
    scale = dwork_theorem_25_calibration(radius, queries=queries, confidence=confidence).scale
    return dwork_lemma_24(overfits, scale, radius / 8.0, (1.0 - confidence) / (2.0 * queries))


def _bound(radius: float, rows: float, queries: int, confidence: float, slack: float) -> PublishedBound:
    if slack > _SLACK:
        return PublishedBound(_STATEMENT, _SOURCE, radius, rows, note="the theorem serves a slack of at most 1/2")
    parameters: dict[str, float] = {"slack": _SLACK}
    if math.isfinite(radius):
        chosen = dwork_theorem_25_calibration(radius, queries=queries, confidence=confidence)
        parameters |= {"scale": chosen.scale, "threshold": chosen.threshold}
    return PublishedBound(_STATEMENT, _SOURCE, radius, rows, parameters)
