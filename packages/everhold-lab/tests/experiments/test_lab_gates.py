"""The game of the gate, small: real steps are promoted, luck only without the protection."""

from __future__ import annotations

import pytest
from lab_games import played

from everhold_lab.experiments.gates import GatesExperiment

SMALL = GatesExperiment(rows=2_000, challengers=400, steps=2, step=0.06, disagreement=0.1, surprises=5)


@pytest.fixture(scope="module")
def rows():
    return played(SMALL, 4)


def test_the_same_seed_plays_the_same_game():
    setting = SMALL.settings()[0]
    assert SMALL.play(setting, 5) == SMALL.play(setting, 5)


def test_the_gate_promotes_real_steps_and_nothing_else(rows):
    by_judge = {line["judge"]: line for line in SMALL.summary(rows) if line["agent"] == "hill climbing"}
    assert by_judge["gate"]["real_steps_promoted"] == 2.0
    assert by_judge["gate"]["wrong_promotions"] == 0.0
    assert by_judge["one shot"]["wrong_promotions"] >= 1.0


def test_findings_say_so(rows):
    assert all(SMALL.findings(SMALL.summary(rows), rows).values())
    assert SMALL.pictures([], []) == []
