"""Results whose runs come sorted by outcome: a file may be sorted, and its maker may sort the runs of a version."""

import math

import numpy as np
import pytest

import everhold as eh
from everhold.gates.challenge import NEW_RUNS
from everhold.gates.results import CaseSuite, metrics_for
from everhold.gates.units import PairedResults, UnitPlan, with_runs_shuffled

CASES, RUNS, LEVEL = 200, 8, 0.05


def coins(rng, *, best_first):
    """Runs of a version that is right half of the time, sorted within each case."""
    made = np.sort(rng.integers(0, 2, (CASES, RUNS)), axis=1)
    return (made[:, ::-1] if best_first else made).astype(float)


def table(runs):
    numbers = {"run": list(range(RUNS)) * CASES}
    return {"case": np.repeat(np.arange(CASES), RUNS).tolist(), **numbers, "passed": runs.ravel().tolist()}


@pytest.mark.parametrize(("shuffled", "least", "most"), [(True, 0.0, LEVEL), (False, 0.8, 1.0)])
def test_early_looks_at_sorted_runs(shuffled, least, most):
    metrics, _ = metrics_for(("passed",), {}, ranges={}, lower=None)
    suite = CaseSuite(range(CASES), metrics, ("passed",), 0.0, {}, RUNS, NEW_RUNS)
    rng, plan, games = np.random.default_rng(1), UnitPlan(suite, np.arange(CASES)), 40
    promoted = 0
    for game in range(games):
        challenger, champion = (coins(rng, best_first=best)[:, :, None] for best in (True, False))
        results = [challenger, champion, champion]
        results = with_runs_shuffled(b"key", str(game), results) if shuffled else results
        draws = rng.integers(0, CASES, CASES).tolist()
        promoted += PairedResults(plan, *results).proves_drawn(-math.log(LEVEL), draws, whole=False)
    assert least <= promoted / games <= most


def test_a_version_whose_runs_are_sorted_is_not_promoted_early(tmp_path):
    rng = np.random.default_rng(2)
    stored, made = (table(coins(rng, best_first=best)) for best in (False, True))
    runs = dict(enumerate(np.reshape(made["passed"], (CASES, RUNS)).tolist()))
    with eh.seal_cases(f"{tmp_path}/s.db", results=stored, better="passed", units="runs") as suite:
        opened = suite.gate(name="main").open("sorted", batch=CASES // 2)
        assert opened.report({case: runs[case] for case in opened.next_cases()}).goes_on


def test_orders_depend_on_the_key_the_challenger_and_the_version():
    values = np.arange(12.0).reshape(2, 6, 1)
    first, second = with_runs_shuffled(b"key", "a", [values, values])
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(np.sort(first, axis=1), values)
    np.testing.assert_array_equal(with_runs_shuffled(b"key", "a", [values])[0], first)
    for key, challenger in ((b"other", "a"), (b"key", "b")):
        assert not np.array_equal(with_runs_shuffled(key, challenger, [values])[0], first)
