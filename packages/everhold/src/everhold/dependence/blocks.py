"""Tests of how many independent rows an ordered sample is worth, by how averages of blocks vary.

The rows are cut in order into blocks. If rows are independent, the sum of a block has a certain variance. If rows
resemble each other, the variance is larger by a factor, the *design effect*: the number of rows that count as one
independent row. Short blocks show what neighbours have in common, and long blocks what rows far apart do, so several
lengths are tried. Noise in the values makes the design effect smaller but does not hide it, while it can hide the
correlation of neighbours.

Source: the batch means of simulation studies; Kish 1965 for the design effect.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from everhold.errors import DependenceError, DependenceWarning, warn_caller

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from everhold.dependence.base import DependenceModel

_MOST_BLOCKS = 256
_FEWEST_BLOCKS = 8
_LIKE_NORMAL = 3.0  # rows of a block for each unit of kurtosis, below which its sum is not treated as normal
_LEVEL = 1e-3  # of a warning where a fitted model is right, all outcomes together
_SURE = 0.05  # chance that the true design effect is above the longest block that is told


@dataclass(frozen=True, slots=True)
class BlockVarianceTest:
    """The result of a test of how averages of blocks vary, with one entry for each outcome.

    Attributes:
        p_values: Probability, over all block lengths together, of a variance as large as this if rows are worth what is
            promised, shape (outcomes,). It is 1 if the test cannot be used, as for very rare outcomes.
        effects: Number of rows that count as one independent row, by block length. Shape (outcomes, lengths).
        freedom: Degrees of freedom of each effect, shape (outcomes, lengths).
        fit: Whether the sums of such blocks are treated as normal, shape (outcomes, lengths).
    """

    p_values: NDArray[np.float64]
    effects: NDArray[np.float64]
    freedom: NDArray[np.float64]
    fit: NDArray[np.bool_]

    @property
    def design_effects(self) -> NDArray[np.float64]:
        """Number of rows that count as one independent row, for the clearest block length. Shape (outcomes,)."""
        least = self.effects * self.freedom / scipy.special.chdtri(self.freedom, _SURE)
        surely = np.where(self.fit, least, 0.0)
        clearest = self.effects[np.arange(len(surely)), surely.argmax(axis=1)]
        return np.where(surely.max(axis=1) > 0.0, clearest, 1.0)

    @property
    def at_most(self) -> NDArray[np.float64]:
        """Upper ends for the design effect, shape (outcomes,).

        They are computed from the longest blocks too, because groups of that many consecutive rows promise no more than
        these rows are worth.
        """
        most = self.effects * self.freedom / scipy.special.chdtri(self.freedom, 1.0 - _SURE)
        return np.asarray(most.max(axis=1, initial=1.0))


@lru_cache
def bits_of_block(rows: int) -> int:
    """Return the least b for which blocks of ``2**b`` rows divide the rows into at most 256 blocks."""
    return max((rows - 1) // _MOST_BLOCKS, 0).bit_length()


def block_of_rows(rows: int) -> NDArray[np.int64]:
    """Return the number of the block of each row in order, from 0."""
    return np.arange(rows, dtype=np.int64) >> bits_of_block(rows)


@lru_cache
def sizes_of_blocks(rows: int) -> NDArray[np.int64]:
    """Return the number of rows of each block, as a read-only array."""
    sizes = np.bincount(block_of_rows(rows))
    sizes.setflags(write=False)
    return sizes


def block_variance_of_means(sums: ArrayLike, sizes: ArrayLike, *, promised: float = 1.0) -> BlockVarianceTest:
    """Test sums of row values in [0, 1] against the variance of truth values with the same mean.

    Args:
        sums: Sums of each block in order, shape (outcomes, blocks).
        sizes: Rows of each block, shape (blocks,).
        promised: Promised number of rows for each independent row.

    Examples:
        >>> rows = np.random.default_rng(0).integers(0, 2, 4_096)
        >>> free, copied = (block_variance_of_means([each.reshape(256, 16).sum(axis=1)], [16] * 256)
        ...                 for each in (rows, rows[np.arange(4_096) // 8]))
        >>> float(free.p_values[0]) > 0.01, 6 < float(copied.design_effects[0]) < 12
        (True, True)
    """
    totals, lengths = np.asarray(sums, dtype=np.float64), np.asarray(sizes)
    means = totals.sum(axis=1) / lengths.sum()
    variances = means * (1.0 - means)
    varies = variances > 0.0
    divisors = np.where(varies, variances, 1.0)
    centred = (totals - means[:, None] * lengths) / np.sqrt(divisors)[:, None]
    kurtoses = np.where(varies, (1.0 - 3.0 * variances) / divisors, np.inf)
    return _block_variance(centred, lengths, kurtoses=kurtoses, promised=promised)


def block_variance_of_values(values: NDArray[np.float64], *, promised: float = 1.0) -> BlockVarianceTest:
    """Test ordered values with mean 0 and variance 1, shape (rows,)."""
    block = block_of_rows(len(values))
    sums = np.asarray(np.bincount(block, weights=values), dtype=np.float64)[None, :]
    kurtoses = np.array([float(np.mean(values**4))])
    return _block_variance(sums, sizes_of_blocks(len(values)), kurtoses=kurtoses, promised=promised)


def block_variance_of_sums(
    sums: NDArray[np.float64], sizes: NDArray[Any], *, kurtosis: float, promised: float = 1.0
) -> BlockVarianceTest:
    """Test values with mean 0, variance 1 and this fourth moment, by their sums over blocks."""
    return _block_variance(sums[None, :], sizes, kurtoses=np.array([kurtosis]), promised=promised)


def _block_variance(
    centred: NDArray[np.float64], sizes: NDArray[Any], *, kurtoses: NDArray[np.float64], promised: float
) -> BlockVarianceTest:
    """Test the variance of block sums of standardised rows, as `block_variance_of_means` does.

    If rows are worth what is promised and blocks are long, the design effect over the promised one is about chi-square
    over its degrees of freedom. These are fewer if the sums have heavy tails (``kurtoses``: fourth moments of the rows,
    shape (outcomes,)). The result is the smallest p-value times the number of lengths.
    """
    rows, joining, begins, squares, usual = _joined_blocks(sizes.tobytes(), sizes.dtype.str)
    if not len(begins):
        none = np.zeros((len(centred), 1))
        return BlockVarianceTest(np.ones(len(centred)), none, none + 1.0, none > 0.0)
    effect = np.add.reduceat((centred @ joining) ** 2, begins, axis=1)
    effect /= rows * (1.0 - squares / rows**2)  # without the part of the mean that was taken out
    heavy = promised * np.maximum(kurtoses - 3.0, 0.0)[:, None] / usual
    freedom = (rows**2 / squares - 1.0) * 2.0 / (2.0 + heavy)
    fit = usual >= _LIKE_NORMAL * promised * kurtoses[:, None]
    tail = np.where(fit, scipy.special.chdtrc(freedom, freedom * effect / promised), 1.0)
    p_values = tail.min(axis=1) * max(np.count_nonzero(fit.any(axis=0)), 1)
    return BlockVarianceTest(np.minimum(p_values, 1.0), effect, freedom, fit)


@lru_cache(maxsize=8)
def _joined_blocks(
    sizes: bytes, kind: str
) -> tuple[float, NDArray[np.float64], NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    """Return the numbers that depend on the sizes of the shortest blocks alone, for all lengths of blocks.

    Each length joins pairs of blocks of the length before. If their number is odd, the last block stays alone.

    Returns:
        The number of rows; which blocks each longer block joins, shape (shortest blocks, blocks of all lengths); where
        each length begins among these; and the sum of squared sizes and the mean size of each length.
    """
    shortest = np.frombuffer(sizes, kind).astype(np.float64)
    steps = [2**power for power in range(32) if -(-len(shortest) // 2**power) >= _FEWEST_BLOCKS]
    parts = [np.eye(-(-len(shortest) // step)).repeat(step, axis=0)[: len(shortest)] for step in steps]
    begins = np.cumsum([0, *(part.shape[1] for part in parts)])[:-1]
    joining = np.concatenate(parts, axis=1) if parts else np.empty((len(shortest), 0))
    usual = np.array([shortest.sum() / part.shape[1] for part in parts])
    squares = np.array([np.sum((shortest @ part) ** 2) for part in parts])
    return float(shortest.sum()), joining, begins, squares, usual


def warn_of_long_memory(model: DependenceModel, outcomes: Sequence[NDArray[np.float64]], *, state: str) -> None:
    """Warn if long blocks of the rows that a model was fitted to vary more than the model says.

    The model was fitted to neighbouring rows. If a state that changes slowly is recorded with errors, neighbours are
    weakly correlated, and rows far apart nearly as strongly. The fit does not see that, but sums over long blocks show
    it.

    Args:
        model: The model that was fitted to the rows.
        outcomes: Numbers in the order of the rows: one array of shape (rows,) for each outcome that is tested.
        state: Name of the column, for the message.

    Warns:
        DependenceWarning: If the rows are clearly worth less than the model says.
    """
    rows = len(outcomes[0])
    try:
        promised = rows / model.concentration(rows)
    except DependenceError:  # it promises nothing yet
        return
    for outcome in outcomes:
        spread = float(outcome.std())
        if not spread > 0.0:
            continue
        found = block_variance_of_values((outcome - outcome.mean()) / spread, promised=promised)
        if float(found.p_values[0]) <= _LEVEL / len(outcomes):
            block = math.ceil(float(found.at_most[0]))
            text = (
                f"The model fitted to column {state!r} says that the {rows:,} training rows are worth "
                f"{rows / promised:,.0f} independent rows. Long blocks of them vary as if they were worth about "
                f"{rows / float(found.design_effects[0]):,.0f}, so the rows depend on rows further back. Do not "
                f"declare this model. Number blocks of at least {block:,} consecutive rows in a column 'block', and "
                "declare "
            )
            told = (f"{text}{declared}." for declared in ("Groups('block')", "--groups block"))
            warn_caller(DependenceWarning(next(told), for_shell=next(told)))
            return
