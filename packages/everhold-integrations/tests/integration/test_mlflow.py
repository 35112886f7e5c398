"""Answers in a run of MLflow, and the evaluator that MLflow finds by its entry point."""

import importlib
import os
import sys
import tomllib
from pathlib import Path

import holdout_samples
import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow.models.evaluation.evaluator_registry import _model_evaluation_registry as registry
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import everhold as eh
from everhold.asking.creation import settings_from
from everhold.errors import BudgetExhausted, QueryRejected
from everhold_integrations.mlflow import HoldoutEvaluator, compare_versions, log_answer

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*:DeprecationWarning:(mlflow|pydantic|alembic|google|opentelemetry).*"),
    pytest.mark.filterwarnings("ignore:Saving scikit-learn models in the pickle:FutureWarning"),
]

ROWS = 1_000


@pytest.fixture(scope="module")
def tracking(tmp_path_factory):
    """One tracking database for all tests: making its tables takes seconds."""
    folder = tmp_path_factory.mktemp("mlflow")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.create_experiment("tests", artifact_location=(folder / "artifacts").as_uri())
    mlflow.set_experiment("tests")
    yield
    mlflow.tracking.fluent._active_experiment_id = None  # others have another database
    os.environ.pop("MLFLOW_EXPERIMENT_ID", None)
    mlflow.set_tracking_uri(before)


@pytest.fixture
def run(tracking):
    with mlflow.start_run() as started:
        yield started


@pytest.fixture
def holdout(tmp_path):
    with holdout_samples.copied(tmp_path) as made:
        yield made


def kept(run):
    return mlflow.get_run(run.info.run_id).data


def test_an_answer_is_logged_with_its_interval_and_source(run, holdout):
    answer = holdout.ask("delay > 15")
    logged = log_answer(answer, "late")
    assert kept(run).metrics == logged
    assert logged == {
        "late": answer.value, "late.low": answer.low, "late.high": answer.high, "late.charged": 0.0,
        "late.left.queries": 59.0, "late.left.surprises": float(answer.remaining["surprises"]),
    }  # fmt: skip
    tags = {name: text for name, text in kept(run).tags.items() if name.startswith("late.")}
    assert tags == {"late.source": "training", "late.query": answer.query}


def test_many_answers_are_steps_of_one_run(tracking, holdout):
    with mlflow.start_run() as started:
        pass
    for step, cut in enumerate((0, 10, 20)):
        log_answer(holdout.ask(f"delay > {cut}"), "late", step=step, run_id=started.info.run_id)
    history = mlflow.MlflowClient().get_metric_history(started.info.run_id, "late.low")
    assert [metric.step for metric in history] == [0, 1, 2]
    assert mlflow.active_run() is None


def test_what_has_no_value_logs_none(run, holdout):
    logged = log_answer(holdout.ask("delay > 15", silent=True), "silent")
    assert set(logged) == {"silent.charged", "silent.left.queries", "silent.left.surprises"}
    assert kept(run).tags["silent.source"] == "silent"
    holdout.unseal()
    logged = log_answer(holdout.ask("delay > 15", silent=True), "silent")
    assert logged["silent.sealed_low"] < logged["silent.sealed"] < logged["silent.sealed_high"]
    assert "silent" not in logged


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(2)
    table = pd.DataFrame(rng.normal(size=(3 * ROWS, 3)), columns=["x", "y", "z"])
    table["late"] = ((table.x > 0) ^ (rng.random(3 * ROWS) < 0.2)).astype(int)
    return [table[start : start + ROWS].reset_index(drop=True) for start in range(0, 3 * ROWS, ROWS)]


@pytest.fixture
def trained(tmp_path, rows):
    """A holdout, the arguments with which MLflow evaluates, and a fitted model's address."""
    training, sealed, _ = rows
    storage = f"sqlite:///{tmp_path}/study.db"
    with holdout_samples.copied(tmp_path, holdout=sealed, training=training) as holdout:
        yield holdout, {"storage": storage, "holdout": "study"}


@pytest.fixture
def registered(tmp_path, monkeypatch):
    """The entry point of the distribution, as if it had just been installed."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (point,) = project["entry-points"]["mlflow.model_evaluator"].items()
    folder = tmp_path / "installed" / "everhold_points-1.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: everhold-points\nVersion: 1\n")
    (folder / "entry_points.txt").write_text("[mlflow.model_evaluator]\n{} = {}\n".format(*point))
    monkeypatch.syspath_prepend(folder.parent)
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))
    registry._registry.pop("everhold", None)
    registry.register_entrypoints()


def fitted(kind, training):
    return kind.fit(training[["x", "y", "z"]], training.late)


def evaluated(model, data, settings, **arguments):
    address = mlflow.sklearn.log_model(
        model, name="model", serialization_format="cloudpickle", pip_requirements=["scikit-learn"]
    ).model_uri
    wanted = {"targets": "late", "model_type": "classifier", "evaluators": "everhold", "evaluator_config": settings}
    return mlflow.models.evaluate(address, data, **{**wanted, **arguments})


@pytest.mark.parametrize("metric", ["accuracy", "error", "brier"])
def test_the_evaluator_asks_the_holdout_and_guesses_from_open_data(run, registered, trained, rows, metric):
    holdout, settings = trained
    training, _, validation = rows
    model = fitted(LogisticRegression(), training)
    result = evaluated(model, validation, {**settings, "metric": metric})
    answer = holdout.ask(getattr(eh, metric)(model))
    assert answer.repeated
    assert answer.source == "guess"
    right = model.predict(validation[["x", "y", "z"]]) == validation.late
    brier = (model.predict_proba(validation[["x", "y", "z"]])[:, 1] - validation.late) ** 2
    guess = {"accuracy": right.mean(), "error": 1 - right.mean(), "brier": brier.mean()}[metric]
    assert answer.value == pytest.approx(guess, abs=1e-6)
    assert result.metrics[f"holdout_{metric}.low"] == answer.low == kept(run).metrics[f"holdout_{metric}.low"]
    assert kept(run).tags[f"holdout_{metric}.source"] == "guess"


def test_beside_other_evaluators_it_needs_its_own_settings(run, registered, trained, rows):
    holdout, settings = trained
    config = {"default": {"log_model_explainability": False}, "everhold": {**settings, "name": "sealed"}}
    model = fitted(LogisticRegression(), rows[0])
    result = evaluated(model, rows[2], config, evaluators=["default", "everhold"])
    assert {"accuracy_score", "sealed", "sealed.low"} <= set(result.metrics)
    before = holdout.status()
    result = evaluated(model, rows[2], {"log_model_explainability": False}, evaluators=None)
    assert "accuracy_score" in result.metrics
    assert holdout.status() == before


def test_data_that_the_model_was_fitted_on_make_a_surprise(run, registered, trained, rows):
    holdout, settings = trained
    evaluated(fitted(DecisionTreeClassifier(random_state=0), rows[0]), rows[0], settings)
    assert holdout.transcript().to_rows()[0]["source"] == "holdout"


def test_sealed_rows_meet_no_function_that_mlflow_may_trace(run, registered, trained, rows):
    holdout, settings = trained
    model = fitted(LogisticRegression(), rows[0])
    seen = []

    @mlflow.trace
    def traced(table):
        seen.append(len(table))
        return model.predict(table)

    before = holdout.status()
    with pytest.raises(QueryRejected, match="a trace of MLflow may contain the sealed rows"):
        mlflow.models.evaluate(
            traced, rows[2], targets="late", model_type="classifier", evaluators="everhold", evaluator_config=settings
        )
    assert holdout.status() == before
    assert seen == []


def test_the_guess_is_made_of_known_targets_in_any_table(run, registered, trained, rows):
    holdout, settings = trained
    model = fitted(LogisticRegression(), rows[0])
    known = (model.predict(rows[2][["x", "y", "z"]]) == rows[2].late).mean()
    unknown = rows[2][["x", "y", "z"]].assign(late=np.nan)
    evaluated(model, pd.concat([unknown, rows[2]]), settings)
    assert holdout.ask(eh.accuracy(model)).value == pytest.approx(known, abs=1e-6)
    other = fitted(LogisticRegression(C=0.01), rows[0])
    table = rows[2].assign(late=rows[2].late.astype(float)).to_numpy()
    with pytest.warns(UserWarning, match="feature names"):
        evaluated(other, table[:, :3], settings, targets=table[:, 3])
    assert holdout.ask(eh.accuracy(other)).source == "guess"


@pytest.mark.parametrize("said", ["no target is a class", "no column 'z'"])
@pytest.mark.parametrize("metric", ["accuracy", "brier"])
def test_data_that_do_not_fit_the_model_cost_no_surprise(run, registered, trained, rows, said, metric):
    holdout, settings = trained
    before = holdout.status()
    data = rows[2].drop(columns="z") if "z" in said else rows[2].assign(late="yes")
    with pytest.raises(QueryRejected, match=said):
        evaluated(fitted(LogisticRegression(), rows[0]), data, {**settings, "metric": metric})
    assert holdout.status() == before


def test_models_that_no_tracker_knows_are_compared(tracking, trained, rows, tmp_path):
    _, settings = trained
    for name, strength in (("first", 1.0), ("second", 0.01)):
        model = fitted(LogisticRegression(C=strength), rows[0])
        mlflow.sklearn.save_model(
            model, tmp_path / name, serialization_format="cloudpickle", pip_requirements=["scikit-learn"]
        )
    told = compare_versions(str(tmp_path / "first"), str(tmp_path / "second"), **settings)
    assert told.low < 0.0 < told.high


@pytest.mark.parametrize("wrong", [{"metric": "roc"}, {"metric": ["accuracy"]}, {"metrics": "accuracy"}])
def test_a_wrong_setting_is_named_and_free(run, registered, trained, rows, wrong):
    holdout, settings = trained
    before = holdout.status()
    with pytest.raises(QueryRejected, match=r"Unknown .* in evaluator_config\. Its settings are storage, holdout"):
        evaluated(fitted(LogisticRegression(), rows[0]), rows[2], {**settings, **wrong})
    assert holdout.status() == before


def test_a_spent_allotment_is_an_error_and_not_a_missing_metric(run, registered, trained, rows):
    holdout, settings = trained
    holdout.allot("ada", queries=1)
    settings = {**settings, "analyst": "ada"}
    evaluated(fitted(LogisticRegression(), rows[0]), rows[2], settings)
    with pytest.raises(BudgetExhausted, match="nothing was charged"):
        evaluated(fitted(DecisionTreeClassifier(random_state=0), rows[0]), rows[2], settings)


def test_autologging_logs_no_digest_of_sealed_rows(run, tmp_path, rows):
    """MLflow patches `predict` of whatever was fitted under it, and logs what it was called with as a dataset."""
    training, sealed = rows[0], rows[1][:777]

    def logged():
        """How many tables of as many rows as are sealed; no open one is as long."""
        inputs = mlflow.get_run(run.info.run_id).inputs.dataset_inputs
        return sum('"num_rows": 777,' in each.dataset.profile for each in inputs)

    mlflow.sklearn.autolog(log_models=False, silent=True)
    try:
        model = fitted(LogisticRegression(), training)
        before = logged()
        wanted = {"label": "late", "queries": 50, "training": training, "allow_vacuous": True}
        with eh.Holdout.create(tmp_path / "s.db", "s", holdout=sealed, **settings_from(wanted)) as holdout:
            assert holdout.ask(eh.accuracy(model), guess=0.8).value is not None
        assert logged() == before
        model.predict(sealed[["x", "y", "z"]])
        assert logged() == before + 1  # without protection
    finally:
        mlflow.sklearn.autolog(disable=True)


def test_without_a_holdout_it_evaluates_nothing():
    assert not HoldoutEvaluator.can_evaluate(model_type="classifier", evaluator_config={})


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.delitem(sys.modules, "everhold_integrations.mlflow")
    with pytest.raises(ImportError, match=r"pip install 'everhold\[mlflow\]'"):
        importlib.import_module("everhold_integrations.mlflow")
