"""Row values as SQL with ``CASE``, for engines whose time is not ours to hide.

A missing number is null or nan, and is looked for only where it matters: the results of operations carry both along,
and a comparison is not true of null by itself. A condition is two: where it is true and where it is false. Where it is
not true it may be false or null, which no use of it can tell apart. So nan costs nothing in ``delay > 60`` but a
comparison with infinity.

Nothing raises because of a row's value. Where an engine raises for doubles that become too large or too small,
operations are watched (`everhold_engines.sql.safe_arithmetic`) unless `everhold_engines.sql.value_ranges` rules that
out.

Pieces that are long and used twice become columns of a sub-select; of short ones the text is repeated.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from everhold.values.expressions.tree import ColumnKind, Expression, Node, Operation, RowValue, lowered
from everhold_engines.sql.fragments import CompiledParts, Part, SqlFragments
from everhold_engines.sql.safe_arithmetic import leaves_doubles, safe_template
from everhold_engines.sql.value_ranges import ValueRange, folded, range_of

_SIGNS = {Operation.ADD: "+", Operation.SUBTRACT: "-", Operation.MULTIPLY: "*", Operation.DIVIDE: "/"}
_TESTS = {Operation.EQUAL: ("=", "<>"), Operation.LESS: ("<", ">="), Operation.MEMBER: ("IN", "NOT IN")}
_READ = {ColumnKind.NUMBER: "number", ColumnKind.TIME: "time", ColumnKind.BOOLEAN: "truth"}
_OF_DOUBLES = (ColumnKind.NUMBER, ColumnKind.TIME)
_SHORT = 320  # characters that are repeated rather than making a column


@dataclass(slots=True)
class SqlCompiler(SqlFragments):
    """The text of some row values for an engine."""

    _ranges: dict[Node, ValueRange] = field(default_factory=dict)
    _leaves: set[int] = field(default_factory=set)

    def prepared(self, expression: Expression) -> Expression:
        """The expression whose nodes are written: without functions, and with literals where all is known."""
        return _rebuilt(lowered(_rebuilt(expression, _of_positive)), folded)

    def compiled(self, node: Node, inputs: Sequence[CompiledParts]) -> CompiledParts:
        """One node from those of its operands."""
        if node.kind in _OF_DOUBLES:
            self._ranges[node] = range_of(node, self._ranges)
        if not inputs:
            return self._leaf(node)
        if (logic := self._logic(node, inputs)) is not None:
            return logic
        ones, others = map(list, zip(*inputs, strict=True))
        words = self.dialect.words
        match node.operation:
            case Operation.IS_NULL:
                is_condition = node.operands[0].kind is ColumnKind.BOOLEAN
                present = self._joined(" OR ", inputs[0]) if is_condition else others[0]
                return self._put("(CASE WHEN ", present, " THEN FALSE ELSE TRUE END)"), present
            case Operation.EQUAL | Operation.LESS | Operation.MEMBER:
                return self._test(node, ones, others, negated=False), self._test(node, ones, others, negated=True)
            case Operation.LIKE:
                like = self._joined(" AND ", [self._filled(*test) for test in self._like(ones[0], str(node.value))])
                return like, self._put("(NOT ", like, ")")
            case Operation.LOWER | Operation.UPPER:
                return self._present(node, self._filled(words[node.operation.value], ones[0]))
            case Operation.CASE if node.kind is ColumnKind.BOOLEAN:
                return self._case(node.operands, ones, ones), self._case(node.operands, ones, others)
            case Operation.CASE:
                return self._present(node, self._case(node.operands, ones, ones))
            case Operation.LEAST | Operation.GREATEST:
                listed = self._joined(", ", ones, before=[f"{node.operation.value}("])
                there = self._all([other for other in others if other != "TRUE"])
                value = self._put("(CASE WHEN ", there, " THEN ", listed, " END)") if there != "TRUE" else listed
                return self._present(node, value)
            case Operation.NEGATE | Operation.ABSOLUTE | Operation.FLOOR:
                return self._present(node, self._filled(_ALONE.get(node.operation, words["floor"]), ones[0]))
            case _:
                return self._present(node, self._calculated(node, ones))

    def grid(self, value: RowValue, root: CompiledParts, unit: int) -> Part:
        """The integer of one row: what is missing, or not above the lower end, counts as the lower end.

        Below the first step nothing is computed, because its quotient might be too small for a double.
        """
        number, present = root
        none, all_steps = map(self.dialect.words["integer"].format, (0, int(unit)))
        if value.expression.kind is ColumnKind.BOOLEAN:
            return self._put("(CASE WHEN ", number, f" THEN {all_steps} ELSE {none} END)")
        one, high, low = map(self.dialect.literal, (_first_step(value, unit), value.high, value.low))
        top = [number, f" >= {high}"] if present == "TRUE" else ["(", number, f" >= {high} AND ", present, ")"]
        if self.dialect.eager:
            clipped = self._put("(CASE WHEN ", number, f" > {low} AND ", number, f" < {high} THEN ", number, " WHEN ",
                                *top, f" THEN {high} ELSE {low} END)")  # fmt: skip
            return self._filled(self.dialect.words["whole"], self._steps(value, clipped, unit))
        steps = self._filled(self.dialect.words["whole"], self._steps(value, number, unit))
        return self._put("(CASE WHEN ", number, f" >= {one} AND ", number, f" < {high} THEN ", steps, " WHEN ", *top,
                         f" THEN {all_steps} ELSE {none} END)")  # fmt: skip

    def condition(self, value: RowValue, root: CompiledParts) -> Part:
        """Condition for a row to count, of an expression that is a condition."""
        return root[0]

    def select(self, results: Sequence[Part], source: str, position: str | None, *, names: str = "v") -> str:
        """The results of each row; by sub-selects up to the pieces that are used once, if there are long ones."""
        kept = [result for result in results if isinstance(result, int)]
        for flat in (True, False):
            texts, layers = self._layers(kept, flat=flat)
            if flat and layers == [[]]:
                break
        last = [
            f"{result if isinstance(result, str) else texts[result]} AS {names}{place}"
            for place, result in enumerate(results)
        ]
        own = [f"{self.dialect.column(position)} AS p"] if position else []
        if layers == [[]]:
            return f"SELECT {', '.join(own + last)} FROM {source} AS {self.dialect.rows}"
        first = f"{', '.join(own + layers[0]) or '1 AS one'} FROM {source} AS {self.dialect.rows}"
        rows = f"(SELECT {first}{self.dialect.write('fence')})"
        for depth, layer in enumerate(layers[1:], 1):
            rows = f"(SELECT w{depth}.*, {', '.join(layer)} FROM {rows} AS w{depth}{self.dialect.write('fence')})"
        return f"SELECT {', '.join((['p'] if position else []) + last)} FROM {rows} AS w"

    def _layers(self, results: Sequence[int], *, flat: bool) -> tuple[dict[int, str], list[list[str]]]:
        """The text of each piece, and the columns of each sub-select; of `flat` ones leaves are no columns."""
        uses = self._uses(results)
        texts: dict[int, str] = {}
        levels: dict[int, int] = {}
        layers: list[list[str]] = [[]]
        for parts, piece in self._pieces.items():
            if piece in uses:
                text, level = "", 0
                for part in parts:
                    text += part if isinstance(part, str) else texts[part]
                    level = max(level, 0 if isinstance(part, str) else levels[part])
                shared = (uses[piece] - 1) * len(text) > _SHORT and (piece not in self._leaves or len(text) > _SHORT)
                if shared or (piece in self._leaves and not flat):
                    layers += [[]] if level == len(layers) else []
                    layers[level].append(f"{text} AS s{piece}")
                    text, level = f"s{piece}", level + 1
                texts[piece], levels[piece] = text, level
        return texts, layers

    def _leaf(self, node: Node) -> CompiledParts:
        """A literal, or a column of the table."""
        match node.operation:
            case Operation.NULL if node.kind is ColumnKind.BOOLEAN:
                return "FALSE", "FALSE"
            case Operation.NULL:
                kind = self.dialect.write("string" if node.kind is ColumnKind.STRING else "double")
                return self.dialect.write("null", kind), "FALSE"
            case Operation.BOOLEAN:
                return ("TRUE", "FALSE") if node.value else ("FALSE", "TRUE")
            case Operation.NUMBER | Operation.TIME:
                return self.dialect.literal(float(node.value or 0.0)), "TRUE"
            case Operation.STRING:
                return self.dialect.literal(str(node.value)), "TRUE"
        read = self._filled(self.dialect.words[_READ.get(node.kind, "text")], self.dialect.column(str(node.value)))
        self._leaves.add(read)
        if node.kind is ColumnKind.BOOLEAN:
            return read, self._put("(NOT ", read, ")")
        return self._present(node, read)

    def _present(self, node: Node, value: Part) -> CompiledParts:
        """A value with the condition that it is there; that is not true of nan."""
        if node in self._ranges and self._ranges[node].nan:
            return value, self._put("(", value, f" <= {self.dialect.write('infinite')})")
        return value, self._put("(", value, " IS NOT NULL)")

    def _all(self, conditions: Sequence[Part]) -> Part:
        return self._joined(" AND ", conditions) if conditions else "TRUE"

    def _test(self, node: Node, ones: Sequence[Part], others: Sequence[Part], *, negated: bool) -> Part:
        """A comparison: null is not true of itself, and nan is kept out where the engine would let it in."""
        sign = _TESTS[node.operation][negated]
        values, zero = list(ones[1:]), self.dialect.literal(0.0)
        tests = [self._put("(", ones[0], f" {sign} ", values[0], ")")]
        if node.operation is Operation.MEMBER:
            tests = [self._joined(", ", values, before=["(", ones[0], f" {sign} ("], after=["))"])]
            if zero in values:  # some engines tell two zeros apart there
                equal, between = ("<>", " AND ") if negated else ("=", " OR ")
                tests = [self._joined(between, [*tests, self._put("(", ones[0], f" {equal} {zero})")])]
        return self._all([*tests, *(others[place] for place in self._let_in(node, negated=negated))])

    def _let_in(self, node: Node, *, negated: bool) -> list[int]:
        """Operands whose nan would make a test true."""
        nans = [place for place, one in enumerate(node.operands) if one in self._ranges and self._ranges[one].nan]
        differ = negated and node.operation is not Operation.LESS
        if differ or not self.dialect.greatest_nan:
            return nans if differ else []
        if node.operation is Operation.LESS:
            return [place for place in nans if place != negated]
        return nans[:1] if len(nans) > 1 else []

    def _like(self, text: Part, pattern: str) -> Iterator[tuple[str, *tuple[Part, ...]]]:
        """Tests that a text is like a pattern, as templates and what stands in them."""
        write, literal, ends = self.dialect.write, self.dialect.literal, pattern.split("%")
        first, *between, last = ends if len(ends) > 1 else (pattern, "")
        sign = ">=" if len(ends) > 1 else "="
        yield f"({write('length', '{0}')} {sign} {len(first) + len(last)})", text
        for start, run in _runs(first):
            piece = write("piece", "{0}", start + 1, len(run))
            yield f"({piece} = {{1}})", text, literal(run)
        for start, run in _runs(last):
            piece = write("piece", write("ending", "{0}", len(last)), start + 1, len(run))
            yield f"({piece} = {{1}})", text, literal(run)
        for part in filter(None, between):
            inside: Part = text
            if first or last:  # of a text that is too short something is made, too
                rest = f"{write('length', '{0}')} - {len(first) + len(last)}"
                inside = self._filled(write("piece", "{0}", len(first) + 1, f"greatest({rest}, 0)"), text)
            yield self.dialect.words["inside"], inside, literal(part)

    def _case(self, nodes: Sequence[Node], conditions: Sequence[Part], results: Sequence[Part]) -> Part:
        """The result of the first condition that is true."""
        parts: list[Part] = ["(CASE"]
        for condition, result in zip(conditions[:-1:2], results[1::2], strict=False):
            parts += [" WHEN ", condition, " THEN ", result]
        return self._put(*parts, " ELSE ", results[-1], " END)")

    def _calculated(self, node: Node, inputs: Sequence[Part]) -> Part:
        """One of the four operations; a division by zero is null."""
        first, second = (self._ranges[operand] for operand in node.operands)
        plain = f"({{0}} {_SIGNS[node.operation]} {{1}})"
        if node.operation is Operation.DIVIDE and second.zero:
            plain = f"({{0}} / nullif({{1}}, {self.dialect.literal(0.0)}))"
        if self.dialect.raises and leaves_doubles(node.operation, first, second):
            plain = safe_template(node, plain, self.dialect)
        return self._filled(plain, *inputs)  # one piece: a column of a sub-select would be computed for all rows

    def _steps(self, value: RowValue, number: Part, unit: int) -> Part:
        """Steps of the grid above the lower end, not yet rounded down."""
        literal, step = self.dialect.literal, value.width / unit
        above = number if value.low == 0.0 else self._put("(", number, f" - {literal(value.low)})")
        if unit & (unit - 1) == 0 and step >= sys.float_info.min:  # the same bits, by one division
            return self._put(above, f" / {literal(step)}")
        return self._put(above, f" / {literal(value.width)} * {literal(float(unit))}")


_ALONE = {Operation.NEGATE: "(-{0})", Operation.ABSOLUTE: "abs({0})"}


def _rebuilt(expression: Expression, rule: Callable[[Node, tuple[Node, ...]], Node]) -> Expression:
    rebuilt: dict[Node, Node] = {}
    for node in expression.nodes:
        rebuilt[node] = rule(node, tuple(rebuilt[operand] for operand in node.operands))
    return Expression(rebuilt[expression.root])


def _of_positive(node: Node, operands: tuple[Node, ...]) -> Node:
    """A logarithm asks for finite positive numbers alone, so that no step of it can leave the doubles."""
    if node.operation is Operation.LOGARITHM:
        null = Node(Operation.NULL, ColumnKind.NUMBER)
        for end, above in ((math.inf, False), (0.0, True)):
            pair = (Node.literal(end), operands[0]) if above else (operands[0], Node.literal(end))
            test = Node(Operation.LESS, ColumnKind.BOOLEAN, pair)
            operands = (Node(Operation.CASE, ColumnKind.NUMBER, (test, operands[0], null)),)
    return Node(node.operation, node.kind, operands, node.value)


def _runs(part: str) -> Iterator[tuple[int, str]]:
    """Signs that stand for themselves, with their places; ``_`` stands for any one."""
    return ((found.start(), found[0]) for found in re.finditer("[^_]+", part))


def _first_step(value: RowValue, unit: int) -> float:
    """The smallest double whose integer is not 0, by halving; the upper end at the most."""
    below, above = value.low, value.high
    while True:
        middle = below + (above - below) / 2
        if not below < middle < above:
            return above
        if (middle - value.low) / value.width * unit >= 1.0:
            above = middle
        else:
            below = middle
