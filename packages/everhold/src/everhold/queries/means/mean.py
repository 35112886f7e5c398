"""The mean of a text expression or of a function of single rows, and how texts are read and shown."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from everhold.arguments import brief, is_text
from everhold.errors import QueryRejected
from everhold.queries.query import MOST_SHOWN, QuerySpec, RowwiseQuery
from everhold.values.base import BoundQuery, RowFunction, Schema
from everhold.values.expressions import ColumnKind, Expression, RowValue, parse
from everhold.values.expressions.parse import MAX_DEPTH, MAX_NODES, rejected
from everhold.values.expressions.tree import Node, Operation
from everhold.values.missing import columns_needed, have_values, tested, with_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.sealing.rows.table import StoredRows

_LONGEST_NAME = 1_000
_WORDS = re.compile(r"""(?:'[^']*'|"[^"]*"|\S)+""")  # with the spaces inside quotes


def parsed(text: str, schema: Schema) -> Expression:
    """Return a text as an expression over the columns of a holdout, under its rules for missing values.

    Raises:
        QueryRejected: If the text is not an expression over these columns, or reads the row ids. Nothing is charged.
    """
    expression = parse(text, schema.columns)
    if schema.row_id is not None and schema.row_id in expression.columns():
        raise QueryRejected(
            f"The query reads {schema.row_id!r}, the column of row ids. Ask about other columns, because an id says "
            "nothing about other rows."
        )
    if not schema.missing:
        return expression
    if bounded := columns_needed(expression, schema.missing, "bounds"):
        names = " and ".join(map(repr, sorted(bounded)))
        raise QueryRejected(
            f"{brief(text)} reads {names}, and missing values there are bounded in shares, means and contrasts that "
            "are asked alone, not in this query. Ask for one of these, or write which rows are meant, as in "
            f"{have_values(bounded)!r}."
        )
    return with_values(expression, schema.missing)


def not_too_long(root: Node, what: str) -> Expression:
    """Return a node that was joined from several expressions as an expression, after checking its size.

    Args:
        root: The node that was joined from several expressions.
        what: The name of the expressions in messages, such as "the two conditions".

    Raises:
        QueryRejected: If the node has too many parts or is too deep. Nothing is charged.
    """
    expression = Expression(root)
    if root.depth > MAX_DEPTH or len(expression.nodes) > MAX_NODES:
        raise rejected(
            f"{what} together have more than {MAX_NODES} parts or are more than {MAX_DEPTH} deep",
            "ask for shorter ones",
        )
    return expression


def in_one_line(text: str) -> str:
    """Return an expression with single spaces, except inside quotes."""
    return " ".join(_WORDS.findall(text))


@dataclass(frozen=True, slots=True)
class MeanQuery(RowwiseQuery):
    """A query for the mean of a condition or of a clipped number, made by `mean`.

    Attributes:
        text: An expression of the language in `everhold.values.expressions`.
        low: Value at which a number is clipped from below; missing numbers count as this.
        high: Value at which a number is clipped from above.
    """

    text: str
    low: float | None = None
    high: float | None = None

    def spec(self) -> QuerySpec:
        """Return the kind and arguments from which the query can be built again."""
        return QuerySpec("mean", self.text, {"low": self.low, "high": self.high})

    def bind(self, schema: Schema) -> BoundQuery:
        """Return the bound query for the mean of the text's expression over these columns."""
        expression = parsed(self.text, schema)
        low, high = 0.0 if self.low is None else self.low, 1.0 if self.high is None else self.high
        if (self.low is None) != (self.high is None):
            raise QueryRejected(
                f"low is {brief(self.low)} and high is {brief(self.high)}. Pass both ends of the range."
            )
        if self.low is None and expression.kind is ColumnKind.NUMBER and not only_zero_to_one(expression):
            raise QueryRejected(
                f"{brief(self.text)} is a number without a known range. Pass low and high, such as low=-60, high=180, "
                f"at which values are clipped, or ask about a condition, such as {brief(f'{self.text} > 0')}."
            )
        return bound_mean(RowValue(expression, low, high), shown=f"mean of {in_one_line(self.text)}")

    def needed(self, schema: Schema) -> frozenset[str]:
        """Return the columns in which a row must have a value to count, by the steward's rules."""
        return columns_needed(parsed(self.text, schema), schema.missing) if schema.missing else frozenset()

    def tested(self, schema: Schema) -> frozenset[str]:
        """Return the columns that the text itself tests for missing values."""
        return tested(parsed(self.text, schema))


def is_condition(asked: MeanQuery, schema: Schema) -> bool:
    """Return whether the text of a mean is a condition and not a number."""
    return parsed(asked.text, schema).kind is ColumnKind.BOOLEAN


def in_words(asked: MeanQuery) -> str:
    """Return the text of a query in one line for people. The text need not be a valid expression."""
    return in_one_line(asked.text) if isinstance(asked.text, str) else brief(asked.text)


def bound_mean(row_value: RowValue, *, shown: str) -> BoundQuery:
    """Return the bound query for the mean of an expression. Its identity is the expression in canonical form."""
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
        yes_no=row_value.expression.kind is ColumnKind.BOOLEAN,
    )


def only_zero_to_one(expression: Expression) -> bool:
    """Return whether all results that an expression can have are numbers written in it, all from 0 to 1."""
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
class StatisticalQuery(RowwiseQuery):
    """A query for the mean over rows of a function, made by `mean`."""

    function: RowFunction
    name: str | None = None
    _token: str = field(default_factory=lambda: secrets.token_hex(16), init=False, repr=False)

    @property
    def shown(self) -> str:
        """The function as text for people."""
        return f"the function {self.name or 'without a name'}"

    def bind(self, schema: Schema) -> BoundQuery:
        """Return the bound query, which applies the function to sealed rows and to training rows."""
        if self.name is not None and not is_text(self.name, longest=_LONGEST_NAME):
            raise QueryRejected(
                f"name is {brief(self.name)}. Pass a text of at most {_LONGEST_NAME:,} characters, or None."
            )
        identity = {"token": self._token} if self.name is None else {"name": self.name}
        from everhold.queries.code import content_digest

        content = content_digest(self.function) or self._token
        return BoundQuery(
            description={"kind": "function", **identity, "content": content},
            shown=f"mean of {self.shown}",
            sealed=self.function,
            training=self.function,
            reads=tuple(schema.asked),
        )


def name_of(query: object) -> str:
    """Return a short name of a query for messages, made from its text, or from its kind and first argument.

    Examples:
        >>> name_of(MeanQuery("delay > 15"))
        'delay > 15'
    """
    if isinstance(query, MeanQuery):
        return in_words(query)[:MOST_SHOWN]
    try:
        spec = query.spec()  # type: ignore[attr-defined]
    except (AttributeError, TypeError, QueryRejected):
        return type(query).__name__
    if spec.kind == "difference":
        return " minus ".join(map(name_of, spec.of))[:MOST_SHOWN]
    named = spec.details.get("name", spec.kind)
    name = named if isinstance(named, str) else spec.kind
    if isinstance(spec.of, (list, tuple)):
        return name
    return f"{name} of {spec.of[:MOST_SHOWN] if isinstance(spec.of, str) else name_of(spec.of)}"


# A condition that says which rows count: ``where="region = 'N'"``.

_HALF = 0.5


def check_where(where: object) -> None:
    """Raise QueryRejected if a condition is not given as a text."""
    if not isinstance(where, str):
        raise QueryRejected(f"where is {brief(where)}. Pass a condition over the columns, such as \"region = 'N'\".")


def condition(where: str, schema: Schema) -> BoundQuery:
    """Return a condition over the columns of a holdout as a bound query."""
    check_where(where)
    bound = MeanQuery(where, 0.0, 1.0).bind(schema)
    if not bound.yes_no:
        raise QueryRejected(f"where is {where!r}, which is no condition. Pass one such as \"region = 'N'\".")
    return bound


def among(bound: BoundQuery, inside: BoundQuery, where: str | None, schema: Schema) -> BoundQuery:
    """Return the query limited to rows that meet a condition, identified by the condition too."""
    reads = (*(bound.reads or schema.asked), *(inside.reads or schema.asked))
    return replace(
        bound, description={**bound.description, "where": inside.description},
        shown=f"{bound.shown} among rows with {where}", reads=tuple(dict.fromkeys(reads)),
    )  # fmt: skip


def rows_that_meet(rows: StoredRows, condition: BoundQuery) -> NDArray[np.bool_]:
    """Return whether each row meets the condition, shape (rows,). Secret for sealed rows."""
    return np.asarray(rows.row_values(condition, unit=1) == 1)


def share_that_meets(training: StoredRows | None, condition: BoundQuery) -> float:
    """Return the planned share of rows that meet a condition, from training rows; never 0, and 1 if there are none."""
    if training is None:
        return 1.0
    counting = rows_that_meet(training, condition)
    return (int(np.count_nonzero(counting)) + _HALF) / (len(counting) + 1.0)
