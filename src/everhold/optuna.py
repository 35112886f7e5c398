"""Optuna: a study whose objective is a question to a holdout, and that stops while enough is left for its end.

An objective returns what to ask, and `SealedObjective` asks it. Accounting is the ledger's: whatever is running, in
threads, in processes on one storage, or twice after a crash, spends what the holdout says that it spends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import track

from everhold.answers import UNSEALED, Answer
from everhold.arguments import as_whole, brief
from everhold.display import Display
from everhold.errors import QueryRejected
from everhold.questions.difference import DifferenceQuery, difference
from everhold.questions.means import Query
from everhold.questions.question import Question

try:
    from optuna import TrialPruned
    from optuna.study import StudyDirection
    from optuna.trial import TrialState
except ImportError as missing:
    raise ImportError(
        "everhold.optuna needs the package optuna, which is not installed; run: pip install 'everhold[optuna]'"
    ) from missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

    from everhold.holdout import Holdout

__all__ = ["ATTRIBUTES", "Asked", "BestTrials", "SealedObjective"]

Asked = Question[Any] | str | tuple[Question[Any] | str, float | None] | Answer
"""What an objective returns: a question, a question and a guess of its answer, or an answer that it was given."""

ATTRIBUTES = ("low", "high", "source", "charged", "question")
"""What trials carry of their answer, as user attributes ``everhold_low`` and so on."""

_QUESTION = "everhold_question"
_NOTHING_HAPPENED = "nothing was told, charged or closed"


class SealedObjective:
    """An objective that asks a holdout; nothing is charged for trials that fail or are pruned.

    Before a trial starts, and again after it, the study is stopped if what is left of the budget, less what trials that
    are running now may spend, does not leave what the end needs. That holds across threads and processes that share
    one study storage; for an exact limit, whoever else asks, pass ``holdout.analyst(name)`` with an allotment.

    Args:
        objective: From a trial to what is asked: a question such as ``accuracy(model)``, with its guess where there is
            a better one than the training estimate, as ``(accuracy(model), cross_validated)``.
        holdout: The open holdout; one for each process.
        keep: Questions that are left for the end of the study: silent comparisons of its best trials cost one each.

    Raises:
        ValueError: If ``keep`` is no number of questions.

    Examples:
        >>> import everhold as eh, optuna
        >>> optuna.logging.set_verbosity(optuna.logging.ERROR)
        >>> rows = {"x": [k / 4_000 for k in range(4_000)], "y": [int(k > 2_400) for k in range(4_000)]}
        >>> with eh.Holdout.create("sqlite:///cuts.db", "cuts", holdout=rows, mechanism="guess_and_check") as holdout:
        ...     def objective(trial):
        ...         cut = trial.suggest_float("cut", 0.1, 0.9)
        ...         return f"(x > {cut}) = (y = 1)", 1 - abs(cut - 0.6)
        ...     study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=1))
        ...     sealed = SealedObjective(objective, holdout)
        ...     study.optimize(sealed, n_trials=20, callbacks=[sealed.stop_in_time])
        ...     study.best_trial.user_attrs["everhold_source"]
        'guess'
    """

    def __init__(self, objective: Callable[[Trial], Asked], holdout: Holdout, *, keep: int = 10) -> None:
        whole = as_whole(keep)
        if whole is None or whole < 0:
            raise ValueError(f"keep is {brief(keep)}; expected a number of questions, 0 or more")
        self._objective, self._holdout, self._keep = objective, holdout, whole

    def __call__(self, trial: Trial) -> float:
        """The answer's value, with its interval in the trial's user attributes.

        Raises:
            TrialPruned: If what is left has to be kept, or does not pay for the question. Nothing was charged.
            TypeError: If the objective returns nothing that can be asked. Nothing was charged.
        """
        if self._spare(trial.study, before=trial.number) < 1:
            trial.study.stop()
            raise TrialPruned("what is left of the budget is kept for the end of the study; nothing was charged")
        answer = self._ask(self._objective(trial))
        for name in ATTRIBUTES:
            trial.set_user_attr(f"everhold_{name}", getattr(answer, name, None))
        if answer.value is None:
            trial.study.stop()
            raise TrialPruned("what is left of the budget does not pay for the question; nothing was charged")
        return float(answer.value)

    def stop_in_time(self, study: Study, trial: FrozenTrial) -> None:
        """Callback of ``study.optimize``: stop as soon as what is left has to be kept."""
        if self._spare(study) < 1:
            study.stop()

    def _spare(self, study: Study, before: int | None = None) -> int:
        """How many more trials may ask, beside those that are running and have a smaller number."""
        left, mechanism = self._holdout.remaining, self._holdout.mechanism
        running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        ahead = sum(before is None or trial.number < before for trial in running)
        kept = 0 if mechanism.unsealable else self._keep  # silent questions are charged nothing
        price = max(mechanism.most_charged, 1)
        spare = [
            left["questions"] - self._keep,
            *(n // price - kept for name, n in left.items() if name != "questions"),
        ]
        return min(spare) - ahead

    def _ask(self, returned: Asked) -> Any:
        if isinstance(returned, Answer):
            return returned
        question, guess = _question_of(returned)
        return self._holdout.ask(question, guess=guess)

    def unseal_best(
        self, study: Study, *, best: int = 10, question: Callable[[FrozenTrial], Asked] | None = None
    ) -> BestTrials:
        """End the holdout's study: what the sealed rows say to the best trials, and how far they are behind the first.

        The objective runs again for each of them, with the parameters that were suggested, to find its question. A
        question that was asked is free, and it is the same if the model is; so whatever is random has to be seeded.
        Before anything is told, each is compared with the first silently, as a paired difference.

        Args:
            study: A finished study of one objective.
            best: Most trials.
            question: From a trial to the question that it asked, where a model was kept and need not be fitted again.

        Raises:
            QueryRejected: If the holdout cannot be unsealed, no trial was answered, or a question is another one than
                the trial asked. Nothing was told, charged or closed.

        Warns:
            EverholdWarning: If other holdouts of the storage lose their promise; see `Holdout.unseal`.
        """
        self._holdout.losing_their_promise()  # refuses what cannot be unsealed
        trials = _best(study, best)
        questions = [self._same_question(trial, question or self._objective) for trial in _watched(trials)]
        pairs = [_apart(other, questions[0]) for other in questions[1:]]
        compared = [pair is not None and not self._holdout.ask(pair, silent=True).refused for pair in pairs]
        told = self._holdout.unseal()
        answers = [self._holdout.ask(own) for own in questions]
        asked = [pair if known else None for pair, known in zip(pairs, compared, strict=True)]
        apart = [None if pair is None else self._holdout.ask(pair) for pair in asked]
        rows = [_row(*line) for line in zip(trials, answers, [None, *apart], strict=True)]
        rows.sort(
            key=lambda row: row["value"] if row["sealed"] is None else row["sealed"],
            reverse=study.direction == StudyDirection.MAXIMIZE,
        )
        return BestTrials(rows, trials[0].number, told.confidence, told.statement)

    def _same_question(self, trial: FrozenTrial, made_by: Callable[[Any], Asked]) -> Question[Any] | str:
        """What a trial asked, made again.

        Raises:
            QueryRejected: If it is another question.
        """
        returned = made_by(trial)
        if isinstance(returned, Answer):
            raise QueryRejected(
                "the objective returns answers, from which a question cannot be told; expected unseal_best(question=), "
                f"a function from a trial to the question that it asked; {_NOTHING_HAPPENED}"
            )
        question, guess = _question_of(returned)
        quoted = self._holdout.quote(question, guess=guess)
        if not quoted.answered_before or quoted.question != trial.user_attrs[_QUESTION]:
            raise QueryRejected(
                f"trial {trial.number} makes another question now than the one that was answered; expected the same "
                "model from the same parameters; seed whatever is random in it, or keep the models and pass question=, "
                f"a function from a trial to its question; {_NOTHING_HAPPENED}"
            )
        return question


@dataclass(frozen=True, slots=True)
class BestTrials(Display):
    """What the sealed rows say to the best trials, when the study is over; all intervals hold together.

    Attributes:
        rows: One dict for each trial, the best on the sealed rows first: trial, params; value, low, high and source as
            they were told during the study; sealed, sealed_low and sealed_high, what the sealed rows say; apart,
            apart_low and apart_high, the paired difference to the trial that the study itself ranks first; None for
            that one, and where there is none.
        first: Number of that trial.
        confidence: Probability with which all intervals of the holdout hold together.
        statement: The statement that they rest on.
    """

    rows: Sequence[Mapping[str, Any]]
    first: int
    confidence: float
    statement: str

    def __len__(self) -> int:
        return len(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """``{"trials": [...], "first", "confidence", "statement"}``."""
        rest = {name: getattr(self, name) for name in ("first", "confidence", "statement")}
        return {"trials": self.to_rows(), **rest}

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each trial."""
        return [dict(row) for row in self.rows]


def _question_of(returned: Any) -> tuple[Question[Any] | str, float | None]:
    question, guess = returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, None)
    if not isinstance(question, (Question, str)):
        raise TypeError(
            f"the objective returned {brief(returned)}; expected a question such as accuracy(model), or a question and "
            "a guess of its answer, such as (accuracy(model), 0.8); nothing was charged"
        )
    return question, guess


def _best(study: Study, most: int) -> list[FrozenTrial]:
    """The best trials that were answered, each question once, the best first."""
    answered: dict[str, FrozenTrial] = {}
    for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
        if _QUESTION in trial.user_attrs:
            answered.setdefault(trial.user_attrs[_QUESTION], trial)
    if not answered or most < 1:
        raise QueryRejected(
            f"there is no trial to tell of; expected trials that were answered, and best={brief(most)} to be 1 or more;"
            f" {_NOTHING_HAPPENED}"
        )
    upwards = study.direction == StudyDirection.MAXIMIZE
    return sorted(answered.values(), key=lambda trial: trial.value or 0.0, reverse=upwards)[:most]


def _watched(trials: Sequence[FrozenTrial]) -> Iterator[FrozenTrial]:
    """The same trials, with a progress bar for whoever waits: models are fitted again."""
    stderr = Console(stderr=True)
    return iter(track(trials, "best trials", console=stderr, transient=True, disable=not stderr.is_terminal))


def _apart(other: Question[Any] | str, first: Question[Any] | str) -> DifferenceQuery | None:
    """The paired difference of two questions; None where they are no means of rows."""
    rowwise = all(isinstance(each, (Query, str)) for each in (other, first))
    return difference(other, first) if rowwise else None  # type: ignore[arg-type]


def _row(trial: FrozenTrial, answer: Any, apart: Answer | None) -> dict[str, Any]:
    told = {name: getattr(answer, name) for name in ("value", "low", "high", "source", *UNSEALED)}
    names = zip(("apart", "apart_low", "apart_high"), UNSEALED, strict=True)
    beside = {name: getattr(apart, known, None) for name, known in names}
    return {"trial": trial.number, "params": dict(trial.params), **told, **beside}
