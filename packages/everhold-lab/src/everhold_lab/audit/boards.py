"""Boards for analysts: plain averages and sealed holdouts, and populations of dependent rows.

Both boards need a key for each row, made from its public columns (`everhold_lab.analysts.row_keys`), because random
rules are functions of the keys. The board of a sealed holdout does not get the labels.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.dependence import Groups, MarkovChain
from everhold.queries.metrics.row_scores import accuracy
from everhold_lab.analysts import RandomRules, RunningVote, Vote

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from everhold.answers import Answer
    from everhold.dependence import DependenceModel
    from everhold.holdout import Holdout


_CHANCE = 0.5  # what is guessed of a rule or a vote where no training rows say more


class BareBoard:
    """Board that reports plain averages over its rows. On fresh rows, these averages serve as the truth.

    Args:
        keys: Key of each row of the test set, or of the fresh rows, shape (rows,).
        labels: Labels that the rules guess, shape (rows,).
        rules: Number of random rules.
        seed: Seed of the random rules. The same seed gives the same rules.
        advance: Function that is called with the number of queries after each batch.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> board = BareBoard(np.arange(1_000, dtype=np.uint64), rng.random(1_000) < 0.5, rules=400, seed=1)
        >>> from everhold_lab.analysts import BoostingAnalyst
        >>> (claim,) = BoostingAnalyst().play(board)
        >>> claim.score > 0.6  # of a vote that knows nothing
        True
    """

    def __init__(
        self,
        keys: NDArray[np.uint64],
        labels: NDArray[np.bool_],
        *,
        rules: int,
        seed: int,
        advance: Callable[[int], None] = lambda _: None,
    ) -> None:
        if len(keys) != len(labels):
            raise ValueError(f"There are {len(keys)} keys for {len(labels)} labels. Pass one key for each row.")
        self._labels, self._rules = np.asarray(labels, dtype=np.bool_), RandomRules(keys, seed)
        self._vote, self._advance = RunningVote(self._rules), advance
        self.rules = rules

    def score_rules(self, first: int, last: int, *, guess: float | None) -> NDArray[np.float64]:
        """Return the share of rows that each rule predicts correctly."""
        self._advance(last - first)
        return self._rules.scores(self._labels, first, last)

    def score_vote(self, vote: Vote) -> float:
        """Return the share of rows that the vote predicts correctly."""
        self._advance(1)
        return float(np.mean(self._vote.predict(vote) == self._labels))

    def score_votes(self, votes: Sequence[Vote]) -> NDArray[np.float64]:
        """Return the share of rows that each vote predicts correctly."""
        self._advance(len(votes))
        return np.asarray(np.mean(self._rules.predictions(votes) == self._labels, axis=1), dtype=np.float64)


class HoldoutBoard:
    """Board whose scores are answers of a sealed holdout with a label of two values.

    A score is the answer to the query "accuracy of this rule's predictions". Guesses are computed from the training
    rows. If there are none and the mechanism needs a guess, the guess is 1/2.

    Args:
        holdout: The holdout; it was created with a label.
        keys: Key of each sealed row, in the order of the rows, shape (rows,).
        training_keys: One key for each training row, shape (rows,). None to play without training rows.
        rules: Number of random rules.
        advance: Function that is called with the number of queries after each batch.
        seed: Seed of the random rules.
        classes: The two label values that a rule predicts for no and yes; by default 0 and 1, or false and true.

    Attributes:
        rule_answers: Answers about rules, in the order of the rules.
        vote_answers: Answers about votes, in the order they were asked.

    Raises:
        ValueError: If the holdout has no label, or there is not one key for each row.
    """

    def __init__(
        self,
        holdout: Holdout,
        keys: NDArray[np.uint64],
        *,
        training_keys: NDArray[np.uint64] | None = None,
        rules: int,
        seed: int,
        classes: tuple[Any, Any] | None = None,
        advance: Callable[[int], None] = lambda _: None,
    ) -> None:
        if holdout.schema.label is None:
            raise ValueError("The holdout has no label to attack. Pass a holdout that was created with label=....")
        _check_one_for_each(keys, holdout.schema.rows, "keys", "sealed")
        if training_keys is not None:
            _check_one_for_each(training_keys, holdout.schema.training_rows, "training_keys", "training")
        self._holdout, self._advance = holdout, advance
        self._sealed = _Predictor(keys, seed=seed, classes=classes)
        self._training = None if training_keys is None else _Predictor(training_keys, seed=seed, classes=classes)
        self._usual = _CHANCE if training_keys is None and holdout.mechanism.traits.needs_guess else None
        self.rules = rules
        self.rule_answers: list[Answer] = []
        self.vote_answers: list[Answer] = []

    def score_rules(self, first: int, last: int, *, guess: float | None) -> NDArray[np.float64]:
        """Ask for the accuracy of each rule in one batch, and return the answers' values."""
        known = None if self._training is None or guess is not None else self._training.rules(first, last)
        answers = self._ask(self._sealed.rules(first, last), known, guess)
        self.rule_answers += answers
        return np.array([_score(answer) for answer in answers])

    def score_vote(self, vote: Vote) -> float:
        """Ask for the accuracy of the vote, and return the answer's value."""
        known = None if self._training is None else [self._training.vote(vote)]
        return self._of_votes([self._sealed.vote(vote)], known)[0]

    def score_votes(self, votes: Sequence[Vote]) -> NDArray[np.float64]:
        """Ask for the accuracy of each vote in one batch, and return the answers' values."""
        known = None if self._training is None else self._training.votes(votes)
        return np.array(self._of_votes(self._sealed.votes(votes), known))

    def _of_votes(self, sealed: Sequence[NDArray[Any]], training: Sequence[NDArray[Any]] | None) -> list[float]:
        answers = self._ask(sealed, training, None)
        self.vote_answers += answers
        return [_score(answer) for answer in answers]

    def _ask(
        self, sealed: Sequence[NDArray[Any]], training: Sequence[NDArray[Any]] | None, guess: float | None
    ) -> list[Answer]:
        known = [None] * len(sealed) if training is None else training
        queries = [accuracy(own, training=old) for own, old in zip(sealed, known, strict=True)]
        guesses = [self._usual if guess is None else guess] * len(queries)
        answers = self._holdout.ask_many(queries, guesses=guesses)
        self._advance(len(queries))
        return answers


class _Predictor:
    """Predicts rows by rules and votes, in the values of the label."""

    def __init__(self, keys: NDArray[np.uint64], seed: int, classes: tuple[Any, Any] | None = None) -> None:
        self._rules = RandomRules(keys, seed)
        self._running, self._classes = RunningVote(self._rules), None if classes is None else np.array(classes)

    def rules(self, first: int, last: int) -> Sequence[NDArray[Any]]:
        return [self._named(said) for said in self._rules.says(first, last)]

    def vote(self, vote: Vote) -> NDArray[Any]:
        return self._named(self._running.predict(vote))

    def votes(self, votes: Sequence[Vote]) -> Sequence[NDArray[Any]]:
        return [self._named(said) for said in self._rules.predictions(votes)]

    def _named(self, said: NDArray[np.bool_]) -> NDArray[Any]:
        return said if self._classes is None else self._classes[said.astype(np.intp)]


def _check_one_for_each(keys: NDArray[np.uint64], rows: int, name: str, what: str) -> None:
    if len(keys) != rows:
        raise ValueError(f"There are {len(keys)} {name} for {rows} {what} rows. Pass one for each row, in their order.")


def _score(answer: Answer) -> float:
    return float("nan") if answer.value is None else answer.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Population(ABC):
    """Base of populations in which several rows may carry the same record.

    Attributes:
        points: Number of points of the cube (possible feature values of a row), a power of 2.
    """

    points: int

    def __post_init__(self) -> None:
        if self.points < 1 or self.points & (self.points - 1):
            raise ValueError(f"points is {self.points}. Pass a power of 2.")

    @abstractmethod
    def sources(self, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the number of the record that each row carries, below twice the rows, shape (rows,)."""

    @abstractmethod
    def dependence(self) -> DependenceModel:
        """Return the dependence model that is true for this population."""

    def rows(self, rows: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw rows, and return the point and the label (-1 or 1) of each, two arrays of shape (rows,)."""
        sources = self.sources(rows, rng)
        drawn = rng.integers(0, 2 * self.points, 2 * rows)[sources]
        return drawn >> 1, 2 * (drawn & 1) - 1

    def balance(self, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw rows, and return for each point the number of positive labels minus the number of negative labels.

        Returns:
            Shape (points,).
        """
        point, label = self.rows(rows, rng)
        more = np.bincount(point[label > 0], minlength=self.points)
        return np.asarray(more - np.bincount(point[label < 0], minlength=self.points), dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedInGroups(Population):
    """Population of groups of equal size. A row has its group's record with some probability, else its own record.

    Attributes:
        share: Probability that a row carries its group's record instead of a record of its own. Two rows of a group
            carry the same record with probability ``share^2``.
    """

    size: int
    share: float = 1.0

    def sources(self, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return for each row the number of the record that it copies.

        Records of groups come first, then records of single rows.
        """
        if rows % self.size:
            raise ValueError(
                f"rows is {rows}, which groups of {self.size} do not divide. Pass a multiple of {self.size}."
            )
        index = np.arange(rows)
        shared = rng.random(rows) < self.share
        return np.where(shared, index // self.size, rows + index)

    def dependence(self) -> DependenceModel:
        """Return the model of groups of this size."""
        return Groups(self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedInOrder(Population):
    """Population of rows in order. A row repeats the row before it with some probability, as a Markov chain.

    The states of the chain are all pairs of a point and a label. A chain of two states with the same correlation has
    the same concentration and the same distances between its rows. But its rows are equal half of the time by chance,
    so its leakage is half as large. If such a chain were declared for these rows, the promise would be too strong.

    Attributes:
        correlation: Probability that a row repeats the row before it. It is also the correlation of successive labels.
    """

    correlation: float

    def sources(self, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return for each row the index of the row that it copies: the last newly drawn row, at the latest itself."""
        index = np.arange(rows)
        fresh = rng.random(rows) >= self.correlation
        fresh[0] = True
        return np.maximum.accumulate(np.where(fresh, index, 0))

    def dependence(self) -> DependenceModel:
        """Return the Markov chain on all points and labels."""
        return MarkovChain(uniform_copying(2 * self.points, self.correlation).tolist(), gap=math.inf)


def uniform_copying(states: int, correlation: float) -> NDArray[np.float64]:
    """Return the transition matrix of a chain that stays with some probability and else draws any state.

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
