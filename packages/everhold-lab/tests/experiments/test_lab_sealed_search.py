"""The sealed search, small: its configurations are those of the plain search, and its intervals hold."""

from __future__ import annotations

import pytest

from everhold_lab.experiments import EXPERIMENTS
from everhold_lab.experiments.sealed_search import SealedSearch

SMALL = SealedSearch(models=4, trees=3, sealed=1_500, training=900, fresh=4_000, folds=2)


@pytest.fixture(scope="module")
def rows():
    setting, seed = {"known": "at take-off"}, 2**63 + 2  # as large as the lab's own
    return [{**setting, "repetition": 0, **row} for row in SMALL.play(setting, seed)]


def test_every_configuration_is_answered_and_its_interval_holds(rows):
    assert [row["model"] for row in rows] == list(range(4))
    assert all(row["answered"] for row in rows)
    assert not any(row["missed"] for row in rows)


def test_the_plain_search_finds_one_of_the_same_models(rows):
    best = max(rows, key=lambda row: row["cross_validation"])
    assert rows[0]["plain_truth"] == best["truth"]


def test_findings_can_also_be_missed(rows):
    summary = SMALL.summary(rows)
    kept = SMALL.findings(summary, rows)
    assert kept["predictions made at take-off: 4 of 4 configurations are answered"]
    assert kept["predictions made at take-off: 0 intervals miss the accuracy on fresh flights"]
    worse = [line | {"answered": 3, "missed": 1, "overhead": 0.4, "truth_of_proven": 0.2} for line in summary]
    assert not any(SMALL.findings(worse, rows).values())
    assert EXPERIMENTS["sealed-search"] is SealedSearch


def test_the_picture_holds_the_truth(rows):
    pytest.importorskip("altair")
    (picture,) = SMALL.pictures(SMALL.summary(rows), rows)
    drawn = str(picture.chart.to_dict())
    assert all(str(row["truth"]) in drawn for row in rows)
