"""All mechanisms side by side for a request, beside what published statements would promise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from everhold.arguments import brief, names_keywords
from everhold.dependence import DependenceModel
from everhold.display import Display, html_sentences, html_table
from everhold.errors import VacuousGuaranteeWarning, warn_caller
from everhold.mechanisms import GuessAndCheck, answering
from everhold.planning.advice import explanation
from everhold.planning.bounds import BOUNDS
from everhold.planning.inverse import by_mechanism, queries_allowed_by, reaches, rows_needed_by
from everhold.planning.lines import VACUOUS, PlanLine, PublishedLine, line_of, published_line_of
from everhold.planning.request import (
    MOST_QUERIES,
    USUAL_TERMS,
    USUAL_VALUE,
    PlanRequest,
    PlanTerms,
    check_radius,
    check_value,
    taken_by_default,
)
from everhold.planning.steps import Steps, steps_of
from everhold.planning.three_ways import ThreeWays, three_ways
from everhold.planning.widths import Widths, sealed_units, vacuous_in_words, widths_of

if TYPE_CHECKING:
    from typing import Unpack

    import altair as alt


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Display):
    """All mechanisms side by side for a request.

    Attributes:
        rows: Number of sealed rows; None if they were asked for.
        queries: Number of adaptive queries.
        surprises: Answers that may come from the holdout, for mechanisms that check guesses.
        confidence: 1 - beta.
        slack: No budget is spent on guesses closer than slack times the radius to the population's value.
        dependence: How the rows depend on each other.
        requested_radius: The radius for which rows and queries were asked; None if they were not.
        lines: One line for each mechanism.
        published: One line for each published statement.
        training_rows: Rows that guesses are made from; None for as many as are sealed, 0 for none.
        at: The population's value at which lines are compared by what can be expected.
        ways: The three ways to ask, beside usual intervals; None where guess-and-check cannot serve the request.
        widths: Half-widths of guess-and-check by true value or spread; None where it cannot serve the request.
        steps: What a gate can see; None unless a disagreement was given, or where rows depend on each other.
        alike: The expected correlation of two rows of one group; None without groups that are bet on.
    """

    rows: int | None
    queries: int
    surprises: int
    confidence: float
    slack: float
    dependence: DependenceModel
    requested_radius: float | None
    lines: tuple[PlanLine, ...]
    published: tuple[PublishedLine, ...]
    training_rows: int | None = None
    at: float = USUAL_VALUE
    ways: ThreeWays | None = None
    widths: Widths | None = None
    steps: Steps | None = None
    alike: float | None = None

    @property
    def best(self) -> PlanLine:
        """The adaptive line with the smallest width that an analyst whose guesses are honest can expect.

        Without a number of rows it is the one that needs the fewest rows for it. Never one that needs rows of one law,
        such as sample splitting, or that bounds answers from one side only; nor without training rows one that checks
        guesses, if another is installed.
        """
        return min(self._candidates(), key=self._cost)

    def _candidates(self) -> list[PlanLine]:
        """Lines that may be taken by default."""
        names = taken_by_default(self.training_rows) or taken_by_default(None)
        return [line for line in self.lines if line.mechanism in names]

    def _cost(self, line: PlanLine) -> float:
        cost = line.rows_expected if self.rows is None else line.expected
        return math.inf if cost is None else cost

    def explain(self) -> str:
        """Explain the three ways, the recommended mechanism, its worst case, and when another is better, in words."""
        return explanation(self) if self.ways is None else f"{self.ways.explain()}\n{explanation(self)}"

    def line(self, mechanism: str) -> PlanLine:
        """The line of a mechanism.

        Raises:
            ValueError: If there is no mechanism of that name.
        """
        for line in self.lines:
            if line.mechanism == mechanism:
                return line
        raise ValueError(f"there is no mechanism {mechanism!r}; expected one of {', '.join(answering())}")

    def request(self, *, rows: int | None = None) -> PlanRequest:
        """The request, for these rows or those given."""
        return PlanRequest(
            rows=rows or self.rows or 1, queries=self.queries, surprises=self.surprises, confidence=self.confidence,
            slack=self.slack, dependence=self.dependence, training_rows=self.training_rows, alike=self.alike,
        )  # fmt: skip

    def rows_needed(self, radius: float, *, at: float | None = None) -> dict[str, int | None]:
        """Mechanism to the rows that it needs for a radius; see `everhold.planning.rows_needed`."""
        radius, at = check_radius(radius), None if at is None else check_value(at)
        needed = by_mechanism(lambda name: rows_needed_by(name, self.request(), radius, at=at))
        reaches(needed, radius)
        return needed

    def queries_allowed(self, radius: float, *, at: float | None = None) -> dict[str, int]:
        """Mechanism to the queries that it allows for a radius; see `everhold.planning.queries_allowed`.

        Raises:
            ValueError: If the plan has no number of rows.
        """
        radius, at = check_radius(radius), None if at is None else check_value(at)
        if self.rows is None:
            raise ValueError("the plan has no number of rows; expected rows=... when the plan was made")
        request = self.request().with_queries(MOST_QUERIES)
        return by_mechanism(lambda name: queries_allowed_by(name, request, radius, at=at))

    def chart(self, against: Literal["queries", "rows", "values"] = "queries") -> alt.LayerChart:
        """The picture: radius against queries or rows, or half-widths of guess-and-check against true values.

        Needs the extra ``[plots]``.

        Raises:
            ValueError: If it is to be drawn against anything else, or against true values where guess-and-check cannot
                serve the request.
        """
        from everhold.charts.plans import plan_by_queries, plan_by_rows, plan_by_values

        if against not in ("queries", "rows", "values"):
            raise ValueError(f"against is {brief(against)}; expected 'queries', 'rows' or 'values'")
        if against == "values":
            return plan_by_values(self)
        return plan_by_queries(self) if against == "queries" else plan_by_rows(self)

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data, as ``everhold plan --format json`` prints it."""
        return {
            "rows": self.rows,
            "queries": self.queries,
            "surprises": self.surprises,
            "confidence": self.confidence,
            "slack": self.slack,
            "lines": [
                {
                    "mechanism": line.mechanism,
                    "statement": line.statement,
                    "radius": line.radius,
                    "expected": line.expected,
                    "parameters": line.parameters,
                    **self._asked(line),
                }
                for line in self.lines
            ],
            "published": [{"statement": line.statement, **self._asked(line)} for line in self.published],
            "at": self.at,
            "training_rows": self.training_rows,
            "alike": self.alike,
            "ways": None if self.ways is None else self.ways.to_dict(),
            "widths": None if self.widths is None else self.widths.to_dict(),
            "steps": None if self.steps is None else self.steps.to_dict(),
        }

    def _asked(self, line: PlanLine | PublishedLine) -> dict[str, Any]:
        asked: dict[str, Any] = {}
        if isinstance(line, PublishedLine) and self.rows is not None:
            asked["radius"] = line.radius
        if self.requested_radius is not None:
            asked["rows_needed"] = line.rows_needed
            if isinstance(line, PlanLine):
                asked["rows_expected"] = line.rows_expected
                if self.rows is not None:
                    asked |= {"queries_allowed": line.queries_allowed, "queries_expected": line.queries_expected}
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
        names = ["radius", "expected"]
        if self.requested_radius is not None:
            names += ["rows_needed", "rows_expected"]
            if self.rows is not None:
                names += ["queries_allowed", "queries_expected"]
        return {name: getattr(line, name, None) for name in names}

    def __str__(self) -> str:
        return self.to_text() if self.ways is None else f"{self.ways}\n\n{self.to_text()}"

    def _repr_html_(self) -> str:
        ways = "" if self.ways is None else self.ways._repr_html_()
        return f"{ways}{html_sentences(explanation(self))}{html_table(self.to_rows())}"


@names_keywords(PlanTerms, USUAL_TERMS)
def plan(
    *,
    rows: int | None = None,
    queries: int,
    radius: float | None = None,
    at: float = USUAL_VALUE,
    disagreement: float | None = None,
    **terms: Unpack[PlanTerms],
) -> Plan:
    """The best parameters of every mechanism for a request, side by side.

    Parameters are those with the smallest radius in the worst case. Lines are compared by what an analyst whose guesses
    are honest can expect.

    Args:
        rows: Number of sealed rows n; may be left out when a radius is given, and is then what is asked for.
        queries: Number m of adaptive queries.
        radius: A half-width; then every line also says which rows it needs and how many queries it allows.
        at: The population's value of a yes-or-no query, in [0, 1], at which lines are compared.
        disagreement: Share of the rows on which a challenger and the champion of a gate differ; then `Plan.steps` says
            what the gate can see if all queries are challenges.
        **terms: ``surprises``, ``confidence``, ``slack``, ``dependence``, ``training_rows`` and ``alike``; see
            `PlanTerms`.

    Warns:
        VacuousGuaranteeWarning: If the worst case of the best adaptive line, or the requested radius, is half the range
            or more.

    Raises:
        ValueError: If the request is not valid, or no number of rows reaches the radius.

    Examples:
        >>> best = plan(rows=50_000, queries=1_000, surprises=10).best
        >>> best.mechanism, round(best.radius, 3), round(best.expected, 3)
        ('guess_and_check', 0.046, 0.013)
    """
    if rows is None and radius is None:
        raise ValueError("neither rows nor radius is given; expected the rows at hand or the radius requested")
    request = PlanRequest.from_terms(rows=1 if rows is None else rows, queries=queries, **terms)
    at = check_value(at)
    if radius is not None:
        radius = check_radius(radius)
    lines = tuple(by_mechanism(lambda name: line_of(name, request, radius, at=at, with_rows=rows is not None)).values())
    if radius is not None:
        reaches({line.mechanism: line.rows_needed for line in lines}, radius)
    checking = next((line.tuned for line in lines if isinstance(line.tuned, GuessAndCheck)), None)
    made = Plan(
        rows=rows, queries=queries, surprises=request.surprises, confidence=request.confidence, slack=request.slack,
        dependence=request.dependence, requested_radius=radius, lines=lines, training_rows=request.training_rows, at=at,
        ways=three_ways(checking, at=at, alike=request.alike),
        widths=None if checking is None else widths_of(checking, request.alike), alike=request.alike,
        steps=_steps(request, lines, disagreement, with_rows=rows is not None),
        published=tuple(published_line_of(name, request, radius, with_rows=rows is not None) for name in BOUNDS),
    )  # fmt: skip
    _warn_if_vacuous(made)
    return made


def _steps(
    request: PlanRequest, lines: tuple[PlanLine, ...], disagreement: float | None, *, with_rows: bool
) -> Steps | None:
    """For the rows at hand, or those that the gate's mechanism needs."""
    tuned = [line.tuned for line in lines if isinstance(line.tuned, GuessAndCheck)]
    if disagreement is None or not request.dependence.independent or not tuned:
        return None
    return steps_of(request if with_rows else request.with_rows(tuned[0].rows), disagreement)


def _warn_if_vacuous(made: Plan) -> None:
    advice = f"plan for more {sealed_units(made.dependence)}, fewer queries or fewer surprises"
    said = "" if made.best.tuned is None else vacuous_in_words(made.best.tuned, made.alike)
    if not said and made.requested_radius is not None and made.requested_radius >= VACUOUS:
        said = f"the radius {made.requested_radius:.2f} is half the range or more and promises nothing"
    if said:
        warn_caller(VacuousGuaranteeWarning(f"{said}; {advice}"))
