"""A holdout with a score and a label, predictions of every kind, and scikit-learn's number of each metric."""

import numpy as np
from sklearn import metrics

import everhold as eh
from everhold import GuessAndCheck
from everhold.asking.creation import settings_from
from everhold.guarantees.intervals.thresholds import seen_bins, seen_rules

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


def relative(labels, told):
    return float(np.mean(np.abs(labels - told) / np.maximum(np.abs(labels), 20.0)))


def benefit(labels, told):
    return float(np.mean(told & (labels == 1)) - 0.25 * np.mean(told & (labels == 0)))


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
    "roc_auc_ovr": ("kind", each_class, lambda labels, p: metrics.roc_auc_score(labels, p, multi_class="ovr"), {}),
    "neg_log_loss": ("kind", each_class, lambda labels, p: -metrics.log_loss(labels, p), {}),
    "neg_brier_score": ("y", chances, lambda labels, p: -metrics.brier_score_loss(labels, p), {}),
    "neg_mean_absolute_error": ("amount", amount, lambda a, b: -metrics.mean_absolute_error(a, b), {}),
    "neg_mean_squared_error": ("amount", amount, lambda a, b: -metrics.mean_squared_error(a, b), {"clip": 900.0}),
    "neg_root_mean_squared_error": ("amount", amount, lambda a, b: -(metrics.mean_squared_error(a, b) ** 0.5), {}),
    "neg_median_absolute_error": ("amount", amount, lambda a, b: -metrics.median_absolute_error(a, b), {}),
    "mape": ("amount", amount, relative, {"floor": 20.0}),
    "net_benefit": ("y", chances, lambda labels, p: benefit(labels, p >= 0.2), {"threshold": 0.2}),
    "calibration_in_the_large": ("y", chances, lambda labels, p: float(np.mean(p) - np.mean(labels)), {}),
    "r2": ("amount", amount, metrics.r2_score, {}),
    "expected_calibration_error": ("y", chances, lambda labels, p: seen_bins(p, labels, 5).score, {"bins": 5}),
    "recall_at_fpr": ("y", chances, lambda labels, p: seen_rules(p, labels == 1, 0.1).score, {"rate": 0.1}),
}
RANGE = {"low": -45.0, "high": 45.0}


def untuned():
    """So that a test need not wait."""
    return GuessAndCheck(rows=ROWS, queries=50, surprises=5, tolerance=0.3, grid=20, training_rows=ROWS, endless=True)


def made(path, label, **wanted):
    """A holdout with one label column and the score."""
    table = [{"x": part["x"], label: part[label]} for part in (SEALED, TRAINED)]
    classes_of = {"kind": ["a", "b", "c"]}.get(label)
    wanted = {"mechanism": untuned(), "label": label, "training": table[1], **wanted}
    if classes_of and label == "kind":
        wanted["classes"] = classes_of
    return eh.Holdout.create(path / "s.db", "g", holdout=table[0], **settings_from(wanted))


def numbers_of(name, label):
    return {**CASES[name][3], **(RANGE if label == "amount" else {})}
