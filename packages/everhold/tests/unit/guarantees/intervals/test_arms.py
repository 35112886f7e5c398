"""Bets on both arms at once: how often they miss, exactly, and whether a smaller difference is left."""

import itertools
import math

import numpy as np
import pytest

from everhold.guarantees.intervals import arms
from everhold.guarantees.intervals.arms import APART, ArmDifference, SeenArms
from everhold.guarantees.intervals.gains import OUTCOMES, RATIOS, losses_of_pairs
from everhold.guarantees.intervals.joint import Units

UNITS, LEVEL = 9, 0.45
WORLDS = {  # of one unit: rows treated, sum of their values, rows of the control arm, sum; then probabilities
    "rows of one arm each": ([(1, 1, 0, 0), (1, 0, 0, 0), (0, 0, 1, 1), (0, 0, 1, 0)], [0.2, 0.3, 0.35, 0.15]),
    "few treated": ([(1, 1, 0, 0), (1, 0, 0, 0), (0, 0, 1, 1), (0, 0, 1, 0)], [0.05, 0.15, 0.4, 0.4]),
    "groups in both arms": ([(1, 1, 1, 0), (1, 0, 1, 1), (2, 2, 1, 1), (1, 0, 2, 0)], [0.3, 0.3, 0.2, 0.2]),
}  # fmt: skip


MODELS = {  # of one row: denominator and numerator of either model; then probabilities
    "f1": ([(1, 1, 1, 1), (0.5, 0, 1, 1), (1, 1, 0.5, 0), (0.5, 0, 0, 0), (0, 0, 0.5, 0)], [0.3, 0.3, 0.2, 0.1, 0.1]),
    "precision": ([(1, 1, 1, 1), (0, 0, 1, 1), (1, 1, 0, 0), (1, 0, 0, 0), (1, 0, 1, 0)], [0.3, 0.3, 0.1, 0.2, 0.1]),
    "recall": ([(1, 1, 1, 1), (1, 0, 1, 1), (1, 1, 1, 0), (1, 0, 1, 0)], [0.3, 0.45, 0.15, 0.1]),
}
WORLDS |= MODELS


def seen(kinds, counts, *, rounded=0.0, rate=None):
    rows, sums, others, their_sums = np.array(kinds, dtype=np.float64).T
    counts, largest = np.array(counts, dtype=np.float64), float(np.max(rows + others if rate is None else rows))
    losses = APART if rate is None else losses_of_pairs(rate)
    return SeenArms(Units(rows, sums, counts, largest), Units(others, their_sums, counts, largest), rounded, losses)


def true_difference(kinds, chances):
    rows, sums, others, their_sums = np.array(chances) @ np.array(kinds, dtype=np.float64)
    return sums / rows - their_sums / others


def compositions(units, kinds):
    """All counts of the kinds among so many units."""
    for bars in itertools.combinations(range(units + kinds - 1), kinds - 1):
        yield np.diff([-1, *bars, units + kinds - 1]) - 1


def missed(world, nats, *, planned=None):
    """Probability that the bets on both arms miss the true difference, over all outcomes of the units."""
    (kinds, chances), rate = WORLDS[world], world if world in MODELS else None
    procedure = ArmDifference(seen(kinds, 40.0 * np.array(planned or chances), rate=rate), UNITS / 40.0, UNITS)
    procedure._joint[nats] = True
    true, found = (1.0 + true_difference(kinds, chances)) / 2.0, 0.0
    for counts in compositions(UNITS, len(kinds)):
        low, high = procedure.interval(seen(kinds, counts, rate=rate), nats)
        ways = math.factorial(UNITS) / math.prod(map(math.factorial, counts.tolist()))
        found += ways * float(np.prod(np.power(chances, counts))) * (not low <= true <= high)
    return found


@pytest.mark.parametrize(
    ("world", "planned"), [*((world, None) for world in WORLDS), ("rows of one arm each", [0.4, 0.1, 0.1, 0.4])]
)
def test_an_interval_misses_with_its_level_at_most(world, planned):
    assert missed(world, -math.log(LEVEL), planned=planned) <= LEVEL


def misses_of_copies(*, as_rows, draws=60):
    """Number of misses of intervals at a level of .2 where each group is twenty copies of a row."""
    rng, found = np.random.default_rng(3), 0
    kinds = np.array([(20, 20, 0, 0), (20, 0, 0, 0), (0, 0, 20, 20), (0, 0, 20, 0)])
    chances, nats = np.array([0.3, 0.2, 0.2, 0.3]), math.log(5.0)
    units, copies = (kinds / 20.0, 20.0) if as_rows else (kinds, 1.0)
    procedure = ArmDifference(seen(units, 80.0 * copies * chances), 1.0, 1_600)
    true = (1.0 + true_difference(kinds, chances)) / 2.0
    for counts in rng.multinomial(80, chances, draws):
        low, high = procedure.interval(seen(units, copies * counts), nats)
        found += not low <= true <= high
    return found


def test_groups_of_copies_are_units_and_their_rows_are_none():
    """The protection removed: rows of a group as if they were independent."""
    assert misses_of_copies(as_rows=False) <= 19  # more of 60 have a probability of .01 at a level of .2
    assert misses_of_copies(as_rows=True) > 25


def test_the_capital_of_groups_in_both_arms_is_fair_as_a_sum_and_not_as_a_product():
    rows, sums, others, their_sums = np.array([(1, 1, 1, 0), (1, 0, 1, 1)], dtype=np.float64).T
    treated, control = sums - 0.5 * rows, 0.5 * others - their_sums  # both means are 1/2
    assert np.mean(1.0 + 0.2 * (treated + control)) == pytest.approx(1.0)
    assert np.mean((1.0 + 0.2 * treated) * (1.0 + 0.2 * control)) == pytest.approx(1.01)


@pytest.mark.parametrize("rate", RATIOS)
def test_no_row_takes_more_from_a_bet_on_two_models_than_is_allowed_for(rate):
    """All outcomes of a row, at all pairs of a grid. What arms without a common row allow for is too little of F1."""
    top, bottom = RATIOS[rate]
    codes = [pair for label in (0, 2) for pair in itertools.product((1 + label, 2 + label), repeat=2)]
    assert len(OUTCOMES) == 5  # beside these a row that does not count
    too_much = 0.0
    for b, a, treated, control in itertools.product(*[np.linspace(0.0, 1.0, 11)] * 2, *[(0.5, 1.0, 3.0)] * 2):
        worst = max(
            (b * bottom[own] - top[own]) / treated + (top[other] - a * bottom[other]) / control for own, other in codes
        )
        allowed, apart = (
            max(f * b / treated + g * (1.0 - a) / control for f, g in losses)
            for losses in (losses_of_pairs(rate), APART)
        )
        assert worst <= allowed + 1e-12
        too_much = max(too_much, worst - apart)
    assert bool(too_much > 0.3) is (rate != "precision")


@pytest.mark.parametrize("seed", range(4))
def test_no_pair_that_is_left_has_a_smaller_difference(seed):
    """All pairs on a grid of the box, tried one by one."""
    rng = np.random.default_rng(seed)
    sizes, units = rng.integers(0, 4, (2, 300)).astype(np.float64), np.ones(300)
    sums = [
        rng.binomial(size.astype(int), chance).astype(np.float64)
        for size, chance in zip(sizes, (0.6, 0.4), strict=True)
    ]
    largest = float(np.max(sizes.sum(axis=0)))
    both = SeenArms(Units(sizes[0], sums[0], units, largest), Units(sizes[1], sums[1], units, largest))
    procedure = ArmDifference(both, 1.0, 600)
    plan, nats = procedure._plans[0], 4.0
    boxes = [(0.5, 0.7), (0.3, 0.5)] if seed % 2 else [(0.48, 0.75), (0.25, 0.5)]
    found = arms._least_difference(both, plan, nats, *boxes)
    stakes = np.array([plan.stake(nats - math.log(0.75)), *(arms.FRACTIONS * plan.cap)])
    weights = np.log([0.75, *[1.0 / 64.0] * 16])
    cells, least = 60, math.inf
    for b, a in itertools.product(*(np.linspace(*box, cells) for box in boxes)):
        moves = (sums[0] - b * sizes[0]) / plan.treated + (a * sizes[1] - sums[1]) / plan.control
        capital = np.logaddexp.reduce(np.log1p(np.multiply.outer(stakes, moves)).sum(axis=1) + weights)
        if capital < nats or b > plan.most or a < plan.least:
            least = min(least, b - a)
    assert least - 0.02 <= found <= least + 1e-9


def test_values_that_were_rounded_down_count_as_large_as_they_may_have_been():
    kinds, chances = WORLDS["rows of one arm each"]
    counts = 300.0 * np.array(chances)
    procedure = ArmDifference(seen(kinds, counts), 1.0, 300)
    exact = procedure.interval(seen(kinds, counts), 6.0)
    rounded = procedure.interval(seen(kinds, counts, rounded=0.01), 6.0)
    assert rounded[0] < exact[0] < exact[1] < rounded[1]
    assert rounded[1] - rounded[0] < exact[1] - exact[0] + 0.011


def test_a_group_larger_than_was_declared_is_an_error():
    kinds, chances = WORLDS["rows of one arm each"]
    procedure = ArmDifference(seen(kinds, 100.0 * np.array(chances)), 1.0, 100)
    larger = seen([(2, 1, 0, 0), *kinds[1:]], 25.0 * np.ones(4))
    with pytest.raises(ValueError, match="larger than the public sizes"):
        procedure.interval(larger, 6.0)
