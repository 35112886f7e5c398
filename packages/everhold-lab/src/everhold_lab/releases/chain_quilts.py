"""The best Markov quilt of every row of a chain (Song, Wang, Chaudhuri 2017), exactly or from the spectral gap.

On a chain the quilts of row i are ``{i-a, i+b}``, ``{i-a}`` alone (all later rows are nearby), ``{i+b}`` alone (all
earlier rows are nearby) and the empty one (all rows are nearby). Given row i, past and future are independent, so that
for two states x, x' of row i the influence is a sum of a left and a right part; their largest sum over x, x' counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from everhold.dependence.series.mixing import (
    TINY,
    Chain,
    influence_bound,
    log_ratios,
    mixing_of,
    powers_of,
    radii_of,
    sides_of,
    stationary_sides,
)
from everhold.errors import DependenceError
from everhold_privacy.networks.quilts import Quilt

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from everhold.dependence.series.markov_chain import MarkovChain

MOST_ROWS_FROM_A_LAW = 1000
"""Most rows of a chain that does not start in its stationary law: every row is searched on its own."""

REACH = 2048
"""Quilts further away than this are not looked at; the scale is right without them, though perhaps not the smallest."""

_FIRST_REACH = 16


@dataclass(frozen=True, slots=True)
class ChainSearch:
    """The best quilt of every row; arrays of shape (rows,).

    Attributes:
        left: Distance of the quilt's row before this one; 0 without one.
        right: Distance of the quilt's row after this one; 0 without one.
        influence: Max-influence of the row on its quilt.
        scale: ``(nearby rows + 1) / (epsilon - influence)``.
    """

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    influence: NDArray[np.float64]
    scale: NDArray[np.float64]

    @property
    def count(self) -> NDArray[np.int64]:
        """Nearby rows and the row itself."""
        rows = len(self.scale)
        place = np.arange(rows)
        before = np.where(self.left > 0, self.left - 1, place)
        after = np.where(self.right > 0, self.right - 1, rows - 1 - place)
        return before + after + 1

    def quilt(self, row: int) -> Quilt:
        """The quilt of one row."""
        rows, left, right = len(self.scale), int(self.left[row]), int(self.right[row])
        first = row - left + 1 if left else 0
        last = row + right - 1 if right else rows - 1
        ends = (row - left,) * (left > 0) + (row + right,) * (right > 0)
        return Quilt(row, (*range(first, row), *range(row + 1, last + 1)), ends)


class _FoundQuilt(NamedTuple):
    scale: float
    left: int
    right: int
    influence: float


def search(model: MarkovChain, *, rows: int, epsilon: float, exact: bool = True) -> ChainSearch:
    """The best quilts for a model: exact for a known chain, and good ones for a set of chains or from two numbers.

    Raises:
        DependenceError: If that is not possible for the model.
    """
    if model.initial != "stationary":
        if not exact or radii_of(model) is not None:
            raise DependenceError(
                "the chain starts in a law of its own; expected 'stationary' for an approximate search, or for a "
                "matrix that is known only up to radii; leave the initial law out"
            )
        law = np.array(model.initial)
        return from_law(Chain(model.transition).transition, law / law.sum(), rows=rows, epsilon=epsilon)
    if exact or radii_of(model) is not None:
        return _search(lambda reach: sides_of(model, reach), rows=rows, epsilon=epsilon)
    norm, least = mixing_of(Chain(model.transition))
    return stationary_bound(norm=norm, least=least, rows=rows, epsilon=epsilon)


def stationary(transition: NDArray[np.float64], law: NDArray[np.float64], *, rows: int, epsilon: float) -> ChainSearch:
    """The best quilts of a stationary chain; see `stationary_sides`."""
    return _search(lambda reach: stationary_sides(transition, law, reach), rows=rows, epsilon=epsilon)


def stationary_bound(*, norm: float, least: float, rows: int, epsilon: float) -> ChainSearch:
    """Good quilts of a stationary chain from two numbers alone (`MQMApprox`).

    Args:
        norm: Norm of the kernel on mean-zero functions of L2(pi): one minus the spectral gap of a reversible chain, and
            the square root of the second eigenvalue of ``P* P`` of any other. Rounded up.
        least: Least stationary probability. Rounded down.
        rows: Length of the chain.
        epsilon: Privacy loss.

    Source: Song, Wang, Chaudhuri 2017, section 4.4, with the constants of the guide on releases for dependent rows.
    """

    def sides(reach: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        bound = influence_bound(np.arange(1, reach + 1), norm=norm, least=least)[:, None, None]
        return bound, bound

    return _search(sides, rows=rows, epsilon=epsilon)


def from_law(transition: NDArray[np.float64], law: NDArray[np.float64], *, rows: int, epsilon: float) -> ChainSearch:
    """The best quilts of a chain whose first row has a given law.

    Raises:
        DependenceError: If there are more than 1,000 rows.
    """
    if rows > MOST_ROWS_FROM_A_LAW:
        raise DependenceError(
            f"the chain has {rows:,} rows and does not start in its stationary law; expected at most "
            f"{MOST_ROWS_FROM_A_LAW:,}, for every row has quilts of its own; let it start stationary",
            rows=rows,
        )
    laws = _laws(transition, law, rows)
    forward, possible = powers_of(transition, rows - 1)
    right = log_ratios(forward, possible)
    found = []
    for row, here in enumerate(laws):
        kept = here > 0.0
        pairs = kept[:, None] & kept
        before = np.array(laws[:row][::-1]).reshape(row, 1, len(law))
        backward = forward[:row].transpose(0, 2, 1) * before / np.where(kept, here, 1.0)[:, None]
        left = log_ratios(backward, possible[:row].transpose(0, 2, 1) & (before > 0.0))
        sides = np.where(pairs, left, -math.inf), np.where(pairs, right[: rows - 1 - row], -math.inf)
        found.append(_best_of_row(*sides, row=row, rows=rows, epsilon=epsilon))
    return _collected(found)


def _laws(transition: NDArray[np.float64], law: NDArray[np.float64], rows: int) -> list[NDArray[np.float64]]:
    """The law of every row; a positive probability too small for a float is refused."""
    laws, possible = [law], law > 0.0
    for _ in range(rows - 1):
        laws.append(laws[-1] @ transition)
        possible = (possible.astype(np.float64) @ (transition > 0.0)) > 0.0
        if np.any(laws[-1][possible] < TINY):
            raise DependenceError(
                "a state of the chain has a positive probability below 1e-290; expected larger ones or exact zeros; "
                "merge the rarest states"
            )
    return laws


def _best_of_row(
    left: NDArray[np.float64], right: NDArray[np.float64], *, row: int, rows: int, epsilon: float
) -> _FoundQuilt:
    """The best quilt of one row with tables of its own; rows further than the best can reach are not looked at."""
    choices = [_FoundQuilt(rows / epsilon, 0, 0, 0.0)]
    choices += _one_sided(left, others=rows - 1 - row, epsilon=epsilon, before=True)
    choices += _one_sided(right, others=row, epsilon=epsilon, before=False)
    best = min(choices)
    reach = _FIRST_REACH
    while left.size and right.size:
        table, influence = _two_sided(left[:reach], right[:reach], epsilon=epsilon)
        a, b = np.unravel_index(np.argmin(table), table.shape)
        best = min(best, _FoundQuilt(float(table[a, b]), int(a) + 1, int(b) + 1, float(influence[a, b])))
        if reach >= min(best.scale * epsilon, max(len(left), len(right))):
            break
        reach *= 2
    return best


def _search(
    sides: Callable[[int], tuple[NDArray[np.float64], NDArray[np.float64]]], *, rows: int, epsilon: float
) -> ChainSearch:
    """The best quilt of every row, where the tables are the same for all rows.

    A quilt with a row beyond the reach has at least ``reach`` rows nearby and a scale of ``reach/epsilon`` or more; the
    reach is doubled until no row's best is above that.
    """
    if rows == 1:
        return _collected([_FoundQuilt(1.0 / epsilon, 0, 0, 0.0)])
    reach = min(_FIRST_REACH, rows - 1)
    while True:
        found = _within(*sides(reach), rows=rows, epsilon=epsilon)
        if reach >= min(float(np.max(found.scale)) * epsilon, rows - 1, REACH):
            return found
        reach = min(2 * reach, rows - 1, REACH)


def _within(left: NDArray[np.float64], right: NDArray[np.float64], *, rows: int, epsilon: float) -> ChainSearch:
    """The best quilt of every row among those within reach."""
    reach = len(left)
    table, influence = _two_sided(left, right, epsilon=epsilon)
    order = np.argsort(table, axis=None, kind="stable")
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size)
    first = np.minimum.accumulate(np.minimum.accumulate(rank.reshape(table.shape), axis=0), axis=1)

    def best(row: int) -> _FoundQuilt:
        before, after = min(row, reach), min(rows - 1 - row, reach)
        choices = [_FoundQuilt(rows / epsilon, 0, 0, 0.0)]
        if before and after:
            a, b = divmod(int(order[first[before - 1, after - 1]]), reach)
            choices.append(_FoundQuilt(float(table[a, b]), a + 1, b + 1, float(influence[a, b])))
        if row <= reach:
            choices += _one_sided(right[:after], others=row, epsilon=epsilon, before=False)
        if rows - 1 - row <= reach:
            choices += _one_sided(left[:before], others=rows - 1 - row, epsilon=epsilon, before=True)
        return min(choices)

    alike = range(reach + 1, rows - reach - 1)
    inner = best(alike[0]) if alike else None
    return _collected([inner if inner and row in alike else best(row) for row in range(rows)])


def _one_sided(pairs: NDArray[np.float64], *, others: int, epsilon: float, before: bool) -> list[_FoundQuilt]:
    """The best quilt of one row on one side, with all ``others`` rows of the other side nearby."""
    if not pairs.size:
        return []
    influence = pairs.max(axis=(1, 2))
    scale = _scale(others + np.arange(1, len(pairs) + 1), influence, epsilon)
    at = int(np.argmin(scale))
    return [_FoundQuilt(float(scale[at]), (at + 1) * before, (at + 1) * (not before), float(influence[at]))]


def _two_sided(
    left: NDArray[np.float64], right: NDArray[np.float64], *, epsilon: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scale and influence of the quilts ``{i-a, i+b}``, both of shape (a, b)."""
    influence = np.array([(side + right).max(axis=(1, 2)) for side in left])
    count = np.add.outer(np.arange(len(left)), np.arange(len(right))) + 1
    return _scale(count, influence, epsilon), influence


def _scale(count: NDArray[np.int64], influence: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        return np.where(influence < epsilon, count / np.maximum(epsilon - influence, 0.0), math.inf)


def _collected(found: list[_FoundQuilt]) -> ChainSearch:
    scale, left, right, influence = (np.array(part) for part in zip(*found, strict=True))
    return ChainSearch(left, right, influence, scale)
