"""Bounds of scores over boxes of their parts, beside a dense search of the box; free ratios beside enumerated laws."""

import itertools
import math
from functools import partial

import numpy as np
import pytest

from everhold.guarantees.intervals import boxes as composites
from everhold.guarantees.intervals.parts import Composite, FreeRatio, SeenParts, free_ratio_end, units_of


def points(low, high, steps=7):
    """All points of a grid in the box, corners included."""
    axes = [np.linspace(a, b, steps) for a, b in zip(low, high, strict=True)]
    return np.array([*itertools.product(*axes)])


def box(rng, parts):
    low, high = np.sort(rng.random((2, parts)), axis=0)
    return low, high


BOUNDS = {
    "average": (3, composites.average),
    "correlation": (3, composites.correlation_of_classes),
    "explained": (3, partial(composites.explained, centre=0.4)),
    "root": (1, composites.root),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_no_point_of_a_box_is_outside_its_bounds_and_some_reach_them(name):
    parts, bounds = BOUNDS[name]
    rng, reached = np.random.default_rng(0), 0
    for _ in range(60):
        low, high = box(rng, parts)
        least, most = bounds(low, high)
        found = np.array([bounds(point, point)[0] for point in points(low, high, 9 if parts == 1 else 6)])
        assert least - 1e-12 <= found.min()
        assert found.max() <= most + 1e-12
        reached += int(found.min() < least + 0.02) + int(found.max() > most - 0.02)
    assert reached > 90


def test_the_correlation_is_that_of_two_columns():
    actual, predicted = np.array([1, 1, 1, 0, 0, 0, 0, 0]), np.array([1, 1, 0, 1, 0, 0, 0, 0])
    at = np.array([3 / 8, 2 / 3, 1 / 5])
    assert composites.correlation_of_classes(at, at)[0] == pytest.approx(np.corrcoef(actual, predicted)[0, 1])


@pytest.mark.parametrize(
    ("low", "high"), [((0.9, 0.8, 0.03), (1.0, 1.0, 0.1)), ((0.0, 0.1, 0.0), (0.8, 0.4, 0.3)), ((0, 0, 0), (1, 1, 1))]
)
def test_the_correlation_of_a_class_that_nearly_never_occurs_is_inside(low, high):
    least, most = composites.correlation_of_classes(np.array(low), np.array(high))
    shares = np.clip([1e-12, 1e-6, 0.01, 0.4, 0.99, 1.0 - 1e-6, 1.0 - 1e-12], low[0] + 1e-12, high[0] - 1e-12)
    ends = ([low[place], high[place]] for place in (1, 2))
    for point in itertools.product(shares, *ends):
        at = np.array(point)
        assert least - 1e-9 <= composites.correlation_of_classes(at, at)[0] <= most + 1e-9
    never = np.array([0.0, 0.5, 0.0])
    assert composites.correlation_of_classes(never, never) == (0.0, 0.0)


def test_weighted_averages_use_weights_that_add_up_to_one():
    rng = np.random.default_rng(1)
    for _ in range(40):
        scores, weights = rng.random(3), rng.dirichlet(np.ones(3))
        room = rng.random(3) * 0.2
        low = np.concatenate([scores - room, weights - room])
        high = np.concatenate([scores + room, weights + room])
        least, most = composites.weighted_average(low, high)
        for other in rng.dirichlet(np.ones(3), 400):
            if np.all(np.abs(other - weights) <= room):
                assert least - 1e-12 <= other @ (scores - room)
                assert other @ (scores + room) <= most + 1e-12
        assert least <= weights @ scores <= most


def test_impossible_weights_leave_the_whole_range_of_the_scores():
    low = np.array([0.2, 0.6, 0.1, 0.1])
    assert composites.weighted_average(low, np.array([0.3, 0.7, 0.2, 0.2])) == (0.0, 0.7)


def test_free_ratios_miss_at_most_with_their_level_for_every_law_on_three_atoms():
    """All samples of 5 unlike rows: atoms (U, V), half of the rows of one law and half of another one."""
    atoms = [(0.0, 1.0), (1.0, 0.2), (0.4, 0.0)]
    rng, level = np.random.default_rng(0), 0.4
    counts = [c for c in itertools.product(range(6), repeat=3) if sum(c) == 5]
    ends = {}
    for count in counts:
        rows = np.repeat(np.array(atoms), count, axis=0)
        units = units_of(rows[:, 0], rows[:, 1])
        ends[count] = FreeRatio(units, 1.0).interval(units, -math.log(level))
    for _ in range(30):
        laws = rng.dirichlet(np.full(3, 0.4), size=2)
        means = (2 * laws[0] + 3 * laws[1]) @ np.array(atoms)
        if means[1] <= 1e-9:
            continue
        missed = 0.0
        for kinds in itertools.product(range(3), repeat=5):
            chance = math.prod(laws[0 if place < 2 else 1][kind] for place, kind in enumerate(kinds))
            low, high = ends[tuple(kinds.count(kind) for kind in range(3))]
            missed += chance * (not low <= means[0] / means[1] <= high)
        assert missed <= level


def test_a_free_ratio_without_denominators_has_no_upper_end():
    units = units_of(np.array([0.5, 0.2]), np.array([0.0, 0.0]))
    assert math.isinf(free_ratio_end(units, 3.0))
    low, high = FreeRatio(units, 1.0).interval(units, 3.0)
    assert 0.0 < low < 0.1
    assert math.isinf(high)


def test_shares_of_the_level_add_up_to_one_at_most():
    with pytest.raises(ValueError, match="which sum to at most 1"):
        Composite((FreeRatio(units_of(np.ones(1), np.ones(1)), 1.0),), (1.2,), composites.itself, SeenParts(1.0, ()), 1)


@pytest.mark.parametrize("rows", [900, 20_000], ids=["told apart", "lotteries"])
def test_kinds_that_were_counted_are_units_like_their_rows(rows):
    values = np.random.default_rng(3).integers(0, 700, rows) / 700
    expected = units_of(values, np.ones_like(values))
    kinds, counts = np.unique(values, return_counts=True)
    outside = np.zeros(1)  # rows that do not count
    found = units_of(np.r_[outside, kinds], np.r_[outside, np.ones_like(kinds)], counts=np.r_[7, counts])
    for name in ("sizes", "values", "counts"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9)
