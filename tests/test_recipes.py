"""The loops of optimisers in the guide of suites climb on open cases, ask once, and are promoted."""

import re
import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import everhold as eh

GUIDE = (Path(__file__).parents[1] / "docs/guides/suites.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r'```python title="(\w+)_loop.py"\n(.*?)```', GUIDE, re.DOTALL))


@pytest.fixture
def loop(tmp_path, monkeypatch):
    """Runs a recipe over a suite whose versions are shares of passed runs; GEPA and DSPy are stand-ins."""
    monkeypatch.chdir(tmp_path)
    rng, asked = np.random.default_rng(0), []
    cases = [f"case {number}" for number in range(80)]

    def passes(version, case):
        asked.append((version, case))
        return int(rng.random() < version)

    def optimize_anything(*, seed_candidate, evaluator, dataset):
        for candidate in (seed_candidate, 0.95):
            assert all(evaluator(candidate, example) in (0, 1) for example in dataset)
        return SimpleNamespace(best_candidate=0.95)

    class MIPROv2:
        def __init__(self, metric):
            self.metric = metric

        def compile(self, program, trainset):
            assert program == 0.4
            assert all(self.metric(example, None) in (0, 1) for example in trainset)
            return 0.95

    def build(trial):
        return trial.suggest_float("share", 0.3, 0.95)

    def metric(example, prediction, trace=None):
        return passes(0.95, example)

    given = {
        "agent": {"cases": cases, "passes": passes, "first": 0.4, "build": build, "metric": metric,
                  "examples": {case: case for case in cases}},
        "gepa": {}, "gepa.optimize_anything": {"optimize_anything": optimize_anything}, "dspy": {"MIPROv2": MIPROv2},
    }  # fmt: skip
    for name, attributes in given.items():
        monkeypatch.setitem(sys.modules, name, module := ModuleType(name))
        vars(module).update(attributes)
    sys.modules["gepa"].optimize_anything = sys.modules["gepa.optimize_anything"]
    first = {case: [passes(0.4, case) for _ in range(4)] for case in cases}
    eh.seal_cases("suite.db", results=first, better="passed", units="runs", open=0.5, challenges=1).close()
    asked.clear()

    def call(name):
        Path("loop.py").write_text(RECIPES[name], encoding="utf-8")
        runpy.run_path("loop.py")
        with eh.Holdout.open("suite.db", "suite") as suite:
            return asked, suite.gate(name="main")

    return call


@pytest.mark.parametrize("name", ["gepa", "dspy", "optuna"])
def test_a_loop_climbs_on_open_cases_and_asks_once(loop, name, capsys):
    assert len(RECIPES[name].splitlines()) < 15
    asked, gate = loop(name)
    assert capsys.readouterr().out.startswith("promoted: passed is better by more than 0 (proved)")
    climbed = {case for _, case in asked[: -4 * 80]}  # before the runs of the best version
    assert climbed == set(gate.open_cases)
    assert gate.status()["challenges"] == 1
