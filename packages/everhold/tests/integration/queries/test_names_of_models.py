"""`models=`: how models are called in the ledger and in the certificate; and arguments of their fit."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import everhold as eh
from everhold.errors import QueryRejected


@pytest.fixture
def holdout(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.normal(size=3_000)
    table = {"x": x, "y": (x + rng.normal(size=3_000) > 0).astype(int)}
    sealed, training = ({name: column[half::2] for name, column in table.items()} for half in (0, 1))
    with eh.Holdout.create(tmp_path / "s.db", "s", holdout=sealed, training=training, label="y", queries=40) as opened:
        yield opened


def shown(holdout):
    return [row["asked"] for row in holdout.transcript().rows]


def test_a_model_is_called_by_its_name_in_the_ledger_and_the_certificate(holdout):
    named = holdout.evaluate(LogisticRegression(), models=["ridge of May"])
    holdout.evaluate(DecisionTreeClassifier(max_depth=3), "roc_auc")
    assert "ridge of May" in shown(holdout)[0]
    assert "DecisionTreeClassifier" in shown(holdout)[1]
    assert "ridge of May" in holdout.certificate().to_html()
    assert holdout.evaluate(LogisticRegression(), models=["another name"]).query == named.query
    assert len(shown(holdout)) == 2


def test_a_name_holds_for_several_metrics_and_slices(holdout):
    holdout.evaluate(LogisticRegression(), ["roc_auc", "f1"], models=["ridge"])
    assert all("ridge" in text for text in shown(holdout))


@pytest.mark.parametrize("where", [None, "x > 0"])
def test_a_name_is_shown_whole_whatever_its_words(holdout, where):
    name = "fit of May within budget <subject>"
    holdout.evaluate(LogisticRegression(), "precision", where=where, models=[name])
    assert f" of {name} " in shown(holdout)[0]


def test_both_models_of_a_comparison_have_names(holdout):
    rule = np.zeros(holdout.schema.rows, dtype=int)
    holdout.compare(LogisticRegression(), DecisionTreeClassifier(max_depth=2), models=["new", "old"])
    holdout.compare(LogisticRegression(C=2.0), rule, models=["newer", {"name": "never", "version": "2"}], guess=0.3)
    first, second = shown(holdout)
    assert "of new " in first
    assert "of old " in first
    assert "of newer " in second
    assert "of never " in second


def test_a_model_of_a_tracker_is_named_by_evaluate_as_by_ask(holdout):
    facts = {"name": "churn", "version": "4", "run": "7f3a"}
    holdout.evaluate(LogisticRegression(), ["roc_auc", "f1"], models=[facts])
    holdout.evaluate(DecisionTreeClassifier(max_depth=2), models=["tree"])
    holdout.ask(eh.accuracy(np.ones(holdout.schema.rows)), guess=0.5, models=["always"])
    rows = holdout.transcript().rows
    assert [row["models"] for row in rows] == ["churn version 4 of run 7f3a"] * 2 + ["tree", "always"]
    assert [" of churn " in row["asked"] for row in rows] == [True, True, False, False]


@pytest.mark.parametrize("name", ["", "a\nb", 7, "x" * 251, ["a"]])
def test_what_is_no_name_is_refused(holdout, name):
    with pytest.raises(QueryRejected, match="A model is"):
        holdout.evaluate(LogisticRegression(), models=[name])
    with pytest.raises(QueryRejected, match="one entry for each model, 2 here"):
        holdout.compare(LogisticRegression(), DecisionTreeClassifier(), models=[name])
    with pytest.raises(QueryRejected, match="one entry for each model, 1 here"):
        holdout.evaluate(LogisticRegression(), models="ridge")
    assert not shown(holdout)


def test_arguments_of_fit_reach_the_model_and_its_folds(holdout):
    labels = holdout.training_rows()[1]
    weights = np.where(labels == 1, 5.0, 1.0)
    plain, weighed = LogisticRegression(), LogisticRegression()
    told = holdout.evaluate(plain, ["recall", "precision"])
    more = holdout.evaluate(weighed, ["recall", "precision"], fit={"sample_weight": weights})
    assert weighed.intercept_ > plain.intercept_ + 0.5
    assert more["recall"].value > told["recall"].value + 0.1
    better = holdout.compare(
        LogisticRegression(C=0.5), DecisionTreeClassifier(max_depth=2), fit={"sample_weight": weights}
    )
    assert better.low < better.high
    with pytest.raises(QueryRejected, match=r"fit is .*Pass arguments of the estimator's fit by name"):
        holdout.evaluate(LogisticRegression(), fit=weights)
