"""The optimiser in the loop: a search for hyperparameters whose objective is the reported score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from everhold_lab.analysts.base import Analyst, Board, Claim, Vote, scores_of_votes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from optuna import Study
    from optuna.trial import Trial

_VOICES = (-1, 0, 1)


@dataclass(frozen=True, slots=True)
class OptimisingAnalyst(Analyst):
    """Optuna's TPE sampler chooses which rules vote, and how, so that the reported score is as high as it gets.

    This is what automatic tuning does with a test set that answers: nobody looks at a single score. The rules come in
    groups, one study for each: every rule of the group votes yes, no or not at all, on top of the best vote of the
    studies before, and the best vote of all goes on into the next study. Rules are never scored alone; each
    query is a vote. (One study over all rules at once finds much less with as many queries.)

    Attributes:
        rules_per_study: Rules that are tuned together.
        trials_per_study: Votes that are asked in each study.
        batch: Votes that are asked at once, before the sampler sees their scores.

    Source: Bergstra et al. 2011 (the tree-structured Parzen estimator), as in Optuna; the stages are ours.
    """

    rules_per_study: int = 8
    trials_per_study: int = 40
    batch: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("rules_per_study", "trials_per_study", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least 1")

    def queries(self, rules: int) -> int:
        """Votes that are asked on a board of so many rules."""
        return -(-rules // self.rules_per_study) * self.trials_per_study

    def play(self, board: Board) -> Iterator[Claim]:
        """One claim for each study: the best vote so far. It is over when a whole batch was refused.

        Raises:
            ModuleNotFoundError: If Optuna is not installed (``everhold-lab[optuna]``).
        """
        best, asked = Claim(0, Vote(np.zeros(0), 0.0), -np.inf), 0
        for first in range(0, board.rules, self.rules_per_study):
            last = min(first + self.rules_per_study, board.rules)
            study, base = _study(self.seed, first), np.zeros(last)
            base[: len(best.vote.weights)] = best.vote.weights
            for done in range(0, self.trials_per_study, self.batch):
                trials = [study.ask() for _ in range(min(self.batch, self.trials_per_study - done))]
                votes = [_suggested(trial, base, first) for trial in trials]
                scores = scores_of_votes(board, votes)
                asked += len(trials)
                if bool(np.all(np.isnan(scores))):
                    return
                _tell(study, trials, scores)
                top = int(np.nanargmax(scores))
                if scores[top] > best.score:
                    best = Claim(asked, votes[top], float(scores[top]))
            yield Claim(asked, best.vote, best.score)


def _study(seed: int, first: int) -> Study:
    """A silent study that draws the same each time."""
    try:
        import optuna
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "the optimising analyst needs Optuna; install it with: pip install 'everhold-lab[optuna]'", name="optuna"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    drawn = int(np.random.default_rng([seed, first]).integers(2**31))
    return optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=drawn))


def _suggested(trial: Trial, base: NDArray[np.float64], first: int) -> Vote:
    """The best vote so far, with the voices that the sampler suggests for the new rules."""
    weights = base.copy()
    weights[first:] = [trial.suggest_categorical(f"rule {rule}", _VOICES) for rule in range(first, len(base))]
    return Vote(weights, 0.0)


def _tell(study: Study, trials: list[Trial], scores: NDArray[np.float64]) -> None:
    from optuna.trial import TrialState

    for trial, score in zip(trials, scores.tolist(), strict=True):
        if np.isnan(score):
            study.tell(trial, state=TrialState.FAIL)
        else:
            study.tell(trial, score)
