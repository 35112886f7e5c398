"""The attack on leaderboards: what is played, what is shown, and findings that can fail."""

from __future__ import annotations

import json

import numpy as np
import pytest
from lab_games import played

from everhold_competitions.ladder import Ladder
from everhold_lab.analysts import Vote
from everhold_lab.experiments.competitions import (
    BARE,
    LADDER,
    LEADERBOARDS,
    LabellingBoard,
    SubmittedFiles,
    leaderboard,
    tuned_for,
)
from everhold_lab.experiments.ladder_attack import LadderAttack

SMALL = LadderAttack(rows=1_000, submissions=(1, 10, 200))
ATTACKS = ("boosting", "hill climbing", "crowd")


@pytest.fixture(scope="module")
def rows():
    return played(SMALL, 3)


@pytest.fixture(scope="module")
def summary(rows):
    return SMALL.summary(rows)


def test_every_attack_meets_every_board_at_every_size(summary):
    met = {(line["attack"], line["board"], line["submissions"]) for line in summary}
    assert met == {(a, b, k) for a in ATTACKS for b in LEADERBOARDS for k in SMALL.submissions}
    assert all(line["games"] == 3 for line in summary)


def test_no_attacker_asks_more_than_the_mechanism_was_tuned_for(rows):
    asked = {(row["attack"], row["submissions"]): row["queries"] for row in rows if row["board"] == BARE}
    assert asked["boosting", 200] == 201
    assert asked["hill climbing", 200] == 205
    assert asked["crowd", 200] == 240
    ladders = [row for row in rows if row["board"] == LADDER]
    assert all(row["refused"] == 0 and row["queries"] == asked[row["attack"], row["submissions"]] for row in ladders)


def test_findings_hold_and_name_the_numbers(summary, rows):
    findings = SMALL.findings(summary, rows)
    assert len(findings) == 10
    assert all(findings.values()), findings
    assert any("boosting, 200 submissions: a bare leaderboard shows 0." in finding for finding in findings)
    assert any("broken in 0 of 108 games" in finding for finding in findings)


@pytest.mark.parametrize(
    ("board", "change"),
    [(BARE, {"reported": 0.51}), (LADDER, {"highest": 0.6}), ("thresholdout", {"games": 100, "broken": 16})],
)
def test_a_finding_fails_if_its_numbers_do(summary, rows, board, change):
    planted = [{**line, **change} if line["board"] == board else line for line in summary]
    assert not all(SMALL.findings(planted, rows).values())


def test_as_many_broken_promises_as_chance_allows_are_no_finding(summary, rows):
    planted = [{**line, "games": 100, "broken": 14 if line["board"] == LADDER else 0} for line in summary]
    assert all(SMALL.findings(planted, rows).values())
    one_more = [{**line, "broken": line["broken"] + 2} for line in planted]
    assert not all(SMALL.findings(one_more, rows).values())


def test_the_same_seed_is_the_same_game(rows):
    setting = {"attack": "crowd", "board": "thresholdout"}
    again = SMALL.play(setting, 1)
    assert [{**setting, "repetition": 1, "seed": 1, **row} for row in again] == [
        row for row in rows if row.items() >= setting.items() and row["repetition"] == 1
    ]
    assert SMALL.play(setting, 2) != again


def test_rows_and_summary_are_plain_data(summary, rows):
    assert json.loads(json.dumps([summary, rows], allow_nan=False)) == [summary, rows]


def test_a_game_in_which_everything_is_refused_has_no_report(summary):
    nothing = [{**line, "attack": "boosting", "reported": None, "kept": True} for line in summary[:2]]
    line = SMALL.summary(nothing)[0]
    assert (line["reported"], line["reported_low"], line["highest"]) == (None, None, None)


def world(labellings=8, rows=50, seed=0):
    return SubmittedFiles.drawn(np.random.default_rng(seed), rows=rows, labellings=labellings)


def test_hits_are_counted_on_sealed_and_on_training_rows():
    drawn = world()
    right = drawn.predicted == drawn.labels
    assert np.array_equal(drawn.hits, np.stack([right[:, :50].sum(axis=1), right[:, 50:].sum(axis=1)], axis=1))
    assert set(np.unique(drawn.predicted)) == set(np.unique(drawn.labels)) == {-1.0, 1.0}
    assert abs(world(400, 1_000).predicted.mean()) < 0.01


def test_a_vote_is_right_where_its_majority_is():
    drawn, board = world(), LabellingBoard(world(), 8, leaderboard(BARE, 50, 20, 1, 0.95, seed=0))
    votes = [Vote(np.array([1.0, 1.0, 1.0]), 0.0), Vote(np.zeros(0), 0.0), Vote(np.eye(8)[5], 0.0)]
    sums = [vote.weights @ drawn.predicted[: len(vote.weights)] for vote in votes]
    expected = [np.mean(np.where(s > 0, 1, -1)[:50] == drawn.labels[:50]) for s in sums]
    assert board.score_votes(votes) == pytest.approx(expected)
    assert [board.score_vote(vote) for vote in votes] == pytest.approx(expected)
    assert board.score_rules(5, 6, guess=None)[0] == pytest.approx(expected[2])
    assert board.asked == 7


@pytest.mark.parametrize("board", LEADERBOARDS)
def test_a_batch_is_shown_as_one_by_one(board):
    drawn = world(30, rows=400)
    batch, loop = (leaderboard(board, 400, 30, 2, 0.95, seed=3) for _ in range(2))
    shown = [loop.show(drawn[place : place + 1])[0] for place in range(30)]
    assert np.array_equal(batch.show(drawn), shown, equal_nan=True)
    assert batch.kept is loop.kept is True


def test_a_broken_promise_is_noticed():
    """Of labellings that are all right, nothing true can be said within the radius of 1/2."""
    labels = world(1, rows=400).labels
    board = leaderboard(LADDER, 400, 5, 1, 0.95, seed=0)
    board.show(SubmittedFiles.of(labels[None, :], labels))
    assert not board.kept


def test_a_ladder_ranks_scores():
    assert isinstance(ladder := tuned_for(LADDER, 400, 5, 1, 0.95), Ladder)
    assert (ladder.better, ladder.margin, ladder.queries) == ("higher", 2, 5)


def test_pictures_have_one_line_for_each_board(summary, rows):
    pictures = SMALL.pictures(summary, rows)
    assert [picture.name for picture in pictures] == ["boosting", "hill-climbing", "crowd"]
    for picture in pictures:
        document = picture.chart.to_dict()
        assert document["config"]["background"] == "#ffffff"  # the colours that a dark page restyles
        assert document["config"]["axis"]["labelColor"] == document["config"]["legend"]["labelColor"] == "#24292f"
        drawn = document["datasets"][document["layer"][1]["data"]["name"]]
        assert {point["board"] for point in drawn} == set(LEADERBOARDS)
        assert "1/2" in picture.caption
