"""Gains in precision, recall and F1: exact probabilities in tiny worlds, and scikit-learn's scores."""

import itertools
import math
from math import factorial, prod

import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_score, recall_score

from everhold.guarantees.intervals.ratio_gain import OUTCOMES, RatioDifference, RatioGain

TN, FP, FN, TP = 1, 2, 3, 4
SCORES = {"f1": f1_score, "precision": precision_score, "recall": recall_score}
NATS = math.log(3.0)  # on one side
WORLDS = {
    "two models that trade positives": {(TP, FN): 0.25, (FN, TP): 0.25, (TP, TP): 0.3, (TN, TN): 0.2},
    "false alarms against misses": {(TP, TP): 0.4, (FP, TN): 0.2, (TN, FP): 0.2, (TN, TN): 0.2},
    "a rare class": {(TP, FN): 0.05, (FN, TP): 0.05, (TN, TN): 0.9},
}


def seen(rows, procedure):
    own, other = np.array(rows).T
    return procedure.cells(own, other)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("world", WORLDS)
def test_a_gain_that_is_not_there_is_proved_with_the_probability_of_the_level_at_most(world, score):
    units, procedure, missed = 6, RatioGain(score, 6), 0.0
    pairs, chances = list(WORLDS[world]), list(WORLDS[world].values())  # both models have the same score
    for counts in itertools.product(range(units + 1), repeat=len(pairs)):
        if sum(counts) == units:
            rows = [pair for pair, count in zip(pairs, counts, strict=True) for _ in range(count)]
            if procedure.proves(seen(rows, procedure), 0.0, NATS):
                ways = factorial(units) // prod(map(factorial, counts))
                missed += ways * prod(p**count for p, count in zip(chances, counts, strict=True))
    assert missed <= math.exp(-NATS)


@pytest.mark.parametrize("score", SCORES)
def test_the_sealed_gain_is_that_of_scikit_learn(score):
    rng = np.random.default_rng(1)
    labels, first, second = rng.integers(0, 2, (3, 500))
    procedure = RatioGain(score, 500)
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


def test_a_fault_counts_as_the_worst():
    procedure = RatioGain("f1", 100)
    fine = seen([(TP, FN)] * 60 + [(TN, TN)] * 40, procedure)
    faulty = seen([(TP, FN)] * 60 + [(0, TN)] * 40, procedure)
    assert procedure.interval(fine, 3.0)[0] > procedure.interval(faulty, 3.0)[0]


def test_more_rows_prove_more():
    ends = [
        RatioGain("f1", 30 * times).interval(
            seen([(TP, FN)] * 20 * times + [(TN, TN)] * 10 * times, RatioGain("f1", 1)), 5
        )
        for times in (1, 4, 16)
    ]
    assert ends[0][0] < ends[1][0] < ends[2][0]
    assert {high for _, high in ends} == {1.0}


def test_a_difference_has_the_ends_of_both_gains():
    rows = [(TP, FN)] * 30 + [(FN, TP)] * 10 + [(TP, TP)] * 60 + [(FP, TN)] * 5 + [(TN, TN)] * 95
    procedure = RatioDifference("f1", len(rows))
    ends = procedure.interval(seen(rows, procedure), 6.0)
    other = procedure.interval(seen([pair[::-1] for pair in rows], procedure), 6.0)
    assert ends == pytest.approx([1.0 - other[1], 1.0 - other[0]])
    assert ends[0] == RatioGain("f1", len(rows)).interval(seen(rows, procedure), 6.0)[0]
    assert ends[0] < (1.0 + procedure.gain(seen(rows, procedure))) / 2.0 < ends[1]


def test_the_standard_error_of_a_difference_is_that_of_many_samples():
    rng = np.random.default_rng(2)
    chances, pairs = [0.1, 0.05, 0.25, 0.05, 0.55], [(TP, FN), (FN, TP), (TP, TP), (FP, TN), (TN, TN)]
    procedure = RatioDifference("f1", 2_000)

    def sample(rows):
        return seen(np.repeat(pairs, rng.multinomial(rows, chances), axis=0), procedure)

    planned = RatioDifference("f1", 2_000, tuple(sample(100_000).counts.tolist()))
    gains = [procedure.gain(sample(2_000)) for _ in range(400)]
    assert planned.standard_error(0.5) == pytest.approx(np.std(gains) / 2.0, rel=0.15)
