"""Asking about the configurations of a search: all of them together, and as much is told as the search wants (S9).

Nothing in a random or grid search depends on an answer. So its configurations are one step, with the levels of its
start, however many there are.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.queries.means.batch import RowwiseQuery
from everhold.queries.metrics.models import no_false_alarms
from everhold.queries.selection.choice import choose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold.answers import Answer
    from everhold.holdout import Holdout
    from everhold.queries.metrics.models import CrossValidated, Judge

REVEALS = ("checked", "best", "all", "nothing")

FEW_ROWS = 3_000
"""With fewer sealed rows told answers say little, and a search is silent unless it is told otherwise."""

Told = list["Answer | None"]


def check_reveal(reveal: object) -> None:
    """Check what is to be told of a search.

    Raises:
        QueryRejected: If it is nothing of the kind.
    """
    if reveal is not None and (not isinstance(reveal, str) or reveal not in REVEALS):
        raise QueryRejected(f"reveal is {brief(reveal)}. Use one of {', '.join(map(repr, REVEALS))}, or leave it out.")


def usual_reveal(holdout: Holdout, queries: Sequence[Any]) -> str:
    """How much is told where the search does not say: the narrowest way that the rows, metric and mechanism allow."""
    if not holdout.mechanism.traits.unsealable or holdout.mechanism.parameters().get("slack"):
        return "checked"
    if holdout.schema.rows < FEW_ROWS or holdout.is_silent:
        return "nothing"
    return "best" if all(isinstance(query, RowwiseQuery) for query in queries) else "checked"


def ask_about(
    holdout: Holdout, judge: Judge, tried: Sequence[CrossValidated], *, own: bool, reveal: str | None
) -> tuple[Told, Any, list[Any], str, float]:
    """Ask about fitted models at once.

    Args:
        holdout: The open holdout.
        judge: The metric.
        tried: The models, each with what cross-validation said of it.
        own: Whether they were fitted on the holdout's own training rows.
        reveal: How much is told; see `SealedSearchCV`. None for the usual.

    Returns:
        One answer for each model, None where nothing was told of it; the choice of the best one, where that is all that
        is told; the queries; how much was told; and the seconds that it took.
    """
    start = time.perf_counter()
    queries = [judge.query(each.model, each.outputs if own else None) for each in tried]
    reveal = reveal or usual_reveal(holdout, queries)
    guesses = [None if own and each.outputs is not None else each.score for each in tried]
    with no_false_alarms():
        if reveal == "best":
            best: Literal["highest", "lowest"] = "highest" if judge.greater_is_better else "lowest"
            choice = holdout.ask(choose(queries, best=best))
            return [None] * len(queries), choice, queries, reveal, time.perf_counter() - start
        answers = _answers(holdout, queries, guesses, reveal)
    return answers, None, queries, reveal, time.perf_counter() - start


def _answers(holdout: Holdout, queries: Sequence[Any], guesses: Sequence[float | None], reveal: str) -> Told:
    silent = reveal == "nothing"
    if all(isinstance(query, RowwiseQuery) for query in queries):
        told = "all" if reveal == "all" else "checked"
        return [*holdout.ask_many(queries, guesses=guesses, silent=silent, reveal=told)]  # type: ignore[arg-type]
    if reveal == "all":
        raise QueryRejected(
            "everything is told of means only, such as accuracy, error, brier and risk; expected reveal='checked' for "
            "this metric"
        )
    found: Told = []
    for query, guess in zip(queries, guesses, strict=True):
        found.append(holdout.ask(query, guess=guess, silent=silent))
        if found[-1] is not None and found[-1].refused:
            break
    return found


def are_training_rows(holdout: Holdout, labels: Any) -> bool:
    """True if these are the labels of the holdout's own training rows, in their order."""
    schema, given = holdout.schema, np.asarray(labels)
    if schema.label is None or not schema.training_rows or given.shape != (schema.training_rows,):
        return False
    return bool(np.array_equal(given, holdout.training_rows()[1]))


def groups_of_training(holdout: Holdout) -> Any:
    """The group or unit of each training row; None where the dependence names no column of them."""
    column = holdout.mechanism.dependence.unit_column
    return None if column is None else holdout.training_rows([column])[0][column].to_numpy()
