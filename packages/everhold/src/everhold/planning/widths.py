"""Widths of guess-and-check's answers: by true value or spread, and by the number of surprises before."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

from everhold.arguments import as_float, brief, fraction, whole
from everhold.display import Display, Listing, at_most
from everhold.guarantees.description_length import QueryTree
from everhold.guarantees.intervals.betting import planned_radius
from everhold.guarantees.intervals.means import OfMeans, SignTest
from everhold.mechanisms import GuessAndCheck, Mechanism, PublicLevels, State, has_public_levels
from everhold.mechanisms.labels import Offsets
from everhold.mechanisms.suffixes import Suffix, narrowest, opens, since, tree_of
from everhold.planning.request import LEAST_RADIUS, MOST_QUERIES, MOST_ROWS, USUAL_VALUE, PlanRequest, check_value

if TYPE_CHECKING:
    import altair as alt

    from everhold.dependence import DependenceModel

TRUE_VALUES = (0.5, 0.8, 0.9, 0.95, 0.99)
"""Of yes-or-no queries; at 1 minus such a value the widths are the same."""

SPREADS = (0.05, 0.1, 0.2)
"""Standard deviations of row values on the scale [0, 1], or of the means of groups."""

VACUOUS = 0.5
"""Half-width of half the range: an interval of that half-width holds for any mean, so it promises nothing."""


def least_vacuous(at: float) -> float:
    """Return half the length of the part of [0, 1] that is within .5, half the range, of a value.

    Examples:
        >>> round(least_vacuous(0.9), 9), least_vacuous(0.5)
        (0.3, 0.5)
    """
    return half_within(at - VACUOUS, at + VACUOUS)


@dataclass(frozen=True, slots=True)
class Width:
    """Half-widths of answers to the last planned query, as parts of [0, 1].

    Attributes:
        query: ``"yes_no"``: a yes-or-no query; ``"spread"``: other values, whose spread training rows predict;
            ``"groups"``: sums of groups, whose spread training rows predict.
        at: Population value of a yes-or-no query. For other queries, the standard deviation of rows or of means of
            groups.
        surprises: Number of surprises before the query.
        confirmed: Half-width of the answer if its guess is confirmed.
        released: Half-width of the answer if it is a surprise.
    """

    query: str
    at: float
    surprises: int
    confirmed: float
    released: float
    unsealed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Widths(Display):
    """Table of the widths of guess-and-check's answers in the course of a plan.

    Half-widths by true value are exact. Those by spread are a closed form (S7) for values of any distribution. If
    values seldom lie near 0 or 1, unsealed intervals are up to a sixth narrower with 20,000 rows, up to a half narrower
    with 500 rows, and up to a third narrower with few large groups.

    Attributes:
        training_rows: Number of rows from which guesses are made.
        lines: Widths, ordered by kind of query, then by surprises, then by true value or spread.
    """

    rows_in: ClassVar[str] = "lines"

    rows: int
    queries: int
    training_rows: int
    lines: tuple[Width, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain data."""
        return {"training_rows": self.training_rows, "lines": self.to_rows()}


def widths_of(mechanism: PublicLevels, alike: float | None = None) -> Widths:
    """Return the expected widths before the first surprise, after some surprises, and after all planned surprises."""
    most = min(mechanism.surprises, mechanism.queries - 1)
    counts = sorted({0, math.isqrt(most), most})
    lines = [width_at(mechanism, value, surprises, alike) for surprises in counts for value in TRUE_VALUES]
    kind, size = _units(mechanism)
    if kind:
        rows, training = float(mechanism.rows), mechanism.training_rows or mechanism.rows
        design = 1.0
        if mechanism.dependence.unit_counts:
            design = rows / mechanism.dependence.concentration(mechanism.rows)
        for surprises, sd in product(counts, SPREADS):  # for row values with this standard deviation (S7)
            nats, spread = _last_nats(mechanism, surprises) + math.log(2.0), sd * sd * rows * design
            unsealed = planned_radius(spread=spread, total=rows, largest=size, nats=nats)
            error = math.sqrt(spread * (1.0 + rows / training)) / rows
            confirmed = min(unsealed + mechanism.allowance * error, mechanism.tolerance)
            halves = (confirmed, Offsets(0.5, unsealed).usual, unsealed)
            lines.append(Width(kind, sd, surprises, *(min(half + mechanism.rounding, 0.5) for half in halves)))
    return Widths(
        rows=mechanism.rows, queries=mechanism.queries, training_rows=mechanism.training_rows or mechanism.rows,
        lines=tuple(lines),
    )  # fmt: skip


def width_at(mechanism: PublicLevels, value: float, surprises: int, alike: float | None = None) -> Width:
    """Return the expected width of the last planned yes-or-no query with this true value, after some surprises."""
    nats = _last_nats(mechanism, surprises)
    procedure = mechanism.yes_no_at(value, nats, alike)
    confirmed = mechanism.intervals.of_guess(procedure, value, nats)
    if not isinstance(procedure, OfMeans):
        usual = Offsets.of(procedure, value, nats).usual + mechanism.rounding
        low, high = procedure.expected(value, nats)
        unsealed = half_within(low - mechanism.rounding, high + mechanism.rounding)
        return Width(
            "yes_no", value, surprises, half_within(*confirmed), half_within(value - usual, value + usual), unsealed
        )
    cell = mechanism.cells.released(math.floor(value * mechanism.steps))
    told, exact = procedure.span(*cell, nats), procedure.interval(value, nats)
    halves = (
        half_within(*confirmed),
        half_within(float(told[0]) - mechanism.rounding, float(told[1]) + mechanism.rounding),
        half_within(exact[0] - mechanism.rounding, exact[1] + mechanism.rounding),
    )
    return Width("yes_no", value, surprises, *halves)


def _last_nats(mechanism: PublicLevels, surprises: int) -> float:
    """Return ln(1 / level) of the last planned query after some surprises, each with the full cost of a surprise."""
    labels = surprises * mechanism.cells.cost / 1e6
    return float(mechanism.nats(mechanism.queries, surprises, labels))


def half_within(low: float, high: float) -> float:
    """Return half the length of the part of an interval inside [0, 1]."""
    return (min(high, 1.0) - max(low, 0.0)) / 2.0


def _units(mechanism: PublicLevels) -> tuple[str, float]:
    """Return on which units bets are placed and the rows of the largest unit: ``"spread"`` for rows, or ``"groups"``.

    If no training rows predict a spread, the kind is an empty text.
    """
    if not mechanism.bets:
        return "", 0.0
    if mechanism.dependence.independent:
        return "spread", 1.0
    if counts := mechanism.dependence.unit_counts:
        return "groups", float(counts[-1][0])
    return "", 0.0


def surprises_until(mechanism: PublicLevels, width: float, at: float, alike: float | None = None) -> int | None:
    """Return after how many surprises the last planned answer is wider than `width`, or None if it never is."""
    most = mechanism.queries - 1

    def wider(surprises: int) -> bool:
        nats = _last_nats(mechanism, surprises)
        procedure = mechanism.yes_no_at(at, nats, alike)
        return half_within(*mechanism.intervals.of_guess(procedure, at, nats)) > width

    dearest = min(most, math.floor(mechanism.queries * mechanism.grid / (mechanism.grid + 1.0)))
    if not wider(dearest):
        return None
    return bisect_left(range(dearest), True, key=wider)


def vacuous_in_words(mechanism: Mechanism, alike: float | None = None) -> str:
    """Return a remark if the worst case is half the range or more, else an empty text."""
    radius, expected = mechanism.promise().radius, mechanism.expected_radius(USUAL_VALUE, alike)
    if radius < VACUOUS:
        return ""
    if expected >= least_vacuous(USUAL_VALUE):
        return f"The radius {radius:.2f} is half the range or more and promises nothing."
    if alike is not None:
        return (
            f"The guaranteed radius {radius:.2f} is half the range or more, because it allows for rows that are all "
            f"alike in a group. Each answer has its own interval that holds, expected within {at_most(expected)} "
            f"around {USUAL_VALUE:g} while guesses hold."
        )
    return (
        f"After all planned surprises the radius {radius:.2f} is half the range or more and promises nothing. Only "
        f"while guesses hold are answers narrower, with half-widths of {at_most(expected)} around {USUAL_VALUE:g}."
    )


def sealed_units(dependence: DependenceModel) -> str:
    """Return "groups" if the declared rows come in groups, else "rows": what to add for narrower answers."""
    return "groups" if dependence.in_groups else "rows"


def few_rows(mechanism: Mechanism, alike: float | None = None) -> str:
    """Return sentences about the width of answers, and about the smallest gain that a gate can prove, with few rows."""
    expected = at_most(mechanism.expected_radius(USUAL_VALUE, alike))
    said = f"Expect wide intervals, such as ±{expected} around {USUAL_VALUE:g}."
    if has_public_levels(mechanism) and mechanism.dependence.independent:
        seen = step_in_words(mechanism, USUAL_DISAGREEMENT)
        return f"{said} {seen[0].upper()}{seen[1:]}."
    return said


def step_in_words(mechanism: Mechanism, disagreement: float) -> str:
    """Return a sentence on the gain that a gate can prove before its first promotion and after three."""
    request: dict[str, Any] = {
        "rows": mechanism.rows, "disagreement": disagreement, "challenges": mechanism.queries,
        "confidence": mechanism.confidence,
    }  # fmt: skip
    first, later = least_step(**request), least_step(**request, promotions=3)
    who = f"of two models that disagree on {100 * disagreement:.3g} % of {mechanism.rows:,} rows"
    if first is None:
        return f"{who} a gate cannot see which is better"
    then = f"{at_most(100 * later)} after three promotions" if later else "none any more after three promotions"
    return f"{who} a gate sees steps from {at_most(100 * first)} points on, {then}"


# The least step that a gate can see: how much better a challenger has to be, before anybody has data.

USUAL_DISAGREEMENT = 0.2
"""The share of rows on which two language models or prompts often disagree; for words about small holdouts."""

_PROMOTIONS = (0, 1, 3, 7)


def least_step(
    *,
    rows: int,
    disagreement: float,
    challenges: int,
    promotions: int = 0,
    confidence: float = 0.95,
    public: bool = True,
) -> float | None:
    """Return the least observed gain in accuracy that a gate without a margin promotes, or None if it promotes no gain.

    It is computed as the gate decides, for the last of the planned challenges. Rows have to be independent.

    Args:
        rows: Number of sealed rows.
        disagreement: Share of the sealed rows on which challenger and champion differ, in (0, 1].
        challenges: Number of planned queries; all of them may be challenges.
        promotions: Promotions so far. Other surprises count as well. If some of them told a number, the least gain is
            larger than the returned one.
        confidence: 1 - beta, in (0, 1).
        public: True if both predictions are public and of two classes, so that the exact sign test decides. False if
            bets on gains in {-1, 0, 1} decide, whose spread training rows predict; the gain is then computed in closed
            form (S7).

    Returns:
        The gain: accuracy of the challenger less that of the champion on the sealed rows, in (0, disagreement]. None if
            not even a challenger that is right on all rows where they differ could be promoted.

    Raises:
        ValueError: If an argument is outside its range.

    Source: docs/theory, the gate; docs/theory, interval procedures (sign test, S7).

    Examples:
        >>> request = {"rows": 20_000, "disagreement": 0.05, "challenges": 10_000}
        >>> [round(least_step(**request, promotions=before), 4) for before in (0, 3, 7)]
        [0.0073, 0.0136, 0.0182]
    """
    _check(rows, disagreement, challenges, promotions, confidence)
    tree = QueryTree(queries=challenges)
    before = min(promotions, challenges - 1)
    nats = float(tree.log_inverse_weight(asked=challenges, surprises=before)) - math.log1p(-confidence)
    return step_at(rows=rows, disagreement=disagreement, nats=nats, public=public)


def step_at(*, rows: int, disagreement: float, nats: float, public: bool) -> float | None:
    """Return the `least_step` of one challenge at a given error probability.

    Args:
        rows: Number of sealed rows, which are independent.
        disagreement: Share of the rows on which challenger and champion differ, in (0, 1].
        nats: ln(1 / level) of the challenge.
        public: True if the exact sign test decides, False if bets on gains decide, as for `least_step`.

    Returns:
        The gain, as `least_step` returns it.
    """
    differing = max(round(rows * disagreement), 1)
    if public:
        return _sign_test_step(rows, differing, nats - math.log(2.0))
    # row values are (1 + gain) / 2: ties at 1/2, others half a unit away from it
    step = 2.0 * planned_radius(spread=differing / 4.0, total=rows, largest=0.5, nats=nats)
    return step if step <= differing / rows else None


def _sign_test_step(rows: int, differing: int, nats: float) -> float | None:
    """Return the least gain that the sign test can prove, or None if it can prove no gain with these rows."""
    test = SignTest(rows=rows, training=rows, differing=differing)

    def seen(wins: int) -> bool:
        low, _ = test.interval(0.5 + (2 * wins - differing) / (2.0 * rows), nats)
        return low - LEAST_RADIUS >= 0.5 + LEAST_RADIUS / 2.0

    if not seen(differing):
        return None
    more_than_half = range(differing // 2 + 1, differing)
    wins = more_than_half.start + bisect_left(more_than_half, True, key=seen)
    return (2 * wins - differing) / rows


def _check(rows: int, disagreement: float, challenges: int, promotions: int, confidence: float) -> None:
    """Raise ValueError if an argument of `least_step` is outside its range."""
    whole(rows, "rows", most=MOST_ROWS)
    whole(challenges, "challenges", most=MOST_QUERIES)
    whole(promotions, "promotions", least=0, most=MOST_QUERIES)
    if not 0.0 < as_float(disagreement) <= 1.0:
        raise ValueError(
            f"disagreement is {brief(disagreement)}. Pass the share of rows, above 0 and at most 1, on which two "
            "models differ."
        )
    fraction(confidence, "confidence")


@dataclass(frozen=True, slots=True)
class Step:
    """Least gains that a gate can prove after a number of promotions.

    Attributes:
        promotions: Number of promotions before the challenge.
        step: Least gain in accuracy if both sets of predictions are public and for two classes (sign test); None if no
            gain can be proved.
        step_by_bets: Least gain in accuracy if predictions are sealed, or of more than two classes; in closed form.
    """

    promotions: int
    step: float | None
    step_by_bets: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps(Display):
    """Table of the least gains that a gate can prove in the course of a plan.

    Attributes:
        challenges: Planned queries, all of them challenges.
        disagreement: Share of the rows on which challenger and champion differ.
        lines: One line for each number of promotions so far.
    """

    rows_in: ClassVar[str] = "lines"

    rows: int
    challenges: int
    disagreement: float
    lines: tuple[Step, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain data."""
        return {"challenges": self.challenges, "disagreement": self.disagreement, "lines": self.to_rows()}


def steps_of(request: PlanRequest, disagreement: float) -> Steps:
    """Return the least gains that a gate proves if all planned queries are challenges and rows are independent."""
    shared: dict[str, Any] = {
        "rows": request.rows, "disagreement": disagreement, "challenges": request.queries,
        "confidence": request.confidence,
    }  # fmt: skip
    lines = tuple(
        Step(
            before,
            least_step(**shared, promotions=before),
            least_step(**shared, promotions=before, public=False),
        )
        for before in _PROMOTIONS
        if before < request.queries
    )
    return Steps(rows=request.rows, challenges=request.queries, disagreement=float(disagreement), lines=lines)


# Widths over time of a holdout that grows: which tree answers in each month, and how wide its answers are (S13).

_MOST_MONTHS = 1_200


@dataclass(frozen=True, slots=True)
class GrowthPlan(Listing):
    """Half-widths of the last query of each month, in a holdout that grows.

    Attributes:
        rows: One dict for each month: month, rows, trees (number of open trees), tree (number of the one that answers),
            tree_rows, within (half-width if the guess is confirmed), unsealed (half-width after unsealing), and static
            (the same if no rows had arrived after the first month).
        at: Population value of a yes-or-no query, in [0, 1], for which half-widths are given.
    """

    rows: Sequence[Mapping[str, Any]]
    at: float = USUAL_VALUE

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as ``{"months": [...]}``."""
        return {"months": self.to_rows()}

    def explain(self) -> str:
        """Explain the columns in words."""
        return (
            f"Half-widths at a true value of {self.at:g}. The column 'static' has those after unsealing if no more "
            "rows arrive than in the first month."
        )

    def chart(self) -> alt.LayerChart:
        """Draw the widths over time. Needs the extra ``plots``."""
        from everhold.charts.intervals import growth_plan_chart

        return growth_plan_chart(self.rows)


def plan_growth(
    *, rows_per_month: int, months: int, queries: int, surprises: float = 1.0, confidence: float = 0.95,
    at: float = USUAL_VALUE, training_rows: int | None = None,
) -> GrowthPlan:  # fmt: skip
    """Plan a holdout to which rows are appended every month.

    Args:
        rows_per_month: Number of sealed rows that arrive each month. Those of the first month are there when the
            holdout is created.
        months: Number of months that are planned.
        queries: Queries of each month.
        surprises: Surprises of each month. A fraction, such as 0.5, means one in several months.
        confidence: Probability with which all intervals hold together.
        at: Population value of a yes-or-no query, in [0, 1], for which half-widths are given.
        training_rows: Number of rows from which guesses are made; by default as many as arrive in a month.

    Raises:
        ValueError: If an argument is outside its range.

    Examples:
        >>> made = plan_growth(rows_per_month=2_000, months=12, queries=50)
        >>> [round(row["unsealed"], 3) for row in made.rows if row["month"] in (1, 12)]
        [0.043, 0.03]
    """
    whole(rows_per_month, "rows_per_month", most=2**30)
    whole(months, "months", most=_MOST_MONTHS)
    whole(queries, "queries", most=10**6)
    if not 0.0 <= surprises <= queries:
        raise ValueError(f"surprises is {brief(surprises)}. Pass a number from 0 to {queries}, the number of queries.")
    check_value(at)
    every, asked = max(math.ceil(surprises * months), 1), queries * months
    trained = rows_per_month if training_rows is None else training_rows
    request = GuessAndCheck.tuned(
        rows=rows_per_month, queries=asked, surprises=min(every, asked), confidence=confidence, training_rows=trained
    )
    first, state, trees, made = request.sharing(0.5), State(), [Suffix(1)], []
    for month in range(1, months + 1):
        rows = rows_per_month * month
        if month > 1 and opens(trees[-1], state, rows=rows - rows_per_month, arriving=rows_per_month):
            trees.append(Suffix(len(trees) + 1, month - 1, rows - rows_per_month, state))
        charged = round(surprises * month) - state.charged
        state = state.after(asked=queries, charged=charged, labels=charged * first.cells.cost)
        open_trees = [(tree_of(first, tree, rows=rows - tree.first, training_rows=trained), tree) for tree in trees]
        last = replace(state, asked=state.asked - 1)  # before the last query of the month
        mechanism, tree = open_trees[narrowest(open_trees, last)]
        within, unsealed = _widths(mechanism, since(last, tree.before), at)
        made.append({
            "month": month, "rows": rows, "trees": len(trees), "tree": tree.number, "tree_rows": rows - tree.first,
            "within": within, "unsealed": unsealed, "static": _widths(request, last, at)[1],
        })  # fmt: skip
    return GrowthPlan(made, at)


def _widths(mechanism: PublicLevels, state: State, at: float) -> tuple[float, float]:
    """Return two half-widths of the next answer: for a confirmed guess, and after unsealing."""
    expected = mechanism.expected(state, at, mechanism.yes_no_procedure)
    return half_within(*expected.confirmed), half_within(*expected.unsealed)
