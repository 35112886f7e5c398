"""The locked engine reads one file, changes nothing, and its errors say nothing."""

from __future__ import annotations

import os
import signal
import threading
import traceback

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from everhold.errors import EverholdError, HoldoutRejected, QueryRejected
from everhold.sealing.intake.duckdb_files import POSITION
from everhold.sealing.rows.embedded import SEALED, engine_errors_hidden, fetched, locked_connection

CANARY = "canary-4711"


@pytest.fixture
def folder(tmp_path):
    with duckdb.connect() as writer:
        for name in ("sealed", "other"):
            target = tmp_path / f"{name}'s rows.parquet"
            writer.execute(f"COPY (SELECT range AS x FROM range(5)) TO '{str(target).replace(chr(39), chr(39) * 2)}'")
    (tmp_path / "canary.csv").write_text(CANARY)
    return tmp_path


@pytest.fixture
def engine(folder):
    with locked_connection(folder / "sealed's rows.parquet", threads=1) as connection:
        yield connection


def test_it_does_not_show_how_far_it_has_come(engine):
    assert engine.execute("SELECT current_setting('enable_progress_bar')").fetchall() == [(False,)]


def test_the_sealed_rows_can_be_read_with_their_positions(engine):
    assert engine.execute(f"SELECT x, {POSITION} FROM {SEALED}").fetchall() == [(x, x) for x in range(5)]
    assert engine.cursor().execute(f"SELECT sum(x) FROM {SEALED}").fetchall() == [(10,)]


def test_a_path_with_signs_of_patterns_is_one_file(folder):
    (odd := folder / "study[1]*?").mkdir()
    rows = (folder / "sealed's rows.parquet").rename(odd / "rows[2].parquet")
    other = (folder / "other's rows.parquet").rename(folder / "rows2.parquet")
    with locked_connection(rows, threads=1) as connection:
        assert connection.execute(f"SELECT sum(x) FROM {SEALED}").fetchall() == [(10,)]
        for path in (other, odd / "*.parquet"):
            with pytest.raises(duckdb.Error):
                connection.execute(f"SELECT * FROM read_parquet('{path}')")


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('{folder}/canary.csv')",
        "SELECT * FROM read_text('{folder}/canary.csv')",
        "SELECT * FROM read_blob('{folder}/canary.csv')",
        "SELECT * FROM '{folder}/canary.csv'",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM read_parquet('{folder}/other''s rows.parquet')",
        "SELECT * FROM read_parquet('{folder}/*.parquet')",
        "SELECT * FROM sniff_csv('{folder}/canary.csv')",
        "COPY (SELECT 1) TO '{folder}/new.csv'",
        "COPY (SELECT 1 AS x) TO '{folder}/sealed''s rows.parquet'",
        "EXPORT DATABASE '{folder}/export'",
        "ATTACH '{folder}/new.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SELECT * FROM 'https://example.org/rows.parquet'",
        "CREATE PERSISTENT SECRET s (TYPE http, BEARER_TOKEN 'x')",
        "SELECT getenv('HOME')",
        "SELECT * FROM folder",
        "SET threads = 2",
        "SET GLOBAL allowed_paths = ['/']",
        "SET allowed_directories = ['/']",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SET disabled_optimizers = ''",
        "SET memory_limit = '1TB'",
        "SET temp_directory = '{folder}'",
        "RESET memory_limit",
        "PRAGMA threads = 2",
        "SET profiling_output = '{folder}/plans.txt'",
    ],
)
def test_everything_else_is_refused(engine, folder, statement):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for connection in (engine, engine.cursor()):
        with pytest.raises(duckdb.Error):
            connection.execute(statement.format(folder=folder)).fetchall()
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_without_the_lock_the_canary_is_read(folder):
    with duckdb.connect() as connection:
        assert CANARY in str(connection.execute(f"SELECT content FROM read_text('{folder}/canary.csv')").fetchall())


@pytest.mark.parametrize("problem", ["missing", "text", "position"])
def test_a_file_that_cannot_be_sealed_is_refused_without_the_engines_words(folder, problem):
    path = folder / f"{problem}.parquet"
    if problem == "text":
        path.write_text(CANARY)
    if problem == "position":
        with duckdb.connect() as writer:
            writer.execute(f"COPY (SELECT 1 AS {POSITION}) TO '{path}'")
    with pytest.raises(EverholdError, match="The engine could not evaluate") as caught:
        locked_connection(path)
    assert str(path) not in "".join(traceback.format_exception(caught.value))


def test_names_that_the_engine_cannot_tell_apart_are_refused(folder):
    pq.write_table(pa.table({"delay": [1], "Delay": [2]}), folder / "case.parquet")
    with pytest.raises(HoldoutRejected, match="differ only in case"):
        locked_connection(folder / "case.parquet")


def test_no_trace_of_the_engines_error_is_left(engine):
    with pytest.raises(EverholdError) as caught, engine_errors_hidden:
        engine.execute(f"SELECT '{CANARY}'::INTEGER").fetchall()
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert "canary" not in caught.value.message


def test_our_own_errors_and_interrupts_pass():
    with pytest.raises(QueryRejected, match="mine"), engine_errors_hidden:
        raise QueryRejected("mine")
    with pytest.raises(KeyboardInterrupt), engine_errors_hidden:
        raise KeyboardInterrupt
    with engine_errors_hidden:
        pass


def test_the_time_limit_stops_a_long_statement(engine):
    endless = "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b"
    with pytest.raises(EverholdError, match="enough memory and time"):
        fetched(engine, endless, max_seconds=0.1)
    assert fetched(engine, f"SELECT sum(x) FROM {SEALED}") == [(10,)]  # and it is ready for the next one


def test_an_interrupt_is_one_and_the_engine_is_ready_again(engine):
    endless = "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b"
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        fetched(engine, endless)
    timer.join()
    assert fetched(engine, f"SELECT sum(x) FROM {SEALED}") == [(10,)]
