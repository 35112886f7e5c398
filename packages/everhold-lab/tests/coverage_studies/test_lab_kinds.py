"""Kinds of queries: intervals of the real mechanism hold, and fail where a protection is taken away."""

from __future__ import annotations

import numpy as np
import pytest
from audited_kinds import KINDS, KindBoard, play_kind, usual_procedure

from everhold_lab.analysts import HillClimbingAnalyst, HonestAnalyst

RULES = 44


def mechanism_of(name, *, rows=256):
    kind = KINDS[name]
    return kind.tuned(rows=rows + 144 * kind.grouped, queries=50, surprises=3, confidence=0.8)


@pytest.mark.parametrize("name", KINDS)
def test_promises_are_kept_while_somebody_climbs(name):
    games = [play_kind(KINDS[name], mechanism_of(name), HillClimbingAnalyst(11), rules=RULES, seed=s) for s in range(4)]
    assert sum(game.violated for game in games) <= 2  # one of five may be; three of four are one chance in 36 at most
    assert all(game.queries == RULES + 5 for game in games)


@pytest.mark.parametrize("name", ["yes or no", "spread", "difference", "ratio", "gate", "unequal groups, ICC 0.3"])
def test_without_the_tree_they_are_broken(name):
    games = [
        play_kind(KINDS[name], mechanism_of(name), HillClimbingAnalyst(11), rules=RULES, seed=s, removed="tree")
        for s in range(6)
    ]
    assert sum(game.violated for game in games) >= 3  # of promises at 95 %, one chance in 400


@pytest.mark.parametrize("name", ["equal groups, ICC 1", "unequal groups, ICC 1"])
def test_rows_of_a_group_are_not_independent(name):
    mechanism = mechanism_of(name, rows=1_456)
    wrong, right = (
        [play_kind(KINDS[name], mechanism, HonestAnalyst(), rules=RULES, seed=s, removed=what) for s in range(3)]
        for what in ("groups", "")
    )
    assert sum(game.violated for game in wrong) >= 2
    assert not any(game.violated for game in right)


@pytest.mark.parametrize("name", ["spread", "difference", "equal groups, ICC 0", "equal groups, ICC 0.3"])
def test_a_known_spread_makes_intervals_narrower(name):
    game = play_kind(KINDS[name], mechanism_of(name, rows=656), HonestAnalyst(), rules=RULES, seed=0)
    assert game.worst_error < game.half_width < 0.8 * game.plain


def test_row_values_are_what_the_kind_says():
    rng = np.random.default_rng(0)
    rows = KINDS["difference"].draw(4_000, 2, rng)
    values = rows.values(rows.said, 1_024)
    assert set(np.unique(values).tolist()) == {0, 512, 1_024}
    assert np.mean(values == 512) == pytest.approx(0.9, abs=0.03)
    shared = KINDS["equal groups, ICC 1"].draw(400, 1, rng).coin.reshape(-1, 10)
    assert np.all(shared == shared[:, :1])
    alone = KINDS["equal groups, ICC 0"].draw(400, 1, rng).coin.reshape(-1, 10)
    assert np.all(np.ptp(alone, axis=1)[:5] > 0)


@pytest.mark.parametrize(
    ("name", "procedure"),
    [("yes or no", "clopper_pearson"), ("spread", "hedged_betting"), ("ratio", "hedged_ratio_betting"),
     ("gate", "hedged_betting"), ("unequal groups, ICC 0", "hedged_group_betting"),
     ("ratio in groups", "hedged_group_ratio_betting")],
)  # fmt: skip
def test_procedures_are_those_of_a_holdout(name, procedure):
    mechanism = mechanism_of(name)
    assert usual_procedure(KINDS[name], mechanism).name == procedure


def test_a_board_gives_the_sealed_mean_away_where_it_is_corrected():
    kind = KINDS["yes or no"]
    mechanism = mechanism_of("yes or no")
    board = KindBoard(kind, mechanism, rules=3, rng=np.random.default_rng(1))
    assert board.score_rules(0, 1, guess=0.95)[0] == pytest.approx(0.5, abs=0.15)
    outcome = board.outcome()
    assert (outcome.queries, outcome.surprises, outcome.refused) == (1, 1, 0)
