"""A search and a scorer for scikit-learn that ask a sealed holdout. Needs the extra ``[sklearn]``.

`SealedSearchCV` cross-validates each configuration as `RandomizedSearchCV` does, fits it once more on all rows, and
asks the holdout about all these models together. The scores of cross-validation are the guesses. `SealedScorer` can be
used wherever scikit-learn takes a scorer. The ledger alone records queries and costs: all worker processes share the
budget, and a repeated query is free.
"""

from __future__ import annotations

import atexit
import time
import traceback
import warnings
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from everhold.arguments import as_whole, brief
from everhold.charts.intervals import search_chart
from everhold.errors import BudgetExhausted, EverholdWarning, QueryRejected, warn_caller
from everhold.families.grid import GridFamily, described
from everhold.queries.metrics.models import (
    CrossValidated,
    cross_validate,
    greater_is_better,
    model_query,
    no_false_alarms,
    outputs_of,
    require_sklearn,
    splits_of,
)
from everhold.queries.metrics.scores import as_metric, maker_of
from everhold.search_results import (
    Refitted,
    SearchLine,
    are_training_rows,
    ask_about,
    check_reveal,
    checked_index,
    groups_of_training,
    line_of,
    number_of,
    results_table,
    with_bar,
)

require_sklearn("everhold.sklearn")

import sklearn  # noqa: E402  # after a missing package was told in words
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone  # noqa: E402
from sklearn.exceptions import FitFailedWarning  # noqa: E402
from sklearn.model_selection import ParameterSampler  # noqa: E402
from sklearn.utils import indexable  # noqa: E402
from sklearn.utils.metaestimators import available_if  # noqa: E402
from sklearn.utils.parallel import Parallel, delayed  # noqa: E402
from sklearn.utils.validation import check_is_fitted  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import altair as alt

    from everhold.holdout import Holdout

__all__ = ["SealedScorer", "SealedSearchCV"]

_METRIC = "accuracy"


def _refitted_has(name: str) -> Callable[[SealedSearchCV], bool]:
    """Return a function that checks whether the best estimator (before the search: the given one) has a method."""

    def check(search: SealedSearchCV) -> bool:
        if not search.refit:
            raise AttributeError(
                f"The search was made with refit=False, so it has no best estimator and no {name!r}. Pass refit=True, "
                "or fit the estimator with best_params_ yourself."
            )
        getattr(search.best_estimator_ if hasattr(search, "best_estimator_") else search.estimator, name)
        return True

    return check


def _delegated(name: str, what: str) -> Any:
    """Return a method that calls the same method of the best estimator."""

    def method(self: SealedSearchCV, X: Any) -> Any:  # noqa: N803
        check_is_fitted(self)
        return getattr(self.best_estimator_, name)(X)

    method.__name__, method.__doc__ = name, what
    return available_if(_refitted_has(name))(method)


class SealedSearchCV(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """A random search that asks a sealed holdout about its configurations.

    Each configuration is cross-validated and fitted on all rows. Then ``reveal`` says what is asked: one query, which
    tells the best configuration, or one query about each of them. If each is asked about, cross-validation is the
    guess: if the holdout confirms it, the answer is the guess and costs no surprise, and if the sealed rows contradict
    it, the answer is their value. All intervals hold at once, with the probability of the holdout's promise, also those
    of the search before and after. Nothing in a search depends on an answer, so its queries are one step: all have the
    levels of its start, and surprises are paid for by later queries. All models are kept in memory until they are asked
    about. If the budget ends, such as that of an allotment, the search stops with a warning.

    Args:
        estimator: Estimator whose parameters are searched, for example a pipeline.
        param_distributions: Distributions as for `RandomizedSearchCV`. Or a space that is declared on the holdout,
            made by `everhold.grid` with the same estimator: its points are fitted by everhold, without
            cross-validation, answered from the sealed rows, and cost nothing.
        holdout: An open `Holdout`, or the view of an analyst, who pays from their allotment. Estimators are fitted on
            rows with its columns.
        metric: Metric that is asked about each configuration, see `Holdout.evaluate`.
        scoring: Another name of ``metric``, as scikit-learn calls it. If it is given, it replaces ``metric``.
        n_iter: Number of configurations.
        cv: Number of folds, or a splitter; five folds by default. A number keeps groups together.
        refit: Whether there is a ``best_estimator_``: the configuration with the best answer, of equal ones that with
            the best cross-validation. ``may_be_best`` says which other configurations may be better. Or a function from
            ``cv_results_`` to the index of the best one; then all fitted models are kept in memory until it decides.
        n_jobs: Configurations that are fitted at once; one process asks, in order.
        pre_dispatch: Configurations that are sent to workers ahead.
        random_state: Seed of the random draw of configurations. Give the estimator a seed as well: without one, each
            fit gives another model, which is a new query.
        error_score: ``"raise"``, or the score of a configuration that cannot be fitted. Such a configuration is not
            asked about.
        verbose: Whether there is a progress bar.
        reveal: How much is told of undeclared configurations; by default the narrowest way: ``"best"`` for means such
            as accuracy, ``"checked"`` for other metrics, and ``"nothing"`` with fewer than 3,000 sealed rows.
            ``"checked"``: of each whether its guess holds, and what
            the sealed rows say of surprises. ``"all"``: what the sealed rows say of each; nothing is charged, but later
            queries pay for it. ``"best"``: the best configuration with its value and its regret, and nothing of the
            others. ``"nothing"``: silent queries, answered when the study is unsealed; then the attributes have
            the sealed numbers, and the best configuration stays the one that cross-validation chose.

    Attributes:
        cv_results_: Columns of scikit-learn, of which scores are those of cross-validation, greater is better; and what
            the holdout said, in the metric's own units: ``answer``, ``answer_low``, ``answer_high``,
            ``answer_source``, ``answer_charged``, ``rank_answer``, ``refit_time`` and ``answer_time`` in seconds.
            ``may_be_best`` is false where the whole interval is worse than that of another configuration: with the
            probability of the promise the best configuration of the population is among the others.
        answers_: One answer for each configuration; None if the configuration could not be fitted.
        best_estimator_: The model that was asked about: fitted on all rows.
        best_answer_: The answer about it; with ``reveal="best"`` the choice, with its ``regret``.
        best_score_: Value of the best answer, where greater is better: a loss has changed its sign.
        best_params_: Parameters of the best configuration.
        best_index_: Row of the best configuration in ``cv_results_``.
        reveal_: The value of ``reveal`` that was used.
        budget_ended_: Whether the search stopped before it was through because the budget did not pay for more.

    Examples:
        >>> import numpy as np, tempfile, everhold as eh
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> rng, folder = np.random.default_rng(0), tempfile.TemporaryDirectory()
        >>> x, noise = rng.normal(size=(8_000, 2)), rng.normal(size=8_000)
        >>> rows = {"a": x[:, 0], "b": x[:, 1], "y": (x[:, 0] * x[:, 1] > 0.5 * noise).astype(int)}
        >>> holdout = eh.Holdout.create(
        ...     f"sqlite:///{folder.name}/study.db", "trees", label="y", mechanism="guess_and_check", queries=100,
        ...     holdout={name: column[:4_000] for name, column in rows.items()},
        ...     training={name: column[4_000:] for name, column in rows.items()},
        ... )
        >>> search = SealedSearchCV(
        ...     DecisionTreeClassifier(random_state=0), {"max_depth": range(1, 9)}, holdout=holdout, n_iter=4, cv=3,
        ...     random_state=0,
        ... )
        >>> search.fit(*holdout.training_rows()).best_params_["max_depth"] > 2, holdout.remaining["surprises"]
        (True, 10)
        >>> search.best_answer_.low < search.best_score_ < search.best_answer_.high
        True
        >>> holdout.close(); folder.cleanup()
    """

    def __init__(
        self, estimator: Any, param_distributions: Any, *, holdout: Holdout, metric: Any = _METRIC, n_iter: int = 10,
        cv: Any = None, refit: Any = True, n_jobs: int | None = None, pre_dispatch: Any = "2*n_jobs",
        random_state: Any = None, error_score: Any = np.nan, verbose: int = 0, reveal: str | None = None,
        scoring: Any = None,
    ) -> None:  # fmt: skip
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.holdout = holdout
        self.metric = metric
        self.n_iter = n_iter
        self.cv = cv
        self.refit = refit
        self.n_jobs = n_jobs
        self.pre_dispatch = pre_dispatch
        self.random_state = random_state
        self.error_score = error_score
        self.verbose = verbose
        self.reveal = reveal
        self.scoring = scoring

    def fit(self, X: Any, y: Any = None, *, groups: Any = None, **fit_params: Any) -> Self:  # noqa: N803
        """Search and ask the holdout about the configurations, as ``reveal`` says, as long as the budget pays.

        Args:
            X: Features of open rows, as ``holdout.training_rows()`` gives them.
            y: Their labels. If these are the holdout's own training rows, each guess uses every one of them, and later
                guesses learn from surprises.
            groups: The group of each row, for the folds; by default that of the holdout's training rows.
            **fit_params: Arguments of the estimator's ``fit``, such as ``sample_weight``; those with one entry for each
                row are cut like the rows. Scores and answers count every row once.

        Raises:
            BudgetExhausted: If the budget did not pay for a single configuration. Nothing was charged.
            QueryRejected: If the metric or the models cannot be asked about.

        Warns:
            EverholdWarning: If the budget ended before the search.
        """
        if y is None:
            raise ValueError("This search requires y to be passed, but the target y is None. Pass the labels as y.")
        if sklearn.get_config()["enable_metadata_routing"] and (groups is not None or fit_params):
            raise ValueError(
                "Metadata routing is switched on, and this search does not route metadata. Pass groups= and arguments "
                "of fit without sklearn.set_config(enable_metadata_routing=True)."
            )
        check_reveal(self.reveal)
        if (as_whole(self.n_iter) or 0) < 1:
            raise ValueError(f"n_iter is {brief(self.n_iter)}. Pass a whole number of at least 1.")
        rows, labels, groups = indexable(X, y, groups)
        make = maker_of(self.metric if self.scoring is None else self.scoring)
        own = are_training_rows(self.holdout, labels)
        if own and groups is None:
            groups = groups_of_training(self.holdout)
        if isinstance(self.param_distributions, GridFamily):
            self._check_declared(self.param_distributions, own=own)
            self._ask_declared(self.param_distributions)
            return self
        splits = splits_of(self.cv, self.estimator, rows, labels, groups=groups)
        candidates = list(ParameterSampler(self.param_distributions, self.n_iter, random_state=self.random_state))
        validated = partial(
            cross_validate, makes=[make], schema=self.holdout.schema, features=rows, labels=labels, splits=splits,
            fit=fit_params,
        )  # fmt: skip
        tasks = (
            delayed(_tried)(clone(self.estimator), params, validated, folds=len(splits), error_score=self.error_score)
            for params in candidates
        )
        workers = Parallel(n_jobs=self.n_jobs, pre_dispatch=self.pre_dispatch, return_as="generator")
        found = workers(tasks)
        try:
            self._ask_all(make, candidates, found, own=own)
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of joblib: that tasks which nobody needs were cancelled
                found.close()
        return self

    def _ask_all(self, make: Any, candidates: Sequence[Any], found: Iterator[Any], *, own: bool) -> None:
        """Ask about all configurations together, and store the answers.

        `own` is true if the models are fitted on the holdout's own training rows.
        """
        greater_is_better(make, self.holdout.schema)  # refuses what is no metric before models are fitted
        tried = [each for _, each in zip(with_bar(candidates, shown=bool(self.verbose)), found, strict=True)]
        fitted = [each for each in tried if not isinstance(each, SearchLine)]
        told, choice, queries, reveal, seconds = (
            ask_about(self.holdout, make, fitted, own=own, reveal=self.reveal)
            if fitted
            else ([], None, [], self.reveal, 0.0)
        )
        self.reveal_: str | None = reveal
        answers, asked, lines, models = iter(told), iter(queries), list[SearchLine](), list[Any]()
        for params, each in zip(candidates, tried, strict=True):
            line = replace(each, params=params) if isinstance(each, SearchLine) else line_of(params, each)
            if not isinstance(each, SearchLine):
                line = replace(line, answer=next(answers, None), answer_seconds=seconds / len(fitted))
                query = next(asked)
                line = replace(line, query=query) if line.awaits_unsealing else line
                if line.answer is not None and line.answer.refused:
                    break
            lines.append(line)
            models.append(None if isinstance(each, SearchLine) else each.model)
        self._keep(make, lines, models, planned=len(candidates), choice=choice)

    def _check_declared(self, space: GridFamily, *, own: bool) -> None:
        """Refuse a declared space that has another estimator or metric, or if the rows are not the training rows.

        `own` is true if the models are fitted on the holdout's own training rows.

        Raises:
            QueryRejected: If the space is refused. Nothing is charged.
        """
        wanted = as_metric(self.metric if self.scoring is None else self.scoring)
        of_default = self.scoring is None and self.metric == _METRIC
        different = {
            "estimators": described(self.estimator) != described(space.estimator),
            "metrics": not of_default and wanted != as_metric(space.metric),
            "rows to fit on": not own,
        }
        if wrong := [what for what, is_other in different.items() if is_other]:
            raise QueryRejected(
                f"The declared space has other {', '.join(wrong)}. Pass its own estimator, metric={space.metric!r}, "
                "and fit(*holdout.training_rows()), because everhold fits the models of a declared space itself."
            )

    def _ask_declared(self, space: GridFamily) -> None:
        """Ask about points of a declared space, which everhold fits itself."""
        grids = [{name: [*values] for name, values in grid.items()} for grid in space.space.grids]
        count = min(self.n_iter, space.space.size)
        points = [*ParameterSampler(grids, count, random_state=self.random_state)]
        lines = list[SearchLine]()
        for point in with_bar(points, shown=bool(self.verbose)):
            start = time.perf_counter()
            answer = self.holdout.ask(space.at(point))
            if answer.refused:
                break
            nothing = (float("nan"),)
            lines.append(SearchLine(point, nothing, nothing, nothing, 0.0, answer, time.perf_counter() - start))
        made = Refitted(self.holdout, space, points)
        self._keep(maker_of(space.metric), lines, made, planned=count, choice=None)

    def _keep(self, make: Any, lines: list[SearchLine], models: Any, *, planned: int, choice: Any) -> None:
        """Store the table and the best configuration."""
        self.budget_ended_ = len(lines) < planned
        self._check(lines, planned=planned)
        self._lines, self._choice, self._make = lines, choice, make
        self._greater = greater_is_better(make, self.holdout.schema)
        self._results = results_table(lines, greater=self._greater)
        self.n_splits_ = len(lines[0].scores)
        self._choose(models, choice, [place for place, line in enumerate(lines) if not line.fault])

    def _check(self, lines: Sequence[SearchLine], *, planned: int) -> None:
        """Warn about configurations that failed and about an ended budget, or raise if no configuration is left."""
        failed = [line for line in lines if line.fault]
        if failed:
            text = f"{len(failed)} of {planned} configurations could not be fitted, and were not asked about"
            if len(failed) == len(lines):
                raise ValueError(f"{text}: {failed[0].fault}")
            warnings.warn(f"{text}, the first one because: {failed[0].fault}", FitFailedWarning, stacklevel=4)
        if not self.budget_ended_:
            return
        if len(failed) == len(lines):
            raise BudgetExhausted("The remaining budget may not cover a single configuration. Seal new rows.")
        warn_caller(
            EverholdWarning(
                f"The budget ended after {len(lines)} of {planned} configurations. cv_results_ holds these, and the "
                "best one is among them. To ask about more, plan more queries or surprises when you seal rows."
            )
        )

    def _choose(self, models: Any, choice: Any, fitted: Sequence[int]) -> None:
        results = self._results
        untold = np.all(np.isnan(results["answer"]))
        ranks = np.zeros(len(self._lines)) if untold else results["rank_answer"]
        self.best_index_ = int(np.lexsort((results["rank_test_score"], ranks))[0])
        if choice is not None and choice.index is not None:
            self.best_index_ = fitted[choice.index]
        if callable(self.refit):
            self.best_index_ = checked_index(self.refit(results), len(results["params"]))
        self.best_params_ = results["params"][self.best_index_]
        if self.refit:
            self.best_estimator_ = models[self.best_index_]
            if hasattr(self.best_estimator_, "feature_names_in_"):
                self.feature_names_in_ = self.best_estimator_.feature_names_in_

    def _told(self) -> Sequence[SearchLine]:
        """Return all configurations, with sealed numbers of silent answers once the study is unsealed."""
        check_is_fitted(self, "best_index_")
        waiting = [line for line in self._lines if line.awaits_unsealing]
        if not waiting:
            return self._lines
        try:
            if self.holdout.ask(waiting[0].query, silent=True).sealed is None:
                return self._lines
            answers = {id(line): self.holdout.ask(line.query, silent=True) for line in waiting}
        except Exception:  # a holdout that is closed tells no more
            return self._lines
        self._lines = [replace(line, answer=answers.get(id(line), line.answer)) for line in self._lines]
        self._results = results_table(self._lines, greater=self._greater)
        return self._lines

    @property
    def answers_(self) -> list[Any]:
        """The answers, one for each configuration, or None where it could not be fitted."""
        return [line.answer for line in self._told()]

    @property
    def cv_results_(self) -> dict[str, Any]:
        """Columns of scikit-learn, and what the holdout said."""
        self._told()
        return self._results

    @property
    def best_answer_(self) -> Any:
        """The answer about the best configuration, or the choice of it."""
        return self._told()[self.best_index_].answer if self._choice is None else self._choice

    @property
    def best_score_(self) -> float:
        """Value of the best answer, where greater is better: the sign of a loss is changed."""
        value = number_of(self.best_answer_, "value")
        return value if self._greater else -value

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """Return the metric of open rows, where greater is better. Nothing is asked."""
        _refitted_has("score")(self)
        check_is_fitted(self)
        query, schema = model_query(self._make, self.best_estimator_), self.holdout.schema
        value: float = query.score_of(outputs_of(query, X, schema), np.asarray(y), schema)
        return value if self._greater else -value

    def chart(self) -> alt.LayerChart:
        """Draw every configuration with the interval of its answer. Needs the extra ``[plots]``."""
        check_is_fitted(self)
        metric = self.metric if isinstance(self.metric, str) else "metric"
        columns = {"value": "answer", "low": "answer_low", "high": "answer_high", "source": "answer_source"}
        count = len(self.cv_results_["params"])
        lines = [{name: self.cv_results_[of][place].item() for name, of in columns.items()} for place in range(count)]
        return search_chart(lines, metric=metric, title="What the holdout said of each configuration")

    predict = _delegated("predict", "Labels or numbers, by the best estimator.")
    predict_proba = _delegated("predict_proba", "Probabilities of the classes, by the best estimator.")
    predict_log_proba = _delegated("predict_log_proba", "Their logarithms, by the best estimator.")
    decision_function = _delegated("decision_function", "Scores of the classes, by the best estimator.")
    transform = _delegated("transform", "Rows transformed by the best estimator.")
    inverse_transform = _delegated("inverse_transform", "Rows transformed back by the best estimator.")

    @property
    def classes_(self) -> Any:
        """Class labels of the best estimator."""
        _refitted_has("classes_")(self)
        return self.best_estimator_.classes_

    @property
    def n_features_in_(self) -> int:
        """Number of features that the best estimator was fitted on."""
        if not hasattr(self, "best_estimator_"):
            raise AttributeError(f"{type(self).__name__} has no n_features_in_ before it is fitted")
        return int(self.best_estimator_.n_features_in_)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags

        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = deepcopy(inner.classifier_tags)
        tags.regressor_tags = deepcopy(inner.regressor_tags)
        tags.input_tags.pairwise = inner.input_tags.pairwise
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.target_tags.required = True
        return tags


def _tried(
    estimator: Any,
    params: Mapping[str, Any],
    validated: Callable[[Any], list[CrossValidated]],
    *,
    folds: int,
    error_score: Any,
) -> CrossValidated | SearchLine:
    """Cross-validate and fit one configuration. Returns its result, or the failed line unless errors are raised."""
    try:
        estimator.set_params(**{name: clone(value, safe=False) for name, value in params.items()})
        return validated(estimator)[0]
    except Exception as fault:
        if error_score == "raise":
            raise
        nothing = (float("nan"),) * folds
        said = " ".join("".join(traceback.format_exception_only(fault)).split())
        return SearchLine(params, (float(error_score),) * folds, nothing, nothing, float("nan"), fault=said)


# A scorer for scikit-learn that asks a sealed holdout. Worker processes open the holdout once.


_SHARED_AT_ONCE = 8  # holdouts that a worker process keeps open


@dataclass(frozen=True)
class SealedScorer:
    """Scorer for scikit-learn that asks a sealed holdout one query about each fitted model.

    The rows passed to the scorer make the guess, so the model must not have been fitted on them. In a search with five
    folds it is called for five models of each configuration: use one split, or `SealedSearchCV`, which asks once. A
    second call for the same model, as with ``return_train_score=True``, returns the same answer at no cost. If the
    budget ends, the scorer raises `BudgetExhausted`, which scikit-learn turns into nan and a warning, unless
    ``error_score="raise"``.

    Attributes:
        holdout: An open `Holdout`; a worker process opens it again by storage and name.
        metric: Metric to ask for; see `Holdout.evaluate`. For a loss the score is its negative value.
    """

    holdout: Holdout
    metric: Any = "accuracy"

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:  # noqa: N803
        """Ask about a fitted model, and return the value of the answer, where greater is better.

        Raises:
            BudgetExhausted: If the rest of the budget may not cover the query. Nothing was charged.
            QueryRejected: If the model cannot be asked about. Nothing was charged.
        """
        make, schema = maker_of(self.metric), self.holdout.schema
        query = model_query(make, estimator)
        guess = query.score_of(outputs_of(query, X, schema), np.asarray(y), schema)
        with no_false_alarms():
            answer = self.holdout.ask(query, guess=guess, strict=True)
        return float(answer.value) if greater_is_better(make, schema) else -float(answer.value)

    def __deepcopy__(self, _: object) -> SealedScorer:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        opened, where = self.holdout.__reduce__()
        return _scorer, (opened, where, self.metric)


@lru_cache(maxsize=_SHARED_AT_ONCE)
def _shared(opened: Callable[..., Holdout], where: tuple[Any, ...]) -> Holdout:
    """Return the holdout that all scorers of this process share. It is opened once."""
    holdout = opened(*where)
    atexit.register(holdout.close)
    return holdout


def _scorer(opened: Callable[..., Holdout], where: tuple[Any, ...], metric: Any) -> SealedScorer:
    return SealedScorer(_shared(opened, where), metric)
