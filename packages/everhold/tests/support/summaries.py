"""What procedures read, made from plain arrays."""

import numpy as np

from everhold.guarantees.intervals.base import CELLS, Cells, GroupSums, Pairs

UNIT = 2**30


def grid(values, unit=UNIT):
    return np.floor(np.asarray(values, dtype=np.float64) * unit).astype(np.int64)


def cells(values, unit=UNIT):
    steps = grid(values, unit)
    index = np.minimum(steps * CELLS // unit, CELLS - 1)
    sums = np.zeros(CELLS, dtype=np.int64)
    np.add.at(sums, index, steps)
    return Cells(np.bincount(index, minlength=CELLS), sums, unit)


def kinds(*columns):
    rows, counts = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
    return *rows.T, counts


def groups(sizes, sums, unit=UNIT):
    return GroupSums(*kinds(np.asarray(sizes), grid(sums, unit)), unit)


def pairs(numerators, denominators, sizes=None, unit=UNIT):
    sizes = np.ones(len(numerators), dtype=np.int64) if sizes is None else np.asarray(sizes)
    return Pairs(*kinds(sizes, grid(numerators, unit), grid(denominators, unit)), unit)


def public_sizes(sizes):
    return tuple(zip(*(part.tolist() for part in np.unique(sizes, return_counts=True)), strict=True))


def delays(number, rng):
    """Like minutes of delay, clipped to [-60, 180] and scaled to [0, 1]."""
    early, late = rng.normal(-8.0, 12.0, number), rng.exponential(45.0, number)
    return (np.clip(np.where(rng.random(number) < 0.75, early, late), -60.0, 180.0) + 60.0) / 240.0
