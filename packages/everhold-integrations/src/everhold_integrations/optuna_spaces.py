"""Search spaces of Optuna with steps, declared as families so that each trial is a member."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.families.grid import GridFamily, grid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optuna import Trial
    from optuna.distributions import BaseDistribution


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
    """Return the point of a space that a trial suggests, with steps as numbers and the rest as categories."""
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
