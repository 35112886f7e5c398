"""Two boards for one analyst: a bare test set, and a sealed holdout.

Both need a key for each row, which says what anybody may know of it (`everhold_lab.analysts.row_keys`): random
rules are functions of the keys. The sealed board is given no label.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from everhold.arguments import names_keywords
from everhold.queries.metrics.accuracy import accuracy
from everhold_lab.analysts import RandomRules, RunningVote, Vote

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Unpack

    from numpy.typing import NDArray

    from everhold.answers import Answer
    from everhold.holdout import Holdout

__all__ = ["BareBoard", "HoldoutBoard"]

_CHANCE = 0.5  # what is guessed of a rule or a vote where no training rows say more


class BareBoard:
    """Scores are plain averages, as in every notebook. Over rows that no analyst is shown, they are the truth.

    Args:
        keys: One for each row of the test set, or of the fresh rows, shape (rows,).
        labels: What the rules guess, shape (rows,).
        rules: Number of random rules.
        seed: Which rules.
        advance: Called with the number of queries after each batch.

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
            raise ValueError(f"there are {len(keys)} keys for {len(labels)} labels; expected one for each row")
        self._labels, self._rules = np.asarray(labels, dtype=np.bool_), RandomRules(keys, seed)
        self._vote, self._advance = RunningVote(self._rules), advance
        self.rules = rules

    def score_rules(self, first: int, last: int, *, guess: float | None) -> NDArray[np.float64]:
        """Share of rows of which each rule is right."""
        self._advance(last - first)
        return self._rules.scores(self._labels, first, last)

    def score_vote(self, vote: Vote) -> float:
        """Share of rows of which the vote is right."""
        self._advance(1)
        return float(np.mean(self._vote.predict(vote) == self._labels))

    def score_votes(self, votes: Sequence[Vote]) -> NDArray[np.float64]:
        """Share of rows of which each vote is right."""
        self._advance(len(votes))
        return np.asarray(np.mean(self._rules.predictions(votes) == self._labels, axis=1), dtype=np.float64)


class _Seeded(TypedDict):
    seed: int


class _Predicted(_Seeded, total=False):
    classes: tuple[Any, Any] | None


class HoldoutBoard:
    """Scores are answers of a sealed holdout whose label has two values; any mechanism, any rows.

    A rule is asked as the accuracy of what it says of each sealed row. Training rows make the guesses; without any,
    1/2 is guessed where the mechanism needs a guess.

    Args:
        holdout: The holdout; it was created with a label.
        keys: One for each sealed row, in the order of the rows, shape (rows,).
        training_keys: The same for the training rows; None to do without them.
        rules: Number of random rules.
        advance: Called with the number of queries after each batch.
        **predicted: ``seed``: which rules. ``classes``: the labels that no and yes of a rule mean; by default 0 and 1,
            or false and true.

    Attributes:
        rule_answers: Answers about rules, in the order of the rules.
        vote_answers: Answers about votes, in the order they were asked.

    Raises:
        ValueError: If the holdout has no label, or there is not one key for each row.
    """

    @names_keywords(_Predicted)
    def __init__(
        self,
        holdout: Holdout,
        keys: NDArray[np.uint64],
        *,
        training_keys: NDArray[np.uint64] | None = None,
        rules: int,
        advance: Callable[[int], None] = lambda _: None,
        **predicted: Unpack[_Predicted],
    ) -> None:
        if holdout.schema.label is None:
            raise ValueError("the holdout has no label to attack; expected one that was created with label=...")
        _check_one_for_each(keys, holdout.schema.rows, "keys", "sealed")
        if training_keys is not None:
            _check_one_for_each(training_keys, holdout.schema.training_rows, "training_keys", "training")
        self._holdout, self._advance = holdout, advance
        self._sealed = _Predictor(keys, **predicted)
        self._training = None if training_keys is None else _Predictor(training_keys, **predicted)
        self._usual = _CHANCE if training_keys is None and holdout.mechanism.traits.needs_guess else None
        self.rules = rules
        self.rule_answers: list[Answer] = []
        self.vote_answers: list[Answer] = []

    def score_rules(self, first: int, last: int, *, guess: float | None) -> NDArray[np.float64]:
        """Answers about the accuracy of each rule, asked in one batch."""
        known = None if self._training is None or guess is not None else self._training.rules(first, last)
        answers = self._ask(self._sealed.rules(first, last), known, guess)
        self.rule_answers += answers
        return np.array([_score(answer) for answer in answers])

    def score_vote(self, vote: Vote) -> float:
        """The answer about the accuracy of the vote."""
        known = None if self._training is None else [self._training.vote(vote)]
        return self._of_votes([self._sealed.vote(vote)], known)[0]

    def score_votes(self, votes: Sequence[Vote]) -> NDArray[np.float64]:
        """Answers about the accuracy of each vote, asked in one batch."""
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
    """Predictions of rules and votes for some rows, in the values of the label."""

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
        raise ValueError(f"there are {len(keys)} {name} for {rows} {what} rows; expected one for each, in their order")


def _score(answer: Answer) -> float:
    return float("nan") if answer.value is None else answer.value
