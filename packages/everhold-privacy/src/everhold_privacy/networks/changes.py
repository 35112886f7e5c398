"""Bounds on how much a row's law moves when another row changes (S5)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from everhold_privacy.networks.bounds import NetworkParts
from everhold_privacy.networks.factors import sum_of_logs
from everhold_privacy.networks.forest import SAFETY, forest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_ROUNDS = 60  # of the iteration for weak influences
_MOST_CELLS = 2**12  # of the law of a node given its neighbours


def bayesian_changes(parts: NetworkParts, order: Sequence[int]) -> Floats:
    """``D_i`` of a Bayesian network, parents first: rows from i on that differ when i does, in expectation (S5).

    ``D_i <= 1 + sum over children j of kappa_ij D_j`` (0 for 1 if i is latent), with ``kappa_ij`` the largest total
    variation of node j's table when only its parent i changes, and no more than the component has rows; docs/theory,
    networks, has the coupling.

    Args:
        parts: The network; factor i is the table of node i, itself last.
        order: The nodes, parents first.

    Returns:
        Shape (nodes,).
    """
    changes = parts.counted.astype(np.float64).tolist()
    most = parts.component_rows.tolist()
    kappas: dict[int, list[float]] = {}
    for node in reversed(order):
        changes[node] = min(changes[node] * SAFETY, most[node])
        factor, table = parts.model.factors[node], parts.table_of[node]
        if table not in kappas:
            kappas[table] = [_sensitivity(factor.table, axis) for axis in range(factor.table.ndim - 1)]
        for parent, kappa in zip(factor.variables, kappas[table], strict=False):
            changes[parent] += kappa * changes[node]
    return np.array(changes)


def _sensitivity(table: Floats, axis: int) -> float:
    """Largest total variation between laws of the node when only the parent at the axis changes."""
    laws = np.moveaxis(table, axis, 0)
    return max(
        (0.5 * float(np.abs(laws[x] - laws[:x]).sum(axis=-1).max()) for x in range(1, len(laws))),
        default=0.0,
    )


def forest_changes(parts: NetworkParts) -> Floats:
    """``D_i`` of the components that are trees, from any root; infinite for the nodes of others (S5)."""
    changes = np.full(len(parts.counted), np.inf)
    if len(parts.tree_nodes):
        trees = forest(parts.tree_model, parts.counted[parts.tree_nodes])
        changes[parts.tree_nodes[trees.order]] = trees.expected_changes()
    return changes


def dobrushin_changes(parts: NetworkParts) -> Floats:
    """``D_i`` of any component whose rows influence each other little (S5); infinite for the nodes of others.

    ``c_jk`` is the largest total variation of the law of node j given all others when only node k changes. If every
    node's influences ``sum_j c_jk`` stay below rho < 1, then ``D <= w + C^T D``, w being 1 for rows and 0 for latent
    nodes; iterating from ``1/(1 - rho)`` stays above the solution. All tables must be positive.

    Source: Dobrushin 1970 (comparison of Gibbs measures); docs/theory, networks.
    """
    count = parts.model.nodes
    influences = _influences(parts)
    if influences is None:
        return np.full(count, np.inf)
    total = np.asarray(influences.sum(axis=0)).ravel()
    rho = np.zeros(int(parts.labels.max()) + 1)
    np.maximum.at(rho, parts.labels, total)
    rho = rho[parts.labels] * SAFETY
    weak = rho < 1.0
    changes = np.where(weak, 1.0 / (1.0 - np.where(weak, rho, 0.0)), 0.0)
    backward = influences.T.tocsr()
    for _ in range(_ROUNDS):
        changes = np.where(weak, np.minimum(changes, (parts.counted + backward @ changes) * SAFETY), 0.0)
    return np.where(weak, np.minimum(changes, parts.component_rows), np.inf)


def _influences(parts: NetworkParts) -> csr_array | None:
    """The matrix ``c_jk``, or None if some table has a zero or a node has too many neighbours."""
    factors = parts.model.factors
    if any(factor.table.min() <= 0.0 for factor in factors):
        return None
    around: list[list[int]] = [[] for _ in range(parts.model.nodes)]
    for number, factor in enumerate(factors):
        for node in factor.variables:
            around[node].append(number)
    known: dict[object, list[float]] = {}
    tails, heads, values = [], [], []
    for node, numbers in enumerate(around):
        local = {node: 0}
        scopes = [tuple(local.setdefault(other, len(local)) for other in factors[f].variables) for f in numbers]
        states = [parts.model.states[other] for other in local]
        if math.prod(states) > _MOST_CELLS:
            return None
        key = tuple(states), tuple(zip(scopes, (parts.table_of[f] for f in numbers), strict=True))
        if key not in known:
            tables = [(scope, np.log(factors[f].table)) for scope, f in zip(scopes, numbers, strict=True)]
            logs = np.moveaxis(sum_of_logs(tables, range(len(local)), states), 0, -1)
            law = np.exp(logs - logs.max(axis=-1, keepdims=True))
            law /= law.sum(axis=-1, keepdims=True)
            known[key] = [_sensitivity(law, axis) for axis in range(law.ndim - 1)]
        heads += list(local)[1:]
        tails += [node] * (len(local) - 1)
        values += known[key]
    return csr_array((values, (tails, heads)), shape=(parts.model.nodes, parts.model.nodes), dtype=np.float64)


def proxy_variance(parts: NetworkParts, changes: Sequence[Floats]) -> float:
    """Sum over components of the least of ``k^2`` (k rows) and ``sum D_i^2`` for each of the given bounds (S5).

    Components are independent, so the exponents of their moment bounds add up, whichever bound each of them takes.
    """
    labels = parts.labels
    count = int(labels.max()) + 1
    least = np.bincount(labels, weights=parts.counted.astype(np.float64), minlength=count) ** 2
    for bound in changes:
        squares = np.where(np.isinf(bound), np.inf, bound) ** 2
        endless = np.bincount(labels, weights=np.isinf(bound), minlength=count) > 0
        total = np.bincount(labels, weights=np.where(np.isinf(bound), 0.0, squares), minlength=count)
        least = np.minimum(least, np.where(endless, np.inf, total))
    return float(least.sum())
