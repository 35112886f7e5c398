"""One budget for means of any accuracy and for choices: the filter never overspends, and every promise holds."""

import math
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everhold.dependence import Groups
from everhold.mechanisms import Source, State
from everhold.mechanisms.records import Evaluations
from everhold.randomness import NoNoise, SeededNoise
from everhold.values.evaluation import UNIT
from everhold_privacy.guarantees import gaussian_exceedance
from everhold_privacy.mechanisms.additive import GaussianMechanism
from everhold_privacy.mechanisms.privacy_budget import CREDITS, PrivacyBudget, allowance, least_steps
from everhold_privacy.mechanisms.selection import PaidSelection

MECHANISM = PrivacyBudget.tuned(rows=50_000, queries=100)


def evaluations(means, tolerances=None, rows=50_000):
    totals = np.round(np.asarray(means)[:, None] * rows * UNIT).astype(np.int64)
    return Evaluations(totals, np.full(len(means), -1), rows, tolerances=tolerances)


def rho_of(mechanism, scale):
    """Zero-concentrated privacy of one mean with discrete Gaussian noise, exactly."""
    return Fraction(mechanism.unit**2, 2 * mechanism.scale_on_grid(scale) ** 2)


@given(st.lists(st.floats(0.02, 0.4), min_size=1, max_size=300), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_what_is_answered_never_costs_more_than_the_budget(tolerances, seed):
    requested = np.array(
        [t for t in tolerances if t > 1.01 * MECHANISM.radius_at(least_steps(MECHANISM) / MECHANISM.steps)]
    )
    state, replies = MECHANISM.answer_many(
        State(), evaluations(np.full(len(requested), 0.4), requested), SeededNoise(seed)
    )
    answered = replies.sources == Source.HOLDOUT
    spent = sum((rho_of(MECHANISM, MECHANISM.scale_for(t)) for t in requested[answered]), Fraction(0))
    assert spent <= MECHANISM.queries * rho_of(MECHANISM, MECHANISM.scale)
    assert state.charged == replies.charged.sum() <= MECHANISM.credits
    assert state.asked == answered.sum() <= MECHANISM.queries


def test_the_budget_is_what_the_curve_says():
    total = MECHANISM.queries * rho_of(MECHANISM, MECHANISM.scale)
    assert math.isclose(MECHANISM.curve().rho, float(total), rel_tol=1e-12)


@pytest.mark.parametrize("price", [1, CREDITS, 7 * CREDITS])
def test_a_choice_is_as_private_as_it_costs(price):
    epsilon = PaidSelection(MECHANISM, price).mechanism.epsilon
    assert epsilon**2 / 8 <= price / CREDITS * float(rho_of(MECHANISM, MECHANISM.scale))
    assert epsilon**2 / 8 >= 0.999 * price / CREDITS * float(rho_of(MECHANISM, MECHANISM.scale))


@pytest.mark.parametrize("factor", [0.05, 0.3, 1.0, 4.0, 60.0])
def test_every_scale_adds_the_same_exceedance(factor):
    own = MECHANISM._sampling()[1] / MECHANISM.queries
    scale = factor * MECHANISM.scale
    added = gaussian_exceedance(alpha=allowance(MECHANISM, scale), scale=scale, answers=1)
    assert own * (1 - 1e-6) <= added <= own


@pytest.mark.parametrize("price", [1, CREDITS, 20 * CREDITS])
def test_a_choice_adds_no_more_exceedance_than_a_mean(price):
    """As a query its value is half the regret, so half of its exceedance at twice the allowance counts."""
    bound = MECHANISM._bound()
    paid = PaidSelection(MECHANISM, price)
    alpha = paid.regret(50) - 2 * (bound.radius - bound.alpha) - MECHANISM.rounding
    added = paid.mechanism.exceedance(max(alpha, 0.0), candidates=50, steps=MECHANISM.steps)
    assert paid.regret(50) == 1.0 or added / 2 <= MECHANISM._sampling()[1] / MECHANISM.queries


def test_a_requested_tolerance_is_kept_at_the_least_price():
    for tolerance in (0.06, 0.1, 0.3):
        scale = MECHANISM.scale_for(tolerance)
        assert MECHANISM.radius_at(scale) <= tolerance
        assert MECHANISM.radius_at(1.001 * scale) > tolerance


def test_a_tolerance_that_nothing_can_pay_for_is_refused():
    with pytest.raises(ValueError, match=r"cannot pay for less than 0\.\d+\. Pass a larger tolerance"):
        MECHANISM.scale_for(1e-4)


def test_intervals_are_as_wide_as_was_requested():
    planned = MECHANISM.promise().radius
    requested = np.array([0.8 * planned, math.nan, 4 * planned])
    _, replies = MECHANISM.answer_many(State(), evaluations([0.5, 0.5, 0.5], requested), SeededNoise(0))
    reach = np.maximum(replies.highs - replies.values, replies.values - replies.lows)
    assert reach[0] <= requested[0] < reach[1] <= planned < reach[2] <= requested[2]
    assert replies.charged[0] > CREDITS == replies.charged[1] > replies.charged[2]


def test_an_unaffordable_query_is_skipped_and_a_cheaper_one_answered():
    dear, cheap = MECHANISM.radius_at(MECHANISM.scale / 5), 0.3
    _, replies = MECHANISM.answer_many(
        State(asked=5, charged=MECHANISM.credits - CREDITS),
        evaluations([0.5, 0.5], np.array([dear, cheap])),
        SeededNoise(0),
    )
    assert replies.sources.tolist() == [Source.REFUSED, Source.HOLDOUT]


def test_a_mix_costs_little_more_than_gaussian_noise_alone():
    alone = GaussianMechanism.tuned(rows=50_000, queries=100).promise().radius
    assert alone < MECHANISM.promise().radius < 1.1 * alone


def test_dependent_rows_widen_means_and_regrets():
    tied = PrivacyBudget.tuned(rows=50_000, queries=100, dependence=Groups(4))
    assert tied.promise().radius > 1.5 * MECHANISM.promise().radius
    assert PaidSelection(tied).regret(10) > PaidSelection(MECHANISM).regret(10)


def test_choices_end_with_the_credits():
    losses = np.array([3, 1, 2]) * MECHANISM.steps // 10
    state, first = PaidSelection(MECHANISM, MECHANISM.credits - 1).choose(State(), losses, SeededNoise(1))
    assert (first.index, first.charged, state.asked) == (1, MECHANISM.credits - 1, 1)
    with pytest.raises(ValueError, match="price is 2, more than the budget can pay"):
        PaidSelection(MECHANISM, 2).choose(state, losses, NoNoise())


@pytest.mark.parametrize("price", [0, -3, 1.5, True])
def test_prices_that_are_no_credits_are_refused(price):
    with pytest.raises(ValueError, match=re.escape(f"price is {price}. Pass a whole number of at least 1.")):
        PaidSelection(MECHANISM, price)


def test_a_choice_needs_a_candidate_and_records_whole_credits():
    with pytest.raises(ValueError, match="Pass one loss for each of at least 1 candidate"):
        PaidSelection(MECHANISM, 5).choose(State(), np.array([], dtype=np.int64), SeededNoise(0))
    state, choice = PaidSelection(MECHANISM, np.int64(5)).choose(State(), np.array([1]), SeededNoise(0))
    assert (type(state.charged), type(choice.charged)) == (int, int)
    with pytest.raises(ValueError, match=r"candidates is 2\.5"):
        PaidSelection(MECHANISM, 5).regret(2.5)


@pytest.mark.slow
def test_an_analyst_who_chooses_the_luckiest_of_many_is_held_to_the_truth():
    """Labels are coins. Rules are chosen on the holdout, then scored there: nothing may look better than it is."""
    rows, rules = 2_000, 400
    mechanism = PrivacyBudget.tuned(rows=rows, queries=40, confidence=0.9)
    broken_bare, broken = 0, 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        hits = rng.integers(0, 2, (rules, rows))  # each rule is right for each row with probability 1/2
        totals, noise, state = hits.sum(axis=1), SeededNoise(seed), State()
        broken_bare += totals.max() / rows - 0.5 > 0.025
        claims = []
        for part in np.array_split(np.arange(rules), 10):
            state, choice = PaidSelection(mechanism).choose(state, (rows - totals[part]) * UNIT, noise)
            best = part[choice.index]
            state, score = mechanism.answer_many(state, evaluations([totals[best] / rows], rows=rows), noise)
            claims.append((choice.regret, score.lows[0], score.highs[0]))
        broken += any(regret < 0 or not low <= 0.5 <= high for regret, low, high in claims)
    assert broken_bare > 50  # what the best rule seems to be worth, and no rule is
    assert broken <= 6


def test_the_regret_of_choices_holds_and_a_bound_a_tenth_as_large_would_not():
    """Thirty models with error rates from 0.1 to 0.4; the truth is known, so the regret of every choice is."""
    rows, rates = 2_000, np.linspace(0.1, 0.4, 30)
    mechanism = PrivacyBudget.tuned(rows=rows, queries=40, confidence=0.9)
    stated, true = [], []
    for seed in range(40):
        losses = np.random.default_rng(seed).binomial(rows, rates) * UNIT
        _, choice = PaidSelection(mechanism).choose(State(), losses, SeededNoise(seed))
        stated.append(choice.regret)
        true.append(rates[choice.index] - rates.min())
    assert stated[0] < 1.0
    assert np.all(np.array(true) <= stated)
    assert np.any(np.array(true) > np.array(stated) / 10)
