"""Row values in NumPy, from columns of any data frame that narwhals knows.

Inside, a missing number is nan; a truth value is 1, 0 or -1 for true, null and false, so that ``and``, ``or`` and
``not`` are minimum, maximum and minus; a string is its rank among the strings that occur. Every step is computed for
all rows, so the time does not tell which branch of a ``case`` they take.
"""

from __future__ import annotations

import bisect
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np

from everhold.errors import QueryRejected
from everhold.queries.evaluation import UNIT
from everhold.queries.expressions.tree import ColumnKind, Node, Operation, RowValue, steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ColumnArray", "column_arrays", "grid_values"]

Array: TypeAlias = "NDArray[Any]"

_BLOCK = 2**13  # rows at a time: intermediate results stay in the cache, and the largest expression takes 64 MB

_ARITHMETIC = {
    Operation.ADD: np.add,
    Operation.SUBTRACT: np.subtract,
    Operation.MULTIPLY: np.multiply,
    Operation.LEAST: np.minimum,
    Operation.GREATEST: np.maximum,
    Operation.AND: np.minimum,
    Operation.OR: np.maximum,
}


@dataclass(frozen=True, slots=True)
class ColumnArray:
    """One column, ready to compute with; build it once and ask many questions.

    Attributes:
        values: Shape (rows,): doubles with nan for null, or int8 truth values, or for strings float64 indices into
            `categories` with nan for null.
        categories: The different strings of a string column in the order of their code points.
    """

    values: Array
    categories: tuple[str, ...] = ()


def column_arrays(frame: nw.DataFrame[Any], kinds: Mapping[str, ColumnKind]) -> dict[str, ColumnArray]:
    """The named columns of an eager frame as arrays.

    Args:
        frame: pandas, Polars, PyArrow or another eager frame, wrapped by `narwhals.stable.v2.from_native`.
        kinds: Columns to convert and what they hold; those of kind OTHER are left out.

    Examples:
        >>> import pandas as pd
        >>> frame = nw.from_native(pd.DataFrame({"carrier": ["UA", None, "AA"]}), eager_only=True)
        >>> column_arrays(frame, {"carrier": ColumnKind.STRING})["carrier"]
        ColumnArray(values=array([ 1., nan,  0.]), categories=('AA', 'UA'))
    """
    readers = {ColumnKind.NUMBER: _numbers, ColumnKind.STRING: _strings, ColumnKind.BOOLEAN: _truths}
    return {name: readers[kind](frame[name]) for name, kind in kinds.items() if kind in readers}


def grid_values(
    value: RowValue, columns: Mapping[str, ColumnArray], *, rows: int, unit: int = UNIT
) -> NDArray[np.int64]:
    """The row value of each row, as an integer in ``[0, unit]``.

    Args:
        value: What to compute.
        columns: At least the columns of the expression, from `column_arrays`.
        rows: Number of rows.
        unit: Grid steps between 0 and 1.

    Returns:
        Shape (rows,); the same integers as from `row_values_sql`.

    Raises:
        QueryRejected: If a column is missing.

    Examples:
        >>> import pandas as pd
        >>> from everhold.queries.expressions import parse
        >>> kinds = {"delay": ColumnKind.NUMBER}
        >>> frame = nw.from_native(pd.DataFrame({"delay": [10.0, 90.0, None]}), eager_only=True)
        >>> grid_values(RowValue(parse("delay > 60", kinds)), column_arrays(frame, kinds), rows=3, unit=4)
        array([0, 4, 0])
    """
    nodes = steps([value.expression.root])
    leaves = _leaves(nodes, columns)
    grid = np.empty(rows, dtype=np.int64)
    for start in range(0, rows, _BLOCK):
        block = slice(start, start + _BLOCK)
        results = {node: array[block] if array.ndim else array for node, array in leaves.items()}
        with np.errstate(all="ignore"):  # infinities and nan have their meaning here
            for node in nodes:
                if not node.is_leaf:
                    results[node] = _compute(node, [results[operand] for operand in node.operands])
            grid[block] = _grid(value, results[value.expression.root], unit)
    return grid


def _grid(value: RowValue, result: Array, unit: int) -> Array:
    if value.expression.kind is ColumnKind.BOOLEAN:
        return (result > 0) * np.int64(unit)
    clipped = np.clip(np.where(np.isnan(result), value.low, result), value.low, value.high)
    grid: Array = np.floor((clipped - value.low) / value.width * float(unit)).astype(np.int64)
    return grid


def _leaves(nodes: Sequence[Node], columns: Mapping[str, ColumnArray]) -> dict[Node, Array]:
    """Columns and literals; strings become ranks that all columns of the expression share."""
    named = {node: str(node.value) for node in nodes if node.operation is Operation.COLUMN}
    missing = [name for name in named.values() if name not in columns]
    if missing:
        raise QueryRejected("a column of the expression is not among the rows; nothing was charged")
    leaves = {node: columns[name].values for node, name in named.items()}
    strings = [node for node in named if node.kind is ColumnKind.STRING]
    categories = _merged(columns[named[node]].categories for node in strings)
    for node in strings:
        leaves[node] = _ranks(columns[named[node]], categories)
    literals = sorted({str(node.value) for node in nodes if node.operation is Operation.STRING})
    for node in nodes:
        if node.operation is Operation.STRING:
            leaves[node] = _literal_rank(str(node.value), literals, categories)
        elif node.is_leaf and node not in leaves:
            leaves[node] = _constant(node)
    return leaves


def _merged(lists: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Sorted union; for a single column its own list."""
    different = list(dict.fromkeys(lists))
    return different[0] if len(different) == 1 else tuple(sorted(set().union(*different)))


def _ranks(column: ColumnArray, categories: tuple[str, ...]) -> Array:
    """Odd ranks for strings that occur, so that literals in between get even ones."""
    if column.categories is categories:
        return 2 * column.values + 1
    place = {text: index for index, text in enumerate(categories)}
    moved = np.array([2.0 * place[text] + 1 for text in column.categories] + [np.nan])
    codes = np.where(np.isnan(column.values), len(column.categories), column.values).astype(np.intp)
    ranks: Array = moved[codes]
    return ranks


def _literal_rank(text: str, literals: Sequence[str], categories: tuple[str, ...]) -> Array:
    """The rank of a string that occurs, or one between those of its neighbours, in the order of the literals."""
    place = bisect.bisect_left(categories, text)
    known = place < len(categories) and categories[place] == text
    return np.asarray(2 * place + (1.0 if known else literals.index(text) / len(literals)))


def _constant(node: Node) -> Array:
    if node.kind is ColumnKind.BOOLEAN:
        return np.asarray(0 if node.operation is Operation.NULL else 1 if node.value else -1, dtype=np.int8)
    return np.asarray(np.nan if node.operation is Operation.NULL else node.value, dtype=np.float64)


def _compute(node: Node, inputs: Sequence[Array]) -> Array:
    """One step for all rows of a block; literals stay single values."""
    if node.operation in _ARITHMETIC:
        return reduce(_ARITHMETIC[node.operation], inputs)
    first = inputs[0]
    match node.operation:
        case Operation.NEGATE | Operation.NOT:
            return -first
        case Operation.ABSOLUTE:
            return np.abs(first)
        case Operation.DIVIDE:
            return np.where(inputs[1] == 0, np.nan, first / inputs[1])
        case Operation.EQUAL if node.operands[0].kind is ColumnKind.BOOLEAN:
            return first * inputs[1]
        case Operation.EQUAL:
            return _truth(first == inputs[1], *inputs)
        case Operation.LESS:
            return _truth(first < inputs[1], *inputs)
        case Operation.MEMBER:
            return _truth(np.isin(first, np.array(inputs[1:])), first)
        case Operation.IS_NULL:
            missing = first == 0 if node.operands[0].kind is ColumnKind.BOOLEAN else np.isnan(first)
            return _truth(missing)
        case _:  # case
            return _case(inputs)


def _case(inputs: Sequence[Array]) -> Array:
    """From the last branch to the first, so that the first true condition wins."""
    result = inputs[-1]
    for place in range(len(inputs) - 3, -1, -2):
        result = np.where(inputs[place] > 0, inputs[place + 1], result)
    return result


def _truth(holds: Array, *inputs: Array) -> Array:
    """1 and -1 for true and false, 0 where an input is missing."""
    truth = np.where(holds, np.int8(1), np.int8(-1))
    for values in inputs:
        truth = np.where(np.isnan(values), np.int8(0), truth)
    return truth


def _numbers(series: nw.Series[Any]) -> ColumnArray:
    """Each number as the nearest double; not by the frame's own cast, which may refuse large integers."""
    values = series.to_numpy()
    if values.dtype.kind not in "iuf":
        items = series.to_list()
        real = (float(item) if isinstance(item, numbers.Real | Decimal) else np.nan for item in items)
        return ColumnArray(_sealed(np.fromiter(real, dtype=np.float64, count=len(items))))
    return ColumnArray(_sealed(values.astype(np.float64)))


def _truths(series: nw.Series[Any]) -> ColumnArray:
    items = series.to_list()
    codes = ((1 if item else -1) if isinstance(item, bool | np.bool_) else 0 for item in items)
    return ColumnArray(_sealed(np.fromiter(codes, dtype=np.int8, count=len(items))))


def _strings(series: nw.Series[Any]) -> ColumnArray:
    items = series.to_list()
    categories = tuple(sorted({item for item in items if isinstance(item, str)}))
    place: dict[Any, float] = {text: float(index) for index, text in enumerate(categories)}
    codes = (place[item] if isinstance(item, str) else np.nan for item in items)
    return ColumnArray(_sealed(np.fromiter(codes, dtype=np.float64, count=len(items))), categories)


def _sealed(values: Array) -> Array:
    values.setflags(write=False)
    return values
