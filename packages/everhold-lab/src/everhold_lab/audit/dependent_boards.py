"""Populations whose rows copy each other, for the coverage studies.

A record is a point of the cube ``{0,1}^d`` and a label, all of them fair coins. The rows of a population carry records
that are drawn independently, but several rows may carry the same one: siblings that got the same haplotype, patients
that repeat what their household said, a machine that stays as it was a minute ago. Every row for itself is uniform, so
the population value of every query is exactly 1/2, however the rows depend on each other.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from everhold.dependence import Groups, MarkovChain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.dependence import DependenceModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Population(ABC):
    """Population in which rows share records.

    Attributes:
        points: Points of the cube, a power of 2.
    """

    points: int

    def __post_init__(self) -> None:
        if self.points < 1 or self.points & (self.points - 1):
            raise ValueError(f"there are {self.points} points; expected a power of 2")

    @abstractmethod
    def sources(self, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Number of the record that each row carries, below twice the rows; shape (rows,)."""

    @abstractmethod
    def dependence(self) -> DependenceModel:
        """The right model, to be declared."""

    def rows(self, rows: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows of the population: the point and the label, -1 or 1, of each; two arrays of the shape (rows,)."""
        sources = self.sources(rows, rng)
        drawn = rng.integers(0, 2 * self.points, 2 * rows)[sources]
        return drawn >> 1, 2 * (drawn & 1) - 1

    def balance(self, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Sum of the labels, -1 or 1, of the rows at each point; all that rules and votes can be right about.

        Returns:
            Shape (points,).
        """
        point, label = self.rows(rows, rng)
        more = np.bincount(point[label > 0], minlength=self.points)
        return np.asarray(more - np.bincount(point[label < 0], minlength=self.points), dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedInGroups(Population):
    """Groups of equal size, each with one record, which every row of the group carries with some probability.

    Attributes:
        share: Probability of a row to carry its group's record instead of one of its own; two rows of a group are equal
            with probability ``share^2``, beside chance.
    """

    size: int
    share: float = 1.0

    def sources(self, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Records of groups come first, then those of single rows."""
        if rows % self.size:
            raise ValueError(f"{rows} rows are no whole number of groups of {self.size}")
        index = np.arange(rows)
        shared = rng.random(rows) < self.share
        return np.where(shared, index // self.size, rows + index)

    def dependence(self) -> DependenceModel:
        """Groups of this size."""
        return Groups(self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedInOrder(Population):
    """Each row repeats the one before with some probability, and is drawn anew otherwise: a Markov chain.

    Its states are all points and labels. A chain of two states with the same correlation concentrates alike and forgets
    as fast, but two of its states are equal half of the time and leak nothing to each other: declared for these rows,
    it would promise too much by a factor of two in the leakage.

    Attributes:
        correlation: Probability to repeat; it is also the correlation of successive labels.
    """

    correlation: float

    def sources(self, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """The last row up to each one that was drawn anew."""
        index = np.arange(rows)
        fresh = rng.random(rows) >= self.correlation
        fresh[0] = True
        return np.maximum.accumulate(np.where(fresh, index, 0))

    def dependence(self) -> DependenceModel:
        """The chain itself, on all points and labels."""
        return MarkovChain(uniform_copying(2 * self.points, self.correlation).tolist(), gap=math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedInFamilies(Population):
    """Families of two parents and their children, with the haplotype that each inherited from its mother.

    A record is a haplotype: a block of a chromosome that is handed down whole. Mother and father carry their own
    mother's, which nobody else in the sample does. A child carries one of its mother's two, each with probability 1/2,
    as Mendel has it; so it equals its mother's own with probability 1/2, and two children equal each other as often.

    Attributes:
        children: Children of each family.
    """

    children: int = 4

    @property
    def size(self) -> int:
        """Members of a family."""
        return self.children + 2

    def sources(self, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Three haplotypes for each family: the mother's two and the father's."""
        if rows % self.size:
            raise ValueError(f"{rows} rows are no whole number of families of {self.size}")
        families = np.arange(rows // self.size)[:, None]
        handed_down = rng.integers(0, 2, (len(families), self.children))
        members = np.column_stack([np.tile([0, 2], (len(families), 1)), handed_down])
        return np.asarray(3 * families + members, dtype=np.int64).reshape(-1)

    def dependence(self) -> DependenceModel:
        """Families as groups."""
        return Groups(self.size)


def uniform_copying(states: int, correlation: float) -> NDArray[np.float64]:
    """Transition matrix of a chain that stays with some probability, and is drawn anew from all states otherwise.

    Args:
        states: Number of states.
        correlation: Probability to stay; its powers are the distances ``TV(P^h(x, .), P^h(x', .))`` of any two states,
            and it is the largest eigenvalue below 1.

    Returns:
        Shape (states, states).

    Examples:
        >>> uniform_copying(2, 0.5).tolist()
        [[0.75, 0.25], [0.25, 0.75]]
    """
    return correlation * np.eye(states) + (1.0 - correlation) / states
