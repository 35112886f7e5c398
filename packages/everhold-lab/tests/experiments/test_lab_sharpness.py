"""The experiment about sharpness, small: what it measures is what holdouts answer."""

from __future__ import annotations

import pytest

from everhold_lab.experiments import EXPERIMENTS
from everhold_lab.experiments.sharpness import Sharpness

SMALL = Sharpness(rows=1_600, queries=20)
QUICK = (
    "minutes of delay", "difference of two accuracies", "two accuracies, subtracted",
    "ratio over a quarter of the rows",
    "mean of a quarter of the rows", "1,000 silent queries, true value 0.9", "flights, one hour, one airport",
)  # fmt: skip


@pytest.fixture(scope="module")
def rows():
    return [
        {"measured": name, "repetition": 0, **row} for name in QUICK for row in SMALL.play({"measured": name}, seed=3)
    ]


def test_it_is_in_the_lab():
    assert EXPERIMENTS["sharpness"] is Sharpness
    assert {setting["measured"] for setting in SMALL.settings()} >= set(QUICK)


def test_answers_hold_and_are_narrower_when_unsealed(rows):
    assert all(row["missed"] == 0 < row["intervals"] for row in rows)
    assert all(row["unsealed"] < row["told"] for row in rows if row["told"] is not None)


def test_a_difference_is_narrower_than_two_accuracies_and_a_ratio_is_one_query(rows):
    told = {row["measured"]: row["told"] for row in rows}
    assert told["difference of two accuracies"] < 0.6 * told["two accuracies, subtracted"]
    assert told["ratio over a quarter of the rows"] < 1.3 * told["mean of a quarter of the rows"]


def test_findings_can_also_be_missed(rows):
    summary = SMALL.summary(rows)
    assert list(SMALL.findings(summary, rows).values())[-1] is True
    broken = [line | {"missed": 1} for line in summary]
    assert list(SMALL.findings(broken, rows).values())[-1] is False
    assert not SMALL.findings([line | {"unsealed": 9.0} for line in summary], rows)[
        "minutes of delay: unsealed half-width 9, expected at most 1.45"
    ]
    assert SMALL.pictures(summary, rows) == []
