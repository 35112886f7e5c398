import contextlib
import hashlib
import json
import sqlite3

import psycopg
import pytest
from ledger_samples import KEY, ask, new_study

from everhold.errors import EverholdError, HoldoutNotFound, IntegrityError
from everhold.ledger import Ledger, LedgerStore, verify
from everhold.ledger.chain import HashedEntry, entry_hash, holdout_hash, seal_of
from everhold.strict_json import canonical

TABLES = {
    "holdouts": "id name created configuration",
    "head": "holdout_id sequence charged state entry_hash queries_hash head_seal",
    "entries": "holdout_id sequence query description answer charged asked_at state_seal previous_hash entry_hash "
    "entry_seal",
}


class Forger:
    """Somebody with the database and time, but without the key."""

    def __init__(self, raw):
        self.raw = raw
        for table, columns in TABLES.items():  # without triggers and constraints
            self.loosen(table, ", ".join(columns.split()))

    def run(self, statement, *values):
        return self.raw.execute(statement, values)

    def get(self, table, column, row):
        return self.run(f"SELECT {column} FROM {table} WHERE rowid = ?", row).fetchone()[0]

    def put(self, table, column, row, value):
        self.run(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", value, row)

    def rows(self):
        names = ", ".join(TABLES["entries"].split())
        return self.run(f"SELECT {names} FROM entries ORDER BY sequence").fetchall()

    def rechain(self):
        """Compute all hashes anew, the head's too: what anybody can do."""
        names = ", ".join(TABLES["holdouts"].split())
        (holdout, name, created, configuration) = self.run(f"SELECT {names} FROM holdouts").fetchone()
        previous = holdout_hash(holdout=holdout, name=name, created=created, configuration=configuration)
        for row in self.rows():
            fields = dict(zip(TABLES["entries"].split(), row, strict=True)) | {"previous_hash": previous}
            sequence = fields["sequence"]
            del fields["holdout_id"], fields["entry_hash"], fields["entry_seal"]
            here = entry_hash(HashedEntry(holdout=holdout, **fields))
            self.run(
                "UPDATE entries SET previous_hash = ?, entry_hash = ? WHERE sequence = ?", previous, here, sequence
            )
            previous = here
        last, charged = self.run("SELECT max(sequence), sum(charged) FROM entries").fetchone()
        queries = hashlib.sha256("".join(str(row[2]) for row in self.rows()).encode()).hexdigest()
        self.run(
            "UPDATE head SET sequence = ?, charged = ?, entry_hash = ?, queries_hash = ?",
            last, int(charged), previous, queries,
        )  # fmt: skip


class ForgerOfFiles(Forger):
    """With sqlite3, which stores values of any type."""

    refused = ()
    undecodable = "CAST(X'ff' AS TEXT)"

    def loosen(self, table, names):
        self.run(f"CREATE TABLE loose ({names})")
        self.run(f"INSERT INTO loose SELECT {names} FROM {table}")
        self.run(f"DROP TABLE {table}")
        self.run(f"ALTER TABLE loose RENAME TO {table}")


class ForgerOnServers(Forger):
    """With psycopg; the server keeps to its types, whoever writes."""

    undecodable = "convert_from('\\xff', 'UTF8')"

    @property
    def refused(self):
        return (psycopg.DataError, psycopg.ProgrammingError)

    def run(self, statement, *values):
        return self.raw.execute(statement.replace("?", "%s"), values)

    def loosen(self, table, names):
        self.run(f"CREATE TABLE loose AS SELECT {names}, row_number() OVER () AS rowid FROM {table}")
        self.run(f"DROP TABLE {table} CASCADE")
        self.run(f"ALTER TABLE loose RENAME TO {table}")


@pytest.fixture
def forge(url, kind, store, tmp_path):
    """Lets somebody at the database, whom the process that has it open does not hear of."""
    with contextlib.ExitStack() as stack:

        def forger():
            store.close()
            if kind == "sqlite":
                raw = stack.enter_context(
                    contextlib.closing(sqlite3.connect(tmp_path / "study.db", isolation_level=None))
                )
                raw.execute("PRAGMA synchronous = OFF")
                return ForgerOfFiles(raw)
            return ForgerOnServers(stack.enter_context(psycopg.connect(url.partition("?")[0], autocommit=True)))

        yield forger


@pytest.fixture
def forger(forge, store, record):
    ask(store, record, 1)
    ask(store, record, 2, 3)
    ask(store, record, 4)
    forger = forge()
    assert verify(store, "study", seal_key=KEY).ok
    return forger


def found(store, *, seal_key=KEY, **options):
    """Whether the verification objects, in whatever way it may."""
    try:
        return not verify(store, "study", seal_key=seal_key, **options).ok
    except (IntegrityError, HoldoutNotFound):
        return True


def flip(text, position):
    return text[:position] + chr(ord(text[position]) ^ 1) + text[position + 1 :]


def alterations(value):
    """The same field with other characters, another length, another type."""
    yield from (None, b"", "", 0.5, str(value).encode(), str(value) + " ")
    if isinstance(value, int):
        yield from (value + 1, value - 1, -value - 1, value + 2**40, str(value), float(value))
    else:
        yield from (
            flip(value, 0),
            flip(value, len(value) // 2),
            flip(value, len(value) - 1),
        )
        yield from (value[:-1], value[1:], value + "\0", " " + value, value.upper() + "x", 0, 1)


CELLS = [
    (table, column, row)
    for table, columns in TABLES.items()
    for column in columns.split()
    for row in (range(1, 5) if table == "entries" else [1])
]


@pytest.mark.parametrize(("table", "column", "row"), CELLS)
def test_an_altered_field_is_found(store, forger, table, column, row):
    value = forger.get(table, column, row)
    for altered in alterations(value):
        try:
            forger.put(table, column, row, altered)
        except forger.refused:
            continue
        if forger.get(table, column, row) == value:  # as a server reads the text of a number
            continue
        assert found(store), repr(altered)[:20]
        keyed = (table, column) in [("head", "state"), ("head", "head_seal"), ("entries", "entry_seal")]
        assert keyed or found(store, seal_key=None), repr(altered)[:20]
    with contextlib.suppress(*forger.refused):
        forger.run(f"UPDATE {table} SET {column} = {forger.undecodable} WHERE rowid = ?", row)
        assert found(store)
    forger.put(table, column, row, value)
    assert not found(store)


@pytest.mark.parametrize("table", TABLES)
def test_every_single_character_counts(store, forger, table):
    for column in TABLES[table].split():
        value = forger.get(table, column, 1)
        if isinstance(value, str):
            for position in range(len(value)):
                forger.put(table, column, 1, flip(value, position))
                assert found(store), (column, position)
            forger.put(table, column, 1, value)
    assert not found(store)


@pytest.mark.parametrize("column", ["configuration", "state", "description", "answer"])
def test_json_that_means_the_same_but_reads_differently_is_found(store, forger, column):
    table = next(table for table, columns in TABLES.items() if column in columns.split())
    value = forger.get(table, column, 1)
    first = value[1 : value.index(":")]
    for altered in [value.replace(":", ": ", 1), "{" + first + ":0," + value[1:]]:
        assert json.loads(altered) == json.loads(value)
        forger.put(table, column, 1, altered)
        assert found(store, seal_key=None)


@pytest.mark.parametrize("column", [c for c in TABLES["entries"].split() if c not in ("holdout_id", "state_seal")])
def test_two_entries_that_swap_a_field_are_found(store, forger, column):
    first, second = forger.get("entries", column, 1), forger.get("entries", column, 2)
    forger.put("entries", column, 1, second)
    forger.put("entries", column, 2, first)
    assert found(store) is (first != second)


@pytest.mark.parametrize("sequence", [1, 2, 3, 4])
def test_a_deleted_entry_is_found(store, forger, sequence):
    forger.run("DELETE FROM entries WHERE sequence = ?", sequence)
    assert found(store, seal_key=None)


def test_a_gap_in_the_numbers_is_found_even_in_a_whole_chain(store, forger):
    forger.run("DELETE FROM entries WHERE sequence = 2")
    forger.rechain()
    report = verify(store, "study", seal_key=None)
    assert [finding.sequence for finding in report.findings] == [3]
    assert "missing" in report.findings[0].what


def test_a_charge_moved_to_another_entry_is_found(store, forger):
    forger.put("entries", "charged", 1, 0)
    forger.put("entries", "charged", 2, 2)
    assert found(store, seal_key=None)


def test_a_renamed_holdout_is_found(store, forger):
    forger.put("holdouts", "name", 1, "another study")
    assert not verify(store, "another study", seal_key=None).ok


def test_a_holdout_given_another_identifier_throughout_is_found(store, forger):
    for table, column in [("holdouts", "id"), ("head", "holdout_id"), ("entries", "holdout_id")]:
        forger.run(f"UPDATE {table} SET {column} = 'another'")
    assert found(store, seal_key=None)


def test_a_deleted_head_is_found(store, forger):
    forger.run("DELETE FROM head")
    assert found(store, seal_key=None)


@pytest.mark.parametrize("sequence", [0, 3, 5])
def test_an_added_copy_of_an_entry_is_found(store, forger, sequence):
    forger.run(
        f"INSERT INTO entries SELECT {TABLES['entries'].replace(' ', ', ').replace('sequence', str(sequence))} "
        "FROM entries WHERE rowid = 2"
    )
    assert found(store, seal_key=None)


def test_a_query_answered_twice_is_found_even_in_a_whole_chain(store, forger):
    forger.put("entries", "query", 4, forger.get("entries", "query", 1))
    forger.rechain()
    report = verify(store, "study", seal_key=None)
    assert [finding.sequence for finding in report.findings] == [4]
    assert "answered before" in report.findings[0].what


def test_a_chain_rewritten_without_the_key_is_found_with_the_key(store, forger):
    forger.put("entries", "answer", 2, canonical({"value": 1.0}))
    forger.rechain()
    assert not found(store, seal_key=None)  # nobody without the key can see this, and the report says so
    assert not verify(store, "study", seal_key=None).keyed
    assert found(store)


@pytest.mark.parametrize("left", [0, 1, 3])
def test_cut_off_entries_are_found_with_the_key_or_with_an_earlier_certificate(store, forger, record, left):
    earlier = store.head(record.id)
    forger.run("DELETE FROM entries WHERE sequence > ?", left)
    assert found(store, seal_key=None)
    forger.rechain() if left else forger.run("DELETE FROM head")
    if left:
        assert not found(store, seal_key=None)
        assert found(store, seal_key=None, expected_head=(earlier.sequence, earlier.entry_hash))
    assert found(store)


def test_an_older_copy_of_the_file_is_found_with_an_earlier_certificate(store, record, path, tmp_path):
    ask(store, record, 1)
    first = store.head(record.id)
    store.close()
    copy = tmp_path / "copy.db"
    copy.write_bytes(path.read_bytes())
    ask(store, record, 2)
    second = store.head(record.id)
    with LedgerStore.open(f"sqlite:///{copy}") as older:
        assert not found(older)
        assert not found(older, expected_head=(first.sequence, first.entry_hash))
        assert found(older, expected_head=(second.sequence, second.entry_hash))
    for head in (first, second):
        assert not found(store, expected_head=(head.sequence, head.entry_hash))
        assert found(store, expected_head=(head.sequence + 1, head.entry_hash))


def test_the_head_of_an_empty_ledger_can_be_expected(store, record):
    head = store.head(record.id)
    ask(store, record, 1)
    assert not found(store, expected_head=(0, head.entry_hash))
    assert found(store, expected_head=(0, "0" * 64))


def test_another_key_is_found(store, record):
    assert found(store, seal_key=b"another key")
    assert not found(store)


def test_a_state_other_than_the_last_entrys_is_found_even_under_a_valid_head_seal(store, forger, record):
    at = store.head(record.id)
    where = {"holdout": record.id, "sequence": at.sequence, "charged": at.charged, "entry_hash": at.entry_hash}
    where["queries_hash"] = at.queries_hash
    forger.put("head", "state", 1, "{}")
    forger.put("head", "head_seal", 1, seal_of(KEY, state="{}", **where))
    report = verify(store, "study", seal_key=KEY)
    assert [finding.what for finding in report.findings] == [
        "the head has a state that is not the one sealed in the last entry"
    ]


def test_an_unused_state_is_sealed_too(store, record, forge):
    forge().put("head", "state", 1, "{}")
    assert found(store)


def test_an_answer_cannot_be_moved_to_another_holdout(store, record, forge):
    other = new_study(store, "other")
    ask(store, record, 1)
    ask(store, other, 1)
    forger = forge()
    for row, holdout in ((1, other.id), (2, record.id)):
        forger.put("entries", "holdout_id", row, holdout)
    assert found(store)


def test_findings_quote_neither_state_nor_answers(store, forger):
    forger.put("entries", "answer", 1, "{987654321")
    forger.put("head", "state", 1, "{987654321")
    report = verify(store, "study", seal_key=KEY)
    assert len(report.findings) >= 2
    assert "987654321" not in repr(report)
    with pytest.raises(EverholdError) as caught:
        list(Ledger(store.database, store.record("study").id, KEY).entries())
    assert "987654321" not in str(caught.value)


def test_the_report_counts_the_entries(store, record):
    ask(store, record, *range(7))
    report = verify(store, "study", seal_key=KEY)
    assert (report.ok, report.entries, report.findings, report.keyed, report.name) == (True, 7, (), True, "study")
