"""Universes: all rows that can exist, as a product of finite columns, and queries on their cells.

Every column has a catch-all value for whatever is not listed. So every row is in exactly one cell, and no row is
refused. A refusal would reveal something about the row. A query is a vector over the cells with values in [0, 1],
rounded down to the grid of ``UNIT`` steps (theory, section 6), so that sums over the sealed rows are exact integers.
Doubles hold integers up to ``2**53`` exactly, in any order of addition. Larger sums are split.
"""

from __future__ import annotations

import hashlib
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.display import Display
from everhold.errors import QueryRejected
from everhold.values.evaluation import UNIT, to_grid

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

OTHER = "other"
"""The value that takes whatever is not listed, where none of the listed ones does."""

MOST_CELLS = 2**24
"""Largest number of cells of a universe: its weights fill 128 MiB."""


MOST_VALUES = 2**30
"""Largest number of values of all marginals together: one byte each."""


Value = str | int | float | bool


class Column(ABC):
    """A column of a universe, with finitely many values.

    Attributes:
        name: Name of the column in the rows.
    """

    name: str

    @property
    @abstractmethod
    def labels(self) -> tuple[Value, ...]:
        """The values of the column, in the order of their codes."""

    @abstractmethod
    def codes(self, values: ArrayLike) -> NDArray[np.int64]:
        """Return the code of each value, shape (rows,). No value is refused."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the column as plain data."""


@dataclass(frozen=True)
class ListedColumn(Column):
    """A column with listed values.

    Attributes:
        name: Name of the column.
        values: The listed values: text, finite numbers or truth values, no two of them equal.
        rest: The listed value that also takes everything that is not listed, missing values among it; None adds a
            further value "other" for that.

    Raises:
        ValueError: If no value is listed, two values are equal, a value is of another type, or `rest` is not listed.

    Examples:
        >>> ListedColumn("sex", ("f", "m")).codes(["m", "f", None, "x"])
        array([1, 0, 2, 2])
    """

    name: str
    values: tuple[Value, ...]
    rest: Value | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        for value in self.values:
            if not isinstance(value, (str, int, float)) or (isinstance(value, float) and not math.isfinite(value)):
                raise ValueError(
                    f"The column {self.name!r} lists {value!r}. List texts, finite numbers or truth values."
                )
        if not self.values or len(set(self.values)) < len(self.values):
            raise ValueError(
                f"The column {self.name!r} lists the values {self.values}. List at least one value, each once."
            )
        if self.rest is None and OTHER in self.values:
            raise ValueError(
                f"The column {self.name!r} lists {OTHER!r}. Pass rest={OTHER!r} if it stands for all values that are "
                "not listed."
            )
        if self.rest is not None and self.rest not in self.values:
            raise ValueError(f"rest of the column {self.name!r} is {self.rest!r}. Pass one of its listed values.")

    @property
    def labels(self) -> tuple[Value, ...]:
        """The listed values, followed by "other" unless `rest` names a value for all unlisted ones."""
        return self.values if self.rest is not None else (*self.values, OTHER)

    def codes(self, values: ArrayLike) -> NDArray[np.int64]:
        """Return the index in `labels` of each value. Equal values such as 1, 1.0 and True have the same code."""
        known = {value: code for code, value in enumerate(self.values)}
        rest = len(self.values) if self.rest is None else known[self.rest]
        return np.array([_code(known, value, rest) for value in _listed(values)], dtype=np.int64)

    def to_dict(self) -> dict[str, Any]:
        """Return the column as ``{"name", "values", "rest"}``."""
        return {"name": self.name, "values": list(self.values), "rest": self.rest}


def _code(known: Mapping[Value, int], value: Any, rest: int) -> int:
    """Return the code of a value, or ``rest`` if it is not listed or cannot be hashed."""
    try:
        return known.get(value, rest)
    except TypeError:  # lists in a cell cannot be looked up; to say so would tell that one is there
        return rest


@dataclass(frozen=True)
class BinnedColumn(Column):
    """A column of numbers in bins ``[edge, next edge)``, with anything else as "other".

    Attributes:
        name: Name of the column.
        edges: Ends of the bins, finite and increasing, at least 2.

    Raises:
        ValueError: If there are fewer than 2 edges, or the edges are not finite and increasing.

    Examples:
        >>> BinnedColumn("age", (0, 18, 65)).labels
        ('[0, 18)', '[18, 65)', 'other')
        >>> BinnedColumn("age", (0, 18, 65)).codes([3, 18, 65, float("nan")])
        array([0, 1, 2, 2])
    """

    name: str
    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", tuple(self.edges))
        if len(self.edges) < 2 or not bool(np.all(np.isfinite(self.edges)) and np.all(np.diff(self.edges) > 0)):
            raise ValueError(
                f"edges of the column {self.name!r} are {self.edges}. Pass at least two finite numbers in increasing "
                "order."
            )

    @property
    def labels(self) -> tuple[Value, ...]:
        """The bins as text, followed by "other"."""
        bins = zip(self.edges[:-1], self.edges[1:], strict=True)
        return (*(f"[{low:g}, {high:g})" for low, high in bins), OTHER)

    def codes(self, values: ArrayLike) -> NDArray[np.int64]:
        """Return the bin of each number, or the last code for a value that lies in no bin."""
        numbers = _numbers(values)
        bins = np.searchsorted(np.asarray(self.edges, dtype=np.float64), numbers, side="right") - 1
        inside = (numbers >= self.edges[0]) & (numbers < self.edges[-1])
        return np.where(inside, bins, len(self.edges) - 1).astype(np.int64)

    def to_dict(self) -> dict[str, Any]:
        """Return the column as ``{"name", "edges"}``."""
        return {"name": self.name, "edges": list(self.edges)}


def _listed(values: Any) -> list[Any]:
    """Return values as a list with one object for each row, even if they make no one-dimensional array."""
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(values, method):
            return list(getattr(values, method)())
    return list(values)


def _numbers(values: Any) -> NDArray[np.float64]:
    """Return values as floats, with nan for a value that is not a number."""
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "biuf":
        return values.astype(np.float64)
    return np.array([_number(value) for value in _listed(values)], dtype=np.float64)


def _number(value: Any) -> float:
    """Return a value as a float, or nan if the value is not a number."""
    try:
        return float(value)
    except (TypeError, ValueError, ArithmeticError):
        return math.nan


@dataclass(frozen=True)
class Universe:
    """All combinations of values of some columns. Each is a cell, and the last column varies fastest.

    Attributes:
        columns: The columns, which have different names.

    Raises:
        ValueError: If there is no column, a name is used twice, or there are more than `MOST_CELLS` cells.

    Examples:
        >>> universe = Universe((ListedColumn("smoker", (False, True), rest=False), BinnedColumn("age", (0, 40, 120))))
        >>> universe.cells
        6
        >>> universe.histogram({"smoker": [True, False, None], "age": [30, 50, 300]})
        array([0, 1, 1, 1, 0, 0])
    """

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        names = [column.name for column in self.columns]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"The universe has the columns {names}. Pass at least one column, each name once.")
        if self.cells > MOST_CELLS:
            raise ValueError(
                f"The universe has {self.cells:,} cells, more than {MOST_CELLS:,}. List fewer columns, fewer values "
                "or wider bins."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of values of each column."""
        return tuple(len(column.labels) for column in self.columns)

    @property
    def cells(self) -> int:
        """The number N of cells: the product of the columns' numbers of values."""
        return math.prod(self.shape)

    @cached_property
    def _codes(self) -> tuple[NDArray[np.int64], ...]:
        """For each column, the code of its value in every cell, shape (cells,)."""
        return tuple(np.asarray(codes) for codes in np.unravel_index(np.arange(self.cells), self.shape))

    def cells_of(self, rows: Any) -> NDArray[np.int64]:
        """Return the cell of each row, shape (rows,).

        Args:
            rows: Columns by name: a dict of arrays, or a pandas, Polars or Arrow table.

        Raises:
            ValueError: If a column is missing or the columns are not equally long. A value that is not listed raises no
                error.
        """
        codes = [column.codes(_column(rows, column.name)) for column in self.columns]
        if len({len(code) for code in codes}) > 1:
            raise ValueError("The columns have different lengths. Pass one value of each column for every row.")
        return np.ravel_multi_index(tuple(codes), self.shape).astype(np.int64)

    def histogram(self, rows: Any) -> NDArray[np.int64]:
        """Return the number of rows in each cell, shape (cells,).

        It takes the arguments of `cells_of`, and raises the same errors.
        """
        return np.bincount(self.cells_of(rows), minlength=self.cells).astype(np.int64)

    def decode(self, cells: ArrayLike) -> dict[str, list[Value]]:
        """Return the column values of cells, given by their numbers."""
        chosen = np.asarray(cells)
        return {
            column.name: [column.labels[code] for code in codes[chosen].tolist()]
            for column, codes in zip(self.columns, self._codes, strict=True)
        }

    def vector(self, query: Callable[[dict[str, Value]], float]) -> NDArray[np.float64]:
        """Return a query's value for every cell, shape (cells,). The query gets each cell as a dict of its values.

        Examples:
            >>> Universe((BinnedColumn("age", (0, 40, 120)),)).vector(lambda row: row["age"] == "[0, 40)")
            array([1., 0., 0.])
        """
        names = [column.name for column in self.columns]
        rows = product(*(column.labels for column in self.columns))
        values = (float(query(dict(zip(names, row, strict=True)))) for row in rows)
        return np.fromiter(values, dtype=np.float64, count=self.cells)

    def marginals(self, width: int) -> QueryMatrix:
        """Return the queries that count rows by `width` columns, one for each combination of their values.

        Raises:
            ValueError: If `width` is not from 1 to the number of columns, or there are too many values to keep.

        Examples:
            >>> len(Universe((BinnedColumn("age", (0, 40, 120)), ListedColumn("smoker", ("no", "yes")))).marginals(2))
            9
        """
        if not 1 <= width <= len(self.columns):
            raise ValueError(f"width is {width}. Pass a number of columns from 1 to {len(self.columns)}.")
        if math.comb(len(self.columns), width) * self.cells > MOST_VALUES:  # each has one query at least
            raise ValueError(
                f"There are {math.comb(len(self.columns), width):,} marginals of {width} columns, too many to store. "
                "Pass a smaller width."
            )
        chosen_columns = list(combinations(range(len(self.columns)), width))
        values = self.cells * sum(math.prod(self.shape[i] for i in chosen) for chosen in chosen_columns)
        if values > MOST_VALUES:
            raise ValueError(
                f"The marginals have {values:,} values over all cells, more than {MOST_VALUES:,}. Pass a smaller width."
            )
        masks = [
            np.logical_and.reduce([self._codes[i] == code for i, code in zip(chosen, codes, strict=True)])
            for chosen in chosen_columns
            for codes in product(*(range(self.shape[i]) for i in chosen))
        ]
        return QueryMatrix(np.array(masks))

    def to_dict(self) -> dict[str, Any]:
        """Return the universe as plain data."""
        return {"columns": [column.to_dict() for column in self.columns]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Universe:
        """Rebuild the universe from the plain data that `to_dict` returns."""
        return cls(tuple(
            BinnedColumn(column["name"], tuple(column["edges"])) if "edges" in column
            else ListedColumn(column["name"], tuple(column["values"]), column["rest"])
            for column in data["columns"]
        ))  # fmt: skip


def _column(rows: Any, name: str) -> Any:
    """Return a column of a table or dict, or raise ValueError if no column has this name."""
    try:
        return rows[name]
    except (KeyError, IndexError, LookupError) as missing:
        raise ValueError(f"The rows have no column {name!r}. Pass every column of the universe.") from missing


# Cells of a synthetic table as plain data: the columns of a universe, each with its values or with edges of bins.

_FORM = '{"columns": [{"name": "carrier", "values": ["AA", "UA"]}, {"name": "delay", "edges": [-60, 0, 60]}]}'
_MOST_COLUMNS = 100


def universe_from(written: Any, *, called: str) -> Universe:
    """Build a universe from plain data, such as a JSON file holds.

    Each column has a ``name`` and either ``edges`` of bins or a list of ``values``. With ``values``, ``rest`` may name
    one of them, which then also stands for all values that are not listed.

    Args:
        written: Plain data, as JSON has it.
        called: The name of the data in messages.

    Raises:
        QueryRejected: If ``written`` does not describe a universe. Nothing is charged.
    """
    columns = written.get("columns") if isinstance(written, dict) and len(written) == 1 else None
    if not isinstance(columns, list) or len(columns) > _MOST_COLUMNS:
        raise _rejected(called, f"Pass JSON such as {_FORM}.")
    try:
        return Universe(tuple(_column_document(column) for column in columns))
    except (ValueError, TypeError, OverflowError) as reason:
        raise _rejected(called, str(reason)) from None


def _rejected(called: str, reason: str) -> QueryRejected:
    return QueryRejected(f"{called} holds no universe. {reason}")


def _column_document(column: Any) -> Column:
    if not isinstance(column, dict) or not isinstance(column.get("name"), str):
        raise ValueError('A column has no name. Pass {"name": ..., "values": [...]} or {"name": ..., "edges": [...]}.')
    name, others = column["name"], set(column) - {"name"}
    if others == {"edges"}:
        return BinnedColumn(name, tuple(_edge(edge, name) for edge in _list(column["edges"], name)))
    if "values" in others and others <= {"values", "rest"}:
        return ListedColumn(name, tuple(_list(column["values"], name)), column.get("rest"))
    raise ValueError(f"The column {name!r} has {sorted(others)}. Give it 'values' and perhaps 'rest', or 'edges'.")


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"The column {name!r} has no list. Write its values or edges in brackets.")
    return value


def _edge(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"The column {name!r} has the edge {value!r}. Pass finite numbers.")
    return value if abs(value) < 2**53 else float(value)


# Families of queries over a universe of cells, as matrices of their values.

_BLOCK = 2**19  # values turned into doubles at a time: 4 MiB
_EXACT_ROWS = 2**53 // UNIT
_HALF = 2**15


class QueryFamily(ABC):
    """A fixed list of queries with a value in [0, 1] for each cell of a universe, compared by identity.

    Attributes:
        count: Number of queries |Q|.
        cells: Number of cells N.
    """

    count: int
    cells: int

    def __len__(self) -> int:
        return self.count

    @abstractmethod
    def block(self, start: int, stop: int) -> NDArray[Any]:
        """Return queries ``start .. stop - 1`` on the grid, shape (stop - start, cells), boolean or up to UNIT."""

    def vector(self, index: int) -> NDArray[np.float64]:
        """Return query `index` as numbers in [0, 1], shape (cells,)."""
        return np.asarray(_unscaled(self.block(index, index + 1))[0])

    def fingerprint(self) -> str:
        """Return the SHA-256 of all values on the grid, in hex, equal for equal queries in the same order."""
        found = hashlib.sha256(f"{self.count} x {self.cells}\n".encode())
        for block in self._blocks(0, self.count):
            found.update((block.astype("<i4") * (UNIT if block.dtype.kind == "b" else 1)).tobytes())
        return found.hexdigest()

    def totals(self, histogram: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the exact sums over the rows of a histogram, in grid units, shape (queries,)."""
        counts = histogram.astype(np.float64)
        halves = int(histogram.sum()) > _EXACT_ROWS
        blocks = self._blocks(0, self.count)
        return np.concatenate([_exact_product(block, counts, halves=halves) for block in blocks])

    def means(self, weights: NDArray[np.float64], start: int = 0, stop: int | None = None) -> NDArray[np.float64]:
        """Return averages of queries ``start .. stop - 1`` under public weights that sum to 1."""
        blocks = self._blocks(start, self.count if stop is None else stop)
        means = np.concatenate([_product(_unscaled(block), weights) for block in blocks])
        return np.asarray(np.clip(means, 0.0, 1.0), dtype=np.float64)

    def _blocks(self, start: int, stop: int) -> Iterator[NDArray[Any]]:
        step = max(1, _BLOCK // self.cells)
        return (self.block(first, min(first + step, stop)) for first in range(start, stop, step))


class QueryMatrix(QueryFamily):
    """Queries stored as a matrix, as truth values if all are 0 or 1, else as 32-bit integers.

    Args:
        values: Value of each query in each cell, shape (queries, cells): truth values or numbers in [0, 1].

    Raises:
        ValueError: If the array does not have the shape (queries, cells), or there is no query.
        QueryRejected: If an entry of the matrix is not a number in [0, 1].

    Examples:
        >>> QueryMatrix([[0, 1], [0.5, 0.5]]).totals(np.array([3, 1])) / UNIT
        array([1., 2.])
    """

    def __init__(self, values: ArrayLike) -> None:
        array = np.asarray(values)
        if array.ndim != 2 or 0 in array.shape:
            raise ValueError(
                f"The queries have the shape {array.shape}. Pass two dimensions, (queries, cells), with at least one "
                "of each."
            )
        if array.dtype.kind == "b":
            self._grid = array.copy()
        else:
            grid = to_grid(array)
            self._grid = grid == UNIT if np.all((grid == 0) | (grid == UNIT)) else grid.astype(np.int32)
        self._grid.setflags(write=False)
        self.count, self.cells = array.shape

    def block(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows of the matrix."""
        return self._grid[start:stop]

    def __repr__(self) -> str:
        return f"QueryMatrix(count={self.count}, cells={self.cells})"


def _unscaled(block: NDArray[Any]) -> NDArray[np.float64]:
    """Return row values in grid units, or truth values, as numbers in [0, 1]."""
    doubles = block.astype(np.float64)
    return doubles if block.dtype.kind == "b" else doubles / UNIT


def _product(block: NDArray[np.float64], numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the matrix product in a fixed order of additions, which BLAS with several threads does not have."""
    return np.asarray(np.einsum("ij,j->i", block, numbers))


def _exact_product(block: NDArray[Any], counts: NDArray[np.float64], *, halves: bool) -> NDArray[np.int64]:
    """Return the exact integer product ``block @ counts`` in grid units, computed in doubles.

    If `halves` is true, the product is computed in two parts, because it may be too large for a double.
    """
    if block.dtype.kind == "b":
        return _product(block.astype(np.float64), counts).astype(np.int64) * UNIT
    if not halves:
        return _product(block.astype(np.float64), counts).astype(np.int64)
    high, low = np.divmod(block, _HALF)
    parts = [_product(part.astype(np.float64), counts).astype(np.int64) for part in (high, low)]
    return np.asarray(parts[0] * _HALF + parts[1])


# Public weights over the cells of some columns, which may be queried for ever.


@dataclass(frozen=True, slots=True, eq=False)
class WeightedCells(Display):
    """Public weights of the cells of a universe, which stand for a table of artificial rows.

    Attributes:
        universe: The universe to whose cells the weights belong.
        weights: Weight of each cell, shape (cells,): non-negative, with the sum 1; read-only.
    """

    universe: Universe
    weights: NDArray[np.float64] = field(repr=False)

    def means(self, queries: QueryFamily) -> NDArray[np.float64]:
        """Return the table's mean of every query of a family, shape (queries,).

        Raises:
            ValueError: If the queries are about another number of cells than the universe has.
        """
        if queries.cells != self.universe.cells:
            raise ValueError(
                f"The queries are about {queries.cells} cells, and the universe has {self.universe.cells}. Build them "
                "from this universe."
            )
        return queries.means(self.weights)

    def sample(self, rows: int, seed: int) -> dict[str, list[Value]]:
        """Draw rows at random by the weights, as columns. They are as public as the table.

        Args:
            rows: Number of rows to draw, at least 1.
            seed: A non-negative integer from which the random draws are made. The same seed draws the same rows.
        """
        if operator.index(rows) < 1:
            raise ValueError(f"rows is {rows}. Pass a whole number of at least 1.")
        cells = np.random.default_rng(seed).choice(self.universe.cells, size=rows, p=self.weights / self.weights.sum())
        return self.universe.decode(cells)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dictionary for each cell with a positive weight: its labels and its weight."""
        cells = np.flatnonzero(self.weights)
        columns = self.universe.decode(cells)
        return [
            {**dict(zip(columns, labels, strict=True)), "weight": weight}
            for *labels, weight in zip(*columns.values(), self.weights[cells].tolist(), strict=True)
        ]
