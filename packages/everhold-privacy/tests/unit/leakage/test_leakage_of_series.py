"""The leakage of a chain against every path of tiny series, and planted errors that the same check must find."""

import itertools
import math

import numpy as np
import pytest
from series_brute_force import EPSILONS, joint_law, joint_with_training, random_matrix, stationary_law, worst_excess

import everhold_privacy.leakage as leakage_of_series
from everhold.dependence.series import coupling as chain_coupling
from everhold.dependence.series import markov_chain as chain_law
from everhold.dependence.series.coupling import ChainCoupling, UniformCoupling, mean_tail, meeting_tails
from everhold.dependence.series.markov_chain import MarkovChain
from everhold.dependence.series.mixing import Chain, Contraction
from everhold_privacy.curves import GaussianCurve
from everhold_privacy.leakage import leakage, spread

ROUNDING = 1e-11


@pytest.fixture(autouse=True)
def fresh_couplings():
    yield
    for cached in (chain_law._shared_coupling, meeting_tails, leakage_of_series._sums):
        cached.cache_clear()


def sticky_chains(number, seed=0):
    rng = np.random.default_rng(seed)
    for trial in range(number):
        states = 2 + trial % 2
        yield rng, random_matrix(rng, states, sticky=rng.choice([0.0, 0.5, 0.8])), 1 + trial % 5


def random_member(rng, matrix, radius):
    """A chain whose rows are within the radius in L1, on the edge where it can be."""
    moved = rng.dirichlet(np.full(len(matrix), 0.3), len(matrix))
    apart = np.abs(moved - matrix).sum(axis=1, keepdims=True)
    return matrix + np.minimum(radius / np.maximum(apart, 1e-300), 1.0) * (moved - matrix)


def stationary_excess(number=40):
    """The worst excess over stationary series of 1 to 5 rows."""
    return max(
        worst_excess(MarkovChain(matrix), joint_law(matrix, stationary_law(matrix), rows))
        for _, matrix, rows in sticky_chains(number)
    )


def test_known_stationary_chains_leak_no_more_than_said():
    assert stationary_excess() <= ROUNDING


def test_any_first_law_leaks_no_more_than_said():
    for rng, matrix, rows in sticky_chains(30, seed=1):
        first = rng.dirichlet(np.full(len(matrix), 0.5))
        assert worst_excess(MarkovChain(matrix, initial=first), joint_law(matrix, first, rows)) <= ROUNDING


def test_every_chain_of_a_confidence_set_leaks_no_more_than_said():
    for rng, matrix, rows in sticky_chains(30, seed=2):
        radius = rng.choice([0.05, 0.2])
        model = MarkovChain(matrix, uncertainty=radius)
        if model.law.contraction.rate >= 1.0:
            continue
        for _ in range(5):
            member = random_member(rng, matrix, radius)
            first = rng.dirichlet(np.full(len(matrix), 0.5))
            assert worst_excess(model, joint_law(member, first, rows)) <= ROUNDING


@pytest.mark.parametrize("gap", [0, 1, 3])
def test_training_rows_before_are_seen_and_leak_no_more_than_said(gap):
    for rng, matrix, rows in sticky_chains(16, seed=3):
        rows, training = min(rows, 4), 1 + rows % 2
        for initial in ("stationary", tuple(rng.dirichlet(np.ones(len(matrix))))):
            first = stationary_law(matrix) if initial == "stationary" else initial
            joint = joint_with_training(matrix, first, training=training, gap=gap, rows=rows)
            assert worst_excess(MarkovChain(matrix, initial=initial, gap=gap), joint, training=training) <= ROUNDING


@pytest.mark.parametrize("gap", [0, 2])
def test_training_rows_after_are_seen_and_leak_no_more_than_said(gap):
    for _, matrix, rows in sticky_chains(16, seed=10):
        rows = min(rows, 4)
        joint = joint_with_training(matrix, stationary_law(matrix), training=rows, gap=gap, rows=2)
        later_first = np.transpose(joint, [rows, rows + 1, *range(rows)])
        assert worst_excess(MarkovChain(matrix, gap=gap), later_first, training=2) <= ROUNDING


def test_training_rows_are_no_further_than_said():
    for _, matrix, rows in sticky_chains(20, seed=4):
        for gap in (0, 2):
            joint = joint_with_training(matrix, stationary_law(matrix), training=2, gap=gap, rows=min(rows, 3))
            training, sealed = joint.sum(axis=tuple(range(2, joint.ndim))), joint.sum(axis=(0, 1))
            exact = np.abs(joint - np.multiply.outer(training, sealed)).sum() / 2.0
            assert MarkovChain(matrix, gap=gap).training_distance() == pytest.approx(exact, abs=1e-12)
            assert MarkovChain(matrix, gap=gap, initial=stationary_law(matrix)).training_distance() >= exact - 1e-12
            fitted = MarkovChain(matrix, gap=gap, miss=0.01)
            assert fitted.miss == pytest.approx(0.01 + exact)
            assert fitted.training_distance() == 0.0


class TestPlantedErrors:
    """Each takes one part away; the check above must find out."""

    def test_no_coupling_backwards(self, monkeypatch):
        def met(self, step, count):
            return np.ones((len(self.weights), count)) * (np.arange(count) == 0)

        monkeypatch.setattr(ChainCoupling, "backward", met)
        assert stationary_excess() > 1e-3

    def test_chains_forget_at_once(self, monkeypatch):
        monkeypatch.setattr(ChainCoupling, "forward", lambda self, step, count: self.chain.distances(step, count) ** 3)
        assert stationary_excess() > 1e-3

    def test_training_rows_are_forgotten(self):
        matrix = np.array([[0.95, 0.05], [0.05, 0.95]])
        joint = joint_with_training(matrix, [0.5, 0.5], training=1, gap=0, rows=3)
        assert worst_excess(MarkovChain(matrix), joint, training=1, level=0.3) > 0.1
        assert worst_excess(MarkovChain(matrix, gap=0), joint, training=1, level=0.3) <= ROUNDING

    def test_sets_are_their_centres(self):
        matrix, member = np.array([[0.7, 0.3], [0.3, 0.7]]), np.array([[0.95, 0.05], [0.05, 0.95]])
        joint = joint_law(member, [0.5, 0.5], 4)
        assert worst_excess(MarkovChain(matrix), joint) > 1e-2
        assert worst_excess(MarkovChain(matrix, uncertainty=0.5), joint) <= ROUNDING

    def test_time_is_not_reversed(self, monkeypatch):
        matrix = np.array([[0.986, 0.007, 0.007], [0.007, 0.006, 0.987], [0.986, 0.007, 0.007]])
        joint = joint_law(matrix, stationary_law(matrix), 3)
        assert worst_excess(MarkovChain(matrix), joint, level=3.0) <= ROUNDING
        chain_law._shared_coupling.cache_clear()
        monkeypatch.setattr(ChainCoupling, "backward", ChainCoupling.forward)
        assert worst_excess(MarkovChain(matrix), joint, level=3.0) > 1e-4

    def test_reversed_tails_are_those_of_the_joint_law(self):
        matrix = np.array([[0.05, 0.9, 0.05], [0.05, 0.05, 0.9], [0.3, 0.3, 0.4]])
        joint = joint_law(matrix, stationary_law(matrix), 3)
        exact = _backward_distance(joint)
        coupling = ChainCoupling(Chain(matrix))
        assert mean_tail(coupling, 8, backward=True).values[1] == pytest.approx(exact[0], abs=1e-12)
        assert mean_tail(coupling, 8, backward=True).values[2] == pytest.approx(exact[1], abs=1e-12)
        assert mean_tail(coupling, 8, backward=False).values[1] != pytest.approx(exact[0], abs=1e-3)


def _backward_distance(joint):
    """``E_{x,x'} TV`` of the row one and two places before, from the joint law of three rows."""
    distances = []
    for pair in (joint.sum(axis=0), joint.sum(axis=1)):
        law = pair.sum(axis=0)
        kernel = (pair / law).T
        apart = np.abs(kernel[:, None, :] - kernel[None, :, :]).sum(axis=2) / 2.0
        distances.append(float(law @ apart @ law))
    return distances


def test_independent_chains_have_the_mechanisms_own_curve():
    curve = GaussianCurve(0.4)
    assert leakage(MarkovChain([[0.3, 0.7], [0.3, 0.7]]), curve, 1000) is curve
    assert MarkovChain([[0.3, 0.7], [0.3, 0.7]]).concentration(1000) == pytest.approx(1000.0)
    assert leakage(MarkovChain([[1.0]]), curve, 10) is curve


def law_by_places(coupling, rows):
    """``P[H = h]``: every place in the series by itself."""
    tails = coupling.forward(1, rows + 1), coupling.backward(1, rows + 1)
    law = np.zeros(rows + 1)
    for weight, forward, backward in zip(coupling.weights, *tails, strict=True):
        for place in range(1, rows + 1):
            times = np.convolve(_cut(forward, place), _cut(backward, rows + 1 - place))
            law[: len(times) - 1] += weight / rows * times[1:]
    law[1] += 1.0 - coupling.weights.sum()
    return law


def _cut(tail, most):
    masses = np.concatenate([[0.0], tail[:most] - tail[1 : most + 1]])
    masses[most] = tail[most - 1]
    return masses


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 16, 33])
def test_one_convolution_is_the_average_over_places(rows):
    for _, matrix, _ in sticky_chains(6, seed=5):
        coupling = ChainCoupling(Chain(matrix))
        bound = spread(coupling, ((rows, 1),))
        law = np.zeros(rows + 1)
        law[list(bound.counts)] = bound.weights
        assert law == pytest.approx(law_by_places(coupling, rows), abs=3e-12)


def test_series_of_several_lengths_count_by_rows():
    coupling = ChainCoupling(Chain([[0.9, 0.1], [0.2, 0.8]]))
    bound = spread(coupling, ((3, 2), (10, 1)))
    law = np.zeros(11)
    law[list(bound.counts)] = bound.weights
    expected = 10 / 16 * law_by_places(coupling, 10)
    expected[:4] += 6 / 16 * law_by_places(coupling, 3)
    assert law == pytest.approx(expected, abs=3e-12)


def test_coarse_time_rounds_up(monkeypatch):
    for module in (chain_coupling, leakage_of_series):
        monkeypatch.setattr(module, "CELLS", 1)
    for matrix in ([[0.99, 0.01], [0.005, 0.995]], [[0.9, 0.1, 0.0], [0.1, 0.899, 0.001], [0.0, 0.002, 0.998]]):
        coupling = ChainCoupling(Chain(matrix))
        assert meeting_tails(coupling, 2048).step > 1
        for rows in (300, 1100):
            exact = np.cumsum(law_by_places(coupling, rows))
            bound = spread(coupling, ((rows, 1),))
            said = np.cumsum(bound.weights)
            assert np.all(said <= exact[list(bound.counts)] + 3e-12)
            assert np.dot(bound.counts, bound.weights) < 1.1 * np.dot(np.diff(exact, prepend=0.0), np.arange(rows + 1))


def test_rows_that_differ_in_simulated_couplings():
    """Two states and a positive eigenvalue: moving both by one uniform number is a maximal coupling."""
    rng, rows, runs = np.random.default_rng(7), 30, 20_000
    ones = np.array([0.1, 0.8])  # P[next = 1 | state]
    law = np.array([2 / 3, 1 / 3])
    place = rng.integers(rows, size=runs)
    pair = rng.choice(2, p=law, size=(2, runs))
    differ = np.ones(runs)
    for direction, room in ((1, rows - 1 - place), (-1, place)):
        assert direction in (1, -1)  # the chain is reversible: both directions have one kernel
        states = pair.copy()
        for step in range(1, rows):
            states = (rng.random(runs) < ones[states]).astype(int)
            differ += (states[0] != states[1]) & (step <= room)
    bound = spread(ChainCoupling(Chain([[0.9, 0.1], [0.2, 0.8]])), ((rows, 1),))
    for count in (1, 2, 5, 10, 20):
        said = sum(weight for rows, weight in zip(bound.counts, bound.weights, strict=True) if rows <= count)
        assert np.mean(differ <= count) == pytest.approx(said, abs=5 * math.sqrt(0.25 / runs))


def test_contraction_bounds_every_chain_of_the_set():
    rng = np.random.default_rng(8)
    for trial in range(40):
        states = 2 + trial % 3
        matrix, radius = random_matrix(rng, states), rng.choice([0.02, 0.1, 0.3])
        bound = Contraction(Chain(matrix), np.full(states, radius)).at(1, 40)
        for _ in range(10):
            exact = Chain(random_member(rng, matrix, radius)).distances(1, 40).max(axis=0)
            assert np.all(exact <= bound + 1e-12)


def test_contraction_of_two_states_is_that_of_the_slowest_chain():
    contraction = Contraction(Chain([[0.9, 0.1], [0.2, 0.8]]), np.array([0.04, 0.1]))
    assert contraction.at(1, 20) == pytest.approx((0.7 + 0.07) ** np.arange(20), rel=1e-9)
    assert contraction.at(1000, 3) == pytest.approx(0.77 ** (1000.0 * np.arange(3)), rel=1e-6)
    assert contraction.rate == pytest.approx(0.77)


def test_backward_tails_of_sets_hold_on_average_for_every_chain_and_first_law():
    rng = np.random.default_rng(9)
    for trial in range(40):
        states = 2 + trial % 2
        matrix, radius = random_matrix(rng, states, sticky=0.3), 0.05
        said = UniformCoupling(Contraction(Chain(matrix), np.full(states, radius)), states).backward(1, 3)[0]
        joint = joint_law(random_member(rng, matrix, radius), rng.dirichlet(np.full(states, 0.5)), 3)
        exact = _backward_distance(joint)
        assert exact[0] <= said[1] + 1e-12
        assert exact[1] <= said[2] + 1e-12


def test_more_doubt_never_leaks_less():
    leaks = [
        leakage(MarkovChain([[0.9, 0.1], [0.2, 0.8]], uncertainty=radius), GaussianCurve(0.05), 5_000).delta(EPSILONS)
        for radius in (0.0, 0.01, 0.1, 0.25)
    ]
    assert all(np.all(less <= 1.05 * more + 1e-12) for less, more in itertools.pairwise(leaks))
