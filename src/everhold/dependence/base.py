"""What every dependence model answers: what a row's neighbours leak about it, and how averages concentrate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.privacy.curves import PrivacyCurve

__all__ = ["DependenceModel", "RowStructure", "SeriesFacts", "require_rows"]


@dataclass(frozen=True, slots=True)
class SeriesFacts:
    """How sealed and training rows stand in an order.

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


class RowStructure(Protocol):
    """What a model may learn about rows when they are sealed: how they are arranged, never what they say.

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
        """How many groups have rows both in the holdout and in the training set."""

    def series(self, order_by: str, *, within: str | None) -> SeriesFacts:
        """How the rows stand when each group of the column ``within`` is put in order."""

    def is_number(self, column: str) -> bool:
        """Whether a column holds numbers, and no truth values, text or times."""

    def unknown_values(
        self, column: str, known: frozenset[str], *, side: Literal["both", "sealed", "training"] = "both"
    ) -> int:
        """How many rows of one side or both have a value in the column whose text is none of the known ones."""


class DependenceModel(ABC):
    """How sealed rows depend on each other (theory, section 4).

    Models are frozen, hashable and comparable.

    Attributes:
        kind: Name of the model in its plain data.
        entries: Names of all that its plain data may hold besides the kind.
        binomial_tails: Whether averages have the exact binomial-KL tails of independent rows, not only Hoeffding's.
    """

    __slots__ = ()

    kind: ClassVar[str]
    entries: ClassVar[frozenset[str]]
    binomial_tails: ClassVar[bool] = False

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
    def miss(self) -> float:
        """Probability that the model itself is wrong, because it was learned from rows; every promise gives it up."""
        return 0.0

    def training_distance(self) -> float:
        """How far the sealed rows are from independent of the training rows, in total variation (S3 gives it up).

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


def require_rows(rows: int) -> None:
    """Refuse numbers of rows below 1.

    Raises:
        ValueError: If there is no row.
    """
    if not rows >= 1:
        raise ValueError(f"the number of rows is {rows}; expected at least 1")
