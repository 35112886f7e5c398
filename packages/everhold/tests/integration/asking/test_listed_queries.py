"""A listed query is answered as declared, or refused when it is declared: the table of the guide, row by row."""

import re
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import everhold as eh
from everhold.queries import _OWN

GUIDE = Path(__file__).parents[5] / "docs" / "guides" / "declare.md"
TABLE = GUIDE.read_text().partition("### What a list may hold")[2].partition("\n\nNothing of the answer")[0]
ROWS = [tuple(cell.strip() for cell in line.split("|")[1:4]) for line in TABLE.splitlines() if line.startswith("| `")]
COUNT = 800


def flights(seed, count=COUNT):
    rng = np.random.default_rng(seed)
    delay = rng.normal(5.0, 30.0, count)
    late = (delay + rng.normal(0.0, 30.0, count) > 0).astype(int)
    return {"delay": delay, "carrier": rng.choice(np.array(["AA", "UA"]), count), "late": late}


class Model(LogisticRegression):
    """A model of the delay alone."""

    feature_names_in_, n_features_in_ = np.array(["delay"]), 1
    classes_, coef_ = np.array([0, 1]), np.array([[0.05]])

    def __init__(self, far=0.0):
        super().__init__()
        self.far, self.intercept_ = far, np.array([far])


class Locked(Model):
    def __init__(self, far=0.0):
        super().__init__(far)
        self.lock = threading.Lock()


def query(text):
    return eval(text.strip("`"), {"eh": eh, "model": Model(), "other": Model(0.5)})


def create(folder, listed, *, training=True, **more):
    folder.mkdir(exist_ok=True)
    wanted = {"training": flights(1)} if training else {}
    return eh.Holdout.create(
        f"sqlite:///{folder}/s.db", "s", holdout=flights(0), label="late", queries=20, declared={"end points": listed},
        **wanted, **more,
    )  # fmt: skip


def ask(folder, *asked, **more):
    """Whether they are declared, and then what an answer costs."""
    try:
        with create(folder, eh.listed(asked), **more) as holdout:
            for each in asked:
                first = holdout.quote(each)
                assert (first.charged_at_most, first.answered_before) == (0, False)
            holdout.ask("late > 2", guess=0.0)
            holdout.unseal()  # members are answered after the end, too
            for each in asked:
                holdout.ask(each)
                assert holdout.quote(each).answered_before
            told = holdout.transcript().rows[1:]
            assert {(row["source"], row["charged"]) for row in told} == {("declared", 0)}
            return None
    except eh.QueryRejected as refused:
        return refused


@pytest.mark.parametrize("training", [True, False])
def test_each_row_of_the_table_is_true(tmp_path, training):
    may_be = {"yes", "with training rows"} if training else {"yes"}
    listed = [query(text) for text, may, _ in ROWS if may in may_be]
    for part in range(5):  # no query may be listed twice, and some have two names
        assert ask(tmp_path / str(part), *listed[part::5], training=training) is None
    for text, may, instead in ROWS:
        if may not in may_be:
            refused = ask(tmp_path / "refused", query(text), training=training)
            assert [each["entry"] for each in refused.data["entries"]] == [1], text
            if may == "no" and instead:
                assert "List them in its place" in str(refused), text


def test_the_table_has_a_row_for_every_kind_of_query():
    assert {kind.name for kind in _OWN} <= set(re.findall(r"eh\.(\w+)", " ".join(row[0] for row in ROWS)))


def test_all_entries_that_are_refused_are_named_at_once_and_nothing_is_created(tmp_path):
    scan = eh.first_above(["late = 1"], 0.5)
    mixed = ["late = 1", eh.auc(Locked()), eh.recall(Model()), "nowhere > 3", scan]
    with pytest.raises(
        eh.QueryRejected, match=r"^3 of 5 listed queries cannot be declared. Entry 2, roc_auc of Locked: "
    ) as raised:
        create(tmp_path, eh.listed(mixed))
    assert [each["entry"] for each in raised.value.data["entries"]] == [2, 4, 5]
    two = eh.difference(eh.metric("f1_weighted", Model()), eh.metric("f1_weighted", Model(0.5)))
    with pytest.raises(eh.QueryRejected, match="Entry 1, f1_weighted of Model minus f1_weighted of Model: "):
        create(tmp_path, eh.listed([two]))
    assert not list(tmp_path.iterdir())
    with create(tmp_path, eh.listed(["late = 1"])) as holdout:
        left = holdout.remaining
        for declare in (holdout.declare, lambda name, family: holdout.declare_all({name: family})):
            with pytest.raises(eh.QueryRejected, match="Entry 2, roc_auc of Locked"):
                declare("more", eh.listed(mixed))
        assert holdout.remaining == left


def test_code_that_is_a_new_query_each_time_is_refused(tmp_path):
    assert "a new query each time" in str(ask(tmp_path, eh.accuracy(Locked())))


def test_predictions_of_todays_rows_are_refused_where_more_will_arrive(tmp_path):
    growing = {"planning": eh.Planning(grows=True), "rows": eh.Rows(features="public")}
    said = eh.accuracy(np.ones(COUNT), training=np.ones(COUNT))
    assert "rows can still arrive. List a model" in str(ask(tmp_path, said, **growing))
    assert ask(tmp_path, said, rows=eh.Rows(features="public")) is None


def test_the_registered_answer_is_the_one_that_everything_gives(tmp_path):
    table = flights(1)
    models = [LogisticRegression(C=c).fit(pd.DataFrame({"delay": table["delay"]}), table["late"]) for c in (1.0, 0.1)]
    pairs = [eh.difference(metric(models[0]), metric(models[1])) for metric in (eh.accuracy, eh.auc)]
    listed = [eh.accuracy(models[0]), eh.auc(models[0]), *pairs]
    with create(tmp_path, eh.listed(listed)) as holdout:
        told = [holdout.ask(each, guess=0.5) for each in listed]  # a guess says nothing of a member
        one, other = LogisticRegression(C=1.0), LogisticRegression(C=0.1)
        terms = {"features": ["delay"]}
        again = [holdout.evaluate(one, metric, **terms) for metric in ("accuracy", "roc_auc")]
        again += [holdout.compare(one, other, metric, **terms) for metric in ("accuracy", "roc_auc")]
        ends = [(each.low, each.high, each.source) for each in told]
        assert [(each.low, each.high, each.source) for each in again] == ends
        assert {source for _, _, source in ends} == {"declared"}
        holdout.unseal()
        for one, sealed in zip(told, map(holdout.ask, listed), strict=True):  # a value is the sealed one, to a 128th
            assert abs(one.value - sealed.sealed) <= (one.high - one.low) / 127


def test_others_pay_for_the_value_that_is_told_of_a_member(tmp_path, monkeypatch):
    monkeypatch.setattr("everhold.mechanisms.releases.told_value", lambda value, low, high: (value, 10**9))
    model = Model()
    with create(tmp_path, eh.listed([eh.auc(model)])) as holdout:
        holdout.ask(eh.auc(model))
        assert holdout._executor.state().labels > 10**9


def test_other_training_predictions_than_the_declared_ones_are_refused(tmp_path):
    rng = np.random.default_rng(1)
    said, one, other = rng.random((3, COUNT))
    listed = eh.auc(said, training=one), eh.difference(eh.brier(said, training=one), eh.brier(other, training=one))
    with create(tmp_path, eh.listed(listed), rows=eh.Rows(features="public")) as holdout:
        assert holdout.ask(listed[0]).source == "declared"
        with pytest.raises(eh.QueryRejected, match="other predictions for the training rows"):
            holdout.ask(eh.auc(said, training=other))
