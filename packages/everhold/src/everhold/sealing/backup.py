"""Backup of a storage into one archive while it is used, and restoring it into an empty storage.

The archive is a plain tar file: the ledger as an SQLite file, whatever its database is, and the private folders with
sealed rows, keys and newest heads. It is as secret as they are. Rows that stay in an engine are not in it, and what is
returned says so.

The ledger in an archive is checked, entry by entry. Tokens and sessions of a service cannot be checked: whoever altered
the archive may have added a token of their own. So they are restored only on request.
"""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everhold.errors import EverholdError, HoldoutRejected, IntegrityError, Unavailable
from everhold.ledger import HoldoutRecord, LedgerStore
from everhold.ledger.head_file import HEAD_FILE, HeadFile
from everhold.ledger.store import copy_tables, count_rows, own_tables
from everhold.ledger.verification import verify
from everhold.mechanisms import State
from everhold.private_files import create_private, in_use, move_durably
from everhold.progress import progress
from everhold.sealing.configuration import check_settings
from everhold.sealing.rows.row_store import arrival_rows, engine_of
from everhold.sealing.sealed_files import altered_notes, sealed_files
from everhold.sealing.storage import (
    KEY_FILE,
    ROOM,
    StewardKey,
    is_folder_name,
    make_rows_folder,
    rows_folder,
    storage_url,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


_LEDGER = "ledger.db"
_ROWS = "rows"
_ARCHIVE = "archive.tar"
_UNSETTLED = ".new"  # ends the name of a file that is being written
_FILES = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_OPEN_TO_OWNER = 0o600
_ACCESS = frozenset({"tokens", "sessions", "login_links", "published"})
"""Tables of a service that grant access or publish something."""


def backup(storage: str | Path, archive: Path) -> dict[str, Any]:
    """Write everything that a storage holds into one new file that only its owner can read.

    The heads are read before the ledger, so that a head is never newer than the copied ledger. The sealed rows are read
    last. Everything is checked first, and the archive gets its name when it is whole: a backup that was killed leaves
    none.

    Args:
        storage: URL or path of the storage; it may be in use meanwhile.
        archive: The new file.

    Returns:
        ``{"archive", "holdouts", "files", "bytes"}``, and ``"without_rows"``: the holdouts whose sealed rows stay in an
        engine and are not in the archive, where there are any.

    Raises:
        HoldoutNotFound: If there is no such storage.
        IntegrityError: If a ledger or a sealed file is not what was written; nothing is left at ``archive``.
        AuthError: If a key is missing or wrong.
        FileExistsError: If the archive is there already.
        OSError: If it cannot be written.
    """
    url, rows = storage_url(storage), rows_folder(storage)
    with LedgerStore.open(url, create=False) as store, _room(archive.absolute().parent) as room:
        heads, records = _copied(store, rows, room / _LEDGER)
        with os.fdopen(create_private(room / _ARCHIVE), "wb") as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
                files = _pack(tar, room / _LEDGER, rows, records, heads)
            file.flush()
            os.fsync(file.fileno())
        move_durably(room / _ARCHIVE, archive)
    names = [record.name for record in records]
    written = {"archive": str(archive), "holdouts": names, "files": files, "bytes": archive.stat().st_size}
    return {**written, **_without_rows(records)}


def _without_rows(records: list[HoldoutRecord]) -> dict[str, list[str]]:
    """Return the names of holdouts whose sealed rows are in an engine, and therefore not in the archive."""
    names = [record.name for record in records if record.configuration.get("engine") is not None]
    return {"without_rows": names} if names else {}


def _copied(store: LedgerStore, rows: Path, file: Path) -> tuple[dict[str, bytes], list[HoldoutRecord]]:
    """Copy the ledger. Returns the heads from before the copy, and the holdouts in the copy."""
    while True:
        heads = {}
        for record in store.records():
            check_settings(record.configuration)
            heads[record.id] = (rows / record.configuration["folder"] / HEAD_FILE).read_bytes()
        with LedgerStore.open(f"sqlite:///{file}") as copy, progress("copying the ledger"):
            copy_tables(store.database, copy.database, own_tables(copy.database))
            records = copy.records()
            if {record.id for record in records} == heads.keys():
                for record in records:
                    _check(copy, record, rows, head_file=False)  # which others move on meanwhile
                return heads, records
        file.unlink()  # a holdout was created meanwhile, whose head is not known from before


def _pack(tar: tarfile.TarFile, ledger: Path, rows: Path, records: list[HoldoutRecord], heads: dict[str, bytes]) -> int:
    """Write the ledger and the folders into an archive, and return the number of files."""
    found: list[tuple[Path, str, bytes | None]] = [(ledger, _LEDGER, None)]
    for record in records:
        name = record.configuration["folder"]
        for file in sorted((rows / name).iterdir()):
            if file.is_file() and not file.is_symlink() and file.suffix != _UNSETTLED:
                content = heads[record.id] if file.name == HEAD_FILE else None
                found.append((file, f"{_ROWS}/{name}/{file.name}", content))
    with progress("packing", len(found)) as line:
        for done, (file, name, content) in enumerate(found, 1):
            member = tarfile.TarInfo(name)
            member.mtime = int(file.stat().st_mtime)
            member.mode = file.stat().st_mode & _OPEN_TO_OWNER
            if content is not None:
                member.size = len(content)
                tar.addfile(member, BytesIO(content))
            else:
                member.size = file.stat().st_size
                with file.open("rb") as opened:
                    tar.addfile(member, opened)
            line(done)
    return len(found)


def restore(archive: Path, storage: str | Path, *, keep_access: bool = False) -> dict[str, Any]:
    """Check everything that `backup` wrote, and put it into an empty storage.

    A private folder that exists already is not replaced, because its newest head counts the answers since the backup.

    Args:
        archive: The file; its maker is not trusted.
        storage: URL or path of the storage, of either kind.
        keep_access: Whether to restore tokens, sessions, login links and public pages as well. None of them can be
            checked.

    Returns:
        ``{"storage", "holdouts", "kept", "left_out"}``; ``kept`` are holdouts whose folders existed already, and
        ``left_out`` has the number of tokens that were not restored. ``"without_rows"`` has the holdouts whose rows
        stay in an engine: their rows are checked when the holdout is opened.

    Raises:
        HoldoutRejected: If the storage holds something already, or the file is no archive of everhold.
        IntegrityError: If something in the archive is not what was sealed or written.
        AuthError: If a key is missing or wrong.
        OSError: If it cannot be read or written.
    """
    url, rows = storage_url(storage), rows_folder(storage)
    with _new_rows_folder(rows), _room(rows) as room:
        _unpack(archive, room)
        with LedgerStore.open(f"sqlite:///{room / _LEDGER}", create=False) as copy:
            records = copy.records()
            with progress("checking", len(records)) as line:
                for done, record in enumerate(records, 1):
                    _check(copy, record, room / _ROWS, head_file=True)
                    line(done)
            left_out = frozenset[str]() if keep_access else _ACCESS
            counts = {name: count_rows(copy.database, name) for name in ("tokens",) if name in left_out}
            with LedgerStore.open(url) as store, LedgerStore.open(f"sqlite:///{room / 'new.db'}") as new:
                moved: list[Path] = []
                try:
                    copy_tables(
                        copy.database, store.database, own_tables(new.database) - left_out,
                        then=lambda: _move(records, room / _ROWS, rows, moved),
                    )  # fmt: skip
                except BaseException:
                    for folder in moved:
                        shutil.rmtree(folder, ignore_errors=True)
                    raise
                shown = store.database.shown
    kept = [record.name for record in records if rows / record.configuration["folder"] not in moved]
    names = [record.name for record in records]
    return {"storage": shown, "holdouts": names, "kept": kept, "left_out": counts, **_without_rows(records)}


def _unpack(archive: Path, room: Path) -> None:
    """Write the files of an archive into a private folder, after a check that `backup` could have written them."""
    most, seen = archive.stat().st_size, set[str]()
    (room / _ROWS).mkdir(mode=0o700)
    try:
        with tarfile.open(archive, "r:") as tar:  # never compressed: nothing is larger than it looks
            for member in tar:
                most -= member.size
                if not _is_ours(member) or member.name in seen or most < 0:
                    raise _no_archive()
                seen.add(member.name)
                target = room / member.name
                target.parent.mkdir(mode=0o700, exist_ok=True)
                source = tar.extractfile(member)
                mode = 0o400 | (member.mode & _OPEN_TO_OWNER)
                with os.fdopen(create_private(target, mode=_OPEN_TO_OWNER), "wb") as file:
                    shutil.copyfileobj(source or BytesIO(), file)
                    os.fsync(file.fileno())
                target.chmod(_OPEN_TO_OWNER if member.name == _LEDGER else mode)
    except (tarfile.TarError, EOFError, ValueError, UnicodeError):
        raise _no_archive() from None
    if _LEDGER not in seen:
        raise _no_archive()


def _is_ours(member: tarfile.TarInfo) -> bool:
    """Return whether a member of a tar archive is a plain file with a path that `backup` writes."""
    if not member.isreg() or member.issparse():
        return False
    if member.name == _LEDGER:
        return True
    root, _, rest = member.name.partition("/")
    folder, _, file = rest.partition("/")
    return root == _ROWS and is_folder_name(folder) and _FILES.fullmatch(file) is not None


def _check(copy: LedgerStore, record: HoldoutRecord, rows: Path, *, head_file: bool) -> None:
    """Raise IntegrityError if a restored holdout differs from its recorded seals, settings or rows.

    If `head_file` is true, the file of the newest head must agree as well.
    """
    check_settings(record.configuration)
    folder = rows / record.configuration["folder"]
    key = StewardKey.load(folder / KEY_FILE, public_key=record.configuration["public_key"])
    found = inspect(copy, record, folder, key, head_file=head_file, tables=False)
    if found.findings:
        raise IntegrityError(f"holdout {record.name!r} is not what was sealed and written: {found.findings[0]}")


def _move(records: list[HoldoutRecord], source: Path, rows: Path, moved: list[Path]) -> None:
    """Move the private folders to their final place, except folders that exist there already."""
    for record in records:
        name = record.configuration["folder"]
        if (rows / name).exists():
            StewardKey.load(rows / name / KEY_FILE, public_key=record.configuration["public_key"])
        else:
            (source / name).rename(rows / name)
            moved.append(rows / name)


@contextmanager
def _new_rows_folder(rows: Path) -> Iterator[None]:
    """Context in which the folder of the rows exists. If it was made and the context fails, it is removed again."""
    existed = rows.exists()
    make_rows_folder(rows)
    try:
        yield
    except BaseException:
        if not existed:
            with suppress(OSError):  # another process has put rows there
                rows.rmdir()
        raise


@contextmanager
def _room(parent: Path) -> Iterator[Path]:
    """Context with a private temporary folder, which is removed at the end."""
    try:
        room = Path(tempfile.mkdtemp(prefix=ROOM, dir=parent))
    except OSError as fault:
        raise EverholdError(
            f"No file can be made in the folder {parent.name!r}: {fault.strerror}. Check that it is there, and may be "
            "written."
        ) from None
    try:
        with in_use(room):
            yield room
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _no_archive() -> HoldoutRejected:
    """Return the error for a file that is not a complete backup."""
    return HoldoutRejected(
        "The file is not a backup that 'everhold backup' wrote, or it was altered or cut short. Pass the complete file."
    )


# A holdout as it lies on the disk: is its ledger what was written, and is every sealed file what was sealed?


@dataclass(frozen=True, slots=True)
class Inspection:
    """Result of an inspection of one holdout.

    Attributes:
        entries: Number of entries of the ledger.
        checked: What was checked, such as "hashes", "seals" and "rows".
        findings: Everything that is not as it was written, in words.
    """

    entries: int
    checked: tuple[str, ...]
    findings: tuple[str, ...]


def inspect(
    store: LedgerStore, record: HoldoutRecord, folder: Path, key: StewardKey | None, *,
    expected_head: tuple[int, str] | None = None, head_file: bool = True, tables: bool = True,
) -> Inspection:  # fmt: skip
    """Check the ledger of a holdout, its rows and the files of its gates. Rows in an engine are read there.

    Args:
        store: The ledger's database.
        record: Record of the holdout in that database.
        folder: Private folder of the holdout.
        key: The steward's key; without it seals, gates and rows in an engine are not checked.
        expected_head: Sequence and hash of a head that the ledger must contain, as for
            `everhold.ledger.verification.verify`.
        head_file: Whether the ledger must contain the head in the file of the newest head.
        tables: Whether rows in an engine are read.
    """
    seal_key = None if key is None else key.seal_key
    newest = HeadFile.of(folder, holdout=record.id, seal_key=seal_key) if seal_key and head_file else None
    report = verify(store, record.name, seal_key=seal_key, expected_head=expected_head, head_file=newest)
    checked = {"hashes": True, "sums": True, "seals": report.keyed, "newest head": newest is not None}
    findings = [f"entry {found.sequence}: {found.what}" if found.sequence else found.what for found in report.findings]
    try:
        check_settings(record.configuration)
    except IntegrityError as fault:
        findings.append(fault.message)
    else:
        for arrival in (None, *report.arrivals):
            for file in sealed_files(folder, record.configuration, arrival).values():
                try:
                    file.check()
                except IntegrityError as fault:
                    findings.append(fault.message)
        checked["rows"] = record.configuration.get("engine") is None
        if key is not None:
            findings += altered_notes(folder, key=key.notes_key)
            try:
                head = store.head(record.id)
                State.of(head.state, record.settings)
                for extension in head.accounts.extensions.values():
                    findings += extension.file_findings(record, folder, key.seal_key, report.arrivals)
                if tables and not checked["rows"]:
                    findings += _table_findings(record, key, report.arrivals)
                    checked["rows"] = True
            except IntegrityError as fault:
                findings.append(fault.message)
            except (Unavailable, ValueError) as fault:
                findings.append(f"the sealed rows were not looked at: {fault}")
    return Inspection(report.entries, tuple(kind for kind, done in checked.items() if done), tuple(findings))


def _table_findings(record: HoldoutRecord, key: StewardKey, arrivals: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return texts about sealed rows in an engine that differ from those recorded at creation and at each arrival.

    Raises:
        Unavailable: If the engine cannot be reached.
        ValueError: If its address is missing.
    """
    try:
        engine = engine_of(record.configuration, key)
        assert engine is not None
        try:
            for place, arrival in enumerate(arrivals):
                if arrival["rows"]:
                    arrival_rows(record.configuration, key, engine, before=arrivals[:place], arrival=arrival)
        finally:
            engine.close()
    except IntegrityError as fault:
        return [fault.message]
    return []
