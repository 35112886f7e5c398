"""What a transcript has told: monotone, never above the plan, exact where the mix was fixed."""

from types import SimpleNamespace

import numpy as np
import pytest

import everhold as eh
from everhold.asking.creation import settings_from
from everhold.mechanisms import MECHANISMS, State
from everhold.queries import KINDS
from everhold_privacy.curves import BoundedRangeCurve, GaussianCurve, ZeroConcentratedCurve
from everhold_privacy.mechanisms.additive import GaussianMechanism
from everhold_privacy.mechanisms.privacy_budget import PrivacyBudget
from everhold_privacy.mechanisms.thresholdout import Thresholdout
from everhold_privacy.spending import _curve, _family, spending

DELTA = 1e-6
NOISY = sorted(
    set(MECHANISMS) - {"guess_and_check", "sample_splitting", "empirical", "ladder", "random_rows", "silent"}
)


def entry(kind, charged):
    return SimpleNamespace(description={"kind": kind}, charged=charged)


def told(mechanism, *entries):
    state = State(asked=len(entries), charged=sum(one.charged for one in entries))
    return spending(mechanism, state, entries, delta=DELTA)


@pytest.fixture(scope="module")
def budget():
    return PrivacyBudget.tuned(rows=20_000, queries=100)


def mechanism_of(name):
    wanted = {"surprises": 3} if name == "thresholdout" else {}
    return MECHANISMS[name].tuned(rows=20_000, queries=100, **wanted)


@pytest.mark.parametrize("name", NOISY)
def test_what_was_told_grows_up_to_the_plan(name):
    mechanism = mechanism_of(name)
    price = 100 if name == "privacy_budget" else 1
    states = [State(), State(asked=10, charged=1 if name == "thresholdout" else 10 * price)]
    states.append(State(asked=100, charged=3 if name == "thresholdout" else 100 * price))
    epsilons = [spending(mechanism, state, [], delta=DELTA).epsilon for state in states]
    assert epsilons[0] == 0.0
    assert 0.0 < epsilons[1] < epsilons[2]
    assert epsilons[2] == pytest.approx(spending(mechanism, states[2], [], delta=DELTA).epsilon_planned)


@pytest.mark.parametrize("name", ["guess_and_check", "sample_splitting", "empirical", "ladder", "random_rows"])
def test_without_noise_there_is_no_epsilon(name):
    spent = told(mechanism_of(name), entry("mean", 1))
    assert (spent.answers, spent.epsilon, spent.epsilon_if_fixed, spent.epsilon_planned) == (1, None, None, None)


def test_means_of_any_price_are_one_gaussian_if_fixed(budget):
    spent = told(budget, *[entry("mean", 100)] * 30, *[entry("risk", 50)] * 20)
    mu = (2.0 * budget.curve().rho * 0.4) ** 0.5
    assert spent.epsilon_if_fixed == pytest.approx(GaussianCurve(mu).epsilon(DELTA), abs=1e-7)
    assert spent.epsilon_if_fixed < spent.epsilon < spent.epsilon_planned


def test_one_choice_has_the_curve_of_its_bounded_range(budget):
    spent = told(budget, entry("choice", 1_000))
    exact = BoundedRangeCurve((8.0 * budget.curve().rho * 0.1) ** 0.5).epsilon(DELTA)
    assert spent.epsilon_if_fixed == pytest.approx(exact, abs=1e-7)


def test_a_mix_is_composed_by_its_loss_distributions(budget):
    alone = told(budget, *[entry("mean", 100)] * 30)
    mixed = told(budget, *[entry("mean", 100)] * 30, *[entry("quantile", 500)] * 4)
    assert alone.epsilon_if_fixed < mixed.epsilon_if_fixed < mixed.epsilon


def test_the_epoch_in_progress_counts_for_thresholdout():
    mechanism = Thresholdout.tuned(rows=20_000, queries=100, surprises=3)
    one = spending(mechanism, State(asked=5, charged=0), [], delta=DELTA).epsilon
    assert 0.0 < one < spending(mechanism, State(asked=5, charged=1), [], delta=DELTA).epsilon


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, float("nan")])
def test_a_delta_that_makes_no_sense(delta):
    with pytest.raises(ValueError, match="delta is"):
        spending(GaussianMechanism.tuned(rows=1_000, queries=10), State(), [], delta=delta)


def sealed(tmp_path, **wanted):
    rows = {"delay": np.random.default_rng(0).normal(10.0, 20.0, 5_000)}
    return eh.Holdout.create(
        tmp_path / "s.db", "flights", holdout=rows, mechanism="privacy_budget", queries=40, **settings_from(wanted)
    )


def test_a_holdout_says_what_it_told(tmp_path):
    with sealed(tmp_path) as holdout:
        before = holdout.spent()
        for cut in range(5):
            holdout.ask(f"delay > {cut}")
        holdout.ask(eh.private_quantile("delay", low=0, high=20, bins=10, price=300))
        after = holdout.spent()
    assert (before.answers, before.epsilon, before.epsilon_if_fixed) == (0, 0.0, None)
    assert after.answers == 6
    assert 0.0 < after.epsilon_if_fixed < after.epsilon < after.epsilon_planned == before.epsilon_planned


def test_noise_that_can_be_predicted_hides_nothing(tmp_path):
    with sealed(tmp_path, seed=1) as holdout:
        holdout.ask("delay > 1")
        assert holdout.spent().epsilon is None


def test_what_was_told_is_one_line_rounded_up(budget):
    spent = told(budget, *[entry("mean", 100)] * 30)
    assert f"30 answers so far told about any one row at most epsilon {np.ceil(spent.epsilon * 1e4) / 1e4:.4f}" in str(
        spent
    )
    assert "without secret noise" in str(told(mechanism_of("guess_and_check"), entry("mean", 1)))


def test_a_mix_whose_composition_gains_nothing_has_no_second_number(budget, monkeypatch):
    monkeypatch.setattr("everhold_privacy.spending._if_fixed", lambda *_, **__: 99.0)
    assert told(budget, entry("mean", 100)).epsilon_if_fixed is None


def test_every_entry_that_everhold_writes_has_a_known_loss_and_no_other_passes_for_noise():
    recorded = [name for kind in KINDS for name in kind.recorded]
    assert len(set(recorded)) == len(recorded)
    assert {kind.loss for kind in KINDS} == {"noise", "choice", "mixed"}
    assert all(kind.recorded for kind in KINDS if kind.loss != "mixed")
    assert isinstance(_curve(_family(entry("something new", 100)), 0.1), ZeroConcentratedCurve)
