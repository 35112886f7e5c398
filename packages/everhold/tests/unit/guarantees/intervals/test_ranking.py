"""AUC without counts: exact coverage on tiny populations, and the same with rows dealt by their values."""

import itertools
import math
from functools import cache

import numpy as np
import pytest
import scipy.stats

from everhold.guarantees.intervals.joint import ratio_bets
from everhold.guarantees.intervals.ranking import (
    BlockBetting,
    RankBetting,
    SeenScores,
    _single,
    area_from_ranks,
    block_averages,
    public_ranks,
    rank_from_area,
)

UPPER, LOWER = np.array([0.1, 0.3, 0.6]), np.array([0.5, 0.3, 0.2])  # laws of the scores 0, 1, 2 by class
LEVELS = (0.4, 1.5)
LABELS = [label for label in itertools.product((False, True), repeat=4) if 0 < sum(label) < 4]


def area(upper, lower):
    wins = np.array([[(a > b) + (a == b) / 2 for b in range(3)] for a in range(3)])
    return float(upper @ wins @ lower)


def outcomes(labels):
    """Scores of rows with these labels, and their probabilities."""
    for scores in itertools.product(range(3), repeat=len(labels)):
        chance = math.prod((UPPER if label else LOWER)[score] for score, label in zip(scores, labels, strict=True))
        yield np.array(scores, dtype=float), chance


BLOCKS, MANY = BlockBetting(2.0, None), BlockBetting(100.0, None)


@cache
def block_interval(units, nats):
    return BLOCKS.interval(SeenScores(float(np.mean(units)), np.array(units), 0.5), nats)


def missed(labels, nats, deal):
    found, true = 0.0, area(UPPER, LOWER)
    for scores, chance in outcomes(labels):
        low, high = block_interval(tuple(sorted(block_averages(scores, np.array(labels), deal(scores)))), nats)
        found += chance * (not low <= true <= high)
    return found


def in_order(scores):
    return np.arange(len(scores))


@pytest.mark.parametrize("labels", LABELS[::2])
def test_bets_on_blocks_are_fair_whatever_the_labels(labels):
    true, gained, lost, mean = area(UPPER, LOWER), 0.0, 0.0, 0.0
    for scores, chance in outcomes(labels):
        units = _single(block_averages(scores, np.array(labels), np.arange(4)))
        mean += chance * units.mean
        gained += chance * math.exp(ratio_bets(units, 1.5).at(true))
        lost += chance * math.exp(ratio_bets(units.mirrored, 1.5).at(1.0 - true))
    assert mean == pytest.approx(true)
    assert gained <= 1.0
    assert lost <= 1.0


@pytest.mark.parametrize("labels", LABELS[::3])
def test_intervals_of_blocks_miss_no_more_than_their_level(labels):
    for nats in LEVELS:
        assert missed(labels, nats, in_order) <= math.exp(-nats)


def test_blocks_dealt_by_value_miss_more_than_their_level():
    """The protection removed: the lowest score of one class meets the lowest of the other."""
    rng, true = np.random.default_rng(0), float(scipy.stats.norm.cdf(0.5 / math.sqrt(2.0)))
    missing = {"by chance": 0, "by value": 0}
    for _ in range(12):
        positive = rng.permutation(np.arange(200) < 100)
        scores = rng.normal(size=200) + 0.5 * positive
        for name, order in (("by chance", rng.permutation(200)), ("by value", np.argsort(scores))):
            units = block_averages(scores, positive, order)
            low, high = MANY.interval(SeenScores(float(np.mean(units)), units, 0.5), 1.6)
            missing[name] += not low <= true <= high
    assert missing["by chance"] <= 4 < 12 == missing["by value"]


CHANCES = np.array([0.1, 0.7, 0.4, 0.9]), np.array([0.05, 0.05, 0.3, 0.9]), np.array([0.5, 0.5, 0.5, 0.5])
SCORES = np.array([0.0, 1.0, 1.0, 3.0])


def area_of_labels(chances):
    """AUC of a row and another one drawn from these rows, with labels drawn anew."""
    wins = (SCORES[:, None] > SCORES[None, :]) + 0.5 * (SCORES[:, None] == SCORES[None, :])
    weights = chances[:, None] * (1.0 - chances)[None, :]
    return float(np.sum(weights * wins) / np.sum(weights))


@pytest.mark.parametrize("chances", CHANCES)
def test_ranks_and_share_give_the_area(chances):
    ranks = public_ranks(SCORES)
    rank, share = float(chances @ ranks / chances.sum()), float(chances.mean())
    assert area_from_ranks(rank, share) == pytest.approx(area_of_labels(chances))
    assert rank_from_area(area_of_labels(chances), share) == pytest.approx(rank)


@cache
def rank_interval(labels, nats):
    counted = np.array(labels)
    seen = SeenScores(0.5 if counted.all() else area_of_labels(counted * 1.0), public_ranks(SCORES)[counted],
                      float(counted.mean()))  # fmt: skip
    return RankBetting(2.0, None, 4, 0.5).interval(seen, nats)


@pytest.mark.parametrize("chances", CHANCES)
def test_intervals_of_ranks_miss_no_more_than_their_level(chances):
    for nats in LEVELS:
        found = 0.0
        for labels in itertools.product((False, True), repeat=4):
            chance = math.prod(p if label else 1.0 - p for p, label in zip(chances, labels, strict=True))
            low, high = (0.0, 1.0) if not any(labels) else rank_interval(labels, nats)
            found += chance * (not low <= area_of_labels(chances) <= high)
        assert found <= math.exp(-nats)


def test_classes_change_places_with_the_sign_of_the_scores():
    rng = np.random.default_rng(3)
    scores, positive, order = rng.normal(size=50).round(1), rng.random(50) < 0.3, rng.permutation(50)
    blocks = block_averages(scores, positive, order)
    assert len(blocks) == positive.sum()
    np.testing.assert_allclose(blocks, block_averages(-scores, ~positive, order))
    assert BLOCKS.interval(SeenScores(0.5, block_averages(scores, np.ones(50, dtype=bool), order), 0.0), 2.0) == (0, 1)


def test_rows_on_which_a_model_fails_may_all_be_of_the_class():
    procedure, units = RankBetting(30.0, None, 100, 0.3), np.full(30, 0.5)
    (low, high), (least, most) = (
        procedure._not_excluded(SeenScores(0.5, units, 0.3, (failing, 0.0)), 3.0) for failing in (0.0, 0.1)
    )
    assert least == low
    assert most >= high + 0.1
