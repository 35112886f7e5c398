"""Code that changed under its name is another query; the same code is the same one, in any process."""

import importlib
import pickle
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from holdout_samples import create, rows
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from everhold import QueryRejected, accuracy, auc, brier, error, gradient, low_sensitivity, mean, risk
from everhold.queries.code import behaviour_digest, content_digest

RULE = """
import numpy as np
THRESHOLD = {threshold}
class Rule:
    n_features_in_ = 1
    feature_names_in_ = np.array(["delay"])
    def predict(self, frame):
        return self.values(frame["delay"].to_numpy()).astype(int)
    def predict_proba(self, frame):
        late = self.values(frame["delay"].to_numpy()) * 0.5 + 0.25
        return np.column_stack([1 - late, late])
    def values(self, delay):
        return {words}
def share(table):
    return Rule().values(table["delay"])
def vector(table):
    return share(table)[:, None].astype(float)
def statistic(table):
    return float(share(table).mean())
def loss(predictions, labels):
    return np.abs(predictions - labels) > Rule().values(np.array([20.0]))[0]
"""


@pytest.fixture
def rule(tmp_path, monkeypatch):
    """Writes a module and imports it anew."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def written(threshold=15, words="delay > THRESHOLD"):
        (tmp_path / "rule_of_tests.py").write_text(RULE.format(threshold=threshold, words=words))
        sys.modules.pop("rule_of_tests", None)
        importlib.invalidate_caches()
        return importlib.import_module("rule_of_tests")

    yield written
    sys.modules.pop("rule_of_tests", None)


QUERIES = {
    "accuracy": lambda module: accuracy(module.Rule()),
    "error": lambda module: error(module.Rule()),
    "brier": lambda module: brier(module.Rule()),
    "risk of a model": lambda module: risk(module.Rule(), "absolute"),
    "risk of a loss": lambda module: risk(np.full(1_000, 0.3), module.loss, high=1, name="loss"),
    "auc": lambda module: auc(module.Rule(), positives=300, negatives=300),
    "function": lambda module: mean(module.share, name="share"),
    "gradient": lambda module: gradient(module.vector, dimension=1, clip=1.0, name="vector", columns=["delay"]),
    "statistic": lambda module: low_sensitivity(module.statistic, 0.01, name="statistic", columns=["delay"]),
}


@pytest.mark.parametrize("training", [True, None], ids=["training", "made up"])
@pytest.mark.parametrize("kind", QUERIES)
def test_a_changed_module_does_not_get_the_old_answer(tmp_path, rule, kind, training):
    make = QUERIES[kind]
    with create(tmp_path, training=training, mechanism="privacy_budget", queries=30) as holdout:
        first = holdout.ask(make(rule()))
        assert (first.repeated, first.charged) == (False, 100)
        assert holdout.ask(make(rule())).repeated  # the same text, imported anew
        changed = rule()
        changed.THRESHOLD = 40
        assert not holdout.ask(make(changed)).repeated
        assert not holdout.ask(make(rule(threshold=60))).repeated
        assert not holdout.ask(make(rule(words="delay < THRESHOLD"))).repeated
        assert holdout.ask(make(rule())).repeated


class Opaque:
    """What it does cannot be seen from what it is made of: a file, a service, a clock."""

    n_features_in_ = 2
    limit = partial(float, 15.0)

    def __reduce__(self):
        return (Opaque, ())

    def predict(self, matrix):
        return (matrix[:, 0].astype(float) > getattr(np, "_limit_of_tests", 15.0)).astype(int)


def test_behaviour_on_training_rows_alone_tells_models_apart(tmp_path, monkeypatch):
    with create(tmp_path, mechanism="gaussian", queries=10) as holdout:
        first = holdout.ask(accuracy(Opaque()))
        assert holdout.ask(accuracy(Opaque())).repeated
        monkeypatch.setattr(np, "_limit_of_tests", 40.0, raising=False)
        assert content_digest(Opaque()) == content_digest(Opaque())
        changed = holdout.ask(accuracy(Opaque()))
    assert not changed.repeated
    assert changed.query != first.query


def double(values):
    return 2 * values


FEATURES, LABELS = np.random.default_rng(0).normal(size=(200, 3)), np.arange(200) % 2
MODELS = {
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
    "forest": RandomForestClassifier(5, random_state=0, n_jobs=2),
    "grid": GridSearchCV(LogisticRegression(), {"C": [1, 2]}),
    "function": make_pipeline(FunctionTransformer(double), LogisticRegression()),
}


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_is_the_same_after_saving_and_loading(kind):
    model = MODELS[kind].fit(FEATURES, LABELS)
    assert content_digest(model) == content_digest(pickle.loads(pickle.dumps(model)))
    assert content_digest(model) is not None


def test_the_words_of_a_vocabulary_are_no_order():
    assert content_digest({"b", "a", "c"}) == content_digest({"c", "b", "a"}) != content_digest({"a"})
    words = CountVectorizer(stop_words=["the", "a"]).fit(["the cat"])
    assert content_digest(words) == content_digest(pickle.loads(pickle.dumps(words)))


SCRIPT = """
import numpy as np
from everhold.queries.code import content_digest
WORDS = {"late", "early", "never", "soon"}
def chosen(table, words=frozenset(WORDS)):
    return np.isin(table["kind"], [w for w in words if w in {"late", "soon"}]) & (len(WORDS) > 1)
print(content_digest(chosen), content_digest(lambda table: chosen(table)))
"""


def test_another_process_with_other_hashes_finds_the_same_content():
    seen = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(seen) == 1
    assert "None" not in seen.pop()


def test_what_a_function_holds_belongs_to_it():
    def above(limit):
        return lambda table: table["x"] > limit

    assert content_digest(above(1)) == content_digest(above(1)) != content_digest(above(2))
    assert content_digest(partial(double, 1)) != content_digest(partial(double, 2))
    assert content_digest(np.sign) != content_digest(np.abs)
    assert content_digest(open) is not None
    itself = []
    itself.append(itself)
    assert content_digest(itself) == content_digest(itself)


def test_what_cannot_be_told_is_no_content():
    assert content_digest(x for x in ()) is None
    assert content_digest(partial(double, (x for x in ()))) is None


def test_the_last_digits_of_sums_do_not_count_and_others_do():
    values = np.random.default_rng(0).random(10_000)
    assert behaviour_digest([values]) == behaviour_digest([values * (1 + 1e-15)])
    assert behaviour_digest([values]) != behaviour_digest([values + 1e-5])
    assert behaviour_digest([np.array([0.5, np.nan])]) != behaviour_digest([np.array([0.5, np.inf])])
    assert behaviour_digest([np.array(["a", "bc"])]) != behaviour_digest([np.array(["ab", "c"])])
    assert behaviour_digest([np.zeros(2)]) == behaviour_digest([-np.zeros(2)]) != behaviour_digest([np.zeros((2, 1))])


@pytest.mark.parametrize("training", [True, None], ids=["training", "made up"])
def test_a_model_that_throws_dice_is_refused(tmp_path, training):
    class Dice:
        feature_names_in_ = ("delay",)

        def predict(self, frame):
            return np.random.default_rng().integers(0, 2, len(frame))

    with create(tmp_path, training=training, mechanism="gaussian", queries=5) as holdout:
        with pytest.raises(QueryRejected, match=r"different values for the same row.*Fix the seed"):
            holdout.ask(accuracy(Dice()))
        assert holdout.status()["charged"] == 0


def test_an_identity_does_not_depend_on_sealed_rows(tmp_path, rule):
    made = rule()
    queries = set()
    for name, seed in (("one", 0), ("other", 5)):
        with create(tmp_path, name, holdout=rows(seed), mechanism="gaussian", queries=5) as holdout:
            queries.add(holdout.quote(accuracy(made.Rule())).query)
    assert len(queries) == 1


def test_training_rows_are_predicted_once_for_identity_and_guess(tmp_path):
    counted = []

    class Counting:
        feature_names_in_ = ("delay",)

        def predict(self, frame):
            counted.append(len(frame))
            return (frame["delay"].to_numpy() > 15).astype(int)

    with create(tmp_path) as holdout:
        holdout.quote(accuracy(Counting()))
    assert counted == [1_000, 1_000, 500, 500]  # all; in another order; in two parts


WAYS_INTO_MODULES = {
    "a package": ("import own_package.inner.rules", "own_package.inner.rules.THRESHOLD"),
    "a module of a package": ("from own_package import inner", "inner.rules.THRESHOLD"),
    "a module by another name": ("import own_package.inner as known", "known.rules.THRESHOLD"),
    "a function of it": ("from own_package import inner", "inner.rules.threshold()"),
    "getattr": ("from own_package import inner", "getattr(inner.rules, 'THRESHOLD')"),
}


@pytest.mark.parametrize("way", WAYS_INTO_MODULES)
@pytest.mark.parametrize("inside", [True, False], ids=["imported inside", "imported outside"])
def test_code_is_followed_through_all_modules_of_ones_own(tmp_path, monkeypatch, way, inside):
    """A constant three modules away that moves no training row once gave the old answer."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "own_package" / "inner").mkdir(parents=True)
    (tmp_path / "own_package" / "__init__.py").write_text("from own_package import inner\n")
    (tmp_path / "own_package" / "inner" / "__init__.py").write_text("from own_package.inner import rules\n")
    imported, used = WAYS_INTO_MODULES[way]
    before, within = ("", f"    {imported}\n") if inside else (f"{imported}\n", "")
    (tmp_path / "own_rule.py").write_text(f"{before}def late(table):\n{within}    return table['delay'] > {used}\n")

    def content(threshold):
        (tmp_path / "own_package" / "inner" / "rules.py").write_text(
            f"THRESHOLD = {threshold}\ndef threshold():\n    return THRESHOLD\n"
        )
        for name in [name for name in sys.modules if name.startswith(("own_package", "own_rule"))]:
            monkeypatch.delitem(sys.modules, name)
        importlib.invalidate_caches()
        module = importlib.import_module("own_rule")
        importlib.import_module("own_package")
        return content_digest(module.late)

    assert content(1_000) == content(1_000) is not None
    assert content(1_000) != content(1_001)


def test_a_module_that_is_held_as_data_has_no_content():
    own = sys.modules["holdout_samples"]
    assert content_digest(partial(print, own)) is None
    assert content_digest(partial(print, np)) is not None


def test_a_package_of_another_environment_on_the_path_counts_by_its_name_and_version(tmp_path, monkeypatch):
    folder = tmp_path / "lib" / "site-packages"
    folder.mkdir(parents=True)
    lines = ["import threading", "class Model:", "    here = threading.local()", "    def __init__(self, number):"]
    (folder / "layered_model.py").write_text("\n".join([*lines, "        self.number = number"]))
    monkeypatch.syspath_prepend(str(folder))
    made = importlib.import_module("layered_model").Model
    assert content_digest(made(1)) == content_digest(made(1)) != content_digest(made(2))
    assert content_digest(made(1)) is not None
