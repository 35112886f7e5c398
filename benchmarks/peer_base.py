"""What the peers share: the sample, the queries, and the clock."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CONFIDENCE", "REFUSED", "SURPRISES", "Peer", "Queries", "Sample", "around"]

CONFIDENCE = 0.95
SURPRISES = 10
"""Releases that peers with a training set plan for."""

REFUSED = (math.nan, math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class Sample:
    """Fair-coin labels of sealed rows and of as many open training rows, shape (rows,) each."""

    sealed: NDArray[np.bool_]
    training: NDArray[np.bool_]

    @classmethod
    def draw(cls, rows: int, *, seed: int) -> Self:
        """Fresh labels."""
        sealed, training = np.random.default_rng(seed).random((2, rows)) < 0.5
        return cls(sealed, training)


@dataclass(frozen=True, slots=True)
class Queries:
    """Predictions whose accuracy is asked, for both sets of rows, shape (queries, rows) each."""

    sealed: NDArray[np.bool_]
    training: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.sealed)

    def __getitem__(self, number: int) -> Queries:
        return Queries(self.sealed[number : number + 1], self.training[number : number + 1])


class Peer(ABC):
    """One way of answering; measures its own time.

    Attributes:
        sample: The rows.
        width: Half-width that a user could claim for every answer, in the way the peer's line says.
        setting: The free parameters, in words.
        seconds: Time spent on answers.
    """

    def __init__(self, sample: Sample, *, width: float, setting: str = "") -> None:
        self.sample, self.width, self.setting, self.seconds = sample, width, setting, 0.0

    def ask(self, queries: Queries) -> NDArray[np.float64]:
        """Value, low and high end of each answer, shape (queries, 3); nan where refused."""
        start = time.perf_counter()
        replies = self._answer_all(queries)
        self.seconds += time.perf_counter() - start
        return np.array(replies)

    def _answer_all(self, queries: Queries) -> list[tuple[float, float, float]]:
        pairs = zip(queries.sealed, queries.training, strict=True)
        return [self._answer(sealed, training) for sealed, training in pairs]

    @abstractmethod
    def _answer(self, sealed: NDArray[np.bool_], training: NDArray[np.bool_]) -> tuple[float, float, float]:
        """Value, low and high end for one query."""

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Give back what the peer holds."""


def around(value: float, width: float) -> tuple[float, float, float]:
    """A value with an interval of this half-width."""
    return value, value - width, value + width
