"""What random rows promise, against exact laws: how far answers stray, and the information in them."""

import decimal
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import rel_entr
from scipy.stats import binom
from tiny_worlds import QUERIES, independent_law, two_queries

from everhold_privacy.guarantees import gaussian_exceedance
from everhold_privacy.mechanisms import subsampling
from everhold_privacy.mechanisms.subsampling import (
    SubsampledBitsCurve,
    draws_exceedance,
    information_per_draw,
    information_radius,
)

COINS = (0.0, 0.01, 0.3, 0.9)


def exact_exceedance(mean, draws, coins, alpha):
    """E(|a - mean| - alpha)_+ for one answer."""
    ones, chance = np.arange(draws + 1), coins / 2 + (1 - coins) * mean
    answers = (ones / draws - coins / 2) / (1 - coins)
    return float(binom.pmf(ones, draws, chance) @ np.maximum(np.abs(answers - mean) - alpha, 0))


@pytest.mark.parametrize("coins", COINS)
@pytest.mark.parametrize("draws", [1, 2, 3, 10, 100, 3000])
def test_answers_stray_no_further_than_r_says(draws, coins):
    for deviations in (0.0, 0.3, 1.0, 2.0, 3.5, 5.0):
        alpha, r = draws_exceedance(deviations=deviations, draws=draws, coins=coins, answers=1)
        for mean in (0.0, 1e-3, 0.07, 0.3, 0.49, 0.5, 0.77, 1.0):
            assert exact_exceedance(mean, draws, coins, alpha) <= r * (1 + 1e-12)


def test_without_the_one_draw_more_r_would_be_too_small():
    alpha, r = draws_exceedance(deviations=0.0, draws=1, coins=0.0, answers=1)
    assert exact_exceedance(0.5, 1, 0.0, alpha - 1.0) > r


def test_r_is_nearly_that_of_gaussian_noise():
    alpha, r = draws_exceedance(deviations=3.0, draws=10**6, coins=0.5, answers=7)
    assert alpha == pytest.approx(3 * 1e-3, rel=1e-3)
    assert r == pytest.approx(gaussian_exceedance(alpha=3e-3, scale=1e-3, answers=7), rel=1e-9)


# Information ----------------------------------------------------------------------------------------------------------


def bits_divergence(p, q):
    return rel_entr(p, q) + rel_entr(1 - p, 1 - q)


def sum_of_divergences(values, coins, extra):
    """``sum_i kl(p || q_i)`` in the words of the definition."""
    rows, total = len(values), 0.0
    for i in range(rows):
        guess = (np.delete(values, i).sum() + extra) / (rows - 1 + 2 * extra)
        total += bits_divergence(*(coins / 2 + (1 - coins) * x for x in (values.mean(), guess)))
    return total


@pytest.mark.parametrize("coins", COINS)
@pytest.mark.parametrize("rows", [2, 3, 5, 8])
def test_no_values_of_the_rows_have_larger_divergences(rows, coins):
    extra = 0.1
    bound = subsampling._information_with(rows, coins, extra)
    corners = [sum_of_divergences(np.array(x, float), coins, extra) for x in itertools.product((0, 1), repeat=rows)]
    assert max(corners) == pytest.approx(bound, rel=1e-6)
    generator = np.random.default_rng([rows, int(100 * coins)])
    inside = [sum_of_divergences(generator.beta(0.4, 0.4, rows), coins, extra) for _ in range(200)]
    assert max(inside) <= bound


@pytest.mark.parametrize("coins", COINS)
@pytest.mark.parametrize("rows", [9_000, 12_001, 30_000])
def test_the_closed_form_in_the_middle_is_above_the_exact_one(rows, coins, monkeypatch):
    extra = 1e-4
    closed = (1 - coins) * subsampling._middle(rows, extra)
    ones = np.arange(subsampling._SCANNED, rows // 2 + 1, dtype=float)
    told = ones * subsampling._kl(ones / rows, subsampling._guess(ones - 1, rows, extra), coins)
    told += (rows - ones) * subsampling._kl(ones / rows, subsampling._guess(ones, rows, extra), coins)
    assert told.max() <= closed
    assert coins > 0 or closed <= 1.01 * told.max()
    before = subsampling._information_with(rows, coins, extra)
    monkeypatch.setattr(subsampling, "_SCANNED", rows)
    assert subsampling._information_with(rows, coins, extra) <= before * (1 + 1e-12)


def test_coins_take_the_logarithm_away():
    for rows in (10**3, 10**5, 10**7):
        assert 0.6 * np.log(rows) <= rows * information_per_draw(rows, 0.0) <= np.log(rows)
        assert 0.49 <= rows * information_per_draw(rows, 10 / rows) <= 0.51


@pytest.mark.parametrize("share", [-1.0, -0.7, -0.011, -0.009, -1e-5, 0.0, 1e-9, 1e-3, 0.0099, 0.02, 3.0])
def test_what_nearly_cancels_is_exact(share):
    exact = decimal.Decimal(share)
    with decimal.localcontext(prec=60):
        wanted = (1 + exact) * (1 + exact).ln() - exact if exact > -1 else -exact
    assert subsampling._excess(np.array([share]))[0] == pytest.approx(float(wanted), rel=1e-12, abs=0.0)


def drawn(draws, coins):
    """Law of an answer: the share of ones among the draws, with the coins taken out."""
    ones = np.arange(draws + 1)

    def law(query, data):
        chance = coins / 2 + (1 - coins) * query[data].mean(axis=1)
        return binom.pmf(ones, draws, chance[:, None])

    return (ones / draws - coins / 2) / (1 - coins), law


def world(seed, draws, coins, rows):
    """Independent rows and two adaptive queries."""
    generator = np.random.default_rng(seed)
    choice = generator.integers(len(QUERIES), size=100)
    prior = independent_law(generator.beta(0.3, 0.3, size=rows))
    return two_queries(prior, drawn(draws, coins), lambda i: QUERIES[choice[i]], rows=rows)


SEEDS, DRAWS, ROWS = st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 4)


def divergences(tiny):
    """KL(Q_pi || P) of each transcript and the probability of each."""
    joint = tiny.joint()
    seen = joint.sum(axis=0)
    inside = np.divide(joint, seen, out=np.zeros_like(joint), where=seen > 0)
    return rel_entr(inside, np.broadcast_to(tiny.prior[:, None], joint.shape)).sum(axis=0), inside, seen


@given(seed=SEEDS, draws=DRAWS, rows=ROWS, coins=st.sampled_from(COINS))
@settings(max_examples=80, deadline=None)
def test_the_information_in_two_adaptive_answers_is_below_its_bound(seed, draws, rows, coins):
    told, _, seen = divergences(world(seed, draws, coins, rows))
    assert seen @ told <= 2 * draws * information_per_draw(rows, coins) + 1e-12


def test_fewer_draws_counted_would_be_too_few():
    """A single row that is a fair bit is told whole by one draw: 1/2 of the bound of two."""
    tiny = two_queries(independent_law([0.5]), drawn(1, 0.0), lambda _: QUERIES[0], rows=1)
    told, _, seen = divergences(tiny)
    assert seen @ told == pytest.approx(information_per_draw(1, 0.0))
    assert seen @ told > 0.99 * information_per_draw(1, 0.0)


@given(seed=SEEDS, draws=DRAWS, rows=ROWS, coins=st.sampled_from(COINS))
@settings(max_examples=60, deadline=None)
def test_S6_step_by_step(seed, draws, rows, coins):
    tiny = world(seed, draws, coins, rows)
    told, inside, seen = divergences(tiny)
    posterior = np.einsum("xtj,xt->tj", tiny.sealed_means(), inside)
    moved = np.abs(posterior - tiny.population_means()).max(axis=1)
    assert np.all((2 * rows * moved**2 <= told + 1e-12) | (seen == 0))
    for deviations in (0.0, 1.0):
        alpha, r = draws_exceedance(deviations=deviations, draws=draws, coins=coins, answers=2)
        strayed = np.maximum(np.abs(tiny.answers - posterior).max(axis=1) - alpha, 0)
        assert seen @ strayed <= r + 1e-12
        assert tiny.exceedance(alpha) <= r + 1e-12


@given(seed=SEEDS, draws=st.integers(1, 6), rows=ROWS, beta=st.floats(0.3, 0.95))
@settings(max_examples=60, deadline=None)
def test_the_radius_holds_with_its_confidence(seed, draws, rows, beta):
    tiny = world(seed, draws, 0.3, rows)
    radius = information_radius(rows=rows, answers=2, draws=draws, coins=0.3, beta=beta).radius + 1e-12
    assert tiny.failures(tiny.answers - radius, tiny.answers + radius) <= beta


@pytest.mark.parametrize(("rows", "answers", "draws", "coins"), [(5_000, 100, 134, 0.0), (50_000, 1_000, 1556, 0.001)])
def test_no_other_alpha_gives_a_smaller_radius(rows, answers, draws, coins):
    found = information_radius(rows=rows, answers=answers, draws=draws, coins=coins, beta=0.05)
    assert found.information == pytest.approx(answers * draws * information_per_draw(rows, coins))
    for deviations in np.linspace(0, 8, 400).tolist():
        alpha, r = draws_exceedance(deviations=deviations, draws=draws, coins=coins, answers=answers)
        budget = found.information
        for _ in range(200):  # T = I + 2 sqrt(2 n T / beta) r
            budget = found.information + 2 * np.sqrt(2 * rows * budget / 0.05) * r
        assert found.radius <= (alpha + np.sqrt(budget / (2 * rows * 0.05))) * (1 + 1e-9)
    assert found.alpha < found.radius < 1


# S1 -------------------------------------------------------------------------------------------------------------------


@given(seed=SEEDS, draws=DRAWS, rows=ROWS, coins=st.sampled_from(COINS[1:]))
@settings(max_examples=60, deadline=None)
def test_S1_in_expectation_with_the_published_r_and_curve(seed, draws, rows, coins):
    tiny = world(seed, draws, coins, rows)
    curve = SubsampledBitsCurve(2 * draws, coins, 1 / rows)
    for epsilon in (0.0, 0.1, 0.5, 1.5):
        assert float(tiny.delta(epsilon)) <= curve.delta(epsilon) + 1e-12
        for deviations in (0.0, 1.0, 2.5):
            alpha, r = draws_exceedance(deviations=deviations, draws=draws, coins=coins, answers=2)
            tilted = tiny.mean_tilted_excess(alpha, epsilon)
            assert tiny.mean_excess(alpha + np.tanh(epsilon / 4)) <= tilted + 1e-12
            assert tilted <= r + curve.delta(epsilon) + 1e-12
