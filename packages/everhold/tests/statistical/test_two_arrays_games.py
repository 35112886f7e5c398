"""Games about two arrays of predictions, at a probability of failure of .2, against an analyst who knows the law.

The analyst knows the chance of each label, chooses pairs of arrays by earlier answers, and guesses as badly as pays.
500 games of each kind: ``python packages/everhold/tests/statistical/test_two_arrays_games.py``.
"""

import sys
from dataclasses import replace

import numpy as np
import pytest

import everhold as eh
from everhold.mechanisms import GuessAndCheck, State
from everhold.mechanisms.records import Evaluations
from everhold.queries.predictions.public import apart_procedure, likely_values, set_apart
from everhold.randomness import SeededNoise
from everhold.sealing.rows.sums import cells_of
from everhold.values.base import Schema
from everhold.values.evaluation import clip_to_grid
from everhold.values.expressions import ColumnKind

ROWS, QUERIES = 200, 5
BINARY = Schema(ROWS, 0, {"y": ColumnKind.NUMBER}, label="y", label_kind="binary")
NUMBERS = replace(BINARY, label_kind="number")
MECHANISM = GuessAndCheck.tuned(rows=ROWS, queries=QUERIES, surprises=3, confidence=0.8)
UNIT = MECHANISM.unit


def brier(predictions):
    return eh.brier(predictions)


def squared(predictions):
    return eh.risk(predictions, "squared", high=100.0)


class Rare:
    """Labels of 1 are rare, and predictions are probabilities with ties."""

    schema, metric = BINARY, staticmethod(brier)

    def __init__(self, rng):
        self.chances = np.clip(rng.beta(0.3, 6.0, ROWS), 0.001, 0.999)
        self.rng = rng

    def labels(self):
        return (self.rng.random(ROWS) < self.chances).astype(float)

    def predictions(self):
        return np.clip(np.rint(20 * (self.chances + self.rng.normal(0, 0.1, ROWS))) / 20, 0, 1)

    def expected(self, bound, values_of):
        zero, one = (values_of(bound, np.full(ROWS, label)) for label in (0.0, 1.0))
        return (1.0 - self.chances) * zero + self.chances * one


class Even(Rare):
    """Labels near a coin, so that scores spread as far as they can."""

    def __init__(self, rng):
        self.chances, self.rng = rng.uniform(0.3, 0.7, ROWS), rng


class Skewed(Rare):
    """Labels with a long tail on one side, known in full: a few values and their chances for each row."""

    schema, metric = NUMBERS, staticmethod(squared)
    _STEPS, _CHANCES = np.array([0.0, 1.0, 9.0]), np.array([0.70, 0.28, 0.02])

    def __init__(self, rng):
        self.middle, self.rng = rng.normal(0, 3, ROWS), rng

    def labels(self):
        return self.middle + self.rng.choice(self._STEPS, ROWS, p=self._CHANCES)

    def predictions(self):
        moved = self.rng.random(ROWS) < 0.3
        return self.middle + 0.5 + moved * self.rng.normal(0, 2, ROWS)

    def expected(self, bound, values_of):
        values = [
            chance * values_of(bound, self.middle + step)
            for step, chance in zip(self._STEPS, self._CHANCES, strict=True)
        ]
        return np.sum(values, axis=0)


class Tail(Skewed):
    """Two predictions that differ by 1 in every row, and are equally good because of a few labels far away."""

    _STEPS, _CHANCES = np.array([0.0, 10.0]), np.array([0.95, 0.05])

    def __init__(self, rng):
        Skewed.__init__(self, rng)
        self.asked = 0

    def predictions(self):
        self.asked += 1
        return self.middle + (self.asked > 1)


def values_of(bound, labels):
    """Row values on the grid, as shares."""
    if bound.pair is None:
        return clip_to_grid(np.asarray(bound.sealed({"y": labels})), unit=UNIT) / UNIT
    one, other = (clip_to_grid(np.asarray(each.sealed({"y": labels})), unit=UNIT) for each in
                  (bound.pair.first, bound.pair.second))  # fmt: skip
    return ((UNIT + one - other) // 2) / UNIT


def game(rng, world, *, shrink=1):
    """Whether some interval, told or unsealed, misses what the law says."""
    world, state = world(rng), State()
    sealed, base = world.labels(), world.predictions()
    for number in range(QUERIES):
        other = world.predictions() if number % 2 else np.where(rng.random(ROWS) < 0.2, world.predictions(), base)
        single = number == QUERIES - 1
        if single:
            bound = world.metric(base).bind(world.schema)
        else:
            bound = eh.difference(world.metric(base), world.metric(other)).bind(world.schema)
            bound = set_apart(bound, world.schema, MECHANISM)
        true, values = float(np.mean(world.expected(bound, values_of))), values_of(bound, sealed)
        guess = min(max(true + (0.0, 0.03, -0.2)[number % 3], 0.0), 1.0)
        if single:
            from everhold.guarantees.intervals.betting import Betting

            procedure = Betting(ROWS, likely_values(bound, world.schema, None, guess=guess), guess=guess)
            seen = cells_of(np.rint(values * UNIT).astype(np.int64), unit=UNIT)
        else:
            apart = bound.pair.apart
            if shrink > 1:
                apart = replace(apart, reach=max(apart.reach // shrink, 128))
            procedure = apart_procedure(bound, apart, world.schema, None, own_guess=True, guess=guess)
            seen = cells_of(apart.shares(np.rint(values * UNIT).astype(np.int64)), unit=2 * apart.reach)
        asked = Evaluations(
            totals=np.array([[round(float(values.sum()) * UNIT)]]), guesses=np.array([round(guess * MECHANISM.steps)]),
            rows=ROWS, unit=UNIT, procedures=[procedure], seen=[seen],
        )  # fmt: skip
        state, told = MECHANISM.answer_many(state, asked, SeededNoise(0))
        low, high = max(told.lows[0], told.sealed[0, 1]), min(told.highs[0], told.sealed[0, 2])
        if not low <= true <= high:
            return True
        if told.values[0] > 0.5:  # the analyst goes on with what looks better
            base = other
    return False


WORLDS = {"rare, tied": Rare, "even": Even, "skewed": Skewed, "tail": Tail}


@pytest.mark.parametrize("world", WORLDS)
def test_no_more_games_are_lost_than_the_promise_allows(world):
    rng = np.random.default_rng(7)
    assert sum(game(rng, WORLDS[world]) for _ in range(15)) <= 3


def test_a_reach_that_predictions_do_not_allow_loses_games():
    """The protection removed: gains are taken to be eight times smaller than the predictions allow."""
    rng = np.random.default_rng(8)
    assert sum(game(rng, Tail, shrink=8) for _ in range(5)) == 5


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    for name, kind in WORLDS.items():
        rng = np.random.default_rng(1)
        print(name, sum(game(rng, kind) for _ in range(count)), "of", count, "lost; allowed", 0.2 * count)  # noqa: T201
