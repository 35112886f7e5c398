"""A plan the other way round: rows for a radius, or queries for a radius."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, TypedDict, TypeVar

from everhold.arguments import names_keywords
from everhold.mechanisms import MECHANISMS, answering
from everhold.planning.bounds import BOUNDS
from everhold.planning.request import (
    LEAST_RADIUS,
    MOST_QUERIES,
    MOST_ROWS,
    USUAL_TERMS,
    PlanRequest,
    PlanTerms,
    check_radius,
    check_value,
    tuned_for,
)
from everhold.planning.search import largest_within, smallest_within
from everhold.progress import progress

if TYPE_CHECKING:
    from typing import Unpack

    from everhold.planning.bounds import PublishedBound, PublishedStatement

Planned = TypeVar("Planned")

LEAST_SLACK = 1e-9
"""Zhao's Theorem 2 needs a positive slack and gets better as it falls: a request without slack is given this one."""

_MOST_PUBLISHED_ROWS = 10**15
"""End of the search for the rows of a published statement."""


class _Session(TypedDict):
    queries: int
    surprises: int
    confidence: float
    slack: float


@names_keywords(PlanTerms, USUAL_TERMS)
def rows_needed(
    *, radius: float, queries: int, at: float | None = None, **terms: Unpack[PlanTerms]
) -> dict[str, int | None]:
    """For each mechanism, the smallest number of rows whose best radius is within the requested one.

    The radius is that of the worst case, which holds for every answer after every planned surprise. With ``at`` it is
    instead what an analyst whose guesses are honest can expect (`Mechanism.expected_radius`).

    Args:
        radius: Half-width that is requested, in the units of a mean over [0, 1].
        queries: Number of adaptive queries.
        at: The population's value, in [0, 1], where the half-width of a confirmed answer is to be within the radius;
            None for the worst case.
        **terms: ``surprises``, ``confidence``, ``slack``, ``dependence``, ``training_rows``, ``alike``: as for `plan`.

    Returns:
        Mechanism to rows, exactly: with one row less the radius is above the request. None where more rows are needed
        than a holdout can seal. ``empirical`` is for queries that were fixed in advance.

    Raises:
        ValueError: If the request is not valid, or no number of rows reaches it with any adaptive mechanism.

    Examples:
        >>> rows_needed(radius=0.1, queries=1_000, slack=1 / 3)["gaussian"]
        35409
        >>> request = {"radius": 0.02, "queries": 1_000}
        >>> rows_needed(**request)["guess_and_check"], rows_needed(**request, at=0.9)["guess_and_check"]
        (414966, 22954)
    """
    radius = check_radius(radius)
    request = PlanRequest.from_terms(rows=1, queries=queries, **terms)
    at = None if at is None else check_value(at)
    needed = by_mechanism(lambda name: rows_needed_by(name, request, radius, at=at))
    reaches(needed, radius)
    return needed


@names_keywords(PlanTerms, USUAL_TERMS)
def queries_allowed(*, radius: float, rows: int, at: float | None = None, **terms: Unpack[PlanTerms]) -> dict[str, int]:
    """For each mechanism, the largest number of queries whose best radius is within the requested one.

    The radius is that of the worst case, or with ``at`` what an analyst whose guesses are honest can expect. A session
    of fewer queries than ``surprises`` is planned with one surprise for each query.

    Args:
        radius: Half-width that is requested, in the units of a mean over [0, 1].
        rows: Number of sealed rows.
        at: The population's value, in [0, 1], where the half-width of a confirmed answer is to be within the radius;
            None for the worst case.
        **terms: ``surprises``, ``confidence``, ``slack``, ``dependence``, ``training_rows``, ``alike``: as for `plan`.

    Returns:
        Mechanism to queries, exactly: with one query more the radius is above the request. 0 where not even one
        query is allowed; 10^9, at which the search ends, stands for that many or more.

    Raises:
        ValueError: If the request is not valid.

    Examples:
        >>> queries_allowed(radius=0.05, rows=50_000)["sample_splitting"]
        34
    """
    radius = check_radius(radius)
    request = PlanRequest.from_terms(rows=rows, queries=MOST_QUERIES, **terms)
    at = None if at is None else check_value(at)
    return by_mechanism(lambda name: queries_allowed_by(name, request, radius, at=at))


def by_mechanism(plan: Callable[[str], Planned]) -> dict[str, Planned]:
    """Plans of each mechanism, by its name."""
    planned, kinds = {}, answering()
    with progress("planning, by mechanism", len(kinds)) as line:
        for done, name in enumerate(kinds):
            line(done)
            planned[name] = plan(name)
    return planned


def radius_of(name: str, request: PlanRequest, *, at: float | None = None) -> float:
    """The best radius of a mechanism for a request, or that expected at a value; infinite where it cannot serve it.

    The parameters are those of the smallest worst case either way.
    """
    tuned = tuned_for(name, request)
    if isinstance(tuned, str):
        return math.inf
    return tuned.promise().radius if at is None else tuned.expected_radius(at, request.alike)


def rows_needed_by(name: str, request: PlanRequest, radius: float, *, at: float | None = None) -> int | None:
    """The smallest number of rows with which one mechanism keeps the radius; None if no holdout can seal so many."""
    radius_at = lru_cache(maxsize=None)(lambda rows: radius_of(name, request.with_rows(rows), at=at))
    return smallest_within(radius_at, radius, least=1, most=MOST_ROWS)


def queries_allowed_by(name: str, request: PlanRequest, radius: float, *, at: float | None = None) -> int:
    """The largest number of queries for which one mechanism keeps the radius."""
    radius_at = lru_cache(maxsize=None)(lambda queries: radius_of(name, request.with_queries(queries), at=at))
    return largest_within(radius_at, radius, most=MOST_QUERIES)


def published_statements(request: PlanRequest) -> tuple[str, ...]:
    """Names of the installed published statements that say something about the rows of a request.

    For dependent rows they are shown for comparison only: the published proof is incomplete there (erratum 5).
    """
    return tuple(
        name for name, statement in BOUNDS.items() if request.dependence.independent or statement.dependent is not None
    )


def published_rows_needed(name: str, request: PlanRequest, radius: float) -> int | None:
    """The rows that a published statement asks for; None where it never reaches the radius.

    What rounding rows to the grid costs comes off the radius, as it does for the mechanisms.
    """
    within = radius - LEAST_RADIUS
    rows = BOUNDS[name].rows_needed(within, **_session(request)).rows
    if not request.dependence.independent:
        rows = _rows_of_dependent(BOUNDS[name], within, request, least=rows)
    return int(rows) if math.isfinite(rows) else None


def published_bound(name: str, request: PlanRequest) -> PublishedBound:
    """Result of one of the `published_statements` for a request, for exact averages."""
    if request.dependence.independent:
        return BOUNDS[name].radius(request.rows, **_session(request))
    radius, _ = _for_dependent(BOUNDS[name])
    return radius(request.rows, **_session(request), price=_price(request, request.rows))


def _for_dependent(statement: PublishedStatement) -> tuple[Callable[..., PublishedBound], ...]:
    if statement.dependent is None:
        raise ValueError(f"{statement.name} says nothing of dependent rows; see published_statements")
    return statement.dependent


def _rows_of_dependent(statement: PublishedStatement, radius: float, request: PlanRequest, *, least: float) -> float:
    """Rows n for which the statement, at the price of noise with n dependent rows, asks for no more than n.

    The price seldom depends on n. Where it rises with n, climbing from what independent rows need finds the smallest n.
    """
    _, rows_needed = _for_dependent(statement)
    rows, needed = 0.0, least
    while rows < needed <= _MOST_PUBLISHED_ROWS:
        rows = needed
        needed = rows_needed(radius, **_session(request), price=_price(request, int(rows))).rows
    return rows if needed <= rows else math.inf


def _price(request: PlanRequest, rows: int) -> Callable[[float], float]:
    """Price of noise in P1 and P2 for dependent rows, ``max_i min_Q (|N_i|+1)/(tau/3 - 4 b_i)`` or 1/h (erratum 7)."""
    return lambda tolerance: request.dependence.bayesian_price(tolerance / 3.0, rows)


def _session(request: PlanRequest) -> _Session:
    slack = max(request.slack, LEAST_SLACK)  # no other statement minds so little
    return {
        "queries": request.queries,
        "surprises": request.surprises,
        "confidence": request.confidence,
        "slack": slack,
    }


def reaches(needed: dict[str, int | None], radius: float) -> None:
    """Raise ValueError if no mechanism that may be taken by default reaches the radius."""
    if all(rows is None for name, rows in needed.items() if MECHANISMS[name].recommendable()):
        raise ValueError(
            f"radius is {radius}; no mechanism reaches it with the {MOST_ROWS:,} rows that a holdout can seal; "
            "plan for a larger radius, fewer queries or fewer surprises"
        )
