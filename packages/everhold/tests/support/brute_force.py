"""Influences, conditional laws and separation from joint tables alone: no graph theory, every case by itself."""

import itertools
import math

import numpy as np

from everhold_privacy.networks.factors import Factor, FactorModel


def model_of(tiny):
    """The `FactorModel` of a tiny model."""
    return FactorModel(tiny.states, tuple(Factor(rows, table) for rows, table in tiny.factors))


def joint_of(model):
    """The probabilities of all combinations of states of a `FactorModel`, one product after the other."""
    cells = itertools.product(*map(range, model.states))
    weights = [math.prod(f.table[tuple(x[node] for node in f.variables)] for f in model.factors) for x in cells]
    return np.reshape(weights, model.states) / math.fsum(weights)


def distances(graph, row):
    """Number of edges from a row to every node, -1 where no path leads."""
    near = graph.ball(row, graph.nodes)
    return np.array([near.get(node, -1) for node in range(graph.nodes)])


def probability(joint, known):
    """``P[x_known]`` for a dict of rows to states."""
    return float(joint[tuple(known.get(row, slice(None)) for row in range(joint.ndim))].sum())


def influence(joint, targets, row, given=()):
    """``I(X_S <~ X_i | X_K)`` by its definition, one context and one ratio after the other."""
    targets, given = tuple(targets), tuple(given)
    worst = 0.0
    for facts in itertools.product(*(range(joint.shape[node]) for node in given)):
        known = dict(zip(given, facts, strict=True))
        weights = [probability(joint, {**known, row: state}) for state in range(joint.shape[row])]
        possible = [state for state, weight in enumerate(weights) if weight > 0]
        for told in itertools.product(*(range(joint.shape[node]) for node in targets)):
            aim = dict(zip(targets, told, strict=True))
            law = {state: probability(joint, {**known, **aim, row: state}) / weights[state] for state in possible}
            most, least = max(law.values(), default=0.0), min(law.values(), default=0.0)
            if most > 0:
                worst = max(worst, math.log(most / least) if least > 0 else math.inf)
    return worst


def over_contexts(joint, targets, row, nearby):
    """``b_i``: the largest influence over all subsets of the nearby rows."""
    subsets = itertools.chain.from_iterable(itertools.combinations(nearby, size) for size in range(len(nearby) + 1))
    return max(influence(joint, targets, row, subset) for subset in subsets)


def has_path(edges, start, end, without):
    """Whether a path without certain nodes leads from start to end, by transitive closure."""
    nodes = sorted({node for edge in edges for node in edge} | {start, end})
    place = {node: index for index, node in enumerate(nodes)}
    reach = np.eye(len(nodes), dtype=bool)
    for first, second in edges:
        if first not in without and second not in without:
            reach[place[first], place[second]] = reach[place[second], place[first]] = True
    for middle in range(len(nodes)):
        reach |= reach[:, [middle]] & reach[[middle], :]
    return bool(reach[place[start], place[end]])
