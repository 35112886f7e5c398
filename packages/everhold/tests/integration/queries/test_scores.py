"""Scores by scikit-learn's names: its numbers on the sealed rows, guesses, repeats, refusals that charge nothing."""

import numpy as np
import pytest
from sklearn import metrics
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import ParameterGrid

import everhold as eh
from everhold import QueryRejected
from everhold.asking.create_settings import settings_from
from everhold.guarantees.intervals.calibration import seen_bins
from everhold.guarantees.intervals.operating_point import seen_rules
from everhold.queries.scores import REFUSED, SCORES, score_names

ROWS = 1_200


def rows(seed):
    """A class that a score predicts, three classes, and a number."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=ROWS)
    noisy = x + 0.7 * rng.normal(size=ROWS)
    return {
        "x": x, "y": (noisy > 1.0).astype(int), "kind": np.array(["a", "b", "c"])[np.digitize(noisy, [-0.5, 1.0])],
        "amount": 10.0 * noisy, "unit": np.arange(ROWS) // 2,
    }  # fmt: skip


SEALED, TRAINED = rows(0), rows(1)
SCORE = {"y": SEALED["y"], "kind": SEALED["kind"], "amount": SEALED["amount"]}


def chances(table):
    return 1.0 / (1.0 + np.exp(-2.0 * (table["x"] - 1.0)))


def each_class(table):
    p, q = chances(table), 1.0 / (1.0 + np.exp(2.0 * (table["x"] + 0.5)))
    return np.column_stack([q, np.ones(ROWS), p + 0.1]) / (q + 1.1 + p)[:, None]


def classes(table):
    return (table["x"] > 1.0).astype(int)


def three(table):
    return np.array(["a", "b", "c"])[np.digitize(table["x"], [-0.5, 1.0])]


def amount(table):
    return 9.0 * table["x"]


def f1(average):
    return lambda labels, predictions: metrics.f1_score(labels, predictions, average=average)


CASES = {
    "balanced_accuracy": ("kind", three, metrics.balanced_accuracy_score, {}),
    "f1_macro": ("kind", three, f1("macro"), {}),
    "f1_weighted": ("kind", three, f1("weighted"), {}),
    "f1": ("y", classes, metrics.f1_score, {}),
    "precision": ("y", classes, metrics.precision_score, {}),
    "recall": ("y", classes, metrics.recall_score, {}),
    "accuracy": ("kind", three, metrics.accuracy_score, {}),
    "matthews_corrcoef": ("y", classes, metrics.matthews_corrcoef, {}),
    "roc_auc": ("y", chances, metrics.roc_auc_score, {}),
    "neg_log_loss": ("kind", each_class, lambda labels, p: -metrics.log_loss(labels, p), {}),
    "neg_brier_score": ("y", chances, lambda labels, p: -metrics.brier_score_loss(labels, p), {}),
    "neg_mean_absolute_error": ("amount", amount, lambda a, b: -metrics.mean_absolute_error(a, b), {}),
    "neg_mean_squared_error": ("amount", amount, lambda a, b: -metrics.mean_squared_error(a, b), {"clip": 900.0}),
    "neg_root_mean_squared_error": ("amount", amount, lambda a, b: -(metrics.mean_squared_error(a, b) ** 0.5), {}),
    "r2": ("amount", amount, metrics.r2_score, {}),
    "expected_calibration_error": ("y", chances, lambda labels, p: seen_bins(p, labels, 5).score, {"bins": 5}),
    "recall_at_fpr": ("y", chances, lambda labels, p: seen_rules(p, labels == 1, 0.1).score, {"rate": 0.1}),
}
RANGE = {"low": -45.0, "high": 45.0}


def made(path, label, **wish):
    """A holdout with one label column and the score."""
    table = [{"x": part["x"], label: part[label]} for part in (SEALED, TRAINED)]
    classes_of = {"kind": ["a", "b", "c"]}.get(label)
    wish = {"mechanism": "guess_and_check", "queries": 50, "label": label, "training": table[1], **wish}
    if classes_of and label == "kind":
        wish["classes"] = classes_of
    return eh.Holdout.create(path / "s.db", "g", holdout=table[0], **settings_from(wish))


def numbers_of(name, label):
    return {**CASES[name][3], **(RANGE if label == "amount" else {})}


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


def test_all_names_are_taken_or_refused_with_the_nearest_score():
    from sklearn.metrics import get_scorer_names

    assert set(get_scorer_names()) - set(score_names()) <= set(REFUSED)
    assert not set(REFUSED) & set(score_names())
    assert set(CASES) | {"error", "brier"} >= set(score_names()) >= set(SCORES)


@pytest.mark.parametrize(("label", "name"), [("y", "roc_auc"), ("kind", "f1_macro"), ("amount", "r2")])
def test_estimators_are_evaluated_by_name(tmp_path, label, name):
    estimator = LinearRegression() if label == "amount" else LogisticRegression()
    with made(tmp_path, label) as holdout:
        first = holdout.evaluate(estimator, name)
        again = holdout.evaluate(estimator, name)
        scored = eh.metric(name, estimator)
        assert (first.charged, again.repeated, first.source) == (0, True, "training")
        assert holdout.ask(scored, guess=first.value).question == first.question
        assert first.low < first.value < first.high


def test_a_search_takes_scoring(tmp_path):
    from everhold.sklearn import SealedSearchCV

    with made(tmp_path, "kind") as holdout:
        search = SealedSearchCV(
            LogisticRegression(), ParameterGrid({"C": [0.01, 1.0]}).param_grid[0], holdout=holdout, n_iter=2, cv=2,
            scoring="neg_log_loss", random_state=0,
        ).fit(*holdout.training_rows())  # fmt: skip
        assert search.best_params_["C"] == 1.0
        assert search.best_score_ < 0.0
        assert holdout.remaining["questions"] == 48


def test_groups_widen_intervals_and_keep_their_rows_together(tmp_path):
    tables = [{"x": part["x"], "y": part["y"], "unit": part["unit"]} for part in (SEALED, TRAINED)]
    tables[1]["unit"] = tables[1]["unit"] + ROWS
    wish = {"mechanism": "guess_and_check", "queries": 50, "label": "y", "training": tables[1]}
    wish["dependence"] = eh.Groups("unit")
    with eh.Holdout.create(tmp_path / "g.db", "g", holdout=tables[0], **settings_from(wish)) as holdout:
        for name in ("balanced_accuracy", "matthews_corrcoef", "f1_weighted"):
            answer = holdout.ask(eh.metric(name, classes(SEALED), training=classes(TRAINED)))
            assert answer.charged == 0
            assert answer.high - answer.low < 0.9
        with pytest.raises(QueryRejected, match="independent rows"):
            holdout.ask(eh.metric("expected_calibration_error", chances(SEALED)), guess=0.1)


WRONG = {
    "unknown score": ("y", lambda: eh.metric("f2", classes(SEALED)), "there is no score 'f2'"),
    "refused score": ("y", lambda: eh.metric("top_k_accuracy", classes(SEALED)), "nearest score is accuracy"),
    "no name": ("y", lambda: eh.metric(3, classes(SEALED)), "there is no score 3"),
    "probabilities of classes": ("y", lambda: eh.metric("f1_macro", chances(SEALED)), "are no labels"),
    "no probabilities": ("y", lambda: eh.metric("neg_brier_score", 2.0 * SEALED["x"]), "are not all in"),
    "undeclared class": ("kind", lambda: eh.metric("f1_macro", np.where(SEALED["x"] > 0, "a", "z")), "'z'"),
    "other shape": ("kind", lambda: eh.metric("neg_log_loss", np.ones((ROWS, 2)) / 2), "have the shape"),
    "no distribution": ("kind", lambda: eh.metric("neg_log_loss", np.ones((ROWS, 3))), "add up to 1"),
    "texts": ("kind", lambda: eh.metric("neg_log_loss", three(SEALED)), "have the shape"),
    "too short": ("y", lambda: eh.metric("matthews_corrcoef", classes(SEALED)[:9]), "have the shape"),
    "not two classes": ("kind", lambda: eh.metric("matthews_corrcoef", three(SEALED)), "needs labels 0 and 1"),
    "no number": ("kind", lambda: eh.metric("r2", SEALED["x"]), "needs"),
    "another option": ("y", lambda: eh.metric("f1_macro", classes(SEALED), bins=3), "takes no bins"),
    "no range": ("amount", lambda: eh.metric("r2", SEALED["x"], low=4, high=4), "low < high"),
    "no rate": ("y", lambda: eh.metric("recall_at_fpr", chances(SEALED), rate=1.0), "rate inside"),
    "no bins": ("y", lambda: eh.metric("expected_calibration_error", chances(SEALED), bins=0), "1 to 100 bins"),
    "no guess": ("y", lambda: eh.metric("balanced_accuracy", classes(SEALED)), "needs a guess"),
    "a rule": ("y", lambda: eh.metric("balanced_accuracy", "x > 1"), "rules are no predictions"),
}


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    holdouts = {label: made(tmp_path_factory.mktemp(label), label) for label in ("y", "kind", "amount")}
    yield holdouts
    for holdout in holdouts.values():
        holdout.close()


@pytest.mark.parametrize("fault", WRONG)
def test_refusals_charge_nothing(opened, fault):
    label, query, said = WRONG[fault]
    before = opened[label].remaining
    with pytest.raises(QueryRejected, match=said):
        opened[label].ask(query())
    assert opened[label].remaining == before


@pytest.mark.parametrize(
    ("wish", "said"), [({"mechanism": "privacy_budget", "queries": 3}, "guess_and_check"), ({"slack": 0.2}, "slack")]
)
def test_other_mechanisms_refuse(tmp_path, wish, said):
    with made(tmp_path, "y", **wish) as holdout, pytest.raises(QueryRejected, match=said):
        holdout.ask(eh.metric("balanced_accuracy", classes(SEALED), training=classes(TRAINED)))


@pytest.mark.parametrize(("column", "said"), [("y", "the model itself"), ("side", "scores in an array")])
def test_splits_refuse_what_they_break(tmp_path, column, said):
    """Labels in fixed numbers are not drawn anew, and rows of a class are of several laws after another split."""
    tables = [{"x": part["x"], "y": SEALED["y"], "side": (part["x"] > 0).astype(int)} for part in (SEALED, SEALED)]
    tables[1]["x"] = 1.01 * tables[1]["x"]
    wish = {"mechanism": "guess_and_check", "queries": 9, "label": "y", "training": tables[1], "stratified": column}
    model = LogisticRegression().fit(TRAINED["x"][:, None], TRAINED["y"])
    model.feature_names_in_ = np.array(["x"])
    with eh.Holdout.create(tmp_path / "s.db", "g", holdout=tables[0], **settings_from(wish)) as holdout:
        given = np.linspace(0, 1, ROWS) if column == "y" else model
        with pytest.raises(QueryRejected, match=said):
            holdout.ask(eh.metric("recall_at_fpr", given), guess=0.5)
        assert holdout.remaining["questions"] == 9
