"""Commands about the ledger: show, spent, verify, recover."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from everhold.cli.arguments import (
    FormatOption,
    NameArgument,
    StorageArgument,
    StorageHereArgument,
    address_of,
    opened_here,
    place_of,
)
from everhold.cli.failures import CommandGroup, Misuse, arguments_checked
from everhold.cli.holdouts import show_transcript
from everhold.cli.output import Format, show_record

if TYPE_CHECKING:
    from everhold.ledger import HoldoutRecord
    from everhold.sealing.storage import StewardKey

_INTEGRITY = 7

group = typer.Typer(cls=CommandGroup, rich_markup_mode="rich")


def register(app: typer.Typer) -> None:
    """Add the group `ledger`."""
    app.add_typer(group, name="ledger", help="The record of everything that was asked: show, spent, verify, recover.")


@group.command()
def show(storage: StorageArgument, name: NameArgument = None, form: FormatOption = Format.TABLE) -> None:
    """Print every query with its answer, in order; the same as 'everhold transcript'.

    Example:
      everhold ledger show flights.db flights

    Values are means of row values between 0 and 1, as the ledger holds them. Of a
    choice, a quantile or a scan the value is the number of the candidate, bin or
    query, from 0, and 'within' says how sharp it is: the regret, the error of
    the level, or the distance beyond the threshold.

    Exit codes:
      0  printed
      4  no such holdout
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    show_transcript(storage, name, form)


@group.command()
def spent(
    storage: StorageHereArgument,
    name: NameArgument = None,
    *,
    delta: Annotated[float, typer.Option(help="The delta at which epsilon is stated, between 0 and 1.")] = 1e-6,
    form: FormatOption = Format.TABLE,
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
    with opened_here(storage, name) as holdout, arguments_checked():
        spending = holdout.spent(delta=delta)
    show_record(spending.to_dict(), form)


@group.command()
def verify(
    storage: StorageHereArgument,
    name: NameArgument = None,
    *,
    certificate: Annotated[
        Path | None,
        typer.Option(help="An earlier certificate; shows whether the ledger was set back behind it."),
    ] = None,
    form: FormatOption = Format.TABLE,
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
    place = place_of(storage, name)
    result = verified(*place, certificate)
    show_record(result, form)
    if not result["ok"]:
        raise typer.Exit(_INTEGRITY)


@group.command()
def recover(storage: StorageHereArgument, name: NameArgument = None, form: FormatOption = Format.TABLE) -> None:
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

    place, named = place_of(storage, name)
    with Holdout.open(address_of(place), named, recover=True) as holdout:
        status = holdout.status()
    lost = status.get("lost", {"recoveries": 0, "queries": 0, "charges": 0})
    show_record({"name": status["name"], "lost": lost, "remaining": status["remaining"]}, form)


def verified(storage: str, name: str, certificate_file: Path | None) -> dict[str, Any]:
    """Report of a verification."""
    from everhold.ledger import LedgerStore
    from everhold.sealing.backup import inspect
    from everhold.sealing.storage import rows_folder

    url = address_of(storage)
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
    """The steward's key, if it is there, and what is wrong with it."""
    from everhold.errors import AuthError
    from everhold.sealing.storage import KEY_FILE, StewardKey, is_folder_name

    if not is_folder_name(folder.name) or not (folder / KEY_FILE).exists():
        return None, []
    try:
        return StewardKey.load(folder / KEY_FILE, public_key=str(record.configuration.get("public_key"))), []
    except AuthError as fault:
        return None, [fault.message]


def _expected(file: Path | None, record: HoldoutRecord) -> tuple[tuple[int, str] | None, list[str]]:
    """The ledger's head as an earlier certificate has it, and what is wrong with the certificate."""
    if file is None:
        return None, []
    if not file.is_file():
        raise Misuse(f"there is no file {str(file)!r}; expected a certificate; check the path")
    from everhold.certificate import verify_certificate

    report = verify_certificate(file)
    if report.certificate is None or report.findings:  # whose words it has does not matter to a witness of the head
        return None, [f"the certificate: {what}" for what in report.findings]
    if report.certificate.public_key != record.configuration.get("public_key"):
        return None, ["the certificate belongs to another holdout: it was signed with another key"]
    return report.certificate.ledger_head, []
