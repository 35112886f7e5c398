"""All mechanisms side by side for a wish, beside what published statements would promise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from everhold.dependence import DependenceModel, Independent
from everhold.display import Display
from everhold.errors import VacuousGuaranteeWarning, warn_caller
from everhold.guarantees.published import STATEMENTS
from everhold.mechanisms import MECHANISMS
from everhold.mechanisms.guess_and_check import planned_overfits
from everhold.planning.inverse import (
    published_bound,
    published_rows_needed,
    published_statements,
    queries_allowed_by,
    reaches,
    rows_needed_by,
)
from everhold.planning.wish import LEAST_RADIUS, MOST_QUERIES, MOST_ROWS, Wish, check_radius, tuned_for

if TYPE_CHECKING:
    import altair as alt

    from everhold.mechanisms import Mechanism

__all__ = ["Plan", "PlanLine", "PublishedLine", "plan"]

_VACUOUS = 0.5
_INCOMPLETE = "published, proof incomplete"
_ONLY_INDEPENDENT = "only for independent rows"


@dataclass(frozen=True, slots=True)
class PlanLine:
    """What one mechanism can do for the wish.

    Attributes:
        mechanism: Its name.
        statement: Number of the statement that promises the radius.
        adaptive: Whether it promises anything to questions that depend on earlier answers.
        radius: Its smallest half-width, in the units of a mean over [0, 1]; None where it cannot serve the wish.
        parameters: The parameters that attain it.
        note: Why there is no radius, or why the radius says nothing.
        rows_needed: Rows for the wished radius; None where it was not asked for or no holdout can seal so many.
        queries_allowed: Questions for the wished radius; None where it was not asked for.
        tuned: The mechanism itself, ready for `Holdout.create(..., mechanism=...)`.
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


@dataclass(frozen=True, slots=True)
class PublishedLine:
    """What a published statement would promise, for comparison.

    Attributes:
        statement: Name of the statement.
        source: Authors, year and number.
        radius: Its half-width, with what rounding to the grid costs; None where it promises none below 1.
        rows_needed: Rows that it asks for; None where it was not asked for or no number of rows will do.
        note: What else is to be known.
    """

    statement: str
    source: str
    radius: float | None = None
    rows_needed: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Display):
    """All mechanisms side by side for a wish.

    Attributes:
        rows: Number of sealed rows; None if they were asked for.
        queries: Number of adaptive questions.
        overfits: Answers that may come from the holdout, for mechanisms that check guesses.
        confidence: 1 - beta.
        slack: No budget is spent on guesses closer than slack times the radius to the population's value.
        dependence: How the rows depend on each other.
        wished_radius: The radius for which rows and questions were asked; None if they were not.
        lines: One line for each mechanism.
        published: One line for each published statement.
    """

    rows: int | None
    queries: int
    overfits: int
    confidence: float
    slack: float
    dependence: DependenceModel
    wished_radius: float | None
    lines: tuple[PlanLine, ...]
    published: tuple[PublishedLine, ...]

    @property
    def best(self) -> PlanLine:
        """The adaptive line with the smallest radius, or without a number of rows the one that needs the fewest.

        Never one that needs rows of one law, such as sample splitting, or that bounds answers from one side only.
        """

        def cost(line: PlanLine) -> float:
            cost = line.rows_needed if self.rows is None else line.radius
            return math.inf if cost is None else cost

        return min((line for line in self.lines if MECHANISMS[line.mechanism].recommendable()), key=cost)

    def line(self, mechanism: str) -> PlanLine:
        """The line of a mechanism.

        Raises:
            ValueError: If there is no mechanism of that name.
        """
        for line in self.lines:
            if line.mechanism == mechanism:
                return line
        raise ValueError(f"there is no mechanism {mechanism!r}; expected one of {', '.join(MECHANISMS)}")

    def wish(self, *, rows: int | None = None) -> Wish:
        """The wish, for these rows or those given."""
        return Wish(
            rows=rows or self.rows or 1, queries=self.queries, overfits=self.overfits, confidence=self.confidence,
            slack=self.slack, dependence=self.dependence,
        )  # fmt: skip

    def rows_needed(self, radius: float) -> dict[str, int | None]:
        """Mechanism to the rows that it needs for a radius; see `everhold.planning.rows_needed`."""
        radius = check_radius(radius)
        needed = {line.mechanism: rows_needed_by(line.mechanism, self.wish(), radius) for line in self.lines}
        reaches(needed, radius)
        return needed

    def queries_allowed(self, radius: float) -> dict[str, int]:
        """Mechanism to the questions that it allows for a radius; see `everhold.planning.queries_allowed`.

        Raises:
            ValueError: If the plan has no number of rows.
        """
        radius = check_radius(radius)
        if self.rows is None:
            raise ValueError("the plan has no number of rows; expected rows=... when the plan was made")
        wish = self.wish().with_queries(MOST_QUERIES)
        return {line.mechanism: queries_allowed_by(line.mechanism, wish, radius) for line in self.lines}

    def chart(self, against: Literal["queries", "rows"] = "queries") -> alt.LayerChart:
        """The picture: radius against questions, or against rows (needs the extra ``[plots]``)."""
        from everhold.charts.plans import plan_by_queries, plan_by_rows

        if against not in ("queries", "rows"):
            raise ValueError(f"against is {against!r}; expected 'queries' or 'rows'")
        return plan_by_queries(self) if against == "queries" else plan_by_rows(self)

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data, as ``everhold plan --format json`` prints it."""
        return {
            "rows": self.rows,
            "queries": self.queries,
            "overfits": self.overfits,
            "confidence": self.confidence,
            "slack": self.slack,
            "lines": [
                {
                    "mechanism": line.mechanism,
                    "statement": line.statement,
                    "radius": line.radius,
                    "parameters": line.parameters,
                    **self._asked(line),
                }
                for line in self.lines
            ],
            "published": [{"statement": line.statement, **self._asked(line)} for line in self.published],
        }

    def _asked(self, line: PlanLine | PublishedLine) -> dict[str, Any]:
        asked: dict[str, Any] = {}
        if isinstance(line, PublishedLine) and self.rows is not None:
            asked["radius"] = line.radius
        if self.wished_radius is not None:
            asked["rows_needed"] = line.rows_needed
            if isinstance(line, PlanLine) and self.rows is not None:
                asked["queries_allowed"] = line.queries_allowed
        return asked

    def to_rows(self) -> list[dict[str, Any]]:
        """One table row for each mechanism, then one for each published statement."""
        rows = []
        for line in self.lines:
            shown = {"by": line.mechanism, "statement": line.statement, "adaptive": "yes" if line.adaptive else "no"}
            rows.append(shown | self._numbers(line) | {"note": line.note})
        for published in self.published:
            shown = {"by": published.statement, "statement": "published", "adaptive": "yes"}
            rows.append(shown | self._numbers(published) | {"note": published.note})
        return rows

    def _numbers(self, line: PlanLine | PublishedLine) -> dict[str, Any]:
        numbers: dict[str, Any] = {"radius": line.radius}
        if self.wished_radius is not None:
            numbers["rows_needed"] = line.rows_needed
            if self.rows is not None:
                numbers["queries_allowed"] = line.queries_allowed if isinstance(line, PlanLine) else None
        return numbers

    def __str__(self) -> str:
        return self.to_text()


def plan(
    *,
    rows: int | None = None,
    queries: int,
    overfits: int | None = None,
    confidence: float = 0.95,
    slack: float = 0.0,
    dependence: DependenceModel | None = None,
    radius: float | None = None,
) -> Plan:
    """The best parameters of every mechanism for a wish, side by side.

    Args:
        rows: Number of sealed rows n; may be left out when a radius is given, and is then what is asked for.
        queries: Number m of adaptive questions.
        overfits: Answers B that may come from the holdout, for mechanisms that check guesses; by default 10, or one
            for each question if there are fewer.
        confidence: 1 - beta, in (0, 1): the probability with which all answers are within the radius at once.
        slack: c in [0, 1); no budget is spent on guesses closer than c times the radius to the population's value.
            Mechanisms without guesses ignore it.
        dependence: How the rows depend on each other; independent by default.
        radius: A half-width; then every line also says which rows it needs and how many questions it allows.

    Warns:
        VacuousGuaranteeWarning: If even the best adaptive line, or the wished radius, is half the range or more.

    Raises:
        ValueError: If the wish is not valid, or no number of rows reaches the radius.

    Examples:
        >>> best = plan(rows=50_000, queries=1_000, overfits=10).best
        >>> best.mechanism, round(best.radius, 3)
        ('guess_and_check', 0.06)
    """
    if rows is None and radius is None:
        raise ValueError("neither rows nor radius is given; expected the rows at hand or the radius wished for")
    overfits = planned_overfits(overfits, queries)
    wish = Wish(
        rows=1 if rows is None else rows, queries=queries, overfits=overfits, confidence=confidence, slack=slack,
        dependence=Independent() if dependence is None else dependence,
    )  # fmt: skip
    if radius is not None:
        radius = check_radius(radius)
    lines = tuple(_line(name, wish, radius, with_rows=rows is not None) for name in MECHANISMS)
    if radius is not None:
        reaches({line.mechanism: line.rows_needed for line in lines}, radius)
    made = Plan(
        rows=rows, queries=queries, overfits=overfits, confidence=confidence, slack=slack, dependence=wish.dependence,
        wished_radius=radius, lines=lines,
        published=tuple(_published(name, wish, radius, with_rows=rows is not None) for name in STATEMENTS),
    )  # fmt: skip
    _warn_if_vacuous(made)
    return made


def _line(name: str, wish: Wish, radius: float | None, *, with_rows: bool) -> PlanLine:
    needed = None if radius is None else rows_needed_by(name, wish, radius)
    allowed = (
        queries_allowed_by(name, wish.with_queries(MOST_QUERIES), radius) if radius is not None and with_rows else None
    )
    kind = MECHANISMS[name]

    def without_radius(reason: str) -> PlanLine:
        return PlanLine(name, kind.statement, kind.adaptive, None, {}, reason, needed, allowed)

    if kind.independent_rows and not isinstance(wish.dependence, Independent):
        return without_radius(_ONLY_INDEPENDENT)
    if not with_rows and needed is None:
        return without_radius(f"needs more than the {MOST_ROWS:,} rows that a holdout can seal")
    if not with_rows and needed is not None:
        wish = wish.with_rows(needed)
    tuned = tuned_for(name, wish)
    if isinstance(tuned, str):
        return without_radius(tuned)
    promise = tuned.promise()
    note = _joined(kind.note, "says nothing: half the range or more" if promise.radius >= _VACUOUS else "")
    parameters = tuned.parameters()
    return PlanLine(name, kind.statement, kind.adaptive, promise.radius, parameters, note, needed, allowed, tuned)


def _published(name: str, wish: Wish, radius: float | None, *, with_rows: bool) -> PublishedLine:
    """A published statement for the wish; for dependent rows its proof is incomplete (theory, erratum 5)."""
    source = STATEMENTS[name].source
    if name not in published_statements(wish):
        return PublishedLine(name, source, note=_ONLY_INDEPENDENT)
    label = "" if isinstance(wish.dependence, Independent) else _INCOMPLETE
    needed = None if radius is None else published_rows_needed(name, wish, radius)
    if not with_rows:
        return PublishedLine(name, source, rows_needed=needed, note=label)
    bound = published_bound(name, wish)
    if not bound.radius < 1.0:
        note = _joined(bound.note or "no radius below 1", label)
        return PublishedLine(name, source, rows_needed=needed, note=note)
    return PublishedLine(name, source, bound.radius + LEAST_RADIUS, needed, _joined(bound.note, label))


def _joined(*notes: str) -> str:
    return "; ".join(filter(None, notes))


def _warn_if_vacuous(made: Plan) -> None:
    for radius in (made.best.radius, made.wished_radius):
        if radius is not None and radius >= _VACUOUS:
            said = f"the radius {radius:.2f} is half the range or more and promises nothing"
            warn_caller(VacuousGuaranteeWarning(f"{said}; plan for more rows, fewer questions or fewer overfits"))
            return
