import itertools
import math

import brute_force
import numpy as np
import pytest
import tiny_models
from hypothesis import given, settings
from hypothesis import strategies as st

from everhold.errors import DependenceError
from everhold_privacy.networks.factors import Factor, FactorModel, Graph
from everhold_privacy.networks.inference import conditional_logs, eliminate, forest_law, junction


@st.composite
def graphs(draw, most=8):
    nodes = draw(st.integers(1, most))
    pairs = list(itertools.combinations(range(nodes), 2))
    edges = draw(st.lists(st.sampled_from(pairs), max_size=14)) if pairs else []
    return Graph(nodes, np.array(edges, dtype=np.int64).reshape(-1, 2))


@st.composite
def acyclic(draw, most=6):
    nodes = draw(st.integers(2, most))
    names = draw(st.permutations(range(nodes)))
    parents = [()] * nodes
    for place, name in enumerate(names):
        above = draw(st.lists(st.sampled_from(names[:place]), unique=True, max_size=3)) if place else []
        parents[name] = tuple(above)
    return parents


def grid(side):
    nodes = np.arange(side * side).reshape(side, side)
    right = np.column_stack([nodes[:, :-1].ravel(), nodes[:, 1:].ravel()])
    down = np.column_stack([nodes[:-1].ravel(), nodes[1:].ravel()])
    return Graph(side * side, np.concatenate([right, down]))


def d_separated(parents, first, second, known):
    """By the trails themselves: one is open if its colliders have known descendants and its other nodes are unknown."""
    arrows = {(above, node) for node in range(len(parents)) for above in parents[node]}
    children = [[node for node in range(len(parents)) if above in parents[node]] for above in range(len(parents))]

    def family(node):
        return {node}.union(*(family(child) for child in children[node]))

    def is_open(trail):
        return all(
            bool(family(node) & set(known)) if {(a, node), (b, node)} <= arrows else node not in known
            for a, node, b in zip(trail, trail[1:], trail[2:], strict=False)
        )

    def trails(trail):
        if trail[-1] == second:
            yield trail
            return
        for node in {*parents[trail[-1]], *children[trail[-1]]} - set(trail):
            yield from trails([*trail, node])

    return not any(is_open(trail) for trail in trails([first]))


def moral_graph(parents):
    """The graph of the network's law: every node is joined to its parents, and these to each other."""
    factors = [Factor((*above, node), np.ones((2,) * (len(above) + 1))) for node, above in enumerate(parents)]
    return FactorModel((2,) * len(parents), tuple(factors)).graph


def is_separated(graph, row, quilt, remote):
    return not graph.reachable(row, quilt).keys() & set(remote)


def ancestral(parents, nodes):
    found, left = set(), list(nodes)
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += parents[node]
    return found


@given(graphs())
def test_distances_components_and_trees_are_those_of_a_slow_search(graph):
    edges = graph.edges.tolist()
    hops = np.full((graph.nodes, graph.nodes), math.inf)
    np.fill_diagonal(hops, 0)
    for first, second in edges:
        hops[first, second] = hops[second, first] = 1
    for middle in range(graph.nodes):
        hops = np.minimum(hops, hops[:, [middle]] + hops[[middle], :])
    expected = np.where(np.isinf(hops), -1, hops)
    for row in range(graph.nodes):
        assert brute_force.distances(graph, row).tolist() == expected[row].tolist()
        assert graph.ball(row, 2) == {node: hop for node, hop in enumerate(expected[row]) if 0 <= hop <= 2}
        assert graph.component(row) == tuple(np.flatnonzero(expected[row] >= 0))
        assert graph.neighbours(row) == tuple(np.flatnonzero(expected[row] == 1))
    labels = graph.components()
    assert np.array_equal(labels[:, None] == labels, expected >= 0)
    cycle = any(brute_force.has_path([e for e in edges if e != edge], *edge, ()) for edge in edges)
    assert graph.is_forest() is (not cycle)


@given(graphs(), st.data())
def test_separation_is_that_of_an_independent_search(graph, data):
    row = data.draw(st.integers(0, graph.nodes - 1))
    others = [node for node in range(graph.nodes) if node != row]
    quilt = data.draw(st.sets(st.sampled_from(others))) if others else set()
    remote = data.draw(st.sets(st.sampled_from(others))) - quilt if others else set()
    edges = graph.edges.tolist()
    expected = not any(brute_force.has_path(edges, row, end, quilt) for end in remote)
    assert is_separated(graph, row, quilt, remote) is expected
    before = graph.reachable(row, quilt)
    assert all(node == row or sorted((node, came)) in edges for node, came in before.items())


@settings(deadline=None)
@given(graphs(), st.data())
def test_minimum_cuts_are_the_smallest_that_separate(graph, data):
    row = data.draw(st.integers(0, graph.nodes - 1))
    free = sorted(set(range(graph.nodes)) - {row, *graph.neighbours(row)})
    targets = data.draw(st.sets(st.sampled_from(free), min_size=1)) if free else set()
    cut = graph.minimum_cut(row, targets)
    usable = [node for node in range(graph.nodes) if node != row and node not in targets]
    assert set(cut) <= set(usable)
    assert is_separated(graph, row, cut, targets)
    smaller = (set(other) for size in range(len(cut)) for other in itertools.combinations(usable, size))
    assert not any(is_separated(graph, row, other, targets) for other in smaller)
    inside = set(graph.reachable(row, cut))
    same = (set(other) for other in itertools.combinations(usable, len(cut)))
    nearest = min(len(graph.reachable(row, other)) for other in same if is_separated(graph, row, other, targets))
    assert len(inside) == nearest


def test_a_cut_next_to_the_row_is_refused():
    with pytest.raises(DependenceError, match="next to one \\(node 1"):
        Graph(3, [(0, 1), (1, 2)]).minimum_cut(0, [1])


def test_the_corner_of_a_large_grid_is_cut_by_two():
    assert grid(100).minimum_cut(0, [9_999]) == (1, 100)
    assert len(grid(100).minimum_cut(5_050, [0])) == 2
    assert len(grid(100).minimum_cut(5_050, [2_020])) == 4


@given(acyclic(), st.data())
def test_the_moral_graph_of_ancestors_decides_d_separation(parents, data):
    first, second = data.draw(st.lists(st.sampled_from(range(len(parents))), min_size=2, max_size=2, unique=True))
    known = data.draw(st.sets(st.sampled_from(range(len(parents))))) - {first, second}
    above = ancestral(parents, {first, second, *known})
    kept = [tuple(parents[node]) if node in above else () for node in range(len(parents))]
    assert is_separated(moral_graph(kept), first, known, [second]) is d_separated(parents, first, second, known)


@given(acyclic())
def test_the_blanket_is_parents_children_and_their_other_parents(parents):
    graph = moral_graph(parents)
    for row in range(len(parents)):
        children = [node for node in range(len(parents)) if row in parents[node]]
        expected = {*parents[row], *children, *(other for child in children for other in parents[child])} - {row}
        assert set(graph.neighbours(row)) == expected


@pytest.mark.parametrize(("nodes", "edges"), [(0, []), (2, [(0, 0)]), (2, [(0, 2)]), (2, [(-1, 0)])])
def test_what_is_no_graph_is_refused(nodes, edges):
    with pytest.raises(DependenceError):
        Graph(nodes, edges)


def test_graphs_are_equal_by_their_edges():
    assert Graph(3, [(1, 0), (0, 1), (2, 1)]) == Graph(3, [(1, 2), (0, 1)])
    assert hash(Graph(3, [(1, 0)])) == hash(Graph(3, [(0, 1)]))
    assert Graph(3, [(0, 1)]) != Graph(3, [(0, 2)])
    assert Graph(3, [(0, 1)]) != "graph"
    for node in (-1, 3):
        with pytest.raises(DependenceError, match="does not exist"):
            Graph(3, []).neighbours(node)


@pytest.mark.parametrize("seed", range(60))
def test_joint_laws_marginals_and_conditional_laws_are_those_of_the_table(seed):
    kind = tiny_models.KINDS[seed % len(tiny_models.KINDS)]
    small = tiny_models.random_model(np.random.default_rng([42, seed]), kind)
    model, joint = brute_force.model_of(small), small.joint()
    with np.errstate(divide="ignore"):
        tables = [(rows, np.log(table)) for rows, table in small.factors]
    for kept in itertools.combinations(range(small.rows), 2):
        expected = joint.sum(axis=tuple(node for node in range(small.rows) if node not in kept))
        found = np.exp(eliminate(tables, kept, small.states))
        assert np.allclose(found / found.sum(), expected)
        if len(set(model.graph.components()[list(kept)])) == 1:
            found = np.exp(junction(model).joint(kept))
            assert np.allclose(found / found.sum(), expected)
    if model.graph.is_forest():
        for row, logs in enumerate(forest_law(model).marginals):
            law = np.exp(logs[: small.states[row]])
            other = tuple(node for node in range(small.rows) if node != row)
            assert np.allclose(law, joint.sum(axis=other), atol=1e-14)
    for row in range(small.rows):
        wanted = [node for node in reversed(model.graph.component(row)) if node != row][:2]
        dropped = tuple(node for node in range(small.rows) if node not in {row, *wanted})
        both = joint.sum(axis=dropped, keepdims=True).transpose([row, *wanted, *dropped])
        both = both.reshape([small.states[node] for node in (row, *wanted)])
        law = both.sum(axis=tuple(range(1, both.ndim)), keepdims=True)
        expected = np.divide(both, law, out=np.zeros_like(both), where=law > 0)
        assert np.allclose(np.exp(conditional_logs(model, row, wanted)), expected, atol=1e-13)


@pytest.mark.parametrize(
    ("variables", "table"),
    [
        ((), 1.0),
        ((0, 0), np.ones((2, 2))),
        ((0,), np.ones((2, 2))),
        ((0,), [0.0, 0.0]),
        ((0,), [-1.0, 1.0]),
        ((0,), [math.nan, 1.0]),
        ((0,), [math.inf, 1.0]),
        ((0,), []),
    ],
)
def test_what_is_no_factor_is_refused(variables, table):
    with pytest.raises(DependenceError, match="factor"):
        Factor(variables, table)


def test_models_that_do_not_fit_together_are_refused():
    pair = Factor((0, 1), np.ones((2, 3)))
    for states in ((2, 2), (2,), (), (0, 3)):
        with pytest.raises(DependenceError):
            FactorModel(states, (pair,))
    with pytest.raises(DependenceError, match="contradict"):
        forest_law(FactorModel((2,), (Factor((0,), [1, 0]), Factor((0,), [0, 1]))))
    with pytest.raises(DependenceError, match="forest"):
        forest_law(FactorModel((2,) * 3, (Factor((0, 1, 2), np.ones((2, 2, 2))),)))


def test_models_are_equal_by_their_tables():
    first, second = (FactorModel((2, 3), (Factor((0, 1), np.ones((2, 3))),)) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert first != FactorModel((2, 3), (Factor((0, 1), 2 * np.ones((2, 3))),))
    assert first.factors[0] != "factor"
    with pytest.raises(ValueError, match="read-only"):
        first.factors[0].table[0, 0] = 5.0
