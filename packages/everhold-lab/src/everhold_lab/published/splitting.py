"""Sample splitting by Hoeffding's inequality, where each query gets rows of its own (statement P9)."""

from __future__ import annotations

import math

from everhold.arguments import fraction
from everhold.guarantees import description_length
from everhold_lab.published.bound import BoundOfSource, StatementOfSource, check_count, check_session

_NAME = "hoeffding_splitting"


def hoeffding_radius(rows: int, *, queries: int = 1, confidence: float) -> float:
    """Return the half-width for k queries fixed in advance: ``sqrt(ln(2k/beta) / (2n))`` (statement P9).

    Not for adaptive queries.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Hoeffding 1963, Theorem 2, and a union bound; rows independent, queries in [0, 1].
    """
    check_count("rows", rows)
    check_count("queries", queries)
    level = math.log(queries) - math.log1p(-fraction(confidence, "confidence"))
    return float(description_length.hoeffding_radius(rows=rows, log_inverse_level=level))


def hoeffding_splitting(
    rows: float, /, *, queries: int, surprises: int, confidence: float, slack: float
) -> BoundOfSource:
    """Return the radius for k adaptive queries that are each answered on a separate part of the rows (P9).

    ``sqrt(k ln(2k/beta) / (2n))`` where k divides n; in general each part has ``floor(n/k)`` rows.

    It takes the arguments of a `SessionBound`, and raises the same errors.

    Source: Hoeffding 1963, Theorem 2; rows independent.
    """
    check_session(queries=queries, surprises=surprises, confidence=confidence, slack=slack, rows=rows)
    part = int(rows) // queries
    radius = hoeffding_radius(part, queries=queries, confidence=confidence) if part else math.inf
    return BoundOfSource(_NAME, radius if radius < 1.0 else math.inf, rows, {"rows_per_part": part})


def hoeffding_splitting_rows(
    radius: float, /, *, queries: int, surprises: int, confidence: float, slack: float
) -> BoundOfSource:
    """Return the rows for a radius: ``k ceil(ln(2k/beta) / (2 alpha^2))``, see :func:`hoeffding_splitting`."""
    check_session(queries=queries, surprises=surprises, confidence=confidence, slack=slack, radius=radius)
    part = math.ceil(math.log(2.0 * queries / (1.0 - confidence)) / (2.0 * radius**2))
    return BoundOfSource(_NAME, radius, queries * part, {"rows_per_part": part})


HOEFFDING_SPLITTING = StatementOfSource(
    _NAME,
    "Hoeffding 1963 (P9), a part of the rows for each query",
    hoeffding_splitting,
    hoeffding_splitting_rows,
    colour="#57606a",
)
