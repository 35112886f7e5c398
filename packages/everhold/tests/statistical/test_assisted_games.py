"""Games about means that a judge assists, at a probability of failure of .2.

Five human labels are coins, and the judge agrees with each in 997 of 1,000 rows. The analyst is told three of
them, declared, then forms the vote of those that came out high, and asks about it and about the others. A game is
lost if any interval misses. Without the event of the pool games are lost. The same with labels that are numbers near
the judge's, in groups of equal rows: games are lost without the event of the pool, and if the rows of a group count
as independent. 500 games:
``python packages/everhold/tests/statistical/test_assisted_games.py 500`` (docs/theory/assisted.md).
"""

import sys
import tempfile
import warnings

import numpy as np
import pytest

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


def numbers_are_lost(rng, folder, *, dependence=None):
    """True if the interval of any query about numbers in groups misses."""

    def of(text):
        return eh.mean(text, low=0, high=1, assisted_by="judge", pool="pool")

    pool = numbers(rng, POOLED, first=10**6)
    with eh.Holdout.create(
        f"sqlite:///{folder}/game.db", "game", holdout=numbers(rng, GROUPS),
        training=numbers(rng, TRAINING, first=10**5), confidence=0.8, dependence=dependence or eh.Groups("group"),
        declared={
            "pool": eh.pool({name: pool[name] for name in ("group", "judge")}, [eh.mean("judge", low=0, high=1)]),
            "labels": eh.listed([of(f"h{n}") for n in range(LABELS - 2)]),
        }, share=0.9, queries=10,
    ) as holdout:  # fmt: skip
        told = [holdout.ask(of(f"h{n}")) for n in range(LABELS - 2)]
        high = [f"h{n}" for n, answer in enumerate(told) if answer.value > 0.5] or ["h0"]
        mean = f"({' + '.join(high)}) / {len(high)}"
        told += [holdout.ask(of(text)) for text in (mean, f"h{LABELS - 2}", f"h{LABELS - 1}")]
    return any(not answer.low <= 0.5 <= answer.high for answer in told if not answer.refused)


def vote(names):
    """Most of these labels are true."""
    return " + ".join(f"(case when {name} then 1 else 0 end)" for name in names) + f" > {len(names) / 2}"


def is_lost(rng, folder):
    """True if the interval of any query misses."""
    with eh.Holdout.create(
        f"sqlite:///{folder}/game.db", "game", holdout=drawn(rng, ROWS), training=drawn(rng, TRAINING), confidence=0.8,
        declared={
            "pool": eh.pool({"judge": drawn(rng, POOL)["judge"]}, ["judge"]),
            "labels": eh.listed([eh.mean(f"h{n}", assisted_by="judge", pool="pool") for n in range(LABELS - 2)]),
        }, share=0.9, queries=10,
    ) as holdout:  # fmt: skip
        told = [holdout.ask(eh.mean(f"h{n}", assisted_by="judge", pool="pool")) for n in range(LABELS - 2)]
        high = [f"h{n}" for n, answer in enumerate(told) if answer.value > 0.5] or ["h0"]
        asked = [vote(high), f"h{LABELS - 2}", f"h{LABELS - 1}"]
        told += [holdout.ask(eh.mean(text, assisted_by="judge", pool="pool")) for text in asked]
    return any(not answer.low <= 0.5 <= answer.high for answer in told if not answer.refused)


def losses(games, *, seed=1, is_lost=is_lost):
    """Number of lost games."""
    lost = 0
    for game in range(games):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lost += is_lost(np.random.default_rng([seed, game]), folder)
    return lost


def share_alone(pool, judged, nats):
    """The share of the pool, as if the pool were the population."""
    return judged.share, judged.share


def test_all_assisted_means_hold_at_once():
    assert losses(8) <= 4  # 5 of 8 have probability .01 at the bound


def test_without_the_event_of_the_pool_games_are_lost(monkeypatch):
    monkeypatch.setattr(BoundPool, "within", share_alone)
    assert losses(8) >= 5  # as many have probability .01 at the bound


def rows_alone(rng, folder):
    """The same game, where rows of one group count as independent."""
    return numbers_are_lost(rng, folder, dependence=eh.Independent())


def test_assisted_means_of_numbers_in_groups_hold_at_once():
    assert losses(8, is_lost=numbers_are_lost) <= 4


def test_without_the_event_of_the_pool_games_about_numbers_are_lost(monkeypatch):
    monkeypatch.setattr(BoundPool, "within", share_alone)
    assert losses(8, is_lost=numbers_are_lost) >= 5


def test_if_rows_of_a_group_count_as_independent_games_are_lost():
    assert losses(8, is_lost=rows_alone) >= 5


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    for world in (is_lost, numbers_are_lost):
        sys.stdout.write(f"{world.__name__}: {losses(count, is_lost=world)} of {count}\n")
    sys.stdout.write(f"rows_alone: {losses(count // 10, is_lost=rows_alone)} of {count // 10}\n")
    BoundPool.within = share_alone
    for world in (is_lost, numbers_are_lost):
        found = losses(count // 10, is_lost=world)
        sys.stdout.write(f"{world.__name__} without the event of the pool: {found} of {count // 10}\n")
