import itertools
import json

import brute_force
import numpy as np
import pytest
from networks_by_hand import (
    EPSILONS,
    counting_mechanism,
    random_network,
    randomised_response,
    true_leak,
)

from everhold_privacy.curves import GaussianCurve, PureCurve
from everhold_privacy.leakage import LeakageCurve, RowClass, Spread
from everhold_privacy.networks.bounds import NetworkParts, _survivals
from everhold_privacy.networks.inference import forest
from everhold_privacy.networks.models import BayesianNetwork, MarkovNetwork
from everhold_privacy.networks.quilts import influence_bound

MECHANISMS = (counting_mechanism, randomised_response)
COPY = np.array([[0.9, 0.1], [0.1, 0.9]])


def chain(length, table=COPY):
    nodes = {"n0": (2, (), [0.5, 0.5])}
    nodes |= {f"n{t}": (2, (f"n{t - 1}",), table) for t in range(1, length)}
    return nodes


def holds(curve, truth):
    return bool(np.all(curve.delta(EPSILONS) >= truth - 1e-12))


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_curve_is_above_the_true_leak_of_small_networks(seed, mechanism):
    network = random_network(seed)
    for level in (0.1, 1.0):
        truth = true_leak(network, mechanism(level))
        assert holds(network.leakage(PureCurve(level), network.rows), truth)


def bounds_one_by_one(network, curve):
    """Every bound of every class alone, as the curve of the network."""
    classes = network.bounds.classes
    for choice in itertools.product(*(rows.bounds for rows in classes)):
        yield LeakageCurve(curve, tuple(RowClass(r.share, (b,)) for r, b in zip(classes, choice, strict=True)))


@pytest.mark.parametrize("seed", range(24))
def test_each_bound_alone_is_above_the_true_leak(seed):
    network = random_network(seed)
    truth = true_leak(network, counting_mechanism(0.7))
    alone = bounds_one_by_one(network, PureCurve(0.7))
    assert all(holds(curve, truth) for curve in itertools.islice(alone, 200))


def test_a_network_that_lacks_a_factor_promises_too_much():
    nodes = chain(4)
    truth = true_leak(BayesianNetwork(nodes), counting_mechanism(1.0))
    lacking = nodes | {"n1": (2, (), [0.5, 0.5])}
    assert holds(BayesianNetwork(nodes).leakage(PureCurve(1.0), 4), truth)
    assert not holds(BayesianNetwork(lacking).leakage(PureCurve(1.0), 4), truth)


def test_an_influence_that_is_too_small_promises_too_much():
    network = BayesianNetwork(chain(2))
    truth = true_leak(network, counting_mechanism(1.0))

    def curve(influence):
        return LeakageCurve(PureCurve(1.0), (RowClass(1.0, (Spread.quilt(nearby=0, influence=influence),)),))

    assert holds(curve(np.log(9.0)), truth)
    assert not holds(curve(0.1), truth)


def test_a_coupling_that_is_too_close_promises_too_much():
    network = BayesianNetwork(chain(2, np.array([[0.99, 0.01], [0.01, 0.99]])))
    truth = true_leak(network, counting_mechanism(1.0))
    curve = LeakageCurve(PureCurve(1.0), (RowClass(1.0, (Spread((1, 2), (0.9, 0.1)),)),))
    assert not holds(curve, truth)


@pytest.mark.parametrize("kind", [BayesianNetwork, MarkovNetwork])
def test_independent_nodes_leak_as_independent_rows(kind):
    if kind is BayesianNetwork:
        network = BayesianNetwork({name: (2, (), [0.3, 0.7]) for name in "abc"})
    else:
        network = MarkovNetwork(dict.fromkeys("abc", 2), [("a", [1.0, 2.0])])
    curve = GaussianCurve(0.3)
    assert network.leakage(curve, 3) is curve
    assert network.concentration(3) == 3.0
    assert network.bayesian_price(0.5, 3) == 2.0


def test_a_latent_cause_ties_rows_together_but_is_not_counted():
    causes = {"cause": (2, (), [0.5, 0.5]), "a": (2, ("cause",), COPY), "b": (2, ("cause",), COPY)}
    network = BayesianNetwork(causes, latent=["cause"])
    assert network.rows == 2
    largest = max(max(bound.counts) for rows in network.bounds.classes for bound in rows.bounds)
    assert largest == 2
    assert network.leakage(PureCurve(0.5), 2).delta(0.0) > PureCurve(0.5).delta(0.0)


def test_weaker_ties_leak_less():
    weak = BayesianNetwork(chain(30, np.array([[0.55, 0.45], [0.45, 0.55]]))).leakage(GaussianCurve(0.1), 30)
    strong = BayesianNetwork(chain(30)).leakage(GaussianCurve(0.1), 30)
    points = np.geomspace(1e-3, 2.0, 20)
    assert np.all(weak.delta(points) <= strong.delta(points))
    assert np.all(GaussianCurve(0.1).delta(points) <= weak.delta(points))


def forest_of(network):
    return forest(network.model, np.ones(len(network.names), dtype=bool))


@pytest.mark.parametrize("seed", [*range(0, 40, 4), *range(2, 42, 4)])
def test_influences_of_balls_are_above_the_exact_ones(seed):
    network = random_network(seed)
    trees = forest_of(network)
    radii = (0, 1, 2)
    nearby, influences = trees.ball_quilts(radii)
    for place, node in enumerate(trees.order.tolist()):
        distances = brute_force.distances(network.model.graph, node)
        for column, radius in enumerate(radii):
            exact = influence_bound(network.model, np.flatnonzero(distances == radius + 1).tolist(), node).value
            assert influences[place, column] >= exact - 1e-8
            assert nearby[place, column] == np.sum((distances > 0) & (distances <= radius))


def test_influences_of_balls_are_exact_on_a_symmetric_chain():
    network = BayesianNetwork(chain(9))
    trees = forest_of(network)
    _, influences = trees.ball_quilts((0, 1, 2))
    middle = int(np.flatnonzero(trees.order == 4)[0])
    for radius in range(3):
        exact = influence_bound(network.model, [3 - radius, 5 + radius], 4).value
        assert influences[middle, radius] == pytest.approx(exact, rel=1e-6)


def cluster_law(network, row):
    """P[H = h] of the cluster of a row by looking at every set of open edges."""
    trees = forest_of(network)
    place = {node: spot for spot, node in enumerate(trees.order.tolist())}
    law = np.zeros(len(network.names) + 1)
    for opened in itertools.product([0, 1], repeat=len(network.model.graph.edges)):
        chance, reached, grown = 1.0, {row}, True
        distances = brute_force.distances(network.model.graph, row)
        steps = []
        for (a, b), is_open in zip(network.model.graph.edges.tolist(), opened, strict=True):
            near, far = (a, b) if distances[a] < distances[b] else (b, a)
            down = trees.above[place[far]] == place[near]
            kappa = trees.kappa_down[place[far]] if down else trees.kappa_up[place[near]]
            chance *= kappa if is_open else 1.0 - kappa
            steps += [(near, far)] if is_open else []
        while grown:
            more = {far for near, far in steps if near in reached} - reached
            reached |= more
            grown = bool(more)
        law[len(reached)] += chance
    same = float(np.sum(trees.law[place[row]] ** 2))
    law *= 1.0 - same
    law[1] += same
    return law


@pytest.mark.parametrize("seed", [2, 6, 10, 14, 18])
def test_the_law_of_the_coupling_is_that_of_open_edges(seed):
    network = random_network(seed)
    trees = forest_of(network)
    count = len(network.names)
    counts = np.arange(1, count + 1)
    sizes = np.full(count, count)
    survival = _survivals(trees, np.arange(count), np.ones(count, dtype=np.int64), sizes, counts)
    for spot, node in enumerate(trees.order.tolist()):
        exact = 1.0 - np.cumsum(cluster_law(network, node))[1:]
        assert survival[spot] == pytest.approx(exact, abs=1e-9)


def test_laws_beyond_the_points_are_bounded_from_above(monkeypatch):
    network = BayesianNetwork(chain(40, np.array([[0.8, 0.2], [0.2, 0.8]])))
    trees = forest_of(network)
    arguments = trees, np.arange(40), np.ones(40, dtype=np.int64), np.full(40, 40), np.arange(1, 41)
    exact = _survivals(*arguments)
    monkeypatch.setattr("everhold_privacy.networks.bounds._POINTS", 8)
    rough = _survivals(*arguments)
    assert np.all(rough >= exact - 1e-10)
    assert np.all(rough[:, 30:39] < 0.01)


def test_laws_with_two_humps_keep_the_small_one(monkeypatch):
    star = {"n0": (2, (), [0.5, 0.5])} | {f"n{t}": (2, ("n0",), [[0.9, 0.1], [0.5, 0.5]]) for t in range(1, 60)}
    trees = forest_of(BayesianNetwork(star))
    arguments = trees, np.arange(60), np.ones(60, dtype=np.int64), np.full(60, 60), np.arange(1, 61)
    exact = _survivals(*arguments)
    monkeypatch.setattr("everhold_privacy.networks.bounds._POINTS", 8)
    rough = _survivals(*arguments)
    assert np.all(rough >= exact - 1e-10)
    np.testing.assert_allclose(rough[:, :7], exact[:, :7], atol=0.011)


def test_equal_components_are_looked_at_once():
    ring = [[2.0, 1.0], [1.0, 2.0]]
    names = {f"{family}{node}": 2 for family in range(50) for node in range(4)}
    factors = [((f"{k}{i}", f"{k}{(i + 1) % 4}"), ring) for k in range(50) for i in range(4)]
    parts = MarkovNetwork(names, factors).bounds.parts
    assert [number for number, _ in parts.different(np.arange(200))] == [50]


def test_a_mix_of_trees_and_others_is_averaged_over_all_rows():
    ring = [[2.0, 1.0], [1.0, 2.0]]
    states = dict.fromkeys(["a", "b", "c", "d", "e", "f"], 2)
    mixed = MarkovNetwork(states, [(pair, ring) for pair in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "e"))])
    assert sum(rows.share for rows in mixed.bounds.classes) == pytest.approx(1.0)
    truth = true_leak(mixed, counting_mechanism(0.5))
    assert holds(mixed.leakage(PureCurve(0.5), 6), truth)
    assert isinstance(mixed.bounds.parts, NetworkParts)


def grid(side, strength):
    like = [[strength, 1.0], [1.0, strength]]
    nodes = [(i, j) for i in range(side) for j in range(side)]
    pairs = [(a, b) for a, b in itertools.combinations(nodes, 2) if abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1]
    return MarkovNetwork(dict.fromkeys(map(str, nodes), 2), [((str(a), str(b)), like) for a, b in pairs])


@pytest.mark.parametrize("strength", [1.1, 2.0])
def test_the_curve_of_a_grid_of_nine_is_above_the_true_leak(strength):
    network = grid(3, strength)
    truth = true_leak(network, counting_mechanism(0.5))
    assert holds(network.leakage(PureCurve(0.5), 9), truth)


def test_a_grid_of_36_has_finite_influences_for_every_row():
    network = grid(6, 1.2)
    assert len(network.bounds.classes) == 6  # as many as there are places up to symmetry
    for rows in network.bounds.classes:
        assert [bound.counts for bound in rows.bounds[:2]] == [(36,), (1,)]
        exact = influence_bound(network.model, network.model.graph.neighbours(14), 14).value
        assert rows.bounds[1].influence <= exact * 1.05


@pytest.mark.slow
def test_a_hundred_thousand_nodes_become_a_few_classes():
    random = np.random.default_rng(1)
    tables = [np.array([[1.0 - a, a], [0.9 - a, 0.1 + a]]) for a in (0.2, 0.3, 0.5)]
    nodes = {}
    for node in range(100_000):
        place = node % 100
        above = (f"n{node - place + int(random.integers(place))}",) if place else ()
        nodes[f"n{node}"] = 2, above, tables[node % 3] if place else [0.5, 0.5]
    network = BayesianNetwork(nodes, row="person")
    assert len(network.components) == 1000
    assert len(network.bounds.classes) <= 64
    counted = {(count, b.influence) for rows in network.bounds.classes for b in rows.bounds for count in b.counts}
    assert len(counted) <= 250
    assert len(json.dumps(network.to_dict())) < 4 * 2**20
    assert 20_000 < network.concentration(100_000) <= 100_000


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("most", [1, 2])
def test_classes_that_had_to_be_joined_still_hold(monkeypatch, seed, most):
    monkeypatch.setattr("everhold_privacy.networks.bounds._MOST_CLASSES", most)
    network = random_network(seed)
    truth = true_leak(network, counting_mechanism(0.7))
    assert holds(network.leakage(PureCurve(0.7), network.rows), truth)
