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


MANY, RANGE = 4_000, {"low": 0.0, "high": 60.0}


@pytest.mark.parametrize(("metric", "spread"), [
    ("roc_auc", None), ("f1_macro", None), ("neg_log_loss", None),
    ({"score": "neg_root_mean_squared_error", **RANGE}, 8.0), ({"loss": "absolute", **RANGE}, 8.0),
])  # fmt: skip
def test_widths_of_other_metrics_are_those_of_a_board_with_files_as_good(tmp_path, metric, spread):
    plan = plan_competition(
        rows=MANY, teams=6, submissions=3, metric=metric, spread=spread, feedback="score", public=0.3, disagreement=0.2
    )
    assert [(each["feedback"], each["public"]) for each in plan.to_rows()] == [
        ("none", None), ("score", 0.1), ("score", 0.2), ("score", 0.3),
    ]  # fmt: skip
    planned, rng = line(plan, "score", 0.3), np.random.default_rng(8)
    if spread is not None:
        labels = rng.normal(30.0, 10.0, MANY).clip(0.0, 60.0)
        file = (labels + rng.normal(0.0, spread, MANY)).clip(0.0, 60.0)
    else:
        labels = rng.integers(0, 2, MANY)
        file = 0.8 * (2 * labels - 1) + rng.normal(size=MANY)
        file = {"roc_auc": file, "f1_macro": (file > 0).astype(int), "neg_log_loss": 1 / (1 + np.exp(-1.6 * file))}[
            metric
        ]
    terms = eh.Competition(feedback="score", public=0.3, teams=6, submissions=3, metric=metric)
    with eh.Holdout.create(
        tmp_path / "s.db", "contest", holdout={"y": labels}, label="y", rows=eh.Rows(features="public"),
        planning=eh.Planning(allow_vacuous=True), competition=terms,
    ) as holdout:  # fmt: skip
        told = holdout.competition.submit(file, team="owls").answer
        # The rows are dealt by chance, and F1 is told in steps of a seventh of this half-width. Errors of ten deals:
        # at most 13 % with standard deviations up to 7 % here, 6 % and 2 % on the final board.
        assert (told.high - told.low) / 2 == pytest.approx(planned["public_within"], rel=0.45)
        holdout.unseal()
        (row,) = holdout.competition.leaderboard().standings
        assert (row.high - row.low) / 2 == pytest.approx(planned["final_within"], rel=0.15)
    gaps = [each["least_gap"] for each in plan.to_rows()]
    assert 0.0 < max(gaps) <= 2.0 * min(gaps)  # of one draw of files each


def test_what_cannot_be_planned_is_refused_with_its_reason():
    for wrong, said in (
        ({"metric": "f1", "positives": 0.0}, "positives"),
        ({"metric": "roc_auc", "positives": 1.0}, "positives"),
        ({"metric": "f1", "feedback": "score"}, "not planned for"),
        ({"metric": {"score": "r2", "low": 0.0, "high": 9.0}}, "spread is missing"), ({"metric": "f2"}, "metric"),
        ({"spacing": 0.0}, "spacing"), ({"feedback": "all"}, "feedback"),
        ({"public": 0.3}, "is only for feedback='score'"), ({"teams": 1}, "teams"),
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
    scored = ("--teams", "3", "--submissions", "2", "--rows", "400", "--metric", "r2", "--low", "0", "--high", "9")
    told, again = (everhold("plan", *scored, "--spread", "2", "--format", "json") for _ in range(2))
    assert json.loads(told.stdout)["made_up"]
    assert again.stdout == told.stdout  # its rows are dealt in one way
    assert "Pass the standard deviation of the best file's errors" in everhold("plan", *scored, code=2).stderr
    assert "--rows is missing" in everhold("plan", "--teams", "30", code=2).stderr
    assert "--teams is missing" in everhold("plan", "--rows", "30", "--queries", "5", "--public", ".3", code=2).stderr
