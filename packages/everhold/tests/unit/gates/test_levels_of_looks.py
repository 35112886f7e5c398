"""The level that each look at the cases of a challenge receives, and what its verdict counts (S11, S12)."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from everhold.gates import units as case_units
from everhold.gates.cases import ClaimChallenge
from everhold.gates.challenge import NEW_CASES, NEW_RUNS
from everhold.gates.records import Opened
from everhold.gates.results import CaseMetric, CaseSuite
from everhold.gates.units import PairedResults, UnitPlan, draws_of_units, order_of_units
from everhold.mechanisms import GuessAndCheck, State

NATS = 5.0


def plan_of(cases=6, runs=4, population=NEW_RUNS, groups=None):
    suite = CaseSuite(range(cases), (CaseMetric("a"),), ("a",), 0.0, {}, runs, population)
    return UnitPlan(suite, np.arange(cases) if groups is None else np.array(groups))


def evidence_of(plan, challenger=0.0):
    shape = (len(plan.suite.ids), plan.suite.runs, 1)
    return PairedResults(plan, np.full(shape, challenger), np.zeros(shape), np.zeros(shape))


def opened(entry=7, looks=5, *, futility=False):
    return Opened("gate", "name", "challenger", "champion", NATS, looks, entry, None, futility)


def label(marks):
    return math.ceil(1e6 * math.log(marks))


@pytest.fixture
def looked(monkeypatch):
    """Levels and units of all looks, none of which proves anything."""
    found = []
    monkeypatch.setattr(
        case_units, "first_proof", lambda claims, units, *, nats, **_: found.append((math.exp(-nats), units))
    )
    return found


def test_draws_with_replacement_and_all_runs_at_the_end_share_the_level(looked):
    assert not evidence_of(plan_of()).proves_drawn(NATS, range(6), whole=True)
    assert [level for level, _ in looked] == pytest.approx([0.75 * math.exp(-NATS), 0.25 * math.exp(-NATS)])


def test_each_draw_looks_at_runs_of_its_own_and_then_at_the_worst_value(looked):
    evidence = evidence_of(plan_of())
    evidence.challenger[0, :, 0] = 0.0, 0.0, 1.0, 0.5
    evidence.proves_drawn(NATS, [0, 0, 1, 0, 0], whole=False)
    ((_, (units,)),) = looked
    assert units.sums == pytest.approx([0.5, 1.0, 0.5, 0.75, 0.0])  # of (1 + gain) / 2; the runs of case 0 are spent


def test_looks_at_these_cases_share_the_level_and_looks_at_new_ones_need_not(looked):
    evidence_of(plan_of(runs=2)).proves_early(NATS, range(4), [2, 4], planned_looks=3)
    evidence_of(plan_of(runs=2, population=NEW_CASES)).proves_early(NATS, range(4), [2, 4], planned_looks=3)
    assert [level for level, _ in looked] == pytest.approx([math.exp(-NATS) / 3.0, math.exp(-NATS)])


def test_looks_beside_a_guard_leave_a_tenth_of_the_level_to_the_unsealed_gain(looked):
    suite = CaseSuite(range(6), (CaseMetric("a"), CaseMetric("b")), ("a",), 0.0, {"b": 0.3}, 4, NEW_RUNS)
    shape = (6, 4, 2)
    for population, runs in ((NEW_CASES, 4), (NEW_RUNS, 2), (NEW_RUNS, 4)):
        made = UnitPlan(replace(suite, population=population, runs=runs), np.arange(6))
        found = PairedResults(made, *np.zeros((3, *shape))[:, :, :runs])
        if made.redraws:
            found.proves_drawn(NATS, range(6), whole=True)
        else:
            found.proves_early(NATS, range(4), [2, 4], planned_looks=3)
    shares = (1.0, 1.0 / 3.0, 0.75, 0.25)
    assert [level for level, _ in looked] == pytest.approx([0.9 * share * math.exp(-NATS) for share in shares])


def test_groups_are_units():
    plan = plan_of(4, 1, NEW_CASES, groups=[0, 1, 1, 1])
    assert (plan.count, plan.sizes.tolist(), plan.yes_no) == (2, [1.0, 3.0], False)
    assert plan_of(4, 1, NEW_CASES).yes_no


def test_each_challenge_has_an_order_and_draws_of_its_own():
    for made in (order_of_units, draws_of_units):
        assert made(b"key", opened(7), 30) == made(b"key", opened(7), 30) != made(b"key", opened(8), 30)


@pytest.mark.parametrize(
    ("challenge", "promoted", "after"),
    [
        ({}, True, State(charged=1)),
        ({}, False, State()),
        ({"opened": opened()}, True, State(charged=1, labels=label(5))),
        ({"opened": opened(futility=True)}, True, State(charged=1, labels=label(10))),
        ({"opened": opened(futility=True), "futile": True}, False, State(charged=1, labels=label(10))),
        ({"opened": opened()}, False, State()),
    ],
)  # fmt: skip
def test_a_mark_is_a_surprise_and_its_look_is_a_label(challenge, promoted, after):
    mechanism, levels, kept = GuessAndCheck.tuned(rows=100, queries=20), [], []

    def proves(nats):
        levels.append(nats)
        return promoted

    made = SimpleNamespace(
        gate=SimpleNamespace(margin=0.0), mechanism=mechanism, proves=proves, keep=lambda: kept.append(1),
        **{"opened": None, "futile": False, "unsealed": None, **challenge},
    )  # fmt: skip
    state, (outcome,) = ClaimChallenge.answer(made, State(), None, [0], None)
    assert (outcome.answer["source"] == "promoted") is promoted is bool(kept)
    assert state == State(asked=1, charged=after.charged, labels=after.labels)
    assert levels == ([] if made.futile else [NATS if made.opened else float(mechanism.nats(1, 0, 0.0))])
