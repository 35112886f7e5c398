"""Holdouts whose rows depend on each other: what is sealed, promised, certified and refused."""

import math

import numpy as np
import pandas as pd
import pytest
from vega_datasets import data

import everhold as eh
from everhold.asking.creation import settings_from
from everhold.certificate import Certificate, verify_certificate
from everhold.errors import DependenceError, HoldoutRejected


def households(first, count, *, size=4, seed=0):
    rng = np.random.default_rng(seed)
    home = np.repeat(np.arange(first, first + count), size)
    sick = np.repeat(rng.integers(0, 2, count), size)
    return {"home": home, "sick": sick}


def sealed(path, **settings):
    wanted = {"queries": 20, "surprises": 2, "dependence": eh.Groups("home")} | settings
    data = {"holdout": households(0, 500), "training": households(500, 500, seed=1)}
    return eh.Holdout.create(path, "homes", **settings_from(data | wanted))


def test_the_promise_is_that_of_the_plan_under_the_sizes_found(tmp_path):
    with sealed(tmp_path / "s.db", mechanism="guess_and_check") as holdout:
        planned = eh.plan(rows=2_000, queries=20, surprises=2, dependence=eh.Groups(4))
        assert holdout.promise.radius == planned.line("guess_and_check").radius
        assert holdout.mechanism.effective_rows(2_000) == 500.0


@pytest.mark.parametrize("mechanism", ["guess_and_check", "gaussian", "thresholdout", "laplace"])
def test_every_answer_and_certificate_follows_the_dependence(tmp_path, mechanism):
    many = {"holdout": households(0, 4_000), "training": households(4_000, 500, seed=1)}
    free = eh.plan(rows=16_000, queries=20, surprises=2).line(mechanism).radius
    with sealed(tmp_path / "s.db", mechanism=mechanism, **many) as holdout:
        answer = holdout.ask("sick > 0.5")
        assert holdout.promise.radius > 1.2 * free
        holdout.certificate().save(tmp_path / "c.json")
    assert answer.high - answer.low > 1.2 * free
    assert verify_certificate(tmp_path / "c.json").ok
    said = Certificate.load(tmp_path / "c.json").in_words()
    assert said["assumptions"]["dependence"] == {"kind": "groups", "column": "home", "counts": [[4, 4000]]}
    assert "4,000 groups" in said["assumptions"]["stated"][0]
    assert "independent groups of rows" in said["promise"]["sentence"]


def test_a_reopened_holdout_has_the_same_promise(tmp_path):
    with sealed(tmp_path / "s.db") as holdout:
        promise = holdout.promise
    with eh.Holdout.open(tmp_path / "s.db", "homes") as again:
        assert again.promise == promise


def test_a_mechanism_tuned_for_groups_of_four_is_bound_to_the_column(tmp_path):
    tuned = eh.plan(rows=2_000, queries=20, surprises=2, dependence=eh.Groups("home").of_counts({4: 1})).best.tuned
    with sealed(tmp_path / "s.db", mechanism=tuned, dependence=None) as holdout:
        assert holdout.mechanism.dependence.rows == 2_000


def test_another_dependence_than_the_mechanisms_is_refused(tmp_path):
    tuned = eh.plan(rows=2_000, queries=20, surprises=2).best.tuned
    with pytest.raises(HoldoutRejected, match=r"another dependence"):
        sealed(tmp_path / "s.db", mechanism=tuned)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"dependence": eh.Groups("house")}, "'house' of the dependence does not exist"),
        ({"dependence": eh.Groups(7)}, "The groups have 7 rows in all, and the holdout has 2000"),
        ({"training": households(499, 10)}, "1 group of column 'home' has rows in the holdout and in the training"),
        ({"mechanism": "sample_splitting"}, "Sample splitting needs independent rows"),
    ],
)
def test_a_dependence_that_does_not_match_creates_nothing(tmp_path, settings, reason):
    with pytest.raises(DependenceError, match=reason):
        sealed(tmp_path / "s.db", **settings)
    assert not list(tmp_path.iterdir())


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(DependenceError, match=r"is a str\. Pass a model such as eh\.Groups"):
        sealed(tmp_path / "s.db", dependence="independent")
    with pytest.raises(DependenceError, match=r"is a str\. Pass a model such as eh\.Groups"):
        eh.plan(rows=100, queries=20, dependence="groups")
    assert not list(tmp_path.iterdir())


def test_an_answer_explains_what_the_dependence_costs(tmp_path):
    with sealed(tmp_path / "s.db", mechanism="guess_and_check") as holdout:
        said = "2,000 rows are worth 498 independent ones"  # homes are sick as a whole; two are caution
        assert said in holdout.ask("sick > 0.5").explain()
    with sealed(tmp_path / "g.db", mechanism="gaussian") as holdout:
        assert "tell about each other make it wider" in holdout.ask("sick > 0.5").explain()


@pytest.mark.filterwarnings("ignore::everhold.errors.DependenceWarning")  # seasons last longer than any chain of days
class TestSeattleWeather:
    """Daily weather of a real city: learn from two years, leave two weeks out, seal the next two."""

    weather = data.seattle_weather().assign(rain=lambda days: (days["precipitation"] > 0).astype(int))
    past = weather[weather["date"] < "2014-01-01"]
    future = weather[weather["date"] >= "2014-01-15"]

    def create(self, path, dependence, **settings):
        wanted = {"holdout": self.future, "training": self.past, "queries": 10, "surprises": 1} | settings
        return eh.Holdout.create(
            path, "weather", dependence=dependence, mechanism="guess_and_check", **settings_from(wanted)
        )

    def test_a_fitted_chain_reaches_the_certificate(self, tmp_path):
        chain = eh.MarkovChain.fit(self.past, order_by="date", state="rain", gap=14)
        with self.create(tmp_path / "s.db", chain) as holdout:
            assert holdout.mechanism.dependence.lengths == ((716, 1),)
            assert holdout.mechanism.beta < 0.05 - 0.01
            answer = holdout.ask("precipitation > 5")
            holdout.certificate().save(tmp_path / "c.json")
            words = holdout.certificate().in_words()
        assert answer.low < float((self.weather["precipitation"] > 5).mean()) < answer.high
        assert verify_certificate(tmp_path / "c.json").ok
        assert "14 rows are left out" in words["assumptions"]["stated"][0]
        assert "Beta is smaller" in words["theorem"]["says"]

    def test_the_numbers_of_a_chain_are_those_of_its_effective_rows(self, tmp_path):
        chain = eh.MarkovChain.fit(self.past, order_by="date", state="rain", gap=14)
        with self.create(tmp_path / "s.db", chain) as holdout:
            worth = holdout.mechanism.effective_rows(716)
            assert 100 < worth < 716 / 2
            assert f"{int(worth):,} independent ones" in holdout.ask("rain = 1").explain()

    def test_without_a_gap_that_is_declared_nothing_is_sealed(self, tmp_path):
        chain = eh.MarkovChain.fit(self.past, order_by="date", state="rain")
        with pytest.raises(DependenceError, match=r"gap"):
            self.create(tmp_path / "s.db", chain)

    def test_training_days_among_the_sealed_ones_are_refused(self, tmp_path):
        chain = eh.MarkovChain([[0.7, 0.3], [0.3, 0.7]], order_by="date", state="rain", gap=0)
        mixed = {"holdout": self.weather[::2], "training": self.weather[1::2]}
        with pytest.raises(DependenceError, match=r"among|between"):
            self.create(tmp_path / "s.db", chain, **mixed)

    @pytest.mark.parametrize(
        ("settings", "reason"),
        [
            ({"order_by": None}, "order"),
            ({"order_by": "day"}, "does not exist"),
            ({"state": "weather"}, "states"),
            ({"order_by": "weather"}, "does not put the rows in order"),
        ],
    )
    def test_a_chain_that_does_not_match_the_rows(self, tmp_path, settings, reason):
        named = {"order_by": "date", "state": "rain", "gap": 14} | settings
        with pytest.raises(DependenceError, match=reason):
            self.create(tmp_path / "s.db", eh.MarkovChain([[0.7, 0.3], [0.3, 0.7]], **named))

    @pytest.mark.parametrize(
        ("gap", "training", "reason"),
        [
            (15, slice(None), "a training row is 15 steps from a sealed row"),
            (14, slice(None, None, 10), "10 times as far apart"),
        ],
    )
    def test_what_the_order_column_contradicts_is_refused(self, tmp_path, gap, training, reason):
        past = self.past[: 1 + 10 * ((len(self.past) - 1) // 10)][training] if training.step else self.past
        chain = eh.MarkovChain.fit(past, order_by="date", state="rain", gap=gap)
        with pytest.raises(DependenceError, match=reason):
            self.create(tmp_path / "s.db", chain, training=past)

    @pytest.mark.parametrize("fit", [eh.MarkovChain.fit, eh.GaussianAR1.fit])
    @pytest.mark.parametrize("with_training", [True, False])
    def test_a_model_of_weekly_rows_does_not_serve_daily_ones(self, tmp_path, fit, with_training):
        state = "rain" if fit == eh.MarkovChain.fit else "temp_max"
        weekly = self.past[::7].assign(temp_max=np.random.default_rng(0).normal(size=len(self.past[::7])))
        model = fit(weekly, order_by="date", state=state, gap=14)
        assert model.step == 7 * 86_400
        with pytest.raises(DependenceError, match="fitted to are 7 times as far apart"):
            self.create(tmp_path / "s.db", model, training=self.past if with_training else None)

    def test_a_gaussian_series(self, tmp_path):
        series = eh.GaussianAR1(0.6, order_by="date", state="wind", gap=14)
        with self.create(tmp_path / "s.db", series) as holdout:
            assert holdout.mechanism.effective_rows(716) == pytest.approx(716 * 0.4 / 1.6, rel=1e-6)

    def test_a_series_of_a_column_that_does_not_exist(self, tmp_path):
        with pytest.raises(DependenceError, match=r"'breeze' of the dependence does not exist"):
            self.create(tmp_path / "s.db", eh.GaussianAR1(0.6, order_by="date", state="breeze", gap=14))

    def test_declared_independent_a_warning_names_the_column(self, tmp_path):
        with pytest.warns(eh.DependenceWarning, match=r"'date' resemble each other in 'rain'.*and 731 are promised"):
            self.create(tmp_path / "s.db", None, label="rain")

    def test_seasons_last_longer_than_a_chain_of_days(self, tmp_path):
        chain = eh.MarkovChain.fit(self.past, order_by="date", state="rain", gap=14)
        with pytest.warns(eh.DependenceWarning, match="block"):
            holdout = self.create(tmp_path / "s.db", chain)
        with holdout, pytest.warns(eh.DependenceWarning, match="temp_max > 20.*Nothing was charged yet"):
            holdout.ask("temp_max > 20")


class LastVisit:
    """An estimator that says of every patient what somebody saw of them last."""

    feature_names_in_ = ("patient",)

    def __init__(self, seen):
        self.seen = seen

    def predict(self, table):
        return self.seen[np.ravel(table).astype(int)]


class TestGapRowsThatSomebodyHasSeen:
    """2,000 patients: 5 open visits, 20 that are left out, 3 that are sealed; the state changes at every fourth visit.

    Whoever asks has seen the last visit before the sealed ones, which is neither open nor sealed.
    """

    patients, opened, left_out, sealed_visits = 2_000, 5, 20, 3

    def visits(self, seed):
        rng = np.random.default_rng(seed)
        changes = rng.random((self.patients, self.opened + self.left_out + self.sealed_visits)) < 0.25
        changes[:, 0] = rng.random(self.patients) < 0.5
        return np.logical_xor.accumulate(changes, axis=1).astype(int)

    def table(self, state, *, first):
        patient, visit = np.indices(state.shape)
        return {"patient": patient.ravel(), "visit": first + visit.ravel(), "state": state.ravel()}

    def create(self, path, state, *, gap, mechanism="guess_and_check", fitted=False):
        training = self.table(state[:, : self.opened], first=0)
        named = {"order_by": "visit", "state": "state", "groups": "patient", "gap": gap}
        chain = eh.MarkovChain([[0.75, 0.25], [0.25, 0.75]], **named)
        if fitted:
            chain = eh.MarkovChain.fit(training, **named)
        first = self.opened + self.left_out
        return eh.Holdout.create(
            path, "visits", holdout=self.table(state[:, first:], first=first), training=training, label="state",
            mechanism=mechanism, queries=20, surprises=2, dependence=chain, planning=eh.Planning(allow_vacuous=True),
        )  # fmt: skip

    def asked(self, holdout, state):
        """How many are as they were at the last visit that is not sealed: half of the population."""
        return holdout.ask(eh.accuracy(LastVisit(state[:, self.opened + self.left_out - 1])), guess=0.5)

    @pytest.mark.parametrize("fitted", [False, True])
    def test_declared_truly_no_visit_is_unseen_and_nothing_is_promised(self, tmp_path, fitted):
        with pytest.raises(DependenceError, match=r"fails with probability 1(\.01)?.* Leave a larger gap"):
            self.create(tmp_path / "s.db", self.visits(0), gap=0, fitted=fitted)
        assert not list(tmp_path.iterdir())

    @pytest.mark.filterwarnings("ignore::everhold.VacuousGuaranteeWarning")
    def test_declared_truly_the_promise_of_noisy_answers_holds(self, tmp_path):
        for seed in range(5):
            state = self.visits(seed)
            with self.create(tmp_path / f"{seed}.db", state, gap=0, mechanism="gaussian") as holdout:
                answer = self.asked(holdout, state)
                assert answer.low <= 0.5 <= answer.high

    @pytest.mark.filterwarnings("ignore::everhold.DependenceWarning")
    def test_declared_falsely_the_promise_fails_and_the_certificate_names_what_was_assumed(self, tmp_path):
        for seed in range(5):
            state = self.visits(seed)
            with self.create(tmp_path / f"{seed}.db", state, gap=self.left_out) as holdout:
                answer = self.asked(holdout, state)
                assert not answer.low <= 0.5 <= answer.high
                assumed = holdout.certificate().in_words()["assumptions"]
        assert "nobody who asks has seen any of these 20 rows" in assumed["stated"][0]
        assert any("other rows that depend on the sealed ones" in said for said in assumed["always"])
        assert any("whoever knows the last visit before the sealed ones" in said for said in assumed["how_to_tell"])

    def test_more_than_was_left_out_cannot_be_declared(self, tmp_path):
        with pytest.raises(DependenceError, match="is 21 steps from a sealed row of its series, where at least 22"):
            self.create(tmp_path / "s.db", self.visits(0), gap=21)


def test_a_pedigree_reaches_the_certificate(tmp_path):
    people = {}
    for family in range(400):
        people |= {f"f{family}": (None, None), f"m{family}": (None, None)}
        people |= {f"c{family}.{child}": (f"f{family}", f"m{family}") for child in range(2)}
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"person": list(people), "copies": rng.integers(0, 3, len(people))})
    family = eh.pedigree(people, allele_frequency=0.3, row="person")
    with eh.Holdout.create(
        tmp_path / "s.db", "genes", holdout=rows, dependence=family, mechanism="gaussian", queries=3
    ) as holdout:
        groups = eh.plan(rows=1_600, queries=3, surprises=1, dependence=eh.Groups(4)).line("gaussian").radius
        assert holdout.promise.radius <= groups * (1 + 1e-9)
        holdout.certificate().save(tmp_path / "c.json")
    assert verify_certificate(tmp_path / "c.json").ok
    with eh.Holdout.open(tmp_path / "s.db", "genes") as again:
        assert again.mechanism.dependence == family


def test_a_chain_with_another_series_as_training_rows(tmp_path):
    rng = np.random.default_rng(1)
    rows = {"day": np.arange(600), "on": rng.integers(0, 2, 600)}
    chain = eh.MarkovChain([[0.5, 0.5], [0.5, 0.5]], order_by="day", state="on", gap=math.inf)
    with pytest.warns(eh.DependenceWarning, match="Training rows lie among") as caught:
        holdout = eh.Holdout.create(
            tmp_path / "s.db", "s", holdout=rows, training=rows, dependence=chain, queries=3, surprises=1
        )
    with holdout:
        assert caught[0].filename == __file__
        assert holdout.mechanism.effective_rows(600) == pytest.approx(600.0)


def series_rows(**columns):
    return pd.DataFrame({"on": np.arange(10) % 2, **columns})


@pytest.mark.filterwarnings("ignore::everhold.errors.ColumnWarning")  # of an order that is numbers written as text
@pytest.mark.parametrize(
    ("sealed_order", "training_order", "reason"),
    [
        ([str(k) for k in range(10)], [str(k) for k in range(20, 30)], "'10' comes before '9'"),
        (
            pd.date_range("2020-02-01", periods=10),
            pd.date_range("2020-01-01", periods=10, tz="UTC"),
            "Convert one of them",
        ),
        (range(10), range(-14, -4), "steps from a sealed row"),
    ],
)
def test_orders_that_do_not_mean_what_they_seem(tmp_path, sealed_order, training_order, reason):
    chain = eh.MarkovChain([[0.5, 0.5], [0.4, 0.6]], order_by="at", state="on", gap=7)
    with pytest.raises(DependenceError, match=reason):
        eh.Holdout.create(
            tmp_path / "s.db", holdout=series_rows(at=sealed_order), training=series_rows(at=training_order),
            dependence=chain,
        )  # fmt: skip


def test_days_as_text_are_an_order():
    days = pd.date_range("2020-01-01", periods=200).strftime("%Y-%m-%d")
    chain = eh.MarkovChain.fit({"day": days, "on": np.arange(200) // 3 % 2}, order_by="day", state="on")
    assert chain.transition[0][1] == pytest.approx(1 / 3, abs=0.05)
    with pytest.raises(DependenceError, match=r"do not put rows in order"):
        eh.MarkovChain.fit({"day": [str(k) for k in range(200)], "on": np.arange(200) % 2}, order_by="day", state="on")


@pytest.mark.parametrize("reveal", ["checked", "all"])
def test_a_batch_of_bets_is_as_narrow_as_many_small_groups_allow_beside_a_large_one(tmp_path, reveal):
    def unequal(first, seed):
        home = np.repeat(np.arange(first, first + 4_001), [1] * 4_000 + [200])
        return {"home": home, "x": np.random.default_rng(seed).normal(size=len(home))}

    data = {"holdout": unequal(0, 1), "training": unequal(4_001, 2)}
    with sealed(tmp_path / "s.db", mechanism="guess_and_check", **data) as holdout:
        for answer in holdout.ask_many(["x > 0", "x > 2", eh.mean("x", low=-3, high=3)], reveal=reveal):
            assert "betting on sums of groups" in answer.explain()
            width = (answer.high - answer.low) / (6.0 if "mean" in answer.shown else 1.0)
            assert 0.0 < width < 0.2  # Hoeffding's for the effective rows is .22 at 8 nats
