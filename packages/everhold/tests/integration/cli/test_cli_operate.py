import json
import sqlite3

import pytest
from holdout_samples import guess_and_check, rows

from everhold import Holdout


def checks(result):
    document = json.loads(result.stdout)
    return document["ok"], {(row["check"], row["holdout"]): row["ok"] for row in document["checks"]}


def test_a_storage_goes_into_an_archive_and_out_again(study, everhold):
    everhold("ask", "s.db", "flights", "--mean", "delay > 15")
    told = json.loads(everhold("backup", "s.db", "--output", "monday.tar", "--format", "json").stdout)
    assert told["holdouts"] == ["flights"]
    everhold("backup", "s.db", "--output", "monday.tar", code=2)
    restored = json.loads(everhold("restore", "monday.tar", "t.db", "--format", "json").stdout)
    assert (restored["holdouts"], restored["kept"]) == (["flights"], [])
    everhold("ledger", "verify", "t.db", "flights")
    everhold("restore", "monday.tar", "t.db", code=3)
    everhold("restore", "sunday.tar", "u.db", code=2)
    assert everhold("transcript", "t.db", "flights").stdout == everhold("transcript", "s.db", "flights").stdout


def test_the_tables_of_a_new_storage_are_made(study, everhold):
    told = json.loads(everhold("migrate", "new.db", "--format", "json").stdout)
    assert (told["before"], (study / "new.db").exists()) == (None, True)
    assert json.loads(everhold("migrate", "new.db", "--format", "json").stdout)["before"] == told["revision"]
    assert "nothing is sealed yet" in everhold("doctor", "new.db").stdout


def test_all_is_well_with_a_new_study(study, everhold):
    ok, found = checks(everhold("doctor", "s.db", "--format", "json"))
    assert ok
    assert all(found.values())
    assert {holdout for _, holdout in found} == {None, "flights"}
    assert "flights" in everhold("doctor", "s.db").stdout


def test_a_server_that_may_forget_in_a_crash_is_no_good_place(everhold, postgres_url, monkeypatch):
    """The one of the tests is set up like that, because it is thrown away."""
    Holdout.create(postgres_url, "study", holdout=rows(0), mechanism=guess_and_check()).close()
    ok, found = checks(everhold("doctor", postgres_url, "--format", "json", code=7))
    assert (ok, [check for (check, _), well in found.items() if not well]) == (False, ["durability"])
    monkeypatch.setattr("everhold_server.postgres._FOR_CRASHES", ())
    assert checks(everhold("doctor", postgres_url, "--format", "json"))[0]


def opened_to_all(study):
    next(study.glob("s.rows/*/content.json")).chmod(0o644)


def without_key(study):
    next(study.glob("s.rows/*/steward.key")).unlink()


def other_rows(study):
    rows = next(study.glob("s.rows/*/holdout.parquet"))
    rows.chmod(0o600)
    rows.write_bytes(rows.read_bytes()[:-1])


def without_head(study):
    next(study.glob("s.rows/*/ledger.head")).unlink()


def without_rows(study):
    (study / "s.rows").rename(study / "elsewhere")


def less_charged(study):
    with sqlite3.connect(study / "s.db") as database:
        database.execute("DROP TRIGGER head_only_forward")
        database.execute("UPDATE head SET charged = charged + 1")
    database.close()


ILLNESSES = {
    opened_to_all: "permissions",
    without_key: "steward's key",
    other_rows: "ledger and rows",
    without_head: "ledger and rows",
    without_rows: "folder of the rows",
    less_charged: "ledger and rows",
}


@pytest.mark.parametrize("illness", ILLNESSES, ids=lambda illness: illness.__name__)
def test_an_illness_is_found_and_named(study, everhold, illness):
    illness(study)
    ok, found = checks(everhold("doctor", "s.db", "--format", "json", code=7))
    assert not ok
    assert ILLNESSES[illness] in {check for (check, _), fine in found.items() if not fine}


def test_no_storage_is_no_illness(study, everhold):
    everhold("doctor", "nothing.db", code=4)
    assert not (study / "nothing.db").exists()
