"""MLflow: answers in a run, and an evaluator for ``mlflow.models.evaluate`` that asks a holdout.

The evaluator is found by its entry point, ``mlflow.model_evaluator``, and speaks its protocol without inheriting from
MLflow's class: importing that needs matplotlib and more, which whoever only logs answers may do without.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.answers import UNSEALED, Answer
from everhold.errors import QueryRejected
from everhold.holdout import DEFAULT_STORAGE, Holdout
from everhold.questions.metrics import accuracy, brier, error
from everhold.questions.predictions import probabilities

try:
    import mlflow
    from mlflow.entities import Metric, RunTag
except ImportError as missing:
    raise ImportError(
        "everhold.mlflow needs the package mlflow, which is not installed; run: pip install 'everhold[mlflow]'"
    ) from missing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mlflow.models import EvaluationResult
    from numpy.typing import NDArray

    from everhold.questions.metrics import PredictionQuery

__all__ = ["HoldoutEvaluator", "log_answer"]

_METRICS: Mapping[str, Callable[[Any], PredictionQuery]] = {"accuracy": accuracy, "error": error, "brier": brier}
_SETTINGS = ("storage", "holdout", "metric", "name", "analyst")


def log_answer(answer: Answer, name: str, *, step: int | None = None, run_id: str | None = None) -> dict[str, float]:
    """Log an answer in a run: numbers as metrics, the rest as tags.

    There are the metrics ``name``, ``name.low``, ``name.high`` and ``name.charged``, once the study is unsealed
    ``name.sealed`` and so on, and what is left of the budget, ``name.left.questions`` and so on; and the tags
    ``name.source``, ``name.question`` and, where it is not about the population, ``name.about``. A refused or silent
    answer has no value and logs none. Tags are of the latest step.

    Args:
        answer: From `Holdout.ask`.
        name: Of the metric.
        step: Of the metrics, where a run has many answers; 0 by default.
        run_id: The run; by default the active one, or a new one.

    Returns:
        The metrics as they were logged.
    """
    told = {f"{name}.{part}": getattr(answer, part) for part in ("low", "high", *UNSEALED)}
    left = {f"{name}.left.{what}": count for what, count in answer.remaining.items()}
    every = {name: answer.value, **told, f"{name}.charged": answer.charged, **left}
    metrics = {key: float(value) for key, value in every.items() if value is not None}
    tags = {"source": answer.source, "question": answer.question, "about": answer.about}
    now = int(time.time() * 1_000)
    mlflow.MlflowClient().log_batch(
        run_id or (mlflow.active_run() or mlflow.start_run()).info.run_id,
        metrics=[Metric(key, value, now, step or 0) for key, value in metrics.items()],
        tags=[RunTag(f"{name}.{key}", text) for key, text in tags.items() if text is not None],
    )
    return metrics


class HoldoutEvaluator:
    """The evaluator ``"everhold"``: asks a holdout how good a model is, and checks the score on open data.

    The data that MLflow evaluates on are open, and their score is the guess that the holdout confirms or corrects; so
    they should be rows that the model was not fitted on. The sealed rows are met by the fitted estimator itself, in
    this process: a function, a served model or an endpoint is refused, because MLflow traces what these are called
    with, and sealed rows must not get into a trace.

    ``evaluator_config`` has ``holdout``, the name; and may have ``storage``, ``metric`` (``"accuracy"``, ``"error"`` or
    ``"brier"``), ``name`` of the logged metric and ``analyst``, on whose behalf it is asked.
    """

    @classmethod
    def can_evaluate(cls, *, model_type: str | None, evaluator_config: Mapping[str, Any], **_: Any) -> bool:
        """Whether a holdout was named: MLflow tries every evaluator that is installed."""
        return "holdout" in evaluator_config

    def evaluate(
        self, *, model: Any, dataset: Any, run_id: str, evaluator_config: Mapping[str, Any], **_: Any
    ) -> EvaluationResult:
        """Ask the holdout, and log the answer in the run.

        Raises:
            QueryRejected: If the model cannot be asked about, or a setting is wrong. Nothing was charged.
            BudgetExhausted: If what is left does not surely pay for the question. Nothing was charged.
        """
        from mlflow.models import EvaluationResult  # matplotlib and more

        settings = _checked(evaluator_config)
        metric = settings.get("metric", "accuracy")
        estimator = _estimator(model)
        guess = _score(metric, estimator, dataset)
        with Holdout.open(settings.get("storage", DEFAULT_STORAGE), settings["holdout"]) as opened:
            holdout = opened if settings.get("analyst") is None else opened.analyst(settings["analyst"])
            answer = holdout.ask(_METRICS[metric](estimator), guess=guess, strict=True)
        metrics = log_answer(answer, settings.get("name", f"holdout_{metric}"), run_id=run_id)
        made: Any = EvaluationResult  # has no types
        result: EvaluationResult = made(metrics=metrics, artifacts={}, run_id=run_id)
        return result


def _checked(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    unknown = [name for name in settings if name not in _SETTINGS]
    if unknown or settings.get("metric", "accuracy") not in _METRICS:
        fault = f"there is no setting {unknown[0]!r}" if unknown else f"the metric is {settings['metric']!r}"
        raise QueryRejected(
            f"{fault}; expected an evaluator_config with some of {', '.join(_SETTINGS)}, and as metric one of "
            f"{', '.join(_METRICS)}; nothing was charged"
        )
    return settings


def _estimator(model: Any) -> Any:
    """The fitted estimator in an MLflow model.

    Raises:
        QueryRejected: If there is none that predicts in this process.
    """
    raw = model.get_raw_model() if hasattr(model, "get_raw_model") else None
    if not (hasattr(raw, "predict") and hasattr(raw, "get_params")):  # scikit-learn's conventions
        raise QueryRejected(
            "the model is no fitted estimator in scikit-learn's conventions; expected one that was logged as such, as "
            "by mlflow.sklearn.log_model: MLflow may trace what functions, agents and endpoints are called with, and "
            "sealed rows must not get into a trace; ask the holdout about predictions and use log_answer; nothing was "
            "charged"
        )
    return raw


def _score(metric: str, estimator: Any, dataset: Any) -> float | None:
    """The score on MLflow's open data, as the guess; None where there are no targets or it is no number."""
    features, labels = dataset.features_data, dataset.labels_data
    if labels is None:
        return None
    named = getattr(estimator, "feature_names_in_", None)
    table = np.asarray(features) if named is None else features[list(named)]
    score = float(np.mean(_row_scores(metric, estimator, table, np.asarray(labels))))
    return score if math.isfinite(score) else None


def _row_scores(metric: str, estimator: Any, table: Any, labels: NDArray[Any]) -> NDArray[Any]:
    if metric == "brier":
        return np.asarray((probabilities(estimator, table) - labels) ** 2)
    right = np.asarray(estimator.predict(table) == labels)
    return ~right if metric == "error" else right
