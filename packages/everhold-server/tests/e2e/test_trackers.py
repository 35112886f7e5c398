"""MLflow and Optuna ask a service in a process of its own: rows and key stay there, models are named in its ledger."""

import os
import re

import httpx
import mlflow
import numpy as np
import optuna
import pandas as pd
import pytest
from server_processes import serving
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import everhold as eh
from everhold.display import at_least, at_most
from everhold.errors import AuthError, QueryRejected
from everhold_integrations.mlflow import HoldoutEvaluator, compare_versions
from everhold_integrations.optuna import SealedObjective
from everhold_server.principals import Role
from everhold_server.serving import token_store_of

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*:DeprecationWarning:(mlflow|pydantic|alembic|google|opentelemetry).*"),
    pytest.mark.filterwarnings("ignore:Saving scikit-learn models in the pickle:FutureWarning"),
]
optuna.logging.set_verbosity(optuna.logging.ERROR)

ROWS = 4_000
FEATURES = ["x", "z"]


def drawn(seed, first):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(ROWS, 2)), columns=FEATURES)
    table.insert(0, "id", np.arange(first, first + ROWS))
    table["late"] = ((table.x > 0) ^ (rng.random(ROWS) < 0.1)).astype(int)
    return table


SEALED, OPEN = drawn(1, 0), drawn(2, ROWS)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """The address of a server process, a token of each role, and the storage."""
    folder = tmp_path_factory.mktemp("service")
    storage = f"sqlite:///{folder}/s.db"
    with eh.Holdout.create(
        storage, "flights", holdout=SEALED, training=OPEN, label="late", queries=200,
        rows=eh.Rows(row_id="id", features="public"),
    ) as made:  # fmt: skip
        made.allot("ada", queries=100, charges=10)
        rows = made._folder
    store = token_store_of(folder / "s.db")
    tokens = {role: store.make(role, "ada", by="test").secret for role in Role}
    store.records.database.close()
    with serving(folder, ["serve", "--storage", storage], 1) as (server,):
        yield server.url, tokens, storage, rows


@pytest.fixture
def address(service, monkeypatch):
    """The address, where the environment has the token of an analyst."""
    monkeypatch.setenv("EVERHOLD_TOKEN", service[1][Role.ANALYST])
    return service[0]


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    """Two versions of a registered model in a tracking store, with the run that logged each."""
    folder = tmp_path_factory.mktemp("mlflow")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.create_experiment("tests", artifact_location=(folder / "artifacts").as_uri())
    mlflow.set_experiment("tests")
    runs = []
    for model, features in ((LogisticRegression(), FEATURES), (DecisionTreeClassifier(max_depth=1), ["z"])):
        with mlflow.start_run() as run:
            mlflow.sklearn.log_model(
                model.fit(OPEN[features], OPEN.late), name="model", registered_model_name="churn",
                serialization_format="cloudpickle", pip_requirements=["scikit-learn"],
            )  # fmt: skip
        runs.append(run.info.run_id)
    yield runs
    mlflow.tracking.fluent._active_experiment_id = None
    os.environ.pop("MLFLOW_EXPERIMENT_ID", None)
    mlflow.set_tracking_uri(before)


def evaluated(version, settings):
    from mlflow.models.evaluation.evaluator_registry import _model_evaluation_registry as registry

    registry._registry["everhold"] = HoldoutEvaluator
    return mlflow.models.evaluate(
        f"models:/churn/{version}", drawn(3, 0).drop(columns="id"), targets="late", model_type="classifier",
        evaluators="everhold", evaluator_config=settings,
    )  # fmt: skip


def of_steward(storage):
    """The steward's transcript and certificate, where the rows are."""
    with eh.Holdout.open(storage, "flights") as holdout:
        return holdout.transcript().to_rows(), holdout.certificate()


def test_registered_models_are_evaluated_compared_and_named_in_ledger_and_certificate(
    service, address, versions, tmp_path
):
    rows = tmp_path / "features.csv"
    SEALED[["id", *FEATURES]].sample(frac=1, random_state=0).to_csv(rows, index=False)
    settings = {"storage": address, "holdout": "flights", "rows": str(rows)}
    result = evaluated(1, settings)
    truth = (SEALED.x > 0) == SEALED.late
    assert result.metrics["holdout_accuracy.low"] < truth.mean() < result.metrics["holdout_accuracy.high"]
    evaluated(2, {**settings, "rows": pd.read_csv(rows)})
    verdict = compare_versions(
        "models:/churn/1", "models:/churn/2", holdout="flights", storage=address, margin=0.02, rows=rows
    )
    assert verdict.verdict == "not worse"
    assert verdict.answer.low > 0.3
    told, certificate = of_steward(service[2])
    first, second = (f"churn version {number} of run {run}" for number, run in enumerate(versions, 1))
    assert [row["models"] for row in told[-3:]] == [first, second, f"{first} and {second}"]
    assert {row["analyst"] for row in told[-3:]} == {"ada"}
    certificate.save(saved := tmp_path / "c.html")
    assert f"; {first} and {second}" in saved.read_text(encoding="utf-8")
    assert eh.verify_certificate(saved).ok

    def page(margin, token=Role.ANALYST, models=(first, second)):
        sent = {"authorization": f"Bearer {service[1][token]}", "accept": "text/html"}
        params = {"first": models[0], "second": models[1], "margin": margin}
        found = httpx.get(f"{address}/holdouts/flights/compare", params=params, headers=sent)
        table = re.search(r"<tbody>(.*?)</tbody>", found.text, re.DOTALL)
        return found, [] if table is None else [re.sub("<[^>]+>", "", cell) for cell in table[1].split("</td>")]

    one, other = (row for row in told[-3:-1])
    answer = verdict.answer
    low, high = max(answer.low, one["low"] - other["high"]), min(answer.high, one["high"] - other["low"])
    shown = page("0.02")[1]
    assert shown[2:5] == [f"{at_least(low)} to {at_most(high)}", "their paired comparison", "not worse"]
    turned = page("", models=(second, first))[1]
    assert turned[2:5] == [f"{at_least(-high)} to {at_most(-low)}", "their paired comparison", "worse"]
    assert page("0.99", models=(second, first))[1][4] == "not worse"
    assert "Pass a number" in page("some")[0].text
    assert first not in page("", Role.VIEWER)[0].text
    assert [row["sequence"] for row in of_steward(service[2])[0]] == [row["sequence"] for row in told]


def test_a_study_of_optuna_asks_a_service(service, address):
    def objective(trial):
        cut = trial.suggest_float("cut", -2.0, 2.0)
        return eh.accuracy(f"x > {cut}"), float(((cut < OPEN.x) == OPEN.late).mean())

    with eh.Holdout.open(address, "flights") as holdout:
        assert holdout.is_served
        study = optuna.create_study(
            direction="maximize", sampler=optuna.samplers.RandomSampler(seed=1), study_name="cuts"
        )
        sealed = SealedObjective(objective, holdout)
        study.optimize(sealed, n_trials=4, callbacks=[sealed.stop_in_time])
    assert study.best_trial.user_attrs["everhold_low"] < study.best_value < study.best_trial.user_attrs["everhold_high"]
    told, certificate = of_steward(service[2])
    assert [row["models"] for row in told[-4:]] == [f"trial {number} of the study cuts" for number in range(4)]
    assert "trial 3 of the study cuts" in certificate.to_html()


def test_the_token_decides_and_is_in_no_address_message_or_log(service, versions, monkeypatch, caplog):
    url, tokens, _, folder = service
    settings = {"storage": url, "holdout": "flights", "rows": SEALED[["id", *FEATURES]]}
    monkeypatch.setenv("EVERHOLD_TOKEN", tokens[Role.VIEWER])
    with pytest.raises(AuthError) as refused:
        evaluated(1, settings)
    monkeypatch.setenv("EVERHOLD_TOKEN", "eh_wrong")
    with pytest.raises(AuthError):
        evaluated(1, settings)
    shown = str(refused.value) + caplog.text
    assert not any(secret in shown for secret in tokens.values())
    assert folder.exists()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "An estimator is not sent to a service"),
        ({"rows": SEALED[["id", "x"]]}, "rows has no column 'z'"),
        ({"rows": SEALED[["id", *FEATURES]][:-1]}, "not at all"),
        ({"analyst": "ada"}, "A service knows the analyst by the token"),
    ],
)
def test_what_cannot_be_evaluated_is_said_and_free(service, address, versions, settings, said):
    before = len(of_steward(service[2])[0])
    with pytest.raises(QueryRejected, match=said):
        evaluated(1, {"storage": address, "holdout": "flights", **settings})
    assert len(of_steward(service[2])[0]) == before


@pytest.mark.parametrize("models", [[{}], [{"colour": "red"}], [{"name": "a\nb"}], [{"name": "x" * 251}], "churn"])
def test_models_that_no_tracker_names_are_refused(service, models):
    with eh.Holdout.open(service[2], "flights") as holdout, pytest.raises(QueryRejected, match="Pass"):
        holdout.ask("late = 1", models=models)
