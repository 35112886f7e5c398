"""Betting holds in worlds written down in full, and is as narrow as the spread of the values."""

import math
from itertools import pairwise, product

import numpy as np
import pytest
from summaries import UNIT, cells, delays, grid, groups, public_sizes
from worlds import MARGIN, NATS, Outcomes, laws_of, misses

from everhold.guarantees.intervals.base import CELLS, Cells
from everhold.guarantees.intervals.betting import Betting, GroupBetting
from everhold.guarantees.intervals.in_order import at_all_sizes
from everhold.guarantees.intervals.joint import CAP, Units, best_stake, ratio_bets, upper_end

SUPPORT = grid([0.0, 0.35, 1.0]) / UNIT
HEDGE = math.log(2.0)  # the predicted stake has half of the capital
TRAINING_ROWS = ([0.5] * 3, [0.0] * 20, [1.0], [0.1, 0.4, 0.9, 0.0], [0.0, 1.0] * 50)


def side(nats):
    return nats + math.log(2.0)


def gaussian(values, nats):
    """Half-width of a normal approximation that bounds the tails as bets do, with half of the capital."""
    return math.sqrt(2.0 * (side(nats) + HEDGE) / len(values)) * np.std(values)


def worst_miss(ends, outcomes, truths):
    """The greatest probability that the truth lies beyond one end, over laws with their truths."""
    low, high = np.array(ends).T
    return max(max(misses(outcomes, laws, low, high, truth)) for laws, truth in truths)


@pytest.mark.parametrize("training", TRAINING_ROWS)
@pytest.mark.parametrize("nats", NATS)
def test_rows_each_end_holds_at_half_the_level(training, nats):
    outcomes = Outcomes.of(5, 3)
    procedure = Betting(rows=5, training=cells(training))
    ends = outcomes.of_units_alike(lambda choice: procedure.interval(cells(SUPPORT[choice]), nats))
    truths = [(laws, float(np.mean(laws @ SUPPORT))) for laws in laws_of(5, 3, np.random.default_rng(1), number=200)]
    assert worst_miss(ends, outcomes, truths) <= math.exp(-nats) / 2 + MARGIN


@pytest.mark.parametrize("training", [([1, 1, 4], [0, 1, 2]), ([4], [4]), ([1, 2, 4, 1], [0.5, 1, 2, 0.5])])
@pytest.mark.parametrize("nats", NATS)
def test_groups_each_end_holds_at_half_the_level(training, nats):
    sizes, outcomes = np.array([1, 1, 2, 4]), Outcomes.of(4, 3)
    procedure = GroupBetting(sizes=public_sizes(sizes), training=groups(*training))
    ends = [procedure.interval(groups(sizes, SUPPORT[choice] * sizes), nats) for choice in outcomes.choices]
    truths = [
        (laws, float(sizes @ (laws @ SUPPORT)) / sizes.sum())
        for laws in laws_of(4, 3, np.random.default_rng(1), number=200)
    ]
    assert worst_miss(ends, outcomes, truths) <= math.exp(-nats) / 2 + MARGIN


def test_groups_read_as_independent_rows_are_caught():
    """What the group sums protect against: rows of a group that are all alike."""
    outcomes = Outcomes.of(4, 2)
    careless = Betting(rows=20, training=cells([0.0, 1.0] * 10))
    careful = GroupBetting(sizes=((5, 4),), training=groups([5] * 4, [0, 5, 0, 5]))
    wrong = [careless.interval(cells(np.repeat(choice, 5)), 3.0) for choice in outcomes.choices]
    right = [careful.interval(groups([5] * 4, 5 * choice), 3.0) for choice in outcomes.choices]
    truths = [(np.full((4, 2), 0.5), 0.5)]
    assert worst_miss(right, outcomes, truths) <= math.exp(-3.0) / 2
    assert worst_miss(wrong, outcomes, truths) > math.exp(-3.0) / 2


def test_the_chord_lies_below_the_capital_and_the_cells_mean_above():
    rng = np.random.default_rng(2)
    values = grid(np.clip((rng.integers(0, CELLS, 400) + rng.choice([0.02, 0.98], 400)) / CELLS, 0, 1)) / UNIT
    seen, nats, stake = cells(values), 8.0, 0.9
    filled = seen.counts > 0
    exact = upper_end(Units(np.ones(400), values, np.ones(400), 1.0), stake, nats, hedged=False)
    means = seen.sums[filled] / UNIT / seen.counts[filled]
    at_means = upper_end(
        Units(np.ones(len(means)), means, seen.counts[filled].astype(float), 1.0), stake, nats, hedged=False
    )
    procedure = Betting(rows=400, training=seen)
    chord = upper_end(procedure._units(seen), stake, nats, hedged=False)
    assert at_means < exact < chord < exact + 1e-4


def test_values_rounded_down_to_the_edge_of_their_cell_are_caught():
    """The planted error: all rows equal to 100.9 / 256, so the truth is no guess."""
    truth = 100.9 / CELLS
    seen = cells(np.full(100_000, truth))
    planted = Cells(seen.counts, np.arange(CELLS) * seen.counts * (UNIT // CELLS), UNIT)
    procedure = Betting(rows=100_000, training=seen)
    low, high = procedure.interval(seen, 3.0)
    assert low < truth < high < truth + 1e-3
    assert procedure.interval(planted, 3.0)[1] < truth


def test_delays_cost_what_a_normal_law_would():
    rng = np.random.default_rng(3)
    sealed, training = delays(20_000, rng), delays(20_000, rng)
    procedure = Betting(rows=20_000, training=cells(training))
    low, high = procedure.interval(cells(sealed), 11.4)
    assert (high - low) / 2 < 1.02 * gaussian(sealed, 11.4)
    assert (high - low) / 2 < 0.32 * math.sqrt(side(11.4) / 40_000)  # Hoeffding's
    expected = procedure.expected(float(np.mean(training)), 11.4)
    assert expected[1] - expected[0] == pytest.approx(high - low, rel=0.02)
    assert high - np.mean(sealed) > 1.03 * (np.mean(sealed) - low)  # long delays are the surprise


def test_uniform_values_and_coins_cost_what_a_normal_law_would():
    rng = np.random.default_rng(4)
    for draw in (lambda: rng.random(5_000), lambda: (rng.random(5_000) < 0.4) * 1.0):
        sealed, training = draw(), draw()
        low, high = Betting(rows=5_000, training=cells(training)).interval(cells(sealed), 10.0)
        assert (high - low) / 2 == pytest.approx(gaussian(sealed, 10.0), rel=0.01)


def test_a_small_or_narrow_training_set_costs_little():
    rng = np.random.default_rng(5)
    sealed = rng.random(2_000)
    for training in (rng.random(20), np.full(20, 0.5), np.zeros(0)):
        low, high = Betting(rows=2_000, training=cells(training)).interval(cells(sealed), 8.0)
        assert low < 0.5 < high
        assert high - low < 6 * 2 * gaussian(sealed, 8.0)


def group_world(rng, *, number=400):
    sizes = rng.integers(1, 6, number)
    return sizes, sizes * rng.beta(2.0, 6.0, number)


def test_group_bets_cost_what_their_sums_spread():
    rng = np.random.default_rng(6)
    (sizes, sums), training = group_world(rng, number=4_000), group_world(rng, number=4_000)
    procedure = GroupBetting(sizes=public_sizes(sizes), training=groups(*training))
    low, high = procedure.interval(groups(sizes, sums), 11.4)
    theta = sums.sum() / sizes.sum()
    limit = math.sqrt(2 * (side(11.4) + HEDGE) * np.sum((sums - theta * sizes) ** 2)) / sizes.sum()
    assert (high - low) / 2 == pytest.approx(limit, rel=0.02)
    expected = procedure.expected(theta, 11.4)
    assert expected[1] - expected[0] == pytest.approx(high - low, rel=0.05)


def test_worth_is_the_number_of_coins_or_of_groups():
    rng = np.random.default_rng(7)
    coins = rng.integers(0, 2, 5_000)
    assert Betting(rows=8_000, training=cells(coins)).worth == pytest.approx(8_000, rel=0.01)
    alike = GroupBetting(sizes=((5, 1_600),), training=groups(np.full(5_000, 5), 5 * coins))
    assert alike.independent_rows(0.25) == pytest.approx(1_600, rel=0.01)
    sums = rng.binomial(5, 0.3, 5_000)
    unlike = GroupBetting(sizes=((5, 1_600),), training=groups(np.full(5_000, 5), sums))
    assert unlike.independent_rows(0.21) == pytest.approx(8_000, rel=0.06)


def test_the_standard_error_is_that_of_repeated_draws():
    rng = np.random.default_rng(8)
    gaps = []
    for _ in range(200):
        (sizes, sums), (others, training) = group_world(rng), group_world(rng, number=200)
        gaps.append(sums.sum() / sizes.sum() - training.sum() / others.sum())
    procedure = GroupBetting(sizes=public_sizes(sizes), training=groups(others, training))
    assert procedure.standard_error(0.25) == pytest.approx(np.std(gaps), rel=4 / math.sqrt(2 * 200) + 0.1)
    values = rng.normal(0.5, 0.1, 3_000)
    rows = Betting(rows=1_000, training=cells(values))
    assert rows.standard_error(0.5) == pytest.approx(np.std(values) * math.sqrt(1 / 1_000 + 1 / 3_000), rel=0.05)


@pytest.mark.parametrize("nats", [0.0, 5.0, 60.0, 700.0])
@pytest.mark.parametrize("training", TRAINING_ROWS)
def test_expected_intervals_hold_the_guess(nats, training):
    rows = Betting(rows=300, training=cells(training))
    grouped = GroupBetting(sizes=((3, 100),), training=groups([3] * len(training), 3 * np.array(training)))
    for procedure in (rows, grouped):
        for guess in (0.0, 1e-9, 0.02, 0.5, 0.9, 1.0):
            low, high = procedure.expected(guess, nats)
            assert 0.0 <= low <= guess <= high <= 1.0
            assert procedure.standard_error(guess) > 0.0
        assert procedure.expected(0.0, nats)[0] == 0.0
        assert procedure.expected(1.0, nats)[1] == 1.0


def test_an_interval_grows_with_the_nats_and_holds_the_mean():
    values = np.random.default_rng(9).beta(1, 5, 500)
    procedure = Betting(rows=500, training=cells(values))
    ends = [procedure.interval(cells(values), nats) for nats in (0.0, 1.0, 5.0, 20.0, 100.0, 700.0)]
    assert all(a[0] >= b[0] and a[1] <= b[1] for a, b in pairwise(ends))
    assert ends[0][0] < values.mean() < ends[0][1]


def test_one_group_excludes_next_to_nothing():
    procedure = GroupBetting(sizes=((50, 1),), training=groups([50], [10]))
    low, high = procedure.interval(groups([50], [50]), 3.0)
    assert high == 1.0
    assert low <= math.exp(-3.0)


def test_groups_larger_than_the_public_sizes_are_refused_and_larger_training_groups_are_not():
    procedure = GroupBetting(sizes=((2, 50),), training=groups([2] * 30 + [40], [1, 0, 2] * 10 + [40]))
    low, high = procedure.interval(groups([2] * 50, [1] * 50), 5.0)
    assert 0.0 <= low < 0.5 < high <= 1.0
    assert procedure.expected(0.9, 5.0)[1] > 0.9
    with pytest.raises(ValueError, match="larger than the public sizes"):
        procedure.interval(groups([3], [1]), 5.0)


def test_a_level_of_one_is_no_error():
    values = [0.2, 0.6, 0.9]
    low, high = Betting(rows=3, training=cells(values)).interval(cells(values), -math.log(2.0))
    assert 0.0 <= low < high <= 1.0


def test_a_unit_that_cells_do_not_divide_has_the_same_interval():
    values = np.random.default_rng(10).random(300)
    ends = [
        Betting(rows=300, training=cells(values, unit)).interval(cells(values, unit), 5.0) for unit in (UNIT, 10**9)
    ]
    assert ends[0] == pytest.approx(ends[1], abs=1e-8)


def test_stakes_are_public_numbers_near_the_optimum():
    training = np.random.default_rng(11).random(20_000)
    stakes = Betting(rows=20_000, training=cells(training)).stakes(11.4)
    best = math.sqrt(2 * side(11.4) * 12 / 20_000)
    assert stakes == {"stake_low": pytest.approx(best, rel=0.2), "stake_high": pytest.approx(best, rel=0.2)}


def test_stakes_of_a_bet_at_all_sizes_follow_from_no_rows():
    seen, ends = cells([0.1, 0.4, 0.9] * 20), []
    for training in (cells([0.0, 1.0] * 30), cells([0.45, 0.5] * 30)):
        procedure = Betting(rows=60, training=training)
        ends.append(
            (procedure.interval(seen, 5.0), at_all_sizes(procedure, first_rows=60, nats=5.0).interval(seen, 5.0))
        )
    assert ends[0][0] != ends[1][0]
    assert ends[0][1] == ends[1][1]


SIZES = np.array([1.0, 1.0, 2.0, 5.0])  # rates of up to twelve times what the group of five allows


def expected_capital(rng, stakes, *, forgiven):
    """The mean capital at the true mean of four groups of unlike laws on two values each, by all outcomes."""
    values, chances = rng.random((2, 4)) * SIZES, rng.random(4)
    values = np.where(rng.random((2, 4)) < 0.5, np.rint(values / SIZES) * SIZES, values)
    true = float(np.sum(chances * values[0] + (1.0 - chances) * values[1]) / SIZES.sum())
    found = np.zeros(len(stakes))
    for which in product((0, 1), repeat=4):
        units = Units(SIZES, values[which, range(4)], np.ones(4), 5.0, public=True)
        bets = ratio_bets(units, stakes / ((1.0 - true) * 5.0), hedged=False)
        room = np.maximum(stakes[:, None] * SIZES / 5.0 - CAP, 0.0).sum(axis=1) if forgiven else 0.0
        chance = np.prod(np.where(np.array(which) == 0, chances, 1.0 - chances))
        found += chance * np.exp(bets.gains(np.array([[[1.0, true]]]))[0, 0, 0, :, 0] + room)
    return found


def test_rates_beyond_the_largest_group_are_fair_for_unlike_groups():
    rng, stakes = np.random.default_rng(0), np.array([0.5, 0.95, 1.5, 4.0, 12.0])
    kept = np.array([expected_capital(rng, stakes, forgiven=False) for _ in range(60)])
    assert kept.max() <= 1.0
    removed = np.array([expected_capital(rng, stakes, forgiven=True) for _ in range(60)])
    assert removed[:, :2].max() <= 1.0
    assert removed[:, 2:].max(axis=0).min() > 1.5  # the protection removed


def test_public_sizes_narrow_small_differences_as_far_as_groups_that_were_not_seen_allow():
    rng = np.random.default_rng(0)
    sizes = np.maximum(rng.poisson(3, 1_500), 1).astype(float)
    values = (sizes + 0.05 * np.sqrt(sizes) * rng.normal(size=1_500)) / 2.0  # differences in [-1, 1], mostly near 0
    ends = {}
    for public in (False, True):
        units = Units(sizes, values, np.ones(1_500), sizes.max(), public=public)
        ends[public] = upper_end(units, best_stake(units, 8.5), 8.5) - units.mean
    chances = np.linspace(0.0, sizes.max(), 20_001)[1:-1]
    unseen = np.maximum(1.0 - chances[:, None] / np.unique(sizes), 0.0)  # groups of each size that are all 1
    number = np.unique(sizes, return_counts=True)[1]
    allowed = -np.log1p(-np.minimum(unseen, 1.0 - 1e-12)) @ number <= 8.5
    least = float(np.max((unseen @ (number * np.unique(sizes)))[allowed])) / sizes.sum() / 2.0
    assert least < ends[True] < 1.35 * least
    assert ends[True] < 0.8 * ends[False]


def test_the_stake_suits_the_few_large_groups_however_many_kinds_of_groups_there_are():
    rng = np.random.default_rng(0)
    sizes = np.maximum(rng.poisson(3, 1_500), 1)
    sums = sizes * np.clip(0.5 + 0.02 * rng.normal(size=1_500), 0.0, 1.0)  # of 1,500 kinds
    procedure = GroupBetting(sizes=public_sizes(sizes), training=groups(sizes, sums))
    units = procedure._units(groups(sizes, sums))
    ends = [upper_end(units, stake, side(6.2)) for stake in np.geomspace(0.05, 1.0, 40)]
    assert procedure.interval(groups(sizes, sums), 6.2)[1] - units.mean < 1.05 * (min(ends) - units.mean)
