"""Labels of surprises: priors sum to at most 1, what is told contains what was sealed, and none costs much."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold.mechanisms.labels import CHEAPEST, DEAREST, WIDENING, ArcsineCells, Offsets

HALVES = [2.0**-12, 0.003, 0.02, 0.3]


def told(labels, low, high):
    """What is told, as something that can be counted, and its prior probability as it is paid for."""
    value, interval, cost = labels.released(low, high)
    return (round(value, 9), *np.round(interval, 9).tolist()), math.exp(-cost / 1e6)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("guess", [0.0, 0.37, 1.0])
def test_the_prior_of_all_labels_that_there_are_sums_to_at_most_one(guess, half):
    labels = Offsets(guess, half)
    middles = np.concatenate([np.linspace(0.0, 1.0, 2_001), guess + half * np.arange(-9, 10)])
    widths = half * np.array([0.2, 0.9, 1.4, 2.0, 3.0, 4.5, 7.0, 20.0])
    shares = dict(told(labels, middle - width, middle + width) for middle in middles for width in widths)
    assert len(shares) > 20
    assert sum(shares.values()) <= 1.0


@given(
    guess=st.floats(0, 1), half=st.sampled_from(HALVES), low=st.floats(0, 1), length=st.floats(0, 1), near=st.booleans()
)
def test_what_is_told_contains_what_was_sealed_at_a_price_within_bounds(guess, half, low, length, near):
    if near:  # as wide as expected and not far from the guess
        low, length = guess + (low - 0.5) * 20 * half, 2.2 * half * length
    low, high = min(max(low, 0.0), 1.0), min(max(low, 0.0) + length, 1.0)
    value, interval, cost = Offsets(guess, half).released(low, high)
    assert interval[0] <= low <= high <= interval[1]
    assert interval[0] - 1e-12 <= value <= interval[1] + 1e-12
    assert CHEAPEST * 1e6 <= cost <= DEAREST * 1e6


@pytest.mark.parametrize("half", HALVES)
def test_a_sealed_interval_as_expected_is_told_at_the_usual_width(half):
    _, interval, _ = Offsets(0.2, half).released(0.2 + 0.3 * half, 0.2 + 2.3 * half)
    assert (interval[1] - interval[0]) / 2 <= 1.16 * half * (1 + 1e-9)


@given(guess=st.floats(0, 1), half=st.sampled_from(HALVES), low=st.floats(0, 0.9), length=st.floats(1 / 512, 1))
def test_what_is_told_is_never_much_wider_than_what_was_sealed_whatever_was_expected(guess, half, low, length):
    high = min(low + length, 1.0)
    _, (least, most), _ = Offsets(guess, half).released(low, high)
    assert most - least <= WIDENING * (high - low) * (1 + 1e-9)


def test_a_sealed_interval_far_from_every_expectation_is_not_told_as_the_whole_range():
    """Labels of earlier versions gave up here."""
    _, interval, _ = Offsets(0.19, 0.0007).released(0.24, 0.30)
    assert interval[0] > 0.22
    assert interval[1] < 0.32


def test_without_a_prior_that_sums_to_one_labels_are_caught():
    """The planted error: every label at the price of the cheapest one."""
    labels = Offsets(0.37, 0.02)
    middles, widths = np.linspace(0.0, 1.0, 401), 0.02 * np.array([0.3, 0.7, 1.0, 1.5, 3.0, 9.0])
    paid = dict(told(labels, middle - width, middle + width) for middle in middles for width in widths)
    assert sum(paid.values()) <= 1.0 < len(paid) * max(paid.values())


@given(grid=st.integers(1, 300), total=st.integers(0, 10_000))
def test_cells_contain_their_sums_and_cost_as_much_as_there_are(grid, total):
    cells = ArcsineCells(grid, 10_000)
    low, high = cells.released(total)
    assert low <= total / 10_000 <= high <= 1.0
    assert cells.cost == math.ceil(1e6 * math.log(grid))
    assert len({cells.released(each) for each in range(0, 10_001, 7)}) <= grid
