"""Holdouts whose rows depend on each other: what is sealed, promised, certified and refused."""

import numpy as np
import pytest

import everhold as eh
from everhold.certificate import Certificate, verify_certificate
from everhold.errors import DependenceError, HoldoutRejected


def households(first, count, *, size=4, seed=0):
    rng = np.random.default_rng(seed)
    home = np.repeat(np.arange(first, first + count), size)
    sick = np.repeat(rng.integers(0, 2, count), size)
    return {"home": home, "sick": sick}


def sealed(path, **settings):
    wish = {"queries": 20, "overfits": 2, "dependence": eh.Groups("home")} | settings
    data = {"holdout": households(0, 500), "training": households(500, 500, seed=1)}
    return eh.Holdout.create(path, "homes", **(data | wish))


def test_the_promise_is_that_of_the_plan_under_the_sizes_found(tmp_path):
    with sealed(tmp_path / "s.db", mechanism="guess_and_check") as holdout:
        planned = eh.plan(rows=2_000, queries=20, overfits=2, dependence=eh.Groups(4))
        assert holdout.promise.radius == planned.line("guess_and_check").radius
        assert holdout.mechanism.effective_rows(2_000) == 500.0


@pytest.mark.parametrize("mechanism", ["guess_and_check", "gaussian", "thresholdout", "laplace"])
def test_every_answer_and_certificate_follows_the_dependence(tmp_path, mechanism):
    many = {"holdout": households(0, 4_000), "training": households(4_000, 500, seed=1)}
    for dependence, path in ((None, "free.db"), (eh.Groups("home"), "tied.db")):
        with sealed(tmp_path / path, mechanism=mechanism, dependence=dependence, **many) as holdout:
            answer = holdout.ask("sick > 0.5")
            holdout.certificate().save(tmp_path / f"{path}.json")
            if dependence is None:
                free = answer.high - answer.low
    assert answer.high - answer.low > free
    assert verify_certificate(tmp_path / "tied.db.json").ok
    said = Certificate.load(tmp_path / "tied.db.json").to_dict()
    assert said["assumptions"]["dependence"] == {"kind": "groups", "column": "home", "counts": [[4, 4000]]}
    assert "4,000 groups" in said["assumptions"]["stated"][0]
    assert "independent groups of rows" in said["promise"]["sentence"]


def test_a_reopened_holdout_has_the_same_promise(tmp_path):
    with sealed(tmp_path / "s.db") as holdout:
        promise = holdout.promise
    with eh.Holdout.open(tmp_path / "s.db", "homes") as again:
        assert again.promise == promise


def test_a_mechanism_tuned_for_groups_of_four_is_bound_to_the_column(tmp_path):
    tuned = eh.plan(rows=2_000, queries=20, overfits=2, dependence=eh.Groups("home").of_counts({4: 1})).best.tuned
    with sealed(tmp_path / "s.db", mechanism=tuned, dependence=None) as holdout:
        assert holdout.mechanism.dependence.rows == 2_000


def test_another_dependence_than_the_mechanisms_is_refused(tmp_path):
    tuned = eh.plan(rows=2_000, queries=20, overfits=2).best.tuned
    with pytest.raises(HoldoutRejected, match=r"another dependence"):
        sealed(tmp_path / "s.db", mechanism=tuned)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"dependence": eh.Groups("house")}, "'house' of the dependence does not exist"),
        ({"dependence": eh.Groups(7)}, "the groups have 7 rows and the holdout has 2000"),
        ({"training": households(499, 10)}, "1 groups of column 'home' have rows in the holdout and in the training"),
        ({"mechanism": "sample_splitting"}, "sample splitting needs independent rows"),
    ],
)
def test_a_dependence_that_does_not_match_creates_nothing(tmp_path, settings, reason):
    with pytest.raises(DependenceError, match=reason):
        sealed(tmp_path / "s.db", **settings)
    assert not list(tmp_path.iterdir())


def test_an_answer_explains_what_the_dependence_costs(tmp_path):
    with sealed(tmp_path / "s.db") as holdout:
        assert "2,000 sealed rows are worth 500 independent ones" in holdout.ask("sick > 0.5").explain()
