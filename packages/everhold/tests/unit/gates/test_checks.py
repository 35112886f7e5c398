"""S17 by enumeration: a check is wrong with at most the level of its node, whatever is true."""

import math
from itertools import product

import numpy as np

from everhold.gates import checks
from everhold.gates.challenge import NEW_RUNS
from everhold.gates.checks import verdict_of
from everhold.gates.results import CaseMetric, CaseSuite
from everhold.gates.units import PairedResults, UnitPlan
from everhold.guarantees.intervals.claims import ClaimUnits
from everhold.mechanisms import GuessAndCheck

RUNS = 3


def suite(metrics=1, slack=0.3):
    named = tuple(CaseMetric(f"m{place}", yes_no=True) for place in range(metrics))
    slacks = {metric.name: slack for metric in named[1:]}
    return UnitPlan(CaseSuite(("a",), named, ("m0",), 0.0, slacks, RUNS, NEW_RUNS), np.zeros(1, dtype=np.int64))


def laws(plan, chances, *, margin, nats):
    """Probability of each verdict, where the baseline always passes half of its runs and metrics are independent."""
    found = dict.fromkeys((checks.NOT_WORSE, checks.REGRESSION, checks.UNDECIDED), 0.0)
    baseline = np.tile(np.array([1.0, 0.0, 1.0])[None, :, None], (1, 1, len(chances)))
    for outcome in product((0.0, 1.0), repeat=RUNS * len(chances)):
        own = np.array(outcome).reshape(1, RUNS, len(chances))
        chance = np.prod(np.where(own == 1.0, chances, 1.0 - np.array(chances)))
        found[verdict_of(PairedResults(plan, own, baseline, baseline), margin, nats)] += float(chance)
    return found


def wrong(plan, chances, *, margin, nats, slack=0.3):
    """Probability of a false verdict: gains are those over a baseline that passes two runs of three."""
    gains = np.array(chances) - 2.0 / 3.0
    slacks = np.array([margin] + [slack] * (len(chances) - 1))
    told = laws(plan, chances, margin=margin, nats=nats)
    not_worse = bool((gains > -slacks - 1e-12).all())
    regression = bool((gains < -np.maximum(slacks, 0.0) + 1e-12).any())
    return (0.0 if not_worse else told[checks.NOT_WORSE]) + (0.0 if regression else told[checks.REGRESSION])


def worst(plan, *, margin, nats):
    metrics = len(plan.suite.metrics)
    return max(
        wrong(plan, chances, margin=margin, nats=nats) for chances in product(np.linspace(0.0, 1.0, 16), repeat=metrics)
    )


def test_a_check_is_wrong_at_most_with_its_level():
    for level in (0.5, 0.3, 0.15):
        for margin in (0.0, 0.2, -0.1):
            assert worst(suite(), margin=margin, nats=-math.log(level)) <= level + 1e-12


def test_a_check_of_two_metrics_shares_the_level_of_regressions():
    plan, nats = suite(metrics=2), -math.log(0.5)
    assert worst(plan, margin=0.3, nats=nats) <= 0.5
    told = laws(suite(), (0.2,), margin=0.2, nats=nats)
    assert told[checks.REGRESSION] > 0.1
    assert sum(told.values()) > 1.0 - 1e-9


def night(*, gain, margin, nats_of, checked=200, cases=60):
    """Verdicts of checks of versions that are all as far from the baseline, whose runs are new each time."""
    rng = np.random.default_rng(3)
    claims = CaseSuite(range(cases), (CaseMetric("m0", yes_no=True),), ("m0",), 0.0, {}, 4, NEW_RUNS)
    plan, chance = UnitPlan(claims, np.arange(cases)), rng.uniform(0.3, 0.9, (cases, 1, 1))

    def runs(of):
        return (rng.random((cases, 4, 1)) < of).astype(float)

    return [
        verdict_of(PairedResults(plan, runs(chance + gain), runs(chance), runs(chance)), margin, nats_of(place))
        for place in range(1, checked + 1)
    ]


def test_versions_just_beyond_the_margin_are_never_called_not_worse_and_with_a_level_for_each_check_they_are():
    mechanism = GuessAndCheck.tuned(rows=60, queries=200, surprises=2)

    def of_tree(place):
        return float(mechanism.nats(place, 0, 0.0))

    def for_each(_):
        return -math.log(0.5)

    for gain, wrong_verdict in ((-0.125, checks.NOT_WORSE), (-0.115, checks.REGRESSION)):
        assert wrong_verdict not in night(gain=gain, margin=0.12, nats_of=of_tree)
        assert wrong_verdict in night(gain=gain, margin=0.12, nats_of=for_each)
    assert checks.NOT_WORSE in night(gain=0.0, margin=0.3, nats_of=of_tree, checked=5)
    assert checks.REGRESSION in night(gain=-0.3, margin=0.0, nats_of=of_tree, checked=5)


def test_claims_of_a_check_have_their_levels(monkeypatch):
    levels = []
    monkeypatch.setattr(
        ClaimUnits, "first_look", lambda units, claim, *, planned, nats, looks: levels.append((claim.floor, nats)) or 1
    )
    for margin, first, turned, extra in ((0.2, -0.2, 0.2, 0.0), (-0.1, 0.1, 0.0, math.log(2.0))):
        levels.clear()
        runs = np.ones((1, RUNS, 2))
        assert verdict_of(PairedResults(suite(metrics=2), runs, runs, runs), margin, 5.0) == checks.UNDECIDED
        both = 5.0 + extra + math.log(2.0)  # any of two claims proves a regression
        assert levels == [(first, 5.0 + extra), (-0.3, 5.0 + extra), (turned, both), (0.3, both)]
