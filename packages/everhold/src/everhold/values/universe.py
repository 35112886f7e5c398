"""All rows that can exist: a product of finite domains listed without a look at the sealed rows. And queries on them.

Every column has a catch-all value for whatever is not listed. So no row is ever refused, which would tell something
about it, and every row falls into exactly one cell. A query is a vector over the cells with values in [0, 1],
rounded down to the grid of ``UNIT`` steps (theory, section 6), so that sums over the sealed rows are exact integers.
Doubles hold integers up to ``2**53`` exactly, in whatever order they are added; larger sums are split.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.values.query_family import QueryMatrix

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["MOST_CELLS", "OTHER", "BinnedColumn", "Column", "ListedColumn", "Universe"]

OTHER = "other"
"""The value that takes whatever is not listed, where none of the listed ones does."""

MOST_CELLS = 2**24
"""Largest number of cells of a universe: its weights fill 128 MiB."""


MOST_VALUES = 2**30
"""Largest number of values of all marginals together: one byte each."""


Value = str | int | float | bool


class Column(ABC):
    """One column of a universe, with finitely many values.

    Attributes:
        name: Name of the column in the rows.
    """

    name: str

    @property
    @abstractmethod
    def labels(self) -> tuple[Value, ...]:
        """The values, in the order of their codes."""

    @abstractmethod
    def codes(self, values: ArrayLike) -> NDArray[np.int64]:
        """The code of each value, shape (rows,); never refused, whatever the values are."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The column as plain data."""


@dataclass(frozen=True)
class ListedColumn(Column):
    """A column with listed values.

    Attributes:
        name: Name of the column.
        values: The listed values: text, finite numbers or truth values, no two of them equal.
        rest: The listed value that also takes everything that is not listed, missing values among it; None adds a
            further value "other" for that.

    Raises:
        ValueError: If there is no value, two are equal, one is of another type, or `rest` is not listed.

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
                raise ValueError(f"column {self.name!r} lists {value!r}; expected text, finite numbers or truth values")
        if not self.values or len(set(self.values)) < len(self.values):
            raise ValueError(f"column {self.name!r} lists no value or one twice; expected different values, at least 1")
        if self.rest is None and OTHER in self.values:
            raise ValueError(f"column {self.name!r} lists {OTHER!r}; say rest={OTHER!r} if it takes what is not listed")
        if self.rest is not None and self.rest not in self.values:
            raise ValueError(f"column {self.name!r} has the rest {self.rest!r}; expected one of its listed values")

    @property
    def labels(self) -> tuple[Value, ...]:
        """The listed values, and "other" if none of them takes the rest."""
        return self.values if self.rest is not None else (*self.values, OTHER)

    def codes(self, values: ArrayLike) -> NDArray[np.int64]:
        """The place of each value in `labels`; equal values (1, 1.0 and True) share it."""
        known = {value: code for code, value in enumerate(self.values)}
        rest = len(self.values) if self.rest is None else known[self.rest]
        return np.array([_code(known, value, rest) for value in _listed(values)], dtype=np.int64)

    def to_dict(self) -> dict[str, Any]:
        """The column as ``{"name", "values", "rest"}``."""
        return {"name": self.name, "values": list(self.values), "rest": self.rest}


def _code(known: Mapping[Value, int], value: Any, rest: int) -> int:
    try:
        return known.get(value, rest)
    except TypeError:  # lists in a cell cannot be looked up; to say so would tell that one is there
        return rest


@dataclass(frozen=True)
class BinnedColumn(Column):
    """A column of numbers in bins ``[edge, next edge)``; anything else is "other".

    Attributes:
        name: Name of the column.
        edges: Ends of the bins, finite and increasing, at least 2.

    Raises:
        ValueError: If the edges are not as described.

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
                f"column {self.name!r} has the edges {self.edges}; expected increasing numbers, at least 2"
            )

    @property
    def labels(self) -> tuple[Value, ...]:
        """The bins as text, then "other"."""
        bins = zip(self.edges[:-1], self.edges[1:], strict=True)
        return (*(f"[{low:g}, {high:g})" for low, high in bins), OTHER)

    def codes(self, values: ArrayLike) -> NDArray[np.int64]:
        """The bin of each number; what is no number, or in no bin, is the last code."""
        numbers = _numbers(values)
        bins = np.searchsorted(np.asarray(self.edges, dtype=np.float64), numbers, side="right") - 1
        inside = (numbers >= self.edges[0]) & (numbers < self.edges[-1])
        return np.where(inside, bins, len(self.edges) - 1).astype(np.int64)

    def to_dict(self) -> dict[str, Any]:
        """The column as ``{"name", "edges"}``."""
        return {"name": self.name, "edges": list(self.edges)}


def _listed(values: Any) -> list[Any]:
    """One object for each row, whatever the rows hold: no array is made, which ragged values would stop."""
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(values, method):
            return list(getattr(values, method)())
    return list(values)


def _numbers(values: Any) -> NDArray[np.float64]:
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "biuf":
        return values.astype(np.float64)
    return np.array([_number(value) for value in _listed(values)], dtype=np.float64)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, ArithmeticError):
        return math.nan


@dataclass(frozen=True)
class Universe:
    """A product of columns; cells are numbered with the last column running fastest.

    Attributes:
        columns: The columns, no two of the same name.

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
            raise ValueError(f"the universe has the columns {names}; expected at least one, each name once")
        if self.cells > MOST_CELLS:
            raise ValueError(
                f"the universe has {self.cells:,} cells; expected at most {MOST_CELLS:,}; list fewer columns, fewer "
                "values or wider bins"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values of each column."""
        return tuple(len(column.labels) for column in self.columns)

    @property
    def cells(self) -> int:
        """Number of cells N."""
        return math.prod(self.shape)

    @cached_property
    def _codes(self) -> tuple[NDArray[np.int64], ...]:
        """For each column, its code in every cell; each of shape (cells,)."""
        return tuple(np.asarray(codes) for codes in np.unravel_index(np.arange(self.cells), self.shape))

    def cells_of(self, rows: Any) -> NDArray[np.int64]:
        """The cell of each row, shape (rows,).

        Args:
            rows: Columns by name: a dict of arrays, or a pandas, Polars or Arrow table.

        Raises:
            ValueError: If a column is missing or the columns are not equally long; values never raise.
        """
        codes = [column.codes(_column(rows, column.name)) for column in self.columns]
        if len({len(code) for code in codes}) > 1:
            raise ValueError("the columns are not equally long; expected one value of each column for every row")
        return np.ravel_multi_index(tuple(codes), self.shape).astype(np.int64)

    def histogram(self, rows: Any) -> NDArray[np.int64]:
        """Number of rows in each cell, shape (cells,); arguments and errors as for `cells_of`."""
        return np.bincount(self.cells_of(rows), minlength=self.cells).astype(np.int64)

    def decode(self, cells: ArrayLike) -> dict[str, list[Value]]:
        """The values of the given cells, by column."""
        chosen = np.asarray(cells)
        return {
            column.name: [column.labels[code] for code in codes[chosen].tolist()]
            for column, codes in zip(self.columns, self._codes, strict=True)
        }

    def vector(self, query: Callable[[dict[str, Value]], float]) -> NDArray[np.float64]:
        """A query as a vector over the cells, shape (cells,): its value for the labels of each cell.

        Examples:
            >>> Universe((BinnedColumn("age", (0, 40, 120)),)).vector(lambda row: row["age"] == "[0, 40)")
            array([1., 0., 0.])
        """
        names = [column.name for column in self.columns]
        rows = product(*(column.labels for column in self.columns))
        values = (float(query(dict(zip(names, row, strict=True)))) for row in rows)
        return np.fromiter(values, dtype=np.float64, count=self.cells)

    def marginals(self, width: int) -> QueryMatrix:
        """All marginal counts of `width` columns at a time: one query for each combination of their values.

        Raises:
            ValueError: If `width` is not from 1 to the number of columns, or there are too many values to keep.

        Examples:
            >>> len(Universe((BinnedColumn("age", (0, 40, 120)), ListedColumn("smoker", ("no", "yes")))).marginals(2))
            9
        """
        if not 1 <= width <= len(self.columns):
            raise ValueError(f"width is {width}; expected a number of columns from 1 to {len(self.columns)}")
        if math.comb(len(self.columns), width) * self.cells > MOST_VALUES:  # each has one query at least
            raise ValueError(
                f"there are {math.comb(len(self.columns), width):,} marginals of {width} columns; expected fewer; use "
                "fewer columns at a time"
            )
        chosen_columns = list(combinations(range(len(self.columns)), width))
        values = self.cells * sum(math.prod(self.shape[i] for i in chosen) for chosen in chosen_columns)
        if values > MOST_VALUES:
            raise ValueError(
                f"these marginals have {values:,} values over all cells; expected at most {MOST_VALUES:,}; use fewer "
                "columns at a time"
            )
        masks = [
            np.logical_and.reduce([self._codes[i] == code for i, code in zip(chosen, codes, strict=True)])
            for chosen in chosen_columns
            for codes in product(*(range(self.shape[i]) for i in chosen))
        ]
        return QueryMatrix(np.array(masks))

    def to_dict(self) -> dict[str, Any]:
        """The universe as plain data."""
        return {"columns": [column.to_dict() for column in self.columns]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Universe:
        """The inverse of `to_dict`."""
        return cls(tuple(_column_from(column) for column in data["columns"]))


def _column_from(data: Mapping[str, Any]) -> Column:
    if "edges" in data:
        return BinnedColumn(data["name"], tuple(data["edges"]))
    return ListedColumn(data["name"], tuple(data["values"]), data["rest"])


def _column(rows: Any, name: str) -> Any:
    try:
        return rows[name]
    except (KeyError, IndexError, LookupError) as missing:
        raise ValueError(f"the rows have no column {name!r}; expected every column of the universe") from missing
