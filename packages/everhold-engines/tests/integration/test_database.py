"""PostgreSQL: what it answers is what the embedded engine answers, in transactions that may only read."""

import multiprocessing
import os
import time

import numpy as np
import psycopg
import pytest
import sqlalchemy as sa
from engine_tables import in_postgres, interrupted
from rows_contract import EngineContract, columns_of_rows

from everhold.errors import EverholdError, IntegrityError, Unavailable
from everhold.values.expressions import ColumnKind
from everhold_engines import database
from everhold_engines.database import Database
from everhold_engines.sql.dialects import dialect_named


class TestPostgreSQL(EngineContract):
    @pytest.fixture(scope="class")
    @classmethod
    def filled(cls, postgres):
        name = postgres.new_database()
        yield in_postgres(postgres.url(name), columns_of_rows())
        postgres.drop(name)

    @pytest.fixture
    def engine(self, filled):
        yield filled
        filled.close()


@pytest.fixture
def rows(postgres_database):
    """A connection, and an engine on a table of its own."""
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('good', 'bad')")
        connection.execute(
            "CREATE TABLE study (i bigint, d date, t timestamptz(3), n numeric(12, 2), whole numeric, m mood, u uuid, "
            "s char(3), a text[])"
        )
        connection.execute(
            "INSERT INTO study VALUES (1, '1500-01-01', '2020-01-01 00:00+05', 1.25, 2 ^ 100::numeric, 'good', NULL, "
            "'ab'), (2, 'infinity', '-infinity', NULL, 3, 'bad', NULL, NULL), "
            "(3, '0044-03-15 BC', NULL, 7, 4, NULL, NULL, '')"
        )
        engine = Database(postgres_database, "study")
        yield connection, engine
        engine.close()


def test_types_of_its_own_are_known_or_left_alone(rows):
    _, engine = rows
    kinds = engine.columns()
    assert {name: kind.value for name, kind in kinds.items()} == {
        "i": "number", "d": "time", "t": "time", "n": "number", "whole": "number", "m": "string", "u": "other",
        "s": "string", "a": "other",
    }  # fmt: skip
    found = engine.arrays(f"SELECT * FROM {engine.source} AS t ORDER BY i")
    assert found["d"].tolist()[1:] == [None, None]  # what Python has no time for is missing, and no error
    assert found["t"][0] == np.datetime64("2019-12-31T19:00")
    assert found["n"].tolist() == [1.25, None, 7.0]
    assert found["whole"].tolist() == [2**100, 3, 4]
    assert found["u"].mask.all()


def test_times_and_bytes_are_written_alike_whatever_the_database_is_set_to(rows, postgres_database):
    connection, engine = rows
    digest = engine.contents("key")
    name = connection.info.dbname
    for setting in (
        "TimeZone = 'Asia/Tokyo'",
        "DateStyle = 'German'",
        "bytea_output = 'escape'",
        "extra_float_digits = 0",
    ):
        connection.execute(f"ALTER DATABASE {name} SET {setting}")
    other = Database(postgres_database, "study")
    assert other.contents("key") == digest
    other.close()


def test_texts_are_told_apart_by_their_signs_whatever_their_language_takes_for_equal(rows, postgres_database):
    connection, _ = rows
    connection.execute("CREATE COLLATION same (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    connection.execute("CREATE EXTENSION citext")
    connection.execute("CREATE TABLE texts (s text COLLATE same, c citext, f char(3) COLLATE same)")
    connection.execute("INSERT INTO texts VALUES ('a', 'a', 'a'), ('A', 'A', 'A'), ('b', 'b', 'b'), ('B', 'B', 'B')")
    engine = Database(postgres_database, "texts")
    assert set(engine.columns().values()) == {ColumnKind.STRING}
    for name in "scf":
        found = engine.rows(f"SELECT DISTINCT {name} FROM {engine.source} AS t ORDER BY 1")
        assert found == [("A",), ("B",), ("a",), ("b",)]  # and no blanks behind them
        assert engine.arrays(f"SELECT max({name}) AS m FROM {engine.source} AS t")["m"].tolist() == ["b"]
    engine.close()


def test_a_change_is_noticed_once_the_server_has_counted_it(rows):
    connection, engine = rows
    engine.contents("key")
    connection.execute("UPDATE study SET n = 7.01 WHERE i = 3")
    connection.execute("SELECT pg_stat_force_next_flush()")
    with pytest.raises(IntegrityError, match="Restore the rows"), engine.reading():
        pass
    connection.execute("UPDATE study SET n = 7.00 WHERE i = 3")
    connection.execute("SELECT pg_stat_force_next_flush()")
    with engine.reading():
        pass


def test_a_statement_can_be_ended_from_another_thread_and_ends_by_its_limit(rows, postgres_database):
    _, engine = rows
    started = time.monotonic()
    with pytest.raises(EverholdError, match="could not evaluate"), interrupted(engine):
        engine.rows("SELECT pg_sleep(30)")
    short = Database(postgres_database, "study", max_seconds=0.2)
    with pytest.raises(EverholdError, match="enough memory and time"):
        short.rows("SELECT pg_sleep(30)")
    short.close()
    assert time.monotonic() - started < 30  # seconds of one statement
    assert engine.rows("SELECT '100 %', '%s', ':name'") == [("100 %", "%s", ":name")]


def test_a_fork_has_connections_of_its_own(rows):
    _, engine = rows
    assert engine.rows("SELECT 1") == [(1,)]
    ours, theirs = multiprocessing.Pipe()
    child = os.fork()
    if not child:
        theirs.send(engine.rows("SELECT pg_backend_pid()"))
        os._exit(0)
    os.waitpid(child, 0)
    ((parents,),) = engine.rows("SELECT pg_backend_pid()")
    assert ours.recv() != [(parents,)]


def test_an_engine_of_sqlalchemy_stays_the_callers(rows, postgres_database):
    address = sa.make_url(postgres_database).set(drivername="postgresql+psycopg")
    given = sa.create_engine(address)
    with given.connect() as connection:
        engine = Database(given, "public.study")
        assert engine.rows(f"SELECT count(*) FROM {engine.source} AS t") == [(3,)]
        assert str(address.password) not in repr(engine) + str(engine.to_dict())
        engine.close()
        assert connection.exec_driver_sql("SELECT 1").scalar_one() == 1
    given.dispose()


def test_a_server_that_stops_is_unavailable():
    engine = Database("postgresql://steward:secret@127.0.0.1:9/study", "rows")
    with pytest.raises(Unavailable, match=r"at postgresql://steward@127\.0\.0\.1:9/study cannot be reached"):
        engine.columns()


WAYS = {
    "wrong password": (lambda at: at.set(password="swordfish"), "does not accept the user"),
    "no password": (lambda at: at._replace(password=None), "does not accept the user"),
    "nobody": (lambda at: at.set(username="nobody"), "does not accept the user"),
    "no database": (lambda at: at.set(database="nowhere"), "or the database"),
    "nobody there": (lambda at: at.set(port=9), "cannot be reached"),
    "unknown option": (lambda at: at.update_query_dict({"nonsense": "swordfish"}), "Check the address"),
}


@pytest.mark.parametrize("case", WAYS)
def test_whoever_does_not_get_in_is_told_why(postgres, case, caplog, capfd):
    way, words = WAYS[case]
    engine = Database(way(sa.make_url(postgres.url())), "study")
    with pytest.raises(Unavailable, match=words) as kept_out:
        engine.columns()
    told = str(kept_out.value) + caplog.text + "".join(capfd.readouterr())
    assert not any(word in told for word in ("swordfish", postgres.password))
    engine.close()


def test_rows_of_other_databases_are_hashed_here(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "dialect_named", lambda name: dialect_named("trino"))
    address = f"sqlite:///{tmp_path / 'study.db'}"
    file = sa.create_engine(address)
    digests = set()
    for values in ("(1, 'NULL', 0.1), (2, NULL, NULL)", "(1, NULL, 0.1), (2, NULL, NULL)"):
        with file.begin() as connection:
            connection.exec_driver_sql("DROP TABLE IF EXISTS study")
            connection.exec_driver_sql("CREATE TABLE study (i INTEGER, s TEXT, x FLOAT)")
            connection.exec_driver_sql(f"INSERT INTO study VALUES {values}")
        engine = Database(address, "study")
        assert list(engine.columns().values()) == [ColumnKind.NUMBER, ColumnKind.STRING, ColumnKind.NUMBER]
        digests |= {engine.contents(), engine.contents("key")}
        assert engine.rows("SELECT i, x FROM study")[0] == (1, 0.1)
        engine.close()
    file.dispose()
    assert (len(digests), engine.kind, engine.dialect.tested) == (4, "database", False)


def test_what_is_no_address_is_refused():
    with pytest.raises(ValueError, match="Not an engine URL"):
        Database("nonsense", "rows")
