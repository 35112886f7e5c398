"""Differences and slices of scores over all labels of a few unlike rows: how often an interval misses, exactly."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from everhold.queries.metrics.measures import measure_of
from everhold.queries.metrics.registry import METRICS
from everhold.queries.metrics.score_parts import Judged, Setting, Sized

CHANCES = np.array([0.9, 0.2, 0.5, 0.7, 0.1, 0.6, 0.3, 0.8])  # of label 1
ROWS = len(CHANCES)
COUNTING = np.array([True, True, False, True, True, False, True, True])
SETTING = Setting(classes=2, low=0.0, high=1.0, clip=1.0)
WORLDS = [np.array(labels, dtype=np.float64) for labels in itertools.product([0, 1], repeat=ROWS)]
WEIGHTS = np.array([np.prod(np.where(world == 1, CHANCES, 1.0 - CHANCES)) for world in WORLDS])
LEVEL = 0.5
LOSSES = {
    "neg_brier_score": lambda told, y: (told - y) ** 2,
    "neg_mean_absolute_error": lambda told, y: np.abs(told - y),
    "neg_mean_squared_error": lambda told, y: (told - y) ** 2,
}


def told_by_two(kind):
    rng = np.random.default_rng(5)
    found = np.clip(CHANCES + rng.normal(0.0, 0.3, (2, ROWS)), 0.02, 0.98)
    return np.round(found) if kind.metric.outputs == "classes" else found


def true_score(name, told, counting):
    """Closed form, from the chances alone: nothing of it is the library's."""
    told, p = told[counting], CHANCES[counting]
    if name in LOSSES:
        return np.mean(p * LOSSES[name](told, 1.0) + (1.0 - p) * LOSSES[name](told, 0.0))
    return (np.sum(p * (told == 1)) / np.sum(p) + np.sum((1.0 - p) * (told == 0)) / np.sum(1.0 - p)) / 2.0


def missed(name, *, counting, models, nats=None):
    """Probability that the interval misses, over all labels."""
    kind = measure_of(METRICS[name])
    told = told_by_two(kind)[:models]
    within = np.ones(ROWS, dtype=bool) if counting is None else counting
    trues = [true_score(name, each, within) for each in told]
    true = trues[0] if models == 1 else (1.0 + trues[0] - trues[1]) / 2.0
    reach = {"reach": kind.reach(*told, SETTING)} if models == 2 else {}

    def see(labels):
        rows = [Judged(each, labels, None, counting) for each in told]
        return kind.see(rows[0], SETTING) if models == 1 else kind.see_difference(*rows, SETTING, **reach)

    procedure = kind.procedure(
        see(np.round(CHANCES)), SETTING, Sized(ROWS, ROWS, ROWS, sliced=counting is not None), **reach
    )
    found = 0.0
    for labels, weight in zip(WORLDS, WEIGHTS, strict=True):
        low, high = procedure.interval(see(labels), -np.log(LEVEL) if nats is None else nats)
        found += weight * (not low - 1e-9 <= true <= high + 1e-9)
    return found


@pytest.mark.parametrize("name", ["balanced_accuracy", *LOSSES])
@pytest.mark.parametrize(("counting", "models"), [(None, 2), (COUNTING, 1), (COUNTING, 2)])
def test_intervals_miss_with_the_level_at_most(name, counting, models):
    assert missed(name, counting=counting, models=models) <= LEVEL


@pytest.mark.parametrize(("name", "sides"), [("balanced_accuracy", 4), *((name, 2) for name in LOSSES)])
def test_a_level_that_is_not_paid_misses_more_often(name, sides):
    """The protection removed: each side of each part is won by any gain."""
    assert missed(name, counting=None, models=2, nats=0.01 - np.log(sides)) > LEVEL


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("label", np.linspace(0.0, 1.0, 11))
def test_no_label_moves_a_difference_farther_than_the_reach(name, label):
    kind = measure_of(METRICS[name])
    first, second = told_by_two(kind)
    apart = np.abs(LOSSES[name](first, label) - LOSSES[name](second, label))
    assert float(np.max(apart)) <= kind.reach(first, second, SETTING) <= 1.0
    if kind.metric.outputs != "numbers":  # others have labels 0 and 1 alone, and no clip
        return
    clip = 0.05
    clipped = np.abs(np.minimum(LOSSES[name](first, label), clip) - np.minimum(LOSSES[name](second, label), clip))
    assert float(np.max(clipped)) / clip <= kind.reach(first, second, replace(SETTING, clip=clip)) <= 1.0


@pytest.mark.parametrize("label", [0, 1, 2])
def test_no_class_moves_a_log_loss_farther_than_the_reach(label):
    kind, setting = measure_of(METRICS["neg_log_loss"]), Setting(classes=3, clip=4.0)
    told = np.random.default_rng(0).dirichlet([3.0, 3.0, 3.0], (2, 50))
    losses = np.minimum(-np.log(told[:, :, label]), setting.clip) / setting.clip
    assert float(np.max(np.abs(losses[0] - losses[1]))) <= kind.reach(*told, setting) < 1.0
