"""Nothing that is secret can be opened by others, whatever the umask was and whatever a copy has done since."""

import contextlib
import os
import stat
import threading

import pytest
from holdout_samples import create

from everhold import AuthError, Holdout
from everhold.sealing.storage import KEY_FILE

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows keeps no such permissions")


def modes(folder):
    return {path: stat.S_IMODE(path.lstat().st_mode) for path in folder.rglob("*")}


def is_open(mode):
    return bool(mode & 0o077)


@pytest.fixture
def no_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def test_everything_is_private_under_a_umask_of_0(tmp_path, no_umask):
    seen, done = {}, threading.Event()

    def watch():
        while not done.is_set():
            with contextlib.suppress(FileNotFoundError):
                seen.update({path: mode for path, mode in modes(tmp_path).items() if is_open(mode)})

    watcher = threading.Thread(target=watch)
    watcher.start()
    with create(tmp_path, mechanism="gaussian", queries=5) as holdout:
        holdout.ask("delay > 5")
        found = modes(tmp_path)
    done.set()
    watcher.join()
    assert {path.name for path in found} >= {"study.db", "study.db-wal", "study.db-shm", "study.rows", KEY_FILE}
    assert not [path for path, mode in found.items() if is_open(mode)]
    assert seen == {}  # not even for a moment


def test_a_storage_that_became_open_is_made_private(tmp_path):
    create(tmp_path, mechanism="gaussian", queries=5).close()
    key = next(tmp_path.glob(f"study.rows/*/{KEY_FILE}"))
    opened = [path for path in tmp_path.rglob("*") if path != key]
    for path in opened:
        path.chmod(0o777 if path.is_dir() else 0o666)
    with Holdout.open(f"sqlite:///{tmp_path}/study.db", "study") as holdout:
        holdout.ask("delay > 5")
        assert not [path for path, mode in modes(tmp_path).items() if is_open(mode)]


def test_the_folder_of_an_earlier_holdout_is_closed_for_the_next_one(tmp_path):
    create(tmp_path, "first", mechanism="gaussian", queries=5).close()
    (tmp_path / "study.rows").chmod(0o777)
    create(tmp_path, "second", mechanism="gaussian", queries=5).close()
    assert not is_open(modes(tmp_path)[tmp_path / "study.rows"])


@pytest.mark.parametrize("mode", [0o644, 0o440, 0o402])
def test_a_key_that_others_could_read_is_refused(tmp_path, mode):
    create(tmp_path, mechanism="gaussian", queries=5).close()
    key = next(tmp_path.glob(f"study.rows/*/{KEY_FILE}"))
    key.chmod(mode)
    with pytest.raises(AuthError, match=rf"open to other users \(mode {mode:04o}\).*chmod 400 steward.key"):
        Holdout.open(f"sqlite:///{tmp_path}/study.db", "study")
    key.chmod(0o400)
    Holdout.open(f"sqlite:///{tmp_path}/study.db", "study").close()


def test_what_cannot_be_made_private_is_refused(tmp_path, monkeypatch):
    create(tmp_path, mechanism="gaussian", queries=5).close()
    (tmp_path / "study.db").chmod(0o666)
    monkeypatch.setattr("pathlib.Path.chmod", lambda *_: None)  # as on a file system without permissions
    with pytest.raises(AuthError, match=r"study.db is open to other users.*chmod go-rwx"):
        Holdout.open(f"sqlite:///{tmp_path}/study.db", "study")


def test_rows_that_do_not_fit_into_memory_stay_in_the_private_folder(tmp_path, monkeypatch):
    from everhold.sealing.intake.duckdb_files import spilling_into

    monkeypatch.chdir(tmp_path)
    (tmp_path / "private").mkdir(mode=0o700)
    with spilling_into(tmp_path / "private") as connection:
        place = connection.execute("SELECT current_setting('temp_directory')").fetchall()[0][0]
    assert place == str(tmp_path / "private" / "spilled")
    assert not (tmp_path / ".tmp").exists()
