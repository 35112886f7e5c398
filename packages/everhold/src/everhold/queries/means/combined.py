"""Means that combine two queries row by row: differences, and ratios of a part to the whole that contains it.

A ratio ``sum E u / sum E v`` with ``0 <= u <= v <= 1`` in every row, such as a conditional mean, a precision or a rate
of an arm, is one query if the mechanism compares a guess with the interval that bets on the ratio give. If the
mechanism adds noise, or values on training rows are unknown, it is two means, whose intervals are divided.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.queries.means import plans
from everhold.queries.means.mean import MeanQuery, StatisticalQuery, in_words, is_condition, not_too_long
from everhold.queries.procedures import takes_ratios
from everhold.queries.query import CompileContext, QueryPlan, QuerySpec, RowwiseQuery
from everhold.values.base import BoundQuery, Clip, Pair, Schema, kept_clips, with_clips
from everhold.values.expressions import ColumnKind, Expression, RowValue, parse
from everhold.values.expressions.tree import Node, Operation
from everhold.values.missing import columns_needed, have_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold.answers import Answer
    from everhold.queries.interval_planner import Prepared


SUBJECT = "<subject>"
"""Part of the words of a ratio that stands for the model whose predictions it counts."""


@dataclass(frozen=True, slots=True, eq=False)
class CombinedQuery(RowwiseQuery):
    """A mean of values computed row by row from two other queries.

    Attributes:
        first: The query from which the second is subtracted, or whose row values the second limits.
        second: The query that is subtracted, or whose row values limit the others.
    """

    first: RowwiseQuery
    second: RowwiseQuery

    @abstractmethod
    def combined(self, first: BoundQuery, second: BoundQuery) -> BoundQuery:
        """Return one bound query for two queries that are bound to the same rows.

        Raises:
            QueryRejected: If the two queries cannot be combined row by row. Nothing is charged.
        """

    def needed(self, schema: Schema) -> frozenset[str]:
        """Return the columns in which a row must have a value to count: those of the two queries together."""
        return self.first.needed(schema) | self.second.needed(schema)

    def tested(self, schema: Schema) -> frozenset[str]:
        """Return the columns that either query tests for missing values."""
        return self.first.tested(schema) | self.second.tested(schema)

    def bind(self, schema: Schema) -> BoundQuery:
        """Return the bound query about rows of this schema."""
        return self.combined(self.first.bind(schema), self.second.bind(schema))

    def bound_to(self, compiler: CompileContext, *, part: bool = False) -> BoundQuery:
        """Return the bound query about the holdout's rows.

        For two arrays of predictions, the rows on which they differ are found, because bets are made on these rows
        only.
        """
        bound = self.combined(self.first.bound_to(compiler, part=True), self.second.bound_to(compiler, part=True))
        if not part:
            from everhold.queries.predictions.public import set_apart

            bound = set_apart(bound, compiler.schema, compiler.mechanism)
        return compiler.checked(bound, part=part)


@dataclass(frozen=True, slots=True, eq=False)
class DifferenceQuery(CombinedQuery):
    """A query for the mean over rows of the difference of two row values, made by `difference`."""

    def spec(self) -> QuerySpec:
        """Return the kind and arguments from which the query can be built again."""
        return QuerySpec("difference", (self.first, self.second))

    @property
    def greater(self) -> bool:
        """Whether a higher mean is better, by default True."""
        return bool(getattr(self.first, "greater", True))

    def combined(self, first: BoundQuery, second: BoundQuery) -> BoundQuery:
        """Return the bound query for the difference of two queries that are bound to the same rows."""
        return difference_of(first, second)


def difference_of(first: BoundQuery, second: BoundQuery) -> BoundQuery:
    """Return the bound query for the mean of the first row value minus the second.

    Differences with both queries exchanged have the same identity.

    Raises:
        QueryRejected: If the ranges of the two queries do not have the same width. Nothing is charged.
    """
    if (first.at_one > first.at_zero) != (second.at_one > second.at_zero):
        # Units have to rise alike, so one that is a difference is turned: of two the one with the larger fingerprint
        if _is_difference(first) and (not _is_difference(second) or first.query > second.query):
            first = _turned(first)
        elif _is_difference(second):
            second = _turned(second)
    width, other = first.at_one - first.at_zero, second.at_one - second.at_zero
    if width != other:
        one, another = (
            f"from {min(each.at_zero, each.at_one):g} to {max(each.at_zero, each.at_one):g}" for each in (first, second)
        )
        raise QueryRejected(
            f"The two queries have ranges of different widths: the first {one}, the second {another}. Pass two "
            "queries of one kind with ranges of the same width."
        )
    shown = " minus ".join(f"({each.shown})" if _is_difference(each) else each.shown for each in (first, second))
    middle = first.at_zero - second.at_zero
    if second.query < first.query:  # which one is subtracted is no part of the query
        first, second, width = second, first, -width
    return BoundQuery(
        description={"kind": "difference", "of": [first.description, second.description]},
        shown=shown,
        at_zero=middle - width,
        at_one=middle + width,
        by_position=first.by_position or second.by_position,
        pair=Pair("difference", first, second),
    )


def _turned(bound: BoundQuery) -> BoundQuery:
    """Write the bound query of a difference a - b as b - a. Its scale runs the other way, so the value stays a - b."""
    assert bound.pair is not None
    first, second = bound.pair.second, bound.pair.first
    described = {**bound.description, "of": [first.description, second.description]}
    pair = Pair("difference", first, second)
    return replace(bound, description=described, at_zero=bound.at_one, at_one=bound.at_zero, pair=pair)


def _is_difference(bound: BoundQuery) -> bool:
    return bound.pair is not None and bound.pair.how == "difference"


@dataclass(frozen=True, slots=True, eq=False)
class WithinQuery(CombinedQuery):
    """The mean of row values u limited to row values v: ``min(u, v)`` on the scale [0, 1].

    If v is an `error`, it is 1 in the rows whose label is missed, as in the answer to `error`.
    """

    def needed(self, schema: Schema) -> frozenset[str]:
        """Return the columns in which a row must have a value to count: those of u. Without v a row does not count."""
        return self.first.needed(schema)

    def combined(self, first: BoundQuery, second: BoundQuery) -> BoundQuery:
        """Return the bound query with the row values ``min(u, v)``."""
        second = _as_answered(second)
        return BoundQuery(
            description={"kind": "within", "of": [first.description, second.description]},
            shown=f"{first.shown} within {second.shown}",
            by_position=first.by_position or second.by_position,
            yes_no=first.yes_no and second.yes_no,
            pair=Pair("within", first, second),
        )


@dataclass(frozen=True, slots=True, eq=False)
class ShareQuery(plans.DerivedQuery):
    """A query for a ratio of two sums, with the numerator inside the denominator in every row.

    Attributes:
        part: The numerator. Its value in a row is limited to that of the denominator.
        nested: True if the numerator is known to be no larger than the denominator, so that the denominator may have
            values other than 0 and 1.
        name: Name of the kind of parameter, with its article.
        shown: The query as a text for people. None to build this text from the parts.
        left_out: Note about rows without a value; None if the steward leaves no rows out.
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
        """Compile the ratio as one query if the mechanism takes ratios, else as two means."""
        asked = self.placed(compiler)
        if (bound := asked.as_one(compiler)) is not None:
            prepared = compiler.planner.ratio(bound, guess, tolerance)
            return plans.OneMean([prepared], compiler.schema, compiler.mechanism)
        return plans.DerivedQuery.compile(asked, compiler, guess=guess, tolerance=tolerance)

    def spec(self) -> QuerySpec:
        """Return the kind and arguments from which the query can be built again."""
        return QuerySpec("ratio", self.part, {"denominator": self.whole})

    def placed(self, compiler: CompileContext) -> ShareQuery:
        """Return the query with predictions in the order of the rows, over rows with the needed values.

        Raises:
            QueryRejected: If the query cannot be asked about these rows. Nothing is charged.
        """
        self.check_texts(compiler.schema)
        asked = replace(self, part=self.part.placed(compiler), whole=self.whole.placed(compiler))
        unknown = self.whole.needed(compiler.schema)  # where these are missing, nothing says whether a row counts
        if not (new := unknown | self.part.needed(compiler.schema) - self.whole.tested(compiler.schema)):
            return asked
        known = have_values(new)
        return replace(
            asked,
            whole=MeanQuery(f"({self.whole.text}) and {known}")
            if isinstance(self.whole, MeanQuery)
            else WithinQuery(MeanQuery(known), asked.whole),
            shown=None if self.shown is None else f"{self.shown} and {known}",
            left_out=compiler.left_out(new, None if unknown else self.whole),
        )

    def as_one(self, compiler: CompileContext) -> BoundQuery | None:
        """Return the ratio as one bound query, or None if the mechanism answers ratios only as two means.

        Raises:
            QueryRejected: If the ratio cannot be asked, or has no value in some training rows. Nothing is charged.
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
        """Return the bound ratio of numerator and denominator that are bound to the same rows.

        Raises:
            QueryRejected: If the denominator has row values other than 0 and 1. Nothing is charged.
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

    def bind(self, schema: Schema) -> plans.BoundDerived:
        """Return the ratio as a function of two means: numerator within denominator, and denominator."""
        self.check_texts(schema)
        part, whole = self.part.bind(schema), self.whole.bind(schema)
        self._check(whole)
        ends = (part.at_zero, part.at_one)

        def combine(told: Sequence[plans.Estimate]) -> plans.Estimate:
            counted = told[1]
            if whole.at_one < whole.at_zero:  # an error counts the rows that are missed, so it is 1 minus the mean
                low, high = math.nextafter(1.0 - counted.high, 0.0), math.nextafter(1.0 - counted.low, 1.0)
                counted = plans.Estimate(1.0 - counted.value, low, high)
            return in_ends(plans.share_of(told[0], counted), *ends)

        return plans.BoundDerived(
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
        """Raise QueryRejected if texts cannot be numerator or denominator. By default no text is refused."""

    def _check(self, whole: BoundQuery) -> None:
        """Raise QueryRejected if the denominator is not 0 or 1 in every row and could be less than the numerator."""
        if not (self.nested or whole.yes_no):
            raise QueryRejected(
                f"The denominator ({whole.shown}) is not yes or no in every row, so the numerator could exceed it. "
                "Pass a condition, a function that returns booleans, accuracy(...) or error(...) as the denominator."
            )

    def _in_words(self, part: BoundQuery, whole: BoundQuery) -> str:
        if self.shown is None:
            return f"{part.shown} over {whole.shown}"
        counted = part
        while counted.pair is not None and counted.pair.how == "within":
            counted = counted.pair.first
        return self.shown.replace(SUBJECT, counted.shown.partition(" of ")[2], 1)


def _as_answered(whole: BoundQuery) -> BoundQuery:
    """Return a denominator whose row value is 1 in each row that counts. For an error it is the complement."""
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
    """Return the numerator's condition joined by "and" with the denominator's, if both are conditions."""
    if part.row_value is None or whole.row_value is None or not (part.yes_no and whole.yes_no):
        return part
    root = Node.of(Operation.AND, part.row_value.expression.root, whole.row_value.expression.root)
    expression = not_too_long(root, "the two conditions")
    described = {**part.description, "expression": expression.canonical()}
    return replace(part, row_value=RowValue(expression), description=described)


def in_ends(share: plans.Estimate, at_zero: float, at_one: float) -> plans.Estimate:
    """Convert an estimate of a share to the analyst's units, with ends rounded outwards."""
    if (at_zero, at_one) == (0.0, 1.0):
        return share
    width, least, most = at_one - at_zero, min(at_zero, at_one), max(at_zero, at_one)
    slack = 4.0 * max(math.ulp(least), math.ulp(most))
    low, high = sorted((at_zero + width * share.low, at_zero + width * share.high))
    value = at_zero + width * share.value
    return plans.Estimate(min(max(value, least), most), max(low - slack, least), min(high + slack, most))


# Means among the rows that meet a condition: ``mean("arr_delay", given="carrier = 'UA'")``.


@dataclass(frozen=True, slots=True, eq=False)
class ConditionalMean(ShareQuery):
    """A query for the mean over the rows that meet a condition, made by ``mean(..., given=...)``."""

    def compile(
        self, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Answer]:
        """Compile the mean, with bounds for missing values if the steward's rules require them."""
        bounded = BoundedMean.of(self.part, compiler.schema, self.whole)
        return (
            ShareQuery.compile(self, compiler, guess=guess, tolerance=tolerance)
            if bounded is None
            else bounded.compile(compiler, guess=guess, tolerance=tolerance)
        )

    @classmethod
    def of(cls, part: MeanQuery | StatisticalQuery, given: MeanQuery) -> ConditionalMean:
        """Return the query for the mean of a text or function over the rows that meet a condition."""
        what = part.shown if isinstance(part, StatisticalQuery) else in_words(part)
        shown = f"mean of {what} among rows with {in_words(given)}"
        return cls(part, given, name="a conditional mean", shown=shown)

    def check_texts(self, schema: Schema) -> None:
        """Raise QueryRejected if the text of ``given`` is a number and not a condition."""
        if isinstance(self.whole, MeanQuery) and not is_condition(self.whole, schema):
            raise QueryRejected(
                f"{brief(self.whole.text)} is a number, and it has to say which rows count. Pass a condition, as in "
                "mean('arr_delay > 60', given=\"carrier = 'UA'\")."
            )

    def _joint(self, schema: Schema) -> RowwiseQuery:
        part, given = self.part, self.whole
        if isinstance(part, MeanQuery) and isinstance(given, MeanQuery) and is_condition(part, schema):
            return MeanQuery(f"({part.text}) and ({given.text})")
        return WithinQuery(part, given)


# Means of rows whose missing values may be anything, from all of them at their lowest to all at their highest.


@dataclass(frozen=True, slots=True)
class BoundedMean(plans.DerivedQuery):
    """Mean with an interval that holds for all possible values of missing cells.

    The query has two parts, a low mean and a high mean. In the low mean a row without a value counts as the low end of
    the range, or as not meeting the condition; in the high mean as the high end, or as meeting it. However the missing
    values are filled in, the mean lies between the two.

    Attributes:
        given: Condition on the rows that count; None for all rows.
        columns: Columns that the query reads and whose missing values are bounded.
    """

    asked: MeanQuery
    given: MeanQuery | None
    columns: frozenset[str]

    @classmethod
    def of(cls, asked: object, schema: Schema, given: object = None) -> BoundedMean | None:
        """Return the query with bounds for missing values, or None if no column it reads has the rule ``"bounds"``."""
        if not (schema.missing and isinstance(asked, MeanQuery) and isinstance(given, MeanQuery | None)):
            return None
        columns = columns_needed(parse(asked.text, schema.columns), schema.missing, "bounds")
        return cls(asked, given, columns) if columns else None

    def spec(self) -> QuerySpec:
        """Return the kind and arguments from which the query can be built again."""
        return (self.asked if self.given is None else ConditionalMean.of(self.asked, self.given)).spec()

    def bind(self, schema: Schema) -> plans.BoundDerived:
        """Return the query as a function of two means: with missing values at their lowest and highest."""
        text, low, high, known = self.asked.text, self.asked.low, self.asked.high, have_values(self.columns)
        if parse(text, schema.columns).kind is ColumnKind.BOOLEAN:
            texts = [f"({text}) and {known}", f"({text}) or not ({known})"]
        else:
            ends = (0 if low is None else low, 1 if high is None else high)
            texts = [f"case when {known} then {text} else {end!r} end" for end in ends]
        lowest, highest = (MeanQuery(each, low, high) for each in texts)
        shown = f"mean of {in_words(self.asked)}, missing values at their lowest and highest"
        parts: tuple[RowwiseQuery, ...] = (lowest, highest)
        if self.given is not None:
            each = [ConditionalMean.of(part, self.given) for part in (lowest, highest)]
            each[0].check_texts(schema)
            parts = (*(mean._joint(schema) for mean in each), self.given)
            shown = f"{shown}, among rows with {in_words(self.given)}"
        bound = lowest.bind(schema)

        def combine(means: Sequence[plans.Estimate]) -> plans.Estimate:
            least, most = means[:2] if self.given is None else (plans.share_of(mean, means[2]) for mean in means[:2])
            middle = (least.value + most.value) / 2.0
            found = plans.estimate_between(middle, least.low, most.high, least=0.0, most=1.0, slack=0.0)
            return in_ends(found, bound.at_zero, bound.at_one)

        return plans.BoundDerived(
            "a mean with bounds for missing values",
            {"kind": "bounds of a mean", "ends": [bound.at_zero, bound.at_one]},
            parts,
            combine,
            shown,
        )

    def compile(
        self, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Answer]:
        """Compile the means with missing values at their lowest and highest into one plan."""
        if guess is not None:
            raise QueryRejected(
                f"Missing values of {in_words(self.asked)} are bounded by two means, and one guess does not fit "
                "both. Leave guess= out."
            )
        bound = self.bind(compiler.schema)
        bound.check(compiler, guess=None, tolerance=tolerance)
        first, *others = compiler.prepare(bound.parts, None, together=True)
        return plans.Derived([self.noted(first, compiler), *others], compiler.schema, compiler.mechanism, bound)

    def noted(self, part: Prepared, compiler: CompileContext) -> Prepared:
        """Return a part with a note that missing values are bounded."""
        clip = replace(compiler.left_out(self.columns, self.given), said="count as the lowest and as the highest")
        return replace(part, bound=with_clips(part.bound, [*kept_clips(part.bound.facts), clip]))
