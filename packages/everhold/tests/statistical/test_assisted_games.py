"""Games about means that a judge assists, at a probability of failure of .2.

Five human labels are coins, and the judge agrees with each in 997 of 1,000 rows. The analyst is told three of
them, declared, then forms the vote of those that came out high, and asks about it and about the others. A game is
lost if any interval misses. Without the event of the pool games are lost. The same with labels that are numbers near
the judge's, in groups of equal rows: games are lost without the event of the pool, and if the rows of a group count
as independent. 500 games, ten with each pool:
``cd packages/everhold/tests; PYTHONPATH=support python statistical/test_assisted_games.py 500``
(docs/theory/assisted.md).
"""

import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from redrawn import Redrawn

import everhold as eh
from everhold.families.pool import BoundPool

ROWS, TRAINING, POOL, LABELS = 300, 300, 400, 5
GROUPS, SIZE, POOLED = 1_000, 50, 100
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def drawn(rng, rows):
    """Rows with the judge's verdict and labels that agree with it in 997 of 1,000 rows."""
    judge = rng.random(rows) < 0.5
    labels = {f"h{number}": np.where(rng.random(rows) < 0.997, judge, ~judge) for number in range(LABELS)}
    return {"judge": judge, **labels}


def numbers(rng, groups, *, first=0):
    """Groups of equal rows, with the judge's number and labels that are near it."""
    judge = rng.random(groups)
    labels = {f"h{number}": np.clip(judge + rng.normal(0.0, 0.01, groups), 0, 1) for number in range(LABELS)}
    table = {"group": first + np.arange(groups), "judge": judge, **labels}
    return {name: np.repeat(column, SIZE) for name, column in table.items()}


def of_number(text):
    """The query about a number that the judge's number assists."""
    return eh.mean(text, low=0, high=1, assisted_by="judge", pool="pool")


def of_condition(text):
    """The query about a condition that the judge's verdict assists."""
    return eh.mean(text, assisted_by="judge", pool="pool")


def mean_of(names):
    """The mean of these numbers."""
    return f"({' + '.join(names)}) / {len(names)}"


def vote(names):
    """Most of these labels are true."""
    return " + ".join(f"(case when {name} then 1 else 0 end)" for name in names) + f" > {len(names) / 2}"


@dataclass(frozen=True)
class World:
    """How rows are drawn, and what is asked about them."""

    query: Callable = of_condition
    combined: Callable = vote
    dependence: Any = None

    def rows(self, rng):
        """Rows to seal."""
        return numbers(rng, GROUPS) if self.query is of_number else drawn(rng, ROWS)

    @contextmanager
    def created(self, rng, rows=None):
        """A holdout with a pool, and the function that plays games on other rows."""
        if self.query is of_number:
            pool, judge = numbers(rng, POOLED, first=10**6), eh.mean("judge", low=0, high=1)
            training, names = numbers(rng, TRAINING, first=10**5), ("group", "judge")
        else:
            pool, judge, training, names = drawn(rng, POOL), "judge", drawn(rng, TRAINING), ("judge",)
        sealed = self.rows(rng) if rows is None else rows
        with tempfile.TemporaryDirectory() as folder, eh.Holdout.create(
            f"sqlite:///{folder}/game.db", "game", holdout=sealed, training=training, confidence=0.8,
            dependence=self.dependence, share=0.9, queries=10, declared={
                "pool": eh.pool({name: pool[name] for name in names}, [judge]),
                "labels": eh.listed([self.query(f"h{n}") for n in range(LABELS - 2)]),
            },
        ) as holdout:  # fmt: skip
            yield holdout, Redrawn(holdout, Path(folder))

    def told_by(self, ask):
        """All answers of a game: the fourth query depends on the first three answers."""
        told = [ask(self.query(f"h{n}")) for n in range(LABELS - 2)]
        high = [f"h{n}" for n, answer in enumerate(told) if answer.value > 0.5] or ["h0"]
        return told + [ask(self.query(text)) for text in (self.combined(high), f"h{LABELS - 2}", f"h{LABELS - 1}")]


CONDITIONS = World()
IN_GROUPS = World(of_number, mean_of, eh.Groups("group"))
ROWS_ALONE = World(of_number, mean_of, eh.Independent())  # rows of one group count as independent


def losses(games, world=CONDITIONS, *, each=1, seed=1):
    """Number of lost games: the interval of some query misses. Each so many have the same pool and training rows."""
    lost = 0
    for begin in range(0, games, each):
        rng = np.random.default_rng([seed, begin])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with world.created(rng) as (_, redrawn):
                for _ in range(min(each, games - begin)):
                    with redrawn.sealed(world.rows(rng)) as ask:
                        lost += any(not answer.low <= 0.5 <= answer.high for answer in world.told_by(ask))
    return lost


@pytest.mark.parametrize("world", [CONDITIONS, IN_GROUPS], ids=["conditions", "groups"])
def test_games_have_the_answers_of_the_holdout(world):
    rng = np.random.default_rng(3)
    rows = world.rows(rng)
    with world.created(rng, rows) as (holdout, redrawn), redrawn.sealed(rows) as ask:
        for told, own in zip(world.told_by(ask), world.told_by(holdout.ask), strict=True):
            assert (told.value, told.low, told.high, told.charged) == (own.value, own.low, own.high, own.charged)
            assert not own.refused


def share_alone(pool, judged, nats):
    """The share of the pool, as if the pool were the population."""
    return judged.share, judged.share


@pytest.mark.parametrize("world", [CONDITIONS, IN_GROUPS], ids=["conditions", "groups"])
def test_all_assisted_means_hold_at_once(world):
    assert losses(8, world) <= 4  # 5 of 8 have probability .01 at the bound


@pytest.mark.parametrize("world", [CONDITIONS, IN_GROUPS], ids=["conditions", "groups"])
def test_without_the_event_of_the_pool_games_are_lost(monkeypatch, world):
    monkeypatch.setattr(BoundPool, "within", share_alone)
    assert losses(8, world) >= 5  # as many have probability .01 at the bound


def test_if_rows_of_a_group_count_as_independent_games_are_lost():
    assert losses(8, ROWS_ALONE) >= 5


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    for world in (CONDITIONS, IN_GROUPS):
        sys.stdout.write(f"{world.query.__name__}: {losses(count, world, each=10)} of {count} lost\n")
    sys.stdout.write(f"rows of a group count as independent: {losses(count // 10, ROWS_ALONE)} of {count // 10} lost\n")
    BoundPool.within = share_alone
    for world in (CONDITIONS, IN_GROUPS):
        found = losses(count // 10, world)
        sys.stdout.write(f"{world.query.__name__}, without the event of the pool: {found} of {count // 10} lost\n")
