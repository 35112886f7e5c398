"""Utility of two classical mechanisms on the sealed rows: the exponential mechanism (P11) and BLR (P10).

These bound the error against the rows themselves. What the population adds comes from a transfer statement.
"""

from __future__ import annotations

import math

from everhold.guarantees.published.bound import check_count, check_fraction, check_positive

__all__ = ["blr_error", "blr_rows", "exponential_utility", "small_database_rows"]


def exponential_utility(outcomes: int, *, sensitivity: float, epsilon: float, confidence: float) -> float:
    """How far below the best the chosen score is: ``(2 Delta_u / eps) ln(|R| / beta)`` (statement P11).

    For the mechanism ``P[y] ~ exp(eps u(x,y) / (2 Delta_u))``, with probability `confidence`.

    Args:
        outcomes: |R|, any size of integer.
        sensitivity: Delta_u, how much one row moves a score.
        epsilon: Privacy loss.
        confidence: 1 - beta, in (0, 1).

    Returns:
        The shortfall, in units of the score.

    Raises:
        ValueError: If an argument is out of its range.

    Source: McSherry and Talwar 2007; Dwork and Roth 2014, Corollary 3.12. No assumption on the rows.
    """
    if outcomes < 1:
        raise ValueError(f"outcomes is {outcomes!r}, expected at least 1; count every outcome that can be chosen")
    return _shortfall(math.log(outcomes), sensitivity, epsilon, confidence)


def small_database_rows(queries: int, *, accuracy: float) -> int:
    """Rows of a small data set that answers every query within `accuracy`: ``s = ceil(ln|Q| / alpha^2)`` (P10).

    Args:
        queries: |Q|, at least 2: sampling s rows fails with probability below ``2|Q| e^{-2 s alpha^2} <= 2/|Q|``.
        accuracy: alpha, in (0, 1).

    Raises:
        ValueError: If an argument is out of its range.

    Source: Blum, Ligett and Roth 2008; Dwork and Roth 2014, Theorem 4.2.
    """
    if queries < 2:
        raise ValueError(f"queries is {queries!r}, expected at least 2; answer a single query with noise instead")
    check_fraction("accuracy", accuracy)
    return math.ceil(math.log(queries) / accuracy**2)


def blr_error(rows: int, *, queries: int, universe: int, accuracy: float, epsilon: float, confidence: float) -> float:
    """Largest error of BLR's synthetic data on the sealed rows: ``alpha + 2/(eps n) (s ln|U| + ln(1/beta))`` (P10).

    The exponential mechanism picks among all ``|U|^s`` data sets of ``s = ceil(ln|Q|/alpha^2)`` rows by the score
    ``-max_f |f(x) - f(y)|``, which one row moves by 1/n.

    Args:
        rows: n.
        queries: |Q|, at least 2.
        universe: |U|, number of different rows that exist.
        accuracy: alpha, free; the smaller, the larger the data sets.
        epsilon: Privacy loss.
        confidence: 1 - beta, in (0, 1).

    Raises:
        ValueError: If an argument is out of its range.

    Source: Blum, Ligett and Roth 2008; Dwork and Roth 2014, Proposition 4.4.
    """
    check_count("rows", rows)
    check_count("universe", universe)
    candidates = small_database_rows(queries, accuracy=accuracy) * math.log(universe)
    return accuracy + _shortfall(candidates, 1.0 / rows, epsilon, confidence)


def blr_rows(error: float, *, queries: int, universe: int, accuracy: float, epsilon: float, confidence: float) -> int:
    """Rows for which :func:`blr_error` is at most `error`, rounded up; same arguments (statement P10).

    Raises:
        ValueError: If `accuracy` is not below `error`, or an argument is out of its range.

    Source: Blum, Ligett and Roth 2008; Dwork and Roth 2014, Proposition 4.4.
    """
    check_count("universe", universe)
    if not accuracy < error:
        raise ValueError(f"accuracy is {accuracy!r}, not below the wished error {error!r}; pass e.g. half of it")
    candidates = small_database_rows(queries, accuracy=accuracy) * math.log(universe)
    return max(1, math.ceil(_shortfall(candidates, 1.0, epsilon, confidence) / (error - accuracy)))


def _shortfall(log_outcomes: float, sensitivity: float, epsilon: float, confidence: float) -> float:
    check_positive("sensitivity", sensitivity)
    check_positive("epsilon", epsilon)
    check_fraction("confidence", confidence)
    return 2.0 * sensitivity / epsilon * (log_outcomes - math.log1p(-confidence))
