"""A small competition: places are true and sharp, and without the protection luck leads."""

from __future__ import annotations

import numpy as np
import pytest
from lab_games import played

from everhold_lab.experiments.competitions import Competitions, _CompetitionGame

SMALL = Competitions(rows=1_500, teams=5, submissions=4, best=0.85, step=0.05, widest=0.06)


@pytest.fixture(scope="module")
def rows():
    return played(SMALL, 2)


def test_the_same_seed_plays_the_same_competition():
    setting = SMALL.settings()[2]
    assert SMALL.play(setting, 5) == SMALL.play(setting, 5)


def test_teams_are_as_good_as_they_are_said_to_be():
    game = _CompetitionGame(Competitions(rows=20_000, teams=3, step=0.1), np.random.default_rng(1))
    for team, quality in enumerate((0.85, 0.75, 0.65)):
        predicted = game.submission(team, 0)
        assert game.true(predicted) == pytest.approx(quality, abs=0.002)
        assert np.mean(predicted == game.labels) == pytest.approx(quality, abs=0.015)


def test_boards_are_true_and_nothing_is_spent_where_nothing_is_told(rows):
    by_told = {line["told"]: line for line in SMALL.summary(rows)}
    for told in ("feedback none", "feedback leader"):
        assert by_told[told]["games_with_a_false_claim"] == 0
        assert by_told[told]["false_leaders"] == 0.0
        assert by_told[told]["least_correlation"] >= 0.9
    assert by_told["feedback none"]["surprises"] == 0
    assert by_told["feedback none"]["widest"] < 0.06
    assert SMALL.pictures([], []) == []


def test_without_the_protection_luck_leads():
    close = Competitions(rows=1_500, teams=6, submissions=20, step=0.002)
    games = played_bare(close, 40)
    assert np.mean([game["false_leader"] for game in games]) >= 0.3
    assert np.mean([game["false"] for game in games]) >= 1.0


def played_bare(experiment, repetitions):
    setting = {"told": "bare scores"}
    return [{**setting, **row} for seed in range(repetitions) for row in experiment.play(setting, seed)]


def test_findings_say_so(rows):
    found = SMALL.findings(SMALL.summary([row for row in rows if row["told"] != "bare scores"]), rows)
    assert all(found.values())
    lucky = [{**row, "false_leader": True} for row in rows if row["told"] == "bare scores"]
    assert SMALL.findings(SMALL.summary(lucky), lucky)["without the protection 100 % of leaders are false"]
