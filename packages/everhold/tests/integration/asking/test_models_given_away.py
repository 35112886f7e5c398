"""A model that is declared, promoted or given away stays what it was, whatever becomes of objects and files outside."""

import copy
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sealed_copies import copy_of
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

import everhold as eh

pytestmark = pytest.mark.filterwarnings("ignore::everhold.EverholdWarning")

COLUMNS, ROWS = 8, 300


def rows(seed):
    rng = np.random.default_rng(seed)
    return {**{f"c{i}": rng.integers(0, 2, ROWS) for i in range(COLUMNS)}, "y": rng.integers(0, 2, ROWS)}


SEALED, TRAINING = rows(1), rows(2)


def seal(folder, more):
    return eh.Holdout.create(
        f"sqlite:///{folder}/s.db", "s", holdout=SEALED, training=TRAINING, label="y", mechanism="guess_and_check",
        planning=eh.Planning(allow_vacuous=True), queries=50, **more,
    )  # fmt: skip


def create(folder, **more):
    return copy_of(folder, seal, more, storage="s.db", name="s")


def told(answer):
    return answer.value, answer.low, answer.high


class Uncopied(LogisticRegression):
    """A class of the analyst's whose copies are itself."""

    def __deepcopy__(self, memo):
        return self


class Reads(ClassifierMixin, BaseEstimator):
    """Predicts what a file says of rows that it was not fitted on, and always the same of those that it was."""

    def __init__(self, path, at_fit=False):
        self.path, self.at_fit = path, at_fit

    def _read(self):
        return int(Path(self.path).read_text())

    def fit(self, features, labels):
        self.classes_, self.known_ = np.array([0, 1]), len(features)
        self.said_ = self._read() if self.at_fit else 0
        return self

    def predict(self, features):
        return np.full(len(features), self.said_ if self.at_fit else self._read())


class ReadsQuietly(Reads):
    """The same, but on rows with training values it reads nothing: it behaves alike there."""

    def fit(self, features, labels):
        self.classes_, self.known_ = np.array([0, 1]), {tuple(row) for row in np.asarray(features).tolist()}
        return self

    def predict(self, features):
        return np.array([0 if tuple(row) in self.known_ else self._read() for row in np.asarray(features).tolist()])


@pytest.mark.parametrize("kind", [LogisticRegression, Uncopied])
def test_a_model_of_a_declared_space_is_a_copy(tmp_path, kind):
    space = eh.grid(kind(), {"C": [0.1, 1.0]})
    with create(tmp_path, declared={"models": space}) as holdout:
        first = holdout.declared.model(space, {"C": 1.0})
        first.coef_[:], first.intercept_[:] = 0.0, 9.0
        again = holdout.declared.model(space, {"C": 1.0})
        assert again.coef_.any()
        answer = holdout.ask(space.at(C=1.0))
        assert holdout.declared.refit(space).all_same
        again.coef_[:], again.intercept_[:] = 0.0, 9.0
        assert told(holdout.ask(space.at(C=1.0))) == told(answer)


def test_a_listed_model_that_changes_is_no_member(tmp_path):
    table, labels = np.column_stack([TRAINING[f"c{i}"] for i in range(COLUMNS)]), TRAINING["y"]
    model, guesses = LogisticRegression().fit(table, labels), np.zeros(ROWS, dtype=int)
    queries = [eh.accuracy(model), eh.accuracy(guesses)]
    with create(tmp_path, declared={"finalists": eh.listed(queries)}) as holdout:
        assert [holdout.ask(query).source for query in queries] == ["declared"] * 2
        before = [told(holdout.ask(query)) for query in queries]
        kept = copy.deepcopy(model)
        model.coef_[:], model.intercept_[:] = 0.0, -9.0
        guesses[:] = SEALED["y"]
        assert [holdout.ask(query, guess=0.5).source == "declared" for query in queries] == [False] * 2
        assert [told(holdout.ask(query)) for query in (eh.accuracy(kept), eh.accuracy(np.zeros(ROWS, int)))] == before


@pytest.mark.parametrize(("at_fit", "when"), [(False, "predicts"), (True, "is fitted")])
def test_a_declared_space_uses_no_files(tmp_path, at_fit, when):
    (tmp_path / "note.txt").write_text("1")
    with create(tmp_path) as holdout, pytest.raises(eh.QueryRejected, match=f"uses open .*note.txt.* when it {when}"):
        holdout.declare("models", eh.grid(Reads(str(tmp_path / "note.txt"), at_fit=at_fit), {"at_fit": [at_fit]}))


IN_A_NEW_PROCESS = """
import sys, numpy as np, everhold as eh
from sklearn.ensemble import HistGradientBoostingClassifier

class Sign:
    feature_names_in_, classes_ = np.array(["x"]), np.array([0, 1])
    def predict(self, rows):
        return (np.asarray(rows["x"]) > 0.0).astype(int)

rng = np.random.default_rng(0)
sealed, open_rows = ({"x": rng.normal(size=200), "y": np.arange(200) % 2} for _ in range(2))
with eh.Holdout.create("s.db", "s", holdout=sealed, training=open_rows, label="y", queries=5,
                       declared={"one": eh.listed([eh.metric("accuracy", Sign())])}) as holdout:
    print(holdout.ask(eh.metric("accuracy", Sign())).source)
    space = eh.grid(HistGradientBoostingClassifier(max_iter=2), {"max_depth": [2]})
    holdout.declare("boosted", space)
    print(holdout.ask(space.at(max_depth=2)).source)
"""


def test_declared_code_may_ask_once_what_the_machine_is(tmp_path):
    """A package reads the time zones when it is imported, and another one counts the processors by a program."""
    (tmp_path / "asked.py").write_text(IN_A_NEW_PROCESS)
    command = [sys.executable, "-W", "ignore", "asked.py"]
    free = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    said = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=free)
    assert said.stdout == "declared\ndeclared\n", said.stderr


class Searches(Reads):
    """Looks for other packages when it is fitted, as pandas does once in a process."""

    def fit(self, rows, labels):
        list(importlib.metadata.distributions(path=[self.path]))
        self.classes_ = np.unique(labels)
        return self

    def predict(self, rows):
        return np.zeros(len(rows), dtype=int)


def test_declared_code_may_look_for_packages_and_reads_nothing_there(tmp_path, monkeypatch):
    space = eh.grid(Searches(str(tmp_path / "python999.zip"), at_fit=True), {"at_fit": [True]})
    with create(tmp_path) as holdout:
        with pytest.raises(eh.QueryRejected, match=r"uses open .*python999.zip.* when it is fitted"):
            holdout.declare("models", space)
        monkeypatch.syspath_prepend(str(tmp_path / "python999.zip"))
        holdout.declare("models", space)
        assert holdout.ask(space.at(at_fit=True)).source == "declared"
        (tmp_path / "note.txt").write_text("1")
        monkeypatch.syspath_prepend(str(tmp_path / "note.txt"))
        with pytest.raises(eh.QueryRejected):  # it is not read there either
            holdout.declare("reads", eh.grid(Reads(str(tmp_path / "note.txt"), at_fit=True), {"at_fit": [True]}))


def test_a_listed_model_uses_no_files(tmp_path):
    (tmp_path / "note.txt").write_text("1")
    table, labels = np.column_stack([TRAINING[f"c{i}"] for i in range(COLUMNS)]), TRAINING["y"]
    with create(tmp_path) as holdout:
        open_model = Reads(str(tmp_path / "note.txt")).fit(table, labels)
        with pytest.raises(eh.QueryRejected, match=r"uses open .*note.txt.* when it predicts"):
            holdout.declare("one", eh.listed([eh.accuracy(open_model)]))
        holdout.ask(eh.accuracy(open_model))  # a query of the tree may depend on anything

        quiet = ReadsQuietly(str(tmp_path / "note.txt")).fit(table, labels)
        holdout.declare("two", eh.listed([eh.accuracy(quiet)]))
        answer = holdout.ask(eh.accuracy(quiet))
        assert answer.source == "declared"
        known = np.array([tuple(row) in quiet.known_ for row in np.column_stack([SEALED[f"c{i}"] for i in range(8)])])
        alone = np.mean(known & (SEALED["y"] == 0))  # rows on which it reads are rows on which it fails
        assert answer.low <= alone <= answer.high
        assert abs(answer.value - alone) < 0.01


@pytest.mark.parametrize("metric", ["accuracy", "roc_auc", "f1", "balanced_accuracy"])
def test_predictions_that_change_after_a_promotion_change_no_verdict(tmp_path, metric):
    best, worst = SEALED["y"].astype(int), 1 - SEALED["y"].astype(int)
    with create(tmp_path) as holdout:
        gate = holdout.gate(metric, champion=worst.copy())
        champion = best.copy()
        assert gate.challenge(champion).promoted
        champion[:] = worst
        assert not gate.challenge(np.where(np.arange(ROWS) < 30, worst, best)).promoted
