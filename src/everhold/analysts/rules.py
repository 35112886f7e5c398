"""Random rules: any number of fair coins that can be tossed again, with the same outcome, for any row.

Rule j says yes of a row where bit j of a hash of the row's key is 1: 64 rules for each hash. A rule knows nothing
about any label, so its true score is that of a coin, on old rows and on new ones. Counting and voting go through tables
of all 2^8 patterns of eight rules, so that no matrix of rows by rules is ever made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from everhold.analysts.base import Vote

__all__ = ["RandomRules", "RunningVote"]

RULES_PER_HASH = 64
_BITS = 8
_PATTERNS = ((np.arange(2**_BITS)[:, None] >> np.arange(_BITS)) & 1).astype(np.float32)  # (patterns, rules)
_WORD = 2**64 - 1


@dataclass(frozen=True, slots=True)
class RandomRules:
    """Random yes-or-no rules about rows.

    Attributes:
        keys: One hash of its attributes for each row, shape (rows,), unsigned 64-bit integers.
        seed: Which rules; equal seeds mean equal rules, whatever the rows.

    Examples:
        >>> rules = RandomRules(np.arange(10_000, dtype=np.uint64), seed=1)
        >>> said = rules.says(100, 300)
        >>> said.shape, bool(abs(said.mean() - 0.5) < 0.002)
        ((200, 10000), True)
    """

    keys: NDArray[np.uint64]
    seed: int

    def __len__(self) -> int:
        return len(self.keys)

    def says(self, first: int, last: int) -> NDArray[np.bool_]:
        """What the rules ``first, ..., last - 1`` say of each row, shape (last - first, rows)."""
        said = np.empty((last - first, len(self)), dtype=np.bool_)
        for start, stop, block in _blocks(first, last):
            bits = np.unpackbits(self._patterns(block), axis=1, bitorder="little").T
            offset = block * RULES_PER_HASH
            said[start - first : stop - first] = bits[start - offset : stop - offset]
        return said

    def scores(self, labels: NDArray[np.bool_], first: int, last: int) -> NDArray[np.float64]:
        """Share of rows of which each of the rules says the label, shape (last - first,)."""
        scores = np.empty(last - first)
        sign = np.where(labels, 1.0, -1.0)
        for start, stop, block in _blocks(first, last):
            patterns = self._patterns(block)
            counts = [np.bincount(eight, weights=sign, minlength=2**_BITS) for eight in patterns.T]
            right_yes = (np.stack(counts) @ _PATTERNS).ravel()  # yes of positives minus yes of negatives
            offset = block * RULES_PER_HASH
            scores[start - first : stop - first] = right_yes[start - offset : stop - offset]
        return (scores + np.count_nonzero(~labels)) / len(self)

    def tally(self, weights: NDArray[np.float64], first: int) -> NDArray[np.float64]:
        """``sum_j weights[j - first] * (+1 or -1 as rule j says)`` over the rules from ``first`` on, shape (rows,)."""
        tally = np.full(len(self), -float(np.sum(weights)))
        for start, stop, block in _blocks(first, first + len(weights)):
            offset = block * RULES_PER_HASH
            padded = np.zeros(RULES_PER_HASH)
            padded[start - offset : stop - offset] = 2.0 * weights[start - first : stop - first]
            tables = padded.reshape(-1, _BITS).astype(np.float32) @ _PATTERNS.T
            for table, eight in zip(tables, self._patterns(block).T, strict=True):
                tally += table[eight]
        return tally

    def _patterns(self, block: int) -> NDArray[np.uint8]:
        """What 64 rules say of each row, eight rules in a byte, shape (rows, 8).

        The bits of splitmix64's finaliser, on keys that differ from block to block.
        """
        salt = ((self.seed << 32) + block + 1) * 0x9E3779B97F4A7C15 & _WORD
        mixed = self.keys + np.uint64(salt)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (mixed ^ (mixed >> np.uint64(31))).astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)


def _blocks(first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """The rules ``first, ..., last - 1`` cut at multiples of 64: (start, stop, number of the hash)."""
    start = first
    while start < last:
        block = start // RULES_PER_HASH
        stop = min((block + 1) * RULES_PER_HASH, last)
        yield start, stop, block
        start = stop


class RunningVote:
    """Votes of a growing number of rules on the same rows; rules that voted before are not asked again."""

    def __init__(self, rules: RandomRules) -> None:
        self._rules = rules
        self._weights: NDArray[np.float64] = np.zeros(0)
        self._tally: NDArray[np.float64] = np.zeros(len(rules))

    def predict(self, vote: Vote) -> NDArray[np.bool_]:
        """What the vote predicts for each row, shape (rows,)."""
        known = len(self._weights)
        if len(vote.weights) < known or not np.array_equal(vote.weights[:known], self._weights):
            known, self._tally = 0, np.zeros(len(self._rules))
        self._tally = self._tally + self._rules.tally(vote.weights[known:], known)
        self._weights = vote.weights.copy()
        return np.asarray(self._tally > vote.threshold)
