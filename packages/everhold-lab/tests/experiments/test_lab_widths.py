"""The experiment about widths: its numbers are those of the planner and the statements."""

from __future__ import annotations

import pytest
from lab_games import drawn_points, played

from everhold.planning import PlanRequest, tuned_mechanism
from everhold_lab.experiments.widths import WidthsExperiment
from everhold_lab.published import STATEMENTS
from everhold_lab.published.splitting import hoeffding_radius

SMALL = WidthsExperiment(rows=(1_024, 4_096), queries=(16, 64), surprises=(1, 3), usual_queries=32, most_played=1_024)


@pytest.fixture(scope="module")
def rows():
    return played(SMALL, 2)


@pytest.fixture(scope="module")
def summary(rows):
    return SMALL.summary(rows)


def line(summary, width, *, sweep="queries", sealed=4_096, queries=64):
    place = {"width": width, "sweep": sweep, "sealed": sealed, "queries": queries}
    return next(one for one in summary if place.items() <= one.items())


def test_the_same_seed_plays_the_same_games():
    setting = SMALL.settings()[0]
    assert SMALL.play(setting, 5) == SMALL.play(setting, 5) != SMALL.play(setting, 6)


def test_radii_are_those_of_the_planner_and_of_the_papers(summary):
    gaussian = tuned_mechanism("gaussian", PlanRequest(rows=4_096, queries=64))
    assert line(summary, "gaussian")["radius"] == gaussian.promise().radius
    jung = STATEMENTS["jung_2020"].radius(4_096, queries=64, surprises=10, confidence=0.95, slack=0.0)
    assert line(summary, "jung_2020")["radius"] == pytest.approx(jung.radius)
    assert line(summary, "one fixed query")["radius"] == hoeffding_radius(4_096, confidence=0.95)
    assert {one["width"] for one in summary} >= set(STATEMENTS)


def test_large_holdouts_are_not_played(summary):
    assert all((one["games"] > 0) <= (one["sealed"] <= 1_024) for one in summary)
    assert line(summary, "gaussian", sealed=1_024)["games"] == 4  # two analysts, two repetitions


def test_errors_are_the_worst_of_the_attacks(rows, summary):
    seen = line(summary, "gaussian", sealed=1_024)
    games = [
        row
        for row in rows
        if row["width"] == "gaussian" and (row["sealed"], row["sweep"], row["queries"]) == (1_024, "queries", 64)
    ]
    assert seen["worst_error_high"] == max(row["worst_error"] for row in games)
    assert seen["worst_error_low"] <= seen["worst_error"] <= seen["worst_error_high"] < seen["radius"]


def test_what_is_found_can_also_be_missed(rows, summary):
    assert all(SMALL.findings(summary, rows).values())
    broken = [row | {"violated": row["violated"] is not None} for row in rows]
    assert list(SMALL.findings(summary, broken).values()).count(False) == 1
    wide = [one | {"radius": one["radius"] and one["radius"] * (1 if one["published"] else 9)} for one in summary]
    assert list(SMALL.findings(wide, rows).values()).count(False) == 1


def test_pictures_have_every_promise_below_the_range(rows, summary):
    pictures = {picture.name: drawn_points(picture) for picture in SMALL.pictures(summary, rows)}
    assert list(pictures) == ["promised-by-queries", "seen-by-queries", "promised-by-surprises", "seen-by-surprises"]
    drawn = {point["series"] for point in pictures["promised-by-queries"]}
    assert {"gaussian", "guess_and_check", "jung_2020", "one fixed query"} <= drawn
    assert all(point["value"] < 1 for point in pictures["promised-by-queries"])
    bars = [point for point in pictures["seen-by-queries"] if point["low"] is not None]
    assert {"gaussian", "bare averages"} <= {point["series"] for point in bars}
