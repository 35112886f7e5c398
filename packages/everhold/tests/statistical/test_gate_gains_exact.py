"""Gains of gates over all labels of a few unlike rows: how often the lower limit is too high, exactly.

A gate promotes at a level on one side. So the limit may be above the true gain with that level, and no more.
"""

import itertools
import math
from functools import cache

import numpy as np
import pytest
import scipy.stats

from everhold.guarantees.intervals.gains import (
    ClassGains,
    RatioGain,
    SeenClasses,
    cells_of_pairs,
    counts_of_pairs,
)
from everhold.guarantees.intervals.ranking import RankDifference, SeenScores
from everhold.queries.metrics.measures import measure_of
from everhold.queries.metrics.registry import METRICS
from everhold.queries.metrics.score_parts import Judged, Setting, Sized

CHANCES = np.array([0.9, 0.2, 0.5, 0.7, 0.1, 0.6])  # of label 1
ROWS = len(CHANCES)
SETTING = Setting(classes=2, low=0.0, high=1.0, clip=1.0, centre=0.4)
WORLDS = [np.array(labels, dtype=np.float64) for labels in itertools.product([0, 1], repeat=ROWS)]
WEIGHTS = np.array([np.prod(np.where(world == 1, CHANCES, 1.0 - CHANCES)) for world in WORLDS])
LEVEL = 0.25


def errors(told):
    return float(np.mean(CHANCES * (told - 1.0) ** 2 + (1.0 - CHANCES) * told**2))


def explained(told):
    return 1.0 - errors(told) / (CHANCES.mean() * (1.0 - CHANCES.mean()))


def correlation(told):
    hits, said = np.mean(CHANCES * told), np.mean(told)
    share = CHANCES.mean()
    return (hits - said * share) / math.sqrt(said * (1.0 - said) * share * (1.0 - share))


def balanced(told):
    return (np.sum(CHANCES * told) / CHANCES.sum() + np.sum((1 - CHANCES) * (1 - told)) / np.sum(1 - CHANCES)) / 2.0


TRUE = {  # on the scale [0, 1]
    "balanced_accuracy": balanced,
    "matthews_corrcoef": lambda told: (1.0 + correlation(told)) / 2.0,
    "r2": lambda told: (1.0 + explained(told)) / 2.0,
    "neg_root_mean_squared_error": lambda told: math.sqrt(errors(told)),
}
TOLD = np.clip(CHANCES + np.random.default_rng(5).normal(0.0, 0.3, (2, ROWS)), 0.02, 0.98)


def too_high(name, level):
    """Probability that the lower limit of the gain is above the true one, over all labels."""
    kind, told = measure_of(METRICS[name]), TOLD
    told = np.round(told) if kind.metric.outputs == "classes" else told
    true = (1.0 + TRUE[name](told[0]) - TRUE[name](told[1])) / 2.0
    reach = kind.reach(*told, SETTING)

    def see(labels):
        return kind.see_difference(Judged(told[0], labels), Judged(told[1], labels), SETTING, reach=reach)

    procedure = kind.procedure(see(np.round(CHANCES)), SETTING, Sized(ROWS, ROWS, ROWS), reach=reach)
    nats = -math.log(level) - math.log(2.0)  # of both sides, as a challenge asks for it
    lows = np.array([procedure.interval(see(labels), nats)[0] for labels in WORLDS])
    return float(WEIGHTS @ (lows > true + 1e-12))


@pytest.mark.parametrize("name", TRUE)
def test_gains_of_parts_are_too_high_with_the_level_at_most(name):
    assert too_high(name, LEVEL) <= LEVEL


@pytest.mark.parametrize(
    ("name", "share"), [("balanced_accuracy", 0.5), ("r2", 0.95), ("neg_root_mean_squared_error", 0.95)]
)
def test_gains_of_the_sealed_rows_are_too_high_more_often(name, share):
    """The protection removed: the largest parts are what the sealed rows say."""
    assert too_high(name, 0.9999 / share) > LEVEL


CHANCES_OF_THREE = np.array([[0.8, 0.1, 0.1], [0.2, 0.5, 0.3], [0.1, 0.6, 0.3], [0.0, 0.2, 0.8]])
TOLD_OF_THREE = np.array([[0.0, 1.0, 1.0, 2.0], [1.0, 1.0, 0.0, 2.0]])


@pytest.fixture
def shared(monkeypatch):
    """The limit of one class is computed once for all worlds that share it."""
    plain = RatioGain.interval

    @cache
    def limit(counts, nats):
        return plain(RatioGain("f1", 4), cells_of_pairs(np.reshape(counts, (5, 5))), nats)

    monkeypatch.setattr(
        RatioGain, "interval", lambda _, seen, nats: limit(tuple(counts_of_pairs(seen).ravel().tolist()), nats)
    )


def f1_of(told, *, weighted):
    """The F1 of each class from the chances alone, on average."""
    scores = []
    for number in range(3):
        hits = np.sum(CHANCES_OF_THREE[told == number, number])
        below = (np.sum(told == number) + np.sum(CHANCES_OF_THREE[:, number])) / 2.0
        scores.append(hits / below)
    return float(np.average(scores, weights=CHANCES_OF_THREE.sum(axis=0) if weighted else None))


def classes_too_high(first, second, *, weighted, level):
    true = f1_of(first, weighted=weighted) - f1_of(second, weighted=weighted)
    procedure, found = ClassGains("f1", 4, weighted), 0.0
    for labels in itertools.product(range(3), repeat=4):
        chance = math.prod(CHANCES_OF_THREE[row, label] for row, label in enumerate(labels))
        seen = SeenClasses.of(np.array(labels, dtype=float), first, second, 3)
        low, high = procedure.interval(seen, -math.log(level) - math.log(2.0)) if chance else (0.0, 1.0)
        found += chance * (2.0 * low - 1.0 > true + 1e-12)
        assert high == 1.0
    return found


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.usefixtures("shared")
def test_gains_in_f1_of_classes_are_too_high_with_the_level_at_most(weighted):
    assert classes_too_high(*TOLD_OF_THREE, weighted=weighted, level=LEVEL) <= LEVEL


@pytest.mark.parametrize("better", [True, False])
def test_gains_in_auc_of_known_scores_are_too_high_with_the_level_at_most(better):
    """Also where the true gain is below 0, so that the other end of the share counts."""
    scores = np.array([CHANCES, CHANCES[::-1] + 0.01])[:: 1 if better else -1]
    apart = (scipy.stats.rankdata(scores[0]) - scipy.stats.rankdata(scores[1])) / ROWS
    reach = float(np.abs(apart).max())
    true = (1.0 + float(CHANCES @ apart / CHANCES.sum()) / (1.0 - CHANCES.mean())) / 2.0
    procedure = RankDifference(ROWS / 2.0, None, ROWS, 0.5, reach)
    found = 0.0
    for world, weight in zip(WORLDS, WEIGHTS, strict=True):
        positive = world == 1.0
        share = float(positive.mean())
        sealed = 0.5 if share in (0.0, 1.0) else (1.0 + apart[positive].mean() / (1.0 - share)) / 2.0
        seen = SeenScores(sealed, (1.0 + apart[positive] / reach) / 2.0, share)
        found += weight * (procedure.interval(seen, -math.log(LEVEL) - math.log(2.0))[0] > true + 1e-12)
    assert found <= LEVEL
