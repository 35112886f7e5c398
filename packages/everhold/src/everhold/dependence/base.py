"""Contract of dependence models: leakage of a row's neighbours, and concentration of averages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from everhold.privacy.curves import PrivacyCurve

ISO_TIME = r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?"
"""Text that is a date or a time, as a regular expression."""

ONE_STEP = 0.1
"""By which share of itself a step may differ from the usual one: 28 days are within a tenth of 31."""


@dataclass(frozen=True, slots=True)
class SeriesFacts:
    """Positions of sealed and training rows in an order.

    Attributes:
        lengths: Length of a series to the number of sealed series of that length.
        ties: Whether two sealed rows of one series share a place in the order.
        training: Where the training rows of the same series stand, seen from the sealed ones.
        step: Usual distance of neighbouring sealed rows in the order, in units of the column (seconds for times): the
            mean of those within a tenth of the median; None where rows are alone.
        training_step: The same for the training rows; None where they are alone or there are none.
        least_step: The least distance of neighbouring sealed rows; None where rows are alone.
        apart: Least distance between the training rows and the sealed rows of one series, in steps: usual ones, or the
            least of that series where it is longer. None without any, or where nothing shows how long a step is.
    """

    lengths: Mapping[int, int]
    ties: bool
    training: Literal["none", "before", "after", "among"]
    step: float | None = None
    training_step: float | None = None
    apart: float | None = None
    least_step: float | None = None


@dataclass(frozen=True, slots=True)
class Links:
    """Rows to draw with a line between them: those that tell about each other whatever else is known.

    Attributes:
        places: Number of dots, a row or a latent node each.
        lines: Pairs of dots, from 0.
        latent: Dots that are no rows.
    """

    places: int
    lines: tuple[tuple[int, int], ...] = ()
    latent: frozenset[int] = frozenset()


class RowStructure(Protocol):
    """Facts about the arrangement of rows that a model may learn when they are sealed; never their values.

    The methods raise `DependenceError` if a column does not exist or has missing values.
    """

    @property
    def rows(self) -> int:
        """Number of sealed rows."""

    @property
    def training_rows(self) -> int:
        """Number of training rows."""

    def group_sizes(self, column: str) -> Mapping[int, int]:
        """Size of a group to the number of sealed groups of that size; rows with equal values are a group."""

    def shared_groups(self, column: str) -> int:
        """Number of groups with rows both in the holdout and in the training set."""

    def series(self, order_by: str, *, within: str | None) -> SeriesFacts:
        """Positions of the rows when each group of the column ``within`` is put in order."""

    def is_number(self, column: str) -> bool:
        """True if a column holds numbers, and no truth values, text or times."""

    def unknown_values(
        self, column: str, known: frozenset[str], *, side: Literal["both", "sealed", "training"] = "both"
    ) -> int:
        """Number of rows, of one side or both, whose text in the column is none of the known ones."""


class DependenceModel(ABC):
    """Dependence of the sealed rows on each other (theory, section 4).

    A model tells everything about itself: what it promises, what it asks of the rows, and its words. It is listed once,
    in `everhold.dependence.MODELS`. Models are frozen, hashable and comparable.

    Attributes:
        kind: Name of the model in its plain data.
        title: The kind in words.
        rows_are: What the rows are then, in two or three words.
        how_to_tell: Sentences that say when the assumption is wrong, how to check it, and what to do then.
        entries: All that the plain data may hold besides the kind, each with what it is in words.
        value_words: Entry and value, where a value has words of its own.
        influence_in: What lines of `influences` are, with their unit.
        holds_given_features: Whether labels depend on each other as declared when all features are known.
        independent: Whether rows are independent of each other, so that averages have exact binomial-KL tails.
        in_groups: Whether rows are in groups that are independent of each other, of the sizes `unit_counts`.
        assumes_no_law: Whether rows may depend on each other in any way, so that rows cannot speak against it.
    """

    __slots__ = ()

    kind: ClassVar[str]
    title: ClassVar[str]
    rows_are: ClassVar[str]
    how_to_tell: ClassVar[tuple[str, ...]]
    entries: ClassVar[Mapping[str, str]]
    value_words: ClassVar[Mapping[tuple[str, str], str]] = {}
    influence_in: ClassVar[str] = "max-influence (nats)"
    holds_given_features: ClassVar[bool] = False
    independent: ClassVar[bool] = False
    in_groups: ClassVar[bool] = False
    assumes_no_law: ClassVar[bool] = False

    def __init_subclass__(cls, **settings: Any) -> None:
        """Refuse a model with a kind that leaves out some of what it has to tell."""
        super().__init_subclass__(**settings)
        silent = [name for name in ("title", "rows_are", "how_to_tell", "entries") if not hasattr(cls, name)]
        if hasattr(cls, "kind") and silent:
            raise TypeError(f"the dependence model {cls.__name__} says nothing as {', '.join(silent)}; expected all")

    @abstractmethod
    def leakage(self, curve: PrivacyCurve, rows: int) -> PrivacyCurve:
        """The curve of the transcript about one row, averaged over rows (S4).

        Args:
            curve: The mechanism's own curve, for data sets that differ in one row.
            rows: Number of sealed rows.

        Raises:
            DependenceError: If the model says too little to bound it.
        """

    @abstractmethod
    def concentration(self, rows: int) -> float:
        """Effective number of independent rows for the average of a fixed query (S5).

        Raises:
            DependenceError: If the model says too little to bound it.
            ValueError: If there is no row.
        """

    @abstractmethod
    def describe(self) -> str:
        """The assumption in one plain sentence, as it stands in the certificate."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The model as plain data with its ``kind``; part of the certificate."""

    @classmethod
    @abstractmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; `everhold.dependence.dependence_from_dict` finds the class."""

    @property
    def dealable(self) -> bool:
        """Whether chance may deal rows, or groups of `group_column`, into parts that do not depend on each other."""
        return self.independent or (self.in_groups and self.group_column is not None)

    @property
    def miss(self) -> float:
        """Probability that the model itself is wrong, because it was learned from rows; every promise gives it up."""
        return 0.0

    def training_distance(self) -> float:
        """Total variation distance of the sealed rows from independence of the training rows (S3 gives it up).

        Statements that look at the leakage (S1) count the training rows there instead.
        """
        return 0.0

    def bayesian_price(self, epsilon: float, rows: int) -> float:
        """``max_i min_Q (|N_i|+1)/(epsilon - 4 b_i)``, the reciprocal of a privacy loss that gives ``epsilon``-BDP.

        Without structure all other rows are nearby (an empty quilt), which is always right.

        Source: Zhao 2017, Lemmas 2 and 3 (P5).
        """
        return rows / epsilon

    def bind(self, structure: RowStructure) -> DependenceModel:
        """The model for these very rows: columns are looked up, and what does not match is refused.

        Raises:
            DependenceError: If the model does not match the rows.
        """
        return self

    @property
    def group_column(self) -> str | None:
        """The column whose equal values make groups in which anything is allowed; None without one."""
        return None

    @property
    def unit_column(self) -> str | None:
        """The column whose equal values make the units whose sums are bet on; None without one."""
        return None

    @property
    def unit_counts(self) -> tuple[tuple[int, int], ...]:
        """Pairs of a size and the number of units of that size; empty where rows are in no units of known sizes."""
        return ()

    @property
    def largest_unit(self) -> int:
        """Rows of the largest unit; 1 where rows are in no units of known sizes."""
        return max((size for size, _ in self.unit_counts), default=1)

    @property
    def one_series(self) -> bool:
        """Whether all rows are one series, which rows that arrive can only go on with."""
        return False

    def check_follows(self, structure: RowStructure, *, training: bool) -> None:  # noqa: B027
        """Check that rows that arrive go on where the rows of one series end; others arrive in any order.

        Args:
            structure: The rows that arrive, as if sealed, beside all that are there already, as if training rows.
            training: Whether those that are there are training rows, and not sealed ones.

        Raises:
            DependenceError: If they do not.
        """

    def with_rows(self, rows: int, units: Mapping[int, int]) -> DependenceModel:
        """The model when other numbers of such rows are sealed.

        Args:
            rows: Number of rows.
            units: Size of a unit to the number of units of that size, where rows are in units.
        """
        return self

    @property
    def sorting_columns(self) -> tuple[str, ...]:
        """Columns by which the model sorts rows, the first one first; by default that of its groups, if it has one."""
        return () if self.group_column is None else (self.group_column,)

    def influences(self, distances: int) -> tuple[str, Mapping[str, NDArray[np.float64]]] | None:
        """Lines to draw of a row's influence: the model in words, and lines by name, each of shape (distances,).

        Args:
            distances: The largest distance in rows; the first entry of a line is for distance 1.

        Returns:
            None where influence does not go by distance.

        Raises:
            DependenceError: If the model says too little.
        """
        return None

    def links(self, most: int) -> Links | None:
        """Rows and lines between them, to draw.

        Args:
            most: The most dots that can be told apart.

        Returns:
            None where no lines can be drawn between rows, or there are too many.
        """
        return None

    def independent_sets(self) -> Mapping[int, int] | None:
        """Rows of a set to the number of such sets, whose rows are independent of each other; None where unknown."""
        return None


def require_rows(rows: int) -> None:
    """Refuse numbers of rows below 1.

    Raises:
        ValueError: If there is no row.
    """
    if not rows >= 1:
        raise ValueError(f"the number of rows is {rows}; expected at least 1")
