"""Metrics of models asked together: one step (S9), with means of rows and without, or none of them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.tree import DecisionTreeClassifier

import everhold as eh

ROWS, FEATURES = 1_500, ["x", "z"]
NAMES = ["roc_auc", "f1", "accuracy", "precision", "balanced_accuracy", "brier"]


def rows_of(seed):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, ROWS))
    return {"x": x, "z": z, "region": rng.choice(["N", "S"], ROWS), "y": (x + rng.normal(size=ROWS) > 0).astype(int)}


SEALED, TRAINED = rows_of(1), rows_of(2)


@pytest.fixture
def create(tmp_path):
    made = []

    def create(name="h", **terms):
        made.append(
            eh.Holdout.create(f"{tmp_path}/{name}.db", name, holdout=SEALED, training=TRAINED, label="y", queries=60,
                              surprises=4, **terms)
        )  # fmt: skip
        return made[-1]

    yield create
    for holdout in made:
        holdout.close()


def fitted(estimator):
    return estimator.fit(pd.DataFrame({name: TRAINED[name] for name in FEATURES}), TRAINED["y"])


@pytest.fixture
def model():
    return fitted(LogisticRegression())


def asked_of(model):
    return [*(eh.metric(name, model) for name in NAMES), "x > 0", eh.mean("z > 0", given="x > 0")]


def test_metrics_and_means_are_one_step_with_the_sealed_values_inside(create, model):
    holdout = create()
    told = holdout.ask_many(asked_of(model))
    assert [answer.refused for answer in told] == [False] * len(told)
    features = pd.DataFrame({name: SEALED[name] for name in FEATURES})
    truths = {0: roc_auc_score(SEALED["y"], model.predict_proba(features)[:, 1]),
              1: f1_score(SEALED["y"], model.predict(features)), 6: np.mean(SEALED["x"] > 0)}  # fmt: skip
    assert all(told[place].low <= truth <= told[place].high for place, truth in truths.items())
    nats = [entry.answer["node"]["nats"] for entry in holdout._executor.ledger.entries()]
    alone = create("alone")
    first = alone.ask(asked_of(model)[0])
    assert (first.value, first.low, first.high) == (told[0].value, told[0].low, told[0].high)
    for query in asked_of(model)[1:4]:
        alone.ask(query)
    later = [entry.answer["node"]["nats"] for entry in alone._executor.ledger.entries()]
    assert nats[:4] == later  # no surprise so far


def test_a_surprise_of_one_metric_leaves_the_levels_of_its_step(create, model):
    overfitted = fitted(DecisionTreeClassifier(random_state=0))
    queries = [eh.metric("roc_auc", overfitted), eh.metric("f1", overfitted), eh.metric("roc_auc", model)]
    calm, other = create(), create("other")
    told = calm.ask_many(queries, guesses=[None, None, 0.8])
    assert [answer.charged for answer in told] == [1, 1, 0]
    assert other.ask_many(queries[::-1], guesses=[0.8, None, None])[0].charged == 0
    wide = other.ask(eh.metric("roc_auc", model, where="x > -9"), guess=0.8)
    assert wide.high - wide.low > told[2].high - told[2].low  # a later step pays for both surprises


def test_silent_metrics_are_told_together_when_the_study_is_unsealed(create, model):
    holdout = create()
    told = holdout.ask_many(asked_of(model), silent=True)
    assert {answer.value for answer in told} == {None}
    rows = holdout.unseal().rows
    assert len(rows) == len(told)
    assert all(row["sealed_low"] < row["sealed_high"] for row in rows)


def test_released_metrics_are_narrow_and_charge_nothing(create, model):
    holdout, queries = create(), [eh.metric("roc_auc", model), eh.metric("f1", model), "x > 0"]
    told = holdout.ask_many(queries, reveal="all")
    checked = create("checked").ask_many(queries)
    assert [answer.source for answer in told] == ["chosen"] * 3
    assert all(one.high - one.low < other.high - other.low for one, other in zip(told, checked, strict=True))


def test_members_of_a_list_and_others_keep_their_places(create, model):
    listed = [eh.metric("f1", model), eh.metric("accuracy", model)]
    holdout = create(declared=[eh.listed(listed)])
    told = holdout.ask_many([eh.metric("roc_auc", model), listed[0], "x > 0", listed[1]])
    assert [answer.source == "declared" for answer in told] == [False, True, False, True]


def test_what_takes_several_queries_is_refused_with_all_others(create, model):
    holdout = create()
    with pytest.raises(eh.QueryRejected, match=r"variance of .* is not answered by one mean.*Ask it alone"):
        holdout.ask_many([eh.metric("f1", model), eh.variance("x", low=-4, high=4)])
    with pytest.raises(eh.QueryRejected, match="There are 1 guesses for 2 queries"):
        holdout.ask_many([eh.metric("f1", model), "x > 0"], guesses=[0.8])
    assert holdout.status()["queries_asked"] == 0


def test_a_list_of_metrics_is_answered_whole_or_says_which_one_is_not_paid_for(create):
    holdout = create()
    holdout.allot("ada", queries=3, charges=3)
    ada, tree = holdout.analyst("ada"), DecisionTreeClassifier(max_depth=3)
    with pytest.raises(eh.BudgetExhausted, match=r"pay for 3 of these 4 new queries, so none .*'precision of Decision"):
        ada.evaluate(tree, NAMES[:4], features=FEATURES, strict=True)
    assert ada.remaining["queries"] == 3
    told = ada.evaluate(tree, NAMES[:4], features=FEATURES)
    assert [answer.refused for answer in told.values()] == [False] * 3 + [True]
    with pytest.raises(eh.BudgetExhausted, match=r"ran out at 'precision.*3 of 4 .*'AUC of .*free when asked again"):
        ada.evaluate(tree, NAMES[:4], features=FEATURES, strict=True)


def test_metrics_one_after_the_other_say_which_were_answered(create):
    holdout = create(mechanism="privacy_budget", planning=eh.Planning(allow_vacuous=True))
    holdout.allot("ada", queries=1, charges=500)
    tree = DecisionTreeClassifier(max_depth=3)
    with pytest.raises(eh.BudgetExhausted, match=r"This was the metric precision\. Answered before: the metric acc"):
        holdout.analyst("ada").evaluate(tree, ["accuracy", "precision"], features=FEATURES, strict=True)


def test_a_metric_that_cannot_be_asked_is_named_and_none_is_asked(create):
    holdout = create(mechanism="privacy_budget", planning=eh.Planning(allow_vacuous=True))
    with pytest.raises(eh.QueryRejected, match=r"answers AUC.*This was in the metric roc_auc"):
        holdout.evaluate(DecisionTreeClassifier(max_depth=3), ["accuracy", "roc_auc"], features=FEATURES)
    assert holdout.status()["queries_asked"] == 0


class Counted(LogisticRegression):
    fits = 0

    def fit(self, rows, labels):
        Counted.fits += 1
        return super().fit(rows, labels)


def test_several_metrics_of_a_model_are_evaluated_with_one_fit_of_each_fold(create):
    holdout = create()
    folds = [np.arange(first, ROWS, 3) for first in range(3)]
    pairs = ((np.setdiff1d(np.arange(ROWS), outside), outside) for outside in folds)  # can be read only once
    told = holdout.evaluate(Counted(), ["roc_auc", "f1"], features=FEATURES, cv=pairs)
    assert Counted.fits == 3 + 1
    features = pd.DataFrame({name: SEALED[name] for name in FEATURES})
    truth = f1_score(SEALED["y"], fitted(LogisticRegression()).predict(features))
    assert told["f1"].low <= truth <= told["f1"].high
    assert [told[name].source for name in ("roc_auc", "f1")] == ["training"] * 2


def test_a_metric_that_does_not_suit_the_labels_is_refused_before_a_fit(create):
    Counted.fits = 0
    with create() as holdout:
        before = holdout.remaining
        with pytest.raises(eh.QueryRejected, match="no metric 'nothing'"):
            holdout.evaluate(Counted(), ["f1", "nothing"], features=FEATURES)
        with pytest.raises(eh.QueryRejected, match="pos_label is 7, which is no class of 'y'"):
            holdout.evaluate(Counted(), lambda model: eh.metric("roc_auc", model, pos_label=7), features=FEATURES)
        assert (Counted.fits, holdout.remaining) == (0, before)
