"""Markov quilts: sets of rows behind which the rest knows little about a row (theory, section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from everhold.dependence.networks.graph import Graph
from everhold.errors import DependenceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = ["Quilt", "chain_quilts", "empty_quilt", "quilt_behind", "quilts_by_distance", "tree_quilts"]

_MOST_QUILTS = 1_000_000


@dataclass(frozen=True, slots=True)
class Quilt:
    """A row, the rows nearby, the quilt around them and the remote rows behind it.

    Together they are all rows, each once, and every path from the row to a remote one meets the quilt.

    Attributes:
        row: The row.
        nearby: The rows on its side of the quilt, without the row itself.
        quilt: The rows of the quilt; may be empty.
        remote: The rows behind it; None stands for all rows that are not named.
    """

    row: int
    nearby: tuple[int, ...]
    quilt: tuple[int, ...]
    remote: tuple[int, ...] | None = None

    def remote_rows(self, rows: int) -> tuple[int, ...]:
        """The remote rows, increasing, of ``rows`` rows in all."""
        if self.remote is not None:
            return self.remote
        named = {self.row, *self.nearby, *self.quilt}
        return tuple(node for node in range(rows) if node not in named)

    def validate(self, graph: Graph) -> None:
        """Refuse what is no Markov quilt of the graph.

        Raises:
            DependenceError: If a row is named twice or not at all, does not exist, or a path leads from the row to a
                remote one past the quilt; the error carries the path.
        """
        named = (self.row, *self.nearby, *self.quilt, *(self.remote or ()))
        wrong = next((node for node in named if not 0 <= node < graph.nodes), None)
        if wrong is not None:
            raise DependenceError(f"row {wrong} does not exist; expected 0 to {graph.nodes - 1}", row=wrong)
        if len(set(named)) < len(named):
            raise DependenceError(
                f"the quilt of row {self.row} names a row twice; expected each in one of nearby, quilt, remote",
                row=self.row,
            )
        if self.remote is not None and len(named) < graph.nodes:
            missing = min(set(range(graph.nodes)) - set(named))
            raise DependenceError(
                f"the quilt of row {self.row} leaves out row {missing}; expected every row in one of nearby, quilt, "
                "remote",
                row=self.row,
                missing=missing,
            )
        inside = {self.row, *self.nearby}
        before = _walk(graph, self.row, inside, frozenset(self.quilt))
        end = next((node for node in before if node not in inside), None)
        if end is not None:
            path = [end]
            while path[-1] != self.row:
                path.append(before[path[-1]])
            path.reverse()
            raise DependenceError(
                f"the path {' - '.join(map(str, path))} leads from row {self.row} to the remote row {end} past the "
                "quilt; expected none; put one of its rows into the quilt, or the remote row nearby",
                row=self.row,
                path=path,
            )


def _walk(graph: Graph, row: int, inside: Collection[int], barred: Collection[int]) -> dict[int, int]:
    """Where paths inside lead without a barred row, to the row before; one step outside they stop."""
    before = {row: row}
    order = [row]
    for node in order:
        for other in graph.adjacency[node]:
            if other not in before and other not in barred:
                before[other] = node
                if other in inside:
                    order.append(other)
    return before


def quilt_behind(graph: Graph, row: int, cut: Iterable[int]) -> Quilt:
    """The quilt made of the rows of ``cut`` that a path from the row meets first; what it reaches before is nearby."""
    barred = frozenset(cut)
    if row in barred:
        raise DependenceError(f"row {row} is in its own quilt; expected other rows only", row=row)
    nearby = graph.reachable(row, barred)
    met = {other for node in nearby for other in graph.adjacency[node] if other in barred}
    return Quilt(row, tuple(sorted(nearby.keys() - {row})), tuple(sorted(met)))


def empty_quilt(graph: Graph, row: int) -> Quilt:
    """All rows that depend on each other with the row are nearby; those of other components are remote."""
    return Quilt(row, tuple(node for node in graph.component(row) if node != row), ())


def chain_quilts(row: int, rows: int, *, most_nearby: int | None = None) -> tuple[Quilt, ...]:
    """All quilts of a row of a chain: two-sided {i-a, i+b}, one-sided, and empty; by number of nearby rows.

    Args:
        row: The row i, from 0 on.
        rows: Number of rows of the chain.
        most_nearby: Leave out quilts with more nearby rows; the empty one always stays.

    Raises:
        DependenceError: If the row does not exist, or there are more than a million quilts.

    Examples:
        >>> [quilt.quilt for quilt in chain_quilts(1, 4)]
        [(0, 2), (0, 3), (2,), (0,), (3,), ()]
    """
    if not 0 <= row < rows:
        raise DependenceError(f"row {row} does not exist; expected 0 to {rows - 1}", row=row)
    limit = rows - 1 if most_nearby is None else most_nearby
    lefts = [*range(row - 1, max(row - limit - 2, -1), -1), *([-1] if row <= limit else [])]
    ends = [*range(row + 1, min(row + limit + 2, rows)), *([rows] if rows - 1 - row <= limit else [])]
    pairs = [(left, end) for left in lefts for end in ends if end - left - 2 <= limit]
    if len(pairs) > _MOST_QUILTS:
        raise DependenceError(
            f"row {row} of {rows} has {len(pairs)} quilts; expected at most {_MOST_QUILTS}; give most_nearby",
            quilts=len(pairs),
        )
    pairs = sorted({*pairs, (-1, rows)}, key=lambda pair: (pair[1] - pair[0], -pair[0]))
    return tuple(
        Quilt(
            row,
            (*range(left + 1, row), *range(row + 1, end)),
            tuple(node for node in (left, end) if 0 <= node < rows),
        )
        for left, end in pairs
    )


def tree_quilts(graph: Graph, row: int, *, most_nearby: int | None = None) -> tuple[Quilt, ...]:
    """Quilts of a row of a forest, by number of nearby rows; the empty one is always there.

    For each radius r two of them: all rows at distance r; and the same without those behind which at most r rows lie,
    which are cheaper to take in than to have in the quilt.

    Args:
        graph: A graph whose components are trees.
        row: The row.
        most_nearby: Leave out quilts with more nearby rows; the empty one always stays.

    Raises:
        DependenceError: If the graph has a cycle or the row does not exist.
    """
    if not graph.is_forest():
        raise DependenceError("the graph has a cycle; expected a tree; use quilts_by_distance")
    found = []
    for radius, sphere in _spheres(graph, row, most_nearby):
        found.append(sphere)
        small = {node for node in sphere if _fewer_behind(graph, sphere[node], node, radius)}
        found.append({node: back for node, back in sphere.items() if node not in small})
    return _in_order(graph, row, found, most_nearby)


def quilts_by_distance(
    graph: Graph, row: int, *, most_radius: int | None = None, most_nearby: int | None = None
) -> tuple[Quilt, ...]:
    """Quilts of a row of any graph, by number of nearby rows; the empty one is always there.

    For each radius r two of them: the rows at distance r; and a minimum vertex cut between the row and all rows
    farther than r, the one nearest to the row if there are several.

    Args:
        graph: The graph.
        row: The row.
        most_radius: Largest radius; None goes on to the end of the component.
        most_nearby: Leave out quilts with more nearby rows, and stop at the first radius within which there are more;
            the empty one always stays.

    Raises:
        DependenceError: If the row does not exist.
    """
    found: list[Collection[int]] = []
    for radius, sphere in _spheres(graph, row, most_nearby):
        if most_radius is not None and radius > most_radius:
            break
        found += [sphere, _nearest_cut(graph, row, radius)]
    return _in_order(graph, row, found, most_nearby)


def _spheres(graph: Graph, row: int, most_nearby: int | None) -> Iterable[tuple[int, dict[int, int]]]:
    """Radius by radius, the rows at that distance, each with one before it, while few enough rows are nearer."""
    seen = {row}
    sphere = dict.fromkeys(graph.neighbours(row), row)
    radius = 1
    while sphere and (most_nearby is None or len(seen) - 1 <= most_nearby):
        yield radius, sphere
        seen |= sphere.keys()
        sphere = {other: node for node in sphere for other in graph.adjacency[node] if other not in seen}
        radius += 1


def _fewer_behind(graph: Graph, back: int, node: int, limit: int) -> bool:
    """Whether at most ``limit`` rows of a tree are ``node`` or lie behind it, seen from ``back``."""
    order = [(node, back)]
    for here, came in order:
        order += [(other, here) for other in graph.adjacency[here] if other != came]
        if len(order) > limit:
            return False
    return True


def _nearest_cut(graph: Graph, row: int, radius: int) -> tuple[int, ...]:
    """A minimum vertex cut between the row and the rows farther than the radius, found in the ball that matters."""
    ball = graph.ball(row, radius + 1)
    names = np.array(sorted(ball))
    place = {int(node): index for index, node in enumerate(names)}
    edges = [(place[node], place[other]) for node in place for other in graph.adjacency[node] if other in place]
    local = Graph(len(names), np.array(edges, dtype=np.int64).reshape(-1, 2))
    far = [place[node] for node, distance in ball.items() if distance > radius]
    return tuple(names[list(local.minimum_cut(place[row], far))].tolist())


def _in_order(graph: Graph, row: int, cuts: Iterable[Collection[int]], most_nearby: int | None) -> tuple[Quilt, ...]:
    quilts = {quilt_behind(graph, row, cut) for cut in cuts if cut}
    limit = graph.nodes if most_nearby is None else most_nearby
    kept = {quilt for quilt in quilts if len(quilt.nearby) <= limit} | {empty_quilt(graph, row)}
    return tuple(sorted(kept, key=lambda quilt: (len(quilt.nearby), len(quilt.quilt), quilt.quilt)))
