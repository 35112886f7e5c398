"""Joint laws of discrete rows as products of small tables, Bayesian and Markov networks alike, and their graphs."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components, maximum_flow

from everhold.errors import DependenceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

__all__ = ["MOST_CELLS", "Factor", "FactorModel", "Graph", "log_of", "log_sum", "sum_of_logs"]

MOST_CELLS = 2**22
"""Cells of the largest table that is ever built."""


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """An undirected graph over the nodes 0, ..., nodes - 1.

    Two nodes without a path are independent; two nodes all of whose paths meet a set are independent given that set.

    Attributes:
        nodes: Number of nodes, at least 1.
        edges: Pairs of nodes, shape (E, 2); kept sorted, each once, the smaller node first.

    Raises:
        DependenceError: If an edge joins a node to itself or names a node that does not exist.

    Examples:
        >>> path = Graph(4, [(0, 1), (1, 2), (2, 3)])
        >>> path.neighbours(1), path.minimum_cut(0, [3]), path.is_forest()
        ((0, 2), (1,), True)
    """

    nodes: int
    edges: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise DependenceError(f"The graph has {self.nodes} nodes. Pass at least 1.")
        edges = np.asarray(self.edges, dtype=np.int64).reshape(-1, 2)
        if edges.size and (edges.min() < 0 or edges.max() >= self.nodes):
            raise DependenceError(f"An edge names a node outside 0 to {self.nodes - 1}. Name nodes of the graph.")
        if np.any(edges[:, 0] == edges[:, 1]):
            raise DependenceError("An edge joins a node to itself. Leave it out.")
        keys = np.unique(edges.min(axis=1) * self.nodes + edges.max(axis=1))
        kept = np.column_stack([keys // self.nodes, keys % self.nodes])
        kept.setflags(write=False)
        object.__setattr__(self, "edges", kept)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        return self.nodes == other.nodes and np.array_equal(self.edges, other.edges)

    def __hash__(self) -> int:
        return hash((self.nodes, self.edges.tobytes()))

    def __repr__(self) -> str:
        return f"Graph(nodes={self.nodes}, edges={len(self.edges)})"

    @cached_property
    def adjacency(self) -> tuple[tuple[int, ...], ...]:
        """The neighbours of every node, increasing."""
        both = np.concatenate([self.edges, self.edges[:, ::-1]])
        order = np.lexsort((both[:, 1], both[:, 0]))
        ends = np.searchsorted(both[order, 0], np.arange(self.nodes + 1)).tolist()
        heads = both[order, 1].tolist()
        return tuple(tuple(heads[ends[node] : ends[node + 1]]) for node in range(self.nodes))

    def neighbours(self, row: int) -> tuple[int, ...]:
        """Return the nodes that share an edge with ``row``, increasing, which are its Markov blanket."""
        return self.adjacency[self._node(row)]

    @cached_property
    def _labels(self) -> NDArray[np.int64]:
        ones = np.ones(len(self.edges), dtype=np.int8)
        matrix = coo_array((ones, (self.edges[:, 0], self.edges[:, 1])), shape=(self.nodes, self.nodes))
        labels = np.asarray(connected_components(matrix.tocsr(), directed=False)[1], dtype=np.int64)
        labels.setflags(write=False)
        return labels

    def components(self) -> NDArray[np.int64]:
        """Return for each node the number of its connected component, counted from 0, shape (nodes,)."""
        return self._labels

    @cached_property
    def _members(self) -> tuple[tuple[int, ...], ...]:
        order = np.argsort(self._labels, kind="stable")
        ends = np.flatnonzero(np.diff(self._labels[order])) + 1
        return tuple(tuple(part.tolist()) for part in np.split(order, ends))

    def component(self, row: int) -> tuple[int, ...]:
        """Return the nodes of the component of ``row``, increasing."""
        return self._members[int(self._labels[self._node(row)])]

    def is_forest(self) -> bool:
        """Return whether the graph has no cycle."""
        return len(self.edges) == self.nodes - len(self._members)

    def ball(self, row: int, radius: int) -> dict[int, int]:
        """Return the distance of each node within ``radius`` edges of ``row``, nearest first."""
        near = {self._node(row): 0}
        queue = deque(near)
        while queue:
            node = queue.popleft()
            if near[node] == radius:
                break
            for other in self.adjacency[node]:
                if other not in near:
                    near[other] = near[node] + 1
                    queue.append(other)
        return near

    def reachable(self, row: int, without: Collection[int]) -> dict[int, int]:
        """Return the nodes that paths from ``row`` reach without ``without``, each with its predecessor."""
        barred = frozenset(without)
        before = {self._node(row): row}
        queue = deque(before)
        while queue:
            node = queue.popleft()
            for other in self.adjacency[node]:
                if other not in before and other not in barred:
                    before[other] = node
                    queue.append(other)
        return before

    def minimum_cut(self, row: int, targets: Iterable[int]) -> tuple[int, ...]:
        """Return a smallest set of nodes that separates ``row`` from ``targets``, the one nearest to ``row``.

        Nodes of ``targets`` are not part of it. A maximum flow on the graph in which each node is two nodes joined by
        an edge of capacity 1 finds it (Menger's theorem); the cut is at the border of what the row still reaches.

        Raises:
            DependenceError: If ``row`` is a target or has an edge to one, so that nothing lies between.
        """
        ends = sorted({self._node(node) for node in targets})
        touched = set(ends) & {self._node(row), *self.adjacency[row]}
        if touched:
            raise DependenceError(
                f"Node {row} is one of the targets or next to one (node {min(touched)}), "
                "so no nodes separate them. Pass other targets.",
                node=row,
            )
        if not ends:
            return ()
        network = self._split(np.array(ends))
        source, sink = 2 * row + 1, 2 * self.nodes
        left = network - maximum_flow(network, source, sink).flow
        left.data[left.data < 0] = 0
        left.eliminate_zeros()
        inside = np.zeros(2 * self.nodes + 1, dtype=bool)
        inside[breadth_first_order(left, source, return_predecessors=False)] = True
        inside[2 * row] = True
        return tuple(np.flatnonzero(inside[0:-1:2] & ~inside[1::2]).tolist())

    def _split(self, ends: NDArray[np.int64]) -> csr_array:
        """Return the flow network with the entry 2v and the exit 2v + 1 for node v, and one sink for all targets."""
        size = self.nodes
        each = np.arange(size)
        through = np.ones(size, dtype=np.int32)
        through[ends] = size
        first, second = self.edges[:, 0], self.edges[:, 1]
        tails = np.concatenate([2 * each, 2 * first + 1, 2 * second + 1, 2 * ends + 1])
        heads = np.concatenate([2 * each + 1, 2 * second, 2 * first, np.full(len(ends), 2 * size)])
        wide = np.full(2 * len(self.edges) + len(ends), size, dtype=np.int32)
        capacity = np.concatenate([through, wide])
        places = tails.astype(np.int32), heads.astype(np.int32)  # which SciPy's flows need before version 1.15
        return csr_array(coo_array((capacity, places), shape=(2 * size + 1, 2 * size + 1)))

    def _node(self, node: int) -> int:
        if not 0 <= node < self.nodes:
            raise DependenceError(f"Node {node} does not exist. The nodes are 0 to {self.nodes - 1}.", node=node)
        return node


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """A nonnegative table over a few nodes: a conditional law, or the potential of a clique.

    Attributes:
        variables: The nodes, each once, in the order of the table's axes.
        table: Values of the table on any scale. The shape is the number of states of each node.

    Raises:
        DependenceError: If the table has the wrong number of axes, negative or infinite values, or only zeros.
    """

    variables: tuple[int, ...]
    table: NDArray[np.float64]

    def __post_init__(self) -> None:
        variables = tuple(map(int, self.variables))
        table = np.array(self.table, dtype=np.float64)
        table.setflags(write=False)
        if not variables or len(set(variables)) != len(variables) or table.ndim != len(variables):
            raise DependenceError(
                f"A factor of the nodes {variables} has a table of {table.ndim} axes. Pass "
                "at least one node, each once, and a table with one axis for each."
            )
        if not table.size or not table.min() >= 0.0 or not 0.0 < table.max() < math.inf:
            raise DependenceError(
                f"The factor of the nodes {variables} has negative or infinite values or "
                "only zeros. Pass finite values of at least 0, of which one is positive."
            )
        object.__setattr__(self, "variables", variables)
        object.__setattr__(self, "table", table)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Factor):
            return NotImplemented
        return self.variables == other.variables and np.array_equal(self.table, other.table)

    def __hash__(self) -> int:
        return hash((self.variables, self.table.tobytes()))


@dataclass(frozen=True, repr=False)
class FactorModel:
    """Joint distribution of nodes whose probabilities are proportional to a product of factors.

    For a Bayesian network the factors are the conditional laws; the graph is then the moral graph.

    Attributes:
        states: Number of states of each node, at least 1.
        factors: The factors; a node without one is uniform.

    Raises:
        DependenceError: If a factor names a node that does not exist, or its table does not match the states.

    Examples:
        >>> copy = Factor((0, 1), [[0.9, 0.1], [0.1, 0.9]])
        >>> FactorModel((2, 2), (copy,)).graph.neighbours(0)
        (1,)
    """

    states: tuple[int, ...]
    factors: tuple[Factor, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "states", tuple(map(int, self.states)))
        object.__setattr__(self, "factors", tuple(self.factors))
        if not self.states or min(self.states) < 1:
            raise DependenceError("A model has no nodes or a node without states. Pass at least one of each.")
        for factor in self.factors:
            if not 0 <= min(factor.variables) <= max(factor.variables) < self.nodes:
                raise DependenceError(
                    f"A factor names the nodes {factor.variables}. The nodes are 0 to {self.nodes - 1}."
                )
            expected = tuple(self.states[node] for node in factor.variables)
            if factor.table.shape != expected:
                raise DependenceError(
                    f"The factor of the nodes {factor.variables} has a table of shape {factor.table.shape}. Pass "
                    f"shape {expected}, the numbers of states of the nodes."
                )

    @cached_property
    def _hash(self) -> int:
        return hash((self.states, self.factors))

    def __hash__(self) -> int:
        return self._hash  # computed once, for derived laws are looked up by the model

    def __repr__(self) -> str:
        return f"FactorModel(nodes={self.nodes}, factors={len(self.factors)})"

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.states)

    @cached_property
    def graph(self) -> Graph:
        """The Markov graph: nodes that share a factor are joined."""
        pairs = {pair for factor in self.factors for pair in combinations(sorted(factor.variables), 2)}
        return Graph(self.nodes, np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2))

    @cached_property
    def _parts(self) -> dict[int, list[Factor]]:
        labels = self.graph.components().tolist()
        parts: dict[int, list[Factor]] = {}
        for factor in self.factors:
            parts.setdefault(labels[factor.variables[0]], []).append(factor)
        return parts

    def component(self, row: int) -> tuple[Factor, ...]:
        """Return the factors in the connected component of ``row``.

        The other components are independent of this one.
        """
        return tuple(self._parts.get(int(self.graph.components()[row]), ()))


def log_of(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return natural logarithms, -infinity for 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(table))


def sum_of_logs(
    tables: Sequence[tuple[tuple[int, ...], NDArray[np.float64]]], variables: Sequence[int], states: Sequence[int]
) -> NDArray[np.float64]:
    """Return the logarithm of a product of tables, over the given variables in the given order.

    Args:
        tables: Pairs of variables, all among the given ones, and logarithms of shape their states.
        variables: The axes of the answer.
        states: Number of states of every node of the model.
    """
    place = {node: axis for axis, node in enumerate(variables)}
    total = np.zeros([states[node] for node in variables])
    for nodes, logs in tables:
        axes = [place[node] for node in nodes]
        order = np.argsort(axes)
        shape = np.ones(len(place), dtype=np.int64)
        shape[axes] = logs.shape
        total += logs.transpose(order).reshape(shape.tolist())
    return total


def log_sum(logs: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Return the logarithms of sums along an axis, from logarithms that may be -infinity."""
    top = logs.max(axis=axis, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        total = np.log(np.exp(logs - top).sum(axis=axis)) + np.squeeze(top, axis=axis)
    return np.where(np.squeeze(top, axis=axis) == -math.inf, -math.inf, total)
