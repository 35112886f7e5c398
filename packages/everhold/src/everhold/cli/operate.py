"""Commands of an operator: migrate, doctor, backup, restore."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from everhold.certificate.numbers import counted
from everhold.cli.arguments import STORAGE_VARIABLE, FormatOption, address_of, storage_of
from everhold.cli.failures import Misuse
from everhold.cli.ledger import verified
from everhold.cli.output import Format, note, show_list, show_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everhold.ledger import LedgerStore

_INTEGRITY = 7
_CHECKS = ["check", "holdout", "ok", "found"]
_LEAST_SPACE = 2**30  # bytes
_OTHERS = stat.S_IRWXG | stat.S_IRWXO

_Storage = Annotated[
    str | None,
    typer.Argument(metavar="STORAGE", help=f"Where the holdouts are ({STORAGE_VARIABLE} by default)."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (migrate, doctor, backup, restore):
        app.command()(command)


def migrate(storage: _Storage = None, form: FormatOption = Format.TABLE) -> None:
    """Make the tables of a storage, or check that they are this version's.

    Example:
      everhold migrate "postgresql://steward@db/everhold?rows=/srv/everhold/rows"

    Every command does this when it opens a storage; do it by hand before several
    server processes start, or to make the tables with another database user than
    the one who asks. It is done at once or not at all, and there is no way back.

    Exit codes:
      0  the tables are those of this version
      1  the storage cannot be reached, or is that of a newer version
      2  no storage is given, or it cannot be used
      7  what says which revision it is was altered
    """
    from everhold.ledger.address import connected
    from everhold.ledger.schema import CURRENT_REVISION

    url = address_of(storage_of(storage))
    database = connected(url, create=True, patience=30.0)
    try:
        before = database.migrate(create=True)
        record = {"storage": database.shown, "revision": CURRENT_REVISION, "before": before}
    finally:
        database.close()
    show_record(record, form)


def doctor(storage: _Storage = None, form: FormatOption = Format.TABLE) -> None:
    """Check a storage: database, permissions, keys, rows, ledgers, disk space, crash leftovers.

    Example:
      everhold doctor flights.db

    Nothing is changed, and no secret is printed. Each ledger is read whole, as by
    'everhold ledger verify', while others go on asking.

    Exit codes:
      0  all is well
      1  the storage cannot be reached
      2  no storage is given, or it cannot be used
      4  no such storage
      7  something is not as it should be
    """
    url = address_of(storage_of(storage))
    rows = list(_checks(url))
    show_list(rows, _CHECKS, form, document={"ok": all(row["ok"] for row in rows), "checks": rows})
    if not all(row["ok"] for row in rows):
        raise typer.Exit(_INTEGRITY)


def backup(
    storage: _Storage = None,
    *,
    output: Annotated[Path, typer.Option(help="The archive, a new file such as monday.tar.")],
    form: FormatOption = Format.TABLE,
) -> None:
    """Write ledger, sealed rows and keys into one archive, while others go on asking.

    Example:
      everhold backup flights.db --output monday.tar

    The archive is a plain tar file that only its owner can read. It is as secret
    as the rows and the steward's key, which are in it: keep it where they may be.
    The ledger in it is an SQLite file, so that it can be restored into a storage of
    either kind. Rows that stay in an engine are not in it ('without_rows' names
    their holdouts): back the engine's tables up as well. Everything else is checked
    first. A backup that is killed leaves a folder .everhold-... beside the archive,
    and no archive.

    Exit codes:
      0  written
      1  the file cannot be written, or is there already
      2  no storage is given, or it cannot be used
      4  no such storage
      7  a ledger or a sealed file was altered or is missing; nothing was written
      8  a steward's key is missing or wrong; nothing was written
    """
    from everhold.sealing.backup import backup as write

    url = address_of(storage_of(storage))
    if output.exists():
        raise Misuse(f"The file {str(output)!r} exists. Pass a new file.")
    show_record(write(url, output), form)


def restore(
    archive: Annotated[Path, typer.Argument(metavar="ARCHIVE", help="What 'everhold backup' wrote.")],
    storage: _Storage = None,
    form: FormatOption = Format.TABLE,
    *,
    keep_access: Annotated[
        bool, typer.Option("--keep-access", help="Restore tokens, sessions and public pages, too.")
    ] = False,
) -> None:
    """Put an archive into an empty storage, after everything in it was checked.

    Example:
      everhold restore monday.tar "postgresql://steward@db/new?rows=/srv/new/rows"

    Tokens, sessions, login links and public pages cannot be checked, so
    they are left out: make new ones. If no one else can have written to the
    archive, --keep-access restores them.

    What was answered after the backup is not in it, and analysts who saw those answers
    knows more than the restored ledger does. If the private folders are still where
    they were, they are kept: their file ledger.head knows how far the ledger had
    come, and nothing is answered before 'everhold ledger recover' has counted what
    was lost as spent. Restored anywhere else, the archive is a second holdout on
    the same rows, with a budget of its own, and no promise covers the answers of
    both: restore it only if the first one is gone, and right after the newest
    backup.

    Exit codes:
      0  restored
      2  there is no such archive, or no storage is given
      3  the storage is not empty, or the file is no archive; nothing was restored
      7  something in the archive was altered; nothing was restored
      8  a steward's key is missing or wrong; nothing was restored
    """
    from everhold.sealing.backup import restore as read

    url = address_of(storage_of(storage))
    if not archive.is_file():
        raise Misuse(f"There is no archive {str(archive)!r}. Check the path.")
    told = read(archive, url, keep_access=keep_access)
    if any(told["left_out"].values()):
        left = " and ".join(f"{count:,} {name}" for name, count in told["left_out"].items())
        note(f"{left} were left out, because nothing in an archive proves who made them. Make new ones.")
    show_record(told, form)


def _checks(url: str) -> Iterator[dict[str, Any]]:
    """All checks of a storage, in the order in which one would do them by hand."""
    from everhold.errors import HoldoutNotFound
    from everhold.ledger import LedgerStore
    from everhold.ledger.address import connected, rows_beside
    from everhold.ledger.database import database_errors
    from everhold.ledger.schema import CURRENT_REVISION

    rows = rows_beside(url)
    try:
        database = connected(url, create=False, patience=30.0)
    except HoldoutNotFound as fault:
        left = list(_leftovers(rows, None)) if rows.is_dir() else []
        if not left:
            raise
        yield _check("database", False, fault.message)
        yield from left
        return
    try:
        revision = database.revision()
        yield _check("database", True, f"{database.shown} answers")
        with database.transaction() as connection, database_errors():
            weak = database.weaknesses(connection)
        yield _check("durability", not weak, "; ".join(weak) or "answers survive a crash")
    finally:
        database.close()
    current = revision == CURRENT_REVISION
    said = f"{revision or 'no tables'}, of {CURRENT_REVISION}: {'up to date' if current else 'run everhold migrate'}"
    yield _check("revision", current, said)
    sealed = _sealed(url) if current else []
    there = rows.is_dir()
    found = (
        str(rows) if there else f"{rows} is not there{'' if sealed or not current else ', as nothing is sealed yet'}"
    )
    yield _check("folder of the rows", there or not sealed, found)
    if not there:
        return
    if not current:
        yield from _leftovers(rows, None)
        return
    room = shutil.disk_usage(rows).free
    enough = room >= _LEAST_SPACE
    yield _check("room on the disk", enough, f"{room / 2**30:.1f} GiB free: {'enough' if enough else 'make room'}")
    with LedgerStore.open(url, create=False) as store:
        yield from _leftovers(rows, store)
        for name in store.names():
            yield from _checks_of(store, url, name, rows)


def _leftovers(rows: Path, store: LedgerStore | None) -> Iterator[dict[str, Any]]:
    """One check for each folder that no holdout of the ledger has; they hold copies of sealed rows, and keys."""
    from everhold.sealing.storage import ROOM, leftovers

    def known() -> set[str]:
        records = [] if store is None else store.records()
        return {str(record.configuration.get("folder")) for record in records}

    left = leftovers(rows, known)
    for path in left:
        if path.name.startswith(ROOM):
            found = f"{path} was left by a killed restore or backup. Remove it."
        else:
            found = (
                f"{path} belongs to no holdout of this ledger: a creation was killed, or the ledger was set back. "
                "Remove it, unless a backup of the ledger knows it."
            )
        yield _check("crash leftovers", False, found)
    if store is not None and not left:
        yield _check("crash leftovers", True, "no folder that the ledger does not know")


def _sealed(url: str) -> list[str]:
    from everhold.ledger import LedgerStore

    with LedgerStore.open(url, create=False) as store:
        return list(store.names())


def _checks_of(store: LedgerStore, url: str, name: str, rows: Path) -> Iterator[dict[str, Any]]:
    from everhold.sealing.duplicates.resealing import COMPARED_FILE, untold_matches

    record = store.record(name)
    folder = rows / str(record.configuration.get("folder"))
    wide = [path.name for path in (rows, folder, *folder.glob("*")) if path.exists() and path.stat().st_mode & _OTHERS]
    closed = f"open to others: {', '.join(wide)}. Close them with chmod go-rwx" if wide else "for their owner alone"
    yield _check("permissions", not wide, closed, name)
    if (same := untold_matches(rows, record)) is not None:
        found = (
            f"also sealed as {', '.join(map(repr, same))}, which the steward who sealed it "
            "was not told. Two budgets do not add up: decide which one counts, then "
            f"remove {COMPARED_FILE} from its private folder"
        )
        yield _check("rows sealed once", not same, found if same else "by comparison with all holdouts", name)
    result = verified(url, name, None)
    keyed = "seals" in result["checked"]
    yield _check("steward's key", keyed, "there, and the right one" if keyed else "missing or wrong: restore it", name)
    found = "; ".join(result["findings"]) or (f"{counted(result['entries'], 'entry')}, rows and newest head as written")
    yield _check("ledger and rows", result["ok"], found, name)


def _check(what: str, ok: bool, found: str, holdout: str | None = None) -> dict[str, Any]:
    return {"check": what, "holdout": holdout, "ok": ok, "found": found}
