"""Mean losses: their values, their ranges, and what is refused before it meets sealed rows."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from everhold import Empirical, Holdout, QueryRejected
from everhold.queries.metrics.row_scores import risk
from everhold.values.base import Schema
from everhold.values.evaluation import clip_to_grid, to_grid
from everhold.values.expressions import ColumnKind

ROWS = 4
LABELS = np.array([0, 1, 1, 0])
PREDICTIONS = np.array([0.25, 0.5, 1.0, 1.0])


def schema(label_kind="binary", label="late"):
    return Schema(ROWS, ROWS, {"late": ColumnKind.NUMBER, "x": ColumnKind.NUMBER}, label, label_kind)


def sealed_values(query, labels=LABELS, kind="binary"):
    """Losses in the analyst's units, as sealed rows have them."""
    bound = query.bind(schema(kind))
    grid = clip_to_grid(bound.sealed({"late": labels}), unit=2**30)
    return bound.from_mean(grid / 2**30)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (risk(PREDICTIONS, "absolute"), [0.25, 0.5, 0, 1]),
        (risk(PREDICTIONS), [0.0625, 0.25, 0, 1]),
        (risk(PREDICTIONS, "log", high=2), [-math.log(0.75), math.log(2), 0, 2]),
        (risk(PREDICTIONS, "absolute", low=0.3, high=0.6), [0.3, 0.5, 0.3, 0.6]),
        (risk(PREDICTIONS, lambda p, y: 3 * (p - y), low=-3, high=3), [0.75, -1.5, 0, 3]),
        (risk(PREDICTIONS, lambda p, y: p > y, high=1), [1, 0, 0, 1]),
        (risk(PREDICTIONS, lambda p, y: np.where(p == 0.5, np.nan, 1.0), low=-1, high=1), [1, -1, 1, 1]),
    ],
)
def test_losses_are_clipped_to_their_range(query, expected):
    assert sealed_values(query) == pytest.approx(expected, abs=1e-7)


def test_a_loss_that_fails_on_one_sealed_row_counts_as_low_there_and_nowhere_else():
    def fragile(predictions, labels):
        if np.any(labels == 7):
            raise ValueError("a seven")
        return np.abs(predictions - labels)

    query = risk([1, 2, 3, 4], fragile, low=-5, high=5)
    assert sealed_values(query, labels=np.array([1, 7, 4, 6]), kind="number") == pytest.approx([0, -5, 1, 2], abs=1e-7)


def fingerprint(query, kind="binary"):
    return query.bind(schema(kind)).query


def test_what_is_the_same_query():
    def loss(predictions, labels):
        return np.abs(predictions - labels)

    named = risk(PREDICTIONS, loss, high=1, name="distance")
    nameless = risk(PREDICTIONS, loss, high=1)
    queries = [
        risk(PREDICTIONS), risk(PREDICTIONS, "absolute"), risk(PREDICTIONS, high=2), risk(PREDICTIONS, low=0.1, high=1),
        risk(PREDICTIONS[::-1]), named, nameless, risk(PREDICTIONS, loss, high=1),
    ]  # fmt: skip
    assert len({fingerprint(query) for query in queries}) == len(queries)
    assert fingerprint(risk(PREDICTIONS)) == fingerprint(risk(PREDICTIONS.tolist(), "squared", high=1.0))
    assert fingerprint(named) == fingerprint(risk(PREDICTIONS, loss, high=1, name="distance"))
    assert fingerprint(named) != fingerprint(risk(PREDICTIONS, np.hypot, high=1, name="distance"))
    assert fingerprint(nameless) == fingerprint(nameless)


def test_training_losses_outside_their_range_are_told():
    bound = risk(np.zeros(ROWS), "absolute", high=10, training=np.array([1.0, 2.0, 30.0, 4.0])).bind(schema("number"))
    with pytest.raises(QueryRejected, match=r"between 1 and 30.*declared range \[0, 10\]"):
        bound.training({"late": np.zeros(ROWS)})
    to_grid(bound.training({"late": np.array([1.0, 2.0, 25.0, 4.0])}))


@pytest.mark.parametrize(
    ("query", "kind", "words"),
    [
        (risk(PREDICTIONS), "string", "label column of numbers"),
        (risk(PREDICTIONS), "number", "Pass high="),
        (risk(PREDICTIONS, "log"), "binary", "Pass high="),
        (risk(PREDICTIONS, "log", high=5), "number", "labels 0 and 1"),
        (risk([0, 1, 2, 0], "log", high=5), "binary", "probabilities of label 1"),
        (risk([0, 1, math.nan, 0], high=5), "number", "finite"),
        (risk([0, 1, math.inf, 0], high=5), "number", "finite"),
        (risk([0, 1, 1], high=5), "number", "shape"),
        (risk(["a"] * 4, high=5), "number", "and the labels are"),
        (risk(PREDICTIONS, lambda p, y: np.mean(p - y), high=1), "number", "one number per row"),
        (risk(PREDICTIONS, lambda p, y: p - p.mean(), high=1), "number", "from that row's prediction and label alone"),
        (risk(PREDICTIONS, lambda p: p, high=1), "number", "TypeError"),
        (risk(PREDICTIONS, lambda p, y: "loss", high=1), "number", "ValueError"),
    ],
)
def test_what_cannot_be_asked_is_rejected(query, kind, words):
    with pytest.raises(QueryRejected, match=words) as caught:
        query.bind(schema(kind))
    assert "othing was charged" in caught.value.told


@pytest.mark.parametrize(
    "call",
    [
        lambda: risk(PREDICTIONS, "huber"),
        lambda: risk(PREDICTIONS, low=1.0, high=1.0),
        lambda: risk(PREDICTIONS, low=0.0, high=math.inf),
        lambda: risk(PREDICTIONS, low=math.nan, high=1.0),
        lambda: risk(PREDICTIONS, low="0", high=1.0),
        lambda: risk(PREDICTIONS, low=2.0),
    ],
)
def test_bad_arguments_are_refused(call):
    with pytest.raises(ValueError, match="Pass"):
        call()


def test_without_labels_there_is_no_risk():
    with pytest.raises(QueryRejected, match="label column"):
        risk(PREDICTIONS).bind(schema(None, None))


@pytest.mark.filterwarnings("ignore::everhold.NonAdaptiveWarning")
def test_a_holdout_answers_with_the_mean_loss_of_arrays_and_of_estimators(tmp_path):
    rng = np.random.default_rng(0)
    late = rng.integers(0, 2, 400)
    x = late + rng.normal(0, 0.5, 400)
    rows = {"x": x, "late": late}
    train = {"x": x[::-1] + 1e-9, "late": late[::-1].copy()}
    model = LogisticRegression().fit(x[:, None], late)
    with Holdout.create(
        tmp_path / "study.db", holdout=rows, training=train, label="late", mechanism=Empirical(rows=400, queries=9)
    ) as holdout:
        p = model.predict_proba(x[:, None])[:, 1]
        logs = -np.log(np.where(late == 1, p, 1 - p))
        for query in (risk(p, "log", high=8), risk(model, "log", high=8)):
            assert holdout.ask(query).value == pytest.approx(logs.mean(), abs=1e-6)
        assert holdout.ask(risk(2 * p, "absolute", high=2)).value == pytest.approx(
            np.abs(2 * p - late).mean(), abs=1e-6
        )
        before = len(holdout.transcript())
        with pytest.raises(
            QueryRejected, match=r"losses of the training rows lie .* outside the declared range \[0, 0.01\]"
        ):
            holdout.ask(risk(model, "log", high=0.01))
        assert len(holdout.transcript()) == before
