"""Differences of two models in scores that are averages of parts, and scores in slices: against scikit-learn."""

import numpy as np
import pandas as pd
import pytest
from sealed_copies import copy_of
from sklearn import metrics
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import everhold as eh
from everhold.queries.metrics.registry import METRICS

ROWS = 3_000
FEATURES = ["x", "z"]
LOG_CLIP = np.log(1000.0)


def table(seed, *, of="classes"):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, ROWS))
    number = x + x * z + rng.normal(size=ROWS)
    label = number if of == "numbers" else np.select([number > 1.0, number > -0.5], ["a", "b"], "c")
    return {"x": x, "z": z, "region": rng.choice(["N", "S"], ROWS), "y": label if of != "binary" else (number > 1) * 1}


def seal(folder, of):
    rows = {"holdout": table(1, of=of), "training": table(2, of=of), "label": "y"}
    return eh.Holdout.create(f"{folder}/s.db", "h", **rows, mechanism="guess_and_check", queries=100)


def create(folder, of):
    return copy_of(folder, seal, of, storage="s.db", name="h")


def classifiers():
    return DecisionTreeClassifier(max_depth=4, random_state=0), LogisticRegression()


def regressors():
    return DecisionTreeRegressor(max_depth=4, random_state=0), LinearRegression()


def log_loss(model, rows, labels):
    told = model.predict_proba(rows)[np.arange(len(labels)), np.searchsorted(model.classes_, labels)]
    with np.errstate(divide="ignore"):
        return float(np.mean(np.minimum(-np.log(told), LOG_CLIP)))


CASES = {
    "balanced_accuracy": ("classes", classifiers, lambda m, x, y: metrics.balanced_accuracy_score(y, m.predict(x))),
    "f1_macro": ("classes", classifiers, lambda m, x, y: metrics.f1_score(y, m.predict(x), average="macro")),
    "f1_weighted": ("classes", classifiers, lambda m, x, y: metrics.f1_score(y, m.predict(x), average="weighted")),
    "neg_log_loss": ("classes", classifiers, lambda m, x, y: -log_loss(m, x, y)),
    "matthews_corrcoef": ("binary", classifiers, lambda m, x, y: metrics.matthews_corrcoef(y, m.predict(x))),
    "neg_brier_score": (
        "binary", classifiers, lambda m, x, y: -metrics.brier_score_loss(y, m.predict_proba(x)[:, 1]),
    ),
    "neg_mean_absolute_error": (
        "numbers", regressors, lambda m, x, y: -metrics.mean_absolute_error(y, m.predict(x)),
    ),
    "neg_mean_squared_error": ("numbers", regressors, lambda m, x, y: -metrics.mean_squared_error(y, m.predict(x))),
    "neg_root_mean_squared_error": (
        "numbers", regressors, lambda m, x, y: -metrics.root_mean_squared_error(y, m.predict(x)),
    ),
}  # fmt: skip
COMPARED = [name for name in CASES if METRICS[name].two == "any"]


def of_sealed(of, where=None):
    rows = table(1, of=of)
    counting = np.ones(ROWS, dtype=bool) if where is None else rows["region"] == where
    return pd.DataFrame({name: rows[name][counting] for name in FEATURES}), rows["y"][counting]


@pytest.mark.parametrize("name", CASES)
def test_a_score_of_a_slice_is_that_of_its_rows(tmp_path, name):
    of, models, score = CASES[name]
    with create(tmp_path, of) as holdout:
        model, _ = models()
        answer = holdout.evaluate(model, name, features=FEATURES, where="region = 'N'")
        assert answer.charged == 0
        assert holdout.ask(eh.metric(name, model, where="region = 'N'")).query == answer.query
        whole = holdout.evaluate(models()[0], name, features=FEATURES)
        assert answer.query != whole.query
        assert whole.high - whole.low < answer.high - answer.low
        holdout.unseal()
        row = holdout.transcript().rows[0]
    assert "among rows with region = 'N'" in row["asked"]
    truth = score(model, *of_sealed(of, "N"))
    tolerance = 0.02 if of == "numbers" else 1e-6  # predictions outside of the range of labels are clipped
    assert row["sealed"] == pytest.approx(truth, abs=tolerance)
    assert answer.low <= row["sealed_low"] < truth < row["sealed_high"] <= answer.high


@pytest.mark.parametrize("name", COMPARED)
def test_two_models_are_compared_by_one_query(tmp_path, name):
    of, models, score = CASES[name]
    with create(tmp_path, of) as holdout:
        first, second = models()
        answer = holdout.compare(first, second, name, features=FEATURES)
        assert holdout.status()["queries_asked"] == 1
        assert holdout.compare(first, second, name, features=FEATURES).repeated
        sliced = holdout.compare(first, second, name, features=FEATURES, where="region = 'S'")
        single = holdout.evaluate(first, name, features=FEATURES)
        holdout.unseal()
        rows = holdout.transcript().rows
    for told, row, where in ((answer, rows[0], None), (sliced, rows[1], "S")):
        truth = score(first, *of_sealed(of, where)) - score(second, *of_sealed(of, where))
        assert row["sealed"] == pytest.approx(truth, abs=0.02 if of == "numbers" else 1e-6)
        assert told.low <= row["sealed_low"] < truth < row["sealed_high"] <= told.high
    assert answer.high - answer.low < 1.5 * (single.high - single.low)  # two intervals would be twice as wide


def test_arrays_are_compared_with_a_guess_and_a_quote_is_what_the_answer_is(tmp_path):
    rng, rows = np.random.default_rng(3), table(1, of="numbers")
    first = rows["y"] + rng.normal(size=ROWS)
    second = first + 0.2 * rng.normal(size=ROWS)
    with create(tmp_path, "numbers") as holdout:
        query = eh.difference(*(eh.metric("neg_mean_squared_error", each) for each in (first, second)))
        with pytest.raises(eh.QueryRejected, match="guess"):
            holdout.ask(query)
        quote, answer = holdout.quote(query, guess=0.0), holdout.ask(query, guess=0.0)
        truth = -np.mean((first - rows["y"]) ** 2) + np.mean((second - rows["y"]) ** 2)
        assert answer.low < truth < answer.high
        assert (answer.high - answer.low) / 2.0 <= quote.radius + 1e-9
        single = holdout.ask(eh.metric("neg_mean_squared_error", first), guess=-1.0)
        assert answer.high - answer.low < 0.6 * (single.high - single.low)
        assert "difference" in holdout.certificate({"mse": answer}).to_html()


def test_every_slice_of_a_score(tmp_path):
    with create(tmp_path, "classes") as holdout:
        model = classifiers()[0]
        found = holdout.evaluate(model, "balanced_accuracy", features=FEATURES, by=["region"])
        for name in "NS":
            inputs, labels = of_sealed("classes", name)
            assert found[name].low < metrics.balanced_accuracy_score(labels, model.predict(inputs)) < found[name].high


@pytest.mark.parametrize("name", ["balanced_accuracy", "f1_macro", "neg_log_loss"])
def test_a_slice_without_training_rows_makes_no_guess(tmp_path, name):
    model = classifiers()[0]
    with create(tmp_path, "classes") as holdout:
        before, asked = holdout.status()["queries_asked"], {"features": FEATURES, "where": "x > 100"}
        with pytest.raises(eh.QueryRejected, match="the training rows do not give one"):
            holdout.evaluate(model, name, **asked)
        assert holdout.status()["queries_asked"] == before
        ends = (-LOG_CLIP, 0.0) if name == "neg_log_loss" else (0.0, 1.0)
        answer = holdout.evaluate(model, name, guess=sum(ends) / 2.0, **asked)
        assert (answer.low, answer.high, answer.source, answer.charged) == (*ends, "guess", 0)
        with pytest.raises(eh.QueryRejected, match="the training rows do not give one"):
            holdout.compare(*classifiers(), name, **asked)
        told = holdout.compare(*classifiers(), name, guess=0.0, **asked)
        reach = ends[1] - ends[0]
        assert (told.low, told.high, told.charged) == (-reach, reach, 0)


def test_some_training_rows_without_a_class_still_make_a_guess(tmp_path):
    with create(tmp_path, "classes") as holdout:
        answer = holdout.evaluate(classifiers()[0], "balanced_accuracy", features=FEATURES, where="x > 1.5 and z > 0")
        assert answer.source == "training"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (lambda h, a, b: h.compare(a, b, "f1_weighted", features=FEATURES), "Compare them by f1_macro"),
        (lambda h, a, b: h.compare(a, b, "r2", features=FEATURES), "Compare them by neg_mean_squared_error"),
        (lambda h, a, b: h.evaluate(a, "f1_macro", features=FEATURES, where="x"), "no condition"),
        (lambda h, a, b: h.evaluate(a, "f1_macro", features=FEATURES, where="nothing = 1"), "no column"),
        (
            lambda h, a, b: h.ask(eh.difference(eh.metric("f1_macro", a), eh.metric("balanced_accuracy", b))),
            "One score is f1_macro and the other balanced_accuracy",
        ),
        (
            lambda h, a, b: h.ask(
                eh.difference(eh.metric("balanced_accuracy", a), eh.metric("balanced_accuracy", b, where="x > 0"))
            ),
            "different ranges, rows",
        ),
        (
            lambda h, a, b: h.ask(
                eh.difference(eh.metric("balanced_accuracy", a), eh.metric("balanced_accuracy", ["a"] * ROWS)), guess=0
            ),
            "compared on the same rows",
        ),
        (lambda h, a, b: h.ask(eh.metric("expected_calibration_error", a, where="x > 0")), "needs labels 0 and 1"),
    ],
)
def test_what_cannot_be_asked_costs_nothing(tmp_path, asked, said):
    with create(tmp_path, "classes") as holdout:
        inputs, labels = holdout.training_rows(FEATURES)
        models = [model.fit(inputs, labels) for model in classifiers()]
        with pytest.raises(eh.QueryRejected, match=said):
            asked(holdout, *models)
        assert holdout.status()["queries_asked"] == 0


def test_bins_are_not_asked_of_a_slice(tmp_path):
    with create(tmp_path, "binary") as holdout:
        model = LogisticRegression().fit(*holdout.training_rows(FEATURES))
        with pytest.raises(eh.QueryRejected, match="has a guarantee for all rows only"):
            holdout.ask(eh.metric("expected_calibration_error", model, where="x > 0"))
        assert holdout.status()["queries_asked"] == 0
