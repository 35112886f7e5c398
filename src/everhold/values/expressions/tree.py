"""The small immutable tree that a text expression becomes; engines see this and never the analyst's text."""

from __future__ import annotations

import hashlib
import json
import math
import numbers
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from everhold.errors import QueryRejected

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ColumnKind", "Expression", "Node", "Operation", "RowValue", "steps"]


class ColumnKind(Enum):
    """What a column holds, as far as expressions care."""

    NUMBER = "number"
    STRING = "string"
    BOOLEAN = "boolean"
    OTHER = "other"
    """Dates, times, lists, structures, bytes: cannot be used in an expression."""


class Operation(Enum):
    """Everything a node can do; all other spellings are rewritten to these by `normal`."""

    COLUMN = "column"
    NUMBER = "number"
    STRING = "string"
    BOOLEAN = "boolean"
    NULL = "null"
    NEGATE = "negate"
    ABSOLUTE = "abs"
    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    DIVIDE = "divide"
    LEAST = "least"
    GREATEST = "greatest"
    EQUAL = "equal"
    LESS = "less"
    MEMBER = "member"
    IS_NULL = "is null"
    NOT = "not"
    AND = "and"
    OR = "or"
    CASE = "case"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Node:
    """One step of an expression. Equal nodes have equal digests, so comparing and hashing never recurse.

    Attributes:
        operation: What is done.
        kind: Static type of the result: NUMBER, STRING or BOOLEAN.
        operands: Inputs; for CASE condition, result, condition, result, ..., otherwise.
        value: Name of a column, or value of a literal.
        digest: SHA-256 of the structure below.
        depth: Longest way down to a leaf.
    """

    operation: Operation
    kind: ColumnKind
    operands: tuple[Node, ...] = ()
    value: str | float | bool | None = None
    digest: str = field(init=False)
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        inputs = [operand.digest for operand in self.operands]
        text = json.dumps([self.operation.value, self.kind.value, self.value, inputs])
        object.__setattr__(self, "digest", hashlib.sha256(text.encode()).hexdigest())
        object.__setattr__(self, "depth", 1 + max((operand.depth for operand in self.operands), default=0))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Node({self.operation.value}, {self.kind.value}, {self.digest[:8]})"

    @property
    def is_literal(self) -> bool:
        """Whether the value is written in the expression itself."""
        return self.operation in (Operation.NUMBER, Operation.STRING, Operation.BOOLEAN)

    @property
    def is_leaf(self) -> bool:
        """Whether there is nothing below."""
        return not self.operands


def steps(roots: Iterable[Node]) -> list[Node]:
    """All different nodes below the roots, operands before the nodes that use them; in a fixed order."""
    done: dict[Node, None] = {}
    for root in roots:
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if ready:
                done.setdefault(node)
            elif node not in done:
                stack.append((node, True))
                stack.extend((operand, False) for operand in reversed(node.operands))
    return list(done)


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression over named columns; made by `parse`.

    Examples:
        >>> from everhold.values.expressions import parse
        >>> late = parse("arr_delay > 15", {"arr_delay": ColumnKind.NUMBER})
        >>> late.kind, late.columns()
        (<ColumnKind.BOOLEAN: 'boolean'>, ('arr_delay',))
        >>> late == parse("NOT (arr_delay<=15.0)", {"arr_delay": ColumnKind.NUMBER})
        True
    """

    root: Node

    @property
    def kind(self) -> ColumnKind:
        """NUMBER or BOOLEAN."""
        return self.root.kind

    def columns(self) -> tuple[str, ...]:
        """Names of the columns it reads, sorted."""
        return tuple(sorted(str(node.value) for node in steps([self.root]) if node.operation is Operation.COLUMN))

    def canonical(self) -> str:
        """Stable JSON that two spellings of one question share; the identity of the question in the ledger."""
        nodes = steps([self.root])
        place = {node: index for index, node in enumerate(nodes)}
        listed = [
            [node.operation.value, node.value, [place[operand] for operand in node.operands]]
            if node.operands
            else [node.operation.value, node.value, node.kind.value]
            for node in nodes
        ]
        return json.dumps({"expression": 1, "steps": listed}, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class RowValue:
    """An expression with the range that is mapped to [0, 1]: ``(clip(x, low, high) - low) / (high - low)``.

    Args:
        expression: What is computed for each row.
        low: Value that counts as 0; null counts as this too. 0 for a boolean.
        high: Value that counts as 1. 1 for a boolean.

    Raises:
        QueryRejected: If the range is not finite, is empty, or is given for a boolean.
    """

    expression: Expression
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        low, high = _real(self.low), _real(self.high)
        if not (low < high and math.isfinite(high - low)):
            raise QueryRejected(
                "the range [low, high] cannot be used; expected finite numbers with low < high and a finite "
                "difference; nothing was charged"
            )
        if self.expression.kind is ColumnKind.BOOLEAN and (low, high) != (0.0, 1.0):
            raise QueryRejected(
                "a condition is 0 or 1 by itself, but another range was given; leave out low and high; "
                "nothing was charged"
            )
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def width(self) -> float:
        """``high - low``, rounded once, so that every engine divides by the same number."""
        return self.high - self.low

    def canonical(self) -> str:
        """Stable JSON of expression and range."""
        return json.dumps([self.expression.canonical(), self.low, self.high])


def _real(value: object) -> float:
    """A float without a negative zero; nan for what is not a number."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return math.nan
    try:
        return float(value) + 0.0
    except OverflowError:
        return math.nan
