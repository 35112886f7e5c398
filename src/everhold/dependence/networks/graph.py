"""Undirected graphs over rows: who may depend on whom, what lies between, and where to cut."""

from __future__ import annotations

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

__all__ = ["Graph", "moral_graph"]


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
        >>> path.blanket(1), path.is_tree(), path.separates(0, (2,), (3,))
        ((0, 2), True, True)
    """

    nodes: int
    edges: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise DependenceError(f"the graph has {self.nodes} nodes; expected at least 1")
        edges = np.asarray(self.edges, dtype=np.int64).reshape(-1, 2)
        if edges.size and (edges.min() < 0 or edges.max() >= self.nodes):
            raise DependenceError(f"an edge names a node outside 0 to {self.nodes - 1}; expected nodes of the graph")
        if np.any(edges[:, 0] == edges[:, 1]):
            raise DependenceError("an edge joins a node to itself; expected two different nodes; leave it out")
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
        """The nodes that share an edge with ``row``, increasing."""
        return self.adjacency[self._node(row)]

    def blanket(self, row: int) -> tuple[int, ...]:
        """The Markov blanket: given it, ``row`` is independent of all other nodes. In a moral graph, the neighbours."""
        return self.neighbours(row)

    @cached_property
    def _labels(self) -> NDArray[np.int64]:
        ones = np.ones(len(self.edges), dtype=np.int8)
        matrix = coo_array((ones, (self.edges[:, 0], self.edges[:, 1])), shape=(self.nodes, self.nodes))
        labels = np.asarray(connected_components(matrix.tocsr(), directed=False)[1], dtype=np.int64)
        labels.setflags(write=False)
        return labels

    def components(self) -> NDArray[np.int64]:
        """The number of each node's connected component, from 0 on; shape (nodes,)."""
        return self._labels

    @cached_property
    def _members(self) -> tuple[tuple[int, ...], ...]:
        order = np.argsort(self._labels, kind="stable")
        ends = np.flatnonzero(np.diff(self._labels[order])) + 1
        return tuple(tuple(part.tolist()) for part in np.split(order, ends))

    def component(self, row: int) -> tuple[int, ...]:
        """The nodes of the component of ``row``, increasing."""
        return self._members[int(self._labels[self._node(row)])]

    def is_forest(self) -> bool:
        """Whether there is no cycle."""
        return len(self.edges) == self.nodes - len(self._members)

    def is_tree(self) -> bool:
        """Whether there is no cycle and one component."""
        return len(self._members) == 1 and self.is_forest()

    def distances(self, row: int) -> NDArray[np.int64]:
        """Number of edges from ``row`` to every node, -1 where no path leads; shape (nodes,)."""
        far = np.full(self.nodes, -1, dtype=np.int64)
        reached = self.ball(row, self.nodes)
        far[list(reached)] = list(reached.values())
        return far

    def ball(self, row: int, radius: int) -> dict[int, int]:
        """The nodes within ``radius`` edges of ``row``, itself included, to their distance; nearest first."""
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
        """The nodes that a path from ``row`` reaches without a node of ``without``, each to the node before it."""
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

    def separates(self, row: int, quilt: Collection[int], remote: Collection[int]) -> bool:
        """Whether every path from ``row`` to a node of ``remote`` meets ``quilt``."""
        return self.path(row, quilt, remote) is None

    def path(self, row: int, quilt: Collection[int], remote: Collection[int]) -> tuple[int, ...] | None:
        """A shortest path from ``row`` to ``remote`` that does not meet ``quilt``; None if there is none.

        Raises:
            DependenceError: If ``row`` itself is in the quilt, or a node does not exist.
        """
        for node in (*quilt, *remote):
            self._node(node)
        if row in quilt:
            raise DependenceError(f"node {row} is in its own quilt; expected other nodes only", node=row)
        targets = frozenset(remote)
        before = self.reachable(row, quilt)
        end = next((node for node in before if node in targets), None)
        if end is None:
            return None
        steps = [end]
        while steps[-1] != row:
            steps.append(before[steps[-1]])
        return tuple(reversed(steps))

    def minimum_cut(self, row: int, targets: Iterable[int]) -> tuple[int, ...]:
        """A smallest set of other nodes that every path from ``row`` to ``targets`` meets; of these, the nearest one.

        Nodes of ``targets`` are not part of it. A maximum flow on the graph in which each node is two nodes joined by
        an edge of capacity 1 finds it (Menger's theorem); the cut is at the border of what the row still reaches.

        Raises:
            DependenceError: If ``row`` is a target or has an edge to one, so that nothing lies between.
        """
        ends = sorted({self._node(node) for node in targets})
        touched = set(ends) & {self._node(row), *self.adjacency[row]}
        if touched:
            raise DependenceError(
                f"node {row} has an edge to node {min(touched)} or is it; expected targets that other nodes separate",
                node=row,
            )
        if not ends:
            return ()
        network = self._split(row, np.array(ends))
        source, sink = 2 * row + 1, 2 * self.nodes
        left = network - maximum_flow(network, source, sink).flow
        left.data[left.data < 0] = 0
        left.eliminate_zeros()
        inside = np.zeros(2 * self.nodes + 1, dtype=bool)
        inside[breadth_first_order(left, source, return_predecessors=False)] = True
        inside[2 * row] = True
        return tuple(np.flatnonzero(inside[0:-1:2] & ~inside[1::2]).tolist())

    def _split(self, row: int, ends: NDArray[np.int64]) -> csr_array:
        """Node v is entered at 2v and left at 2v + 1; all targets lead to the sink 2 * nodes."""
        size = self.nodes
        each = np.arange(size)
        through = np.ones(size, dtype=np.int32)
        through[ends] = size
        first, second = self.edges[:, 0], self.edges[:, 1]
        tails = np.concatenate([2 * each, 2 * first + 1, 2 * second + 1, 2 * ends + 1])
        heads = np.concatenate([2 * each + 1, 2 * second, 2 * first, np.full(len(ends), 2 * size)])
        wide = np.full(2 * len(self.edges) + len(ends), size, dtype=np.int32)
        capacity = np.concatenate([through, wide])
        return csr_array(coo_array((capacity, (tails, heads)), shape=(2 * size + 1, 2 * size + 1)))

    def _node(self, node: int) -> int:
        if not 0 <= node < self.nodes:
            raise DependenceError(f"node {node} does not exist; expected 0 to {self.nodes - 1}", node=node)
        return node


def moral_graph(parents: Sequence[Sequence[int]]) -> Graph:
    """The moral graph of a directed one: every node is joined to its parents, and these to each other.

    Args:
        parents: The parents of each node.

    Raises:
        DependenceError: If the arrows form a cycle, or a parent does not exist.

    Examples:
        >>> moral_graph([(), (), (0, 1)]).edges.tolist()
        [[0, 1], [0, 2], [1, 2]]
    """
    _refuse_cycle(parents)
    families = (sorted({node, *above}) for node, above in enumerate(parents))
    pairs = [pair for family in families for pair in combinations(family, 2)]
    return Graph(len(parents), np.array(pairs, dtype=np.int64).reshape(-1, 2))


def _refuse_cycle(parents: Sequence[Sequence[int]]) -> None:
    missing = [len(set(above)) for above in parents]
    children: list[list[int]] = [[] for _ in parents]
    for node, above in enumerate(parents):
        for parent in set(above):
            if not 0 <= parent < len(parents):
                raise DependenceError(f"node {node} has the parent {parent}, which does not exist", node=node)
            children[parent].append(node)
    ready = [node for node, count in enumerate(missing) if not count]
    for node in ready:
        for child in children[node]:
            missing[child] -= 1
            if not missing[child]:
                ready.append(child)
    if len(ready) < len(parents):
        stuck = min(set(range(len(parents))) - set(ready))
        raise DependenceError(f"the arrows above node {stuck} lead back to themselves; expected no cycle", node=stuck)
