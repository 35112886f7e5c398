"""Nobody's repeats and refusals look at the sealed rows, and refusals are nowhere recorded."""

from contextlib import contextmanager

import numpy as np
import pytest
from holdout_samples import ROWS, create, guess_and_check, rows

import everhold as eh
from everhold import mean
from everhold.guarantees.intervals import joint
from everhold.ledger.store import all_entries
from everhold.queries.means.distribution import variance
from everhold.sealing.rows.table import StoredRows
from everhold.values.universe import ListedColumn, Universe

pytestmark = pytest.mark.filterwarnings("ignore::everhold.errors.EverholdWarning")

UNIVERSE = Universe((ListedColumn("carrier", ("AA", "UA")),))
PRIVACY = {"mechanism": "privacy_budget", "queries": 20}


def move(table):
    return np.clip(table["delay"] / 99, -1, 1)[:, None]


def spread(table):
    return np.var(np.clip(np.nan_to_num(table["delay"]) / 99, -1, 1))


QUERIES = {
    "text": ({}, lambda holdout: holdout.ask("delay > 1")),
    "predictions": ({}, lambda holdout: holdout.ask(eh.accuracy(np.zeros(ROWS), training=np.zeros(ROWS)))),
    "function": ({}, lambda holdout: holdout.ask(eh.mean(lambda t: t["late"] == 1, name="late"))),
    "batch": ({}, lambda holdout: holdout.ask_many(["delay > 1", "delay > 2", "delay > 1"])[0]),
    "conditional": ({}, lambda holdout: holdout.ask(mean("late = 1", given="delay > 0"))),
    "variance": ({}, lambda holdout: holdout.ask(variance("delay", low=-60, high=60))),
    "histogram": ({}, lambda holdout: next(iter(holdout.ask(eh.histogram("delay", [-9, 9])).answers.values()))),
    "tolerance": (PRIVACY, lambda holdout: holdout.ask("delay > 3", tolerance=0.45)),
    "choice": (PRIVACY, lambda holdout: holdout.ask(eh.private_choose(["delay > 1", "delay > 2"]))),
    "quantile": (PRIVACY, lambda holdout: holdout.ask(eh.private_quantile("delay", low=-60, high=60, bins=12))),
    "scan": (PRIVACY, lambda holdout: holdout.ask(eh.private_first_above(["delay > 9", "delay > 0"], 0.3))),
    "synthesis": (
        PRIVACY,
        lambda holdout: holdout.ask(eh.private_synthesize(UNIVERSE, UNIVERSE.marginals(1), rounds=2)),
    ),
    "gradient": (PRIVACY, lambda holdout: holdout.ask(eh.gradient(move, dimension=1, clip=1.0, name="move"))),
    "low sensitivity": (PRIVACY, lambda holdout: holdout.ask(eh.low_sensitivity(spread, 4 / ROWS, name="spread"))),
    "area": (PRIVACY, lambda holdout: holdout.ask(eh.auc(np.arange(ROWS) / ROWS, positives=300, negatives=300))),
}
MECHANISMS = ["gaussian", "laplace", "subsampling", "sample_splitting", "empirical", "thresholdout", "ladder"]


@contextmanager
def blindfolded():
    """Whoever looks at sealed rows inside fails."""

    def refuse(name, plain):
        def method(self, *arguments, **named):
            assert not self._sealed, f"{name} looked at the sealed rows"
            return plain(self, *arguments, **named)

        return method

    with pytest.MonkeyPatch.context() as patch:
        for name in ("totals", "table", "_arrays_of"):
            patch.setattr(StoredRows, name, refuse(name, getattr(StoredRows, name)))
        yield


def spend_all(holdout):
    """Answers to trifles until there is no budget left."""
    k = 0
    while not holdout.quote().refused:
        holdout.ask(f"delay > {k}.5 and late = 1", guess=1.0 if holdout.mechanism.traits.needs_guess else None)
        k += 1


@pytest.mark.parametrize("analyst", [None, "team-a"])
@pytest.mark.parametrize("kind", QUERIES)
def test_neither_a_repeat_nor_a_refusal_is_looked_at(tmp_path, kind, analyst):
    wanted, ask = QUERIES[kind]
    with create(tmp_path, **wanted) as holdout:
        holdout.allot("team-a", queries=100, charges=10_000)
        asking = holdout if analyst is None else holdout.analyst(analyst)
        first = ask(asking)
        with blindfolded():
            assert ask(asking).charged == 0
        spend_all(holdout)
        entries = len(holdout.transcript())
        with blindfolded():
            again = ask(asking)
        assert {**again.to_dict(), "remaining": 0, "charged": 0} == {**first.to_dict(), "remaining": 0, "charged": 0}
        assert len(holdout.transcript()) == entries
    with create(tmp_path, "spent", **wanted) as holdout:
        holdout.allot("team-a", queries=100, charges=10_000)
        asking = holdout if analyst is None else holdout.analyst(analyst)
        spend_all(holdout)
        before = holdout.status()
        with blindfolded():
            refused = ask(asking)
        assert str(refused).startswith("refused")
        assert refused.charged == 0
        assert holdout.status() == before


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_refuses_by_what_is_public(tmp_path, name):
    wanted = {"mechanism": eh.Ladder(rows=ROWS, queries=3, grid=9)} if name == "ladder" else {"mechanism": name}
    with create(tmp_path, queries=3, surprises=1, **wanted) as holdout:
        spend_all(holdout)
        before = holdout.status()
        with blindfolded():
            answers = holdout.ask_many([f"delay > {k} and late = 0" for k in range(4)])
        assert [answer.source for answer in answers] == ["refused"] * 4
        assert holdout.status() == before


def test_the_ledger_does_not_grow_over_a_thousand_refusals(tmp_path):
    with create(tmp_path, mechanism="gaussian", queries=1) as holdout:
        holdout.ask("delay > 0")
        before = holdout.status()
        for start in range(0, 900, 300):
            holdout.ask_many([f"delay > {k}" for k in range(start + 1, start + 301)])
        for k in range(100):
            assert holdout.ask(f"delay > {k}.5").source == "refused"
        assert holdout.status() == before
        assert holdout.status()["ledger_head"]["sequence"] == 1


def test_a_query_of_a_batch_that_is_refused_was_not_looked_at(tmp_path, monkeypatch):
    """What an allotment still pays for depends on what the first ones cost, which is known after they were answered."""
    reader, plain = [], StoredRows.totals

    def spied(self, queries, **named):
        reader.extend(query.shown for query in queries if self._sealed)
        return plain(self, queries, **named)

    monkeypatch.setattr(StoredRows, "totals", spied)
    texts = [f"delay > {k}" for k in range(12)]
    guesses = [None, 1.0, None, 1.0, None, None, 1.0, *[None] * 5]
    one_by_one = []
    with create(tmp_path, "one by one", mechanism=guess_and_check(surprises=2)) as holdout:
        holdout.allot("a", queries=12, charges=2)
        for text, guess in zip(texts, guesses, strict=True):
            one_by_one.append(holdout.analyst("a").ask(text, guess=guess))
    reader.clear()
    with create(tmp_path, mechanism=guess_and_check(surprises=2)) as holdout:
        holdout.allot("a", queries=12, charges=2)
        answers = holdout.analyst("a").ask_many(texts, guesses=guesses)
        ledger = [
            entry.query for entry in all_entries(holdout._executor.ledger, holdout.status()["ledger_head"]["sequence"])
        ]
    answered = [answer.query for answer in answers if answer.source != "refused"]
    assert len(reader) == len(set(reader)) == len(answered)
    assert ledger[1:] == answered  # after the allotment
    assert 0 < len(answered) < len(texts)
    assert [(a.value, a.source) for a in answers] == [(a.value, a.source) for a in one_by_one]


def test_a_refused_query_stays_open(tmp_path):
    with create(tmp_path, **PRIVACY) as holdout:
        holdout.allot("team-a", queries=9, charges=100)
        team = holdout.analyst("team-a")
        team.ask("delay > 0")
        assert team.ask("delay > 1").source == "refused"
        assert holdout.ask("delay > 1").source == "holdout"
    with create(tmp_path, "dear", **PRIVACY) as holdout:
        left = holdout.remaining["credits"]
        assert str(holdout.ask(eh.private_choose(["delay > 1", "delay > 2"], price=left + 1))).startswith("refused")
        assert holdout.ask(eh.private_choose(["delay > 1", "delay > 2"], price=left)).charged == left


def test_a_query_that_was_not_looked_at_is_not_answered(tmp_path):
    """Between the look and the transaction others may spend; what the transaction finds is refused or answered anew."""
    with create(tmp_path, mechanism="gaussian", queries=2) as holdout:
        executor, plain = holdout._executor, StoredRows.totals

        def another_asks_first(self, queries, **named):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(StoredRows, "totals", plain)
                holdout.ask("delay > 50")
            return plain(self, queries, **named)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "everhold.queries.means.plans._MOST_SHORT", 0
            )  # a short query is evaluated in the transaction
            patch.setattr(StoredRows, "totals", another_asks_first)
            answers = holdout.ask_many(["delay > 0", "delay > 1"])
        assert [answer.source for answer in answers] == ["holdout", "refused"]
        assert executor.state().asked == len(holdout.transcript()) == 2


def test_a_strict_refusal_says_that_nothing_was_charged(tmp_path):
    with create(tmp_path, training=rows(1), mechanism="gaussian", queries=1) as holdout:
        holdout.ask("delay > 0")
        with blindfolded(), pytest.raises(eh.BudgetExhausted, match="nothing was charged"):
            holdout.ask("delay > 1", strict=True)


COUNTING = {
    "mean among some rows": lambda scores: mean("x", low=0, high=1, given="y = 1"),
    "AUC of known scores": lambda scores: eh.auc(scores),
    "difference of two AUCs": lambda scores: eh.difference(eh.auc(scores), eh.auc(1.0 - scores)),
}


@pytest.mark.parametrize("query", COUNTING.values(), ids=COUNTING)
def test_the_work_of_an_interval_does_not_tell_how_many_sealed_rows_count(query, tmp_path, monkeypatch):
    """A silent answer tells nothing, so its time may not tell how many of the sealed rows are in the condition."""
    rng, kinds = np.random.default_rng(0), []
    plain = joint.JointBets.gains
    monkeypatch.setattr(
        joint.JointBets, "gains", lambda bets, paths: kinds.append(len(bets.counts)) or plain(bets, paths)
    )
    most = {}
    for share in (0.02, 0.98):
        sealed = {"x": rng.random(8_000), "y": (rng.random(8_000) < share).astype(int)}
        training = {"x": rng.random(300), "y": (rng.random(300) < 0.3).astype(int)}
        with eh.Holdout.create(
            tmp_path / "s.db", f"share{share}", holdout=sealed, training=training, label="y", queries=9,
            mechanism="guess_and_check",
        ) as holdout:  # fmt: skip
            kinds.clear()
            holdout.ask(query(rng.random(8_000)), silent=True, guess=0.5)
            most[share] = max(kinds)
    assert max(most.values()) <= 1_100, most
