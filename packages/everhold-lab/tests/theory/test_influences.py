"""Influences of the laboratory against joint tables, other engines and each other."""

import itertools
import math

import brute_force
import numpy as np
import pytest
import tiny_models
from quilt_samples import CLOSE, SEEDS, chain_joint, chain_model, grid, max_influence, random_chain, star, tiny

from everhold.errors import DependenceError
from everhold_lab.releases.markov_quilt import chain_quilts
from everhold_privacy.networks.factors import Factor, FactorModel
from everhold_privacy.networks.quilts import conditional_quilt_influence, influence_bound, quilt_behind


def grid_law_by_columns(model, side, fixed):
    """The weight of all grid states with some fixed, by one transfer from row of the grid to row of the grid."""
    tables = {factor.variables: factor.table for factor in model.factors}
    lines = list(itertools.product((0, 1), repeat=side))
    weights = np.zeros(len(lines))
    for line in range(side):
        nodes = range(line * side, (line + 1) * side)
        inside = np.array(
            [
                math.prod(tables[node, node + 1][x[k], x[k + 1]] for k, node in enumerate(nodes[:-1]))
                * all(x[k] == fixed.get(node, x[k]) for k, node in enumerate(nodes))
                for x in lines
            ]
        )
        if line == 0:
            weights = inside
        else:
            step = np.ones((len(lines), len(lines)))
            for k, node in enumerate(nodes):
                pick = np.array([x[k] for x in lines])
                step *= tables[node - side, node][np.ix_(pick, pick)]
            weights = (weights @ step) * inside
    return weights.sum()


@pytest.mark.parametrize("seed", SEEDS)
def test_max_influence_is_that_of_the_joint_table(seed):
    small, model = tiny(seed)
    joint, generator = small.joint(), np.random.default_rng(seed)
    for _ in range(6):
        roles = generator.integers(0, 3, size=small.rows)
        row = int(generator.integers(small.rows))
        targets = [node for node in range(small.rows) if roles[node] == 1 and node != row]
        given = [node for node in range(small.rows) if roles[node] == 2 and node != row]
        expected = brute_force.influence(joint, targets, row, given)
        found = max_influence(model, targets, row, given=given)
        assert found == pytest.approx(expected, **CLOSE)
        assert found >= expected - 1e-12


@pytest.mark.parametrize("seed", SEEDS)
def test_blanket_influences_are_those_of_the_joint_table(seed):
    small, model = tiny(seed)
    edges = small.edges()
    expected = [brute_force.influence(small.joint(), tiny_models.blanket(edges, row), row) for row in range(small.rows)]
    blankets = [influence_bound(model, model.graph.neighbours(row), row).value for row in range(small.rows)]
    assert blankets == pytest.approx(expected, **CLOSE)
    everything = [set(range(small.rows)) - {row} for row in range(small.rows)]
    assert [max_influence(model, everything[row], row) for row in range(small.rows)] == pytest.approx(expected, **CLOSE)


def test_an_influence_that_needs_too_large_a_table_is_refused_with_the_number():
    model = star(24, 3.0)
    with pytest.raises(DependenceError, match="8388608"):
        max_influence(
            FactorModel((2,) * 25, (*model.factors, Factor((1, 2), np.ones((2, 2))), *_chain_of_leaves(24))),
            range(3, 25),
            0,
        )


def _chain_of_leaves(leaves):
    return [Factor((leaf, leaf + 1), np.array([[2.0, 1.0], [1.0, 2.0]])) for leaf in range(2, leaves)]


def test_impossible_contexts_are_skipped_and_a_zero_denominator_is_infinite():
    impossible = np.array([[0.5, 0.5], [0.4, 0.6], [0.0, 0.0]])
    assert max_influence(FactorModel((3, 2), (Factor((0, 1), impossible),)), [1], 0) == pytest.approx(math.log(1.25))
    one_sided = np.array([[0.5, 0.5], [1.0, 0.0]])
    assert max_influence(FactorModel((2, 2), (Factor((0, 1), one_sided),)), [1], 0) == math.inf


def test_tiny_probabilities_are_not_zeros():
    faint = np.array([[1.0, 1e-200], [1e-200, 1.0]])
    expected = 200 * math.log(10)
    model = FactorModel((2,) * 4, tuple(Factor((row, row + 1), faint) for row in range(3)))
    assert max_influence(model, [1], 0) == pytest.approx(expected)
    loop = FactorModel((2,) * 4, (*model.factors, Factor((0, 3), faint)))
    assert max_influence(loop, [1], 0) == pytest.approx(2 * expected, rel=0.5)


def test_a_row_with_two_roles_is_refused():
    model = star(3, 2.0)
    for roles in ({"targets": [0]}, {"targets": [1], "given": [1]}, {"targets": [1], "given": [0]}):
        with pytest.raises(DependenceError, match="two roles"):
            max_influence(model, row=0, **roles)


def test_factors_that_contradict_each_other_are_refused():
    never = (Factor((0,), [1.0, 0.0]), Factor((0, 1), [[0.0, 0.0], [1.0, 1.0]]))
    for model in (FactorModel((2, 2), never), FactorModel((2,) * 3, (*never, Factor((0, 1, 2), np.ones((2, 2, 2)))))):
        with pytest.raises(DependenceError, match="contradict"):
            max_influence(model, [1], 0)


@pytest.mark.parametrize("forbids", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_chains_have_the_influences_of_the_joint_table(seed, forbids):
    transition, initial = random_chain(seed, forbids=forbids)
    rows = 6
    joint = chain_joint(transition, initial, rows)
    model = chain_model(transition, initial, rows)
    for row in range(rows):
        for quilt in chain_quilts(row, rows):
            expected = brute_force.influence(joint, quilt.quilt, row)
            assert max_influence(model, quilt.quilt, row) == pytest.approx(expected, **CLOSE)
            assert brute_force.over_contexts(joint, quilt.quilt, row, quilt.nearby) == pytest.approx(expected, **CLOSE)


def test_on_a_chain_only_the_nearest_rows_matter():
    transition, initial = random_chain(3)
    model = chain_model(transition, initial, 60)
    for row, quilt in ((0, (4,)), (59, (50,)), (30, (27, 35)), (30, (3, 27, 35, 40))):
        nearest = [*[node for node in quilt if node < row][-1:], *[node for node in quilt if node > row][:1]]
        expected = max_influence(model, nearest, row)
        assert max_influence(model, quilt, row) == pytest.approx(expected, **CLOSE)
        assert conditional_quilt_influence(model, quilt_behind(model.graph, row, quilt)) == influence_bound(
            model, quilt, row
        )


def test_a_grid_of_six_by_six_is_exact():
    side, row, quilt = 6, 14, (2, 12, 16, 26)
    model = grid(side, 1.6)
    weights = np.array(
        [
            [
                grid_law_by_columns(model, side, dict(zip((row, *quilt), (state, *told), strict=True)))
                for told in itertools.product((0, 1), repeat=len(quilt))
            ]
            for state in (0, 1)
        ]
    )
    laws = weights / weights.sum(axis=1, keepdims=True)
    expected = np.abs(np.log(laws[0] / laws[1])).max()
    assert max_influence(model, quilt, row) == pytest.approx(expected, **CLOSE)


def test_rows_that_do_not_exist_are_refused():
    for row, targets in ((-1, [1]), (0, [-1]), (0, [9])):
        with pytest.raises(DependenceError, match="does not exist"):
            max_influence(star(3, 2.0), targets, row)


def test_other_components_are_not_influenced():
    model = FactorModel((2, 2, 2), (Factor((0, 1), [[1.0, 0.0], [0.0, 1.0]]),))
    assert max_influence(model, [], 0) == 0.0
    assert max_influence(model, [2], 0) == 0.0
    blankets = [influence_bound(model, model.graph.neighbours(row), row).value for row in range(3)]
    assert blankets == [math.inf, math.inf, 0.0]


def test_a_network_with_too_large_cliques_is_refused_with_the_number():
    with pytest.raises(DependenceError, match=r"A table of \d+ combinations of states would be needed") as caught:
        max_influence(grid(30, 1.2), (1, 30), 0)
    assert caught.value.data["cells"] > 2**22
