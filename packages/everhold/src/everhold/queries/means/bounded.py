"""Means of rows whose missing values may be anything, from all of them at their lowest to all at their highest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from everhold.errors import QueryRejected
from everhold.queries.derived import BoundDerived, Derived, DerivedQuery, Estimate, estimate_between, share_of
from everhold.queries.means.mean import MeanQuery, in_words
from everhold.queries.means.shares import ConditionalMean, in_ends
from everhold.queries.query import QuerySpec
from everhold.values.base import kept_clips, with_clips
from everhold.values.expressions import ColumnKind, parse
from everhold.values.missing import columns_needed, have_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold.answers import Answer
    from everhold.queries.query import CompileContext, QueryPlan, RowwiseQuery
    from everhold.values.base import Schema


@dataclass(frozen=True, slots=True)
class BoundedMean(DerivedQuery):
    """A query for a mean, with an interval that holds whatever the missing values are.

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
        """Return the query in place of a mean that reads columns with this rule, or None of any other query."""
        if not (schema.missing and isinstance(asked, MeanQuery) and isinstance(given, MeanQuery | None)):
            return None
        columns = columns_needed(parse(asked.text, schema.columns), schema.missing, "bounds")
        return cls(asked, given, columns) if columns else None

    def spec(self) -> QuerySpec:
        """See `Query.spec`."""
        return (self.asked if self.given is None else ConditionalMean.of(self.asked, self.given)).spec()

    def bind(self, schema: Schema) -> BoundDerived:
        """See `DerivedQuery.bind`."""
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

        def combine(means: Sequence[Estimate]) -> Estimate:
            least, most = means[:2] if self.given is None else (share_of(mean, means[2]) for mean in means[:2])
            middle = (least.value + most.value) / 2.0
            found = estimate_between(middle, least.low, most.high, least=0.0, most=1.0, slack=0.0)
            return in_ends(found, bound.at_zero, bound.at_one)

        return BoundDerived(
            "a mean with bounds for missing values",
            {"kind": "bounds of a mean", "ends": [bound.at_zero, bound.at_one]},
            parts,
            combine,
            shown,
        )

    def compile(
        self, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Answer]:
        """Compile both means into one plan."""
        if guess is not None:
            raise QueryRejected(
                f"Missing values of {in_words(self.asked)} are bounded, which takes two means. Leave guess out."
            )
        bound, said = self.bind(compiler.schema), "count as the lowest and as the highest"
        bound.check(compiler, guess=None, tolerance=tolerance)
        first, *others = compiler.prepare(bound.parts, None, together=True)
        clip = replace(compiler.left_out(self.columns, self.given), said=said)
        first = replace(first, bound=with_clips(first.bound, [*kept_clips(first.bound.facts), clip]))
        return Derived([first, *others], compiler.schema, compiler.mechanism, bound)
