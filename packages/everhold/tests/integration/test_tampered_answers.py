"""Somebody with the database and without the key: what is forged is never served, what is gone is never drawn anew."""

import hashlib
import json
import random
import shutil
import sqlite3
from collections import Counter
from contextlib import closing, suppress

import pytest
from holdout_samples import copied, create

from everhold import Holdout, IntegrityError, accuracy, private_quantile, variance
from everhold.errors import EverholdError
from everhold.ledger import LedgerStore, verify
from everhold.ledger.head_file import HeadFile
from everhold.sealing.storage import StewardKey
from everhold.strict_json import canonical

QUERIES = [f"delay > {cut}" for cut in range(10)]
FORGED = {"value": 0.123, "low": 0.1, "high": 0.2}
EDITS = 200


@pytest.fixture
def study(tmp_path):
    """Answers of all kinds; returns the folder and what was answered."""
    with copied(tmp_path, mechanism="privacy_budget", queries=60) as made:
        made.allot("team-a", queries=20)
        answers = {text: made.ask(text).value for text in QUERIES}
        made.analyst("team-a").ask("delay > 50")
        made.ask(variance("delay", low=-60, high=60))
        made.ask(private_quantile("delay", quantile=0.5, low=-60, high=60, bins=20))
    return tmp_path, answers


def edit(folder, *statements):
    """Write to the database as anybody can who may write to its file."""
    with closing(sqlite3.connect(folder / "study.db")) as database, database:
        for (trigger,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {trigger}")
        for statement, *values in statements:
            database.execute(statement, values)


def opened(folder):
    return Holdout.open(folder / "study.db", "study")


def forge(folder):
    """Give every stored answer another value."""
    with closing(sqlite3.connect(folder / "study.db")) as database:
        rows = database.execute("SELECT sequence, answer FROM entries").fetchall()
    forged = [(number, canonical({**json.loads(text), **FORGED})) for number, text in rows]
    edit(folder, *(("UPDATE entries SET answer = ? WHERE sequence = ?", text, number) for number, text in forged))


USES = {
    "a repeat": lambda study: study.ask(QUERIES[0]),
    "a repeat of an analyst": lambda study: study.analyst("team-a").ask(QUERIES[0]),
    "a batch": lambda study: study.ask_many(["delay > 99", QUERIES[3]]),
    "a derived query": lambda study: study.ask(variance("delay", low=-60, high=60)),
    "a purchase": lambda study: study.ask(private_quantile("delay", quantile=0.5, low=-60, high=60, bins=20)),
    "a quote": lambda study: study.quote(QUERIES[0]),
    "the transcript": lambda study: study.transcript(),
    "allotments": lambda study: study.allotments(),
    "what was spent": lambda study: study.spent(),
    "the certificate": lambda study: study.certificate(),
}


@pytest.mark.parametrize("use", USES)
def test_a_forged_stored_answer_is_never_served(study, use):
    folder, _ = study
    forge(folder)
    with opened(folder) as forged, pytest.raises(IntegrityError):
        USES[use](forged)


def test_an_answer_of_another_query_is_never_served(study):
    folder, _ = study
    edit(
        folder,
        ("UPDATE entries SET query = printf('%064d', sequence) WHERE sequence = 2",),
        ("UPDATE entries SET query = (SELECT query FROM entries WHERE sequence = 3) || 'x' WHERE sequence = 3",),
    )
    with opened(folder) as forged, pytest.raises(IntegrityError):
        forged.ask(QUERIES[0])


MISSING = {
    "deleted": [("DELETE FROM entries WHERE sequence = 2",)],
    "about something else": [("UPDATE entries SET query = ? WHERE sequence = 2", "ab" * 32)],
    "another holdout's": [
        ("PRAGMA foreign_keys = OFF",),
        ("UPDATE entries SET holdout_id = ? WHERE sequence = 2", "ab" * 16),
    ],
    "replaced": [
        ("CREATE TABLE kept AS SELECT * FROM entries WHERE sequence = 2",),
        ("UPDATE kept SET query = ?", "ab" * 32),
        ("DELETE FROM entries WHERE sequence = 2",),
        ("INSERT INTO entries SELECT * FROM kept",),
    ],
}


@pytest.mark.parametrize("how", MISSING)
@pytest.mark.parametrize("still_open", [False, True])
def test_a_missing_entry_is_an_error_and_not_fresh_noise(study, how, still_open):
    folder, _ = study
    if still_open:
        asking = opened(folder)
        asking.ask(QUERIES[1])  # all entries were counted, and are remembered
        edit(folder, *MISSING[how])
    else:
        edit(folder, *MISSING[how])
        asking = opened(folder)
    with asking:
        with pytest.raises(IntegrityError, match="entries that were written"):
            asking.ask(QUERIES[0])
        if still_open:  # it remembers what was asked, and reads nothing again for another query
            asking.ask("delay > 77")
            with pytest.raises(IntegrityError):
                asking.certificate()
    with opened(folder) as fresh, pytest.raises(IntegrityError, match="entries that were written"):
        fresh.ask("delay > 78")


def test_many_writers_do_not_take_each_other_for_forgers(tmp_path):
    with create(tmp_path, mechanism="privacy_budget", queries=60) as one, opened(tmp_path) as other:
        values = [asking.ask(text).value for text in QUERIES for asking in (one, other)]
        assert values[::2] == values[1::2]
        assert other.certificate().ledger_head[0] == len(QUERIES)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE everhold_version SET version_num = ''",
        "UPDATE everhold_version SET version_num = '9999'",
        "UPDATE everhold_version SET version_num = ';drop table entries;--'",
        "UPDATE everhold_version SET version_num = CAST(X'00ff' AS BLOB)",
        "DELETE FROM everhold_version",
        "INSERT INTO everhold_version VALUES ('0002')",
        "ALTER TABLE everhold_version ADD COLUMN more TEXT",
    ],
)
def test_an_odd_version_is_an_error_of_its_own(study, statement):
    folder, _ = study
    edit(folder, (statement,))
    with pytest.raises(EverholdError):
        opened(folder)
    with pytest.raises(EverholdError):
        create(folder, "another", allow_resealing=True)


SETTINGS = {
    "seed": 7, "rows": 10, "folder": "../../etc", "public_key": "00" * 32, "fingerprint": "00" * 32, "label": 3,
    "mechanism": {}, "columns": None, "sealed_before": 1,
}  # fmt: skip


def random_edit(chance, folder):
    """One statement that changes something, and its kind."""
    with closing(sqlite3.connect(folder / "study.db")) as database:
        tables = {
            table: [column for _, column, *_ in database.execute(f"PRAGMA table_info({table})")]
            for table in ("entries", "head", "holdouts")
        }
        kind = chance.choice(
            ["cell", "cell", "cell", "delete", "cut", "copy", "state", "setting", "no setting", "head"]
        )
        if kind == "cell":
            table = chance.choice(["entries", "entries", "head", "holdouts"])
            column = chance.choice(tables[table])
            row, value = chance.choice(database.execute(f"SELECT rowid, {column} FROM {table}").fetchall())
            if isinstance(value, int):
                altered = value + chance.choice([1, -1, 5, 100])
            else:
                place = chance.randrange(len(value))
                altered = value[:place] + chr(ord(value[place]) ^ (1 << chance.randrange(3))) + value[place + 1 :]
            return f"{kind} {table}.{column}", (f"UPDATE {table} SET {column} = ? WHERE rowid = ?", altered, row)
        if kind == "delete":
            return kind, ("DELETE FROM entries WHERE sequence = ?", chance.randint(1, 12))
        if kind == "cut":
            return kind, ("DELETE FROM entries WHERE sequence > ?", chance.randint(0, 11))
        if kind == "copy":
            copied = ", ".join({"sequence": "99", "query": f"'{'cd' * 32}'"}.get(c, c) for c in tables["entries"])
            return kind, (f"INSERT INTO entries SELECT {copied} FROM entries WHERE sequence = 2",)
        if kind == "head":
            return kind, ("UPDATE head SET charged = 0, sequence = 0",)
        column, table = ("state", "head") if kind == "state" else ("configuration", "holdouts")
        value = json.loads(database.execute(f"SELECT {column} FROM {table}").fetchone()[0])
        if kind == "state":
            value["mechanism"][chance.choice([*value["mechanism"], "more"])] = 1_000
        elif kind == "setting":
            name = chance.choice([*SETTINGS])
            value[name] = SETTINGS[name]
        else:
            del value[chance.choice([*value])]
    return kind, (f"UPDATE {table} SET {column} = ?", canonical(value))


def report_of(folder, secrets):
    """Whether verification objects; a crash is a failure of the test."""
    place, key = secrets
    with LedgerStore.open(f"sqlite:///{folder}/study.db", create=False) as store:
        name = store.names()[0]
        known = HeadFile.of(place, holdout=store.record(name).id, seal_key=key)
        return verify(store, name, seal_key=key, head_file=known).ok


def test_hundreds_of_edits_are_all_found_and_none_is_served(study, tmp_path_factory):
    folder, answers = study
    with opened(folder) as asking:
        asking.ask(QUERIES[0])
        secrets = asking._folder, asking._executor.key.seal_key
        public_key = asking._executor.key.public_key
    assert StewardKey.load(secrets[0] / "steward.key", public_key=public_key).seal_key == secrets[1]
    assert report_of(folder, secrets)
    chance, outcomes, undetected = random.Random(3), Counter(), []
    whole = tmp_path_factory.mktemp("whole") / "study.db"
    shutil.copy(folder / "study.db", whole)
    for _ in range(EDITS):
        for ending in ("-wal", "-shm"):
            (folder / f"study.db{ending}").unlink(missing_ok=True)
        shutil.copy(whole, folder / "study.db")
        kind, change = random_edit(chance, folder)
        try:
            edit(folder, change)
        except sqlite3.Error:
            outcomes["refused by the database"] += 1
            continue
        with suppress(EverholdError):
            undetected += [kind] if report_of(folder, secrets) else []
        try:
            with opened(folder) as asking:
                served = {text: asking.ask(text) for text in QUERIES[::5]}
        except EverholdError as fault:
            outcomes[type(fault).__name__] += 1
        else:
            outcomes["answered"] += 1
            assert all(answer.repeated and answer.value == answers[text] for text, answer in served.items()), kind
    assert undetected == []
    assert outcomes["IntegrityError"] > EDITS // 2


def test_the_same_array_with_a_forged_entry_is_not_answered(tmp_path):
    with create(tmp_path, mechanism="gaussian", queries=20) as study:
        study.ask(accuracy([1, 0] * 500))
    forge(tmp_path)
    with opened(tmp_path) as study, pytest.raises(IntegrityError, match="altered"):
        study.ask(accuracy([1, 0] * 500))


def test_a_seal_is_of_this_entry_and_this_key():
    from everhold.ledger.chain import seal_of

    seals = {
        seal_of(key, holdout=holdout, entry=entry)
        for key in (b"a", b"b") for holdout in ("x", "y") for entry in ("1", "2")
    }  # fmt: skip
    assert len(seals) == 8
    assert hashlib.sha256(b"1").hexdigest() not in seals
