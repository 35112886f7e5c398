import pytest
from hypothesis import given
from hypothesis import strategies as st
from quilt_samples import graphs, is_markov_quilt, path_graph

from everhold.errors import DependenceError
from everhold_lab.releases.markov_quilt import chain_quilts, tree_quilts
from everhold_privacy.networks.factors import Graph
from everhold_privacy.networks.quilts import empty_quilt, quilt_behind


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
            assert is_markov_quilt(graph, quilt)
            assert quilt == quilt_behind(graph, row, quilt.quilt)
        for most in range(rows + 1):
            kept = [quilt for quilt in quilts if len(quilt.nearby) <= most or not quilt.quilt]
            assert list(chain_quilts(row, rows, most_nearby=most)) == kept


def test_a_long_chain_needs_a_limit():
    with pytest.raises(DependenceError, match="Pass a smaller most_nearby"):
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
    spheres = {
        quilt_behind(graph, row, [node for node, hops in graph.ball(row, r).items() if hops == r]) for r in range(1, 10)
    }
    assert spheres <= set(quilts)
    assert list(tree_quilts(graph, row, most_nearby=most)) == [
        quilt for quilt in quilts if len(quilt.nearby) <= most or not quilt.quilt
    ]


def test_small_ends_of_a_tree_are_taken_in():
    star_on_a_path = Graph(7, [(0, 1), (0, 2), (0, 3), (3, 4), (4, 5), (5, 6)])
    cuts = [(quilt.quilt, quilt.nearby) for quilt in tree_quilts(star_on_a_path, 0)]
    assert ((3,), (1, 2)) in cuts
    assert ((1, 2, 3), ()) in cuts


def test_a_tree_is_asked_for_where_one_is_needed():
    with pytest.raises(DependenceError, match="quilts_by_distance"):
        tree_quilts(Graph(3, [(0, 1), (1, 2), (0, 2)]), 0)
