"""Records of +-1 attributes that depend on each other in blocks, and classifiers that vote with some of them.

The label is a fair coin. An attribute is the label times an *agreement*, -1 or 1, and agreements do not depend on the
label. Attributes stand in blocks: an agreement copies the coin of its block with probability 1/2 and is a coin of its
own otherwise, so two of one block agree with each other more often than not. All coins are fair where the attributes
know nothing of the label. Correlations with the label and votes are right or wrong by the agreements alone, so labels
need not be drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold_lab.audit.dependent_boards import Population

_CHUNK = 8192  # records that are turned to floating-point numbers at once
_MOST_ROWS = 1 << 24  # whole numbers below are exact in a float32


@dataclass(frozen=True)
class AttributeSample:
    """Rows, as the different records that they carry. Analysts who ask the same of it share the answers.

    Attributes:
        agreements: Whether each attribute of each record equals the label, shape (attributes, records), 0 or 1.
        copies: Number of rows that carry each record, shape (records,).
    """

    agreements: NDArray[np.uint8] = field(repr=False)
    copies: NDArray[np.int64] = field(repr=False)
    _votes: dict[bytes, NDArray[np.int64]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.rows >= _MOST_ROWS:
            raise ValueError(f"there are {self.rows} rows; expected fewer than {_MOST_ROWS}")

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.copies.sum())

    @cached_property
    def agreeing(self) -> NDArray[np.int64]:
        """Rows in which each attribute equals the label, shape (attributes,)."""
        total = np.zeros(len(self.agreements), dtype=np.float32)
        for part in self._parts():
            total += self.agreements[:, part].astype(np.float32) @ self.copies[part].astype(np.float32)
        return np.rint(total).astype(np.int64)

    def right_votes(self, weights: NDArray[np.int8]) -> NDArray[np.int64]:
        """Twice the number of rows in which each vote is right; a tie is right by half.

        Args:
            weights: -1, 0 or 1 of each attribute in each vote, shape (attributes, votes).

        Returns:
            Shape (votes,).
        """
        asked = weights.tobytes()
        if asked not in self._votes:
            self._votes[asked] = self._counted_votes(weights)
        return self._votes[asked]

    def _counted_votes(self, weights: NDArray[np.int8]) -> NDArray[np.int64]:
        used = np.flatnonzero(weights.any(axis=1))
        factors = weights[used].T.astype(np.float32)
        total = np.zeros(weights.shape[1], dtype=np.int64)
        for part in self._parts():
            score = 2.0 * (factors @ self.agreements[used, part].astype(np.float32)) - factors.sum(axis=1)[:, None]
            total += (1 + np.sign(score).astype(np.int64)) @ self.copies[part]
        return total

    def _parts(self) -> list[slice]:
        return [slice(start, start + _CHUNK) for start in range(0, len(self.copies), _CHUNK)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """The law of one record.

    Attributes:
        count: Number of attributes, a multiple of those of a block.
        block: Attributes of a block; attribute j stands in block j modulo the number of blocks.
        knowing: Number of blocks that know something of the label, the first ones.
        agreement: Probability of each of their attributes to equal the label; the others' is 1/2.
    """

    count: int
    block: int = 5
    knowing: int = 0
    agreement: float = 9.0 / 16.0

    def __post_init__(self) -> None:
        if self.count < 1 or self.block < 1 or self.count % self.block:
            raise ValueError(f"there are {self.count} attributes in blocks of {self.block}; expected whole blocks")
        if not 0 <= self.knowing <= self.blocks:
            raise ValueError(f"{self.knowing} blocks know the label; expected a number from 0 to {self.blocks}")
        if not 0.0 < self.agreement < 1.0:
            raise ValueError(f"agreement is {self.agreement}; expected a probability strictly between 0 and 1")

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return self.count // self.block

    @property
    def truth(self) -> NDArray[np.float64]:
        """Probability of each attribute to equal the label, shape (count,)."""
        return np.where(np.arange(self.count) % self.blocks < self.knowing, self.agreement, 0.5)

    def records(self, records: int, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Agreements of independent records, shape (count, records), 0 or 1."""
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
        """Rows of a population in which several rows may carry the same record."""
        copies = np.bincount(population.sources(rows, rng))
        copies = copies[copies > 0]
        return AttributeSample(self.records(len(copies), rng), np.asarray(copies, dtype=np.int64))

    def accuracy(self, weights: NDArray[np.int8]) -> float:
        """Probability that a vote is right on a fresh record, exactly; a tie is right with probability 1/2.

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
            for (plus, minus), blocks in zip(*_counted(kinds), strict=True):
                product *= self._block_function(wave, int(plus), int(minus), knowing=knowing) ** blocks
        law = np.fft.fft(product).real / points  # of the sum modulo the number of points
        return float(np.clip(law[1 : used + 1].sum() + law[0] / 2.0, 0.0, 1.0))

    def _block_function(
        self, wave: NDArray[np.complex128], plus: int, minus: int, *, knowing: bool
    ) -> NDArray[np.complex128]:
        """Characteristic function of a block that so many attributes enter with weight 1 and with weight -1."""
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


def _counted(kinds: NDArray[np.intp]) -> tuple[list[tuple[int, ...]], list[int]]:
    distinct, counts = np.unique(kinds, axis=1, return_counts=True)
    return list(map(tuple, distinct.T.tolist())), counts.tolist()
