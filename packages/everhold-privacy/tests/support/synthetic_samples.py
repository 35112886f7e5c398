"""Small universes, families and histograms that the tests of synthetic tables share."""

import itertools

import numpy as np

from everhold.values.universe import ListedColumn, QueryMatrix, Universe


def plain_universe(cells):
    """One column whose last value takes the rest, so that there are exactly that many cells."""
    return Universe((ListedColumn("cell", tuple(range(cells)), rest=cells - 1),))


def all_histograms(rows, cells):
    """Every histogram of that many rows."""
    for members in itertools.combinations_with_replacement(range(cells), rows):
        yield np.bincount(members, minlength=cells)


def neighbours(histogram):
    """Every histogram with one row moved."""
    for start, end in itertools.permutations(range(len(histogram)), 2):
        if histogram[start]:
            moved = histogram.copy()
            moved[start] -= 1
            moved[end] += 1
            yield moved


def random_family(queries, cells, seed=0, *, binary=False):
    values = np.random.default_rng(seed).random((queries, cells))
    return QueryMatrix(values < 0.5) if binary else QueryMatrix(values)


def matrix_of(family):
    return np.array([family.vector(index) for index in range(len(family))])
