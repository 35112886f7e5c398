"""Calibration, recall at a rate and median losses: exact coverage over all labels, or all values, of a few rows."""

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
from everhold.queries.metrics.measures import measure_of
from everhold.queries.metrics.registry import METRICS
from everhold.queries.metrics.score_parts import Judged, Setting, Sized

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


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("losses", [(0.0, 1.0, 2.0), (1.0, 1.0, 2.0), (0.0, 2.0, 2.0)])
def test_no_median_loss_is_missed_more_often_than_its_level(losses, size):
    """All losses of eight units that are rows or pairs of rows; 2 is the largest loss that counts."""
    measure, setting, units = measure_of(METRICS["neg_median_absolute_error"]), Setting(low=0.0, high=2.0, clip=2.0), 8
    groups, law = np.repeat(np.arange(units), size), (0.4, 0.1, 0.5)  # 1 is the only median, and all from 1 to 2 are

    def seen_of(values):
        rows = Judged(np.repeat(values, size), np.zeros(units * size), groups if size > 1 else None)
        return measure.see(rows, setting, float(size))

    sized = Sized(units * size, units * size, units * size, float(size))
    procedure = measure.procedure(seen_of(np.array(losses)[[0, 0, 0, 1, 1, 2, 2, 2]]), setting, sized)
    missed = dict.fromkeys((0.7, 1.5), 0.0)
    for counts in itertools.product(range(units + 1), repeat=2):
        if sum(counts) > units:
            continue
        many = (*counts, units - sum(counts))
        chance = math.factorial(units) * math.prod(p**k / math.factorial(k) for p, k in zip(law, many, strict=True))
        seen = seen_of(np.repeat(losses, many))
        for nats in missed:
            low, high = procedure.interval(seen, nats)
            missed[nats] += chance * (not 2.0 * low <= losses[1] <= 2.0 * high)
    assert all(missed[nats] <= math.exp(-nats) for nats in missed)


def test_two_procedures_of_scores_are_never_taken_for_one():
    planned = seen_rules(np.array([0.9, 0.1]), np.array([True, False]), 0.1)
    few, many = (OperatingPoint(planned, rows, 10, 0.1, False) for rows in (10, 1_000))
    assert few != many
    assert len({few, many}) == 2
