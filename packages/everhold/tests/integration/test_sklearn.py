"""The search and the scorer for scikit-learn, against scikit-learn itself."""

import pickle
import warnings
from functools import partial
from inspect import signature
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from sealed_copies import copy_of
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from sklearn_samples import ROWS, SPACE, TREE, Confirming, Diligent, create, mechanism, points

import everhold as eh
from everhold import BudgetExhausted, EverholdWarning, QueryRejected
from everhold.search_results import SearchLine, results_table
from everhold.sklearn import SealedScorer, SealedSearchCV


@pytest.fixture
def holdout(tmp_path):
    with copy_of(tmp_path, create) as made:
        yield made


def search_of(holdout, **options):
    return SealedSearchCV(
        TREE, SPACE, holdout=holdout, **{"n_iter": 4, "cv": 3, "random_state": 0, "reveal": "checked", **options}
    )


def test_one_query_for_each_configuration(holdout):
    before = holdout.remaining["queries"]
    search = search_of(holdout).fit(*holdout.training_rows())
    assert before - holdout.remaining["queries"] == len(search.cv_results_["params"]) == 4
    assert len(holdout.transcript()) == 4
    assert not search.budget_ended_


def test_scores_are_those_of_the_plain_search(holdout):
    rows, labels = holdout.training_rows()
    plain = RandomizedSearchCV(TREE, SPACE, n_iter=4, cv=3, random_state=0).fit(rows, labels)
    ours = search_of(holdout).fit(rows, labels)
    assert ours.cv_results_["params"] == plain.cv_results_["params"]
    for name in ("split0_test_score", "split2_test_score", "mean_test_score", "std_test_score"):
        assert ours.cv_results_[name] == pytest.approx(plain.cv_results_[name], abs=1e-12)
    assert ours.cv_results_["rank_test_score"].tolist() == plain.cv_results_["rank_test_score"].tolist()
    missing = {name for name in plain.cv_results_ if name not in ours.cv_results_}
    assert missing == set()


def test_the_answer_is_about_the_model_that_is_handed_over(holdout):
    search = search_of(holdout).fit(*holdout.training_rows())
    again = holdout.ask(eh.accuracy(search.best_estimator_))
    assert again.repeated
    now = {"remaining": 0, "charged": 0}  # a repeated answer is free
    assert again.to_dict() | now == search.best_answer_.to_dict() | now


def test_the_best_one_has_the_best_answer_and_says_which_others_may_be_better(holdout):
    search = search_of(holdout, n_iter=8).fit(*holdout.training_rows())
    table = search.cv_results_
    assert search.best_index_ == int(np.argmax(table["answer"])) == int(np.argmin(table["rank_answer"]))
    assert table["may_be_best"].tolist() == (table["answer_high"] >= table["answer_low"].max()).tolist()
    assert table["may_be_best"][search.best_index_]
    fresh = points(9)
    truth = np.mean(search.predict(holdout.training_rows()[0].assign(a=fresh["a"], b=fresh["b"])) == fresh["y"])
    assert search.best_answer_.low <= truth <= search.best_answer_.high


def answers_of(*ends):
    """Lines of a search with these answers: value, low, high."""
    return [
        SearchLine(
            {"place": place},
            (0.5,),
            (0.0,),
            (0.0,),
            0.0,
            SimpleNamespace(value=v, low=a, high=b, source="x", charged=0),
        )
        for place, (v, a, b) in enumerate(ends)
    ]


def test_intervals_that_reach_the_end_of_the_range_do_not_decide_who_is_best():
    found = results_table(answers_of((0.70, 0.0, 1.0), (0.75, 0.0, 0.9), (0.80, 0.0, 0.95)), greater=True)
    assert found["rank_answer"].tolist() == [3, 2, 1]
    assert found["may_be_best"].tolist() == [True, True, True]


def test_what_is_surely_worse_cannot_be_the_best():
    ends = (0.5, 0.4, 0.6), (0.8, 0.7, 0.9), (0.7, 0.55, 0.85)
    assert results_table(answers_of(*ends), greater=True)["may_be_best"].tolist() == [False, True, True]
    assert results_table(answers_of(*ends), greater=False)["may_be_best"].tolist() == [True, False, True]


@pytest.mark.parametrize("greater", [True, False])
def test_the_truly_best_one_is_always_among_those_that_may_be(greater):
    rng = np.random.default_rng(0)
    for _ in range(500):
        truth, wide = rng.random(6), rng.random((2, 6)) * 0.5
        lines = answers_of(*zip(rng.random(6), truth - wide[0], truth + wide[1], strict=True))  # every interval holds
        best = np.argmax(truth if greater else -truth)
        assert results_table(lines, greater=greater)["may_be_best"][best]


def test_a_loss_is_better_when_it_is_lower(holdout):
    rows, labels = holdout.training_rows()
    error = search_of(holdout, metric="error", n_iter=6).fit(rows, labels)
    accuracy = search_of(holdout, n_iter=6).fit(rows, labels)  # the same queries the other way round: all are free
    assert holdout.remaining["queries"] == 54
    assert error.best_params_ == accuracy.best_params_
    assert error.best_score_ == pytest.approx(accuracy.best_score_ - 1.0)
    assert np.all(error.cv_results_["mean_test_score"] <= 0.0)
    assert np.all(error.cv_results_["answer"] >= 0.0)
    assert error.score(rows, labels) == pytest.approx(accuracy.score(rows, labels) - 1.0)


def test_whoever_selects_gets_the_table_and_any_of_the_models(holdout):
    rows, labels = holdout.training_rows()
    search = search_of(holdout, refit=lambda results: int(np.argmin(results["answer"]))).fit(rows, labels)
    assert search.best_score_ == np.min(search.cv_results_["answer"])
    assert search.best_estimator_.get_params()["max_depth"] == search.best_params_["max_depth"]
    with pytest.raises(
        ValueError, match=r"refit returns 4 as the best configuration\. Return a whole number from 0 to 3"
    ):
        search_of(holdout, refit=lambda results: 4).fit(rows, labels)


def test_without_refit_there_is_a_table_and_no_model(holdout):
    search = search_of(holdout, refit=False).fit(*holdout.training_rows())
    assert len(search.answers_) == 4
    assert not hasattr(search, "best_estimator_")
    with pytest.raises(AttributeError, match="has no attribute 'predict'"):
        search.predict(holdout.training_rows()[0])


def test_it_stops_when_the_budget_ends_and_says_so(tmp_path):
    with create(tmp_path, mechanism=mechanism(queries=5)) as whole:
        whole.allot("search", queries=5, charges=3)
        holdout = whole.analyst("search")
        rows, labels = holdout.training_rows()
        with pytest.warns(EverholdWarning, match=r"The budget ended after (\d+) of 9 configurations"):
            search = search_of(holdout, n_iter=9, cv=2).fit(rows, labels)
        answered = len(search.cv_results_["params"])
        assert 3 <= answered <= 5
        assert answered == len(holdout.transcript())
        assert search.budget_ended_
        assert search.best_answer_ in search.answers_
        assert not any(answer.refused for answer in search.answers_)
        with pytest.raises(BudgetExhausted, match="may not cover a single configuration"):
            search_of(holdout, random_state=77, metric="brier").fit(rows, labels)
        assert len(holdout.transcript()) == answered


def test_a_search_that_is_run_again_is_free_also_by_workers(holdout):
    rows, labels = holdout.training_rows()
    first = search_of(holdout).fit(rows, labels)
    left = holdout.remaining
    again = search_of(holdout, n_jobs=2).fit(rows, labels)
    assert holdout.remaining == left
    assert all(answer.repeated for answer in again.answers_)
    assert again.cv_results_["answer"].tolist() == first.cv_results_["answer"].tolist()


def test_what_a_killed_worker_had_asked_is_kept(holdout):
    rows, labels = holdout.training_rows()
    space = [{"max_depth": [1, 2, 3]}, {"dies": [True]}]
    search = SealedSearchCV(
        Diligent(random_state=0), space, holdout=holdout, n_iter=4, cv=2, random_state=3, n_jobs=2, reveal="checked"
    )
    with pytest.raises(joblib.externals.loky.process_executor.TerminatedWorkerError):
        search.fit(rows, labels)
    asked = len(holdout.transcript())
    healthy = clone(search).set_params(param_distributions={"max_depth": [1, 2, 3]}, n_iter=3, n_jobs=None)
    healthy.fit(rows, labels)
    assert len(holdout.transcript()) == 3
    assert sum(answer.repeated for answer in healthy.answers_) == asked


def test_pipelines_and_parameters_that_only_some_have(holdout):
    pipeline = Pipeline([("scale", StandardScaler()), ("model", LogisticRegression())])
    space = [{"model": [LogisticRegression()], "model__C": [0.1, 1.0]}, {"model": [TREE], "model__max_depth": [3]}]
    search = SealedSearchCV(pipeline, space, holdout=holdout, n_iter=3, cv=2, random_state=0, reveal="checked")
    search.fit(*holdout.training_rows())
    assert search.best_params_["model__max_depth"] == 3
    assert np.ma.getmaskarray(search.cv_results_["param_model__C"]).sum() == 1
    assert list(search.feature_names_in_) == ["a", "b"]
    assert search.classes_.tolist() == [0, 1]
    assert search.n_features_in_ == 2


def test_a_configuration_that_cannot_be_fitted_is_not_asked_about(holdout):
    rows, labels = holdout.training_rows()
    space = {"max_depth": [2, -1]}
    with pytest.warns(FitFailedWarning, match="1 of 2 configurations could not be fitted, and were not asked about"):
        search = SealedSearchCV(TREE, space, holdout=holdout, n_iter=2, cv=2, random_state=0, reveal="checked").fit(
            rows, labels
        )
    assert len(holdout.transcript()) == 1
    assert search.best_params_ == {"max_depth": 2}
    assert sorted(search.cv_results_["answer_source"]) == ["failed", "training"]
    with pytest.raises(ValueError, match="max_depth"):
        SealedSearchCV(TREE, space, holdout=holdout, n_iter=2, cv=2, error_score="raise").fit(rows, labels)
    with pytest.raises(ValueError, match="1 of 1 configurations could not be fitted"):
        SealedSearchCV(TREE, {"max_depth": [-1]}, holdout=holdout, n_iter=1, cv=2).fit(rows, labels)


def test_clones_and_pickles_ask_the_same_holdout(holdout):
    search = search_of(holdout)
    assert clone(search).holdout is holdout
    fitted = search.fit(*holdout.training_rows())
    thawed = pickle.loads(pickle.dumps(fitted))
    with thawed.holdout as other:
        assert other is not holdout
        assert other.remaining == holdout.remaining
        assert np.array_equal(thawed.predict(holdout.training_rows()[0]), fitted.predict(holdout.training_rows()[0]))
    with pytest.raises(NotFittedError):
        clone(fitted).predict(holdout.training_rows()[0])


def test_an_analyst_pays_from_their_allotment(holdout):
    holdout.allot("ann", queries=3)
    ann = holdout.analyst("ann")
    with pytest.warns(EverholdWarning, match="The budget ended after 3 of 5"):
        search_of(ann, n_iter=5).fit(*holdout.training_rows())
    assert ann.remaining["queries"] == 0
    assert holdout.remaining["queries"] == 57


def test_rows_of_ones_own_make_guesses_of_ones_own(holdout):
    rows, labels = points(5), points(5)["y"]
    frame = holdout.training_rows()[0].assign(a=rows["a"], b=rows["b"])
    search = search_of(holdout).fit(frame, labels)
    assert set(search.cv_results_["answer_source"]) <= {"guess", "holdout"}
    weighted = search_of(holdout, n_iter=2).fit(frame, labels, sample_weight=np.linspace(0.0, 1.0, ROWS))
    assert weighted.cv_results_["mean_test_score"].tolist() != search.cv_results_["mean_test_score"][:2].tolist()


def test_folds_keep_the_groups_of_the_holdout_together(tmp_path):
    patients = np.repeat(np.arange(400), 5)
    tables = [{**points(seed), "patient": patients + 1_000 * seed} for seed in (0, 1)]
    wanted = {"mechanism": "guess_and_check", "queries": 20, "surprises": 1, "dependence": eh.Groups("patient")}
    with create(tmp_path, holdout=tables[0], training=tables[1], **wanted) as holdout:
        search = search_of(holdout, n_iter=1, cv=4)
        rows, labels = holdout.training_rows()
        assert "patient" not in rows
        search.fit(rows, labels)
        folds = list(StratifiedGroupKFold(4).split(rows, labels, patients))
        grouped = clone(search).set_params(cv=folds).fit(rows, labels)
        folds = list(StratifiedKFold(4).split(rows, labels))
        plain = clone(search).set_params(cv=folds).fit(rows, labels)
        scores = [found.cv_results_["split1_test_score"].tolist() for found in (search, grouped, plain)]
        assert scores[0] == scores[1] != scores[2]
        assert holdout.evaluate(clone(search.best_estimator_), cv=4).repeated


def test_regressors_need_a_range(tmp_path):
    rng = np.random.default_rng(0)
    tables = [{"a": x, "y": 2.0 * x + rng.normal(size=ROWS)} for x in rng.normal(size=(2, ROWS))]
    with create(tmp_path, holdout=tables[0], training=tables[1]) as holdout:
        metric = partial(eh.risk, loss="absolute", high=10.0)
        search = SealedSearchCV(
            Ridge(), {"alpha": [1.0, 1e5]}, holdout=holdout, metric=metric, n_iter=2, cv=3, reveal="checked"
        )
        search.fit(*holdout.training_rows())
        assert search.best_params_ == {"alpha": 1.0}
        assert search.best_answer_.low <= np.sqrt(2.0 / np.pi) <= search.best_answer_.high
        assert search.best_score_ == -search.best_answer_.value
        with pytest.raises(QueryRejected, match=r"There is no metric 'mse'\. Did you mean 'neg_mean_squared_error'"):
            search.set_params(metric="mse").fit(*holdout.training_rows())


@pytest.mark.skipif("on_fail" not in signature(check_estimator).parameters, reason="scikit-learn lists no checks yet")
def test_scikit_learns_own_checks():
    """With a stand-in that confirms every guess: scikit-learn's tables are not those of any holdout."""
    space, options = {"C": [0.1, 1.0]}, {"n_iter": 2, "cv": 2, "error_score": "raise"}
    search = SealedSearchCV(LogisticRegression(), space, holdout=Confirming(), reveal="checked", **options)
    none = {"check_classifiers_classes": "it has labels of two kinds, and those of one holdout are of one"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(search, on_fail=None, on_skip=None, expected_failed_checks=none)
    failed = {line["check_name"]: line["exception"] for line in found if line["status"] == "failed"}
    assert failed == {}
    assert sum(line["status"] == "passed" for line in found) > 30


def test_the_scorer_asks_once_for_each_model(holdout):
    rows, labels = holdout.training_rows()
    once = ShuffleSplit(n_splits=1, test_size=0.3, random_state=0)
    scorer = SealedScorer(holdout)
    search = RandomizedSearchCV(TREE, SPACE, n_iter=3, cv=once, scoring=scorer, return_train_score=True, random_state=0)
    search.fit(rows, labels)
    assert len(holdout.transcript()) == 3
    assert search.cv_results_["mean_train_score"].tolist() == search.cv_results_["mean_test_score"].tolist()
    assert cross_val_score(TREE, rows, labels, cv=4, scoring=scorer).shape == (4,)
    assert len(holdout.transcript()) == 7


def test_workers_share_the_budget_of_the_scorer(holdout):
    rows, labels = holdout.training_rows()
    grid = {"max_depth": [1, 2, 3, 4]}
    search = GridSearchCV(TREE, grid, cv=2, scoring=SealedScorer(holdout, "error"), n_jobs=2, error_score="raise")
    search.fit(rows, labels)
    assert holdout.remaining["queries"] == 60 - 8
    assert np.all(search.cv_results_["mean_test_score"] < 0.0)
    left = holdout.remaining
    clone(search).set_params(n_jobs=None).fit(rows, labels)
    assert holdout.remaining == left


def test_the_scorer_raises_when_the_budget_ends(tmp_path):
    with create(tmp_path, mechanism=mechanism(queries=2, surprises=1, tolerance=0.08)) as holdout:
        rows, labels = holdout.training_rows()
        wide = {"max_depth": list(range(1, 30)), "min_samples_leaf": list(range(1, 12))}
        search = GridSearchCV(TREE, wide, cv=2, scoring=SealedScorer(holdout), error_score="raise")
        with pytest.raises(BudgetExhausted):
            search.fit(rows, labels)


def test_no_labels_and_no_routing(holdout):
    rows, labels = holdout.training_rows()
    with pytest.raises(ValueError, match="requires y to be passed"):
        search_of(holdout).fit(rows)
    import sklearn

    with sklearn.config_context(enable_metadata_routing=True), pytest.raises(ValueError, match="Metadata routing"):
        search_of(holdout).fit(rows, labels, groups=np.arange(ROWS))
    assert len(holdout.transcript()) == 0


def test_the_picture_shows_every_configuration(holdout):
    pytest.importorskip("altair")
    search = search_of(holdout).fit(*holdout.training_rows())
    drawn = search.chart().to_dict()
    bars = drawn["datasets"][drawn["layer"][0]["data"]["name"]]
    assert sorted(line["low"] for line in bars) == sorted(search.cv_results_["answer_low"].tolist())


def test_a_dummy_and_a_pipeline_have_the_methods_of_their_kind(holdout):
    assert not hasattr(SealedSearchCV(make_pipeline(StandardScaler(), Ridge()), {}, holdout=holdout), "predict_proba")
    assert hasattr(SealedSearchCV(DummyClassifier(), {}, holdout=holdout), "predict_proba")


def test_all_configurations_are_one_step_and_can_all_be_told(tmp_path):
    with create(tmp_path, mechanism=mechanism(queries=200, tolerance=0.3)) as holdout:
        rows, labels = holdout.training_rows()
        told = search_of(holdout, n_iter=6, cv=2, reveal="all").fit(rows, labels)
        assert set(told.cv_results_["answer_source"]) == {"chosen"}
        assert (holdout.remaining["surprises"], told.cv_results_["answer_charged"].sum()) == (3, 0)
        widths = told.cv_results_["answer_high"] - told.cv_results_["answer_low"]
        checked = search_of(holdout, n_iter=6, cv=2, random_state=5).fit(rows, labels)
        later = checked.cv_results_["answer_high"] - checked.cv_results_["answer_low"]
        assert later.max() > 1.5 * widths.max()  # what was told is paid for by what comes later
        assert told.best_answer_.value == told.cv_results_["answer"].max()


def test_nothing_is_told_of_a_silent_search(holdout):
    search = search_of(holdout, n_iter=3, cv=2, reveal="nothing").fit(*holdout.training_rows())
    assert set(search.cv_results_["answer_source"]) == {"silent"}
    assert np.isnan(search.cv_results_["answer"]).all()
    assert search.best_index_ == np.argmin(search.cv_results_["rank_test_score"])
    assert hasattr(search.best_estimator_, "tree_")
    with pytest.raises(QueryRejected, match=r"reveal is 'some'\. Use one of 'checked'"):
        search_of(holdout, reveal="some").fit(*holdout.training_rows())


def test_a_declared_space_is_searched_for_nothing(tmp_path):
    space = eh.grid(TREE, SPACE)
    with create(tmp_path, mechanism=None, declared={"trees": space}) as holdout:
        before = holdout.remaining
        search = SealedSearchCV(TREE, space, holdout=holdout, n_iter=4, random_state=0).fit(*holdout.training_rows())
        assert set(search.cv_results_["answer_source"]) == {"declared"}
        assert holdout.remaining == before
        best = search.best_params_
        fitted = clone(TREE).set_params(**best).fit(*holdout.training_rows())
        rows, _ = holdout.training_rows()
        assert (search.best_estimator_.predict(rows) == fitted.predict(rows)).all()


def test_of_a_search_the_best_alone_can_be_told(tmp_path):
    with create(tmp_path, mechanism=None) as holdout:
        before = holdout.remaining["surprises"]
        search = search_of(holdout, n_iter=6, cv=2, reveal="best").fit(*holdout.training_rows())
        choice = search.best_answer_
        assert (search.best_index_, search.best_score_) == (choice.index, choice.value)
        assert choice.low < choice.value < choice.high
        assert choice.regret > 0.0
        assert set(search.cv_results_["answer_source"]) == {"not told"}
        assert holdout.remaining["surprises"] == before
        assert hasattr(search.best_estimator_, "tree_")


@pytest.mark.parametrize(
    ("rows", "metric", "wanted"),
    [(2_999, "accuracy", "nothing"), (3_000, "accuracy", "best"), (3_000, "roc_auc", "checked")],
)
def test_the_usual_search_tells_the_narrowest_that_it_can(tmp_path, rows, metric, wanted):
    rng = np.random.default_rng(3)
    made = {"x": rng.normal(size=2 * rows)}
    made["y"] = (made["x"] + rng.normal(size=2 * rows) > 0.0).astype(int)
    sealed, training = ({name: column[part::2] for name, column in made.items()} for part in (0, 1))
    with eh.Holdout.create(f"sqlite:///{tmp_path / 'a.db'}", holdout=sealed, training=training, label="y") as holdout:
        search = SealedSearchCV(TREE, {"max_depth": [1, 2, 3]}, holdout=holdout, metric=metric, n_iter=3, cv=2)
        assert search.reveal is None
        assert search.fit(*holdout.training_rows()).reveal_ == wanted
        assert holdout.remaining["surprises"] == 10
        assert np.isnan(search.best_score_) == (wanted == "nothing")
        holdout.unseal()
        assert search.best_score_ > 0.5
