"""Synthetic tables: public weights over cells, made once from the sealed rows by MWEM or BLR."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, combinations, combinations_with_replacement, islice
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy

from everhold.arguments import positive, whole
from everhold.randomness import LARGEST_SCALE
from everhold.values.evaluation import UNIT
from everhold.values.universe import QueryFamily, Universe, WeightedCells
from everhold_privacy.curves import ZeroConcentratedCurve
from everhold_privacy.guarantees import transferred_interval
from everhold_privacy.mechanisms.selection import ExponentialMechanism

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from everhold.randomness import Noise
    from everhold_privacy.curves import BoundedRangeCurve, PrivacyCurve

MOST_ROWS = 2**26
"""Largest number of rows of a histogram: sums in grid units stay below 2**56."""


def checked_histogram(histogram: ArrayLike, *, cells: int, rows: int | None = None) -> NDArray[np.int64]:
    """Return a histogram as int64, shape (cells,), after checks whose messages quote no count.

    Raises:
        ValueError: If the histogram has another shape, negative counts or numbers other than integers, or not `rows`
            rows in total.
    """
    counts = np.asarray(histogram)
    if counts.shape != (cells,) or counts.dtype.kind not in "iu":
        raise ValueError(
            f"The histogram has the shape {counts.shape} and the type {counts.dtype}. Pass {cells:,} integers in one "
            "dimension."
        )
    if bool(np.any(counts < 0)) or bool(np.any(counts > MOST_ROWS)) or not 1 <= int(counts.sum()) <= MOST_ROWS:
        raise ValueError(
            f"The histogram has a negative count, or does not count 1 to {MOST_ROWS:,} rows. Pass the number of rows "
            "in each cell."
        )
    if rows is not None and int(counts.sum()) != rows:
        raise ValueError(
            f"The counts of the histogram do not sum to {rows:,}, the number of rows. Pass counts of the same rows."
        )
    return counts.astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticTable(WeightedCells):
    """Weights over combinations of column values, computed once from the sealed rows, with their promise.

    With probability `confidence`, the table's mean of *every* query of the family it was made for is within `radius`
    of the population's, all of them at once, in whatever order and after whatever else they are chosen. So is the mean
    of every mixture of these queries and their complements. Nothing is promised about other queries.

    Attributes:
        queries: Number of queries of the family.
        radius: Half-width, in the units of a mean in [0, 1].
        confidence: Probability with which the radius holds for all queries of the family.
        assumptions: Assumptions of the promise, in plain words.
        privacy: (epsilon, delta) of differential privacy towards every sealed row; None where no noise was added.
        margin: Part of the radius that is the same for all values (S2); the rest is largest in the middle.
        tilt: The eps of S2, which determines the part that depends on the value. 0 if there is no such part.
        simulated: Whether the noise can be reproduced, so that nothing is private.
    """

    method: str
    rows: int
    queries: int
    radius: float
    confidence: float
    statement: str
    assumptions: tuple[str, ...]
    privacy: tuple[float, float] | None
    margin: float
    tilt: float
    simulated: bool

    def __post_init__(self) -> None:
        weights = np.array(self.weights, dtype=np.float64)
        total = float(weights.sum())
        if weights.shape != (self.universe.cells,) or not bool(np.all(weights >= 0.0)) or not abs(total - 1.0) < 1e-6:
            raise ValueError(
                f"weights has the shape {weights.shape} and the sum {total}. Pass one weight for each cell, with sum 1."
            )
        weights.setflags(write=False)
        object.__setattr__(self, "weights", weights)

    def mean(self, vector: ArrayLike) -> float:
        """Return the table's mean of one query.

        Args:
            vector: Shape (cells,), boolean or numbers in [0, 1].

        Raises:
            ValueError: If the array has another shape or a value outside [0, 1].
        """
        values = np.asarray(vector, dtype=np.float64)
        if values.shape != self.weights.shape or not bool(np.all((values >= 0.0) & (values <= 1.0))):
            raise ValueError(
                f"The query has the shape {values.shape}, or values outside 0 to 1. Pass a "
                f"number from 0 to 1 for each of {self.universe.cells} cells."
            )
        return min(float(values @ self.weights), 1.0)

    def interval(self, vector: ArrayLike) -> tuple[float, float]:
        """Return an interval for the population value of a query of the family (S2)."""
        low, high = transferred_interval(
            self.mean(vector), margin=self.margin, epsilon=self.tilt, rounded_down=1.0 / UNIT
        )
        return float(low), float(high)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SyntheticTable:
        """Build a table from plain data that `to_dict` returned."""
        privacy = data["privacy"]
        return cls(
            **{
                **data,
                "universe": Universe.from_dict(data["universe"]),
                "weights": np.asarray(data["weights"]),
                "assumptions": tuple(data["assumptions"]),
                "privacy": None if privacy is None else (privacy[0], privacy[1]),
            }
        )


ROUNDING = 3.0 / UNIT
"""Queries, means of public weights and measurements are each rounded by less than one step of the grid."""

_LEAST_SLOPE, _HALVINGS = 1e-15, 24  # of the search for an allowance


@dataclass(frozen=True, kw_only=True)
class Synthesizer(ABC):
    """Base of methods that make a synthetic table from a histogram, by the exponential mechanism.

    Attributes:
        universe: The cells, listed without a look at the sealed rows.
        queries: The family of queries that the table shall answer.

    Raises:
        ValueError: If an attribute is out of its range or the queries are about other cells.
    """

    universe: Universe
    queries: QueryFamily
    rows: int

    method: ClassVar[str]

    def __post_init__(self) -> None:
        if self.queries.cells != self.universe.cells:
            raise ValueError(
                f"The queries are about {self.queries.cells} cells, and the universe has "
                f"{self.universe.cells}. Pass queries about the cells of this universe."
            )
        whole(self.rows, "rows", most=MOST_ROWS)

    @property
    @abstractmethod
    def selection(self) -> ExponentialMechanism:
        """The exponential mechanism of each choice."""

    @property
    @abstractmethod
    def candidates(self) -> int:
        """Number of candidates of each choice."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """Number of grid units of loss that correspond to a mean of 1."""

    @abstractmethod
    def curve(self) -> PrivacyCurve:
        """Return the hockey-stick curve of the table for one replaced row."""

    @abstractmethod
    def privacy(self) -> tuple[float, float]:
        """Return (epsilon, delta) of the table."""

    @abstractmethod
    def release(self, histogram: ArrayLike, noise: Noise) -> list[list[int]]:
        """Return the noisy whole numbers from which the table is computed.

        Args:
            histogram: Number of sealed rows in each cell, shape (cells,).
            noise: Source of randomness.

        Raises:
            ValueError: If the histogram is not one of `rows` rows; nothing was drawn.
        """

    @abstractmethod
    def learned(self, released: Sequence[Sequence[int]]) -> NDArray[np.float64]:
        """Return the weights of all cells that the released numbers determine, shape (cells,)."""

    @abstractmethod
    def _apart(self, beta: float) -> tuple[float, float]:
        """Return the alpha and the exceedance of `sampling` without the part that random choices add."""

    def sampling(self, beta: float) -> tuple[float, float]:
        """Return an alpha with small ``alpha + r(alpha) / beta``, and ``r(alpha) >= E(max_f |f(y) - f(x)| - alpha)_+``.

        The excess of a mean regret is at most the mean of the excesses, so all choices together add the excess of a
        single choice.
        """
        alpha, exceedance = self._apart(beta)
        regret, units, number = self.selection.exceedance, self.steps, self.candidates
        found = scipy.optimize.minimize_scalar(  # a regret in [0, 1] exceeds no alpha above 1
            lambda extra: extra + regret(extra, candidates=number, steps=units) / beta,
            bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-10},
        )  # fmt: skip
        extra = float(found.x)
        return alpha + extra, exceedance + regret(extra, candidates=number, steps=units)

    def allowance(self, exceedance: float) -> float:
        """Return nearly the smallest alpha for which ``r(alpha)`` is at most the exceedance, or 1 if none is found.

        It is for a table that shares a promise with other answers, of which each may add this exceedance to r (theory,
        budget).
        """
        low, high = _LEAST_SLOPE, 1.0
        alpha = self._alpha_within(low, exceedance)
        for _ in range(_HALVINGS):
            middle = math.sqrt(low * high)
            found = self._alpha_within(middle, exceedance)
            low, high = (low, middle) if math.isinf(found) else (middle, high)
            alpha = min(alpha, found)
        return min(alpha, 1.0)

    def _alpha_within(self, slope: float, exceedance: float) -> float:
        alpha, added = self.sampling(slope)
        return alpha if added <= exceedance else math.inf


MOST_CANDIDATES = 2**20
"""Candidate tables up to which the distribution is enumerated unless another limit is stated."""

_MOST_LOSS = 2**62
_MOST_VALUES = 2**26  # of all queries together: 512 MiB as doubles
_BLOCK = 2**20


def candidate_tables(cells: int, size: int) -> int:
    """Return the number of unordered tables of `size` rows, ``C(N + s - 1, s)``.

    Examples:
        >>> candidate_tables(4, 10)
        286
    """
    return math.comb(cells + size - 1, size)


def small_table_error(*, queries: int, cells: int, size: int) -> float:
    """Return the distance of the best table of `size` rows from any table, for all queries at once.

    The smaller of ``sqrt(ln(2|Q|) / (2 s))``, the expected largest error of s rows drawn with replacement, and
    ``floor(N/2) ceil(N/2) / (N s)``, what rounding the weights of N cells to multiples of 1/s changes at most. The
    first is at most ``sqrt(ln|Q| / s)``, the alpha of P10, from two queries on.

    Source: docs/theory, synthetic data.

    Examples:
        >>> round(small_table_error(queries=100, cells=1000, size=50), 3)
        0.23
        >>> small_table_error(queries=9, cells=4, size=10)
        0.1
    """
    sampled = math.sqrt(math.log(2.0 * queries) / (2.0 * size))
    rounded = (cells // 2) * ((cells + 1) // 2) / (cells * size)
    return min(sampled, rounded)


@dataclass(frozen=True, kw_only=True)
class BLR(Synthesizer):
    """Synthesizer that draws a small table: ``P[y] ~ exp(-epsilon n max_f |f(x) - f(y)| / 2)`` over tables of s rows.

    A table is a multiset of cells, each with the same prior weight. The losses ``max_f |s n f(x) - n s f(y)|`` are
    integers on the grid and one row moves them by ``s`` units, so that the law is exact.

    Attributes:
        size: s, the number of rows of a table.
        limit: Largest number of candidate tables that is enumerated.

    Raises:
        ValueError: If there are more candidates than the limit, with their number, or an attribute is out of range.

    Examples:
        >>> from everhold.randomness import SeededNoise
        >>> from everhold.values.universe import ListedColumn, Universe
        >>> universe = Universe((ListedColumn("colour", ("red", "green", "blue")),))
        >>> blr = BLR(universe=universe, queries=universe.marginals(1), rows=10_000, epsilon=0.05, size=10)
        >>> blr.learned(blr.release([5000, 3000, 2000, 0], SeededNoise(1)))
        array([0.5, 0.3, 0.2, 0. ])
    """

    epsilon: float
    size: int
    limit: int = MOST_CANDIDATES

    method: ClassVar[str] = "blr"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self.size, "size")
        whole(self.limit, "limit")
        positive(self.epsilon, "epsilon")
        if self.candidates > self.limit:
            raise ValueError(
                f"There are {_shown(self.candidates)} candidate tables of {self.size} rows "
                f"over {self.universe.cells} cells, more than the limit of {self.limit:,}. "
                "Use smaller tables, fewer cells, a higher limit, or MWEM."
            )
        if self.universe.cells * len(self.queries) > _MOST_VALUES:
            raise ValueError(
                f"{len(self.queries):,} queries about {self.universe.cells:,} cells have "
                f"more than {_MOST_VALUES:,} values, too many to enumerate. Use MWEM."
            )
        if self.steps > _MOST_LOSS:
            raise ValueError(
                f"rows times size is {self.rows * self.size:,}. Pass a smaller size, so that "
                f"it is at most {_MOST_LOSS // UNIT:,}."
            )

    @property
    def candidates(self) -> int:
        """Number of candidate tables."""
        return candidate_tables(self.universe.cells, self.size)

    @property
    def selection(self) -> ExponentialMechanism:
        """The exponential mechanism that chooses, with a sensitivity of `size` units."""
        return ExponentialMechanism(self.epsilon, sensitivity=self.size * UNIT)

    @property
    def steps(self) -> int:
        """Number of grid units of loss that correspond to a mean of 1."""
        return self.rows * self.size * UNIT

    def curve(self) -> BoundedRangeCurve:
        """Return the curve of one exponential mechanism."""
        return self.selection.curve()

    def privacy(self) -> tuple[float, float]:
        """Return the pure epsilon, and a delta of 0."""
        return self.epsilon, 0.0

    def _apart(self, beta: float) -> tuple[float, float]:
        """Return the largest error of a table of this size, and an exceedance of 0, because no error is larger."""
        return small_table_error(queries=len(self.queries), cells=self.universe.cells, size=self.size), 0.0

    def table(self, index: int) -> NDArray[np.int64]:
        """Return the candidate table with this index as the number of rows in each cell, shape (cells,)."""
        if not 0 <= index < self.candidates:
            raise ValueError(f"index is {index}. Pass a number from 0 to {self.candidates - 1}.")
        chosen = list(islice(self._codes(), index, index + 1))
        return np.asarray(self._counts(chosen)[0])

    def losses(self, histogram: ArrayLike) -> NDArray[np.int64]:
        """Return the secret loss ``n s max_f |f(x) - f(y)|`` of each candidate y in grid units, shape (candidates,)."""
        counts = checked_histogram(histogram, cells=self.universe.cells, rows=self.rows)
        sealed = self.queries.totals(counts) * self.size
        grid = _grid_of(self.queries)
        worst = [np.abs(sealed - self.rows * (tables @ grid).astype(np.int64)).max(axis=1) for tables in self._blocks()]
        return np.concatenate(worst)

    def _blocks(self) -> Iterator[NDArray[np.float64]]:
        """Yield all candidate tables in order as counts of rows, in arrays of shape (tables, cells)."""
        step = max(1, _BLOCK // max(self.universe.cells, len(self.queries), self.size))
        codes = self._codes()
        while chunk := list(islice(codes, step)):
            yield self._counts(chunk).astype(np.float64)

    @property
    def _by_bars(self) -> bool:
        """True if a table is encoded by the boundaries between its cells, which is the shorter code for few cells."""
        return self.universe.cells <= self.size

    def _codes(self) -> Iterator[tuple[int, ...]]:
        cells = self.universe.cells
        if self._by_bars:
            return combinations(range(self.size + cells - 1), cells - 1)
        return combinations_with_replacement(range(cells), self.size)

    def _counts(self, codes: list[tuple[int, ...]]) -> NDArray[np.int64]:
        cells, each = self.universe.cells, self.universe.cells - 1 if self._by_bars else self.size
        flat = np.fromiter(chain.from_iterable(codes), dtype=np.int64, count=len(codes) * each)
        if self._by_bars:
            ends = ((0, 0), (1, 1))
            bars = np.pad(flat.reshape(len(codes), each), ends, constant_values=((0, 0), (-1, self.size + cells - 1)))
            return np.asarray(np.diff(bars, axis=1) - 1)
        places = flat + np.repeat(np.arange(len(codes)) * cells, self.size)
        return np.bincount(places, minlength=len(codes) * cells).reshape(-1, cells)

    def release(self, histogram: ArrayLike, noise: Noise) -> list[list[int]]:
        """Return the index of the chosen candidate, drawn by the exact law."""
        return [[self.selection.choose(self.losses(histogram), noise, stream="blr")]]

    def learned(self, released: Sequence[Sequence[int]]) -> NDArray[np.float64]:
        """Return the weights of the chosen candidate."""
        return self.table(released[0][0]) / self.size


@lru_cache(maxsize=1)
def _grid_of(queries: Any) -> NDArray[np.float64]:
    """Return the values of all queries in all cells, in grid units, shape (cells, queries).

    Sums of up to 2**23 values stay exact.
    """
    block = queries.block(0, len(queries))
    return np.asarray(block.T.astype(np.float64) * (UNIT if block.dtype.kind == "b" else 1))


def _shown(count: int) -> str:
    return f"{count:,}" if count < 10**15 else f"about 10^{math.log10(count):.0f}"


EXCESSES = np.geomspace(1e-4, 1e4, 240)
"""The v at which ``E(V - v)_+`` is looked at, in units of the squared scale of a measurement."""

_DELTA = 1e-6  # of the (epsilon, delta) that is quoted
_LEAST = 1e-290
_TILTS = np.concatenate([np.geomspace(1e-4, 0.5, 40), 1.0 - np.geomspace(0.49, 1e-4, 30)])[:, None]


def mean_under(weights: NDArray[np.float64], query: NDArray[np.float64]) -> float:
    """Return the mean of a query with values in [0, 1] under weights that sum to 1, both of shape (cells,)."""
    return min(max(float(np.einsum("i,i->", query, weights)), 0.0), 1.0)


def taught(weights: NDArray[np.float64], query: NDArray[np.float64], released: float) -> NDArray[np.float64]:
    """Return weights after a released answer: multiplied by ``exp(4 (a - guess) q(c))`` in cell c, sum 1.

    If the sealed average is ``q(x) = a - e``, the relative entropy from the sealed histogram to the weights falls by
    at least ``2 ((q(x) - guess)^2 - e^2)``.

    Source: Hardt, Rothblum 2010; the constants: docs/theory, synthetic data.
    """
    step = 4.0 * (min(max(released, 0.0), 1.0) - mean_under(weights, query))
    grown = np.maximum(weights * np.exp(step * query), _LEAST)  # no weight becomes 0 for ever
    return np.asarray(grown / grown.sum())


@dataclass(frozen=True, kw_only=True)
class MWEM(Synthesizer):
    """Synthesizer that measures a badly approximated query in each of T rounds, and updates the weights.

    The table is the average of the weights before each round. Its largest error on the sealed rows is at most
    ``sqrt(ln N / (2T) + mean e_t^2) + mean regret_t``, with e_t the errors of the measurements and regret_t the
    difference between the error of the worst query and that of the chosen one. The method `sampling` turns this bound
    into the exceedance r of S1.

    Attributes:
        rounds: Number T of rounds.
        choice_epsilon: Privacy loss of each choice; one row moves the error of a query by one unit.
        scale: Scale of the Gaussian noise of each measurement, in the units of a mean.

    Raises:
        ValueError: If an attribute is out of its range.

    Examples:
        >>> from everhold.randomness import SeededNoise
        >>> from everhold.values.universe import ListedColumn, Universe
        >>> universe = Universe((ListedColumn("colour", ("red", "green", "blue"), rest="blue"),))
        >>> family = universe.marginals(1)
        >>> mwem = MWEM.concentrated(rho=0.01, rounds=40, rows=2_000_000, universe=universe, queries=family)
        >>> mwem.learned(mwem.release([1_000_000, 600_000, 400_000], SeededNoise(1))).round(1)
        array([0.5, 0.3, 0.2])
    """

    rounds: int
    choice_epsilon: float
    scale: float

    method: ClassVar[str] = "mwem"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self.rounds, "rounds")
        positive(self.choice_epsilon, "choice_epsilon")
        if not 0.0 < self.scale <= LARGEST_SCALE / self.steps:
            raise ValueError(
                f"scale is {self.scale}. Pass a positive number of at most {LARGEST_SCALE / self.steps:.3g}."
            )

    @classmethod
    def concentrated(cls, *, rho: float, rounds: int, rows: int, **others: Any) -> Self:
        """Return the synthesizer of total loss rho, shared equally by all choices and measurements.

        Args:
            rho: Zero-concentrated privacy loss of the whole run.
            rounds: Number T of rounds.
            rows: Number n of sealed rows.
            **others: Other arguments of the constructor.
        """
        positive(rho, "rho")
        whole(rounds, "rounds")
        whole(rows, "rows")
        share = rho / (2 * rounds)
        return cls(
            rounds=rounds, rows=rows, choice_epsilon=math.sqrt(8.0 * share),
            scale=1.0 / (rows * math.sqrt(2.0 * share)), **others,
        )  # fmt: skip

    @property
    def selection(self) -> ExponentialMechanism:
        """The exponential mechanism of each choice."""
        return ExponentialMechanism(self.choice_epsilon)

    @property
    def candidates(self) -> int:
        """Number of queries."""
        return len(self.queries)

    @property
    def steps(self) -> int:
        """Number of grid units of a sum that correspond to a mean of 1."""
        return int(self.rows) * UNIT

    @property
    def scale_on_grid(self) -> int:
        """Noise scale of a measured sum in grid units."""
        return math.ceil(self.scale * self.steps)

    def curve(self) -> PrivacyCurve:
        """Return the curve of all rounds: a choice costs ``epsilon^2/8``, a measurement ``1/(2 s^2)`` (s in rows)."""
        noise = self.scale_on_grid / UNIT
        return ZeroConcentratedCurve(self.rounds * (self.choice_epsilon**2 / 8.0 + 0.5 / noise**2))

    def privacy(self) -> tuple[float, float]:
        """Return the epsilon for ``delta = 1e-6``, and this delta."""
        return self.curve().epsilon(_DELTA), _DELTA

    def _apart(self, beta: float) -> tuple[float, float]:
        """Return alpha and exceedance of the measurements, ``sqrt(a + v)`` and ``E(V - v)_+ / (2 sqrt(a + v))``.

        The v is chosen for the smallest error.

        Here ``a = ln N/(2T)``, V is the mean of e_t^2, and ``E(sqrt(a + V) - sqrt(a + v))_+ <= E(V - v)_+ / (2 sqrt(a +
        v))``.
        """
        drawn = self.scale_on_grid / self.steps
        alpha = np.sqrt(math.log(self.universe.cells) / (2.0 * self.rounds) + drawn**2 * EXCESSES)
        exceedance = drawn**2 * self.excess() / (2.0 * alpha)
        best = int(np.argmin(alpha + exceedance / beta))
        return float(alpha[best]), float(exceedance[best])

    def excess(self) -> NDArray[np.float64]:
        """Return bounds on ``E(V - v)_+`` for each v of `EXCESSES`, in units of the squared scale.

        V is the mean squared error.
        """
        return _gaussian_excess(self.rounds)

    def measured(self, noise: Noise) -> int:
        """Return the noise of one measurement in grid units."""
        return int(noise.gaussian(self.scale_on_grid, 1, stream="measurement")[0])

    def release(self, histogram: ArrayLike, noise: Noise) -> list[list[int]]:
        """Return for each round the index of the chosen query and its noisy sum in grid units."""
        totals = self.queries.totals(checked_histogram(histogram, cells=self.universe.cells, rows=self.rows))
        released = []

        def ask(weights: NDArray[np.float64]) -> tuple[int, int]:
            public = np.rint(self.queries.means(weights) * self.steps).astype(np.int64)
            losses = self.steps - np.abs(totals - np.minimum(public, self.steps))
            chosen = self.selection.choose(losses, noise, stream="choice")
            released.append([chosen, int(totals[chosen]) + self.measured(noise)])
            return chosen, released[-1][1]

        self._learn(ask)
        return released

    def learned(self, released: Sequence[Sequence[int]]) -> NDArray[np.float64]:
        """Return the average, over all rounds, of the weights at the beginning of the round.

        Raises:
            ValueError: If there is not one pair for each round.
        """
        if len(released) != self.rounds:
            raise ValueError(f"There are {len(released)} pairs. Pass one for each of {self.rounds} rounds.")
        pairs = iter(released)
        return self._learn(lambda _: next(pairs))

    def _learn(self, ask: Callable[[NDArray[np.float64]], Sequence[int]]) -> NDArray[np.float64]:
        weights, average = np.full(self.universe.cells, 1.0 / self.universe.cells), np.zeros(self.universe.cells)
        weights /= weights.sum()
        for _ in range(self.rounds):
            average += weights
            chosen, total = ask(weights)
            weights = taught(weights, self.queries.vector(chosen), total / self.steps)
        return np.asarray(average / average.sum())


@lru_cache(maxsize=64)
def _gaussian_excess(rounds: int) -> NDArray[np.float64]:
    """Return Chernoff bounds on the excess of a mean of squared normals, the best of several tilts.

    A discrete Gaussian is sub-Gaussian with its own scale, so ``E e^{u T V / 2} <= (1 - u)^{-T/2}``; and
    ``(z)_+ <= e^{k z - 1} / k`` for every k.
    """
    exponent = -0.5 * rounds * (np.log1p(-_TILTS) + _TILTS * EXCESSES)
    with np.errstate(over="ignore"):
        bounds = 2.0 / (math.e * _TILTS * rounds) * np.exp(exponent)
    return np.asarray(np.minimum(bounds.min(axis=0), 1.0))  # E V <= 1
