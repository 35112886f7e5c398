"""Differences of two AUCs: exact coverage on tiny populations, and with a range that was read off the sealed labels."""

import itertools
import math
from functools import cache

import numpy as np
import pytest
import scipy.stats

from everhold.guarantees.intervals.ranking import (
    BlockDifference,
    RankDifference,
    SeenScores,
    block_averages,
    difference_from_ranks,
)
from everhold.queries.metrics.measures import measure_of
from everhold.queries.metrics.registry import METRICS
from everhold.queries.metrics.score_parts import Judged, Setting

LEVELS = (0.4, 1.5)
ATOMS = [(0, 1), (1, 0), (2, 2)]  # pairs of scores
LAWS = [
    (np.array([0.1, 0.3, 0.6]), np.array([0.5, 0.3, 0.2])),
    (np.array([0.9, 0.05, 0.05]), np.array([0.05, 0.9, 0.05])),
    (np.array([0.02, 0.98, 0.0]), np.array([1.0, 0.0, 0.0])),
]


def wins(scores):
    return (scores[:, None] > scores[None, :]) + 0.5 * (scores[:, None] == scores[None, :])


def apart_of(first, second, upper, lower):
    """The difference of the AUCs of two columns of scores, with weights of the classes."""
    both = [float(upper @ wins(np.asarray(each, dtype=float)) @ lower) for each in (first, second)]
    return (both[0] - both[1]) / float(upper.sum() * lower.sum())


@pytest.mark.parametrize("laws", LAWS)
@pytest.mark.parametrize("labels", [(1, 0, 0, 0), (1, 1, 0, 0), (0, 1, 1, 1)])
def test_blocks_of_two_models_miss_no_more_than_their_level_whatever_the_labels(laws, labels):
    upper, lower = laws
    first, second = np.array(ATOMS, dtype=float).T
    true, positive = (1.0 + apart_of(first, second, upper, lower)) / 2.0, np.array(labels, dtype=bool)
    procedure, order = BlockDifference(2.0, None), np.array([2, 0, 3, 1])
    ends, missed = {}, dict.fromkeys(LEVELS, 0.0)
    for kinds in itertools.product(range(3), repeat=4):
        chance = math.prod(
            (upper if label else lower)[kind] for kind, label in zip(kinds, positive, strict=True)
        )  # fmt: skip
        blocks = [block_averages(each[list(kinds)], positive, order) for each in (first, second)]
        units = np.sort((1.0 + blocks[0] - blocks[1]) / 2.0)
        for nats in LEVELS:
            key = (*units.tolist(), nats)
            if key not in ends:
                ends[key] = procedure.interval(SeenScores(float(units.mean()), units, 0.5), nats)
            missed[nats] += chance * (not ends[key][0] <= true <= ends[key][1])
    for nats in LEVELS:
        assert missed[nats] <= math.exp(-nats)


FIRST, SECOND = np.array([0.0, 1.0, 2.0, 3.0, 4.0]), np.array([4.0, 1.0, 2.0, 2.0, 0.0])
APART = (scipy.stats.rankdata(FIRST) - scipy.stats.rankdata(SECOND)) / 5
CHANCES = [
    np.array([0.1, 0.7, 0.4, 0.9, 0.5]), np.array([0.04, 0.9, 0.9, 0.9, 0.9]), np.full(5, 0.15),
    np.array([0.3, 0.8, 0.8, 0.0, 0.0]),
]  # fmt: skip
RANKS = RankDifference(2.0, None, 5, 0.3, float(np.abs(APART).max()))


@cache
def ends_of_ranks(labels, nats):
    positive = np.array(labels)
    units = (1.0 + APART[positive] / RANKS.reach) / 2.0
    both = 0 < positive.sum() < 5
    area = (1.0 + apart_of(FIRST, SECOND, positive * 1.0, 1.0 - positive)) / 2.0 if both else 0.5
    return RANKS.interval(SeenScores(area, units, float(positive.mean())), nats)


def missed_of_ranks(chances, nats):
    """Probability of a miss over all labels of five rows."""
    true, found = (1.0 + apart_of(FIRST, SECOND, chances, 1.0 - chances)) / 2.0, 0.0
    for labels in itertools.product((False, True), repeat=5):
        chance = math.prod(p if label else 1.0 - p for p, label in zip(chances, labels, strict=True))
        low, high = ends_of_ranks(labels, nats)
        found += chance * (not low <= true <= high)
    return found


@pytest.mark.parametrize("place", range(len(CHANCES)))
def test_ranks_of_two_arrays_miss_no_more_than_their_level(place):
    for nats in LEVELS:
        assert missed_of_ranks(CHANCES[place], nats) <= math.exp(-nats)


def test_a_reach_that_sealed_labels_decide_misses_more():
    """The protection removed: the one row on which the scores differ much is positive with probability .2 only."""
    first, second, chances = np.arange(200.0), np.arange(200.0), np.zeros(200)
    chances[::2], second[199], chances[199] = 1.0, -1.0, 0.2
    apart = (scipy.stats.rankdata(first) - scipy.stats.rankdata(second)) / 200
    true = (1.0 + apart_of(first, second, chances, 1.0 - chances)) / 2.0
    missed = {"public": 0.0, "sealed": 0.0}
    for last, chance in ((0.0, 0.8), (1.0, 0.2)):
        labels = np.where(chances == 0.2, last, chances)
        area, positive = (1.0 + apart_of(first, second, labels, 1.0 - labels)) / 2.0, labels == 1.0
        for name, reach in (("public", np.abs(apart).max()), ("sealed", np.abs(apart[positive]).max())):
            procedure = RankDifference(100.0, None, 200, 0.5, float(reach))
            seen = SeenScores(area, (1.0 + apart[positive] / reach) / 2.0, float(positive.mean()))
            low, high = procedure.interval(seen, 1.5)
            missed[name] += chance * (not low <= true <= high)
    assert missed["public"] <= math.exp(-1.5) < missed["sealed"] == 0.8


@pytest.mark.parametrize("chances", CHANCES)
def test_ranks_and_share_give_the_difference(chances):
    mean, share = float(chances @ APART / chances.sum()), float(chances.mean())
    low, high = difference_from_ranks(((1.0 + mean) / 2.0,) * 2, (share, share), 1.0)
    assert low == high == pytest.approx((1.0 + apart_of(FIRST, SECOND, chances, 1.0 - chances)) / 2.0)


def test_bounds_hold_for_all_means_and_shares_between():
    rng = np.random.default_rng(0)
    for _ in range(50):
        units, shares = np.sort(rng.random(2)), np.sort(rng.random(2)) * 0.8
        low, high = difference_from_ranks(tuple(units), tuple(shares), 0.6)
        for unit, share in rng.random((20, 2)):
            unit, share = units[0] + unit * (units[1] - units[0]), shares[0] + share * (shares[1] - shares[0])
            value = min(max((1.0 + 0.6 * (2.0 * unit - 1.0) / (1.0 - share)) / 2.0, 0.0), 1.0)
            assert low - 1e-12 <= value <= high + 1e-12


def test_both_scores_are_dealt_alike_and_the_reach_is_that_of_all_rows():
    scores, labels = np.random.default_rng(0).random((2, 40)), np.arange(40) % 3 == 0
    area, rows = (
        measure_of(METRICS["roc_auc"]),
        Judged(scores[0], labels * 1.0, order=np.random.default_rng(1).permutation(40)),
    )
    assert set(area.see_difference(rows, rows, Setting()).units) == {0.5}
    ranks = scipy.stats.rankdata(scores, axis=1) / 40
    assert area.reach(*scores, Setting()) == pytest.approx(np.abs(ranks[0] - ranks[1]).max())
