"""Plans: all mechanisms compared for a request, and published bounds for comparison."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Unpack

from everhold.arguments import advice_for, brief, names_keywords
from everhold.dependence import DependenceModel
from everhold.display import Display, at_most, counted, html_record, html_sentences, html_table
from everhold.errors import VacuousGuaranteeWarning, warn_caller
from everhold.mechanisms import MECHANISMS, Mechanism, PublicLevels, answering, has_public_levels
from everhold.planning import inverse, widths
from everhold.planning.choice import ThreeWays, three_ways
from everhold.planning.request import (
    LEAST_RADIUS,
    MOST_QUERIES,
    MOST_ROWS,
    USUAL_TERMS,
    USUAL_VALUE,
    WITHOUT_GUESSES,
    PlanRequest,
    PlanTerms,
    check_radius,
    check_value,
    taken_by_default,
    tuned_for,
)
from everhold.planning.widths import Steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    import altair as alt


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Display):
    """Comparison of all mechanisms for a planned study. `everhold.plan` makes it.

    Attributes:
        rows: Number of sealed rows; None if the plan was asked for the number of rows.
        queries: Number of adaptive queries.
        surprises: Planned number of surprises, answers whose guess the sealed rows contradict, for mechanisms that
            check guesses.
        confidence: 1 - beta, the probability with which all answers are within the radius together.
        slack: A guess costs no budget if its distance from the population's value is less than slack times the radius.
        dependence: Model of how the rows depend on each other.
        requested_radius: Half-width for which the needed rows or the allowed queries were computed; None if no
            half-width was requested.
        lines: One line for each mechanism.
        published: One line for each bound that others published, for comparison.
        training_rows: Number of rows from which guesses are made; None for as many as are sealed, 0 for no training
            rows.
        at: Population value of a yes-or-no query, in [0, 1], at which lines are compared by the half-width that can be
            expected.
        ways: Half-widths for three ways to ask: declared beforehand, silently until the end, and with answers told
            immediately; and usual intervals for comparison. None if guess-and-check cannot serve the request.
        widths: Half-widths of guess-and-check by true value or spread; None if guess-and-check cannot serve the
            request.
        steps: Least gains that a gate (a test that lets only better models pass) can prove; None if no disagreement was
            given, or rows depend on each other.
        alike: Expected correlation of two rows of one group; None if the procedure does not bet on sums of groups.
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
    widths: widths.Widths | None = None
    steps: Steps | None = None
    alike: float | None = None

    @property
    def best(self) -> PlanLine:
        """The line of the mechanism for adaptive queries that has the smallest expected width if guesses are good.

        If the plan has no number of rows, it is the mechanism that needs the fewest rows for the requested half-width.
        Left out are mechanisms that need identically distributed rows, such as sample splitting, and mechanisms that
        bound answers from one side only. Without training rows, mechanisms that check guesses are left out as well, if
        another one is installed.
        """
        return min(self._candidates(), key=self._cost)

    def _candidates(self) -> list[PlanLine]:
        """Return the lines of mechanisms that may be taken by default."""
        names = taken_by_default(self.training_rows) or taken_by_default(None)
        return [line for line in self.lines if line.mechanism in names]

    def _cost(self, line: PlanLine) -> float:
        cost = line.rows_expected if self.rows is None else line.expected
        return math.inf if cost is None else cost

    def explain(self) -> str:
        """Explain in words: the three ways to ask, the recommended mechanism, and when another one is better."""
        return explanation(self) if self.ways is None else f"{self.ways.explain()}\n{explanation(self)}"

    def line(self, mechanism: str) -> PlanLine:
        """Return the line of the plan for a mechanism.

        Args:
            mechanism: Name of the mechanism, such as ``"guess_and_check"``.

        Raises:
            ValueError: If there is no mechanism of the name in ``mechanism``.
        """
        for line in self.lines:
            if line.mechanism == mechanism:
                return line
        raise ValueError(f"There is no mechanism {mechanism!r} in this plan. {advice_for(mechanism, answering())}")

    def request(self, *, rows: int | None = None) -> PlanRequest:
        """Return the request (the arguments) of this plan, for the planned number of rows or for another one."""
        return PlanRequest(
            rows=rows or self.rows or 1, queries=self.queries, surprises=self.surprises, confidence=self.confidence,
            slack=self.slack, dependence=self.dependence, training_rows=self.training_rows, alike=self.alike,
        )  # fmt: skip

    def chart(self, against: Literal["queries", "rows", "values"] = "queries") -> alt.LayerChart:
        """Draw the radius (guaranteed half-width) of each mechanism against queries or rows.

        With ``against="values"`` it draws the expected half-widths of guess-and-check against the true value. It needs
        the extra ``[plots]``.

        Raises:
            ValueError: If ``against`` has another value, or is ``"values"`` and guess-and-check cannot serve the
                request.
        """
        from everhold.charts.plans import plan_by_queries, plan_by_rows, plan_by_values

        if against not in ("queries", "rows", "values"):
            raise ValueError(f"against is {brief(against)}. Pass 'queries', 'rows' or 'values'.")
        if against == "values":
            return plan_by_values(self.line("guess_and_check").tuned)
        drawn = plan_by_queries if against == "queries" else plan_by_rows
        request = self.request(rows=self.rows or self.best.rows_needed or self.best.rows_expected)
        return drawn(request, at=self.at, radius=self.requested_radius or self.best.expected or 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data, as ``everhold plan --format json`` prints it."""
        tables = {"ways": self.ways, "widths": self.widths, "steps": self.steps}
        named = ("mechanism", "statement", "radius", "expected", "parameters")
        return {
            **{name: getattr(self, name) for name in ("rows", "queries", "surprises", "confidence", "slack")},
            "lines": [{**{name: getattr(line, name) for name in named}, **self._asked(line)} for line in self.lines],
            "published": [{"statement": line.statement, **self._asked(line)} for line in self.published],
            **{name: getattr(self, name) for name in ("at", "training_rows", "alike")},
            **{name: None if table is None else table.to_dict() for name, table in tables.items()},
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
        """Return table rows: one for each mechanism, then one for each published bound."""
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
    """Compare the best parameters of every mechanism for a request.

    Parameters are those with the smallest radius in the worst case. Lines are compared by what an analyst whose guesses
    are honest can expect.

    Args:
        rows: Number n of sealed rows. It may be left out if a radius is given; the plan then says how many rows are
            needed.
        queries: Number m of adaptive queries.
        radius: A half-width; then every line also says which rows it needs and how many queries it allows.
        at: Population value of a yes-or-no query, in [0, 1], at which lines are compared.
        disagreement: Share of the rows on which a challenger and the champion of a gate differ; then `Plan.steps` says
            what the gate can see if all queries are challenges.
        **terms: ``surprises``, ``confidence``, ``slack``, ``dependence``, ``training_rows`` and ``alike``; see
            `PlanTerms`.

    Warns:
        VacuousGuaranteeWarning: If the worst case of the best adaptive line, or the requested radius, is half the range
            or more.

    Raises:
        ValueError: If an argument is not valid, or no number of rows reaches the radius.

    Examples:
        >>> best = plan(rows=50_000, queries=1_000, surprises=10).best
        >>> best.mechanism, round(best.radius, 3), round(best.expected, 3)
        ('guess_and_check', 0.046, 0.013)
    """
    if rows is None and radius is None:
        raise ValueError(
            "Neither rows nor radius is given. Pass rows=..., how many you have, or radius=..., the half-width that "
            "you need."
        )
    request = PlanRequest.from_terms(rows=1 if rows is None else rows, queries=queries, **terms)
    at = check_value(at)
    if radius is not None:
        radius = check_radius(radius)
    lines = tuple(
        inverse.by_mechanism(lambda name: line_of(name, request, radius, at=at, with_rows=rows is not None)).values()
    )
    if radius is not None:
        inverse.reaches({line.mechanism: line.rows_needed for line in lines}, radius)
    checking = next((line.tuned for line in lines if has_public_levels(line.tuned)), None)
    made = Plan(
        rows=rows, queries=queries, surprises=request.surprises, confidence=request.confidence, slack=request.slack,
        dependence=request.dependence, requested_radius=radius, lines=lines, training_rows=request.training_rows, at=at,
        ways=three_ways(checking, at=at, alike=request.alike),
        widths=None if checking is None else widths.widths_of(checking, request.alike), alike=request.alike,
        steps=_steps(request, lines, disagreement, with_rows=rows is not None),
        published=tuple(
            published_line_of(name, request, radius, with_rows=rows is not None) for name in inverse.BOUNDS
        ),
    )  # fmt: skip
    advice = f"Plan for more {widths.sealed_units(made.dependence)}, fewer queries or fewer surprises."
    said = "" if made.best.tuned is None else widths.vacuous_in_words(made.best.tuned, made.alike)
    if not said and made.requested_radius is not None and made.requested_radius >= widths.VACUOUS:
        said = f"The radius {made.requested_radius:.2f} is half the range or more and promises nothing."
    if said:
        warn_caller(VacuousGuaranteeWarning(f"{said} {advice}"))
    return made


def _steps(
    request: PlanRequest, lines: tuple[PlanLine, ...], disagreement: float | None, *, with_rows: bool
) -> Steps | None:
    """Return the smallest gains that a gate can prove with the rows of the request, or None if they are not defined.

    `with_rows` is true if the request names a number of rows. If not, the rows of the first line are used.
    """
    tuned = [line.tuned for line in lines if has_public_levels(line.tuned)]
    if disagreement is None or not request.dependence.independent or not tuned:
        return None
    return widths.steps_of(request if with_rows else request.with_rows(tuned[0].rows), disagreement)


# Lines of a plan: each mechanism, and each published statement, for a request.

_SAYS_NOTHING = "says nothing: half the range or more"
_ONLY_WORST = "the worst case says nothing: half the range or more"
_INCOMPLETE = "published, proof incomplete"
_ONLY_INDEPENDENT = "only for independent rows"


@dataclass(frozen=True, slots=True)
class PlanLine(Display):
    """Radius and rows of one mechanism for the request.

    Attributes:
        adaptive: True if the mechanism promises intervals for queries that depend on earlier answers; False if queries
            have to be fixed in advance.
        radius: The mechanism's smallest half-width, in the units of a mean over [0, 1]. It holds in the worst case,
            after every planned surprise. None if the mechanism cannot serve the request.
        parameters: The mechanism's parameters with this radius.
        note: Why there is no radius, or why the radius says nothing.
        rows_needed: Rows that the requested radius needs; None if no radius was requested, or if no holdout can seal
            this number of rows.
        queries_allowed: Queries that the mechanism allows for the requested radius; None if no radius was requested.
        tuned: The mechanism itself, ready for `Holdout.create(..., mechanism=...)`.
        expected: Half-width that an analyst whose guesses are honest can expect at the value `Plan.at`; see
            `Mechanism.expected_radius`.
        rows_expected: Number of rows for which the expected half-width is the requested radius.
        queries_expected: Number of queries for which the expected half-width is the requested radius.
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
        """Return all attributes by name except the mechanism itself, whose parameters are included."""
        return {name: value for name, value in Display.to_dict(self).items() if name != "tuned"}

    def _repr_html_(self) -> str:
        return html_record(self.to_dict())


@dataclass(frozen=True, slots=True)
class PublishedLine(Display):
    """Radius and rows of a published bound for the request, for comparison.

    Attributes:
        radius: Half-width of the published bound, including the cost of rounding to the grid. None if the bound
            promises no half-width below 1.
        rows_needed: Rows that the bound needs for the requested radius; None if no radius was requested, or no number
            of rows reaches it.
        note: What else a reader has to know about the bound.
    """

    statement: str
    source: str
    radius: float | None = None
    rows_needed: int | None = None
    note: str = ""


def line_of(name: str, request: PlanRequest, radius: float | None, *, at: float, with_rows: bool) -> PlanLine:
    """Return the line of a mechanism, tuned for the request.

    ``with_rows`` is True if the number of rows is given. If it is False, the mechanism is tuned for the rows that the
    radius needs.
    """
    kind = MECHANISMS[name]
    line = PlanLine(name, kind.statement, kind.traits.adaptive, None, {})
    if radius is not None:
        many, needed = request.with_queries(MOST_QUERIES), inverse.rows_needed_by(name, request, radius)
        allowed = inverse.queries_allowed_by(name, many, radius) if with_rows else None
        if kind.expected_radius is Mechanism.expected_radius and radius <= min(at, 1.0 - at) + 1e-12:
            by_rows, by_queries = needed, allowed  # nothing of so small a radius is cut off at 0 or 1
        else:
            by_rows = inverse.rows_needed_by(name, request, radius, at=at)
            by_queries = inverse.queries_allowed_by(name, many, radius, at=at) if with_rows else None
        line = replace(
            line, rows_needed=needed, rows_expected=by_rows, queries_allowed=allowed, queries_expected=by_queries
        )
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
    vacuous = (
        "" if promised < widths.VACUOUS else _SAYS_NOTHING if expected >= widths.least_vacuous(at) else _ONLY_WORST
    )
    return replace(
        line,
        radius=promised,
        parameters=tuned.parameters(),
        note=_joined(kind.presentation.note, vacuous),
        tuned=tuned,
        expected=expected,
    )


def published_line_of(name: str, request: PlanRequest, radius: float | None, *, with_rows: bool) -> PublishedLine:
    """Return the plan's line for a published bound. For dependent rows its proof is incomplete (theory, erratum 5).

    ``with_rows`` is True if the number of rows is given. If it is False, the line has no radius.
    """
    source = inverse.BOUNDS[name].source
    if name not in inverse.published_statements(request):
        return PublishedLine(name, source, note=_ONLY_INDEPENDENT)
    label = "" if request.dependence.independent else _INCOMPLETE
    needed = None if radius is None else inverse.published_rows_needed(name, request, radius)
    if not with_rows:
        return PublishedLine(name, source, rows_needed=needed, note=label)
    bound = inverse.published_bound(name, request)
    if not bound.radius < 1.0:
        note = _joined(bound.note or "no radius below 1", label)
        return PublishedLine(name, source, rows_needed=needed, note=note)
    return PublishedLine(name, source, bound.radius + LEAST_RADIUS, needed, _joined(bound.note, label))


def _joined(*notes: str) -> str:
    return ", ".join(filter(None, notes))


# A plan in words: what it recommends, what the worst case would be, and when something else is better.

_HARDEST = 0.5
_FEW_ROWS = 500


def explanation(plan: Plan) -> str:
    """Return the sentences of `Plan.explain`, each on its own line."""
    best, tuned = plan.best, plan.best.tuned
    said = [_headline(plan, best)]
    guessing = plan.line("guess_and_check").expected
    if has_public_levels(tuned):
        said += [WITHOUT_GUESSES] if plan.training_rows == 0 else []
        said += _of_guesses(plan, tuned)
    elif plan.training_rows == 0:
        if guessing is not None and best.expected is not None and guessing < best.expected:
            said.append(
                f"With guesses, such as estimates from training rows, guess_and_check would answer within "
                f"{at_most(guessing)} around {plan.at:g}."
            )
    elif guessing is not None:
        said.append(
            f"guess_and_check would answer within {at_most(guessing)} around {plan.at:g} if its guesses hold, and its "
            "study can be unsealed."
        )
    if tuned is not None and tuned.rows <= _FEW_ROWS and tuned.dependence.independent:
        seen = widths.step_in_words(tuned, widths.USUAL_DISAGREEMENT if plan.steps is None else plan.steps.disagreement)
        said.append(f"With few rows, compare models in place of scores: {seen}.")
    return "\n".join(said)


def _headline(plan: Plan, best: PlanLine) -> str:
    """Return the sentence with the recommended mechanism and its radius."""
    name, around = best.mechanism, f"around {plan.at:g}"
    if plan.rows is None and best.rows_expected is not None:
        needs = f"{name} needs the fewest rows for adaptive queries: {best.rows_expected:,}"
        if not MECHANISMS[name].traits.needs_guess:
            return f"{needs}."
        worst = "no holdout can seal enough" if best.rows_needed is None else f"{best.rows_needed:,}"
        return f"{needs} if its guesses hold {around}. For the worst case, after all planned surprises, {worst}."
    if best.tuned is None or best.radius is None or best.expected is None:
        return "No mechanism can serve the request."
    if not best.tuned.traits.needs_guess:
        return f"{name} has the smallest radius for adaptive queries: {at_most(best.radius)}, whatever is asked."
    return (
        f"{name} has the narrowest answers for adaptive queries if guesses hold: {at_most(best.expected)} {around}. "
        f"The worst case, after {counted(plan.surprises, 'surprise')}, has {at_most(best.radius)}."
    )


def _of_guesses(plan: Plan, tuned: PublicLevels) -> Iterator[str]:
    """Yield sentences about the half-widths after unsealing, and about when another mechanism is better."""
    hardest = widths.width_at(tuned, _HARDEST, 0, plan.alike)
    usual = widths.width_at(tuned, plan.at, 0, plan.alike)
    told = "nothing to say" if hardest.confirmed >= _HARDEST else at_most(hardest.confirmed)
    yield (
        f"At the last planned query, around {_HARDEST:g}, it has {told} if guesses hold, and unsealed "
        f"{at_most(hardest.unsealed)} there and {at_most(usual.unsealed)} around {plan.at:g}."
    )
    other = min(
        (line for line in plan._candidates() if not MECHANISMS[line.mechanism].traits.needs_guess),
        key=plan._cost,
        default=None,
    )
    if other is None or other.tuned is None or other.radius is None:
        return
    name = other.mechanism
    told = f"{name} promises {at_most(other.radius)} for every answer"
    if other.tuned.rows != tuned.rows:
        return
    if other.tuned.expected_radius(_HARDEST) < hardest.confirmed:
        yield f"{told}: narrower around {_HARDEST:g} from the start, until the study is unsealed."
        return
    at = {
        value: widths.surprises_until(tuned, other.tuned.expected_radius(value), value, plan.alike)
        for value in (_HARDEST, plan.at)
    }
    if all(found is None for found in at.values()):
        yield f"{told}, and that is never narrower within the plan."
        return
    when = " and ".join(
        f"from {counted(found, 'surprise')} on around {value:g}" for value, found in at.items() if found is not None
    )
    first = min(math.inf if found is None else found for found in at.values())
    if first <= plan.surprises:
        yield f"{told}: narrower {when}, and the plan allows {plan.surprises:,}. Choose it if you expect so many."
    else:
        yield f"{told}: narrower {when}, which is more than planned."
