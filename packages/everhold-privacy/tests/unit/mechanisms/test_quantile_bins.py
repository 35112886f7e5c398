"""The bin of a quantile: its losses, how much one row moves them, and S1 by exact laws."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everhold_privacy.mechanisms.selection import ExponentialMechanism, QuantileBins

UNIT = 8


def four_bins(quantile, rows):
    return QuantileBins(quantile=quantile, low=0.0, high=4.0, bins=4, rows=rows, unit=UNIT)


def below(search, column):
    """Rows below each inner edge in grid units; nan lies below none."""
    return np.array([UNIT * sum(x < edge for x in column) for edge in search.edges[1:-1]])


def loss_by_definition(column, q, low, high, *, last):
    """In rows: how far q n lies from the numbers of values below the bin's edges."""
    clipped = [min(max(x, 0.0), 4.0) for x in column]
    above = sum(x < low for x in clipped) - q * len(clipped)
    short = q * len(clipped) - (len(clipped) if last else sum(x < high for x in clipped))
    return max(above, short, 0.0)


COLUMNS = st.lists(st.floats(-1, 6).map(lambda x: round(x * 4) / 4), min_size=1, max_size=7)


@given(column=COLUMNS, q=st.sampled_from([0.0, 0.125, 0.5, 0.75, 1.0]))
def test_losses_are_those_of_the_definition_and_one_is_nought(column, q):
    search = four_bins(q, len(column))
    losses = search.losses(below(search, column))
    assert losses.tolist() == [UNIT * loss_by_definition(column, q, k, k + 1, last=k == 3) for k in range(4)]
    assert losses.min() == 0


@given(column=COLUMNS, q=st.floats(0, 1), data=st.data())
def test_one_row_moves_a_loss_by_at_most_one_row(column, q, data):
    search, other = four_bins(q, len(column)), list(column)
    other[data.draw(st.integers(0, len(column) - 1))] = data.draw(st.floats(-1, 6))
    moved = search.losses(below(search, column)) - search.losses(below(search, other))
    assert np.abs(moved).max() <= UNIT


def test_a_row_that_crosses_moves_losses_by_a_whole_row_in_both_directions():
    """So neither the sensitivity nor the factor 2 of the mechanism can be halved."""
    search = QuantileBins(quantile=0.5, low=0.0, high=8.0, bins=8, rows=40, unit=UNIT)

    def moved(values, before, after):
        losses = [search.losses(below(search, np.repeat(values, counts))) for counts in (before, after)]
        return set((losses[1] - losses[0]).tolist())

    assert moved([0.5, 1.5, 5.5, 6.5], [10, 20, 0, 10], [10, 19, 1, 10]) >= {0, -UNIT}
    assert moved([0.5, 3.5, 7.5], [19, 2, 19], [18, 2, 20]) >= {UNIT, -UNIT}


@given(seed=st.integers(0, 10**6), q=st.floats(0, 1))
@settings(max_examples=25, deadline=None)
def test_S1_covers_the_chosen_bin(seed, q):
    """In expectation, by enumeration of three rows; at the mechanism's own epsilon nothing more leaks."""
    generator = np.random.default_rng(seed)
    epsilon, masses = float(generator.uniform(0.3, 5)), generator.dirichlet(np.full(4, 0.5))
    search, selection = four_bins(q, 3), ExponentialMechanism(epsilon, sensitivity=UNIT)
    data = np.array(list(itertools.product(range(4), repeat=3)))
    prior = np.prod(masses[data], axis=1)
    law = np.array([selection.law(search.losses(below(search, row + 0.5))) for row in data])
    share_below = np.concatenate([[0.0], np.cumsum(masses)])
    error = np.maximum(np.maximum(share_below[:-1] - q, q - share_below[1:]), 0.0)
    for loss in (0.0, 0.4 * epsilon, epsilon):
        within = selection.curve().delta(loss)
        for alpha in (0.0, 0.1, 0.4):
            beyond = error - alpha - 1 / search.steps - math.tanh(loss / 4)
            exceedance = selection.exceedance(alpha, candidates=4, steps=search.steps)
            assert float(prior @ law @ np.maximum(beyond, 0.0)) <= exceedance + within + 1e-12


@pytest.mark.parametrize("bins", [0, 2.5, True])
def test_numbers_of_bins_that_are_none_are_refused(bins):
    with pytest.raises(ValueError, match="bins is"):
        QuantileBins(quantile=0.5, low=0.0, high=1.0, bins=bins, rows=5)
