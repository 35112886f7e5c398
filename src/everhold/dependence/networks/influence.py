"""Max-influence: how much the state of one row can change the odds of others (theory, section 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice, pairwise, takewhile
from typing import TYPE_CHECKING

import numpy as np

from everhold.dependence.networks.factors import MOST_CELLS, log_of, log_sum, sum_of_logs
from everhold.dependence.networks.inference import conditional_logs, forest_law, is_forest_model, log_product, steps_to
from everhold.errors import DependenceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from everhold.dependence.networks.factors import FactorModel
    from everhold.dependence.networks.graph import Graph
    from everhold.dependence.networks.quilt import Quilt

    Logs = NDArray[np.float64]

__all__ = [
    "Influence",
    "blanket_influence",
    "blanket_influences",
    "chain_influence",
    "chain_nearby",
    "chain_quilt_influences",
    "conditional_quilt_influence",
    "influence_bound",
    "max_influence",
    "quilt_influence",
]

_ROUNDING = 1e-10  # relative and absolute; a thousand steps along a path are off by about 1e-13


@dataclass(frozen=True, slots=True)
class Influence:
    """An influence, or an upper bound of it.

    Attributes:
        value: Natural logarithm of a ratio of probabilities, at least 0; may be infinite.
        exact: Whether it is the influence itself, up to rounding (upwards), and not only an upper bound.
    """

    value: float
    exact: bool


@dataclass(frozen=True, slots=True)
class _Part:
    """One of the pieces into which a component falls without the row; given the row, they are independent."""

    nodes: frozenset[int]
    targets: tuple[int, ...]
    known: tuple[int, ...]


def max_influence(model: FactorModel, targets: Collection[int], row: int, *, given: Collection[int] = ()) -> float:
    """``I(X_S <~ X_i | X_K) = ln max P[x_S | x_i, x_K] / P[x_S | x_i', x_K]``, exactly.

    It is 0 for an empty S. Contexts (x_i, x_K) of probability zero are skipped; a positive probability over a zero is
    infinite.

    Args:
        model: The joint law.
        targets: The rows S.
        row: The row i.
        given: The rows K.

    Returns:
        The influence, rounded upwards.

    Raises:
        DependenceError: If a row has two roles, or a table would have more than 2**22 cells (`influence_bound` has an
            answer then, too).

    Source: Zhao 2017; docs/theory, quilts.

    Examples:
        >>> from everhold.dependence.networks.factors import Factor, FactorModel
        >>> copy = Factor((0, 1), [[0.9, 0.1], [0.1, 0.9]])
        >>> round(math.exp(max_influence(FactorModel((2, 2), (copy,)), [1], 0)), 6)
        9.0
    """
    _refuse_roles(model, row, targets, given)
    parts = [_reduced(model.graph, row, part) for part in _parts(model.graph, row, targets, given)]
    if not any(part.targets for part in parts):
        return 0.0
    return _worst([_exact_pairs(model, row, part) for part in parts])


def influence_bound(model: FactorModel, targets: Collection[int], row: int) -> Influence:
    """``I(X_S <~ X_i)``, or an upper bound where a table would have more than 2**22 cells.

    Args:
        model: The joint law.
        targets: The rows S.
        row: The row i.
    """
    _refuse_roles(model, row, targets, ())
    matrices, exact = [], True
    for part in _parts(model.graph, row, targets, ()):
        reduced = _reduced(model.graph, row, part)
        try:
            matrices.append(_exact_pairs(model, row, reduced))
        except DependenceError as fault:
            if "cells" not in fault.data:
                raise
            matrices.append(_bound_pairs(model, row, reduced))
            exact = False
    return Influence(_worst(matrices), exact)


def blanket_influence(model: FactorModel, row: int) -> float:
    """``a_i``, the influence of a row on its Markov blanket, and so on all other rows; see `influence_bound`."""
    return influence_bound(model, model.graph.blanket(row), row).value


def blanket_influences(model: FactorModel) -> NDArray[np.float64]:
    """``a_i`` of all rows; shape (nodes,). Forests take one step for all rows together."""
    if not is_forest_model(model):
        return np.array([blanket_influence(model, row) for row in range(model.nodes)])
    law = forest_law(model)
    size = law.marginals.shape[1]
    below = np.flatnonzero(law.parent >= 0)
    total = np.zeros((model.nodes, size, size))
    np.add.at(total, below, _ratios(law.up[below]))
    np.add.at(total, law.parent[below], _ratios(law.down[below]))
    possible = law.marginals > -math.inf
    total[~(possible[:, :, None] & possible[:, None, :])] = 0.0
    alone = np.bincount(model.graph.edges.ravel(), minlength=model.nodes) == 0
    return np.where(alone, 0.0, _outward(total.max(axis=(1, 2))))


def quilt_influence(model: FactorModel, quilt: Quilt) -> float:
    """``I(X_Q <~ X_i)``; an upper bound where `influence_bound` has to bound it."""
    return influence_bound(model, quilt.quilt, quilt.row).value


def conditional_quilt_influence(model: FactorModel, quilt: Quilt, *, most_nearby: int = 10) -> Influence:
    """``b_i``, the maximum over all subsets L of the nearby rows of ``I(X_Q <~ X_i | X_L)``.

    Without the row, its component falls into parts that are independent given it, and the maximum is taken in each part
    alone. Nearby rows that block the way to the quilt never raise it. If a part has at most ``most_nearby`` others, all
    their subsets are looked at; on a chain there are none left. Otherwise an upper bound holds for every L at once: on
    forests the projective distance of the row's states, which shrinks along the way to the quilt (Birkhoff), elsewhere
    the projective distance of the row's own factors.

    Args:
        model: The joint law.
        quilt: The quilt.
        most_nearby: Nearby rows of a part up to which the value is exact.

    Source: Zhao 2017 (P1); docs/theory, quilts.
    """
    _refuse_roles(model, quilt.row, quilt.quilt, quilt.nearby)
    matrices, exact = [], True
    for part in _parts(model.graph, quilt.row, quilt.quilt, quilt.nearby):
        if not part.targets:
            continue
        reduced = _unblocked(model.graph, quilt.row, part, most_nearby + 1)
        cells = math.prod(model.states[node] for node in (quilt.row, *reduced.targets, *reduced.known))
        try:
            fits = cells <= MOST_CELLS and len(reduced.known) <= most_nearby
            matrices.append(
                _all_contexts(model, quilt.row, reduced) if fits else _bound_pairs(model, quilt.row, reduced)
            )
            exact = exact and fits
        except DependenceError as fault:
            if "cells" not in fault.data:
                raise
            matrices.append(_bound_pairs(model, quilt.row, reduced))
            exact = False
    return Influence(_worst(matrices), exact)


def chain_quilt_influences(
    transition: ArrayLike, initial: ArrayLike, row: int, rows: int, *, reach: int | None = None
) -> NDArray[np.float64]:
    """``I(X_Q <~ X_i)`` of all quilts {i-a, i+b} of a row of a Markov chain; ``b_i`` is the same for them.

    Entry (a, b) belongs to the quilt {i-a, i+b}; 0 stands for no row on that side, so (0, 0) is the empty quilt. The
    way backwards is the time reversal by Bayes with the law of the row at its place. For a stationary chain the entries
    are the same for all rows as far as they exist. `chain_nearby` has the numbers of nearby rows.

    Args:
        transition: P[x_{t+1} | x_t], shape (k, k), rows sum to 1.
        initial: P[x_0], shape (k,), sum 1; the stationary law for a stationary chain.
        row: The row i, from 0 on.
        rows: Number of rows of the chain.
        reach: Largest a and b; None goes on to the ends.

    Returns:
        Array of shape (min(i, reach) + 1, min(rows - 1 - i, reach) + 1), rounded upwards.

    Raises:
        DependenceError: If the laws do not sum to 1, or the row does not exist.

    Source: docs/theory, quilts (chains).
    """
    kernel, law = _chain(transition, initial)
    left, right = _sides(row, rows, reach)
    past = [_law_after(law, kernel, row - left)]  # from the furthest row of a quilt on
    for _ in range(left):
        past.append(log_product(past[-1][None], kernel)[0])
    here = past[-1]
    size = len(law)
    back, forth = np.zeros((left + 1, size, size)), np.zeros((right + 1, size, size))
    power = kernel
    for step in range(1, max(left, right) + 1):
        if step <= left:
            with np.errstate(invalid="ignore"):
                joint = np.where(here > -math.inf, past[left - step][:, None] + power - here, -math.inf)
            back[step] = _ratios(joint.T[None])[0]
        if step <= right:
            forth[step] = _ratios(power[None])[0]
        power = log_product(power, kernel) if step < max(left, right) else power
    possible = here > -math.inf
    back, forth = (pairs[:, possible][:, :, possible] for pairs in (back, forth))
    worst = np.array([(pairs + forth).max(axis=(1, 2)) for pairs in back])
    found = _outward(worst)
    found[0, 0] = 0.0
    return found


def _law_after(law: Logs, kernel: Logs, steps: int) -> Logs:
    """The law of a chain so many steps later, by squaring; in logarithms, so that nothing becomes impossible."""
    power = kernel
    while steps:
        if steps % 2:
            law = log_product(law[None], power)[0]
        steps //= 2
        power = log_product(power, power) if steps else power
    return law


def chain_nearby(row: int, rows: int, *, reach: int | None = None) -> NDArray[np.int64]:
    """Numbers of nearby rows, without the row itself, of the quilts of `chain_quilt_influences`; the same shape.

    Examples:
        >>> chain_nearby(1, 4).tolist()
        [[3, 1, 2], [2, 0, 1]]
    """
    left, right = _sides(row, rows, reach)
    before, after = np.arange(left + 1) - 1, np.arange(right + 1) - 1
    before[0], after[0] = row, rows - 1 - row
    return before[:, None] + after


def chain_influence(transition: ArrayLike, initial: ArrayLike, row: int, quilt: Collection[int]) -> float:
    """``I(X_Q <~ X_i)`` on a Markov chain; only the nearest rows of Q on either side matter.

    Args:
        transition: P[x_{t+1} | x_t], shape (k, k).
        initial: P[x_0], shape (k,).
        row: The row i.
        quilt: The rows Q.
    """
    _refuse_two_roles(row, quilt, ())
    before = row - max((node for node in quilt if node < row), default=row)
    after = min((node for node in quilt if node > row), default=row) - row
    reach = max(before, after)
    return float(chain_quilt_influences(transition, initial, row, row + reach + 1, reach=reach)[before, after])


def _chain(transition: ArrayLike, initial: ArrayLike) -> tuple[Logs, Logs]:
    kernel, law = np.asarray(transition, dtype=np.float64), np.asarray(initial, dtype=np.float64)
    if law.ndim != 1 or kernel.shape != (len(law), len(law)):
        raise DependenceError(
            f"the transition has shape {kernel.shape} and the first law {law.shape}; expected (k, k) and (k,)"
        )
    sums = np.append(kernel.sum(axis=1), law.sum())
    if not (kernel.min() >= 0.0 and law.min() >= 0.0 and np.allclose(sums, 1.0, rtol=0.0, atol=1e-9)):
        raise DependenceError("a law of the chain is negative or does not sum to 1; expected probabilities")
    return log_of(kernel), log_of(law)


def _sides(row: int, rows: int, reach: int | None) -> tuple[int, int]:
    if not 0 <= row < rows:
        raise DependenceError(f"row {row} does not exist; expected 0 to {rows - 1}", row=row)
    limit = rows if reach is None else reach
    return min(row, limit), min(rows - 1 - row, limit)


def _refuse_roles(model: FactorModel, row: int, targets: Collection[int], given: Collection[int]) -> None:
    wrong = next((node for node in (row, *targets, *given) if not 0 <= node < model.nodes), None)
    if wrong is not None:
        raise DependenceError(f"row {wrong} does not exist; expected 0 to {model.nodes - 1}", row=wrong)
    _refuse_two_roles(row, targets, given)


def _refuse_two_roles(row: int, targets: Collection[int], given: Collection[int]) -> None:
    roles = [row, *targets, *given]
    if len(set(roles)) < len(roles):
        raise DependenceError(f"a row has two roles in an influence of row {row}; expected each row once", row=row)


def _parts(graph: Graph, row: int, targets: Collection[int], known: Collection[int]) -> Iterator[_Part]:
    """The parts that hold targets or known rows; rows of other components are independent and left out."""
    labels = graph.components()
    asked = [node for node in (*targets, *known) if labels[node] == labels[row]]
    aims, facts = frozenset(targets), frozenset(known)
    pieces = _branches(graph, row, asked) if graph.is_forest() else _pieces(graph, row, asked)
    for nodes in pieces:
        if not nodes.isdisjoint(asked):
            yield _Part(nodes, tuple(sorted(aims & nodes)), tuple(sorted(facts & nodes)))


def _pieces(graph: Graph, row: int, asked: Collection[int]) -> Iterator[frozenset[int]]:
    """The components of the graph without the row that hold what is asked for."""
    seen = {row}
    for start in asked:
        if start not in seen:
            nodes = frozenset(graph.reachable(start, (row,)))
            seen |= nodes
            yield nodes


def _branches(graph: Graph, row: int, asked: Collection[int]) -> Iterator[frozenset[int]]:
    """The same on a forest, as far out as it takes to find all that is asked for."""
    branch = {other: other for other in graph.neighbours(row)}
    order, left = list(branch), set(asked) - branch.keys()
    branch[row] = row
    for node in order:
        if not left:
            break
        for other in graph.adjacency[node]:
            if other not in branch:
                branch[other] = branch[node]
                order.append(other)
                left.discard(other)
    for start in sorted({branch[node] for node in asked}):
        yield frozenset(node for node in order if branch[node] == start)


def _reduced(graph: Graph, row: int, part: _Part) -> _Part:
    """Without the targets and known rows that others screen off from the row; the influence stays the same."""
    first = _met(graph, row, part, {*part.targets, *part.known})
    border = _met(graph, row, part, part.known)
    return _Part(part.nodes, tuple(node for node in part.targets if node in first), tuple(sorted(border)))


def _met(graph: Graph, row: int, part: _Part, ends: Collection[int]) -> set[int]:
    """The ends that paths from the row inside the part meet first."""
    order = [node for node in graph.neighbours(row) if node in part.nodes]
    seen = {row, *order}
    left = set(ends) - seen
    for node in order:
        if not left:
            break
        if node not in ends:
            fresh = [other for other in graph.adjacency[node] if other not in seen]
            seen.update(fresh)
            left.difference_update(fresh)
            order += fresh
    return seen.intersection(ends)


def _unblocked(graph: Graph, row: int, part: _Part, most: int) -> _Part:
    """Without targets that others screen off, and without known rows through which every path to the targets leads.

    Of the known rows that remain, only the first ``most``.
    """
    first = _met(graph, row, part, part.targets)
    useful = (node for node in part.known if _met(graph, row, part, {node, *first}) & first)
    return _Part(part.nodes, tuple(sorted(first)), tuple(islice(useful, most)))


def _exact_pairs(model: FactorModel, row: int, part: _Part) -> Logs:
    """For every two states x, x' of the row, the largest ln P[x_S | x, x_K] / P[x_S | x', x_K] of a part.

    -infinity where no context has positive probability with both. Shape (states, states).
    """
    logs = conditional_logs(model, row, (*part.targets, *part.known))
    targets = math.prod(model.states[node] for node in part.targets)
    return _pairs(logs.reshape(len(logs), targets, -1))


def _all_contexts(model: FactorModel, row: int, part: _Part) -> Logs:
    """The same, the largest over all subsets of the known rows."""
    logs = conditional_logs(model, row, (*part.targets, *part.known))
    known = [model.states[node] for node in part.known]
    return _over_subsets(logs.reshape(len(logs), -1, *known), 2)


def _over_subsets(logs: Logs, first: int) -> Logs:
    """Every subset of the axes from 2 on is kept once; the others are summed over, from the axis ``first`` on."""
    worst = _pairs(logs.reshape(*logs.shape[:2], -1))
    for axis in range(first, logs.ndim):
        worst = np.maximum(worst, _over_subsets(log_sum(logs, axis=axis), axis))
    return worst


def _pairs(logs: Logs) -> Logs:
    """Largest ratios of conditional laws; logs has shape (states of the row, targets, contexts)."""
    scale = log_sum(logs, axis=1)
    possible = scale > -math.inf
    with np.errstate(invalid="ignore"):
        laws = np.where(possible[:, None, :], logs - scale[:, None, :], -math.inf)
    worst = np.full((len(laws), len(laws)), -math.inf)
    for other, law in enumerate(laws):
        both = possible & possible[other]
        with np.errstate(invalid="ignore"):
            ratio = np.where((laws > -math.inf) & both[:, None, :], laws - law, -math.inf)
        worst[:, other] = ratio.max(axis=(1, 2))
    return worst


def _ratios(kernels: Logs) -> Logs:
    """Largest ln of ratios of every two rows of each table, 0 for impossible rows; shape (tables, rows, rows)."""
    possible = np.asarray((kernels > -math.inf).any(axis=2))
    worst = np.zeros((kernels.shape[0], kernels.shape[1], kernels.shape[1]))
    for other in range(kernels.shape[1]):
        with np.errstate(invalid="ignore"):
            ratio = np.where(kernels > -math.inf, kernels - kernels[:, other, None, :], -math.inf)
        worst[:, :, other] = np.where(possible & possible[:, other, None], ratio.max(axis=2), 0.0)
    return worst


def _worst(matrices: Sequence[Logs]) -> float:
    """The largest sum over the parts; two states count only if every part has a context for both."""
    if not matrices:
        return 0.0
    both = (np.array(matrices) > -math.inf).all(axis=0)
    total = np.where(both, np.array(matrices), 0.0).sum(axis=0)
    return float(_outward(total.max()))


def _outward(value: Logs) -> Logs:
    """Rounded upwards by more than all rounding errors together."""
    return np.maximum(value, 0.0) * (1.0 + _ROUNDING) + _ROUNDING


def _bound_pairs(model: FactorModel, row: int, part: _Part) -> Logs:
    """An upper bound of `_exact_pairs` that holds whatever is known about rows of the part."""
    if is_forest_model(model):
        return _bound_along_path(model, row, part)
    return _bound_of_factors(model, row, part)


def _bound_along_path(model: FactorModel, row: int, part: _Part) -> Logs:
    """The projective distance of the row's states, carried along the way that all targets share (Birkhoff)."""
    law = forest_law(model)
    path = _shared_path(model.graph, row, part)
    distance = _spread(law.kernel(row, path[1]))
    for node, following in pairwise(path[1:]):
        widest = float(_spread(law.kernel(node, following)).max())
        distance = np.minimum(distance * math.tanh(widest / 4.0), widest) if widest else np.zeros_like(distance)
    return distance


def _shared_path(graph: Graph, row: int, part: _Part) -> list[int]:
    """The way from the row that the paths to all targets have in common."""
    before = dict(steps_to(graph, row, part.targets))
    paths = []
    for end in part.targets:
        path = [end]
        while path[-1] != row:
            path.append(before[path[-1]])
        paths.append(path[::-1])
    together = zip(*paths, strict=False)
    return [steps[0] for steps in takewhile(lambda steps: len(set(steps)) == 1, together)]


def _bound_of_factors(model: FactorModel, row: int, part: _Part) -> Logs:
    """The projective distance of the row's states in the factors that it shares with the part."""
    factors = [f for f in model.component(row) if row in f.variables and not part.nodes.isdisjoint(f.variables)]
    around = sorted({node for factor in factors for node in factor.variables} - {row})
    cells = math.prod(model.states[node] for node in (row, *around))
    groups = [factors] if cells <= MOST_CELLS else [[factor] for factor in factors]
    distance = np.zeros((model.states[row], model.states[row]))
    for group in groups:
        nodes = sorted({node for factor in group for node in factor.variables} - {row})
        tables = [(factor.variables, log_of(factor.table)) for factor in group]
        distance += _spread(sum_of_logs(tables, (row, *nodes), model.states).reshape(len(distance), -1))
    return distance


def _spread(logs: Logs) -> Logs:
    """Projective distances ``max_y ln (f(x,y)/f(x',y)) - min_y ...`` of the rows of a table.

    Columns where both are zero do not count; impossible rows have distance 0.
    """
    forth = _ratios(logs[None])[0]
    return np.asarray(forth + forth.T)
