"""Protocol of an analyst: a strategy that asks for scores and in the end claims one."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Vote:
    """Predicts yes where ``sum_j weights[j] * (+1 if rule j says yes else -1) > threshold``.

    Attributes:
        weights: Weights of rules 0, 1, ..., shape (rules used,); empty for "always no".
        threshold: What the sum has to exceed.
    """

    weights: NDArray[np.float64]
    threshold: float


@dataclass(frozen=True, slots=True)
class Claim:
    """Claim of an analyst at some point of the game.

    Attributes:
        queries: Queries asked until then, this one included.
        score: The answer for it; nan if it was refused.
    """

    queries: int
    vote: Vote
    score: float


class Board(Protocol):
    """Board of a game. A score is the answered share of rows that are predicted correctly; nan if refused."""

    @property
    def rules(self) -> int:
        """Number of rules there are."""
        ...

    def score_rules(self, first: int, last: int, *, guess: float | None) -> NDArray[np.float64]:
        """Scores of the rules ``first, ..., last - 1``, asked at once; the guess goes with each of them."""
        ...

    def score_vote(self, vote: Vote) -> float:
        """Score of a vote of rules."""
        ...


@runtime_checkable
class BatchBoard(Board, Protocol):
    """A board that scores several votes at once; the scores are those of one after the other."""

    def score_votes(self, votes: Sequence[Vote]) -> NDArray[np.float64]:
        """Scores of votes, shape (votes,)."""
        ...


class Analyst(ABC):
    """A pure strategy: what it asks depends on earlier answers and on nothing else."""

    @abstractmethod
    def play(self, board: Board) -> Iterator[Claim]:
        """Ask, and yield a claim whenever there is a new one."""


def best_claim(claims: Iterable[Claim]) -> Claim:
    """The claim with the highest score: what goes into the report. Refused claims do not count.

    Raises:
        ValueError: If every claim was refused.
    """
    scored = [claim for claim in claims if not math.isnan(claim.score)]
    if not scored:
        raise ValueError("every claim was refused; expected at least one answer; plan for more queries or surprises")
    return max(scored, key=lambda claim: claim.score)


def scores_of_votes(board: Board, votes: Sequence[Vote]) -> NDArray[np.float64]:
    """Scores of votes that do not depend on each other's answers, shape (votes,); at once where the board can."""
    if isinstance(board, BatchBoard):
        return board.score_votes(votes)
    return np.array([board.score_vote(vote) for vote in votes], dtype=np.float64)
