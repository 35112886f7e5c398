"""Unsealed gains by enumeration: the lower end is above the truth with at most the level, and a promotion is within."""

import functools
import math
from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest

from everhold.gates.challenge import NEW_CASES, NEW_RUNS
from everhold.gates.results import CaseMetric, CaseSuite
from everhold.gates.units import PairedResults, UnitPlan


def plan(*, margin=0.0, population=NEW_RUNS, tail=False, better=("m",), **more):
    cases, runs = (1, 3) if population == NEW_RUNS else (3, 1)
    metrics = tuple(CaseMetric(name, yes_no=True) for name in {**dict.fromkeys(better), **more})
    suite = CaseSuite(tuple(range(cases)), metrics, better, margin, more, runs, population, tail=tail)
    return UnitPlan(suite, np.arange(cases))


def games(made, own, other):
    shape = (len(made.suite.ids), made.suite.runs, 1)
    for found in product((0.0, 1.0), repeat=2 * made.all_at_once):
        first, second = (np.array(side) for side in (found[: made.all_at_once], found[made.all_at_once :]))
        chance = np.prod(np.where(first == 1.0, own, 1.0 - own)) * np.prod(np.where(second == 1.0, other, 1.0 - other))
        first, second = first.reshape(shape), second.reshape(shape)
        yield float(chance), PairedResults(made, first, second, second)


@pytest.mark.parametrize("tail", [False, True])
@pytest.mark.parametrize("population", [NEW_RUNS, NEW_CASES])
def test_a_lower_end_is_above_the_truth_with_at_most_the_level(population, tail):
    told = 0
    for own, other in product((0.1, 0.5, 0.6, 1.0), (0.0, 0.3, 0.5)):
        for margin, level in product((0.0, 0.2), (0.5, 0.2)):
            nats, wrong = -math.log(level), 0.0
            for chance, found in games(plan(margin=margin, population=population, tail=tail), own, other):
                mean, low, high = found.unsealed(nats)
                assert low <= mean <= high == 1.0
                assert not found.proves(nats) or 2.0 * low - 1.0 >= margin
                wrong += chance * (2.0 * low - 1.0 > own - other + 1e-12)
                told += low > 0.0
            assert wrong <= level + 1e-12
    assert told > 0


@pytest.mark.parametrize("own", [0.5, 0.9])
def test_beside_a_guard_a_wrong_promotion_or_lower_end_has_the_level_of_the_challenge(own):
    """All results of two metrics, of which the guard is violated and the gain is what it is."""
    level, promoted, wrong_end, either = 0.3, 0.0, 0.0, 0.0
    made, other, guarded, before, seen = plan(g=0.3), 0.4, 0.4, 0.8, {}
    for success in product((0.0, 1.0), repeat=6):
        for guard in product((0.0, 1.0), repeat=6):
            first, second = np.array([success[:3], guard[:3]]).T[None], np.array([success[3:], guard[3:]]).T[None]
            chances = np.array([[own, guarded]] * 3), np.array([[other, before]] * 3)
            chance = float(np.prod([
                np.where(found[0] == 1.0, p, 1.0 - p).prod() for found, p in zip((first, second), chances, strict=True)
            ]))  # fmt: skip
            pairs = tuple(sorted(zip(success[:3], success[3:], guard[:3], guard[3:], strict=True)))
            if pairs not in seen:  # runs are units, in any order
                found = PairedResults(made, first, second, second)
                seen[pairs] = found.proves(-math.log(level)), found.unsealed(-math.log(level))[1]
            proved, low = seen[pairs]
            above = 2.0 * low - 1.0 > own - other + 1e-12
            promoted, wrong_end = promoted + chance * proved, wrong_end + chance * above
            either += chance * (proved or above)
    assert promoted <= 0.9 * level
    assert wrong_end <= 0.1 * level
    assert either <= level


def ended(found, looks, proves, nats):
    """What is told when a challenge ends, at the first look that promotes it or at the last one."""
    for look in looks:
        test = functools.partial(proves, look)
        if test(found, nats) or look == looks[-1]:
            return test(found, nats), found.unsealed(nats, proves=test, reported=slice(None))
    raise AssertionError


@pytest.mark.parametrize("population", [NEW_CASES, NEW_RUNS])
@pytest.mark.parametrize("guards", [{}, {"g": 0.3}])
def test_the_lower_end_of_an_open_challenge_is_above_the_truth_with_at_most_the_level(population, guards):
    """Three cases with one run each, looked at one by one in any order; a guard beside them is violated or meets."""
    suite = CaseSuite(tuple(range(3)), tuple(CaseMetric(name, yes_no=True) for name in ("m", *guards)), ("m",), 0.0,
                      guards, 1, population)  # fmt: skip
    made, nats, told = UnitPlan(suite, np.arange(3)), -math.log(0.3), 0

    for chances in ((0.2, 0.5, 0.8), (0.7, 0.7, 0.7), (0.0, 0.0, 1.0), (0.9, 0.5, 0.1)):
        truth, wrong, orders = np.mean(chances), 0.0, list(permutations(range(3)))
        for passed in product((0.0, 1.0), repeat=3):
            own = np.stack([np.array(passed)[:, None], *[np.ones((3, 1)) for _ in guards]], axis=-1)
            for order in orders:

                def proves(look, found, level, order=order):
                    return found.proves_early(level, order[:look], range(1, look + 1), planned_looks=3)

                found = PairedResults(made, own, np.zeros_like(own), np.zeros_like(own))
                promoted, (mean, low, _) = ended(found, (1, 2, 3), proves, nats)
                chance = np.prod(np.where(passed, chances, 1.0 - np.array(chances))) / len(orders)
                if population == NEW_CASES:  # cases are drawn anew: each has the mean chance
                    chance = np.prod(np.where(passed, truth, 1.0 - truth)) / len(orders)
                wrong += chance * (2.0 * low - 1.0 > truth + 1e-9)
                assert low <= mean
                assert guards or not promoted or low >= 0.5
                told += low > 0.0
        assert wrong <= 0.3 * (0.1 if guards else 1.0) + 1e-9
    assert told > 0


def test_the_lower_end_of_draws_with_replacement_is_above_the_truth_with_at_most_the_level():
    """Two cases with four runs each, of which the first always passes and the second with some chance."""
    suite = CaseSuite((0, 1), (CaseMetric("m", yes_no=True),), ("m",), 0.0, {}, 4, NEW_RUNS)
    made, nats, ends = UnitPlan(suite, np.arange(2)), -math.log(0.4), set()
    for second in (0.0, 0.4):
        truth, wrong = (1.0 + second) / 2.0, 0.0
        for runs in product((0.0, 1.0), repeat=4):
            own = np.array([[1.0] * 4, runs])[:, :, None]
            found = PairedResults(made, own, np.zeros_like(own), np.zeros_like(own))
            chance = np.prod(np.where(runs, second, 1.0 - second))
            for times, first in product(range(1, 5), (0, 1)):  # the first case comes so often, and then the other one
                draws = [first] * times + [1 - first]

                def proves(look, shown, level, draws=draws):
                    return shown.proves_drawn(level, draws[: look or -1], whole=look > 0)

                _, (mean, low, _) = ended(found, (0, len(draws)), proves, nats)
                wrong += chance * 0.5 ** len(draws) * (2.0 * low - 1.0 > truth + 1e-9)
                assert low <= mean
                ends.add(low)
        assert wrong <= 0.4
    assert len(ends) > 3


def test_successes_share_the_level_and_the_gain_beside_a_guard_has_a_tenth_of_it():
    runs, worse = np.ones((1, 3, 2)), np.zeros((1, 3, 2))
    beside = PairedResults(plan(g=0.3), runs, worse, worse)
    alone = PairedResults(plan(), runs[:, :, :1], worse[:, :, :1], worse[:, :, :1])
    assert beside.unsealed(1.0) == alone.unsealed(1.0 + math.log(10.0))
    assert plan(g=0.3).for_claims(1.0) == 1.0 - math.log(0.9)
    assert plan().for_claims(1.0) == 1.0


def test_what_is_said_to_be_provable_is_at_the_level_of_the_claims():
    nats, alone = 0.5, plan()
    assert plan(g=0.3).smallest_step(nats) == pytest.approx(alone.smallest_step(nats - math.log(0.9)))
    two = plan(better=("m", "n"))
    assert two.smallest_step(nats) == pytest.approx(alone.smallest_step(nats + math.log(2.0)))
    most = next(nats for nats in np.arange(0.01, 10.0, 0.01) if not alone.can_prove(nats))
    best, worst = np.ones((1, 3, 2)), np.zeros((1, 3, 2))
    for level in (most - 0.8, most - 0.6, most + 0.1):
        assert two.can_prove(level) == PairedResults(two, best, worst, worst).proves(level)
    guarded = plan(g=1e-3)
    slack = guarded.least_slacks(nats)["g"]
    equal, gained = np.ones((1, 3, 2)), np.array([0.0, 1.0]) * np.ones((1, 3, 2))
    for times, proved in ((0.99, False), (1.01, True)):
        assert PairedResults(plan(g=times * slack), equal, gained, gained).proves(nats) == proved


def test_successes_share_the_level():
    runs = np.ones((1, 3, 2))
    worse = np.zeros((1, 3, 2))
    either = PairedResults(plan(better=("m", "n")), runs, worse, worse)
    alone = PairedResults(plan(), runs[:, :, :1], worse[:, :, :1], worse[:, :, :1])
    assert either.unsealed(1.0) == alone.unsealed(1.0 + math.log(2.0)) != alone.unsealed(1.0)
    assert replace(either, challenger=worse).unsealed(1.0)[1] < 0.5
