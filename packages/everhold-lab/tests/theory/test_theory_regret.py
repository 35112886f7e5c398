"""Regret on the population, held against exact laws."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from tiny_worlds import World, binary_data, independent_law

from everhold_lab.published.classical import minimisation_radius
from everhold_lab.releases.one_shot import PermuteAndFlip
from everhold_privacy.curves import PureCurve
from everhold_privacy.guarantees import exponential_exceedance
from everhold_privacy.mechanisms.selection import ExponentialMechanism

BOTH = pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlip])


class Choice:
    """A tiny world in which one candidate is chosen; losses of a binary row are quarters.

    Attributes:
        world: Data sets, their law and the law of the choice.
        sealed: Regret of each candidate on each data set, shape (data sets, candidates).
        regret: Regret of each candidate on the population.
        selection: The mechanism.
    """

    def __init__(self, seed, kind, *, dependent):
        generator = np.random.default_rng([seed, dependent])
        self.rows, candidates = int(generator.integers(1, 4)), int(generator.integers(2, 5))
        data = binary_data(self.rows)
        prior = (
            generator.dirichlet(np.full(len(data), 0.4))
            if dependent
            else independent_law(generator.beta(0.5, 0.5, size=self.rows))
        )
        losses = generator.integers(0, 5, size=(candidates, 2))
        totals = losses[:, data].sum(axis=2).T
        self.selection = kind(float(generator.uniform(0.2, 6.0)), sensitivity=4)
        self.world = World(data, prior, np.array([self.selection.law(row) for row in totals]), None, None)
        self.sealed = (totals - totals.min(axis=1, keepdims=True)) / (4 * self.rows)
        means = prior @ totals / (4 * self.rows)
        self.regret = means - means.min()
        self.best = totals[:, int(np.argmin(means))] / (4 * self.rows) - means.min()

    def exceedance(self, alpha):
        return float(np.sum(self.world.joint() * np.maximum(self.sealed - alpha, 0.0)))

    def beyond(self, margin):
        return float(self.world.joint().sum(axis=0) @ np.maximum(self.regret - margin, 0.0))

    def failure(self, radius):
        return float(self.world.joint().sum(axis=0) @ (self.regret > radius + 1e-12))


@BOTH
@pytest.mark.parametrize("dependent", [False, True])
@given(seed=st.integers(0, 10**6), beta=st.floats(0.05, 0.8))
@settings(max_examples=40, deadline=None)
def test_the_minimisation_form_of_S1_holds(kind, dependent, seed, beta):
    choice = Choice(seed, kind, dependent=dependent)
    for alpha in (0.0, 0.05, 0.3):
        promised = choice.selection.exceedance(alpha, candidates=len(choice.regret), steps=4 * choice.rows)
        assert choice.exceedance(alpha) <= promised + 1e-12
        for epsilon in (0.0, 0.3, 1.0, 3.0):
            within = choice.exceedance(alpha) + 2 * choice.world.delta(epsilon)
            assert choice.beyond(alpha + 2 * math.tanh(epsilon / 4)) <= within + 1e-12
    radius = minimisation_radius(choice.exceedance, choice.world, confidence=1 - beta).radius
    assert choice.failure(radius) <= beta + 1e-12


@BOTH
@given(seed=st.integers(0, 10**6), beta=st.floats(0.05, 0.8))
@settings(max_examples=40, deadline=None)
def test_for_fixed_candidates_the_best_one_concentrates(kind, seed, beta):
    choice = Choice(seed, kind, dependent=False)
    for gamma in (0.0, 0.1, 0.4):
        tail = math.sqrt(math.pi / (8 * choice.rows)) * math.erfc(gamma * math.sqrt(2 * choice.rows))
        assert float(choice.world.prior @ np.maximum(choice.best - gamma, 0)) <= tail + 1e-12
        for epsilon in (0.0, 0.3, 1.0, 3.0):
            within = choice.exceedance(0.0) + tail + choice.world.delta(epsilon)
            assert choice.beyond(gamma + math.tanh(epsilon / 4)) <= within + 1e-12
    bound = minimisation_radius(choice.exceedance, choice.world, confidence=1 - beta, fixed_rows=choice.rows)
    assert choice.failure(bound.radius) <= beta + 1e-12


class Bits:
    """n independent bits; the candidates have the losses x and 1 - x, and permute-and-flip chooses.

    Given that the second is chosen, every row's odds for a 1 have risen by e^eps, and both candidates look equal.
    """

    def __init__(self, rows, epsilon, share):
        ones = np.arange(rows + 1)
        totals = np.stack([ones, rows - ones], axis=1)
        selection = PermuteAndFlip(epsilon, sensitivity=1)
        self.joint = binom.pmf(ones, rows, share)[:, None] * np.array([selection.law(row) for row in totals])
        self.sealed = (totals - totals.min(axis=1, keepdims=True)) / rows
        self.regret, self.chosen_wrongly = 1 - 2 * share, float(self.joint[:, 1].sum())

    def exceedance(self, alpha):
        return float(np.sum(self.joint * np.maximum(self.sealed - alpha, 0.0)))


def promised(bits, epsilon, factor, beta):
    """``alpha + c tanh(eps/4) + r/beta``: at its own loss epsilon the mechanism leaks nothing more."""
    sealed = min(alpha + bits.exceedance(alpha) / beta for alpha in np.linspace(0, 0.5, 101))
    return sealed + factor * math.tanh(epsilon / 4)


@pytest.mark.parametrize(("rows", "epsilon", "share", "factor"), [(20, 1.0, 0.2, 1.0), (200, 0.5, 0.325, 1.84)])
def test_the_factor_of_two_cannot_be_dropped(rows, epsilon, share, factor):
    """The asymmetric form is ``tanh(eps/2)`` for r = 0, at eps = 0.5 1.97 times ``tanh(eps/4)``: nearly attained."""
    bits = Bits(rows, epsilon, share)
    beta = 0.999 * bits.chosen_wrongly
    assert promised(bits, epsilon, factor, beta) < bits.regret  # so it fails with a probability above beta
    bound = minimisation_radius(bits.exceedance, PureCurve(epsilon), confidence=1 - beta)
    assert bits.regret <= bound.radius <= promised(bits, epsilon, 2, beta) + 1e-9


@given(
    scale=st.floats(1e-4, 0.1),
    epsilon=st.floats(0.01, 3),
    confidence=st.floats(0.1, 0.99),
    candidates=st.integers(2, 99),
)
@settings(max_examples=60, deadline=None)
def test_it_is_never_above_the_plain_form_and_fixed_candidates_only_help(scale, epsilon, confidence, candidates):
    def exceedance(alpha):
        return exponential_exceedance(alpha=alpha, scale=scale, candidates=candidates)

    curve, beta = PureCurve(epsilon), 1 - confidence
    bound = minimisation_radius(exceedance, curve, confidence=confidence)
    on_rows = bound.alpha + exceedance(bound.alpha) / beta
    plain = on_rows + 2 * math.tanh(bound.epsilon / 4) + 2 * curve.delta(bound.epsilon) / beta
    assert bound.radius <= min(plain, 1.0) + 1e-12
    margin = on_rows + 2 * curve.delta(bound.epsilon) / beta
    if margin < 1:
        s, v = (1 - bound.radius) / 2, math.exp(bound.epsilon)
        bias = s * (1 - s) * (v - 1) / (1 + s * (v - 1))
        assert bound.radius - 2 * bias == pytest.approx(margin, abs=1e-9)
    many = minimisation_radius(exceedance, curve, confidence=confidence, fixed_rows=10**9)
    few = minimisation_radius(exceedance, curve, confidence=confidence, fixed_rows=1)
    assert many.radius <= few.radius == pytest.approx(bound.radius)
    assert (many.form, few.form) == ("fixed candidates" if many.radius < bound.radius else few.form, "any candidates")


@pytest.mark.parametrize("rows", [0, -1.0, math.nan, math.inf])
def test_wrong_rows_are_refused(rows):
    with pytest.raises(ValueError, match="fixed_rows"):
        minimisation_radius(lambda alpha: 0.0, PureCurve(0.1), confidence=0.95, fixed_rows=rows)
    with pytest.raises(ValueError, match="confidence"):
        minimisation_radius(lambda alpha: 0.0, PureCurve(0.1), confidence=1.0)
