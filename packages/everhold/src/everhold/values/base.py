"""Queries bound to a schema before they are answered, from public facts only.

Bound to the public `Schema` of a holdout, a query about rows is a `BoundQuery`, which carries either an expression that
an engine evaluates or functions from a table to one value per row. Its identity is the SHA-256 of a public description.
It never depends on sealed rows, because otherwise the identity would reveal something about them at no cost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from everhold.errors import QueryRejected
from everhold.strict_json import digest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.values.expressions import ColumnKind, RowValue
    from everhold.values.missing import MissingRule

Table = Mapping[str, "NDArray[Any]"]
"""Columns by name, one NumPy array each; missing numbers are nan, missing text is None."""

RowFunction = Callable[[Table], "NDArray[Any]"]
"""Function from a table to one value in [0, 1] for each row, computed from that row alone."""


class LocatedPredictions(ABC):
    """Base of predictions that are stored in the same engine as the sealed rows and are read by name."""

    __slots__ = ()

    @abstractmethod
    def located(self, queries: Sequence[Any], rows: Any, schema: Schema) -> list[Any]:
        """Return the queries with all predictions in the engine replaced by checked `JoinedColumn` objects.

        Args:
            queries: The queries, with or without such predictions.
            rows: The sealed rows, a `everhold.sealing.rows.evaluated_rows.RowStore`.
            schema: The public facts about the sealed rows.

        Raises:
            QueryRejected: If a table of predictions, its row ids or one of its columns cannot be used. Nothing is
                charged.
        """


@dataclass(frozen=True, slots=True)
class JoinedColumn:
    """A column of predictions in the engine that holds the sealed rows. A query joins the column to the sealed rows.

    Attributes:
        table: Name of the table with the predictions, in the form in which the store of the sealed rows refers to the
            table.
        name: Name of the column in this table.
        kind: Kind of the predictions: numbers, texts or truth values, which are joined as numbers.
        alias: Name of the column after the join.
        digest: SHA-256 of the predictions with their row ids; empty until it is computed.
    """

    table: Any = field(compare=False, repr=False)
    name: str
    kind: ColumnKind
    alias: str
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Joined:
    """A function that gives row values of sealed rows from predictions joined in the engine.

    Attributes:
        column: The column of predictions that were joined to the sealed rows in the engine.
        value: An expression over the columns of the sealed rows and the joined column.
    """

    column: JoinedColumn
    value: RowValue

    def __call__(self, table: Table) -> NDArray[Any]:
        """Raise TypeError, because the predictions stay in the engine."""
        raise TypeError("The predictions stay in the engine. Evaluate them with RowStore.evaluate.")


@dataclass(frozen=True, slots=True, eq=False)
class GivenValues:
    """A row function of predictions that an analyst handed in, held in memory.

    Attributes:
        given: The checked predictions, shape (rows,), in the order of the rows.
        judge: Function from predictions and the table of their rows to the row values.
    """

    given: NDArray[Any]
    judge: Callable[[NDArray[Any], Table], NDArray[Any]]

    def __call__(self, table: Table) -> NDArray[Any]:
        """Return the row values of a table."""
        return self.judge(self.given, table)


@dataclass(frozen=True, slots=True)
class StoredValues:
    """A row function of predictions that an analyst handed in, which are on disk and are read when they are needed.

    Attributes:
        read: Function that reads the checked predictions, shape (rows,), in the order of the rows.
        judge: Function from predictions and the table of their rows to the row values.
    """

    read: Callable[[], NDArray[Any]]
    judge: Callable[[NDArray[Any], Table], NDArray[Any]]

    def __call__(self, table: Table) -> NDArray[Any]:
        """Return the row values of a table."""
        return self.judge(self.read(), table)


@dataclass(frozen=True, slots=True)
class Schema:
    """Public facts about the rows before any query.

    Attributes:
        rows: Number of sealed rows.
        training_rows: Number of training rows; 0 without a training set.
        columns: Kind of each column, by name.
        label: Name of the label column, if one was named.
        label_kind: ``"binary"`` (0 and 1), ``"number"`` or ``"string"``; None if no label was named.
        row_id: Name of the column of row ids, if one was named. They are public: they say which rows are sealed.
        features_public: True if everybody may know all columns of the sealed rows but the label; False if the features
            are sealed, too.
        classes: Classes that a prediction may name: the declared ones, or those of the training labels. Empty if no
            class is known. None for the labels 0 and 1, and for open labels, which accept any prediction.
        categories: Categories of each categorical column of the training rows, for estimators.
        stratified: Column by whose values the table was split, so that both parts have them in the same shares; None if
            rows were divided at random without such a column.
        whole_groups: Columns by which whole groups were put on one side, as the values of both sides showed.
        independent: Columns that the steward says neither group nor order the rows.
        missing: Rule for missing values by column, for columns with a rule of the steward and for those of which sealed
            rows alone lack a value.
        about: Facts that say which rows a query is about, if rows arrived; part of the query's identity.
    """

    rows: int
    training_rows: int
    columns: Mapping[str, ColumnKind]
    label: str | None = None
    label_kind: str | None = None
    row_id: str | None = None
    features_public: bool = False
    classes: tuple[str | float, ...] | None = None
    categories: Mapping[str, tuple[str | float, ...]] = field(default_factory=dict)
    stratified: str | None = None
    whole_groups: tuple[str, ...] = ()
    independent: tuple[str, ...] = ()
    missing: Mapping[str, MissingRule] = field(default_factory=dict)
    about: tuple[tuple[str, int], ...] = ()

    @property
    def asked(self) -> dict[str, ColumnKind]:
        """The kinds of the columns that queries may read, by name: all columns but the row ids."""
        return {name: kind for name, kind in self.columns.items() if name != self.row_id}

    @property
    def label_classes(self) -> tuple[str | float, ...] | None:
        """All possible labels, or None if they are not public."""
        return (0.0, 1.0) if self.label_kind == "binary" else self.classes

    @property
    def features(self) -> tuple[str, ...]:
        """The names of all columns but the label and the row ids, in their order."""
        return tuple(name for name in self.columns if name not in (self.label, self.row_id))

    def without_arrival(self, description: Mapping[str, Any]) -> dict[str, Any]:
        """Return the description of a query without `about`, so that the query is the same whatever rows arrived."""
        return {name: value for name, value in description.items() if name not in dict(self.about)}


@dataclass(frozen=True)
class BoundQuery:
    """A query bound to the rows of a known schema: its identity, its units and how its row values are computed.

    Attributes:
        description: Public description in canonical form: two spellings of one query have the same description.
        shown: The query as a text for people, which is not part of its identity.
        at_zero: The analyst's number for a mean row value of 0.
        at_one: The analyst's number for a mean row value of 1; may be the smaller of the two.
        row_value: An expression for an engine to evaluate; None for functions.
        sealed: Row function for the sealed rows; None for expressions.
        training: Row function for the training rows. None for expressions, and if predictions were given for sealed
            rows only.
        reads: Columns that the functions read; None for all.
        at_fault: Row value in [0, 1] for a sealed row on which the functions fail: the worst possible one.
        by_position: True if a row value depends on the row's place among the sealed rows, as it does for an array of
            predictions; False if it depends on the row's columns alone.
        training_values: Row values of the training rows in grid units, if they are known already. For a number of all
            rows together: its predictions, if they were passed.
        yes_no: True if every row value is 0 or 1 by type. Any other value that code gives a sealed row is then rounded
            down.
        pair: The two queries from which this query is computed row by row; None for all others. A query with a pair has
            no row values of its own.
        facts: Facts for the ledger entry that are no part of the query's identity.
        unbounded: Two flags: True if the number can be below the lower end of its scale, and True if it can be above
            the upper end. The ends are ``at_zero`` and ``at_one``.
    """

    description: dict[str, Any]
    shown: str
    at_zero: float = 0.0
    at_one: float = 1.0
    row_value: RowValue | None = None
    sealed: RowFunction | None = None
    training: RowFunction | None = None
    reads: tuple[str, ...] | None = None
    at_fault: float = 0.0
    by_position: bool = False
    training_values: NDArray[Any] | None = field(default=None, repr=False, compare=False)
    yes_no: bool = False
    pair: Pair | None = None
    facts: dict[str, Any] = field(default_factory=dict, compare=False)
    unbounded: tuple[bool, bool] = (False, False)

    @property
    def clips(self) -> list[Clip]:
        """The ranges to which row values are clipped, in this query and in its parts."""
        own = kept_clips(self.facts) if CLIPS in self.facts else []
        return own if self.pair is None else [*own, *self.pair.first.clips, *self.pair.second.clips]

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns that the query reads, or None if it may read any column."""
        if self.pair is not None:
            first, second = self.pair.first.columns, self.pair.second.columns
            return None if first is None or second is None else tuple(sorted({*first, *second}))
        return self.reads if self.row_value is None else self.row_value.expression.columns()

    @property
    def predictions(self) -> NDArray[Any] | None:
        """The checked predictions that were passed for the rows, or None if code or an engine makes the values."""
        if isinstance(self.sealed, StoredValues):
            return self.sealed.read()
        return self.sealed.given if isinstance(self.sealed, GivenValues) else None

    @property
    def trained(self) -> bool:
        """Whether row values can be computed on training rows."""
        if self.pair is not None:
            return self.pair.first.trained and self.pair.second.trained
        return self.row_value is not None or self.training is not None

    @property
    def rounded_up(self) -> float:
        """Largest number of grid steps by which a row value on the grid can be above the exact one."""
        return 0.0 if self.pair is None else _rounded(self)[0]

    @cached_property
    def query(self) -> str:
        """SHA-256 of the description, in hex: the fingerprint of the query."""
        return digest(self.description)

    def from_mean(self, mean: float) -> float:
        """Convert a mean of row values in [0, 1] to the analyst's units."""
        return self.at_zero + (self.at_one - self.at_zero) * mean

    def to_mean(self, value: float) -> float:
        """Convert a value in the analyst's units to a mean of row values."""
        return (value - self.at_zero) / (self.at_one - self.at_zero)


def with_clips(bound: BoundQuery, clips: Sequence[Clip]) -> BoundQuery:
    """Return the query with clips noted in its ledger facts, which are no part of its identity."""
    return replace(bound, facts={**bound.facts, **noted_clips(clips)}) if clips else bound


def _rounded(query: BoundQuery) -> tuple[float, float]:
    """Return the largest number of grid steps by which a row value can be above, and below, the exact one."""
    if query.pair is None:
        return 0.0, 0.0 if query.yes_no else 1.0
    (above, below), (second_above, second_below) = _rounded(query.pair.first), _rounded(query.pair.second)
    if query.pair.how == "difference":
        return (above + second_below) / 2.0, (below + second_above + 1.0) / 2.0  # 1.0: the half is rounded down
    return above, below


@dataclass(frozen=True, slots=True, eq=False)
class Apart:
    """The rows on which two public arrays of predictions differ. On all others their row values are equal.

    Attributes:
        rows: Positions of the differing rows, shape (differing,).
        reach: Largest distance, in grid steps, of a differing row's value from that of a tie.
        unit: Grid steps between the row values 0 and 1.
        squares: Sum over these rows of the squared length of the interval in which the row value can lie.
    """

    rows: NDArray[np.intp]
    reach: int
    unit: int
    squares: float = 0.0

    def shares(self, grid: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the differing rows' values minus the least possible value, from 0 to ``2 reach``.

        Args:
            grid: Row values of the difference, shape (rows,).
        """
        return np.clip(grid[self.rows] - (self.unit // 2 - self.reach), 0, 2 * self.reach)


@dataclass(frozen=True, slots=True)
class Pair:
    """The two queries that one query combines row by row, and how it combines them.

    The row values a and b are on the grid ``0, 1, ..., unit``. The row value of a difference is ``(unit + a - b) / 2``,
    rounded down. That of "a within b" is ``min(a, b)``, and that of "a outside b" is ``min(a, unit - b)``. A ratio is
    ``sum min(a, b) / sum b``.

    Attributes:
        how: Name of the combination.
        first: The query from which the second is subtracted; or the numerator of a ratio, which counts only within the
            denominator.
        second: The query that is subtracted; or the one within or outside which the first one counts, which is the
            denominator of a ratio.
        apart: The rows on which two arrays of predictions differ; None for all other pairs.
    """

    how: Literal["difference", "within", "outside", "ratio"]
    first: BoundQuery
    second: BoundQuery
    apart: Apart | None = field(default=None, compare=False, repr=False)


def same_length(values: object, rows: int, *, what: str) -> NDArray[Any]:
    """Return values as a one-dimensional array, after checking that its length is the number of rows."""
    expected = "Pass one value for each row, in the order of the rows."
    try:
        array = np.asarray(values)
    except ValueError:
        raise QueryRejected(f"{what} have rows of different lengths. {expected}") from None
    if array.shape != (rows,):
        raise QueryRejected(
            f"{what} have the shape {array.shape}, and there are {rows:,} rows. {expected}",
            shape=list(array.shape),
            expected=[rows],
        )
    return array


# Clips: what of a row counts as the end of a range, because one row must not be able to move a mean at will.
#
# What counts for missing values is told in the same way.

CLIPS = "clips"
"""Name of the field of an entry's description that holds the query's clips."""

MANY_BEYOND = 0.001
"""Share of training rows beyond a clip above which everhold warns that the number means something else."""


@dataclass(frozen=True, slots=True)
class Clip:
    """A range for numbers of rows, or for a statistic. A number outside is replaced by the nearer end.

    Attributes:
        what: Name of the clipped numbers, such as ``"losses"``.
        low: Least number; None if nothing is clipped from below.
        high: Largest number; None if nothing is clipped from above.
        beyond: Share of training rows outside the range; None if it is not known. For a statistic of all rows it is 1
            if its value on the training rows lies outside, else 0.
        whole: True if the range is for a statistic of all rows; False if it is for the number of each row.
        said: Words for the steward's rule for missing values, if this note is about such a rule and not about a range.
            Else empty.
    """

    what: str
    low: float | None
    high: float | None
    beyond: float | None = None
    whole: bool = False
    said: str = ""

    @property
    def is_often(self) -> bool:
        """Whether more training rows are clipped than `MANY_BEYOND`, so that the answer needs a warning."""
        return not self.said and (self.beyond or 0.0) > MANY_BEYOND

    @property
    def named(self) -> str:
        """The clip in words.

        Examples:
            >>> Clip("losses", None, 6.5).named, Clip("values", 0.0, 60.0).named
            ('losses above 6.5 count as 6.5', 'values below 0 count as 0, and above 60 as 60')
        """
        if self.said:
            return f"{self.what} {self.said}"
        ends = [] if self.low is None else [f"below {self.low:.6g} count as {self.low:.6g}"]
        if self.high is not None:
            ends.append(f"above {self.high:.6g} {'count ' * (not ends)}as {self.high:.6g}")
        return f"{self.what} {', and '.join(ends)}"

    def __str__(self) -> str:
        if self.beyond is None:
            return f"{self.named} ({'whether' if self.whole else 'how many'} is not known)"
        if self.whole:
            return f"{self.named} (the training rows give one {'beyond' if self.beyond else 'within'})"
        share = f"{float(f'{100.0 * self.beyond:.2g}'):g} %" if self.beyond else "none"
        return f"{self.named} ({share} of the training rows)"

    def to_list(self) -> list[Any]:
        """Return the clip as a list, as the ledger stores it."""
        return [self.what, self.low, self.high, self.beyond, self.whole, *([self.said] if self.said else [])]


def noted_clips(clips: Sequence[Clip]) -> dict[str, Any]:
    """Return clips as a field of a ledger entry's description, or an empty mapping without clips."""
    return {CLIPS: [clip.to_list() for clip in clips]} if clips else {}


def kept_clips(description: Mapping[str, Any]) -> list[Clip]:
    """Return the clips that are stored in a ledger entry's description."""
    return [Clip(*each) for each in description.get(CLIPS, ())]


def clips_in_words(clips: Sequence[Clip]) -> str:
    """Describe several clips in one text without a final full stop, empty without clips."""
    return "; ".join(dict.fromkeys(map(str, clips)))
