"""Means among the rows that meet a condition: ``mean("arr_delay", given="carrier = 'UA'")``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.queries.means.mean import MeanQuery, StatisticalQuery, in_words, is_condition
from everhold.queries.means.shares import ShareQuery, WithinQuery

if TYPE_CHECKING:
    from everhold.queries.means.batch import RowwiseQuery
    from everhold.values.base import Schema


@dataclass(frozen=True, slots=True, eq=False)
class ConditionalMean(ShareQuery):
    """The mean among the rows that meet a condition; made by ``mean(..., given=...)``."""

    @classmethod
    def of(cls, part: MeanQuery | StatisticalQuery, given: MeanQuery) -> ConditionalMean:
        """The mean of one text or function among the rows that meet another text."""
        what = part.shown if isinstance(part, StatisticalQuery) else in_words(part)
        shown = f"mean of {what} among rows with {in_words(given)}"
        return cls(part, given, name="a conditional mean", shown=shown)

    def check_texts(self, schema: Schema) -> None:
        """Refuse a number as the condition."""
        if isinstance(self.whole, MeanQuery) and not is_condition(self.whole, schema):
            raise QueryRejected(
                f"given is {brief(self.whole.text)}, a number; expected a condition that selects rows, such as "
                "mean('arr_delay > 60', given=\"carrier = 'UA'\")"
            )

    def _joint(self, schema: Schema) -> RowwiseQuery:
        part, given = self.part, self.whole
        if isinstance(part, MeanQuery) and isinstance(given, MeanQuery) and is_condition(part, schema):
            return MeanQuery(f"({part.text}) and ({given.text})")
        return WithinQuery(part, given)
