"""A contrast of two arms: the difference or the ratio of two rates or means.

A difference is one query, with bets on both arms at once, where the mechanism takes it as one. Else what is compared
are two conditional means, each with an interval; all intervals of a holdout hold at once, so the range of differences
and of ratios over both holds with them and needs no further probability (docs/theory/contrasts.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from everhold.arguments import brief
from everhold.display import at_least, at_most
from everhold.errors import QueryRejected
from everhold.queries.arm_difference import difference_of_arms
from everhold.queries.derived import BoundDerived, Derived, Estimate, estimate_between
from everhold.queries.means.mean import parsed
from everhold.queries.means.ratio import ratio
from everhold.queries.means.shares import ShareQuery, in_ends
from everhold.queries.query import Query, QuerySpec
from everhold.queries.statistic import OneNumber
from everhold.values.expressions import ColumnKind
from everhold.values.expressions.tree import quoted

if TYPE_CHECKING:
    from everhold.answers import Answer
    from everhold.queries.means.batch import RowwiseQuery
    from everhold.queries.query import ExecutionResult
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.values.base import Schema

How: TypeAlias = Literal["difference", "ratio"]
Value: TypeAlias = str | float | bool

WORDS = {"difference": ("a risk difference", "minus"), "ratio": ("a risk ratio", "over")}
"""Name of a contrast with its article, and what stands between its arms."""


@dataclass(frozen=True, slots=True, eq=False)
class ContrastQuery(Query["Answer"]):
    """Comparison of the means of two arms; made by `risk_difference` and `risk_ratio`.

    Attributes:
        how: Whether they are subtracted or divided.
        event: What is averaged in each arm.
        arm: The column that says which arm a row belongs to.
        treated: The arm that is subtracted from, or divided.
        control: The arm that is subtracted, or divides.
        given: Only rows that meet this condition; None for all.
    """

    how: How
    event: RowwiseQuery
    arm: str
    treated: Value
    control: Value
    given: str | None = None

    def spec(self) -> QuerySpec:
        """See `Query.made`."""
        given = {"arm": self.arm, "treated": self.treated, "control": self.control, "given": self.given}
        return QuerySpec(f"risk_{self.how}", self.event, given)

    @property
    def to_declare(self) -> str:
        """Both arms."""
        what, of = getattr(self.event, "text", "..."), self.treated
        arm = f"{self.arm} = {quoted(of) if isinstance(of, str) else of}"
        return f'the mean of each arm, such as mean("{what}", given="{arm}")'

    def parts(self, schema: Schema) -> tuple[ShareQuery, ShareQuery]:
        """The conditional means of both arms; if both were asked, with own guesses, this one is free.

        Raises:
            QueryRejected: If there is no such column or arm. Nothing is charged.
        """
        conditions = [has_value(self.arm, value, schema) for value in (self.treated, self.control)]
        if conditions[0] == conditions[1]:
            raise QueryRejected(
                f"treated and control are the same arm, {brief(self.treated)}; expected two values of {brief(self.arm)}"
            )
        if self.given is not None:
            parsed(self.given, schema)  # without brackets: its own must pair among themselves
            conditions = [f"{each} and ({self.given})" for each in conditions]
        return ratio(self.event, conditions[0]), ratio(self.event, conditions[1])

    def compile(
        self, compiler: QueryCompiler, *, guess: float | None = None, tolerance: float | None = None
    ) -> OneNumber | Contrast:
        """A difference as one query where the mechanism takes it as one, with bets on both arms at once."""
        if self.how == "difference" and tolerance is None and (one := self._as_one(compiler, guess)) is not None:
            return one
        return self.compile_apart(compiler, guess=guess, tolerance=tolerance)

    def _as_one(self, compiler: QueryCompiler, guess: float | None) -> OneNumber | None:
        """The one query that the mechanism takes; None where it takes an arm at a time."""
        shares = [share.placed(compiler) for share in self.parts(compiler.schema)]
        arms = [arm for share in shares if (arm := share.as_one(compiler)) is not None]
        if len(arms) < len(shares):
            return None
        at_zero, at_one = self._ends(shares[0], compiler.schema)
        return difference_of_arms(compiler, arms, shown=self._shown, width=at_one - at_zero, guess=guess)

    def compile_apart(
        self, compiler: QueryCompiler, *, guess: float | None = None, tolerance: float | None = None
    ) -> Contrast:
        """Both arms: one query each where the mechanism takes it as one, and two means where not."""
        schema = compiler.schema
        asked = [share.placed(compiler) for share in self.parts(schema)]
        ones = [one for share in asked if (one := share.as_one(compiler)) is not None]
        plain = [share.bind(schema) for share in asked]
        ends = self._ends(asked[0], schema)
        if len(ones) < len(asked):
            parts = tuple(part for share in plain for part in share.parts)
            bound = self._bound(
                parts, lambda told: self._of(plain[0].combine(told[:2]), plain[1].combine(told[2:]), ends)
            )
            bound.check(compiler, guess=guess, tolerance=tolerance)
            prepared = compiler.prepare(parts, None, together=True)
        else:
            bound = self._bound(
                tuple(asked), lambda told: self._of(in_ends(told[0], *ends), in_ends(told[1], *ends), ends)
            )
            bound.check(compiler, guess=guess, tolerance=tolerance)
            prepared = [compiler.planner.ratio(one, None, None) for one in ones]
        return Contrast(prepared, schema, compiler.mechanism, bound)

    def _bound(self, parts: tuple[Any, ...], combine: Any) -> BoundDerived:
        name = WORDS[self.how][0]
        return BoundDerived(
            name=name, description={"kind": name.partition(" ")[2]}, parts=parts, combine=combine, shown=self._shown
        )

    @property
    def _shown(self) -> str:
        """The query as people read it."""
        what, between = getattr(self.event, "text", "mean"), WORDS[self.how][1]
        among = "" if self.given is None else f", among rows with {self.given}"
        return f"{what} where {self.arm} is {self.treated} {between} where it is {self.control}{among}"

    def _ends(self, share: ShareQuery, schema: Schema) -> tuple[float, float]:
        """Outcomes that the row values 0 and 1 of the event stand for.

        Raises:
            QueryRejected: If it is a ratio of what may be negative. Nothing is charged.
        """
        event = share.part.bind(schema)
        if self.how == "ratio" and min(event.at_zero, event.at_one) < 0.0:
            raise QueryRejected(
                f"the range of {event.shown} goes below 0, and a ratio of what may be negative says nothing; expected "
                "low of at least 0, or risk_difference"
            )
        return event.at_zero, event.at_one

    def _of(self, treated: Estimate, control: Estimate, ends: tuple[float, float]) -> Estimate:
        """All differences, or ratios, of values in both intervals; ends rounded outwards."""
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
    """The arms of one contrast."""

    def present(self, result: ExecutionResult) -> Answer:
        """The answer that follows from both arms."""
        answer = Derived.present(self, result)
        if answer.low is None or answer.high is None:
            return answer
        made = (
            f"It follows from the intervals of both arms, which hold at once: [{at_least(answer.low)}, "
            f"{at_most(answer.high)}] has all that they leave possible."
        )
        narrower = "It is as wide as both arms allow: more sealed rows in the smaller one make it narrower."
        return replace(answer, rows_worth=" ".join(filter(None, (made, answer.rows_worth))), narrower=narrower)


def has_value(column: str, value: Value, schema: Schema) -> str:
    """The text that a column has a value, which may be written as a text.

    Raises:
        QueryRejected: If the column has no such values. Nothing is charged.
    """
    kind = schema.columns.get(column) if isinstance(column, str) else None
    number = math.nan if isinstance(value, bool) else _number(value) + 0.0  # 0.0 for -0.0, which has its rows
    if kind is ColumnKind.NUMBER and math.isfinite(number):
        return f"{quoted(column)} = {number!r}" if number >= 0.0 else f"{quoted(column)} = ({number!r})"
    if kind is ColumnKind.BOOLEAN and str(value).lower() in ("true", "false"):
        return f"{quoted(column)} = {str(value).lower()}"
    if kind is ColumnKind.STRING and isinstance(value, str):
        text = value.replace("'", "''")
        return f"{quoted(column)} = '{text}'"
    if kind is None:
        raise QueryRejected(f"there is no column {brief(column)}; expected one of {', '.join(schema.asked)}")
    raise QueryRejected(
        f"{brief(value)} is no value of the column {brief(column)}, which holds {kind.value}s; expected one of its "
        "values"
    )


def _number(value: Value) -> float:
    try:
        return float(value)
    except (ValueError, TypeError):
        return math.nan
