"""The best quilts of chains, against a search over all quilts with influences from joint laws."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everhold.dependence.series.markov_chain import MarkovChain
from everhold.dependence.series.mixing import influence_bound, stationary_sides
from everhold.errors import DependenceError
from everhold_lab.releases import markov_quilt
from everhold_lab.releases.markov_quilt import best_quilts, chain_search, remote_rows, search_from_law, spectral_search

THREE = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5]])  # not reversible
STICKY = np.array([[0.95, 0.05], [0.1, 0.9]])
WITH_ZEROS = np.array([[0.5, 0.5, 0.0], [0.0, 0.4, 0.6], [0.7, 0.0, 0.3]])
ALIKE = np.array([[0.3, 0.7], [0.3, 0.7]])
CHAINS = {"three": THREE, "sticky": STICKY, "zeros": WITH_ZEROS, "alike": ALIKE}


def stationary(transition, law, **chain):
    return best_quilts(lambda reach: stationary_sides(transition, law, reach), **chain)


def stationary_law(transition):
    states = len(transition)
    system = np.vstack([transition.T - np.eye(states), np.ones(states)])
    return np.linalg.lstsq(system, np.append(np.zeros(states), 1.0), rcond=None)[0]


def random_chain(seed, states, *, zeros=0.0):
    rng = np.random.default_rng(seed)
    matrix = rng.exponential(size=(states, states)) * (rng.random((states, states)) >= zeros) + 0.05 * np.eye(states)
    return matrix / matrix.sum(axis=1, keepdims=True)


def influence_of(transition, laws, row, quilt):
    """Max-influence of a row on its quilt from the joint law of the three rows; no side is looked at alone."""
    joint = np.diag(laws[row])[:, :, None]  # row, place before, place after
    if quilt[0] is not None:
        power = np.linalg.matrix_power(transition, row - quilt[0])
        joint = (laws[quilt[0]][:, None] * power).T[:, :, None]
    else:
        joint = laws[row][:, None, None]
    if quilt[1] is not None:
        joint = joint * np.linalg.matrix_power(transition, quilt[1] - row)[:, None, :]
    worst = 0.0
    for x in np.flatnonzero(laws[row] > 0):
        for other in np.flatnonzero(laws[row] > 0):
            above, below = joint[x] / laws[row][x], joint[other] / laws[row][other]
            if np.any((above > 0) & (below == 0)):
                return math.inf
            seen = above > 0
            worst = max(worst, float(np.max(np.log(above[seen] / below[seen]))))
    return worst


def brute_scales(transition, law, *, rows, epsilon, is_stationary):
    """The smallest scale of each row over every quilt of the chain."""
    laws = [law]
    for _ in range(rows - 1):
        laws.append(law if is_stationary else laws[-1] @ transition)
    known, scales = {}, []
    for row in range(rows):
        best = rows / epsilon
        for before in [None, *range(row)]:
            for after in [None, *range(row + 1, rows)]:
                near = (row if before is None else row - before - 1) + (
                    rows - 1 - row if after is None else after - row - 1
                )
                if (near + 1) / epsilon >= best:
                    continue
                key = (before is not None and row - before, after is not None and after - row, is_stationary or row)
                if key not in known:
                    known[key] = influence_of(transition, laws, row, (before, after))
                if known[key] < epsilon:
                    best = min(best, (near + 1) / (epsilon - known[key]))
        scales.append(best)
    return scales


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("name", CHAINS)
def test_a_stationary_chain_of_100_rows_agrees_with_brute_force(name, epsilon):
    law = stationary_law(CHAINS[name])
    found = stationary(CHAINS[name], law, rows=100, epsilon=epsilon)
    expected = brute_scales(CHAINS[name], law, rows=100, epsilon=epsilon, is_stationary=True)
    np.testing.assert_allclose(found.scale, expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "start", "rows"),
    [
        pytest.param("three", [1.0, 0.0, 0.0], 100, marks=pytest.mark.slow),
        ("zeros", [0.2, 0.3, 0.5], 40),
        ("zeros", [0.0, 1.0, 0.0], 40),
    ],
)
def test_a_chain_from_a_law_agrees_with_brute_force(name, start, rows):
    law = np.array(start)
    found = search_from_law(CHAINS[name], law, rows=rows, epsilon=1.0)
    expected = brute_scales(CHAINS[name], law, rows=rows, epsilon=1.0, is_stationary=False)
    np.testing.assert_allclose(found.scale, expected, rtol=1e-9)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), states=st.integers(1, 4), rows=st.integers(1, 9), epsilon=st.floats(0.05, 8.0))
def test_short_random_chains_agree_with_brute_force(seed, states, rows, epsilon):
    chain = random_chain(seed, states, zeros=0.2)
    law = np.random.default_rng(seed).dirichlet(np.ones(states))
    expected = brute_scales(chain, law, rows=rows, epsilon=epsilon, is_stationary=False)
    np.testing.assert_allclose(search_from_law(chain, law, rows=rows, epsilon=epsilon).scale, expected, rtol=1e-9)


@pytest.mark.parametrize("reach", [1, 3, 100])
def test_the_pruned_search_loses_nothing(monkeypatch, reach):
    law = stationary_law(STICKY)
    plain = stationary(STICKY, law, rows=150, epsilon=1.5)
    monkeypatch.setattr(markov_quilt, "_FIRST_REACH", reach)
    np.testing.assert_allclose(stationary(STICKY, law, rows=150, epsilon=1.5).scale, plain.scale, rtol=1e-12)
    np.testing.assert_allclose(search_from_law(STICKY, law, rows=150, epsilon=1.5).scale, plain.scale, rtol=1e-9)


def test_the_reported_quilts_have_the_reported_scale():
    law = stationary_law(THREE)
    found = stationary(THREE, law, rows=40, epsilon=1.0)
    for row in range(40):
        quilt = found.quilt(row)
        before = next((node for node in quilt.quilt if node < row), None)
        after = next((node for node in quilt.quilt if node > row), None)
        influence = influence_of(THREE, [law] * 40, row, (before, after))
        assert found.influence[row] == pytest.approx(influence, abs=1e-12)
        assert found.count[row] == len(quilt.nearby) + 1
        assert found.scale[row] == pytest.approx(found.count[row] / (1.0 - influence), rel=1e-12)
        everyone = {row, *quilt.nearby, *quilt.quilt, *remote_rows(quilt, 40)}
        assert everyone == set(range(40))
        inside = range(-1 if before is None else before, (40 if after is None else after) + 1)
        assert set(quilt.nearby) == {node for node in inside if 0 <= node < 40} - {row, *quilt.quilt}


def test_long_chains_have_the_scale_of_shorter_ones_and_take_a_moment():
    law = stationary_law(THREE)
    long = stationary(THREE, law, rows=100_000, epsilon=1.0)
    assert float(np.max(long.scale)) == pytest.approx(float(np.max(stationary(THREE, law, rows=60, epsilon=1.0).scale)))


def test_independent_rows_need_no_rows_nearby():
    assert float(np.max(stationary(ALIKE, np.array([0.3, 0.7]), rows=50, epsilon=2.0).scale)) == pytest.approx(0.5)


def test_a_chain_that_never_forgets_has_the_empty_quilt():
    found = stationary(np.eye(2), np.array([0.5, 0.5]), rows=30, epsilon=2.0)
    assert found.scale.tolist() == [15.0] * 30
    assert found.quilt(4).quilt == ()


def test_states_that_do_not_occur_do_not_count():
    chain = np.array([[0.6, 0.4, 0.0], [0.3, 0.7, 0.0], [0.5, 0.0, 0.5]])
    law = np.append(stationary_law(chain[:2, :2]), 0.0)
    inner = stationary(chain[:2, :2], law[:2], rows=50, epsilon=1.0)
    assert stationary(chain, law, rows=50, epsilon=1.0).scale.tolist() == inner.scale.tolist()


def mixing_of(transition):
    """Norm of the kernel on mean-zero functions, and the least stationary probability."""
    law = stationary_law(transition)
    root = np.sqrt(law)
    return float(np.linalg.norm(root[:, None] * transition / root - np.outer(root, root), 2)), float(law.min())


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), states=st.integers(2, 4), distance=st.integers(1, 12))
def test_the_bound_from_the_gap_is_never_below_the_influence(seed, states, distance):
    chain = random_chain(seed, states)
    norm, least = mixing_of(chain)
    bound = float(influence_bound(np.array([distance]), norm=norm, least=least)[0])
    laws = [stationary_law(chain)] * (distance + 1)
    assert influence_of(chain, laws, 0, (None, distance)) <= bound + 1e-9
    assert influence_of(chain, laws, distance, (0, None)) <= bound + 1e-9


def test_the_bound_from_the_gap_cannot_be_smaller():
    """A symmetric chain of two states attains it: ``d_t = lambda^t``, and both signs of it occur."""
    chain = np.array([[0.8, 0.2], [0.2, 0.8]])
    exact = influence_of(chain, [np.array([0.5, 0.5])] * 4, 0, (None, 3))
    assert float(influence_bound(np.array([3]), norm=0.6, least=0.5)[0]) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("name", ["three", "sticky"])
def test_the_approximate_search_needs_at_least_as_much_noise(name):
    norm, least = mixing_of(CHAINS[name])
    exact = stationary(CHAINS[name], stationary_law(CHAINS[name]), rows=400, epsilon=2.0)
    bound = spectral_search(norm=norm, least=least, rows=400, epsilon=2.0)
    assert np.all(bound.scale >= exact.scale)
    assert float(np.max(bound.scale)) < 400 / 2.0


def test_without_a_gap_only_the_empty_quilt_is_left():
    assert spectral_search(norm=1.0, least=0.3, rows=20, epsilon=1.0).scale.tolist() == [20.0] * 20


def test_a_long_chain_from_a_law_is_refused():
    with pytest.raises(DependenceError, match="let it start stationary"):
        search_from_law(STICKY, np.array([1.0, 0.0]), rows=1001, epsilon=1.0)


def test_probabilities_that_a_float_cannot_hold_are_refused():
    with pytest.raises(DependenceError, match="below 1e-290"):
        search_from_law(np.array([[1.0, 1e-300], [0.5, 0.5]]), np.array([1.0, 0.0]), rows=3, epsilon=1.0)


def test_lost_digits_count_as_an_infinite_influence():
    chain = np.array([[0.5, 0.5, 1e-300], [0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    found = stationary(chain, np.array([0.4, 0.3, 0.3]), rows=3, epsilon=1.0)
    assert found.scale[1] == 3.0


def perturbed(chain, radius, seed):
    """A chain whose rows are within the radius of the given one's in L1."""
    other = random_chain(seed, len(chain))
    return chain + (other - chain) * radius / np.abs(other - chain).sum(axis=1).max()


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), states=st.integers(2, 4), radius=st.sampled_from([0.0001, 0.01, 0.1]))
def test_influences_of_a_set_of_chains_hold_for_every_chain_in_it(seed, states, radius):
    centre = random_chain(seed, states)
    before, after = MarkovChain(centre, uncertainty=radius).law.sides(8)
    inside = perturbed(centre, radius, seed + 1)
    laws = [stationary_law(inside)] * 9
    for distance in range(1, 9):
        assert influence_of(inside, laws, 0, (None, distance)) <= after[distance - 1, 0, 0] + 1e-12
        assert influence_of(inside, laws, distance, (0, None)) <= before[distance - 1, 0, 0] + 1e-12


def test_the_set_needs_more_noise_than_its_centre_and_little_more_if_it_is_small():
    known = chain_search(MarkovChain(THREE), rows=200, epsilon=1.0).scale.max()
    scales = [
        chain_search(MarkovChain(THREE, uncertainty=u), rows=200, epsilon=1.0).scale.max() for u in (1e-6, 0.01, 0.1)
    ]
    assert known < scales[0] < scales[1] < scales[2] < 200
    assert scales[0] < 1.5 * known


def test_a_set_with_chains_that_never_forget_has_the_empty_quilt():
    assert chain_search(MarkovChain(STICKY, uncertainty=0.2), rows=20, epsilon=1.0).scale.tolist() == [20.0] * 20


def test_models_are_searched_as_they_say():
    law = (0.5, 0.25, 0.25)
    given_law = chain_search(MarkovChain(THREE, initial=law), rows=30, epsilon=1.0)
    np.testing.assert_allclose(
        given_law.scale, search_from_law(THREE, np.array(law), rows=30, epsilon=1.0).scale, rtol=1e-9
    )
    stationary_model = chain_search(MarkovChain(THREE), rows=30, epsilon=1.0)
    expected = stationary(THREE, stationary_law(THREE), rows=30, epsilon=1.0)
    np.testing.assert_allclose(stationary_model.scale, expected.scale, rtol=1e-9)


@pytest.mark.parametrize(
    ("model", "exact"),
    [
        (MarkovChain(STICKY, initial=(1.0, 0.0)), False),
        (MarkovChain(STICKY, initial=(1.0, 0.0), uncertainty=0.01), True),
    ],
)
def test_a_law_of_its_own_is_refused_where_it_cannot_be_used(model, exact):
    with pytest.raises(DependenceError, match="does not start in its stationary law"):
        chain_search(model, rows=10, epsilon=1.0, exact=exact)
