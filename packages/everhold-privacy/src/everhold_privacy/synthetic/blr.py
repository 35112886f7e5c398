"""Blum, Ligett and Roth's synthetic data: the exponential mechanism over all small tables (P10)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, combinations, combinations_with_replacement, islice
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from everhold.values.evaluation import UNIT
from everhold.values.universe import checked_histogram
from everhold_privacy.mechanisms.selection import ExponentialMechanism
from everhold_privacy.synthetic.base import Synthesizer, checked_count

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from everhold.privacy.curves import BoundedRangeCurve
    from everhold.randomness import Noise

MOST_CANDIDATES = 2**20
"""Candidate tables up to which the distribution is enumerated unless another limit is stated."""

_MOST_LOSS = 2**62
_MOST_VALUES = 2**26  # of all queries together: 512 MiB as doubles
_BLOCK = 2**20


def candidate_tables(cells: int, size: int) -> int:
    """Number of tables of `size` rows without order, ``C(N + s - 1, s)``.

    Examples:
        >>> candidate_tables(4, 10)
        286
    """
    return math.comb(cells + size - 1, size)


def small_table_error(*, queries: int, cells: int, size: int) -> float:
    """Distance of the best table of `size` rows from any table, for all queries at once.

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
    """``P[y] ~ exp(-epsilon n max_f |f(x) - f(y)| / 2)`` over all tables y of s rows without order, drawn exactly.

    A table is a multiset of cells, each with the same prior weight. The losses ``max_f |s n f(x) - n s f(y)|`` are
    integers on the grid and one row moves them by ``s`` units, so that the law is exact.

    Attributes:
        size: s, the number of rows of a table.
        limit: Largest number of candidate tables that is enumerated.

    Raises:
        ValueError: If there are more candidates than the limit, with their number, or an attribute is out of range.

    Examples:
        >>> from everhold.randomness import SeededNoise
        >>> from everhold_privacy.synthetic import ListedColumn, Universe
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
        checked_count("size", self.size)
        checked_count("limit", self.limit)
        if not 0.0 < self.epsilon < math.inf:
            raise ValueError(f"epsilon is {self.epsilon}; expected a positive finite number, such as 0.1")
        if self.candidates > self.limit:
            raise ValueError(
                f"there are {_shown(self.candidates)} candidate tables of {self.size} rows over {self.universe.cells} "
                f"cells; expected at most {self.limit:,}; use smaller tables, fewer cells, a higher limit, or MWEM"
            )
        if self.universe.cells * len(self.queries) > _MOST_VALUES:
            raise ValueError(
                f"{len(self.queries):,} queries about {self.universe.cells:,} cells are too many to enumerate with; "
                f"expected at most {_MOST_VALUES:,} values in all; use MWEM"
            )
        if self.steps > _MOST_LOSS:
            raise ValueError(f"rows times size is {self.rows * self.size:,}; expected at most {_MOST_LOSS // UNIT:,}")

    @property
    def candidates(self) -> int:
        """Number of candidate tables."""
        return candidate_tables(self.universe.cells, self.size)

    @property
    def selection(self) -> ExponentialMechanism:
        """The mechanism that chooses; one row moves a loss by `size` units."""
        return ExponentialMechanism(self.epsilon, sensitivity=self.size * UNIT)

    @property
    def steps(self) -> int:
        """Grid units of a loss of 1."""
        return self.rows * self.size * UNIT

    def curve(self) -> BoundedRangeCurve:
        """That of one exponential mechanism."""
        return self.selection.curve()

    def privacy(self) -> tuple[float, float]:
        """Pure epsilon."""
        return self.epsilon, 0.0

    def _apart(self, beta: float) -> tuple[float, float]:
        """Error of smallness, which is certain."""
        return small_table_error(queries=len(self.queries), cells=self.universe.cells, size=self.size), 0.0

    def table(self, index: int) -> NDArray[np.int64]:
        """Rows in each cell of candidate number `index` in the order of `losses`, shape (cells,)."""
        if not 0 <= index < self.candidates:
            raise ValueError(f"index is {index}; expected a number from 0 to {self.candidates - 1}")
        chosen = list(islice(self._codes(), index, index + 1))
        return np.asarray(self._counts(chosen)[0])

    def losses(self, histogram: ArrayLike) -> NDArray[np.int64]:
        """``n s max_f |f(x) - f(y)|`` of every candidate y in grid units, shape (candidates,); secret."""
        counts = checked_histogram(histogram, cells=self.universe.cells, rows=self.rows)
        sealed = self.queries.totals(counts) * self.size
        grid = _grid_of(self.queries)
        worst = [np.abs(sealed - self.rows * (tables @ grid).astype(np.int64)).max(axis=1) for tables in self._blocks()]
        return np.concatenate(worst)

    def _blocks(self) -> Iterator[NDArray[np.float64]]:
        """Candidates in order, as counts; each of shape (some, cells)."""
        step = max(1, _BLOCK // max(self.universe.cells, len(self.queries), self.size))
        codes = self._codes()
        while chunk := list(islice(codes, step)):
            yield self._counts(chunk).astype(np.float64)

    @property
    def _by_bars(self) -> bool:
        """True if a table is written as bars between its rows, which is shorter for few cells, or as its rows."""
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
        """The number of the chosen candidate, drawn by the exact law."""
        return [[self.selection.choose(self.losses(histogram), noise, stream="blr")]]

    def learned(self, released: Sequence[Sequence[int]]) -> NDArray[np.float64]:
        """The chosen candidate's weights."""
        return self.table(released[0][0]) / self.size


@lru_cache(maxsize=1)
def _grid_of(queries: Any) -> NDArray[np.float64]:
    """All queries in grid units, shape (cells, queries); doubles hold them and sums of 2**23 of them exactly."""
    block = queries.block(0, len(queries))
    return np.asarray(block.T.astype(np.float64) * (UNIT if block.dtype.kind == "b" else 1))


def _shown(count: int) -> str:
    return f"{count:,}" if count < 10**15 else f"about 10^{math.log10(count):.0f}"
