"""Lines of a plan: each mechanism, and each published statement, for a request."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from everhold.display import Display, html_record
from everhold.mechanisms import MECHANISMS, Mechanism
from everhold.planning.bounds import BOUNDS
from everhold.planning.inverse import (
    published_bound,
    published_rows_needed,
    published_statements,
    queries_allowed_by,
    rows_needed_by,
)
from everhold.planning.request import LEAST_RADIUS, MOST_QUERIES, MOST_ROWS, PlanRequest, tuned_for
from everhold.planning.widths import least_vacuous

if TYPE_CHECKING:
    pass

VACUOUS = 0.5
_SAYS_NOTHING = "says nothing: half the range or more"
_ONLY_WORST = "the worst case says nothing: half the range or more"
_INCOMPLETE = "published, proof incomplete"
_ONLY_INDEPENDENT = "only for independent rows"


@dataclass(frozen=True, slots=True)
class PlanLine(Display):
    """Capability of one mechanism for the request.

    Attributes:
        adaptive: Whether it promises anything to queries that depend on earlier answers.
        radius: Its smallest half-width, in the units of a mean over [0, 1], which holds whatever happens, after every
            planned surprise; None where it cannot serve the request.
        parameters: The parameters that attain it.
        note: Why there is no radius, or why the radius says nothing.
        rows_needed: Rows for the requested radius; None where it was not asked for or no holdout can seal so many.
        queries_allowed: Queries for the requested radius; None where it was not asked for.
        tuned: The mechanism itself, ready for `Holdout.create(..., mechanism=...)`.
        expected: Half-width that an analyst whose guesses are honest can expect at the value `Plan.at`; see
            `Mechanism.expected_radius`.
        rows_expected: Rows with which that is within the requested radius.
        queries_expected: Queries with which that is within the requested radius.
    """

    mechanism: str
    statement: str
    adaptive: bool
    radius: float | None
    parameters: dict[str, Any]
    note: str = ""
    rows_needed: int | None = None
    queries_allowed: int | None = None
    tuned: Mechanism | None = None
    expected: float | None = None
    rows_expected: int | None = None
    queries_expected: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """All attributes by name but the mechanism itself, whose parameters are there."""
        return {name: value for name, value in Display.to_dict(self).items() if name != "tuned"}

    def _repr_html_(self) -> str:
        return html_record(self.to_dict())


@dataclass(frozen=True, slots=True)
class PublishedLine(Display):
    """Promise of a published statement, for comparison.

    Attributes:
        radius: Its half-width, with what rounding to the grid costs; None where it promises none below 1.
        rows_needed: Rows that it asks for; None where it was not asked for or no number of rows will do.
        note: What else is to be known.
    """

    statement: str
    source: str
    radius: float | None = None
    rows_needed: int | None = None
    note: str = ""


def line_of(name: str, request: PlanRequest, radius: float | None, *, at: float, with_rows: bool) -> PlanLine:
    """A mechanism at its best for the request."""
    kind = MECHANISMS[name]
    line = PlanLine(name, kind.statement, kind.traits.adaptive, None, {})
    if radius is not None:
        line = _with_inverse(line, request, radius, at=at, with_rows=with_rows)
    if kind.traits.independent_rows and not request.dependence.independent:
        return replace(line, note=_ONLY_INDEPENDENT)
    if not with_rows:
        if line.rows_needed is None:
            return replace(line, note=f"needs more than the {MOST_ROWS:,} rows that a holdout can seal")
        request = request.with_rows(line.rows_needed)
    tuned = tuned_for(name, request)
    if isinstance(tuned, str):
        return replace(line, note=tuned)
    promised, expected = tuned.promise().radius, tuned.expected_radius(at, request.alike)
    vacuous = "" if promised < VACUOUS else _SAYS_NOTHING if expected >= least_vacuous(at) else _ONLY_WORST
    return replace(
        line,
        radius=promised,
        parameters=tuned.parameters(),
        note=_joined(kind.presentation.note, vacuous),
        tuned=tuned,
        expected=expected,
    )


def _with_inverse(line: PlanLine, request: PlanRequest, radius: float, *, at: float, with_rows: bool) -> PlanLine:
    """With rows and queries for the requested radius, in the worst case and as expected."""
    name, many = line.mechanism, request.with_queries(MOST_QUERIES)
    needed = rows_needed_by(name, request, radius)
    allowed = queries_allowed_by(name, many, radius) if with_rows else None
    if MECHANISMS[name].expected_radius is Mechanism.expected_radius and radius <= min(at, 1.0 - at) + 1e-12:
        return replace(  # nothing of so small a radius is cut off at 0 or 1, so both are the same
            line, rows_needed=needed, rows_expected=needed, queries_allowed=allowed, queries_expected=allowed
        )
    return replace(
        line,
        rows_needed=needed,
        rows_expected=rows_needed_by(name, request, radius, at=at),
        queries_allowed=allowed,
        queries_expected=queries_allowed_by(name, many, radius, at=at) if with_rows else None,
    )


def published_line_of(name: str, request: PlanRequest, radius: float | None, *, with_rows: bool) -> PublishedLine:
    """A published statement for the request; for dependent rows its proof is incomplete (theory, erratum 5)."""
    source = BOUNDS[name].source
    if name not in published_statements(request):
        return PublishedLine(name, source, note=_ONLY_INDEPENDENT)
    label = "" if request.dependence.independent else _INCOMPLETE
    needed = None if radius is None else published_rows_needed(name, request, radius)
    if not with_rows:
        return PublishedLine(name, source, rows_needed=needed, note=label)
    bound = published_bound(name, request)
    if not bound.radius < 1.0:
        note = _joined(bound.note or "no radius below 1", label)
        return PublishedLine(name, source, rows_needed=needed, note=note)
    return PublishedLine(name, source, bound.radius + LEAST_RADIUS, needed, _joined(bound.note, label))


def _joined(*notes: str) -> str:
    return "; ".join(filter(None, notes))
