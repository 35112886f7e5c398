"""A study that asks a holdout: what trials carry, what is charged, when it stops, and how it ends."""

import importlib
import sys

import holdout_samples
import numpy as np
import optuna
import pandas as pd
import pytest
from optuna.trial import TrialState
from optuna_children import cut, optimize
from prepared_processes import prepared_processes
from sklearn.model_selection import cross_val_score
from sklearn.tree import DecisionTreeClassifier

import everhold as eh
from everhold.errors import QueryRejected
from everhold_integrations.optuna import ATTRIBUTES, BestTrials, SealedObjective, declared_space, suggested

optuna.logging.set_verbosity(optuna.logging.ERROR)

QUERIES = 14
KEEP = 4


@pytest.fixture
def holdout(tmp_path):
    mechanism = holdout_samples.guess_and_check(queries=QUERIES)
    with holdout_samples.copied(tmp_path, mechanism=mechanism) as made:
        yield made


def study_of(**settings):
    return optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0), **settings)


def states(study):
    return [trial.state for trial in study.get_trials()]


def test_trials_carry_their_interval_and_source(holdout):
    study = study_of()
    study.optimize(SealedObjective(cut, holdout), n_trials=2)
    for trial, asked in zip(study.get_trials(), ("delay > 0", "delay > 1"), strict=True):
        answer = holdout.ask(asked)
        assert answer.repeated
        assert trial.value == answer.value
        assert {name: trial.user_attrs[f"everhold_{name}"] for name in ATTRIBUTES} == {
            name: getattr(answer, name) for name in ATTRIBUTES
        }
        assert trial.user_attrs["everhold_low"] < trial.value < trial.user_attrs["everhold_high"]


def test_a_guess_of_the_objective_is_checked(holdout):
    study = study_of()
    study.optimize(SealedObjective(lambda trial: (cut(trial), 0.99), holdout, silent=False), n_trials=1)
    assert study.best_trial.user_attrs["everhold_source"] == "holdout"
    assert holdout.remaining["queries"] == QUERIES - 1


def test_few_rows_are_asked_silently_where_a_trial_has_a_guess(holdout):
    assert holdout.schema.rows < 3_000
    study = study_of()
    study.optimize(SealedObjective(lambda trial: (cut(trial), 0.99), holdout), n_trials=1)
    study.optimize(SealedObjective(cut, holdout), n_trials=1)
    assert [trial.user_attrs["everhold_source"] for trial in study.trials] == ["silent", "training"]
    assert study.trials[0].value == 0.99


def test_an_answer_may_be_returned_as_it_is(holdout):
    study = study_of()
    study.optimize(SealedObjective(lambda trial: holdout.ask(cut(trial)), holdout), n_trials=1)
    assert study.best_trial.user_attrs["everhold_source"] == "training"


def test_trials_that_fail_or_are_pruned_charge_nothing(holdout):
    def objective(trial):
        if trial.number % 2:
            raise optuna.TrialPruned
        raise RuntimeError("a model that does not fit")

    before = holdout.status()
    study = study_of()
    study.optimize(SealedObjective(objective, holdout), n_trials=4, catch=RuntimeError)
    assert states(study) == 2 * [TrialState.FAIL, TrialState.PRUNED]
    assert holdout.status() == before


def test_a_study_of_several_objectives_asks_nothing(holdout):
    before = holdout.status()
    with pytest.raises(QueryRejected, match="2 objectives"):
        optuna.create_study(directions=["maximize", "minimize"]).optimize(SealedObjective(cut, holdout), n_trials=2)
    assert holdout.status() == before


def test_an_answer_without_a_value_is_no_spent_budget(holdout):
    asked = SealedObjective(lambda trial: holdout.ask(cut(trial), silent=True), holdout)
    with pytest.raises(TypeError, match="has no value but its guess"):
        study_of().optimize(asked, n_trials=1)


def test_trials_that_are_asked_by_hand_end_as_in_a_loop(holdout):
    study, asked = study_of(), SealedObjective(cut, holdout, keep=QUERIES)
    with pytest.raises(optuna.TrialPruned, match="kept for the end"):
        asked(study.ask())


@pytest.mark.parametrize("nothing", [None, 0.8, (0.8, 0.7), ("delay > 0", 0.5, 0.5)])
def test_what_cannot_be_asked_is_refused_and_free(holdout, nothing):
    before = holdout.status()
    with pytest.raises(TypeError, match="Return a query such as accuracy"):
        study_of().optimize(SealedObjective(lambda _: nothing, holdout), n_trials=1)
    assert holdout.status() == before


@pytest.mark.parametrize("keep", [-1, 1.5, "all"])
def test_what_is_kept_is_a_number_of_queries(holdout, keep):
    with pytest.raises(ValueError, match="Pass a number of queries"):
        SealedObjective(cut, holdout, keep=keep)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_study_stops_while_the_queries_of_the_end_are_left(holdout, workers):
    study, sealed = study_of(), SealedObjective(cut, holdout, keep=KEEP)
    study.optimize(sealed, n_trials=40, n_jobs=workers, callbacks=[sealed.stop_in_time])
    answered = states(study).count(TrialState.COMPLETE)
    assert holdout.remaining["queries"] == QUERIES - answered
    assert QUERIES - KEEP - workers < answered <= QUERIES - KEEP
    assert len(study.get_trials()) <= answered + 2 * (workers - 1)


def test_without_the_callback_only_one_more_trial_is_begun(holdout):
    study = study_of()
    study.optimize(SealedObjective(cut, holdout, keep=KEEP), n_trials=40)
    assert states(study) == (QUERIES - KEEP) * [TrialState.COMPLETE] + [TrialState.PRUNED]


def wrong(trial):
    """A query whose guess is a surprise."""
    return cut(trial), 0.99


def test_the_study_stops_before_the_last_surprise_ends_everything(holdout):
    study, sealed = study_of(), SealedObjective(wrong, holdout, keep=KEEP, silent=False)
    study.optimize(sealed, n_trials=40, callbacks=[sealed.stop_in_time])
    assert holdout.remaining["surprises"] == 0
    assert holdout.ask("delay > 100", silent=True).source == "silent"
    assert len(study.get_trials()) < QUERIES - KEEP


def test_without_the_wrapper_nothing_is_left_for_the_end(holdout):
    def bare(trial):
        query, guess = wrong(trial)
        return holdout.ask(query, guess=guess).value

    study = study_of()
    study.optimize(bare, n_trials=40)
    assert states(study)[-1] is TrialState.FAIL
    assert holdout.ask("delay > 100", silent=True).refused


def test_of_a_mechanism_with_credits_the_price_of_the_end_is_kept(tmp_path):
    with holdout_samples.create(tmp_path, mechanism="privacy_budget", queries=QUERIES, allow_vacuous=True) as paid:
        study, sealed = study_of(), SealedObjective(cut, paid, keep=KEEP)
        study.optimize(sealed, n_trials=40, callbacks=[sealed.stop_in_time])
        assert [paid.ask(f"delay < {place}").refused for place in range(KEEP)] == KEEP * [False]


@pytest.mark.slow
def test_processes_that_share_a_study_leave_what_is_kept(tmp_path):
    study_storage = f"sqlite:///{tmp_path}/optuna.db"
    study = study_of(storage=study_storage, study_name="shared")
    mechanism = holdout_samples.guess_and_check(queries=QUERIES)
    holdout_samples.create(tmp_path, mechanism=mechanism).close()
    children = [
        prepared_processes.Process(target=optimize, args=(f"sqlite:///{tmp_path}/study.db", study_storage, 20, KEEP))
        for _ in range(2)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(120)
    assert [child.exitcode for child in children] == [0, 0]
    answered = states(study).count(TrialState.COMPLETE)
    assert QUERIES - KEEP - 2 < answered <= QUERIES - KEEP
    with eh.Holdout.open(f"sqlite:///{tmp_path}/study.db", "study") as opened:
        assert opened.remaining["queries"] == QUERIES - answered
        assert opened.remaining["queries"] >= KEEP


FEATURES = [f"x{place}" for place in range(6)]


@pytest.fixture(scope="module")
def rows():
    """Labels that follow from two of six features, with a fifth of them turned round."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.normal(size=(4_000, 6)), columns=FEATURES)
    table["y"] = ((table.x0 + table.x1 > 0) ^ (rng.random(4_000) < 0.2)).astype(int)
    return table


def tree(trial, training):
    model = DecisionTreeClassifier(
        max_depth=trial.suggest_int("depth", 2, 20), min_samples_leaf=trial.suggest_int("leaf", 1, 60), random_state=0
    )
    return model.fit(training[FEATURES], training.y)


def tuned(folder, rows, guess, *, trials, queries):
    training, sealed_rows = rows[:2_000], rows[2_000:].reset_index(drop=True)
    holdout = eh.Holdout.create(
        f"sqlite:///{folder}/tuning.db", "trees", holdout=sealed_rows, training=training, label="y", queries=queries
    )

    def objective(trial):
        model = tree(trial, training)
        return eh.accuracy(model), guess(model, training)

    sealed = SealedObjective(objective, holdout, silent=False)
    study = study_of()
    study.optimize(sealed, n_trials=trials, callbacks=[sealed.stop_in_time])
    return holdout, sealed, study


def cross_validated(model, training):
    return cross_val_score(model, training[FEATURES], training.y, cv=3).mean()


@pytest.mark.slow
def test_two_hundred_trials_are_answered_with_cross_validated_guesses(tmp_path, rows):
    holdout, sealed, study = tuned(tmp_path, rows, cross_validated, trials=200, queries=220)
    assert states(study) == 200 * [TrialState.COMPLETE]
    assert holdout.remaining["surprises"] > 5
    told = sealed.unseal_best(study)
    fresh = np.random.default_rng(4)
    table = pd.DataFrame(fresh.normal(size=(100_000, 6)), columns=FEATURES)
    truth = ((table.x0 + table.x1 > 0) ^ (fresh.random(100_000) < 0.2)).astype(int)
    for row in told.to_rows():
        model = tree(optuna.trial.FixedTrial(row["params"]), rows[:2_000])
        accuracy = float(np.mean(model.predict(table[FEATURES]) == truth))
        assert row["low"] <= accuracy <= row["high"]
        assert row["sealed_low"] <= accuracy <= row["sealed_high"]
    holdout.close()


@pytest.mark.slow
def test_without_them_intervals_widen_and_trials_are_answered(tmp_path, rows):
    holdout, _, study = tuned(tmp_path, rows, lambda *_: None, trials=200, queries=220)
    assert states(study).count(TrialState.COMPLETE) == 200
    assert holdout.remaining["surprises"] == 0
    holdout.close()


@pytest.fixture
def finished(holdout):
    sealed, study = SealedObjective(cut, holdout, keep=KEEP), study_of()
    study.optimize(sealed, n_trials=6, callbacks=[sealed.stop_in_time])
    return sealed, study


def test_the_end_tells_what_the_sealed_rows_say_to_the_best(holdout, finished):
    sealed, study = finished
    told = sealed.unseal_best(study, best=3)
    assert isinstance(told, BestTrials)
    assert (len(told), told.first) == (3, study.best_trial.number)
    sealed_rows = holdout_samples.rows(0)["delay"]
    for row in told.to_rows():
        assert row["sealed"] == pytest.approx(np.mean(sealed_rows > row["trial"]), abs=1e-6)
        assert row["low"] < row["sealed_low"] < row["sealed"] < row["sealed_high"] < row["high"]
        if row["trial"] != told.first:
            apart = np.mean(sealed_rows > row["trial"]) - np.mean(sealed_rows > told.first)
            assert row["apart"] == pytest.approx(apart, abs=1e-6)
            assert row["apart_high"] - row["apart_low"] < row["sealed_high"] - row["sealed_low"]
    assert [row["sealed"] for row in told.to_rows()] == sorted((row["sealed"] for row in told.to_rows()), reverse=True)
    assert holdout.status()["closed"]
    assert told.to_dict()["trials"] == told.to_rows()


def test_what_minimizes_is_told_from_the_lowest(holdout):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    sealed = SealedObjective(cut, holdout, keep=KEEP)
    study.optimize(sealed, n_trials=3)
    told = sealed.unseal_best(study)
    assert [row["trial"] for row in told.to_rows()] == [2, 1, 0]


def test_another_model_than_the_one_that_was_asked_ends_nothing(holdout, finished):
    sealed, study = finished
    before = holdout.status()
    with pytest.raises(QueryRejected, match=r"Trial 0 now makes a different query.* Seed all randomness"):
        sealed.unseal_best(study, query=lambda trial: f"delay > {trial.number + 500}")
    with pytest.raises(QueryRejected, match="The objective returns answers"):
        sealed.unseal_best(study, query=lambda trial: holdout.ask(cut(trial)))
    with pytest.raises(QueryRejected, match="no answered trial"):
        sealed.unseal_best(study_of())
    assert holdout.status() == before


def test_models_that_were_kept_are_not_fitted_again(holdout, finished):
    _, study = finished

    def failing(trial):
        raise AssertionError

    told = SealedObjective(failing, holdout).unseal_best(study, best=2, query=cut)
    assert len(told) == 2


def test_what_rests_on_noise_is_not_ended(tmp_path):
    with holdout_samples.create(tmp_path, mechanism="gaussian", queries=5, allow_vacuous=True) as noisy:
        sealed, study = SealedObjective(cut, noisy, keep=0), study_of()
        study.optimize(sealed, n_trials=2)
        with pytest.raises(QueryRejected, match="can be unsealed"):
            sealed.unseal_best(study)
        assert noisy.remaining["queries"] == 3


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.delitem(sys.modules, "everhold_integrations.optuna")
    with pytest.raises(ImportError, match=r"pip install 'everhold\[optuna\]'"):
        importlib.import_module("everhold_integrations.optuna")


SPACE = {
    "max_depth": optuna.distributions.IntDistribution(1, 6),
    "ccp_alpha": optuna.distributions.FloatDistribution(0.0, 0.02, step=0.01),
}


def labelled(tmp_path, **wanted):
    return eh.Holdout.create(
        f"sqlite:///{tmp_path}/study.db", "study", holdout=holdout_samples.rows(0), training=holdout_samples.rows(1),
        label="late", **wanted,
    )  # fmt: skip


def tree_space():
    return declared_space(DecisionTreeClassifier(), SPACE, features=["delay"])


def test_a_declared_space_is_a_study_that_costs_nothing(tmp_path):
    with labelled(tmp_path, declared={"trees": tree_space()}) as holdout:
        before, study = holdout.remaining, study_of()
        asked = SealedObjective(tree_space(), holdout)
        study.optimize(asked, n_trials=12, callbacks=[asked.stop_in_time])
        assert states(study) == [TrialState.COMPLETE] * 12
        assert {trial.user_attrs["everhold_source"] for trial in study.get_trials()} == {"declared"}
        assert holdout.remaining == before
        trial = study.best_trial
        assert holdout.ask(tree_space().at(trial.params)).value == trial.value


def test_a_space_without_steps_cannot_be_declared():
    with pytest.raises(QueryRejected, match=r"C is .*has no steps.*step=0\.01"):
        declared_space(DecisionTreeClassifier(), {"C": optuna.distributions.FloatDistribution(0.1, 1.0)})


def test_a_silent_study_goes_by_its_guesses(tmp_path):
    with labelled(tmp_path) as holdout:
        study = study_of()
        study.optimize(SealedObjective(lambda trial: (cut(trial), 0.5), holdout, silent=True), n_trials=2)
        assert [trial.value for trial in study.get_trials()] == [0.5, 0.5]
        assert {trial.user_attrs["everhold_source"] for trial in study.get_trials()} == {"silent"}
        with pytest.raises(TypeError, match="no value but its guess"):
            study.optimize(SealedObjective(cut, holdout, silent=True), n_trials=1)


def test_points_of_a_silent_study_are_told_openly_or_at_its_end(tmp_path):
    space = tree_space()
    with labelled(tmp_path, declared={"trees": space}) as holdout:
        study = study_of()
        asked = SealedObjective(lambda trial: (space.at(suggested(trial, space)), 0.7), holdout, silent=True)
        study.optimize(asked, n_trials=3)
        assert {trial.user_attrs["everhold_source"] for trial in study.get_trials()} == {"silent"}
        left, point = holdout.remaining, study.get_trials()[0].params
        told = holdout.ask(space.at(point))
        assert (told.source, told.charged, holdout.remaining) == ("declared", 0, left)
        ended = asked.unseal_best(study, best=3)
        assert all(row["sealed_low"] <= row["sealed"] <= row["sealed_high"] for row in ended.to_rows())


def test_a_holdout_without_an_end_answers_every_trial(tmp_path):
    with labelled(tmp_path, queries=3, surprises=1) as holdout:
        study = study_of()
        asked = SealedObjective(lambda trial: (cut(trial), 0.99), holdout, silent=False)
        study.optimize(asked, n_trials=6, callbacks=[asked.stop_in_time])
        assert states(study) == [TrialState.COMPLETE] * 6
        assert holdout.remaining["surprises"] == 0


@pytest.mark.parametrize("name", ["cuts\nof May", "x" * 300])
def test_a_study_of_any_name_asks(holdout, name):
    study = optuna.create_study(study_name=name)
    study.optimize(SealedObjective(cut, holdout), n_trials=1)
    (row,) = holdout.transcript().to_rows()
    assert row["models"] == f"trial 0 of the study {name.replace(chr(10), ' ')[:250]}"


def test_no_more_models_are_kept_than_a_query_has(holdout):
    with pytest.raises(QueryRejected, match="at most 10"):
        holdout.ask("delay > 1", models=[{"name": "churn"}] * 11)
