"""Tiny models, chains, grids and graphs whose quilts and influences are known by other ways."""

import itertools
import math

import brute_force
import numpy as np
import tiny_models
from hypothesis import strategies as st

from everhold_privacy.networks.factors import Factor, FactorModel, Graph
from everhold_privacy.networks.quilts import Quilt, exact_pairs, screened_parts, worst_sum

CLOSE = {"rel": 1e-9, "abs": 1e-9}
SEEDS = range(100)


def tiny(seed):
    kind = tiny_models.KINDS[seed % len(tiny_models.KINDS)]
    model = tiny_models.random_model(np.random.default_rng([41, seed]), kind)
    return model, brute_force.model_of(model)


def quilts_of(model):
    edges = model.edges()
    for row in range(model.rows):
        for nearby, cut in tiny_models.quilts(edges, row, model.rows):
            yield Quilt(row, nearby, cut)


def max_influence(model, targets, row, *, given=()):
    """Return the most that the logarithm of P[targets | row, given] can change with the state of the row."""
    parts = list(screened_parts(model, row, targets, given))
    if not any(part.targets for part in parts):
        return 0.0
    return worst_sum([exact_pairs(model, row, part) for part in parts])


def random_chain(seed, *, forbids=False):
    generator = np.random.default_rng([43, seed])
    size = int(generator.integers(2, 4))
    transition = generator.dirichlet(np.full(size, 0.8), size=size)
    initial = generator.dirichlet(np.ones(size))
    if forbids:
        transition[0, 1] = initial[0] = 0.0
    return transition / transition.sum(axis=1, keepdims=True), initial / initial.sum()


def chain_joint(transition, initial, rows):
    joint = np.asarray(initial)
    for _ in range(rows - 1):
        joint = joint[..., None] * transition
    return joint


def chain_model(transition, initial, rows):
    steps = (Factor((row, row + 1), transition) for row in range(rows - 1))
    return FactorModel((len(initial),) * rows, (Factor((0,), initial), *steps))


def star(leaves, odds):
    table = np.array([[odds, 1.0], [1.0, odds]])
    return FactorModel((2,) * (leaves + 1), tuple(Factor((0, leaf), table) for leaf in range(1, leaves + 1)))


def grid(side, odds):
    pairs = [(row, row + 1) for row in range(side * side) if (row + 1) % side]
    pairs += [(row, row + side) for row in range(side * (side - 1))]
    generator = np.random.default_rng(5)
    tables = [np.exp(generator.normal(0, math.log(odds), size=(2, 2))) for _ in pairs]
    return FactorModel((2,) * side**2, tuple(map(Factor, pairs, tables)))


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
    remote = sorted(set(range(graph.nodes)) - {quilt.row, *quilt.nearby, *quilt.quilt})
    named = [quilt.row, *quilt.nearby, *quilt.quilt, *remote]
    edges = graph.edges.tolist()
    return sorted(named) == list(range(graph.nodes)) and not any(
        brute_force.has_path(edges, quilt.row, end, quilt.quilt) for end in remote
    )
