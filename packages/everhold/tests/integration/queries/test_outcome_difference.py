"""Differences of two models in scores of outcomes: one query, against scikit-learn, and what is refused."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sealed_copies import copy_of
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, f1_score, precision_score, recall_score
from sklearn.tree import DecisionTreeClassifier

import everhold as eh

SCORES = {
    "f1": f1_score, "precision": precision_score, "recall": recall_score,
    "balanced_accuracy": balanced_accuracy_score, "f1_macro": partial(f1_score, average="macro"),
}  # fmt: skip
ROWS = 3_000


def table(seed):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, ROWS))
    return {"x": x, "z": z, "late": (x + x * z + rng.normal(size=ROWS) > 1.0).astype(int)}


SEALED, TRAINING = table(1), table(2)
FEATURES = pd.DataFrame({"x": SEALED["x"], "z": SEALED["z"]})


def create(folder, **wanted):
    return eh.Holdout.create(
        f"{folder}/s.db",
        "h",
        holdout=SEALED,
        label="late",
        **{"mechanism": "guess_and_check", "queries": 100, **wanted},
    )


def trained(folder):
    return create(folder, training=TRAINING)


@pytest.fixture
def holdout(tmp_path):
    with copy_of(tmp_path, trained, storage="s.db", name="h") as made:
        yield made


@pytest.mark.parametrize("name", SCORES)
def test_models_are_compared_by_one_query_and_cross_validation_makes_the_guess(holdout, name):
    tree, line = DecisionTreeClassifier(max_depth=4, random_state=0), LogisticRegression()
    answer = holdout.compare(tree, line, name)
    assert (answer.source, answer.charged) == ("training", 0)
    assert holdout.status()["queries_asked"] == 1
    assert holdout.compare(tree, line, name).repeated
    holdout.unseal()
    (row,) = holdout.transcript().rows
    truth = SCORES[name](SEALED["late"], tree.predict(FEATURES)) - SCORES[name](SEALED["late"], line.predict(FEATURES))
    assert row["sealed"] == pytest.approx(truth, abs=1e-6)
    assert answer.low <= row["sealed_low"] < truth < row["sealed_high"] <= answer.high


def test_arrays_need_a_guess_and_a_quote_is_what_the_answer_is(tmp_path):
    rng = np.random.default_rng(3)
    first, second = (np.where(rng.random(ROWS) < right, SEALED["late"], 1 - SEALED["late"]) for right in (0.9, 0.8))
    with create(tmp_path, rows=eh.Rows(features="public")) as holdout:
        query = eh.difference(eh.f1(first), eh.f1(second))
        with pytest.raises(eh.QueryRejected, match="guess"):
            holdout.ask(query)
        truth = f1_score(SEALED["late"], first) - f1_score(SEALED["late"], second)
        quote = holdout.quote(query, guess=round(truth, 2))
        answer = holdout.ask(query, guess=round(truth, 2))
        assert answer.charged == 0
        assert (answer.high - answer.low) / 2.0 <= quote.radius + 1e-9
        assert answer.low < truth < answer.high
        assert "difference" in holdout.certificate({"f1": answer}).to_html()
        wrong = holdout.ask(eh.difference(eh.f1(second), eh.f1(first)), guess=0.5)
        assert (wrong.source, wrong.charged) == ("holdout", 1)
        assert wrong.low < -truth < wrong.high


@pytest.mark.parametrize(
    ("wanted", "query", "said"),
    [
        ({}, lambda a, b: eh.difference(eh.f1(a), eh.recall(b)), "One score is f1 and the other recall"),
        ({"dependence": eh.Groups(2)}, lambda a, b: eh.difference(eh.f1(a), eh.f1(b)), "independent rows"),
        ({}, lambda a, b: eh.difference(eh.f1(a), eh.accuracy(b)), "no mean of row values"),
    ],
)
def test_what_cannot_be_compared_costs_nothing(tmp_path, wanted, query, said):
    with create(tmp_path, rows=eh.Rows(features="public"), **wanted) as holdout:
        with pytest.raises(eh.QueryRejected, match=said):
            holdout.ask(query(SEALED["late"], 1 - SEALED["late"]), guess=0.1)
        assert holdout.status()["queries_asked"] == 0


@pytest.mark.parametrize("name", SCORES)
def test_rules_are_compared_and_training_rows_make_the_guess(holdout, name):
    asked = eh.difference(*(eh.metric(name, rule) for rule in ("x > 0.5", "x > 1")))
    answer = holdout.ask(asked)
    assert (answer.source, answer.charged) == ("training", 0)
    scores = [SCORES[name](SEALED["late"], SEALED["x"] > cut) for cut in (0.5, 1.0)]
    assert answer.low < scores[0] - scores[1] < answer.high


@pytest.mark.parametrize("name", SCORES)
def test_models_are_compared_on_a_slice(holdout, name):
    tree, line = DecisionTreeClassifier(max_depth=4, random_state=0), LogisticRegression()
    answer = holdout.compare(tree, line, name, where="z > 0")
    assert answer.charged == 0
    holdout.unseal()
    (row,) = holdout.transcript().rows
    counting = SEALED["z"] > 0
    scores = [SCORES[name](SEALED["late"][counting], model.predict(FEATURES)[counting]) for model in (tree, line)]
    assert row["sealed"] == pytest.approx(scores[0] - scores[1], abs=1e-6)
    assert answer.low <= row["sealed_low"] < scores[0] - scores[1] < row["sealed_high"] <= answer.high


@pytest.mark.parametrize("name", SCORES)
def test_nothing_is_known_of_a_slice_without_rows(holdout, name):
    """A mean of all rows has a narrower interval, and would miss."""
    models, asked = (DecisionTreeClassifier(max_depth=2, random_state=0), LogisticRegression()), {"where": "x > 100"}
    with pytest.raises(eh.QueryRejected, match="the training rows do not give one"):
        holdout.compare(*models, name, **asked)
    answer = holdout.compare(*models, name, guess=0.0, **asked)
    assert (answer.low, answer.high, answer.charged) == (-1.0, 1.0, 0)
    holdout.unseal()
    (row,) = holdout.transcript().rows
    assert (row["sealed_low"], row["sealed_high"]) == (-1.0, 1.0)


@pytest.mark.parametrize("name", [*SCORES, "accuracy", "error", "brier"])
def test_arrays_are_compared_on_a_slice_with_a_guess(tmp_path, name):
    rng = np.random.default_rng(3)
    first, second = (np.where(rng.random(ROWS) < right, SEALED["late"], 1 - SEALED["late"]) for right in (0.9, 0.8))
    counting = SEALED["z"] > 0
    with create(tmp_path, rows=eh.Rows(features="public")) as holdout:
        answer = holdout.compare(first, second, name, guess=0.0, where="z > 0")
        asked = eh.difference(*(eh.metric(name, each, where="z > 0") for each in (first, second)))
        assert holdout.ask(asked, guess=0.0).query == answer.query
    pairs = [(SEALED["late"][counting], each[counting]) for each in (first, second)]
    score = SCORES.get(name, lambda labels, told: np.mean((labels == told) == (name == "accuracy")))
    truth = score(*pairs[0]) - score(*pairs[1])
    assert answer.low < truth < answer.high
    assert answer.high - answer.low < 1.0


def test_a_loss_in_a_slice_takes_no_guess(tmp_path):
    with create(tmp_path, rows=eh.Rows(features="public")) as holdout:
        with pytest.raises(eh.QueryRejected, match="takes its guess from training rows"):
            holdout.compare(SEALED["x"], SEALED["z"], {"loss": "squared"}, guess=0.0, where="z > 0")
        assert holdout.status()["queries_asked"] == 0
