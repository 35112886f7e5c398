"""Gates about rows where rows arrive: the champion gets values for them first, and one tree answers."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import everhold as eh
from everhold.errors import QueryRejected
from everhold.ledger import verify

HEAD = ("sequence", "hash")


def rows(count, seed, *, first=0):
    rng = np.random.default_rng(seed)
    late = rng.integers(0, 2, count)
    return {"id": np.arange(first, first + count), "x": late + rng.normal(0, 1, count), "late": late}


def guesses(late, share, seed):
    """Predictions of which such a share is right."""
    right = np.random.default_rng(seed).random(len(late)) < share
    return np.where(right, late, 1 - late)


FIRST, NEW, LATER = rows(1_500, 1), rows(1_500, 2, first=1_500), rows(3_000, 3, first=3_000)


def labels(*parts):
    return np.concatenate([part["late"] for part in parts])


def created(folder, *, grows=True, sealed=FIRST, **more):
    training, planning = rows(500, 9, first=90_000), eh.Planning(grows=grows)
    settings = {"queries": 50, "surprises": 5, "planning": planning, "training": training, **more}
    given = {"rows": eh.Rows(row_id="id", features="public"), "label": "late", **settings}
    return eh.Holdout.create(f"sqlite:///{folder}/s.db", "h", holdout=sealed, **given)


@pytest.fixture
def holdout(tmp_path):
    with created(tmp_path) as made:
        yield made


def head(holdout):
    return holdout.status()["ledger_head"]


def test_a_challenge_waits_for_the_champions_values(holdout):
    gate = holdout.gate("accuracy", champion=guesses(FIRST["late"], 0.7, 1))
    assert "rows_left" not in gate.status()
    holdout.append(NEW)
    before = head(holdout)
    assert gate.status()["rows_left"] == holdout.status()["gates"][0]["rows_left"] == 1_500
    with pytest.raises(QueryRejected, match=r"no values for 1,500 rows that arrived"):
        gate.challenge(guesses(labels(FIRST, NEW), 0.99, 2))
    assert head(holdout) == before
    gate.complete(guesses(NEW["late"], 0.7, 3))
    assert gate.status()["rows_left"] == 0
    verdict = gate.challenge(guesses(labels(FIRST, NEW), 0.9, 2))
    assert verdict.promoted
    assert holdout.transcript().rows[-1]["rows"] == [1, 3_000]
    assert gate.challenge(guesses(labels(FIRST, NEW), 0.9, 2)).query == verdict.query


def test_a_rule_and_a_model_are_recognized(holdout):
    training = rows(500, 9, first=90_000)
    model = LogisticRegression().fit(np.c_[training["x"]], training["late"])
    model.feature_names_in_ = np.array(["x"], dtype=object)
    rule = holdout.gate("accuracy", champion="x > 2", name="rule")
    fitted = holdout.gate("accuracy", champion=model, name="model")
    holdout.append(NEW)
    for gate, other in ((rule, "x > 1.9"), (fitted, "x > 2")):
        with pytest.raises(QueryRejected, match="is not the champion"):
            gate.complete(other)
    for gate in (rule, fitted):
        with pytest.raises(QueryRejected, match="given in another form"):
            gate.complete(guesses(NEW["late"], 0.7, 3))
    rule.complete("x > 2")
    fitted.complete(model)
    assert rule.challenge("x > 0.5").promoted
    assert not fitted.challenge("x > 2").promoted


def test_a_model_is_recognized_where_training_rows_arrived_or_rows_were_retired(holdout):
    training = rows(500, 9, first=90_000)
    models = [LogisticRegression(C=c).fit(np.c_[training["x"]], training["late"]) for c in (1.0, 1e-5)]
    gate = holdout.gate("roc_auc", champion=models[0])
    for high in (1, 2):
        holdout.ask(f"x > {high} and late = 1", guess=0.99)
    holdout.append(NEW, training=rows(300, 8, first=95_000))
    with pytest.raises(QueryRejected, match="is not the champion"):
        gate.complete(models[1])
    gate.complete(models[0])
    holdout.append(LATER)
    holdout.retire(before=1)
    gate.complete(models[0])
    assert not gate.challenge(models[1]).promoted


def test_challenges_are_those_of_one_table_of_all_rows(tmp_path):
    champion, challenger = guesses(labels(FIRST, NEW), 0.7, 1), guesses(labels(FIRST, NEW), 0.78, 2)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with created(tmp_path / "a", grows=False) as grown:
        gate = grown.gate("accuracy", champion=champion[:1_500])
        grown.append(NEW)
        gate.complete({"id": NEW["id"][::-1], "p": champion[1_500:][::-1]})
        promoted = gate.challenge(challenger)
        told = grown.unseal().to_rows()[-1]
        whole = {name: np.concatenate([FIRST[name], NEW[name]]) for name in FIRST}
        with created(tmp_path / "b", grows=False, sealed=whole) as fixed:
            same = fixed.gate("accuracy", champion=champion).challenge(challenger)
            assert promoted.promoted == same.promoted
            expected = fixed.unseal().to_rows()[-1]
    for name in ("sealed", "sealed_low", "sealed_high"):
        assert told[name] == expected[name]


def test_a_later_tree_answers_and_then_an_earlier_one_can(holdout, monkeypatch):
    gate = holdout.gate("accuracy", champion=guesses(FIRST["late"], 0.6, 1))
    gate.challenge(guesses(FIRST["late"], 0.7, 2))
    for high in (1, 2, 3, 4, 5):
        holdout.ask(f"x > {high} and late == 1", guess=0.99)
    assert holdout.append(NEW).tree == 2
    holdout.append(LATER)
    gate.complete(guesses(labels(NEW, LATER), 0.7, 3))
    whole = labels(FIRST, NEW, LATER)
    assert gate.challenge(guesses(whole, 0.85, 4)).promoted
    assert holdout.transcript().rows[-1]["rows"] == [1_501, 6_000]
    monkeypatch.setattr("everhold.asking.arrivals.growth.narrowest", lambda trees, state: 0)
    assert gate.challenge(guesses(whole, 0.99, 5)).promoted
    assert holdout.transcript().rows[-1]["rows"] == [1, 6_000]
    assert gate.history().promotions == 3
    assert gate.history().champions[-1]["champion"] == gate.champion


def test_values_are_given_once_and_by_the_steward(holdout):
    gate = holdout.gate("accuracy", champion=guesses(FIRST["late"], 0.7, 1))
    with pytest.raises(QueryRejected, match="has values for all rows"):
        gate.complete(guesses(NEW["late"], 0.7, 3))
    holdout.allot("a", queries=5)
    holdout.append(NEW)
    before = head(holdout)
    with pytest.raises(QueryRejected, match="Only the steward can"):
        holdout.analyst("a").gate().complete(guesses(NEW["late"], 0.7, 3))
    for wrong, said in ((np.ones(7), "predictions are 7"), (np.full(1_500, 3), "labels"), ("x > 1", "another form")):
        with pytest.raises(QueryRejected, match=said):
            gate.complete(wrong)
    assert head(holdout) == before
    gate.complete(guesses(NEW["late"], 0.7, 3))
    with pytest.raises(QueryRejected, match="has values for all rows"):
        gate.complete(guesses(NEW["late"], 0.1, 3))
    assert holdout.analyst("a").gate().challenge(guesses(labels(FIRST, NEW), 0.9, 2)).promoted


def test_killed_before_the_entry_nothing_is_completed(holdout, monkeypatch):
    gate = holdout.gate("accuracy", champion=guesses(FIRST["late"], 0.7, 1))
    holdout.append(NEW)
    with monkeypatch.context() as broken:
        broken.setattr("everhold.gates.challenge.Outcome", None)
        with pytest.raises(AttributeError):
            gate.complete(guesses(NEW["late"], 0.01, 3))
    assert gate.status()["rows_left"] == 1_500
    gate.complete(guesses(NEW["late"], 0.7, 4))
    assert not gate.challenge(guesses(labels(FIRST, NEW), 0.7, 2)).promoted


def test_other_processes_see_arrivals_and_values(holdout, tmp_path):
    gate = holdout.gate("accuracy", champion="x > 2")
    with eh.Holdout.open(f"sqlite:///{tmp_path}/s.db", "h") as other:
        there = other.gate()
        holdout.append(NEW)
        assert there.status()["rows_left"] == 1_500
        gate.complete("x > 2")
        assert there.challenge("x > 0.5").promoted
        assert gate.challenge("x > 0.5").promoted
        opened = other.gate("accuracy", champion="x > 1.5", name="since")
        assert opened.status()["rows_left"] == 0
        assert opened.challenge("x > 0.5").promoted


def test_a_gate_of_before_takes_predictions_for_all_rows_that_are_there(holdout, tmp_path):
    gate = holdout.gate("accuracy", champion=guesses(FIRST["late"], 0.7, 1))
    with eh.Holdout.open(f"sqlite:///{tmp_path}/s.db", "h") as other:
        there = other.gate()
        holdout.append(NEW)
        for each in (gate, there):  # this process knows of the rows, and the other one does not yet
            with pytest.raises(QueryRejected, match=r"no values for 1,500 rows that arrived"):
                each.challenge(guesses(labels(FIRST, NEW), 0.9, 2))


def test_groups_that_arrive_whole(tmp_path):
    def people(count, seed, first):
        return {**rows(count, seed, first=first), "person": np.repeat(np.arange(first, first + count // 3), 3)}

    sealed, new = people(1_500, 1, 0), people(1_500, 2, 5_000)
    settings = {"dependence": eh.Groups("person"), "training": people(600, 9, 50_000)}
    with created(tmp_path, sealed=sealed, **settings) as made:
        gate = made.gate("accuracy", champion="x > 2")
        made.append(new)
        gate.complete("x > 2")
        assert gate.challenge("x > 0.5").promoted
        assert not gate.challenge("x > 0.51").promoted


def test_after_rows_are_retired_the_rest_decides(holdout):
    gate = holdout.gate("accuracy", champion=guesses(FIRST["late"], 0.6, 1))
    gate.challenge(guesses(FIRST["late"], 0.7, 2))
    assert holdout.append(NEW).tree == 2
    holdout.retire(before=1)
    gate.complete(guesses(NEW["late"], 0.7, 3))
    assert gate.challenge(guesses(NEW["late"], 0.9, 4)).promoted
    holdout.append(LATER)
    gate.complete(guesses(LATER["late"], 0.9, 5))
    assert not gate.challenge(guesses(labels(NEW, LATER), 0.9, 6)).promoted


def test_ledger_and_certificate_say_what_was_completed(holdout, tmp_path):
    gate = holdout.gate("accuracy", champion=guesses(FIRST["late"], 0.7, 1))
    holdout.append(NEW)
    gate.complete(guesses(NEW["late"], 0.7, 3))
    gate.challenge(guesses(labels(FIRST, NEW), 0.9, 2))
    assert verify(holdout._executor.store, "h", seal_key=holdout._executor.key.seal_key).ok
    path = tmp_path / "c.json"
    holdout.certificate().save(path)
    assert eh.verify_certificate(path).ok
    (said,) = json.loads(path.read_text())["account"]["gates"]
    assert said["completed"] == [{"entry": 3, "arrived": 1, "rows": [1_501, 3_000]}]
    completed = next(event for event in holdout.ledger.events().events if event.source == "completed")
    assert completed.gate == "gate"
