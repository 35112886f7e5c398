"""`name=` of `evaluate` and `compare`: how models are called in the ledger and in the certificate."""

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
    named = holdout.evaluate(LogisticRegression(), name="ridge of May")
    holdout.evaluate(DecisionTreeClassifier(max_depth=3), "roc_auc")
    assert "ridge of May" in shown(holdout)[0]
    assert "DecisionTreeClassifier" in shown(holdout)[1]
    assert "ridge of May" in holdout.certificate().to_html()
    assert holdout.evaluate(LogisticRegression(), name="another name").query == named.query
    assert len(shown(holdout)) == 2


def test_a_name_holds_for_several_metrics_and_slices(holdout):
    holdout.evaluate(LogisticRegression(), ["roc_auc", "f1"], name="ridge")
    assert all("ridge" in text for text in shown(holdout))


@pytest.mark.parametrize("where", [None, "x > 0"])
def test_a_name_is_shown_whole_whatever_its_words(holdout, where):
    name = "fit of May within budget <subject>"
    holdout.evaluate(LogisticRegression(), "precision", where=where, name=name)
    assert f" of {name} " in shown(holdout)[0]


def test_both_models_of_a_comparison_have_names(holdout):
    rule = np.zeros(holdout.schema.rows, dtype=int)
    holdout.compare(LogisticRegression(), DecisionTreeClassifier(max_depth=2), name=("new", "old"))
    holdout.compare(LogisticRegression(C=2.0), rule, name=("newer", "never"), guess=0.3)
    first, second = shown(holdout)
    assert "of new " in first
    assert "of old " in first
    assert "of newer " in second
    assert "of never " in second


@pytest.mark.parametrize("name", ["", "a\nb", 7, "x" * 81, ["a"]])
def test_what_is_no_name_is_refused(holdout, name):
    with pytest.raises(QueryRejected, match="name is"):
        holdout.evaluate(LogisticRegression(), name=name)
    with pytest.raises(QueryRejected, match="two texts"):
        holdout.compare(LogisticRegression(), DecisionTreeClassifier(), name=name)
    assert not shown(holdout)
