"""Somebody who may do everything in the database, while processes run that remember which queries were asked."""

import hashlib
import sqlite3

import pytest
import sqlalchemy as sa
from ledger_samples import KEY, committed_by, new_study, query, spend

from everhold.errors import EverholdError, IntegrityError
from everhold.ledger import LedgerStore, verify
from everhold.ledger.chain import EntryIndex
from everhold.ledger.head_file import HeadFile


@pytest.fixture
def head_file(tmp_path):
    return lambda holdout: HeadFile.of(tmp_path, holdout=holdout, seal_key=KEY)


@pytest.fixture
def ledger(store, head_file):
    """A ledger with five answers, whose process remembers them."""
    record = new_study_with(store, head_file)
    made = store.of(record, KEY, head_file(record.id))
    asked(made, 1, 2, 3, 4, 5)
    return made


def new_study_with(store, head_file):
    return store.create("study", {"rows": 100}, {"spent": 0}, seal_key=KEY, head_file=head_file)


def asked(ledger, *numbers, step=spend):
    return committed_by(ledger, [query(number) for number in numbers], step)


@pytest.fixture(params=["remembers", "fresh", "remembers less"])
def reader(request, ledger, url):
    """A process that asks after the database was altered: with the memory that it may have."""
    if request.param == "remembers":
        yield ledger
        return
    with LedgerStore.open(url) as other:
        mine = other.of(other.record("study"), KEY, ledger.head_file)
        if request.param == "remembers less":
            asked(mine, 1)
            asked(ledger, 6, 7)
        yield mine


def renumbered(gone, last):
    return [f"DELETE FROM entries WHERE sequence = {gone}"] + [
        f"UPDATE entries SET sequence = {number - 1} WHERE sequence = {number}" for number in range(gone + 1, last + 1)
    ]


def split_anew(first, second):
    """Two queries of other lengths, that read the same one after the other."""
    one, other = query(first).fingerprint, query(second).fingerprint
    return [
        f"UPDATE entries SET query = '{one[:-2]}' WHERE query = '{one}'",
        f"UPDATE entries SET query = '{one[-2:] + other}' WHERE query = '{other}'",
    ]


TAKEN_AWAY = {
    "gone": ["DELETE FROM entries WHERE sequence = 2"],
    "gone and renumbered": renumbered(2, 5),
    "all of them": ["DELETE FROM entries"],
    "another query": [f"UPDATE entries SET query = '{'ab' * 32}' WHERE sequence = 2"],
    "in capitals": ["UPDATE entries SET query = upper(query) WHERE sequence = 2"],
    "split anew": split_anew(2, 3),
    "split anew, the other one": split_anew(1, 2),
    "of another holdout": [
        "INSERT INTO holdouts SELECT 'other', 'other', created, configuration FROM holdouts",
        "UPDATE entries SET holdout_id = 'other' WHERE sequence = 2",
    ],
}


@pytest.mark.parametrize("how", TAKEN_AWAY)
def test_a_query_that_was_taken_away_is_not_answered_anew(reader, alter, how):
    alter(*TAKEN_AWAY[how])
    for _ in range(2):
        with pytest.raises(IntegrityError, match="everhold ledger verify"):
            asked(reader, 2)


@pytest.mark.parametrize("how", ["gone and renumbered", "split anew"])
def test_without_the_check_it_would_be_answered_anew(ledger, url, alter, monkeypatch, how):
    alter(*TAKEN_AWAY[how])
    monkeypatch.setattr(EntryIndex, "up_to", lambda asked, last, queries_hash, later: EntryIndex(last, asked.digest))
    monkeypatch.setattr(EntryIndex, "__contains__", lambda asked, fingerprint: False)
    with LedgerStore.open(url) as other:
        mine = other.of(other.record("study"), KEY, ledger.head_file)
        (again,) = asked(mine, 2)
    assert (again.sequence, again.charged, again.repeated) == (6, 1, False)
    assert again.answer["value"] != 1 / 7


def copied(sequence, fingerprint):
    """The entry 3 once more, with another number and about another query."""
    return (
        f"INSERT INTO entries SELECT holdout_id, {sequence}, '{fingerprint}', description, answer, charged, asked_at, "
        "state_seal, previous_hash, entry_hash, entry_seal FROM entries WHERE sequence = 3"
    )


@pytest.mark.parametrize("sequence", [-1, 0, 6, 9])
def test_an_answer_that_was_put_in_is_not_served(reader, alter, sequence):
    head = reader.head()
    alter(copied(sequence + (head.sequence - 5 if sequence > 0 else 0), query(99).fingerprint))
    with pytest.raises(IntegrityError):
        asked(reader, 99)
    assert reader.head() == head


SET_BACK = ["DELETE FROM head", "DELETE FROM entries WHERE sequence > 3"]


def heads(store):
    with store.database.transaction() as connection:
        return connection.exec_driver_sql("SELECT * FROM head").all()


def put_back(row):
    return f"INSERT INTO head VALUES ({', '.join(repr(value) for value in row)})"


@pytest.fixture
def earlier(store, head_file):
    """A ledger whose process remembers five answers; with its head, and head file, as they were after three."""
    record = new_study_with(store, head_file)
    ledger = store.of(record, KEY, head_file(record.id))
    asked(ledger, 1, 2, 3)
    (head,) = heads(store)
    before = ledger.head_file.path.read_bytes()
    asked(ledger, 4, 5)
    return ledger, [*SET_BACK, put_back(head)], before


@pytest.mark.parametrize("number", [1, 4, 9])
def test_a_ledger_that_is_set_back_answers_nothing(earlier, alter, number):
    ledger, set_back, _ = earlier
    alter(*set_back)
    with pytest.raises(IntegrityError, match="set back"):
        asked(ledger, number)


def test_what_is_remembered_ends_where_everything_is_restored(earlier, alter, store):
    ledger, set_back, before = earlier
    alter(*set_back)
    ledger.head_file.path.write_bytes(before)
    assert [c.repeated for c in asked(ledger, 3, 4)] == [True, False]  # 4 was never asked here
    assert [c.sequence for c in asked(ledger, 5, 6, 4)] == [5, 6, 4]
    assert verify(store, "study", seal_key=KEY, head_file=ledger.head_file).ok


def test_heads_of_two_holdouts_are_not_swapped(ledger, store, alter):
    other = store.of(new_study(store, "other"), KEY)
    asked(other, 1)
    head = {row[0]: row for row in heads(store)}
    swapped = [
        put_back((other.holdout, *head[ledger.holdout][1:])),
        put_back((ledger.holdout, *head[other.holdout][1:])),
    ]
    alter("DELETE FROM head", *swapped)
    for each in (ledger, other):
        with pytest.raises(IntegrityError, match="not sealed with this key"):
            asked(each, 1)


class Interrupted(Exception):
    """In the middle of a step."""


def interrupted(state, indices):
    raise Interrupted


def test_what_was_not_committed_is_not_remembered(ledger):
    with pytest.raises(Interrupted):
        asked(ledger, 6, step=interrupted)
    assert [(c.charged, c.repeated) for c in asked(ledger, 6)] == [(1, False)]


@pytest.mark.parametrize("committed", [True, False])
def test_an_answer_whose_commit_was_lost_is_charged_once(ledger, committed, monkeypatch):
    whole = sa.Connection.commit

    def lost(connection):
        whole(connection) if committed else connection.rollback()
        raise sa.exc.OperationalError("COMMIT", {}, sqlite3.OperationalError("disk I/O error"))

    with monkeypatch.context() as patch:
        patch.setattr(sa.Connection, "commit", lost)
        with pytest.raises(EverholdError):
            asked(ledger, 6)
    assert [(c.charged, c.repeated) for c in asked(ledger, 6)] == [(0, True) if committed else (1, False)]
    assert ledger.head().charged == 6


def head_after(fingerprints):
    return len(fingerprints), hashlib.sha256("".join(fingerprints).encode()).hexdigest()


@pytest.mark.parametrize("many", [1, 3, 50_000])
def test_all_are_remembered_however_they_are_kept(monkeypatch, many):
    """Sorted, waiting in a set, or both; also fingerprints that end in zeros, which NumPy leaves out."""
    monkeypatch.setattr("everhold.ledger.chain._MANY", many)
    every = [query(1).fingerprint, "ab" + 62 * "0", 64 * "0", query(2).fingerprint, 62 * "f" + "00"]
    asked = EntryIndex()
    for count in range(1, len(every) + 1):
        asked = asked.up_to(*head_after(every[:count]), every[count - 1])
        assert [fingerprint in asked for fingerprint in every] == [True] * count + [False] * (len(every) - count)
    whole = EntryIndex().up_to(*head_after(every), "".join(every))
    assert all(fingerprint in whole for fingerprint in every)
    assert query(3).fingerprint not in whole
    assert "abc" + 61 * "0" not in whole
    assert EntryIndex().up_to(*head_after(every), "".join(reversed(every))) is None
    assert asked.up_to(*head_after(every), every[0]) is None
