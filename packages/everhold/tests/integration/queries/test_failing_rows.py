"""Rows on which a model fails count the same in every metric: of one model, of two, in slices and in gates."""

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics

import everhold as eh
from everhold.queries.scores import score_names

ROWS, LOG_CLIP = 150, np.log(1000.0)
HOW = {"raises": "at_random", "nan": "of_ones", "no class": "of_zeros", "None": "on_purpose"}
"""In which way a model fails, and the column that says on which sealed rows; it fails on no training row."""


def table(seed, *, sealed):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, ROWS))
    y = (x + z + rng.normal(size=ROWS) > 0.3).astype(int)
    some = rng.random(ROWS) < 0.15
    fails = {
        "at_random": some, "of_ones": some & (y == 1), "of_zeros": some & (y == 0), "on_purpose": x > 1.2,
        "second": rng.random(ROWS) < 0.05,
    }  # fmt: skip
    return {"x": x, "z": z, "y": y, **{name: found * sealed for name, found in fails.items()}}


SEALED, TRAINING = table(1, sealed=1), table(2, sealed=0)
Y = SEALED["y"]


class Model:
    classes_ = np.array([0, 1])

    def __init__(self, column, how, weight):
        self.column, self.how, self.weight = column, how, weight
        self.feature_names_in_ = np.array(["x", "z", column])

    def fails(self, rows):
        return np.asarray(rows[self.column]) == 1

    def chances(self, rows):
        return 1.0 / (1.0 + np.exp(-2.0 * (np.asarray(rows["x"]) + self.weight * np.asarray(rows["z"]))))

    def given(self, values, rows, strange):
        fails = self.fails(rows)
        if not fails.any():
            return values
        if self.how == "raises":
            raise ValueError("found unknown categories")
        values = values.astype(object if self.how == "None" else float)
        values[fails] = {"nan": np.nan, "no class": strange, "None": None}[self.how]
        return values

    def predict(self, rows):
        return self.given((self.chances(rows) > 0.5).astype(int), rows, 7)

    def predict_proba(self, rows):
        chances = self.chances(rows)
        return self.given(np.column_stack([1.0 - chances, chances]), rows, 1.5)


def predicted(model, rows):
    return np.where(model.fails(rows), 1 - rows["y"], model.chances(rows) > 0.5).astype(int)


def ranked(model, rows):
    return np.where(model.fails(rows), np.where(rows["y"] == 1, -1.0, 2.0), model.chances(rows))


def loss(of):
    def mean(model, rows):
        y, p = rows["y"], model.chances(rows)
        losses = {
            "squared": (p - y) ** 2, "log": -np.log(np.where(y == 1, p, 1 - p)), "wrong": ((p > 0.5) != y) * 1.0
        }[of]  # fmt: skip
        most = LOG_CLIP if of == "log" else 1.0
        return -float(np.mean(np.where(model.fails(rows), most, np.minimum(losses, most))))

    return mean


def calibration(model, rows):
    p, fails = model.chances(rows), model.fails(rows)
    bins = np.bincount((p * 10).astype(int)[~fails], (rows["y"] - p)[~fails])
    return float((np.abs(bins).sum() + fails.sum()) / len(p))


def recall_at_rate(model, rows):
    alarms, recalls, _ = metrics.roc_curve(rows["y"], ranked(model, rows), drop_intermediate=False)
    return recalls[alarms <= 0.05].max()


def of_classes(score, **settings):
    return lambda model, rows: float(score(rows["y"], predicted(model, rows), **settings))


REFERENCES = {
    "accuracy": of_classes(metrics.accuracy_score),
    "error": of_classes(metrics.zero_one_loss),
    "precision": of_classes(metrics.precision_score),
    "recall": of_classes(metrics.recall_score),
    "f1": of_classes(metrics.f1_score),
    "f1_macro": of_classes(metrics.f1_score, average="macro"),
    "f1_weighted": of_classes(metrics.f1_score, average="weighted"),
    "balanced_accuracy": of_classes(metrics.balanced_accuracy_score),
    "matthews_corrcoef": of_classes(metrics.matthews_corrcoef),
    "roc_auc": lambda model, rows: metrics.roc_auc_score(rows["y"], ranked(model, rows)),
    "recall_at_fpr": recall_at_rate,
    "expected_calibration_error": calibration,
    "brier": lambda model, rows: -loss("squared")(model, rows),
    "neg_brier_score": loss("squared"),
    "neg_log_loss": loss("log"),
    "neg_mean_absolute_error": loss("wrong"),
    "neg_mean_squared_error": loss("wrong"),
    "neg_root_mean_squared_error": lambda model, rows: -np.sqrt(-loss("wrong")(model, rows)),
    "r2": lambda model, rows: 1.0 + loss("wrong")(model, rows) / float(np.var(rows["y"])),
}
ALONE = {"recall_at_fpr", "expected_calibration_error"}  # two models are not compared by them, and slices have none
NO_DIFFERENCE, NO_SLICE = {*ALONE, "f1_weighted", "r2"}, {*ALONE}
LOWER_IS_BETTER = {"error", "brier"}


def asked_of(name, model, second):
    """Queries that are answered alone, by name; with the reference of each."""
    queries = {"first": eh.metric(name, model), "second": eh.metric(name, second)}
    if name not in NO_DIFFERENCE:
        queries["difference"] = eh.difference(eh.metric(name, model), eh.metric(name, second))
    if name not in NO_SLICE:
        queries["slice"] = eh.metric(name, model, where="z > 0")
    return queries


def test_all_scores_are_in_the_table():
    assert set(REFERENCES) == set(score_names())


@pytest.mark.filterwarnings("ignore::everhold.errors.VacuousGuaranteeWarning")
@pytest.mark.parametrize("how", HOW)
def test_a_failing_row_is_a_wrong_answer(tmp_path, how):
    model, second = Model(HOW[how], how, 0.9), Model("second", "nan", 0.2)
    part = {name: column[SEALED["z"] > 0] for name, column in SEALED.items()}
    rows = {"holdout": pd.DataFrame(SEALED), "training": pd.DataFrame(TRAINING), "label": "y"}
    with eh.Holdout.create(f"sqlite:///{tmp_path}/s.db", "s", **rows, mechanism="guess_and_check") as holdout:
        gates = []
        for name in REFERENCES:
            for query in asked_of(name, model, second).values():
                holdout.ask(query)
            if name not in ALONE:
                holdout.gate(name, champion=second, name=name).challenge(model)
                gates.append(name)
        holdout.unseal()
        challenges = [row for row in holdout.transcript().rows if row["source"] in ("kept", "promoted")]
        gains = dict(zip(gates, [row["sealed"] for row in challenges], strict=True))
        for name, reference in REFERENCES.items():
            first, other = reference(model, SEALED), reference(second, SEALED)
            found = {what: holdout.ask(query).sealed for what, query in asked_of(name, model, second).items()}
            expected = {"first": first, "second": other, "difference": first - other, "slice": reference(model, part)}
            assert found == {what: pytest.approx(expected[what], abs=2e-4) for what in found}, name
            if name in gains:
                gain = other - first if name in LOWER_IS_BETTER else first - other
                assert gains[name] == pytest.approx(gain, abs=2e-3), name
