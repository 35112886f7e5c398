"""The base class of dependence models: how rows leak about each other, and how averages concentrate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


ISO_TIME = r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?"
"""Regular expression of a text that is a date or a time."""

ONE_STEP = 0.1
"""Relative difference that a step may have from the usual one, such as 28 days from 31."""


@dataclass(frozen=True, slots=True)
class SeriesFacts:
    """Facts about the positions of sealed and training rows in an order, for series models.

    Attributes:
        lengths: Number of sealed series of each length.
        ties: True if two sealed rows of one series have the same value in the order column.
        training: Position of the training rows of the same series relative to the sealed rows: before, after, among
            them, or none.
        step: Usual distance of neighbouring sealed rows in the order, in units of the column (seconds for times): the
            mean of the distances within a tenth of the median. None if rows are alone in their series.
        training_step: Usual distance of neighbouring training rows; None if no series has two training rows.
        least_step: The least distance of neighbouring sealed rows; None if rows are alone in their series.
        apart: Least distance between the training rows and the sealed rows of one series, in usual steps, or in the
            least steps of the series if these are longer. None if no series has both kinds of rows, or nothing shows
            how long a step is.
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
    """A graph for a drawing, with rows as nodes and edges between rows that depend on each other directly.

    Attributes:
        places: Number of dots. Each is a row or a latent node.
        lines: Pairs of dots, from 0.
        latent: Numbers of the dots that are latent nodes and not rows.
    """

    places: int
    lines: tuple[tuple[int, int], ...] = ()
    latent: frozenset[int] = frozenset()


class RowStructure(Protocol):
    """Protocol of facts about rows that a model may read at sealing, such as group sizes but no values.

    The methods raise `DependenceError` if a column does not exist or has missing values.
    """

    @property
    def rows(self) -> int:
        """The number of sealed rows."""

    @property
    def training_rows(self) -> int:
        """The number of training rows."""

    def group_sizes(self, column: str) -> Mapping[int, int]:
        """Return the number of sealed groups of each size. Rows with equal values in the column are a group."""

    def shared_groups(self, column: str) -> int:
        """Return the number of groups with rows both among the sealed and among the training rows."""

    def series(self, order_by: str, *, within: str | None) -> SeriesFacts:
        """Return the positions of rows in an order, for each group of the column ``within``."""

    def is_number(self, column: str) -> bool:
        """Return whether a column holds numbers, not truth values, text or times."""

    def unknown_values(
        self, column: str, known: frozenset[str], *, side: Literal["both", "sealed", "training"] = "both"
    ) -> int:
        """Return the number of rows whose text in a column is not among the known texts."""


class DependenceModel(ABC):
    """Base of all models of how the sealed rows depend on each other (docs/theory, section 4).

    A model defines how well averages of rows concentrate, which columns it needs, and the texts that describe it. All
    models are listed in `everhold.dependence.MODELS`. They are frozen, hashable and comparable.

    Attributes:
        kind: Name of the model in the data that `to_dict` returns, such as ``"groups"``.
        title: Name of the model for people.
        rows_are: Two or three words that describe rows under this model.
        how_to_tell: Sentences that say when the assumption is wrong, how to check it, and what to do then.
        entries: Names of all other entries of the data that `to_dict` returns, each with a description.
        value_words: Pairs (entry, value) with the text that is shown in place of this value.
        influence_in: Words for the numbers that the lines of `influences` show, with their unit.
        holds_given_features: True if labels depend on each other as declared also when all features are known.
        independent: True if rows are independent of each other, so that averages have exact binomial-KL tails.
        in_groups: True if rows are in groups of the sizes `unit_counts`, and the groups are independent of each other.
        assumes_no_law: True if rows may depend on each other in any way, so that no rows can contradict the model.
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
        """Check that a model class with a kind defines all texts that describe the model."""
        super().__init_subclass__(**settings)
        silent = [name for name in ("title", "rows_are", "how_to_tell", "entries") if not hasattr(cls, name)]
        if hasattr(cls, "kind") and silent:
            raise TypeError(
                f"The dependence model {cls.__name__} does not define {', '.join(silent)}. Define all of title, "
                "rows_are, how_to_tell and entries."
            )

    @abstractmethod
    def concentration(self, rows: int) -> float:
        """Return the effective sample size of ``rows`` dependent rows, for the average of a query fixed in advance.

        The average of the dependent rows deviates from its expectation no more than that of this number of independent
        rows (Statement S5 of docs/theory).

        Raises:
            DependenceError: If the model says too little to bound the effective number of rows.
            ValueError: If ``rows`` is below 1.
        """

    @abstractmethod
    def describe(self) -> str:
        """Return the assumption that this model makes about the rows, as the sentence that the certificate shows."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the model as plain JSON data with its ``kind``, as the certificate holds it."""

    @classmethod
    @abstractmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild a model of this class from the plain data that `to_dict` returns.

        If the class is not known, call `everhold.dependence.dependence_from_dict`.
        """

    @property
    def dealable(self) -> bool:
        """Whether the sealed rows, or their groups, can be divided at random into parts that are independent."""
        return self.independent or (self.in_groups and self.group_column is not None)

    @property
    def miss(self) -> float:
        """Probability that this model is wrong because it was estimated from rows; every promise allows for it."""
        return 0.0

    def training_distance(self) -> float:
        """Return how far sealed and training rows are from independence of each other, in total variation distance.

        It is 0 if they are independent. Intervals whose proof is Statement S3 of docs/theory allow for it. Those of
        Statement S1 do not need it, because they count training rows among what was revealed.
        """
        return 0.0

    def bayesian_price(self, epsilon: float, rows: int) -> float:
        """Return 1 / (the differential privacy loss that guarantees a Bayesian privacy loss of ``epsilon``).

        Bayesian differential privacy (BDP) counts what an answer reveals about a row through rows that depend on it.
        The returned value is ``max_i min_Q (|N_i|+1)/(epsilon - 4 b_i)``. A quilt Q
        separates row i and its nearby rows N_i from the rest, which row i influences by b_i at most.
        The default counts all other rows as nearby (an empty quilt), which is always right.

        Args:
            epsilon: Requested loss of BDP, in nats.
            rows: Number of sealed rows.

        Source: Zhao 2017, Lemmas 2 and 3 (Statement P5 of docs/theory).
        """
        return rows / epsilon

    def bind(self, structure: RowStructure) -> DependenceModel:
        """Return the model completed by facts about the rows to be sealed, such as the sizes of groups.

        Args:
            structure: Columns and order of the sealed rows and of the training rows.

        Raises:
            DependenceError: If the rows do not have the columns or the form that the model declares.
        """
        return self

    @property
    def group_column(self) -> str | None:
        """Column whose equal values form groups of rows that may depend on each other in any way; None without one."""
        return None

    @property
    def unit_column(self) -> str | None:
        """Column whose equal values form the units of rows, such as groups, that intervals are made from; or None."""
        return None

    @property
    def unit_counts(self) -> tuple[tuple[int, int], ...]:
        """Pairs (rows in a unit, number of such units); empty if rows are in no units (groups) of known sizes."""
        return ()

    @property
    def largest_unit(self) -> int:
        """Number of rows of the largest unit, such as a group; 1 if rows are in no units of known sizes."""
        return max((size for size, _ in self.unit_counts), default=1)

    @property
    def one_series(self) -> bool:
        """Whether all rows are one time series, which rows that arrive later must continue."""
        return False

    def check_follows(self, structure: RowStructure, *, training: bool) -> None:  # noqa: B027
        """Raise DependenceError if all rows are one time series and arriving rows do not continue it.

        Args:
            structure: Facts about the arriving rows (as sealed rows) and all rows that exist already (as training
                rows).
            training: True if the rows that are there already are training rows; False if they are sealed rows.

        Raises:
            DependenceError: If the arriving rows do not continue the series.
        """

    def with_rows(self, rows: int, units: Mapping[int, int]) -> DependenceModel:
        """Return this model for another number of sealed rows.

        Args:
            rows: Number of sealed rows that the returned model is for.
            units: Number of units of each size, if rows are in units such as groups.
        """
        return self

    @property
    def sorting_columns(self) -> tuple[str, ...]:
        """Names of the columns by which the model sorts rows; by default its column of groups, if it has one."""
        return () if self.group_column is None else (self.group_column,)

    def influences(self, distances: int) -> tuple[str, Mapping[str, NDArray[np.float64]]] | None:
        """Return how much a row influences rows at a distance, for a chart: its title, and an array for each line.

        Args:
            distances: Largest distance, in rows. The first entry of a line is for the distance 1.

        Returns:
            None if influence does not depend on distance alone.

        Raises:
            DependenceError: If the model says too little to compute an influence.
        """
        return None

    def links(self, most: int) -> Links | None:
        """Return the graph of dependence for a drawing: rows are dots, and dependent rows have a line.

        Args:
            most: The most dots that a drawing may have.

        Returns:
            None if this model has no such lines, or too many of them.
        """
        return None

    def independent_sets(self) -> Mapping[int, int] | None:
        """Return the number of sets of rows, such as groups, of each size, if all sets are independent of each other.

        None if the model knows no such sets.
        """
        return None


def require_rows(rows: int) -> None:
    """Check that the number of rows is at least 1.

    Raises:
        ValueError: If ``rows`` is below 1.
    """
    if not rows >= 1:
        raise ValueError(f"The number of rows is {rows}. Pass at least 1.")


# The model of independent rows.


_SHOWN = 24  # rows of a picture


@dataclass(frozen=True, slots=True)
class Independent(DependenceModel):
    """A model of rows that are drawn independently of each other, perhaps from different laws.

    Examples:
        >>> Independent().concentration(20_000)
        20000.0
    """

    kind: ClassVar[str] = "independent"
    title: ClassVar[str] = "independent rows"
    rows_are: ClassVar[str] = "independent rows"
    how_to_tell: ClassVar[tuple[str, ...]] = (
        "The assumption is wrong if some rows share a source: several visits of one patient, days that follow each "
        "other, members of one household, copies of one record.",
        "To check, look for an identifier that occurs in more than one row, or on both sides, holdout and training. "
        "Look for an order in time or space, and ask how the rows were collected. The answers themselves cannot show "
        "it.",
        "If it is wrong, the intervals are too narrow. Declare the dependence when the holdout is created.",
    )
    entries: ClassVar[Mapping[str, str]] = {}
    holds_given_features: ClassVar[bool] = True
    independent: ClassVar[bool] = True

    def concentration(self, rows: int) -> float:
        """Return ``rows``: the effective sample size of independent rows (Statement S5 of docs/theory)."""
        require_rows(rows)
        return float(rows)

    def bayesian_price(self, epsilon: float, rows: int) -> float:
        """Return ``1 / epsilon``: if rows are independent, a Bayesian privacy loss is an ordinary one.

        See `DependenceModel.bayesian_price`.
        """
        return 1.0 / epsilon

    def links(self, most: int) -> Links:
        """Return a graph of at most ``most`` rows without lines, because rows are independent."""
        return Links(min(most, _SHOWN))

    def describe(self) -> str:
        """Return the assumption that rows are independent as one sentence, as the certificate shows it."""
        return "each sealed row was drawn independently of all the others and of the training set"

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"kind": "independent"}``."""
        return {"kind": "independent"}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build the model from the plain data that `to_dict` returns."""
        return cls()
