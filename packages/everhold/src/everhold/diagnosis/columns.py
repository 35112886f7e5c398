"""The data that the diagnosis examines: columns of training rows as ranks, orders, and outcomes that may be alike."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
import scipy

from everhold.dependence import DependenceModel
from everhold.dependence.blocks import block_of_rows
from everhold.sealing.intake.duckdb_files import POSITION
from everhold.sealing.rows.embedded import SEALED, Embedded
from everhold.values.expressions.tree import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

FILE_ORDER = "(order of the file)"
_MOST_COLUMNS = 60
_MOST_COMMON = 5
_FEWEST_TIMES = 3
_SPARSE = 10.0  # an index that is not in order takes at most so many numbers for each row; an income takes more
_ORDERED = 0.95
_FEWEST_OTHERS = 20  # an outcome that is rarer says nothing
_MOST_CLASSES = 3  # of a column of text, the most common ones

Kind = Literal["whole", "number", "text", "time"]
"""Type of the values of a column; "number" has parts or is a boolean."""

_KINDS: tuple[tuple[Kind, str], ...] = (
    ("whole", r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|UINTEGER"),
    ("number", r"BOOLEAN|FLOAT|DOUBLE|DECIMAL\(.*\)"),
    ("text", r"VARCHAR|ENUM.*|UUID"),
    ("time", r"DATE|TIMESTAMP.*"),
)


@dataclass(frozen=True, slots=True, eq=False)
class ExaminedColumn:
    """A column of training rows as ranks of its values.

    Attributes:
        ranks: Rank of each row's value, from 0. Equal values have the same rank, and a missing value has rank -1.
        values: For a label that is text, the texts of the most common ranks; else empty.
        span: Largest value minus the least, for whole numbers; else infinite.
        sorted_alike: True if an engine that sorts the column sorts it by rank. It is False for texts such as
            31/01/2024, whose ranks follow the time.
    """

    name: str
    kind: Kind
    ranks: NDArray[np.int64]
    values: Mapping[int, str]
    span: float = math.inf
    sorted_alike: bool = True

    def in_time(self, values: Sequence[str]) -> ExaminedColumn:
        """Return the column with its ranks in the order of time if all values read as times, else unchanged."""
        if self.kind not in ("text", "whole") or len(values) < _FEWEST_TIMES or not may_be_time(values[0]):
            return self
        if (times := as_times(values)) is None:
            return self
        place = np.append(np.unique(times, return_inverse=True)[1], -1)  # the last one for missing values
        alike = bool(np.all(np.diff(place[:-1]) >= 0))
        return replace(self, kind="time", ranks=place[self.ranks], values={}, sorted_alike=alike)


@dataclass(frozen=True, slots=True, eq=False)
class OpenRows:
    """Training rows in the order of their file, as the columns that can be examined."""

    rows: int
    columns: tuple[ExaminedColumn, ...]

    def column(self, name: str) -> ExaminedColumn | None:
        """Return the column with this name, or None if it is not among the examined columns."""
        return next((column for column in self.columns if column.name == name), None)


class OpenFile:
    """A file of training rows from which columns are read for the diagnosis.

    Args:
        engine: Embedded DuckDB, which can read this file and no other.
        label: Name of the label column, which is always examined.
        also: Names of other columns that are always examined.

    Attributes:
        rows: Number of rows of the file.
        kinds: Kind of each column that can be examined, by name of the column.
        notes: Columns or rows that are left out of the diagnosis, in words.
    """

    def __init__(self, engine: Embedded, *, label: str | None = None, also: Sequence[str] = ()) -> None:
        self._engine, self._label = engine, label
        self.rows = int(engine.rows(f"SELECT count(*) FROM {SEALED}")[0][0])
        types = dict(engine.rows(f"SELECT column_name, column_type FROM (DESCRIBE {SEALED})"))
        del types[POSITION]
        kinds = {name: kind for name, type_ in types.items() if (kind := _kind(type_)) is not None}
        chosen = sorted(kinds, key=lambda name: (name != label, name not in also))[:_MOST_COLUMNS]
        self.kinds: dict[str, Kind] = {name: kind for name, kind in kinds.items() if name in chosen}
        left = len(types) - len(self.kinds)
        self.notes = (f"{left} of {len(types)} columns were not looked at",) if left else ()

    def first(self, most: int, kinds: Collection[Kind] = get_args(Kind)) -> OpenRows:
        """Read columns of some kinds in the first rows of the file, at most `most` rows.

        The span (maximum minus minimum) of each column is multiplied by the share of rows that were read.
        """
        where, times = f"{POSITION} < {most}", set[str]()  # columns with a value that looks like a time
        if named := [name for name, kind in self.kinds.items() if kind in ("text", "whole") and name != self._label]:
            some = ", ".join(f"CAST(any_value({quoted(name)}) AS VARCHAR)" for name in named)
            seen = self._engine.rows(f"SELECT {some} FROM {SEALED} WHERE {where}")[0]
            times = {name for name, text in zip(named, seen, strict=True) if text is not None and may_be_time(text)}
        names = [name for name, kind in self.kinds.items() if kind in kinds or ("time" in kinds and name in times)]
        read = self._read(names, where)
        columns = [
            column.in_time(self._texts(column.name, where)) if column.name in times else column
            for column in read.columns
        ]  # fmt: skip
        share = min(most / max(self.rows, 1), 1.0)  # of a shuffled index a sample has the span of the whole
        return OpenRows(read.rows, tuple(replace(column, span=column.span * share) for column in columns))

    def _texts(self, name: str, where: str) -> list[str]:
        """Return the different values of a column as text, in the order of their ranks."""
        sql = f"SELECT CAST(v AS VARCHAR) FROM (SELECT DISTINCT {quoted(name)} AS v FROM {SEALED} WHERE {where}) "
        return [text for (text,) in self._engine.rows(f"{sql} WHERE v IS NOT NULL ORDER BY v")]

    def whole_groups(self, name: str, others: Sequence[str], most: int) -> OpenRows:
        """Read complete groups of rows with equal values of a column, a sample of about `most` rows."""
        every = max(1, math.ceil(self.rows / most))
        column = quoted(name)
        return self._read((name, *others), f"{column} IS NOT NULL AND hash({column}) % {every} = 0")

    def _read(self, names: Sequence[str], where: str) -> OpenRows:
        if not names:
            return OpenRows(0, ())
        ranked, spans = [], []
        for number, name in enumerate(names):
            value, span = quoted(name), "max(NULL)"
            if self.kinds[name] == "whole":
                span = f"CAST(max({value}) AS DOUBLE) - CAST(min({value}) AS DOUBLE)"
            if self.kinds[name] == "number":
                value = f"CASE WHEN isnan(CAST({value} AS DOUBLE)) THEN NULL ELSE {value} END"
            rank = f"dense_rank() OVER (ORDER BY {value} NULLS LAST) - 1"
            ranked.append(f"CASE WHEN {value} IS NULL THEN -1 ELSE {rank} END AS r{number}")
            spans.append(span)
        sql = f"SELECT {', '.join(ranked)} FROM (SELECT * FROM {SEALED} WHERE {where}) ORDER BY {POSITION}"
        found = self._engine.arrays(sql)
        ranks = [np.asarray(found[f"r{number}"]).astype(np.int64) for number in range(len(names))]
        widths = self._engine.rows(f"SELECT {', '.join(spans)} FROM {SEALED} WHERE {where}")[0]
        columns = [
            ExaminedColumn(
                name, self.kinds[name], column, self._values(name, where), math.inf if span is None else float(span)
            )
            for name, column, span in zip(names, ranks, widths, strict=True)
        ]
        return OpenRows(len(ranks[0]), tuple(columns))

    def _values(self, name: str, where: str) -> dict[int, str]:
        if name != self._label or self.kinds[name] != "text":
            return {}
        sql = (
            f"SELECT dense_rank() OVER (ORDER BY value) - 1, value FROM (SELECT {quoted(name)} AS value, count(*) AS n "
            f"FROM {SEALED} WHERE {where} AND {quoted(name)} IS NOT NULL GROUP BY 1) ORDER BY n DESC, value "
            f"LIMIT {_MOST_COMMON}"
        )
        return {int(rank): str(value) for rank, value in self._engine.rows(sql)}


def _kind(type_: str) -> Kind | None:
    return next((kind for kind, pattern in _KINDS if re.fullmatch(pattern, type_)), None)


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """An order of the training rows, by a column or as in the file. Rows without a value are left out.

    Attributes:
        rows: Indices of the rows in this order.
        in_file: True if the rows of the file are nearly in this order.
        missing: Number of rows without a value.
    """

    column: str
    rows: NDArray[np.int64]
    in_file: bool
    missing: int = 0


def orders_of(rows: OpenRows, *, label: str | None, declared: DependenceModel) -> Iterator[Order]:
    """Yield every order of the rows to examine, with that of the file only if no column gives the same order."""
    known = [column for name in declared.sorting_columns if (column := rows.column(name)) is not None]
    found = [_sorted(column.name, [column]) for column in rows.columns if column.name != label and is_order(column)]
    if known and (len(known) > 1 or known[-1].name not in {order.column for order in found}):
        found = [order for order in found if order.column != known[-1].name]
        found.append(_sorted(known[-1].name, known))
    if not any(len(order.rows) == rows.rows and bool(np.all(np.diff(order.rows) > 0)) for order in found):
        found.append(Order(FILE_ORDER, np.arange(rows.rows), in_file=True))
    yield from found


def _sorted(name: str, columns: list[ExaminedColumn]) -> Order:
    present = np.all([column.ranks >= 0 for column in columns], axis=0)
    order = np.lexsort([column.ranks for column in reversed(columns)])
    order = order[present[order]]
    in_file = len(order) > 1 and float(np.mean(np.diff(columns[-1].ranks[present]) >= 0)) >= _ORDERED
    return Order(name, order, in_file, missing=int(np.count_nonzero(~present)))


def is_order(column: ExaminedColumn) -> bool:
    """Return whether a column may order the rows: times, or distinct whole numbers that increase or are dense."""
    different, present = int(column.ranks.max(initial=-1)) + 1, int(np.count_nonzero(column.ranks >= 0))
    if column.kind == "time":
        return different >= _FEWEST_TIMES
    if column.kind != "whole" or different < _FEWEST_TIMES or different < present:
        return False
    increases = present == len(column.ranks) and bool(np.all(np.diff(column.ranks) > 0))
    return increases or column.span <= _SPARSE * present


@dataclass(frozen=True, slots=True, eq=False)
class ExaminedOutcome:
    """Outcome whose similarity between rows is measured: a numeric column, or one class of a text column.

    `values` are the `scores` of the rows that have a value, `present` says which rows have one, and `states` is the
    number of different values.
    """

    name: str
    column: str
    of_label: bool
    present: NDArray[np.bool_]
    values: NDArray[np.float64]
    states: int


def outcomes_of(rows: OpenRows, *, label: str | None, most: int) -> list[ExaminedOutcome]:
    """Return the outcomes to test: those of the label first, then those of up to `most` other columns."""
    named = rows.column(label) if label is not None else None
    found = [] if named is None else list(_of_column(named, of_label=True))
    others = [column for column in rows.columns if column.name != label and not is_order(column)]
    for column in others[:most]:
        found += _of_column(column, of_label=False)
    return found


def _of_column(column: ExaminedColumn, *, of_label: bool) -> Iterator[ExaminedOutcome]:
    if column.kind in ("whole", "number"):
        yield from _outcome(column.name, column, column.ranks, of_label=of_label)
    elif column.kind == "text":
        for rank, name in _classes(column, of_label=of_label):
            is_class = np.where(column.ranks < 0, -1, column.ranks == rank)
            yield from _outcome(name, column, is_class, of_label=of_label)


def _classes(column: ExaminedColumn, *, of_label: bool) -> list[tuple[int, str]]:
    if of_label:
        return [(rank, f"{column.name} = {text}") for rank, text in column.values.items()]
    counts = np.bincount(column.ranks[column.ranks >= 0])
    return [(int(rank), column.name) for rank in np.argsort(-counts, kind="stable")[:_MOST_CLASSES]]


def _outcome(
    name: str, column: ExaminedColumn, ranks: NDArray[np.int64], *, of_label: bool
) -> Iterator[ExaminedOutcome]:
    present = ranks >= 0
    counts = np.bincount(ranks[present], minlength=1)
    values = scores(ranks[present]) if counts.sum() - counts.max() >= _FEWEST_OTHERS else None
    if values is not None:
        yield ExaminedOutcome(name, column.name, of_label, present, values, int(column.ranks.max()) + 1)


# Resemblance of rows of one group, or of neighbours in an order.
#
# Everything is computed from ranks of values, scaled to mean 0 and variance 1, so that a few huge values cannot decide
# alone. p-values are those of shuffled rows: the sum of squares of interest is compared with the Beta law that has its
# mean and its variance under permutations (Box and Andersen 1955), which is exact enough for the strict levels used
# here.


@dataclass(frozen=True, slots=True)
class Resemblance:
    """A correlation between rows, at most 1, with its standard error and its p-value against shuffled rows."""

    correlation: float
    standard_error: float
    p_value: float


def scores(ranks: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """Return mid-ranks of values scaled to mean 0 and variance 1, or None if all values are equal."""
    counts = np.bincount(ranks)
    middle = (np.cumsum(counts) - counts / 2.0)[ranks]
    spread = float(middle.std()) if len(middle) else 0.0
    return None if spread == 0.0 else (middle - middle.mean()) / spread


def within_groups(groups: NDArray[np.int64], values: NDArray[np.float64]) -> Resemblance | None:
    """Compute the intra-class correlation of nonempty groups by one-way analysis of variance.

    The result is None if there are fewer than two groups, or no group has two rows. Values are those of `scores`.
    """
    sizes, means, within = _parts(groups, values)
    rows, number = len(values), len(sizes)
    if number < 2 or rows <= number:
        return None
    between = float(np.sum(sizes * (means - values.mean()) ** 2))
    usual = (rows - float(np.sum(sizes**2)) / rows) / (number - 1)
    leverage = float(np.sum(1.0 / sizes)) - (2 * number - 1) / rows
    inside = _Squares(within, rows - number)
    return _components(_Squares(between, number - 1), inside, usual, leverage, _kurtosis(values))


def between_neighbours(groups: NDArray[np.int64], values: NDArray[np.float64]) -> Resemblance | None:
    """Compute the correlation within groups by comparing each group only with the next one.

    So slow changes from group to group cancel. For example, rows of one age are hardly more alike than rows of two
    neighbouring ages, while a household differs from the next one as much as from any other.
    """
    sizes, means, within = _parts(groups, values)
    left, right = sizes[:-1:2], sizes[1::2]
    if not len(right) or len(values) <= len(sizes):
        return None
    shared = left * right / (left + right)
    between = float(np.sum(shared * (means[:-1:2] - means[1::2]) ** 2))
    leverage = float(np.sum((right**2 / left + left**2 / right) / (left + right) ** 2))
    inside = _Squares(within, len(values) - len(sizes))
    usual = float(2.0 * shared.mean())
    return _components(_Squares(between, len(right)), inside, usual, leverage, _kurtosis(values))


def autocorrelation(values: NDArray[np.float64]) -> Resemblance | None:
    """Compute the correlation of each value with the next one, or None for fewer than three values."""
    rows = len(values)
    if rows < 3:
        return None
    correlation = float(np.mean(values[:-1] * values[1:]))
    error = 1.0 / math.sqrt(rows)
    # shuffled rows have the mean -1/rows and about this error, whatever the values
    p_value = float(2.0 * scipy.special.ndtr(-abs(correlation + 1.0 / rows) / error))
    return Resemblance(min(correlation, 1.0), math.sqrt(max(1.0 - correlation**2, 0.0)) * error, p_value)


def _parts(
    groups: NDArray[np.int64], values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return the sizes and means of groups, and the sum of squares within groups."""
    sizes = np.bincount(groups).astype(np.float64)
    means = np.bincount(groups, weights=values) / sizes
    return sizes, means, float(np.sum((values - means[groups]) ** 2))


def _kurtosis(values: NDArray[np.float64]) -> float:
    """Return the fourth moment of values with mean 0 and variance 1."""
    return float(np.mean(values**4))


class _Squares(NamedTuple):
    """A sum of squares with its degrees of freedom."""

    total: float
    dof: int

    @property
    def mean(self) -> float:
        return self.total / self.dof


def _components(between: _Squares, within: _Squares, size: float, leverage: float, kurtosis: float) -> Resemblance:
    """Return a correlation with its error and p-value, from sums of squares between and within groups.

    `size` is the usual number of rows of a group. `leverage` is the sum of the squared diagonal elements of the
    projection on the groups, and `kurtosis` the fourth moment of the values.
    """
    signal, noise = between.mean, within.mean
    variance = signal + (size - 1.0) * noise
    correlation = (signal - noise) / variance if variance > 0.0 else 0.0
    spread = abs(1.0 - correlation) * (1.0 + (size - 1.0) * correlation)
    error = spread * math.sqrt(2.0 / (size * max(size - 1.0, 1e-9) * between.dof))
    if not between.total + within.total > 0.0:  # nothing differs inside groups, nor from the next one
        return Resemblance(0.0, error, 1.0)
    total = between.dof + within.dof
    share, mean = between.total / (between.total + within.total), between.dof / total
    moment = (kurtosis - 3.0) * (leverage - between.dof**2 / total) + 2.0 * between.dof * within.dof / total
    moment = max(moment / total**2, 1e-12 * mean)
    precision = max(mean * (1.0 - mean) / moment - 1.0, 1e-6)
    p_value = float(scipy.special.betaincc(mean * precision, (1.0 - mean) * precision, share))
    return Resemblance(min(correlation, 1.0), abs(error), p_value)


# Likeness of rows inside declared groups: one correlation, from the training rows, for what answers are expected.

UNKNOWN = 1.0
"""Likeness assumed if training rows do not show it: all rows of a group are alike, which is the widest."""

_MOST_ROWS = 100_000


def declared_likeness(path: Path, declared: DependenceModel | None, *, label: str | None) -> float | None:
    """Return the correlation of rows inside declared groups, None without declared groups or a training file."""
    groups = None if declared is None else declared.unit_column
    return likeness(path, groups=groups, label=label) if groups is not None and path.exists() else None


def likeness(path: Path, *, groups: str, label: str | None) -> float:
    """Estimate an upper bound on the correlation of the label within groups from training rows, in [0, 1].

    Args:
        path: A Parquet file of training rows; no other file is read.
        groups: Column whose equal values make a group.
        label: Name of the label column; None if there is no label, in which case nothing is known.

    Returns:
        The largest bound over the classes of the label, or `UNKNOWN` if the rows do not show it.

    Raises:
        EverholdError: If the Parquet file cannot be read.
    """
    if label is None or label == groups:
        return UNKNOWN
    with Embedded.of_open_rows(path) as engine:
        file = OpenFile(engine, label=label, also=(groups,))
        if not {groups, label} <= file.kinds.keys():
            return UNKNOWN
        return likeness_of_rows(file.whole_groups(groups, (label,), _MOST_ROWS), groups=groups, label=label)


def likeness_of_rows(rows: OpenRows, *, groups: str, label: str) -> float:
    """Compute `likeness` from training rows that were already read."""
    column = rows.column(groups)
    if column is None:
        return UNKNOWN
    found = []
    for outcome in outcomes_of(rows, label=label, most=0):
        of_row = np.unique(column.ranks[outcome.present], return_inverse=True)[1]
        if (alike := within_groups(of_row, outcome.values)) is not None:
            found.append(alike.correlation + alike.standard_error)
    return float(np.clip(max(found, default=UNKNOWN), 0.0, 1.0))


# Dates and times that are held as text, or as whole numbers such as 20240131: parsed strictly, a column as a whole.

_CLOCK = r"(?:[ T](?P<clock>\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)(?P<zone>Z|[+-]\d{2}:?\d{2})?)?"
_YEAR = r"(?P<y>(?:1[5-9]|20|21)\d{2})"  # others are hardly years
_SHAPES = tuple(
    re.compile(shape)
    for shape in (
        rf"{_YEAR}(?P<by>[-/.])(?P<m>\d{{1,2}})(?P=by)(?P<d>\d{{1,2}}){_CLOCK}",
        rf"{_YEAR}(?P<m>\d{{2}})(?P<d>\d{{2}})",
        rf"{_YEAR}-(?P<m>\d{{2}})",
        rf"(?P<d>\d{{1,2}})(?P<by>[-/.])(?P<m>\d{{1,2}})(?P=by){_YEAR}{_CLOCK}",
        rf"(?P<m>\d{{1,2}})(?P<by>[-/.])(?P<d>\d{{1,2}})(?P=by){_YEAR}{_CLOCK}",
    )
)


def may_be_time(value: str) -> bool:
    """Return whether a text has the shape of a date or a time."""
    return any(shape.fullmatch(value.strip()) for shape in _SHAPES)


def as_times(values: Sequence[str]) -> NDArray[np.datetime64] | None:
    """Parse texts as moments in time, shape (values,), or return None if their format is unclear or mixed.

    ``03/04/2024`` alone may be in March or in April: days and months are told apart only if some day is above 12.
    Moments with a zone are in UTC.

    Examples:
        >>> as_times(["31/01/2024", "01/02/2024"])
        array(['2024-01-31T00:00:00.000000', '2024-02-01T00:00:00.000000'], dtype='datetime64[us]')
        >>> as_times(["03/04/2024", "05/06/2024"]) is None, as_times(["2024-01-31", "none"]) is None
        (True, True)
    """
    found = [times for shape in _SHAPES if (times := _of_shape(values, shape)) is not None]
    if not found or any(not np.array_equal(found[0], other) for other in found[1:]):
        return None
    return found[0]


def _of_shape(values: Sequence[str], shape: re.Pattern[str]) -> NDArray[np.datetime64] | None:
    texts, offsets, separators = [], [], set()
    for value in values:
        match = shape.fullmatch(value.strip())
        if match is None:
            return None
        part = match.groupdict()
        day, zone = int(part.get("d") or 1), part.get("zone") or ""
        texts.append(f"{part['y']}-{int(part['m']):02}-{day:02}T{part.get('clock') or '00:00'}")
        offsets.append(_minutes(zone))
        separators.add(part.get("by"))
    if len(separators) > 1:
        return None
    try:
        return np.asarray(np.array(texts, dtype="datetime64[us]") - np.array(offsets, dtype="timedelta64[m]"))
    except ValueError:  # a 13th month, or a 31st of February
        return None


def _minutes(zone: str) -> int:
    if zone in ("", "Z"):
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    return (-1 if zone[0] == "-" else 1) * (60 * hours + minutes)


# Test whether units declared independent are alike where they share a value of a column.
#
# A unit is what the declared dependence takes as independent: a row, or a declared group. The claimed variance of a
# total is the sum of the squared unit totals. Rows of different units with a common value add the products of their
# totals. Independent units have products that cancel. The sum of all products is compared with the law that it has when
# the sign of every unit is tossed: a quadratic form with known second and third cumulants, taken as a shifted gamma law
# (Pearson's type III). Its tail is an approximation, so no p-value is limited by a number of simulations.
#
# Source: Imhof 1961 and Pearson 1959 for quadratic forms; the cumulants are sums over ``A``, ``A A`` and ``A A A``,
# where ``A`` has the products of two units off its diagonal and 0 on it.


_MOST_DENSE = 2_000_000  # entries of a matrix that is multiplied as a dense one
_LENGTHS, _FEWEST_BLOCKS = 8, 8
_NO_SKEW, _MOST_SKEW = 1e-6, math.sqrt(8.0)  # of a normal law, and of the square of one


@dataclass(frozen=True, slots=True)
class Shared:
    """The part of a total's variance that is common to several units.

    Attributes:
        claimed: Sum of the squared unit totals.
        added: Amount that units with a common value add to this sum; about 0 if units are independent.
        p_value: Chance of an amount as large as this if units are independent.
    """

    claimed: float
    added: float
    p_value: float

    @property
    def ratio(self) -> float:
        """The variance of the total divided by the variance claimed for independent units."""
        return 1.0 + self.added / self.claimed if self.claimed > 0.0 else 1.0


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """The pairs of a unit and a column value that occur together, for values shared by several units.

    Attributes:
        rows: Rows that lie in one of the cells, shape (some rows,).
        of_row: Number of the cell of each row that has a value.
        units: The unit of each cell, numbered from 0; shape (cells,).
        codes: The value of each cell, numbered from 0; shape (cells,).
        sizes: Rows of each cell.
    """

    rows: NDArray[np.int64]
    of_row: NDArray[np.int64]
    units: NDArray[np.int64]
    codes: NDArray[np.int64]
    sizes: NDArray[np.float64]


class Crossing:
    """A table of rows by unit and by the value of a column, built once to test many outcomes.

    Args:
        codes: Value of each row as a number from 0, shape (rows,); -1 if it is missing.
        units: Unit of each row as a number from 0, shape (rows,); None if every row is a unit.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> school = np.repeat(np.arange(30), 400)
        >>> crossing = Crossing(school, np.arange(12_000) // 25)  # classes are declared
        >>> effects, noise = rng.normal(size=30)[school], rng.normal(size=12_000)
        >>> crossing.shared(noise - noise.mean()).p_value > 0.01
        True
        >>> crossing.shared(effects + noise - (effects + noise).mean()).ratio > 5.0
        True
    """

    def __init__(self, codes: NDArray[np.int64], units: NDArray[np.int64] | None = None) -> None:
        self._rows = len(codes)
        self._units = units
        rows = np.flatnonzero(codes >= 0)
        own = rows if units is None else units[rows].astype(np.int64)
        width = int(codes.max(initial=0)) + 1
        keys, of_row = np.unique(own * width + codes[rows], return_inverse=True)
        cell_units, cell_codes = np.divmod(keys, width)
        shared = np.bincount(cell_codes, minlength=width)[cell_codes] > 1
        place = np.where(shared, np.cumsum(shared) - 1, -1)
        kept = place[of_row] >= 0
        self._cells = _Cells(
            rows[kept],
            place[of_row][kept],
            np.unique(cell_units[shared], return_inverse=True)[1],
            np.unique(cell_codes[shared], return_inverse=True)[1],
            np.bincount(place[of_row][kept], minlength=int(shared.sum())).astype(np.float64),
        )

    @property
    def crossed(self) -> bool:
        """Whether at least two units share a value of the column."""
        return len(self._cells.units) > 0

    @cached_property
    def _nested(self) -> bool:
        return len(self._cells.units) == int(self._cells.units.max(initial=-1)) + 1

    @cached_property
    def _centring(self) -> tuple[float, float]:
        """Return the share of variance that products of units lose by centring, and the factor to correct it.

        Rows are at the mean together, so two units of n and m rows have the expected product
        ``- claimed * n m / rows^2``.
        """
        cells = self._cells
        whole = np.bincount(cells.codes, weights=cells.sizes)
        squares = float(np.sum(whole**2))
        lost = (squares - float(np.sum(cells.sizes**2))) / self._rows**2
        return lost, max(1.0 - squares / self._rows**2, 1e-9)

    @cached_property
    def _usual(self) -> tuple[float, float]:
        """Return both traces that are expected if each cell had its share of a total variance of 1.

        They are used for a rare outcome, because the rows in the cells may show none of its variance.
        """
        return _nested_traces(np.sqrt(self._cells.sizes / self._rows), self._cells.codes)

    def shared(self, values: NDArray[np.float64]) -> Shared:
        """Measure the variance that units have in common, from values with mean 0 and shape (rows,).

        If units have several values of the column, they are also compared within units, because an effect common to all
        rows of a unit would hide the effect of a value.
        """
        totals = values if self._units is None else np.bincount(self._units, weights=values)
        claimed = float(np.sum(totals**2))
        if not self.crossed or not claimed > 0.0:
            return Shared(claimed, 0.0, 1.0)
        found = self._products(values, claimed, float(np.mean(totals**3)) if self._nested else None)
        if self._nested or self._units is None:
            return found
        sizes = np.maximum(np.bincount(self._units), 1)
        inside = values - (totals / sizes)[self._units]
        inner = self._products(inside, float(np.sum(inside**2)), None)
        best = min(found, inner, key=lambda each: each.p_value)
        return Shared(claimed, max(found.added, inner.added), min(2.0 * best.p_value, 1.0))

    def _products(self, values: NDArray[np.float64], claimed: float, third: float | None) -> Shared:
        """Estimate the variance that units share, from products of their sums.

        If ``third`` is None, the third moment is that of the cells.
        """
        cells = self._cells
        found = np.bincount(cells.of_row, weights=values[cells.rows], minlength=len(cells.units))
        sums = np.asarray(found, dtype=np.float64)
        whole = float(np.sum(np.bincount(cells.codes, weights=sums) ** 2))
        lost, left = self._centring
        products = whole - float(np.sum(sums**2)) + lost * claimed
        seen = _nested_traces(sums, cells.codes) if self._nested else self._crossed_traces(sums)
        square, cube = max(seen[0], self._usual[0] * claimed**2), max(seen[1], self._usual[1] * claimed**3)
        numbers = np.bincount(cells.codes).astype(np.float64)
        lopsided = float(np.mean(sums**3)) if third is None else third
        cumulant = 8.0 * cube + 4.0 * lopsided**2 * float(np.sum(numbers * (numbers - 1.0)))
        if not square > 0.0:
            return Shared(claimed, products / left, 1.0)
        spread = math.sqrt(2.0 * square)  # of a shifted gamma law with these cumulants
        skew, deviation = cumulant / spread**3, products / spread
        # a law that is more skewed than one square has most of its mass below the mean: both are looked at
        p_value = max(_gamma_tail(min(skew, _MOST_SKEW), deviation), _gamma_tail(skew, deviation))
        return Shared(claimed, products / left, p_value)

    def _crossed_traces(self, sums: NDArray[np.float64]) -> tuple[float, float]:
        """Return the traces of ``A A`` and ``A A A`` where some units have several values of the column."""
        cells = self._cells
        made: Any = scipy.sparse.csr_array((sums, (cells.units, cells.codes)))
        if made.shape[0] * made.shape[1] <= _MOST_DENSE:
            made = made.toarray()
        own = np.bincount(cells.units, weights=sums**2)
        by_unit, by_code = (float(np.sum(np.bincount(each) ** 2.0)) for each in (cells.units, cells.codes))
        if by_unit <= by_code:
            product = made.T @ made
            weighted = float(((made.T * own) @ made * product).sum())
        else:
            product = made @ made.T
            weighted = float(own @ (product * product).sum(axis=1))
        square = float((product * product).sum()) - float(np.sum(own**2))
        cube = float(((product @ product) * product).sum())
        return square, cube - 3.0 * weighted + 2.0 * float(np.sum(own**3))


def along(totals: NDArray[np.float64]) -> Shared:
    """Estimate the variance that ordered unit totals share with their neighbours.

    Blocks of several lengths are tried, and the length with the strongest result counts. Its p-value allows for all
    lengths.
    """
    found = [crossing.shared(totals) for crossing in _lengths(len(totals))]
    claimed = float(np.sum(totals**2))
    if not found:
        return Shared(claimed, 0.0, 1.0)
    best = min(found, key=lambda each: each.p_value)
    return Shared(claimed, best.added, min(best.p_value * len(found), 1.0))


@lru_cache(maxsize=8)
def _lengths(units: int) -> tuple[Crossing, ...]:
    """Return partitions of ordered units into blocks, in which block lengths double from one to the next."""
    block = block_of_rows(units)
    return tuple(
        Crossing(block >> bits) for bits in range(_LENGTHS)
        if _FEWEST_BLOCKS <= (int(block[-1]) >> bits) + 1 < units
    )  # fmt: skip


def _nested_traces(sums: NDArray[np.float64], codes: NDArray[np.int64]) -> tuple[float, float]:
    """Return the traces of ``A A`` and ``A A A`` for a column that has one value for each unit."""
    second, fourth, sixth = (np.bincount(codes, weights=sums**power) for power in (2, 4, 6))
    return float(np.sum(second**2 - fourth)), float(np.sum(second**3 - 3.0 * second * fourth + 2.0 * sixth))


def _gamma_tail(skew: float, deviation: float) -> float:
    """Return the probability that a gamma variable exceeds its mean by this many standard deviations."""
    if skew < _NO_SKEW:
        return float(scipy.special.ndtr(-deviation))
    shape = 4.0 / skew**2
    return float(scipy.special.gammaincc(shape, max(shape + deviation * math.sqrt(shape), 0.0)))
