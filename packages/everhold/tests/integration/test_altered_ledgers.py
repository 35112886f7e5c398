"""A ledger that somebody altered in its file: nothing is signed for it, and what cannot be read says so."""

import json
import sqlite3

import pytest
from holdout_samples import create, rows
from sealed_copies import copied_into
from typer.testing import CliRunner

from everhold import Holdout, IntegrityError
from everhold.cli.application import app
from everhold.ledger import LedgerStore


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
    "more budget": head_with(lambda state: state["mechanism"].__setitem__("surprises", 0)),
    "less charged": run("UPDATE head SET charged = 0"),
    "another limit in the act": run("UPDATE entries SET description = replace(description, ':5', ':6')"),
    "another analyst": run("UPDATE entries SET description = replace(description, 'team-a', 'team-b')"),
    "another source": run("UPDATE entries SET answer = replace(answer, 'holdout', 'refused')"),
    "an act without limits": run("UPDATE entries SET description = '{}' WHERE sequence = 1"),
    "an act without a source": run("UPDATE entries SET answer = '{}' WHERE sequence = 1"),
    "no act": run("DELETE FROM entries WHERE sequence = 1"),
}


ENTRIES_ALTERED = {how for how in ALTERED if how.startswith(("another", "an act", "no act"))}


def allotted(folder):
    with create(folder, mechanism="privacy_budget", queries=30) as holdout:
        holdout.allot("team-a", queries=5)
        holdout.analyst("team-a").ask("delay > 3")
        assert holdout.certificate().ledger_head[0] == 2


@pytest.fixture
def storage(tmp_path):
    copied_into(tmp_path, allotted)
    return tmp_path / "study.db"


def test_an_altered_head_answers_nothing(storage):
    """Only the head's seal knows how large an allotment was, until entries are counted."""
    with sqlite3.connect(storage) as database:
        for (trigger,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {trigger}")
        ALTERED["a larger allotment"](database)
    database.close()
    with pytest.raises(IntegrityError), Holdout.open(storage, "study") as holdout:
        holdout.analyst("team-a").ask("delay > 9")


@pytest.mark.parametrize("how", ALTERED)
def test_nothing_is_signed_for_an_altered_ledger(storage, how):
    with sqlite3.connect(storage) as database:
        triggers = database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (trigger,) in triggers:
            database.execute(f"DROP TRIGGER {trigger}")
        ALTERED[how](database)
    database.close()
    said = r"everhold ledger verify|altered or is damaged: .*Nothing was signed\. Restore a backup"
    with pytest.raises(IntegrityError, match=said), Holdout.open(storage, "study") as holdout:
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
            with pytest.raises(IntegrityError, match="everhold ledger verify"):
                read()


RECORDS = {
    "another name": "UPDATE holdouts SET name = 'study2'",
    "another date": "UPDATE holdouts SET created = replace(created, '20', '30')",
    "more charged": "UPDATE head SET charged = 7",
    "other settings": """UPDATE holdouts SET configuration = replace(configuration, '"queries":30', '"queries":31')""",
}


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("how", RECORDS)
def test_an_altered_record_of_a_holdout_is_neither_opened_nor_listed(tmp_path, how, asked):
    with create(tmp_path, mechanism="privacy_budget", queries=30) as holdout:
        if asked:
            holdout.ask("delay > 3")
    storage = tmp_path / "study.db"
    with sqlite3.connect(storage) as database:
        for (trigger,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {trigger}")
        assert database.execute(RECORDS[how]).rowcount == 1
        ((name,),) = database.execute("SELECT name FROM holdouts").fetchall()
    database.close()
    with pytest.raises(IntegrityError):
        Holdout.open(storage, name)
    listed = CliRunner().invoke(app, ["list", str(storage)])
    assert (listed.exit_code, listed.stdout) == (7, "")


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
        with pytest.raises(IntegrityError, match="was altered or is damaged"):
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


def test_renamed_settings_and_those_of_another_kind_are_called_altered(storage):
    content, values = storage.read_bytes(), [5, None, "../..", {}, []]
    for name in SETTINGS:
        renamed = [lambda found, name=name: {f"{key}_" if key == name else key: found[key] for key in found}]
        others = [lambda found, n=name, v=v: {**found, n: v if found[n] != v else "altered"} for v in values]
        for alter in renamed + others:
            storage.write_bytes(content)
            configurations(storage, alter)
            with pytest.raises(IntegrityError, match="everhold ledger verify"):
                Holdout.open(storage, "study")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.services)])
def study(request, tmp_path):
    """The address of a study with two answers, and a way to set its database back to them."""
    url = f"sqlite:///{tmp_path}/study.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    Holdout.create(url, "study", holdout=rows(0), mechanism="gaussian", queries=30).close()
    with Holdout.open(url, "study") as holdout:
        told = [holdout.ask(f"delay > {number}").value for number in (1, 2)]
        store = holdout._executor.store
        with store.database.transaction() as connection:
            head = connection.exec_driver_sql("SELECT * FROM head").one()
    return url, told, head


def to_be_set_back(url, head):
    alter(
        url, "DELETE FROM head", "DELETE FROM entries WHERE sequence > 2", f"INSERT INTO head VALUES ({literals(head)})"
    )


def literals(row):
    return ", ".join("'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value) for value in row)


def alter(url, *statements):
    """Run statements as somebody who may do everything in the database."""
    with LedgerStore.open(url) as store, store.database.transaction(writing=True) as connection:
        if url.startswith("sqlite"):
            found = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'").scalars().all()
            allowed = [f"DROP TRIGGER {name}" for name in found]
        else:
            allowed = [f"ALTER TABLE {table} DISABLE TRIGGER USER" for table in ("entries", "head")]
        for statement in (*allowed, *statements):
            connection.exec_driver_sql(statement, execution_options={"no_parameters": True})


def test_a_server_that_remembers_goes_on_after_a_recovery_as_everybody_does(study):
    url, told, head = study
    with Holdout.open(url, "study") as server:
        lost = [server.ask(f"delay > {number}").value for number in (3, 4, 5)]
        to_be_set_back(url, head)
        for query in ("delay > 1", "delay > 3", "delay > 9"):
            with pytest.raises(IntegrityError, match="set back"):
                server.ask(query)
        Holdout.open(url, "study", recover=True).close()
        left = server.remaining["queries"]
        assert left == 30 - 5
        assert [server.ask(f"delay > {number}").value for number in (1, 2)] == told
        again = server.ask("delay > 3")
        assert (again.repeated, server.remaining["queries"]) == (False, left - 1)
        with Holdout.open(url, "study") as other:
            assert other.ask("delay > 3").repeated
            assert other.ask("delay > 7").value == server.ask("delay > 7").value
        assert server.remaining["queries"] == left - 2
        assert server.certificate().ledger_head[0] == 5
    assert lost[0] != again.value


def test_an_answer_of_before_a_recovery_in_the_place_of_a_later_one_is_found_by_the_next_certificate(study):
    """Both are genuine, and paid for; nothing else can be put in an answer's place."""
    url, _, head = study
    with Holdout.open(url, "study") as server:
        lost = [server.ask(f"delay > {number}").value for number in (3, 4)]
        with server._executor.store.database.transaction() as connection:
            row = connection.exec_driver_sql("SELECT * FROM entries WHERE sequence = 4").one()
        to_be_set_back(url, head)
        Holdout.open(url, "study", recover=True).close()
        later = server.ask("delay > 4").value
        assert later != lost[1]
        alter(url, "DELETE FROM entries WHERE sequence = 4", f"INSERT INTO entries VALUES ({literals(row)})")
        assert server.ask("delay > 4").value == lost[1]
        assert server.ask("delay > 5").charged == 1
        with pytest.raises(IntegrityError, match="Nothing was signed"):
            server.certificate()
