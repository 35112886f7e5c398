"""Games about declared queries of every kind, at a probability of failure of .2.

Columns are coins that know nothing of each other, so the analyst knows every population value. A game is lost if the
interval of any listed query misses: no order of asking is worse. Without the protection each part of each query has the
level of the whole list. 500 games of each kind, with or without training rows and groups:
``cd packages/everhold/tests; PYTHONPATH=support python statistical/test_declared_kinds_games.py 500``
(docs/theory/families.md).
"""

import itertools
import sys
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from redrawn import Redrawn

import everhold as eh
from everhold.families.listed import BoundList

UNITS, COLUMNS = 150, 3
ARMS = {"arm": "arm", "treated": "B", "control": "A"}
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def coins(rng, *, grouped, first=0):
    """Rows in groups of one to three, all rows of a group alike but for their order."""
    sizes = np.resize([1, 2, 3], UNITS) if grouped else np.ones(UNITS, dtype=int)
    table = {f"c{number}": rng.integers(0, 2, UNITS) for number in range(COLUMNS)}
    table |= {"y": rng.integers(0, 2, UNITS), "x": rng.random(UNITS).round(3), "g": first + np.arange(UNITS)}
    table |= {"arm": rng.choice(np.array(["A", "B"]), UNITS), "bin": rng.choice(np.array([*"abcdefgh"]), UNITS)}
    return {name: np.repeat(column, sizes) for name, column in table.items()}


def listed(kind):
    """Queries with their population values; of a histogram one for all of its shares."""
    if kind == "histogram":
        return [(eh.histogram("bin", [*"abcdefg"], missing=False), 0.125)]
    found = [(eh.quantile("x", low=0.0, high=1.0, bins=100), 0.5)]
    for number in range(COLUMNS):
        rule = f"c{number} = 1"
        found += [
            (rule, 0.5), (eh.mean(rule, given="y = 1"), 0.5), (eh.correlation(rule, "y = 1"), 0.0),
            (eh.risk_difference(rule, **ARMS), 0.0), (eh.risk_ratio(rule, **ARMS), 1.0), (eh.f1(rule), 0.5),
            (eh.difference(eh.accuracy(rule), eh.accuracy("x > 0.5")), 0.0), (eh.variance(rule), 0.25),
        ]  # fmt: skip
    return found


@contextmanager
def created(rng, kind, *, grouped, training):
    """A holdout that has the queries listed, and the function that plays games on other rows."""
    wanted = {"training": coins(rng, grouped=grouped, first=UNITS)} if training else {}
    wanted |= {"dependence": eh.Groups("g")} if grouped else {}
    with tempfile.TemporaryDirectory() as folder, eh.Holdout.create(
        f"sqlite:///{folder}/game.db", "game", holdout=coins(rng, grouped=grouped), label="y", confidence=0.8,
        declared=[eh.listed([query for query, _ in listed(kind)])], share=0.99, **wanted,
    ) as holdout:  # fmt: skip
        yield holdout, Redrawn(holdout, Path(folder))


def is_lost(ask, kind):
    """True if the interval of any listed query misses."""
    told = [(ask(query), truth) for query, truth in listed(kind)]
    each = [(one, truth) for many, truth in told for one in (many.answers.values() if kind == "histogram" else [many])]
    return any(not one.low <= truth <= one.high for one, truth in each)


def losses(kind, games, *, grouped=False, training=True, seed=1):
    """Number of lost games. Each 25 of them have the same training rows."""
    lost = 0
    for first in range(0, games, 25):
        rng = np.random.default_rng([seed, first])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with created(rng, kind, grouped=grouped, training=training) as (_, redrawn):
                for _ in range(min(25, games - first)):
                    with redrawn.sealed(coins(rng, grouped=grouped)) as ask:
                        lost += is_lost(ask, kind)
                assert redrawn.sources == {"declared"}
    return lost


def without_sharing(family, bound):
    """Each part has the level of the whole list."""
    return 0.0 if bound.query in family.members else None


@pytest.mark.parametrize("grouped", [False, True])
def test_games_have_the_answers_of_the_holdout(grouped):
    rng = np.random.default_rng(3)
    with created(rng, "all", grouped=grouped, training=True) as (holdout, redrawn):
        rows = coins(rng := np.random.default_rng(3), grouped=grouped, first=UNITS), coins(rng, grouped=grouped)
        with redrawn.sealed(rows[1]) as ask:
            for query, _ in listed("all"):
                told, own = ask(query), holdout.ask(query)
                assert (told.value, told.low, told.high) == (own.value, own.low, own.high)


@pytest.mark.parametrize(("kind", "grouped", "training"), [("all", False, True), ("all", True, False)])
def test_all_declared_queries_hold_at_once(kind, grouped, training):
    assert losses(kind, 8, grouped=grouped, training=training) <= 4  # 5 of 8 have probability .01 at the bound


@pytest.mark.parametrize("kind", ["all", "histogram"])
def test_where_parts_do_not_share_the_level_games_are_lost(monkeypatch, kind):
    monkeypatch.setattr(BoundList, "nats", without_sharing)
    assert losses(kind, 8) >= 5  # as many have probability .01 at the bound


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    for kind, grouped, training in itertools.product(("all", "histogram"), (False, True), (True, False)):
        lost = losses(kind, count, grouped=grouped, training=training)
        sys.stdout.write(f"{kind}, {grouped=}, {training=}: {lost} of {count} lost\n")
    BoundList.nats = without_sharing
    for kind in ("all", "histogram"):
        sys.stdout.write(f"{kind}, parts do not share: {losses(kind, count // 10)} of {count // 10} lost\n")
