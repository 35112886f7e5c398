"""The table of a search: configurations, their scores by cross-validation and by the holdout, and ranks."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from everhold.answers import SILENT, Answer
from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.queries.metrics.models import CrossValidated, greater_is_better, model_query, no_false_alarms
from everhold.queries.query import RowwiseQuery
from everhold.queries.selection.choice import choose

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from everhold.families.grid import GridFamily
    from everhold.holdout import Holdout

_FAILED = "failed"  # source of a configuration that could not be fitted and was not asked about
_UNTOLD = "not told"  # of one of which the choice of the best tells nothing


@dataclass(frozen=True, slots=True)
class SearchLine:
    """One configuration of a search: its parameters, its scores, and how long it took."""

    params: Mapping[str, Any]
    scores: tuple[float, ...]
    fit_seconds: tuple[float, ...]
    score_seconds: tuple[float, ...]
    refit_seconds: float
    answer: Answer | None = None
    answer_seconds: float = 0.0
    fault: str = ""
    query: Any = None

    @property
    def awaits_unsealing(self) -> bool:
        """Whether the configuration was asked silently, and its numbers are not known yet."""
        return self.answer is not None and self.answer.source == SILENT and self.answer.sealed is None

    @property
    def source(self) -> str:
        """Source of the configuration's answer."""
        if self.answer is not None:
            return self.answer.source
        return _FAILED if self.fault else _UNTOLD

    def score(self, *, greater: bool) -> float:
        """Return the answer's value, negated if smaller is better, or minus infinity if there is no answer.

        Args:
            greater: Whether a greater value is better.
        """
        value = number_of(self.answer, "value")
        return -np.inf if math.isnan(value) else value if greater else -value


def line_of(params: Mapping[str, Any], tried: CrossValidated) -> SearchLine:
    """Build the line of a configuration that was fitted, before the holdout is asked."""
    return SearchLine(params, tried.scores, tried.fit_seconds, tried.score_seconds, tried.refit_seconds)


def results_table(lines: Sequence[SearchLine], *, greater: bool) -> dict[str, Any]:
    """Return all lines in scikit-learn's form: one array for each column.

    Args:
        lines: One line for each configuration.
        greater: Whether a greater score is better.
    """
    sign = 1.0 if greater else -1.0
    scores = np.array([line.scores for line in lines])
    failed = np.array([bool(line.fault) for line in lines])
    scores[~failed] *= sign
    table: dict[str, Any] = {}
    for name in ("fit", "score"):
        seconds = [getattr(line, f"{name}_seconds") for line in lines]
        table |= {f"mean_{name}_time": np.mean(seconds, axis=1), f"std_{name}_time": np.std(seconds, axis=1)}
    table["refit_time"] = np.array([line.refit_seconds for line in lines])
    table |= _parameters([line.params for line in lines])
    table |= {f"split{fold}_test_score": column for fold, column in enumerate(scores.T)}
    table |= {"mean_test_score": scores.mean(axis=1), "std_test_score": scores.std(axis=1)}
    table["rank_test_score"] = _ranks(table["mean_test_score"])
    for column, name in (("answer", "value"), ("answer_low", "low"), ("answer_high", "high")):
        table[column] = np.array([number_of(line.answer, name) for line in lines])
    table["answer_source"] = np.array([line.source for line in lines])
    table["answer_charged"] = np.array([0 if line.answer is None else line.answer.charged for line in lines])
    table["answer_time"] = np.array([line.answer_seconds for line in lines])
    table["rank_answer"] = _ranks(np.array([line.score(greater=greater) for line in lines]))
    # Configurations whose interval reaches the highest lower end, or that have none (nan); greater is better. All
    # intervals hold at once, so the best one has a population value of at least that end.
    one_end = sign * table["answer_low"]
    other_end = sign * table["answer_high"]
    low, high = np.fmin(one_end, other_end), np.fmax(one_end, other_end)
    table["may_be_best"] = np.asarray(~(high < np.fmax.reduce(low)))
    return table


def number_of(answer: Answer | None, name: str) -> float:
    """Return a number of an answer, or the sealed number of a silent answer. nan if the answer has no such number."""
    number = getattr(answer, name, None)
    if number is None:
        number = getattr(answer, {"value": "sealed", "low": "sealed_low", "high": "sealed_high"}[name], None)
    return float("nan") if number is None else float(number)


def _parameters(every: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return ``params``, and one masked array for each parameter, masked where a configuration lacks it."""
    table: dict[str, Any] = {"params": list(every)}
    for name in dict.fromkeys(name for params in every for name in params):
        column = np.ma.MaskedArray(np.empty(len(every), dtype=object), mask=True)
        for place, params in enumerate(every):
            if name in params:
                column[place] = params[name]
        table[f"param_{name}"] = column
    return table


def _ranks(values: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return ranks from 1 for the highest value. Equal values share a rank, and nan comes last."""
    filled = np.where(np.isnan(values), -np.inf, values)
    return np.array([1 + np.count_nonzero(filled > value) for value in filled], dtype=np.int32)


@dataclass(frozen=True, slots=True)
class Refitted:
    """Models of a declared search space by the index of their point. Each is fitted when it is first used."""

    holdout: Holdout
    space: GridFamily
    points: Sequence[Mapping[str, Any]]

    def __getitem__(self, place: int) -> Any:
        return self.holdout.declared.model(self.space, self.points[place])


def checked_index(index: Any, count: int) -> int:
    """Return the row of the table that the caller's function chose, if it is a whole number from 0 to `count` - 1."""
    if not isinstance(index, int | np.integer) or isinstance(index, bool) or not 0 <= index < count:
        raise ValueError(
            f"refit returns {brief(index)} as the best configuration. Return a whole number from 0 to {count - 1}."
        )
    return int(index)


def with_bar(candidates: Sequence[Any], *, shown: bool) -> Iterator[Any]:
    """Yield the configurations, with a progress bar on the error stream.

    If `shown` is true, the bar is drawn.
    """
    from rich.console import Console
    from rich.progress import track

    yield from track(candidates, "asking", console=Console(stderr=True), transient=True, disable=not shown)


# Asking about the configurations of a search: all of them together, and as much is told as the search wants (S9).
#
# Nothing in a random or grid search depends on an answer. So its configurations are one step, with the levels of its
# start, however many there are.

REVEALS = ("checked", "best", "all", "nothing")

FEW_ROWS = 3_000
"""With fewer sealed rows told answers say little, and a search is silent unless it is told otherwise."""

Told = list["Answer | None"]


def check_reveal(reveal: object) -> None:
    """Check the argument ``reveal`` of a search.

    Raises:
        QueryRejected: If it is none of the allowed values.
    """
    if reveal is not None and (not isinstance(reveal, str) or reveal not in REVEALS):
        raise QueryRejected(f"reveal is {brief(reveal)}. Use one of {', '.join(map(repr, REVEALS))}, or leave it out.")


def usual_reveal(holdout: Holdout, queries: Sequence[Any]) -> str:
    """Return the default of ``reveal``: what leads to the narrowest intervals with these rows, metric and mechanism."""
    if not holdout.mechanism.bets:
        return "checked"
    if holdout.schema.rows < FEW_ROWS or holdout.is_silent:
        return "nothing"
    return "best" if all(isinstance(query, RowwiseQuery) for query in queries) else "checked"


def ask_about(
    holdout: Holdout, make: Any, tried: Sequence[CrossValidated], *, own: bool, reveal: str | None
) -> tuple[Told, Any, list[Any], str, float]:
    """Ask the holdout about fitted models, and return its answers.

    Args:
        holdout: The open holdout.
        make: Function from a model to the query about it, from `maker_of`.
        tried: The models, each with its cross-validation result.
        own: Whether the models were fitted on the holdout's own training rows.
        reveal: What is told about the models, see ``reveal`` of `SealedSearchCV`. None for the default.

    Returns:
        One answer for each model, or None if nothing was told about it; the choice of the best model, if only that is
            told; the queries; the value of ``reveal`` that was used; and the time in seconds.
    """
    start = time.perf_counter()
    queries = [model_query(make, each.model, each.outputs if own else None) for each in tried]
    reveal = reveal or usual_reveal(holdout, queries)
    guesses = [None if own and each.outputs is not None else each.score for each in tried]
    with no_false_alarms():
        if reveal == "best":
            best: Literal["highest", "lowest"] = "highest" if greater_is_better(make, holdout.schema) else "lowest"
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
            "reveal='all' is for means only, such as accuracy, error, brier and risk. Pass reveal='checked' for this "
            "metric."
        )
    found: Told = []
    for query, guess in zip(queries, guesses, strict=True):
        found.append(holdout.ask(query, guess=guess, silent=silent))
        if found[-1] is not None and found[-1].refused:
            break
    return found


def are_training_rows(holdout: Holdout, labels: Any) -> bool:
    """Return whether these labels are those of the holdout's own training rows, in order."""
    schema, given = holdout.schema, np.asarray(labels)
    if schema.label is None or not schema.training_rows or given.shape != (schema.training_rows,):
        return False
    return bool(np.array_equal(given, holdout.training_rows()[1]))


def groups_of_training(holdout: Holdout) -> Any:
    """Return the group of each training row, or None if the holdout declares no column of groups."""
    column = holdout.mechanism.dependence.unit_column
    return None if column is None else holdout.training_rows([column])[0][column].to_numpy()
