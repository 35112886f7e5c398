"""Every sealed file is checked by all who say that they check it; what a killed process leaves is found."""

import io
import json
import shutil
import signal
import subprocess
import sys
import tarfile

import numpy as np
import pytest
from cli_samples import everhold  # noqa: F401  # a fixture

import everhold as eh
from everhold.ledger import LedgerStore
from everhold.ledger.head_file import HEAD_FILE
from everhold.sealing.backup import backup, inspect, restore
from everhold.sealing.storage import KEY_FILE, StewardKey

FILES = {
    "holdout.parquet": "h", "training.parquet": "h", "arrival-000001.parquet": "h", "arrival-000003.parquet": "h",
    "arrived-training-000001.parquet": "h", "arrived-training-000002.parquet": "h", "champion-*": "h",
    "steward.key": "h", "results-*": "cases", "content.json": "h", "arrival-000003.json": "h", "known-000001-*": "h",
}  # fmt: skip


def rows(seed, n=2_000):
    r = np.random.default_rng(seed)
    return {"id": [f"{seed}-{i}" for i in range(n)], "x": r.normal(0, 1, n), "y": r.integers(0, 2, n)}


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """An archive of a holdout with three arrivals, one of training rows alone, and of one with cases."""
    folder = tmp_path_factory.mktemp("storage")
    with eh.Holdout.create(
        folder / "a.db", "h", holdout=rows(1), training=rows(2), rows=eh.Rows(row_id="id"), label="y",
        queries=50, planning=eh.Planning(grows=True),
    ) as holdout:  # fmt: skip
        holdout.append(rows(3), training=rows(4), until="2026-01-01")
        holdout.append(training=rows(5), until="2026-01-02")
        holdout.append(rows(6), until="2026-01-03")
        holdout.gate("accuracy", champion="x > 0")
    eh.seal_cases(
        folder / "a.db", "cases", results={str(k): {"score": k % 2} for k in range(40)}, better="score"
    ).close()
    backup(folder / "a.db", folder / "good.tar")
    return folder / "good.tar"


def spoiled(content, how):
    place = len(content) // 2
    return content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :] if how == "altered" else None


NOTES = ("content.json", "arrival-000003.json", "known-000001-*")
"""May be missing: they are made anew, or less is compared."""


@pytest.mark.parametrize(("name", "how"), [
    (name, how) for name in FILES for how in ("altered", "missing") if how == "altered" or name not in NOTES
])  # fmt: skip
def test_a_spoiled_file_is_found_by_all_who_check(archive, tmp_path, everhold, name, how):  # noqa: F811
    restore(archive, tmp_path / "a.db")
    everhold("doctor", str(tmp_path / "a.db"))
    holdout = FILES[name]
    path = max(tmp_path.glob(f"a.rows/{holdout}-*/{name}"))
    path.chmod(0o600)
    content = spoiled(path.read_bytes(), how)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
        path.chmod(0o400)
    keyless = name in ("steward.key", "champion-*", "results-*")  # opened where they are needed
    everhold("doctor", str(tmp_path / "a.db"), code=7)
    if (name, how) != ("steward.key", "missing"):
        everhold("ledger", "verify", str(tmp_path / "a.db"), holdout, code=7)
    code = 8 if name == "steward.key" else 7
    everhold("backup", str(tmp_path / "a.db"), "--output", str(tmp_path / "bad.tar"), code=code)
    assert not (tmp_path / "bad.tar").exists()
    if not keyless:
        with pytest.raises(eh.IntegrityError):
            eh.Holdout.open(tmp_path / "a.db", holdout)

    member = f"rows/{path.parent.name}/{path.name}"
    with tarfile.open(archive) as good, tarfile.open(tmp_path / "spoiled.tar", "w") as tar:
        for each in good:
            inside = good.extractfile(each).read()
            inside = spoiled(inside, how) if each.name == member else inside
            if inside is not None:
                tar.addfile(each, io.BytesIO(inside))
    (tmp_path / "new").mkdir()
    everhold("restore", str(tmp_path / "spoiled.tar"), str(tmp_path / "new" / "a.db"), code=code)


KILLED = """
import os, signal, sys
import everhold, everhold as eh
from everhold.{module} import {owner}
{owner}.{method} = lambda *args, **named: os.kill(os.getpid(), signal.SIGKILL)
{call}
"""
CREATION = {
    "module": "ledger", "owner": "LedgerStore", "method": "create_all",
    "call": "eh.Holdout.create(sys.argv[1], 'second', holdout={'x': [0.5, 0.7] * 2000}, queries=10)",
}  # fmt: skip
BACKUP = {
    "module": "sealing.backup", "owner": "os", "method": "fsync",
    "call": "from pathlib import Path; everhold.sealing.backup.backup(sys.argv[1], Path(sys.argv[2]))",
}  # fmt: skip


def killed(killing, *arguments):
    code = KILLED.format(**killing)
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize("first", [True, False])
def test_what_a_killed_creation_leaves_is_found(archive, tmp_path, everhold, first):  # noqa: F811
    if not first:
        restore(archive, tmp_path / "a.db")
    killed(CREATION, tmp_path / "a.db")
    (left,) = tmp_path.glob("a.rows/second-*")
    assert (left / "steward.key").exists()
    checks = json.loads(everhold("doctor", str(tmp_path / "a.db"), "--format", "json", code=7).stdout)["checks"]
    found = [check["found"] for check in checks if check["check"] == "crash leftovers"]
    assert len(found) == 1
    assert str(left) in found[0]
    assert "Remove it" in found[0]
    shutil.rmtree(left)
    if not first:
        everhold("doctor", str(tmp_path / "a.db"))


def test_a_creation_that_goes_on_is_no_leftover(archive, tmp_path, everhold, monkeypatch):  # noqa: F811
    restore(archive, tmp_path / "a.db")
    created = LedgerStore.create

    def create(*arguments, **named):
        everhold("doctor", str(tmp_path / "a.db"))
        return created(*arguments, **named)

    monkeypatch.setattr(LedgerStore, "create", create)
    eh.Holdout.create(tmp_path / "a.db", "second", holdout={"x": [0.5, 0.7] * 2000}, queries=10).close()


def test_a_killed_backup_leaves_no_archive(archive, tmp_path):
    restore(archive, tmp_path / "a.db")
    killed(BACKUP, tmp_path / "a.db", tmp_path / "monday.tar")
    assert not (tmp_path / "monday.tar").exists()
    assert backup(tmp_path / "a.db", tmp_path / "monday.tar")["holdouts"] == ["cases", "h"]


@pytest.mark.parametrize("holdout", ["h", "cases"])
def test_a_flipped_byte_is_found_in_every_file(archive, tmp_path, holdout):
    """Each file but the lock: by the inspection that verify, doctor, backup and restore make, or by opening."""
    restore(archive, tmp_path / "a.db")
    (folder,) = tmp_path.glob(f"a.rows/{holdout}-*")
    with LedgerStore.open(f"sqlite:///{tmp_path}/a.db") as store:
        record = store.record(holdout)
        key = StewardKey.load(folder / KEY_FILE, public_key=record.configuration["public_key"])
        assert not inspect(store, record, folder, key).findings
        names = sorted(path.name for path in folder.iterdir() if path.name not in (KEY_FILE, "append.lock"))
        assert {"content.json", "holdout.parquet"} <= {*names}
        for name in names:
            content, mode = (folder / name).read_bytes(), (folder / name).stat().st_mode
            last = len(content) - 1
            for places in [(0, last)] if name == HEAD_FILE else [(0,), (last // 2,), (last,)]:  # it survives one
                altered = bytearray(content)
                for place in places:
                    altered[place] ^= 1
                (folder / name).chmod(0o600)
                (folder / name).write_bytes(altered)
                (folder / name).chmod(mode)
                assert inspect(store, record, folder, key).findings, (name, places)
                if not name.startswith(("champion", "results")):  # opened where they are needed
                    with pytest.raises(eh.IntegrityError):
                        eh.Holdout.open(tmp_path / "a.db", holdout)
            (folder / name).chmod(0o600)
            (folder / name).write_bytes(content)
            (folder / name).chmod(mode)
        assert not inspect(store, record, folder, key).findings
