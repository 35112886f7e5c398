"""DuckDB text for row values, written by us from the tree.

Null is SQL's own null. A nan runs through arithmetic by itself and becomes null before anything else sees it. Inputs of
``case``, ``least``, ``greatest`` and ``/``, and everything used twice, are computed for all rows as columns of a
sub-select before they are used: the text stays linear in the tree (the engine itself doubles what stands in `nullif`),
and the time does not tell how many rows take which branch. That holds on connections of `everhold.rows.engine`, where
the optimizer does not undo it.
"""

from __future__ import annotations

from collections.abc import Sequence

from everhold.queries.evaluation import UNIT
from everhold.queries.expressions.tree import ColumnKind, Node, Operation, RowValue, steps

__all__ = [
    "part_totals_sql", "positioned_values_sql", "quoted", "row_values_sql", "stretch_totals_sql", "totals_sql",
]  # fmt: skip

_INFIX = {
    Operation.ADD: " + ",
    Operation.SUBTRACT: " - ",
    Operation.MULTIPLY: " * ",
    Operation.EQUAL: " = ",
    Operation.LESS: " < ",
    Operation.AND: " AND ",
    Operation.OR: " OR ",
}
_TYPES = {ColumnKind.NUMBER: "DOUBLE", ColumnKind.STRING: "VARCHAR", ColumnKind.BOOLEAN: "BOOLEAN"}
_ARITHMETIC = frozenset(
    {Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY, Operation.DIVIDE, Operation.NEGATE, Operation.ABSOLUTE}
)
_WHOLE_INPUTS = frozenset({Operation.CASE, Operation.LEAST, Operation.GREATEST, Operation.DIVIDE})


def row_values_sql(values: Sequence[RowValue], table: str, *, unit: int = UNIT) -> str:
    """One BIGINT column ``v0, v1, ...`` for each row value, in ``[0, unit]``.

    Args:
        values: What to compute.
        table: Name of a table or view; quoted here.
        unit: Grid steps between 0 and 1.

    Examples:
        >>> import duckdb
        >>> from everhold.queries.expressions import ColumnKind, RowValue, parse
        >>> with duckdb.connect() as engine:
        ...     _ = engine.execute("create table flights as select unnest([10, 90, null]) as delay")
        ...     late = RowValue(parse("delay > 60", {"delay": ColumnKind.NUMBER}))
        ...     engine.execute(row_values_sql([late], "flights", unit=4)).fetchall()
        [(0,), (4,), (0,)]
    """
    return _query(values, table, unit=unit, position=None)


def totals_sql(values: Sequence[RowValue], table: str, *, unit: int = UNIT) -> str:
    """One row of exact integer sums over all rows, one HUGEINT column ``v0, v1, ...`` for each row value."""
    sums = ", ".join(f"coalesce(sum(v{place}), 0) AS v{place}" for place in range(len(values)))
    return f"SELECT {sums} FROM ({row_values_sql(values, table, unit=unit)})"


def part_totals_sql(
    values: Sequence[RowValue], table: str, *, parts: int, position: str = "file_row_number", unit: int = UNIT
) -> str:
    """Sums of ``parts`` disjoint parts: rows ``part, v0, v1, ...`` in the order of parts; empty parts are left out.

    Args:
        values: What to compute.
        table: Name of a table or view; quoted here.
        parts: Number of parts; a row belongs to part ``position modulo parts``.
        position: Column with the position of a row, from 0.
        unit: Grid steps between 0 and 1.
    """
    sums = ", ".join(f"sum(v{place}) AS v{place}" for place in range(len(values)))
    rows = _query(values, table, unit=unit, position=position)
    return f"SELECT p % {int(parts)} AS part, {sums} FROM ({rows}) GROUP BY part ORDER BY part"


def stretch_totals_sql(
    values: Sequence[RowValue], table: str, *, bits: int, position: str = "file_row_number", unit: int = UNIT
) -> str:
    """Sums over stretches of ``2**bits`` rows: rows ``stretch, v0, v1, ...`` in any order, which saves time.

    Args:
        values: What to compute.
        table: Name of a table or view; quoted here.
        bits: The stretch of a row is its position without so many of the last bits.
        position: Column with the position of a row, from 0.
        unit: Grid steps between 0 and 1.
    """
    sums = ", ".join(f"sum(v{place}) AS v{place}" for place in range(len(values)))
    inner = _query(values, table, unit=unit, position=position)
    return f"SELECT p >> {int(bits)} AS stretch, {sums} FROM ({inner}) GROUP BY stretch"


def positioned_values_sql(
    values: Sequence[RowValue], table: str, *, position: str = "file_row_number", unit: int = UNIT
) -> str:
    """The values ``v0, v1, ...`` of each row with its position ``p``, in any order; arguments as before."""
    return _query(values, table, unit=unit, position=position)


def quoted(name: str) -> str:
    """A name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _query(values: Sequence[RowValue], table: str, *, unit: int, position: str | None) -> str:
    """Sub-selects from the columns of the table up to the grid values."""
    nodes = steps(value.expression.root for value in values)
    names = _materialised(nodes, [value.expression.root for value in values])
    texts: dict[Node, str] = {}
    level = dict.fromkeys(nodes, 0)
    layers: list[list[str]] = [[]]
    for node in nodes:
        texts[node] = _text(node, [_input(node, operand, names, texts) for operand in node.operands])
        level[node] = max((level[operand] + (operand in names) for operand in node.operands), default=0)
        if node in names:
            layers.extend([] for _ in range(level[node] + 1 - len(layers)))
            layers[level[node]].append(f"{_without_nan(node, texts[node])} AS {names[node]}")
    source = f"{quoted(table)} AS t"
    first = ([f"t.{quoted(position)} AS p"] if position else []) + layers[0]
    source = f"(SELECT {', '.join(first or ['1 AS one'])} FROM {source})"
    for layer in layers[1:]:
        source = f"(SELECT *, {', '.join(layer)} FROM {source})"
    last = [f"{_grid(value, names, unit)} AS v{place}" for place, value in enumerate(values)]
    return f"SELECT {', '.join((['p'] if position else []) + last)} FROM {source}"


def _materialised(nodes: Sequence[Node], roots: Sequence[Node]) -> dict[Node, str]:
    """Names of the nodes that become columns: table columns, roots, what is used twice or as a branch."""
    uses: dict[Node, int] = dict.fromkeys(roots, 2)
    for node in nodes:
        for operand in node.operands:
            uses[operand] = uses.get(operand, 0) + (2 if node.operation in _WHOLE_INPUTS else 1)
    return {
        node: f"s{place}"
        for place, node in enumerate(nodes)
        if node.operation is Operation.COLUMN or (uses.get(node, 0) > 1 and not node.is_leaf)
    }


def _grid(value: RowValue, names: dict[Node, str], unit: int) -> str:
    """The integer of one row from the column of the root."""
    root = value.expression.root
    text = names.get(root) or _text(root, [])
    if root.kind is ColumnKind.BOOLEAN:
        return f"CASE WHEN {text} THEN {int(unit)} ELSE 0 END::BIGINT"
    low, high, width = _double(value.low), _double(value.high), _double(value.width)
    clipped = f"least(greatest(coalesce({text}, {low}), {low}), {high})"
    return f"floor(({clipped} - {low}) / {width} * {_double(unit)})::BIGINT"


def _text(node: Node, inputs: Sequence[str]) -> str:
    """SQL of one node from the SQL of its operands; each operand appears once unless it is a column."""
    if node.operation in _INFIX:
        return f"({_INFIX[node.operation].join(inputs)})"
    match node.operation:
        case Operation.COLUMN:
            return f"t.{quoted(str(node.value))}::{_TYPES[node.kind]}"
        case Operation.NUMBER:
            return _double(node.value)
        case Operation.STRING:
            return "'" + str(node.value).replace("'", "''") + "'::VARCHAR"
        case Operation.BOOLEAN:
            return "true" if node.value else "false"
        case Operation.NULL:
            return f"NULL::{_TYPES[node.kind]}"
        case Operation.DIVIDE:
            return f"({inputs[0]} / nullif({inputs[1]}, 0::DOUBLE))"
        case Operation.MEMBER:
            return f"({inputs[0]} IN ({', '.join(inputs[1:])}))"
        case Operation.IS_NULL:
            return f"({inputs[0]} IS NULL)"
        case Operation.NOT:
            return f"(NOT {inputs[0]})"
        case Operation.NEGATE:
            return f"(-{inputs[0]})"
        case Operation.CASE:
            branches = " ".join(
                f"WHEN {condition} THEN {result}" for condition, result in zip(inputs[:-1:2], inputs[1::2], strict=True)
            )
            return f"CASE {branches} ELSE {inputs[-1]} END"
        case Operation.LEAST | Operation.GREATEST:
            missing = " OR ".join(f"{text} IS NULL" for text in inputs)
            return f"CASE WHEN {missing} THEN NULL ELSE {node.operation.value}({', '.join(inputs)}) END"
        case _:  # abs
            return f"{node.operation.value}({inputs[0]})"


def _double(value: object) -> str:
    """A number exactly; `repr` is the shortest text that reads back as the same double."""
    return f"'{float(value)!r}'::DOUBLE"  # type: ignore[arg-type]


def _input(node: Node, operand: Node, names: dict[Node, str], texts: dict[Node, str]) -> str:
    """SQL of an operand; without nan unless arithmetic takes it."""
    if operand in names:
        return names[operand]
    return texts[operand] if node.operation in _ARITHMETIC else _without_nan(operand, texts[operand])


def _without_nan(node: Node, text: str) -> str:
    can_be_nan = node.operation in _ARITHMETIC or (
        node.operation is Operation.COLUMN and node.kind is ColumnKind.NUMBER
    )
    return f"nullif({text}, 'nan'::DOUBLE)" if can_be_nan else text
