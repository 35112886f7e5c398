"""Hoeffding's inequality for questions fixed in advance, sample splitting, and McSherry's bound in expectation."""

from __future__ import annotations

import math

from everhold.guarantees.published.bound import (
    PublishedBound,
    check_count,
    check_fraction,
    check_nonnegative,
    check_positive,
    check_radius,
    check_session,
)

__all__ = [
    "hoeffding_failure",
    "hoeffding_radius",
    "hoeffding_splitting",
    "hoeffding_splitting_rows",
    "mcsherry_bias",
]

_STATEMENT = "hoeffding_splitting"
_SOURCE = "Hoeffding 1963, Theorem 2, with a union bound over parts"


def hoeffding_failure(rows: int, *, radius: float) -> float:
    """Probability that the average of one fixed query is off: ``2 exp(-2 n alpha^2)``, at most 1 (statement P9).

    Raises:
        ValueError: If an argument is out of its range.

    Source: Hoeffding 1963, Theorem 2; rows independent, query in [0, 1].
    """
    check_count("rows", rows)
    check_positive("radius", radius)
    return min(1.0, 2.0 * math.exp(-2.0 * rows * radius**2))


def hoeffding_radius(rows: int, *, queries: int = 1, confidence: float) -> float:
    """Half-width for k questions fixed in advance, all at once: ``sqrt(ln(2k/beta) / (2n))`` (statement P9).

    Not for adaptive questions.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Hoeffding 1963, Theorem 2, and a union bound; rows independent, queries in [0, 1].
    """
    check_count("rows", rows)
    check_count("queries", queries)
    check_fraction("confidence", confidence)
    return math.sqrt(math.log(2.0 * queries / (1.0 - confidence)) / (2.0 * rows))


def hoeffding_splitting(
    rows: float, /, *, queries: int, overfits: int, confidence: float, slack: float
) -> PublishedBound:
    """Radius when each of k adaptive questions gets a part of the rows of its own (statement P9).

    ``sqrt(k ln(2k/beta) / (2n))`` where k divides n; in general each part has ``floor(n/k)`` rows.

    Args:
        rows: n.
        queries: k, adaptive.
        overfits: Not used, every answer is released.
        confidence: 1 - beta, in (0, 1).
        slack: Not used.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Hoeffding 1963, Theorem 2; rows independent.
    """
    check_count("rows", rows)
    check_session(queries=queries, overfits=overfits, confidence=confidence, slack=slack)
    part = int(rows) // queries
    radius = hoeffding_radius(part, queries=queries, confidence=confidence) if part else math.inf
    return PublishedBound(_STATEMENT, _SOURCE, radius if radius < 1.0 else math.inf, rows, {"rows_per_part": part})


def hoeffding_splitting_rows(
    radius: float, /, *, queries: int, overfits: int, confidence: float, slack: float
) -> PublishedBound:
    """Rows for a wished radius: ``k ceil(ln(2k/beta) / (2 alpha^2))``; see :func:`hoeffding_splitting`.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Hoeffding 1963, Theorem 2; rows independent.
    """
    check_radius(radius)
    check_session(queries=queries, overfits=overfits, confidence=confidence, slack=slack)
    part = math.ceil(math.log(2.0 * queries / (1.0 - confidence)) / (2.0 * radius**2))
    return PublishedBound(_STATEMENT, _SOURCE, radius, queries * part, {"rows_per_part": part})


def mcsherry_bias(epsilon: float, *, delta: float = 0.0) -> float:
    """Bias of a privately chosen query, ``|E h(S) - E h(P)| <= e^eps - 1 + delta`` (statement P8).

    Args:
        epsilon: Privacy loss of the choice of h, at least 0.
        delta: In [0, 1).

    Returns:
        A bound in units of the query, h in [0, 1]; in expectation only, above 1 it says nothing.

    Raises:
        ValueError: If an argument is out of its range.

    Source: McSherry, folklore; rows independent and identically distributed. Slides have ``2 eps + delta`` for eps < 1,
    which is weaker, and ``eps + delta``, which their proof does not give. Bounds with high probability (Dwork et al.
    2015, STOC; Bassily et al. 2016) are left out: docs/theory, published.
    """
    check_nonnegative("epsilon", epsilon)
    if not 0.0 <= delta < 1.0:
        raise ValueError(f"delta is {delta!r}, expected a number in [0, 1); pass 0 for pure privacy")
    return math.expm1(epsilon) + delta
