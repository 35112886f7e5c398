"""What only a server can do to a ledger: refuse, forget a connection, stop, and come back."""

import logging
import os
import pickle
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from ledger_samples import KEY, ask, new_study, query, spend
from postgres_cluster import running_cluster

from everhold.errors import AuthError, EverholdError, IntegrityError, Unavailable
from everhold.ledger import Ledger, LedgerStore, verify
from everhold.ledger.schema import CURRENT_REVISION


@pytest.fixture
def store(postgres_url):
    with LedgerStore.open(postgres_url) as opened:
        yield opened


@pytest.fixture
def record(store):
    return new_study(store)


@pytest.fixture
def raw(postgres_url):
    """A connection past everhold."""
    with psycopg.connect(postgres_url.partition("?")[0], autocommit=True) as connection:
        yield connection


def altered(raw, statement):
    """Run a statement as somebody who may do everything in the database."""
    for table in ("entries", "head", "holdouts"):
        raw.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
    raw.execute(statement)


REFUSED = [
    "UPDATE entries SET charged = 0",
    "DELETE FROM entries WHERE sequence = 2",
    "TRUNCATE entries",
    "INSERT INTO entries SELECT * FROM entries WHERE sequence = 1",
    "UPDATE holdouts SET configuration = '{}'",
    "DELETE FROM holdouts",
    "TRUNCATE holdouts CASCADE",
    "UPDATE head SET charged = 0",
    "UPDATE head SET sequence = 1",
    "UPDATE head SET state = '{}'",
    "DELETE FROM head",
    "TRUNCATE head",
]


@pytest.mark.parametrize("statement", REFUSED)
def test_the_database_itself_refuses_to_forget(store, record, raw, statement):
    ask(store, record, 1, 2)
    with pytest.raises(psycopg.IntegrityError):
        raw.execute(statement)
    assert verify(store, "study", seal_key=KEY).ok


FORGED = {
    "an answer is gone": "DELETE FROM entries WHERE sequence = 2",
    "an answer is another one": "UPDATE entries SET answer = replace(answer, '1', '2') WHERE sequence = 2",
    "an answer is about another query": "UPDATE entries SET query = md5('a') || md5('b') WHERE sequence = 2",
    "the head is older": "UPDATE head SET sequence = 1",
    "less was charged": "UPDATE head SET charged = 0",
}


@pytest.mark.parametrize("remembering", [True, False])
@pytest.mark.parametrize("how", FORGED)
def test_nothing_is_answered_on_what_was_altered_while_it_runs(store, record, raw, postgres_url, how, remembering):
    ask(store, record, 1, 2, 3)
    altered(raw, FORGED[how])
    with LedgerStore.open(postgres_url) as fresh, pytest.raises(IntegrityError):
        ask(store if remembering else fresh, record, 2)
    assert not verify(store, "study", seal_key=KEY).ok


def test_an_entry_of_a_lost_branch_is_no_answer(store, record, raw, postgres_url):
    """Somebody sets the ledger back, keeps an entry that was lost, seal and all, and puts it in another one's place."""
    ask(store, record, 1)
    head = raw.execute("SELECT * FROM head").fetchone()
    ask(store, record, 2)
    lost = raw.execute("SELECT * FROM entries WHERE sequence = 2").fetchone()
    altered(raw, "DELETE FROM entries WHERE sequence = 2")
    raw.execute("DELETE FROM head")
    put(raw, "head", head)
    with LedgerStore.open(postgres_url) as other:
        assert ask(other, record, 3)[0].sequence == 2
        raw.execute("DELETE FROM entries WHERE sequence = 2")
        put(raw, "entries", lost)
        assert Ledger(other.database, record.id, KEY).find(query(2).fingerprint) is not None  # its seal is genuine
        with pytest.raises(IntegrityError, match="added"):
            ask(other, record, 2)


def put(raw, table, row):
    raw.execute(f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(row))})", row)


def test_a_connection_that_was_cut_is_found_out_before_anything_is_asked(store, record, raw):
    ask(store, record, 1)
    raw.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                "AND datname = current_database()")  # fmt: skip
    assert ask(store, record, 2)[0].sequence == 2


def cut(raw):
    raw.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                "AND datname = current_database() AND state LIKE 'idle in transaction%'")  # fmt: skip


def test_a_connection_that_is_cut_in_between_charges_nothing(store, record, raw, caplog):
    def step(state, indices):
        cut(raw)
        return spend(state, indices)

    with caplog.at_level(logging.WARNING), pytest.raises(EverholdError, match="Nothing was charged") as caught:
        ask(store, record, 1, step=step)
    assert "terminating" not in str(caught.value)
    assert caplog.records == []
    assert store.head(record.id).sequence == 0
    assert ask(store, record, 1)[0].charged == 1


def test_a_connection_that_is_lost_while_committing_says_that_asking_again_is_free(store, record, raw, monkeypatch):
    commit = sa.Connection.commit

    def committed_and_lost(connection):
        commit(connection)
        raise sa.exc.DBAPIError("COMMIT", {}, psycopg.OperationalError("server closed the connection: secret"))

    with monkeypatch.context() as patch:
        patch.setattr(sa.Connection, "commit", committed_and_lost)
        with pytest.raises(EverholdError, match="Ask the same query again") as caught:
            ask(store, record, 1)
    assert "secret" not in str(caught.value)
    assert [(c.charged, c.repeated) for c in ask(store, record, 1)] == [(0, True)]


TIMEOUTS = {"statement_timeout": "SELECT pg_sleep(5)", "idle_in_transaction_session_timeout": None}


@pytest.mark.parametrize("limit", TIMEOUTS)
def test_limits_of_an_administrator_charge_nothing(store, record, raw, postgres_url, limit):
    """They apply to connections that are made later."""
    raw.execute(f"ALTER ROLE steward IN DATABASE {raw.info.dbname} SET {limit} = 1000")

    def step(state, indices):
        time.sleep(2.0)
        return spend(state, indices)

    def waiting(state, indices):
        with pytest.raises(Unavailable, match="Nothing was charged"):
            ask(limited, record, 2)
        return spend(state, indices)

    with LedgerStore.open(postgres_url) as limited:
        if limit == "statement_timeout":
            assert ask(store, record, 1, step=waiting)[0].charged == 1
        else:
            with pytest.raises(Unavailable, match="Nothing was charged"):
                ask(limited, record, 1, step=step)
        assert [c.charged for c in ask(limited, record, 1, 2)] == [int(limit != "statement_timeout"), 1]
        assert verify(limited, "study", seal_key=KEY).ok


@pytest.mark.parametrize("said", ["off", "local"])
def test_answers_are_durable_whatever_an_administrator_set(store, record, raw, postgres_url, said):
    raw.execute(f"ALTER ROLE steward IN DATABASE {raw.info.dbname} SET synchronous_commit = {said}")
    with LedgerStore.open(postgres_url) as other:
        with other.database.transaction(writing=True) as connection:
            found = connection.exec_driver_sql("SHOW synchronous_commit").scalar_one()
        assert found == ("on" if said == "off" else "local")
        with other.database.transaction() as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar_one() == said


def test_two_storages_in_schemas_of_one_database_know_nothing_of_each_other(postgres_url, store, record, raw):
    raw.execute("CREATE SCHEMA second")
    ask(store, record, 1)
    with LedgerStore.open(f"{postgres_url}&options=-csearch_path%3Dsecond") as other:
        assert other.names() == []
        mine = new_study(other)
        assert [c.sequence for c in ask(other, mine, 2, 3)] == [1, 2]
        assert verify(other, "study", seal_key=KEY).ok
    assert store.head(record.id).sequence == 1


def test_a_locked_ledger_says_that_it_is_busy(store, record, postgres_url):
    def step(state, indices):
        with LedgerStore.open(postgres_url, patience=0.05) as other:
            assert other.head(record.id).sequence == 0
            with pytest.raises(EverholdError, match="busy"):
                ask(other, record, 2)
        return spend(state, indices)

    assert ask(store, record, 1, step=step)[0].sequence == 1
    assert ask(store, record, 2)[0].sequence == 2


def test_writers_of_other_holdouts_do_not_wait(store, record, postgres_url):
    other = new_study(store, "other")

    def step(state, indices):
        with LedgerStore.open(postgres_url, patience=0.05) as second:
            ask(second, other, 1)
        return spend(state, indices)

    ask(store, record, 1, step=step)
    assert store.head(other.id).sequence == 1


def test_the_password_is_in_no_repr_and_no_message(store, record, postgres, postgres_url):
    shown = [repr(store), str(store), repr(store.database), repr(store.of(record, KEY))]
    wrong = postgres_url.replace(postgres.password, "hunter2")
    with pytest.raises(AuthError, match="password") as caught:
        LedgerStore.open(wrong)
    assert "hunter2" not in str(caught.value)
    in_query = f"postgresql://127.0.0.1:{postgres.port}/postgres?user=steward&password={postgres.password}"
    with LedgerStore.open(in_query) as other:
        shown += [repr(other), repr(other.database._engine)]
    assert [text for text in shown if postgres.password in text] == []
    with pickle.loads(pickle.dumps(store)) as copy:
        assert copy.names() == ["study"]


def test_what_cannot_be_opened_is_said_plainly(postgres):
    for url, words in (
        (postgres.url("nowhere"), "no database"),
        (postgres.url(postgres.new_database("LATIN1")), "Create it with UTF-8"),
        (postgres.url(colour="red"), "options"),
        ("postgresql://127.0.0.1:1/base", "cannot be reached"),
    ):
        with pytest.raises((EverholdError, ValueError), match=words):
            LedgerStore.open(url)


def test_a_newer_ledger_is_not_touched(store, raw, postgres_url):
    assert raw.execute("SELECT version_num FROM everhold_version").fetchone() == (CURRENT_REVISION,)
    raw.execute("UPDATE everhold_version SET version_num = '9999'")
    with pytest.raises(EverholdError, match="Update everhold"):
        LedgerStore.open(postgres_url)


def test_a_server_that_stops_and_comes_back_loses_nothing(postgres_installed):
    with running_cluster() as cluster, LedgerStore.open(cluster.url(cluster.new_database())) as store:
        record = new_study(store)
        ask(store, record, 1)
        cluster.stop()
        for _ in range(2):
            with pytest.raises(EverholdError, match="cannot be reached"):
                ask(store, record, 2)
        cluster.start()
        assert [c.sequence for c in ask(store, record, 1, 2)] == [1, 2]


def test_a_standby_tells_where_the_ledger_stands_and_answers_nothing(postgres_installed):
    with running_cluster() as cluster, LedgerStore.open(cluster.url(cluster.new_database())) as store:
        record = new_study(store)
        ask(store, record, 1)
        cluster.stop()
        (cluster.data / "standby.signal").touch()
        cluster.start()
        assert store.head(record.id).sequence == 1
        with pytest.raises(EverholdError, match="not a read-only standby"):
            ask(store, record, 2)
        with pytest.raises(EverholdError, match="not a read-only standby"):
            ask(store, record, 1)


_SERVER = """
import time
from postgres_cluster import running_cluster
with running_cluster() as cluster:
    print((cluster.data / "postmaster.pid").read_text().split()[0], cluster.folder, flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="no other system ends a child with its parent")
def test_the_server_of_tests_that_are_killed_ends_with_them(postgres_installed):
    places = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1] / "support"), *sys.path])}
    started = subprocess.Popen(
        [sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, text=True, env=os.environ | places
    )
    server, folder = started.stdout.readline().split()
    assert Path(f"/proc/{server}").exists()
    started.kill()
    started.communicate()
    until = time.monotonic() + 30
    while Path(f"/proc/{server}").exists() and time.monotonic() < until:
        time.sleep(0.02)
    shutil.rmtree(folder)
    assert not Path(f"/proc/{server}").exists()
