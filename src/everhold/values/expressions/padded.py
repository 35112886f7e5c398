"""DuckDB text for row values, whose work does not depend on the values, so that its time tells nothing about them.

The engine skips work where it can: a branch of a ``case`` for rows that do not take it, every operation for null, the
rest of a comparison of equal beginnings; and the processor is fast where it foresees which of two numbers ``greatest``
takes. So nothing is null once a column is read, and nothing branches:

- A number is a double, nan where it is missing. IEEE arithmetic carries nan along, and takes as long for it. So is a
  time, in seconds.
- A condition is two booleans, whether it is true and whether it is false; where it is missing, neither.
- A text is empty where it is missing, and comes with a boolean that says where it is there.
- A choice makes a list of what may be chosen and takes the element at a computed place: all are computed for all rows.
- Rows with a condition are counted by adding up truth values, and not by a filter.

What remains is comparing texts, which takes as long as they begin alike, telling where a number is nan, and reading the
columns themselves, which are put together with a constant where they are null, once for each of them. A pattern
is looked for by taking it out everywhere, because a search would end where it is found, and the engine's own ``like``
takes very long for some patterns.

Pieces that are used twice are columns of a sub-select before they are used, so the text stays linear in the tree. On
connections of `everhold.sealing.engines.embedded` no optimizer undoes that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from everhold.values.expressions.lowering import lowered
from everhold.values.expressions.sheet import Faces, Part, Sheet
from everhold.values.expressions.tree import LETTERS, ColumnKind, Expression, Node, Operation, RowValue

__all__ = ["PaddedSheet"]

_ARITHMETIC = {
    Operation.NEGATE: ("(-", ""),
    Operation.ABSOLUTE: ("abs(", ""),
    Operation.FLOOR: ("floor(", ""),
    Operation.ADD: ("(", " + "),
    Operation.SUBTRACT: ("(", " - "),
    Operation.MULTIPLY: ("(", " * "),
    Operation.DIVIDE: ("(", " / "),
}
"""What stands before and between the operands."""
_TESTS = {
    Operation.EQUAL: (" = ", " <> ", ")"),
    Operation.LESS: (" < ", " >= ", ")"),
    Operation.MEMBER: (" IN (", " NOT IN (", "))"),
}
"""The sign of a test, that of its opposite, and what closes both."""
_MISSING = {
    ColumnKind.NUMBER: "'nan'::DOUBLE", ColumnKind.TIME: "'nan'::DOUBLE", ColumnKind.STRING: "''::VARCHAR",
    ColumnKind.BOOLEAN: "false",
}  # fmt: skip
_OF_DOUBLES = (ColumnKind.NUMBER, ColumnKind.TIME)
_BRANCHES = 8  # of a choice that is made at once; its place is a nested product
_SHORT = 30  # characters of a literal that is written where it is used


def _double(value: float) -> str:
    """A number exactly; `repr` is the shortest text that reads back as the same double."""
    return f"'{value!r}'::DOUBLE"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'::VARCHAR"


def _like(text: Part, pattern: str) -> Iterator[tuple[Part, ...]]:
    """Tests that a text is like a pattern: its length, its beginning, its end, and one part between them."""
    first, *between, last = pattern.split("%") if "%" in pattern else (pattern, "")
    yield "(length(", text, f") {'>=' if '%' in pattern else '='} {len(first) + len(last)})"
    for start, run in _runs(first):
        yield "(substring(", text, f", {start + 1}, {len(run)}) = {_text(run)})"
    for start, run in _runs(last):
        yield "(substring(right(", text, f", {len(last)}), {start + 1}, {len(run)}) = {_text(run)})"
    for part in filter(None, between):
        inside: tuple[Part, ...] = (text,)
        if first or last:  # of a text that is too short something is made, too
            ends = len(first) + len(last)
            inside = "substring(", text, f", {len(first) + 1}, abs(length(", text, f") - {ends}))"
        yield "(length(replace(", *inside, f", {_text(part)}, '')) < length(", *inside, "))"


def _runs(part: str) -> Iterator[tuple[int, str]]:
    """Signs that stand for themselves, with their places; ``_`` stands for any one."""
    return ((found.start(), found[0]) for found in re.finditer("[^_]+", part))


def _needed(node: Node, there: Sequence[Part]) -> tuple[list[Part], list[Part]]:
    """Where a test and its opposite still have to ask whether values are there, of faces that say so.

    Of numbers, nan is above all others and equals itself alone: beside a number it is no equal, and not below one.
    """
    asked = [face for face in there if face != "true"]
    if node.operands[0].kind not in _OF_DOUBLES:
        return asked, asked
    if node.operation is Operation.LESS:
        return [face for face in there[1:] if face != "true"], [face for face in there[:1] if face != "true"]
    if node.operation is Operation.EQUAL:
        return asked[:1] if len(asked) == len(there) else [], asked
    return [] if asked == [*there[:1]] else asked, asked


class PaddedSheet(Sheet):
    """The sheet for an engine whose time anyone may see."""

    __slots__ = ()

    def faces(self, node: Node, inputs: Sequence[Faces]) -> Faces:
        """One node from those of its operands."""
        if not inputs:
            return self._leaf(node)
        if (logic := self._logic(node, inputs)) is not None:
            return logic
        ones, others = map(list, zip(*inputs, strict=True))
        match node.operation:
            case Operation.IS_NULL:
                is_condition = node.operands[0].kind is ColumnKind.BOOLEAN
                present = self._joined(" OR ", inputs[0]) if is_condition else others[0]
                return self._put("(NOT ", present, ")"), present
            case Operation.EQUAL | Operation.LESS | Operation.MEMBER:
                *signs, closing = _TESTS[node.operation]
                tests = [self._joined(", ", ones[1:], before=["(", ones[0], sign], after=[closing]) for sign in signs]
                needed = _needed(node, others)
                true, false = (self._joined(" AND ", [test, *there]) for test, there in zip(tests, needed, strict=True))
                return true, false
            case Operation.LIKE:
                like = self._joined(" AND ", [self._put(*test) for test in _like(ones[0], str(node.value))])
                no_like = self._put("(NOT ", like, ")")
                return self._joined(" AND ", [like, others[0]]), self._joined(" AND ", [no_like, others[0]])
            case Operation.LOWER | Operation.UPPER:
                replaced, by = LETTERS[node.operation]
                return self._put("translate(", ones[0], f", '{replaced}', '{by}')"), others[0]
            case Operation.CASE:
                chosen = self._case(ones[:-1:2], [*inputs[1::2], inputs[-1]])
                if node.kind not in _OF_DOUBLES:
                    return chosen
                value = chosen[0]
            case Operation.LEAST:  # nan counts as the largest number, so it is chosen among the negated too
                value = self._put("(-", self._largest([self._put("(-", one, ")") for one in ones]), ")")
            case Operation.GREATEST:
                value = self._largest(ones)
            case operation:
                if operation is Operation.DIVIDE:
                    ones[1] = self._divisor(node.operands[1], ones[1])
                opening, between = _ARITHMETIC[operation]
                value = self._joined(between, ones, before=[opening])
        return value, self._put("(NOT isnan(", value, "))")

    def grid(self, value: RowValue, root: Faces, unit: int) -> int:
        """The integer of one row: what is missing, or not above the lower end, counts as the lower end."""
        number, present = root
        if value.expression.kind is ColumnKind.BOOLEAN:
            return self._put("(", number, f"::BIGINT * {int(unit)})")
        low, high, width, steps = map(_double, (value.low, value.high, value.width, float(unit)))
        inside = self._put("((", number, f" > {low}) AND (", number, f" < {high}))")  # nan is above all numbers
        chosen = self._put(f"[{low}, ", number, "][1 + ", inside, "::BIGINT]")
        below = self._put("floor((", chosen, f" - {low}) / {width} * {steps})::BIGINT")
        largest = math.floor((value.high - value.low) / value.width * unit)
        return self._put("(", below, " + ((", number, f" >= {high}) AND ", present, f")::BIGINT * {largest})")

    def prepared(self, expression: Expression) -> Expression:
        """The expression whose nodes are written."""
        return lowered(expression)

    def condition(self, value: RowValue, root: Faces) -> Part:
        """Whether a row counts, of an expression that is a condition."""
        return self._put("(", root[0], ")")  # a literal is a piece, too

    def select(self, results: Sequence[Part], source: str, position: str | None, *, names: str = "v") -> str:
        """The results of each row, by sub-selects from the columns of the table up to the pieces that are used once."""
        uses = self._uses([result for result in results if isinstance(result, int)])
        texts: dict[int, str] = {}
        levels: dict[int, int] = {}
        layers: list[list[str]] = [[f"t.{self.dialect.quoted(position)} AS p"] if position else []]
        for parts, piece in self._pieces.items():
            if piece in uses:
                text, level = "", 0
                for part in parts:
                    text += part if isinstance(part, str) else texts[part]
                    level = max(level, 0 if isinstance(part, str) else levels[part])
                if piece in self._columns or (uses[piece] > 1 and (len(parts) > 1 or len(text) > _SHORT)):
                    layers += [[]] if level == len(layers) else []
                    layers[level].append(f"{text} AS s{piece}")
                    text, level = f"s{piece}", level + 1
                texts[piece], levels[piece] = text, level
        rows = f"(SELECT {', '.join(layers[0] or ['1 AS one'])} FROM {source} AS t)"
        for layer in layers[1:]:
            rows = f"(SELECT *, {', '.join(layer)} FROM {rows})"
        last = [
            f"{result if isinstance(result, str) else texts[result]} AS {names}{place}"
            for place, result in enumerate(results)
        ]
        return f"SELECT {', '.join((['p'] if position else []) + last)} FROM {rows}"

    def _leaf(self, node: Node) -> Faces:
        """A literal, or a column of the table: the only place where null is met."""
        match node.operation:
            case Operation.NULL:
                return _MISSING[node.kind], "false"
            case Operation.BOOLEAN:
                return ("true", "false") if node.value else ("false", "true")
            case Operation.NUMBER | Operation.TIME:
                return _double(float(node.value or 0.0)), "true"
            case Operation.STRING:
                return self._put(_text(str(node.value))), "true"
        name = f"t.{self.dialect.quoted(str(node.value))}"
        missing = _MISSING[node.kind]
        match node.kind:
            case ColumnKind.NUMBER:
                columns = [self._put(f"coalesce({name}::DOUBLE, {missing})")]
            case ColumnKind.TIME:  # an infinite time has no epoch
                columns = [self._put(f"coalesce(epoch({name}), {missing})")]
            case ColumnKind.BOOLEAN:
                columns = [self._put(f"({name}::BOOLEAN IS NOT DISTINCT FROM {truth})") for truth in ("true", "false")]
            case _:
                columns = [self._put(f"coalesce({name}::VARCHAR, {missing})"), self._put(f"({name} IS NOT NULL)")]
        self._columns.update(columns)
        return columns[0], columns[1] if columns[1:] else self._put("(NOT isnan(", columns[0], "))")

    def _divisor(self, node: Node, value: Part) -> Part:
        """A number, nan where it is zero, because the engine branches on a division by zero."""
        if node.operation is Operation.NUMBER and node.value:
            return value
        factors = " * ".join(map(_double, (1e308, 1e308, 0.0)))
        return self._put("(", value, " + (", value, f" = {_double(0.0)})::DOUBLE * {factors})")

    def _largest(self, values: list[Part]) -> Part:
        """By pairs, in a balanced tree."""
        while len(values) > 1:
            pairs = zip(values[::2], values[1::2], strict=False)
            larger = [
                self._put("[", one, ", ", other, "][1 + (", one, " < ", other, ")::BIGINT]") for one, other in pairs
            ]
            values = [*larger, *values[2 * len(larger) :]]
        return values[0]

    def _case(self, conditions: list[Part], results: list[Faces]) -> Faces:
        """The result at the place of the first true condition: ``1 + n1 (1 + n2 (1 + ...))``, n for "not true"."""
        chosen = results.pop()
        while conditions:
            place: Part = "1"
            for condition in reversed(conditions[-_BRANCHES:]):
                place = self._put("(1 + (NOT ", condition, ")::BIGINT * ", place, ")")
            faces = zip(*results[-_BRANCHES:], chosen, strict=True)
            one, other = (self._joined(", ", options, before="[", after=["][", place, "]"]) for options in faces)
            chosen = one, other
            del conditions[-_BRANCHES:], results[-_BRANCHES:]
        return chosen
