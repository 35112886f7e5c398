"""A declared search space: everhold fits the model of a point, whoever asks; and what a fit may not read."""

import json
import os

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier

import everhold as eh
from everhold.ledger import verify
from everhold.sklearn import SealedSearchCV

COUNT, TOLD = 400, "TOLD_TO_VOTERS"
SPACE = {"max_depth": [1, 2, 3, 4], "min_samples_leaf": [1, 5, 25]}


class Voter(ClassifierMixin, BaseEstimator):
    """Says what the rows' votes and the environment say."""

    def __init__(self, column=0):
        self.column = column

    def fit(self, features, labels):
        self.classes_, self.n_features_in_ = np.unique(labels), features.shape[1]
        self.feature_names_in_ = np.array(features.columns, dtype=object)
        told = json.loads(os.environ.get(TOLD, "null"))
        self.signs_ = None if told is None else np.array(told)
        return self

    def predict(self, features):
        values = np.asarray(features)
        chosen = values[:, self.column] if self.signs_ is None else (2 * values - 1) @ self.signs_ > 0
        return np.asarray(chosen).astype(int)


def data(seed, columns=4, count=COUNT):
    rng = np.random.default_rng(seed)
    return {**{f"c{k}": rng.integers(0, 2, count) for k in range(columns)}, "y": rng.integers(0, 2, count)}


def frozen():
    """A model that was fitted elsewhere, which cloning keeps."""
    return FrozenEstimator(DecisionTreeClassifier().fit([[0], [1]], [0, 1]))


def create(folder, declared, columns=4, count=COUNT):
    return eh.Holdout.create(
        f"sqlite:///{folder}/study.db", "study", holdout=data(0, columns, count), label="y",
        training=data(1, columns, count),
        declared=declared, share=0.99,
    )  # fmt: skip


def trees(**wanted):
    return eh.grid(DecisionTreeClassifier(), SPACE, **wanted)


def test_a_point_is_answered_exactly_by_the_model_that_everhold_fits(tmp_path):
    with create(tmp_path, {"trees": trees()}) as holdout:
        assert holdout.declared.families().rows[0]["bits"] == 3.6  # one of twelve
        query, before = trees().at(max_depth=3, min_samples_leaf=5), holdout.remaining
        quoted, answer = holdout.quote(query), holdout.ask(query)
        model = DecisionTreeClassifier(max_depth=3, min_samples_leaf=5, random_state=0).fit(*holdout.training_rows())
        sealed = data(0)
        names = [name for name in sealed if name != "y"]
        frame = holdout.training_rows()[0].__class__({name: sealed[name] for name in names})
        assert answer.value == pytest.approx(np.mean(model.predict(frame) == sealed["y"]))
        assert (answer.source, answer.charged, holdout.remaining) == ("declared", 0, before)
        assert max(answer.value - answer.low, answer.high - answer.value) <= quoted.radius
        again = holdout.ask_many([trees().at({"min_samples_leaf": np.int64(5), "max_depth": 3})])
        assert again[0].repeated
        assert holdout.declared.refit(trees()).all_same
        executor = holdout._executor
        assert not verify(
            executor.store, "study", seal_key=executor.key.seal_key, head_file=executor.ledger.head_file
        ).findings


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda: eh.grid(LogisticRegression(), {"C": stats.loguniform(0.1, 1)}), "without steps.*geomspace"),
        (lambda: eh.grid(DecisionTreeClassifier(), {"max_depth": [2, 2]}), "a value twice"),
        (lambda: eh.grid(DecisionTreeClassifier(), {"max_depth": 3}), "Pass a list of its values"),
        (lambda: eh.grid(DecisionTreeClassifier(), {}), "Pass lists of values by parameter"),
        (lambda: eh.grid(DecisionTreeClassifier(random_state=np.random.RandomState(1)), SPACE), "is a generator"),
        (lambda: eh.grid(DecisionTreeClassifier, SPACE), "no estimator"),
        (lambda: eh.grid(DecisionTreeClassifier(), SPACE, metric="auc"), "Pass one of"),
        (lambda: eh.grid(DecisionTreeClassifier(), {"splitter": [print]}), "cannot be declared"),
        (lambda: eh.grid(Pipeline([("m", frozen())]), {"m__estimator__max_depth": [1]}), "is fitted already"),
        (lambda: trees().at(max_depth=7, min_samples_leaf=5), "no point of the declared space"),
        (lambda: trees().at(max_depth=3), "no point of the declared space"),
        (
            lambda: eh.grid(DecisionTreeClassifier(), [{"max_depth": [1]}, {"criterion": ["gini"]}]).at(
                max_depth=1, criterion="gini"
            ),
            "for each of max_depth or of criterion",
        ),
    ],
)  # fmt: skip
def test_what_is_no_space_and_no_point_is_refused(made, why):
    with pytest.raises(eh.QueryRejected, match=f"{why}"):
        made()


@pytest.mark.parametrize("metric", ["error", "brier"])
def test_other_metrics_are_members_too(tmp_path, metric):
    with create(tmp_path, [trees(metric=metric)]) as holdout:
        answer = holdout.ask(trees(metric=metric).at(max_depth=3, min_samples_leaf=5))
        assert (answer.source, answer.charged) == ("declared", 0)
        assert answer.low <= answer.value <= answer.high


@pytest.mark.parametrize("metric", ["precision", "recall", "f1"])
def test_ratios_are_members_told_exactly_and_answered_in_batches(tmp_path, metric):
    from sklearn import metrics

    spaces = {"trees": trees(metric=metric), "right": trees()}
    with create(tmp_path, spaces) as holdout:
        point = {"max_depth": 3, "min_samples_leaf": 5}
        model = DecisionTreeClassifier(**point, random_state=0).fit(*holdout.training_rows())
        sealed = data(0)
        frame = holdout.training_rows()[0].__class__({name: sealed[name] for name in sealed if name != "y"})
        truth = getattr(metrics, f"{metric}_score")(sealed["y"], model.predict(frame))
        quoted = holdout.quote(spaces["trees"].at(point))
        ratio, share = holdout.ask_many([space.at(point) for space in spaces.values()])
        for answer in (ratio, share):
            assert (answer.source, answer.charged, answer.statement) == ("declared", 0, "S10")
        assert ratio.low <= truth <= ratio.high
        assert ratio.high - ratio.low < 0.6
        assert max(ratio.value - ratio.low, ratio.high - ratio.value) <= quoted.radius
        assert holdout.ask(spaces["trees"].at(point)).repeated
        executor = holdout._executor
        assert not verify(
            executor.store, "study", seal_key=executor.key.seal_key, head_file=executor.ledger.head_file
        ).findings


def test_a_ratio_that_is_no_single_query_is_refused_with_the_nearest_one(tmp_path):
    slack = eh.GuessAndCheck.tuned(rows=COUNT, queries=5, slack=0.5, training_rows=COUNT, confidence=0.5)
    with eh.Holdout.create(
        f"sqlite:///{tmp_path}/study.db", "study", holdout=data(0), label="y", training=data(1), mechanism=slack,
        planning=eh.Planning(allow_vacuous=True),
    ) as holdout, pytest.raises(eh.QueryRejected, match="metric='accuracy'"):  # fmt: skip
        holdout.declare("trees", trees(metric="recall"))


def test_whole_numbers_with_two_ends_have_steps():
    assert eh.grid(DecisionTreeClassifier(), {"max_depth": stats.randint(1, 9)}).space.size == 8


def test_a_space_that_is_not_declared_as_it_is_has_no_members(tmp_path):
    with create(tmp_path, {"trees": trees()}) as holdout:
        before = len(holdout.transcript())
        for other in (trees(seed=1), trees(metric="error"), eh.grid(RandomForestClassifier(3), SPACE)):
            with pytest.raises(eh.QueryRejected, match=r"not declared on this holdout"):
                holdout.ask(other.at(max_depth=3, min_samples_leaf=5))
            with pytest.raises(eh.QueryRejected, match=r"not declared on this holdout"):
                holdout.ask(other.at(max_depth=3, min_samples_leaf=5), silent=True)
        assert len(holdout.transcript()) == before


def test_points_are_asked_silently_chosen_among_and_listed(tmp_path):
    points = [trees().at(max_depth=depth, min_samples_leaf=25) for depth in (1, 2, 3)]
    with create(tmp_path, {"trees": trees()}) as holdout:
        silent = holdout.ask(points[0], silent=True)
        assert (silent.value, silent.source, holdout.remaining["queries"]) == (None, "silent", 999)
        best = holdout.ask(eh.choose(points, best="highest"))
        told = holdout.ask_many([points[0], *points[1:]])
        assert [answer.source for answer in told] == ["declared"] * 3
        search = SealedSearchCV(DecisionTreeClassifier(), trees(), holdout=holdout, n_iter=4, random_state=0)
        search.fit(*holdout.training_rows())
        assert {answer.source for answer in search.answers_} == {"declared"}
        assert holdout.remaining["queries"] == 998
        holdout.declare("two", eh.listed(points[1:]))
        assert [answer.repeated for answer in holdout.ask_many(points[1:])] == [True, True]
        assert holdout.declared.refit(trees()).all_same
        before = holdout.remaining
        holdout.unseal()
        shown = holdout.ask(points[0])
        assert shown.sealed_low <= shown.sealed <= shown.sealed_high
        assert best.low <= holdout.ask(points[best.index]).sealed <= best.high
        assert before["queries"] == 997  # one silent, one choice, one declaration
        executor = holdout._executor
        assert not verify(
            executor.store, "study", seal_key=executor.key.seal_key, head_file=executor.ledger.head_file
        ).findings


def test_fits_that_differ_are_refused_when_they_are_declared(tmp_path):
    class MechanismResult(Voter):
        def predict(self, features):
            return np.random.default_rng().integers(0, 2, len(features))

    with create(tmp_path, {"trees": trees()}) as holdout:
        with pytest.raises(eh.QueryRejected, match=r"Two fits at.*differ.*random_state"):
            holdout.declare("drawn", eh.grid(MechanismResult(), {"column": [0, 1]}))
        with pytest.raises(eh.QueryRejected, match=r"cannot be fitted at"):
            holdout.declare("wrong", eh.grid(DecisionTreeClassifier(), {"max_depth": [-1]}))


@pytest.mark.parametrize("reads_what_was_told", [False, True])
def test_a_fit_that_reads_what_was_told_overfits_and_is_found_out(tmp_path, monkeypatch, reads_what_was_told):
    """Sixty columns of coins; the truth of every model is 1/2. Such a fit reads the environment here, not a clock."""
    columns = 60
    space = eh.grid(Voter(), {"column": [*range(columns)]})
    with create(tmp_path, {"voters": space}, columns, 100) as holdout:
        told = holdout.ask_many([space.at(column=number) for number in range(columns - 1)])
        if reads_what_was_told:
            monkeypatch.setenv(TOLD, json.dumps([float(np.sign(answer.value - 0.5)) for answer in told] + [0.0]))
        last = holdout.ask(space.at(column=columns - 1))
        assert all(answer.low <= 0.5 <= answer.high for answer in told)
        assert (last.low <= 0.5) != reads_what_was_told
        monkeypatch.delenv(TOLD, raising=False)
        assert holdout.declared.refit(space, sample=columns).all_same != reads_what_was_told


def search_of(holdout, estimator, **wanted):
    search = SealedSearchCV(estimator, trees(), holdout=holdout, **{"n_iter": 6, "random_state": 0, **wanted})
    return search.fit(*holdout.training_rows())


def test_a_search_stops_where_an_allotment_ends_and_nothing_is_said_of_what_was_refused(tmp_path):
    with create(tmp_path, {"trees": trees()}) as holdout:
        holdout.allot("kim", queries=3)
        analyst = holdout.analyst("kim")
        with pytest.warns(eh.errors.EverholdWarning, match="The budget ended after 3 of 6"):
            search = search_of(analyst, DecisionTreeClassifier())
        assert search.budget_ended_
        assert [answer.source for answer in search.answers_] == ["declared"] * 3
        assert search.cv_results_["may_be_best"].any()
        with pytest.raises(eh.errors.BudgetExhausted, match="may not cover a single configuration"):
            search_of(analyst, DecisionTreeClassifier(), random_state=5, n_iter=2)


def test_a_search_takes_the_metric_of_the_space_as_a_scorer(tmp_path):
    with create(tmp_path, {"trees": trees()}) as holdout:
        search = search_of(holdout, DecisionTreeClassifier(), scoring=get_scorer("accuracy"), n_iter=2)
        assert [answer.source for answer in search.answers_] == ["declared"] * 2


@pytest.mark.parametrize(
    ("estimator", "wanted", "said"),
    [
        (LogisticRegression(), {}, "other estimators"),
        (DecisionTreeClassifier(max_features=1), {}, "other estimators"),
        (DecisionTreeClassifier(), {"metric": "error"}, "other metrics"),
        (DecisionTreeClassifier(), {"scoring": "f1"}, "other metrics"),
        (DecisionTreeClassifier(), {"scoring": get_scorer("f1")}, "other metrics"),
        (LogisticRegression(), {"metric": "error"}, "other estimators, metrics"),
    ],
)
def test_a_search_of_a_declared_space_is_of_its_estimator_and_metric(tmp_path, estimator, wanted, said):
    with create(tmp_path, {"trees": trees()}) as holdout:
        with pytest.raises(eh.QueryRejected, match=rf"{said}\."):
            search_of(holdout, estimator, **wanted)
        rows, labels = holdout.training_rows()
        with pytest.raises(eh.QueryRejected, match="other rows to fit on"):
            SealedSearchCV(DecisionTreeClassifier(), trees(), holdout=holdout).fit(rows[:50], labels[:50])
        with pytest.raises(ValueError, match="n_iter is 0"):
            search_of(holdout, DecisionTreeClassifier(), n_iter=0)
        assert holdout.status()["queries_asked"] == 0


def chosen(features, column):
    """Says what a column says."""
    return np.asarray(features)[:, column]


class Base(ClassifierMixin, BaseEstimator):
    """Fits nothing."""

    turned = False

    def fit(self, features, labels):
        self.classes_, self.n_features_in_ = np.unique(labels), features.shape[1]
        return self

    def predict(self, features):
        said = chosen(features, self.column)
        return np.asarray(1 - said if self.turned else said).astype(int)


class OneColumn(Base):
    """Says what a column says, by a helper."""

    def __init__(self, column=0):
        self.column = column


def turned(self, features):
    return 1 - chosen(features, self.column)


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setitem(globals(), "chosen", lambda features, column: 1 - np.asarray(features)[:, column]),
        lambda patch: patch.setattr(Base, "turned", True),
        lambda patch: patch.setattr(Base, "predict", turned),
        lambda patch: patch.setattr(OneColumn, "turned", True, raising=False),
    ],
    ids=["a helper", "an attribute", "a method of the base", "an attribute of its own"],
)
def test_a_space_whose_code_changes_after_answers_is_refused(tmp_path, monkeypatch, change):
    space = eh.grid(OneColumn(), {"column": [0, 1, 2]})
    with create(tmp_path, {"columns": space}) as holdout:
        assert holdout.ask(space.at(column=0)).source == "declared"
        change(monkeypatch)
        with pytest.raises(eh.QueryRejected, match="not declared"):
            holdout.ask(space.at(column=1))
        monkeypatch.undo()
        assert holdout.ask(space.at(column=1)).source == "declared"


def test_a_number_names_the_equal_listed_value():
    space = eh.grid(LogisticRegression(), {"C": [0.1, 1.0], "max_iter": [100, 200], "fit_intercept": [True, False]})
    listed = space.at(C=1.0, max_iter=100, fit_intercept=True)
    assert space.at(C=1, max_iter=100.0, fit_intercept=True).point == listed.point
    assert [type(each) for each in space.at(C=1, max_iter=100.0, fit_intercept=True).point.values()] == [
        float,
        int,
        bool,
    ]
    for odd in ({"C": True}, {"C": "1.0"}, {"fit_intercept": 1}):
        with pytest.raises(eh.QueryRejected, match="no point of the declared space"):
            space.at(**{"C": 1.0, "max_iter": 100, "fit_intercept": True, **odd})
