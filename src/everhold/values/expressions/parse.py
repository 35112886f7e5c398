"""From text to tree: an allow-list of syntax, with types checked on the way."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel

from everhold.values.expressions import normal
from everhold.values.expressions.tokens import rejected, shown, tokenize
from everhold.values.expressions.tree import ColumnKind, Expression, Node, Operation, steps

__all__ = ["MAX_DEPTH", "MAX_NODES", "parse"]

MAX_NODES = 1_000
MAX_DEPTH = 200

Columns: TypeAlias = Mapping[str, ColumnKind]
Builder: TypeAlias = Callable[[exp.Expr, Sequence[Node], Columns], Node]


def parse(text: str, columns: Columns) -> Expression:
    """Read a text expression over named columns; see the package for the language and its meaning.

    Args:
        text: The expression, for example ``arr_delay > 15 and carrier = 'UA'``.
        columns: Public names of the columns and what they hold.

    Returns:
        The checked expression; equal for all spellings of one question that `normal` knows to be equal.

    Raises:
        QueryRejected: If the text is not an expression of the language over these columns, or exceeds a limit.

    Examples:
        >>> columns = {"arr_delay": ColumnKind.NUMBER, "carrier": ColumnKind.STRING}
        >>> parse("ARR_DELAY > 15 and carrier = 'UA'", columns).columns()
        ('arr_delay', 'carrier')
        >>> parse("carrier > 3", columns)
        Traceback (most recent call last):
        everhold.errors.QueryRejected: '>' compares a string with a number; compare two values of one kind; nothing
        was charged
    """
    root = _build(_syntax(text, columns), columns)
    if root.kind is ColumnKind.STRING:
        raise rejected("the expression is a string", "ask for a number or a condition, such as carrier = 'UA'")
    expression = Expression(root)
    if root.depth > MAX_DEPTH or len(steps([root])) > MAX_NODES:
        raise rejected(
            f"the expression has more than {MAX_NODES} parts or is more than {MAX_DEPTH} deep", "ask a shorter question"
        )
    return expression


def _syntax(text: str, columns: Columns) -> exp.Expr:
    """The syntax tree of the one expression in the text."""
    tokens = tokenize(text, columns)
    try:
        statements = DuckDB().parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, text)
    except Exception:  # RecursionError included; the parser quotes its input, and its own faults are not the analyst's
        statements = []
    if len(statements) != 1 or statements[0] is None:
        raise rejected(f"{shown(text)} is not an expression", "write for example arr_delay > 15 and carrier = 'UA'")
    return statements[0]


def _build(syntax: exp.Expr, columns: Columns) -> Node:
    """The tree, operands first and without recursion, because a sum of many terms is deep."""
    order, stack = [], [syntax]
    while stack:
        item = stack.pop()
        order.append(item)
        stack.extend(_parts(item))
    built: dict[int, Node] = {}
    for item in reversed(order):
        operands = [built[id(part)] for part in _parts(item)]
        built[id(item)] = _BUILDERS[type(item)](item, operands, columns)
    return built[id(syntax)]


def _parts(item: exp.Expr) -> list[exp.Expr]:
    """Syntax below an item that has a value; refuses every item and every option that is not on the list."""
    if type(item) not in _BUILDERS:
        raise rejected(
            f"the expression uses {shown(type(item).__name__.lower())}, which is not allowed",
            "see the documentation of expressions for what can be written",
        )
    options = {name for name, value in item.args.items() if value not in (None, False, [])}
    if options - _OPTIONS.get(type(item), _BINARY):
        raise rejected(f"the expression uses an option of {shown(type(item).__name__.lower())}", "leave it out")
    if isinstance(item, exp.Column | exp.Literal | exp.Boolean | exp.Null):
        return []
    if isinstance(item, exp.Case):
        return _case_parts(item)
    if isinstance(item, exp.Is):
        if not isinstance(item.expression, exp.Null):
            raise rejected("'is' stands without 'null'", "write x is null, x is not null or x = y")
        return [item.this]
    if isinstance(item, exp.And | exp.Or):
        return _chain(item)
    if isinstance(item, exp.Between):
        return [item.this, item.args["low"], item.args["high"]]
    return [part for part in (item.this, item.args.get("expression"), *item.expressions) if part is not None]


def _case_parts(item: exp.Case) -> list[exp.Expr]:
    parts = [part for branch in item.args["ifs"] for part in (branch.this, branch.args["true"])]
    return [part for part in (item.this, *parts, item.args.get("default")) if part is not None]


def _chain(item: exp.Expr) -> list[exp.Expr]:
    """Operands of ``a and b and c``, which the parser nests to the left."""
    parts, left = [], item
    while type(left) is type(item):
        parts.append(left.args["expression"])
        left = left.this
    return [left, *reversed(parts)]


def _expect(kind: ColumnKind, operands: Sequence[Node], name: str) -> None:
    for operand in operands:
        if operand.kind is not kind:
            raise rejected(
                f"{name!r} stands next to a {_called(operand)}", f"it takes only values that are a {kind.value}"
            )


def _same(operands: Sequence[Node], name: str) -> ColumnKind:
    kinds = {operand.kind: operand for operand in operands if operand.operation is not Operation.NULL}
    if len(kinds) > 1:
        first, second = sorted(kind.value for kind in kinds)[::-1][:2]
        raise rejected(f"{name!r} compares a {first} with a {second}", "compare two values of one kind")
    return next(iter(kinds))


def _called(node: Node) -> str:
    return "null" if node.operation is Operation.NULL else node.kind.value


def _column(item: exp.Expr, _operands: Sequence[Node], columns: Columns) -> Node:
    name = item.name
    if not item.this.args.get("quoted"):  # a keyword of ours that the parser takes for a name; columns come quoted
        raise rejected(f"{shown(name)} stands where a value is needed", "put a column of that name in double quotes")
    kind = columns[name]
    if kind is ColumnKind.OTHER:
        raise rejected(
            f"column {shown(name)} is neither numbers, strings nor booleans",
            "seal a numeric copy of it to ask about it",
        )
    return normal.column(name, kind)


def _literal(item: exp.Expr, _operands: Sequence[Node], _columns: Columns) -> Node:
    if item.is_string:
        return normal.string(item.this)
    value = float(item.this)
    if math.isinf(value):
        raise rejected(f"the number {shown(item.this)} is too large", "stay below 1.8e308")
    return normal.number(value)


def _boolean(item: exp.Expr, _operands: Sequence[Node], _columns: Columns) -> Node:
    return normal.boolean(bool(item.this))


def _null(item: exp.Expr, _operands: Sequence[Node], _columns: Columns) -> Node:
    if not isinstance(item.parent, exp.If | exp.Case) or item.arg_key not in ("true", "default"):
        raise rejected("'null' stands where a value is needed", "write x is null, or null as a result of a case")
    return normal.null(ColumnKind.OTHER)


def _paren(_item: exp.Expr, operands: Sequence[Node], _columns: Columns) -> Node:
    return operands[0]


def _negative(_item: exp.Expr, operands: Sequence[Node], _columns: Columns) -> Node:
    _expect(ColumnKind.NUMBER, operands, "-")
    return normal.negate(operands[0])


def _absolute(_item: exp.Expr, operands: Sequence[Node], _columns: Columns) -> Node:
    _expect(ColumnKind.NUMBER, operands, "abs")
    return normal.unary(Operation.ABSOLUTE, operands[0])


def _arithmetic(operation: Operation, sign: str) -> Builder:
    def build(_item: exp.Expr, operands: Sequence[Node], _columns: Columns) -> Node:
        _expect(ColumnKind.NUMBER, operands, sign)
        return normal.combine(operation, operands[0], operands[1])

    return build


def _extreme(operation: Operation) -> Builder:
    def build(_item: exp.Expr, operands: Sequence[Node], _columns: Columns) -> Node:
        _expect(ColumnKind.NUMBER, operands, operation.value)
        return normal.extreme(operation, operands)

    return build


def _comparison(sign: str, build_from: Callable[[Node, Node], Node], *, ordered: bool = True) -> Builder:
    def build(_item: exp.Expr, operands: Sequence[Node], _columns: Columns) -> Node:
        if _same(operands, sign) is ColumnKind.BOOLEAN and ordered:
            raise rejected(f"{sign!r} compares booleans", "booleans can be compared with = and <> only")
        return build_from(operands[0], operands[1])

    return build


def _at_most(left: Node, right: Node) -> Node:
    return normal.negation(normal.less(right, left))


def _between(_item: exp.Expr, operands: Sequence[Node], _columns: Columns) -> Node:
    if _same(operands, "between") is ColumnKind.BOOLEAN:
        raise rejected("'between' compares booleans", "booleans can be compared with = and <> only")
    value, low, high = operands
    return normal.connect(Operation.AND, [_at_most(low, value), _at_most(value, high)])


def _member(_item: exp.Expr, operands: Sequence[Node], _columns: Columns) -> Node:
    listed = operands[1:]
    if _same(operands, "in") is ColumnKind.BOOLEAN or not listed or not all(node.is_literal for node in listed):
        raise rejected("'in' needs a list of numbers or of strings", "write for example carrier in ('UA', 'AA')")
    return normal.member(operands[0], listed)


def _is_null(_item: exp.Expr, operands: Sequence[Node], _columns: Columns) -> Node:
    return normal.is_null(operands[0])


def _not(_item: exp.Expr, operands: Sequence[Node], _columns: Columns) -> Node:
    _expect(ColumnKind.BOOLEAN, operands, "not")
    return normal.negation(operands[0])


def _connective(operation: Operation) -> Builder:
    def build(_item: exp.Expr, operands: Sequence[Node], _columns: Columns) -> Node:
        _expect(ColumnKind.BOOLEAN, operands, operation.value)
        return normal.connect(operation, operands)

    return build


def _case(item: exp.Expr, operands: Sequence[Node], _columns: Columns) -> Node:
    parts = list(operands)
    subject = parts.pop(0) if item.args.get("this") is not None else None
    otherwise = parts.pop() if item.args.get("default") is not None else normal.null(ColumnKind.OTHER)
    conditions, results = parts[::2], parts[1::2]
    if all(result.operation is Operation.NULL for result in (*results, otherwise)):
        raise rejected("every result of the case is null", "give at least one value")
    kind = _same((*results, otherwise), "case")
    if subject is not None:
        _same((subject, *conditions), "case")
        conditions = [normal.equal(subject, value) for value in conditions]
    _expect(ColumnKind.BOOLEAN, conditions, "when")
    results = [normal.null(kind) if result.operation is Operation.NULL else result for result in results]
    otherwise = normal.null(kind) if otherwise.operation is Operation.NULL else otherwise
    return normal.case(zip(conditions, results, strict=True), otherwise)


_BINARY = {"this", "expression"}
_OPTIONS: dict[type[exp.Expr], set[str]] = {
    exp.Div: _BINARY | {"typed", "safe"},
    exp.Between: {"this", "low", "high"},
    exp.In: {"this", "expressions"},
    exp.Case: {"this", "ifs", "default"},
    exp.Least: {"this", "expressions", "ignore_nulls"},
    exp.Greatest: {"this", "expressions", "ignore_nulls"},
    exp.Literal: {"this", "is_string"},
    exp.Column: {"this"},
}
_BUILDERS: dict[type[exp.Expr], Builder] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.Paren: _paren,
    exp.Neg: _negative,
    exp.Abs: _absolute,
    exp.Add: _arithmetic(Operation.ADD, "+"),
    exp.Sub: _arithmetic(Operation.SUBTRACT, "-"),
    exp.Mul: _arithmetic(Operation.MULTIPLY, "*"),
    exp.Div: _arithmetic(Operation.DIVIDE, "/"),
    exp.Least: _extreme(Operation.LEAST),
    exp.Greatest: _extreme(Operation.GREATEST),
    exp.EQ: _comparison("=", normal.equal, ordered=False),
    exp.NEQ: _comparison("<>", lambda left, right: normal.negation(normal.equal(left, right)), ordered=False),
    exp.LT: _comparison("<", normal.less),
    exp.GT: _comparison(">", lambda left, right: normal.less(right, left)),
    exp.LTE: _comparison("<=", _at_most),
    exp.GTE: _comparison(">=", lambda left, right: _at_most(right, left)),
    exp.Between: _between,
    exp.In: _member,
    exp.Is: _is_null,
    exp.Not: _not,
    exp.And: _connective(Operation.AND),
    exp.Or: _connective(Operation.OR),
    exp.Case: _case,
}
