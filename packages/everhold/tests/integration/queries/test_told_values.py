"""`answer.value`: as near the sealed number as the label of a surprise allows, and exact only where it says so."""

import math
from itertools import pairwise

import numpy as np
import pytest

import everhold as eh
from everhold import GuessAndCheck
from everhold.mechanisms import State


def costs(seed):
    return {"cost": np.random.default_rng(seed).lognormal(0.0, 1.5, 1_000).clip(0.0, 60.0)}


def test_a_surprise_about_skewed_values_is_told_near_their_mean(tmp_path):
    sealed = costs(0)
    with eh.Holdout.create(tmp_path / "s.db", "x", holdout=sealed, training=costs(1), queries=20) as holdout:
        told = holdout.ask(eh.mean("cost", low=0, high=60), guess=30.0)
    true = sealed["cost"].mean()
    assert (told.source, told.exact) == ("holdout", False)
    assert abs(told.value - true) < 0.2 * abs((told.low + told.high) / 2.0 - true)
    assert "need not be equal" in told.explain()


@pytest.mark.parametrize("known", [False, True])  # whether open predictions say which errors to expect
def test_a_surprise_about_good_predictions_is_told_near_their_score(tmp_path, known):
    from sklearn import metrics

    rng = np.random.default_rng(0)

    def predicted(right):
        labels = rng.integers(0, 2, 4_000)
        return labels, np.where(rng.random(4_000) < right, labels, 1 - labels)

    scores = {
        "recall": metrics.recall_score,
        "precision": metrics.precision_score,
        "f1": metrics.f1_score,
        "balanced_accuracy": metrics.balanced_accuracy_score,
        "matthews_corrcoef": metrics.matthews_corrcoef,
    }
    (sealed, good), (training, worse) = predicted(0.95), predicted(0.85)
    given, guess = ({"training": worse}, None) if known else ({}, 0.5)
    with eh.Holdout.create(
        tmp_path / "s.db", "x", label="y", holdout={"y": sealed}, training={"y": training}, queries=20, surprises=9
    ) as holdout:
        for name, score in scores.items():
            told = holdout.ask(eh.metric(name, good, **given), guess=guess)
            assert told.source == "holdout"
            assert abs(told.value - score(sealed, good)) < 0.15 * (told.high - told.low), name


@pytest.mark.filterwarnings("ignore::everhold.errors.DependenceWarning")  # of two series that are independent
def test_a_declared_share_of_a_series_is_exact(tmp_path):
    def days(seed):
        rng, wet = np.random.default_rng(seed), [0]
        while len(wet) < 3_000:
            wet.append(int(rng.random() < (0.5 if wet[-1] else 0.1)))
        return {"day": np.arange(3_000) + 10_000 * seed, "wet": wet}

    sealed, training = days(2), days(1)
    chain = eh.MarkovChain.fit(training, state="wet", order_by="day", gap=math.inf)
    with eh.Holdout.create(
        tmp_path / "s.db", "x", holdout=sealed, training=training, queries=20, dependence=chain,
        declared={"wet": eh.listed(["wet = 1"])},
    ) as holdout:  # fmt: skip
        told = holdout.ask("wet = 1")
    assert (told.source, told.exact) == ("declared", True)
    assert told.value == pytest.approx(np.mean(sealed["wet"]), abs=1e-12)


@pytest.mark.parametrize(("dependence", "exact"), [(None, True), (eh.Groups("patient"), False)])
def test_a_declared_share_is_called_exact_only_where_it_is(tmp_path, dependence, exact):
    def visits(seed):
        rng = np.random.default_rng(seed)
        patient = np.repeat(np.arange(600), rng.integers(1, 8, 600))
        sick = (rng.normal(size=600)[patient] + rng.normal(size=len(patient)) > 2.0).astype(int)
        return {"sick": sick} if exact else {"patient": 1_000 * seed + patient, "sick": sick}

    sealed, query = visits(2), "sick = 1"
    with eh.Holdout.create(
        tmp_path / "s.db", "x", holdout=sealed, training=visits(3), queries=20, dependence=dependence,
        declared={"sick": eh.listed([query])},
    ) as holdout:  # fmt: skip
        told = holdout.ask(query)
    assert (told.source, told.exact, "exactly" in told.explain()) == ("declared", exact, exact)
    assert (abs(told.value - sealed["sick"].mean()) < 1e-12) == exact
    assert told.value == pytest.approx(sealed["sick"].mean(), abs=0.1 * (told.high - told.low))


def test_models_with_one_label_are_told_in_the_order_of_their_guesses():
    mechanism = GuessAndCheck.tuned(rows=8_000, queries=100, training_rows=8_000)
    cell, guesses = mechanism.cells.released(round(0.75 * mechanism.steps)), [0.745, 0.748, 0.75, 0.752, 0.755]
    procedure, nats = mechanism.yes_no_procedure, float(mechanism.next_nats(State())[0])
    told = tuple(float(end) for end in procedure.span(*cell, nats))
    values = [mechanism.intervals.value_in_cell(procedure, cell, told, guess=at, nats=nats) for at in guesses]
    assert all(first < second for first, second in pairwise(values))
    far = [mechanism.intervals.value_in_cell(procedure, cell, told, guess=at, nats=nats) for at in (0.0, 1.0)]
    assert far[0] <= values[0]
    assert values[-1] <= far[1]
    assert cell[0] < values[0] < values[-1] <= cell[1]
    quoted = mechanism.quote(State(), guess=0.75, procedure=procedure).radius_if_charged
    assert max(max(value - told[0], told[1] - value) for value in values) <= quoted


def test_a_search_that_was_silent_has_its_numbers_after_the_unsealing(tmp_path):
    from sklearn.tree import DecisionTreeClassifier

    from everhold.sklearn import SealedSearchCV

    rng = np.random.default_rng(5)

    def rows():
        x = rng.normal(size=1_000)
        return {"x": x, "y": (x + rng.normal(size=1_000) > 0.0).astype(int)}

    with eh.Holdout.create(tmp_path / "s.db", "x", holdout=rows(), training=rows(), label="y", queries=9) as holdout:
        tree = DecisionTreeClassifier(random_state=0)
        search = SealedSearchCV(
            tree, {"max_depth": [1, 2, 3]}, holdout=holdout, n_iter=3, cv=2, random_state=0, reveal="nothing"
        ).fit(*holdout.training_rows())
        assert np.isnan(search.best_score_)
        best = search.best_index_
        holdout.unseal()
        assert search.best_index_ == best
        assert search.best_score_ == search.best_answer_.sealed == search.cv_results_["answer"][best]
        assert not np.isnan(search.cv_results_["answer_low"]).any()
