"""A command that is given the file of somebody else changes nothing of it."""

import sqlite3
import stat

import pytest

from everhold import EverholdError, Holdout, HoldoutRejected

COMMANDS = [
    ["ledger", "verify", "{}", "h"], ["doctor", "{}"], ["holdouts", "{}"], ["status", "{}", "h"],
    ["ask", "{}", "h", "--mean", "x > 0"], ["backup", "{}", "--output", "monday.tar"], ["migrate", "{}"],
    ["ledger", "recover", "{}", "h"],
]  # fmt: skip


def text(path):
    path.write_text("a,b\n1,2\n" * 1000)


def empty(path):
    path.touch()


def database(path, journal="delete"):
    with sqlite3.connect(path) as raw:
        raw.execute(f"PRAGMA journal_mode = {journal}")
        raw.execute("CREATE TABLE entries (id INTEGER)")
    raw.close()


def in_use(path):
    database(path, "wal")


def seen(folder):
    return {file.name: (stat.S_IMODE(file.stat().st_mode), file.read_bytes()) for file in folder.iterdir()}


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("make", [text, empty, database, in_use])
def test_a_file_of_somebody_else_stays_as_it_is(tmp_path, monkeypatch, everhold, make, linked):
    theirs, here = tmp_path / "theirs", tmp_path / "here"
    theirs.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    make(theirs / "data.db")
    (theirs / "data.db").chmod(0o644)
    path = theirs / "data.db"
    if linked:
        path = here / "link.db"
        path.symlink_to(theirs / "data.db")
    before = seen(theirs)
    for command in COMMANDS:
        if make is empty and command[0] == "migrate":  # which makes a ledger of it
            continue
        with pytest.raises(AssertionError):  # its exit code is not 0
            everhold(*[part.format(path) for part in command])
        assert seen(theirs) == before, command
    if make is not empty:
        with pytest.raises(EverholdError):
            Holdout.create(path, "h", holdout={"x": [0.5, 0.7] * 200}, queries=10)
        assert seen(theirs) == before


def test_a_folder_with_files_of_others_is_not_closed(tmp_path):
    (tmp_path / "a.rows").mkdir(mode=0o755)
    (tmp_path / "a.rows" / "letter.txt").touch(mode=0o644)
    with pytest.raises(HoldoutRejected, match="other files in it"):
        Holdout.create(tmp_path / "a.db", "h", holdout={"x": [0.5, 0.7] * 200}, queries=10)
    assert stat.S_IMODE((tmp_path / "a.rows").stat().st_mode) == 0o755


def test_a_ledger_is_closed_whatever_others_did_to_it(tmp_path):
    Holdout.create(tmp_path / "a.db", "h", holdout={"x": [0.5, 0.7] * 200}, queries=10).close()
    (tmp_path / "a.db").chmod(0o644)
    Holdout.open(tmp_path / "a.db", "h").close()
    assert stat.S_IMODE((tmp_path / "a.db").stat().st_mode) == 0o600
