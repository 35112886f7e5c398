"""Largest ratios of conditional laws, in logarithms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from everhold_privacy.networks.factors import log_sum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Logs = NDArray[np.float64]

_ROUNDING = 1e-10  # relative and absolute; a thousand steps along a path are off by about 1e-13


def over_subsets(logs: Logs, first: int) -> Logs:
    """Every subset of the axes from 2 on is kept once; the others are summed over, from the axis ``first`` on."""
    worst = pairs_of_contexts(logs.reshape(*logs.shape[:2], -1))
    for axis in range(first, logs.ndim):
        worst = np.maximum(worst, over_subsets(log_sum(logs, axis=axis), axis))
    return worst


def pairs_of_contexts(logs: Logs) -> Logs:
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


def largest_ratios(kernels: Logs) -> Logs:
    """Largest ln of ratios of every two rows of each table, 0 for impossible rows; shape (tables, rows, rows)."""
    possible = np.asarray((kernels > -math.inf).any(axis=2))
    worst = np.zeros((kernels.shape[0], kernels.shape[1], kernels.shape[1]))
    for other in range(kernels.shape[1]):
        with np.errstate(invalid="ignore"):
            ratio = np.where(kernels > -math.inf, kernels - kernels[:, other, None, :], -math.inf)
        worst[:, :, other] = np.where(possible & possible[:, other, None], ratio.max(axis=2), 0.0)
    return worst


def worst_sum(matrices: Sequence[Logs]) -> float:
    """The largest sum over the parts; two states count only if every part has a context for both."""
    if not matrices:
        return 0.0
    both = (np.array(matrices) > -math.inf).all(axis=0)
    total = np.where(both, np.array(matrices), 0.0).sum(axis=0)
    return float(rounded_outward(total.max()))


def rounded_outward(value: Logs) -> Logs:
    """Rounded upwards by more than all rounding errors together."""
    return np.maximum(value, 0.0) * (1.0 + _ROUNDING) + _ROUNDING


def projective(logs: Logs) -> Logs:
    """Projective distances of the rows of a table, without columns where both are zero; 0 for impossible rows."""
    forth = largest_ratios(logs[None])[0]
    return np.asarray(forth + forth.T)
