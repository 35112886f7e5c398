"""Blum and Hardt 2015, The Ladder: A Reliable Leaderboard for Machine Learning Competitions, Theorem 3.1 (P12)."""

from __future__ import annotations

import math

from scipy.optimize import minimize_scalar

from everhold.guarantees.published.bound import PublishedBound, check_count, check_fraction, check_positive

__all__ = ["ladder_excess", "ladder_failure", "ladder_radius"]

_STATEMENT = "ladder_theorem_3_1"
_SOURCE = "Blum and Hardt 2015, Theorem 3.1"


def ladder_failure(rows: int, *, excess: float, submissions: int, step: float) -> float:
    """Failure of the leaderboard: ``exp(-2 e^2 n + (1/eta + 2) ln(4t/eta) + 1)``, at most 1 (statement P12).

    It bounds ``P[|min_{i<=t} R_P(f_i) - R_t| > e + eta]``: the best score shown after t submissions against the
    least true loss among them. Other scores are not promised.

    Args:
        rows: n, independent.
        excess: e, in units of the loss.
        submissions: t.
        step: eta, in (0, 1].

    Raises:
        ValueError: If an argument is out of its range.

    Source: Blum and Hardt 2015, Theorem 3.1.
    """
    check_count("rows", rows)
    check_positive("excess", excess)
    return min(1.0, math.exp(min(0.0, _tree(submissions, step) - 2.0 * excess**2 * rows)))


def ladder_excess(rows: int, *, submissions: int, step: float, failure: float) -> float:
    """The e at which :func:`ladder_failure` equals `failure`: ``sqrt(((1/eta+2) ln(4t/eta) + 1 + ln(1/beta)) / (2n))``.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Blum and Hardt 2015, Theorem 3.1, inverted.
    """
    check_count("rows", rows)
    check_fraction("failure", failure)
    return math.sqrt((_tree(submissions, step) - math.log(failure)) / (2.0 * rows))


def ladder_radius(rows: int, *, submissions: int, confidence: float) -> PublishedBound:
    """Error of the best score shown, ``e + eta``, with the step eta that makes it least (statement P12).

    Args:
        rows: n, independent.
        submissions: t.
        confidence: 1 - beta, in (0, 1).

    Returns:
        The radius (``inf`` from 1 on), and the step and excess that attain it.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Blum and Hardt 2015, Theorem 3.1.
    """
    check_fraction("confidence", confidence)

    def radius(log_step: float) -> float:
        step = math.exp(log_step)
        return step + ladder_excess(rows, submissions=submissions, step=step, failure=1.0 - confidence)

    best = minimize_scalar(radius, bounds=(-math.log(4.0 * rows), 0.0), method="bounded", options={"xatol": 1e-9})
    step, least = math.exp(float(best.x)), float(best.fun)
    parameters = {"step": step, "excess": least - step}
    return PublishedBound(_STATEMENT, _SOURCE, least if least < 1.0 else math.inf, rows, parameters)


def _tree(submissions: int, step: float) -> float:
    check_count("submissions", submissions)
    if not 0.0 < step <= 1.0:
        raise ValueError(f"step is {step!r}, expected a number in (0, 1]; pass e.g. 0.01")
    return (1.0 / step + 2.0) * math.log(4.0 * submissions / step) + 1.0
