"""Exact conditional laws of a few nodes given one: messages on forests, a junction tree elsewhere.

Everything is kept in natural logarithms, so that a tiny probability never becomes a zero: zeros decide which contexts
are skipped and which influences are infinite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from everhold.dependence.networks.factors import log_of, log_sum
from everhold.dependence.networks.junction import junction, refuse_large
from everhold.errors import DependenceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from everhold.dependence.networks.factors import FactorModel
    from everhold.dependence.networks.graph import Graph

    Logs = NDArray[np.float64]

__all__ = [
    "ForestLaw",
    "conditional_logs",
    "forest_law",
    "is_forest_model",
    "log_product",
    "marginals",
    "steps_to",
]


def log_product(left: Logs, right: Logs) -> Logs:
    """Matrix product of two matrices that are given and returned as logarithms; shapes (..., k, l) and (..., l, m)."""
    return log_sum(left[..., :, :, None] + right[..., None, :, :], axis=-2)


def _minus(left: Logs, right: Logs) -> Logs:
    """``left - right`` where left <= right, and -infinity where both are."""
    with np.errstate(invalid="ignore"):
        return np.where(left == -math.inf, -math.inf, left - right)


def marginals(model: FactorModel) -> tuple[NDArray[np.float64], ...]:
    """The law of every node of a model without cycles; one array of its states for each node.

    Raises:
        DependenceError: If the graph has a cycle or a factor has more than two nodes.
    """
    law = forest_law(model)
    return tuple(np.exp(logs[:size]) for logs, size in zip(law.marginals, model.states, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class ForestLaw:
    """Marginals and the conditional laws along every edge of a forest, as logarithms.

    States are padded to the largest number k of states of a node; what does not exist has -infinity.

    Attributes:
        states: Number of states of each node.
        parent: The node above each, -1 for roots; shape (nodes,).
        marginals: ln P[x_v]; shape (nodes, k).
        down: ln P[x_v | x_parent], shape (nodes, k of the parent, k of the node); unused for roots.
        up: ln P[x_parent | x_v], shape (nodes, k of the node, k of the parent).
    """

    states: tuple[int, ...]
    parent: NDArray[np.int64]
    marginals: Logs
    down: Logs
    up: Logs

    def kernel(self, node: int, other: int) -> Logs:
        """Logarithms of P[x_other | x_node] for two neighbours; shape (states of node, states of other)."""
        whole = self.down[other] if self.parent[other] == node else self.up[node]
        return np.asarray(whole[: self.states[node], : self.states[other]])


@lru_cache(maxsize=8)
def forest_law(model: FactorModel) -> ForestLaw:
    """Messages up and down a forest, one step for each depth.

    Raises:
        DependenceError: If the graph has a cycle, a factor has more than two nodes, or all states of a component are
            impossible.
    """
    if not is_forest_model(model):
        raise DependenceError("the model has a cycle or a factor of three nodes; expected a forest with pairs only")
    levels, parent = _levels(model)
    size = max(model.states)
    if model.nodes * size * size > 2**27:
        raise DependenceError(f"{model.nodes} nodes of up to {size} states are too many; expected fewer states")
    alone, pairs = _potentials(model, parent, size)
    down = pairs
    for level in reversed(levels[1:]):
        both = pairs[level] + alone[level][:, None, :]
        message = log_sum(both, axis=2)
        down[level] = _minus(both, message[:, :, None])
        top = message.max(axis=1, keepdims=True)  # taken out, so that long sums keep their precision
        np.add.at(alone, parent[level], np.where(top > -math.inf, message - top, message))
    roots = levels[0]
    law = np.full((model.nodes, size), -math.inf)
    scale = log_sum(alone[roots], axis=1)
    if np.any(scale == -math.inf):
        raise DependenceError("the factors contradict each other: every combination of states has probability 0")
    law[roots] = alone[roots] - scale[:, None]
    up = np.full_like(down, -math.inf)
    for level in levels[1:]:
        both = law[parent[level]][:, :, None] + down[level]
        law[level] = log_sum(both, axis=1)
        up[level] = _minus(both, law[level][:, None, :]).transpose(0, 2, 1)
    return ForestLaw(model.states, parent, law, down, up)


@lru_cache(maxsize=64)
def is_forest_model(model: FactorModel) -> bool:
    """Whether messages along edges are enough: no cycle, and no factor of more than two nodes."""
    return all(len(factor.variables) <= 2 for factor in model.factors) and model.graph.is_forest()


def _levels(model: FactorModel) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """The nodes by depth below the first node of their component, and the node above each."""
    parent = np.full(model.nodes, -1, dtype=np.int64)
    level = np.unique(model.graph.components(), return_index=True)[1].tolist()
    levels = []
    adjacency, above = model.graph.adjacency, parent.tolist()
    while level:
        levels.append(np.array(level, dtype=np.int64))
        below = []
        for node in level:
            for other in adjacency[node]:
                if other != above[node]:
                    above[other] = node
                    below.append(other)
        level = below
    return levels, np.array(above, dtype=np.int64)


def _potentials(model: FactorModel, parent: NDArray[np.int64], size: int) -> tuple[Logs, Logs]:
    alone = np.where(np.arange(size) < np.array(model.states)[:, None], 0.0, -math.inf)
    pairs = np.zeros((model.nodes, size, size))
    above = parent.tolist()
    for factor in model.factors:
        logs, nodes = log_of(factor.table), factor.variables
        if len(nodes) == 1:
            alone[nodes[0], : len(logs)] += logs
        else:
            child, table = (nodes[1], logs) if above[nodes[1]] == nodes[0] else (nodes[0], logs.T)
            pairs[child, : table.shape[0], : table.shape[1]] += table
    return alone, pairs


def conditional_logs(model: FactorModel, row: int, wanted: Sequence[int]) -> Logs:
    """Logarithms of P[x_wanted | x_row]; shape (states of row, states of the wanted nodes in their order).

    States of the row that are impossible have -infinity everywhere.

    Args:
        model: The law.
        row: The node that is known.
        wanted: Other nodes, each once, all of the row's component.

    Raises:
        DependenceError: If a table would have more than 2**22 cells; the message has the number.
    """
    cells = math.prod(model.states[node] for node in (row, *wanted))
    refuse_large(cells)
    if is_forest_model(model):
        axes, table = _below(model, row, frozenset(wanted))
        order = [0, *(axes.index(node) + 1 for node in wanted)]
        possible = forest_law(model).marginals[row, : model.states[row]] > -math.inf
        shape = (-1, *[1] * len(wanted))
        return np.where(possible.reshape(shape), table.transpose(order), -math.inf)
    joint = junction(model).joint((row, *wanted))
    flat = joint.reshape(joint.shape[0], -1)
    total = log_sum(flat, axis=1)
    return _minus(flat, total[:, None]).reshape(joint.shape)


def _below(model: FactorModel, node: int, wanted: frozenset[int]) -> tuple[list[int], Logs]:
    """Logarithms of P[x_wanted | x_node] on a forest, and the order of its further axes."""
    law = forest_law(model)
    steps = steps_to(model.graph, node, wanted)
    tables: dict[int, tuple[list[int], Logs]] = {}
    for here, back in reversed(steps):
        axes, table = tables.pop(here, ([], np.zeros(model.states[here])))
        if here == node:
            return axes, table
        kernel = law.kernel(back, here)
        wide = kernel.reshape(kernel.shape + (1,) * len(axes)) + table[None]
        if here in wanted:
            axes = [here, *axes]
        else:
            wide = log_sum(wide, axis=1)
        there, other = tables.pop(back, ([], np.zeros(model.states[back])))
        grown = other.reshape(other.shape + (1,) * len(axes))
        spread = wide.reshape(wide.shape[:1] + (1,) * len(there) + wide.shape[1:])
        tables[back] = ([*there, *axes], grown + spread)
    return [], np.zeros(model.states[node])


def steps_to(graph: Graph, node: int, wanted: Iterable[int]) -> list[tuple[int, int]]:
    """The nodes on the paths of a forest from ``node`` to the wanted ones, each with the one before it.

    They come from ``node`` outwards; before ``node`` itself stands -1.
    """
    wanted = frozenset(wanted)
    left = set(wanted)
    came = {node: -1}
    order = [node]
    for here in order:
        if not left:
            break
        for other in graph.adjacency[here]:
            if other != came[here]:
                came[other] = here
                order.append(other)
                left.discard(other)
    needed = {node}
    for end in wanted:
        while end not in needed:
            needed.add(end)
            end = came[end]
    return [(here, came[here]) for here in order if here in needed]
