"""Models of rows in units of public sizes: groups that are independent of each other, and units in order of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from everhold.arguments import as_whole
from everhold.dependence.base import DependenceModel, RowStructure, require_rows
from everhold.display import counted
from everhold.errors import DependenceError


@dataclass(frozen=True, slots=True, init=False)
class RowUnits(DependenceModel):
    """Base of models whose rows form units, given by a column or by their sizes.

    Attributes:
        unit: Word for one unit in messages, such as "group".
        column: Name of the column; None if only sizes were given.
        counts: Pairs (size, number of units of that size), by size; empty until the sizes are known.
    """

    unit: ClassVar[str]

    column: str | None
    counts: tuple[tuple[int, int], ...]

    def __init__(self, units: str | int | Iterable[int]) -> None:
        if isinstance(units, str):
            if not units:
                raise DependenceError(
                    f"The column of the {self.unit}s has no name. Pass the name of a column, or sizes."
                )
            self._set(units, {})
        else:
            self._set(None, Counter(map(self._whole, units if isinstance(units, Iterable) else [units])))
            if not self.counts:
                raise DependenceError(f"There are no {self.unit}s. Name a column, or pass at least one size.")

    @classmethod
    def of_counts(cls, counts: Mapping[int, int], *, column: str | None = None) -> Self:
        """Build the model from the numbers of units of each size.

        Args:
            counts: Size to the number of units of that size.
            column: Name of the column that gives the units; None if only sizes were given.
        """
        made = cls([1])
        made._set(column, {made._whole(size): made._whole(number) for size, number in counts.items()})
        return made

    @property
    def rows(self) -> int:
        """The number of rows in all known units."""
        return sum(size * number for size, number in self.known_counts)

    @property
    def known_counts(self) -> tuple[tuple[int, int], ...]:
        """Pairs of unit size and number of units.

        Raises:
            DependenceError: If the sizes are not known yet, because no rows were sealed.
        """
        if not self.counts:
            name = type(self).__name__
            raise DependenceError(
                f"The {self.unit}s of column {self.column!r} have no sizes until rows are sealed. Pass sizes to plan "
                f"with, such as {name}(5) for {self.unit}s of five, or {name}([3, 2, 5])."
            )
        return self.counts

    def concentration(self, rows: int) -> float:
        """Return ``n^2 / sum k_c^2`` for units of sizes k_c (S5), in proportion for other numbers of rows."""
        require_rows(rows)
        return rows * self.rows / sum(size * size * number for size, number in self.known_counts)

    @property
    def unit_column(self) -> str | None:
        """The column whose equal values form the units."""
        return self.column

    @property
    def unit_counts(self) -> tuple[tuple[int, int], ...]:
        """Pairs of unit size and number of units, empty while unknown."""
        return self.counts

    def with_rows(self, rows: int, units: Mapping[int, int]) -> Self:
        """Return the model with units of the given sizes and the same column."""
        return self.of_counts(units, column=self.column)

    def sized(self, structure: RowStructure) -> Self:
        """Return the model with the sizes that its units have among the sealed rows."""
        if self.column is not None:
            return self.of_counts(structure.group_sizes(self.column), column=self.column)
        times, rest = divmod(structure.rows, self.rows)
        if rest:
            raise DependenceError(
                f"The {self.unit}s have {self.rows} rows in all, and the holdout has {structure.rows}. Name the "
                f"column of the {self.unit}s instead of their sizes."
            )
        return self.of_counts({size: times * number for size, number in self.counts})

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"kind", "column", "counts": [[size, units of that size], ...]}``."""
        return {"kind": self.kind, "column": self.column, "counts": [list(pair) for pair in self.counts]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build the model from the data of `to_dict`, or from a kind with only a ``column`` or ``sizes``."""
        column, counts = data.get("column"), data.get("counts") or []
        if "sizes" in data:
            if isinstance(data["sizes"], str) or counts or column is not None:
                raise DependenceError(
                    f"sizes of {cls.unit}s are given together with a column or counts. Pass one of them."
                )
            return cls(data["sizes"])
        if not isinstance(column, str | None):
            raise DependenceError(f"The column of the {cls.unit}s is {column!r}. Pass the name of a column.")
        if counts:
            return cls.of_counts(dict(counts), column=column)
        if column is None:
            raise DependenceError(f"The {cls.unit}s are not described. Pass a column, sizes or counts.")
        return cls(column)

    def _set(self, column: str | None, counts: Mapping[int, int]) -> None:
        object.__setattr__(self, "column", column)
        object.__setattr__(self, "counts", tuple(sorted(counts.items())))

    @classmethod
    def _whole(cls, size: Any) -> int:
        """Return a size as a Python int, after a check that it is a whole number of at least 1."""
        number = as_whole(size)
        if number is None or number < 1:
            several = " If these are columns, pass the one with the largest groups." if isinstance(size, str) else ""
            raise DependenceError(f"The size of a {cls.unit} is {size!r}. Pass whole numbers of at least 1.{several}")
        return number


# The model of rows in groups, such as households, patients, days or aircraft.


@dataclass(frozen=True, slots=True, init=False)
class Groups(RowUnits):
    """A model of groups: rows of one group may depend in any way, and groups are independent of each other.

    Which rows are in which group is public. Intervals are about the average, over all sealed rows, of the expected
    value of each row, with groups of exactly these sizes. If rows in large groups differ from rows in small ones, a new
    sample with other group sizes has another average. Nothing is promised about the average of that sample.

    Args:
        units: Name of the column whose equal values make a group; or the size of all groups; or the sizes of the
            groups. The sizes of a column are looked up when rows are sealed.

    Attributes:
        column: Name of the column; None if only sizes were given.
        counts: Pairs (size, number of groups of that size), by size; empty until the sizes are known.

    Raises:
        DependenceError: If a size is not a whole number of at least 1, or the name of the column is empty.

    Examples:
        >>> Groups([2, 2, 4]).concentration(8)
        2.666...
        >>> Groups(5).concentration(20_000)
        4000.0
    """

    kind: ClassVar[str] = "groups"
    unit: ClassVar[str] = "group"
    title: ClassVar[str] = "groups of rows"
    rows_are: ClassVar[str] = "independent groups of rows"
    how_to_tell: ClassVar[tuple[str, ...]] = (
        "The assumption is wrong if rows of different groups share a source too: one doctor of many patients, one "
        "storm over many airports, days that follow each other.",
        "To check, look for another identifier or an order in time that joins rows of different groups, also across "
        "holdout and training, and ask how the groups were chosen.",
        "If it is wrong, the intervals are too narrow. Declare the larger groups when the holdout is created. Which "
        "rows belong together is taken as given: the population's value is the one for such groups.",
    )
    entries: ClassVar[Mapping[str, str]] = {
        "column": "column whose equal values make a group",
        "counts": "sizes of the groups, and how many there are of each",
        "sizes": "sizes of the groups",
    }
    holds_given_features: ClassVar[bool] = True
    in_groups: ClassVar[bool] = True

    @property
    def groups(self) -> int:
        """Number of groups. Raises DependenceError until their sizes are known."""
        return sum(number for _, number in self.known_counts)

    def bayesian_price(self, epsilon: float, rows: int) -> float:
        """Return ``k / epsilon`` for the largest group size k: all rows of a group count as nearby rows.

        See `DependenceModel.bayesian_price`.
        """
        return self.known_counts[-1][0] / epsilon

    def independent_sets(self) -> Mapping[int, int] | None:
        """Return the number of groups of each size, or None while the sizes are unknown."""
        return dict(self.counts) or None

    @property
    def group_column(self) -> str | None:
        """The name of the column whose equal values form the groups."""
        return self.column

    def bind(self, structure: RowStructure) -> Groups:
        """Return the model with the sizes of the groups of sealed rows.

        Args:
            structure: Columns and order of the sealed rows and of the training rows.

        Raises:
            DependenceError: If a group has both sealed rows and training rows, or the column is missing.
        """
        if self.column is None:
            return self.sized(structure)
        shared = structure.shared_groups(self.column)
        if shared:
            raise DependenceError(
                f"{counted(shared, 'group')} of column {self.column!r} {'has' if shared == 1 else 'have'} rows in the "
                "holdout and in the training set, and rows of one group depend on each other. Put each group on one "
                "side.",
                shared=shared,
            )
        return self.sized(structure)

    def describe(self) -> str:
        """Return the assumption as one plain sentence."""
        of = "" if self.column is None else f" (equal values of column {self.column!r})"
        if not self.counts:
            return (
                f"rows of different groups{of} are independent, and rows inside a group may depend on each other in "
                "any way"
            )
        largest = self.counts[-1][0]
        return (
            f"the sealed rows form {self.groups:,} groups{of} of at most {largest:,} rows, rows of different groups "
            "are independent of each other and of the training set, rows inside a group may depend on each other in "
            "any way, and population values are for groups of these sizes"
        )


# The model of rows in order of time, such as days, weeks or rounds, without assumptions on dependence.


@dataclass(frozen=True, slots=True, init=False)
class InOrder(RowUnits):
    """A model of units, such as days, that follow each other in time and may depend on each other in any way.

    Answers are about an average over the sealed units: that of the expected value of each unit, given everything before
    it (Statement S15 of docs/theory). If rows are independent, that is the mean of the population. For a forecast it is
    its skill on these days, without the random part of each day. It is not the mean of a stationary law, because it
    includes conditions that last for many days, such as a calm year.

    All training rows have to come before the first sealed unit. How many rows a unit has must not depend on what
    happens in it.

    Args:
        units: Name of the column that puts rows in order; rows with equal values are one unit, such as the rows of one
            day. Or the numbers of rows of the units, in plans.

    Attributes:
        column: Name of the column; None if only sizes were given.
        counts: Pairs (size, number of units of that size), by size; empty until the sizes are known.

    Raises:
        DependenceError: If a size is not a whole number of at least 1, or the name of the column is empty.

    Examples:
        >>> InOrder([1] * 1_480).concentration(1_480)
        1480.0
    """

    kind: ClassVar[str] = "in_order"
    unit: ClassVar[str] = "unit"
    title: ClassVar[str] = "rows in order of time"
    rows_are: ClassVar[str] = "rows in order of time"
    how_to_tell: ClassVar[tuple[str, ...]] = (
        "Nothing is assumed about how strongly or how long rows depend on each other. The assumption is wrong if the "
        "order is not that of time, if training rows come after sealed ones, or if the number of rows of a day depends "
        "on what happens on that day.",
        "To check, ask when each row was known, and look for columns that hold what became known later, such as "
        "figures that were revised or averages over days to come.",
        "Answers are about the sealed days, given what came before each of them. They say nothing about how later "
        "days will be.",
    )
    entries: ClassVar[Mapping[str, str]] = {
        "column": "column that puts rows in order",
        "counts": "numbers of rows of the units, and how many units there are of each",
        "sizes": "numbers of rows of the units",
    }
    assumes_no_law: ClassVar[bool] = True

    @property
    def sorting_columns(self) -> tuple[str, ...]:
        """Name of the column that puts the rows in order of time, in a tuple."""
        return () if self.column is None else (self.column,)

    def bind(self, structure: RowStructure) -> InOrder:
        """Return the model with the sizes of the sealed units, such as the number of rows of each day.

        Args:
            structure: Columns and order of the sealed rows and of the training rows.

        Raises:
            DependenceError: If a training row does not come before all sealed rows, or the column is missing.
        """
        if self.column is not None and structure.series(self.column, within=None).training not in ("none", "before"):
            raise DependenceError(
                f"Some training rows come after sealed rows, or at the same {self.column!r}. Training rows must all "
                f"come before the first sealed {self.column!r}, so cut the rows there."
            )
        return self.sized(structure)

    def describe(self) -> str:
        """Return the assumption as one plain sentence."""
        of = "" if self.column is None else f" by column {self.column!r}"
        units = f"{sum(number for _, number in self.counts):,} units" if self.counts else "units"
        return (
            f"the sealed rows are {units} in order of time{of}, after all training rows, and may depend on each other "
            "in any way, and a population value is the average of what was to be expected on the sealed units, given "
            "all that came before each of them (statement S15)"
        )
