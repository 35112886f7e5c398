"""Rules as models: expressions over features that predict the label, compared with it row by row.

It is the one kind of model that can be taken from a stranger whatever the features are: it runs no code, and whoever
wrote it need not have seen a single sealed row.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.queries.means.mean import parsed
from everhold.queries.predictions.arrays import known_classes
from everhold.values.expressions import ColumnKind, Expression, RowValue
from everhold.values.expressions.tree import Node, Operation

if TYPE_CHECKING:
    from everhold.values.base import JoinedColumn, Schema

_LEAST, _MOST = Node.literal(0.0), Node.literal(1.0)


def rule_is_right(text: str, schema: Schema) -> RowValue:
    """Return the row value that is true where a rule predicts the label. A condition predicts 1 or 0.

    Args:
        text: Such as ``"dep_delay > 10"`` or ``"case when dep_delay > 10 then 2 else 0 end"``.
        schema: With a label that is no text.

    Raises:
        QueryRejected: If it cannot say this label. Nothing is charged.
    """
    rule, label = _rule(text, schema), _label(schema)
    if label.kind is ColumnKind.STRING:
        raise QueryRejected(
            "The labels are texts, and a rule gives numbers or conditions. Pass predictions or an estimator."
        )
    if rule.kind is not ColumnKind.BOOLEAN:
        classes = schema.label_classes
        unknown = [] if classes is None else [value for value in _spelled(rule) if value not in classes]
        if unknown:
            said = " ".join(known_classes(schema))
            raise QueryRejected(f"The rule {brief(text)} gives {brief(unknown[0])}, which is no label. {said}")
        if rule.kind is not label.kind:
            raise QueryRejected(
                f"The rule {brief(text)} gives a {rule.kind.value}, and the labels are {label.kind.value}s. Write a "
                "condition."
            )
        return RowValue(Expression(Node.of(Operation.EQUAL, rule, label)))
    boolean = label.kind is ColumnKind.BOOLEAN
    one = label if boolean else Node.of(Operation.EQUAL, label, _MOST)
    zero = Node.of(Operation.NOT, label) if boolean else Node.of(Operation.EQUAL, label, _LEAST)
    return RowValue(Expression(Node.of(Operation.CASE, rule, one, zero)))


def distance_of(given: Node, truth: Node) -> RowValue:
    """Return the row value of the squared distance of a probability from the label, 1 where either is missing."""
    apart = Node.of(Operation.SUBTRACT, given, truth)
    return RowValue(Expression(known_or(Node.of(Operation.MULTIPLY, apart, apart), 1.0)))


def rule_node(text: str, schema: Schema) -> Node:
    """Return the node of the number that a rule gives a row, for a condition 1 or 0.

    Raises:
        QueryRejected: If it is no rule over the features. Nothing is charged.
    """
    return _as_number(_rule(text, schema))


def class_node(text: str, label: Node, schema: Schema) -> Node:
    """Return the node of the class 0 or 1 that a rule predicts, the wrong one where it predicts none.

    Args:
        text: The rule.
        label: The label, 0 or 1.
        schema: What is known of the rows.

    Raises:
        QueryRejected: If it is no rule over the features. Nothing is charged.
    """
    rule = _rule(text, schema)
    if rule.kind is ColumnKind.BOOLEAN:
        return _as_number(rule)
    if label.operation is not Operation.COLUMN and schema.label_kind != "binary":
        raise QueryRejected(f"The rule {brief(text)} gives no yes or no for the positive class. Write a condition.")
    wrong = Node.of(Operation.CASE, Node.of(Operation.EQUAL, label, _MOST), _LEAST, _MOST)
    says_0 = Node.of(Operation.CASE, Node.of(Operation.EQUAL, rule, _LEAST), _LEAST, wrong)
    return Node.of(Operation.CASE, Node.of(Operation.EQUAL, rule, _MOST), _MOST, says_0)


def one_if(node: Node, value: str | float) -> Node:
    """Return the node that is 1 where another node has this value, and 0 elsewhere."""
    return Node.of(Operation.CASE, Node.of(Operation.EQUAL, node, Node.literal(value)), _MOST, _LEAST)


def known_or(loss: Node, worst: float) -> Node:
    """Return the node of a loss that is the worst one where the loss is missing."""
    known = Node.of(Operation.NOT, Node.of(Operation.IS_NULL, loss))
    return Node.of(Operation.CASE, known, loss, Node.literal(worst))


def _as_number(node: Node) -> Node:
    return Node.of(Operation.CASE, node, _MOST, _LEAST) if node.kind is ColumnKind.BOOLEAN else node


def prediction_node(column: JoinedColumn) -> Node:
    """Return the expression of a prediction that is joined in the engine, as a text or a number."""
    kind = ColumnKind.STRING if column.kind is ColumnKind.STRING else ColumnKind.NUMBER
    return Node(Operation.COLUMN, kind, value=column.alias)


def label_node(schema: Schema) -> Node:
    """Return the node of the label, as a text or a number."""
    return _as_number(_label(schema))


def sensible_classes(prediction: Node, schema: Schema) -> tuple[Node, str, str]:
    """Return the condition that a prediction can be a label, and words for other predictions and the expected ones."""
    expected, advice = known_classes(schema)
    said = "are no labels", f"{expected} {advice}"
    if schema.label_classes is not None:
        return Node.of(Operation.MEMBER, prediction, *map(Node.literal, schema.label_classes)), *said
    if prediction.kind is ColumnKind.STRING:
        return Node.of(Operation.EQUAL, prediction, prediction), *said
    whole = Node.of(Operation.EQUAL, prediction, Node.of(Operation.FLOOR, prediction))
    return Node.of(Operation.AND, whole, finite(prediction)), *said


def finite(node: Node) -> Node:
    """Return the condition that a number is neither missing nor infinite."""
    return between(node, -sys.float_info.max, sys.float_info.max)


def between(node: Node, low: float, high: float) -> Node:
    """Return the condition that a number lies in a range and is not missing."""
    below, above = (Node.of(Operation.LESS, *pair) for pair in ((node, Node.literal(low)), (Node.literal(high), node)))
    return Node.of(Operation.AND, Node.of(Operation.NOT, below), Node.of(Operation.NOT, above))


def _rule(text: str, schema: Schema) -> Node:
    expression = parsed(text, schema)
    if schema.label in expression.columns():
        raise QueryRejected(
            f"The rule {brief(text)} reads {schema.label!r}, the label that it has to predict. Write a rule over other "
            "columns, or ask about the label as a query."
        )
    return expression.root


def _label(schema: Schema) -> Node:
    assert schema.label is not None
    return Node(Operation.COLUMN, schema.columns[schema.label], value=schema.label)


def _spelled(node: Node) -> list[Any]:
    """Return the numbers that a rule spells out as its results, none if it computes them."""
    if node.operation is Operation.NUMBER:
        return [node.value]
    if node.operation is not Operation.CASE:
        return []
    return [value for result in (*node.operands[1:-1:2], node.operands[-1]) for value in _spelled(result)]
