import logging
import multiprocessing
import os
import random
import sqlite3
import stat
import time

import pytest
from ledger_samples import KEY, ask, new_study

from everhold.errors import EverholdError, HoldoutNotFound, IntegrityError
from everhold.ledger import Ledger, LedgerStore, verify
from everhold.ledger.schema import VERSION_TABLE


def test_a_relative_address_keeps_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with LedgerStore.open("sqlite:///study.db") as store:
        monkeypatch.chdir("/")
        new_study(store)
        store.close()
        assert store.names() == ["study"]
    assert (tmp_path / "study.db").exists()


def test_the_files_are_private(store, record, path):
    ask(store, record, 1)
    files = list(path.parent.iterdir())
    assert len(files) == 3
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_a_missing_folder_or_file_is_said_plainly(tmp_path):
    with pytest.raises(EverholdError, match="Check that its folder exists"):
        LedgerStore.open(f"sqlite:///{tmp_path}/no/study.db")
    with pytest.raises(EverholdError, match="is no file"):
        LedgerStore.open(f"sqlite:///{tmp_path}")
    with pytest.raises(HoldoutNotFound, match="no ledger"):
        LedgerStore.open(f"sqlite:///{tmp_path}/typo.db", create=False)
    assert list(tmp_path.iterdir()) == []


def test_the_database_is_set_up_for_durability(store, path):
    with store.database.transaction() as connection:
        pragmas = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in PRAGMAS}
    assert pragmas == PRAGMAS


PRAGMAS = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 30_000}


def test_creating_prints_nothing_and_leaves_logging_alone(url, capfd):
    before = (logging.root.level, list(logging.root.handlers), logging.root.manager.disable)
    LedgerStore.open(url).close()
    assert capfd.readouterr() == ("", "")
    assert (logging.root.level, list(logging.root.handlers), logging.root.manager.disable) == before


@pytest.mark.parametrize("revision", ["9999", "0006"])
def test_a_newer_ledger_and_one_of_a_development_version_are_not_touched(url, store, path, revision):
    with sqlite3.connect(path) as raw:
        raw.execute(f"UPDATE {VERSION_TABLE} SET version_num = '{revision}'")
    raw.close()
    content = path.read_bytes()
    with pytest.raises(EverholdError, match=f"revision {revision}.*Update everhold, or seal the rows anew"):
        LedgerStore.open(url)
    assert path.read_bytes() == content


def test_an_empty_file_can_become_a_ledger(path, url):
    path.touch()
    with LedgerStore.open(url) as store:
        new_study(store)


def test_a_file_that_is_no_database_is_left_alone(path, url):
    path.write_bytes(b"a,b\n1,2\n" * 1_000)
    with pytest.raises(IntegrityError, match="not a ledger"):
        LedgerStore.open(url)
    assert path.read_bytes() == b"a,b\n1,2\n" * 1_000


def test_a_locked_ledger_says_that_it_is_busy(url, record, path):
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("BEGIN IMMEDIATE")
    with LedgerStore.open(url, patience=0.05) as store:
        start = time.monotonic()
        with pytest.raises(EverholdError, match="busy") as caught:
            ask(store, record, 1)
        assert time.monotonic() - start < 20  # others wait 30 seconds
        assert not isinstance(caught.value, IntegrityError)
        assert store.head(record.id).sequence == 0
        raw.execute("ROLLBACK")
        assert ask(store, record, 1)[0].sequence == 1
    raw.close()


def test_a_full_disk_records_nothing(store, record, path):
    with store.database.transaction() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
    store.close()
    with store.database.transaction() as connection:  # the one idle connection, which the next commit will use
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(EverholdError, match="disk is full"):
        ask(store, record, *range(500))
    store.close()
    assert store.head(record.id).sequence == 0
    assert verify(store, "study", seal_key=KEY).ok


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET charged = 0",
        "DELETE FROM entries",
        "DELETE FROM entries WHERE sequence = 2",
        "INSERT OR REPLACE INTO entries SELECT * FROM entries WHERE sequence = 1",
        "UPDATE OR REPLACE entries SET sequence = 1",
        "UPDATE holdouts SET configuration = '{}'",
        "DELETE FROM holdouts",
        "UPDATE head SET charged = 0",
        "UPDATE head SET sequence = 1",
        "UPDATE head SET state = '{}'",
        "INSERT OR REPLACE INTO holdouts SELECT * FROM holdouts",
        "INSERT OR REPLACE INTO head SELECT holdout_id, 0, 0, state, entry_hash, queries_hash, head_seal FROM head",
        "DELETE FROM head",
    ],
)
def test_the_database_itself_refuses_to_forget(store, record, path, statement):
    ask(store, record, 1, 2)
    raw = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError):
        raw.execute(statement)
    raw.close()
    assert verify(store, "study", seal_key=KEY).ok


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_opens_its_own_connections(store, record):
    ask(store, record, 1)
    child = multiprocessing.get_context("fork").Process(target=ask, args=(store, record, 2))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert ask(store, record, 3)[0].sequence == 3
    assert verify(store, "study", seal_key=KEY).ok


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_nothing_a_forked_child_commits_is_lost_when_the_parent_closes(store, record):
    # With inherited connections the child would rely on the parent's lock, and the parent delete the child's log.
    fork = multiprocessing.get_context("fork")
    asked, closed = fork.Event(), fork.Event()
    ask(store, record, 1)
    child = fork.Process(target=ask_before_and_after, args=(store, record, asked, closed))
    child.start()
    assert asked.wait(30)
    store.close()
    closed.set()
    child.join()
    assert child.exitcode == 0
    assert store.head(record.id).sequence == 3


def ask_before_and_after(store, record, asked, closed):
    ask(store, record, 2)
    asked.set()
    assert closed.wait(30)
    ask(store, record, 3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forked_within_a_transaction_refuses(store, record):
    def step(state, indices):
        child = multiprocessing.get_context("fork").Process(target=expect_refusal, args=(store, record))
        child.start()
        child.join()
        codes.append(child.exitcode)
        raise RuntimeError("enough")

    codes = []
    with pytest.raises(RuntimeError):
        ask(store, record, 1, step=step)
    assert codes == [0]
    assert ask(store, record, 1)[0].sequence == 1


def expect_refusal(store, record):
    with pytest.raises(EverholdError, match="spawn"):
        ask(store, record, 2)


def test_flipped_bits_in_the_file_never_pass_unnoticed(store, record, path, url):
    ask(store, record, *range(30))
    store.close()
    original, expected = path.read_bytes(), list(Ledger(store.database, record.id, KEY).entries())
    store.close()
    randomness = random.Random(1)
    used = [position for position, byte in enumerate(original) if byte]  # pages of tables without rows are zeros
    noticed = 0
    for position in [*range(0, 100, 9), *randomness.sample(used, 150)]:
        damaged = bytearray(original)
        damaged[position] ^= 1 << randomness.randrange(8)
        for leftover in path.parent.iterdir():
            leftover.unlink()
        path.write_bytes(damaged)
        noticed += not passes_as_the_same(url, record, expected)
    assert noticed > 60


def passes_as_the_same(url, record, expected):
    """Whether the ledger verifies; then it must also be the same (a flipped bit may lie in unused space)."""
    try:
        with LedgerStore.open(url, patience=0.0) as store:
            if not verify(store, "study", seal_key=KEY).ok:
                return False
            assert list(Ledger(store.database, record.id, KEY).entries()) == expected
            return True
    except EverholdError:
        return False


def test_no_statement_of_an_answer_reads_all_entries(store, record, path):
    """A trigger that searched by one column only would make the hundred-thousandth answer slow."""
    asked = "SELECT 1 FROM entries WHERE holdout_id = ? AND "
    with sqlite3.connect(path) as database:
        (trigger,) = database.execute("SELECT sql FROM sqlite_master WHERE name = 'entries_no_replace'").fetchone()
        plans = {
            column: database.execute(f"EXPLAIN QUERY PLAN {asked}{column} = ?", ("a", 1)).fetchall()[0][-1]
            for column in ("sequence", "query")
        }
    database.close()
    assert all(f"holdout_id=? AND {column}=?" in plan for column, plan in plans.items())
    assert "SEQUENCE = NEW.SEQUENCE OR" not in trigger.upper()
