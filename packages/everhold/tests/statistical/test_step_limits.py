"""Steps that tests of yes-or-no runs promote in four of five challenges, beside what no test can reach.

Versions are those of `everhold plan`: the challenger is the first version with all logits moved by the same amount. The
oracle knows the variance of the runs under the null hypothesis. The whole table (docs/theory/gates.md):
``python packages/everhold/tests/statistical/test_step_limits.py 20``.
"""

import math
import sys

import numpy as np
import pytest
import scipy

from everhold.gates.nights import World
from everhold.gates.steps import POWER_80, reaches
from everhold.guarantees.intervals.claims import least_by_tail
from everhold.mechanisms import GuessAndCheck

RUNS, CHALLENGES, SIZES = 4, 300, (60, 150, 500)


def nats(confidence, *, first_only=False):
    """ln(1 / level) of a challenge before the first promotion, or that of a tree with no level after it."""
    if first_only:
        return math.log(CHALLENGES / (1.0 - confidence))
    return float(GuessAndCheck.tuned(rows=60, queries=CHALLENGES, confidence=confidence).nats(CHALLENGES // 2, 0, 0.0))


def step(cases, test, level, seed):
    """The gain of the smallest step that is promoted with a probability of 80 %."""
    world = World(cases, RUNS, np.random.default_rng(seed), others=0)
    units = cases * RUNS

    def chances(moved):
        return 0.05 + 0.9 * scipy.special.expit(world.start + moved)

    def needed(first, second):
        spread = math.sqrt(float((first * (1 - first) + second * (1 - second)).mean()) / units)
        differ = float((first * (1 - second) + second * (1 - first)).mean())
        if test == "oracle":
            spread_of_equals = math.sqrt(2.0 * float((first * (1 - first)).mean()) / units)
            return scipy.stats.norm.isf(math.exp(-level)) * spread_of_equals + POWER_80 * spread
        if test == "tail":
            return least_by_tail(units, 0.0, level) + POWER_80 * spread
        if test == "signs of pairs":
            pairs = round(units * differ)
            wins = scipy.stats.binom.isf(math.exp(-level), pairs, 0.5) + 1.0
            return (2.0 * wins - pairs) / units + POWER_80 * spread
        gains = np.arange(0.001, 0.5, 0.001)
        return next(each for each in gains if reaches(units, each, math.sqrt(differ - each * each), level))

    low, high = 0.0, 5.0
    for _ in range(30):
        moved = (low + high) / 2.0
        second = chances(moved)
        enough = needed(chances(0.0), second) <= float((second - chances(0.0)).mean())
        low, high = (low, moved) if enough else (moved, high)
    return float((chances(high) - chances(0.0)).mean())


def steps(test, level, worlds):
    """Mean steps over worlds, by number of cases."""
    return [float(np.mean([step(cases, test, level, seed) for seed in range(worlds)])) for cases in SIZES]


def test_the_wanted_steps_are_those_of_a_test_that_knows_the_variance():
    """At the level of the tree even that test stays above two of them; with 80 % confidence it is below all."""
    wanted = np.array([0.18, 0.11, 0.06])
    assert (np.array(steps("oracle", nats(0.95), 5)) > wanted)[1:].all()
    assert (np.array(steps("oracle", nats(0.8), 5)) < wanted).all()


@pytest.mark.parametrize("test", ["tail", "bets", "signs of pairs"])
def test_no_test_is_sharper_than_the_oracle(test):
    assert (np.array(steps(test, nats(0.95), 2)) > np.array(steps("oracle", nats(0.95), 2))).all()


if __name__ == "__main__":
    worlds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    for confidence in (0.95, 0.8):
        for first_only in (False, True):
            for test in ("oracle", "signs of pairs", "tail", "bets"):
                level = nats(confidence, first_only=first_only)
                found = " / ".join(f"{each:.4f}" for each in steps(test, level, worlds))
                sys.stdout.write(f"{confidence} {'first only' if first_only else 'tree'} {test}: {found}\n")
