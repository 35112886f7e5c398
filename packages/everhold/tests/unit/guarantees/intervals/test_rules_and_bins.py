"""Calibration and recall at a rate: exact coverage over all labels, and over all scores, of a few rows."""

import itertools
import math
from functools import cache

import numpy as np
import pytest

from everhold.guarantees.intervals.thresholds import (
    CalibrationBets,
    OperatingPoint,
    calibration_ends,
    seen_bins,
    seen_rules,
)

LEVELS = (0.4, 1.5)
TOLD = np.array([0.1, 0.2, 0.6, 0.9])
CHANCES = [TOLD, np.array([0.3, 0.0, 0.9, 0.9]), np.array([0.02, 0.02, 0.02, 1.0])]


def labels_and_chances(chances):
    for labels in itertools.product((0.0, 1.0), repeat=len(chances)):
        yield np.array(labels), math.prod(p if label else 1.0 - p for p, label in zip(chances, labels, strict=True))


@cache
def calibration_of(labels, nats):
    seen = seen_bins(TOLD, np.array(labels), 3)
    return CalibrationBets(seen, 4, 4).interval(seen, nats)


@pytest.mark.parametrize("place", range(len(CHANCES)))
def test_calibration_misses_no_more_than_its_level(place):
    chances, missed = CHANCES[place], dict.fromkeys(LEVELS, 0.0)
    true = seen_bins(TOLD, chances, 3).score
    for labels, chance in labels_and_chances(chances):
        for nats in LEVELS:
            low, high = calibration_of(tuple(labels), nats)
            missed[nats] += chance * (not low <= true <= high)
    assert all(missed[nats] <= math.exp(-nats) for nats in LEVELS)


def test_fewer_bins_than_signs_narrow_nothing():
    """All signs together leave at least what the best of the signs leaves: bins are merged after turning some."""
    rng = np.random.default_rng(0)
    told = rng.random(60)
    mass = seen_bins(told, (rng.random(60) < told**2).astype(float), 3).mass[:3]
    high = calibration_ends(mass, 2.0)[1]
    for signs in itertools.product((1, -1), repeat=3):
        merged = sum(row[::sign] for row, sign in zip(mass, signs, strict=True))
        assert high >= calibration_ends(merged[None, :], 2.0)[1] - 1e-6


RANKED = np.array([4.0, 3.0, 3.0, 2.0, 1.0])
RATES = [np.array([0.9, 0.5, 0.5, 0.2, 0.1]), np.array([0.1, 0.9, 0.9, 0.9, 0.0]), np.full(5, 0.3)]


def recall_of(upper, lower, rate):
    """Recall at a rate from weights of positives and negatives by falling score."""
    recall, alarms = np.cumsum(upper) / np.sum(upper), np.cumsum(lower) / np.sum(lower)
    return float(max(recall[alarms <= rate + 1e-12], default=0.0))


@cache
def recall_interval(labels, nats):
    planned = seen_rules(RANKED, np.array([True, True, False, False, False]), 0.4)
    seen = seen_rules(RANKED, np.array(labels) == 1.0, 0.4)
    return OperatingPoint(planned, 5, 5, 0.4, unlike=True).interval(seen, nats)


@pytest.mark.parametrize("place", range(len(RATES)))
def test_recall_at_a_rate_misses_no_more_than_its_level_for_labels_drawn_anew(place):
    chances, rate, missed = RATES[place], 0.4, dict.fromkeys(LEVELS, 0.0)
    levels = [value == RANKED for value in np.unique(RANKED)[::-1]]
    true = recall_of([chances[at].sum() for at in levels], [(1 - chances)[at].sum() for at in levels], rate)
    for labels, chance in labels_and_chances(chances):
        for nats in LEVELS:
            low, high = recall_interval(tuple(labels), nats)
            missed[nats] += chance * (not low <= true <= high)
    assert all(missed[nats] <= math.exp(-nats) for nats in LEVELS)


@pytest.mark.parametrize("labels", [(1, 1, 0, 0, 0), (1, 0, 0, 0, 0), (1, 1, 1, 1, 0)])
@pytest.mark.parametrize("laws", [((0.2, 0.3, 0.5), (0.6, 0.3, 0.1)), ((0.0, 0.0, 1.0), (0.05, 0.9, 0.05))])
def test_recall_at_a_rate_misses_no_more_than_its_level_for_models(labels, laws):
    """All scores 0, 1, 2 of five rows, given their labels."""
    upper, lower = (np.array(law)[::-1] for law in laws)
    rate, positive, missed, found = 0.1, np.array(labels, dtype=bool), dict.fromkeys(LEVELS, 0.0), {}
    true = recall_of(upper, lower, rate)
    for scores in itertools.product(range(3), repeat=5):
        chance = math.prod((upper if label else lower)[2 - score] for score, label in zip(scores, labels, strict=True))
        seen = seen_rules(np.array(scores, dtype=float), positive, rate)
        for nats in LEVELS:
            key = (*seen.hits.tolist(), -1, *seen.alarms.tolist(), nats)
            if key not in found:
                found[key] = OperatingPoint(seen, 5, 5, rate, unlike=False).interval(seen, nats)
            missed[nats] += chance * (not found[key][0] <= true <= found[key][1])
    assert all(missed[nats] <= math.exp(-nats) for nats in LEVELS)


def test_two_procedures_of_scores_are_never_taken_for_one():
    planned = seen_rules(np.array([0.9, 0.1]), np.array([True, False]), 0.1)
    few, many = (OperatingPoint(planned, rows, 10, 0.1, False) for rows in (10, 1_000))
    assert few != many
    assert len({few, many}) == 2
