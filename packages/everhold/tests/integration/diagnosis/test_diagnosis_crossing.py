"""What units that share a value have in common: exact cumulants, and p-values that hold and find."""

from itertools import product

import numpy as np
import pytest

from everhold.diagnosis.columns import Crossing, _nested_traces, along


def products(values, codes, units):
    """The sum of all products of rows of different units with the same value."""
    same = (codes[:, None] == codes) & (units[:, None] != units)
    return float(np.sum(np.outer(values, values) * same))


@pytest.mark.parametrize("crossed", [False, True])
def test_the_cumulants_are_those_of_all_signs(crossed):
    rng = np.random.default_rng(0)
    units = np.repeat(np.arange(8), 3)
    codes = rng.integers(0, 3, 24) if crossed else units // 3
    values = rng.normal(size=24)
    seen = np.array([products(values * np.array(signs)[units], codes, units) for signs in product((-1, 1), repeat=8)])
    crossing = Crossing(codes, units)
    cells = crossing._cells
    sums = np.bincount(cells.of_row, weights=values[cells.rows])
    square, cube = crossing._crossed_traces(sums) if crossed else _nested_traces(sums, cells.codes)
    assert crossing._nested is not crossed
    assert np.mean(seen) == pytest.approx(0.0, abs=1e-9)
    assert 2.0 * square == pytest.approx(np.mean(seen**2))
    assert 8.0 * cube == pytest.approx(np.mean(seen**3))


def test_both_ways_to_multiply_say_the_same():
    rng = np.random.default_rng(1)
    units, codes = rng.integers(0, 30, 400), rng.integers(0, 90, 400)
    sums = rng.normal(size=len(Crossing(codes, units)._cells.units))
    by_unit = Crossing(codes, units)._crossed_traces(sums)
    few = rng.integers(0, 6, 400)
    other = Crossing(few, units)
    own = rng.normal(size=len(other._cells.units))
    dense = np.zeros((31, 91))
    np.add.at(dense, (Crossing(codes, units)._cells.units, Crossing(codes, units)._cells.codes), sums)
    for found, made in ((by_unit, dense), (other._crossed_traces(own), _dense(other, own))):
        matrix = made @ made.T
        np.fill_diagonal(matrix, 0.0)
        assert found[0] == pytest.approx(np.trace(matrix @ matrix))
        assert found[1] == pytest.approx(np.trace(matrix @ matrix @ matrix))


def _dense(crossing, sums):
    made = np.zeros((crossing._cells.units.max() + 1, crossing._cells.codes.max() + 1))
    np.add.at(made, (crossing._cells.units, crossing._cells.codes), sums)
    return made


SINGLES = np.concatenate([np.arange(1_900), 1_900 + np.repeat(np.arange(5), 40)])
CLASSES = np.arange(4_000) // 10
VISITS = np.random.default_rng(5).integers(0, 400, 4_000)
INDEPENDENT = {
    "five large among singles": (SINGLES, None, lambda g: g.integers(0, 2, 2_100)),
    "five large among singles, a rare outcome": (SINGLES, None, lambda g: g.random(2_100) < 0.012),
    "zips, a rare outcome": (VISITS, None, lambda g: g.random(4_000) < 0.01),
    "eight large groups": (np.arange(4_000) % 8, None, lambda g: g.normal(size=4_000)),
    "classes in schools": (CLASSES // 16, CLASSES, lambda g: g.random(4_000) < g.beta(1, 1, 400)[CLASSES]),
    "doctors of patients": (VISITS, CLASSES, lambda g: g.random(4_000) < g.beta(1, 1, 400)[CLASSES]),
    "every item of every user": (
        np.arange(4_000) % 50, np.arange(4_000) // 50,
        lambda g: g.random(4_000) < g.beta(1, 1, 80)[np.arange(4_000) // 50],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INDEPENDENT)
def test_independent_units_have_little_in_common(name):
    codes, units, draw = INDEPENDENT[name]
    rng, crossing = np.random.default_rng(2), Crossing(codes, units)
    p_values = np.array([crossing.shared(each - each.mean()).p_value for each in (draw(rng) * 1.0 for _ in range(300))])
    for level in (0.2, 0.05, 0.01):
        assert np.mean(p_values < level) <= level + 4.0 * np.sqrt(level / 300)


SHARED = {
    "classes in schools": CLASSES // 16,
    "doctors of patients": VISITS,
    "every item of every user": np.arange(4_000) % 50,
}


def drawn(name, rng):
    if name not in SHARED:
        return (rng.random(2_100) < rng.beta(0.5, 0.5, 1_905)[SINGLES]) * 1.0
    _, units, _ = INDEPENDENT[name]
    return rng.normal(size=4_000) + rng.normal(size=400)[units] + rng.normal(size=400)[SHARED[name]]


@pytest.mark.parametrize("name", ["five large among singles", *SHARED])
def test_what_units_share_is_found(name):
    codes, units, _ = INDEPENDENT[name]
    rng, crossing = np.random.default_rng(3), Crossing(codes, units)
    found = [crossing.shared(each - each.mean()) for each in (drawn(name, rng) for _ in range(20))]
    assert sum(each.p_value < 1e-4 and each.ratio > 1.3 for each in found) >= 16


def test_units_in_an_order_are_compared_with_those_near_them():
    rng = np.random.default_rng(4)
    noise = rng.normal(size=300)
    slow = noise + np.repeat(rng.normal(size=15), 20)
    assert along(noise - noise.mean()).p_value > 1e-3
    assert along(slow - slow.mean()).p_value < 1e-6
    assert along(np.zeros(300)).p_value == 1.0
    assert along(np.array([1.0, -1.0])).p_value == 1.0


def test_values_of_one_unit_alone_are_not_crossed():
    assert not Crossing(np.arange(10)).crossed
    assert not Crossing(np.arange(10) // 2, np.arange(10) // 2).crossed
