"""A hedge over fixed stakes: each end holds at its level and adapts to the sealed spread, whatever was predicted."""

import math

import numpy as np
import pytest
from summaries import cells, pairs
from worlds import MARGIN, Outcomes, laws_of, misses

from everhold.guarantees.intervals.betting import Betting, RatioBetting
from everhold.guarantees.intervals.joint import FRACTIONS, Units, ratio_bets, upper_end

SIZES = np.array([1.0, 1.0, 4.0])
SHARES = np.array([0.0, 0.3, 1.0])


def units_of(shares, sizes=SIZES):
    return Units(sizes, shares * sizes, np.ones(len(sizes)), float(np.max(sizes)))


def rows(values):
    return units_of(np.asarray(values, dtype=float), np.ones(len(values)))


@pytest.mark.parametrize("stake", [1e-4, 0.5, 30.0, 1e6])
def test_at_the_truth_the_averaged_capital_gains_nothing_on_average(stake):
    outcomes = Outcomes.of(3, 3)
    for laws in laws_of(3, 3, np.random.default_rng(1), number=40):
        truth = float(SIZES @ (laws @ SHARES)) / SIZES.sum()
        if truth < 1.0 - 1e-9:
            gains = [math.exp(ratio_bets(units_of(SHARES[choice]), stake).at(truth)) for choice in outcomes.choices]
            assert float(outcomes.probabilities(laws) @ gains) <= 1.0


def miss_of(upper, nats):
    """The greatest probability that the truth lies above an upper end, over all laws on {0, .3, 1}^4."""
    outcomes = Outcomes.of(4, 3)
    ends = np.array(outcomes.of_units_alike(lambda choice: upper(rows(SHARES[choice]))))
    laws_and_truths = (
        (laws, float(np.mean(laws @ SHARES))) for laws in laws_of(4, 3, np.random.default_rng(2), number=150)
    )
    return max(misses(outcomes, laws, np.zeros(len(ends)), ends, truth)[1] for laws, truth in laws_and_truths)


@pytest.mark.parametrize("stake", [1e-3, 2.0, 1e5])
@pytest.mark.parametrize("nats", [0.3, 1.5, 3.0])
def test_an_end_holds_at_its_level_in_every_tiny_world(stake, nats):
    assert miss_of(lambda units: upper_end(units, stake, nats), nats) <= math.exp(-nats) + MARGIN


def test_the_best_stake_after_the_look_is_caught():
    """The protection removed: the greatest of all capitals in place of their average."""
    outcomes, laws, truth = Outcomes.of(3, 3), np.full((3, 3), 1.0 / 3.0), float(np.mean(SHARES))
    stakes = (FRACTIONS / (1.0 - truth)).tolist()
    best = [
        max(math.exp(ratio_bets(rows(SHARES[choice]), stake, hedged=False).at(truth)) for stake in stakes)
        for choice in outcomes.choices
    ]
    assert float(outcomes.probabilities(laws) @ best) > 1.1


def test_a_good_prediction_costs_ln_2_nats_and_a_bad_one_ln_32_beyond_the_best_fraction():
    values = np.random.default_rng(3).beta(1.0, 4.0, 2_000)
    units, nats = rows(values), 12.0
    good = math.sqrt(2.0 * nats / units.spread())
    assert upper_end(units, good, nats) <= upper_end(units, good, nats + math.log(2.0), hedged=False) + 1e-9
    for bad in (1e-6, 1e6):
        end = upper_end(units, bad, nats)
        best = max(ratio_bets(units, float(share) / (1.0 - end), hedged=False).at(end) for share in FRACTIONS)
        assert best <= nats + math.log(2.0 * len(FRACTIONS))
        assert end - units.mean < 1.2 * (upper_end(units, good, nats, hedged=False) - units.mean)


@pytest.mark.parametrize("spread", [0.5, 0.05])
def test_without_any_prediction_an_interval_is_as_narrow_as_the_sealed_spread_allows(spread):
    sealed = np.clip(np.random.default_rng(4).normal(0.5, spread, 4_000), 0.0, 1.0)
    low, high = Betting(rows=4_000, training=cells(np.zeros(0))).interval(cells(sealed), 11.4)
    cell = 1.0 / 256 / 2  # values inside one cell are lotteries over its edges
    normal = math.sqrt(2.0 * (11.4 + math.log(2)) * (np.var(sealed) + cell**2) / 4_000)
    assert (high - low) / 2 < 1.25 * normal


@pytest.mark.parametrize("wrong", [0.0, 1.0])
def test_training_rows_of_an_overfitted_model_do_not_widen_the_sealed_interval(wrong):
    rng = np.random.default_rng(5)
    right = (rng.random(5_000) < 0.19) * 1.0
    ones = np.ones(5_000)
    surprise = RatioBetting(rows=5_000, training=pairs(np.full(5_000, wrong), ones))
    honest = RatioBetting(rows=5_000, training=pairs((rng.random(5_000) < 0.19) * 1.0, ones))
    widths = [np.ptp(each.interval(pairs(right, ones), 11.4)) for each in (surprise, honest)]
    assert widths[0] < 1.25 * widths[1]


def test_an_own_guess_far_from_the_training_mean_predicts_the_spread_that_it_implies():
    fitted = RatioBetting(rows=5_000, training=pairs(np.zeros(5_000), np.ones(5_000)), guess=0.19)
    low, high = fitted.expected(0.19, 11.4)
    assert (high - low) / 2 == pytest.approx(math.sqrt(2 * (11.4 + 2 * math.log(2)) * 0.19 * 0.81 / 5_000), rel=0.03)


@pytest.mark.parametrize("rows_", [50, 2_000])
@pytest.mark.parametrize("training", [np.zeros(40), np.full(40, 0.5), np.linspace(0, 1, 40)])
def test_no_interval_is_wider_than_the_public_bound(rows_, training):
    procedure = Betting(rows=rows_, training=cells(training))
    rng = np.random.default_rng(6)
    for nats in (2.0, 11.4, 40.0):
        for mean in (0.02, 0.3, 0.5, 0.9):
            for values in ((np.arange(rows_) < mean * rows_) * 1.0, rng.random(rows_) * mean):
                low, high = procedure.interval(cells(values), nats)
                assert (high - low) / 2 <= procedure.widest(nats)
