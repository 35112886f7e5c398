"""Integration with Optuna: an objective that asks a holdout and stops while budget is left for the end.

An objective returns a query, and `SealedObjective` asks it. The ledger does the accounting, so threads, processes that
share a storage, and trials repeated after a crash are all counted correctly.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from rich.console import Console
from rich.progress import track

from everhold.answers import UNSEALED, Answer
from everhold.arguments import as_whole, brief
from everhold.display import Listing
from everhold.errors import QueryRejected
from everhold.families.grid import GridFamily, grid
from everhold.mechanisms import MECHANISMS
from everhold.queries.makers import difference
from everhold.queries.query import Query, RowwiseQuery
from everhold.search_results import FEW_ROWS
from everhold.values.tracked_models import fact_of

try:
    from optuna import TrialPruned
    from optuna.study import StudyDirection
    from optuna.trial import TrialState
except ImportError as missing:
    raise ImportError(
        "everhold_integrations.optuna needs the package optuna. Install it: pip install 'everhold[optuna]'"
    ) from missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from optuna import Study, Trial
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

    from everhold.holdout import Holdout
    from everhold.mechanisms.records import Traits

__all__ = ["ATTRIBUTES", "Asked", "BestTrials", "SealedObjective", "declared_space"]

Asked = Query[Any] | str | tuple[Query[Any] | str, float | None] | Answer
"""Result of an objective: a query, a query and a guess of its answer, or an answer."""

ATTRIBUTES = ("low", "high", "source", "charged", "query")
"""Parts of the answer that a trial keeps, as user attributes ``everhold_low`` and so on."""

_QUERY = "everhold_query"
_NOTHING_HAPPENED = "Nothing was released, charged or closed."


class SealedObjective:
    """Objective of an Optuna study that asks a holdout. Trials that fail or are pruned cost nothing.

    A holdout that goes on beyond its plan answers every trial, with wider intervals after surprises. For other
    holdouts, and for the view of an analyst, the remaining budget is compared before and after each trial with what the
    end of the study and the running trials may need. If it is not larger, the study is stopped. This works across
    threads and processes that share one study storage. If others ask the same holdout, pass ``holdout.analyst(name)``
    with an allotment, whose limit is exact.

    Args:
        objective: Function from a trial to a query such as ``accuracy(model)``. For a better guess than the training
            estimate, return it too, as in ``(accuracy(model), cross_validated)``. Or a space that is declared on the
            holdout, made for example by `declared_space`: then each trial suggests a point, and its answer is free.
        holdout: The open holdout, one for each process. For a service pass ``Holdout.open("https://...", name)``, with
            the token in the environment variable ``EVERHOLD_TOKEN``. A service accepts rules, and predictions if
            features are public.
        keep: Number of queries to keep for the end of the study, where a silent comparison of each of the best trials
            costs one query.
        silent: Whether to ask silently. Then nothing is told before the study is unsealed, and the value of a trial is
            its guess. By default trials that return a guess are silent in `Holdout.study`, and with fewer than 3,000
            sealed rows, where told answers have wide intervals.

    Raises:
        ValueError: If ``keep`` is not a number of queries.

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

    def __init__(
        self, objective: Callable[[Trial], Asked] | GridFamily, holdout: Holdout, *, keep: int = 10,
        silent: bool | None = None,
    ) -> None:  # fmt: skip
        whole = as_whole(keep)
        if whole is None or whole < 0:
            raise ValueError(f"keep is {brief(keep)}. Pass a number of queries, 0 or more.")
        self._objective: Callable[[Any], Asked] = objective if not isinstance(objective, GridFamily) else (
            lambda trial: objective.at(suggested(trial, objective))
        )  # fmt: skip
        self._holdout, self._keep, self._silent = holdout, whole, silent
        self._is_free = isinstance(objective, GridFamily)

    def __call__(self, trial: Trial) -> float:
        """Ask about a trial, and return the answer's value. Its interval goes into the trial's attributes.

        Raises:
            TrialPruned: If the remaining budget is kept for the end, or may not cover the query. Nothing was charged.
            TypeError: If the objective does not return a query, or its answer has no value. Nothing was charged.
            QueryRejected: If the study has several objectives. Nothing was charged.
        """
        if (objectives := len(trial.study.directions)) > 1:
            raise QueryRejected(
                f"The study has {objectives} objectives, and a trial asks one query. Create it with one direction."
            )
        if self._spare(trial.study, before=trial.number) < 1:
            raise _ended(trial.study, "The remaining budget is kept for the end of the study.")
        returned = self._objective(trial)
        answer = self._ask(returned, _tracked(trial.study, trial))
        for name in ATTRIBUTES:
            trial.set_user_attr(f"everhold_{name}", getattr(answer, name, None))
        if answer.refused:
            raise _ended(trial.study, "The remaining budget may not cover the query.")
        if self._is_silent(returned) or answer.value is None:
            return _guess_of(returned)
        return float(answer.value)

    def stop_in_time(self, study: Study, trial: FrozenTrial) -> None:
        """Stop the study when only the budget for its end is left, as a callback of ``study.optimize``."""
        if self._spare(study) < 1:
            study.stop()

    def _spare(self, study: Study, before: int | None = None) -> int:
        """Return how many further trials the budget allows, after all running trials with smaller numbers."""
        here = not self._holdout.is_served and self._holdout._executor.analyst is None
        if self._is_free or (here and self._holdout.mechanism.endless):  # it answers beyond its plan, without a limit
            return 1
        left, traits = self._holdout.remaining, self._traits
        running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        ahead = sum(before is None or trial.number < before for trial in running)
        kept = 0 if traits.unsealable else self._keep  # silent queries are charged nothing
        price = max(traits.most_charged, 1)
        spare = [
            left["queries"] - self._keep,
            *(n // price - kept for name, n in left.items() if name != "queries"),
        ]
        return min(spare) - ahead

    @cached_property
    def _traits(self) -> Traits:
        """Traits of the mechanism that answers, also in a service."""
        return MECHANISMS[self._holdout.status()["mechanism"]].traits

    def _ask(self, returned: Asked, trial: Mapping[str, str]) -> Any:
        if isinstance(returned, Answer):
            return returned
        query, guess = _query_of(returned)
        silent = self._is_silent(returned)
        if silent:
            _guess_of(returned)
        return self._holdout.ask(query, guess=guess, silent=silent, models=[trial])

    def _is_silent(self, returned: Asked) -> bool:
        """Return whether a trial is asked silently: as requested, or by default for small holdouts."""
        if self._silent is not None or isinstance(returned, Answer) or self._is_free:
            return bool(self._silent)
        few = self._holdout.schema.rows < FEW_ROWS or (not self._holdout.is_served and self._holdout.is_silent)
        return few and self._traits.unsealable and _query_of(returned)[1] is not None

    def unseal_best(
        self, study: Study, *, best: int = 10, query: Callable[[FrozenTrial], Asked] | None = None
    ) -> BestTrials:
        """End the holdout's study: release the sealed values of the best trials, and their distance to the first.

        The objective runs again for each of them, with the suggested parameters, to find its query. Asking the same
        query again is free; it is the same only if the model is, so seed all randomness. Before anything is released,
        each is compared with the first silently, as a paired difference.

        Args:
            study: A finished study of one objective.
            best: Largest number of trials to release.
            query: Function from a trial to the query that it asked, if models were stored and need not be fitted again.

        Raises:
            QueryRejected: If the holdout cannot be unsealed, no trial was answered, or a query differs from the one
                that the trial asked. Nothing was released, charged or closed.

        Warns:
            EverholdWarning: If other holdouts of the storage lose their promise; see `Holdout.unseal`.
        """
        self._holdout.affected_holdouts()  # refuses what cannot be unsealed
        answered: dict[str, FrozenTrial] = {}
        for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
            if _QUERY in trial.user_attrs:
                answered.setdefault(trial.user_attrs[_QUERY], trial)
        if not answered or best < 1:
            raise QueryRejected(
                f"The study has no answered trial to release, or best={brief(best)} is below 1. {_NOTHING_HAPPENED}"
            )
        upwards = study.direction == StudyDirection.MAXIMIZE
        trials = sorted(answered.values(), key=lambda trial: trial.value or 0.0, reverse=upwards)[:best]
        queries = [self._same_query(trial, query or self._objective) for trial in _watched(trials)]
        pairs = [_apart(other, queries[0]) for other in queries[1:]]
        tracked = [_tracked(study, trial) for trial in trials]
        compared = [
            pair is not None and not self._holdout.ask(pair, silent=True, models=[trial, tracked[0]]).refused
            for pair, trial in zip(pairs, tracked[1:], strict=True)
        ]
        told = self._holdout.unseal()
        answers = [self._holdout.ask(own) for own in queries]
        asked = [pair if known else None for pair, known in zip(pairs, compared, strict=True)]
        apart = [None if pair is None else self._holdout.ask(pair) for pair in asked]
        rows = [_row(*line) for line in zip(trials, answers, [None, *apart], strict=True)]
        rows.sort(
            key=lambda row: row["value"] if row["sealed"] is None else row["sealed"],
            reverse=study.direction == StudyDirection.MAXIMIZE,
        )
        return BestTrials(rows, trials[0].number, told.confidence, told.statement)

    def _same_query(self, trial: FrozenTrial, made_by: Callable[[Any], Asked]) -> Query[Any] | str:
        """Return the query of a finished trial, built again by the objective.

        Raises:
            QueryRejected: If the query differs from the one that the trial asked.
        """
        returned = made_by(trial)
        if isinstance(returned, Answer):
            raise QueryRejected(
                "The objective returns answers, which do not contain their queries. Pass unseal_best(query=...), a "
                f"function from a trial to the query that it asked. {_NOTHING_HAPPENED}"
            )
        query, guess = _query_of(returned)
        quoted = self._holdout.quote(query, guess=guess)
        if self._is_silent(returned) and quoted.bits is not None:  # a member of a declared family, free in any case
            return query
        if not quoted.answered_before or quoted.query != trial.user_attrs[_QUERY]:
            raise QueryRejected(
                f"Trial {trial.number} now makes a different query: the same parameters gave another model. Seed all "
                "randomness, or store the models and pass query=..., a function from a trial to its query. "
                f"{_NOTHING_HAPPENED}"
            )
        return query


@dataclass(frozen=True, slots=True)
class BestTrials(Listing):
    """Sealed values of the best trials after the study, with intervals that all hold at once.

    Attributes:
        rows: One dict for each trial, the best on the sealed rows first: trial, params; value, low, high and source as
            answered during the study; sealed, sealed_low and sealed_high, from the sealed rows; apart, apart_low and
            apart_high, the paired difference to the trial that the study ranks first. They are None for that trial
            itself, and for trials without such a difference.
        first: Number of the trial that the study ranks first.
        confidence: Probability with which all intervals of the holdout hold simultaneously.
        statement: Number of the statement that proves the intervals.
    """

    rows_called: ClassVar[str] = "trials"

    rows: Sequence[Mapping[str, Any]]
    first: int
    confidence: float
    statement: str


def _ended(study: Study, why: str) -> TrialPruned:
    """Return the error for a trial without budget, after stopping the study if Optuna runs its trials."""
    with suppress(RuntimeError):  # of a study whose trials are asked and told by hand
        study.stop()
    return TrialPruned(f"{why} Nothing was charged.")


def _guess_of(returned: Asked) -> float:
    """Return the guess of a silent trial, which Optuna receives as the trial's value."""
    guess = None if isinstance(returned, Answer) else _query_of(returned)[1]
    if guess is None:
        raise TypeError(
            "A silent trial has no value but its guess. Return a query and a guess of its answer, such as "
            "(accuracy(model), 0.8). Nothing was charged."
        )
    return float(guess)


def _query_of(returned: Any) -> tuple[Query[Any] | str, float | None]:
    query, guess = returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, None)
    if not isinstance(query, (Query, str)):
        raise TypeError(
            f"The objective returned {brief(returned)}. Return a query such as accuracy(model), or a query and a guess "
            "of its answer, such as (accuracy(model), 0.8). Nothing was charged."
        )
    return query, guess


def _watched(trials: Sequence[FrozenTrial]) -> Iterator[FrozenTrial]:
    """Yield the same trials with a progress bar, as their models are fitted again."""
    stderr = Console(stderr=True)
    return iter(track(trials, "best trials", console=stderr, transient=True, disable=not stderr.is_terminal))


def _apart(other: Query[Any] | str, first: Query[Any] | str) -> Query[Answer] | None:
    """Return the query for the paired difference of two queries, or None unless both are means over rows."""
    rowwise = all(isinstance(each, (RowwiseQuery, str)) for each in (other, first))
    return difference(other, first) if rowwise else None


def _row(trial: FrozenTrial, answer: Any, apart: Answer | None) -> dict[str, Any]:
    told = {name: getattr(answer, name) for name in ("value", "low", "high", "source", *UNSEALED)}
    names = zip(("apart", "apart_low", "apart_high"), UNSEALED, strict=True)
    beside = {name: getattr(apart, known, None) for name, known in names}
    return {"trial": trial.number, "params": dict(trial.params), **told, **beside}


def _tracked(study: Study, trial: Trial | FrozenTrial) -> dict[str, str]:
    """Return the ledger's facts about a trial, with the study's name in one line, because Optuna allows any name."""
    return {"study": fact_of(study.study_name), "trial": str(trial.number)}


# Search spaces with steps, declared as families so that each trial is a member.


def declared_space(
    estimator: Any, distributions: Mapping[str, BaseDistribution], *, seed: int = 0, metric: str = "accuracy",
    features: Sequence[str] | None = None,
) -> GridFamily:  # fmt: skip
    """Return the family of all models in an Optuna space, to be declared on a holdout, see `everhold.grid`.

    Args:
        estimator: An unfitted estimator of scikit-learn.
        distributions: Distribution of each parameter: whole numbers, categories, or numbers with a step.
        seed: Seed for every ``random_state`` that neither the estimator nor the space sets.
        metric: Name of the metric, as for `everhold.grid`.
        features: Columns that the models are fitted to. The default is the one of `everhold.grid`.

    Raises:
        QueryRejected: If a parameter has no steps.

    Examples:
        >>> from optuna.distributions import FloatDistribution, IntDistribution
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> space = {"max_depth": IntDistribution(1, 20), "ccp_alpha": FloatDistribution(0.0, 0.01, step=0.001)}
        >>> declared_space(DecisionTreeClassifier(), space).space.size
        220
    """
    listed = {name: _values(name, each) for name, each in distributions.items()}
    return grid(estimator, listed, seed=seed, metric=metric, features=features)


def _values(name: str, distribution: Any) -> Sequence[Any]:
    if hasattr(distribution, "choices"):
        return list(distribution.choices)
    low, high, step = (getattr(distribution, part, None) for part in ("low", "high", "step"))
    if low is None or high is None or step is None:
        raise QueryRejected(
            f"{name} is {brief(distribution)}, which has no steps, so its values cannot be "
            "listed. Pass a step, such as FloatDistribution(0.0, 1.0, step=0.01), or "
            "categories."
        )
    count = round((high - low) / step) + 1
    if isinstance(low, int):
        return [low + number * step for number in range(count)]
    return [float(f"{low + number * step:.12g}") for number in range(count)]


def suggested(trial: Trial, family: GridFamily) -> dict[str, Any]:
    """Return a point of the family's space as a trial suggests it, as a dictionary of parameters.

    Parameters with evenly spaced numbers are suggested as numbers, and all others as categories.

    Raises:
        QueryRejected: If the space has several grids.
    """
    if len(family.space.grids) != 1:
        raise QueryRejected(
            "The space has several grids, and a trial suggests points of one grid. Pass "
            "one mapping from parameters to values."
        )
    return {name: _suggested(trial, name, values) for name, values in family.space.grids[0].items()}


def _suggested(trial: Trial, name: str, values: Sequence[Any]) -> Any:
    step = _step(values)
    if step is None:
        return trial.suggest_categorical(name, list(values))
    if isinstance(step, int):
        return trial.suggest_int(name, values[0], values[-1], step=step)
    found = trial.suggest_float(name, values[0], values[-1], step=step)
    return min(values, key=lambda value: abs(value - found))


def _step(values: Sequence[Any]) -> int | float | None:
    """Return the step of evenly spaced numbers, or None if they are not evenly spaced."""
    if len(values) < 2 or any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
        return None
    steps = [second - first for first, second in pairwise(values)]
    if all(isinstance(step, int) for step in steps):
        return steps[0] if steps[0] > 0 and len(set(steps)) == 1 else None
    mean = float(f"{(values[-1] - values[0]) / len(steps):.12g}")
    return mean if mean > 0 and all(abs(step - mean) <= 1e-9 * mean for step in steps) else None
