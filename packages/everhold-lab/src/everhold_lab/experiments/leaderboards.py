"""Leaderboards to be attacked: fair labels, random labellings of them, and what several boards show."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np

from everhold.mechanisms import GuessAndCheck, Mechanism
from everhold.mechanisms.evaluations import Evaluations
from everhold.randomness import SeededNoise
from everhold_competitions.ladder import Ladder
from everhold_lab.releases import ParameterFreeLadder
from everhold_privacy.mechanisms.thresholdout import Thresholdout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everhold_lab.analysts import Vote

TRUTH = 0.5
"""True score of every submission."""

BARE, PARAMETER_FREE = "bare", "parameter-free ladder"
LADDER, HALF_STEP = "ladder", "ladder, half a step"
GUESS_AND_CHECK, THRESHOLDOUT = "guess and check", "thresholdout"
LEADERBOARDS = (BARE, PARAMETER_FREE, LADDER, HALF_STEP, GUESS_AND_CHECK, THRESHOLDOUT)


@dataclass(frozen=True, slots=True)
class SubmittedFiles:
    """Predictions for all rows, and how many of them are right.

    Attributes:
        predicted: +1 or -1 of each row, shape (submissions, 2 rows); the first half of the rows is sealed.
        labels: The same of the labels, shape (2 rows,).
        hits: Right predictions of sealed and of training rows, shape (submissions, 2).
    """

    predicted: NDArray[np.float32]
    labels: NDArray[np.float32]
    hits: NDArray[np.int64]

    @classmethod
    def of(cls, predicted: NDArray[np.float32], labels: NDArray[np.float32]) -> SubmittedFiles:
        """Held against the labels."""
        rows = len(labels) // 2
        halves = slice(rows), slice(rows, None)
        balance = np.stack([predicted[:, half] @ labels[half] for half in halves], axis=1)
        return cls(predicted, labels, (rows + balance.astype(np.int64)) // 2)  # sums of signs are exact in float32

    @classmethod
    def drawn(cls, generator: np.random.Generator, *, rows: int, labellings: int) -> SubmittedFiles:
        """Random labellings of fair labels."""
        drawn = np.frombuffer(generator.bytes(-(-(1 + labellings) * rows // 4)), dtype=np.uint8)
        bits = np.unpackbits(drawn, count=(1 + labellings) * 2 * rows).reshape(-1, 2 * rows)
        signs = bits.astype(np.float32)
        signs *= 2.0
        signs -= 1.0
        return cls.of(signs[1:], signs[0])

    def __getitem__(self, which: slice) -> SubmittedFiles:
        return SubmittedFiles(self.predicted[which], self.labels, self.hits[which])

    @property
    def rows(self) -> int:
        """Number of sealed rows."""
        return len(self.labels) // 2


class SimulatedLeaderboard(Protocol):
    """Leaderboard that shows scores of submissions.

    Attributes:
        radius: What is promised for everything shown; None for no promise.
        kept: Whether it was kept so far.
    """

    radius: float | None
    kept: bool

    def show(self, submitted: SubmittedFiles) -> NDArray[np.float64]:
        """Shown scores, shape (submissions,); nan if refused."""
        ...


class _Bare:
    """Scores as they are."""

    radius: float | None = None
    kept = True

    def show(self, submitted: SubmittedFiles) -> NDArray[np.float64]:
        return submitted.hits[:, 0] / submitted.rows


class _ParameterFree:
    """The best score so far, of a heuristic."""

    radius: float | None = None
    kept = True

    def __init__(self) -> None:
        self._ladder = ParameterFreeLadder()

    def show(self, submitted: SubmittedFiles) -> NDArray[np.float64]:
        sealed, shown = slice(submitted.rows), np.empty(len(submitted.hits))
        for place, predicted in enumerate(submitted.predicted):
            self._ladder = self._ladder.submit(predicted[sealed] != submitted.labels[sealed])
            shown[place] = 1.0 - self._ladder.shown
        return shown


class _Mechanical:
    """Answers of a mechanism, held against the true score of every submission, and of the best of them: 1/2.

    The score on the training rows is the guess.
    """

    def __init__(self, mechanism: Mechanism, seed: int) -> None:
        self._mechanism, self._noise = mechanism, SeededNoise(seed)
        self._state = mechanism.start(self._noise)
        self._radius = mechanism.promise().radius
        self.radius: float | None = self._radius
        self.kept = True

    def show(self, submitted: SubmittedFiles) -> NDArray[np.float64]:
        mechanism = self._mechanism
        sums = submitted.hits * mechanism.unit
        batch = Evaluations(totals=sums[:, :1], guesses=sums[:, 1], rows=mechanism.rows, unit=mechanism.unit)
        self._state, replies = mechanism.answer_many(self._state, batch, self._noise)
        far = np.abs(replies.values - TRUTH) > self._radius
        self.kept &= not bool(np.any(far | (replies.lows > TRUTH) | (replies.highs < TRUTH)))
        return replies.values


def leaderboard(
    board: str, rows: int, queries: int, surprises: int, confidence: float, seed: int
) -> SimulatedLeaderboard:
    """A board by its name, for so many queries."""
    if board == BARE:
        return _Bare()
    if board == PARAMETER_FREE:
        return _ParameterFree()
    return _Mechanical(tuned_for(board, rows, queries, surprises, confidence), seed)


@lru_cache(maxsize=256)
def tuned_for(board: str, rows: int, queries: int, surprises: int, confidence: float) -> Mechanism:
    """Tuned for so many queries; its labellings are scored, so higher is better on a ladder."""
    if board in (LADDER, HALF_STEP):
        margin = 1 if board == HALF_STEP else 2
        return Ladder.tuned(rows=rows, queries=queries, confidence=confidence, margin=margin, better="higher")
    kind = GuessAndCheck if board == GUESS_AND_CHECK else Thresholdout
    return kind.tuned(rows=rows, queries=queries, surprises=min(surprises, queries), confidence=confidence)


class LabellingBoard:
    """A leaderboard as a board for analysts: rule j is labelling j; the training rows make guesses.

    Attributes:
        refused: Those that were refused.
    """

    def __init__(self, world: SubmittedFiles, rules: int, shown: SimulatedLeaderboard) -> None:
        self._world, self._shown = world, shown
        self.rules, self.asked, self.refused = rules, 0, 0

    def score_rules(self, first: int, last: int, *, guess: float | None) -> NDArray[np.float64]:
        """Shown scores of labellings."""
        return self._submit(self._world[first:last])

    def score_vote(self, vote: Vote) -> float:
        """Shown score of a vote."""
        return float(self.score_votes([vote])[0])

    def score_votes(self, votes: Sequence[Vote]) -> NDArray[np.float64]:
        """Shown scores of votes that are submitted one after the other."""
        weights = np.zeros((len(votes), max(len(vote.weights) for vote in votes)), dtype=np.float32)
        for row, vote in zip(weights, votes, strict=True):
            row[: len(vote.weights)] = vote.weights
        thresholds = np.array([[vote.threshold] for vote in votes], dtype=np.float32)
        yes = weights @ self._world.predicted[: weights.shape[1]] > thresholds
        return self._submit(SubmittedFiles.of(np.where(yes, np.float32(1), np.float32(-1)), self._world.labels))

    def _submit(self, submitted: SubmittedFiles) -> NDArray[np.float64]:
        scores = self._shown.show(submitted)
        self.asked += len(scores)
        self.refused += int(np.count_nonzero(np.isnan(scores)))
        return scores
