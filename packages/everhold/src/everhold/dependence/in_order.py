"""The model of rows in order of time, such as days, weeks or rounds, without assumptions on dependence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NoReturn

from everhold.dependence.units import RowUnits
from everhold.errors import DependenceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.dependence.base import RowStructure
    from everhold.privacy.curves import PrivacyCurve


@dataclass(frozen=True, slots=True, init=False)
class InOrder(RowUnits):
    """A model of units that follow each other in time and may depend on each other in any way.

    Answers are about the average of what was to be expected on the sealed units given all that came before each of
    them. That is the mean of the population if rows are independent, and for a forecast its skill on these days without
    the luck of the day. It is not the mean of a stationary law: luck that lasts belongs to it (S15).

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

    def leakage(self, curve: PrivacyCurve, rows: int) -> NoReturn:
        """Raise DependenceError, because nothing bounds what a row tells about later ones.

        Raises:
            DependenceError: Always.
        """
        raise DependenceError(
            "Nothing is assumed about how rows in order depend on each other, so what noise hides cannot be bounded. "
            "Use mechanism='guess_and_check', which adds no noise."
        )

    @property
    def sorting_columns(self) -> tuple[str, ...]:
        """The column that orders the rows."""
        return () if self.column is None else (self.column,)

    def bind(self, structure: RowStructure) -> InOrder:
        """Look up the sizes of the units, after checking that all training rows come before the sealed ones."""
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
