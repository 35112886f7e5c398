"""Influences that no answer of the product needs: given other rows, on the Markov blanket, and of chains.

They are exact, from the same parts of a network; docs/theory/quilts has the definitions and proofs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from everhold.errors import DependenceError
from everhold_privacy.networks.factors import log_of, log_sum
from everhold_privacy.networks.forest import forest_law, is_forest_model
from everhold_privacy.networks.quilts import exact_pairs, influence_bound, screened_parts
from everhold_privacy.networks.ratios import largest_ratios, rounded_outward, worst_sum

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import ArrayLike, NDArray

    from everhold_privacy.networks.factors import FactorModel

    Logs = NDArray[np.float64]

__all__ = [
    "blanket_influence", "blanket_influences", "chain_influence", "chain_nearby", "chain_quilt_influences",
    "max_influence",
]  # fmt: skip


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
        >>> from everhold_privacy.networks.factors import Factor, FactorModel
        >>> copy = Factor((0, 1), [[0.9, 0.1], [0.1, 0.9]])
        >>> round(math.exp(max_influence(FactorModel((2, 2), (copy,)), [1], 0)), 6)
        9.0
    """
    parts = list(screened_parts(model, row, targets, given))
    if not any(part.targets for part in parts):
        return 0.0
    return worst_sum([exact_pairs(model, row, part) for part in parts])


def blanket_influence(model: FactorModel, row: int) -> float:
    """``a_i``, the influence of a row on its Markov blanket, and so on all other rows; see `influence_bound`."""
    return influence_bound(model, model.graph.neighbours(row), row).value


def blanket_influences(model: FactorModel) -> NDArray[np.float64]:
    """``a_i`` of all rows; shape (nodes,). Forests take one step for all rows together."""
    if not is_forest_model(model):
        return np.array([blanket_influence(model, row) for row in range(model.nodes)])
    law = forest_law(model)
    size = law.marginals.shape[1]
    below = np.flatnonzero(law.parent >= 0)
    total = np.zeros((model.nodes, size, size))
    np.add.at(total, below, largest_ratios(law.up[below]))
    np.add.at(total, law.parent[below], largest_ratios(law.down[below]))
    possible = law.marginals > -math.inf
    total[~(possible[:, :, None] & possible[:, None, :])] = 0.0
    alone = np.bincount(model.graph.edges.ravel(), minlength=model.nodes) == 0
    return np.where(alone, 0.0, rounded_outward(total.max(axis=(1, 2))))


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
        past.append(_log_product(past[-1][None], kernel)[0])
    here = past[-1]
    size = len(law)
    back, forth = np.zeros((left + 1, size, size)), np.zeros((right + 1, size, size))
    power = kernel
    for step in range(1, max(left, right) + 1):
        if step <= left:
            with np.errstate(invalid="ignore"):
                joint = np.where(here > -math.inf, past[left - step][:, None] + power - here, -math.inf)
            back[step] = largest_ratios(joint.T[None])[0]
        if step <= right:
            forth[step] = largest_ratios(power[None])[0]
        power = _log_product(power, kernel) if step < max(left, right) else power
    possible = here > -math.inf
    back, forth = (pairs[:, possible][:, :, possible] for pairs in (back, forth))
    worst = np.array([(pairs + forth).max(axis=(1, 2)) for pairs in back])
    found = rounded_outward(worst)
    found[0, 0] = 0.0
    return found


def _law_after(law: Logs, kernel: Logs, steps: int) -> Logs:
    """The law of a chain so many steps later, by squaring; in logarithms, so that nothing becomes impossible."""
    power = kernel
    while steps:
        if steps % 2:
            law = _log_product(law[None], power)[0]
        steps //= 2
        power = _log_product(power, power) if steps else power
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
    if row in quilt:
        raise DependenceError(f"row {row} is in its own quilt; expected other rows only", row=row)
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


def _log_product(left: Logs, right: Logs) -> Logs:
    """Matrix product of two matrices that are given and returned as logarithms; shapes (..., k, l) and (..., l, m)."""
    return log_sum(left[..., :, :, None] + right[..., None, :, :], axis=-2)
