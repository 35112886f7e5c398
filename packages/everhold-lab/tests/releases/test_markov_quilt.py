"""The Markov Quilt Mechanism: what is released loses no more than it says, by enumeration of tiny models."""

import itertools
import json
import math

import numpy as np
import pytest
from brute_force import joint_of
from quilt_samples import is_markov_quilt

from everhold.dependence import Groups
from everhold.dependence.series.markov_chain import MarkovChain
from everhold.randomness import SecureNoise, SeededNoise
from everhold_lab.releases.markov_quilt import MarkovQuiltMechanism
from everhold_privacy.networks.factors import Factor, FactorModel
from everhold_privacy.networks.models import BayesianNetwork

CHAIN = MarkovChain([[0.75, 0.25], [0.4, 0.6]])
RNG = np.random.default_rng(5)


def chain_joint(rows):
    joint = CHAIN.stationary
    for _ in range(rows - 1):
        joint = joint[..., None] * np.array(CHAIN.transition)
    return joint


def network(edges, states, seed):
    """A random Markov network with a table for each edge."""
    rng = np.random.default_rng(seed)
    tables = (Factor(edge, rng.uniform(0.6, 1.6, (states[edge[0]], states[edge[1]]))) for edge in edges)
    return FactorModel(states, tuple(tables))


TREE = network([(0, 1), (1, 2), (1, 3), (3, 4)], (2, 2, 3, 2, 2), 1)
LOOP = network([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)], (2, 2, 2, 2, 2), 2)
APART = network([(0, 1), (2, 3)], (2, 2, 2, 2), 3)
MODELS = {"chain": (CHAIN, chain_joint(6)), **{
    name: (model, joint_of(model)) for name, model in (("tree", TREE), ("loop", LOOP), ("apart", APART))
}}  # fmt: skip


def laplace_loss(joint, scales):
    """Largest privacy loss about a row of releases of the number of rows in state 1, with Laplace noise.

    The density of an output is a sum of exponentials; ratios are monotone between the possible values of the query, so
    their extremes are at these values; several releases are of the same query.
    """
    values = np.array([sum(index > 0 for index in place) for place in np.ndindex(joint.shape)], dtype=float)
    grid = list(itertools.product(sorted(set(values)), repeat=len(scales)))
    kernel = np.exp(-sum(np.abs(np.array(grid)[:, None, k] - values) / scale for k, scale in enumerate(scales)))
    worst = 0.0
    for row, states in enumerate(joint.shape):
        laws = [np.moveaxis(joint, row, 0)[x] for x in range(states)]
        places = np.moveaxis(np.arange(joint.size).reshape(joint.shape), row, 0)
        densities = [kernel[:, places[x].ravel()] @ (laws[x].ravel() / laws[x].sum()) for x in range(states)]
        worst = max(worst, *(float(np.max(np.log(a / b))) for a, b in itertools.permutations(densities, 2)))
    return worst


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("name", MODELS)
def test_the_loss_about_every_row_stays_within_epsilon(name, epsilon):
    model, joint = MODELS[name]
    mechanism = MarkovQuiltMechanism(model, rows=joint.ndim, epsilon=epsilon)
    assert laplace_loss(joint, [mechanism.scale]) <= mechanism.loss() + 1e-9
    assert mechanism.loss() <= epsilon + 1e-9


def test_the_scale_for_independent_rows_would_lose_more():
    assert laplace_loss(chain_joint(6), [1.0 / 1.0]) > 1.2


def test_releases_with_the_same_quilts_add_up():
    mechanism = MarkovQuiltMechanism(CHAIN, rows=5, epsilon=1.5)
    lost = laplace_loss(chain_joint(5), [mechanism.scale] * 2)
    assert laplace_loss(chain_joint(5), [mechanism.scale]) < lost <= mechanism.loss(releases=2) + 1e-9
    assert mechanism.loss(releases=2) <= 3.0


def max_influence_of(joint, row, quilt):
    """Max-influence by enumeration."""
    axes = tuple(axis for axis in range(joint.ndim) if axis not in (row, *quilt))
    table = np.moveaxis(joint.sum(axis=axes), sorted((row, *quilt)).index(row), 0).reshape(joint.shape[row], -1)
    laws = table / table.sum(axis=1, keepdims=True)
    return max(float(np.max(np.log(a / b))) for a, b in itertools.permutations(laws, 2))


def every_quilt(graph, row):
    """Quilts of every set of other rows: what a path reaches before the set is nearby."""
    others = [node for node in range(graph.nodes) if node != row]
    for size in range(len(others) + 1):
        for cut in itertools.combinations(others, size):
            yield cut, len(graph.reachable(row, cut)) - 1


@pytest.mark.parametrize("name", ["tree", "loop", "apart"])
def test_the_quilts_of_a_network_are_quilts_and_nearly_the_best(name):
    model, joint = MODELS[name]
    mechanism = MarkovQuiltMechanism(model, rows=joint.ndim, epsilon=2.0)
    for active in mechanism.quilts:
        quilt = active.quilt
        assert is_markov_quilt(model.graph, quilt)
        influence = max_influence_of(joint, quilt.row, quilt.quilt) if quilt.quilt else 0.0
        assert influence <= active.influence <= influence + 1e-9
        assert active.scale == pytest.approx((len(quilt.nearby) + 1) / (2.0 - influence), rel=1e-9)
        best = math.inf
        for cut, nearby in every_quilt(model.graph, quilt.row):
            known = max_influence_of(joint, quilt.row, cut) if cut else 0.0
            best = min(best, (nearby + 1) / (2.0 - known)) if known < 2.0 else best
        assert best * (1 - 1e-9) <= active.scale
        if name == "apart":
            assert active.scale == pytest.approx(best, rel=1e-9)


def test_a_bayesian_network_is_searched_by_its_joint_law():
    rows = {"a": (2, (), [0.6, 0.4]), "b": (2, ("a",), [[0.7, 0.3], [0.4, 0.6]]), "c": (2, (), [0.5, 0.5])}
    mechanism = MarkovQuiltMechanism(BayesianNetwork(rows), rows=3, epsilon=1.0)
    lone = mechanism.quilt_of(2)
    assert (lone.quilt.nearby, lone.scale) == ((), 1.0)
    assert mechanism.to_dict()["rows"][2] == {
        "row": 2, "nearby": [], "quilt": [], "remote": [0, 1], "influence": 0.0, "scale": 1.0,
    }  # fmt: skip


def test_a_network_that_is_a_chain_needs_the_noise_of_the_chain():
    edges = [Factor((0,), CHAIN.stationary), *(Factor((i, i + 1), CHAIN.transition) for i in range(29))]
    as_network = MarkovQuiltMechanism(FactorModel((2,) * 30, tuple(edges)), rows=30, epsilon=1.0)
    as_chain = MarkovQuiltMechanism(CHAIN, rows=30, epsilon=1.0)
    assert as_chain.scale * (1 - 1e-9) <= as_network.scale <= as_chain.scale * 1.25


def test_the_document_has_the_rows_and_the_scale():
    document = MarkovQuiltMechanism(CHAIN, rows=20, epsilon=1.0).to_dict()
    assert json.loads(json.dumps(document)) == document
    assert document["scale"] == max(row["scale"] for row in document["rows"])
    for number, row in enumerate(document["rows"]):
        assert row["row"] == number
        assert sorted([number, *row["nearby"], *row["quilt"], *row["remote"]]) == list(range(20))


def test_every_form_shows_all_rows():
    mechanism = MarkovQuiltMechanism(CHAIN, rows=7, epsilon=1.0)
    assert mechanism.to_text().count("\n") == 7
    assert mechanism.to_rows()[3]["nearby"] == len(mechanism.quilt_of(3).quilt.nearby)


def test_the_approximate_search_gives_more_noise():
    exact, bound = (
        MarkovQuiltMechanism(CHAIN, rows=500, epsilon=1.0, search=s).scale for s in ("exact", "approximate")
    )
    assert exact < bound < 4 * exact


def test_influences_by_distance_are_those_of_the_quilts():
    found = CHAIN.law.influences(6)
    joint = chain_joint(7)
    assert found["one row later"][4] == pytest.approx(max_influence_of(joint, 0, (5,)), abs=1e-9)
    assert found["one row earlier"][4] == pytest.approx(max_influence_of(joint, 6, (1,)), abs=1e-9)
    assert found["both sides"][2] == pytest.approx(max_influence_of(joint, 3, (0, 6)), abs=1e-9)
    assert np.all(found["bound from the spectral gap"] >= found["both sides"])
    assert "bound from the spectral gap" not in MarkovChain([[0.5, 0.5]] * 2, uncertainty=0.1).law.influences(3)


def test_a_release_has_the_stated_noise_on_a_fine_grid():
    mechanism = MarkovQuiltMechanism(CHAIN, rows=100, epsilon=1.0, lipschitz=0.01)
    noise = SeededNoise(1)
    errors = [mechanism.release(0.4, noise).value - 0.4 for _ in range(4000)]
    assert np.mean(np.abs(errors)) == pytest.approx(mechanism.scale, rel=0.06)  # 4 standard errors
    release = mechanism.release(0.4, SecureNoise())
    assert mechanism.scale <= release.scale <= mechanism.scale * (1 + 1e-6)
    assert round(release.value / release.step) * release.step == release.value  # dividing may round
    assert not release.simulated
    assert noise.simulated
    assert "Pufferfish privacy with epsilon 1" in release.statement
    assert "Nothing is said about an adversary who knows other rows" in release.statement
    assert "(a Markov chain of 2 states in its stationary law, one row per step)" in release.statement
    assert json.loads(json.dumps(release.to_dict())) == release.to_dict()


class _NoNoise:
    simulated = True

    def laplace(self, scale, size, *, stream):
        return np.zeros(size, dtype=np.int64)


@pytest.mark.parametrize("lipschitz", [0.01, 1.0, 1 / 3])
def test_neighbours_stay_within_the_sensitivity_that_the_noise_is_made_for(lipschitz):
    """A row changes the value by the Lipschitz constant and its evaluation may be off by half a step."""
    mechanism = MarkovQuiltMechanism(CHAIN, rows=100, epsilon=1.0, lipschitz=lipschitz)
    step = mechanism.release(0.0, _NoNoise()).step
    allowed = mechanism.release(0.0, _NoNoise()).scale / mechanism.scale * lipschitz
    for value in np.linspace(-2.0, 2.0, 41):
        low = mechanism.release(value - 0.49 * step, _NoNoise()).value
        high = mechanism.release(value + lipschitz + 0.49 * step, _NoNoise()).value
        assert high - low <= allowed * (1 + 1e-9)


@pytest.mark.parametrize(
    ("model", "given", "reason"),
    [
        (Groups([2, 2]), {}, "Pass a Markov chain or a network"),
        (CHAIN, {"rows": 0}, "rows is 0"),
        (CHAIN, {"rows": 2.5}, "rows is 2.5"),
        (CHAIN, {"epsilon": 0.0}, "epsilon is 0.0"),
        (CHAIN, {"epsilon": math.nan}, "epsilon is nan"),
        (CHAIN, {"lipschitz": -1.0}, "lipschitz is -1.0"),
        (CHAIN, {"search": "quick"}, "search is 'quick'"),
        (TREE, {"rows": 4}, "The network has 5 nodes"),
        (TREE, {"rows": 5, "search": "approximate"}, "for chains"),
    ],
)
def test_what_makes_no_sense_is_refused(model, given, reason):
    with pytest.raises(ValueError, match=reason):
        _ = MarkovQuiltMechanism(model, **{"rows": 4, "epsilon": 1.0} | given).scale


def test_rows_that_do_not_exist_and_values_that_are_not_finite_are_refused():
    mechanism = MarkovQuiltMechanism(CHAIN, rows=4, epsilon=1.0)
    with pytest.raises(ValueError, match="no row 4"):
        mechanism.quilt_of(4)
    with pytest.raises(ValueError, match="not finite"):
        mechanism.release(math.nan, SecureNoise())


def test_noise_that_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="pass a larger epsilon"):
        MarkovQuiltMechanism(CHAIN, rows=4, epsilon=1e-15).release(0.0, SecureNoise())


def test_a_release_speaks_of_the_law_of_the_rows_and_of_nothing_else():
    known = {"gap": 7, "groups": "house", "state": "ill", "order_by": "day"}
    fitted = MarkovChain([[0.8, 0.2], [0.3, 0.7]], uncertainty=0.01, miss=0.01, **known)
    statement = MarkovQuiltMechanism(fitted, rows=100, epsilon=2.0).statement
    assert "within 0.01 in total per row" in statement
    assert "with confidence 0.99" in statement
    assert not any(word in statement for word in ("training", "unobserved", "left out", "house", "sealed"))


def test_more_rows_than_can_be_searched_are_refused():
    with pytest.raises(ValueError, match="Pass a whole number from 1 to 1,000,000"):
        MarkovQuiltMechanism(CHAIN, rows=10**9, epsilon=1.0)
