"""Commands about what is kept: ledgers and certificates, and an operator's migrate, doctor, backup and restore."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from everhold.cli import arguments
from everhold.cli.failures import CommandGroup, Misuse, arguments_checked
from everhold.cli.output import Format, note, show_list, show_record
from everhold.display import counted
from everhold.operations.reports import answers_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everhold.ledger import HoldoutRecord, LedgerStore
    from everhold.sealing.storage import StewardKey

_INTEGRITY, _UNCHECKED = 7, 10
_ROWS = ("section", "item", "value")
_SUFFIXES = (".json", ".html")

_AnswerOption = Annotated[
    list[str] | None,
    typer.Option(
        "--answer",
        metavar="ID=NAME",
        help="Show this answer on the first page: 'sequence' or 'query' of the transcript (8 digits or more), and a "
        "name for it. May be given several times.",
    ),
]
_QueriesOption = Annotated[
    bool, typer.Option("--queries/--without-queries", help="Whether to list all queries with their answers.")
]
_TimestampOption = Annotated[
    str | None,
    typer.Option(metavar="URL", help="A time-stamping authority (RFC 3161) that states when it was signed."),
]

certificates = typer.Typer(cls=CommandGroup, rich_markup_mode="rich")


@certificates.command()
@arguments.with_option_groups
def show(
    *,
    place: arguments.HoldoutPlace,
    output: Annotated[
        Path | None, "Also write it to this file, whose ending, .json or .html, decides the form."
    ] = None,
    answers: _AnswerOption = None,
    queries: _QueriesOption = True,
    form: arguments.FormatOption = Format.TABLE,
) -> None:
    """Print what is promised, for which rows, by which theorem.

    Example:
      everhold certificate show flights.db flights --output flights.html

    Exit codes:
      0  printed
      1  the file cannot be written
      2  wrong usage
      4  no such holdout
      5  an answer is not in the ledger, or has no numeric answer
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    _check_ending(output)
    with place.opened() as holdout, arguments_checked():
        certificate = holdout.certificate(answers_in(answers or ()), queries=queries)
    if output is not None:
        certificate.save(output)
        note(f"saved {output}")
    show_list(certificate.to_rows(), _ROWS, form, document=certificate.to_dict())


@certificates.command()
@arguments.with_option_groups
def save(
    *,
    place: arguments.HoldoutPlace,
    output: Annotated[Path, "The file, whose ending, .json or .html, decides the form."],
    answers: _AnswerOption = None,
    queries: _QueriesOption = True,
    timestamp: _TimestampOption = None,
    form: arguments.FormatOption = Format.TABLE,
) -> None:
    """Write the signed certificate to a file, JSON or HTML.

    Example:
      everhold certificate save flights.db flights --answer 12="model B" --output flights.html

    The first page of an HTML file says in plain words what the chosen answers
    are, and how many queries there were. 'everhold transcript' has the ids.
    --timestamp needs pip install 'everhold[timestamp]'.

    Exit codes:
      0  saved
      1  the file cannot be written, or the authority gives no trusted time
      2  wrong usage
      4  no such holdout
      5  an answer is not in the ledger, or has no numeric answer
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    _check_ending(output)
    with place.opened() as holdout, arguments_checked():
        certificate = holdout.certificate(answers_in(answers or ()), queries=queries, timestamp=timestamp)
    certificate.save(output)
    stated = {} if timestamp is None else {"trusted_time": certificate.claimed_time}
    show_record({"saved": str(output), **stated}, form)


@certificates.command()
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A certificate, as JSON or HTML.")],
    public_key: Annotated[
        str | None,
        typer.Option(metavar="HEX", help="The steward's public key, from a source that you trust."),
    ] = None,
    timestamp_roots: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Root certificates of time-stamping authorities that you trust, as PEM. Then "
            "there has to be a trusted time.",
        ),
    ] = None,
    form: arguments.FormatOption = Format.TABLE,
) -> None:
    """Check a certificate, offline.

    Example:
      everhold certificate verify flights.certificate.json

    The signature shows that nothing was altered since; only --public-key shows
    who signed, and only --timestamp-roots by when.

    Exit codes:
      0  all is well
      1  --timestamp-roots is given and the package that reads a trusted time is
         missing
      2  there is no such file, --public-key is not a key, or --timestamp-roots
         holds no certificates
      7  something was altered or is false, the key is another one, or the trusted
         time is missing or not to be trusted
     10  no fault was found, but not everything could be checked: it is a page with
         the words of another version
    """
    if not file.is_file():
        raise Misuse(f"There is no certificate file {str(file)!r}. Check the path.")
    if timestamp_roots is not None and not timestamp_roots.is_file():
        raise Misuse(f"There is no file of root certificates {str(timestamp_roots)!r}. Check the path.")
    from everhold.certificate import verify_certificate

    roots = None if timestamp_roots is None else timestamp_roots.read_bytes()
    with arguments_checked():
        report = verify_certificate(file, public_key=public_key, timestamp_roots=roots)
    show_record({"file": str(file), **report.to_dict()}, form)
    if not report.ok:
        raise typer.Exit(_INTEGRITY if report.findings else _UNCHECKED)


def _check_ending(output: Path | None) -> None:
    """Check that a certificate can be written in the form that the file name's ending means."""
    if output is not None and output.suffix.lower() not in _SUFFIXES:
        raise Misuse(f"{output.name!r} ends in {output.suffix!r}. Pass a file that ends in .json or .html.")


ledgers = typer.Typer(cls=CommandGroup, rich_markup_mode="rich")


@ledgers.command()
def spent(
    storage: arguments.StorageHereArgument,
    name: arguments.NameArgument = None,
    *,
    delta: Annotated[float, typer.Option(help="The delta at which epsilon is stated, between 0 and 1.")] = 1e-6,
    form: arguments.FormatOption = Format.TABLE,
) -> None:
    """Print how much the answers so far told about any one sealed row.

    Example:
      everhold ledger spent flights.db flights

    epsilon is that of differential privacy, for a limit of what these answers
    cost, whatever is asked within it. epsilon_if_fixed is smaller and holds only
    if all kinds and prices had been fixed before the first query; it needs
    the package dp-accounting, and is left out where it gains nothing. Where no
    secret noise is added there is no epsilon.

    Exit codes:
      0  printed
      2  delta is not valid
      4  no such holdout
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    with arguments.opened_here(storage, name) as holdout, arguments_checked():
        spending = holdout.spent(delta=delta)
    show_record(spending.to_dict(), form)


@ledgers.command("verify")
def verify_ledger(
    storage: arguments.StorageHereArgument,
    name: arguments.NameArgument = None,
    *,
    certificate: Annotated[
        Path | None,
        typer.Option(help="An earlier certificate, which shows whether the ledger was set back behind it."),
    ] = None,
    form: arguments.FormatOption = Format.TABLE,
) -> None:
    """Check that the ledger and the sealed rows are what they were.

    Example:
      everhold ledger verify flights.db flights --certificate flights.json

    The seals, and whether the database was set back to an older copy, need the
    steward's key and the newest head beside the sealed rows. Without the key they
    are left out, and 'checked' in the result does not name them. Rows that stay in
    an engine are read whole there, at the address in EVERHOLD_ENGINE.

    Exit codes:
      0  all is well
      2  there is no such certificate
      4  no such holdout
      7  something was altered
    """
    place = arguments.place_of(storage, name)
    result = verified(*place, certificate)
    show_record(result, form)
    if not result["ok"]:
        raise typer.Exit(_INTEGRITY)


@ledgers.command()
def recover(
    storage: arguments.StorageHereArgument,
    name: arguments.NameArgument = None,
    form: arguments.FormatOption = Format.TABLE,
) -> None:
    """Continue with a database that was set back: what it has lost counts as spent.

    Example:
      everhold ledger recover flights.db flights

    If there is a backup, restore the newest one instead: then nothing is lost.
    A recovery is recorded in the ledger and shown on the certificate. If the
    file of the newest head, ledger.head, is lost as well, all that is left counts
    as spent. What was left of allotments is taken back; allot it anew.

    Exit codes:
      0  recovered, or nothing was lost
      4  no such holdout
      7  it was altered, or cannot go on; nothing was changed
      8  the steward's key is missing or wrong
    """
    from everhold.holdout import Holdout

    place, named = arguments.place_of(storage, name)
    with Holdout.open(arguments.address_of(place), named, recover=True) as holdout:
        status = holdout.status()
    lost = status.get("lost", {"recoveries": 0, "queries": 0, "charges": 0})
    show_record({"name": status["name"], "lost": lost, "remaining": status["remaining"]}, form)


def verified(storage: str, name: str, certificate_file: Path | None) -> dict[str, Any]:
    """Verify a holdout's ledger, and a certificate if one is given, and return the report as plain data."""
    from everhold.ledger import LedgerStore
    from everhold.sealing.backup import inspect
    from everhold.sealing.storage import rows_folder

    url = arguments.address_of(storage)
    with LedgerStore.open(url, create=False) as store:
        record = store.record(name)
        folder = rows_folder(url) / str(record.configuration.get("folder"))
        key, key_findings = _key(folder, record)
        expected, certificate_findings = _expected(certificate_file, record)
        found = inspect(store, record, folder, key, expected_head=expected)
    findings = [*key_findings, *certificate_findings, *found.findings]
    return {
        "name": record.name, "ok": not findings, "entries": found.entries,
        "checked": [*found.checked, *(["certificate"] if certificate_file else [])], "findings": findings,
    }  # fmt: skip


def _key(folder: Path, record: HoldoutRecord) -> tuple[StewardKey | None, list[str]]:
    """Return the steward's key, or None if it is missing or wrong, and a list of its faults."""
    from everhold.errors import AuthError
    from everhold.sealing.storage import KEY_FILE, StewardKey, is_folder_name

    if not is_folder_name(folder.name) or not (folder / KEY_FILE).exists():
        return None, []
    try:
        return StewardKey.load(folder / KEY_FILE, public_key=str(record.configuration.get("public_key"))), []
    except AuthError as fault:
        return None, [fault.message]


def _expected(file: Path | None, record: HoldoutRecord) -> tuple[tuple[int, str] | None, list[str]]:
    """Return the ledger's head that an earlier certificate states, or None, and a list of the certificate's faults."""
    if file is None:
        return None, []
    if not file.is_file():
        raise Misuse(f"There is no certificate file {str(file)!r}. Check the path.")
    from everhold.certificate import verify_certificate

    report = verify_certificate(file)
    if report.certificate is None or report.findings:  # whose words it has does not matter to a witness of the head
        return None, [f"the certificate: {what}" for what in report.findings]
    if report.certificate.public_key != record.configuration.get("public_key"):
        return None, ["the certificate belongs to another holdout: it was signed with another key"]
    return report.certificate.ledger_head, []


def register(app: typer.Typer) -> None:
    """Add the groups of this module."""
    app.add_typer(ledgers, name="ledger", help="The record of everything that was asked: spent, verify, recover.")
    app.add_typer(certificates, name="certificate", help="The promise as a signed document: show, save, verify.")
    for command in (migrate, doctor, backup, restore):
        app.command()(command)


# Commands of an operator: migrate, doctor, backup, restore.


_CHECKS = ["check", "holdout", "ok", "found"]
_LEAST_SPACE = 2**30  # bytes
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_UNTOLD = {
    "same_rows": "also sealed as", "open_rows": "sealed rows are training rows of",
    "sealed_training": "training rows are sealed as",
}  # fmt: skip

_Storage = Annotated[
    str | None,
    typer.Argument(metavar="STORAGE", help=f"Where the holdouts are ({arguments.STORAGE_VARIABLE} by default)."),
]


def migrate(storage: _Storage = None, form: arguments.FormatOption = Format.TABLE) -> None:
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

    url = arguments.address_of(arguments.storage_of(storage))
    database = connected(url, create=True, patience=30.0)
    try:
        before = database.migrate(create=True)
        record = {"storage": database.shown, "revision": CURRENT_REVISION, "before": before}
    finally:
        database.close()
    show_record(record, form)


def doctor(storage: _Storage = None, form: arguments.FormatOption = Format.TABLE) -> None:
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
    url = arguments.address_of(arguments.storage_of(storage))
    rows = list(_checks(url))
    show_list(rows, _CHECKS, form, document={"ok": all(row["ok"] for row in rows), "checks": rows})
    if not all(row["ok"] for row in rows):
        raise typer.Exit(_INTEGRITY)


def backup(
    storage: _Storage = None,
    *,
    output: Annotated[Path, typer.Option(help="The archive, a new file such as monday.tar.")],
    form: arguments.FormatOption = Format.TABLE,
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

    url = arguments.address_of(arguments.storage_of(storage))
    if output.exists():
        raise Misuse(f"The file {str(output)!r} exists. Pass a new file.")
    show_record(write(url, output), form)


def restore(
    archive: Annotated[Path, typer.Argument(metavar="ARCHIVE", help="What 'everhold backup' wrote.")],
    storage: _Storage = None,
    form: arguments.FormatOption = Format.TABLE,
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
    know more than the restored ledger does. If the private folders are still where
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

    url = arguments.address_of(arguments.storage_of(storage))
    if not archive.is_file():
        raise Misuse(f"There is no archive {str(archive)!r}. Check the path.")
    told = read(archive, url, keep_access=keep_access)
    if any(told["left_out"].values()):
        left = " and ".join(f"{count:,} {name}" for name, count in told["left_out"].items())
        note(f"{left} were left out, because nothing in an archive proves who made them. Make new ones.")
    show_record(told, form)


def _checks(url: str) -> Iterator[dict[str, Any]]:
    """Return all checks of a storage in order."""
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
    """Yield a check for each folder of sealed rows and keys that belongs to no holdout of the ledger."""
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
    """Return the names of the holdouts of a storage."""
    from everhold.ledger import LedgerStore

    with LedgerStore.open(url, create=False) as store:
        return list(store.names())


def _checks_of(store: LedgerStore, url: str, name: str, rows: Path) -> Iterator[dict[str, Any]]:
    """Yield the checks of one holdout: permissions, rows sealed twice, key, ledger and rows."""
    from everhold.sealing.resealing import COMPARED_FILE, untold_matches

    record = store.record(name)
    folder = rows / str(record.configuration.get("folder"))
    wide = [path.name for path in (rows, folder, *folder.glob("*")) if path.exists() and path.stat().st_mode & _OTHERS]
    closed = f"open to others: {', '.join(wide)}. Close them with chmod go-rwx" if wide else "for their owner alone"
    yield _check("permissions", not wide, closed, name)
    if (untold := untold_matches(rows, record)) is not None:
        said = [f"{_UNTOLD[of]} {', '.join(map(repr, names))}" for of, names in untold.items() if names]
        found = (
            f"{'; '.join(said)}, which the steward who sealed it was not told. Two budgets do not add up, and open "
            f"rows prove nothing: decide which holdout counts, then remove {COMPARED_FILE} from its private folder"
        )
        yield _check("rows sealed once", not said, found if said else "by comparison with all holdouts", name)
    result = verified(url, name, None)
    keyed = "seals" in result["checked"]
    yield _check("steward's key", keyed, "there, and the right one" if keyed else "missing or wrong: restore it", name)
    found = "; ".join(result["findings"]) or (f"{counted(result['entries'], 'entry')}, rows and newest head as written")
    yield _check("ledger and rows", result["ok"], found, name)


def _check(what: str, ok: bool, found: str, holdout: str | None = None) -> dict[str, Any]:
    """Return one line of the table of checks.

    `ok` is true if the check passed.
    """
    return {"check": what, "holdout": holdout, "ok": ok, "found": found}
