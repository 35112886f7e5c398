"""Scorers and metric functions of scikit-learn, models that do not come from it, and means of functions."""

import numpy as np
import pandas as pd
import pytest
from sealed_copies import copy_of
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    f1_score,
    fbeta_score,
    get_scorer,
    make_scorer,
    mean_squared_error,
    roc_auc_score,
)

import everhold as eh
from everhold.queries.metrics.registry import METRICS, REFUSED
from everhold.queries.metrics.scores import as_metric

ROWS = 1_500
PROBABILITIES = {"response_method": "predict_proba"}


def table(seed):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, ROWS))
    return {"x": x, "z": z, "y": (x + rng.normal(size=ROWS) > 0).astype(int)}


def seal(folder):
    rows = {"holdout": table(1), "training": table(2), "label": "y"}
    return eh.Holdout.create(f"sqlite:///{folder}/s.db", "s", **rows, queries=100)


@pytest.fixture
def holdout(tmp_path):
    with copy_of(tmp_path, seal, storage="s.db", name="s") as holdout:
        yield holdout


@pytest.mark.parametrize("name", sorted({*METRICS, *REFUSED} - {"error", "brier"}))
def test_scorers_of_scikit_learn_are_known_by_name(name):
    try:
        scorer = get_scorer(name)
    except ValueError:  # a score of everhold's own
        return
    if name in METRICS:
        assert as_metric(scorer) == name
    else:
        with pytest.raises(eh.QueryRejected, match=r"has no guarantee\. The nearest metric is"):
            as_metric(scorer)


@pytest.mark.parametrize(
    ("scorer", "name"),
    [
        (make_scorer(f1_score), "f1"), (make_scorer(f1_score, average="macro"), "f1_macro"),
        (make_scorer(fbeta_score, beta=1.0), "f1"), (accuracy_score, "accuracy"), (roc_auc_score, "roc_auc"),
        (make_scorer(roc_auc_score, **PROBABILITIES), "roc_auc"),
        (make_scorer(mean_squared_error, greater_is_better=False), "neg_mean_squared_error"),
    ],
)  # fmt: skip
def test_a_scorer_is_the_score_that_it_computes(scorer, name):
    assert as_metric(scorer) == name


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        (make_scorer(fbeta_score, beta=2), r"fbeta_score\(beta=2\) has no guarantee. The nearest metric is f1"),
        (fbeta_score, "fbeta_score"), (make_scorer(f1_score, pos_label="yes"), "pos_label='yes'"),
        (make_scorer(mean_squared_error), "is a loss"), (make_scorer(roc_auc_score), "ranks predicted classes"),
        (make_scorer(lambda y, p: 0.0), "<lambda>"), (lambda model, rows, labels: 0.0, "TypeError"),
        ({"a": "accuracy"}, "TypeError"), ([], "metric is"),
    ],
)  # fmt: skip
def test_other_metrics_are_refused_by_name_and_cost_nothing(holdout, metric, said):
    before = holdout.remaining
    for ask in (lambda: holdout.evaluate(LogisticRegression(), metric), lambda: holdout.gate(metric, champion="x > 0")):
        with pytest.raises(eh.QueryRejected):
            ask()
    with pytest.raises(eh.QueryRejected, match=said):
        holdout.evaluate(LogisticRegression(), metric)
    assert holdout.remaining == before


def test_a_scorer_is_asked_like_its_name(holdout):
    by_name = holdout.evaluate(LogisticRegression(), "roc_auc")
    assert holdout.evaluate(LogisticRegression(), get_scorer("roc_auc")).repeated
    assert by_name.low < by_name.value < by_name.high


def test_a_metric_may_be_the_mean_of_a_function(holdout):
    def costs(model):
        return eh.mean(lambda rows: model.predict(pd.DataFrame(rows)[["x", "z"]]) != rows["y"], name="cost")

    answer, error = holdout.evaluate(LogisticRegression(), costs), holdout.evaluate(LogisticRegression(), "error")
    assert answer.value == pytest.approx(error.value, abs=0.03)


class Plain:
    """A model that does not come from scikit-learn."""

    def __init__(self, column):
        self.column = column

    def fit(self, features, labels):
        self.classes_ = np.unique(labels)

    def predict(self, features):
        return (np.asarray(features)[:, self.column] > 0).astype(int)


def test_models_that_do_not_come_from_scikit_learn_are_fitted_and_compared(holdout):
    answer = holdout.compare(Plain(0), Plain(1))
    sealed, training = table(1), table(2)
    gain, guess = (np.mean((rows["x"] > 0) == rows["y"]) - np.mean((rows["z"] > 0) == rows["y"]) for rows in
                   (sealed, training))  # fmt: skip
    assert answer.low < gain < answer.high
    assert answer.value == pytest.approx(guess, abs=1e-3)


def test_a_model_without_fit_is_told_how_to_be_asked_about(holdout):
    class Fixed:
        def predict(self, features):
            return (np.asarray(features)[:, 0] > 0).astype(int)

    with pytest.raises(eh.QueryRejected, match=r"Fixed has no method fit.*eh\.metric"):
        holdout.evaluate(Fixed(), "accuracy")
