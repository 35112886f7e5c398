"""AUC without public class counts: blocks of rows or of groups, or ranks of scores that are known (docs/theory/auc.md).

For independent rows, the units are rows of the rarer class. If there are more positives than negatives, both classes
are exchanged and scores change their sign, which does not change the AUC. A difference d of two AUCs stands at ``(1 +
d) / 2`` on the scale [0, 1].
"""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy.special

from everhold.guarantees.intervals.base import Needs
from everhold.guarantees.intervals.betting import Bets, Prediction
from everhold.guarantees.intervals.joint import Units
from everhold.guarantees.intervals.means import ClopperPearson
from everhold.guarantees.intervals.parts import PartBets, units_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_PLANNED = 64  # quantiles of a law that stands for training units where there are none
_LEVELS = (np.arange(_PLANNED) + 0.5) / _PLANNED
_LIKELY_SPREAD = 0.05  # of the differences of two models on blocks
_SHARE_OF_CLASSES = 8.0  # one part in so many of the level is for the share of the class
_MOST_BUNDLES = 2**11  # more groups are dealt to so many bundles, which are groups, too
_ROUNDS = 4
_LEAST_ERROR = 1e-6
_FINE = 128  # cells along an axis


@dataclass(frozen=True, slots=True, eq=False)
class SeenScores:
    """Numbers in [0, 1] from which the interval of an AUC is made: block averages, or ranks of one class.

    Attributes:
        units: Averages of blocks, or ranks, shape (units,).
        share: Rows of that class, as a share of all rows.
        failing: Share of rows on which a model fails, for each model whose scores are known.
    """

    score: float = field(repr=False)
    units: NDArray[np.float64] = field(repr=False)
    share: float = field(repr=False)
    failing: tuple[float, ...] = field(default=(0.0, 0.0), repr=False)


def block_averages(
    scores: NDArray[np.float64], positive: NDArray[np.bool_], order: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return averages of ``1[s+ > s-]`` (1/2 for ties) over disjoint blocks, one for each row of the smaller class.

    The j-th row of the larger class, in the given order, is in the block of row ``j mod m`` of the smaller class. So
    all rows take part, and sizes of blocks differ by one row at most.

    Args:
        scores: Scores of the rows without nan, shape (rows,).
        positive: True for rows of the positive class, shape (rows,).
        order: Shape (rows,): a permutation that does not depend on scores or on positions of rows.

    Returns:
        Shape (m,). Empty if a class has no rows.

    Source: docs/theory/auc.md, Statement A1.

    Examples:
        >>> block_averages(np.array([0.9, 0.4, 0.4, 0.1]), np.array([True, False, False, False]), np.arange(4))
        array([1.])
    """
    upper, lower = scores[order[positive[order]]], scores[order[~positive[order]]]
    if min(len(upper), len(lower)) == 0:
        return np.zeros(0)
    if len(upper) > len(lower):
        upper, lower = -lower, -upper
    dealt = np.arange(len(lower)) % len(upper)
    met = upper[dealt]
    won = (met > lower) + 0.5 * (met == lower)
    return np.asarray(np.bincount(dealt, won) / np.bincount(dealt))


def public_ranks(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of all rows with a lower score (ties and the row itself 1/2), shape (rows,).

    Args:
        scores: Shape (rows,). Rows on which the model fails have nan: they are below no row, and their rank is 0.

    Examples:
        >>> public_ranks(np.array([0.9, 0.4, 0.4, 0.1]))
        array([0.875, 0.5  , 0.5  , 0.125])
        >>> public_ranks(np.array([0.9, np.nan]))
        array([0.25, 0.  ])
    """
    from scipy.stats import rankdata  # it takes longer to load than all else of an ask about a mean

    known = ~np.isnan(scores)
    ranks = np.zeros(len(scores))
    ranks[known] = (rankdata(scores[known]) - 0.5) / len(scores)
    return ranks


def area_from_ranks(rank: float, share: float) -> float:
    """Return the AUC from the mean rank and the share of a class: ``(rank - share / 2) / (1 - share)``, clipped."""
    if share >= 1.0:
        return 0.5
    return min(max((rank - share / 2.0) / (1.0 - share), 0.0), 1.0)


def rank_from_area(area: float, share: float) -> float:
    """Return the mean rank of a class from the AUC and the class's share, the inverse of `area_from_ranks`."""
    return area * (1.0 - share) + share / 2.0


@dataclass(frozen=True)
class ScoreBets(Bets):
    """Bets on the mean of one number for each row of a class, such as its rank.

    Attributes:
        expected_units: Planned number of sealed rows of the class, from public facts.
        training: The numbers of the training rows of the class; None if unknown, and then they are predicted from the
            guess.
    """

    expected_units: float
    training: SeenScores | None = field(compare=False)

    needs: ClassVar[Needs] = "statistic"
    of_all_rows: ClassVar[bool] = False

    @cached_property
    def prediction(self) -> Prediction:
        """Prediction of the sealed units' spread from training units, or from the guess if there are none."""
        if self.training is not None and len(self.training.units):
            units = self._units(self.training)
        else:
            units = self._planned(0.5 if self.guess is None else self.guess)
        return Prediction.of(units, scale=max(self.expected_units, 1.0) / units.total)

    def _planned(self, at: float) -> Units:
        """Return units to expect without training rows: quantiles of a beta law with the mean ``at``."""
        at = min(max(at, 0.01), 0.99)
        values = scipy.special.betaincinv(2.0 * at, 2.0 * (1.0 - at), _LEVELS)
        return _single(values, max(self.expected_units, 1.0) / _PLANNED)

    def _units(self, seen: SeenScores) -> Units:
        return units_of(np.clip(seen.units, 0.0, 1.0), np.ones(len(seen.units)))

    def interval(self, seen: SeenScores, nats: float) -> tuple[float, float]:
        """Return both ends of the interval, which contains the value over all pairs; 0 and 1 if a class is empty."""
        if not len(seen.units):
            return 0.0, 1.0
        low, high = self._not_excluded(seen, nats)
        return min(low, seen.score), max(high, seen.score)

    def _not_excluded(self, seen: SeenScores, nats: float) -> tuple[float, float]:
        """Return the least and the greatest value that the bets do not exclude, if both classes have rows."""
        return Bets.interval(self, seen, nats)


@dataclass(frozen=True)
class RankBets(ScoreBets):
    """Bets on the ranks of a class among known scores, and exact limits of the share of the class.

    Attributes:
        expected_share: Planned share of the class.
    """

    rows: int
    expected_share: float

    @abstractmethod
    def _mean_unit(self, guess: float) -> float:
        """Return the mean of the units that corresponds to a guess of the AUC or difference."""

    @abstractmethod
    def _value(
        self, units: tuple[float, float], shares: tuple[float, float], failing: tuple[float, ...]
    ) -> tuple[float, float]:
        """Return the least and the greatest value over mean units and class shares that lie between the given ends."""

    def _of_share(self, share: float, nats: float) -> tuple[float, float]:
        """Return both ends of the interval of the class's share, at an eighth of the level."""
        procedure = ClopperPearson(rows=self.rows, training=self.rows)
        return procedure.interval(share, nats + math.log(_SHARE_OF_CLASSES))

    def _nats_of_ranks(self, nats: float) -> float:
        """Return ln(1 / level) of the bets on ranks, which have seven eighths of the level."""
        return nats - math.log1p(-1.0 / _SHARE_OF_CLASSES)

    def _not_excluded(self, seen: SeenScores, nats: float) -> tuple[float, float]:
        ends = Bets.interval(self, seen, self._nats_of_ranks(nats))
        return self._value(ends, self._of_share(seen.share, nats), seen.failing)

    def expected(self, guess: float, nats: float) -> tuple[float, float]:
        """Return the interval that results if the sealed value equals the guess, predicted from public facts."""
        ends = Bets.expected(self, self._mean_unit(guess), self._nats_of_ranks(nats))
        low, high = self._value(ends, self._of_share(self.expected_share, nats), (0.0, 0.0))
        return min(low, guess), max(high, guess)


@dataclass(frozen=True)
class BlockBetting(ScoreBets):
    """Bets on the averages of disjoint blocks of a model's scores (Statement A1).

    Given the labels, blocks are independent, and the mean of each is the AUC. So the bets are fair whatever number of
    rows the classes have. Only the label of a surprise tells anything about that number.
    """

    name: ClassVar[str] = "hedged_block_betting"
    title: ClassVar[str] = "betting on blocks of one row of the rarer class and a share of the other rows"
    why: ClassVar[str] = (
        "given the labels of rows of one law, blocks are independent and each has the AUC as its mean, and a fair bet "
        "against the true value gains that much with this probability at most"
    )


@dataclass(frozen=True)
class RankBetting(RankBets):
    """Bets on the mean rank of a class among scores that are known, and on the share of the class (Statement A2)."""

    name: ClassVar[str] = "hedged_rank_betting"
    title: ClassVar[str] = "betting on the ranks of the rarer class"
    why: ClassVar[str] = (
        "the AUC follows from the mean rank and the share of a class, and a fair bet against either true value gains "
        "that much with this probability at most"
    )

    def _mean_unit(self, guess: float) -> float:
        return rank_from_area(guess, self.expected_share)

    def _value(
        self, units: tuple[float, float], shares: tuple[float, float], failing: tuple[float, ...]
    ) -> tuple[float, float]:
        """Return the least and the greatest AUC for mean ranks and class shares between the given ends.

        The AUC grows with the rank, and is monotone in the share at each rank. At the upper end all failing rows are
        taken to be rows of the class.
        """
        if shares[1] >= 1.0:
            return 0.0, 1.0
        low = min(area_from_ranks(units[0], share) for share in shares)
        high = max(area_from_ranks(units[1] + failing[0], share) for share in shares)
        return math.nextafter(low, 0.0), math.nextafter(high, 1.0)

    def standard_error(self, guess: float) -> float:
        """Return the expected distance of an honest guess from the sealed AUC, by the delta method."""
        rank, share = rank_from_area(guess, self.expected_share), self.expected_share
        of_rank = Bets.standard_error(self, rank) / (1.0 - share)
        of_share = abs(rank - 0.5) / (1.0 - share) ** 2 * math.sqrt(2.0 * share * (1.0 - share) / self.rows)
        return math.hypot(of_rank, of_share)


@dataclass(frozen=True)
class BlockDifference(ScoreBets):
    """Bets on differences of block averages of two models' scores (Statement A3)."""

    name: ClassVar[str] = "block_difference_betting"
    title: ClassVar[str] = "betting on differences of two models on blocks of rows"
    why: ClassVar[str] = (
        "given the labels of rows of one law, blocks are independent and each has the difference of the AUCs as its "
        "mean, and a fair bet against the true value gains that much with this probability at most"
    )

    def _planned(self, at: float) -> Units:
        """Return units to expect without training rows: those of two similar models, with the mean ``at``."""
        return units_of(np.clip(at + _LIKELY_SPREAD * scipy.special.ndtri(_LEVELS), 0.0, 1.0), np.ones(_PLANNED))

    def _units(self, seen: SeenScores) -> Units:
        return units_of(seen.units, np.ones(len(seen.units)))


@dataclass(frozen=True)
class RankDifference(BlockDifference, RankBets):
    """Bets on differences of ranks among known scores, and on the share of the class (Statement A4).

    Units are ``(1 + D / reach) / 2`` for differences D of the two ranks of a row.

    Attributes:
        reach: The largest difference of two ranks of a row; public.
    """

    reach: float

    name: ClassVar[str] = "rank_difference_betting"
    title: ClassVar[str] = "betting on differences of ranks in the rarer class"
    why: ClassVar[str] = (
        "the difference of the AUCs follows from the mean difference of ranks and the share of a class, and a fair bet "
        "against either true value gains that much with this probability at most"
    )

    def _mean_unit(self, guess: float) -> float:
        mean = (2.0 * guess - 1.0) * (1.0 - self.expected_share) / self.reach
        return min(max((1.0 + mean) / 2.0, 0.0), 1.0)

    def _value(
        self, units: tuple[float, float], shares: tuple[float, float], failing: tuple[float, ...]
    ) -> tuple[float, float]:
        return difference_from_ranks(units, shares, self.reach, *failing)

    def standard_error(self, guess: float) -> float:
        """Return the expected distance of an honest guess from the sealed difference, for the planned share."""
        return self.reach * Bets.standard_error(self, self._mean_unit(guess)) / (1.0 - self.expected_share)


def difference_from_ranks(
    units: tuple[float, float], shares: tuple[float, float], reach: float, first: float = 0.0, second: float = 0.0
) -> tuple[float, float]:
    """Return the least and the largest difference of two AUCs, ``mean D / (1 - share)``, on the scale [0, 1].

    Args:
        units: Ends of the mean unit of a `RankDifference`.
        shares: Ends of the share of the class.
        reach: Reach of the differences, as in `RankDifference`.
        first: The share of rows on which the first model fails.
        second: Share of rows on which the second model fails.

    Examples:
        >>> difference_from_ranks((0.5, 1.0), (0.0, 0.5), 0.25)
        (0.5, 0.75)
    """
    if shares[1] >= 1.0:
        return 0.0, 1.0
    low, high = reach * (2.0 * units[0] - 1.0) - second, reach * (2.0 * units[1] - 1.0) + first
    least = min(low / (1.0 - share) for share in shares)
    most = max(high / (1.0 - share) for share in shares)
    return max((1.0 + least) / 2.0, 0.0), min((1.0 + most) / 2.0, 1.0)


def _single(values: NDArray[np.float64], count: float = 1.0) -> Units:
    """Return the given values as units of size 1, each counted ``count`` times."""
    ones = np.ones(len(values))
    return Units(ones, np.asarray(np.clip(values, 0.0, 1.0), dtype=np.float64), count * ones, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class SeenBlocks:
    """Evaluated blocks of four groups of rows, from which the interval of an AUC is made.

    Attributes:
        units: One for each block. The size is the number of pairs of a positive and a negative row of different groups,
            and the value is the number of those in the right order, both divided by the range of the block. Counts are
            the weights that Finner's inequality allows.
        error: Standard error of the AUC, computed by groups. It is used only to judge guesses.
    """

    units: Units = field(repr=False)
    error: float = field(repr=False)

    @property
    def score(self) -> float:
        """AUC of all pairs of rows of different groups, or 1/2 if there are no such pairs."""
        return self.units.mean if self.units.total > 0.0 else 0.5


def blocks_of_four(count: int) -> NDArray[np.int64]:
    """Return blocks of at most four numbers below ``count``, with any two numbers in exactly one block.

    The numbers are arranged in four columns of length q, which is coprime to 6. The blocks ``(a, a + b, a + 2 b, a + 3
    b)`` mod q contain any two numbers of different columns once. Numbers of one column are divided in the same way.

    Returns:
        Shape (4, blocks). Missing numbers of a smaller block are filled with ``count``.

    Examples:
        >>> blocks_of_four(3).tolist()
        [[0], [1], [2], [3]]
        >>> blocks_of_four(5).shape, blocks_of_four(20).shape
        ((4, 10), (4, 65))
    """
    if count <= 4:
        return np.minimum(np.arange(4), count)[:, None]
    if count == 5:
        return np.concatenate([np.stack(np.triu_indices(5, 1)), np.full((2, 10), count)])
    length = next(q for q in itertools.count(max(-(-count // 4), 5)) if math.gcd(q, 6) == 1)
    first, step = np.divmod(np.arange(length**2), length)
    column, within = np.arange(4)[:, None], blocks_of_four(length)
    across = (first + step * column) % length + length * column
    inside = [np.where(within < length, within + length * number, count) for number in range(4)]
    found = np.minimum(np.concatenate([across, *inside], axis=1), count)
    return np.asarray(found[:, np.sum(found < count, axis=0) > 1])


def seen_blocks(
    models: Sequence[NDArray[np.float64]], positive: NDArray[np.bool_], groups: NDArray[np.int64],
    order: NDArray[np.intp], counting: NDArray[np.bool_] | None = None,
) -> SeenBlocks:  # fmt: skip
    """Evaluate blocks of four groups of rows. Groups are assigned to blocks in the given order.

    Args:
        models: Scores of one model or of two, shape (rows,), no nan.
        positive: True for rows of the positive class, shape (rows,).
        groups: Group of each row as a number from 0, shape (rows,).
        order: Shape (rows,): a permutation that depends on no score, no label and no place.
        counting: Shape (rows,): True for rows that take part; None for all rows.

    Source: docs/theory/auc.md, Statement A6.
    """
    _, first = np.unique(groups[order], return_index=True)
    bundles = min(len(first), _MOST_BUNDLES)
    bundle = (np.argsort(np.argsort(first)) % bundles)[groups]
    part = np.ones(len(bundle), dtype=np.bool_) if counting is None else counting
    upper, lower = (np.bincount(bundle[part & of], minlength=bundles + 1) for of in (positive, ~positive))
    pairs = np.outer(upper, lower).astype(np.float64)
    won = [_won(scores[part], positive[part], bundle[part], bundles + 1) for scores in models]
    ordered = won[0] if len(won) == 1 else (pairs + won[0] - won[1]) / 2.0
    pairs, ordered = pairs + pairs.T, ordered + ordered.T
    np.fill_diagonal(pairs, 0.0)
    np.fill_diagonal(ordered, 0.0)
    total = max(float(pairs.sum()), 1.0)
    moves = 2.0 * (ordered.sum(axis=1) - float(ordered.sum()) / total * pairs.sum(axis=1))

    blocks = blocks_of_four(bundles)
    rows = np.bincount(bundle, minlength=bundles + 1)[blocks].sum(axis=0)
    wide = np.maximum(rows**2 / 4.0, float(np.mean(rows**2)) / 4.0)
    for _ in range(_ROUNDS):  # a wider range costs a block nothing where none of its groups has the largest degree
        degrees = _degrees(blocks, wide, bundles)
        wide *= degrees.max() / degrees[blocks].max(axis=0)
    sizes, values = (
        sum(of[blocks[one], blocks[other]] for one, other in itertools.combinations(range(4), 2))
        for of in (pairs, ordered)
    )
    counts = wide / _degrees(blocks, wide, bundles).max()
    return SeenBlocks(_corners(sizes / wide, values / wide, counts), math.sqrt(float(moves @ moves)) / total)


def _degrees(blocks: NDArray[np.int64], weights: NDArray[np.float64], groups: int) -> NDArray[np.float64]:
    """Return for each group the weight of all blocks that contain it, and 0 for missing groups, (groups + 1,)."""
    found = sum(np.bincount(each, weights, groups + 1) for each in blocks)
    return np.append(np.asarray(found)[:groups], 0.0)


def _won(
    scores: NDArray[np.float64], positive: NDArray[np.bool_], group: NDArray[np.int64], groups: int
) -> NDArray[np.float64]:
    """Return how many positive rows of one group score above negative rows of another, shape (groups, groups)."""
    rising = np.argsort(scores[~positive], kind="stable")
    lower, its_group = scores[~positive][rising], group[~positive][rising]
    upper = np.argsort(scores[positive], kind="stable")
    below, upto = (np.searchsorted(lower, scores[positive][upper], side=side) for side in ("left", "right"))
    won, counted, start = np.zeros((groups, groups)), np.zeros(groups), 0
    for own, end, last in zip(group[positive][upper], below, upto, strict=True):
        counted += np.bincount(its_group[start:end], minlength=groups)
        start = end
        won[own] += counted + 0.5 * np.bincount(its_group[end:last], minlength=groups)
    return won


def _corners(sizes: NDArray[np.float64], values: NDArray[np.float64], counts: NDArray[np.float64]) -> Units:
    """Return units whose size and value are split between three nearby grid points, with the same means."""
    at = np.stack([sizes, values]) * _FINE
    cell = np.minimum(np.floor(at), _FINE - 1)
    beyond = at - cell
    steep = beyond[1] > beyond[0]
    least, most = beyond.min(axis=0), beyond.max(axis=0)
    mass = np.zeros((_FINE + 1) ** 2)
    corners = ((0.0, 0.0, 1.0 - most), (1.0 * ~steep, 1.0 * steep, most - least), (1.0, 1.0, least))
    for right, up, weight in corners:
        node = ((cell[0] + right) * (_FINE + 1) + cell[1] + up).astype(np.int64)
        mass += np.bincount(node, counts * weight, len(mass))
    filled = np.flatnonzero(mass)
    filled = filled[filled >= _FINE + 1]  # blocks without a pair say nothing
    return Units(filled // (_FINE + 1) / _FINE, filled % (_FINE + 1) / _FINE, mass[filled], 1.0)


@dataclass(frozen=True, eq=False)
class GroupBlockBetting(PartBets):
    """Bets on blocks of four groups of rows, for the AUC of one model or the difference of two (Statement A6).

    Attributes:
        planned: Public units that show how far blocks spread.
        scattered: Expected distance of an honest guess from the sealed value.
    """

    scattered: float

    name: ClassVar[str] = "hedged_group_block_betting"
    title: ClassVar[str] = "betting on blocks of four groups"
    of_all_rows: ClassVar[bool] = False
    why: ClassVar[str] = (
        "any two groups are in exactly one block, and a bet against the true value, in which blocks that share a group "
        "have parts that add up to 1, gains that much with this probability at most"
    )

    @classmethod
    def planned_by(
        cls, seen: SeenBlocks | None, *, sealed: int, planned: int, guess: float | None = None
    ) -> GroupBlockBetting:
        """Return the procedure for ``sealed`` rows, with stakes planned from blocks of public rows if there are any.

        Args:
            seen: Blocks of public rows.
            sealed: Number of sealed rows.
            planned: Number of public rows from which the blocks were planned.
            guess: The analyst's own guess, if there is one.
        """
        if seen is None or not seen.units.total > 0.0:
            blocks = max(sealed / 16.0, 1.0)  # of four groups of four rows each, say
            units = Units(np.full(2, 0.25), np.array([0.0, 0.25]), np.full(2, blocks / 2.0), 1.0)
            return cls(units, 1.0, min(blocks**-0.5, 0.5), guess=guess)
        scale = sealed / planned
        return cls(seen.units, scale, max(seen.error, _LEAST_ERROR) * math.sqrt(1.0 + 1.0 / scale), guess=guess)

    def _units(self, seen: SeenBlocks) -> Units:  # type: ignore[override]
        return seen.units

    def standard_error(self, guess: float) -> float:
        """Return the expected distance of an honest guess, computed from groups, because blocks would overstate it."""
        return self.scattered

    @property
    def worth(self) -> float:
        """Number of yes-or-no rows whose share would have the same standard error."""
        return 0.25 / self.scattered**2
