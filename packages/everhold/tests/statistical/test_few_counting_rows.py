"""Every kind of query of which few rows count, at a level of .19: none misses more often than its level allows.

A longer run: ``python packages/everhold/tests/statistical/test_few_counting_rows.py DRAWS``.
"""

import sys
import tempfile

import pytest
from few_rows import Game
from scipy.stats import binom

from everhold.guarantees.intervals.gains import OutcomeGain
from everhold.queries.metrics.registry import METRICS

DOUBT = 1e-3  # for each kind; draws are the same ones each time


def suspects(game):
    """Kinds that miss more often than their level allows."""
    return {
        kind for kind, missed in game.missed.items()
        if binom.sf(missed - 1, game.told[kind], min(game.level[kind] / game.told[kind], 1.0)) < DOUBT
    }  # fmt: skip


@pytest.mark.parametrize(
    ("draws", "how"),
    [(6, {}), (6, {"label": "v"}), (2, {"grouped": True}), (3, {"biased": True})],
    ids=["rows", "numbers", "groups", "training rows of another law"],
)
def test_no_kind_misses_more_often_than_its_level_allows(tmp_path, draws, how):
    game = Game(str(tmp_path), **how).play(draws)
    assert len(game.told) > 15
    assert suspects(game) == set()


def test_an_interval_of_means_of_all_rows_for_slices_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(OutcomeGain, "of_all_rows", True)
    wrong = {f"difference in {name} in a slice" for name, metric in METRICS.own.items() if metric.outcomes}
    assert suspects(Game(str(tmp_path)).play(8, lambda kind: kind in wrong))


if __name__ == "__main__":
    for how in ({}, {"label": "v"}, {"grouped": True}, {"biased": True}):
        with tempfile.TemporaryDirectory() as folder:
            played = Game(folder, **how).play(int(sys.argv[1]))
        for kind, told in sorted(played.told.items()):
            level = played.level[kind] / told
            sys.stdout.write(f"{how} {kind}: {played.missed[kind]} of {told} missed, level {level:.3f}\n")
