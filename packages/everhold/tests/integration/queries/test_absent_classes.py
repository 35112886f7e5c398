"""A slice that lacks a class: everhold counts it as 0, scikit-learn leaves it out, and intervals hold both numbers."""

import numpy as np
import pytest
from score_samples import untuned

import everhold as eh

metrics = pytest.importorskip("sklearn.metrics")
ROWS, CLASSES = 1_200, ["a", "b", "c"]
WHERE = "region = 'N'"


def rows_of(seed):
    """Three classes, of which region N has two."""
    rng = np.random.default_rng(seed)
    region, label = rng.choice(["N", "S"], ROWS), rng.choice(CLASSES, ROWS)
    return {"region": region, "y": np.where((region == "N") & (label == "c"), "b", label)}


SEALED, TRAINED = rows_of(1), rows_of(2)
THERE = SEALED["region"] == "N"


def said(seed, classes):
    """Predictions of a model that is right in four rows of five."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(ROWS) < 0.8, SEALED["y"], rng.choice(classes, ROWS))


def f1_macro(labels, predictions):
    return metrics.f1_score(labels, predictions, average="macro")


SCORES = {"balanced_accuracy": metrics.balanced_accuracy_score, "f1_macro": f1_macro}


@pytest.fixture
def holdout(tmp_path):
    with eh.Holdout.create(
        tmp_path / "h.db", "h", holdout=SEALED, training=TRAINED, label="y", rows=eh.Rows(classes=CLASSES),
        mechanism=untuned(),
    ) as made:  # fmt: skip
        yield made


def covers(answer, number):
    return answer.low <= number <= answer.high and answer.sealed_low <= number <= answer.sealed_high


@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
def test_intervals_hold_both_ways_of_counting_a_class_that_never_occurs(holdout):
    asked = {
        (name, classes): eh.metric(name, said(3, list(classes)), where=WHERE)
        for name in SCORES for classes in ("ab", "abc")
    }  # fmt: skip
    both = [eh.metric("balanced_accuracy", said(seed, ["a", "b"]), where=WHERE) for seed in (3, 4)]
    queries = [*asked.values(), eh.difference(*both)]
    for query in queries:
        holdout.ask(query, guess=0.6)
    holdout.unseal()
    *scores, gain = (holdout.ask(query) for query in queries)
    for (name, classes), answer in zip(asked, scores, strict=True):
        theirs = SCORES[name](SEALED["y"][THERE], said(3, list(classes))[THERE])
        counted = name == "f1_macro" and classes == "abc"  # it is predicted, so scikit-learn counts it as 0, too
        assert answer.sealed == pytest.approx(theirs if counted else theirs * 2 / 3)
        assert covers(answer, answer.sealed)
        assert covers(answer, theirs)
    theirs = [metrics.balanced_accuracy_score(SEALED["y"][THERE], said(seed, ["a", "b"])[THERE]) for seed in (3, 4)]
    assert gain.sealed == pytest.approx((theirs[0] - theirs[1]) * 2 / 3)
    assert covers(gain, theirs[0] - theirs[1])
