"""Exact conditional laws of a few nodes given one, by a junction tree.

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
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from everhold.errors import DependenceError
from everhold_privacy.networks.factors import MOST_CELLS, log_of, log_sum, sum_of_logs
from everhold_privacy.networks.forest import divided

if TYPE_CHECKING:
    from everhold_privacy.networks.factors import FactorModel

Logs = NDArray[np.float64]

Table = tuple[tuple[int, ...], NDArray[np.float64]]
"""Nodes and logarithms, one axis for each node."""


def conditional_logs(model: FactorModel, row: int, wanted: Sequence[int]) -> Logs:
    """Logarithms of P[x_wanted | x_row]; shape (states of row, states of the wanted nodes in their order).

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
    """Refuse tables that are too large, with their number of cells."""
    if cells > MOST_CELLS:
        raise DependenceError(
            f"a table of {cells} combinations of states is needed; expected at most {MOST_CELLS}; take quilts of "
            "fewer rows, or a model whose rows depend on each other less",
            cells=cells,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Junction:
    """The buckets of a model and the messages between them.

    Attributes:
        states: Number of states of each node.
        place: When each node is summed out.
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
        """Logarithms of a multiple of P[x_wanted], for nodes of one component; shape their states."""
        inside, top = self._subtree(wanted)
        tables = [table for node in inside for table in self.own[node]]
        tables += [self.upward[child] for node in inside for child in self.below[node] if child not in inside]
        return eliminate([*tables, self.downward[top]], wanted, self.states)

    def _subtree(self, wanted: Sequence[int]) -> tuple[list[int], int]:
        """The buckets that join those of the wanted nodes, and the highest: the lowest goes up until all have met."""
        inside = set(wanted)
        front = [(self.place[node], node) for node in inside]
        heapq.heapify(front)
        while len(front) > 1:
            up = self.above[heapq.heappop(front)[1]]
            if up not in inside:
                inside.add(up)
                heapq.heappush(front, (self.place[up], up))
        return sorted(inside), front[0][1]


@lru_cache(maxsize=8)
def junction(model: FactorModel) -> Junction:
    """The junction tree of a model, with all messages.

    Raises:
        DependenceError: If a bucket would have more than 2**22 cells (known before any is built; the message has the
            number), or all combinations of states are impossible.
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
    """Upwards in the order of the elimination, downwards in the other one."""
    upward: dict[int, Table] = {}
    for node, scope in scopes.items():
        held = [*own[node], *(upward[child] for child in below[node])]
        upward[node] = _message(held, (node, *scope), scope, states)
        if not scope and upward[node][1] == -math.inf:
            raise DependenceError("the factors contradict each other: every combination of states has probability 0")
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
    """The product of tables over a bucket, summed to a scope; its largest entry is 1, so that precision stays."""
    order = (*(node for node in bucket if node not in scope), *scope)
    logs = sum_of_logs(tables, order, states)
    summed = log_sum(logs.reshape(-1, *(states[node] for node in scope)), axis=0)
    top = float(summed.max())
    return scope, summed - top if top > -math.inf else summed


def eliminate(tables: Sequence[Table], kept: Sequence[int], states: Sequence[int]) -> NDArray[np.float64]:
    """Logarithms of the sum of a product of tables over all nodes but ``kept``, the axes of the answer.

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
    """The nodes but ``kept`` in the order in which they are summed out, each with the neighbours that it has then.

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
