"""The base of models with rows in units of public sizes, for groups and for units in order."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from everhold.dependence.base import DependenceModel, require_rows
from everhold.errors import DependenceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.dependence.base import RowStructure


@dataclass(frozen=True, slots=True, init=False)
class RowUnits(DependenceModel):
    """A base of models whose rows are in units, named by a column or given by their sizes.

    Attributes:
        unit: What a unit is called in messages.
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
            column: Name of the column that they come from.
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
        """Pairs of a unit's size and the number of such units, once they are known.

        Raises:
            DependenceError: Before.
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
        """Pairs of a unit's size and the number of such units, empty while unknown."""
        return self.counts

    def with_rows(self, rows: int, units: Mapping[int, int]) -> Self:
        """Return the model with units of these sizes and the same column."""
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
        try:
            number = 0 if isinstance(size, bool) else operator.index(size)
        except TypeError:
            number = 0
        if number < 1:
            raise DependenceError(f"The size of a {cls.unit} is {size!r}. Pass whole numbers of at least 1.")
        return number
