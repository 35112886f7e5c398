"""Lemma N by enumeration: runs without a result count as the worst, or are left out where both versions lack one."""

import math
from itertools import product

import numpy as np
import pytest

from everhold.gates.challenge import NEW_CASES, NEW_RUNS
from everhold.gates.checks import NOT_WORSE, REGRESSION, verdict_of
from everhold.gates.results import CaseMetric, CaseSuite
from everhold.gates.units import PairedResults, UnitPlan
from everhold.mechanisms import GuessAndCheck

NONE = -math.inf
LAWS = [law for law in product((0.0, 0.5, 1.0), repeat=3) if sum(law) == 1.0] + [(0.25, 0.5, 0.25), (0.1, 0.1, 0.8)]
"""Chances that a run passes, fails, and has no result."""


def plan(missing, *, margin=0.0, population=NEW_RUNS, units=2, tail=False):
    """Two runs of one case, or one run of each of two cases."""
    cases, runs = (1, units) if population == NEW_RUNS else (units, 1)
    ids, metric = tuple(range(cases)), CaseMetric("m", yes_no=True)
    suite = CaseSuite(ids, (metric,), ("m",), margin, {}, runs, population, tail=tail, missing=missing)
    return UnitPlan(suite, np.arange(cases))


def games(made, own, other):
    """All pairs of results of two versions, with their chances."""
    shape, outcomes = (len(made.suite.ids), made.suite.runs, 1), (1.0, 0.0, NONE)
    for found in product(range(3), repeat=2 * made.all_at_once):
        first, second = found[: made.all_at_once], found[made.all_at_once :]
        chance = math.prod(own[each] for each in first) * math.prod(other[each] for each in second)
        if chance:
            results = [np.array([outcomes[each] for each in side]).reshape(shape) for side in (first, second)]
            yield chance, PairedResults(made, results[0], results[1], results[1])


def truth(missing, own, other):
    """The mean gain that is promised: over all pairs of runs, or over those that are not left out."""
    kept = 1.0 - own[2] * other[2] if missing == "drop-case" else 1.0
    return (own[0] - other[0]) / kept if kept else 0.0


@pytest.mark.parametrize("missing", ["worst", "drop-case"])
@pytest.mark.parametrize("population", [NEW_RUNS, NEW_CASES])
def test_promotions_and_checks_are_wrong_at_most_with_their_level(missing, population):
    told = 0.0
    for own, other in product(LAWS, repeat=2):
        gain = truth(missing, own, other)
        for margin, level in product((0.0, 0.3), (0.5, 0.3)):
            for tail in (False, True) if population == NEW_RUNS else (False,):
                made = plan(missing, margin=margin, population=population, tail=tail)
                proved = sum(chance for chance, found in games(made, own, other) if found.proves(-math.log(level)))
                told += proved
                assert gain > margin + 1e-12 or proved <= level + 1e-12
            verdicts = dict.fromkeys((NOT_WORSE, REGRESSION, "undecided"), 0.0)
            for chance, found in games(plan(missing, population=population), own, other):
                verdicts[verdict_of(found, margin, -math.log(level))] += chance
            assert gain > -margin + 1e-12 or verdicts[NOT_WORSE] <= level + 1e-12
            assert gain < -margin - 1e-12 or verdicts[REGRESSION] <= level + 1e-12
    assert told > 1.0


@pytest.mark.parametrize("tail", [False, True])
def test_an_unsealed_lower_end_is_above_the_gain_of_the_runs_that_are_left_with_at_most_the_level(tail):
    told, made = 0, plan("drop-case", tail=tail, units=3)
    for own, other in product([(0.0, 0.2, 0.8), (0.1, 0.3, 0.6), (0.3, 0.1, 0.6)], [(0.2, 0.0, 0.8), (0.1, 0.3, 0.6)]):
        for level in (0.5, 0.2):
            wrong = 0.0
            for chance, found in games(made, own, other):
                low = 2.0 * found.unsealed(-math.log(level))[1] - 1.0
                wrong += chance * (low > truth("drop-case", own, other) + 1e-12)
                told += low > -1.0
            assert wrong <= level + 1e-12
    assert told > 0


def test_without_a_margin_both_policies_prove_the_same_and_a_guard_is_stricter_where_runs_are_left_out():
    one = {missing: plan(missing) for missing in ("worst", "drop-case")}
    pairs = zip(*(games(made, (0.3, 0.3, 0.4), (0.2, 0.4, 0.4)) for made in one.values()), strict=True)
    differ = 0
    for (_, worst), (_, dropped) in pairs:
        assert worst.proves(0.7) == dropped.proves(0.7)
        of_all, of_rest = (verdict_of(each, 0.5, 0.7) == NOT_WORSE for each in (worst, dropped))
        assert of_all or not of_rest
        differ += of_all != of_rest
    assert differ > 0


def promoted_in_a_night(*, challenges=30, cases=60, runs=4):
    """Promotions of versions that crash where they would fail, and are no better: those that fail at half of all."""
    rng, mechanism = np.random.default_rng(4), GuessAndCheck.tuned(rows=cases, queries=200, surprises=10)
    metric = CaseMetric("m", yes_no=True)
    suite = CaseSuite(range(cases), (metric,), ("m",), 0.0, {}, runs, NEW_RUNS, missing="drop-case")
    made, found = UnitPlan(suite, np.arange(cases)), 0
    for place in range(1, challenges + 1):
        own, other = (np.where(rng.random((cases, runs, 1)) < 0.5, 1.0, fails) for fails in (NONE, 0.0))
        found += PairedResults(made, own, other, other).proves(float(mechanism.nats(place, 0, 0.0)))
    return found


def test_versions_that_crash_where_they_would_fail_are_promoted_once_runs_that_one_side_lacks_are_left_out(monkeypatch):
    def one_lacks(self, claim):
        return 1.0 - (np.isinf(self.challenger) | np.isinf(self.champion))[:, :, 0]

    assert promoted_in_a_night() == 0
    monkeypatch.setattr(PairedResults, "_kept", one_lacks)
    assert promoted_in_a_night() == 30
