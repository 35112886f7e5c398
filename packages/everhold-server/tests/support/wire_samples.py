"""One holdout and a query of every kind for it."""

import numpy as np

import everhold as eh
from everhold.asking.creation import settings_from
from everhold.values.universe import BinnedColumn, ListedColumn, Universe

ROWS = 2_000


def rows(seed, first):
    """Rows with ids, a number, an arm and a label."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=ROWS)
    return {
        "id": np.arange(first, first + ROWS),
        "x": x,
        "arm": rng.choice(np.array(["A", "B"]), ROWS),
        "y": (x + rng.normal(size=ROWS) > 0.0).astype(np.int64),
    }


SEALED, TRAINING = rows(0, 0), rows(1, ROWS)
LABELS, SCORES = (SEALED["x"] > 0.1).astype(np.int64), np.clip(0.5 + SEALED["x"] / 4.0, 0.0, 1.0)
BY_ID = {"id": SEALED["id"][::-1], "said": SCORES[::-1]}
UNIVERSE = Universe((ListedColumn("arm", ("A", "B"), "B"), BinnedColumn("x", (-1, 0, 1)), ListedColumn("y", (0, 1))))


def create(folder, name="study", mechanism="privacy_budget", **wanted):
    """A holdout that takes queries of every kind."""
    wanted = {
        "training": TRAINING,
        "label": "y",
        "row_id": "id",
        "queries": 30,
        "allow_resealing": True,
        "seed": 5,
        **wanted,
    }
    return eh.Holdout.create(f"{folder}/wire.db", name, holdout=SEALED, mechanism=mechanism, **settings_from(wanted))


WITHOUT_NOISE = ("choose", "first_above", "all_above", "quantile", "metric", "synthesize", "survival",
                 "restricted_mean_survival")  # fmt: skip
"""Kinds that a holdout with a privacy budget refuses."""


def queries():
    """Queries by kind, made anew; some hold arrays, tables, rules, other queries or infinite numbers."""
    return {
        "mean": ["x > 0", eh.mean("x", low=-9, high=9), eh.mean("x", low=-9, high=9, given="arm = 'A'")],
        "accuracy": [eh.accuracy(LABELS), eh.accuracy(BY_ID | {"said": LABELS[::-1]}), eh.accuracy("x > 0.5")],
        "error": [eh.error(LABELS.tolist(), training=LABELS)],
        "brier": [eh.brier(SCORES.astype(np.float32)), eh.brier(BY_ID), eh.brier("0.5")],
        "risk": [eh.risk(SCORES, "log", high=np.float64(5)), eh.risk(BY_ID, low=0.0, high=1)],
        "difference": [
            eh.difference(eh.error(LABELS), eh.error(BY_ID | {"said": 1 - LABELS})),
            eh.difference("x>1", "y=1"),
        ],
        "ratio": [eh.ratio("x > 1", "x > 0"), eh.ratio(eh.accuracy(LABELS), "arm = 'A'")],
        "risk_difference": [
            eh.risk_difference("y = 1", arm="arm", treated="A", control="B", given="x > 0"),
            eh.risk_difference(
                eh.mean("x", low=-9, high=9), arm="arm", treated="A", control="B", by="y", groups=(0, 1)
            ),
        ],
        "risk_ratio": [eh.risk_ratio("x > 0", arm="y", treated=1, control=0.0, by="arm")],
        "variance": [eh.variance("x", low=-9, high=9), eh.variance("y = 1")],
        "standard_deviation": [eh.standard_deviation("x", low=-9, high=9)],
        "sharpe_ratio": [eh.sharpe_ratio("x", low=-9, high=9)],
        "covariance": [eh.covariance("x", "y = 1", low=-9, high=9)],
        "correlation": [eh.correlation("y = 1", "x", other_low=-9, other_high=9)],
        "survival": [eh.survival("x + 9", "y = 1", at=10.0, steps=20, given="arm = 'A'")],
        "restricted_mean_survival": [eh.restricted_mean_survival("x + 9", "y = 1", at=10.0, steps=5)],
        "histogram": [eh.histogram("x", [-np.inf, 0, 1.5], missing=False), eh.histogram("arm", ["A", "B"])],
        "choose": [eh.choose([0, 1], loss=lambda cut: f"x > {cut}", best="highest", most=2), eh.choose(["x > 0"])],
        "first_above": [eh.first_above(["x > 1", eh.mean("x > 0")], 0.3)],
        "all_above": [eh.all_above(["x > 1", eh.mean("x > 0")], 0.3)],
        "quantile": [eh.quantile("x", 0.3, low=-3, high=3, bins=9), eh.quantile("x")],
        "private_choose": [eh.private_choose([0, 1], loss=lambda cut: f"x > {cut}", best="highest", price=7)],
        "private_first_above": [eh.private_first_above(["x > 1", eh.mean("x > 0")], 0.3, price=9)],
        "private_quantile": [eh.private_quantile("x", 0.3, low=-3, high=3, bins=9)],
        "auc": [eh.auc(SCORES, positives=150, negatives=150), eh.auc(BY_ID, positives=9, negatives=9)],
        "f1": [eh.f1(LABELS, least=200), eh.f1(LABELS)],
        "precision": [eh.precision(LABELS, training=LABELS)],
        "recall": [eh.recall(LABELS)],
        "metric": [
            eh.metric("f1_macro", LABELS, training=LABELS),
            eh.metric("neg_mean_squared_error", BY_ID, low=0.0, high=np.float64(1), clip=0.5),
        ],
        "synthesize": [eh.synthesize(UNIVERSE), eh.synthesize(UNIVERSE, 1)],
        "private_synthesize": [
            eh.private_synthesize(UNIVERSE, 2, price=50),
            eh.private_synthesize(UNIVERSE, 1, method="blr"),
        ],
    }
