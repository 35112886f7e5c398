"""S11 by enumeration: bets on claims are fair for units of unlike laws, in any order at fixed looks, and by Lemma M."""

import math
from itertools import permutations, product

import numpy as np
import pytest
import scipy.stats

from everhold.guarantees.intervals.claims import (
    ClaimUnits,
    GateClaim,
    first_proof,
    log_capital,
    sign_nats,
    stakes_for,
    tail_nats,
)

STAKES = np.array([0.95, 0.57, 0.34])


def capital(values, null=0.5, stakes=STAKES):
    values = np.asarray(values, dtype=float)
    return np.exp(log_capital(ClaimUnits(values, np.ones(len(values))), null, stakes, range(1, len(values) + 1)))


@pytest.mark.parametrize("means", [(0.5, 0.5, 0.5, 0.5), (0.9, 0.1, 0.7, 0.3), (1.0, 1.0, 0.0, 0.0)])
def test_expected_capital_is_at_most_one_for_coins_of_unlike_laws(means):
    expected = sum(
        math.prod(mean if each else 1.0 - mean for each, mean in zip(values, means, strict=True)) * capital(values)[-1]
        for values in product((0.0, 1.0), repeat=len(means))
    )
    assert expected <= 1.0 + 1e-12


def test_units_of_unlike_sizes_are_fair_for_the_mean_over_cases():
    sizes, means = np.array([3.0, 1.0, 2.0]), (0.2, 0.9, 0.75)
    assert float(sizes @ np.array(means)) / 6.0 == pytest.approx(0.5)
    expected = sum(
        math.prod(mean if each else 1.0 - mean for each, mean in zip(values, means, strict=True))
        * math.exp(log_capital(ClaimUnits(sizes * np.array(values), sizes, 3.0), 0.5, STAKES, [3])[0])
        for values in product((0.0, 1.0), repeat=3)
    )
    assert expected <= 1.0


def test_in_a_shuffled_order_capital_at_a_fixed_look_is_fair_and_with_runs_for_units_it_is_not():
    cases, runs = np.array([1.0, 1.0, 0.0, 0.0]), 4
    orders = list(permutations(cases))
    for look in range(4):
        assert np.mean([capital(order)[look] for order in orders]) <= 1.0 + 1e-12
    of_runs = np.mean([capital(np.repeat(order, runs))[runs - 1] for order in orders])
    assert of_runs > 3.0


def test_for_new_cases_the_capital_ever_reaches_one_over_the_level_that_rarely():
    nats, total = 1.5, 0.0
    for values in product((0.0, 0.5, 1.0), repeat=7):
        total += (capital(values).max() >= math.exp(nats)) / 3**7
    assert 0.0 < total <= math.exp(-nats)


def test_a_stake_that_peeks_at_its_unit_is_not_fair():
    total = 0.0
    for values in product((0.0, 0.5, 1.0), repeat=7):
        excess = (np.array(values) - 0.5) / 0.5
        peeking = np.cumsum(np.log1p(np.where(excess > 0.0, 0.95, 0.34) * excess))
        total += (peeking.max() >= 1.5) / 3**7
    assert total > math.exp(-1.5)


def test_the_sign_test_is_the_exact_tail():
    assert sign_nats(9, 1) == pytest.approx(-math.log(scipy.stats.binom.sf(8, 10, 0.5)))
    assert sign_nats(0, 0) == sign_nats(0, 9) == 0.0
    units = ClaimUnits(np.r_[np.ones(9), 0.0, np.full(30, 0.5)], np.ones(40), signs=True)
    for nats, look in ((4.5, 0), (4.6, 1)):
        assert units.first_look(GateClaim("a", 0.0), planned=40, nats=nats, looks=[40]) == look
    assert sign_nats(2_000, 0) > 700.0


def test_guards_pay_nothing_and_successes_share_the_level():
    units = ClaimUnits(np.ones(20), np.ones(20))
    reached = float(log_capital(units, 0.5, stakes_for(20, 5.0), [20])[0])
    success, guard = GateClaim("a", 0.0), GateClaim("b", 0.0, guard=True)

    def proved(claims, nats):
        return first_proof(claims, [units] * len(claims), planned=20, nats=nats, looks=[20]) == 0

    assert reached > 5.0
    assert proved([success], reached - 1e-6)
    assert proved([success, *[guard] * 5], reached - 1e-6)
    assert not proved([success, GateClaim("c", 0.0)], reached - 1e-6)
    assert proved([success, GateClaim("c", 0.0)], reached - math.log(2.0) - 1e-6)


def test_lemma_m_the_smallest_of_many_limits_needs_one_level_and_all_single_ones_do_not():
    """Claims whose means are at their floors: proving the smallest one is rare, proving any of them is not."""
    rng, nats, claims = np.random.default_rng(0), math.log(20.0), 30
    wins = rng.binomial(40, 0.5, (40, claims))
    ends = np.array([[sign_nats(won, 40 - won) for won in night] for night in wins])
    assert np.mean(ends.min(axis=1) >= nats) == 0.0
    assert np.mean(ends.max(axis=1) >= nats) > 0.4


def test_each_claim_may_reach_its_level_at_its_own_look():
    early, late = np.r_[np.ones(20), np.zeros(20)], np.r_[np.full(20, 0.5), np.ones(20)]
    units = [ClaimUnits(each, np.ones(40)) for each in (early, late)]
    claims = [GateClaim("a", 0.0), GateClaim("b", -0.5, guard=True)]
    assert first_proof(claims, units, planned=40, nats=4.0, looks=[10, 20, 30, 40]) is not None
    assert first_proof(claims[:1], units[:1], planned=40, nats=4.0, looks=[40]) is None


class ProvedAt:
    """Values of a claim that are proved at one look; the levels that they were asked at are kept."""

    def __init__(self, look):
        self.look, self.levels = look, []

    def first_look(self, claim, *, planned, nats, looks):
        self.levels.append(nats)
        return self.look


@pytest.mark.parametrize(
    ("looks", "at"), [((0, 3, 1, 2), 2), ((3, 0, 0, 0), 0), ((0, 0, 0, 3), None), ((3, 3, 0, 0), None)]
)
def test_all_guards_are_proved_at_the_full_level_and_one_success_at_its_share(looks, at):
    claims = [
        GateClaim("a", 0.0),
        GateClaim("b", 0.0),
        GateClaim("c", -0.1, guard=True),
        GateClaim("d", -0.1, guard=True),
    ]
    units = [ProvedAt(look) for look in looks]
    assert first_proof(claims, units, planned=9, nats=5.0, looks=[3, 6, 9]) == at
    assert [each.levels for each in units] == [[5.0 + math.log(2.0)]] * 2 + [[5.0]] * 2


def sums_of(chances):
    """Probability of each number of independent events."""
    law = np.ones(1)
    for chance in chances:
        law = np.convolve(law, [1.0 - chance, chance])
    return law


def test_yes_or_no_runs_of_unlike_laws_have_no_heavier_tail_than_the_binomial():
    rng, worst, below_the_mean = np.random.default_rng(2), 0.0, 0.0
    for _ in range(300):
        null = rng.choice([0.3, 0.5, 0.62])
        chances = np.round(rng.beta(0.3, 0.3, 12), 1)  # many that are nearly certain
        chances = np.clip(chances + null - chances.mean(), 0.0, 1.0)
        chances *= min(null / max(chances.mean(), 1e-9), 1.0)
        law = sums_of(chances)
        for events in range(1, 13):
            wrong = law[events:].sum()
            worst = max(worst, wrong / math.exp(-tail_nats(events, 12, null)))
            below_the_mean = max(below_the_mean, wrong / scipy.stats.binom.sf(events - 1, 12, null))
    assert 0.9 < worst <= 1.0 + 1e-9
    assert below_the_mean > 1.05  # from the mean to one above it the binomial tail is no bound


def wrong_promotion(nats, *, joint):
    """Chance that runs of two equal versions prove a gain, over all results of three cases with two runs each."""
    claim, chances, total = GateClaim("passed", 0.0), np.repeat([0.9, 0.5, 0.1], 2), 0.0
    for own, other in product(product((0, 1), repeat=6), repeat=2):
        x, y = np.array(own), np.array(other)
        if joint:  # a judge of pairs: one version passes exactly where the other fails
            y = 1 - x
            chance = 2.0**-6 * np.prod(np.full(6, 0.5))
        else:
            chance = np.prod(np.where(x, chances, 1 - chances)) * np.prod(np.where(y, chances, 1 - chances))
        units = ClaimUnits((1.0 + x - y) / 2.0, np.ones(6), tail=True)
        total += chance * (units.first_look(claim, planned=6, nats=nats, looks=[6]) == 0)
    return float(total)


def test_equal_versions_are_promoted_as_rarely_as_the_level_says_and_runs_that_depend_on_each_other_are_not_covered():
    for level in (0.3, 0.1, 0.03, 0.01):
        assert wrong_promotion(-math.log(level), joint=False) <= level
    assert wrong_promotion(-math.log(0.1), joint=True) > 0.1


def test_a_step_that_a_bet_does_not_prove_is_proved_by_the_tail_of_runs():
    gains = np.repeat([1.0, 1.0, 0.0, 0.0, 0.0, -1.0], 20)
    plain, tail = (ClaimUnits((1.0 + gains) / 2.0, np.ones(120), tail=tail) for tail in (False, True))
    claim = GateClaim("passed", 0.0)
    assert [units.first_look(claim, planned=120, nats=4.0, looks=[120]) for units in (plain, tail)] == [1, 0]
