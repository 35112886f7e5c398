"""Markov quilts of rows, and the influence of a row on its quilt."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice, pairwise, takewhile
from typing import TYPE_CHECKING

import numpy as np

from everhold.errors import DependenceError
from everhold_privacy.networks.factors import MOST_CELLS, Graph, log_of, log_sum, sum_of_logs
from everhold_privacy.networks.inference import conditional_logs, forest_law, is_forest_model

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from everhold_privacy.networks.factors import FactorModel

    Logs = NDArray[np.float64]


_ROUNDING = 1e-10  # relative and absolute; a thousand steps along a path are off by about 1e-13


def over_subsets(logs: Logs, first: int) -> Logs:
    """Return the log ratios of `pairs_of_contexts`, at their largest over all subsets of the known nodes.

    A subset is what an adversary knows. The axes of ``logs`` are the states of the row, the targets, and one axis for
    each known node. Nodes outside a subset are summed out. Nodes whose axes lie before ``first`` are in every subset.
    """
    worst = pairs_of_contexts(logs.reshape(*logs.shape[:2], -1))
    for axis in range(first, logs.ndim):
        worst = np.maximum(worst, over_subsets(log_sum(logs, axis=axis), axis))
    return worst


def pairs_of_contexts(logs: Logs) -> Logs:
    """Return the largest log ratio of the targets' laws for every two states of the row, over all contexts.

    The logs have shape (states of the row, targets, contexts).
    """
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


def largest_ratios(kernels: Logs) -> Logs:
    """Return the largest log ratio of every two rows of each table, 0 for impossible rows."""
    possible = np.asarray((kernels > -math.inf).any(axis=2))
    worst = np.zeros((kernels.shape[0], kernels.shape[1], kernels.shape[1]))
    for other in range(kernels.shape[1]):
        with np.errstate(invalid="ignore"):
            ratio = np.where(kernels > -math.inf, kernels - kernels[:, other, None, :], -math.inf)
        worst[:, :, other] = np.where(possible & possible[:, other, None], ratio.max(axis=2), 0.0)
    return worst


def worst_sum(matrices: Sequence[Logs]) -> float:
    """Return the largest entry of the sum of matrices, among places where none has -infinity (an impossible pair)."""
    if not matrices:
        return 0.0
    both = (np.array(matrices) > -math.inf).all(axis=0)
    total = np.where(both, np.array(matrices), 0.0).sum(axis=0)
    return float(rounded_outward(total.max()))


def rounded_outward(value: Logs) -> Logs:
    """Return values rounded up by more than all rounding errors together."""
    return np.maximum(value, 0.0) * (1.0 + _ROUNDING) + _ROUNDING


def projective(logs: Logs) -> Logs:
    """Return the projective distances between the rows of a table, 0 for impossible rows."""
    forth = largest_ratios(logs[None])[0]
    return np.asarray(forth + forth.T)


@dataclass(frozen=True, slots=True)
class Quilt:
    """A row, its nearby rows, and its quilt, a set of rows that separates them from all other rows.

    Attributes:
        row: Position of the protected row.
        nearby: The rows on its side of the quilt, without the row itself.
        quilt: The rows of the quilt; may be empty.
    """

    row: int
    nearby: tuple[int, ...]
    quilt: tuple[int, ...]


def quilt_behind(graph: Graph, row: int, cut: Iterable[int]) -> Quilt:
    """Return the quilt of those rows of ``cut`` that paths from the row meet first.

    Raises:
        DependenceError: If the row itself is in the cut.
    """
    barred = frozenset(cut)
    if row in barred:
        raise DependenceError(f"Row {row} is in its own quilt. Pass other rows only.", row=row)
    nearby = graph.reachable(row, barred)
    met = {other for node in nearby for other in graph.adjacency[node] if other in barred}
    return Quilt(row, tuple(sorted(nearby.keys() - {row})), tuple(sorted(met)))


def empty_quilt(graph: Graph, row: int) -> Quilt:
    """Return the quilt without rows, for which all rows of the component are nearby."""
    return Quilt(row, tuple(node for node in graph.component(row) if node != row), ())


def quilts_by_distance(
    graph: Graph, row: int, *, most_radius: int | None = None, most_nearby: int | None = None
) -> tuple[Quilt, ...]:
    """Return quilts of a row of any graph, sorted by number of nearby rows, always including the empty one.

    For each radius r two of them: the rows at distance r; and a minimum vertex cut between the row and all rows
    farther than r, the one nearest to the row if there are several.

    Args:
        graph: Graph of the dependence between rows.
        row: Position of the row that the quilts protect.
        most_radius: Largest radius; None goes on to the end of the component.
        most_nearby: Leave out quilts with more nearby rows, and stop at the first radius within which there are more;
            the empty one always stays.

    Raises:
        DependenceError: If the row does not exist.
    """
    found: list[Collection[int]] = []
    for radius, sphere in spheres(graph, row, most_nearby):
        if most_radius is not None and radius > most_radius:
            break
        ball = graph.ball(row, radius + 1)
        names = np.array(sorted(ball))
        place = {int(node): index for index, node in enumerate(names)}
        edges = [(place[node], place[other]) for node in place for other in graph.adjacency[node] if other in place]
        local = Graph(len(names), np.array(edges, dtype=np.int64).reshape(-1, 2))
        far = [place[node] for node, distance in ball.items() if distance > radius]
        found += [sphere, tuple(names[list(local.minimum_cut(place[row], far))].tolist())]
    return quilts_behind(graph, row, found, most_nearby)


def spheres(graph: Graph, row: int, most_nearby: int | None) -> Iterator[tuple[int, dict[int, int]]]:
    """Yield each radius with the rows at this distance from a row.

    Each row comes with its predecessor on a shortest path. The radii end when more than `most_nearby` rows are nearer.
    """
    seen = {row}
    sphere = dict.fromkeys(graph.neighbours(row), row)
    radius = 1
    while sphere and (most_nearby is None or len(seen) - 1 <= most_nearby):
        yield radius, sphere
        seen |= sphere.keys()
        sphere = {other: node for node in sphere for other in graph.adjacency[node] if other not in seen}
        radius += 1


def quilts_behind(
    graph: Graph, row: int, cuts: Iterable[Collection[int]], most_nearby: int | None
) -> tuple[Quilt, ...]:
    """Return the different quilts behind the cuts and the empty one, sorted by number of nearby rows."""
    quilts = {quilt_behind(graph, row, cut) for cut in cuts if cut}
    limit = graph.nodes if most_nearby is None else most_nearby
    kept = {quilt for quilt in quilts if len(quilt.nearby) <= limit} | {empty_quilt(graph, row)}
    return tuple(sorted(kept, key=lambda quilt: (len(quilt.nearby), len(quilt.quilt), quilt.quilt)))


@dataclass(frozen=True, slots=True)
class Influence:
    """Influence of a row on other rows, either exact or an upper bound.

    Attributes:
        value: Natural logarithm of a ratio of probabilities, at least 0; may be infinite.
        exact: Whether it is the influence itself, up to rounding (upwards), and not only an upper bound.
    """

    value: float
    exact: bool


def influence_bound(model: FactorModel, targets: Collection[int], row: int) -> Influence:
    """Return ``I(X_S <~ X_i) = ln max P[x_S | x_i] / P[x_S | x_i']``, or a bound if tables were too large.

    It is 0 for an empty S. States of probability zero are skipped; a positive probability over a zero is infinite.

    Args:
        model: The joint law.
        targets: The rows S.
        row: The row i.

    Raises:
        DependenceError: If a row has two roles or does not exist.

    Source: Zhao 2017; docs/theory, quilts.
    """
    matrices, exact = [], True
    for part in screened_parts(model, row, targets):
        matrix, fits = _exact_or_bound(model, row, part, exact_pairs)
        matrices.append(matrix)
        exact = exact and fits
    return Influence(worst_sum(matrices), exact)


def quilt_influence(model: FactorModel, quilt: Quilt) -> float:
    """Return ``I(X_Q <~ X_i)`` of a quilt, or the upper bound of `influence_bound`."""
    return influence_bound(model, quilt.quilt, quilt.row).value


def conditional_quilt_influence(model: FactorModel, quilt: Quilt, *, most_nearby: int = 10) -> Influence:
    """Return ``b_i``, the maximum of ``I(X_Q <~ X_i | X_L)`` over all subsets L of the nearby rows.

    Without the row, its component falls into parts that are independent given it, and the maximum is taken in each part
    alone. Nearby rows that block the way to the quilt never raise it. If a part has at most ``most_nearby`` others, all
    their subsets are looked at; on a chain there are none left. Otherwise an upper bound holds for every L at once: on
    forests the projective distance of the row's states, which shrinks along the way to the quilt (Birkhoff), elsewhere
    the projective distance of the row's own factors.

    Args:
        model: The joint law.
        quilt: Quilt of the row i, with its nearby rows.
        most_nearby: Nearby rows of a part up to which the value is exact.

    Source: Zhao 2017 (P1); docs/theory, quilts.
    """
    matrices, exact = [], True
    for part in _parts(model, quilt.row, quilt.quilt, quilt.nearby):
        if not part.targets:
            continue
        reduced = _unblocked(model.graph, quilt.row, part, most_nearby + 1)
        few = len(reduced.known) <= most_nearby
        matrix, fits = _exact_or_bound(model, quilt.row, reduced, _all_contexts if few else None)
        matrices.append(matrix)
        exact = exact and fits
    return Influence(worst_sum(matrices), exact)


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of a component without the row. Pieces are independent given the row."""

    nodes: frozenset[int]
    targets: tuple[int, ...]
    known: tuple[int, ...]


def _exact_or_bound(
    model: FactorModel, row: int, part: _Part, exactly: Callable[[FactorModel, int, _Part], Logs] | None
) -> tuple[Logs, bool]:
    """Return the log ratios of a part for each pair of states of the row, and whether they are exact.

    If the exact computation is too large, they are upper bounds.
    """
    if exactly is not None:
        try:
            return exactly(model, row, part), True
        except DependenceError as fault:
            if "cells" not in fault.data:
                raise
    bound = _bound_along_path if is_forest_model(model) else _bound_of_factors
    return bound(model, row, part), False


def _parts(model: FactorModel, row: int, targets: Collection[int], known: Collection[int]) -> Iterator[_Part]:
    """Yield the parts of the row's component that contain targets or known rows. A part is separated by the row."""
    roles = [row, *targets, *known]
    wrong = next((node for node in roles if not 0 <= node < model.nodes), None)
    if wrong is not None:
        raise DependenceError(f"Row {wrong} does not exist. The rows are 0 to {model.nodes - 1}.", row=wrong)
    if len(set(roles)) < len(roles):
        raise DependenceError(f"A row has two roles in an influence of row {row}. Pass each row once.", row=row)
    graph, labels = model.graph, model.graph.components()
    asked = [node for node in (*targets, *known) if labels[node] == labels[row]]
    aims, facts = frozenset(targets), frozenset(known)
    pieces = _branches(graph, row, asked) if graph.is_forest() else _pieces(graph, row, asked)
    for nodes in pieces:
        if not nodes.isdisjoint(asked):
            yield _Part(nodes, tuple(sorted(aims & nodes)), tuple(sorted(facts & nodes)))


def _pieces(graph: Graph, row: int, asked: Collection[int]) -> Iterator[frozenset[int]]:
    """Yield the components of the graph without the row that contain requested nodes."""
    seen = {row}
    for start in asked:
        if start not in seen:
            nodes = frozenset(graph.reachable(start, (row,)))
            seen |= nodes
            yield nodes


def _branches(graph: Graph, row: int, asked: Collection[int]) -> Iterator[frozenset[int]]:
    """Yield the branches of a forest that contain requested nodes, only as far out as needed."""
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


def screened_parts(
    model: FactorModel, row: int, targets: Collection[int], known: Collection[int] = ()
) -> Iterator[_Part]:
    """Yield the parts, without targets and known rows that other known rows or targets separate from the row."""
    for part in _parts(model, row, targets, known):
        first = _met(model.graph, row, part, {*part.targets, *part.known})
        border = _met(model.graph, row, part, part.known)
        yield _Part(part.nodes, tuple(node for node in part.targets if node in first), tuple(sorted(border)))


def _met(graph: Graph, row: int, part: _Part, ends: Collection[int]) -> set[int]:
    """Return those of the nodes ``ends`` that a path from the row inside the part can reach before other ends."""
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
    """Return the part without separated targets, and with few known rows.

    A known row is kept, up to ``most``, if a path to a target avoids it.
    """
    first = _met(graph, row, part, part.targets)
    useful = (node for node in part.known if _met(graph, row, part, {node, *first}) & first)
    return _Part(part.nodes, tuple(sorted(first)), tuple(islice(useful, most)))


def exact_pairs(model: FactorModel, row: int, part: _Part) -> Logs:
    """Return the largest ln P[x_S | x, x_K] / P[x_S | x', x_K] of a part for every two states x, x'.

    -infinity where no context has positive probability with both. Shape (states, states).
    """
    logs = conditional_logs(model, row, (*part.targets, *part.known))
    targets = math.prod(model.states[node] for node in part.targets)
    return pairs_of_contexts(logs.reshape(len(logs), targets, -1))


def _all_contexts(model: FactorModel, row: int, part: _Part) -> Logs:
    """Return the log ratios of `exact_pairs`, maximised over all subsets of the known rows."""
    logs = conditional_logs(model, row, (*part.targets, *part.known))
    known = [model.states[node] for node in part.known]
    return over_subsets(logs.reshape(len(logs), -1, *known), 2)


def _bound_along_path(model: FactorModel, row: int, part: _Part) -> Logs:
    """Return a bound on the projective distance between the row's states, contracted along the path to all targets.

    It holds whatever is known about rows of the part (Birkhoff).
    """
    law = forest_law(model)
    before = model.graph.reachable(row, ())
    paths = []
    for end in part.targets:
        path = [end]
        while path[-1] != row:
            path.append(before[path[-1]])
        paths.append(path[::-1])
    together = zip(*paths, strict=False)
    path = [steps[0] for steps in takewhile(lambda steps: len(set(steps)) == 1, together)]
    distance = projective(law.kernel(row, path[1]))
    for node, following in pairwise(path[1:]):
        widest = float(projective(law.kernel(node, following)).max())
        distance = np.minimum(distance * math.tanh(widest / 4.0), widest) if widest else np.zeros_like(distance)
    return distance


def _bound_of_factors(model: FactorModel, row: int, part: _Part) -> Logs:
    """Return a bound on the projective distance between the row's states, from its factors shared with the part."""
    factors = [f for f in model.component(row) if row in f.variables and not part.nodes.isdisjoint(f.variables)]
    around = sorted({node for factor in factors for node in factor.variables} - {row})
    cells = math.prod(model.states[node] for node in (row, *around))
    groups = [factors] if cells <= MOST_CELLS else [[factor] for factor in factors]
    distance = np.zeros((model.states[row], model.states[row]))
    for group in groups:
        nodes = sorted({node for factor in group for node in factor.variables} - {row})
        tables = [(factor.variables, log_of(factor.table)) for factor in group]
        distance += projective(sum_of_logs(tables, (row, *nodes), model.states).reshape(len(distance), -1))
    return distance
