"""The smallest gain that a gate names, beside all results that there can be: the least gain with a proof has it."""

import math
from itertools import product

import numpy as np
import pytest

from everhold.gates.challenge import NEW_CASES, NEW_RUNS
from everhold.gates.results import CaseMetric, CaseSuite
from everhold.gates.units import PairedResults, UnitPlan

GUARD = {"g": 0.5}


def plan(population, *, cases=6, runs=1, groups=None, margin=0.0, tail=False, **guards):
    metrics = tuple(CaseMetric(name, yes_no=True) for name in ("m", *guards))
    suite = CaseSuite(tuple(range(cases)), metrics, ("m",), margin, guards, runs, population, tail=tail)
    return UnitPlan(suite, np.arange(cases) if groups is None else np.asarray(groups))


def results(made):
    """All gains of all runs, each -1, 0 or 1, with guards at their best; and the mean gain."""
    cases, runs = len(made.suite.ids), made.suite.runs
    for gains in product((-1.0, 0.0, 1.0), repeat=cases * runs):
        gain = np.array(gains).reshape(cases, runs)
        own, other = (np.stack([side, *[np.full_like(side, best)] * len(made.suite.not_worse)], axis=-1)
                      for side, best in ((np.maximum(gain, 0.0), 1.0), (np.maximum(-gain, 0.0), 0.0)))  # fmt: skip
        yield float(gain.mean()), PairedResults(made, own, other, other)


PLANS = {
    "signs": plan(NEW_CASES),
    "signs beside a guard": plan(NEW_CASES, **GUARD),
    "signs beyond a margin": plan(NEW_CASES, margin=0.1),
    "groups of unlike sizes": plan(NEW_CASES, groups=[0, 0, 0, 1, 2, 2]),
    "means of runs": plan(NEW_CASES, cases=3, runs=2),
    "runs": plan(NEW_RUNS, cases=3, runs=2),
    "runs beyond a margin": plan(NEW_RUNS, cases=2, runs=3, margin=0.15),
    "runs beside a guard": plan(NEW_RUNS, cases=2, runs=3, **GUARD),
    "runs by their tail": plan(NEW_RUNS, cases=2, runs=3, tail=True),
}


@pytest.mark.parametrize("name", PLANS)
def test_the_named_gain_is_the_smallest_that_any_results_prove(name):
    made, told = PLANS[name], set()
    every = list(results(made))
    for nats in (0.7, 1.0, 1.4, 2.1, 2.8, 3.5, 4.2):
        proved = [gain for gain, found in every if found.proves(nats)]
        assert made.can_prove(nats) == bool(proved)
        named = made.smallest_step(nats)
        assert (named is None) == (not proved)
        if proved:
            assert named == pytest.approx(min(proved), abs=1e-9)
        told.add(named and round(named, 6))
    assert len(told) > 2


def test_single_runs_of_150_cases_need_ten_wins_and_at_the_end_of_an_open_challenge_twelve():
    made, nats = plan(NEW_CASES, cases=150), 6.6
    assert made.smallest_step(nats) == pytest.approx(math.ceil(nats / math.log(2.0)) / 150)
    assert made.smallest_step(nats, looks=True) == pytest.approx(12 / 150)
    order, looks = range(150), [150]
    for wins, proved in ((11, False), (12, True)):
        own = np.zeros((150, 1, 1))
        own[:wins] = 1.0
        found = PairedResults(made, own, np.zeros_like(own), np.zeros_like(own))
        assert found.proves_early(nats, order, looks, planned_looks=1) == proved


def test_any_numbers_prove_the_gain_that_is_named_and_no_smaller_one_that_is_even():
    suite = CaseSuite(tuple(range(40)), (CaseMetric("m"),), ("m",), 0.0, {}, 1, NEW_CASES)
    made = UnitPlan(suite, np.repeat([0, 0, 1, 2, 3], 8))
    named = made.smallest_step(1.2)
    for gain, proved in ((0.999 * named, False), (1.001 * named, True)):
        groups = np.full(4, 40 * gain / 4) / made.sizes
        own = groups[made.groups][:, None, None]
        assert PairedResults(made, own, np.zeros_like(own), np.zeros_like(own)).proves(1.2) == proved
