"""Bounds for the rows of a network, by couplings on trees, by quilts, and by whole components (S4, P5, S5).

Rows with nearly the same bounds become one class: numbers of nearby rows and influences are rounded up to a grid, and
the laws of couplings are averaged, which is allowed because S4 is linear in them.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from everhold_privacy.leakage import RowClass, Spread
from everhold_privacy.networks.factors import Factor, FactorModel, sum_of_logs
from everhold_privacy.networks.inference import MOST_STATES, SAFETY, Forest, forest
from everhold_privacy.networks.quilts import conditional_quilt_influence, quilt_influence, quilts_by_distance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from everhold_privacy.networks.quilts import Quilt

    Floats = NDArray[np.float64]


_RADII = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_MOST_CLASSES = 64
_LARGEST_INFLUENCE = 12.0  # a quilt with more leaves nothing: tanh(12/4) is 0.995
_LEAST_INFLUENCE = 1e-3
_POINTS = 256  # laws of couplings are exact below this many rows and bounded from there on
_MIXING = 1e-2
_MOST_NODES_FOR_QUILTS = 64
_MOST_NODES_FOR_CONDITIONS = 16
_MOST_ROWS_FOR_QUILTS = 1000  # of different components; each takes some hundredths of a second
_MOST_QUILT_STATES = 2**10


@dataclass(frozen=True, eq=False)
class NetworkParts:
    """The connected components of a network, with marks for the nodes that are rows and for equal factor tables."""

    model: FactorModel
    counted: NDArray[np.bool_]
    table_of: tuple[int, ...]

    @property
    def labels(self) -> NDArray[np.int64]:
        """Number of each node's component."""
        return self.model.graph.components()

    @cached_property
    def component_rows(self) -> NDArray[np.int64]:
        """Number of rows in each node's component."""
        return np.bincount(self.labels, weights=self.counted)[self.labels].astype(np.int64)

    @cached_property
    def _in_tree(self) -> NDArray[np.bool_]:
        """Boolean for each node: its component is a tree of small tables.

        Such a component has no factor of more than two nodes and no node with more than `MOST_STATES` states.
        """
        labels = self.labels
        spare = np.bincount(labels) - 1 - np.bincount(labels[self.model.graph.edges[:, 0]], minlength=labels.max() + 1)
        tree = spare == 0
        tree[[labels[f.variables[0]] for f in self.model.factors if len(f.variables) > 2]] = False
        tree[labels[np.array(self.model.states) > MOST_STATES]] = False
        return np.asarray(tree[labels])

    @cached_property
    def tree_nodes(self) -> NDArray[np.int64]:
        """The nodes of components that are trees."""
        return np.flatnonzero(self._in_tree)

    @cached_property
    def tree_model(self) -> FactorModel:
        """The joint distribution of the nodes in trees."""
        nodes = self.tree_nodes
        return self.model if len(nodes) == self.model.nodes else self._part(nodes.tolist(), self.model.factors)

    def _part(self, nodes: Sequence[int], factors: Iterable[Factor]) -> FactorModel:
        place = {node: index for index, node in enumerate(nodes)}
        inside = [f for f in factors if f.variables[0] in place]
        moved = tuple(Factor(tuple(place[node] for node in f.variables), f.table) for f in inside)
        return FactorModel(tuple(self.model.states[node] for node in nodes), moved)

    @cached_property
    def single(self) -> bool:
        """True if every component has at most one row."""
        return int(self.component_rows.max()) <= 1

    def different(self, nodes: NDArray[np.int64]) -> list[tuple[int, NetworkParts]]:
        """Return one component of each kind among those of the given nodes, with the number of equal components."""
        members: dict[int, list[int]] = {}
        for node in nodes.tolist():
            members.setdefault(int(self.labels[node]), []).append(node)
        factors: dict[int, list[int]] = {label: [] for label in members}
        for number, factor in enumerate(self.model.factors):
            label = int(self.labels[factor.variables[0]])
            if label in factors:
                factors[label].append(number)
        kinds: Counter[object] = Counter()
        first: dict[object, int] = {}
        for label, inside in members.items():
            place = {node: index for index, node in enumerate(inside)}
            key = (
                tuple((self.model.states[node], bool(self.counted[node])) for node in inside),
                tuple(
                    (tuple(place[node] for node in self.model.factors[number].variables), self.table_of[number])
                    for number in factors[label]
                ),
            )
            kinds[key] += 1
            first.setdefault(key, label)
        return [(number, self._alone(members[first[key]], factors[first[key]])) for key, number in kinds.items()]

    def _alone(self, nodes: list[int], factors: list[int]) -> NetworkParts:
        model = self._part(nodes, [self.model.factors[number] for number in factors])
        return NetworkParts(model, self.counted[nodes], tuple(self.table_of[number] for number in factors))


Quilts = tuple[tuple[int, float], ...]
"""Pairs (nearby rows without the row itself, influence), nearby increasing and influence decreasing."""


@dataclass
class _Class:
    """Rows with the same quilts and the sum of their laws: ``survival[k]`` bounds the number with H > counts[k]."""

    rows: float
    survival: Floats


def row_classes(parts: NetworkParts) -> tuple[RowClass, ...]:
    """Return bounds on the leakage about the rows of a network, by classes of rows (S4).

    Per row: a coupling away from it if its component is a tree, otherwise the whole component; and quilts with their
    influences. Latent nodes may carry influence, but only rows are counted.
    """
    # Row counts for the bounds: 1 to 16, steps of a fifth, the sizes of components if they are few, and the largest.
    sizes = parts.component_rows[parts.counted]
    largest = int(sizes.max())
    steps = 16 * 1.2 ** np.arange(1, 1 + max(0, math.ceil(math.log(max(largest / 16, 1.0), 1.2))))
    different = np.unique(sizes)
    grid = np.unique(np.concatenate([np.arange(1, 17), np.ceil(steps), different if len(different) <= 30 else []]))
    counts = np.append(grid[grid < largest], largest).astype(np.int64)
    classes: dict[Quilts, _Class] = {}
    if len(parts.tree_nodes):
        _add_trees(parts, counts, classes)
    others = np.flatnonzero(~np.isin(np.arange(parts.model.nodes), parts.tree_nodes))
    reader = 0
    for number, component in parts.different(others):
        size = int(np.sum(component.counted))
        survival = (counts < size).astype(np.float64)
        reader += size if component.model.nodes <= _MOST_NODES_FOR_QUILTS else 0
        for row in np.flatnonzero(component.counted).tolist():
            quilts = _quilts(component, row, size) if reader <= _MOST_ROWS_FOR_QUILTS else ()
            _add(classes, quilts, number, number * survival)
    total = math.fsum(rows.rows for rows in classes.values())
    return tuple(
        RowClass(
            rows.rows / total,
            (_law(rows.survival / rows.rows, counts), *(Spread.quilt(nearby=n, influence=b) for n, b in quilts)),
        )
        for quilts, rows in sorted(classes.items(), key=lambda item: item[0])
    )


def _add(classes: dict[Quilts, _Class], quilts: Quilts, rows: float, survival: Floats) -> None:
    known = classes.setdefault(quilts, _Class(0.0, np.zeros(len(survival))))
    known.rows += rows
    known.survival += survival


def _law(survival: Floats, counts: NDArray[np.int64]) -> Spread:
    """Return the distribution of counts that bounds of ``P[H > count]`` imply."""
    beyond = np.minimum.accumulate(np.clip(survival, 0.0, 1.0))
    masses = np.append(1.0, beyond[:-1]) - beyond
    used = masses > 0
    return Spread(tuple(counts[used].tolist()), tuple(masses[used].tolist()))


# Trees


def _add_trees(parts: NetworkParts, counts: NDArray[np.int64], classes: dict[Quilts, _Class]) -> None:
    trees = forest(parts.tree_model, parts.counted[parts.tree_nodes])
    sizes = parts.component_rows[parts.tree_nodes[trees.order]]
    rows = float(np.sum(trees.counted))
    if not rows:
        return
    if int(sizes.max()) <= 1:
        _add(classes, (), rows, np.zeros(len(counts)))
        return
    label, kinds = _kinds(*trees.ball_quilts(_RADII), sizes, trees.counted > 0)
    label = np.where(trees.counted > 0, label, len(kinds))
    numbers = np.bincount(label, minlength=len(kinds) + 1)
    survival = _survivals(trees, label, numbers, sizes, counts)
    for kind, quilts in enumerate(kinds):
        _add(classes, quilts, float(numbers[kind]), numbers[kind] * survival[kind])


def _kinds(
    nearby: Floats, influence: Floats, sizes: NDArray[np.int64], counted: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], list[Quilts]]:
    """Group rows with about the same quilts, and return each row's group (0 if latent) and the groups' quilts."""
    for ratio in (1.05, 1.1, 1.2, 1.35, 1.6, 2.0, 3.0):
        table = _rounded_up(nearby[counted], influence[counted], sizes[counted, None], ratio)
        distinct, inverse = np.unique(table, axis=0, return_inverse=True)
        if len(distinct) <= _MOST_CLASSES:
            break
    group = np.arange(len(distinct)) * min(len(distinct), _MOST_CLASSES) // len(distinct)
    starts = np.flatnonzero(np.r_[True, np.diff(group) != 0])
    worst = np.maximum.reduceat(distinct, starts, axis=0)
    label = np.zeros(len(sizes), dtype=np.int64)
    label[counted] = group[inverse.ravel()]
    half = worst.shape[1] // 2
    kinds = [_pruned(zip(row[half:].astype(int).tolist(), row[:half].tolist(), strict=True)) for row in worst]
    return label, kinds


def _rounded_up(nearby: Floats, influence: Floats, sizes: NDArray[np.int64], ratio: float) -> Floats:
    """Return numbers of nearby rows and influences rounded up to grids, with useless pairs as infinite and 0."""
    steps = np.ceil(np.log(np.maximum(influence, _LEAST_INFLUENCE) / _LEAST_INFLUENCE) / math.log(ratio) - 1e-12)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.maximum(_LEAST_INFLUENCE * ratio**steps, influence)
        many = np.maximum(np.ceil(ratio ** np.ceil(np.log(np.maximum(nearby, 1.0)) / math.log(ratio))), nearby)
    rounded = np.where(influence == 0.0, 0.0, rounded)
    many = np.where(nearby <= 8, nearby, np.ceil(many))
    before = np.minimum.accumulate(np.column_stack([np.full(len(rounded), np.inf), rounded]), axis=1)[:, :-1]
    useless = (rounded > _LARGEST_INFLUENCE) | (rounded >= before) | (many + 1 >= sizes)
    return np.column_stack([np.where(useless, np.inf, rounded), np.where(useless, 0.0, many)])


def _pruned(options: Iterable[tuple[int, float]]) -> Quilts:
    """Return the quilts that no other quilt improves in both nearby rows and influence."""
    kept: list[tuple[int, float]] = []
    for nearby, influence in sorted(options):
        if influence <= _LARGEST_INFLUENCE and (not kept or influence < kept[-1][1]):
            kept.append((nearby, influence))
    return tuple(kept)


def _survivals(
    trees: Forest,
    label: NDArray[np.int64],
    numbers: NDArray[np.int64],
    sizes: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> Floats:
    """Return bounds of ``P[H > count]``, averaged over the rows of each kind, shape (kinds + 1, counts).

    From ``E z^H`` at points of a circle, whose coefficients mix masses M apart, and from Chernoff bounds beyond M
    (docs/theory/networks). A product of n numbers is rounded by less than 1e-15 n.
    """
    largest = int(sizes.max())
    points = min(_POINTS, 1 << largest.bit_length())
    mixing = 1.0 if largest < points else _MIXING
    radius = mixing ** (1.0 / points)
    angles = radius * np.exp(1j * np.pi * (2 * np.arange(points // 2) + 1) / points)
    kinds = len(numbers)
    share = 1.0 / np.maximum(numbers, 1)[:, None]
    mean = np.concatenate([_kind_sums(trees, label, kinds, part) for part in _blocks(angles, trees)], axis=1) * share
    masses = (mean @ angles[:, None] ** -np.arange(points)[None, :]).real * (2.0 / points)
    chernoff, far = np.ones((kinds, len(counts))), np.zeros((kinds, 1))
    rounding = 1e-15 * max(largest, points) * float(np.sum(radius ** -np.arange(points)))
    if largest >= points:
        real = np.exp(np.geomspace(1e-3, min(5.0, 600.0 / largest), 24))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            parts = [_kind_sums(trees, label, kinds, part).real for part in _blocks(real.astype(complex), trees)]
            logs = np.log(np.concatenate(parts, axis=1) * share)
        logs = np.where(np.isfinite(logs), logs, np.inf)[:, None, :] + 1e-9
        bound = np.exp(np.minimum(logs - np.log(real) * (np.append(counts, points - 1)[None, :, None] + 1), 0.0))
        chernoff, far = bound.min(axis=2)[:, :-1], bound.min(axis=2)[:, -1:]
    below = np.cumsum(masses, axis=1)
    if largest >= points:  # s = P[H >= M] obeys s <= 1 - (sum of all masses) + r^M s, too
        far = np.clip((1.0 - below[:, -1:] + rounding) / (1.0 - mixing), 0.0, far)
    exact = 1.0 - below[:, np.minimum(counts, points - 1)] + mixing * far + rounding
    survival = np.clip(np.minimum(exact, chernoff), 0.0, 1.0)
    most = np.zeros(kinds, dtype=np.int64)
    np.maximum.at(most, label, sizes)
    return np.where(counts[None, :] >= most[:, None], 0.0, survival)


def _blocks(points: NDArray[np.complex128], trees: Forest) -> list[NDArray[np.complex128]]:
    """Split the points into blocks that need about 32 MiB for each array."""
    return np.array_split(points, max(1, len(points) * len(trees.above) // 2**21))


def _kind_sums(
    trees: Forest, label: NDArray[np.int64], kinds: int, points: NDArray[np.complex128]
) -> NDArray[np.complex128]:
    values = trees.spread_polynomials(points)
    sums = np.empty((kinds, len(points)), dtype=np.complex128)
    for column, value in enumerate(values.T):
        sums[:, column].real = np.bincount(label, weights=value.real, minlength=kinds)
        sums[:, column].imag = np.bincount(label, weights=value.imag, minlength=kinds)
    return sums


# Other components


def _useful_quilts(parts: NetworkParts, row: int) -> Iterable[tuple[int, Quilt]]:
    """Yield the small quilts of a component, each with its number of nearby rows."""
    size = int(np.sum(parts.counted))
    for quilt in quilts_by_distance(parts.model.graph, row):
        nearby = int(np.sum(parts.counted[list(quilt.nearby)]))
        states = math.prod(parts.model.states[node] for node in quilt.quilt)
        if nearby + 1 < size and states <= _MOST_QUILT_STATES:
            yield nearby, quilt


def _quilts(parts: NetworkParts, row: int, size: int) -> Quilts:
    if parts.model.nodes > _MOST_NODES_FOR_QUILTS or size <= 1:
        return ()
    return _pruned(
        (nearby, _on_grid(quilt_influence(parts.model, quilt))) for nearby, quilt in _useful_quilts(parts, row)
    )


def _on_grid(influence: float) -> float:
    """Return an influence rounded up by at most 2%."""
    if influence <= 0.0 or influence > _LARGEST_INFLUENCE:
        return influence
    step = math.ceil(math.log(max(influence, _LEAST_INFLUENCE) / _LEAST_INFLUENCE) / math.log(1.02) - 1e-12)
    return max(_LEAST_INFLUENCE * 1.02**step, influence)


def nearby_price(parts: NetworkParts, epsilon: float) -> float:
    """Return ``max_i min_Q (|N_i| + 1) / (epsilon - 4 b_i)`` (P5), b_i with the worst nearby rows known.

    In components of many nodes, and after a thousand rows of different components, all rows are nearby.
    """
    worst, reader = 0.0, 0
    for _, component in parts.different(np.arange(parts.model.nodes)):
        size = int(np.sum(component.counted))
        whole = size / epsilon
        if whole <= worst:
            continue
        small = size > 1 and component.model.nodes <= _MOST_NODES_FOR_CONDITIONS
        if small and reader <= _MOST_ROWS_FOR_QUILTS:
            reader += size
            whole = max(_price_of(component, row, epsilon) for row in np.flatnonzero(component.counted).tolist())
        worst = max(worst, whole)
    return worst


def _price_of(parts: NetworkParts, row: int, epsilon: float) -> float:
    least = float(np.sum(parts.counted)) / epsilon
    for nearby, quilt in _useful_quilts(parts, row):
        if (nearby + 1) / epsilon < least:
            left = epsilon - 4.0 * conditional_quilt_influence(parts.model, quilt).value
            least = min(least, (nearby + 1) / left) if left > 0 else least
    return least


# How averages concentrate (S5, Kontorovich and Ramanan)


_ROUNDS = 60  # of the iteration for weak influences
_MOST_CELLS = 2**12  # of the law of a node given its neighbours


def bayesian_changes(parts: NetworkParts, order: Sequence[int]) -> Floats:
    """Return ``D_i`` of a Bayesian network: how many rows from i on are expected to differ if i does (S5).

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
    """Return the largest total variation of a node's law when only the parent at the axis changes."""
    laws = np.moveaxis(table, axis, 0)
    return max(
        (0.5 * float(np.abs(laws[x] - laws[:x]).sum(axis=-1).max()) for x in range(1, len(laws))),
        default=0.0,
    )


def forest_changes(parts: NetworkParts) -> Floats:
    """Return ``D_i`` of nodes in tree components, infinite for all others (S5)."""
    changes = np.full(len(parts.counted), np.inf)
    if len(parts.tree_nodes):
        trees = forest(parts.tree_model, parts.counted[parts.tree_nodes])
        changes[parts.tree_nodes[trees.order]] = trees.expected_changes()
    return changes


def dobrushin_changes(parts: NetworkParts) -> Floats:
    """Return the bounds ``D_i`` for components with small influences, infinite for other components (S5).

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
    """Return the matrix of Dobrushin's influences ``c_jk`` between nodes, None if it cannot be computed."""
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
    """Return the sum over components of the least of ``k^2`` (k rows) and each bound's ``sum D_i^2`` (S5).

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


class NetworkBounds:
    """Bounds of one network, each computed once and remembered.

    Args:
        parts: The network taken apart into components.
        changes: Bounds D_i for all nodes that hold only for this kind of network, in addition to the general ones.
    """

    def __init__(
        self, parts: NetworkParts, changes: Callable[[NetworkParts], list[NDArray[np.float64]]] = lambda _: []
    ) -> None:
        self.parts = parts
        self._changes = changes
        self._prices: dict[float, float] = {}

    @cached_property
    def classes(self) -> tuple[RowClass, ...]:
        """Bounds on the leakage about the rows, by classes of rows."""
        return row_classes(self.parts)

    @cached_property
    def proxy(self) -> float:
        """Sum over components of the least bound on ``sum D_i^2`` (S5)."""
        bounds = [*self._changes(self.parts), forest_changes(self.parts), dobrushin_changes(self.parts)]
        return proxy_variance(self.parts, bounds)

    def price(self, epsilon: float) -> float:
        """Return the price of a Bayesian privacy loss of epsilon, see `DependenceModel.bayesian_price`."""
        if epsilon not in self._prices:
            self._prices[epsilon] = nearby_price(self.parts, epsilon)
        return self._prices[epsilon]
