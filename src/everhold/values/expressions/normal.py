"""Constructors that bring equal questions to one form.

Every rewriting here keeps the value of every row, null included: ``a <= b`` and ``not (b < a)`` are null for the same
rows, De Morgan's laws and flattening hold in Kleene's logic, IEEE addition and multiplication commute.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from everhold.values.expressions.tree import ColumnKind, Node, Operation

__all__ = [
    "boolean",
    "case",
    "column",
    "combine",
    "connect",
    "equal",
    "extreme",
    "is_null",
    "less",
    "member",
    "negate",
    "negation",
    "null",
    "number",
    "string",
    "unary",
]

Nodes: TypeAlias = Iterable[Node]

_COMMUTATIVE = frozenset({Operation.ADD, Operation.MULTIPLY})
_DUAL = {Operation.AND: Operation.OR, Operation.OR: Operation.AND}


def column(name: str, kind: ColumnKind) -> Node:
    """A column by its exact name."""
    return Node(Operation.COLUMN, kind, value=name)


def number(value: float) -> Node:
    """A numeric literal; the sign of zero is dropped because no operation can see it."""
    return Node(Operation.NUMBER, ColumnKind.NUMBER, value=float(value) + 0.0)


def string(value: str) -> Node:
    """A string literal."""
    return Node(Operation.STRING, ColumnKind.STRING, value=value)


def boolean(value: bool) -> Node:
    """A boolean literal."""
    return Node(Operation.BOOLEAN, ColumnKind.BOOLEAN, value=value)


def null(kind: ColumnKind) -> Node:
    """A missing value of a known type."""
    return Node(Operation.NULL, kind)


def negate(operand: Node) -> Node:
    """``-x``; a sign becomes part of a literal and two signs cancel."""
    if operand.operation is Operation.NUMBER:
        return number(-_float(operand))
    if operand.operation is Operation.NEGATE:
        return operand.operands[0]
    return unary(Operation.NEGATE, operand)


def unary(operation: Operation, operand: Node) -> Node:
    """A numeric operation of one operand."""
    return Node(operation, ColumnKind.NUMBER, (operand,))


def combine(operation: Operation, left: Node, right: Node) -> Node:
    """``+ - * /``."""
    pair = (left, right)
    return Node(operation, ColumnKind.NUMBER, _sorted(pair) if operation in _COMMUTATIVE else pair)


def extreme(operation: Operation, operands: Nodes) -> Node:
    """``least`` and ``greatest``: flat, without order or repetition."""
    flat = _flat(operation, operands)
    return flat[0] if len(flat) == 1 else Node(operation, ColumnKind.NUMBER, flat)


def equal(left: Node, right: Node) -> Node:
    """``left = right``; comparing with ``true`` or ``false`` is the condition itself or its negation."""
    for one, other in ((left, right), (right, left)):
        if one.operation is Operation.BOOLEAN:
            return other if one.value else negation(other)
    return Node(Operation.EQUAL, ColumnKind.BOOLEAN, _sorted((left, right)))


def less(left: Node, right: Node) -> Node:
    """``left < right``; the other three order relations are its mirror image and negations."""
    return Node(Operation.LESS, ColumnKind.BOOLEAN, (left, right))


def member(operand: Node, literals: Nodes) -> Node:
    """``operand in (...)``, without order or repetition; one literal is an equality."""
    listed = _sorted(set(literals))
    if len(listed) == 1:
        return equal(operand, listed[0])
    return Node(Operation.MEMBER, ColumnKind.BOOLEAN, (operand, *listed))


def is_null(operand: Node) -> Node:
    """``operand is null``, never null itself."""
    return Node(Operation.IS_NULL, ColumnKind.BOOLEAN, (operand,))


def negation(operand: Node) -> Node:
    """``not``, pushed down to comparisons; recursion is bounded by the nesting of the text."""
    if operand.operation is Operation.NOT:
        return operand.operands[0]
    if operand.operation is Operation.BOOLEAN:
        return boolean(not operand.value)
    if operand.operation in _DUAL:
        return connect(_DUAL[operand.operation], [negation(part) for part in operand.operands])
    return Node(Operation.NOT, ColumnKind.BOOLEAN, (operand,))


def connect(operation: Operation, operands: Nodes) -> Node:
    """``and`` and ``or``: flat, without order or repetition, equalities with one operand joined to a list."""
    flat = _joined(operation, _flat(operation, operands))
    return flat[0] if len(flat) == 1 else Node(operation, ColumnKind.BOOLEAN, flat)


def case(branches: Iterable[tuple[Node, Node]], otherwise: Node) -> Node:
    """``case when``: the first condition that is true decides."""
    flat = [part for branch in branches for part in branch]
    return Node(Operation.CASE, otherwise.kind, (*flat, otherwise))


def _joined(operation: Operation, parts: tuple[Node, ...]) -> tuple[Node, ...]:
    """``x = 1 or x = 2`` is ``x in (1, 2)``; under ``and`` the same for negated ones."""
    kept: list[Node] = []
    lists: dict[Node, list[Node]] = {}
    for part in parts:
        positive = part.operands[0] if operation is Operation.AND and part.operation is Operation.NOT else part
        subject = _subject(positive) if operation is Operation.OR or positive is not part else None
        if subject is None:
            kept.append(part)
        else:
            lists.setdefault(subject, []).extend(node for node in positive.operands if node != subject)
    for subject, literals in lists.items():
        joined = member(subject, literals)
        kept.append(joined if operation is Operation.OR else negation(joined))
    return _sorted(set(kept))


def _subject(node: Node) -> Node | None:
    """What an equality or list compares with literals; None for anything else."""
    if node.operation is Operation.MEMBER:
        return None if node.operands[0].is_literal else node.operands[0]
    if node.operation is not Operation.EQUAL or node.operands[0].kind is ColumnKind.BOOLEAN:
        return None
    free = [operand for operand in node.operands if not operand.is_literal]
    return free[0] if len(free) == 1 and len(node.operands) == 2 else None


def _flat(operation: Operation, operands: Nodes) -> tuple[Node, ...]:
    """Operands of the same operation are taken up; duplicates go."""
    found: set[Node] = set()
    for operand in operands:
        found.update(operand.operands if operand.operation is operation else (operand,))
    return _sorted(found)


def _sorted(nodes: Nodes) -> tuple[Node, ...]:
    return tuple(sorted(nodes, key=lambda node: node.digest))


def _float(node: Node) -> float:
    assert isinstance(node.value, float)
    return node.value
