"""The honest analyst of the demonstration: real models, each with an estimate from rows it was not fitted on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.queries.metrics.accuracy import accuracy
from everhold_lab.demo.flights import CATEGORIES, KNOWN_BEFORE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from everhold.answers import Answer
    from everhold.holdout import Holdout
    from everhold.queries.means.batch import RowwiseQuery
    from everhold_lab.demo.flights import Flights

BEFORE, TAKE_OFF = "before the day", "at take-off"


@dataclass(frozen=True, slots=True)
class TunedModel:
    """A model to try.

    Attributes:
        model: What people call it.
        known: `BEFORE` or `TAKE_OFF`: what it may know of a flight.
        make: Makes the unfitted scikit-learn estimator from the positions of its categorical features.
        judged_on_fit: Whether its guess is its score on the rows it was fitted on, the beginner's mistake.
    """

    model: str
    known: str
    make: Callable[[list[int]], Any]
    judged_on_fit: bool = False


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate that was asked about.

    Attributes:
        guess: Its estimate from training rows.
        answer: What the holdout said.
        fresh: Its accuracy on the fresh flights.
        sealed: What it predicts for the sealed flights, shape (rows,).
    """

    candidate: TunedModel
    guess: float
    answer: Answer
    fresh: float
    sealed: NDArray[np.bool_] = field(repr=False, compare=False)
    query: RowwiseQuery = field(repr=False, compare=False)


def _logistic(categories: list[int]) -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), categories), remainder=StandardScaler(), sparse_threshold=1.0
    )
    return make_pipeline(columns, LogisticRegression(C=0.1, max_iter=300))


def _tree(depth: int | None) -> Callable[[list[int]], Any]:
    def make(categories: list[int]) -> Any:
        from sklearn.tree import DecisionTreeClassifier

        return DecisionTreeClassifier(max_depth=depth, random_state=0)

    return make


def _boosting(*, rate: float, leaves: int) -> Callable[[list[int]], Any]:
    def make(categories: list[int]) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(
            learning_rate=rate, max_leaf_nodes=leaves, max_iter=40, categorical_features=categories,
            early_stopping=False, random_state=0,
        )  # fmt: skip

    return make


CANDIDATES = tuple(
    TunedModel(model, known, make)
    for known in (BEFORE, TAKE_OFF)
    for model, make in (
        ("logistic regression", _logistic),
        ("tree of depth 4", _tree(4)),
        ("tree of depth 8", _tree(8)),
        ("boosting, 8 leaves", _boosting(rate=0.1, leaves=8)),
        ("boosting, 16 leaves", _boosting(rate=0.2, leaves=16)),
        ("boosting, 32 leaves", _boosting(rate=0.2, leaves=32)),
    )
)
"""Fixed in advance: the same six models, once for each state of knowledge."""

OVERFITTED = TunedModel("tree without limits", BEFORE, _tree(None), judged_on_fit=True)
"""Knows its training flights by heart and takes its score on them for the truth."""


def tune(
    holdout: Holdout,
    flights: Flights,
    candidates: tuple[TunedModel, ...],
    *,
    advance: Callable[[int], None] = lambda _: None,
) -> list[Trial]:
    """Fit each candidate on three quarters of the training flights, guess from the rest, ask the holdout.

    Args:
        holdout: A holdout over ``flights.sealed`` with a label.
        flights: The split.
        candidates: What to try, in this order.
        advance: Called with 1 after each candidate.
    """
    import sklearn.ensemble  # noqa: F401  the limit reaches only libraries that are loaded
    from threadpoolctl import threadpool_limits

    trials = []
    with threadpool_limits(1):  # boosting's threads wait for each other far longer than they work on a busy machine
        for candidate in candidates:
            trials.append(_try(holdout, flights, candidate))
            advance(1)
    return trials


def _try(holdout: Holdout, flights: Flights, candidate: TunedModel) -> Trial:
    known = slice(0, KNOWN_BEFORE if candidate.known == BEFORE else None)
    features, late = flights.training.features[:, known], flights.training.late
    fitted = 3 * len(late) // 4
    model = candidate.make(list(CATEGORIES))
    model.fit(features[:fitted], late[:fitted])
    judged = slice(0, fitted) if candidate.judged_on_fit else slice(fitted, None)
    guess = _share_right(model.predict(features[judged]), late[judged])
    sealed = model.predict(flights.sealed.features[:, known])
    fresh = _share_right(model.predict(flights.fresh.features[:, known]), flights.fresh.late)
    query = accuracy(sealed)
    return Trial(candidate, guess, holdout.ask(query, guess=guess), fresh, sealed, query)


def _share_right(predicted: NDArray[np.bool_], late: NDArray[np.bool_]) -> float:
    return float(np.mean(predicted == late))
