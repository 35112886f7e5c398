"""Contrasts of two arms: the difference and the ratio of two rates or means, for all rows or group by group.

What is compared are two conditional means, each with an interval; all intervals of a holdout hold at once, so the range
of differences and of ratios over both holds with them and needs no further probability (theory, contrasts).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from everhold.answers import Contrasts
from everhold.arguments import brief
from everhold.display import at_least, at_most
from everhold.errors import QueryRejected
from everhold.queries.derived import BoundDerived, Derived, Estimate, JointMeans, estimate_between
from everhold.queries.difference import as_rowwise
from everhold.queries.question import Query, QuerySpec
from everhold.queries.ratio import ratio
from everhold.queries.shares import ShareQuery, in_ends
from everhold.queries.texts import parsed
from everhold.values.expressions import ColumnKind
from everhold.values.expressions.tree import quoted

if TYPE_CHECKING:
    from everhold.answers import Answer
    from everhold.queries.means import Prepared, RowwiseQuery
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.queries.question import ExecutionResult, QueryPlan
    from everhold.values.base import Schema

__all__ = ["ContrastQuery", "ContrastsQuery", "risk_difference", "risk_ratio"]

How: TypeAlias = Literal["difference", "ratio"]
Value: TypeAlias = str | float | bool

_MOST_GROUPS = 50
_WORDS = {"difference": ("a risk difference", "minus"), "ratio": ("a risk ratio", "over")}


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

    def parts(self, schema: Schema) -> tuple[ShareQuery, ShareQuery]:
        """The conditional means of both arms; if both were asked, with own guesses, this one is free.

        Raises:
            QueryRejected: If there is no such column or arm. Nothing is charged.
        """
        conditions = [condition(self.arm, value, schema) for value in (self.treated, self.control)]
        if conditions[0] == conditions[1]:
            raise QueryRejected(
                f"treated and control are the same arm, {brief(self.treated)}; expected two values of "
                f"{brief(self.arm)}; nothing was charged"
            )
        if self.given is not None:
            parsed(self.given, schema)  # without brackets: its own must pair among themselves
            conditions = [f"{each} and ({self.given})" for each in conditions]
        return ratio(self.event, conditions[0]), ratio(self.event, conditions[1])

    def compile(
        self, compiler: QueryCompiler, *, guess: float | None = None, tolerance: float | None = None
    ) -> Contrast:
        """Both arms: one question each where the mechanism takes it as one, and two means where not."""
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
            prepared = [compiler.ratio(one, None, None) for one in ones]
        return Contrast(prepared, schema, compiler.mechanism, bound)

    def _bound(self, parts: tuple[Any, ...], combine: Any) -> BoundDerived:
        name, between = _WORDS[self.how]
        among = "" if self.given is None else f", among rows with {self.given}"
        return BoundDerived(
            name=name,
            description={"kind": name.partition(" ")[2]},
            parts=parts,
            combine=combine,
            shown=f"{self._what} where {self.arm} is {self.treated} {between} where it is {self.control}{among}",
        )

    @property
    def _what(self) -> str:
        return str(getattr(self.event, "text", "mean"))

    def _ends(self, share: ShareQuery, schema: Schema) -> tuple[float, float]:
        """Outcomes that the row values 0 and 1 of the event stand for.

        Raises:
            QueryRejected: If it is a ratio of what may be negative. Nothing is charged.
        """
        event = share.part.bind(schema)
        if self.how == "ratio" and min(event.at_zero, event.at_one) < 0.0:
            raise QueryRejected(
                f"the range of {event.shown} goes below 0, and a ratio of what may be negative says nothing; expected "
                "low of at least 0, or risk_difference; nothing was charged"
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

    def present(self, told: ExecutionResult) -> Answer:
        """The answer that follows from both arms."""
        answer = Derived.present(self, told)
        if answer.low is None or answer.high is None:
            return answer
        made = (
            f"It follows from the intervals of both arms, which hold at once: [{at_least(answer.low)}, "
            f"{at_most(answer.high)}] has all that they leave possible."
        )
        narrower = "It is as wide as both arms allow: more sealed rows in the smaller one make it narrower."
        return replace(answer, rows_worth=" ".join(filter(None, (made, answer.rows_worth))), narrower=narrower)


@dataclass(frozen=True, slots=True, eq=False)
class ContrastsQuery(Query[Contrasts]):
    """The same contrast in each group; made by `risk_difference` and `risk_ratio` with ``by``.

    Attributes:
        whole: The contrast.
        by: The column whose values are the groups.
        groups: The groups; None for the values of the training rows.
    """

    whole: ContrastQuery
    by: str
    groups: tuple[Value, ...] | None = None

    def spec(self) -> QuerySpec:
        """See `Query.made`."""
        whole = self.whole.spec()
        return replace(whole, details={**whole.details, "by": self.by, "groups": self.groups})

    def each(self, compiler: QueryCompiler) -> dict[str, ContrastQuery]:
        """One contrast for each group, by the group's name.

        Raises:
            QueryRejected: If there is no such column, or nothing says which groups there are. Nothing is charged.
        """
        found = {}
        for value in self._values(compiler):
            inside = condition(self.by, value, compiler.schema)
            given = inside if self.whole.given is None else f"{inside} and ({self.whole.given})"
            if self.whole.given is not None:
                parsed(self.whole.given, compiler.schema)
            found[_name(value)] = replace(self.whole, given=given)
        return found

    def _values(self, compiler: QueryCompiler) -> Sequence[Value]:
        """The groups, from what is public."""
        kind = compiler.schema.columns.get(self.by)
        values: list[Value] = list(self.groups or ())
        if not values and compiler.training is not None and kind is not None:
            column = compiler.training.table([self.by])[self.by].tolist()
            values = sorted({value for value in column if value is not None and value == value})
        if not 1 <= len({*map(_name, values)}) == len(values) <= _MOST_GROUPS:
            raise QueryRejected(
                f"there are {len(values)} groups of {brief(self.by)} in the training rows or in groups=; expected 1 to "
                f"{_MOST_GROUPS} different ones; name them, groups=[...] (--groups A,B); nothing was charged"
            )
        return values

    def compile(
        self, compiler: QueryCompiler, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Contrasts]:
        """All groups, or none; the price is that of all, and the half-width that of the widest."""
        each = {
            name: query.compile(compiler, guess=guess, tolerance=tolerance)
            for name, query in self.each(compiler).items()
        }
        prepared: list[Prepared] = [part for contrast in each.values() for part in contrast.prepared]
        size = len(prepared) // len(each)

        def widest(told: Sequence[Estimate]) -> Estimate:
            found = [
                contrast.bound.combine(told[place * size : (place + 1) * size])
                for place, contrast in enumerate(each.values())
            ]
            return max(found, key=lambda one: one.high - one.low)

        name = f"{_WORDS[self.whole.how][0]} by group"
        bound = BoundDerived(name=name, description={"kind": name.partition(" ")[2]}, parts=(), combine=widest)
        return ByGroup(prepared, compiler.schema, compiler.mechanism, bound, each)


@dataclass(frozen=True)
class ByGroup(JointMeans[Contrasts]):
    """The contrasts of several groups.

    Attributes:
        each: One contrast for each group, by the group's name.
    """

    each: dict[str, Contrast]
    whole = True

    def present(self, told: ExecutionResult) -> Contrasts:
        """One answer for each group."""
        size = len(self.prepared) // len(self.each)
        return Contrasts({
            name: contrast.present(replace(told, entries=told.entries[place * size : (place + 1) * size]))
            for place, (name, contrast) in enumerate(self.each.items())
        })  # fmt: skip


def condition(column: str, value: Value, schema: Schema) -> str:
    """The text that a column has a value, which may be written as a text.

    Raises:
        QueryRejected: If the column has no such values. Nothing is charged.
    """
    kind = schema.columns.get(column) if isinstance(column, str) else None
    number = math.nan if isinstance(value, bool) else _number(value)
    if kind is ColumnKind.NUMBER and math.isfinite(number):
        return f"{quoted(column)} = {number!r}" if number >= 0.0 else f"{quoted(column)} = ({number!r})"
    if kind is ColumnKind.BOOLEAN and str(value).lower() in ("true", "false"):
        return f"{quoted(column)} = {str(value).lower()}"
    if kind is ColumnKind.STRING and isinstance(value, str):
        text = value.replace("'", "''")
        return f"{quoted(column)} = '{text}'"
    if kind is None:
        raise QueryRejected(
            f"there is no column {brief(column)}; expected one of {', '.join(schema.asked)}; nothing was charged"
        )
    raise QueryRejected(
        f"{brief(value)} is no value of the column {brief(column)}, which holds {kind.value}s; expected one of its "
        "values; nothing was charged"
    )


def _number(value: Value) -> float:
    try:
        return float(value)
    except (ValueError, TypeError):
        return math.nan


def _name(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _made(
    how: How, event: RowwiseQuery | str, arm: str, treated: Value, control: Value, given: str | None, by: str | None,
    groups: Sequence[Value] | None,
) -> ContrastQuery | ContrastsQuery:  # fmt: skip
    whole = ContrastQuery(how, as_rowwise(event), arm, treated, control, given)
    if by is None:
        if groups is not None:
            raise QueryRejected("groups are given without by; expected the column they belong to; nothing was charged")
        return whole
    if isinstance(groups, str) or (groups is not None and not isinstance(groups, Sequence)):
        raise QueryRejected(f"groups is {brief(groups)}; expected a list of values; nothing was charged")
    return ContrastsQuery(whole, by, None if groups is None else tuple(groups))


@overload
def risk_difference(
    event: RowwiseQuery | str, *, arm: str, treated: Value, control: Value, given: str | None = None
) -> ContrastQuery: ...
@overload
def risk_difference(
    event: RowwiseQuery | str, *, arm: str, treated: Value, control: Value, by: str, given: str | None = None,
    groups: Sequence[Value] | None = None,
) -> ContrastsQuery: ...  # fmt: skip
def risk_difference(
    event: RowwiseQuery | str,
    *,
    arm: str,
    treated: Value,
    control: Value,
    by: str | None = None,
    given: str | None = None,
    groups: Sequence[Value] | None = None,
) -> ContrastQuery | ContrastsQuery:
    """The rate of an event in one arm minus that in another, or the difference of two means.

    Two questions of a holdout that confirms guesses and has training rows, with at most one surprise each; else four
    means. With ``by`` that many for each group, and one answer for each.

    Args:
        event: A condition as a text, or a `mean` with a range, `accuracy`, `error`, `brier` or `risk`.
        arm: Column that says which arm a row belongs to.
        treated: Its value for the arm that is subtracted from.
        control: Its value for the arm that is subtracted.
        by: Column of groups, such as centres: the same contrast in each of them.
        given: Only rows that meet this condition.
        groups: The values of ``by``; by default those of the training rows.

    Raises:
        QueryRejected: If it cannot be asked. Nothing is charged.

    Examples:
        >>> risk_difference("died", arm="treatment", treated="B", control="A").how
        'difference'
    """
    return _made("difference", event, arm, treated, control, given, by, groups)


@overload
def risk_ratio(
    event: RowwiseQuery | str, *, arm: str, treated: Value, control: Value, given: str | None = None
) -> ContrastQuery: ...
@overload
def risk_ratio(
    event: RowwiseQuery | str, *, arm: str, treated: Value, control: Value, by: str, given: str | None = None,
    groups: Sequence[Value] | None = None,
) -> ContrastsQuery: ...  # fmt: skip
def risk_ratio(
    event: RowwiseQuery | str,
    *,
    arm: str,
    treated: Value,
    control: Value,
    by: str | None = None,
    given: str | None = None,
    groups: Sequence[Value] | None = None,
) -> ContrastQuery | ContrastsQuery:
    """The rate of an event in one arm over that in another, or the ratio of two means that are never negative.

    Where the interval of the control arm reaches 0, nothing bounds the ratio from above: its upper end is infinite.

    Args:
        event: As for `risk_difference`, with a range that begins at 0 or above.
        arm: Column that says which arm a row belongs to.
        treated: Its value for the arm that is divided.
        control: Its value for the arm that divides.
        by: As for `risk_difference`.
        given: As for `risk_difference`.
        groups: As for `risk_difference`.

    Raises:
        QueryRejected: If it cannot be asked. Nothing is charged.

    Examples:
        >>> risk_ratio("died", arm="treatment", treated="B", control="A", by="centre").by
        'centre'
    """
    return _made("ratio", event, arm, treated, control, given, by, groups)
