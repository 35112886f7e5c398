"""Promises without noise: a transcript that can be described in few words cannot overfit (S3).

All questions that can ever be asked form a tree. A node is the question number j together with the history of the
answers before it: which of them were released from the holdout (f of them) and with which of the G grid values. Any
weights ``w(node)`` fixed in advance with ``sum w <= 1`` give each asked question the level ``beta * w(node)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln, logsumexp

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["LadderTree", "QuestionTree", "log_ladder_size", "log_tree_size"]


@lru_cache(maxsize=256)
def log_tree_size(*, queries: int, overfits: int, grid: int) -> float:
    """Ln N of the tree with ``queries`` questions and at most ``overfits`` releases on ``grid`` values (S3).

    There are ``C(j-1, f) G^f`` histories before question j with f releases; summing over j gives
    ``N = sum_{f <= B} C(m, f+1) G^f``, at most the ``m sum_{b <= B} C(m, b) G^b`` of the cruder count.

    Examples:
        >>> log_tree_size(queries=1, overfits=0, grid=10)
        0.0
        >>> round(math.exp(log_tree_size(queries=3, overfits=1, grid=10)))  # 3 quiet nodes, 10 * (1 + 2) others
        33
    """
    releases = np.arange(min(overfits, queries - 1) + 1, dtype=np.float64)
    return float(logsumexp(_log_choose(float(queries), releases + 1.0) + releases * math.log(grid)))


def log_ladder_size(*, queries: int, levels: int) -> float:
    """Ln N of the tree of a ladder with ``queries`` questions and ``levels`` scores it can show (S3).

    Answers never rise, so a history is a non-increasing sequence of levels: before question j there are
    ``C(j-2, f-1) C(L, f)`` with f new bests, as the first question always sets one. Summed over f and j <= m they are
    ``C(m-1+L, L)``, at most the ``m sum_b C(m, b) C(L, b)`` of the cruder count.

    Examples:
        >>> round(math.exp(log_ladder_size(queries=3, levels=2)))  # (), (0), (1), (0, 0), (1, 0), (1, 1)
        6
    """
    return float(_log_choose(queries - 1.0 + levels, float(levels)))


def _log_choose(total: ArrayLike, chosen: ArrayLike) -> NDArray[np.float64]:
    """Ln C(total, chosen); minus infinity where chosen > total."""
    n, k = np.asarray(total, dtype=np.float64), np.asarray(chosen, dtype=np.float64)
    possible = k <= n
    rest = np.where(possible, n - k, 0.0)
    return np.where(possible, gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(rest + 1.0), -np.inf)


@dataclass(frozen=True, slots=True)
class QuestionTree:
    """The weighted tree of guess-and-check: half the weight on a plan, half pay as you go (S3, weighted form).

    ``w = 1/2 [uniform over the planned tree] + 1/2 * 1/(j(j+1)) * 1/((f+1)(f+2)) / (C(j-1, f) G^f)``.

    Attributes:
        queries: Planned number of questions m.
        overfits: Planned number of releases B.
        grid: Number G of values that a released answer can take.

    Examples:
        >>> tree = QuestionTree(queries=1000, overfits=5, grid=20)
        >>> round(float(tree.log_inverse_weight(asked=1000, released=0)), 3)
        15.203
    """

    queries: int
    overfits: int
    grid: int

    def log_inverse_weight(self, *, asked: ArrayLike, released: ArrayLike) -> NDArray[np.float64]:
        """ln(1 / w) of question number ``asked`` (from 1) after ``released`` releases, shape (...).

        Infinite where there are more releases than earlier questions.
        """
        j, f = np.asarray(asked, dtype=np.float64), np.asarray(released, dtype=np.float64)
        possible = f < j
        planned = np.where(
            possible & (j <= self.queries) & (f <= self.overfits),
            -log_tree_size(queries=self.queries, overfits=self.overfits, grid=self.grid),
            -np.inf,
        )
        as_you_go = np.where(
            possible,
            -np.log(j * (j + 1.0) * (f + 1.0) * (f + 2.0))
            - _log_choose(j - 1.0, np.minimum(f, j - 1.0))
            - f * math.log(self.grid),
            -np.inf,
        )
        return -(np.logaddexp(planned, as_you_go) - math.log(2.0))


@dataclass(frozen=True, slots=True)
class LadderTree:
    """The weighted tree of the Ladder: half the weight on a plan, half pay as you go (S3, weighted form).

    ``w = 1/2 [uniform over the planned tree] + 1/2 w'``, ``w'(1, 0) = 1/2`` and, from the second question on,
    ``w' = 1/(j(j+1)) * 1/(f(f+1)) / (C(j-2, f-1) C(L, f))``; f sums from 1, as the first question always sets a best.

    Attributes:
        queries: Planned number of questions m.
        levels: Number L of scores that can be shown.

    Examples:
        >>> tree = LadderTree(queries=1000, levels=21)
        >>> round(float(tree.log_inverse_weight(asked=1000, released=3)), 3)
        37.305
    """

    queries: int
    levels: int

    def log_inverse_weight(self, *, asked: ArrayLike, released: ArrayLike) -> NDArray[np.float64]:
        """ln(1 / w) of question number ``asked`` (from 1) after ``released`` new bests, shape (...).

        Infinite where no history is like that: more new bests than earlier questions or levels, or none at all before
        a later question.
        """
        j, f = np.broadcast_arrays(np.asarray(asked, dtype=np.float64), np.asarray(released, dtype=np.float64))
        later = (j > 1.0) & (f >= 1.0) & (f < j) & (f <= self.levels)
        possible = later | ((j == 1.0) & (f == 0.0))
        safe_j, safe_f = np.where(later, j, 2.0), np.where(later, f, 1.0)
        paths = _log_choose(safe_j - 2.0, safe_f - 1.0) + _log_choose(float(self.levels), safe_f)
        shares = np.log(safe_j * (safe_j + 1.0) * safe_f * (safe_f + 1.0))
        as_you_go = np.where(later, -shares - paths, -math.log(2.0))
        size = log_ladder_size(queries=self.queries, levels=self.levels)
        planned = np.where(j <= self.queries, -size, -np.inf)
        return np.where(possible, math.log(2.0) - np.logaddexp(planned, as_you_go), np.inf)
