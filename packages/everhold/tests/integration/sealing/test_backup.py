"""A storage in one archive, and out of it again; archives that somebody else made."""

import io
import shutil
import stat
import tarfile

import pytest
import sqlalchemy as sa
from holdout_samples import create, guess_and_check, rows

from everhold import AuthError, Holdout, HoldoutRejected, IntegrityError
from everhold.ledger import LedgerStore
from everhold.sealing.backup import _ACCESS, backup, restore
from everhold.sealing.storage import storage_url
from everhold_server.principals import Role
from everhold_server.sessions import Sessions
from everhold_server.tables import Records
from everhold_server.token_store import TokenStore
from everhold_server.web.competitions import Publications


@pytest.fixture
def archive(tmp_path):
    """An archive of a study with a few answers, whose storage is in the folder `first`."""
    (tmp_path / "first").mkdir()
    with create(tmp_path / "first") as study:
        study.ask_many([f"delay > {number}" for number in range(20)])
        study.allot("team-a", queries=5, charges=1)
    told = backup(tmp_path / "first" / "study.db", tmp_path / "monday.tar")
    assert told["holdouts"] == ["study"]
    return tmp_path / "monday.tar"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.services)])
def empty(request, tmp_path):
    """The address of an empty storage."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    (tmp_path / "second").mkdir()
    return f"sqlite:///{tmp_path}/second/study.db"


def answers(storage):
    with Holdout.open(storage, "study") as study:
        return study.transcript().to_rows(), study.status(), study.certificate().ledger_head


def test_a_restored_storage_is_what_was_backed_up(archive, empty, tmp_path):
    told = restore(archive, empty)
    assert (told["holdouts"], told["kept"]) == (["study"], [])
    assert answers(empty) == answers(tmp_path / "first" / "study.db")
    with Holdout.open(empty, "study") as study:
        assert study.ask("delay > 77").source == "training"
    with pytest.raises(HoldoutRejected, match="not empty"):
        restore(archive, empty)


def test_a_server_is_backed_up_into_either_kind(empty, postgres, tmp_path):
    server = postgres.url(postgres.new_database(), rows=tmp_path / "server")
    with Holdout.create(
        server, "study", holdout=rows(0), training=rows(1), label="late", mechanism=guess_and_check()
    ) as study:
        study.ask("delay > 15")
        backup(server, tmp_path / "server.tar")  # while it is open
        assert postgres.password.encode() not in (tmp_path / "server.tar").read_bytes()
    restore(tmp_path / "server.tar", empty)
    assert answers(empty) == answers(server)


def test_the_archive_is_private_and_nothing_is_overwritten(archive, tmp_path):
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    before = archive.read_bytes()
    with pytest.raises(FileExistsError):
        backup(tmp_path / "first" / "study.db", archive)
    assert archive.read_bytes() == before
    restore(archive, tmp_path / "again.db")
    assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in tmp_path.glob("again*")} == {0}
    assert [path for path in (tmp_path / "again.rows").iterdir() if path.name.startswith(".")] == []


def test_a_folder_that_stayed_knows_what_was_answered_since(archive, tmp_path):
    first = tmp_path / "first"
    with Holdout.open(first / "study.db", "study") as study:
        study.ask("delay > 300")
    for file in first.glob("study.db*"):
        file.unlink()
    assert restore(archive, first / "study.db")["kept"] == ["study"]
    with pytest.raises(IntegrityError, match="set back"):
        Holdout.open(first / "study.db", "study")
    with Holdout.open(first / "study.db", "study", recover=True) as study:
        assert study.status()["lost"]["queries"] == 1


def test_a_folder_of_another_holdout_is_not_taken_for_its_own(archive, tmp_path):
    (tmp_path / "second").mkdir()
    create(tmp_path / "second", "other").close()
    (folder,) = (tmp_path / "first" / "study.rows").iterdir()
    (other,) = (tmp_path / "second" / "study.rows").iterdir()
    other.rename(other.parent / folder.name)
    for file in (tmp_path / "second").glob("study.db*"):
        file.unlink()
    with pytest.raises(AuthError, match="another holdout"):
        restore(archive, tmp_path / "second" / "study.db")
    assert restored(tmp_path / "second" / "study.db") == []


def restored(storage):
    from everhold.ledger import LedgerStore

    with LedgerStore.open(f"sqlite:///{storage}") as store:
        return store.names()


def rewritten(archive, change):
    """The archive with its members changed by a function from member and content to a list of them."""
    with tarfile.open(archive) as tar:
        members = [(member, (tar.extractfile(member) or io.BytesIO()).read()) for member in tar]
    with tarfile.open(archive, "w") as tar:
        for member, content in members:
            for new, changed in change(member, content):
                if new.isreg():
                    new.size = len(changed)
                tar.addfile(new, io.BytesIO(changed))


def one_more(**fields):
    def change(member, content):
        if member.name != "ledger.db":
            return [(member, content)]
        more = tarfile.TarInfo("rows/study-00000000/more")
        for name, value in fields.items():
            setattr(more, name, value)
        return [(more, b"x"), (member, content)]

    return change


HOSTILE = {
    "a path above": one_more(name="../more"),
    "a path above in a folder": one_more(name="rows/study-00000000/../../../more"),
    "a whole path": one_more(name="/tmp/more"),
    "a folder of another name": one_more(name="rows/more/more"),
    "a hidden file": one_more(name="rows/study-00000000/.more"),
    "a link": one_more(type=tarfile.SYMTYPE, linkname="/etc/passwd"),
    "a hard link": one_more(type=tarfile.LNKTYPE, linkname="ledger.db"),
    "a device": one_more(type=tarfile.CHRTYPE),
    "a folder": one_more(type=tarfile.DIRTYPE),
    "the same file twice": lambda member, content: [(member, content)] * (2 if member.name == "ledger.db" else 1),
    "no ledger": lambda member, content: [] if member.name == "ledger.db" else [(member, content)],
}


@pytest.mark.parametrize("how", HOSTILE)
def test_a_hostile_archive_is_refused_and_leaves_nothing(archive, tmp_path, how):
    rewritten(archive, HOSTILE[how])
    (tmp_path / "target").mkdir()
    with pytest.raises(HoldoutRejected, match="not a backup"):
        restore(archive, tmp_path / "target" / "study.db")
    assert [*(tmp_path / "target").iterdir()] == []
    assert not (tmp_path / "more").exists()


def test_declared_sizes_and_compression_do_not_fill_the_disk(archive, tmp_path):
    member = tarfile.TarInfo("ledger.db")
    member.size = 2**40
    bomb = tmp_path / "bomb.tar"
    bomb.write_bytes(member.tobuf() + b"x" * 2048)
    packed = tmp_path / "packed.tar"
    with tarfile.open(packed, "w:gz") as tar:
        tar.add(archive, "ledger.db")
    for file in (bomb, packed, tmp_path / "first" / "study.db"):
        with pytest.raises(HoldoutRejected, match="not a backup"):
            restore(file, tmp_path / "target.db")


def altered(name):
    def change(member, content):
        return [(member, content[:-600] + b"?" * len(content[-600:]) if member.name.endswith(name) else content)]

    return change


@pytest.mark.parametrize("name", ["holdout.parquet", "training.parquet", "steward.key", "ledger.head"])
def test_an_altered_archive_is_refused_as_a_whole(archive, tmp_path, name):
    rewritten(archive, altered(name))
    with pytest.raises((IntegrityError, AuthError)):
        restore(archive, tmp_path / "target.db")
    assert not (tmp_path / "target.db").exists()
    assert not (tmp_path / "target.rows").exists()


def test_an_older_archive_over_a_newer_one_is_told_from_the_newest(archive, tmp_path):
    """What no archive can know: a full copy elsewhere starts again from there."""
    storage = tmp_path / "first" / "study.db"
    with Holdout.open(storage, "study") as study:
        study.ask("delay > 300")
    shutil.rmtree(tmp_path / "first" / "study.rows")
    for file in (tmp_path / "first").glob("study.db*"):
        file.unlink()
    restore(archive, storage)
    with Holdout.open(storage, "study") as study:
        assert "delay > 300" not in [row["asked"] for row in study.transcript().to_rows()]


def access(storage):
    """Rows of the tables that let somebody in, send something out or show something."""
    with LedgerStore.open(storage_url(storage), create=False) as store, store.database.transaction() as connection:
        found = {name: connection.execute(sa.text(f"SELECT count(*) FROM {name}")).scalar_one() for name in _ACCESS}
    return {name for name, count in found.items() if count}


@pytest.fixture
def planted(archive, tmp_path):
    """The same archive, into which somebody put a token and a session."""
    source = tmp_path / "first" / "study.db"
    with LedgerStore.open(storage_url(source)) as store:
        token_store = TokenStore(Records(store.database))
        made = token_store.make(Role.STEWARD, "mallory", by="test")
        Sessions(token_store).open(made.token)
        token_store.link(made.token.id)
        Publications(Records(store.database)).put("study", public=True, by="mallory")
    told = backup(source, tmp_path / "planted.tar")
    return tmp_path / "planted.tar", made.secret, told


def test_access_that_nothing_proves_is_left_out_of_what_is_restored(planted, empty):
    altered, secret, _ = planted
    told = restore(altered, empty)
    assert told["left_out"] == {"tokens": 1}
    assert access(empty) == set()
    with LedgerStore.open(storage_url(empty), create=False) as store:
        assert TokenStore(Records(store.database)).authenticate(secret) is None
    with Holdout.open(empty, "study") as study:
        assert len(study.transcript()) == 20


def test_access_comes_back_where_the_operator_says_so(planted, empty):
    altered, secret, _ = planted
    told = restore(altered, empty, keep_access=True)
    assert told["left_out"] == {}
    assert access(empty) >= {"tokens", "sessions", "login_links", "published"}
    with LedgerStore.open(storage_url(empty), create=False) as store:
        assert TokenStore(Records(store.database)).authenticate(secret) is not None
