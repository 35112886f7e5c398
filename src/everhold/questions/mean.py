"""The mean of a text expression over the columns, and the mean among the rows that meet a condition."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import overload

from everhold.errors import QueryRejected
from everhold.questions.derived import BoundDerived, DerivedQuery, ratio
from everhold.values.base import BoundQuery, Query, Schema
from everhold.values.expressions import ColumnKind, Expression, RowValue, parse
from everhold.values.expressions.tree import Node, Operation

__all__ = ["ConditionalMean", "MeanQuery", "bound_mean", "in_one_line", "mean", "parsed"]

_QUOTED_OR_SPACE = re.compile(r"""('[^']*'|"[^"]*")|\s+""")


@dataclass(frozen=True, slots=True)
class MeanQuery(Query):
    """The mean of a condition or of a clipped number; made by `mean`.

    Attributes:
        text: An expression of the language in `everhold.values.expressions`.
        low: Value at which a number is clipped from below; missing numbers count as this.
        high: Value at which a number is clipped from above.
    """

    text: str
    low: float | None = None
    high: float | None = None

    def bind(self, schema: Schema) -> BoundQuery:
        """The parsed question about these columns."""
        expression = parsed(self.text, schema)
        low, high = self._range(expression)
        return bound_mean(RowValue(expression, low, high), shown=f"mean of {in_one_line(self.text)}")

    def _range(self, expression: Expression) -> tuple[float, float]:
        if self.low is not None and self.high is not None:
            return self.low, self.high
        if (self.low is None) != (self.high is None):
            raise QueryRejected("only one end of the range is given; expected both low and high; nothing was charged")
        if expression.kind is ColumnKind.NUMBER and not _between_zero_and_one(expression):
            raise QueryRejected(
                "the expression is a number and its range is not known; expected low and high, at which values are "
                "clipped, such as low=-60, high=180; nothing was charged"
            )
        return 0.0, 1.0


def parsed(text: str, schema: Schema) -> Expression:
    """A text expression over the columns of a holdout, without the row ids.

    Raises:
        QueryRejected: If it is none, or reads the row ids. Nothing is charged.
    """
    expression = parse(text, schema.columns)
    if schema.row_id in expression.columns():
        raise QueryRejected(
            f"the question reads {schema.row_id!r}, the column of row ids; expected a question about other columns: "
            "ids are public and name these very rows, so that no answer to it is about others; nothing was charged"
        )
    return expression


def in_one_line(text: str) -> str:
    """An expression as people read it: with single spaces, except in what is quoted."""
    return _QUOTED_OR_SPACE.sub(lambda found: found[1] or " ", text).strip()


def bound_mean(row_value: RowValue, *, shown: str) -> BoundQuery:
    """The question for the mean of an expression; the same for every way to have come by the expression."""
    return BoundQuery(
        description={
            "kind": "mean",
            "expression": row_value.expression.canonical(),
            "low": row_value.low,
            "high": row_value.high,
        },
        shown=shown,
        at_zero=row_value.low,
        at_one=row_value.high,
        row_value=row_value,
    )


def _between_zero_and_one(expression: Expression) -> bool:
    """Whether an expression can only give numbers from 0 to 1: choices among such literals."""
    choices = {Operation.CASE, Operation.LEAST, Operation.GREATEST}
    inside: dict[Node, bool] = {}
    for node in expression.nodes:
        if node.operation in choices:
            inside[node] = all(inside[operand] for operand in node.operands if operand.kind is ColumnKind.NUMBER)
        else:
            literal = node.operation is Operation.NUMBER and isinstance(node.value, (int, float))
            inside[node] = node.operation is Operation.NULL or (literal and 0.0 <= float(node.value or 0.0) <= 1.0)
    return inside[expression.root]


@dataclass(frozen=True, slots=True)
class ConditionalMean(DerivedQuery):
    """The mean of a condition among the rows that meet another one; two questions, made by ``mean(..., given=...)``.

    Attributes:
        text: The condition whose share is asked for.
        given: The condition that selects rows.
    """

    text: str
    given: str

    def bind(self, schema: Schema) -> BoundDerived:
        """The share of rows that meet both conditions over the share that meets the selecting one."""
        for text in (self.text, self.given):
            if parsed(text, schema).kind is not ColumnKind.BOOLEAN:
                raise QueryRejected(
                    "a conditional mean takes two conditions and one of these is a number; expected something like "
                    "mean('arr_delay > 60', given=\"carrier = 'UA'\"); nothing was charged"
                )
        return BoundDerived(
            name="a conditional mean",
            description={"kind": "conditional mean"},
            parts=(MeanQuery(f"({self.text}) and ({self.given})"), MeanQuery(self.given)),
            combine=lambda parts: ratio(parts[0], parts[1]),
            schema=schema,
        )


@overload
def mean(text: str, *, low: float | None = None, high: float | None = None, given: None = None) -> MeanQuery: ...
@overload
def mean(text: str, *, low: None = None, high: None = None, given: str) -> ConditionalMean: ...
def mean(
    text: str, *, low: float | None = None, high: float | None = None, given: str | None = None
) -> MeanQuery | ConditionalMean:
    """The mean of an expression over the population.

    Args:
        text: A condition such as ``"arr_delay > 15 and carrier = 'UA'"``, whose mean is a share, or a number such as
            ``"arr_delay"``, which needs a range. Null, nan and the result of a division by zero count as ``low``, for a
            condition as false.
        low: Numbers below count as this.
        high: Numbers above count as this.
        given: Take the mean only over rows that meet this condition; asks two questions.

    Examples:
        >>> mean("arr_delay", low=-60, high=180)
        MeanQuery(text='arr_delay', low=-60, high=180)
    """
    if given is None:
        return MeanQuery(text, low, high)
    if low is not None or high is not None:
        raise QueryRejected("given takes a condition, not a number with a range; nothing was charged")
    return ConditionalMean(text, given)
