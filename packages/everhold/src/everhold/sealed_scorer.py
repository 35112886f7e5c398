"""A scorer for scikit-learn that asks a sealed holdout. Worker processes open the holdout once."""

from __future__ import annotations

import atexit
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.queries.metrics.models import Judge, no_false_alarms

if TYPE_CHECKING:
    from collections.abc import Callable

    from everhold.holdout import Holdout

_SHARED_AT_ONCE = 8  # holdouts that a worker process keeps open


@dataclass(frozen=True)
class SealedScorer:
    """Scorer for scikit-learn that asks a sealed holdout one query about each fitted model.

    The rows that it is given make the guess, so they have to be rows that the model was not fitted on. In a search with
    five folds it is called for five models of each configuration: use one split, or `SealedSearchCV`, which asks once.
    Called again for the same model, as for ``return_train_score=True``, it gives the same answer, free. When the budget
    ends it raises `BudgetExhausted`; scikit-learn makes that nan and a warning, unless ``error_score="raise"``.

    Attributes:
        holdout: An open `Holdout`; a worker process opens it again by storage and name.
        metric: What is asked; see `Holdout.evaluate`. Of a loss the negative value is the score.
    """

    holdout: Holdout
    metric: Any = "accuracy"

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:  # noqa: N803
        """Ask about a fitted model, and return the value of the answer, where greater is better.

        Raises:
            BudgetExhausted: If what is left of the budget may not cover it. Nothing was charged.
            QueryRejected: If the model cannot be asked about. Nothing was charged.
        """
        judge = Judge(self.metric, self.holdout.schema)
        guess = judge.score(judge.outputs(estimator, X), np.asarray(y))
        with no_false_alarms():
            answer = self.holdout.ask(judge.query(estimator), guess=guess, strict=True)
        return float(answer.value) if judge.greater_is_better else -float(answer.value)

    def __deepcopy__(self, _: object) -> SealedScorer:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        opened, where = self.holdout.__reduce__()
        return _scorer, (opened, where, self.metric)


@lru_cache(maxsize=_SHARED_AT_ONCE)
def _shared(opened: Callable[..., Holdout], where: tuple[Any, ...]) -> Holdout:
    """Return the holdout that all scorers of this process share, opened once."""
    holdout = opened(*where)
    atexit.register(holdout.close)
    return holdout


def _scorer(opened: Callable[..., Holdout], where: tuple[Any, ...], metric: Any) -> SealedScorer:
    return SealedScorer(_shared(opened, where), metric)
