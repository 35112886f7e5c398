"""S1 and S2 held against exact laws, for independent and for dependent rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from tiny_worlds import QUERIES, World, binary_data, independent_law, noisy_mean, randomised_response, two_queries

from everhold_privacy.curves import GaussianCurve, PureCurve
from everhold_privacy.guarantees import leakage_bound, transfer_radius, transferred_interval

GRID_ALPHA = (0.0, 0.1, 0.3, 0.8)
GRID_EPSILON = (0.0, 0.1, 0.4, 1.0, 2.5)


def world(seed, *, dependent):
    """A random tiny world: 1 to 3 rows, two adaptive queries, one of two mechanisms."""
    generator = np.random.default_rng([seed, dependent])
    rows = int(generator.integers(1, 4))
    prior = (
        generator.dirichlet(np.full(2**rows, 0.4))
        if dependent
        else independent_law(generator.beta(0.5, 0.5, size=rows))
    )
    choice = generator.integers(len(QUERIES), size=100)
    if seed % 2:
        mechanism, divisor = randomised_response(float(generator.uniform(0.2, 3.0))), 1.0
    else:
        mechanism, divisor = noisy_mean(int(generator.integers(1, 8))), 4.0 * rows
    return two_queries(prior, mechanism, lambda i: QUERIES[choice[i]], rows=rows, divisor=divisor)


@pytest.mark.parametrize("dependent", [False, True])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_S1_and_S2_in_expectation(seed, dependent):
    tiny = world(seed, dependent=dependent)
    leak = tiny.delta(np.array(GRID_EPSILON))
    for alpha in GRID_ALPHA:
        r = tiny.exceedance(alpha)
        for epsilon, delta in zip(GRID_EPSILON, leak, strict=True):
            tilted = tiny.mean_tilted_excess(alpha, epsilon)
            plain = tiny.mean_excess(alpha + np.tanh(epsilon / 4))
            assert plain <= tilted + 1e-12
            assert tilted <= r + delta + 1e-12


@pytest.mark.parametrize("dependent", [False, True])
@given(seed=st.integers(0, 10**6), beta=st.floats(0.05, 0.6))
@settings(max_examples=40, deadline=None)
def test_the_radius_and_the_interval_hold_with_their_confidence(seed, dependent, beta):
    tiny = world(seed, dependent=dependent)
    bound = transfer_radius(tiny.exceedance, tiny, confidence=1 - beta)
    assert bound.radius == pytest.approx(bound.alpha + np.tanh(bound.epsilon / 4) + bound.excess)
    assert tiny.failures(tiny.answers - bound.radius - 1e-12, tiny.answers + bound.radius + 1e-12) <= beta + 1e-12
    low, high = transferred_interval(tiny.answers, margin=bound.alpha + bound.excess, epsilon=bound.epsilon)
    assert tiny.failures(low - 1e-12, high + 1e-12) <= beta + 1e-12


def posterior_world(epsilon, share):
    """One row, randomised response, and the analyst who then asks for the bit that was told: nothing is noisier."""
    _, law = randomised_response(epsilon)
    told = law(QUERIES[0], binary_data(1))
    posterior = told[1] * share / (told[1] * share + told[0] * (1 - share))
    return World(
        data=binary_data(1),
        prior=np.array([1 - share, share]),
        law=told,
        queries=np.array([[QUERIES[0]], [QUERIES[0]]]),
        answers=posterior[:, None],  # f(Q_pi), the posterior mean, is the answer
    ), posterior


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0])
def test_the_bias_of_S1_is_attained_by_randomised_response(epsilon):
    share = 1 / (1 + np.exp(epsilon / 2))
    tiny, posterior = posterior_world(epsilon, share)
    assert float(tiny.delta(epsilon)) == pytest.approx(0.0, abs=1e-15)
    assert posterior[1] - share == pytest.approx(np.tanh(epsilon / 4), abs=1e-12)
    assert tiny.mean_excess(np.tanh(epsilon / 4)) == pytest.approx(0.0, abs=1e-15)  # at most leak(eps) = 0
    assert tiny.mean_excess(np.tanh(epsilon / 4) - 1e-6) > 0.0  # so this enumeration refutes any smaller bias


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
def test_the_bias_of_S2_is_attained_for_every_share(share):
    tiny, posterior = posterior_world(1.3, share)
    v = np.exp(1.3)
    assert posterior[1] - share == pytest.approx(share * (1 - share) * (v - 1) / (1 + share * (v - 1)), abs=1e-12)
    assert tiny.mean_tilted_excess(0.0, 1.3) == pytest.approx(0.0, abs=1e-15)
    assert tiny.mean_tilted_excess(0.0, 1.29) > 0.0


# Closed forms ---------------------------------------------------------------------------------------------------------


@given(answer=st.floats(-0.3, 1.3), margin=st.floats(0.0, 0.6), epsilon=st.floats(0.0, 6.0))
@settings(max_examples=60, deadline=None)
def test_transferred_interval_is_the_set_that_a_scan_finds(answer, margin, epsilon):
    low, high = transferred_interval(answer, margin=margin, epsilon=epsilon)
    q, v = np.linspace(0, 1, 4001), np.exp(epsilon)

    def bias(x):
        return x * (1 - x) * (v - 1) / (1 + x * (v - 1))

    consistent = q[(answer - q <= margin + bias(q)) & (q - answer <= margin + bias(1 - q))]
    if len(consistent):
        assert float(low) == pytest.approx(consistent[0], abs=2.6e-4)
        assert float(high) == pytest.approx(consistent[-1], abs=2.6e-4)
    assert float(low) >= np.clip(answer - margin - np.tanh(epsilon / 4), 0, 1) - 1e-12
    assert float(high) <= np.clip(answer + margin + np.tanh(epsilon / 4), 0, 1) + 1e-12


@pytest.mark.parametrize("curve", [PureCurve(0.01, 10), PureCurve(0.3), GaussianCurve(0.02), GaussianCurve(0.8)])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.9999])
def test_leakage_bound_is_the_least_on_a_fine_grid(curve, confidence):
    epsilons = np.geomspace(1e-7, 50, 40_001)
    scanned = np.tanh(epsilons / 4) + curve.delta(epsilons) / (1 - confidence)
    bound = leakage_bound(curve, confidence=confidence)
    assert bound.total <= scanned.min() * (1 + 1e-6)
    assert bound.total == pytest.approx(np.tanh(bound.epsilon / 4) + curve.delta(bound.epsilon) / (1 - confidence))


def test_the_bias_is_the_greatest_posterior_shift():
    """max_q g(q) = tanh(eps/4), at q = 1/(1+e^{eps/2})."""
    v = np.exp(1.7)
    q = brentq(lambda x: (1 - x) ** 2 - v * x**2, 0, 1)
    assert q == pytest.approx(1 / (1 + np.exp(0.85)))
    assert q * (1 - q) * (v - 1) / (1 + q * (v - 1)) == pytest.approx(np.tanh(1.7 / 4), abs=1e-14)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -0.1, float("nan")])
def test_confidence_outside_its_range_is_refused(confidence):
    with pytest.raises(ValueError, match="confidence"):
        leakage_bound(GaussianCurve(0.1), confidence=confidence)
