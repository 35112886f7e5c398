"""The mean of a vector per row, such as a gradient: one draw of noise for all coordinates, at the price of one mean."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import brief
from everhold.display import at_most, rounded
from everhold.errors import QueryRejected
from everhold.estimand import check_label_is_read
from everhold.queries.code import behaviour_digest, content_digest
from everhold.queries.statistic import check_positive
from everhold.sealing.rows.code_trials import (
    called,
    check_rows_alone,
    made_up_values,
    rows_of,
    sealed_values,
    varied_rows,
)
from everhold_privacy.mechanisms.privacy_budget import SHRINKAGE, VectorNoise
from everhold_privacy.queries.priced import (
    MechanismResult,
    NoisyPurchase,
    Paid,
    PricedQuery,
    checked_function_name,
    paying,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.mechanisms import State
    from everhold.queries.query import CompileContext
    from everhold.randomness import Noise
    from everhold.sealing.rows.table import StoredRows
    from everhold.values.base import RowFunction, Table
    from everhold_privacy.mechanisms.privacy_budget import PrivacyBudget


_MOST_DIMENSIONS = 10_000
_NUMBERS_AT_ONCE = 2**21  # of a function's values; a few copies of them are in memory
_MOST_TRIED = 10_000  # training rows
_SHOWN = 3
_LEAST_CLIP = 1e-300


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorAnswer(Paid):
    """A noisy mean vector, with intervals for the population's mean vector.

    Attributes:
        values: One number for each coordinate, shape (dimension,), read-only; None if the query was refused. They
            are not cut to the clipping length, so that their noise is on average 0.
        lows: Lower ends of the intervals of the coordinates; None if refused.
        highs: Upper ends; None if refused.
        within: Euclidean distance from the population's clipped mean vector, at most. This bound holds together with
            the intervals and all other answers. None if refused.
        clip: Euclidean length to which the vector of every row was clipped.
    """

    values: NDArray[np.float64] | None
    lows: NDArray[np.float64] | None
    highs: NDArray[np.float64] | None
    within: float | None
    clip: float

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dictionary for each coordinate with value, low and high, none if the query was refused."""
        if self.values is None or self.lows is None or self.highs is None:
            return []
        columns = zip(self.values.tolist(), self.lows.tolist(), self.highs.tolist(), strict=True)
        return [
            {"coordinate": place, "value": value, "low": low, "high": high}
            for place, (value, low, high) in enumerate(columns)
        ]

    def _found(self) -> str | None:
        if self.values is None:
            return None
        shown = ", ".join(rounded(value) for value in self.values[:_SHOWN])
        more = f", ... ({len(self.values):,} numbers)" if len(self.values) > _SHOWN else ""
        return f"({shown}{more}) within {at_most(self.within or 0.0)}"

    def _meaning(self) -> str:
        return (
            f"the mean vector, with each row's clipped to the length {self.clip:g}, is at most "
            f"{at_most(self.within or 0.0)} away (Euclidean distance), and each coordinate lies between its ends in "
            "lows and highs. A smaller tolerance= for more credits, a smaller clip=, more sealed rows or fewer "
            "planned queries make it sharper."
        )


@dataclass(frozen=True, slots=True)
class GradientQuery(PricedQuery[VectorAnswer]):
    """Query for the mean over rows of a clipped vector, made by `gradient`, which explains the attributes.

    Raises:
        ValueError: If dimension or clip is not a usable number.
    """

    function: RowFunction
    dimension: int
    clip: float
    name: str | None = None
    columns: Sequence[str] | None = None
    _token: str = field(default_factory=lambda: secrets.token_hex(16), init=False, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ValueError(f"function is a {type(self.function).__name__}. Pass a function from a table to vectors.")
        whole = isinstance(self.dimension, (int, np.integer)) and not isinstance(self.dimension, bool)
        if not whole or not 1 <= self.dimension <= _MOST_DIMENSIONS:
            raise ValueError(
                f"dimension is {brief(self.dimension)}. Pass a whole number from 1 to {_MOST_DIMENSIONS:,}, and "
                "project longer vectors with a fixed random matrix."
            )
        check_positive("clip", self.clip)
        object.__setattr__(self, "clip", float(self.clip))  # NumPy's short floats overflow
        if not _LEAST_CLIP <= self.clip <= 1.0 / _LEAST_CLIP:
            raise ValueError(f"clip is {self.clip!r}. Pass a number from 1e-300 to 1e300.")
        checked_function_name(self.name)

    def purchase(self, compiler: CompileContext) -> GradientPurchase:
        """Return the query for one holdout, after trying the function on public rows."""
        mechanism = paying(compiler.mechanism)
        if mechanism.unit > LARGEST_VECTOR_UNIT:
            raise QueryRejected(
                f"The holdout's grid has {mechanism.unit} steps, and vectors need at most "
                f"{LARGEST_VECTOR_UNIT}. Use a holdout with a coarser grid."
            )
        names = compiler.columns_read(self.columns)
        check_label_is_read(names, compiler.schema)
        most = max(min(_MOST_TRIED, _NUMBERS_AT_ONCE // int(self.dimension)), 2)
        public = compiler.public_rows(names, most=most)
        seen = [try_vectors_on_public_rows(self.function, public, dimension=self.dimension, clip=self.clip)]
        if compiler.training is None:
            varied = varied_rows({name: compiler.schema.columns[name] for name in names})
            seen.append(made_up_values(self.function, varied, (int(self.dimension),)))
        content = content_digest(self.function) or self._token
        noise = VectorNoise(mechanism, int(self.dimension))
        return GradientPurchase(self, noise, mechanism.scale, None, names, {
            "content": content, "on_public_rows": behaviour_digest(seen),
        })  # fmt: skip


@dataclass(frozen=True, slots=True)
class GradientPurchase(NoisyPurchase["NDArray[np.int64]", VectorAnswer]):
    """Purchase of a mean vector, for one holdout.

    Attributes:
        names: Columns that the function reads.
        code: Text that distinguishes the function from others (`everhold.queries.code`).
    """

    asked: GradientQuery
    noise: VectorNoise
    scale: float
    tolerance: float | None
    names: tuple[str, ...]
    code: Mapping[str, str]

    @property
    def description(self) -> dict[str, Any]:
        """Public facts that identify the query, in canonical form."""
        query = self.asked
        return {
            "kind": "gradient", "dimension": int(query.dimension), "clip": float(query.clip),
            "columns": None if query.columns is None else list(self.names),
            **({"token": query._token} if query.name is None else {"name": query.name}), **self.code,
            **self.requested[0],
        }  # fmt: skip

    @property
    def shown(self) -> str:
        """The query as a text for transcripts."""
        query = self.asked
        said = f"gradient {query.name or 'without a name'}, {query.dimension:,} numbers, clip {query.clip:g}"
        return f"{said}{self.requested[1]}"

    def width_at(self, mechanism: PrivacyBudget, scale: float) -> float:
        """Return the half-width in Euclidean length."""
        return self._width * self.noise.radius_at(scale)

    @property
    def _width(self) -> float:
        """Width of a mean over [0, 1] in a coordinate's units."""
        return 2.0 * float(self.asked.clip)

    def evaluate(self, sealed: StoredRows, unit: int) -> NDArray[np.int64]:
        """Return sums of the rows' clipped vectors in grid units, shape (dimension,). Faulty rows count as zero."""
        table, dimension = sealed.code.table(self.names), int(self.asked.dimension)
        total, step = np.zeros(dimension, dtype=np.int64), max(_NUMBERS_AT_ONCE // dimension, 1)
        for start in range(0, sealed.rows, step):
            part = {name: column[start : start + step] for name, column in table.items()}
            vectors = sealed_values(self.asked.function, part, min(step, sealed.rows - start), (dimension,))
            total += vectors_to_grid(vectors.astype(np.float64), clip=self.asked.clip, unit=unit).sum(axis=0)
        return total

    def answer(self, mechanism: PrivacyBudget, state: State, seen: NDArray[np.int64], noise: Noise) -> MechanismResult:
        """Draw noise once for all coordinates, and return the result."""
        state, vector = self.noise.answer(state, seen, noise, scale=self.scale)
        answer = {
            "value": vector.values.tolist(), "low": vector.lows.tolist(), "high": vector.highs.tolist(),
            "source": "holdout", "within": vector.within,
        }  # fmt: skip
        return MechanismResult(state, answer, vector.charged)

    def result(self, answer: Mapping[str, Any], **paid: Any) -> VectorAnswer:
        """Build the answer with all coordinates in the analyst's units."""
        values, lows, highs = (self._in_units(answer[end]) for end in ("value", "low", "high"))
        within = None if answer["within"] is None else self._width * answer["within"]
        return VectorAnswer(
            values=values, lows=lows, highs=highs, within=within, clip=float(self.asked.clip), **paid
        )  # fmt: skip

    def _in_units(self, means: Sequence[float] | None) -> NDArray[np.float64] | None:
        if means is None:
            return None
        numbers = np.asarray((np.array(means) - 0.5) * self._width)
        numbers.flags.writeable = False
        return numbers


def gradient(
    function: RowFunction,
    *,
    dimension: int,
    clip: float,
    name: str | None = None,
    columns: Sequence[str] | None = None,
) -> GradientQuery:
    """Build the query for the mean over rows of a vector, each clipped to a Euclidean length.

    One bound, on the Euclidean length of the error, holds for the whole vector. It needs a holdout with the mechanism
    ``"privacy_budget"``. It costs as much as one mean with the same noise, however long the vector is. The vector of a
    row must be computed from that row alone. The function is tried on the training rows (without a training set on rows
    of zeros and of ones), where every fault is reported. On sealed rows faults are never reported: a row on which the
    function fails, or whose vector is not finite, counts as the zero vector.

    Args:
        function: Function from a table (columns by name, NumPy arrays) to one vector per row, shape (rows, dimension).
            It receives some of the rows at a time.
        dimension: Length of the vectors, at most 10,000.
        clip: Longer vectors are shortened to this Euclidean length; the promise is about the mean of those.
        name: Functions of one name that are made of the same code and data (weights, too), and give the same for public
            rows, are one query. Without a name every new object is a new query.
        columns: Columns that the function reads; None for all but the row ids.

    Raises:
        ValueError: If dimension or clip is not a usable number.

    Examples:
        >>> pull = gradient(lambda table: np.column_stack([table["x"], table["y"]]), dimension=2, clip=1.0)
        >>> pull.dimension, pull.clip
        (2, 1.0)
    """
    return GradientQuery(function, dimension, clip, name, columns)


LARGEST_VECTOR_UNIT = 2**30
"""Largest grid on which the squares of a vector are summed exactly in 64 bits."""


def shortened(vectors: NDArray[np.float64], *, clip: float) -> NDArray[np.float64]:
    """Return vectors shortened to the length ``clip`` and divided by it; 0 if not finite, (rows, dimension)."""
    largest = np.abs(vectors).max(axis=1, initial=0.0)
    finite = np.isfinite(largest)  # also false for nan
    reach = np.maximum(np.where(finite, largest, 1.0), clip)[:, None]  # so that no square overflows
    scaled = np.where(finite[:, None], vectors, 0.0) / reach
    lengths = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, None]
    return np.asarray(scaled / np.maximum(lengths, clip / reach))


def vectors_to_grid(vectors: NDArray[np.float64], *, clip: float, unit: int) -> NDArray[np.int64]:
    """Convert clipped vectors to integers whose Euclidean length is at most ``unit / 2``, exactly.

    Numbers are rounded towards 0, which makes no vector longer; any two rows therefore differ by at most ``unit``.
    The lengths are checked in integers: floating point decides nothing.

    Args:
        vectors: Shape (rows, dimension).
        clip: The clipping length, which stands for ``unit / 2``.
        unit: Grid steps, at most `LARGEST_VECTOR_UNIT`.

    Examples:
        >>> vectors_to_grid(np.array([[3.0, 4.0], [0.3, 0.4], [np.nan, 1.0]]), clip=1.0, unit=1000)
        array([[299, 399],
               [149, 199],
               [  0,   0]])
    """
    grid = np.trunc(shortened(vectors, clip=clip) * (0.5 * unit * (1.0 - SHRINKAGE))).astype(np.int64)
    too_long = 4 * np.einsum("ij,ij->i", grid, grid) > unit * unit
    grid[too_long] = 0  # never, if floating point keeps its word
    return grid


def try_vectors_on_public_rows(
    function: RowFunction, table: Table, *, dimension: int, clip: float
) -> NDArray[np.float64]:
    """Check that a function returns one finite vector for each row, independent of other rows.

    Args:
        function: The function exactly as it is later applied to the sealed rows.
        table: Training rows, or `made_up_rows`.
        dimension: Length of the vectors.
        clip: Largest length of a vector. Longer vectors are scaled down to this length before they are compared.

    Returns:
        The clipped vectors in units of the clipping length.

    Raises:
        QueryRejected: If the values have another shape or are not finite. Nothing is charged.
    """

    def vectors(rows: Table) -> NDArray[np.float64]:
        array = np.asarray(called(function, rows, f"one vector of {dimension} numbers"))
        if array.shape != (rows_of(rows), dimension) or array.dtype.kind not in "biuf":
            raise QueryRejected(
                f"The values of the function have shape {array.shape} and type {array.dtype}. Return real numbers of "
                f"shape ({rows_of(rows)}, {dimension}), one vector for each row."
            )
        if not bool(np.all(np.isfinite(array))):
            raise QueryRejected(
                "The function returns NaN or infinite values for training or made-up "
                "rows. Fill in missing values, and keep exponentials in range."
            )
        return shortened(array.astype(np.float64), clip=clip)

    whole = vectors(table)
    check_rows_alone(vectors, table, whole)
    return whole
