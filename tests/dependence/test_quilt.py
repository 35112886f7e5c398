import itertools

import numpy as np
import pytest
from dependence import brute_force
from hypothesis import given, settings
from hypothesis import strategies as st

from everhold.dependence.networks.graph import Graph
from everhold.dependence.networks.quilt import (
    Quilt,
    chain_quilts,
    empty_quilt,
    quilt_behind,
    quilts_by_distance,
    tree_quilts,
)
from everhold.errors import DependenceError


@st.composite
def graphs(draw, *, tree=False, most=9):
    nodes = draw(st.integers(1, most))
    parents = [draw(st.integers(-1, node - 1)) for node in range(1, nodes)]
    edges = [(parent, node) for node, parent in enumerate(parents, start=1) if parent >= 0]
    pairs = list(itertools.combinations(range(nodes), 2))
    if pairs and not tree:
        edges += draw(st.lists(st.sampled_from(pairs), max_size=6))
    graph = Graph(nodes, np.array(edges, dtype=np.int64).reshape(-1, 2))
    return graph, draw(st.integers(0, nodes - 1))


def path_graph(rows):
    return Graph(rows, np.column_stack([np.arange(rows - 1), np.arange(1, rows)]))


def is_markov_quilt(graph, quilt):
    """By the definition: a partition, and no path from the row to a remote one without a row of the quilt."""
    remote = quilt.remote_rows(graph.nodes)
    named = [quilt.row, *quilt.nearby, *quilt.quilt, *remote]
    edges = graph.edges.tolist()
    return sorted(named) == list(range(graph.nodes)) and not any(
        brute_force.has_path(edges, quilt.row, end, quilt.quilt) for end in remote
    )


@given(graphs(), st.data())
def test_validation_is_the_definition(graph_and_row, data):
    graph, row = graph_and_row
    roles = data.draw(st.lists(st.sampled_from("nqr"), min_size=graph.nodes, max_size=graph.nodes))
    sets = [tuple(node for node in range(graph.nodes) if roles[node] == role and node != row) for role in "nqr"]
    for quilt in (Quilt(row, *sets), Quilt(row, *sets[:2])):
        if is_markov_quilt(graph, quilt):
            quilt.validate(graph)
        else:
            with pytest.raises(DependenceError, match="past the quilt") as caught:
                quilt.validate(graph)
            path = caught.value.data["path"]
            assert path[0] == row
            assert path[-1] in quilt.remote_rows(graph.nodes)
            assert not set(path) & set(quilt.quilt)
            assert all(second in graph.neighbours(first) for first, second in itertools.pairwise(path))


@pytest.mark.parametrize(
    ("quilt", "message"),
    [
        (Quilt(0, (1,), (2,), (3,)), "leaves out row 4"),
        (Quilt(0, (1, 2), (2,)), "twice"),
        (Quilt(0, (0,), (1,)), "twice"),
        (Quilt(0, (1,), (7,)), "row 7 does not exist"),
        (Quilt(1, (), (2,), (0, 3, 4)), "path 1 - 0 leads from row 1 to the remote row 0"),
        (Quilt(0, (1,), (3,), (2, 4)), "path 0 - 1 - 2 leads"),
    ],
)
def test_what_is_no_quilt_is_refused_with_the_reason(quilt, message):
    with pytest.raises(DependenceError, match=message):
        quilt.validate(path_graph(5))


@pytest.mark.parametrize("rows", [1, 2, 6])
def test_a_chain_has_all_pairs_one_sided_ones_and_the_empty_quilt(rows):
    graph = path_graph(rows)
    for row in range(rows):
        quilts = chain_quilts(row, rows)
        befores, afters = [(), *((node,) for node in range(row))], [(), *((node,) for node in range(row + 1, rows))]
        assert {quilt.quilt for quilt in quilts} == {(*a, *b) for a in befores for b in afters}
        assert len(quilts) == (row + 1) * (rows - row)
        assert [len(quilt.nearby) for quilt in quilts] == sorted(len(quilt.nearby) for quilt in quilts)
        for quilt in quilts:
            quilt.validate(graph)
            assert is_markov_quilt(graph, quilt)
            assert quilt == quilt_behind(graph, row, quilt.quilt)
        for most in range(rows + 1):
            kept = [quilt for quilt in quilts if len(quilt.nearby) <= most or not quilt.quilt]
            assert list(chain_quilts(row, rows, most_nearby=most)) == kept


def test_a_long_chain_needs_a_limit():
    with pytest.raises(DependenceError, match="give most_nearby"):
        chain_quilts(5_000, 10_000)
    assert len(chain_quilts(5_000, 10_000, most_nearby=4)) == 5 + 4 + 3 + 2 + 1 + 1
    with pytest.raises(DependenceError, match="does not exist"):
        chain_quilts(4, 4)


@given(graphs(tree=True), st.integers(0, 9))
def test_quilts_of_trees_are_quilts_and_the_empty_one_is_there(graph_and_row, most):
    graph, row = graph_and_row
    quilts = tree_quilts(graph, row)
    assert all(is_markov_quilt(graph, quilt) for quilt in quilts)
    assert empty_quilt(graph, row) in quilts
    spheres = {quilt_behind(graph, row, np.flatnonzero(graph.distances(row) == r).tolist()) for r in range(1, 10)}
    assert spheres <= set(quilts)
    assert list(tree_quilts(graph, row, most_nearby=most)) == [
        quilt for quilt in quilts if len(quilt.nearby) <= most or not quilt.quilt
    ]


def test_small_ends_of_a_tree_are_taken_in():
    star_on_a_path = Graph(7, [(0, 1), (0, 2), (0, 3), (3, 4), (4, 5), (5, 6)])
    cuts = [(quilt.quilt, quilt.nearby) for quilt in tree_quilts(star_on_a_path, 0)]
    assert ((3,), (1, 2)) in cuts
    assert ((1, 2, 3), ()) in cuts


@settings(deadline=None)
@given(graphs(), st.integers(0, 9))
def test_quilts_by_distance_are_quilts_and_have_the_smallest_cuts(graph_and_row, most):
    graph, row = graph_and_row
    quilts = quilts_by_distance(graph, row)
    assert all(is_markov_quilt(graph, quilt) for quilt in quilts)
    assert empty_quilt(graph, row) in quilts
    assert [len(quilt.nearby) for quilt in quilts] == sorted(len(quilt.nearby) for quilt in quilts)
    distances = graph.distances(row)
    for radius in range(1, distances.max()):
        far = np.flatnonzero(distances > radius).tolist()
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


def test_a_tree_is_asked_for_where_one_is_needed():
    triangle = Graph(3, [(0, 1), (1, 2), (0, 2)])
    with pytest.raises(DependenceError, match="quilts_by_distance"):
        tree_quilts(triangle, 0)
    with pytest.raises(DependenceError, match="own quilt"):
        quilt_behind(triangle, 0, [0])
    with pytest.raises(DependenceError, match="own quilt"):
        triangle.path(0, [0], [1])
