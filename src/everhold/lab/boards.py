"""Two boards for one analyst: a bare test set, and a sealed holdout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from everhold.analysts import RandomRules, RunningVote, Vote
from everhold.queries.metrics import accuracy

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from everhold.answers import Answer
    from everhold.holdout import Holdout
    from everhold.lab.flights import Part

__all__ = ["BareBoard", "HoldoutBoard"]


class BareBoard:
    """Scores are plain averages, as in every notebook. Over flights that no analyst is shown, they are the truth.

    Args:
        part: The test set, or the fresh flights.
        rules: Number of random rules.
        seed: Which rules.
        advance: Called with the number of questions after each batch.
    """

    def __init__(self, part: Part, *, rules: int, seed: int, advance: Callable[[int], None] = lambda _: None) -> None:
        self._labels, self._rules = part.late, RandomRules(part.keys, seed)
        self._vote, self._advance = RunningVote(self._rules), advance
        self.rules = rules

    def score_rules(self, first: int, last: int, *, guess: float | None) -> NDArray[np.float64]:
        """Share of flights of which each rule is right."""
        self._advance(last - first)
        return self._rules.scores(self._labels, first, last)

    def score_vote(self, vote: Vote) -> float:
        """Share of flights of which the vote is right."""
        self._advance(1)
        return float(np.mean(self._vote.predict(vote) == self._labels))


class HoldoutBoard:
    """Scores are answers of a sealed holdout; training flights make the guesses.

    Attributes:
        rule_answers: Answers about rules, in the order of the rules.
        vote_answers: Answers about votes, in the order they were asked.
    """

    def __init__(
        self,
        holdout: Holdout,
        sealed: Part,
        training: Part,
        *,
        rules: int,
        seed: int,
        advance: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._holdout, self._advance = holdout, advance
        self._sealed, self._training = RandomRules(sealed.keys, seed), RandomRules(training.keys, seed)
        self._sealed_vote, self._training_vote = RunningVote(self._sealed), RunningVote(self._training)
        self.rules = rules
        self.rule_answers: list[Answer] = []
        self.vote_answers: list[Answer] = []

    def score_rules(self, first: int, last: int, *, guess: float | None) -> NDArray[np.float64]:
        """Answers about the accuracy of each rule, asked in one batch."""
        said = zip(self._sealed.says(first, last), self._training.says(first, last), strict=True)
        answers = self._holdout.ask_many(
            [accuracy(sealed, training=None if guess is not None else training) for sealed, training in said],
            guesses=[guess] * (last - first),
        )
        self.rule_answers += answers
        self._advance(last - first)
        return np.array([_score(answer) for answer in answers])

    def score_vote(self, vote: Vote) -> float:
        """The answer about the accuracy of the vote."""
        sealed, training = self._sealed_vote.predict(vote), self._training_vote.predict(vote)
        answer = self._holdout.ask(accuracy(sealed, training=training))
        self.vote_answers.append(answer)
        self._advance(1)
        return _score(answer)


def _score(answer: Answer) -> float:
    return float("nan") if answer.value is None else answer.value
