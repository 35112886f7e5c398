"""The tuning loop, small: every model is asked about, and its guess is its cross-validation."""

from __future__ import annotations

import pytest

from everhold_lab.experiments import EXPERIMENTS
from everhold_lab.experiments.sealed_search import TuningLoop

SMALL = TuningLoop(models=6, sealed=1_500, training=600, fresh=4_000, at_random=3)


@pytest.fixture(scope="module")
def rows():
    return [{"known": "at take-off", "repetition": 0, **row} for row in SMALL.play({"known": "at take-off"}, seed=2)]


def test_every_model_is_asked_about_and_its_interval_holds(rows):
    assert [row["model"] for row in rows] == list(range(6))
    assert not any(row["missed"] for row in rows)
    assert all(abs(row["estimate"] - row["truth"]) < row["half_width"] for row in rows if not row["charged"])


def test_findings_can_also_be_missed(rows):
    summary = SMALL.summary(rows)
    kept = SMALL.findings(summary, rows)
    assert kept["predictions made at take-off: 6 of 6 models are answered"]
    assert kept["predictions made at take-off: 0 intervals miss the accuracy on fresh flights"]
    worse = [line | {"answered": 5, "surprises": 9, "missed": 1, "mean_half_width": 0.4} for line in summary]
    assert not any(SMALL.findings(worse, rows).values())
    assert EXPERIMENTS["tuning-loop"] is TuningLoop
    assert SMALL.pictures(summary, rows) == []
