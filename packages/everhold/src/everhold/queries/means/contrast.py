"""Contrasts of two arms: differences or ratios of rates and means, for all rows or group by group.

A difference is one query, with bets on both arms at once (Statement K), if the mechanism can answer it as one.
Otherwise the two arms are conditional means, each with an interval. All intervals of a holdout hold at once, so the
range of differences or ratios over both intervals also holds, and needs no further probability
(docs/theory/contrasts.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np

from everhold.answers import Answer, Contrasts
from everhold.arguments import advice_for, brief
from everhold.display import at_least, at_most
from everhold.errors import QueryRejected
from everhold.guarantees.intervals.arms import ArmDifference, SeenArms
from everhold.guarantees.intervals.joint import Units
from everhold.guarantees.intervals.parts import units_of
from everhold.queries.makers import as_rowwise, ratio
from everhold.queries.means.combined import BoundedMean, ShareQuery, in_ends
from everhold.queries.means.mean import condition, parsed, rows_that_meet
from everhold.queries.means.plans import BoundDerived, Derived, Estimate, JointMeans, OneMean, estimate_between, widest
from everhold.queries.metrics.query import largest_group
from everhold.queries.query import CompileContext, ExecutionResult, Query, QueryPlan, QuerySpec, RowwiseQuery
from everhold.sealing.rows.sums import parts_of_ratio
from everhold.values.base import BoundQuery, Schema, with_clips
from everhold.values.expressions import ColumnKind
from everhold.values.expressions.tree import quoted
from everhold.values.units import DIFFERENCE_OF_MEANS, DIFFERENCE_OF_RATES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.sealing.rows.evaluated_rows import RowStore

    InArm = tuple[NDArray[np.float64], NDArray[np.float64]]
    """Values of rows within an arm, and 1 for its rows; shape (rows,) each."""

How: TypeAlias = Literal["difference", "ratio"]
Value: TypeAlias = str | float | bool

WORDS = {"difference": ("a risk difference", "minus"), "ratio": ("a risk ratio", "over")}
"""Name of a contrast with its article, and what stands between its arms."""


@dataclass(frozen=True, slots=True, eq=False)
class ContrastQuery(Query["Answer"]):
    """A query that compares the means of two arms, made by `risk_difference` and `risk_ratio`.

    Attributes:
        how: Name of the operation: whether the means of the arms are subtracted or divided.
        event: Condition or number that is averaged in each arm.
        arm: Column whose value says to which arm a row belongs.
        treated: Value of this column for the arm from which the other is subtracted, or which is divided by the other.
        control: The arm that is subtracted, or divides.
        given: Condition for the rows that count; None for all rows.
    """

    how: How
    event: RowwiseQuery
    arm: str
    treated: Value
    control: Value
    given: str | None = None

    def spec(self) -> QuerySpec:
        """Return the kind and arguments from which the query can be built again."""
        given = {"arm": self.arm, "treated": self.treated, "control": self.control, "given": self.given}
        return QuerySpec(f"risk_{self.how}", self.event, given)

    def parts(self, schema: Schema) -> tuple[ShareQuery, ShareQuery]:
        """Return the conditional means of both arms. If both were asked with guesses, the contrast costs nothing.

        Raises:
            QueryRejected: If the column of arms does not exist or has no such arm. Nothing is charged.
        """
        conditions = [has_value(self.arm, value, schema) for value in (self.treated, self.control)]
        if conditions[0] == conditions[1]:
            raise QueryRejected(
                f"treated and control are both {brief(self.treated)}. Pass two different values of {brief(self.arm)}."
            )
        if self.given is not None:
            parsed(self.given, schema)  # without brackets: its own must pair among themselves
            conditions = [f"{each} and ({self.given})" for each in conditions]
        return ratio(self.event, conditions[0]), ratio(self.event, conditions[1])

    def check(self, compiler: CompileContext) -> None:
        """Raise QueryRejected if an arm does not occur in the training rows."""
        if compiler.training is None or compiler.training.whole is not None:
            return
        for value in (self.treated, self.control):
            inside = condition(has_value(self.arm, value, compiler.schema), compiler.schema)
            if not rows_that_meet(compiler.training, inside).any():
                raise QueryRejected(
                    f"No training row has {brief(value)} in the column {brief(self.arm)}. Pass a value of this "
                    "column that occurs."
                )

    def compile(
        self, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None
    ) -> OneMean | Contrast:
        """Compile a difference as one query with bets on both arms where possible, else one arm at a time."""
        one = None
        if self.how == "difference" and tolerance is None and not self._with_bounds(compiler):
            shares = [share.placed(compiler) for share in self.parts(compiler.schema)]
            arms = [arm for share in shares if (arm := share.as_one(compiler)) is not None]
            if len(arms) == len(shares):
                at_zero, at_one = self._ends(shares[0], compiler.schema)
                one = difference_of_arms(compiler, arms, shown=self._shown, width=at_one - at_zero, guess=guess)
        try:
            return self.compile_apart(compiler, guess=guess, tolerance=tolerance) if one is None else one
        except QueryRejected:
            self.check(compiler)
            raise

    def _with_bounds(self, compiler: CompileContext) -> list[BoundedMean]:
        """Return the mean of each arm with bounds for missing values, or an empty list if no rule requires bounds."""
        schema = compiler.schema
        arms = (
            [BoundedMean.of(share.part, schema, share.whole) for share in self.parts(schema)] if schema.missing else []
        )
        return [arm for arm in arms if arm is not None]

    def compile_apart(
        self, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None
    ) -> Contrast:
        """Compile the arms as separate queries: one ratio or two means for each arm.

        With bounds for missing values each arm takes three means: the lowest, the highest, and the share of the arm.
        """
        schema, name = compiler.schema, WORDS[self.how][0]
        if arms := self._with_bounds(compiler):
            treated, control = (arm.bind(schema) for arm in arms)
            size, ends = len(treated.parts), self._checked(treated.shown, *treated.description["ends"])
            whole = BoundDerived(
                name, {"kind": name.partition(" ")[2]}, (*treated.parts, *control.parts),
                lambda told: self._of(treated.combine(told[:size]), control.combine(told[size:]), ends), self._shown,
            )  # fmt: skip
            whole.check(compiler, guess=guess, tolerance=tolerance)
            means = compiler.prepare(whole.parts, None, together=True)
            means[0], means[size] = (
                arm.noted(means[place], compiler) for arm, place in zip(arms, (0, size), strict=True)
            )
            return Contrast(means, schema, compiler.mechanism, whole)
        asked = [share.placed(compiler) for share in self.parts(schema)]
        ones = [one for share in asked if (one := share.as_one(compiler)) is not None]
        plain = [share.bind(schema) for share in asked]
        ends, as_ratios = self._ends(asked[0], schema), len(ones) == len(asked)
        parts: tuple[Any, ...] = tuple(asked)
        if not as_ratios:
            parts = tuple(part for share in plain for part in share.parts)

        def combine(told: Sequence[Estimate]) -> Estimate:
            if as_ratios:
                return self._of(in_ends(told[0], *ends), in_ends(told[1], *ends), ends)
            return self._of(plain[0].combine(told[:2]), plain[1].combine(told[2:]), ends)

        bound = BoundDerived(name, {"kind": name.partition(" ")[2]}, parts, combine, self._shown)
        bound.check(compiler, guess=guess, tolerance=tolerance)
        if as_ratios:
            prepared = [compiler.planner.ratio(one, None, None) for one in ones]
        else:
            prepared = compiler.prepare(parts, None, together=True)
        return Contrast(prepared, schema, compiler.mechanism, bound)

    @property
    def _shown(self) -> str:
        what, between = getattr(self.event, "text", "mean"), WORDS[self.how][1]
        among = "" if self.given is None else f", among rows with {self.given}"
        return f"{what} where {self.arm} is {self.treated} {between} where it is {self.control}{among}"

    def _ends(self, share: ShareQuery, schema: Schema) -> tuple[float, float]:
        """Return the outcomes for row values of 0 and of 1 of the event, in the analyst's units."""
        event = share.part.bind(schema)
        return self._checked(event.shown, event.at_zero, event.at_one)

    def _checked(self, shown: str, at_zero: float, at_one: float) -> tuple[float, float]:
        """Return both ends of the event's range, after checking that a ratio is not of negative numbers.

        Raises:
            QueryRejected: If the query is a ratio of means that may be negative. Nothing is charged.
        """
        if self.how == "ratio" and min(at_zero, at_one) < 0.0:
            raise QueryRejected(
                f"The range of {shown} goes below 0, and a ratio of means needs values of at least 0. Pass "
                "low=0 or more, or ask risk_difference(...)."
            )
        return at_zero, at_one

    def _of(self, treated: Estimate, control: Estimate, ends: tuple[float, float]) -> Estimate:
        """Return the estimate of the difference or ratio of two numbers in these intervals, rounded outwards."""
        if self.how == "difference":
            low, high = treated.low - control.high, treated.high - control.low
            slack, width = 2.0 * max(math.ulp(low), math.ulp(high)), abs(ends[1] - ends[0])
            return estimate_between(treated.value - control.value, low, high, least=-width, most=width, slack=slack)
        low = math.nextafter(treated.low / control.high, 0.0) if control.high > 0.0 else 0.0
        high = math.nextafter(treated.high / control.low, math.inf) if control.low > 0.0 else math.inf
        value = treated.value / (control.value or control.high or 1.0)
        return Estimate(min(max(value, low), high), low, high)


@dataclass(frozen=True)
class Contrast(Derived):
    """A plan for one contrast whose two arms are separate queries."""

    def present(self, result: ExecutionResult) -> Answer:
        """Return the answer that follows from the answers to both arms."""
        answer = Derived.present(self, result)
        if answer.low is None or answer.high is None:
            return answer
        made = (
            f"It follows from the intervals of both arms, which hold at once: [{at_least(answer.low)}, "
            f"{at_most(answer.high)}] has all that they leave possible."
        )
        narrower = "It is as wide as both arms allow: more sealed rows in the smaller one make it narrower."
        return replace(answer, rows_worth=" ".join(filter(None, (made, answer.rows_worth))), narrower=narrower)


def has_value(column: str, value: Value | date, schema: Schema) -> str:
    """Return the text of the condition that a column equals a value, which may be given as a text.

    Raises:
        QueryRejected: If the column has no values of this type. Nothing is charged.
    """
    kind = schema.columns.get(column) if isinstance(column, str) else None
    number = math.nan if isinstance(value, bool) else _number(value) + 0.0  # 0.0 for -0.0, which has its rows
    if kind is ColumnKind.NUMBER and math.isfinite(number):
        return f"{quoted(column)} = {int(number) if number.is_integer() else number!r}"
    if kind is ColumnKind.BOOLEAN and str(value).lower() in ("true", "false"):
        return f"{quoted(column)} = {str(value).lower()}"
    if (kind is ColumnKind.TIME and isinstance(value, str | date)) or (
        kind is ColumnKind.STRING and isinstance(value, str)
    ):
        text = str(value).replace("'", "''")
        return f"{quoted(column)} = {'timestamp ' if kind is ColumnKind.TIME else ''}'{text}'"
    if kind is None:
        raise QueryRejected(f"There is no column {brief(column)}. {advice_for(column, schema.asked)}")
    raise QueryRejected(
        f"{brief(value)} is no value of the column {brief(column)}, which holds {kind.value}s. Pass one of the "
        f"column's values{', such as 2024-01-31, as a text' if kind is ColumnKind.TIME else ''}."
    )


def _number(value: Any) -> float:
    """Return a value as a number, or nan if the value is not a number."""
    try:
        return float(value)
    except (ValueError, TypeError):
        return math.nan


_MOST_GROUPS = 50


@dataclass(frozen=True, slots=True, eq=False)
class ContrastsQuery(Query[Contrasts]):
    """A query for the same contrast within each of several groups of rows.

    Attributes:
        by: Name of the column whose values are the groups.
        groups: The groups; None for the values of the training rows.
    """

    whole: ContrastQuery
    by: str
    groups: tuple[Value, ...] | None = None

    def spec(self) -> QuerySpec:
        """Return the kind and arguments from which the query can be built again."""
        whole = self.whole.spec()
        return replace(whole, details={**whole.details, "by": self.by, "groups": self.groups})

    def check(self, compiler: CompileContext) -> None:
        """Raise QueryRejected if an arm does not occur in the training rows."""
        self.whole.check(compiler)

    def each(self, compiler: CompileContext) -> dict[str, ContrastQuery]:
        """Return one contrast for each group, by the group's name.

        Raises:
            QueryRejected: If the column of groups does not exist, or neither the query nor the training rows say which
                groups there are. Nothing is charged.
        """
        found = {}
        for value in self._values(compiler):
            inside = has_value(self.by, value, compiler.schema)
            given = inside if self.whole.given is None else f"{inside} and ({self.whole.given})"
            if self.whole.given is not None:
                parsed(self.whole.given, compiler.schema)
            found[_name(value)] = replace(self.whole, given=given)
        return found

    def _values(self, compiler: CompileContext) -> Sequence[Value]:
        """Return the values that define the groups: those given, or else those of the training rows."""
        kind = compiler.schema.columns.get(self.by)
        values: list[Value] = list(self.groups or ())
        if not values and compiler.training is not None and kind is not None:
            column = compiler.training.table([self.by])[self.by].tolist()
            values = sorted({value for value in column if value is not None and value == value})
        if not 1 <= len({*map(_name, values)}) == len(values) <= _MOST_GROUPS:
            raise QueryRejected(
                f"The column {brief(self.by)} has {len(values)} groups, according to groups= or the training rows. "
                f"Name 1 to {_MOST_GROUPS} different groups with groups=[...] (--groups A,B)."
            )
        return values

    def compile(
        self, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Contrasts]:
        """Compile the contrasts of all groups into one plan. It answers all of them or none."""
        queries = self.each(compiler)
        if guess is not None:
            raise QueryRejected(
                "A contrast with by= takes no guess, because the groups differ. Ask about each group with given=... "
                "and a guess, and then about all groups, which costs nothing more."
            )
        each: dict[str, OneMean | Contrast] = {
            name: query.compile(compiler, tolerance=tolerance) for name, query in queries.items()
        }
        if not all(isinstance(plan, OneMean) for plan in each.values()):
            each = {name: query.compile_apart(compiler, tolerance=tolerance) for name, query in queries.items()}
        prepared = [part for plan in each.values() for part in plan.prepared]
        size = len(prepared) // len(each)

        def widest_of_all(told: Sequence[Estimate]) -> Estimate:
            found = []
            for place, plan in enumerate(each.values()):
                own = told[place * size : (place + 1) * size]
                found.append(_in_units(plan, own[0]) if isinstance(plan, OneMean) else plan.bound.combine(own))
            return widest(found)

        name = f"{WORDS[self.whole.how][0]} by group"
        bound = BoundDerived(name=name, description={"kind": name.partition(" ")[2]}, parts=(), combine=widest_of_all)
        return ByGroup(prepared, compiler.schema, compiler.mechanism, bound, each)


@dataclass(frozen=True)
class ByGroup(JointMeans[Contrasts]):
    """A plan for the same contrast within each of several groups of rows.

    Attributes:
        each: One contrast for each group, by the group's name.
    """

    each: Mapping[str, OneMean | Contrast]
    whole = True

    def present(self, result: ExecutionResult) -> Contrasts:
        """Return one answer for each group, by the group's name."""
        size = len(self.prepared) // len(self.each)
        return Contrasts({
            name: contrast.present(replace(result, entries=result.entries[place * size : (place + 1) * size]))
            for place, (name, contrast) in enumerate(self.each.items())
        })  # fmt: skip


def _in_units(plan: OneMean, told: Estimate) -> Estimate:
    """Convert the estimate of a mean in [0, 1] to the analyst's units."""
    bound = plan.prepared[0].bound
    low, high = sorted((bound.from_mean(told.low), bound.from_mean(told.high)))
    return Estimate(bound.from_mean(told.value), low, high)


def _name(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _in_groups(whole: ContrastQuery, by: str | None, groups: Sequence[Value] | None) -> ContrastQuery | ContrastsQuery:
    """Return the contrast itself, or the query for the contrast in each group if ``by`` names a column."""
    if by is None:
        if groups is not None:
            raise QueryRejected("groups is given without by. Name the column of the groups with by=...")
        return whole
    if not isinstance(by, str):
        raise QueryRejected(f"by is {brief(by)}. Pass the name of one column, such as by='centre'.")
    if isinstance(groups, str) or (groups is not None and not isinstance(groups, Sequence)):
        raise QueryRejected(f"groups is {brief(groups)}. Pass a list of values.")
    return ContrastsQuery(whole, by, None if groups is None else tuple(groups))


@overload
def risk_difference(
    event: RowwiseQuery | str, *, arm: str, treated: Value, control: Value, given: str | None = None
) -> ContrastQuery: ...  # fmt: skip
@overload
def risk_difference(
    event: RowwiseQuery | str, *, arm: str, treated: Value, control: Value, by: str, given: str | None = None,
    groups: Sequence[Value] | None = None,
) -> ContrastsQuery: ...  # fmt: skip
def risk_difference(
    event: RowwiseQuery | str, *, arm: str, treated: Value, control: Value, by: str | None = None,
    given: str | None = None, groups: Sequence[Value] | None = None,
) -> ContrastQuery | ContrastsQuery:  # fmt: skip
    """Build the query for the rate of an event in one arm (such as treated rows) minus that in another.

    With a mean in place of an event it is the difference of the means.

    It is one query if the holdout checks guesses and has training rows in both arms. It is two queries for groups of
    rows in an engine, and four means otherwise. With ``by`` it takes that many queries for each group, and each group
    has an answer of its own.

    Args:
        event: What is compared: a condition as a text, or a `mean` with a range, `accuracy`, `error`, `brier` or
            `risk`.
        arm: Column whose value says to which arm a row belongs.
        treated: Its value for the arm from which the other is subtracted.
        control: Its value for the arm that is subtracted.
        by: Name of a column of groups, such as centres. The answer then has this difference within each group.
        given: Only rows that meet this condition.
        groups: The values of ``by``; by default those of the training rows.

    Raises:
        QueryRejected: If the contrast cannot be asked, for example because the arguments contradict each other. Nothing
            is charged.

    Examples:
        >>> risk_difference("died", arm="treatment", treated="B", control="A").how
        'difference'
    """
    whole = ContrastQuery("difference", as_rowwise(event), arm=arm, treated=treated, control=control, given=given)
    return _in_groups(whole, by, groups)


@overload
def risk_ratio(
    event: RowwiseQuery | str, *, arm: str, treated: Value, control: Value, given: str | None = None
) -> ContrastQuery: ...  # fmt: skip
@overload
def risk_ratio(
    event: RowwiseQuery | str, *, arm: str, treated: Value, control: Value, by: str, given: str | None = None,
    groups: Sequence[Value] | None = None,
) -> ContrastsQuery: ...  # fmt: skip
def risk_ratio(
    event: RowwiseQuery | str, *, arm: str, treated: Value, control: Value, by: str | None = None,
    given: str | None = None, groups: Sequence[Value] | None = None,
) -> ContrastQuery | ContrastsQuery:  # fmt: skip
    """Build the query for the rate of an event in one arm (such as treated rows) divided by that in another.

    With a mean in place of an event it is the ratio of the means.

    It is two queries, one for each arm, if the holdout checks guesses and has training rows; else four means.
    Where the interval of the control arm reaches 0, nothing bounds the ratio from above: its upper end is infinite.

    Args:
        event: The condition or mean that is compared, as for `risk_difference`, with a range that begins at 0 or above.
        arm: Column whose value says to which arm a row belongs.
        treated: Its value for the arm that is divided.
        control: Its value for the arm by which it is divided.
        by: Name of a column of groups, within each of which the arms are compared, as for `risk_difference`.
        given: Condition for the rows that count, as for `risk_difference`.
        groups: The values of ``by`` that are asked about, as for `risk_difference`.

    Raises:
        QueryRejected: If the ratio cannot be asked, for example because the arguments contradict each other. Nothing is
            charged.

    Examples:
        >>> risk_ratio("died", arm="treatment", treated="B", control="A", by="centre").by
        'centre'
    """
    whole = ContrastQuery("ratio", as_rowwise(event), arm=arm, treated=treated, control=control, given=given)
    return _in_groups(whole, by, groups)


def difference_of_arms(
    compiler: CompileContext, arms: Sequence[BoundQuery], *, shown: str, width: float, guess: float | None
) -> OneMean | None:
    """Return the plan of the difference as one query, or None if the arms are asked one by one.

    The arms are asked one by one in three cases:

    - an engine counts groups of rows;
    - an arm has no training rows;
    - a declared family has the arms and not their difference, so that the answer is free. Asked silently, it is one
      query even then, because that is narrower.

    Args:
        compiler: The compiler of the holdout.
        arms: The conditional means of the treated and of the control arm; no row is in both.
        shown: The query as a text for people.
        width: The outcome for row value 1 minus the outcome for row value 0. It is negative if 1 stands for the lesser
            outcome.
        guess: The analyst's own guess, in units of the outcome.
    """
    mechanism, training = compiler.mechanism, compiler.training
    group_column = mechanism.dependence.group_column
    if training is None:
        return None
    if group_column is not None and compiler.sealed is not None and compiler.sealed.reads_ahead:
        return None
    ordered = sorted(arms, key=lambda arm: arm.query)  # one query, whichever arm is named first
    if ordered[0] is not arms[0]:
        width = -width
    reader = ArmsReader(ordered[0], ordered[1], group_column, largest_group(mechanism), mechanism.unit)
    counted = training.counting(ordered[0])
    planned = reader.units(counted)
    if not planned.treated.total or not planned.control.total:
        return None
    columns = [arm.columns for arm in ordered]
    kind = DIFFERENCE_OF_RATES if reader.of_rates else DIFFERENCE_OF_MEANS
    bound = BoundQuery(
        {"kind": kind, "of": [arm.description for arm in ordered]}, shown, -width, width,
        reads=None if None in columns else tuple(dict.fromkeys(name for names in columns for name in names or ())),
        by_position=any(arm.by_position for arm in arms),
    )  # fmt: skip
    level_of = compiler.families.level_of
    if not compiler.silent and level_of(bound) is None and any(level_of(arm) is not None for arm in arms):
        return None
    bound = with_clips(bound, [clip for arm in ordered for clip in arm.clips])
    values = reader.values(training)  # of a sample, where an engine counts them
    if bound.by_position:
        bound = replace(bound, training_values=np.concatenate([part for part, _ in values]))
    if all(whole.any() for _, whole in values):
        influence = [(part - whole * (part.sum() / whole.sum())) / whole.sum() for part, whole in values]
        compiler.planner.evaluator.test_spread(bound, np.asarray(influence[0] - influence[1]))
    known, rows = Fraction(planned.score), compiler.schema.rows
    procedure = ArmDifference(planned, rows / counted.rows, rows)
    prepared = compiler.planner.of_statistic(bound, guess, known, procedure, reader.sealed)
    return OneMean([prepared], compiler.schema, mechanism)


@dataclass(frozen=True, slots=True)
class ArmsReader:
    """Reads the two arms of a contrast from rows. The reader itself holds no sealed value.

    Attributes:
        treated: The ratio whose value is the mean of one arm.
        control: The ratio of the other arm.
        group_column: Column with the group of each row; None for independent rows.
        largest: Number of rows of the largest sealed group.
        unit: Grid steps between the row values 0 and 1.
    """

    treated: BoundQuery
    control: BoundQuery
    group_column: str | None
    largest: float
    unit: int

    @property
    def of_rates(self) -> bool:
        """Whether the averaged value is 0 or 1 in every row of both arms."""
        return all(parts_of_ratio(arm)[0].yes_no for arm in (self.treated, self.control))

    def units(self, rows: RowStore) -> SeenArms:
        """Return the units of both arms: rows, or groups of rows. Secret for sealed rows."""
        rounded = 0.0 if self.of_rates else 1.0 / self.unit
        if self.group_column is None:
            _, seen = rows.evaluate([self.treated, self.control], ["pairs", "pairs"], unit=self.unit)
            treated, control = (
                units_of(pairs.numerators / self.unit, pairs.denominators / self.unit, counts=pairs.counts)
                for pairs in seen
            )
            counts = np.concatenate([treated.counts, control.counts])
            before, after = np.zeros(len(treated.counts)), np.zeros(len(control.counts))  # each unit is of one arm
            return SeenArms(
                Units(np.concatenate([treated.sizes, after]), np.concatenate([treated.values, after]), counts, 1.0),
                Units(np.concatenate([before, control.sizes]), np.concatenate([before, control.values]), counts, 1.0),
                rounded,
            )
        (first, counting), (other, among) = self.values(rows)
        index = rows.group_index(self.group_column)
        sums = [np.bincount(index, part) for part in (first, counting, other, among)]
        kinds, counts = np.unique(np.array(sums), axis=1, return_counts=True)
        largest = max(self.largest, float(np.bincount(index).max(initial=0)))
        treated, control = (
            Units(kinds[place + 1], kinds[place], counts.astype(np.float64), largest) for place in (0, 2)
        )
        return SeenArms(treated, control, rounded)

    def sealed(self, rows: RowStore) -> tuple[Fraction, SeenArms]:
        """Return the sealed difference as a share of its range, and the units for its interval. Secret."""
        seen = self.units(rows)
        return Fraction(seen.score), seen

    def values(self, rows: RowStore) -> list[InArm]:
        """Return the row values of each arm. Secret for sealed rows."""
        return [self._values(rows, arm) for arm in (self.treated, self.control)]

    def _values(self, rows: RowStore, arm: BoundQuery) -> InArm:
        part, whole = (rows.row_values(query, unit=self.unit) for query in parts_of_ratio(arm))
        return np.minimum(part, whole) / self.unit, whole / self.unit
