"""Exact inference in networks: messages on forests, and elimination in any graph.

Everything is kept in natural logarithms, so that a tiny probability never becomes a zero: zeros decide which contexts
are skipped and which influences are infinite.

The junction tree is that of an elimination: each node has a bucket, the table over itself and the neighbours it has
when it is summed out, and the bucket above it is that of the neighbour that is summed out next. The buckets of a node
are connected, so that messages up and down the tree carry everything that is outside; a query about a few nodes is
then answered inside the smallest subtree that holds their buckets.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from everhold.errors import DependenceError
from everhold_privacy.networks.factors import MOST_CELLS, log_of, log_sum, sum_of_logs

if TYPE_CHECKING:
    from everhold_privacy.networks.factors import FactorModel

    Floats = NDArray[np.float64]
    Logs = NDArray[np.float64]


MOST_STATES = 12
"""Nodes with more states are not treated as trees: all pairs of states are looked at along every edge."""

_MOST_STATES_IN_SETS = 3
SAFETY = 1.0 + 1e-9  # rounding errors of bounds are far below it


@dataclass(frozen=True, slots=True, eq=False)
class ForestLaw:
    """Marginal distributions and conditional ones along every edge of a forest, as logarithms.

    States are padded to the largest number k of states of a node; what does not exist has -infinity.

    Attributes:
        states: Number of states of each node.
        levels: The nodes by depth below their root, siblings side by side.
        parent: The node above each, -1 for roots; shape (nodes,).
        marginals: ln P[x_v]; shape (nodes, k).
        down: ln P[x_v | x_parent], shape (nodes, k of the parent, k of the node); unused for roots.
        up: ln P[x_parent | x_v], shape (nodes, k of the node, k of the parent).
    """

    states: tuple[int, ...]
    levels: tuple[NDArray[np.int64], ...]
    parent: NDArray[np.int64]
    marginals: Logs
    down: Logs
    up: Logs

    def kernel(self, node: int, other: int) -> Logs:
        """Return the logarithms of P[x_other | x_node] for two neighbours, shape (states of node, states of other)."""
        whole = self.down[other] if self.parent[other] == node else self.up[node]
        return np.asarray(whole[: self.states[node], : self.states[other]])


@lru_cache(maxsize=8)
def forest_law(model: FactorModel) -> ForestLaw:
    """Compute all marginals of a forest by messages up and down, one step for each depth.

    Raises:
        DependenceError: If the graph has a cycle, a factor has more than two nodes, or all states of a component are
            impossible.
    """
    if not is_forest_model(model):
        raise DependenceError(
            "The model has a cycle or a factor of three nodes. Pass a forest with factors of at most two nodes."
        )
    level = np.unique(model.graph.components(), return_index=True)[1].tolist()
    levels = []
    adjacency, above = model.graph.adjacency, [-1] * model.nodes
    while level:
        levels.append(np.array(level, dtype=np.int64))
        below = []
        for node in level:
            for other in adjacency[node]:
                if other != above[node]:
                    above[other] = node
                    below.append(other)
        level = below
    parent = np.array(above, dtype=np.int64)
    size = max(model.states)
    if model.nodes * size * size > 2**27:
        raise DependenceError(f"{model.nodes} nodes of up to {size} states are too many. Use fewer states.")
    alone, pairs = _potentials(model, parent, size)
    down = pairs
    for level in reversed(levels[1:]):
        both = pairs[level] + alone[level][:, None, :]
        message = log_sum(both, axis=2)
        down[level] = divided(both, message[:, :, None])
        top = message.max(axis=1, keepdims=True)  # taken out, so that long sums keep their precision
        np.add.at(alone, parent[level], np.where(top > -math.inf, message - top, message))
    roots = levels[0]
    law = np.full((model.nodes, size), -math.inf)
    scale = log_sum(alone[roots], axis=1)
    if np.any(scale == -math.inf):
        raise DependenceError(
            "The factors contradict each other: every combination of states has probability 0. Correct the factors."
        )
    law[roots] = alone[roots] - scale[:, None]
    up = np.full_like(down, -math.inf)
    for level in levels[1:]:
        both = law[parent[level]][:, :, None] + down[level]
        law[level] = log_sum(both, axis=1)
        up[level] = divided(both, law[level][:, None, :]).transpose(0, 2, 1)
    return ForestLaw(model.states, tuple(levels), parent, law, down, up)


@lru_cache(maxsize=64)
def is_forest_model(model: FactorModel) -> bool:
    """Return whether the model has no cycle and no factor of more than two nodes, so messages are enough."""
    return all(len(factor.variables) <= 2 for factor in model.factors) and model.graph.is_forest()


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


def divided(left: Logs, right: Logs) -> Logs:
    """Return logarithms of quotients, given the logarithms ``left <= right`` of both parts. 0 over 0 is 0."""
    with np.errstate(invalid="ignore"):
        return np.where(left == -math.inf, -math.inf, left - right)


@dataclass(frozen=True, eq=False)
class Forest:
    """A forest of discrete rows, with the conditional laws of neighbours.

    Attributes:
        order: The node at each place of the breadth-first order, shape (n,).
        above: Place of each place's parent, -1 at roots, shape (n,).
        levels: Bounds of the levels: level d is ``levels[d]:levels[d + 1]``.
        counted: 1.0 where the node is a row, 0.0 where it is latent, shape (n,).
        down: ``P[node = y | parent = x]``, shape (n, K, K); zeros for states that do not occur.
        up: ``P[parent = y | node = x]``, shape (n, K, K); zeros for states that do not occur.
        law: ``P[node = x]``, shape (n, K).
    """

    order: NDArray[np.int64]
    above: NDArray[np.int64]
    levels: NDArray[np.int64]
    counted: Floats
    down: Floats
    up: Floats
    law: Floats

    @cached_property
    def kappa_down(self) -> Floats:
        """Return the largest total variation between laws of a node given its parent, shape (n,)."""
        return _variation(self.down)

    @cached_property
    def kappa_up(self) -> Floats:
        """Return the largest total variation between laws of the parent given the node, shape (n,)."""
        return _variation(self.up)

    def _children_sum(self, values: Floats) -> Floats:
        inner = self.above >= 0
        return np.bincount(self.above[inner], weights=values[inner], minlength=len(self.above)).astype(np.float64)

    def _levels_from_below(self) -> list[tuple[int, int]]:
        """Return start and end of each level except the roots', the deepest first."""
        return list(pairwise(self.levels.tolist()))[:0:-1]

    def expected_changes(self) -> Floats:
        """Return ``D_i``, how many rows from i on are expected to differ at most when i does (S5), shape (n,)."""
        changes, sizes = self.counted.copy(), self.counted.copy()  # and the rows of each subtree
        for first, last in self._levels_from_below():
            np.add.at(sizes, self.above[first:last], sizes[first:last])
        for first, last in [*self._levels_from_below(), (0, int(self.levels[1]))]:
            level = changes[first:last] = np.minimum(changes[first:last] * SAFETY, sizes[first:last])
            inner = self.above[first:last] >= 0
            np.add.at(changes, self.above[first:last][inner], (self.kappa_down[first:last] * level)[inner])
        return changes

    def spread_polynomials(self, points: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """Return ``E z^H`` for a law of H that bounds how many rows differ (S4), shape (n, points).

        H is the number of rows in the cluster of i when every edge, seen away from i, is open with probability kappa
        independently of the others (docs/theory/networks). If x = x', only row i differs.
        """
        z = points[None, :]
        factor = np.where(self.counted[:, None] > 0, z, 1.0 + 0.0j)
        below, from_below = self._from_below(factor)
        from_above = self._from_above(factor, below, from_below)
        same = np.sum(self.law**2, axis=1)[:, None]
        return np.asarray(factor * (same + (1.0 - same) * below * from_above))

    def _from_below(self, factor: NDArray[np.complex128]) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        """Return the products over children of ``E z^(rows that differ in the child's subtree)``, and the factors."""
        below, each = np.ones_like(factor * factor), np.ones_like(factor * factor)
        kappa = self.kappa_down[:, None]
        for first, last in self._levels_from_below():
            here = slice(first, last)
            values = 1.0 - kappa[here] + kappa[here] * factor[here] * below[here]
            values[values == 0] = 1e-290
            each[here] = values
            above = self.above[here]
            starts = np.flatnonzero(np.r_[True, np.diff(above) != 0])  # siblings stand together
            below[above[starts]] = np.multiply.reduceat(each[here], starts, axis=0)
        return below, each

    def _from_above(
        self, factor: NDArray[np.complex128], below: NDArray[np.complex128], each: NDArray[np.complex128]
    ) -> NDArray[np.complex128]:
        """Return ``E z^(rows that differ across the edge to the parent)`` of every node, 1 at roots."""
        result = np.ones_like(each)
        kappa = self.kappa_up[:, None]
        for first, last in self._levels_from_below()[::-1]:
            here = slice(first, last)
            above = self.above[here]
            others = factor[above] * result[above] * below[above] / each[here]
            result[here] = 1.0 - kappa[here] + kappa[here] * others
        return result

    def ball_quilts(self, radii: Sequence[int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the quilts at distance r + 1 from each row, with all within distance r nearby (S4).

        Args:
            radii: Radii r in increasing order, the smallest at least 0.

        Returns:
            Numbers of rows nearby without the row itself, and bounds on the influence (infinite where a state rules
            another out), each of shape (n, radii).
        """
        edges = (_Edge.of(self.down), _Edge.of(self.up))
        inner = self.above >= 0
        parent = np.where(inner, self.above, 0)
        counts = (np.zeros(len(parent)), np.zeros(len(parent)))
        influences = (np.full(len(parent), np.inf), np.full(len(parent), np.inf))
        nearby, bounds = [], []
        for radius in range(max(radii) + 1):
            if radius == 0:
                down, up = (np.where(inner, edge.contracted(influences[0]), 0.0) for edge in edges)
                influences = (down, up)
            else:
                counts = self._counts_one_further(counts, inner, parent)
                influences = self._influences_one_further(influences, edges, inner, parent)
            if radius in radii:
                nearby.append(self._children_sum(counts[0]) + counts[1])
                bounds.append(self._children_sum(influences[0]) + influences[1])
        return np.column_stack(nearby), np.column_stack(bounds) * SAFETY

    def _counts_one_further(
        self, counts: tuple[Floats, Floats], inner: NDArray[np.bool_], parent: NDArray[np.int64]
    ) -> tuple[Floats, Floats]:
        below = self._children_sum(counts[0])
        down = np.where(inner, self.counted + below, 0.0)
        up = np.where(inner, self.counted[parent] + (below + counts[1])[parent] - counts[0], 0.0)
        return down, up

    def _influences_one_further(
        self,
        influences: tuple[Floats, Floats],
        edges: tuple[_Edge, _Edge],
        inner: NDArray[np.bool_],
        parent: NDArray[np.int64],
    ) -> tuple[Floats, Floats]:
        down, up = influences
        endless, finite = np.isinf(down).astype(np.float64), np.where(np.isinf(down), 0.0, down)
        below = np.where(self._children_sum(endless) > 0, np.inf, self._children_sum(finite))
        siblings_endless = self._children_sum(endless)[parent] - endless
        total = self._children_sum(finite)[parent]
        siblings = np.maximum(total - finite, 0.0) + 1e-15 * total  # what the subtraction may have lost
        across = np.where((siblings_endless > 0) | np.isinf(up[parent]), np.inf, siblings + up[parent])
        return np.where(inner, edges[0].contracted(below), 0.0), np.where(inner, edges[1].contracted(across), 0.0)


@dataclass(frozen=True, eq=False)
class _Edge:
    """Contraction of influence along edges: pairs of state sets, largest total variation, log of the largest ratio."""

    sets: list[tuple[Floats, Floats]]
    kappa: Floats
    most: Floats

    @classmethod
    def of(cls, kernels: Floats) -> _Edge:
        alive, states = kernels.sum(axis=2) > 0, kernels.shape[1]
        sets, most = [], np.zeros(len(kernels))
        for x in range(states):
            for other in range(states):
                both = (alive[:, x] & alive[:, other])[:, None]
                p, q = np.where(both, kernels[:, x], 0.0), np.where(both, kernels[:, other], 0.0)
                most = np.maximum(most, _log_ratio(p, q).max(axis=1))
                if x != other and states <= _MOST_STATES_IN_SETS:
                    first = np.argsort(-_log_ratio(p, q), axis=1)
                    upper = [np.cumsum(np.take_along_axis(law, first, axis=1), axis=1)[:, :-1] for law in (p, q)]
                    sets.append((upper[0], upper[1]))
        return cls(sets, _variation(kernels), most)

    def contracted(self, influence: Floats) -> Floats:
        """Return bounds on the influence across this edge.

        If a row influences the first node by b, this is its influence on the neighbour (proof: docs/theory/networks).
        """
        rest = np.exp(-influence)  # 0 where b is infinite
        with np.errstate(over="ignore"):
            plain = np.minimum(np.log1p(self.kappa * np.expm1(np.minimum(influence, 700.0))), influence)
        least = np.where(np.isinf(influence), self.most, np.minimum(plain, self.most))
        if not self.sets:
            return least
        worst = np.zeros(len(rest))
        for p, q in self.sets:
            ratios = _log_ratio(rest[:, None] + p * (1.0 - rest[:, None]), rest[:, None] + q * (1.0 - rest[:, None]))
            worst = np.maximum(worst, ratios.max(axis=1, initial=0.0))
        return np.minimum(worst, least)


def _log_ratio(p: Floats, q: Floats) -> Floats:
    """Return ``ln(p / q)``, 0 where both are 0 and infinite where only q is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(p > 0, np.log(p) - np.log(q), 0.0)


def _variation(kernels: Floats) -> Floats:
    """Return the largest total variation between two laws of a kernel among states that occur, shape (n,)."""
    alive, most = kernels.sum(axis=2) > 0, np.zeros(len(kernels))
    for x in range(kernels.shape[1]):
        for other in range(x):
            distance = 0.5 * np.abs(kernels[:, x] - kernels[:, other]).sum(axis=1)
            most = np.maximum(most, np.where(alive[:, x] & alive[:, other], distance, 0.0))
    return np.minimum(most, 1.0)


def forest(model: FactorModel, counted: NDArray[np.bool_]) -> Forest:
    """Return the forest of a model without cycles, given which nodes are rows.

    Raises:
        DependenceError: If the graph has a cycle, or all states of a tree are impossible.
    """
    law = forest_law(model)
    order = np.concatenate(law.levels)
    place = np.empty(model.nodes, dtype=np.int64)
    place[order] = np.arange(model.nodes)
    parent = law.parent[order]
    above = np.where(parent >= 0, place[parent], -1)
    levels = np.cumsum([0, *map(len, law.levels)])
    probabilities = np.exp(law.marginals[order])
    inner = above >= 0
    down, up = np.zeros(law.down.shape), np.zeros(law.up.shape)
    down[inner] = np.exp(law.down[order[inner]]) * (probabilities[above[inner]] > 0)[:, :, None]
    up[inner] = np.exp(law.up[order[inner]]) * (probabilities[inner] > 0)[:, :, None]
    return Forest(order, above, levels, counted[order].astype(np.float64), down, up, probabilities)


Table = tuple[tuple[int, ...], NDArray[np.float64]]
"""Nodes and logarithms, one axis for each node."""


def conditional_logs(model: FactorModel, row: int, wanted: Sequence[int]) -> Logs:
    """Return the logarithms of P[x_wanted | x_row], shape (states of row, states of the wanted nodes).

    The wanted nodes are others of its component, each once. Impossible states of the row have -infinity everywhere.

    Raises:
        DependenceError: If a table would have more than 2**22 cells; the message has the number.
    """
    cells = math.prod(model.states[node] for node in (row, *wanted))
    _refuse_large(cells)
    joint = junction(model).joint((row, *wanted))
    flat = joint.reshape(joint.shape[0], -1)
    total = log_sum(flat, axis=1)
    return divided(flat, total[:, None]).reshape(joint.shape)


def _refuse_large(cells: int) -> None:
    """Raise DependenceError if a table of probabilities would have too many entries."""
    if cells > MOST_CELLS:
        raise DependenceError(
            f"A table of {cells} combinations of states would be needed, more than the limit of {MOST_CELLS}. Use "
            "quilts of fewer rows, or a model whose rows depend on each other less.",
            cells=cells,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Junction:
    """A junction tree of a factor model, with its buckets and messages.

    Attributes:
        states: Number of states of each node.
        place: For each node, its position in the order in which nodes are summed out.
        above: The node whose bucket is above that of each node, -1 at the top of a component.
        below: The nodes whose buckets are directly below.
        own: The factors in each bucket.
        upward: The message from each bucket to the one above: everything below it, summed out.
        downward: The message to each bucket from the one above: everything else, summed out.
    """

    states: tuple[int, ...]
    place: tuple[int, ...]
    above: tuple[int, ...]
    below: tuple[tuple[int, ...], ...]
    own: tuple[tuple[Table, ...], ...]
    upward: tuple[Table, ...]
    downward: tuple[Table, ...]

    def joint(self, wanted: Sequence[int]) -> NDArray[np.float64]:
        """Return the logarithms of a multiple of P[x_wanted] for nodes of one component, shape their states."""
        inside = set(wanted)
        front = [(self.place[node], node) for node in inside]
        heapq.heapify(front)
        while len(front) > 1:
            up = self.above[heapq.heappop(front)[1]]
            if up not in inside:
                inside.add(up)
                heapq.heappush(front, (self.place[up], up))
        tables = [table for node in sorted(inside) for table in self.own[node]]
        tables += [self.upward[child] for node in sorted(inside) for child in self.below[node] if child not in inside]
        return eliminate([*tables, self.downward[front[0][1]]], wanted, self.states)


@lru_cache(maxsize=8)
def junction(model: FactorModel) -> Junction:
    """Return the junction tree of a model, with all messages computed.

    Raises:
        DependenceError: If a table would have more than 2**22 cells, which is checked before tables are built, or if
            all combinations of states are impossible.
    """
    tables = [(factor.variables, log_of(factor.table)) for factor in model.factors]
    scopes = elimination([*((node,) for node in range(model.nodes)), *(nodes for nodes, _ in tables)], (), model.states)
    place = {node: index for index, node in enumerate(scopes)}
    own: list[list[Table]] = [[] for _ in scopes]
    for table in tables:
        own[min(table[0], key=place.__getitem__)].append(table)
    above = [min(scopes[node], key=place.__getitem__, default=-1) for node in range(model.nodes)]
    below: list[list[int]] = [[] for _ in scopes]
    for node in scopes:
        if above[node] >= 0:
            below[above[node]].append(node)
    upward, downward = _messages(scopes, own, below, model.states)
    return Junction(
        model.states,
        tuple(place[node] for node in range(model.nodes)),
        tuple(above),
        tuple(map(tuple, below)),
        tuple(map(tuple, own)),
        tuple(upward[node] for node in range(model.nodes)),
        tuple(downward[node] for node in range(model.nodes)),
    )


def _messages(
    scopes: dict[int, tuple[int, ...]], own: list[list[Table]], below: list[list[int]], states: Sequence[int]
) -> tuple[dict[int, Table], dict[int, Table]]:
    """Compute the messages of the junction tree, upwards in the order of elimination and then downwards.

    `own` holds the tables assigned to each node, and `below` the children of each node.
    """
    upward: dict[int, Table] = {}
    for node, scope in scopes.items():
        held = [*own[node], *(upward[child] for child in below[node])]
        upward[node] = _message(held, (node, *scope), scope, states)
        if not scope and upward[node][1] == -math.inf:
            raise DependenceError(
                "The factors contradict each other: every combination of states has probability 0. Correct the factors."
            )
    downward: dict[int, Table] = {node: ((), np.zeros(())) for node, scope in scopes.items() if not scope}
    for node in reversed(scopes):
        bucket = (node, *scopes[node])
        after: list[Table] = [(bucket, sum_of_logs([*own[node], downward[node]], bucket, states))]
        for child in reversed(below[node][1:]):  # all children after each one
            after.append((bucket, after[-1][1] + sum_of_logs([upward[child]], bucket, states)))
        before = np.zeros(())
        for child in below[node]:
            rest = [after.pop(), (bucket[: before.ndim], before)]
            downward[child] = _message(rest, bucket, scopes[child], states)
            before = before + sum_of_logs([upward[child]], bucket, states)
    return upward, downward


def _message(tables: Sequence[Table], bucket: Sequence[int], scope: tuple[int, ...], states: Sequence[int]) -> Table:
    """Return the product of tables over a bucket, summed to a scope and scaled to a largest entry of 1."""
    order = (*(node for node in bucket if node not in scope), *scope)
    logs = sum_of_logs(tables, order, states)
    summed = log_sum(logs.reshape(-1, *(states[node] for node in scope)), axis=0)
    top = float(summed.max())
    return scope, summed - top if top > -math.inf else summed


def eliminate(tables: Sequence[Table], kept: Sequence[int], states: Sequence[int]) -> NDArray[np.float64]:
    """Return the logarithm of a product of tables, summed over all nodes except ``kept``.

    Raises:
        DependenceError: If a table would have more than 2**22 cells, before the first one is built.
    """
    _refuse_large(math.prod(states[node] for node in kept))
    held = dict(enumerate(tables))
    holding: dict[int, set[int]] = {}
    for index, (nodes, _) in held.items():
        for node in nodes:
            holding.setdefault(node, set()).add(index)
    for made, (node, scope) in enumerate(
        elimination([nodes for nodes, _ in tables], kept, states).items(), len(tables)
    ):
        used = holding.pop(node)
        product = sum_of_logs([held.pop(index) for index in sorted(used)], (node, *scope), states)
        held[made] = (scope, log_sum(product, axis=0))
        for other in scope:
            holding[other] = (holding[other] - used) | {made}
    return sum_of_logs(list(held.values()), kept, states)


def elimination(
    scopes: Sequence[Collection[int]], kept: Collection[int], states: Sequence[int]
) -> dict[int, tuple[int, ...]]:
    """Return an order for summing out all nodes except ``kept``, with the neighbours of each node at its turn.

    Next is always the node whose neighbours, by common tables, have the fewest combinations of states.

    Raises:
        DependenceError: If a node and its neighbours have more than 2**22 combinations; the message has the number.
    """
    near: dict[int, set[int]] = {}
    for scope in scopes:
        for node in scope:
            near.setdefault(node, set()).update(scope)
    stays = frozenset(kept)
    queue = [(math.prod(states[other] for other in near[node]), node) for node in near if node not in stays]
    weights = {node: cells for cells, node in queue}
    heapq.heapify(queue)
    found: dict[int, tuple[int, ...]] = {}
    while queue:
        cells, node = heapq.heappop(queue)
        if weights.get(node) != cells:
            continue  # outdated: the node is gone, or its neighbours have changed
        _refuse_large(cells)
        del weights[node]
        around = near.pop(node) - {node}
        found[node] = tuple(sorted(around))
        for other in around:
            near[other] = (near[other] | around) - {node}
            if other not in stays:
                weights[other] = math.prod(states[third] for third in near[other])
                heapq.heappush(queue, (weights[other], other))
    return found
