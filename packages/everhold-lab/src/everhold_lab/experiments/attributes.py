"""Simulated attributes of rows, some correlated with the label, and holdouts that are asked about them.

An analyst who correlates attributes with the label and lets them vote uses only the products ``x_j y`` of attribute and
label. With y uniform on {-1, 1} and ``x_j = shift_j y + N(0, 1)`` all products are independent and ``N(shift_j, 1)``,
whatever the labels are. So the products themselves are drawn, in blocks of attributes, and only the columns of
attributes that can be chosen are kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm

from everhold.mechanisms.records import Evaluations
from everhold.values.evaluation import UNIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from everhold.mechanisms import Mechanism
    from everhold.randomness import Noise
    from everhold_lab.audit.boards import Population


Columns = dict[int, "NDArray[np.float32]"]

_BLOCK = 500  # attributes drawn at a time
_STRIP = 10  # attributes put on the grid at a time: they stay in the processor's cache


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeLaw:
    """Distribution of one row's products of attribute and label.

    Attributes:
        informative: Number of attributes that are correlated with the label (shifted). They are the first ones.
        shift: Mean of the product for the informative ones, in standard deviations.
    """

    attributes: int
    informative: int
    shift: float

    def shifts(self) -> NDArray[np.float64]:
        """Mean of each product, shape (attributes,)."""
        return np.where(np.arange(self.attributes) < self.informative, self.shift, 0.0)


@dataclass(frozen=True, slots=True)
class LinearSample:
    """Summary of a set of rows, with all that an analyst or a mechanism needs of it.

    Attributes:
        correlations: Shape (attributes,): averages of the products.
        totals: Shape (attributes,): sums of the clipped products in grid units, see `grid_totals`.
        columns: The products of the attributes that were kept, each of shape (rows,).
    """

    correlations: NDArray[np.float64]
    totals: NDArray[np.int64]
    columns: Columns = field(repr=False)


def draw_samples(
    law: AttributeLaw,
    *,
    rows: int,
    clip: float,
    keep_beyond: float,
    training: np.random.Generator,
    holdout: np.random.Generator,
) -> tuple[LinearSample, LinearSample]:
    """Return random training rows and holdout rows, reduced to attributes with a large training correlation.

    Args:
        law: Distribution of the attributes.
        rows: Number of rows of each set.
        clip: Products are clipped to ``[-clip, clip]`` for the sums on the grid.
        keep_beyond: The least absolute training correlation with which an attribute can be chosen.
        training: Random generator of the training set.
        holdout: Random generator of the holdout.
    """
    generators = training, holdout
    samples = [LinearSample(np.empty(law.attributes), np.empty(law.attributes, dtype=np.int64), {}) for _ in generators]
    blocks = [np.empty((min(_BLOCK, law.attributes), rows), dtype=np.float32) for _ in generators]
    shifts = law.shifts()
    for start in range(0, law.attributes, _BLOCK):
        where = slice(start, min(start + _BLOCK, law.attributes))
        for sample, block, generator in zip(samples, blocks, generators, strict=True):
            part = block[: where.stop - start]
            _fill(part, shifts[where], generator)
            sample.correlations[where] = part.mean(axis=1)
            sample.totals[where] = grid_totals(part, clip=clip)
        kept = np.flatnonzero(np.abs(samples[0].correlations[where]) > keep_beyond)
        for sample, block in zip(samples, blocks, strict=True):
            sample.columns.update(zip((start + kept).tolist(), block[kept], strict=True))
    return samples[0], samples[1]


def _fill(block: NDArray[np.float32], shifts: NDArray[np.float64], generator: np.random.Generator) -> None:
    """Fill an array with normal values, one line for each attribute, shifted by the attribute's mean."""
    generator.standard_normal(out=block, dtype=np.float32)
    for position in np.flatnonzero(shifts):
        block[position] += np.float32(shifts[position])


def draw_columns(law: AttributeLaw, *, rows: int, chosen: Iterable[int], generator: np.random.Generator) -> Columns:
    """Draw fresh rows of the chosen attributes alone, which is enough because attributes are independent."""
    shifts, columns = law.shifts(), {}
    for attribute in sorted(chosen):
        column = np.empty((1, rows), dtype=np.float32)
        _fill(column, shifts[attribute : attribute + 1], generator)
        columns[attribute] = column[0]
    return columns


def grid_totals(products: NDArray[np.float32], *, clip: float) -> NDArray[np.int64]:
    """Return the sums over rows of ``(clipped product + clip) / (2 clip)``, on the grid of row values.

    The result equals the sum of `clip_to_grid` over rows, and takes a third of the time. It is exact, because sums of
    whole numbers below 2^53 are exact in floating-point numbers.

    Args:
        products: Shape (attributes, rows).
        clip: Products are clipped to ``[-clip, clip]``.
    """
    totals = np.empty(len(products), dtype=np.int64)
    for start in range(0, len(products), _STRIP):
        strip = products[start : start + _STRIP] * np.float64(UNIT / (2.0 * clip))
        strip += UNIT / 2
        np.clip(strip, 0.0, UNIT, out=strip)
        np.floor(strip, out=strip)
        totals[start : start + _STRIP] = strip.sum(axis=1)
    return totals


def clipped_mean(means: NDArray[np.float64], *, clip: float) -> NDArray[np.float64]:
    """Return the population mean of a product clipped to ``[-clip, clip]``, for products ``N(mean, 1)``."""
    low, high = -clip - means, clip - means
    inside = means * (norm.cdf(high) - norm.cdf(low)) - (norm.pdf(high) - norm.pdf(low))
    return np.asarray(inside + clip * (norm.sf(high) - norm.cdf(low)), dtype=np.float64)


def right_votes(
    columns: Mapping[int, NDArray[np.float32]], *, order: NDArray[np.int64], signs: NDArray[np.float64],
    counts: Sequence[int],
) -> NDArray[np.int64]:  # fmt: skip
    """Return how many rows the first k attributes classify correctly, by the sign of their signed sum.

    Args:
        columns: Products of attribute and label; a row is classified rightly if their signed sum is positive.
        order: Attributes in the order in which they join.
        signs: Shape (attributes,): the sign with which each one votes.
        counts: The numbers k, not decreasing.

    Returns:
        Shape (counts,).
    """
    votes = np.zeros(len(next(iter(columns.values()))), dtype=np.float32) if columns else np.zeros(0)
    right, joined = np.zeros(len(counts), dtype=np.int64), 0
    for position, count in enumerate(counts):
        for attribute in order[joined:count].tolist():
            if signs[attribute] > 0.0:
                votes += columns[attribute]
            else:
                votes -= columns[attribute]
        joined = max(joined, count)
        right[position] = np.count_nonzero(votes > 0.0)
    return right


def vote_accuracy(
    law: AttributeLaw, *, order: NDArray[np.int64], signs: NDArray[np.float64], counts: Sequence[int]
) -> NDArray[np.float64]:
    """Return the population accuracy of the votes of the first attributes in an order, for each number of attributes.

    Returns:
        Shape (counts,); one half where there are no votes.
    """
    means = np.concatenate([[0.0], np.cumsum((signs * law.shifts())[order])])
    voters = np.minimum(counts, len(order))
    return np.asarray(norm.cdf(means[voters] / np.sqrt(np.maximum(voters, 1))), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Reported:
    """Answers about accuracies with intervals, as arrays of shape (classifiers,).

    Attributes:
        values: The answers; nan where refused.
        lows: Lower ends of the stated intervals; nan where none is stated.
        highs: Upper ends of the intervals.
    """

    values: NDArray[np.float64]
    lows: NDArray[np.float64]
    highs: NDArray[np.float64]

    @classmethod
    def bare(cls, values: NDArray[np.float64]) -> Reported:
        """Return answers without intervals."""
        nothing = np.full(len(values), np.nan)
        return cls(values, nothing, nothing)


class PlainHoldout:
    """Holdout for one analyst, who asks for all correlations and then for accuracies. Answers are plain averages."""

    def correlations(self, training: LinearSample, holdout: LinearSample) -> NDArray[np.float64]:
        """Return reported correlations of each attribute with the label, nan for refused queries."""
        return self._answers(training.correlations, holdout.correlations)

    def accuracies(self, training: NDArray[np.int64], holdout: NDArray[np.int64], *, rows: int) -> Reported:
        """Return reported accuracies of classifiers, given their numbers of correct training and sealed rows."""
        return Reported.bare(self._answers(training / rows, holdout / rows))

    def _answers(self, training: NDArray[np.float64], holdout: NDArray[np.float64]) -> NDArray[np.float64]:
        return holdout


@dataclass(frozen=True)
class PublishedThresholdout(PlainHoldout):
    """Thresholdout of the published experiment by Dwork et al. 2015: a rule of thumb without a budget.

    An answer is the training value while the two differ by at most ``4/sqrt(n)`` plus noise, else the sealed value plus
    noise; both noises are normal with standard deviation ``1/sqrt(n)`` and drawn anew for every query. Nothing is
    promised: the paper's theorem is about another algorithm, which has Laplace noise and keeps the noisy threshold.
    """

    rows: int
    generator: np.random.Generator = field(repr=False)

    def _answers(self, training: NDArray[np.float64], holdout: NDArray[np.float64]) -> NDArray[np.float64]:
        scale = 1.0 / math.sqrt(self.rows)
        compared, added = scale * self.generator.standard_normal((2, len(training)))
        surprise = np.abs(training - holdout) > 4.0 * scale + compared
        return np.where(surprise, holdout + added, training)


class PromisingHoldout:
    """Holdout with a mechanism of everhold, which is asked with training values as guesses.

    A correlation is asked for as the mean of ``(clipped product + clip) / (2 clip)``, which lies in [0, 1]; what is
    promised is the population value of that.

    Args:
        mechanism: Mechanism that answers, already planned.
        clip: Products are clipped to ``[-clip, clip]``, as in the totals of the samples.
        noise: Noise that the mechanism draws.
    """

    def __init__(self, mechanism: Mechanism, *, clip: float, noise: Noise) -> None:
        self.mechanism = mechanism
        self._clip, self._noise = clip, noise
        self._state = mechanism.start(noise)
        self._correlations = Reported.bare(np.empty(0))

    def correlations(self, training: LinearSample, holdout: LinearSample) -> NDArray[np.float64]:
        """Return answers about all correlations, asked in one batch."""
        self._correlations = self._ask(training.totals, holdout.totals, rows=self.mechanism.rows)
        return np.asarray((2.0 * self._correlations.values - 1.0) * self._clip)

    def accuracies(self, training: NDArray[np.int64], holdout: NDArray[np.int64], *, rows: int) -> Reported:
        """Return answers about all accuracies, asked in one batch."""
        return self._ask(training * UNIT, holdout * UNIT, rows=rows)

    def _ask(self, guesses: NDArray[np.int64], totals: NDArray[np.int64], *, rows: int) -> Reported:
        evaluations = Evaluations(totals=totals[:, None], guesses=guesses, rows=rows)
        self._state, replies = self.mechanism.answer_many(self._state, evaluations, self._noise)
        return Reported(replies.values, replies.lows, replies.highs)

    def correlations_hold(self, law: AttributeLaw) -> bool:
        """Return whether every answer about a correlation is as close to its population value as promised."""
        population = (clipped_mean(law.shifts(), clip=self._clip) / self._clip + 1.0) / 2.0
        told = self._correlations
        answered = ~np.isnan(told.values)
        near = np.abs(told.values - population) <= self.mechanism.promise().radius
        inside = (told.lows <= population) & (population <= told.highs)
        return bool(np.all((near & inside)[answered]))


AttributeHoldout = PlainHoldout | PromisingHoldout
"""A holdout that an analyst asks about attributes."""

_CHUNK = 8192  # records that are turned to floating-point numbers at once
_MOST_ROWS = 1 << 24  # whole numbers below are exact in a float32


@dataclass(frozen=True)
class AttributeSample:
    """Rows, stored as their different records and the number of rows with each. Equal queries are computed once.

    Attributes:
        agreements: Whether each attribute of each record equals the label, shape (attributes, records), 0 or 1.
        copies: Number of rows that carry each record, shape (records,).
    """

    agreements: NDArray[np.uint8] = field(repr=False)
    copies: NDArray[np.int64] = field(repr=False)
    _votes: dict[bytes, NDArray[np.int64]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.rows >= _MOST_ROWS:
            raise ValueError(f"There are {self.rows} rows. Pass fewer than {_MOST_ROWS}.")

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.copies.sum())

    @cached_property
    def agreeing(self) -> NDArray[np.int64]:
        """Return the number of rows in which each attribute equals the label, shape (attributes,)."""
        total = np.zeros(len(self.agreements), dtype=np.float32)
        for part in self._parts():
            total += self.agreements[:, part].astype(np.float32) @ self.copies[part].astype(np.float32)
        return np.rint(total).astype(np.int64)

    def right_votes(self, weights: NDArray[np.int8]) -> NDArray[np.int64]:
        """Return twice the number of rows in which each vote is right, where a tie counts as half.

        Args:
            weights: -1, 0 or 1 of each attribute in each vote, shape (attributes, votes).

        Returns:
            Shape (votes,).
        """
        asked = weights.tobytes()
        if asked not in self._votes:
            used = np.flatnonzero(weights.any(axis=1))
            factors = weights[used].T.astype(np.float32)
            total = np.zeros(weights.shape[1], dtype=np.int64)
            for part in self._parts():
                score = 2.0 * (factors @ self.agreements[used, part].astype(np.float32)) - factors.sum(axis=1)[:, None]
                total += (1 + np.sign(score).astype(np.int64)) @ self.copies[part]
            self._votes[asked] = total
        return self._votes[asked]

    def _parts(self) -> list[slice]:
        return [slice(start, start + _CHUNK) for start in range(0, len(self.copies), _CHUNK)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """Distribution of one record of attributes and label.

    Attributes:
        count: Number of attributes, a multiple of the number of attributes of a block.
        block: Attributes of a block; attribute j stands in block j modulo the number of blocks.
        knowing: Number of blocks whose attributes are correlated with the label. They are the first blocks.
        agreement: Probability that an attribute of these blocks equals the label. For attributes of other blocks it is
            1/2.
    """

    count: int
    block: int = 5
    knowing: int = 0
    agreement: float = 9.0 / 16.0

    def __post_init__(self) -> None:
        if self.count < 1 or self.block < 1 or self.count % self.block:
            raise ValueError(
                f"There are {self.count} attributes in blocks of {self.block}. Pass a count "
                "that is a multiple of the block."
            )
        if not 0 <= self.knowing <= self.blocks:
            raise ValueError(f"knowing is {self.knowing}. Pass a number of blocks from 0 to {self.blocks}.")
        if not 0.0 < self.agreement < 1.0:
            raise ValueError(
                f"agreement is {self.agreement}. Pass the probability that an attribute equals the label, above 0 and "
                "below 1."
            )

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return self.count // self.block

    @property
    def truth(self) -> NDArray[np.float64]:
        """Probability that each attribute equals the label, shape (count,)."""
        return np.where(np.arange(self.count) % self.blocks < self.knowing, self.agreement, 0.5)

    def records(self, records: int, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Draw for independent records whether each attribute equals the label, shape (count, records)."""
        width = (records + 7) // 8  # eight records in a byte
        copying, own = (rng.integers(0, 256, (self.count, width), dtype=np.uint8) for _ in range(2))
        coins = np.tile(rng.integers(0, 256, (self.blocks, width), dtype=np.uint8), (self.block, 1))
        drawn = np.unpackbits((copying & coins) | (~copying & own), axis=1, count=records)
        if self.knowing:
            shape = self.block, self.knowing, records
            coin, own_coin = rng.random(shape[1:]) < self.agreement, rng.random(shape) < self.agreement
            leaning = np.where(rng.random(shape) < 0.5, coin, own_coin)
            drawn.reshape(self.block, self.blocks, records)[:, : self.knowing] = leaning
        return drawn

    def sample(self, population: Population, rows: int, rng: np.random.Generator) -> AttributeSample:
        """Draw rows of a population in which several rows may carry the same record."""
        copies = np.bincount(population.sources(rows, rng))
        copies = copies[copies > 0]
        return AttributeSample(self.records(len(copies), rng), np.asarray(copies, dtype=np.int64))

    def accuracy(self, weights: NDArray[np.int8]) -> float:
        """Return the exact probability that a vote is right on a fresh record, where a tie counts as half.

        The sum of ``weight * agreement`` adds up over independent blocks, so its characteristic function is a product,
        and one discrete Fourier transform gives its law.

        Args:
            weights: -1, 0 or 1 of each attribute, shape (count,).
        """
        used = int(np.count_nonzero(weights))
        if used == 0:
            return 0.5
        points = 2 * used + 1  # the sum is one of -used, ..., used
        wave = np.exp(2j * np.pi * np.arange(points) / points)
        product = np.ones(points, dtype=np.complex128)
        table = weights.reshape(self.block, self.blocks)
        for knowing in (False, True):
            part = table[:, : self.knowing] if knowing else table[:, self.knowing :]
            kinds = np.stack([np.count_nonzero(part > 0, axis=0), np.count_nonzero(part < 0, axis=0)])
            distinct, counts = np.unique(kinds, axis=1, return_counts=True)
            for (plus, minus), blocks in zip(distinct.T.tolist(), counts.tolist(), strict=True):
                product *= self._block_function(wave, int(plus), int(minus), knowing=knowing) ** blocks
        law = np.fft.fft(product).real / points  # of the sum modulo the number of points
        return float(np.clip(law[1 : used + 1].sum() + law[0] / 2.0, 0.0, 1.0))

    def _block_function(
        self, wave: NDArray[np.complex128], plus: int, minus: int, *, knowing: bool
    ) -> NDArray[np.complex128]:
        """Return the characteristic function of a block of attributes that vote with weights 1 and -1.

        `knowing` says whether the attributes of the block have a signal.
        """
        agreement = self.agreement if knowing else 0.5
        total = np.zeros_like(wave)
        for coin, share in ((1.0, agreement), (0.0, 1.0 - agreement)):
            up = (coin + agreement) / 2.0
            one = up * wave + (1.0 - up) * wave.conj()
            total += share * one**plus * one.conj() ** minus
        return total

    @property
    def log_least(self) -> float:
        """``-ln`` of the probability of the least likely record, its label included."""
        known, other = self._least_of_block(self.agreement), self._least_of_block(0.5)
        return math.log(2.0) - self.knowing * math.log(known) - (self.blocks - self.knowing) * math.log(other)

    def _least_of_block(self, agreement: float) -> float:
        ups = (1.0 + agreement) / 2.0, agreement / 2.0
        shares = agreement, 1.0 - agreement
        return min(
            sum(share * up**ones * (1.0 - up) ** (self.block - ones) for share, up in zip(shares, ups, strict=True))
            for ones in range(self.block + 1)
        )
