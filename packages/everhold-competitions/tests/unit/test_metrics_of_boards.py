"""Metrics that rank no board are refused with advice that works."""

import re

import numpy as np
import pytest

import everhold as eh
from everhold.errors import HoldoutRejected, QueryRejected
from everhold_competitions.competition import Competition


@pytest.mark.parametrize(
    ("metric", "advised"),
    [
        ("average_precision", "roc_auc"),
        ("roc_auc_ovo", "roc_auc_ovr"),
        ("precision_samples", "precision"),
        ("max_error", "neg_mean_absolute_error"),
        ("recall_macro", "balanced_accuracy"),
    ],
)
def test_a_score_that_is_not_promised_names_one_that_ranks(metric, advised):
    with pytest.raises(
        ValueError, match=rf"has no guarantee, so it cannot rank submissions\. Rank by {re.escape(advised)}"
    ):
        Competition(feedback="score", metric=metric)
    usable = {"score": advised, "low": 0, "high": 1} if advised.startswith("neg_") else advised
    assert Competition(feedback="score", metric=usable).metric is not None


@pytest.mark.parametrize("end", ["low", "high"])
def test_a_range_whose_square_is_no_number_is_refused(end):
    with pytest.raises(ValueError, match=f"{end} of the metric is 1e.200, and its square is not a finite number"):
        Competition(feedback="score", metric={"score": "r2", "low": 0, "high": 1, end: 1e200})


@pytest.mark.parametrize(
    ("metric", "meant"),
    [
        ({"loss": "absolute", "hgih": 60}, "'high' in place of 'hgih'"),
        ({"los": "absolute"}, "'loss' in place of 'los'"),
        ("f1_marco", "'f1_macro' in place of 'f1_marco'"),
    ],
)
def test_a_misspelled_key_or_name_is_refused_with_the_nearest_one(metric, meant):
    with pytest.raises(ValueError, match=f"Did you mean {meant}"):
        Competition(feedback="score", metric=metric)


@pytest.mark.parametrize(
    ("metric", "classes", "said"),
    [
        ("neg_log_loss", ["a", "b", "c"], "labels 0 and 1 alone"),
        ("calibration_in_the_large", [0, 1], "does not order models"),
    ],
)
def test_what_orders_no_predictions_of_such_classes_names_other_metrics(tmp_path, metric, classes, said):
    rng = np.random.default_rng(0)
    rows = {
        "id": np.arange(300),
        "x": rng.normal(size=300),
        "y": np.array(classes)[rng.integers(len(classes), size=300)],
    }
    with pytest.raises(HoldoutRejected, match=said):
        eh.Holdout.create(
            f"sqlite:///{tmp_path}/a.db", "a", holdout=rows, label="y", queries=100,
            rows=eh.Rows(classes=classes, row_id="id"), competition=Competition(feedback="score", metric=metric),
        )  # fmt: skip


def test_a_score_takes_whole_numbers_of_bins_and_ranges_with_finite_squares(tmp_path):
    rng = np.random.default_rng(0)
    rows = {"v": rng.normal(size=500), "y": rng.integers(0, 2, 500)}
    refused = {
        "y": (eh.metric("expected_calibration_error", np.full(500, 0.5), bins=2.5), "bins from 1 to 100"),
        "v": (eh.metric("neg_mean_squared_error", np.zeros(500), low=0, high=1e200), "too wide to square"),
    }
    for label, (query, said) in refused.items():
        with eh.Holdout.create(
            f"sqlite:///{tmp_path}/{label}.db", label, holdout=rows, label=label, queries=50,
            mechanism="guess_and_check", allow_resealing=True,
        ) as holdout, pytest.raises(QueryRejected, match=said):  # fmt: skip
            holdout.ask(query, guess=0.0)
