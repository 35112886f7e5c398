"""More quilts than the product looks at: all of a chain, those of trees, and quilts that are given by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold.errors import DependenceError
from everhold_privacy.networks.quilts import Quilt, quilts_behind, spheres

if TYPE_CHECKING:
    from collections.abc import Collection

    from everhold_privacy.networks.factors import Graph

__all__ = ["chain_quilts", "remote_rows", "tree_quilts", "validate"]

_MOST_QUILTS = 1_000_000


def remote_rows(quilt: Quilt, rows: int) -> tuple[int, ...]:
    """The rows behind a quilt, increasing, of ``rows`` rows in all."""
    named = {quilt.row, *quilt.nearby, *quilt.quilt}
    return tuple(node for node in range(rows) if node not in named)


def validate(quilt: Quilt, graph: Graph, remote: Collection[int] | None = None) -> None:
    """Refuse what is no Markov quilt of the graph.

    Args:
        quilt: The quilt.
        graph: The graph.
        remote: The rows behind it; None stands for all rows that are not named.

    Raises:
        DependenceError: If a row is named twice or not at all, does not exist, or a path leads from the row to a
            remote one past the quilt; the error carries the path.
    """
    named = (quilt.row, *quilt.nearby, *quilt.quilt, *(remote or ()))
    wrong = next((node for node in named if not 0 <= node < graph.nodes), None)
    if wrong is not None:
        raise DependenceError(f"row {wrong} does not exist; expected 0 to {graph.nodes - 1}", row=wrong)
    if len(set(named)) < len(named):
        raise DependenceError(
            f"the quilt of row {quilt.row} names a row twice; expected each in one of nearby, quilt, remote",
            row=quilt.row,
        )
    if remote is not None and len(named) < graph.nodes:
        missing = min(set(range(graph.nodes)) - set(named))
        raise DependenceError(
            f"the quilt of row {quilt.row} leaves out row {missing}; expected every row in one of nearby, quilt, "
            "remote",
            row=quilt.row,
            missing=missing,
        )
    inside = {quilt.row, *quilt.nearby}
    before = _walk(graph, quilt.row, inside, frozenset(quilt.quilt))
    end = next((node for node in before if node not in inside), None)
    if end is not None:
        path = [end]
        while path[-1] != quilt.row:
            path.append(before[path[-1]])
        path.reverse()
        raise DependenceError(
            f"the path {' - '.join(map(str, path))} leads from row {quilt.row} to the remote row {end} past the "
            "quilt; expected none; put one of its rows into the quilt, or the remote row nearby",
            row=quilt.row,
            path=path,
        )


def _walk(graph: Graph, row: int, inside: Collection[int], barred: Collection[int]) -> dict[int, int]:
    """Rows that paths inside reach without a barred row, each with the row before; one step outside they stop."""
    before = {row: row}
    order = [row]
    for node in order:
        for other in graph.adjacency[node]:
            if other not in before and other not in barred:
                before[other] = node
                if other in inside:
                    order.append(other)
    return before


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
    quilts = sum(max(min(ends[-1], left + limit + 2) - row, 0) for left in lefts) if ends else 0
    if quilts > _MOST_QUILTS:
        raise DependenceError(
            f"row {row} of {rows} has {quilts} quilts; expected at most {_MOST_QUILTS}; give most_nearby",
            quilts=quilts,
        )
    pairs = [(left, end) for left in lefts for end in ends if end - left - 2 <= limit]
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
    for radius, sphere in spheres(graph, row, most_nearby):
        found.append(sphere)
        small = {node for node in sphere if _fewer_behind(graph, sphere[node], node, radius)}
        found.append({node: back for node, back in sphere.items() if node not in small})
    return quilts_behind(graph, row, found, most_nearby)


def _fewer_behind(graph: Graph, back: int, node: int, limit: int) -> bool:
    """True if at most ``limit`` rows of a tree are ``node`` or lie behind it, seen from ``back``."""
    order = [(node, back)]
    for here, came in order:
        order += [(other, here) for other in graph.adjacency[here] if other != came]
        if len(order) > limit:
            return False
    return True
