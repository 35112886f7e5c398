"""Simulated nights of an optimiser: their gate decides as a real one, and a plan compares policies by them."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import everhold as eh
from everhold.cli.application import app
from everhold.gates.nights import SimulatedGate, World, compare_policies


def of(chance, runs, rng):
    return (rng.random((60, runs)) < chance).astype(float)


def named(results):
    return {case: runs.tolist() for case, runs in enumerate(results)}


@pytest.mark.parametrize(("runs", "share"), [(1, None), (4, 0.5)])
def test_the_simulated_gate_decides_as_a_real_one(tmp_path, runs, share):
    rng = np.random.default_rng(runs)
    champion = of(0.5, runs, rng)
    with eh.seal_cases(
        tmp_path / "s.db", results=named(champion), better="passed", units="runs", challenges=20, open=share
    ) as suite:  # fmt: skip
        gate = suite.gate(name="main")
        opened = list(gate.open_cases) if share else []
        sealed = [case for case in range(60) if case not in opened]
        simulated = SimulatedGate(champion[sealed], champion[opened], challenges=20)
        told = []
        for chance in np.linspace(0.6, 0.95, 20):
            results = of(chance, runs, rng)
            promoted = gate.challenge(named(results)).promoted
            assert simulated.promotes(results[sealed], champion[sealed]) == promoted, chance
            told.append(promoted)
            champion = results if promoted else champion
    assert 0 < sum(told) < 20


def test_a_plan_recommends_a_policy_with_proofs_and_says_how_often_nothing_is_proved():
    plan = compare_policies(cases=150, runs=4, challenges=300, nights=4)
    rows = {row["policy"]: row for row in plan.to_rows()}
    assert rows["bare score, for comparison"]["wrong steps a night"] > 1
    proving = [row for row in rows.values() if row["nights without a proof"] is not None]
    assert not any(row["wrong steps a night"] for row in proving)
    assert rows[plan.recommended] == max(proving, key=lambda row: row["ends at"])
    assert "ask once" in plan.recommended
    assert f"{100 * plan.unproved:.0f} % of its nights ended without a proof" in plan.explain()
    small = compare_policies(cases=10, challenges=50, nights=4)
    assert (small.recommended, small.unproved) == (None, 1.0)
    assert "Nothing was proved in any night" in small.explain()


def test_the_command_shows_the_comparison_and_refuses_what_takes_too_long():
    asked = ["plan", "--cases", "20", "--challenges", "5"]
    made = CliRunner().invoke(app, [*asked, "--nights", "2", "--format", "json"])
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["policies"]["nights"] == 2
    assert "Nothing was proved" in CliRunner().invoke(app, [*asked, "--nights", "2"]).output
    assert json.loads(CliRunner().invoke(app, [*asked, "--nights", "0", "--format", "json"]).stdout)["policies"] is None
    for wrong in (["--nights", "-1"], ["--runs", "600"]):
        assert CliRunner().invoke(app, [*asked, *wrong]).exit_code == 2


def test_quality_is_that_of_the_other_cases():
    world = World(10, 2, np.random.default_rng(0), others=500)
    assert world.results(world.start).shape == (10, 2)
    assert world.quality(np.full(510, 20.0)) == pytest.approx(1.0)
