"""Games of families, choices, quantiles and tables, few of each: promises hold, and without a protection they break."""

from __future__ import annotations

import numpy as np
import pytest
from family_games import BETA, GAMES, missed_games
from family_worlds import WORLDS, SealedUnits

PLAYED = 30


@pytest.mark.parametrize("game", GAMES, ids=lambda game: f"{game.kind}-without {game.removed}")
def test_promises_hold_with_all_protections_and_break_without_one(game):
    missed = missed_games(game, games=PLAYED)
    assert (missed > BETA * PLAYED) == (game.removed != "nothing")


@pytest.mark.parametrize("name", ["values in between", "groups"])
@pytest.mark.parametrize("nats", [0.5, 2.0, 6.0])
def test_the_capital_at_the_truth_decides_as_the_interval_does(name, nats):
    world, rng = WORLDS[name], np.random.default_rng(3)
    drawn = world.draw(rng, 300)
    extreme = np.argsort(drawn.means)[[0, 1, -2, -1]]
    for place in extreme.tolist():
        one = SealedUnits(drawn.values[[place]], drawn.weights)
        procedure, seen = world.seen(one.values[0])
        low, high = procedure.interval(seen, nats)
        assert (world.below(one, nats), world.above(one, nats)) == (low > 0.5, high < 0.5)
