"""Independent rows: promises are kept against honest, climbing and probing analysts, and broken without protection."""

from __future__ import annotations

import pytest
from independent_cases import CASES

RUNS = {"honest": 300, "climbing": 300, "probing": 100}
SLOW = {"subsampling": 10, "random_rows": 10}  # they draw rows for every answer
BITES = [name for name in CASES if name != "sample_splitting"]  # which asks too few queries to be attacked

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("mechanism", "analyst"), [(name, analyst) for name, case in CASES.items() for analyst in case.analysts()]
)
def test_promises_are_kept(mechanism, analyst):
    study = CASES[mechanism].study(analyst, runs=SLOW.get(mechanism, RUNS[analyst]))
    assert study.radius < 0.5
    assert study.consistent, study.to_text()
    assert study.clopper_pearson[0] <= 1.0 - study.confidence


@pytest.mark.parametrize("mechanism", BITES)
def test_the_same_radius_is_broken_without_noise_and_check(mechanism):
    study = CASES[mechanism].unprotected(runs=20)
    assert study.rate > 0.9, study.to_text()


@pytest.mark.parametrize("mechanism", ["guess_and_check", "thresholdout"])
def test_a_promise_about_spending_is_part_of_the_study(mechanism):
    promise = CASES[mechanism].mechanism().promise()
    assert promise.spends_only_beyond > 0.01
    study = CASES[mechanism].study("probing", runs=5)
    assert any(outcome.refused for outcome in study.outcomes)  # the budget was attacked, and spent beyond that distance
    assert not any(outcome.needless for outcome in study.outcomes)
