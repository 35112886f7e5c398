"""Gains in scores of outcomes: exact probabilities in tiny worlds, and scikit-learn's scores."""

import itertools
import math
from dataclasses import dataclass
from functools import partial
from math import factorial, prod

import numpy as np
import pytest
from gain_proofs import proves
from sklearn.metrics import balanced_accuracy_score, f1_score, precision_score, recall_score

from everhold.guarantees.intervals.claims import stakes_for
from everhold.guarantees.intervals.gains import (
    GAINS,
    OUTCOMES,
    BalancedGain,
    GainDifference,
    RatioGain,
    apart_by_label,
    counts_of_pairs,
    ends_of_segments,
    gain_of,
    least_product,
)

TN, FP, FN, TP = 1, 2, 3, 4
SCORES = {
    "f1": f1_score, "precision": precision_score, "recall": recall_score,
    "balanced": balanced_accuracy_score, "macro": partial(f1_score, average="macro"),
}  # fmt: skip
NATS = math.log(3.0)  # on one side
WORLDS = {
    "two models that trade positives": {(TP, FN): 0.25, (FN, TP): 0.25, (TP, TP): 0.3, (TN, TN): 0.2},
    "false alarms against misses": {(TP, TP): 0.4, (FP, TN): 0.2, (TN, FP): 0.2, (TN, TN): 0.2},
    "a rare class": {(TP, FN): 0.05, (FN, TP): 0.05, (TN, TN): 0.9},
}
OF_BOTH_LABELS = {
    "recall against specificity": {(TP, FN): 0.25, (TP, TP): 0.25, (FP, TN): 0.25, (TN, TN): 0.25},
    "each model is right on one label": {(TP, FN): 0.5, (FP, TN): 0.5},
    "a rare class is found at the price of false alarms": {
        (TP, FN): 0.15, (FN, FN): 0.05, (FP, TN): 0.6, (TN, TN): 0.2
    },
}  # fmt: skip
"""Worlds of no gain in balanced accuracy, where each label has one."""


def seen(rows, procedure):
    own, other = np.array(rows).T
    return procedure.cells(own, other)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("world", WORLDS)
def test_a_gain_that_is_not_there_is_proved_with_the_probability_of_the_level_at_most(world, score):
    assert proved_by_chance(gain_of(score, 6), WORLDS[world], 0.0, NATS) <= math.exp(-NATS)


@pytest.mark.parametrize("world", OF_BOTH_LABELS)
def test_a_gain_in_one_recall_that_the_other_one_loses_is_proved_with_the_probability_of_the_level_at_most(world):
    chances = OF_BOTH_LABELS[world]
    for nats in (math.log(1.5), NATS):
        assert proved_by_chance(BalancedGain("balanced", 6), chances, 0.0, nats) <= math.exp(-nats)


@pytest.mark.parametrize(
    ("chances", "gain"),
    [
        ({(TP, FN): 0.25, (TP, TP): 0.25, (FP, TN): 0.125, (TN, TN): 0.375}, 0.125),
        ({(TP, FN): 0.3, (TP, TP): 0.1, (TN, FP): 0.3, (TN, TN): 0.3}, 0.625),
        ({(FN, TP): 0.2, (TP, TP): 0.2, (TN, TN): 0.6}, -0.25),
    ],
)
def test_the_true_gain_is_proved_with_the_probability_of_the_level_at_most(chances, gain):
    procedure = BalancedGain("balanced", 6)
    for nats in (math.log(1.5), NATS):
        assert proved_by_chance(procedure, chances, gain, nats) <= math.exp(-nats)
    assert proved_by_chance(procedure, chances, gain - 0.3, math.log(1.5)) > math.exp(-math.log(1.5)) / 3.0


def test_without_the_bets_on_the_other_label_it_would_be_proved_more_often():
    chances = OF_BOTH_LABELS["each model is right on one label"]
    assert proved_by_chance(OfOneLabel("balanced", 6), chances, 0.0, NATS) > math.exp(-NATS)


@dataclass(frozen=True)
class OfOneLabel(BalancedGain):
    """Takes the gain in recall for all of the gain."""

    def capital(self, seen, nats):
        ones, _ = apart_by_label(seen)
        stakes = stakes_for(self.rows, nats)
        return lambda _: np.logaddexp.reduce(stakes_capital(ones, stakes)) - math.log(len(stakes))


def stakes_capital(ones, stakes):
    return np.log1p(stakes[:, None] * np.array([-1.0, 0.0, 1.0])) @ ones


def proved_by_chance(procedure, world, gain, nats):
    """Probability that a gain is proved, over all samples of six rows."""
    units, proved = 6, 0.0
    pairs, chances = list(world), list(world.values())
    for counts in itertools.product(range(units + 1), repeat=len(pairs)):
        if sum(counts) == units:
            rows = [pair for pair, count in zip(pairs, counts, strict=True) for _ in range(count)]
            if proves(procedure, seen(rows, procedure), gain, nats):
                ways = factorial(units) // prod(map(factorial, counts))
                proved += ways * prod(p**count for p, count in zip(chances, counts, strict=True))
    return proved


@pytest.mark.parametrize("score", SCORES)
def test_the_sealed_gain_is_that_of_scikit_learn(score):
    rng = np.random.default_rng(1)
    labels, first, second = rng.integers(0, 2, (3, 500))
    procedure = gain_of(score, 500)
    own, other = (1 + predicted + 2 * labels for predicted in (first, second))
    gain = SCORES[score](labels, first) - SCORES[score](labels, second)
    assert procedure.gain(procedure.cells(own, other)) == pytest.approx(gain)


@pytest.mark.parametrize("unit", [2**12, 2**30, 10_000])
def test_each_pair_of_outcomes_has_a_cell_of_its_own(unit):
    codes = np.array(list(itertools.product(range(len(OUTCOMES)), repeat=2)))
    own, other = (codes * unit // 4).T
    values = RatioGain.paired(own, other, unit=unit)
    procedure = RatioGain("f1", len(codes))
    cells = np.zeros(256, dtype=np.int64)
    np.add.at(cells, values * 256 // unit, 1)
    assert (cells == procedure.cells(*codes.T).counts).all()
    assert cells.max() == 1


def test_more_rows_prove_more():
    ends = [
        RatioGain("f1", 30 * times).interval(
            seen([(TP, FN)] * 20 * times + [(TN, TN)] * 10 * times, RatioGain("f1", 1)), 5
        )
        for times in (1, 4, 16)
    ]
    assert ends[0][0] < ends[1][0] < ends[2][0]
    assert {high for _, high in ends} == {1.0}


@pytest.mark.parametrize("score", GAINS)
def test_a_difference_has_the_ends_of_both_gains(score):
    rows = [(TP, FN)] * 30 + [(FN, TP)] * 10 + [(TP, TP)] * 60 + [(FP, TN)] * 5 + [(TN, TN)] * 95
    procedure = GainDifference(score, len(rows))
    ends = procedure.interval(seen(rows, procedure), 6.0)
    other = procedure.interval(seen([pair[::-1] for pair in rows], procedure), 6.0)
    assert ends == pytest.approx([1.0 - other[1], 1.0 - other[0]])
    assert ends[0] == gain_of(score, len(rows)).interval(seen(rows, procedure), 6.0)[0]
    assert ends[0] < (1.0 + procedure.gain(seen(rows, procedure))) / 2.0 < ends[1]


@pytest.mark.parametrize("score", GAINS)
def test_the_standard_error_of_a_difference_is_that_of_many_samples(score):
    rng = np.random.default_rng(2)
    chances, pairs = [0.1, 0.05, 0.25, 0.05, 0.55], [(TP, FN), (FN, TP), (TP, TP), (FP, TN), (TN, TN)]
    procedure = GainDifference(score, 2_000)

    def sample(rows):
        return seen(np.repeat(pairs, rng.multinomial(rows, chances), axis=0), procedure)

    planned = GainDifference(score, 2_000, tuple(counts_of_pairs(sample(100_000)).ravel().tolist()))
    gains = [procedure.gain(sample(2_000)) for _ in range(400)]
    assert planned.standard_error(0.5) == pytest.approx(np.std(gains) / 2.0, rel=0.15)


def capital_of(counts, stakes, gains):
    """Logarithm of each bet's capital against gains in a recall, shape (stakes, gains)."""
    apart = np.array([-1.0, 0.0, 1.0])
    factors = 1.0 + stakes[:, None, None] * (apart[:, None] - gains) / (1.0 + gains)
    return np.einsum("d,sdg->sg", counts, np.log(factors)) - math.log(len(stakes))


@pytest.mark.parametrize("counts", [(0, 20, 0), (3, 200, 9), (50, 0, 50)])
def test_in_a_segment_the_capital_against_both_recalls_is_at_least_what_is_told_of_its_ends(counts):
    counts, stakes, gains = np.array(counts) * 1.0, np.array([0.95, 0.5, 0.1, 0.0]), np.linspace(-0.5, 0.5, 2)

    def both(at):
        return capital_of(counts, stakes, at)[:, None] + capital_of(counts, stakes, -at)

    ends = ends_of_segments(counts, stakes, gains)[:, :, None] + ends_of_segments(counts, stakes, -gains)[:, None]
    inside = [both((1.0 - part) * gains[:-1] + part * gains[1:]) for part in np.linspace(0.0, 1.0, 11)]
    assert (np.min(inside, axis=0) >= np.minimum(*ends)).all()
    if counts[1] == 20.0:  # without the tangent the ends do not bound rows on which the models are alike
        assert (np.min(inside, axis=0) < np.minimum(both(gains[:-1]), both(gains[1:])) - 4.0).any()


def test_the_least_capital_of_all_pairs_of_bets_is_that_of_each_segment():
    rng, segments = np.random.default_rng(6), 1_024
    middle = np.linspace(-1.0, 1.0, segments + 1)
    bends = rng.uniform(5.0, 60.0, (2, 4, 1))
    ones, zeros = (np.stack([each[:, :-1], each[:, 1:]]) for each in (bends * (middle - [[[0.2]], [[-0.1]]]) ** 2))
    pairs = ones[:, :, None] + zeros[:, None]
    every = np.log(np.exp(np.minimum(*pairs)).sum(axis=(0, 1)))
    assert least_product(ones, zeros) == pytest.approx(every.min(), abs=1e-12)
