"""Precision, recall and F1 are those of scikit-learn, in one query where guesses are confirmed."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, precision_score, recall_score

import everhold as eh
from everhold.asking.creation import settings_from
from everhold.queries.metrics.scores import precision, recall

ROWS = 2_000


def data(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(10, 40, ROWS)
    return {"x": x, "y": (x + rng.normal(0, 30, ROWS) > 20).astype(int)}


TRAINED, SEALED = data(1), data(2)
RATES = {"precision": (precision, precision_score), "recall": (recall, recall_score), "f1": (eh.f1, f1_score)}


def predicted(rows):
    return (rows["x"] > 25) * 1


@pytest.fixture(params=["guess_and_check", "privacy_budget"])
def holdout(request, tmp_path):
    more = {"surprises": 2} if request.param == "guess_and_check" else {}
    with eh.Holdout.create(
        tmp_path / "h.db", "h", holdout=SEALED, training=TRAINED, label="y", queries=8,
        mechanism=request.param, **settings_from({**more, "allow_vacuous": True}),
    ) as made:  # fmt: skip
        yield made


def model():
    return LogisticRegression().fit(np.asarray(TRAINED["x"])[:, None], TRAINED["y"])


@pytest.mark.parametrize("name", RATES)
@pytest.mark.parametrize("by_estimator", [False, True])
def test_they_are_those_of_scikit_learn(holdout, name, by_estimator):
    make, by_sklearn = RATES[name]
    query = make(model()) if by_estimator else make(predicted(SEALED), training=predicted(TRAINED))
    ours = model().predict(np.asarray(SEALED["x"])[:, None]) if by_estimator else predicted(SEALED)
    truth = by_sklearn(SEALED["y"], ours)
    if holdout.mechanism.traits.needs_guess:
        ready = holdout._executor.compiler.compile(query, None, None)
        evaluations, (prepared,) = ready.evaluate(holdout._executor.sealed, [0])
        assert int(evaluations.totals[0, 0]) / holdout.mechanism.steps == pytest.approx(truth, abs=1e-9)
        trained = model().predict(np.asarray(TRAINED["x"])[:, None]) if by_estimator else predicted(TRAINED)
        guess = prepared.guess / holdout.mechanism.steps
        assert guess == pytest.approx(by_sklearn(TRAINED["y"], trained), abs=1e-9)
    answer = holdout.ask(query)
    assert answer.low <= truth <= answer.high
    assert len(holdout.transcript()) == (1 if holdout.mechanism.traits.needs_guess else 2)


def test_labels_that_are_none_are_refused(holdout):
    for make, _ in RATES.values():
        with pytest.raises(eh.QueryRejected, match="brier"):
            holdout.ask(make(np.full(ROWS, 0.5), training=predicted(TRAINED)))
