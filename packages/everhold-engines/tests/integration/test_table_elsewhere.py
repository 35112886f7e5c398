"""Rows in an engine that is not the embedded one: it counts itself, says nothing of its own, and can be interrupted."""

import dataclasses
import os
import signal
import threading
import traceback

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rows_contract import ROWS, EngineContract, asked, columns_of_rows
from second_engine import SecondEngine

from everhold import GuessAndCheck, Holdout, Unavailable, mean
from everhold.asking.creation import settings_from
from everhold.asking.query_executor import Execution
from everhold.errors import EverholdError
from everhold.mechanisms.records import Evaluations
from everhold.randomness import SeededNoise
from everhold.testing.rows import SCHEMA
from everhold_engines.remote_rows import RemoteRows

pytestmark = pytest.mark.filterwarnings("ignore::everhold.errors.EverholdWarning")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("elsewhere") / "rows.parquet"
    pq.write_table(pa.table(columns_of_rows()), path)
    return path


class TestSecondEngine(EngineContract):
    @pytest.fixture
    def engine(self, path):
        engine = SecondEngine(path)
        yield engine
        engine.close()


class Counted(SecondEngine):
    """Says of every expression that so many grid units were added up."""

    def __init__(self, path, total):
        super().__init__(path)
        self.total = total

    def rows(self, statement):
        return [(self.total,)]


def test_totals_of_twenty_billion_rows_are_exact_through_the_mechanism(path):
    rows = 20_000_000_000
    mechanism = GuessAndCheck.tuned(rows=rows, queries=100, surprises=2)
    total = 3 * rows * mechanism.unit // 10 + 1
    assert mechanism.unit == 2**21
    assert 2**53 < total <= mechanism.steps < 2**56
    stored = RemoteRows(Counted(path, total), SCHEMA, rows=rows, sealed=True)
    totals, seen = stored.evaluate(asked(mean("x > 0")), ["total"], unit=mechanism.unit)
    assert int(totals[0, 0]) == total
    evaluations = Evaluations(totals, np.array([total]), rows, mechanism.unit)
    _, replies = mechanism.answer(mechanism.start(SeededNoise(0)), evaluations, SeededNoise(1))
    assert abs(float(replies.values[0]) - 0.3) < 1e-9
    assert replies.lows[0] < 0.3 < replies.highs[0]
    assert seen == [None]


def test_with_the_finest_grid_they_would_not_fit():
    with pytest.raises(ValueError, match="with unit="):
        GuessAndCheck.tuned(rows=20_000_000_000, queries=100, surprises=2, unit=2**30)
    with pytest.raises(ValueError, match=f"Pass at most {2**36:,}"):
        GuessAndCheck.tuned(rows=2**36 + 1, queries=100, surprises=2)


CANARY = "row 4711"


class Failing(SecondEngine):
    """Fails with an error of its own, which quotes a row."""

    def __init__(self, path, error):
        super().__init__(path)
        self.error = error

    def rows(self, statement):
        raise self.error


def test_what_an_engine_says_of_its_errors_is_hidden(path):
    stored = RemoteRows(Failing(path, RuntimeError(CANARY)), SCHEMA, rows=ROWS, sealed=True)
    with pytest.raises(EverholdError) as caught:
        stored.totals(asked(mean("x > 0")))
    assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_an_engine_that_cannot_be_reached_is_unavailable(path):
    stored = RemoteRows(Failing(path, Unavailable("try again")), SCHEMA, rows=ROWS, sealed=True)
    with pytest.raises(Unavailable) as caught:
        stored.totals(asked(mean("x > 0")))
    assert caught.value.http_status == 503


class Endless(SecondEngine):
    """Waits where nobody hears signals, until it is told to stop."""

    def rows(self, statement):
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        assert self.interrupted.wait(60.0)
        raise RuntimeError(CANARY)


def test_ctrl_c_is_heard_and_ends_the_statement(path):
    engine = Endless(path)
    stored = RemoteRows(engine, SCHEMA, rows=ROWS, sealed=True)
    with pytest.raises(KeyboardInterrupt):
        stored.totals(asked(mean("x > 0")))
    assert engine.interrupted.is_set()


def study(folder, engine, **wanted):
    """A holdout whose sealed rows are in another engine than the one that it was created with."""
    rows = columns_of_rows()
    training = {**rows, "id": rows["id"] + 1, "share": np.roll(rows["share"], 1), "x": np.roll(rows["x"], 3)}
    holdout = Holdout.create(
        folder / "study.db",
        "study",
        holdout=rows,
        training=training,
        label="late",
        queries=500,
        **settings_from({**wanted, "row_id": "id", "surprises": 3, "equal_rows": True}),
    )
    sealed = RemoteRows(engine, SCHEMA, rows=ROWS, sealed=True)
    session = holdout._transport.session
    session._executor = dataclasses.replace(session._executor, sealed=sealed)
    return holdout


def test_many_queries_take_as_few_passes_as_the_engine_does(tmp_path, path):
    engine = SecondEngine(path)
    texts = [f"share > {k / 300}" for k in range(300)]
    with study(tmp_path, engine) as holdout:
        answers = holdout.ask_many(texts, guesses=[0.5 if k in (7, 290) else None for k in range(300)])
        assert len(engine.statements) == 3
        sources = [answer.source for answer in answers]
        assert sources.count("holdout") == 2
        assert "refused" not in sources
        assert holdout.ask("share > 0.9991").source == "training"
    (tmp_path / "alone").mkdir()
    with study(tmp_path / "alone", SecondEngine(path)) as holdout:
        alone = [holdout.ask(text, guess=0.5 if k in (7, 290) else None) for k, text in enumerate(texts)]
    assert [(one.value, one.source) for one in alone] == [(one.value, one.source) for one in answers]
    assert all(one.low <= other.low for one, other in zip(alone, answers, strict=True))  # a batch is one step


def test_a_batch_that_is_interrupted_leaves_nothing_half_charged(tmp_path, path, monkeypatch):
    monkeypatch.setattr("everhold.asking.query_executor.IN_ONE_TRANSACTION", 40)
    texts = [f"share > {k / 100}" for k in range(100)]
    with study(tmp_path, SecondEngine(path)) as holdout:
        plain, turns = Execution.answer, []

        def impatient(*of, **more):
            turns.append(1)
            if len(turns) == 2:
                raise KeyboardInterrupt
            plain(*of, **more)

        with monkeypatch.context() as patch:
            patch.setattr(Execution, "answer", impatient)
            with pytest.raises(KeyboardInterrupt):
                holdout.ask_many(texts)
        assert len(holdout.transcript()) == 40
        again = holdout.ask_many(texts)
        assert [answer.repeated for answer in again] == [True] * 40 + [False] * 60
        assert len(holdout.transcript()) == 100
