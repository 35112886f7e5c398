"""Thresholdout as published, by Zhao 2017 and by Dwork et al. 2015.

Zhao 2017, Adaptive Statistical Learning with Bayesian Differential Privacy (Theorems 1, 2, Lemmas 1 to 3), has the
noise scales ``sigma`` (threshold), ``2 sigma`` (comparison) and ``4 sigma`` (answer). What the dependence between rows
adds is a price; for independent rows the proofs are complete, for dependent rows they are not (theory, erratum 5), and
the results say so.

Dwork, Feldman, Hardt, Pitassi, Reingold and Roth 2015 (NIPS), Generalization in Adaptive Data Analysis and Holdout
Reuse (Lemmas 23, 24, Theorem 25), has ``2 sigma`` (threshold), ``4 sigma`` (comparison) and ``sigma`` (answer). Rows
must be independent and identically distributed.

Lemma 4 (P6), and Lemmas 2 and 3 for many rows and quilts in both directions, are in
`everhold_lab.published.bayesian_privacy`, and Theorem 3 (P3) is in `everhold_lab.published.post_selection`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from everhold.arguments import fraction, positive
from everhold_lab.published.bound import (
    BoundOfSource,
    StatementOfSource,
    check_count,
    check_nonnegative,
    check_session,
    smallest_radius,
    whole_rows,
)
from everhold_privacy.mechanisms.thresholdout import Thresholdout

_ZHAO, _DWORK = "zhao_theorem_2", "dwork_theorem_25"
_DWORK_SLACK = 0.5


@dataclass(frozen=True, slots=True)
class Calibration:
    """Parameters of Thresholdout in units of the query.

    Attributes:
        scale: sigma, of which the scales of all three Laplace noises are multiples (see the module's docstring).
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
    check_session(queries=queries, surprises=surprises, confidence=confidence, slack=slack, rows=rows)
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
    check_session(queries=queries, surprises=surprises, confidence=confidence, slack=slack, radius=radius)
    rows = math.inf if slack > _DWORK_SLACK else _theorem_25_rows(radius, queries, surprises, confidence)
    return _dwork_bound(radius, whole_rows(rows), queries, confidence, slack)


def dwork_theorem_25(
    rows: float, /, *, queries: int, surprises: int, confidence: float, slack: float = _DWORK_SLACK
) -> BoundOfSource:
    """Return the radius of Theorem 25 for the rows at hand, the inverse of :func:`dwork_theorem_25_rows`."""
    check_session(queries=queries, surprises=surprises, confidence=confidence, slack=slack, rows=rows)
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


def dwork_lemma_23_pure(rows: int, *, surprises: int, scale: float) -> float:
    """Return the pure privacy loss of Thresholdout about one row: ``2 B / (sigma n)``.

    Raises:
        ValueError: If a count is below 1 or the scale is not positive.

    Source: Dwork et al. 2015 (NIPS), Lemma 23, first half.
    """
    check_count("rows", rows)
    check_count("surprises", surprises)
    positive(scale, "scale")
    return 2.0 * surprises / (scale * rows)


def dwork_lemma_23_approximate(rows: int, *, surprises: int, scale: float, delta: float) -> float:
    """Return the epsilon of Thresholdout at a given delta: ``sqrt(32 B ln(2/delta)) / (sigma n)``.

    Stated in the source for every delta > 0. It is advanced composition of B tops of ``e = 2/(sigma n)`` each, which
    yields this number while ``e sqrt(B) <= sqrt(8 ln(2/delta))``. Beyond that it can be false and is refused: for
    B = 100, e = 10, delta = 1/2 it is 333, while the 100 released answers alone have a mean privacy loss of 401.

    Args:
        rows: Number n of rows.
        surprises: Number B of releases.
        scale: sigma, in units of the query.
        delta: Delta of the privacy loss, in (0, 1).

    Raises:
        ValueError: If an argument is out of its range, or the noise is too small for advanced composition.

    Source: Dwork et al. 2015 (NIPS), Lemma 23, second half.
    """
    fraction(delta, "delta")
    check_count("surprises", surprises)
    top = dwork_lemma_23_pure(rows, surprises=1, scale=scale)
    if top * math.sqrt(surprises) > math.sqrt(8.0 * math.log(2.0 / delta)):
        raise ValueError(
            f"scale is {scale:.6g}, too small for advanced composition of {surprises} "
            "surprises. Use dwork_lemma_23_pure, a larger scale or more rows."
        )
    return math.sqrt(32.0 * surprises * math.log(2.0 / delta)) / (scale * rows)


def zhao_privacy(rows: int, *, surprises: int, scale: float) -> float:
    """Return the pure privacy loss of Algorithm 1 about one row: ``9 B / (4 sigma n)``.

    Each top costs ``Delta (1/sigma + 2/(2 sigma) + 1/(4 sigma))`` with sensitivity ``Delta = 1/n``.

    Raises:
        ValueError: If a count is below 1 or the scale is not positive.

    Source: Zhao 2017, Algorithm 1 (theory, section 1).
    """
    check_count("rows", rows)
    check_count("surprises", surprises)
    positive(scale, "scale")
    return 9.0 * surprises / (4.0 * scale * rows)


def quilt_price(tolerance: float, *, nearby: int = 0, quilt_influence: float = 0.0) -> float:
    """Return the price of noise with a Markov quilt, ``(|N|+1) / (tau/3 - 4 b)``, ``inf`` if the quilt has no use.

    Args:
        tolerance: tau, in units of the query.
        nearby: |N|, rows between the row and its quilt.
        quilt_influence: b, the max-influence of the row on its quilt; at ``4 b >= tau/3`` the quilt does not count.
    """
    return (nearby + 1) * blanket_price(tolerance, blanket_influence=quilt_influence)


def blanket_price(tolerance: float, *, blanket_influence: float = 0.0) -> float:
    """Return the price of noise with the Markov blanket, ``1 / (tau/3 - 4 a)``, ``inf`` where not positive."""
    positive(tolerance, "tolerance")
    check_nonnegative("influence", blanket_influence)
    room = tolerance / 3.0 - 4.0 * blanket_influence
    return 1.0 / room if room > 0.0 else math.inf


def zhao_n_star(
    surprises: int, scale: float, tolerance: float, failure: float, *, blanket_influence: float = 0.0
) -> float:
    """Return the rows by Markov blankets, ``n_* = max{9 ln(4/beta)/tau^2, 9B/(4 sigma (tau/3 - 4a))}`` (P1).

    With so many rows ``P[|Q_i(X) - Q_i(P)| >= tau] <= beta`` for each query i of Algorithm 1.

    Args:
        surprises: Number B of releases.
        scale: sigma, in units of the query.
        tolerance: tau, in units of the query.
        failure: beta, in (0, 1), for one query.
        blanket_influence: a = max_i a_i; 0 for independent rows.

    Returns:
        Rows, not rounded; ``inf`` where ``4 a >= tau/3``.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Zhao 2017, Theorem 1. Erratum 1: the proof applies Lemma 2 backwards, the condition is right; erratum 5:
    for dependent rows the proof has an open gap.
    """
    price = blanket_price(tolerance, blanket_influence=blanket_influence)
    return zhao_theorem_1_rows(surprises, scale, tolerance, failure, price=price)


def zhao_n_sharp(
    surprises: int,
    scale: float,
    tolerance: float,
    failure: float,
    *,
    nearby: int = 0,
    quilt_influence: float = 0.0,
) -> float:
    """Return the rows by Markov quilts, ``n_# = max{9 ln(4/beta)/tau^2, 9B(|N|+1)/(4 sigma (tau/3 - 4b))}`` (P1).

    For several rows and quilts take the largest over rows of the smallest over quilts. See :func:`zhao_n_star`
    for the promise, the arguments and the errata.

    Args:
        surprises: Number B of releases.
        scale: sigma, in units of the query.
        tolerance: tau, in units of the query.
        failure: beta, in (0, 1), for one query.
        nearby: |N_i|; 0 for independent rows.
        quilt_influence: b_i; 0 for independent rows.

    Returns:
        Rows, not rounded; ``inf`` where ``4 b >= tau/3``.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Zhao 2017, Theorem 1.
    """
    check_nonnegative("nearby", nearby)
    price = quilt_price(tolerance, nearby=nearby, quilt_influence=quilt_influence)
    return zhao_theorem_1_rows(surprises, scale, tolerance, failure, price=price)


def zhao_theorem_2_rows_as_printed(
    radius: float, *, queries: int, surprises: int, confidence: float, slack: float
) -> float:
    """Return the rows of the printed (31), ``n_#(B, sigma, tau, beta)``, for comparison only (erratum 2).

    It is smaller than the definition requires and promises nothing.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Zhao 2017, equation (31).
    """
    check_session(queries=queries, surprises=surprises, confidence=confidence, slack=slack)
    scale = zhao_theorem_2_calibration(radius, queries=queries, confidence=confidence, slack=slack).scale
    return zhao_theorem_1_rows(surprises, scale, radius, 1.0 - confidence, price=independent_price(radius))


def zhao_lemma_1(rows: int, *, tolerance: float, epsilon: float, sensitivity: float | None = None) -> float:
    """Return the failure probability of one chosen query, ``4 exp(-tau^2 / (9 n Delta^2))`` (statement P4).

    Args:
        rows: Number n of rows.
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
    positive(tolerance, "tolerance")
    check_nonnegative("epsilon", epsilon)
    step = 1.0 / rows if sensitivity is None else sensitivity
    positive(step, "sensitivity")
    allowed = tolerance / (3.0 * rows * step)
    if epsilon > allowed * (1.0 + 1e-12):
        raise ValueError(
            f"epsilon is {epsilon:.6g}, above tolerance/(3 n sensitivity) = {allowed:.6g}. Pass a smaller epsilon."
        )
    return min(1.0, 4.0 * math.exp(-(tolerance**2) / (9.0 * rows * step**2)))


def zhao_lemma_2(epsilon: float, *, nearby: int = 0, quilt_influence: float = 0.0) -> float:
    """Return the Bayesian privacy loss by a quilt, ``(|N|+1) eps' + 4 b``, or ``eps'`` for independent rows (P5).

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
    """Return the Bayesian privacy loss by the blanket, ``eps' + 4 a``, or ``eps'`` for independent rows (P5).

    Raises:
        ValueError: If an argument is negative.

    Source: Zhao 2017, Lemma 3 read forwards (erratum 1).
    """
    return zhao_lemma_2(epsilon, quilt_influence=blanket_influence)


def thresholdout_zhao2017(
    *, rows: int, queries: int, surprises: int, tolerance: float, confidence: float = 0.95,
    slack: float = 1.0 / 3.0, **shared: Any,
) -> Thresholdout:  # fmt: skip
    """Return the mechanism of Zhao 2017, Theorem 2 (P2), with the promise that S1 proves for its scales.

    Args:
        rows: Number of sealed rows.
        queries: Number of queries m.
        surprises: Number of releases B.
        tolerance: tau, the half-width for which Theorem 2 calibrates the noise.
        confidence: 1 - beta, in (0, 1).
        slack: c in (0, 1).
        **shared: ``dependence`` and ``unit``, as in `Thresholdout`.
    """
    found = zhao_theorem_2_calibration(tolerance, queries=queries, confidence=confidence, slack=slack)
    return Thresholdout(
        rows=rows, queries=queries, surprises=surprises, confidence=confidence, threshold=found.threshold,
        threshold_scale=found.scale, comparison_scale=2.0 * found.scale, answer_scale=4.0 * found.scale, **shared,
    )  # fmt: skip


def thresholdout_dwork2015(
    *, rows: int, queries: int, surprises: int, tolerance: float, confidence: float = 0.95, **shared: Any
) -> Thresholdout:
    """Return the mechanism of Dwork et al., NIPS 2015, Theorem 25, with the promise that S1 proves.

    Args:
        rows: Number of sealed rows.
        queries: Number of queries m.
        surprises: Number of releases B.
        tolerance: tau, the half-width for which Theorem 25 calibrates the noise.
        confidence: 1 - beta, in (0, 1).
        **shared: ``dependence`` and ``unit``, as in `Thresholdout`.
    """
    found = dwork_theorem_25_calibration(tolerance, queries=queries, confidence=confidence)
    return Thresholdout(
        rows=rows, queries=queries, surprises=surprises, confidence=confidence, threshold=found.threshold,
        threshold_scale=2.0 * found.scale, comparison_scale=4.0 * found.scale, answer_scale=found.scale, **shared,
    )  # fmt: skip
