"""Histograms, sums of groups and pairs are the integers that plain Python counts, whatever the grid."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold.guarantees.intervals.betting import RatioBetting
from everhold.sealing.rows.sums import COUNTED_ACROSS, cells_of, exact_sums, group_sums_of, pairs_of, row_pairs_of

UNITS = [1, 3, 100, 256, 1000, 2**30, 3 * 2**40, 2**54 + 1, 2**56]


@given(st.sampled_from(UNITS).flatmap(lambda unit: st.tuples(st.just(unit), st.lists(st.integers(0, unit)))))
def test_a_cell_is_the_256th_part_of_the_scale_and_1_is_in_the_last(drawn):
    unit, values = drawn
    cells = cells_of(np.array(values, dtype=np.int64), unit=unit)
    counts, sums = [0] * 256, [0] * 256
    for value in values:
        cell = min(value * 256 // unit, 255)
        counts[cell] += 1
        sums[cell] += value
    assert (cells.counts.tolist(), cells.sums.tolist(), cells.unit) == (counts, sums, unit)


def test_sums_that_no_double_holds_are_exact():
    unit, rows = 2**40, 2**15
    values = np.full(rows, unit - 1)
    assert exact_sums(values, np.zeros(rows, dtype=np.int64), 2, unit=unit).tolist() == [rows * (unit - 1), 0]
    assert float(rows * (unit - 1)) == rows * (unit - 1)
    values[0] = 0  # an odd number of odd numbers, beyond 2^53
    assert exact_sums(values, np.zeros(rows, dtype=np.int64), 1, unit=unit).tolist() == [(rows - 1) * (unit - 1)]


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4))))
def test_groups_are_counted_in_order(groups):
    sizes, sums = (np.array(column, dtype=np.int64) for column in (zip(*groups, strict=True) if groups else ((), ())))
    found = group_sums_of(sizes, sums, unit=4)
    counted = sorted(Counter(groups).items())
    listed = zip(zip(found.sizes.tolist(), found.sums.tolist(), strict=True), found.counts.tolist(), strict=True)
    assert list(listed) == counted


@pytest.mark.parametrize("unit", [4, 2**40])
@given(rows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4))))
def test_pairs_are_counted_in_the_order_of_denominator_and_numerator(unit, rows):
    numerators, denominators = (
        np.array(column, dtype=np.int64) for column in (zip(*rows, strict=True) if rows else ((), ()))
    )
    counted = sorted(Counter((v, u) for u, v in rows).items())
    for found in (
        row_pairs_of(numerators, denominators, unit=unit),
        pairs_of(np.ones(len(rows), dtype=np.int64), numerators, denominators, unit=unit),
    ):
        kinds = zip(found.denominators.tolist(), found.numerators.tolist(), strict=True)
        assert list(zip(kinds, found.counts.tolist(), strict=True)) == counted
        assert set(found.sizes.tolist()) <= {1}


@pytest.mark.parametrize("counting", [0.0, 0.01, 0.5, 1.0])
def test_rows_that_count_are_shown_in_cells_and_the_interval_is_hardly_wider(counting):
    unit, rows, rng = 2**30, 5_000, np.random.default_rng(7)
    counts = rng.random(rows) < counting
    numerators = np.where(counts, rng.beta(2.0, 60.0, rows) * unit, 0).astype(np.int64)
    exact = row_pairs_of(numerators, counts * unit, unit=unit)
    found = row_pairs_of(numerators, counts * unit, unit=unit, across=COUNTED_ACROSS)
    assert len(found.counts) <= COUNTED_ACROSS + 2
    for one, other in [(found.numerators, exact.numerators), (found.denominators, exact.denominators), (1, 1)]:
        assert np.sum(one * found.counts) == pytest.approx(float(np.sum(other * exact.counts)), rel=1e-12)
    bets = RatioBetting(rows, exact)
    (low, high), (least, most) = bets.interval(found, 8.0), bets.interval(exact, 8.0)
    assert low <= least + 1e-9
    assert most - 1e-9 <= high
    assert high - low <= 1.01 * (most - least)
