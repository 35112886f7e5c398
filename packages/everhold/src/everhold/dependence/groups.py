"""Rows that come in groups: households, patients, days, aircraft."""

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
    from everhold.privacy.curves import PrivacyCurve


@dataclass(frozen=True, slots=True, init=False)
class Groups(DependenceModel):
    """Rows of one group may depend on each other in any way; groups are independent of each other.

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

    column: str | None
    counts: tuple[tuple[int, int], ...]

    def __init__(self, groups: str | int | Iterable[int]) -> None:
        if isinstance(groups, str):
            if not groups:
                raise DependenceError("the column of the groups has no name; expected the name of a column, or sizes")
            _set(self, groups, {})
        else:
            _set(self, None, Counter(map(_whole, groups if isinstance(groups, Iterable) else [groups])))
            if not self.counts:
                raise DependenceError("there are no groups; expected at least one size; name a column or give sizes")

    @classmethod
    def of_counts(cls, counts: Mapping[int, int], *, column: str | None = None) -> Self:
        """Groups of known sizes.

        Args:
            counts: Size to the number of groups of that size.
            column: Name of the column that they come from.
        """
        made = cls([1])
        _set(made, column, {_whole(size): _whole(number) for size, number in counts.items()})
        return made

    @property
    def rows(self) -> int:
        """Number of rows of the known groups."""
        return sum(size * number for size, number in _known(self))

    @property
    def groups(self) -> int:
        """Number of known groups."""
        return sum(number for _, number in _known(self))

    def leakage(self, curve: PrivacyCurve, rows: int) -> PrivacyCurve:
        """A row's whole group may change with it (S4, H = size of the group); other numbers of rows keep the shares."""
        from everhold.dependence.leakage import LeakageCurve, RowClass, Spread

        total = self.rows
        classes = tuple(
            RowClass(size * number / total, (Spread.quilt(nearby=size - 1),)) for size, number in _known(self)
        )
        return curve if self.counts[-1][0] == 1 else LeakageCurve(curve, classes)

    def concentration(self, rows: int) -> float:
        """``n^2 / sum k_c^2`` for groups of sizes k_c (S5); for other numbers of rows in proportion."""
        require_rows(rows)
        return rows * self.rows / sum(size * size * number for size, number in _known(self))

    def bayesian_price(self, epsilon: float, rows: int) -> float:
        """The quilt of a row is empty and its group is nearby: ``k / epsilon`` for the largest group."""
        return _known(self)[-1][0] / epsilon

    def independent_sets(self) -> Mapping[int, int] | None:
        """The sizes of the groups, once they are known."""
        return dict(self.counts) or None

    @property
    def group_column(self) -> str | None:
        """The column of the groups."""
        return self.column

    def bind(self, structure: RowStructure) -> Groups:
        """Look up the sizes of the groups; no group may have rows in the training set, too."""
        if self.column is None:
            times, rest = divmod(structure.rows, self.rows)
            if rest:
                raise DependenceError(
                    f"the groups have {self.rows} rows and the holdout has {structure.rows}; expected as many, or a "
                    "multiple; name the column of the groups instead of their sizes"
                )
            return Groups.of_counts({size: times * number for size, number in self.counts})
        shared = structure.shared_groups(self.column)
        if shared:
            raise DependenceError(
                f"{shared} groups of column {self.column!r} have rows in the holdout and in the training set; expected "
                "none, for rows of one group tell about each other; put whole groups on one side",
                shared=shared,
            )
        return Groups.of_counts(structure.group_sizes(self.column), column=self.column)

    def describe(self) -> str:
        """The assumption in one plain sentence."""
        of = "" if self.column is None else f" (equal values of column {self.column!r})"
        if not self.counts:
            return f"rows of different groups{of} are independent; inside a group anything is allowed"
        largest = self.counts[-1][0]
        return (
            f"the sealed rows form {self.groups:,} groups{of} of at most {largest:,} rows; rows of different groups "
            "are independent of each other and of the training set; inside a group anything is allowed; population "
            "values are for groups of these sizes"
        )

    def to_dict(self) -> dict[str, Any]:
        """``{"kind": "groups", "column", "counts": [[size, groups of that size], ...]}``."""
        return {"kind": self.kind, "column": self.column, "counts": [list(pair) for pair in self.counts]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; ``{"kind": "groups"}`` with a ``column`` or ``sizes`` alone is understood, too."""
        column, counts = data.get("column"), data.get("counts") or []
        if "sizes" in data:
            if isinstance(data["sizes"], str) or counts or column is not None:
                raise DependenceError("sizes of groups are numbers and stand alone; expected no column or counts, too")
            return cls(data["sizes"])
        if not isinstance(column, str | None):
            raise DependenceError(f"the column of the groups is {column!r}; expected the name of a column")
        if counts:
            return cls.of_counts({_whole(size): _whole(number) for size, number in counts}, column=column)
        if column is None:
            raise DependenceError("the data say nothing about the groups; expected a column, sizes or counts")
        return cls(column)


def _set(model: Groups, column: str | None, counts: Mapping[int, int]) -> None:
    object.__setattr__(model, "column", column)
    object.__setattr__(model, "counts", tuple(sorted(counts.items())))


def _known(model: Groups) -> tuple[tuple[int, int], ...]:
    if not model.counts:
        raise DependenceError(
            f"the groups of column {model.column!r} have no sizes until rows are sealed; expected sizes to plan "
            "with, such as Groups(5) for groups of five or Groups([3, 2, 5])"
        )
    return model.counts


def _whole(size: Any) -> int:
    try:
        number = 0 if isinstance(size, bool) else operator.index(size)
    except TypeError:
        number = 0
    if number < 1:
        raise DependenceError(f"the size {size!r} of a group is not valid; expected whole numbers of at least 1")
    return number
