"""What the page *Compare* concludes from answers about models of a tracker, whatever analysts call them."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import everhold as eh
from everhold_server.web.views import compared

OLD, NEW = {"name": "churn", "version": "1"}, {"name": "churn", "version": "2"}
CALLED = "churn version 1", "churn version 2"


@pytest.fixture
def holdout(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.normal(size=6_000)
    table = {"x": x, "y": (x + rng.normal(size=6_000) > 0).astype(int)}
    sealed, training = ({name: column[half::2] for name, column in table.items()} for half in (0, 1))
    with eh.Holdout.create(tmp_path / "s.db", "s", holdout=sealed, training=training, label="y", queries=40) as opened:
        yield opened


def told_of(holdout):
    rows = holdout.transcript().rows
    return SimpleNamespace(tracked=list(zip(holdout.ledger.models(rows), rows, strict=True)))


def test_estimators_that_were_asked_where_the_rows_are_are_compared(holdout):
    features, labels = map(np.asarray, holdout.training_rows())
    models = [each.fit(features, labels) for each in (LogisticRegression(), DecisionTreeClassifier(max_depth=1))]
    one, other = (
        holdout.ask(eh.accuracy(model), guess=0.75, models=[named])
        for model, named in zip(models, (OLD, NEW), strict=True)
    )
    (row,) = compared(told_of(holdout), *CALLED, 0.5)
    assert (row["metric"], row["verdict"], row["paired"]) == ("accuracy", "not worse", False)
    assert (row["low"], row["high"]) == (one.low - other.high, one.high - other.low)
    assert compared(told_of(holdout), CALLED[0], CALLED[0], 0.5) == []


def test_answers_about_two_predictions_of_one_name_are_not_combined(holdout):
    rules = [np.full(holdout.schema.rows, value) for value in (0, 1)] + [np.arange(holdout.schema.rows) % 2]
    first, alike, second = (eh.accuracy(rule) for rule in rules)
    holdout.ask(first, guess=0.5, models=[OLD])
    pair = holdout.ask(eh.difference(alike, second), guess=0.0, models=[OLD, NEW])
    (row,) = compared(told_of(holdout), *CALLED, 0.0)
    assert (row["low"], row["high"], row["first"]) == (pair.low, pair.high, None)
    other = holdout.ask(second, guess=0.5, models=[NEW])
    rows = {row["paired"]: row for row in compared(told_of(holdout), *CALLED, 0.0)}
    assert (rows[True]["first"], rows[True]["second"]["low"]) == (None, other.low)
    assert rows[False]["first"] is not None
    assert len({row["metric"] for row in rows.values()}) == 2
    (turned, _) = compared(told_of(holdout), *CALLED[::-1], 0.0)
    assert (turned["low"], turned["high"]) == (-pair.high, -pair.low)
