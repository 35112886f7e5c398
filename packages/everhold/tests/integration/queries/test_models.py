"""Cross-validation as a guess: means what the answer means, on every kind of metric."""

from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.metrics import accuracy_score, brier_score_loss, f1_score, precision_score, recall_score, roc_auc_score
from sklearn.model_selection import ShuffleSplit, cross_val_predict
from sklearn.tree import DecisionTreeClassifier
from sklearn_samples import ROWS, create, points

import everhold as eh
from everhold import QueryRejected
from everhold.queries.metrics.models import greater_is_better, model_query, outputs_of
from everhold.queries.metrics.scores import maker_of

METRICS = {
    "accuracy": accuracy_score,
    "error": lambda labels, said: 1.0 - accuracy_score(labels, said),
    "precision": precision_score,
    "recall": recall_score,
    "f1": f1_score,
}


@pytest.fixture(scope="module")
def holdout(tmp_path_factory):
    with create(tmp_path_factory.mktemp("models")) as made:
        yield made


class Shy(LogisticRegression):
    def __repr__(self):
        raise RuntimeError


def test_a_model_is_shown_with_its_class_and_parameters(holdout):
    shown = {
        "DecisionTreeClassifier(max_depth=2, random_state=0) ": DecisionTreeClassifier(max_depth=2, random_state=0),
        "LogisticRegression ": LogisticRegression(), "Shy ": Shy(C=0.5),
        "DecisionTreeClassifier(class_weight={0: 1.0": DecisionTreeClassifier(class_weight={0: 1.0, 1: 2.0, 2: 1e-9}),
    }  # fmt: skip
    for said, model in shown.items():
        answer = holdout.evaluate(model, silent=True)
        assert answer.shown.startswith(f"accuracy of {said}")
        assert len(answer.shown) < 120


def scored(holdout, metric, model, rows, labels):
    """The metric of a model's outputs on open rows, and whether a greater value is better."""
    make, schema = maker_of(metric), holdout.schema
    query = model_query(make, model)
    return query.score_of(outputs_of(query, rows, schema), labels, schema), greater_is_better(make, schema)


@pytest.mark.parametrize("metric", METRICS)
def test_scores_are_those_of_scikit_learn(holdout, metric):
    rows, labels = holdout.training_rows()
    model = DecisionTreeClassifier(max_depth=3).fit(rows, labels)
    expected = METRICS[metric](labels, model.predict(rows))
    assert scored(holdout, metric, model, rows, labels) == (pytest.approx(expected), metric != "error")


def test_scores_of_probabilities_and_of_rankings(holdout):
    rows, labels = holdout.training_rows()
    model = LogisticRegression().fit(rows, labels)
    said = model.predict_proba(rows)[:, 1]
    expected, positives = pytest.approx(brier_score_loss(labels, said)), int(labels.sum())
    assert scored(holdout, "brier", model, rows, labels) == (expected, False)
    auc = partial(eh.auc, positives=positives, negatives=ROWS - positives)
    assert scored(holdout, auc, model, rows, labels) == (pytest.approx(roc_auc_score(labels, said)), True)


@pytest.mark.parametrize("metric", ["neg_log_loss", "neg_brier_score"])
def test_a_metric_of_probabilities_refuses_estimators_without_them(holdout, metric):
    before = holdout.remaining
    with pytest.raises(eh.QueryRejected, match="a Perceptron has no method predict_proba"):
        holdout.evaluate(Perceptron(), metric)
    assert holdout.remaining == before


def test_the_guess_is_cross_validation_and_no_training_score(holdout):
    rows, labels = holdout.training_rows()
    model, before = DecisionTreeClassifier(random_state=0), holdout.remaining["queries"]
    answer = holdout.evaluate(model, cv=4)
    said = cross_val_predict(DecisionTreeClassifier(random_state=0), rows, labels, cv=4)
    assert answer.source == "training"
    assert answer.value == pytest.approx(np.mean(said == labels), abs=1e-6)
    assert model.score(rows, labels) == 1.0  # fitted in place, on all training rows
    assert answer.low <= np.mean(model.predict(_frame(rows, 8)) == points(8)["y"]) <= answer.high
    assert before - holdout.remaining["queries"] == 1
    assert holdout.evaluate(DecisionTreeClassifier(random_state=0), cv=3).repeated  # the same model: the stored answer
    assert holdout.ask(eh.accuracy(model)).repeated


def test_without_cross_validation_the_same_model_is_a_surprise(tmp_path):
    """The protection removed: a tree's own predictions of the rows that it has learned by heart."""
    with create(tmp_path) as holdout:
        model = DecisionTreeClassifier(random_state=0).fit(*holdout.training_rows())
        assert holdout.ask(eh.accuracy(model)).charged == 1


def test_folds_that_leave_rows_out_make_a_guess_of_their_scores(holdout):
    model = LogisticRegression(C=0.5)
    answer = holdout.evaluate(model, cv=ShuffleSplit(2, test_size=0.3, random_state=0))
    assert answer.source == "guess"


def test_columns_may_be_chosen(holdout):
    model = LogisticRegression()
    holdout.evaluate(model, features=["b"], cv=2)
    assert list(model.feature_names_in_) == ["b"]
    for wrong in ([], "b", ["y"], ["nowhere"]):
        with pytest.raises(QueryRejected, match=r"features is .* Pass a list of some of a, b"):
            holdout.training_rows(wrong)


def test_what_cannot_be_a_metric_costs_no_fit_and_no_query(holdout):
    before = holdout.remaining
    for wrong in ("mse", 7, lambda model: 0.5):
        with pytest.raises(QueryRejected, match=r"The metric is|There is no metric"):
            holdout.evaluate(None, wrong)
    assert holdout.remaining == before


def test_without_training_rows_there_is_nothing_to_fit_on(tmp_path):
    with create(tmp_path, training=None) as holdout, pytest.raises(QueryRejected, match="has no training rows"):
        holdout.evaluate(LogisticRegression())
    with create(tmp_path, "unlabelled", label=None) as holdout, pytest.raises(QueryRejected, match="no label column"):
        holdout.training_rows()


def _frame(rows, seed):
    fresh = points(seed)
    return rows.assign(a=fresh["a"], b=fresh["b"])
