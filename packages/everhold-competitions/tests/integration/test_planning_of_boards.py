"""The plan of a competition has the widths of the one that is created, and about the pairs that it tells apart."""

import json

import numpy as np
import pytest
from contest_samples import ROWS, TRUTH, contest

import everhold as eh
from everhold_competitions.planning import plan_competition

TEAMS, SPACING = 12, 0.02


def line(plan, feedback, public=None):
    return next(each for each in plan.to_rows() if (each["feedback"], each["public"]) == (feedback, public))


@pytest.mark.parametrize(("feedback", "public"), [("none", None), ("leader", None), ("score", None), ("score", 0.3)])
def test_the_planned_width_is_that_of_the_competition_that_is_created(tmp_path, feedback, public):
    plan = plan_competition(rows=ROWS, teams=6, submissions=10, feedback=feedback, public=public)
    with contest(
        tmp_path, feedback=feedback, teams=6, submissions=10, allow_vacuous=True,
        **({} if public is None else {"public": public}),
    ) as holdout:  # fmt: skip
        planned = line(plan, feedback, public)
        assert planned["final_within"] == holdout.status()["competition"]["final_width"]["0.9"]
        assert planned["final_rows"] == holdout.schema.rows
        assert plan.lines[plan.asked] == planned


def test_about_as_many_pairs_are_told_apart_as_planned(tmp_path):
    rng = np.random.default_rng(5)
    with contest(tmp_path, feedback="none", teams=TEAMS, submissions=1) as holdout:
        for team in range(TEAMS):
            right = rng.random(ROWS) < 0.9 - SPACING * team
            holdout.competition.submit(np.where(right, TRUTH, 1 - TRUTH), team=f"team {team}")
        holdout.unseal()
        told = sum(each.better is not None for each in holdout.competition.leaderboard().comparisons)
    chance = 0.9 - SPACING * (TEAMS - 1) / 2
    plan = plan_competition(
        rows=ROWS, teams=TEAMS, submissions=1, spacing=SPACING, disagreement=2.0 * chance * (1.0 - chance)
    )
    assert line(plan, "none")["pairs"] == pytest.approx(told, rel=0.15)
    assert 0 < told < TEAMS * (TEAMS - 1) // 2


def test_what_cannot_be_planned_is_refused_with_its_reason():
    for wrong, said in (
        ({"metric": "f1"}, "known beforehand"), ({"spacing": 0.0}, "spacing"), ({"feedback": "all"}, "feedback"),
        ({"public": 0.3}, "tells no scores"), ({"teams": 1}, "teams"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=said):
            plan_competition(**{"rows": 1_000, "teams": 5, "submissions": 3, **wrong})
    with pytest.raises(eh.HoldoutRejected, match=r"leaves 30 rows"):
        plan_competition(rows=60, teams=30, submissions=3, feedback="score", public=0.5)


def test_the_command_prints_every_feedback_and_a_recommendation(everhold):
    wanted = ("--teams", "30", "--submissions", "100", "--rows", "5000", "--feedback", "score", "--public", ".3")
    told = everhold("plan", *wanted)
    assert "Recommended: --feedback score --public 0.3." in told.stderr
    found = json.loads(everhold("plan", *wanted, "--format", "json").stdout)
    assert [each["pairs"] for each in found["lines"] if each["feedback"] != "score"][1] == 0  # leader
    assert "--rows is missing" in everhold("plan", "--teams", "30", code=2).stderr
    assert "--teams is missing" in everhold("plan", "--rows", "30", "--queries", "5", "--public", ".3", code=2).stderr
