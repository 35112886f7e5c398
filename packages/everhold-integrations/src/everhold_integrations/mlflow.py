"""Integration with MLflow: logs answers in runs, and evaluates models through a holdout.

MLflow finds the evaluator by its entry point, ``mlflow.model_evaluator``. It follows MLflow's protocol without
inheriting from its class, because importing that class needs matplotlib and other packages. To log answers only
`mlflow-skinny` is needed.
"""

from __future__ import annotations

import math
import os
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.answers import UNSEALED, Answer
from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.holdout import DEFAULT_STORAGE, Holdout
from everhold.queries.metrics.row_scores import accuracy, brier, error
from everhold.queries.predictions.arrays import probabilities
from everhold.values.tracked_models import fact_of

try:
    import mlflow
    from mlflow.entities import Metric, RunTag
except ImportError as missing:
    raise ImportError(
        "everhold_integrations.mlflow needs the package mlflow. Install it: pip install 'everhold[mlflow]'"
    ) from missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mlflow.models import EvaluationResult

    from everhold.queries.metrics.label_query import LabelQuery

_METRICS: Mapping[str, Callable[[Any], LabelQuery]] = {"accuracy": accuracy, "error": error, "brier": brier}
_SETTINGS = ("storage", "holdout", "rows", "metric", "name", "analyst")


def log_answer(answer: Answer, name: str, *, step: int | None = None, run_id: str | None = None) -> dict[str, float]:
    """Log an answer in a run, with numbers as metrics and the rest as tags, and return the metrics.

    The metrics are ``name``, ``name.low``, ``name.high`` and ``name.charged``; after unsealing ``name.sealed`` and so
    on; and the remaining budget, ``name.left.queries`` and so on. The tags are ``name.source``, ``name.query`` and, for
    an answer that is not about the population, ``name.about``. The logged numbers are those of the latest step. A
    refused or silent answer has no value and logs none.

    Args:
        answer: Answer from `Holdout.ask`.
        name: Name of the metric.
        step: Step of the metrics, for a run with many answers. The default is 0.
        run_id: Id of the run. The default is the active run, or a new run if none is active.

    Returns:
        The metrics as they were logged.
    """
    told = {f"{name}.{part}": getattr(answer, part) for part in ("low", "high", *UNSEALED)}
    left = {f"{name}.left.{what}": count for what, count in answer.remaining.items()}
    every = {name: answer.value, **told, f"{name}.charged": answer.charged, **left}
    metrics = {key: float(value) for key, value in every.items() if value is not None}
    tags = {"source": answer.source, "query": answer.query, "about": answer.about}
    now = int(time.time() * 1_000)
    mlflow.MlflowClient().log_batch(
        run_id or (mlflow.active_run() or mlflow.start_run()).info.run_id,
        metrics=[Metric(key, value, now, step or 0) for key, value in metrics.items()],
        tags=[RunTag(f"{name}.{key}", text) for key, text in tags.items() if text is not None],
    )
    return metrics


class HoldoutEvaluator:
    """MLflow evaluator ``"everhold"``, which asks a holdout how good a model is.

    MLflow evaluates on open data. Their score is the guess that the holdout confirms or corrects, so pass rows on which
    the model was not fitted. The fitted estimator itself predicts the sealed rows, in this process. Functions, served
    models and endpoints are refused: MLflow traces their inputs, and a trace would contain sealed rows.

    ``evaluator_config`` has ``holdout``, the name. It may have ``storage``, ``metric`` (``"accuracy"``, ``"error"`` or
    ``"brier"``), the ``name`` of the logged metric, and the ``analyst`` who asks. ``storage`` may be the address of a
    service: then predictions travel in place of the estimator, so the features have to be public, and ``rows`` is a
    data frame or a file with them and the row ids. The token is in the environment variable ``EVERHOLD_TOKEN``.

    The ledger keeps the registered name and version of the model, and the run that logged it, beside the answer.
    """

    @classmethod
    def can_evaluate(cls, *, model_type: str | None, evaluator_config: Mapping[str, Any], **_: Any) -> bool:
        """Return whether the configuration names a holdout, as MLflow tries every installed evaluator."""
        return "holdout" in evaluator_config

    def evaluate(
        self, *, model: Any, dataset: Any, run_id: str, evaluator_config: Mapping[str, Any], **_: Any
    ) -> EvaluationResult:
        """Ask the holdout, and log the answer in the run.

        Raises:
            QueryRejected: If the model cannot be evaluated, or a setting is wrong. Nothing was charged.
            BudgetExhausted: If the remaining budget may not cover the query. Nothing was charged.
        """
        from mlflow.models import EvaluationResult  # matplotlib and more

        settings = _checked(evaluator_config)
        metric = settings.get("metric", "accuracy")
        estimator = _estimator(model)
        guess = _score(metric, estimator, dataset)
        with Holdout.open(settings.get("storage", DEFAULT_STORAGE), settings["holdout"]) as opened:
            holdout = opened if settings.get("analyst") is None else opened.analyst(settings["analyst"])
            query = _METRICS[metric](_subject(holdout, estimator, metric, settings.get("rows")))
            answer = holdout.ask(query, guess=guess, strict=True, models=[_tracked(model, run_id)])
        metrics = log_answer(answer, settings.get("name", f"holdout_{metric}"), run_id=run_id)
        made: Any = EvaluationResult  # has no types
        result: EvaluationResult = made(metrics=metrics, artifacts={}, run_id=run_id)
        return result


def _checked(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    unknown = [name for name in settings if name not in _SETTINGS]
    if unknown or settings.get("metric", "accuracy") not in list(_METRICS):
        fault = f"Unknown setting {unknown[0]!r}" if unknown else f"Unknown metric {settings['metric']!r}"
        raise QueryRejected(
            f"{fault} in evaluator_config. Its settings are {', '.join(_SETTINGS)}, and metric is one of "
            f"{', '.join(_METRICS)}."
        )
    return settings


def compare_versions(
    first: str, second: str, *, holdout: str, storage: str = DEFAULT_STORAGE, metric: str = "accuracy",
    margin: float | None = None, rows: Any = None, guess: float = 0.0,
) -> Any:  # fmt: skip
    """Ask how much larger the score of one logged model is than that of another, row by row: one query.

    The ledger keeps the registered names, versions and runs of both, and the service's page *Compare* shows the answer.

    Args:
        first: Address of a model, such as ``"models:/churn/4"``.
        second: Address of the other model.
        holdout: Name of the holdout.
        storage: Storage of the holdout, as for `Holdout.open`, or the address of a service.
        metric: ``"accuracy"``, ``"error"`` or ``"brier"``.
        margin: By how much the first model may be worse and still be called not worse.
        rows: Rows to predict, as for `HoldoutEvaluator`.
        guess: Guess of the difference.

    Returns:
        The answer, or with a margin a `MarginVerdict`, see `Holdout.compare`.

    Raises:
        QueryRejected: If the models cannot be compared. Nothing was charged.
    """
    from everhold.asking.model_scores import compare_elsewhere

    _checked({"metric": metric})
    loaded = [mlflow.pyfunc.load_model(address) for address in (first, second)]
    with Holdout.open(storage, holdout) as opened:
        both = [_METRICS[metric](_subject(opened, _estimator(model), metric, rows)) for model in loaded]
        known = [_tracked(model, None) for model in loaded]
        return compare_elsewhere(
            opened.ask, (both[0], both[1]), metric, margin=margin, guess=guess, models=known if all(known) else None
        )  # fmt: skip


def _subject(holdout: Holdout, estimator: Any, metric: str, rows: Any) -> Any:
    """Return the object to ask about: an estimator, or for a service its predictions for the public rows.

    Raises:
        QueryRejected: If there are no public rows, or the estimator cannot predict them.
    """
    schema = holdout.schema
    if not holdout.is_served:
        return estimator
    if rows is None or schema.row_id is None:
        raise QueryRejected(
            "An estimator is not sent to a service. Seal rows with public features and row ids, and pass rows=, a data "
            "frame or a file of the features with the ids."
        )
    import pandas as pd

    if isinstance(rows, str | os.PathLike):
        rows = (pd.read_parquet if str(rows).endswith(".parquet") else pd.read_csv)(rows)
    named = getattr(estimator, "feature_names_in_", None)
    columns = [name for name in schema.columns if name not in (schema.row_id, schema.label)]
    _check_columns(rows, [schema.row_id, *(columns if named is None else named)], "rows")
    table = rows[columns].to_numpy() if named is None else rows[list(named)]
    told = "prediction" if schema.row_id != "prediction" else "predicted"
    return pd.DataFrame({schema.row_id: rows[schema.row_id].to_numpy(), told: _predicted(metric, estimator, table)})


def _check_columns(table: Any, wanted: Iterable[str], what: str) -> None:
    """Raise QueryRejected if a data frame lacks a column of the model or of the ids."""
    if absent := [name for name in wanted if name not in table]:
        raise QueryRejected(f"{what} has no column {absent[0]!r}. Pass the features of the sealed rows and their ids.")


def _tracked(model: Any, run_id: str | None) -> dict[str, str]:
    """Return the first registered name and version of a logged model, and the run that logged it."""
    found = mlflow.MlflowClient().search_model_versions(f"source_path = 'models:/{model.model_id}'")
    named = min(found, key=lambda each: each.creation_timestamp, default=None)
    facts = {} if named is None else {"name": fact_of(named.name), "version": str(named.version)}
    run = model.metadata.run_id or run_id
    return facts if run is None else {**facts, "run": run}


def _estimator(model: Any) -> Any:
    """Return the fitted scikit-learn estimator inside an MLflow model.

    Raises:
        QueryRejected: If the model has no estimator that predicts in this process.
    """
    raw = model.get_raw_model() if hasattr(model, "get_raw_model") else None
    if not (hasattr(raw, "predict") and hasattr(raw, "get_params")):  # scikit-learn's conventions
        raise QueryRejected(
            "The model is not a fitted estimator in scikit-learn's conventions, and a trace of MLflow may contain the "
            "sealed rows. Log it by mlflow.sklearn.log_model, or ask the holdout about predictions and use log_answer."
        )
    return raw


def _score(metric: str, estimator: Any, dataset: Any) -> float | None:
    """Return the score on MLflow's open data as the guess, or None without targets or a finite score.

    Rows without a target are left out.

    Raises:
        QueryRejected: If a column of the model is missing, or no target is a class of the model.
    """
    import pandas as pd

    features, labels = dataset.features_data, dataset.labels_data
    if labels is None:
        return None
    named = getattr(estimator, "feature_names_in_", None)
    if named is None or not hasattr(features, "columns"):
        table: Any = np.asarray(features)
    else:
        _check_columns(features, named, "The data")
        table = features[list(named)]
    known, truth = pd.notna(np.asarray(labels)), np.asarray(labels)
    said, truth = _predicted(metric, estimator, table[known]), truth[known]
    classes = getattr(estimator, "classes_", None)
    if len(truth) and classes is not None and not np.isin(truth, classes).any():
        raise QueryRejected(
            f"The first target is {brief(truth[0])}, and no target is a class of the model. Pass targets in the form "
            "of the sealed labels."
        )
    score = float(np.mean((said - truth) ** 2 if metric == "brier" else (said == truth) != (metric == "error")))
    return score if math.isfinite(score) else None


def _predicted(metric: str, estimator: Any, table: Any) -> Any:
    """Return an estimator's output for a metric: predicted classes, or probabilities of label 1."""
    return probabilities(estimator, table) if metric == "brier" else np.asarray(estimator.predict(table))
