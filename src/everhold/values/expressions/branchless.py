"""Row values in a form whose work does not depend on the values, so that its time tells nothing about them.

The engine skips work where it can: a branch of a ``case`` or ``coalesce`` for rows that do not take it, every operation
for null, the rest of a comparison of equal beginnings. So nothing is ever null here, and nothing branches:

- A number is a double, nan where it is missing. IEEE arithmetic carries nan along, and takes as long for it.
- A condition is two booleans, whether it is true and whether it is false; where it is missing, neither.
- A text is empty where it is missing, and comes with a boolean that says where it is there.
- A choice makes a list of what may be chosen and takes the element at a computed place: all are computed for all rows.

What remains is comparing texts, which takes as long as they begin alike, and reading the columns themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from everhold.values.expressions.tree import ColumnKind, Node, Operation, RowValue, steps

__all__ = ["Term", "grid_terms", "quoted", "terms_in_order"]

_TYPES = {ColumnKind.NUMBER: "DOUBLE", ColumnKind.STRING: "VARCHAR", ColumnKind.BOOLEAN: "BOOLEAN"}
_SIGNS = {Operation.ADD: "+", Operation.SUBTRACT: "-", Operation.MULTIPLY: "*"}
_NAN = "'nan'::DOUBLE"
_BRANCHES = 8  # of a choice that is made at once; its place is a nested product


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """A piece of SQL in which other terms occur; equal to itself only.

    Attributes:
        parts: Text and terms in order.
        stored: Whether it is a column of a sub-select however often it is used.
    """

    parts: tuple[str | Term, ...]
    stored: bool = False

    @property
    def inputs(self) -> list[Term]:
        """The terms in it, as often as they occur."""
        return [part for part in self.parts if isinstance(part, Term)]


@dataclass(frozen=True, slots=True)
class _Number:
    """nan where missing."""

    value: Term
    present: Term
    divisor: Term


@dataclass(frozen=True, slots=True)
class _Truth:
    """Neither where missing."""

    true: Term
    false: Term


@dataclass(frozen=True, slots=True)
class _Text:
    """Empty where missing."""

    value: Term
    present: Term


_Faces = _Number | _Truth | _Text


def terms_in_order(roots: Iterable[Term]) -> list[Term]:
    """All terms below the roots, each after those in it."""
    done: dict[Term, None] = {}
    stack = [(root, False) for root in reversed(list(roots))]
    while stack:
        term, ready = stack.pop()
        if ready:
            done.setdefault(term)
        elif term not in done:
            stack.append((term, True))
            stack.extend((part, False) for part in reversed(term.inputs))
    return list(done)


def grid_terms(values: Sequence[RowValue], *, unit: int) -> list[Term]:
    """One BIGINT in ``[0, unit]`` for each row value."""
    roots = [_narrowed(value.expression.root) for value in values]
    faces: dict[Node, _Faces] = {}
    for node in steps(roots):
        faces[node] = _faces(node, [faces[operand] for operand in node.operands])
    return [_grid(value, faces[root], unit) for value, root in zip(values, roots, strict=True)]


def quoted(name: str) -> str:
    """A name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _term(*parts: str | Term) -> Term:
    return Term(parts)


def _number(value: Term, *, never_missing: bool = False, never_zero: bool = False) -> _Number:
    """A number by its value; a divisor is nan where it would be zero, because the engine branches there."""
    zero = _term("(", value, " = ", _double(0.0), ")::DOUBLE * ", " * ".join(map(_double, (1e308, 1e308, 0.0))))
    return _Number(
        value,
        _term("true") if never_missing else _term("(NOT isnan(", value, "))"),
        value if never_zero else _term("(", value, " + ", zero, ")"),
    )


def _chosen(place: Term, options: Sequence[Term]) -> Term:
    """The option at a place, counted from 1."""
    return _term("[", *_separated(", ", options), "][", place, "]")


def _second_if(condition: Term, first: Term, second: Term) -> Term:
    return _chosen(_term("1 + ", condition, "::BIGINT"), [first, second])


def _separated(separator: str, terms: Sequence[str | Term]) -> list[str | Term]:
    return [part for term in terms for part in (separator, term)][1:]


def _all(terms: Sequence[Term]) -> Term:
    return _term("(", *_separated(" AND ", terms), ")")


def _any(terms: Sequence[Term]) -> Term:
    return _term("(", *_separated(" OR ", terms), ")")


def _faces(node: Node, inputs: Sequence[_Faces]) -> _Faces:
    """One node from its operands."""
    match node.operation:
        case Operation.COLUMN:
            return _column(f"t.{quoted(str(node.value))}", node.kind)
        case Operation.NUMBER | Operation.STRING | Operation.BOOLEAN | Operation.NULL:
            return _literal(node)
        case Operation.IS_NULL:
            return _is_missing(inputs[0])
        case Operation.CASE:
            return _case(node.kind, inputs)
        case Operation.MEMBER:
            return _member(node, inputs)
        case Operation.EQUAL | Operation.LESS:
            return _comparison(node.operation, inputs[0], inputs[1])
        case Operation.NOT | Operation.AND | Operation.OR:
            return _connective(node.operation, [one for one in inputs if isinstance(one, _Truth)])
        case _:
            return _arithmetic(node.operation, [one for one in inputs if isinstance(one, _Number)])


def _column(name: str, kind: ColumnKind) -> _Faces:
    """A column of the table; the only place where null is met."""
    value, missing = f"{name}::{_TYPES[kind]}", f"1 + ({name} IS NULL)::BIGINT"
    match kind:
        case ColumnKind.NUMBER:
            return _number(Term((f"[{value}, {_NAN}][{missing}]",), stored=True))
        case ColumnKind.BOOLEAN:
            true, false = (f"[{text}, false][{missing}]" for text in (value, f"NOT {value}"))
            return _Truth(Term((true,), stored=True), Term((false,), stored=True))
        case _:
            present = Term((f"({name} IS NOT NULL)",), stored=True)
            return _Text(Term((f"[{value}, ''][{missing}]",), stored=True), present)


def _literal(node: Node) -> _Faces:
    null = node.operation is Operation.NULL
    match node.kind:
        case ColumnKind.NUMBER:
            number = float("nan") if null else float(str(node.value))
            return _number(_term(_double(number)), never_missing=not null, never_zero=not null and number != 0.0)
        case ColumnKind.BOOLEAN:
            return _Truth(*(_term("true" if is_it else "false") for is_it in (node.value is True, node.value is False)))
        case _:
            text = "" if null else str(node.value).replace("'", "''")
            return _Text(_term(f"'{text}'::VARCHAR"), _term("false" if null else "true"))


def _double(value: float) -> str:
    """A number exactly; `repr` is the shortest text that reads back as the same double."""
    return f"'{value!r}'::DOUBLE"


def _is_missing(one: _Faces) -> _Truth:
    present = _any([one.true, one.false]) if isinstance(one, _Truth) else one.present
    return _Truth(_term("(NOT ", present, ")"), present)


def _arithmetic(operation: Operation, inputs: Sequence[_Number]) -> _Number:
    """IEEE operations; nan stays nan."""
    first, last = inputs[0].value, inputs[-1]
    match operation:
        case Operation.NEGATE:
            return _number(_term("(-", first, ")"))
        case Operation.ABSOLUTE:
            return _number(_term("abs(", first, ")"))
        case Operation.DIVIDE:
            return _number(_term("(", first, " / ", last.divisor, ")"))
        case Operation.GREATEST:  # nan is the largest number to the engine, so it is chosen
            return _number(_second_if(_term("(", first, " < ", last.value, ")"), first, last.value))
        case Operation.LEAST:
            turned = [_term("(-", one.value, ")") for one in inputs]
            return _number(_term("(-", _second_if(_term("(", turned[0], " < ", turned[1], ")"), *turned), ")"))
        case _:
            return _number(_term("(", first, f" {_SIGNS[operation]} ", last.value, ")"))


def _comparison(operation: Operation, left: _Faces, right: _Faces) -> _Truth:
    """True or false where both sides are there."""
    if isinstance(left, _Truth) and isinstance(right, _Truth):
        return _Truth(
            _any([_all([left.true, right.true]), _all([left.false, right.false])]),
            _any([_all([left.true, right.false]), _all([left.false, right.true])]),
        )
    assert not isinstance(left, _Truth)
    assert not isinstance(right, _Truth)
    holds, fails = (" = ", " <> ") if operation is Operation.EQUAL else (" < ", " >= ")
    there = _there([left, right])
    return _Truth(*(_all([_term("(", left.value, sign, right.value, ")"), *there]) for sign in (holds, fails)))


def _there(inputs: Sequence[_Number | _Text]) -> list[Term]:
    """That they are not missing; nothing about literals."""
    return [one.present for one in inputs if one.present.parts != ("true",)]


def _member(node: Node, inputs: Sequence[_Faces]) -> _Truth:
    """Whether it is one of the literals."""
    subject = inputs[0]
    assert not isinstance(subject, _Truth)
    literals = _separated(", ", [one.value for one in inputs[1:] if not isinstance(one, _Truth)])
    words = ("IN", "NOT IN")
    return _Truth(
        *(_all([_term("(", subject.value, f" {word} (", *literals, "))"), *_there([subject])]) for word in words)
    )


def _connective(operation: Operation, inputs: Sequence[_Truth]) -> _Truth:
    """Kleene's rules."""
    trues, falses = [one.true for one in inputs], [one.false for one in inputs]
    match operation:
        case Operation.NOT:
            return _Truth(falses[0], trues[0])
        case Operation.AND:
            return _Truth(_all(trues), _any(falses))
        case _:
            return _Truth(_any(trues), _all(falses))


def _case(kind: ColumnKind, inputs: Sequence[_Faces]) -> _Faces:
    """The result at the place of the first true condition: ``1 + n1 (1 + n2 (1 + ...))``, n for "not true"."""
    conditions = [one.true for one in inputs[:-1:2] if isinstance(one, _Truth)]
    results = [*inputs[1::2], inputs[-1]]
    place: Term = _term("1")
    for condition in reversed(conditions):
        place = _term("(1 + (NOT ", condition, ")::BIGINT * ", place, ")")

    match kind:
        case ColumnKind.NUMBER:
            return _number(_chosen(place, [one.value for one in results if isinstance(one, _Number)]))
        case ColumnKind.BOOLEAN:
            truths = [one for one in results if isinstance(one, _Truth)]
            return _Truth(_chosen(place, [one.true for one in truths]), _chosen(place, [one.false for one in truths]))
        case _:
            texts = [one for one in results if isinstance(one, _Text)]
            return _Text(_chosen(place, [one.value for one in texts]), _chosen(place, [one.present for one in texts]))


def _grid(value: RowValue, root: _Faces, unit: int) -> Term:
    """The integer of one row: what is missing, or not above the lower end, counts as the lower end."""
    if isinstance(root, _Truth):
        return _term("(", root.true, f"::BIGINT * {int(unit)})")
    assert isinstance(root, _Number)
    low, high, width = (_term(_double(end)) for end in (value.low, value.high, value.width))
    inside = _all([_term("(", root.value, " > ", low, ")"), *_there([root])])
    above = _second_if(inside, low, root.value)
    clipped = _second_if(_term("(", above, " < ", high, ")"), high, above)
    return _term("floor((", clipped, " - ", low, ") / ", width, f" * {_double(float(unit))})::BIGINT")


def _narrowed(root: Node) -> Node:
    """The same with extremes of two, in a balanced tree, and with short chains, each the else of the one before."""
    rebuilt: dict[Node, Node] = {}
    for node in steps([root]):
        operands = [rebuilt[operand] for operand in node.operands]
        if node.operation is Operation.CASE:
            while len(operands) > 2 * _BRANCHES + 1:
                tail = operands[-2 * _BRANCHES - 1 :]
                operands[-2 * _BRANCHES - 1 :] = [Node(Operation.CASE, node.kind, tuple(tail))]
        if node.operation in (Operation.LEAST, Operation.GREATEST):
            while len(operands) > 2:
                pairs = [operands[place : place + 2] for place in range(0, len(operands), 2)]
                operands = [Node(node.operation, node.kind, tuple(pair)) if pair[1:] else pair[0] for pair in pairs]
        rebuilt[node] = Node(node.operation, node.kind, tuple(operands), node.value)
    return rebuilt[root]
