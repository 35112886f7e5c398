"""The experiment about dependence: the wrong declaration is seen to break."""

from __future__ import annotations

import pytest
from lab_games import drawn_points, played

from everhold.dependence import GaussianAR1, Groups
from everhold_lab.experiments.widths import DependenceExperiment

SMALL = DependenceExperiment(rows=2_048, points=16, queries=48, group_sizes=(1, 128), correlations=(0.0, 0.98))


@pytest.fixture(scope="module")
def rows():
    return played(SMALL, 8)


@pytest.fixture(scope="module")
def summary(rows):
    return SMALL.summary(rows)


def lines(summary, **wanted):
    return [line for line in summary if wanted.items() <= line.items()]


def test_the_same_seed_plays_the_same_games():
    setting = SMALL.settings()[1]
    assert SMALL.play(setting, 5) == SMALL.play(setting, 5) != SMALL.play(setting, 6)


def test_the_right_model_keeps_what_independence_breaks(rows, summary):
    assert all(SMALL.findings(summary, rows).values())
    right = lines(summary, family="groups", strength=128.0, declared="right model")
    wrong = lines(summary, family="groups", strength=128.0, declared="independent")
    assert sum(line["violations"] for line in right) == 0
    assert sum(line["violations"] for line in wrong) > 8
    assert all(few["radius"] > many["radius"] for few, many in zip(right, wrong, strict=True))


def test_without_dependence_both_declarations_promise_alike(summary):
    for mechanism in ("guess_and_check", "gaussian"):
        right, wrong = lines(summary, family="groups", strength=1.0, mechanism=mechanism)
        assert right["radius"] == pytest.approx(wrong["radius"])
        assert right["violations"] == wrong["violations"] == 0


def test_effective_rows_are_those_of_the_models(summary):
    (groups, _) = lines(summary, family="groups", strength=128.0, declared="right model")
    assert groups["effective_rows"] == Groups(128).concentration(2_048) == pytest.approx(16.0)
    (series, _) = lines(summary, family="ar1", strength=0.98)
    assert series["effective_rows"] == GaussianAR1(0.98).concentration(2_048)
    assert series["games"] == 0


def test_what_is_found_can_also_be_missed(rows, summary):
    harmless = [row | {"violated": False} for row in rows]
    assert list(SMALL.findings(summary, harmless).values()) == [True, False, False, True]
    everything = [row | {"violated": True} for row in rows]
    assert list(SMALL.findings(summary, everything).values()) == [False, True, True, True]
    shrinking = [line | {"radius": -line["strength"]} for line in summary]
    assert list(SMALL.findings(shrinking, rows).values()) == [True, True, True, False]


def test_pictures_show_promise_and_attack(rows, summary):
    pictures = {picture.name: drawn_points(picture) for picture in SMALL.pictures(summary, rows)}
    assert list(pictures) == ["radius-groups", "rows-groups", "radius-order", "rows-order"]
    points = pictures["radius-groups"]
    assert {point["kind"] for point in points if point["low"] is not None} == {"seen under attack"}
    assert {point["panel"] for point in pictures["rows-order"]} == {
        "a chain that repeats rows",
        "a Gaussian AR(1)",
    }
