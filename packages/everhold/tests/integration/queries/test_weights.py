"""Weighted rows: scikit-learn's numbers with sample_weight, each patient once, and weights that cannot be meant."""

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics
from sklearn.linear_model import LinearRegression

import everhold as eh

ROWS = 1_500


def table(seed):
    rng = np.random.default_rng(seed)
    visits = rng.integers(1, 5, ROWS)
    x = rng.normal(size=ROWS) + 0.3 * visits
    return {
        "x": x, "visits": visits, "y": (x + rng.normal(size=ROWS) > 1.0).astype(int), "patient": np.arange(ROWS) // 3,
    }  # fmt: skip


SEALED, TRAINED = table(1), table(2)
TRAINED["patient"] = TRAINED["patient"] + ROWS
SCORES = {
    "accuracy": metrics.accuracy_score, "f1": metrics.f1_score, "balanced_accuracy": metrics.balanced_accuracy_score,
    "brier": metrics.brier_score_loss, "matthews_corrcoef": metrics.matthews_corrcoef,
    "neg_log_loss": lambda labels, p, sample_weight: -metrics.log_loss(labels, p, sample_weight=sample_weight),
}  # fmt: skip


def said(name, rows):
    p = 1.0 / (1.0 + np.exp(1.0 - rows["x"]))
    return p if name in ("brier", "neg_log_loss") else (p > 0.5).astype(int)


def weighted(name, rows=said):
    return eh.metric(name, rows(name, SEALED), training=rows(name, TRAINED), weight="1 / visits", weight_cap=1.0)


def create(folder, **dependence):
    columns = ["x", "visits", "y", *(["patient"] if dependence else [])]
    sealed, training = ({name: of[name] for name in columns} for of in (SEALED, TRAINED))
    return eh.Holdout.create(
        f"sqlite:///{folder}/w.db", "w", holdout=sealed, training=training, label="y", queries=50, **dependence
    )


@pytest.fixture(scope="module", params=[False, True])
def holdout(request, tmp_path_factory):
    dependence = {"dependence": eh.Groups("patient")} if request.param else {}
    with create(tmp_path_factory.mktemp("w"), **dependence) as made:
        yield made


def test_weighted_metrics_are_those_of_scikit_learn(holdout):
    asked, weights = {}, 1.0 / SEALED["visits"]
    for name, score in SCORES.items():
        asked[name] = (weighted(name), score(SEALED["y"], said(name, SEALED), sample_weight=weights))
        answer = holdout.ask(asked[name][0])
        assert "weighted by 1 / visits up to 1" in answer.shown
        assert answer.low < asked[name][1] < answer.high
    with pytest.raises(eh.QueryRejected, match="Give both the same settings"):
        eh.difference(asked["f1"][0], eh.metric("f1", said("f1", SEALED)))
    apart = eh.difference(weighted("balanced_accuracy"), weighted("balanced_accuracy", lambda *of: 1 - said(*of)))
    assert holdout.ask(apart).low > 0.1
    given = {"training": said("f1", TRAINED), "weight": "1 / visits", "weight_cap": np.float32(1)}
    same = eh.metric("f1", said("f1", SEALED), **given)
    assert holdout.ask(same).repeated
    turned = eh.difference(same, weighted("f1", lambda *of: 1 - said(*of)))
    wrong = SCORES["f1"](SEALED["y"], 1 - said("f1", SEALED), sample_weight=weights)
    assert holdout.ask(turned).low < asked["f1"][1] - wrong < holdout.ask(turned).high
    with pytest.raises(eh.QueryRejected, match="accuracy has a weight"):
        eh.difference(weighted("accuracy"), eh.accuracy(said("accuracy", SEALED)))
    holdout.unseal()
    for query, true in asked.values():
        assert holdout.ask(query).sealed == pytest.approx(true, abs=2e-4)


def test_weights_that_cannot_be_meant_are_refused_and_cost_nothing(tmp_path):
    with create(tmp_path) as holdout:
        before, given = holdout.remaining, {"training": said("f1", TRAINED)}
        for weight, cap, words in (
            ("visits", 2.0, "training rows are not from 0 to 2"), ("x", 9.0, "not from 0 to 9"),
            ("visits", float("nan"), "weight_cap is"), ("unknown", 1.0, "no column 'unknown'"),
            ("visits > 2", 4.0, "Pass where='visits > 2'"), ("visits >", 4.0, "^'visits >' is not an expression"),
        ):  # fmt: skip
            with pytest.raises(eh.QueryRejected, match=words):
                holdout.ask(eh.metric("f1", said("f1", SEALED), **given, weight=weight, weight_cap=cap))
        with pytest.raises(eh.QueryRejected, match="AUC takes no weights"):
            holdout.ask(eh.metric("roc_auc", SEALED["x"], training=TRAINED["x"], weight="visits", weight_cap=4.0))
        with pytest.raises(eh.QueryRejected, match="Pass both, or neither"):
            eh.metric("f1", said("f1", SEALED), weight="visits")
        assert holdout.remaining == before


def test_an_error_of_predictions_that_are_clipped_has_another_name(tmp_path):
    places = np.random.default_rng(0).random((2, 600)) * 900.0
    sealed, opened = ({"x": each, "y": each + np.random.default_rng(1).random(600)} for each in places)
    table = pd.DataFrame({"x": opened["x"]})
    near, far = (LinearRegression().fit(table, 200.0 + table["x"] * slope) for slope in (0.5, 2.0))
    with eh.Holdout.create(f"sqlite:///{tmp_path}/e.db", holdout=sealed, training=opened, label="y") as holdout:
        for name in ("neg_mean_absolute_error", "neg_root_mean_squared_error", "r2"):
            assert holdout.ask(eh.metric(name, far)).shown.startswith(f"{name}_clipped of ")
            assert "_clipped" not in holdout.ask(eh.metric(name, near)).shown


def test_a_log_loss_that_is_clipped_has_another_name(tmp_path):
    with create(tmp_path) as holdout:
        sure, mild = ({"training": (rows["x"] > 1.0) * far + (1.0 - far) / 2.0} for rows, far in
                      ((TRAINED, 1.0), (TRAINED, 0.5)))  # fmt: skip
        clipped = holdout.ask(eh.metric("neg_log_loss", (SEALED["x"] > 1.0) * 1.0, **sure))
        assert clipped.shown.startswith("neg_log_loss_clipped(6.908) of ")
        assert holdout.ask(eh.metric("neg_log_loss", said("brier", SEALED), **mild)).shown.startswith(
            "neg_log_loss of "
        )
