"""Games about means that a judge assists, at a probability of failure of .2.

Five human labels are coins, and the judge agrees with each in 997 of 1,000 rows. The analyst is told three of
them, declared, then forms the vote of those that came out high, and asks about it and about the others. A game is
lost if any interval misses. Without the event of the pool games are lost. 500 games:
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
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def drawn(rng, rows):
    """Rows with the judge's verdict and labels that agree with it in 997 of 1,000 rows."""
    judge = rng.random(rows) < 0.5
    labels = {f"h{number}": np.where(rng.random(rows) < 0.997, judge, ~judge) for number in range(LABELS)}
    return {"judge": judge, **labels}


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


def losses(games, *, seed=1):
    """Number of lost games."""
    lost = 0
    for game in range(games):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lost += is_lost(np.random.default_rng([seed, game]), folder)
    return lost


def share_alone(pool, judge, nats):
    """The share of the pool, as if the pool were the population."""
    return pool.share(judge), pool.share(judge)


def test_all_assisted_means_hold_at_once():
    assert losses(8) <= 4  # 5 of 8 have probability .01 at the bound


def test_without_the_event_of_the_pool_games_are_lost(monkeypatch):
    monkeypatch.setattr(BoundPool, "within", share_alone)
    assert losses(8) >= 5  # as many have probability .01 at the bound


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    sys.stdout.write(f"{losses(count)} of {count} lost\n")
    BoundPool.within = share_alone
    sys.stdout.write(f"without the event of the pool: {losses(count // 10)} of {count // 10} lost\n")
