"""The model of rows in groups, such as households, patients, days or aircraft."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from everhold.dependence.units import RowUnits
from everhold.errors import DependenceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.dependence.base import RowStructure
    from everhold.privacy.curves import PrivacyCurve


@dataclass(frozen=True, slots=True, init=False)
class Groups(RowUnits):
    """A model of groups: rows of one group may depend in any way, and groups are independent of each other.

    Which rows belong together is taken as given: it is public, and population values are for groups of these sizes: the
    sum over all sealed rows of what each is expected to be, over their number. Where groups that are larger differ from
    smaller ones, a new sample of groups has other sizes and another value, about which nothing is said.

    Args:
        groups: Name of the column whose equal values make a group; or the size of all groups; or the sizes of the
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
        """The number of known groups."""
        return sum(number for _, number in self.known_counts)

    def leakage(self, curve: PrivacyCurve, rows: int) -> PrivacyCurve:
        """See `DependenceModel.leakage`. A row's whole group may change with it (S4, H = size of the group)."""
        from everhold.dependence.leakage import LeakageCurve, RowClass, Spread

        total = self.rows
        classes = tuple(
            RowClass(size * number / total, (Spread.quilt(nearby=size - 1),)) for size, number in self.known_counts
        )
        return curve if self.counts[-1][0] == 1 else LeakageCurve(curve, classes)

    def bayesian_price(self, epsilon: float, rows: int) -> float:
        """Return ``k / epsilon`` for the largest group size k, as a row's group is nearby and its quilt empty."""
        return self.known_counts[-1][0] / epsilon

    def independent_sets(self) -> Mapping[int, int] | None:
        """Return how many groups there are of each size, or None while that is unknown."""
        return dict(self.counts) or None

    @property
    def group_column(self) -> str | None:
        """The name of the column whose equal values form the groups."""
        return self.column

    def bind(self, structure: RowStructure) -> Groups:
        """Look up the sizes of the groups, after checking that no group also has training rows."""
        if self.column is None:
            return self.sized(structure)
        shared = structure.shared_groups(self.column)
        if shared:
            raise DependenceError(
                f"{shared} groups of column {self.column!r} have rows in the holdout and in the training set, and "
                "rows of one group depend on each other. Put each group on one side.",
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
