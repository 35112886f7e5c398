"""Predictions against labels: what is the same query, what is refused, and estimators of scikit-learn."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from everhold import GuessAndCheck, Holdout, QueryRejected, Rows, accuracy, brier, error, metric
from everhold.asking.creation import settings_from
from everhold.values.base import Schema
from everhold.values.expressions import ColumnKind

ROWS = 6
COLUMNS = {"x": ColumnKind.NUMBER, "kind": ColumnKind.STRING, "late": ColumnKind.NUMBER}


def schema(label="late", label_kind="binary", training_rows=0):
    return Schema(ROWS, training_rows, COLUMNS, label, label_kind)


def fingerprint(query, label_kind="binary"):
    return query.bind(schema(label_kind=label_kind)).query


def test_accuracy_error_and_brier_of_equal_numbers():
    zeros = np.zeros(ROWS)
    assert fingerprint(accuracy(zeros)) == fingerprint(error(zeros)) == fingerprint(accuracy(-zeros))
    assert fingerprint(accuracy(zeros)) != fingerprint(brier(zeros))
    assert fingerprint(accuracy(zeros)) != fingerprint(accuracy(np.ones(ROWS)))


@pytest.mark.parametrize(
    "texts", [np.array(["a"] * ROWS, dtype=object), np.array([b"a"] * ROWS).astype(str), ["a"] * ROWS]
)
def test_texts_of_any_type_are_one_query(texts):
    strings = np.array(["a"] * ROWS, dtype=np.dtypes.StringDType())
    assert fingerprint(accuracy(texts), "string") == fingerprint(accuracy(strings), "string")
    assert fingerprint(accuracy(["a", "bc"] * 3), "string") != fingerprint(accuracy(["ab", "c"] * 3), "string")


def test_integers_beyond_the_doubles_are_told_apart():
    big = np.full(ROWS, 2**53)
    assert fingerprint(accuracy(big), "number") != fingerprint(accuracy(big + 1), "number")
    assert fingerprint(accuracy(big // 2), "number") == fingerprint(accuracy(big / 2), "number")


@pytest.mark.parametrize("number", [-129, -128, 0, 127, 128, 300])
def test_numbers_of_one_byte_and_others_are_told_apart(number):
    same = np.full(ROWS, number)
    in_a_byte = same.astype(np.int8)
    assert fingerprint(accuracy(same), "number") == fingerprint(accuracy(same / 1.0), "number")
    assert (fingerprint(accuracy(same), "number") == fingerprint(accuracy(in_a_byte), "number")) == (
        -129 < number < 128
    )
    assert fingerprint(accuracy(same), "number") != fingerprint(accuracy(same + 256), "number")


def test_objects_of_numbers_are_numbers():
    plain = fingerprint(accuracy([1, 0] * 3))
    assert plain == fingerprint(accuracy(np.array([1, 0] * 3, dtype=object)))
    assert plain == fingerprint(accuracy(pd.Series([True, False] * 3, dtype="boolean")))
    assert plain == fingerprint(accuracy(pd.Series([1, 0] * 3, dtype="Int64")))


BAD = {
    "short": (accuracy([1, 0]), "binary", "shape"),
    "two dimensions": (accuracy(np.zeros((ROWS, 1))), "binary", "shape"),
    "single value": (accuracy(1), "binary", "shape"),
    "text for numbers": (accuracy(["a"] * ROWS), "binary", "are texts, and the labels are 0 and 1"),
    "text for probabilities": (brier(["a"] * ROWS), "binary", "Pass a probability for each row"),
    "numbers for text": (accuracy([1] * ROWS), "string", "are .*, and the labels are"),
    "bytes for text": (accuracy([b"\xff"] * ROWS), "string", "are .*, and the labels are"),
    "missing": (accuracy([1, None] * 3), "binary", "some are missing, and the labels are"),
    "missing text": (
        accuracy(np.array(["a", np.nan] * 3, dtype=object)),
        "string",
        "some are missing, and the labels are",
    ),
    "complex": (accuracy([1j] * ROWS), "binary", "are .*, and the labels are"),
    "dates": (accuracy(np.zeros(ROWS, dtype="M8[s]")), "binary", "are .*, and the labels are"),
    "nan probability": (brier([np.nan] * ROWS), "binary", "not all in"),
    "probability above 1": (brier([1.5] * ROWS), "binary", "not all in"),
    "nan": (accuracy([np.nan, 1.0] * 3), "binary", "nan or infinite"),
    "infinite": (error([np.inf, 1.0] * 3), "number", "nan or infinite"),
    "probabilities for labels": (
        accuracy([0.2, 0.7] * 3),
        "binary",
        "row 1 has 0.2. 6 are such as 0.2, 0.7. Pass one of 0, 1.*Ask brier",
    ),
    "another class": (error([0, 2] * 3), "binary", "3 are such as 2"),
    "measurements": (accuracy([0.5, 2.0] * 3), "number", "Ask risk"),
    "truth values for text": (accuracy([True] * ROWS), "string", "are .*, and the labels are"),
    "nan among texts": (accuracy(["a", np.nan] * 3), "string", "mix texts with other values"),
    "masked": (accuracy(np.ma.array([0, 1] * 3, mask=[True] * 3 + [False] * 3)), "binary", "lack 3 rows"),
    "ragged": (accuracy([[1], [1, 0]] * 3), "binary", "different lengths"),
    "a class": (accuracy(LogisticRegression), "binary", "are the class"),
    "infinite probability": (brier([np.inf] * ROWS), "binary", "not all in"),
    "brier of many classes": (brier([0.5] * ROWS), "number", "labels 0 and 1"),
}


def test_a_score_is_a_number_where_labels_are_texts(tmp_path):
    labels = ["yes", "no"] * 200
    with Holdout.create(
        tmp_path / "s.db", "s", holdout={"y": labels}, label="y", rows=Rows(features="public", classes=["yes", "no"]),
        mechanism="guess_and_check", queries=10,
    ) as holdout, pytest.raises(QueryRejected, match=r"labels are texts\. Pass a number for each row"):  # fmt: skip
        holdout.ask(metric("roc_auc", labels, pos_label="yes"), guess=0.5)


@pytest.mark.parametrize("case", BAD)
def test_bad_predictions_are_rejected(case):
    query, label_kind, words = BAD[case]
    with pytest.raises(QueryRejected, match=words) as caught:
        query.bind(schema(label_kind=label_kind))
    assert "othing was charged" in caught.value.told


def test_bad_training_predictions_are_rejected():
    with pytest.raises(QueryRejected, match="training predictions"):
        accuracy(np.zeros(ROWS), training=np.zeros(2)).bind(schema(training_rows=3))


def test_without_a_label_there_is_no_accuracy():
    with pytest.raises(QueryRejected, match="needs a label column"):
        accuracy(np.zeros(ROWS)).bind(schema(label=None, label_kind=None))


def frame(seed):
    rng = np.random.default_rng(seed)
    late = rng.integers(0, 2, 800)
    kind = np.where(rng.random(800) < 0.8, np.array(["no", "yes"])[late], "perhaps")
    return pd.DataFrame(
        {"id": np.arange(800) + 800 * seed, "x": late + rng.normal(0, 0.5, 800), "kind": kind, "late": late}
    )


SEALED, TRAINING = frame(0), frame(1)
MECHANISM = GuessAndCheck(rows=800, queries=40, surprises=2, tolerance=0.3, grid=10)
CREATION = {"label": "late", "row_id": "id", "mechanism": MECHANISM}


@pytest.fixture(scope="module")
def holdout(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flights")
    with Holdout.create(folder / "study.db", holdout=SEALED, training=TRAINING, **settings_from(CREATION)) as made:
        yield made


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """A holdout whose only feature is a number."""
    folder = tmp_path_factory.mktemp("numbers")
    sealed, training = (rows.drop(columns="kind") for rows in (SEALED, TRAINING))
    with Holdout.create(folder / "study.db", holdout=sealed, training=training, **settings_from(CREATION)) as made:
        yield made


def pipeline():
    encode = ColumnTransformer([("kind", OneHotEncoder(handle_unknown="ignore"), ["kind"])], remainder="passthrough")
    return make_pipeline(encode, LogisticRegression())


def score(model, features):
    return np.mean(model.predict(TRAINING[features]) == TRAINING["late"])


@pytest.mark.parametrize("features", [["kind", "x"], ["kind"]])
def test_a_pipeline_on_a_frame_with_texts(holdout, features):
    model = pipeline().fit(TRAINING[features], TRAINING["late"])
    answer = holdout.ask(accuracy(model))
    assert answer.value == pytest.approx(score(model, features), abs=1e-8)
    assert answer.source == "training"
    assert answer.low < np.mean(model.predict(SEALED[features]) == SEALED["late"]) < answer.high
    wrong = holdout.ask(error(model))
    assert (wrong.repeated, wrong.value) == (True, pytest.approx(1 - answer.value))
    squares = (model.predict_proba(TRAINING[features])[:, 1] - TRAINING["late"]) ** 2
    assert holdout.ask(brier(model)).value == pytest.approx(squares.mean(), abs=1e-8)


def test_an_estimator_fitted_on_arrays_gets_arrays(numbers):
    model = DecisionTreeClassifier(max_depth=2).fit(TRAINING[["x"]].to_numpy(), TRAINING["late"].to_numpy())
    answer = numbers.ask(accuracy(model))
    expected = np.mean(model.predict(TRAINING[["x"]].to_numpy()) == TRAINING["late"])
    assert answer.value == pytest.approx(expected, abs=1e-8)


def test_the_same_model_is_one_query_and_another_one_another(numbers):
    models = [DecisionTreeClassifier(max_depth=d).fit(TRAINING[["x"]], TRAINING["late"]) for d in (3, 3, 4)]
    first, _, other = (numbers.ask(accuracy(model)) for model in models)
    assert numbers.ask(accuracy(models[0])).repeated
    assert first.query != other.query


class Unpicklable(DecisionTreeClassifier):
    def __reduce__(self):
        raise TypeError("not this one")


def test_estimators_that_do_not_fit_are_rejected(holdout, numbers):
    features, late = TRAINING[["x"]], TRAINING["late"]
    cases = [
        (accuracy(LogisticRegression()), "NotFittedError"),
        (accuracy(LogisticRegression().fit(TRAINING[["x", "late"]], late)), "the label 'late' itself"),
        (accuracy(LogisticRegression().fit(features.rename(columns={"x": "z"}), late)), "no column of this holdout"),
        (accuracy(LogisticRegression().fit(np.ones((800, 1)) * [[1, 2]] + features.to_numpy(), late)), "2 features"),
        (accuracy(LogisticRegression().fit(features, late.astype(str))), "are texts, and the labels are 0 and 1"),
        (brier(LinearRegression().fit(features, late)), "no method predict_proba"),
        (brier(DecisionTreeClassifier().fit(features, late * 0)), r"shape \(800, 1\) for the classes"),
        (accuracy(LogisticRegression), "are the class"),
        (accuracy(LogisticRegression().predict), "are a method without the method predict"),
        (accuracy(LinearRegression().fit(features, late)), "are no labels.*Ask brier"),
        (brier(LogisticRegression().fit(features, late + 1)), r"for the classes \[1, 2\]"),
    ]
    for query, words in cases:
        with pytest.raises(QueryRejected, match=words) as caught:
            numbers.ask(query)
        assert "othing was charged" in caught.value.told
    model = Unpicklable().fit(features, late)
    answers = [numbers.ask(accuracy(model)) for _ in range(2)]
    assert [answer.repeated for answer in answers] == [False, False]


class Timid:
    """A model that says nothing, or nothing of use, about rows that look hard; the training rows do not."""

    feature_names_in_ = ("x",)
    classes_ = np.array([0, 1])

    def __init__(self, fails):
        self._fails = fails

    def predict_proba(self, rows):
        hard = np.ravel(rows) > 100
        if self._fails and hard.any():
            raise ValueError
        return np.column_stack([np.where(hard, np.nan, 1.0), np.where(hard, np.nan, 0.0)])

    def predict(self, rows):
        return self.predict_proba(rows)[:, 1].astype(int)


@pytest.mark.parametrize("fails", [False, True])
def test_a_row_on_which_an_estimator_fails_counts_as_the_worst_there_is(tmp_path, fails):
    hard = np.arange(800) < 200
    sealed = SEALED.drop(columns="kind").assign(x=np.where(hard, 1_000.0, 0.0), late=0)
    training = TRAINING.drop(columns="kind").assign(late=0)
    training["x"] = np.linspace(0.0, 1.0, 800)
    with Holdout.create(tmp_path / "s.db", holdout=sealed, training=training, **settings_from(CREATION)) as holdout:
        bound = [holdout._executor.compiler.bind(make(Timid(fails))) for make in (accuracy, brier)]
        right, loss = holdout._executor.sealed.totals(bound, unit=1)[:, 0].tolist()
    assert (right, loss) == (600, 200)
