"""Inverse planning: the rows that a radius needs, or the queries that it allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol, TypedDict, TypeVar, Unpack

from everhold.arguments import names_keywords
from everhold.extensions import Registry
from everhold.mechanisms import MECHANISMS, answering
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
from everhold.progress import progress

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
    """Return for each mechanism the smallest number of sealed rows with which the requested radius is reached.

    The radius is the half-width that is guaranteed in the worst case: for every answer, after all planned surprises
    (answers that differ from their guess). With ``at`` it is instead the half-width that an analyst whose guesses are
    honest can expect (`Mechanism.expected_radius`).

    Args:
        radius: Half-width that is requested, in the units of a mean over [0, 1].
        queries: Number of adaptive queries.
        at: Population value of a yes-or-no query, in [0, 1], at which the half-width of a confirmed answer has to be
            within the radius; None for the worst case.
        **terms: Keywords of `plan`: ``surprises``, ``confidence``, ``slack``, ``dependence``, ``training_rows`` and
            ``alike``.

    Returns:
        For the name of each mechanism the exact number of rows: with one row less the radius is above the request. None
        if more rows are needed than a holdout can seal. ``empirical`` is for queries that were fixed in advance.

    Raises:
        ValueError: If the request is not valid, or no number of rows reaches the radius with any adaptive mechanism.

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
    """Return for each mechanism the largest number of queries with which the requested radius is kept.

    The radius is the half-width that is guaranteed in the worst case, or with ``at`` the one that an analyst whose
    guesses are honest can expect. A session of fewer queries than ``surprises`` is planned with one surprise for each
    query.

    Args:
        radius: Half-width that is requested, in the units of a mean over [0, 1].
        rows: Number of sealed rows.
        at: Population value of a yes-or-no query, in [0, 1], at which the half-width of a confirmed answer has to be
            within the radius; None for the worst case.
        **terms: Keywords of `plan`: ``surprises``, ``confidence``, ``slack``, ``dependence``, ``training_rows`` and
            ``alike``.

    Returns:
        For the name of each mechanism the exact number of queries: with one query more the radius is above the request.
        0 if not even one query is allowed. 10^9, at which the search ends, means 10^9 or more.

    Raises:
        ValueError: If an argument of the request is not valid.

    Examples:
        >>> queries_allowed(radius=0.05, rows=50_000)["sample_splitting"]
        34
    """
    radius = check_radius(radius)
    request = PlanRequest.from_terms(rows=rows, queries=MOST_QUERIES, **terms)
    at = None if at is None else check_value(at)
    return by_mechanism(lambda name: queries_allowed_by(name, request, radius, at=at))


def by_mechanism(plan: Callable[[str], Planned]) -> dict[str, Planned]:
    """Compute a plan for each mechanism, and return the plans by name."""
    planned, kinds = {}, answering()
    with progress("planning, by mechanism", len(kinds)) as line:
        for done, name in enumerate(kinds):
            line(done)
            planned[name] = plan(name)
    return planned


def radius_of(name: str, request: PlanRequest, *, at: float | None = None) -> float:
    """Return a mechanism's radius for a request, or with ``at`` the expected one.

    Infinite if the request is impossible.

    In both cases the parameters are those with the smallest radius in the worst case.
    """
    tuned = tuned_for(name, request)
    if isinstance(tuned, str):
        return math.inf
    return tuned.promise().radius if at is None else tuned.expected_radius(at, request.alike)


def rows_needed_by(name: str, request: PlanRequest, radius: float, *, at: float | None = None) -> int | None:
    """Return the smallest number of rows with which one mechanism reaches the radius, or None if no holdout can.

    If ``at`` is given, the radius is the one that is expected at this true value. Otherwise it is that of the worst
    case.
    """
    radius_at = lru_cache(maxsize=None)(lambda rows: radius_of(name, request.with_rows(rows), at=at))
    return smallest_within(radius_at, radius, least=1, most=MOST_ROWS)


def queries_allowed_by(name: str, request: PlanRequest, radius: float, *, at: float | None = None) -> int:
    """Return the largest number of queries for which one mechanism keeps the radius.

    If ``at`` is given, the radius is the one that is expected at this true value. Otherwise it is that of the worst
    case.
    """
    radius_at = lru_cache(maxsize=None)(lambda queries: radius_of(name, request.with_queries(queries), at=at))
    return largest_within(radius_at, radius, most=MOST_QUERIES)


def published_statements(request: PlanRequest) -> tuple[str, ...]:
    """Return the names of published bounds that can be evaluated for the rows of a request.

    For dependent rows they are shown for comparison only: the published proof is incomplete there (erratum 5).
    """
    return tuple(
        name for name, statement in BOUNDS.items() if request.dependence.independent or statement.dependent is not None
    )


def published_rows_needed(name: str, request: PlanRequest, radius: float) -> int | None:
    """Return the number of rows for which a published bound reaches the radius, or None if it never does.

    The cost of rounding rows to the grid is subtracted from the radius, as it is for the mechanisms.
    """
    within = radius - LEAST_RADIUS
    rows = BOUNDS[name].rows_needed(within, **_session(request)).rows
    if not request.dependence.independent:
        # The price seldom depends on n. Where it rises with n, climbing from what independent rows need finds the
        # smallest n.
        _, rows_needed = _for_dependent(BOUNDS[name])
        needed, rows = rows, 0.0
        while rows < needed <= _MOST_PUBLISHED_ROWS:
            rows = needed
            needed = rows_needed(within, **_session(request), price=_price(request, int(rows))).rows
        rows = rows if needed <= rows else math.inf
    return int(rows) if math.isfinite(rows) else None


def published_bound(name: str, request: PlanRequest) -> PublishedBound:
    """Return the radius that a published bound gives for a request."""
    if request.dependence.independent:
        return BOUNDS[name].radius(request.rows, **_session(request))
    radius, _ = _for_dependent(BOUNDS[name])
    return radius(request.rows, **_session(request), price=_price(request, request.rows))


def _for_dependent(statement: PublishedStatement) -> tuple[Callable[..., PublishedBound], ...]:
    """Return the two functions of a published bound for dependent rows. Raise ValueError if the bound has none."""
    if statement.dependent is None:
        raise ValueError(
            f"{statement.name} says nothing of dependent rows. Choose another one of published_statements(...)."
        )
    return statement.dependent


def _price(request: PlanRequest, rows: int) -> Callable[[float], float]:
    """Return the function from a radius to the price of noise for dependent rows in the published bounds P1 and P2.

    The price is ``max_i min_Q (|N_i|+1)/(tau/3 - 4 b_i)`` or 1/h, and tau is the radius.
    """
    return lambda tolerance: request.dependence.bayesian_price(tolerance / 3.0, rows)


def _session(request: PlanRequest) -> _Session:
    return {
        "queries": request.queries, "surprises": request.surprises, "confidence": request.confidence,
        "slack": max(request.slack, LEAST_SLACK),  # no other statement minds so little
    }  # fmt: skip


def reaches(needed: dict[str, int | None], radius: float) -> None:
    """Raise ValueError if no mechanism that may be taken by default reaches the radius."""
    if all(rows is None for name, rows in needed.items() if MECHANISMS[name].recommendable()):
        raise ValueError(
            f"radius is {radius}, which no mechanism reaches with {MOST_ROWS:,} rows, the most that a holdout can "
            "seal. Plan for a larger radius, fewer queries or fewer surprises."
        )


# Crossing of a monotone radius and a request, over whole numbers: a bracketed search in few evaluations.

_SHORTEST_STEP, _LONGEST_STEP = math.log(2.0), math.log(1000.0)  # in the logarithm of the number

Radius = Callable[[int], float]


def smallest_within(radius: Radius, request: float, *, least: int, most: int) -> int | None:
    """Return the smallest n with ``radius(n) <= request < radius(n - 1)``, or None if ``radius(most) > request``.

    Args:
        radius: Function that does not increase with n, infinite if n has no radius. If rounding makes it increase a
            little, the two inequalities still hold for the answer.
        request: The radius that is requested.
        least: Smallest n to consider; ``radius(least - 1)`` counts as infinite.
        most: Largest n to consider.

    Examples:
        >>> smallest_within(lambda n: 1 / math.sqrt(n), 0.1, least=1, most=10**6)
        100
    """
    if radius(most) > request:
        return None
    holds = most
    while holds > least:
        guess = holds * (radius(holds) / request) ** 2  # most radii fall like 1/sqrt(n)
        ahead = min(max(math.floor(0.9 * guess), least), holds - 1)
        if radius(ahead) > request:
            return _crossing(radius, request, fails=ahead, holds=holds)
        holds = ahead
    return holds


def largest_within(radius: Radius, request: float, *, most: int) -> int:
    """Return the largest m in [0, most] with ``radius(m) <= request < radius(m + 1)``, or 0 if there is none.

    Args:
        radius: Positive function that does not decrease with m, infinite if m has no radius.
        request: The radius that is requested.
        most: Largest m to consider.

    Examples:
        >>> largest_within(lambda m: math.log(m + 1), 2.0, most=10**6)
        6
    """
    if radius(1) > request:
        return 0
    holds, ahead = 1, 2
    while ahead <= most and radius(ahead) <= request:
        rise = math.log(radius(ahead) / radius(holds)) / math.log(ahead / holds)
        step = 1.1 * math.log(request / radius(ahead)) / rise if rise > 0.0 else _LONGEST_STEP
        step = min(max(step, _SHORTEST_STEP), _LONGEST_STEP)
        holds, ahead = ahead, math.ceil(ahead * math.exp(step))
    if ahead > most and radius(most) <= request:
        return most
    return _crossing(radius, request, fails=min(ahead, most), holds=holds)


def _crossing(radius: Radius, request: float, *, fails: int, holds: int) -> int:
    """Return the number next to the crossing at which the radius still meets the request.

    The search begins with a number that fails and one that holds. The next number to try is where a line through the
    radii of both, on logarithmic axes, meets the request.
    """
    repeats, side = 0, 0
    while abs(fails - holds) > 1:
        above, below = radius(fails), radius(holds)
        share = 0.5
        if math.isfinite(above) and above > below > 0.0:
            share = math.log(request / below) / math.log(above / below)
        target = round(math.exp(math.log(holds) + share * (math.log(fails) - math.log(holds))))
        target += side * (2**repeats - 1)  # one end stays: step beyond the estimate to move it, too
        low, high = min(fails, holds) + 1, max(fails, holds) - 1
        target = min(max(target, low), high)
        within = radius(target) <= request
        towards = 1 if (fails > holds) == within else -1
        repeats = min(repeats + 1, 60) if towards == side else 0
        side = towards
        holds, fails = (target, fails) if within else (holds, target)
    return holds


# Published statements that a plan shows beside our own; distributions add them to the group ``everhold.bounds``.


class PublishedBound(Protocol):
    """Protocol of a published bound's result: a radius, the number of rows, and a note."""

    @property
    def radius(self) -> float:
        """Half-width in units of the query."""

    @property
    def rows(self) -> float:
        """Rows for which the radius holds."""

    @property
    def note(self) -> str:
        """Reason why the bound is infinite, if more rows would not help. Otherwise empty."""


class PublishedStatement(Protocol):
    """Protocol of a published bound for a session, with functions from rows to radius and from radius to rows."""

    @property
    def name(self) -> str:
        """Name of its entry point."""

    @property
    def source(self) -> str:
        """Authors, year and number in their paper."""

    @property
    def colour(self) -> str:
        """Colour in charts, muted beside the colours of mechanisms."""

    @property
    def radius(self) -> Callable[..., PublishedBound]:
        """Function from rows and the session's settings to a radius."""

    @property
    def rows_needed(self) -> Callable[..., PublishedBound]:
        """Function from a radius and the session's settings to rows."""

    @property
    def dependent(self) -> tuple[Callable[..., PublishedBound], Callable[..., PublishedBound]] | None:
        """Functions like `radius` and `rows_needed` for dependent rows, which take a ``price`` of noise, or None."""


def _check(name: str, statement: Any) -> str:
    """Return a text about what an extension's published bound lacks, empty if it lacks nothing."""
    lacking = [
        part for part in ("source", "colour", "radius", "rows_needed", "dependent") if not hasattr(statement, part)
    ]
    if lacking:
        return f"it has no {lacking[0]}"
    return "" if getattr(statement, "name", None) == name else f"its name is {getattr(statement, 'name', None)!r}"


BOUNDS: Registry[PublishedStatement] = Registry("everhold.bounds", {}, _check)
"""Published statements by name."""
