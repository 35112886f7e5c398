"""AUC without counts: models by blocks, arrays by ranks, refusals that charge nothing."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import everhold as eh
from everhold import QueryRejected
from everhold.asking.creation import settings_from

ROWS = 3_000


def rows(seed):
    """About 8 % positives."""
    rng = np.random.default_rng(seed)
    y = (rng.random(ROWS) < 0.08).astype(int)
    return {"x": rng.normal(size=ROWS) + 2.0 * y, "y": y}


def in_order(table):
    """The file that is sealed is sorted by the score."""
    order = np.argsort(table["x"])
    return {name: column[order] for name, column in table.items()}


SEALED, TRAINED = in_order(rows(0)), rows(1)


def made(path, **wanted):
    wanted = {"mechanism": "guess_and_check", "queries": 20, "label": "y", "training": TRAINED, **wanted}
    return eh.Holdout.create(path / "s.db", "g", holdout=SEALED, **settings_from(wanted))


def model():
    return LogisticRegression().fit(TRAINED["x"][:, None], TRAINED["y"])


def test_models_and_arrays_are_asked_without_counts(tmp_path):
    sealed = roc_auc_score(SEALED["y"], SEALED["x"])
    with made(tmp_path) as holdout:
        queries = [
            (eh.auc(model()), None),
            (eh.auc(SEALED["x"], training=TRAINED["x"]), None),
            (eh.auc(3.0 * SEALED["x"]), 0.9),
            (eh.auc(-SEALED["x"]), 0.9),
        ]
        answers = [holdout.ask(query, guess=guess) for query, guess in queries]
        quotes = [holdout.quote(query, guess=guess) for query, guess in queries]
        holdout.unseal()
        told = [holdout.ask(query) for query, _ in queries]
    assert [answer.charged for answer in answers] == [0, 0, 0, 1]
    assert all(quote.answered_before for quote in quotes)
    assert "labels drawn anew" in answers[1].about
    assert answers[0].about is None
    for answer, true in zip(told, (sealed, sealed, sealed, 1.0 - sealed), strict=True):
        assert answer.sealed == pytest.approx(true, abs=1e-4)
        assert answer.sealed_low < true < answer.sealed_high
        assert answer.low <= answer.sealed_low
        assert answer.sealed_high <= answer.high
    assert told[0].sealed_high - told[0].sealed_low < 0.12


def test_there_is_one_area_of_independent_rows_with_and_without_counts(tmp_path):
    with made(tmp_path) as holdout:
        first = holdout.ask(eh.auc(model()))
        assert holdout.ask(eh.auc(model())).repeated
        counted = holdout.ask(eh.auc(model(), positives=200, negatives=2_000))
        assert (counted.repeated, counted.query, counted.low) == (True, first.query, first.low)


@pytest.mark.parametrize(
    ("wanted", "query", "said"),
    [
        ({"mechanism": "privacy_budget", "queries": 3}, lambda: eh.auc(model()), "guess_and_check"),
        ({"slack": 0.2}, lambda: eh.auc(model()), "without a slack"),
        ({}, lambda: eh.auc(SEALED["x"]), "needs a guess"),
        ({}, lambda: eh.auc(np.zeros(3)), "shape"),
        ({}, lambda: eh.auc(np.full(ROWS, np.nan)), "are not all finite"),
    ],
)
def test_refusals_charge_nothing(tmp_path, wanted, query, said):
    with made(tmp_path, **wanted) as holdout:
        before = holdout.remaining
        with pytest.raises(QueryRejected, match=said):
            holdout.ask(query())
        assert holdout.remaining == before


def test_one_count_needs_the_other():
    with pytest.raises(TypeError, match="lacks 'negatives'"):
        eh.auc(SEALED["x"], positives=3)


def differences():
    """Of two models, of two arrays, and of a model and an array."""
    other = model()
    other.coef_ = -other.coef_
    return {
        "models": (eh.difference(eh.auc(model()), eh.auc(other)), 0.9),
        "arrays": (eh.difference(eh.auc(SEALED["x"]), eh.auc(np.round(SEALED["x"]))), 0.01),
        "both": (eh.difference(eh.auc(model()), eh.auc(np.round(SEALED["x"]))), 0.01),
    }


def test_differences_of_two_areas_are_one_query(tmp_path):
    area = roc_auc_score(SEALED["y"], SEALED["x"])
    rounded = roc_auc_score(SEALED["y"], np.round(SEALED["x"]))
    true = {"models": 2.0 * area - 1.0, "arrays": area - rounded, "both": area - rounded}
    with made(tmp_path) as holdout:
        answers = {name: holdout.ask(query, guess=guess) for name, (query, guess) in differences().items()}
        assert holdout.remaining["queries"] == 17
        with pytest.raises(QueryRejected, match="is no mean of row values"):
            holdout.ask(eh.difference(eh.auc(SEALED["x"]), "y = 1"))
        holdout.unseal()
        told = {name: holdout.ask(query, guess=guess) for name, (query, guess) in differences().items()}
    for name, answer in answers.items():
        assert answer.low < true[name] < answer.high
        assert told[name].repeated
        assert told[name].sealed == pytest.approx(true[name], abs=1e-4)
        assert told[name].sealed_low <= true[name] <= told[name].sealed_high
    assert told["arrays"].sealed_high - told["arrays"].sealed_low < 0.1
    assert (answers["models"].about, answers["both"].about) == (None, answers["arrays"].about)


@pytest.mark.parametrize("column", ["y", "x"])
def test_differences_refuse_what_one_area_refuses(tmp_path, column):
    query, guess = differences()["arrays" if column == "y" else "models"]
    with made(tmp_path, stratified=column) as holdout, pytest.raises(QueryRejected, match="a difference of AUCs of"):
        holdout.ask(query, guess=guess)


def visits(seed, patients=4_000):
    """Patients of one to four visits each, whose outcomes are alike."""
    rng = np.random.default_rng(seed)
    visited = rng.integers(1, 5, patients)
    alike = np.repeat(rng.normal(size=patients), visited)
    y = (alike + rng.normal(size=len(alike)) > 1.2).astype(int)
    patient = np.repeat(np.arange(patients), visited) + 1_000_000 * seed
    return {"g": patient, "y": y, "x": 1.2 * y + alike / 2.0 + rng.normal(size=len(y))}


def across_patients(scores, y, patient):
    """The AUC of rows of different patients."""
    apart = (y[:, None] > y) & (patient[:, None] != patient)
    return float(np.mean((scores[:, None] > scores)[apart]))


def test_areas_of_groups_are_those_of_rows_of_different_groups(tmp_path):
    sealed, training = visits(1, 800), visits(2, 800)
    one = LogisticRegression().fit(pd.DataFrame({"x": training["x"]}), training["y"])
    area = across_patients(sealed["x"], sealed["y"], sealed["g"])
    groups = {"dependence": eh.Groups("g"), "label": "y", "queries": 20}
    with eh.Holdout.create(tmp_path / "s.db", "g", holdout=sealed, training=training, **groups) as holdout:
        asked = [
            (eh.auc(one), area, {}),
            (eh.auc(sealed["x"], training=training["x"]), area, {}),
            (eh.auc(-sealed["x"]), 1.0 - area, {"guess": 0.9}),
            (eh.difference(eh.auc(one), eh.auc(-sealed["x"])), 2.0 * area - 1.0, {"guess": 0.5}),
            (eh.auc(one, where="x < 9"), area, {"silent": True}),
        ]
        told = [holdout.ask(query, **how) for query, _, how in asked]
        counted = holdout.ask(eh.auc(one, positives=300, negatives=900))
        with pytest.raises(QueryRejected, match=r"would be the whole range"):
            holdout.ask(eh.f1(np.ones(len(sealed["y"])), least=10), guess=0.5)  # nothing shows how far it may be off
        holdout.unseal()
        unsealed = [holdout.ask(query, **how) for query, _, how in asked]
    assert [answer.source for answer in told] == ["training", "training", "holdout", "guess", "silent"]
    assert counted.repeated
    assert "between groups of 'g'" in told[0].shown
    for answer, (_, true, _) in zip(unsealed, asked, strict=True):
        assert answer.sealed == pytest.approx(true, abs=1e-4)
        assert answer.sealed_low < true < answer.sealed_high
        assert answer.low is None or answer.low <= answer.sealed_low < answer.sealed_high <= answer.high
    assert unsealed[0].sealed_high - unsealed[0].sealed_low < 0.25
