"""Forests of rows: conditional laws along every edge, and what follows from them, for all nodes at once.

Nodes are kept in breadth-first order, each tree from its root, so that a level is a slice and siblings stand together.
Every function here works on whole levels or on all edges: 100,000 nodes take seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order

from everhold.dependence.networks.inference import forest_law

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everhold.dependence.networks.factors import FactorModel

    Floats = NDArray[np.float64]

__all__ = ["MOST_STATES", "Forest", "forest"]

MOST_STATES = 12
"""Nodes with more states are not treated as trees: all pairs of states are looked at along every edge."""

_SAFETY = 1.0 + 1e-9  # rounding errors of bounds are far below it


@dataclass(frozen=True, eq=False)
class Forest:
    """A forest of discrete rows with the laws of neighbours given each other.

    Attributes:
        order: The node at each place of the breadth-first order, shape (n,).
        above: Place of each place's parent, -1 at roots, shape (n,).
        levels: Bounds of the levels: level d is ``levels[d]:levels[d + 1]``.
        counted: 1.0 where the node is a row, 0.0 where it is latent, shape (n,).
        down: ``P[node = y | parent = x]``, shape (n, K, K); zeros for states that do not occur.
        up: ``P[parent = y | node = x]``, likewise.
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
        """Largest total variation between laws of a node given its parent (Dobrushin coefficient), shape (n,)."""
        return _variation(self.down)

    @cached_property
    def kappa_up(self) -> Floats:
        """The same for the parent given the node."""
        return _variation(self.up)

    def _children_sum(self, values: Floats) -> Floats:
        """The sum of the values of the children, for every node."""
        inner = self.above >= 0
        return np.bincount(self.above[inner], weights=values[inner], minlength=len(self.above)).astype(np.float64)

    def sizes_below(self) -> Floats:
        """Number of rows in the subtree of every node."""
        sizes = self.counted.copy()
        for first, last in self._levels_from_below():
            np.add.at(sizes, self.above[first:last], sizes[first:last])
        return sizes

    def _levels_from_below(self) -> list[tuple[int, int]]:
        """Bounds of all levels but the roots', the deepest first."""
        bounds = self.levels.tolist()
        return list(pairwise(bounds))[:0:-1]

    def expected_changes(self) -> Floats:
        """``D_i``: at most so many rows from i on are expected to differ when i does, parents first (S5), shape (n,).

        With all nodes before i given, a node differs only if its parent does, and then with probability kappa at most:
        ``D_i <= 1 + sum over children of kappa D_child``, and no more than the rows of the subtree.
        """
        changes, sizes = self.counted.copy(), self.sizes_below()
        bounds = self.levels.tolist()
        for first, last in list(pairwise(bounds))[::-1]:
            level = changes[first:last] = np.minimum(changes[first:last] * _SAFETY, sizes[first:last])
            inner = self.above[first:last] >= 0
            np.add.at(changes, self.above[first:last][inner], (self.kappa_down[first:last] * level)[inner])
        return changes

    def spread_polynomials(self, points: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """``E z^H`` for a law of H that is not below the number of rows that differ (S4), shape (n, points).

        H is the number of rows in the cluster of i when every edge, seen away from i, is open with probability kappa
        independently of the others. Away from i a node differs only if the one before it does, and then, under the
        best coupling of the two laws given the two states, with probability kappa at most, whatever happened in other
        branches: edge by edge the differing nodes are a part of the cluster. If x = x', only row i differs.
        """
        z = points[None, :]
        factor = np.where(self.counted[:, None] > 0, z, 1.0 + 0.0j)
        below, from_below = self._from_below(factor)
        from_above = self._from_above(factor, below, from_below)
        same = np.sum(self.law**2, axis=1)[:, None]
        return np.asarray(factor * (same + (1.0 - same) * below * from_above))

    def _from_below(self, factor: NDArray[np.complex128]) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        """Products over the children of ``E z^(rows that differ in the child's subtree)``, and these themselves."""
        below, each = np.ones_like(factor * factor), np.ones_like(factor * factor)
        kappa = self.kappa_down[:, None]
        for first, last in self._levels_from_below():
            here = slice(first, last)
            each[here] = _nonzero(1.0 - kappa[here] + kappa[here] * factor[here] * below[here])
            above = self.above[here]
            starts = np.flatnonzero(np.r_[True, np.diff(above) != 0])  # siblings stand together
            below[above[starts]] = np.multiply.reduceat(each[here], starts, axis=0)
        return below, each

    def _from_above(
        self, factor: NDArray[np.complex128], below: NDArray[np.complex128], each: NDArray[np.complex128]
    ) -> NDArray[np.complex128]:
        """``E z^(rows that differ across the edge to the parent)``, for every node; 1 at roots."""
        result = np.ones_like(each)
        kappa = self.kappa_up[:, None]
        for first, last in self._levels_from_below()[::-1]:
            here = slice(first, last)
            above = self.above[here]
            others = factor[above] * result[above] * below[above] / each[here]
            result[here] = 1.0 - kappa[here] + kappa[here] * others
        return result

    def ball_quilts(self, radii: Sequence[int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Quilts of all nodes at distance r + 1 from a row, everything within distance r being nearby (S4).

        Given the row, its branches are independent, so influences of branches add up. Inside a branch the influence of
        a node on the far end is that of its neighbour, contracted by the law along the edge (`_contracted`).

        Args:
            radii: Increasing r, from 0 on.

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
        return np.column_stack(nearby), np.column_stack(bounds) * _SAFETY

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
    """How influence shrinks along edges with the given kernels.

    Attributes:
        sets: Pairs ``(K_A(x), K_A(x'))`` for two states and the sets A that can be the worst, each of shape (n, sets).
        kappa: Largest total variation, shape (n,).
        most: Logarithm of the largest ratio, shape (n,).
    """

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
        """The influence of a node on what its neighbour influences by ``influence`` = b.

        With ``p_c`` in ``[m, m e^b]`` for the neighbour's states c, ``sum_c K(c|x) p_c / sum_c K(c|x') p_c`` is largest
        where ``p_c = m e^b`` on a set A of states with the largest ``K(c|x)/K(c|x')``, and m elsewhere. It is at most
        ``1 + kappa (e^b - 1)`` and at most the largest ratio of the kernel.
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


_MOST_STATES_IN_SETS = 3


def _log_ratio(p: Floats, q: Floats) -> Floats:
    """``ln(p / q)``: 0 where both are 0, infinite where only q is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(p > 0, np.log(p) - np.log(q), 0.0)


def _variation(kernels: Floats) -> Floats:
    """Largest total variation between two laws of a kernel among states that occur, shape (n,)."""
    alive, most = kernels.sum(axis=2) > 0, np.zeros(len(kernels))
    for x in range(kernels.shape[1]):
        for other in range(x):
            distance = 0.5 * np.abs(kernels[:, x] - kernels[:, other]).sum(axis=1)
            most = np.maximum(most, np.where(alive[:, x] & alive[:, other], distance, 0.0))
    return np.minimum(most, 1.0)


def _nonzero(values: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Values that can be divided by; an exact zero becomes a number too small to matter."""
    values[values == 0] = 1e-290
    return values


def forest(model: FactorModel, counted: NDArray[np.bool_]) -> Forest:
    """The forest of a model without cycles.

    Args:
        model: The joint law.
        counted: Whether a node is a row, shape (nodes,).

    Raises:
        DependenceError: If the graph has a cycle, or all states of a tree are impossible.
    """
    law = forest_law(model)
    order, above, levels = _breadth_first(law.parent)
    probabilities = np.exp(law.marginals[order])
    inner = above >= 0
    down, up = np.zeros(law.down.shape), np.zeros(law.up.shape)
    down[inner] = np.exp(law.down[order[inner]]) * (probabilities[above[inner]] > 0)[:, :, None]
    up[inner] = np.exp(law.up[order[inner]]) * (probabilities[inner] > 0)[:, :, None]
    return Forest(order, above, levels, counted[order].astype(np.float64), down, up, probabilities)


def _breadth_first(parent: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Order, parents' places and bounds of the levels; one more node above all roots makes the forest a tree."""
    count = len(parent)
    roots = int(np.sum(parent < 0))
    tails = np.where(parent < 0, count, parent)
    arrows = coo_array((np.ones(count, dtype=np.int8), (tails, np.arange(count))), shape=(count + 1, count + 1))
    order, before = breadth_first_order(arrows.tocsr(), count)
    place = np.empty(count + 1, dtype=np.int64)
    place[order] = np.arange(-1, count)
    above = place[before[order[1:]]]
    levels = [0, roots]
    while levels[-1] < count:
        levels.append(int(np.searchsorted(above, levels[-1])))
    return order[1:].astype(np.int64), above, np.array(levels)
