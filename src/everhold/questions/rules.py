"""A rule as a model: an expression over the features that says the label, held against it row by row.

It is the one kind of model that can be taken from a stranger whatever the features are: it runs no code, and whoever
wrote it need not have seen a single sealed row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.questions.texts import parsed
from everhold.values.expressions import ColumnKind, Expression, RowValue
from everhold.values.expressions.tree import Node, Operation

if TYPE_CHECKING:
    from everhold.values.base import Schema

__all__ = ["rule_is_right", "squared_distance"]

_LEAST, _MOST = Node.literal(0.0), Node.literal(1.0)


def rule_is_right(text: str, schema: Schema) -> RowValue:
    """Whether a rule says the label: a condition says 1 where it is true and 0 elsewhere, all else says what it gives.

    Args:
        text: Such as ``"dep_delay > 10"`` or ``"case when dep_delay > 10 then 2 else 0 end"``.
        schema: With a label that is no text.

    Raises:
        QueryRejected: If it cannot say this label. Nothing is charged.
    """
    rule, label = _rule(text, schema), _label(schema)
    if label.kind is ColumnKind.STRING:
        raise _rejected("a rule cannot say labels that are texts", "expected predictions or an estimator")
    if rule.kind is not ColumnKind.BOOLEAN:
        return RowValue(Expression(_same(rule, label, text)))
    boolean = label.kind is ColumnKind.BOOLEAN
    one = label if boolean else Node.of(Operation.EQUAL, label, _MOST)
    zero = Node.of(Operation.NOT, label) if boolean else Node.of(Operation.EQUAL, label, _LEAST)
    return RowValue(Expression(Node.of(Operation.CASE, rule, one, zero)))


def squared_distance(text: str, schema: Schema) -> RowValue:
    """The squared distance between the probability that a rule gives and a label of 0 or 1; 1 where it gives none.

    Args:
        text: Such as ``"case when dep_delay > 10 then 0.8 else 0.1 end"``; a condition gives 1 where it is true.
        schema: With such a label.

    Raises:
        QueryRejected: If it is no rule over the features. Nothing is charged.
    """
    rule, label = _rule(text, schema), _label(schema)
    given, truth = (
        Node.of(Operation.CASE, node, _MOST, _LEAST) if node.kind is ColumnKind.BOOLEAN else node
        for node in (rule, label)
    )
    apart = Node.of(Operation.SUBTRACT, given, truth)
    square = Node.of(Operation.MULTIPLY, apart, apart)
    known = Node.of(Operation.NOT, Node.of(Operation.IS_NULL, square))  # null would count as no loss at all
    return RowValue(Expression(Node.of(Operation.CASE, known, square, _MOST)))


def _rule(text: str, schema: Schema) -> Node:
    expression = parsed(text, schema)
    if schema.label in expression.columns():
        raise _rejected(
            f"the rule {brief(text)} reads {schema.label!r}, the label that it has to say",
            "expected a rule over other columns; a question about the label is asked, and not a model",
        )
    return expression.root


def _label(schema: Schema) -> Node:
    assert schema.label is not None
    return Node(Operation.COLUMN, schema.columns[schema.label], value=schema.label)


def _same(rule: Node, label: Node, text: str) -> Node:
    if rule.kind is not label.kind:
        raise _rejected(
            f"the rule {brief(text)} gives a {rule.kind.value} and the labels are {label.kind.value}s",
            "expected a condition",
        )
    return Node.of(Operation.EQUAL, rule, label)


def _rejected(problem: str, advice: str) -> QueryRejected:
    return QueryRejected(f"{problem}; {advice}; nothing was charged")
