import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quilt_samples import graphs, is_markov_quilt, path_graph

from everhold.errors import DependenceError
from everhold_lab.releases.markov_quilt import chain_quilts, remote_rows, tree_quilts, validate
from everhold_privacy.networks.factors import Graph
from everhold_privacy.networks.quilts import Quilt, empty_quilt, quilt_behind


@given(graphs(), st.data())
def test_validation_is_the_definition(graph_and_row, data):
    graph, row = graph_and_row
    roles = data.draw(st.lists(st.sampled_from("nqr"), min_size=graph.nodes, max_size=graph.nodes))
    sets = [tuple(node for node in range(graph.nodes) if roles[node] == role and node != row) for role in "nqr"]
    quilt = Quilt(row, *sets[:2])
    for remote in (sets[2], None):
        if is_markov_quilt(graph, quilt):
            validate(quilt, graph, remote)
        else:
            with pytest.raises(DependenceError, match="past the quilt") as caught:
                validate(quilt, graph, remote)
            path = caught.value.data["path"]
            assert path[0] == row
            assert path[-1] in remote_rows(quilt, graph.nodes)
            assert not set(path) & set(quilt.quilt)
            assert all(second in graph.neighbours(first) for first, second in itertools.pairwise(path))


@pytest.mark.parametrize(
    ("quilt", "remote", "message"),
    [
        (Quilt(0, (1,), (2,)), (3,), "leaves out row 4"),
        (Quilt(0, (1, 2), (2,)), None, "twice"),
        (Quilt(0, (0,), (1,)), None, "twice"),
        (Quilt(0, (1,), (7,)), None, "Row 7 does not exist. The rows are 0 to 4"),
        (Quilt(1, (), (2,)), (0, 3, 4), "path 1 - 0 leads from row 1 to the remote row 0"),
        (Quilt(0, (1,), (3,)), (2, 4), "path 0 - 1 - 2 leads"),
    ],
)
def test_what_is_no_quilt_is_refused_with_the_reason(quilt, remote, message):
    with pytest.raises(DependenceError, match=message):
        validate(quilt, path_graph(5), remote)


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
            validate(quilt, graph)
            assert is_markov_quilt(graph, quilt)
            assert quilt == quilt_behind(graph, row, quilt.quilt)
        for most in range(rows + 1):
            kept = [quilt for quilt in quilts if len(quilt.nearby) <= most or not quilt.quilt]
            assert list(chain_quilts(row, rows, most_nearby=most)) == kept


def test_a_long_chain_needs_a_limit():
    with pytest.raises(DependenceError, match="Pass most_nearby"):
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
