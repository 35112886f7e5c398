"""A ledger that somebody altered in its file: nothing is signed for it, and what cannot be read says so."""

import json
import sqlite3

import pytest
from holdout_samples import create

from everhold import Holdout, IntegrityError


def head_with(change):
    def alter(database):
        ((text,),) = database.execute("SELECT state FROM head").fetchall()
        state = json.loads(text)
        change(state)
        database.execute("UPDATE head SET state = ?", [json.dumps(state, sort_keys=True, separators=(",", ":"))])

    return alter


def run(statement):
    return lambda database: database.execute(statement)


ALTERED = {
    "a larger allotment": head_with(lambda state: state["allotments"]["analysts"][0].__setitem__(1, 50)),
    "less spent": head_with(lambda state: state["allotments"]["analysts"][0].__setitem__(3, 0)),
    "no allotments": head_with(lambda state: state.pop("allotments")),
    "more budget": head_with(lambda state: state["mechanism"].__setitem__("overfits", 0)),
    "less charged": run("UPDATE head SET charged = 0"),
    "another limit in the act": run("UPDATE entries SET description = replace(description, ':5', ':6')"),
    "another analyst": run("UPDATE entries SET description = replace(description, 'team-a', 'team-b')"),
    "another source": run("UPDATE entries SET answer = replace(answer, 'holdout', 'refused')"),
    "an act without limits": run("UPDATE entries SET description = '{}' WHERE sequence = 1"),
    "an act without a source": run("UPDATE entries SET answer = '{}' WHERE sequence = 1"),
    "no act": run("DELETE FROM entries WHERE sequence = 1"),
}


ENTRIES_ALTERED = {how for how in ALTERED if how.startswith(("another", "an act", "no act"))}


@pytest.fixture
def storage(tmp_path):
    with create(tmp_path, mechanism="privacy_budget", queries=30) as holdout:
        holdout.allot("team-a", questions=5)
        holdout.analyst("team-a").ask("delay > 3")
        assert holdout.certificate().ledger_head[0] == 2
    return tmp_path / "study.db"


@pytest.mark.parametrize("how", ALTERED)
def test_nothing_is_signed_for_an_altered_ledger(storage, how):
    with sqlite3.connect(storage) as database:
        triggers = database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (trigger,) in triggers:
            database.execute(f"DROP TRIGGER {trigger}")
        ALTERED[how](database)
    database.close()
    with pytest.raises(IntegrityError, match="nothing was"), Holdout.open(storage, "study") as holdout:
        holdout.certificate()


@pytest.mark.parametrize("how", [how for how in ALTERED if how in ENTRIES_ALTERED])
def test_an_altered_entry_is_not_read(storage, how):
    with sqlite3.connect(storage) as database:
        for (trigger,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {trigger}")
        ALTERED[how](database)
    database.close()
    with Holdout.open(storage, "study") as holdout:
        for read in (holdout.allotments, holdout.transcript):
            with pytest.raises(IntegrityError, match=r"nothing was answered|all of them"):
                read()


VERSIONS = {
    "no version": "DELETE FROM everhold_version",
    "an empty version": "UPDATE everhold_version SET version_num = ''",
    "two versions": "INSERT INTO everhold_version VALUES ('0000')",
}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_ledger_without_its_version_is_called_damaged(storage, version):
    with sqlite3.connect(storage) as database:
        database.execute(VERSIONS[version])
    database.close()
    for use in (lambda: Holdout.open(storage, "study"), lambda: create(storage.parent, "another")):
        with pytest.raises(IntegrityError, match="does not hold one revision"):
            use()


def configurations(storage, change):
    with sqlite3.connect(storage) as database:
        for (trigger,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {trigger}")
        ((text,),) = database.execute("SELECT configuration FROM holdouts").fetchall()
        changed = json.dumps(change(json.loads(text)), sort_keys=True, separators=(",", ":"))
        database.execute("UPDATE holdouts SET configuration = ?", [changed])
    database.close()


SETTINGS = (
    "folder",
    "rows",
    "columns",
    "label",
    "row_id",
    "fingerprint",
    "mechanism",
    "dependence",
    "public_key",
    "seed",
)


@pytest.mark.parametrize("name", SETTINGS)
def test_renamed_settings_are_called_altered(storage, name):
    configurations(storage, lambda found: {f"{key}_" if key == name else key: value for key, value in found.items()})
    with pytest.raises(IntegrityError, match="recorded settings"):
        Holdout.open(storage, "study")


@pytest.mark.parametrize("value", [5, None, "../..", {}, []])
@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_another_kind_are_called_altered(storage, name, value):
    configurations(storage, lambda found: {**found, name: value if found[name] != value else "altered"})
    with pytest.raises(IntegrityError, match="recorded settings"):
        Holdout.open(storage, "study")
