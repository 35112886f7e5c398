import itertools
import math

import brute_force
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quilt_samples import CLOSE, SEEDS, graphs, grid, is_markov_quilt, path_graph, quilts_of, star, tiny

from everhold.errors import DependenceError
from everhold_privacy.networks.factors import Factor, FactorModel, Graph
from everhold_privacy.networks.quilts import (
    Quilt,
    conditional_quilt_influence,
    empty_quilt,
    influence_bound,
    quilt_behind,
    quilt_influence,
    quilts_by_distance,
)


@settings(deadline=None)
@given(graphs(), st.integers(0, 9))
def test_quilts_by_distance_are_quilts_and_have_the_smallest_cuts(graph_and_row, most):
    graph, row = graph_and_row
    quilts = quilts_by_distance(graph, row)
    assert all(is_markov_quilt(graph, quilt) for quilt in quilts)
    assert empty_quilt(graph, row) in quilts
    assert [len(quilt.nearby) for quilt in quilts] == sorted(len(quilt.nearby) for quilt in quilts)
    distances = graph.ball(row, graph.nodes)
    for radius in range(1, max(distances.values())):
        far = [node for node, distance in distances.items() if distance > radius]
        assert quilt_behind(graph, row, graph.minimum_cut(row, far)) in quilts
    few = quilts_by_distance(graph, row, most_nearby=most)
    assert set(few) <= set(quilts)
    assert empty_quilt(graph, row) in few
    assert all(len(quilt.nearby) <= most or not quilt.quilt for quilt in few)


def test_rows_of_a_cut_that_others_hide_are_remote():
    assert quilt_behind(path_graph(6), 0, [2, 4]) == Quilt(0, (1,), (2,))


def test_a_radius_limits_the_search():
    graph = path_graph(50)
    assert [quilt.quilt for quilt in quilts_by_distance(graph, 25, most_radius=2)] == [(24, 26), (23, 27), ()]
    assert quilts_by_distance(Graph(3, []), 1) == (Quilt(1, (), ()),)


def test_a_row_is_not_in_its_own_quilt():
    with pytest.raises(DependenceError, match="own quilt"):
        quilt_behind(Graph(3, [(0, 1), (1, 2), (0, 2)]), 0, [0])


@pytest.mark.parametrize("seed", SEEDS)
def test_quilt_influences_are_those_of_the_joint_table(seed):
    small, model = tiny(seed)
    joint = small.joint()
    for quilt in quilts_of(small):
        expected = brute_force.influence(joint, quilt.quilt, quilt.row)
        assert quilt_influence(model, quilt) == pytest.approx(expected, **CLOSE)
        largest = brute_force.over_contexts(joint, quilt.quilt, quilt.row, quilt.nearby)
        found = conditional_quilt_influence(model, quilt)
        assert found.exact
        assert found.value == pytest.approx(largest, **CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
def test_bounds_without_subsets_are_never_too_small(seed):
    small, model = tiny(seed)
    joint = small.joint()
    for quilt in quilts_of(small):
        largest = brute_force.over_contexts(joint, quilt.quilt, quilt.row, quilt.nearby)
        bounded = conditional_quilt_influence(model, quilt, most_nearby=-1)
        assert bounded.value >= largest - 1e-12


@pytest.mark.parametrize("seed", range(20))
def test_bounds_where_tables_are_too_large_are_never_too_small(seed, monkeypatch):
    small, model = tiny(seed)
    quilts = list(quilts_of(small))
    exact = [influence_bound(model, quilt.quilt, quilt.row) for quilt in quilts]
    contexts = [conditional_quilt_influence(model, quilt) for quilt in quilts]
    for place in ("inference", "quilts"):
        monkeypatch.setattr(f"everhold_privacy.networks.{place}.MOST_CELLS", 1)
    bounds = [influence_bound(model, quilt.quilt, quilt.row) for quilt in quilts]
    assert all(bound.value >= true.value - 1e-12 for bound, true in zip(bounds, exact, strict=True))
    assert all(
        conditional_quilt_influence(model, quilt).value >= true.value - 1e-12
        for quilt, true in zip(quilts, contexts, strict=True)
    )
    assert any(not bound.exact for bound in bounds) or not model.graph.edges.size


def test_known_side_rows_raise_the_influence_and_the_bound_sees_it():
    # 0 - 1 - 2 with the leaf 3 at 1: knowing 3 can only be told apart by subsets of the nearby rows
    strong = np.array([[9.0, 1.0], [1.0, 9.0]])
    model = FactorModel(
        (2,) * 4, (Factor((0, 1), [[90.0, 10.0], [99.0, 1.0]]), Factor((1, 2), strong), Factor((1, 3), strong))
    )
    quilt = quilt_behind(model.graph, 0, [2])
    alone, largest = quilt_influence(model, quilt), conditional_quilt_influence(model, quilt)
    assert quilt.nearby == (1, 3)
    assert largest.exact
    assert largest.value > alone + 0.1
    bounded = conditional_quilt_influence(model, quilt, most_nearby=0)
    assert not bounded.exact
    assert bounded.value >= largest.value


def test_the_bound_on_trees_shrinks_with_the_distance():
    weak = np.array([[3.0, 1.0], [1.0, 3.0]])
    spine = [(node, node + 1) for node in range(12)]
    leaves = [(node, 13 + node) for node in range(13)]
    model = FactorModel((2,) * 26, tuple(Factor(pair, weak) for pair in spine + leaves))
    values = [
        conditional_quilt_influence(model, quilt_behind(model.graph, 0, [end]), most_nearby=0).value
        for end in range(2, 13)
    ]
    assert all(after < 0.6 * before for before, after in itertools.pairwise(values))


def random_network(nodes, generator):
    """A Bayesian network with at most three parents among the few nodes before; its factors have the child last."""
    parents = [
        sorted(set(generator.integers(max(0, node - 4), node, size=min(node, 3)).tolist())) for node in range(nodes)
    ]
    return parents, [generator.dirichlet([1.5, 1.5], size=(2,) * len(above)) for above in parents]


def test_large_networks_agree_with_an_inference_engine():
    engines = pytest.importorskip("pyagrum")
    generator = np.random.default_rng(9)
    parents, tables = random_network(200, generator)
    factors = tuple(Factor((*above, node), tables[node]) for node, above in enumerate(parents))
    model = FactorModel((2,) * 200, factors)
    network = engines.BayesNet()
    for node in range(200):
        network.add(engines.LabelizedVariable(f"x{node}", "", 2))
    for node, above in enumerate(parents):
        for parent in above:
            network.addArc(parent, node)
        for states in itertools.product((0, 1), repeat=len(above)):
            network.cpt(node)[{f"x{p}": s for p, s in zip(above, states, strict=True)}] = tables[node][states].tolist()
    for row in (0, 77, 199):
        engine = engines.LazyPropagation(network)
        for quilt in quilts_by_distance(model.graph, row, most_radius=2)[:-1]:
            names = [f"x{node}" for node in (row, *quilt.quilt)]
            law = (
                engine.evidenceJointImpact(names[1:], names[:1]).reorganize(names[1:] + names[:1]).toarray()
            )  # the last comes first
            expected = np.abs(np.log(law[0] / law[1])).max()
            assert influence_bound(model, quilt.quilt, row).value == pytest.approx(expected, rel=1e-8)


def test_empty_quilts_and_other_components_have_no_influence():
    model = FactorModel((2, 2, 2), (Factor((0, 1), [[1.0, 0.0], [0.0, 1.0]]),))
    assert influence_bound(model, [], 0).value == 0.0
    assert influence_bound(model, [2], 0).value == 0.0
    assert quilt_influence(model, empty_quilt(model.graph, 0)) == 0.0
    assert conditional_quilt_influence(model, empty_quilt(model.graph, 0)).value == 0.0


def test_a_network_with_too_large_cliques_is_bounded():
    bound = influence_bound(grid(30, 1.2), (1, 30), 0)
    assert not bound.exact
    assert 0.0 < bound.value < math.inf


def test_a_row_with_two_roles_and_rows_that_do_not_exist_are_refused():
    for row, targets, message in (
        (0, [0], "two roles"),
        (-1, [1], "not exist"),
        (0, [-1], "not exist"),
        (0, [9], "not exist"),
    ):
        with pytest.raises(DependenceError, match=message):
            influence_bound(star(3, 2.0), targets, row)
