"""Contrasts of two arms as analysts write them: for all rows, or group by group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypedDict, TypeVar, Unpack, overload

from everhold.answers import Contrasts
from everhold.arguments import brief, names_keywords
from everhold.errors import QueryRejected
from everhold.queries.contrast import WORDS, Contrast, ContrastQuery, Value, has_value
from everhold.queries.derived import BoundDerived, Estimate, JointMeans
from everhold.queries.means.mean import parsed
from everhold.queries.metrics.difference import as_rowwise
from everhold.queries.query import Query, QuerySpec
from everhold.queries.statistic import OneNumber, evaluated

if TYPE_CHECKING:
    from everhold.mechanisms.evaluations import Evaluations
    from everhold.queries.means.batch import Prepared, RowwiseQuery
    from everhold.queries.query import ExecutionResult, QueryPlan
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.sealing.rows.table import StoredRows

__all__ = ["Arms", "ContrastQuery", "ContrastsQuery", "risk_difference", "risk_ratio"]

Plan = TypeVar("Plan", bound=OneNumber | Contrast)

_MOST_GROUPS = 50


@dataclass(frozen=True, slots=True, eq=False)
class ContrastsQuery(Query[Contrasts]):
    """The same contrast in each group; made by `risk_difference` and `risk_ratio` with ``by``.

    Attributes:
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
            inside = has_value(self.by, value, compiler.schema)
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
                f"{_MOST_GROUPS} different ones; name them, groups=[...] (--groups A,B)"
            )
        return values

    def compile(
        self, compiler: QueryCompiler, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Contrasts]:
        """All groups, or none; the price is that of all, and the half-width that of the widest."""
        queries = self.each(compiler)
        if guess is not None:
            raise QueryRejected(
                "a contrast by group takes no guess, which would be one for all groups; ask each group with given=..., "
                "and then all, which are free"
            )
        differences = {name: query.compile(compiler, tolerance=tolerance) for name, query in queries.items()}
        ones = {name: plan for name, plan in differences.items() if isinstance(plan, OneNumber)}
        if len(ones) == len(queries):
            return self._plan(compiler, ones, lambda plan, told: _in_units(plan, told[0]))
        apart = {name: query.compile_apart(compiler, tolerance=tolerance) for name, query in queries.items()}
        return self._plan(compiler, apart, lambda plan, told: plan.bound.combine(told))

    def _plan(
        self, compiler: QueryCompiler, each: Mapping[str, Plan], combine: Callable[[Plan, Sequence[Estimate]], Estimate]
    ) -> ByGroup[Plan]:
        """All groups together.

        Args:
            compiler: Of the holdout.
            each: One plan for each group, all with as many parts.
            combine: The contrast of one group from its parts.
        """
        prepared: list[Prepared] = [part for plan in each.values() for part in plan.prepared]
        size = len(prepared) // len(each)

        def widest(told: Sequence[Estimate]) -> Estimate:
            found = [combine(plan, told[place * size : (place + 1) * size]) for place, plan in enumerate(each.values())]
            return max(found, key=lambda one: one.high - one.low)

        name = f"{WORDS[self.whole.how][0]} by group"
        bound = BoundDerived(name=name, description={"kind": name.partition(" ")[2]}, parts=(), combine=widest)
        return ByGroup(prepared, compiler.schema, compiler.mechanism, bound, each)


@dataclass(frozen=True)
class ByGroup(JointMeans[Contrasts], Generic[Plan]):
    """The contrasts of several groups.

    Attributes:
        each: One contrast for each group, by the group's name.
    """

    each: Mapping[str, Plan]
    whole = True

    def evaluate(self, sealed: StoredRows, places: Sequence[int]) -> tuple[Evaluations, list[Prepared]]:
        """See `QueryPlan.evaluate`."""
        ones = [plan for plan in self.each.values() if isinstance(plan, OneNumber)]
        if not ones:
            return JointMeans.evaluate(self, sealed, places)
        some = [ones[place] for place in places]
        return evaluated(some, sealed, silent=self.silent), [one.prepared[0] for one in some]

    def present(self, result: ExecutionResult) -> Contrasts:
        """One answer for each group."""
        size = len(self.prepared) // len(self.each)
        return Contrasts({
            name: contrast.present(replace(result, entries=result.entries[place * size : (place + 1) * size]))
            for place, (name, contrast) in enumerate(self.each.items())
        })  # fmt: skip


def _in_units(plan: OneNumber, told: Estimate) -> Estimate:
    bound = plan.prepared[0].bound
    low, high = sorted((bound.from_mean(told.low), bound.from_mean(told.high)))
    return Estimate(bound.from_mean(told.value), low, high)


def _name(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _in_groups(whole: ContrastQuery, by: str | None, groups: Sequence[Value] | None) -> ContrastQuery | ContrastsQuery:
    """The contrast itself, or the same in each group."""
    if by is None:
        if groups is not None:
            raise QueryRejected("groups are given without by; expected the column they belong to")
        return whole
    if isinstance(groups, str) or (groups is not None and not isinstance(groups, Sequence)):
        raise QueryRejected(f"groups is {brief(groups)}; expected a list of values")
    return ContrastsQuery(whole, by, None if groups is None else tuple(groups))


class Arms(TypedDict):
    """Both arms of a contrast; see `risk_difference`."""

    arm: str
    treated: Value
    control: Value


@overload
def risk_difference(
    event: RowwiseQuery | str, *, given: str | None = None, **arms: Unpack[Arms]
) -> ContrastQuery: ...  # fmt: skip
@overload
def risk_difference(
    event: RowwiseQuery | str, *, by: str, given: str | None = None, groups: Sequence[Value] | None = None,
    **arms: Unpack[Arms],
) -> ContrastsQuery: ...  # fmt: skip
@names_keywords(Arms)
def risk_difference(
    event: RowwiseQuery | str, *, by: str | None = None, given: str | None = None,
    groups: Sequence[Value] | None = None, **arms: Unpack[Arms],
) -> ContrastQuery | ContrastsQuery:  # fmt: skip
    """The rate of an event in one arm minus that in another, or the difference of two means.

    One query of a holdout that confirms guesses and has training rows in both arms, with bets on both arms at once;
    two of groups of rows in an engine, and else four means. With ``by`` that many for each group, and one answer for
    each.

    Args:
        event: A condition as a text, or a `mean` with a range, `accuracy`, `error`, `brier` or `risk`.
        by: Column of groups, such as centres: the same contrast in each of them.
        given: Only rows that meet this condition.
        groups: The values of ``by``; by default those of the training rows.
        **arms: ``arm``, the column that says which arm a row belongs to; ``treated``, its value for the arm that is
            subtracted from; and ``control``, its value for the arm that is subtracted.

    Raises:
        QueryRejected: If it cannot be asked. Nothing is charged.

    Examples:
        >>> risk_difference("died", arm="treatment", treated="B", control="A").how
        'difference'
    """
    return _in_groups(ContrastQuery("difference", as_rowwise(event), given=given, **arms), by, groups)


@overload
def risk_ratio(event: RowwiseQuery | str, *, given: str | None = None, **arms: Unpack[Arms]) -> ContrastQuery: ...
@overload
def risk_ratio(
    event: RowwiseQuery | str, *, by: str, given: str | None = None, groups: Sequence[Value] | None = None,
    **arms: Unpack[Arms],
) -> ContrastsQuery: ...  # fmt: skip
@names_keywords(Arms)
def risk_ratio(
    event: RowwiseQuery | str, *, by: str | None = None, given: str | None = None,
    groups: Sequence[Value] | None = None, **arms: Unpack[Arms],
) -> ContrastQuery | ContrastsQuery:  # fmt: skip
    """The rate of an event in one arm over that in another, or the ratio of two means that are never negative.

    Two queries of a holdout that confirms guesses and has training rows, one for each arm; else four means.
    Where the interval of the control arm reaches 0, nothing bounds the ratio from above: its upper end is infinite.

    Args:
        event: As for `risk_difference`, with a range that begins at 0 or above.
        by: As for `risk_difference`.
        given: As for `risk_difference`.
        groups: As for `risk_difference`.
        **arms: ``arm``, as for `risk_difference`; ``treated``, its value for the arm that is divided; and
            ``control``, its value for the arm that divides.

    Raises:
        QueryRejected: If it cannot be asked. Nothing is charged.

    Examples:
        >>> risk_ratio("died", arm="treatment", treated="B", control="A", by="centre").by
        'centre'
    """
    return _in_groups(ContrastQuery("ratio", as_rowwise(event), given=given, **arms), by, groups)
