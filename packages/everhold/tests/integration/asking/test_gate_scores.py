"""Gates that compare by scores which are no means of row values: against scikit-learn, with models and with arrays."""

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics

import everhold as eh

ROWS, TRAINING = 3_000, 1_000


class Told:
    """A model that tells its column."""

    def __init__(self, column, classes=None):
        self.column, self.classes_ = column, classes
        self.feature_names_in_ = np.array([column])

    def predict(self, features):
        found = np.asarray(features[self.column])
        return found if self.classes_ is None else self.classes_[found.astype(int)]


class Scores(Told):
    """A model that scores by its column."""

    def decision_function(self, features):
        return np.asarray(features[self.column])


class Chances(Told):
    """A model of probabilities: of .7 for the class of its column."""

    def predict_proba(self, features):
        told = np.full((len(features), len(self.classes_)), 0.3 / (len(self.classes_) - 1))
        told[np.arange(len(told)), np.asarray(features[self.column]).astype(int)] = 0.7
        return told


CLASSES = np.array(["a", "b", "c"])


def world(of, seed, rows):
    """Labels, and columns of a weak and of a strong model."""
    rng = np.random.default_rng([seed, 5])
    signal = rng.normal(size=rows)
    noise = rng.normal(size=(2, rows))
    weak, strong = signal + 1.0 * noise[0], signal + 0.3 * noise[1]
    columns = {"weak": weak, "strong": strong, "again": signal + 1.0 * rng.normal(size=rows)}
    if of == "numbers":
        return {**columns, "y": signal}
    cuts = [0.5] if of == "binary" else [-0.5, 0.7]
    labels = np.digitize(signal, cuts)
    if of != "scores":
        columns = {name: np.digitize(column, cuts).astype(float) for name, column in columns.items()}
    return {**columns, "y": labels if of == "binary" else CLASSES[labels]}


def create(folder, of, **settings):
    rows = {"holdout": world(of, 1, ROWS), "training": world(of, 2, TRAINING)}
    if "dependence" in settings:
        days = np.arange(ROWS + TRAINING) // 4
        rows = {
            "holdout": {**rows["holdout"], "day": days[:ROWS]},
            "training": {**rows["training"], "day": days[ROWS:]},
        }
    if of == "scores":
        rows = {name: {**table, "y": (table["y"] == "c").astype(int)} for name, table in rows.items()}
    return eh.Holdout.create(f"sqlite:///{folder}/s.db", "s", **rows, label="y", mechanism="guess_and_check",
                             queries=200, **settings)  # fmt: skip


def told_log_loss(labels, column):
    right = np.searchsorted(CLASSES, labels) == column
    return float(np.mean(np.log(np.where(right, 0.7, 0.15))))


def by_class(score, **how):
    return lambda labels, column: score(labels, CLASSES[column.astype(int)], **how)


CASES = {
    "roc_auc": ("scores", Scores, metrics.roc_auc_score),
    "matthews_corrcoef": ("binary", Told, metrics.matthews_corrcoef),
    "f1_weighted": ("classes", Told, by_class(metrics.f1_score, average="weighted")),
    "f1_macro": ("classes", Told, by_class(metrics.f1_score, average="macro")),
    "balanced_accuracy": ("classes", Told, by_class(metrics.balanced_accuracy_score)),
    "neg_log_loss": ("classes", Chances, told_log_loss),
    "r2": ("numbers", Told, metrics.r2_score),
    "neg_mean_squared_error": ("numbers", Told, lambda y, told: -metrics.mean_squared_error(y, told)),
    "neg_mean_absolute_error": ("numbers", Told, lambda y, told: -metrics.mean_absolute_error(y, told)),
    "neg_root_mean_squared_error": ("numbers", Told, lambda y, told: -metrics.root_mean_squared_error(y, told)),
}  # fmt: skip


def models(of, kind):
    classes = CLASSES if of == "classes" else None
    return {name: kind(name, classes) for name in ("weak", "strong", "again")}


@pytest.mark.parametrize("name", CASES)
def test_a_better_model_is_promoted_and_its_gain_is_scikit_learn_s(tmp_path, name):
    of, kind, score = CASES[name]
    known = models(of, kind)
    with create(tmp_path, of) as holdout:
        gate = holdout.gate(name, champion=known["weak"], margin=0.01)
        assert not gate.challenge(known["again"]).promoted
    with eh.Holdout.open(f"sqlite:///{tmp_path}/s.db", "s") as holdout:
        gate = holdout.gate(name="gate")
        verdict = gate.challenge(known["strong"])
        assert (verdict.promoted, verdict.charged, verdict.metric, verdict.low) == (True, 1, name, pytest.approx(0.01))
        assert not gate.challenge(known["weak"]).promoted
        assert gate.status()["margin"] == pytest.approx(0.01)
        holdout.unseal()
        rows = [row for row in holdout.transcript().rows if row["source"] in ("promoted", "kept")]
    sealed = world(of, 1, ROWS)
    labels = (sealed["y"] == "c").astype(int) if of == "scores" else sealed["y"]
    truth = score(labels, sealed["strong"]) - score(labels, sealed["weak"])
    tolerance = 0.05 if of == "numbers" else 1e-6  # predictions outside of the range of labels are clipped
    assert rows[1]["sealed"] == pytest.approx(truth, abs=tolerance)
    assert rows[2]["sealed"] == pytest.approx(-truth, abs=tolerance)
    assert 0.01 <= rows[1]["sealed_low"] < rows[1]["sealed"]


@pytest.mark.parametrize("name", CASES)
def test_arrays_are_compared_on_their_own_rows(tmp_path, name):
    of, kind, _ = CASES[name]
    known, sealed = models(of, kind), pd.DataFrame(world(of, 1, ROWS))
    tell = {"roc_auc": "decision_function", "neg_log_loss": "predict_proba"}.get(name, "predict")
    told = {each: getattr(model, tell)(sealed) for each, model in known.items()}
    rng = np.random.default_rng(3)
    lucky = told["weak"].copy()
    lucky[:40] = lucky[rng.permutation(40)]
    with create(tmp_path, of) as holdout:
        gate = holdout.gate(name, champion=told["weak"])
        assert not gate.challenge(lucky).promoted
        assert gate.challenge(told["strong"]).promoted
        assert gate.challenge(told["strong"]).repeated


def test_groups_have_scores_of_parts_and_others_are_refused_by_name(tmp_path):
    with create(tmp_path, "binary", dependence=eh.Groups("day")) as holdout:
        known = models("binary", Told)
        for name in ("balanced_accuracy", "matthews_corrcoef"):
            gate = holdout.gate(name, champion=known["weak"], name=name)
            assert not gate.challenge(known["again"]).promoted
            assert gate.challenge(known["strong"]).promoted
        for name in ("f1", "f1_macro", "f1_weighted", "recall"):
            with pytest.raises(eh.QueryRejected, match=f"{name} of rows that depend.*balanced_accuracy"):
                holdout.gate(name, champion=known["weak"], name="other")


@pytest.mark.parametrize(("name", "nearest"), [
    ("average_precision", "roc_auc"), ("expected_calibration_error", "neg_brier_score"), ("recall_at_fpr", "roc_auc"),
    ("recall_macro", "balanced_accuracy"), ("top_k_accuracy", "accuracy"),
])  # fmt: skip
def test_scores_without_a_promise_are_refused_with_the_nearest_metric(tmp_path, name, nearest):
    with create(tmp_path, "binary") as holdout:
        with pytest.raises(eh.QueryRejected, match=rf"{name}.*nearest metric that gates support is {nearest}\."):
            holdout.gate(name, champion=Told("weak"))
        assert "gates" not in holdout.status()


def test_ranges_belong_to_the_gate(tmp_path):
    with create(tmp_path, "numbers") as holdout:
        gate = holdout.gate(lambda model: eh.metric("r2", model, low=-5, high=5), champion=Told("weak"))
        assert gate.challenge(Told("strong")).high is None
        again = holdout.gate(name="gate")
        assert not again.challenge(Told("again")).promoted
        with pytest.raises(eh.QueryRejected, match="another metric"):
            holdout.gate("r2", name="gate").challenge(Told("weak"))
