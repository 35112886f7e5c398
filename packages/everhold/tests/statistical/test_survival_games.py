"""Games about survival with censored rows, at a probability of failure of .2.

Events and ends of follow-up know nothing of the four arms, so the analyst knows every population value. Survival of all
and of two arms is declared. Then the analyst asks about the arm that came out higher, about all others, and about mean
times. A game is lost if any interval misses. Without the protection rows whose follow-up ends within a step count as
survivors. 500 games:
``cd packages/everhold/tests; PYTHONPATH=support python statistical/test_survival_games.py 500``
(docs/theory/survival.md).
"""

import sys
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from redrawn import Redrawn

import everhold as eh
from everhold.guarantees.intervals.survival import SeenSurvival

ROWS, STEPS, AT = 300, 4, 1.0
TRUE = {"survival": float(np.exp(-AT)), "restricted_mean_survival": float(1.0 - np.exp(-AT))}
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def patients(rng, rows, *, first=None):
    """Patients of four arms, exponential times, most of them censored; pairs of a home are alike."""
    size = 1 if first is None else 2
    times, ends = rng.exponential(1.0, rows // size), rng.uniform(0.0, 1.5, rows // size)
    table = {"time": np.minimum(times, ends), "event": times <= ends, "arm": rng.integers(0, 4, rows // size)}
    homes = {} if first is None else {"home": first + np.arange(rows // size)}
    return {name: np.repeat(column, size) for name, column in (table | homes).items()}


def declared():
    """The queries that are declared."""
    return [eh.survival("time", "event", at=AT, steps=STEPS, given=given) for given in (None, "arm = 0", "arm = 1")]


@contextmanager
def created(rng, *, grouped):
    """A holdout, and the function that plays games on other rows."""
    first = [{"first": 0}, {"first": ROWS}] if grouped else [{}, {}]
    with tempfile.TemporaryDirectory() as folder, eh.Holdout.create(
        f"sqlite:///{folder}/game.db", "game", holdout=patients(rng, ROWS, **first[0]),
        training=patients(rng, ROWS, **first[1]), confidence=0.8,
        dependence=eh.Groups("home") if grouped else None, declared=[eh.listed(declared())], queries=10,
    ) as holdout:  # fmt: skip
        yield holdout, Redrawn(holdout, Path(folder))


def told_by(ask):
    """All queries of a game with their answers: those after the third depend on the answers before."""
    told = [(query, ask(query)) for query in declared()]
    best = int(told[2][1].value > told[1][1].value)
    for given in (f"arm = {best}", f"arm <> {best}", f"arm = {best} or arm = 2"):
        for make in (eh.survival, eh.restricted_mean_survival):
            query = make("time", "event", at=AT, steps=STEPS + 1, given=given)
            told.append((query, ask(query)))
    return told


def losses(games, *, grouped=False, seed=1):
    """Number of lost games: the interval of some query misses. Each 25 of them have the same training rows."""
    lost, first = 0, {"first": 0} if grouped else {}
    for begin in range(0, games, 25):
        rng = np.random.default_rng([seed, begin])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with created(rng, grouped=grouped) as (_, redrawn):
                for _ in range(min(25, games - begin)):
                    with redrawn.sealed(patients(rng, ROWS, **first)) as ask:
                        told = told_by(ask)
                    lost += any(not answer.low <= TRUE[query.how] <= answer.high for query, answer in told)
    return lost


@pytest.mark.parametrize("grouped", [False, True])
def test_games_have_the_answers_of_the_holdout(grouped):
    rows = patients(np.random.default_rng(3), ROWS, **({"first": 0} if grouped else {}))
    with created(np.random.default_rng(3), grouped=grouped) as (holdout, redrawn), redrawn.sealed(rows) as ask:
        for (_, told), (_, own) in zip(told_by(ask), told_by(holdout.ask), strict=True):
            assert (told.value, told.low, told.high, told.charged) == (own.value, own.low, own.high, own.charged)
            assert not own.refused


def all_followed(seen):
    """Rows at risk, events, and all others as survivors, of all units."""
    at_risk, events = seen.at_risk @ seen.counts, seen.events @ seen.counts
    return at_risk, events, at_risk - events


@pytest.mark.parametrize("grouped", [False, True])
def test_all_survival_holds_at_once(grouped):
    assert losses(8, grouped=grouped) <= 4  # 5 of 8 have probability .01 at the bound


def test_where_censored_rows_survive_games_are_lost(monkeypatch):
    monkeypatch.setattr(SeenSurvival, "totals", property(all_followed))
    monkeypatch.setattr(f"{__name__}.ROWS", 6_000)
    monkeypatch.setattr(f"{__name__}.STEPS", 1)
    assert losses(8) >= 5  # as many have probability .01 at the bound


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    for grouped in (False, True):
        sys.stdout.write(f"{grouped=}: {losses(count, grouped=grouped)} of {count} lost\n")
    SeenSurvival.totals = property(all_followed)
    ROWS, STEPS = 6_000, 1
    sys.stdout.write(f"censored rows survive: {losses(count // 10)} of {count // 10} lost\n")
