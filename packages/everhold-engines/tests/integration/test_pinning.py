"""Rows that stay in an engine are held to what they were, and whoever opens them finds out."""

import hmac
import json
import logging
import re
import sqlite3

import numpy as np
import pandas as pd
import pytest
from pond_samples import PASSWORD, Pond, poured, secrets_in, served, stirred, tried_before

import everhold as eh
from everhold.errors import HoldoutRejected, IntegrityError, Unavailable
from everhold.ledger import LedgerStore
from everhold.sealing.backup import backup, restore
from everhold_engines import ENGINE_VARIABLE, engine_at, watermark

__all__ = ["tried_before"]


def flights(count, first=0):
    rng = np.random.default_rng(first)
    return pd.DataFrame({"id": np.arange(first, first + count), "delay": rng.normal(5.0, 30.0, count)})


@pytest.fixture
def pond(tmp_path, monkeypatch):
    served(monkeypatch)
    monkeypatch.delenv(ENGINE_VARIABLE, raising=False)
    return poured(tmp_path / "pond.db", "sealed", flights(500))


@pytest.fixture
def storage(tmp_path, pond):
    place = tmp_path / "study.db"
    eh.Holdout.create(
        place, "flights", holdout=pond, training=flights(500, 10_000), rows=eh.Rows(row_id="id"), queries=20
    ).close()
    return place


def charged(storage):
    with LedgerStore.open(f"sqlite:///{storage}", create=False) as store:
        return store.head(store.record("flights").id).asked


CHANGES = {
    "one cell": ["UPDATE sealed SET delay = delay + 1e-9 WHERE id = 7"],
    "a value that is missing now": ["UPDATE sealed SET delay = NULL WHERE id = 7"],
    "one row more": ["INSERT INTO sealed VALUES (999, 1.0)"],
    "one row less": ["DELETE FROM sealed WHERE id = 7"],
    "one row for another": ["DELETE FROM sealed WHERE id = 7", "INSERT INTO sealed VALUES (999, 1.0)"],
    "one row twice for another": ["DELETE FROM sealed WHERE id = 7", "INSERT INTO sealed FROM sealed WHERE id = 8"],
    "two cells swapped": ["UPDATE sealed SET delay = (SELECT sum(delay) FROM sealed WHERE id IN (7, 8)) - delay "
                          "WHERE id IN (7, 8)"],
    "columns in another order": ["CREATE TABLE other AS SELECT delay, id FROM sealed", "DROP TABLE sealed",
                                 "ALTER TABLE other RENAME TO sealed"],
    "a column renamed": ["ALTER TABLE sealed RENAME COLUMN delay TO late"],
    "a column added": ["ALTER TABLE sealed ADD COLUMN more INT"],
    "dropped": ["DROP TABLE sealed"],
    "another table": ["ALTER TABLE sealed RENAME TO kept",
                      "CREATE TABLE sealed AS SELECT id, -delay AS delay FROM kept"],
    "a view of other rows": ["ALTER TABLE sealed RENAME TO kept",
                             "CREATE VIEW sealed AS SELECT * FROM kept WHERE id <> 7"],
}  # fmt: skip


def test_a_changed_table_is_not_opened(storage, pond):
    whole = pond.file.read_bytes()
    for what, changes in CHANGES.items():
        stirred(pond, *changes)
        with pytest.raises(IntegrityError, match="'sealed'") as fault:
            pytest.fail(f"opened after {what}: {eh.Holdout.open(storage, 'flights', engine=pond)}")
        assert fault.value.unchanged == "nothing was charged", what
        assert charged(storage) == 0, what
        pond.file.write_bytes(whole)
        eh.Holdout.open(storage, "flights", engine=pond).close()


def test_the_same_rows_in_another_order_are_the_same_rows(storage, pond):
    stirred(
        pond, "CREATE TABLE other AS SELECT * FROM sealed ORDER BY delay", "DROP TABLE sealed",
        "ALTER TABLE other RENAME TO sealed",
    )  # fmt: skip
    eh.Holdout.open(storage, "flights", engine=pond).close()


def test_whoever_waits_for_a_long_table_sees_a_bar(storage, monkeypatch):
    shown, plain = [], watermark.progress
    monkeypatch.setattr(watermark, "progress", lambda what: shown.append(what) or plain(what))
    eh.Holdout.open(storage, "flights").close()
    assert shown == ["checking the table"]


def test_no_certificate_of_a_table_that_was_changed_since(storage, pond):
    with eh.Holdout.open(storage, "flights", engine=pond) as holdout:
        holdout.certificate()
        stirred(pond, "UPDATE sealed SET delay = 0 WHERE id = 7")
        with pytest.raises(IntegrityError, match="its rows differ"):
            holdout.certificate()


def test_the_fingerprint_is_keyed(storage, pond):
    with LedgerStore.open(f"sqlite:///{storage}", create=False) as store:
        recorded = store.record("flights").configuration["fingerprint"]
    (key,) = {found[1] for each in pond.statements if (found := re.search(r"sha256\('([0-9a-f]{64})'", each))}
    for guessed in (pond.contents(), pond.contents(key)):  # the key in the engine's log is not enough
        assert recorded != guessed
        assert recorded != hmac.digest(bytes.fromhex(key), guessed.encode(), "sha256").hex()
    other = storage.with_name("other.db")
    eh.Holdout.create(other, "flights", holdout=pond, queries=20).close()
    with LedgerStore.open(f"sqlite:///{other}", create=False) as store:
        assert store.record("flights").configuration["fingerprint"] != recorded


def test_it_is_found_again_without_being_handed_in(storage):
    with eh.Holdout.open(storage, "flights") as holdout:
        assert holdout.ask("delay > 0").source == "training"


def test_it_is_found_where_the_environment_says(storage, pond, monkeypatch, tmp_path):
    moved = tmp_path / "moved.db"
    pond.file.rename(moved)
    with pytest.raises(Unavailable):
        eh.Holdout.open(storage, "flights")
    monkeypatch.setenv(ENGINE_VARIABLE, f"pond://steward:{PASSWORD}@{moved}")
    eh.Holdout.open(storage, "flights").close()
    monkeypatch.setenv(ENGINE_VARIABLE, f"pond://nowhere.db pond://steward:{PASSWORD}@{moved}")
    with pytest.raises(Unavailable):  # none is at the recorded place: the first of its kind is meant
        eh.Holdout.open(storage, "flights")


def test_an_engine_that_cannot_be_reached_charges_nothing(storage, pond):
    with eh.Holdout.open(storage, "flights", engine=pond) as holdout:
        pond.file.rename(pond.file.with_suffix(".away"))
        with pytest.raises(Unavailable):
            holdout.ask("delay > 0")
        pond.file.with_suffix(".away").rename(pond.file)
        assert holdout.status()["queries_asked"] == 0
        assert holdout.ask("delay > 0").source == "training"


def test_an_engine_of_another_kind(storage, pond):
    other = Pond(pond.file, pond.table)
    other.kind = "puddle"
    with pytest.raises(ValueError, match="'pond', and engine= is of kind 'puddle'"):
        eh.Holdout.open(storage, "flights", engine=other)


def test_an_engine_for_rows_in_a_file(tmp_path, pond):
    eh.Holdout.create(tmp_path / "file.db", "flights", holdout=flights(500), queries=20).close()
    with pytest.raises(ValueError, match="The rows of this holdout are in a file"):
        eh.Holdout.open(tmp_path / "file.db", "flights", engine=pond)


def test_a_password_is_nowhere(tmp_path, pond, monkeypatch, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    url = f"pond://steward:{PASSWORD}@{pond.file}"
    engine, place = engine_at(url, "sealed"), tmp_path / "study.db"
    with eh.Holdout.create(place, "flights", holdout=engine, queries=20) as holdout:
        shown = [repr(holdout), repr(engine), str(holdout.status()), holdout.certificate().to_json(),
                 holdout.certificate().to_html()]  # fmt: skip
    monkeypatch.setenv(ENGINE_VARIABLE, url)
    eh.Holdout.open(place, "flights").close()
    stirred(pond, "DROP TABLE sealed")
    with pytest.raises(IntegrityError) as fault:
        eh.Holdout.open(place, "flights")
    monkeypatch.setenv(ENGINE_VARIABLE, f"pond://steward:{PASSWORD}x@{pond.file}")
    with pytest.raises(Unavailable) as refused:
        eh.Holdout.open(place, "flights")
    shown += [repr(fault.value), repr(refused.value), str(fault.value.data), caplog.text, *capfd.readouterr()]
    assert not any(map(secrets_in, shown))
    files = [file for file in tmp_path.rglob("*") if file.is_file() and file != pond.file]
    assert len(files) >= 4
    assert not any(PASSWORD.encode() in file.read_bytes() for file in files)


@pytest.mark.parametrize(
    "leak", [f"pond://steward:{PASSWORD}@/pond.db", f"pond:///pond.db?password={PASSWORD}", f"x;TOKEN={PASSWORD}"]
)
def test_an_engine_that_tells_its_password_is_refused(tmp_path, pond, leak):
    pond.to_dict = lambda: {"kind": "pond", "table": "sealed", "place": leak, "snapshot": None}
    with pytest.raises(HoldoutRejected, match="password in an unexpected place") as refused:
        eh.Holdout.create(tmp_path / "study.db", "flights", holdout=pond, queries=20)
    assert not secrets_in(str(refused.value))
    assert not (tmp_path / "study.db").exists()


def test_the_certificate_says_where_the_rows_stay(storage, pond, tmp_path):
    with eh.Holdout.open(storage, "flights", engine=pond) as holdout:
        certificate = holdout.certificate()
    certificate.save(tmp_path / "c.json")
    assert eh.verify_certificate(tmp_path / "c.json").ok
    document = certificate.to_dict()
    assert document["rows"]["engine"] == {"kind": "pond", "table": "sealed", "snapshot": None}
    assert str(tmp_path) not in certificate.to_json()
    for said in ("a change that was taken back", "hoever administers pond", "HMAC-SHA256 of the table"):
        assert said in certificate.to_html()


def test_an_archive_says_that_it_has_no_rows(storage, pond, tmp_path):
    written = backup(storage, tmp_path / "monday.tar")
    assert written["without_rows"] == ["flights"]
    (tmp_path / "new").mkdir()
    assert restore(tmp_path / "monday.tar", tmp_path / "new" / "study.db")["without_rows"] == ["flights"]
    eh.Holdout.open(tmp_path / "new" / "study.db", "flights", engine=pond).close()
    stirred(pond, "UPDATE sealed SET delay = 0 WHERE id = 7")
    with pytest.raises(IntegrityError):
        eh.Holdout.open(tmp_path / "new" / "study.db", "flights", engine=pond)


def test_facts_that_somebody_altered_lead_nowhere(storage, pond, tmp_path):
    with sqlite3.connect(storage) as ledger:
        for (trigger,) in ledger.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            ledger.execute(f"DROP TRIGGER {trigger}")
        ((facts,),) = ledger.execute("SELECT configuration FROM holdouts").fetchall()
        changed = json.loads(facts)
        changed["engine"]["place"] = f"pond://{tmp_path / 'elsewhere.db'}"
        ledger.execute("UPDATE holdouts SET configuration = ?", [json.dumps(changed)])
    ledger.close()
    with pytest.raises(IntegrityError, match="settings"):
        eh.Holdout.open(storage, "flights")
