"""Ratios of a part to the whole that contains it: conditional means, precision, recall, F1, rates by arm.

``sum E u / sum E v`` with ``0 <= u <= v <= 1`` in every row is one query where the mechanism holds a guess against
what a bet on the ratio leaves possible. Where it rests on noise, or nothing is known of the values on training rows, it
is two means, whose intervals are divided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.queries.derived import BoundDerived, DerivedQuery, Estimate, share_of
from everhold.queries.means.batch import CombinedQuery, OneMean
from everhold.queries.means.mean import MeanQuery, StatisticalQuery, in_words, is_condition, not_too_long
from everhold.queries.procedures import takes_ratios
from everhold.queries.query import QuerySpec, RowwiseQuery
from everhold.values.base import BoundQuery, Pair, Schema, kept_clips, with_clips
from everhold.values.expressions import Expression, RowValue
from everhold.values.expressions.tree import Node, Operation
from everhold.values.missing import have_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold.answers import Answer
    from everhold.queries.query import CompileContext, QueryPlan
    from everhold.values.base import Clip


SUBJECT = "<subject>"
"""Part of the words of a ratio that stands for the model whose predictions it counts."""


@dataclass(frozen=True, slots=True, eq=False)
class WithinQuery(CombinedQuery):
    """The mean of row values u limited to row values v: ``min(u, v)`` on the scale [0, 1].

    Of an `error` v is 1 in rows that are missed, as its answer says.

    Attributes:
        part: Gives u.
        whole: Gives v.
    """

    part: RowwiseQuery
    whole: RowwiseQuery

    @property
    def operands(self) -> tuple[RowwiseQuery, RowwiseQuery]:
        """The queries that give u and v."""
        return self.part, self.whole

    def needed(self, schema: Schema) -> frozenset[str]:
        """See `RowwiseQuery.needed`. A row without a value in v does not count, so only u's columns matter."""
        return self.part.needed(schema)

    def combined(self, first: BoundQuery, second: BoundQuery) -> BoundQuery:
        """Return one query whose row values are ``min(u, v)``."""
        second = _as_answered(second)
        return BoundQuery(
            description={"kind": "within", "of": [first.description, second.description]},
            shown=f"{first.shown} within {second.shown}",
            by_position=first.by_position or second.by_position,
            yes_no=first.yes_no and second.yes_no,
            pair=Pair("within", first, second),
        )


@dataclass(frozen=True, slots=True, eq=False)
class ShareQuery(DerivedQuery):
    """A query for a ratio of two sums, with the numerator inside the denominator in every row.

    Attributes:
        part: The numerator; its row values count as far as they lie within those of the denominator.
        nested: Whether the denominator may be other than yes or no, because the numerator is known to be no larger.
        name: What kind of parameter it is, with its article.
        shown: The query as people read it; None for that of its parts.
        left_out: What is said of rows without a value; None where the steward leaves none out.
    """

    part: RowwiseQuery
    whole: RowwiseQuery
    nested: bool = False
    name: str = "a ratio"
    shown: str | None = None
    left_out: Clip | None = None

    def compile(
        self, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Answer]:
        """Compile the ratio as one query if the mechanism takes it, else as two means."""
        asked = self.placed(compiler)
        if (bound := asked.as_one(compiler)) is not None:
            prepared = compiler.planner.ratio(bound, guess, tolerance)
            return OneMean([prepared], compiler.schema, compiler.mechanism)
        return DerivedQuery.compile(asked, compiler, guess=guess, tolerance=tolerance)

    def spec(self) -> QuerySpec:
        """See `Query.spec`."""
        return QuerySpec("ratio", self.part, {"denominator": self.whole})

    def placed(self, compiler: CompileContext) -> ShareQuery:
        """Return the query with tables of predictions in the order of the rows, among rows that count.

        Raises:
            QueryRejected: If it cannot be asked of these rows. Nothing is charged.
        """
        self.check_texts(compiler.schema)
        asked = replace(self, part=self.part.placed(compiler), whole=self.whole.placed(compiler))
        needed = self.part.needed(compiler.schema)
        if not (new := needed and needed - self.whole.tested(compiler.schema)):
            return asked
        known = have_values(new)
        return replace(
            asked,
            whole=MeanQuery(f"({self.whole.text}) and {known}")
            if isinstance(self.whole, MeanQuery)
            else WithinQuery(MeanQuery(known), asked.whole),
            shown=None if self.shown is None else f"{self.shown} and {known}",
            left_out=compiler.left_out(new, self.whole),
        )

    def as_one(self, compiler: CompileContext) -> BoundQuery | None:
        """Return the ratio as one bound query, or None if the mechanism has to answer it by two means.

        Raises:
            QueryRejected: If it cannot be asked, or has no value in some training rows. Nothing is charged.
        """
        if not takes_ratios(compiler.mechanism):
            return None
        bound = self.combined(self.part.bound_to(compiler), self.whole.bound_to(compiler))
        if not (compiler.schema.training_rows and bound.trained) and compiler.families.level_of(bound) is None:
            return None
        if self.left_out is not None:
            bound = with_clips(bound, [*kept_clips(bound.facts), self.left_out])
        compiler.planner.evaluator.check_complete([bound])
        return bound

    def combined(self, part: BoundQuery, whole: BoundQuery) -> BoundQuery:
        """Combine numerator and denominator, bound to the same rows, into one bound ratio.

        Raises:
            QueryRejected: If the values of the denominator are other than yes or no. Nothing is charged.
        """
        self._check(whole)
        whole = _as_answered(whole)
        part = _within(part, whole)
        return BoundQuery(
            description={"kind": "ratio", "of": [part.description, whole.description]},
            shown=self._in_words(part, whole),
            at_zero=part.at_zero,
            at_one=part.at_one,
            by_position=part.by_position or whole.by_position,
            pair=Pair("ratio", part, whole),
        )

    def bind(self, schema: Schema) -> BoundDerived:
        """Return the ratio made of two means: the numerator within the denominator, and the denominator."""
        self.check_texts(schema)
        part, whole = self.part.bind(schema), self.whole.bind(schema)
        self._check(whole)
        ends = (part.at_zero, part.at_one)

        def combine(told: Sequence[Estimate]) -> Estimate:
            counted = told[1]
            if whole.at_one < whole.at_zero:  # an error counts the rows that are missed, so it is 1 minus the mean
                low, high = math.nextafter(1.0 - counted.high, 0.0), math.nextafter(1.0 - counted.low, 1.0)
                counted = Estimate(1.0 - counted.value, low, high)
            return in_ends(share_of(told[0], counted), *ends)

        return BoundDerived(
            name=self.name,
            description={"kind": self.name.partition(" ")[2], **({} if ends == (0.0, 1.0) else {"ends": list(ends)})},
            parts=(self._joint(schema), self.whole),
            combine=combine,
            shown=self._in_words(part, _as_answered(whole)),
        )

    def _joint(self, schema: Schema) -> RowwiseQuery:
        """Return the query for the numerator within the denominator."""
        return self.part if self.nested else WithinQuery(self.part, self.whole)

    def check_texts(self, schema: Schema) -> None:
        """Check that the expressions can be numerator and denominator. By default nothing is checked."""

    def _check(self, whole: BoundQuery) -> None:
        if not (self.nested or whole.yes_no):
            raise QueryRejected(
                f"The denominator ({whole.shown}) is not yes or no in every row, so the numerator could exceed it. "
                "Pass a condition, a function that returns booleans, accuracy(...) or error(...) as the denominator."
            )

    def _in_words(self, part: BoundQuery, whole: BoundQuery) -> str:
        if self.shown is None:
            return f"{part.shown} over {whole.shown}"
        return self.shown.replace(SUBJECT, part.shown.partition(" of ")[2].partition(" within ")[0])


def _as_answered(whole: BoundQuery) -> BoundQuery:
    """Return a denominator with row value 1 where it counts a row, which for an error is a missed row."""
    if whole.at_one > whole.at_zero:
        return whole
    every = BoundQuery(
        {"kind": "all rows"}, "all rows", row_value=RowValue(Expression(Node.literal(True))), yes_no=True
    )
    return BoundQuery(
        description={"kind": "complement", "of": whole.description},
        shown=whole.shown,
        by_position=whole.by_position,
        yes_no=whole.yes_no,
        pair=Pair("outside", every, whole),
    )


def _within(part: BoundQuery, whole: BoundQuery) -> BoundQuery:
    """Return the condition joined with the one it is asked within, so ``a`` and ``a and b`` given b are one query."""
    if part.row_value is None or whole.row_value is None or not (part.yes_no and whole.yes_no):
        return part
    root = Node.of(Operation.AND, part.row_value.expression.root, whole.row_value.expression.root)
    expression = not_too_long(root, "the two conditions")
    described = {**part.description, "expression": expression.canonical()}
    return replace(part, row_value=RowValue(expression), description=described)


def in_ends(share: Estimate, at_zero: float, at_one: float) -> Estimate:
    """Convert an estimate of a share to the analyst's units, with ends rounded outwards."""
    if (at_zero, at_one) == (0.0, 1.0):
        return share
    width, least, most = at_one - at_zero, min(at_zero, at_one), max(at_zero, at_one)
    slack = 4.0 * max(math.ulp(least), math.ulp(most))
    low, high = sorted((at_zero + width * share.low, at_zero + width * share.high))
    value = at_zero + width * share.value
    return Estimate(min(max(value, least), most), max(low - slack, least), min(high + slack, most))


# Means among the rows that meet a condition: ``mean("arr_delay", given="carrier = 'UA'")``.


@dataclass(frozen=True, slots=True, eq=False)
class ConditionalMean(ShareQuery):
    """A query for the mean among rows that meet a condition, made by ``mean(..., given=...)``."""

    def compile(
        self, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Answer]:
        """Compile the mean, with bounds for missing values where the steward says so."""
        bounded = compiler.bounded(self.part, self.whole) if compiler.schema.missing else None
        return (
            ShareQuery.compile(self, compiler, guess=guess, tolerance=tolerance)
            if bounded is None
            else bounded.compile(compiler, guess=guess, tolerance=tolerance)
        )

    @classmethod
    def of(cls, part: MeanQuery | StatisticalQuery, given: MeanQuery) -> ConditionalMean:
        """Build the mean of one text or function among the rows that meet another text."""
        what = part.shown if isinstance(part, StatisticalQuery) else in_words(part)
        shown = f"mean of {what} among rows with {in_words(given)}"
        return cls(part, given, name="a conditional mean", shown=shown)

    def check_texts(self, schema: Schema) -> None:
        """Check that the text after ``given`` is a condition and not a number."""
        if isinstance(self.whole, MeanQuery) and not is_condition(self.whole, schema):
            raise QueryRejected(
                f"given is {brief(self.whole.text)}, a number. Pass a condition that selects rows, as in "
                "mean('arr_delay > 60', given=\"carrier = 'UA'\")."
            )

    def _joint(self, schema: Schema) -> RowwiseQuery:
        part, given = self.part, self.whole
        if isinstance(part, MeanQuery) and isinstance(given, MeanQuery) and is_condition(part, schema):
            return MeanQuery(f"({part.text}) and ({given.text})")
        return WithinQuery(part, given)
