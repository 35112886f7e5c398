"""Scores by scikit-learn's names: all names, and refusals that charge nothing."""

import numpy as np
import pytest
from score_samples import CASES, ROWS, SEALED, chances, classes, made, three

import everhold as eh
from everhold import QueryRejected
from everhold.queries.metrics.registry import METRICS, REFUSED


def test_all_names_are_taken_or_refused_with_the_nearest_score():
    from sklearn.metrics import get_scorer_names

    assert set(get_scorer_names()) - set(METRICS) <= set(REFUSED)
    assert not set(REFUSED) & set(METRICS)
    assert set(CASES) | {"error", "brier", "failing_rows"} == set(METRICS.own)


WRONG = {
    "unknown score": ("y", lambda: eh.metric("f2", classes(SEALED)), "There is no metric 'f2'"),
    "refused score": ("y", lambda: eh.metric("top_k_accuracy", classes(SEALED)), "nearest metric is accuracy"),
    "no name": ("y", lambda: eh.metric(3, classes(SEALED)), "There is no metric 3"),
    "probabilities of classes": ("y", lambda: eh.metric("f1_macro", chances(SEALED)), "are no labels"),
    "no probabilities": ("y", lambda: eh.metric("neg_brier_score", 2.0 * SEALED["x"]), "are not all in"),
    "undeclared class": ("kind", lambda: eh.metric("f1_macro", np.where(SEALED["x"] > 0, "a", "z")), "'z'"),
    "other shape": ("kind", lambda: eh.metric("neg_log_loss", np.ones((ROWS, 2)) / 2), "have the shape"),
    "no distribution": ("kind", lambda: eh.metric("neg_log_loss", np.ones((ROWS, 3))), "add up to 1"),
    "texts": ("kind", lambda: eh.metric("neg_log_loss", three(SEALED)), "are not a table of numbers"),
    "too short": ("y", lambda: eh.metric("matthews_corrcoef", classes(SEALED)[:9]), "have the shape"),
    "not two classes": ("kind", lambda: eh.metric("matthews_corrcoef", three(SEALED)), "needs labels 0 and 1"),
    "no number": ("kind", lambda: eh.metric("r2", SEALED["x"]), "needs"),
    "another option": ("y", lambda: eh.metric("f1_macro", classes(SEALED), bins=3), "takes no bins"),
    "no range": ("amount", lambda: eh.metric("r2", SEALED["x"], low=4, high=4), "the range of the labels"),
    "no rate": ("y", lambda: eh.metric("recall_at_fpr", chances(SEALED), rate=1.0), "rate between 0 and 1"),
    "no bins": ("y", lambda: eh.metric("expected_calibration_error", chances(SEALED), bins=0), "bins from 1 to 100"),
    "no guess": ("y", lambda: eh.metric("balanced_accuracy", classes(SEALED)), "needs a guess"),
    "a rule": ("y", lambda: eh.metric("balanced_accuracy", "x > 1"), "this metric takes no rules"),
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
