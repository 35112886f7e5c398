"""The exponential mechanism and permute-and-flip: laws, draws, privacy, utility."""

import itertools
import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from everhold.randomness import SecureNoise, SeededNoise
from everhold_lab.published.classical import exponential_utility
from everhold_lab.releases.one_shot import PermuteAndFlip
from everhold_privacy.curves import BoundedRangeCurve, PureCurve
from everhold_privacy.mechanisms import selection
from everhold_privacy.mechanisms.selection import ExponentialMechanism

BOTH = pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlip])
LOSSES = [[3, 0, 1, 7], [2, 2, 2], [5], [0, 40], [1, 0, 0, 2, 9, 4]]
SMALL = st.lists(st.integers(0, 30), min_size=1, max_size=6)


def softmax(losses, epsilon):
    weights = np.exp(-epsilon * np.array(losses) / 2)
    return weights / weights.sum()


def by_every_order(losses, epsilon):
    """Permute-and-flip as it is defined: every order, and every coin in it."""
    law, orders = np.zeros(len(losses)), list(itertools.permutations(range(len(losses))))
    for order in orders:
        left = 1.0 / len(orders)
        for k in order:
            chance = math.exp(-epsilon * (losses[k] - min(losses)) / 2)
            law[k] += left * chance
            left *= 1 - chance
    return law


DEFINITIONS = {ExponentialMechanism: softmax, PermuteAndFlip: by_every_order}


# Laws -----------------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("epsilon", [0.05, 0.8, 6.0])
@pytest.mark.parametrize("losses", LOSSES)
def test_the_law_is_that_of_the_definition(kind, losses, epsilon):
    law = kind(epsilon, sensitivity=1).law(np.array(losses))
    np.testing.assert_allclose(law, DEFINITIONS[kind](losses, epsilon), rtol=1e-11)


@BOTH
@given(losses=SMALL, epsilon=st.floats(0.01, 20), shift=st.integers(0, 100))
@settings(max_examples=50, deadline=None)
def test_the_law_sums_to_one_and_sees_only_differences_and_ratios(kind, losses, epsilon, shift):
    law = kind(epsilon, sensitivity=1).law(np.array(losses))
    assert law.sum() == pytest.approx(1, rel=1e-12)
    shifted = kind(epsilon, sensitivity=7).law(7 * np.array(losses[::-1]) + shift)
    np.testing.assert_allclose(shifted[::-1], law, rtol=1e-11)


def test_the_law_of_permute_and_flip_for_many_candidates():
    losses = np.repeat([0, 5], [1, 999])
    p = math.exp(-0.5)
    law = PermuteAndFlip(0.2, sensitivity=1).law(losses)
    assert law[0] == pytest.approx((1 - (1 - p) ** 1000) / (1000 * p), rel=1e-10)
    with pytest.raises(ValueError, match="Draw instead"):
        PermuteAndFlip(0.2).law(np.zeros(5000, dtype=np.int64))


# Draws ----------------------------------------------------------------------------------------------------------------


def chi_square(mechanism, losses, law, noise, size=2500):
    draws = np.array([mechanism.choose(np.array(losses), noise) for _ in range(size)])
    counts = np.bincount(draws, minlength=len(losses))
    seen = law > 1e-4
    assert counts[~seen].sum() < 30
    expected = law[seen] / law[seen].sum() * counts[seen].sum()
    return 1.0 if seen.sum() == 1 else stats.chisquare(counts[seen], expected).pvalue


@BOTH
@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(5)], ids=["secure", "seeded"])
@pytest.mark.parametrize("losses", LOSSES)
def test_draws_follow_the_law(kind, noise, losses):
    assert chi_square(kind(0.8, sensitivity=1), losses, DEFINITIONS[kind](losses, 0.8), noise) > 1e-6


@BOTH
def test_draws_follow_the_law_where_every_coin_is_decided_exactly(kind, monkeypatch):
    calls = []
    module = sys.modules[kind.__module__]
    exact = module.below_exponential
    monkeypatch.setattr(module, "MARGIN", 0.9)
    monkeypatch.setattr(module, "below_exponential", lambda *a, **k: calls.append(1) or exact(*a, **k))
    losses = [0, 1, 3, 2]
    assert chi_square(kind(0.8, sensitivity=1), losses, DEFINITIONS[kind](losses, 0.8), SeededNoise(3)) > 1e-6
    assert len(calls) > 2000


def test_the_last_coin_makes_up_for_coarse_weights(monkeypatch):
    losses = [0, 1, 3, 2]
    law = DEFINITIONS[ExponentialMechanism](losses, 0.8)
    monkeypatch.setattr(selection, "_BITS", 4)  # the weights 3, 2, 1, 1
    assert chi_square(ExponentialMechanism(0.8, sensitivity=1), losses, law, SeededNoise(3)) > 1e-6
    monkeypatch.setattr(selection, "below_exponential", lambda *_, **__: True)
    assert chi_square(ExponentialMechanism(0.8, sensitivity=1), losses, law, SeededNoise(3)) < 1e-6


@BOTH
def test_the_chi_square_test_sees_a_wrong_law(kind):
    losses = [3, 0, 1, 7]
    wrong = kind(1.0, sensitivity=1)
    assert chi_square(wrong, losses, DEFINITIONS[kind](losses, 0.8), SeededNoise(5)) < 1e-6


class ReplayedWords:
    """A source of chosen words."""

    simulated = True

    def __init__(self, *words):
        self.left = list(words)

    def words(self, size, *, stream):
        taken, self.left = self.left[:size], self.left[size:]
        return np.array(taken, dtype=np.uint64)


@pytest.mark.parametrize("epsilon", [0.1, 1.3])
def test_a_coin_of_permute_and_flip_turns_at_its_exact_probability(epsilon):
    """Words one below and one above 2^64 e^{-x} are far inside the error of a float."""
    mp = pytest.importorskip("mpmath")
    with mp.workdps(60):
        boundary = int(mp.floor(mp.mpf(2) ** 64 * mp.exp(-mp.mpf(epsilon) * 3 / 2)))
    for word, second_is_head in ((boundary - 1, True), (boundary + 1, False)):
        noise = ReplayedWords(2**63, word, 2**62)  # the uniform choice takes the second of two heads
        assert PermuteAndFlip(epsilon, sensitivity=1).choose(np.array([0, 3]), noise) == int(second_is_head)


@BOTH
def test_sealed_sums_of_full_size_are_drawn_from(kind):
    losses = 2**56 - np.array([0, 2**30, 2**31])
    mechanism = kind(1.0)
    law = DEFINITIONS[kind]([2, 1, 0], 1.0)
    np.testing.assert_allclose(mechanism.law(losses), law, rtol=1e-9)
    assert chi_square(mechanism, losses, law, SeededNoise(1)) > 1e-6
    assert kind(1e300, sensitivity=1).choose(losses, SeededNoise(1)) == 2


@BOTH
def test_the_same_seed_chooses_the_same_and_streams_differ(kind):
    losses = np.zeros(1000, dtype=np.int64)
    first, again, other = (
        [kind(1.0).choose(losses, noise, stream=stream) for _ in range(5)]
        for noise, stream in ((SeededNoise(9), "a"), (SeededNoise(9), "a"), (SeededNoise(9), "b"))
    )
    assert first == again != other


# Privacy --------------------------------------------------------------------------------------------------------------

EPSILONS = np.array([0.0, 0.1, 0.3, 0.6, 0.9, 1.0])


def divergence(law, other):
    return np.maximum(law - np.exp(EPSILONS)[:, None] * other, 0).sum(axis=1)


def worst_over_neighbours(mechanism, largest, candidates):
    """The hockey-stick curve by enumeration: each loss moves by -1, 0 or 1."""
    worst = np.zeros(len(EPSILONS))
    for losses in itertools.product(range(largest + 1), repeat=candidates):
        law = mechanism.law(np.array(losses) + 1)
        for step in itertools.product((-1, 0, 1), repeat=candidates):
            worst = np.maximum(worst, divergence(law, mechanism.law(np.array(losses) + 1 + step)))
    return worst


@BOTH
@pytest.mark.parametrize(("largest", "candidates"), [(12, 2), (4, 3)])
def test_one_row_tells_no_more_than_the_curve(kind, largest, candidates):
    mechanism = kind(1.0, sensitivity=1)
    worst = worst_over_neighbours(mechanism, largest, candidates)
    assert np.all(worst <= mechanism.curve().delta(EPSILONS) + 1e-14)
    assert np.any(worst > kind(0.95, sensitivity=1).curve().delta(EPSILONS))  # a smaller epsilon is refuted


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 0.9])
def test_the_curve_of_the_exponential_mechanism_is_attained(epsilon):
    """Two candidates whose losses move apart, on a fine grid of gaps."""
    mechanism, unit = ExponentialMechanism(1.0, sensitivity=1000), 1000
    gaps = np.arange(-10 * unit, 10 * unit, 50)
    law = np.array([mechanism.law(np.array([20 * unit, 20 * unit + gap])) for gap in gaps])
    closer = np.array([mechanism.law(np.array([21 * unit, 19 * unit + gap])) for gap in gaps])
    worst = np.maximum(law - math.exp(epsilon) * closer, 0).sum(axis=1).max()
    assert worst == pytest.approx(mechanism.curve().delta(epsilon), rel=1e-3)


def test_permute_and_flip_does_not_have_the_curve_of_the_exponential_mechanism():
    losses, step = np.repeat([10, 24], [1, 60]), np.repeat([1, -1], [1, 60])
    mechanism = PermuteAndFlip(0.5, sensitivity=1)
    apart = mechanism.law(losses) - mechanism.law(losses + step)
    assert np.maximum(apart, 0).sum() > 1.1 * BoundedRangeCurve(0.5).delta(0.0)
    assert np.maximum(apart, 0).sum() < PureCurve(0.5).delta(0.0)


# Utility --------------------------------------------------------------------------------------------------------------


@given(losses=SMALL, epsilon=st.floats(0.05, 8))
@settings(max_examples=60, deadline=None)
def test_permute_and_flip_is_never_worse(losses, epsilon):
    order = np.argsort(losses)
    laws = [kind(epsilon, sensitivity=1).law(np.array(losses))[order] for kind in DEFINITIONS]
    exponential, flip = np.cumsum(laws, axis=1)
    assert np.all(flip >= exponential - 1e-12)


@BOTH
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_the_utility_bound_P11_holds_by_simulation(kind, confidence):
    generator, noise = np.random.default_rng(4), SeededNoise(4)
    mechanism = kind(0.5, sensitivity=10)
    bound = exponential_utility(50, sensitivity=10, epsilon=0.5, confidence=confidence)
    misses = 0
    for _ in range(1000):
        losses = generator.integers(0, 600, 50)
        misses += losses[mechanism.choose(losses, noise)] - losses.min() > bound
    assert stats.binomtest(int(misses), 1000, 1 - confidence, alternative="greater").pvalue > 1e-6


def test_P11_can_fail():
    losses = np.repeat([0, 190], [1, 49])
    bound = exponential_utility(50, sensitivity=10, epsilon=0.5, confidence=0.5)
    assert bound < 190
    assert 1 - ExponentialMechanism(0.5, sensitivity=10).law(losses)[0] < 0.5
    assert 1 - ExponentialMechanism(0.25, sensitivity=10).law(losses)[0] > 0.5


# Wrong inputs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
@BOTH
def test_a_wrong_epsilon_is_refused(kind, epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        kind(epsilon)


@pytest.mark.parametrize("sensitivity", [0, -1, 0.5, math.nan, True])
@BOTH
def test_a_wrong_sensitivity_is_refused(kind, sensitivity):
    with pytest.raises(ValueError, match="sensitivity"):
        kind(1.0, sensitivity=sensitivity)


WRONG = [[], [[1, 2]], [1.0, math.nan], [1.0, 2.0], [True, False], [3, -1234567]]


@pytest.mark.parametrize("losses", WRONG, ids=str)
@BOTH
def test_wrong_losses_are_refused_without_being_quoted(kind, losses):
    for call in (kind(1.0).law, lambda array: kind(1.0).choose(array, SeededNoise(1))):
        with pytest.raises(ValueError, match="loss") as refusal:
            call(np.array(losses))
        assert "1234567" not in str(refusal.value)


def test_mechanisms_are_values():
    assert ExponentialMechanism(0.5) == ExponentialMechanism(0.5) != PermuteAndFlip(0.5)
    assert hash(PermuteAndFlip(0.5, 3)) == hash(PermuteAndFlip(0.5, 3))
    assert (
        PermuteAndFlip(0.1, 3).slope == Fraction(0.1) / 6
    )  # the float that was given, not the decimal it was meant as
