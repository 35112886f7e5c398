"""Promises without noise: answers that can be described in few words cannot overfit (S3).

All queries that can ever be asked form a tree. A node is the query number j together with the history of the answers
before it: which f of them were surprises, and what each of these told (its label). Any weights ``w(node)`` fixed in
advance with ``sum w <= 1`` give each asked query the level ``beta * w(node)`` (S8).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_OF_FAILING_ROWS = 0.01  # of what the weights of a tree leave


def log_ladder_size(*, queries: int, levels: int) -> float:
    """Return ln N of the tree of a ladder with ``queries`` queries and ``levels`` scores it can show (S3).

    Answers never rise, so a history is a non-increasing sequence of levels: before query j there are
    ``C(j-2, f-1) C(L, f)`` with f new bests, as the first query always sets one. Summed over f and j <= m they are
    ``C(m-1+L, L)``, at most the ``m sum_b C(m, b) C(L, b)`` of the cruder count.

    Examples:
        >>> round(math.exp(log_ladder_size(queries=3, levels=2)))  # (), (0), (1), (0, 0), (1, 0), (1, 1)
        6
    """
    return float(log_choose(queries - 1.0 + levels, float(levels)))


def log_choose(total: ArrayLike, chosen: ArrayLike) -> NDArray[np.float64]:
    """Return ln C(total, chosen), which is minus infinity where chosen > total."""
    n, k = np.asarray(total, dtype=np.float64), np.asarray(chosen, dtype=np.float64)
    possible = k <= n
    rest = np.where(possible, n - k, 0.0)
    gammaln = scipy.special.gammaln
    return np.where(possible, gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(rest + 1.0), -np.inf)


@dataclass(frozen=True, slots=True)
class QueryTree:
    """The weighted tree of guess-and-check's queries: a surprise is paid for when it happens (S8).

    Before query j with f surprises among the j - 1 earlier ones, and with labels of prior probability ``pi``,

        ``w = s q_f pi / C(m, f+1)  [j <= m]  +  (1 - s) q_f pi / (j (j+1) C(j-1, f))``,  ``q_f = 1 / ((f+1) (f+2))``.

    There are ``C(m, f+1)`` ways to place f surprises and the query itself among m. The probabilities of labels sum to
    at most 1. So the weights of the planned part sum to at most ``s m / (m+1)``, and those of the rest to less than ``1
    - s``.

    Attributes:
        queries: Planned number of queries m.
        planned: Share s of the weight that lies on the plan, in (0, 1).

    Examples:
        >>> tree = QueryTree(queries=1000)
        >>> round(float(tree.log_inverse_weight(asked=1000, surprises=0)), 3)
        7.706
    """

    queries: int
    planned: float = 0.9

    @property
    def left_over(self) -> float:
        """Weight that no query has: ``s / (m+1) + (1-s) (2 - pi^2 / 6)``, at least 0.035.

        The weights of the planned part sum to ``s m / (m+1)``, and those of the rest to ``(1-s) sum_f q_f / (f+1)``.

        Examples:
            >>> round(QueryTree(queries=1000).left_over, 4)
            0.0364
        """
        return self.planned / (self.queries + 1.0) + (1.0 - self.planned) * (2.0 - math.pi**2 / 6.0)

    @property
    def failing_rows(self) -> float:
        """Level of the statement on a query's share of failing rows, divided by the query's own level (S16).

        All these statements together have a hundredth of `left_over`.

        Examples:
            >>> round(QueryTree(queries=1000).failing_rows, 6)
            0.000378
        """
        return _OF_FAILING_ROWS * self.left_over / (1.0 - self.left_over)

    @property
    def of_texts(self) -> float:
        """Part of the failure probability that all text expressions share (S10): the rest of `left_over`."""
        return (1.0 - _OF_FAILING_ROWS) * self.left_over

    def log_inverse_weight(
        self, *, asked: ArrayLike, surprises: ArrayLike, labels: ArrayLike = 0.0
    ) -> NDArray[np.float64]:
        """Return ln(1 / w) of query number ``asked`` (from 1), shape (...).

        Args:
            asked: Number j of the query.
            surprises: Number f of surprises before it. The result is infinite if f is larger than the number of earlier
                queries.
            labels: ``ln(1 / pi)``: what the labels of all earlier surprises cost, in nats.
        """
        j, f = np.asarray(asked, dtype=np.float64), np.asarray(surprises, dtype=np.float64)
        possible = f < j
        on_plan = np.where(
            possible & (j <= self.queries), math.log(self.planned) - log_choose(float(self.queries), f + 1.0), -np.inf
        )
        beyond = np.where(
            possible,
            math.log1p(-self.planned) - np.log(j * (j + 1.0)) - log_choose(j - 1.0, np.minimum(f, j - 1.0)),
            -np.inf,
        )
        return np.asarray(np.log((f + 1.0) * (f + 2.0)) + labels - np.logaddexp(on_plan, beyond))


# The largest of many values needs one level, however many there are (Lemma M), and the levels of choices that use it.
#
# All levels are given as nats of a two-sided procedure: at ``nats`` each of its ends has the level ``exp(-nats) / 2``.


@dataclass(frozen=True, slots=True)
class ChoiceLevels:
    """Levels of the events of one choice, in nats of a two-sided procedure (corollary M1).

    Attributes:
        lower: Nats of the lower end of each candidate: a union over all, because any of them may be chosen.
        upper: Nats of every upper end; the largest of them is one event (Lemma M).
        paired: Level of the upper end of each difference "another candidate minus this one", one event for each
            candidate; nan where pairs are not compared.

    Examples:
        >>> levels = ChoiceLevels.of(10.7, candidates=50)
        >>> round(levels.lower - 10.7, 3), levels.upper - 10.7
        (3.912, 0.0)
    """

    lower: float
    upper: float
    paired: float

    @classmethod
    def of(cls, nats: float, *, candidates: int, paired: bool = False) -> ChoiceLevels:
        """Split the level ``exp(-nats)`` of one choice equally between its two or three events.

        Args:
            nats: ln(1 / level) of the choice.
            candidates: K, the number of candidates.
            paired: True if the chosen ones are compared with all others in pairs.
        """
        apart = math.log(1.5) if paired else 0.0  # ends have half of what a procedure is given
        each = nats + math.log(candidates) + apart
        return cls(each, nats + apart, each if paired else math.nan)


def largest_upper(uppers: ArrayLike) -> float:
    """Return the upper limit of the largest of fixed values, at the level of one of their limits (Lemma M).

    The largest value belongs to one fixed index. If it exceeds the largest limit, it exceeds the limit of that index,
    which has the level of one limit. So only this largest limit may be told, and no other.

    Args:
        uppers: Upper limits of the values, shape (values,), each at the same level on one side.

    Source: docs/theory/families.md, Lemma M.
    """
    return float(np.max(np.asarray(uppers, dtype=np.float64)))


# Distance of the average of one fixed query from its population value (P9, S5).
#
# All bounds take ``log_inverse_level = ln(1 / level)``: description lengths make levels far too small for a float.

_BISECTIONS = 60  # each halves the bracket; 2^-60 is below one step of the grid


def hoeffding_radius(*, rows: float, log_inverse_level: ArrayLike) -> NDArray[np.float64]:
    """Return the two-sided Hoeffding half-width ``sqrt(ln(2 / level) / (2 n))`` (P9, S5).

    Args:
        rows: Effective number of independent rows n.
        log_inverse_level: ln(1 / level), shape (...).

    Returns:
        The half-width for a query with values in [0, 1], shape (...).

    Examples:
        >>> round(float(hoeffding_radius(rows=20_000, log_inverse_level=math.log(1 / 0.05))), 6)
        0.009603
    """
    if rows <= 0:
        raise ValueError(f"rows is {rows}. Pass a positive number of effective rows.")
    return np.sqrt((math.log(2.0) + np.asarray(log_inverse_level, dtype=np.float64)) / (2.0 * rows))


def binomial_interval(
    low_mean: ArrayLike, high_mean: ArrayLike, *, rows: float, log_inverse_level: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the population values that a sealed mean in ``[low_mean, high_mean]`` does not exclude (S3).

    A value q is excluded when ``n kl(mean || q) > ln(2 / level)`` for every mean in the range. Valid for the average of
    independent rows with values in [0, 1], identically distributed or not (Hoeffding 1963, Theorem 1). Never wider than
    the Hoeffding interval, and far narrower near 0 and 1. The ends are rounded outwards.

    Args:
        low_mean: Least possible sealed mean, shape (...); clipped to [0, 1].
        high_mean: Greatest possible sealed mean, shape (...); clipped to [0, 1].
        rows: Number of independent rows n.
        log_inverse_level: ln(1 / level), shape (...).

    Returns:
        Lower and upper ends, each of shape (...).

    Examples:
        >>> low, high = binomial_interval(0.0, 0.0, rows=1000, log_inverse_level=math.log(1 / 0.05))
        >>> float(low), round(float(high), 5)
        (0.0, 0.00368)
    """
    budget = (math.log(2.0) + np.asarray(log_inverse_level, dtype=np.float64)) / rows
    low = np.clip(np.asarray(low_mean, dtype=np.float64), 0.0, 1.0)
    high = np.clip(np.asarray(high_mean, dtype=np.float64), 0.0, 1.0)
    return 1.0 - _upper_end(1.0 - low, budget), _upper_end(high, budget)


def _upper_end(mean: NDArray[np.float64], budget: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the greatest q >= mean with kl(mean || q) <= budget, rounded up."""
    mean, budget = np.broadcast_arrays(mean, budget)
    inside, outside = mean.copy(), np.minimum(mean + np.sqrt(budget / 2.0), 1.0)  # Pinsker: the end is below
    for _ in range(_BISECTIONS):
        middle = (inside + outside) / 2.0
        within = bernoulli_divergence(mean, middle) <= budget
        inside = np.where(within, middle, inside)
        outside = np.where(within, outside, middle)
    return outside


def bernoulli_divergence(mean: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return kl(mean || other) between two Bernoulli laws."""
    return np.asarray(scipy.special.rel_entr(mean, other) + scipy.special.rel_entr(1.0 - mean, 1.0 - other))
