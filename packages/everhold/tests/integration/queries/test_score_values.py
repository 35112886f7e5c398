"""Scores by scikit-learn's names: its numbers on the sealed rows, guesses, repeats, searches, groups and splits."""

import numpy as np
import pytest
from score_samples import CASES, ROWS, SEALED, TRAINED, chances, classes, each_class, made, numbers_of, three
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import ParameterGrid

import everhold as eh
from everhold import QueryRejected
from everhold.asking.creation import settings_from


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Every score of every label, with training predictions and with a guess alone, unsealed."""
    found = {}
    for label in ("y", "kind", "amount"):
        names = [name for name, case in CASES.items() if case[0] == label]
        with made(tmp_path_factory.mktemp(label), label) as holdout:
            for name in names:
                _, predict, score, _ = CASES[name]
                numbers = numbers_of(name, label)
                true = float(score(SEALED[label], predict(SEALED)))
                trained = holdout.ask(eh.metric(name, predict(SEALED), training=predict(TRAINED), **numbers))
                # other predictions for the same sealed rows, and nothing that is known of training rows
                moved = predict(SEALED) if predict in (classes, three) else predict(SEALED) * (1.0 - 1e-9)
                if predict in (classes, three):
                    moved = moved.copy()
                    moved[0] = moved[1]
                if predict is each_class:
                    moved = moved / moved.sum(axis=1, keepdims=True)
                alone = holdout.ask(eh.metric(name, moved, **numbers), guess=round(true, 3))
                found[name] = (true, trained, alone)
            holdout.unseal()
            for name in names:
                true, trained, alone = found[name]
                _, predict, _, _ = CASES[name]
                query = eh.metric(name, predict(SEALED), training=predict(TRAINED), **numbers_of(name, label))
                found[name] = (true, trained, alone, holdout.ask(query))
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_sealed_number_is_that_of_scikit_learn(told, name):
    true, trained, alone, unsealed = told[name]
    assert unsealed.sealed == pytest.approx(true, abs=2e-4 * max(abs(true), 1.0))
    assert unsealed.sealed_low <= true <= unsealed.sealed_high
    assert trained.charged == 0
    assert trained.low <= unsealed.sealed_low
    assert unsealed.sealed_high <= trained.high
    assert unsealed.repeated
    assert "labels drawn anew" in trained.about
    assert alone.charged == 0
    assert alone.low < true < alone.high
    assert alone.high - alone.low < 2.5 * (trained.high - trained.low)


@pytest.mark.parametrize(("label", "name"), [("y", "roc_auc"), ("kind", "f1_macro"), ("amount", "r2")])
def test_estimators_are_evaluated_by_name(tmp_path, label, name):
    estimator = LinearRegression() if label == "amount" else LogisticRegression()
    with made(tmp_path, label) as holdout:
        first = holdout.evaluate(estimator, name)
        again = holdout.evaluate(estimator, name)
        scored = eh.metric(name, estimator)
        assert (first.charged, again.repeated, first.source) == (0, True, "training")
        assert holdout.ask(scored, guess=first.value).query == first.query
        assert first.low < first.value < first.high


def test_a_search_takes_scoring(tmp_path):
    from everhold.sklearn import SealedSearchCV

    with made(tmp_path, "kind") as holdout:
        search = SealedSearchCV(
            LogisticRegression(), ParameterGrid({"C": [0.01, 1.0]}).param_grid[0], holdout=holdout, n_iter=2, cv=2,
            scoring="neg_log_loss", random_state=0, reveal="checked",
        ).fit(*holdout.training_rows())  # fmt: skip
        assert search.best_params_["C"] == 1.0
        assert search.best_score_ < 0.0
        assert holdout.remaining["queries"] == 48


def test_groups_widen_intervals_and_keep_their_rows_together(tmp_path):
    tables = [{"x": part["x"], "y": part["y"], "unit": part["unit"]} for part in (SEALED, TRAINED)]
    tables[1]["unit"] = tables[1]["unit"] + ROWS
    wanted = {"mechanism": "guess_and_check", "queries": 50, "label": "y", "training": tables[1]}
    wanted["dependence"] = eh.Groups("unit")
    with eh.Holdout.create(tmp_path / "g.db", "g", holdout=tables[0], **settings_from(wanted)) as holdout:
        for name in ("balanced_accuracy", "matthews_corrcoef", "f1_weighted"):
            answer = holdout.ask(eh.metric(name, classes(SEALED), training=classes(TRAINED)))
            assert answer.charged == 0
            assert answer.high - answer.low < 0.9
        with pytest.raises(QueryRejected, match="independent rows"):
            holdout.ask(eh.metric("expected_calibration_error", chances(SEALED)), guess=0.1)


@pytest.mark.parametrize("told", ["spread", "together"])
def test_a_calibration_error_is_quoted_for_the_probabilities_that_were_passed(told, tmp_path):
    rng = np.random.default_rng(5)
    probabilities = rng.random(4_000) if told == "spread" else 0.49 + 0.02 * rng.random(4_000)
    labels = (rng.random(4_000) < (0.3 if told == "spread" else probabilities)).astype(int)
    bins = np.minimum((10 * probabilities).astype(int), 9)
    true = np.abs(np.bincount(bins, labels - probabilities)).sum() / 4_000
    with eh.Holdout.create(
        tmp_path / "c.db", "calibration", holdout={"y": labels, "x": labels}, label="y", queries=100,
        mechanism="guess_and_check",
    ) as holdout:  # fmt: skip
        query = eh.metric("expected_calibration_error", probabilities)
        quoted = holdout.quote(query, guess=true).radius_unsealed
        assert holdout.ask(query, guess=true).charged == 0
        (row,) = holdout.unseal().to_rows()
        assert 0.9 < quoted / ((row["sealed_high"] - row["sealed_low"]) / 2) < 1.1


SLACK = {"mechanism": "guess_and_check", "queries": 9, "slack": 0.2}


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"mechanism": "privacy_budget", "queries": 3}, "guess_and_check"),
        ({"mechanism": "guess_and_check", "queries": 9, "slack": 0.2}, "slack"),
    ],
)
def test_other_mechanisms_refuse(tmp_path, wanted, said):
    with made(tmp_path, "y", **wanted) as holdout, pytest.raises(QueryRejected, match=said):
        holdout.ask(eh.metric("balanced_accuracy", classes(SEALED), training=classes(TRAINED)))


@pytest.mark.parametrize(("column", "said"), [("y", "the model itself"), ("side", "scores in an array")])
def test_splits_refuse_what_they_break(tmp_path, column, said):
    """Labels in fixed numbers are not drawn anew, and rows of a class are of several laws after another split."""
    tables = [{"x": part["x"], "y": SEALED["y"], "side": (part["x"] > 0).astype(int)} for part in (SEALED, SEALED)]
    tables[1]["x"] = 1.01 * tables[1]["x"]
    wanted = {"mechanism": "guess_and_check", "queries": 9, "label": "y", "training": tables[1], "stratified": column}
    model = LogisticRegression().fit(TRAINED["x"][:, None], TRAINED["y"])
    model.feature_names_in_ = np.array(["x"])
    with eh.Holdout.create(tmp_path / "s.db", "g", holdout=tables[0], **settings_from(wanted)) as holdout:
        given = np.linspace(0, 1, ROWS) if column == "y" else model
        with pytest.raises(QueryRejected, match=said):
            holdout.ask(eh.metric("recall_at_fpr", given), guess=0.5)
        assert holdout.remaining["queries"] == 9
