"""Thresholdout as published: Zhao 2017 (Theorems 1 and 2, P1 and P2) and Dwork et al. 2015 (Lemma 24, Theorem 25).

Zhao 2017, Adaptive Statistical Learning with Bayesian Differential Privacy, has the noise scales ``sigma`` (threshold),
``2 sigma`` (comparison) and ``4 sigma`` (answer). What the dependence between rows adds is a price; for independent
rows the proofs are complete, for dependent rows they are not (theory, erratum 5), and the results say so.

Dwork, Feldman, Hardt, Pitassi, Reingold and Roth 2015 (NIPS), Generalization in Adaptive Data Analysis and Holdout
Reuse, has ``2 sigma`` (threshold), ``4 sigma`` (comparison) and ``sigma`` (answer). Rows must be independent and
identically distributed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from everhold.arguments import fraction, positive
from everhold_lab.published.bound import (
    BoundOfSource,
    StatementOfSource,
    check_count,
    check_session,
    smallest_radius,
    whole_rows,
)

_ZHAO, _DWORK = "zhao_theorem_2", "dwork_theorem_25"
_DWORK_SLACK = 0.5


@dataclass(frozen=True, slots=True)
class Calibration:
    """Parameters of Thresholdout in units of the query.

    Attributes:
        scale: sigma; which Laplace noises are its multiples is said at the top of the module.
        threshold: Threshold T of a comparison.
    """

    scale: float
    threshold: float


def _bound(
    statement: str, radius: float, rows: float, slack: float, calibrated: Callable[[float], Calibration]
) -> BoundOfSource:
    parameters: dict[str, float] = {"slack": slack}
    if math.isfinite(radius):
        chosen = calibrated(radius)
        parameters |= {"scale": chosen.scale, "threshold": chosen.threshold}
    return BoundOfSource(statement, radius, rows, parameters)


# Zhao 2017 ------------------------------------------------------------------------------------------------------------


def independent_price(tolerance: float) -> float:
    """Return the price of noise for independent rows, ``1 / (tau/3)``, one over the loss that P4 allows."""
    return 3.0 / tolerance


def zhao_theorem_1_rows(surprises: float, scale: float, tolerance: float, failure: float, *, price: float) -> float:
    """Return the rows for one query, ``max{9 ln(4/beta)/tau^2, 9 B price/(4 sigma)}`` (statement P1).

    With so many rows ``P[|Q_i(X) - Q_i(P)| >= tau] <= beta`` for each query i of Algorithm 1.

    Args:
        surprises: Number B of releases.
        scale: sigma, in units of the query.
        tolerance: tau, in units of the query.
        failure: beta, in (0, 1), for one query.
        price: Price of noise at this tolerance: `independent_price` for independent rows, or the price of a Markov
            quilt or Markov blanket.

    Returns:
        Rows, not rounded; ``inf`` where the price is.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Zhao 2017, Theorem 1. Erratum 1: the proof applies Lemma 2 backwards, the condition is right; erratum 5:
    for dependent rows the proof has an open gap.
    """
    check_count("surprises", surprises)
    positive(scale, "scale")
    positive(tolerance, "tolerance")
    fraction(failure, "failure")
    return max(9.0 * math.log(4.0 / failure) / tolerance**2, 9.0 * surprises * price / (4.0 * scale))


def zhao_theorem_2_calibration(radius: float, *, queries: int, confidence: float, slack: float) -> Calibration:
    """Return noise and threshold of P2: ``sigma = (1-c) tau / (12 ln(4m/beta))``, ``T = (1+c) tau / 2``.

    Raises:
        ValueError: If `radius`, `confidence` or `slack` is outside (0, 1).

    Source: Zhao 2017, Theorem 2.
    """
    fraction(radius, "radius")
    check_count("queries", queries)
    failure = 1.0 - fraction(confidence, "confidence")
    scale = (1.0 - fraction(slack, "slack")) * radius / (12.0 * math.log(4.0 * queries / failure))
    return Calibration(scale=scale, threshold=(1.0 + slack) * radius / 2.0)


def zhao_theorem_2_rows(
    radius: float,
    /,
    *,
    queries: int,
    surprises: int,
    confidence: float,
    slack: float,
    price: Callable[[float], float] = independent_price,
) -> BoundOfSource:
    """Return the rows for a radius, ``n_#(B, sigma, (1-c) tau/4, beta/(2m))`` (statement P2).

    With probability `confidence`, every query before the budget of `surprises` is used up is answered within
    `radius` of the population; budget is not spent while ``|Q(D) - Q(P)| < c tau``.

    Arguments and errors are those of every `SessionBound`, but the slack has to be positive, and `price` tells the
    price of noise for a tolerance; for dependent rows it is ``max_i min_Q (|N_i|+1)/(tau/3 - 4 b_i)``, which is
    ``model.bayesian_price(tolerance / 3, rows)`` of a dependence model, or 1/h of Lemma 4 for a chain (erratum 7).

    Source: Zhao 2017, Theorem 2. Erratum 2: the printed (31) is not the definition of n_#; the definition is
    evaluated here. Erratum 9: the proof adds one probability too few, and stands when it is added.

    Examples:
        >>> zhao_theorem_2_rows(0.1, queries=1000, surprises=10, confidence=0.95, slack=1 / 3).rows
        8230252
    """
    check_session(queries=queries, surprises=surprises, confidence=confidence, slack=slack)
    rows = whole_rows(_theorem_2_rows(radius, queries, surprises, confidence, slack, price))
    return _zhao_bound(radius, rows, queries, confidence, slack, price)


def zhao_theorem_2(
    rows: float,
    /,
    *,
    queries: int,
    surprises: int,
    confidence: float,
    slack: float,
    price: Callable[[float], float] = independent_price,
) -> BoundOfSource:
    """Return the radius of statement P2 for the rows at hand, the inverse of :func:`zhao_theorem_2_rows`."""
    check_count("rows", rows)
    check_session(queries=queries, surprises=surprises, confidence=confidence, slack=slack)
    fraction(slack, "slack")
    radius = smallest_radius(lambda tau: _theorem_2_rows(tau, queries, surprises, confidence, slack, price), rows)
    return _zhao_bound(radius, rows, queries, confidence, slack, price)


def _theorem_2_rows(
    radius: float, queries: int, surprises: int, confidence: float, slack: float, price: Callable[[float], float]
) -> float:
    scale = zhao_theorem_2_calibration(radius, queries=queries, confidence=confidence, slack=slack).scale
    tolerance, failure = (1.0 - slack) * radius / 4.0, (1.0 - confidence) / (2.0 * queries)
    return zhao_theorem_1_rows(surprises, scale, tolerance, failure, price=price(tolerance))


def _zhao_bound(
    radius: float, rows: float, queries: int, confidence: float, slack: float, price: Callable[[float], float]
) -> BoundOfSource:
    def calibrated(tau: float) -> Calibration:
        return zhao_theorem_2_calibration(tau, queries=queries, confidence=confidence, slack=slack)

    return replace(_bound(_ZHAO, radius, rows, slack, calibrated), proof_complete=price is independent_price)


ZHAO_THEOREM_2 = StatementOfSource(
    _ZHAO,
    "Zhao 2017, Theorem 2 (P2)",
    zhao_theorem_2,
    zhao_theorem_2_rows,
    colour="#999999",
    dependent=(zhao_theorem_2, zhao_theorem_2_rows),
)


# Dwork et al. 2015 ----------------------------------------------------------------------------------------------------


def dwork_n_0(surprises: int, scale: float, tolerance: float, failure: float) -> float:
    """Return the rows that Lemma 24 needs by pure privacy, ``n_0 = max{2B/(sigma tau), ln(6/beta)/tau^2}``."""
    _check_lemma_24(surprises, scale, tolerance, failure)
    return max(2.0 * surprises / (scale * tolerance), math.log(6.0 / failure) / tolerance**2)


def dwork_n_1(surprises: int, scale: float, tolerance: float, failure: float) -> float:
    """Return the rows that Lemma 24 needs by approximate privacy, ``80 sqrt(B ln(1/(tau beta))) / (tau sigma)``."""
    _check_lemma_24(surprises, scale, tolerance, failure)
    return 80.0 * math.sqrt(surprises * math.log(1.0 / (tolerance * failure))) / (tolerance * scale)


def dwork_lemma_24(surprises: int, scale: float, tolerance: float, failure: float) -> float:
    """Return the rows for one query, ``min{n_0, n_1}``: then ``P[|f_i(X) - f_i(P)| >= tau] <= beta`` for each.

    Args:
        surprises: Number B of releases.
        scale: sigma, in units of the query.
        tolerance: tau, in (0, 1).
        failure: beta, in (0, 1), for one query.

    Returns:
        Rows, not rounded.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Dwork et al. 2015 (NIPS), Lemma 24; for independent, identically distributed rows.
    """
    return min(dwork_n_0(surprises, scale, tolerance, failure), dwork_n_1(surprises, scale, tolerance, failure))


def _check_lemma_24(surprises: int, scale: float, tolerance: float, failure: float) -> None:
    check_count("surprises", surprises)
    positive(scale, "scale")
    fraction(tolerance, "tolerance")
    fraction(failure, "failure")


def dwork_theorem_25_calibration(radius: float, *, queries: int, confidence: float) -> Calibration:
    """Return noise and threshold of Theorem 25: ``sigma = tau/(96 ln(4m/beta))``, ``T = 3 tau/4``.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Dwork et al. 2015 (NIPS), Theorem 25.
    """
    fraction(radius, "radius")
    check_count("queries", queries)
    scale = radius / (96.0 * math.log(4.0 * queries / (1.0 - fraction(confidence, "confidence"))))
    return Calibration(scale=scale, threshold=0.75 * radius)


def dwork_theorem_25_rows(
    radius: float, /, *, queries: int, surprises: int, confidence: float, slack: float = _DWORK_SLACK
) -> BoundOfSource:
    """Return the rows for a radius by Theorem 25: ``min{n_0, n_1}(B, sigma, tau/8, beta/(2m))``.

    With probability `confidence`, every query before the budget is used up is answered within `radius` of the
    population; budget is not spent while ``|f(D) - f(P)| <= tau/2``. So c = 1/2 is built in: the theorem serves every
    slack up to 1/2 and none above, for which the rows are ``inf``.

    It takes the arguments of a `SessionBound`, and raises the same errors.

    Source: Dwork et al. 2015 (NIPS), Theorem 25.
    """
    fraction(radius, "radius")
    check_session(queries=queries, surprises=surprises, confidence=confidence, slack=slack)
    rows = math.inf if slack > _DWORK_SLACK else _theorem_25_rows(radius, queries, surprises, confidence)
    return _dwork_bound(radius, whole_rows(rows), queries, confidence, slack)


def dwork_theorem_25(
    rows: float, /, *, queries: int, surprises: int, confidence: float, slack: float = _DWORK_SLACK
) -> BoundOfSource:
    """Return the radius of Theorem 25 for the rows at hand, the inverse of :func:`dwork_theorem_25_rows`."""
    check_count("rows", rows)
    check_session(queries=queries, surprises=surprises, confidence=confidence, slack=slack)
    radius = math.inf
    if slack <= _DWORK_SLACK:
        radius = smallest_radius(lambda tau: _theorem_25_rows(tau, queries, surprises, confidence), rows)
    return _dwork_bound(radius, rows, queries, confidence, slack)


def _theorem_25_rows(radius: float, queries: int, surprises: int, confidence: float) -> float:
    scale = dwork_theorem_25_calibration(radius, queries=queries, confidence=confidence).scale
    return dwork_lemma_24(surprises, scale, radius / 8.0, (1.0 - confidence) / (2.0 * queries))


def _dwork_bound(radius: float, rows: float, queries: int, confidence: float, slack: float) -> BoundOfSource:
    def calibrated(tau: float) -> Calibration:
        return dwork_theorem_25_calibration(tau, queries=queries, confidence=confidence)

    if slack > _DWORK_SLACK:
        return BoundOfSource(_DWORK, radius, rows, note="the theorem serves a slack of at most 1/2")
    return _bound(_DWORK, radius, rows, _DWORK_SLACK, calibrated)


DWORK_THEOREM_25 = StatementOfSource(
    _DWORK, "Dwork et al. 2015 (NIPS), Theorem 25", dwork_theorem_25, dwork_theorem_25_rows, colour="#4d4d4d"
)
