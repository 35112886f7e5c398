"""Row values as narwhals expressions: one plan for pandas, Polars, PyArrow, DuckDB relations and later Spark.

Engines disagree on null: some have none for booleans, some take nan for it. So each node becomes two columns that are
never null: a value, never nan either, and a boolean that says where it is missing. Where it is, a truth value is false
and any other value means nothing. A node reads only columns of earlier layers: the plan is linear in the tree, and all
branches of a ``case`` are computed for all rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar

import narwhals as nw
import pytest

from everhold.errors import QueryRejected
from everhold.values.evaluation import UNIT
from everhold.values.expressions.tree import LETTERS, ColumnKind, Expression, Node, Operation, RowValue, lowered

__all__ = ["frame_totals", "with_grid_values"]

Frame = TypeVar("Frame", nw.DataFrame[Any], nw.LazyFrame[Any])

NARWHALS = tuple(map(int, nw.__version__.split(".")[:2]))

_BRANCHES = 8
"""Branches that one layer of a ``case`` decides; they are nested calls, and a text may have hundreds."""

_BLANK: dict[ColumnKind, float | str] = {
    ColumnKind.NUMBER: 0.0,
    ColumnKind.STRING: "",
    ColumnKind.BOOLEAN: False,
    ColumnKind.TIME: 0.0,
}


@dataclass(frozen=True, slots=True)
class _Pair:
    """A value and where it is missing; None for nowhere."""

    value: nw.Expr
    missing: nw.Expr | None = None

    def named(self, name: str) -> list[nw.Expr]:
        """The columns to make."""
        return [self.value.alias(name), *([] if self.missing is None else [self.missing.alias(f"{name}?")])]

    def made(self, name: str) -> _Pair:
        """The columns once they are there."""
        return _Pair(nw.col(name), None if self.missing is None else nw.col(f"{name}?"))


def with_grid_values(frame: Frame, values: Sequence[RowValue], *, unit: int = UNIT) -> Frame:
    """The frame with one more Int64 column ``v0, v1, ...`` in ``[0, unit]`` for each row value.

    Args:
        frame: Eager or lazy frame of at least one column, wrapped by `narwhals.from_native`. Its own columns
            of these names are replaced.
        values: What to compute.
        unit: Grid steps between 0 and 1.

    Returns:
        The same integers as from `row_values_sql`.

    Raises:
        QueryRejected: If a column is missing.

    Examples:
        >>> import pandas as pd
        >>> from everhold.values.expressions import parse
        >>> late = RowValue(parse("delay > 60", {"delay": ColumnKind.NUMBER}))
        >>> frame = nw.from_native(pd.DataFrame({"delay": [10.0, 90.0, None]}))
        >>> with_grid_values(frame, [late], unit=4)["v0"].to_list()
        [0, 4, 0]
    """
    replaced = {f"v{place}" for place in range(len(values))}
    kept = [name for name in frame.collect_schema() if name.casefold() not in replaced]  # DuckDB ignores case
    return _evaluated(frame, values, kept, unit)


def frame_totals(
    frame: nw.DataFrame[Any] | nw.LazyFrame[Any], values: Sequence[RowValue], *, unit: int = UNIT
) -> list[int]:
    """Exact integer sums of the row values over all rows.

    Args:
        frame: As for `with_grid_values`; rows times ``unit`` stay below 2**63, which is 2**33 rows for `UNIT`.
        values: What to compute.
        unit: Grid steps between 0 and 1.

    Returns:
        One sum for each row value.

    Raises:
        QueryRejected: If a column is missing.

    Examples:
        >>> import polars as pl
        >>> from everhold.values.expressions import parse
        >>> late = RowValue(parse("delay > 60", {"delay": ColumnKind.NUMBER}))
        >>> frame_totals(nw.from_native(pl.LazyFrame({"delay": [10.0, 90.0, None]})), [late], unit=4)
        [4]
    """
    if not values:
        return []
    names = [f"v{place}" for place in range(len(values))]
    total = nw.col(*names).sum().cast(nw.Int64)
    if isinstance(frame, nw.LazyFrame):
        sums = _evaluated(frame, values, [], unit).select(total).collect()
    else:
        sums = _evaluated(frame, values, [], unit).select(total)
    return [int(sums[name].to_list()[0] or 0) for name in names]  # DuckDB's sum of no rows is null


def _evaluated(frame: Frame, values: Sequence[RowValue], kept: Sequence[str], unit: int) -> Frame:
    """The kept columns and ``v0, v1, ...``, layer by layer; what no later layer reads is dropped on the way."""
    if NARWHALS < (2, 28):
        pytest.skip("these plans need narwhals 2.28, which only tests do")
    schema = frame.collect_schema()
    roots = [_shortened(lowered(value.expression).root) for value in values]
    nodes = list(dict.fromkeys(node for root in roots for node in Expression(root).nodes))
    if any(node.operation is Operation.COLUMN and node.value not in schema for node in nodes):
        raise QueryRejected("a column of the expression is not among the rows; nothing was charged")
    known = {node: _constant(node) for node in nodes if not node.operands and node.operation is not Operation.COLUMN}
    stored = [node for node in nodes if node not in known]
    read: list[str] = list(dict.fromkeys(str(node.value) for node in stored if not node.operands))
    prefix = _unused_prefix(schema)
    names = {node: f"{prefix}{place}" for place, node in enumerate(stored)}
    zeros = nw.col(prefix)
    missing = _any([nw.col(name).is_null() for name in read or schema])
    frame = frame.select(*dict.fromkeys([*kept, *read]), (missing.cast(nw.Float64) * nw.lit(0.0)).alias(prefix))
    scalar = _scalar(stored, columns=frame.implementation.is_polars())
    for layer, passed in _layers(stored, roots):
        pairs = {node: _pair(node, known, frame, zeros) for node in layer}
        pairs.update({node: _spread(pairs[node], node.kind, zeros) for node in layer if node in scalar})
        old = [column for node in passed for column in known[node].named(names[node])]
        new = [column for node, pair in pairs.items() for column in pair.named(names[node])]
        frame = frame.select(*kept, prefix, *old, *new)
        known.update({node: pair.made(names[node]) for node, pair in pairs.items()})
    grids = [_grid(value, known[root], unit, zeros) for value, root in zip(values, roots, strict=True)]
    named = [grid.alias(f"v{place}") for place, grid in enumerate(grids)]
    return frame.select(*kept, prefix, *named).drop(prefix)


def _scalar(stored: Sequence[Node], *, columns: bool) -> set[Node]:
    """Nodes that an engine may hold as one value for all rows: computed from literals; in Polars also columns."""
    found: set[Node] = set()
    varying: set[Node] = set()
    for node in stored:
        if not node.operands or not varying.isdisjoint(node.operands):
            varying.add(node)
        else:
            found.add(node)
    return found | {node for node in stored if not node.operands and columns}


def _spread(pair: _Pair, kind: ColumnKind, zeros: nw.Expr) -> _Pair:
    """The same with a value for each row, as far as an engine knows.

    Polars multiplies by the reciprocal of a divisor that it holds as one value, which rounds twice, and comparing one
    with a literal leaves a column of one row.
    """
    never = zeros > nw.lit(1.0)
    missing = None if pair.missing is None else pair.missing | never
    match kind:
        case ColumnKind.NUMBER | ColumnKind.TIME:
            return _Pair(pair.value + zeros, missing)
        case ColumnKind.BOOLEAN:
            return _Pair(pair.value | never, missing)
        case _:
            return _Pair(nw.when(never).then(nw.lit("")).otherwise(pair.value), missing)


def _shortened(root: Node) -> Node:
    """The same query with long ``case`` chains cut into short ones, each the ``else`` of the one before."""
    rebuilt: dict[Node, Node] = {}
    for node in Expression(root).nodes:
        operands = [rebuilt[operand] for operand in node.operands]
        while node.operation is Operation.CASE and len(operands) > 2 * _BRANCHES + 1:
            tail = operands[-2 * _BRANCHES - 1 :]
            operands[-2 * _BRANCHES - 1 :] = [Node(Operation.CASE, node.kind, tuple(tail))]
        rebuilt[node] = Node(node.operation, node.kind, tuple(operands), node.value)
    return rebuilt[root]


def _unused_prefix(names: Iterable[str]) -> str:
    """A beginning that no column has, in whatever case."""
    prefix = "_"
    while any(name.casefold().startswith(prefix) for name in names):
        prefix += "_"
    return prefix


def _layers(stored: Sequence[Node], roots: Sequence[Node]) -> list[tuple[list[Node], list[Node]]]:
    """For each layer the nodes it computes and the earlier ones that are still read after it; columns come first."""
    level: dict[Node, int] = {}
    last: dict[Node, int] = {}
    for node in stored:
        below = [level[operand] for operand in node.operands if operand in level]
        level[node] = 0 if not node.operands else 1 + max(below, default=0)
        last.update({operand: max(last.get(operand, 0), level[node]) for operand in node.operands})
    count = 1 + max(level.values(), default=0)
    last.update(dict.fromkeys(roots, count))
    return [
        (
            [node for node in stored if level[node] == place],
            [node for node in stored if level[node] < place < last[node]],
        )
        for place in range(count)
    ]


def _constant(node: Node) -> _Pair:
    if node.operation is Operation.NULL:
        return _Pair(nw.lit(_BLANK[node.kind]), nw.lit(True))
    return _Pair(nw.lit(node.value))


def _pair(
    node: Node, known: Mapping[Node, _Pair], frame: nw.DataFrame[Any] | nw.LazyFrame[Any], zeros: nw.Expr
) -> _Pair:
    """One node from columns and constants."""
    if not node.operands:
        return _column(str(node.value), node.kind, frame)
    inputs = [known[operand] for operand in node.operands]
    if node.operation is Operation.DIVIDE:
        inputs[1] = _spread(inputs[1], ColumnKind.NUMBER, zeros)
    if node.operation in (Operation.LIKE, *LETTERS):
        inputs[0] = _spread(inputs[0], ColumnKind.STRING, zeros)
    match node.operation:
        case Operation.ADD | Operation.SUBTRACT | Operation.MULTIPLY | Operation.DIVIDE:
            return _arithmetic(node.operation, *inputs)
        case Operation.CASE:
            return _case(inputs)
        case Operation.AND | Operation.OR:
            return _connective(node.operation, inputs)
        case Operation.IS_NULL:
            return _Pair(nw.lit(False) if inputs[0].missing is None else inputs[0].missing)
        case Operation.LESS | Operation.EQUAL | Operation.MEMBER | Operation.NOT | Operation.LIKE:
            return _condition(node, inputs)
        case Operation.LOWER | Operation.UPPER:
            signs = zip(*LETTERS[node.operation], strict=True)
            replaced = reduce(lambda text, sign: text.str.replace_all(*sign, literal=True), signs, inputs[0].value)
            return _Pair(replaced, inputs[0].missing)
        case _:
            return _Pair(_extreme(node.operation, [one.value for one in inputs]), _any_missing(inputs))


def _arithmetic(operation: Operation, left: _Pair, right: _Pair) -> _Pair:
    """IEEE operations; what becomes nan, or is divided by zero, is missing."""
    lost: list[nw.Expr] = []
    match operation:
        case Operation.ADD:
            raw = left.value + right.value
        case Operation.SUBTRACT:
            raw = left.value - right.value
        case Operation.MULTIPLY:
            raw = left.value * right.value
        case _:
            zero = right.value == nw.lit(0.0)
            raw = left.value / nw.when(zero).then(nw.lit(1.0)).otherwise(right.value)
            lost = [zero]
    undefined = raw.is_nan().fill_null(True)  # pandas' nullable types make nan a null
    defined = nw.when(undefined).then(nw.lit(0.0)).otherwise(raw)
    return _Pair(defined, _any([undefined, *lost, *_missing([left, right])]))


def _extreme(operation: Operation, values: Sequence[nw.Expr]) -> nw.Expr:
    """Numeric operations that never make a nan."""
    match operation:
        case Operation.NEGATE:
            return values[0] * nw.lit(-1.0)
        case Operation.ABSOLUTE:
            return values[0].abs()
        case Operation.FLOOR:
            return values[0].floor()
        case Operation.LEAST:
            return nw.min_horizontal(*values)
        case _:
            return nw.max_horizontal(*values)


def _condition(node: Node, inputs: Sequence[_Pair]) -> _Pair:
    """Null if an input is, and otherwise a truth value."""
    first = inputs[0].value
    match node.operation:
        case Operation.NOT:
            holds = ~first
        case Operation.LIKE:
            pattern = re.escape(str(node.value)).replace("%", ".*").replace("_", ".")
            holds = first.str.contains(f"(?s)^{pattern}$")
        case Operation.LESS:
            holds = first < inputs[1].value
        case Operation.EQUAL:
            holds = first == inputs[1].value
        case _:
            listed = [operand.value for operand in node.operands[1:]]
            holds = first.is_in([*listed, *(-0.0 for value in listed if value == 0.0)])  # Arrow tells zeros apart
    missing = _any_missing(inputs)
    return _Pair(holds if missing is None else holds & ~missing, missing)


def _connective(operation: Operation, inputs: Sequence[_Pair]) -> _Pair:
    """Kleene's rules: missing where an input is and no other input decides."""
    values = [one.value for one in inputs]
    missing = _any_missing(inputs)
    if operation is Operation.OR:
        holds = nw.any_horizontal(*values, ignore_nulls=True)
        return _Pair(holds, None if missing is None else missing & ~holds)
    holds = nw.all_horizontal(*values, ignore_nulls=True)
    not_false = [one.value if one.missing is None else one.value | one.missing for one in inputs]
    return _Pair(holds, None if missing is None else missing & nw.all_horizontal(*not_false, ignore_nulls=True))


def _case(inputs: Sequence[_Pair]) -> _Pair:
    """From the last branch to the first, so that the first true condition wins."""
    conditions = [one.value for one in inputs[:-1:2]]
    results = [*inputs[1::2], inputs[-1]]
    value = _chosen(conditions, [one.value for one in results])
    if all(one.missing is None for one in results):
        return _Pair(value)
    never = nw.lit(False)
    return _Pair(value, _chosen(conditions, [never if one.missing is None else one.missing for one in results]))


def _chosen(conditions: Sequence[nw.Expr], results: Sequence[nw.Expr]) -> nw.Expr:
    branches = list(zip(conditions, results, strict=False))[::-1]
    return reduce(lambda rest, branch: nw.when(branch[0]).then(branch[1]).otherwise(rest), branches, results[-1])


def _missing(inputs: Iterable[_Pair]) -> list[nw.Expr]:
    return [one.missing for one in inputs if one.missing is not None]


def _any_missing(inputs: Iterable[_Pair]) -> nw.Expr | None:
    missing = _missing(inputs)
    return _any(missing) if missing else None


def _any(conditions: Sequence[nw.Expr]) -> nw.Expr:
    return conditions[0] if len(conditions) == 1 else nw.any_horizontal(*conditions, ignore_nulls=True)


def _column(name: str, kind: ColumnKind, frame: nw.DataFrame[Any] | nw.LazyFrame[Any]) -> _Pair:
    """A column of the frame as doubles, strings or booleans, whatever type it has there."""
    column, dtype = nw.col(name), frame.collect_schema()[name]
    if kind is ColumnKind.TIME:
        missing = column.is_null()
        if not dtype.is_numeric():  # narwhals knows no epoch in DuckDB, where the test makes it
            count = column.cast(nw.Datetime("us")).dt.timestamp("us")
            count = count.cast(nw.String).cast(nw.Float64) if _is_arrow(frame, name) else count.cast(nw.Float64)
            column = count / (missing.cast(nw.Float64) * nw.lit(0.0) + nw.lit(1e6))  # no literal: see `_spread`
        return _Pair(nw.when(missing).then(nw.lit(0.0)).otherwise(column), missing)
    if kind is not ColumnKind.NUMBER:
        missing = column.is_null()
        if kind is ColumnKind.STRING:
            text = column if dtype == nw.String else column.cast(nw.String)
            return _Pair(text.fill_null(""), missing)
        truth = column if dtype == nw.Object else column.cast(nw.Boolean)
        return _Pair(truth.fill_null(False).cast(nw.Boolean), missing)
    if dtype == nw.Object:  # pandas' decimals, perhaps with several kinds of null
        column = column.fill_null(math.nan)
    if isinstance(dtype, (nw.Int64, nw.UInt64, nw.Decimal)) and _is_arrow(frame, name):
        # Arrow refuses to round large integers, and rounds decimals twice
        column = column.cast(nw.String)
    number = column.cast(nw.Float64)
    undefined = number.is_nan().fill_null(True)
    return _Pair(nw.when(undefined).then(nw.lit(0.0)).otherwise(number), undefined)


def _is_arrow(frame: nw.DataFrame[Any] | nw.LazyFrame[Any], name: str) -> bool:
    """Whether PyArrow holds the column, by itself or for pandas."""
    if frame.implementation.is_pandas_like():
        return str(frame.select(name).to_native().dtypes.iloc[0]).endswith("[pyarrow]")
    return bool(frame.implementation.is_pyarrow())


def _grid(value: RowValue, result: _Pair, unit: int, zeros: nw.Expr) -> nw.Expr:
    """The integer of each row from the columns of the root."""
    if value.expression.kind is ColumnKind.BOOLEAN:
        return nw.when(result.value).then(nw.lit(unit)).otherwise(nw.lit(0)).cast(nw.Int64)
    number = result.value
    if result.missing is not None:
        number = nw.when(result.missing).then(nw.lit(value.low)).otherwise(number)
    clipped = number.clip(value.low, value.high)
    width = _spread(_Pair(nw.lit(value.width)), ColumnKind.NUMBER, zeros)
    return ((clipped - value.low) / width.value * float(unit)).floor().cast(nw.Int64)
