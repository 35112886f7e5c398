"""Commands about a holdout: status, transcript, list, declare, protocol, diagnose, unseal."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from everhold.answers import UNSEALED
from everhold.cli import arguments
from everhold.cli.failures import CommandGroup, Misuse, arguments_checked
from everhold.cli.output import Format, note, show_list, show_record
from everhold.display import at_most
from everhold.errors import EverholdWarning
from everhold.remote import is_address, remote_storage

_TRANSCRIPT = ("sequence", "asked_at", "query", "asked", "value", "low", "high", "source", "charged")
ALLOTTED = ("analyst", "asked", "queries", "charged", "charges")
"""Columns of a table of allotments."""
_LISTED = ("name", "rows", "training_rows", "mechanism", "queries", "confidence", "asked", "charged", "created")


protocols = typer.Typer(cls=CommandGroup, rich_markup_mode="rich")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (status, transcript, declare, diagnose, unseal):
        app.command()(command)
    app.command("list")(list_holdouts)
    app.add_typer(protocols, name="protocol", help="A study's protocol beside its certificate: check.")


def status(
    storage: arguments.StorageArgument, name: arguments.NameArgument = None, form: arguments.FormatOption = Format.TABLE
) -> None:
    """Print rows, mechanism, promise, what was asked and what is left.

    Example:
      everhold status flights.db flights --format json

    Two bars follow for each kind of query: the half-width of its next answer, and
    that after five more surprises, for shares near one half. Where parts of the
    budget are allotted, a table of analysts follows: what each has asked and been
    charged, with the limits of each.

    Exit codes:
      0  printed
      4  no such holdout
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    with arguments.opened(storage, name) as holdout:
        found = holdout.status()
    if form is not Format.TABLE:
        show_record(found, form)
        return
    show_record({name: value for name, value in found.items() if name not in ("allotments", "worth")}, form)
    if "worth" in found:
        from everhold.asking.reports.status import Worth

        sys.stdout.write(f"\n{Worth(found['worth'])}\n")
    if "allotments" in found:
        sys.stdout.write("\n")
        show_list(found["allotments"], ALLOTTED, form, document=found)
    if outlook := found.get("outlook"):
        widths = ", ".join(f"{when} within {at_most(half)}" for when, half in outlook.items())
        note(f"the next confirmed answers to yes-or-no queries: {widths}")


def transcript(
    storage: arguments.StorageArgument, name: arguments.NameArgument = None, form: arguments.FormatOption = Format.TABLE
) -> None:
    """Print every query with its answer, in order.

    Example:
      everhold transcript flights.db flights --format csv

    Values are means of row values between 0 and 1, as the ledger holds them. Of a
    choice, a quantile or a scan the value is the number of the candidate, bin or
    query, from 0, and 'within' says how sharp it is: the regret, the error of
    the level, or the distance beyond the threshold.
    Of an unsealed study there is also what the sealed rows say of each query,
    with an interval for the population.

    Exit codes:
      0  printed
      4  no such holdout
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    with arguments.opened(storage, name) as holdout:
        entries = holdout.transcript()
    rows = entries.to_rows()
    columns = [*_TRANSCRIPT, *(name for name in (*UNSEALED, "analyst", "about") if rows and name in rows[0])]
    if any(row.get("within") is not None for row in rows):  # a choice says nothing without its regret
        columns.insert(columns.index("source"), "within")
    show_list(rows, columns, form, document=entries.to_dict())


def list_holdouts(
    storage: Annotated[
        str | None,
        typer.Argument(metavar="STORAGE", help=f"Where the holdouts are ({arguments.STORAGE_VARIABLE} by default)."),
    ] = None,
    form: arguments.FormatOption = Format.TABLE,
) -> None:
    """Print all holdouts of a storage.

    Example:
      everhold list flights.db

    The ledgers are checked with the stewards' keys. Where a key cannot be read,
    the line of its holdout has what the database says.

    Exit codes:
      0  printed
      2  no storage is given
      4  no such storage
      7  a ledger was altered
      8  a steward's key, or the token of a service, is missing or wrong
    """
    place = arguments.storage_of(storage)
    if is_address(place):
        with arguments_checked():
            rows = remote_storage(place).holdouts(place)
    else:
        from everhold.ledger import LedgerStore
        from everhold.ledger.address import rows_beside
        from everhold.sealing.configuration import listed_facts

        url = arguments.address_of(place)
        with LedgerStore.open(url, create=False) as store:
            rows = [listed_facts(store, record, rows_beside(url)) for record in store.records()]
    show_list(rows, _LISTED, form, document={"holdouts": rows})


_FAMILIES = ["name", "holds", "declared", "bits", "within"]

_ProtocolOption = Annotated[
    Path | None, typer.Option(help="A TOML or YAML file. Without it, those that are declared are printed.")
]


def declare(
    storage: arguments.StorageArgument, name: arguments.NameArgument = None, *, protocol: _ProtocolOption = None,
    form: arguments.FormatOption = Format.TABLE,
) -> None:  # fmt: skip
    r"""Declare families of queries, whose members cost nothing from then on.

    Example:
      everhold create flights.db flights --holdout sealed.parquet \
        --training training.parquet --protocol study.toml
      everhold declare flights.db flights
      everhold declare flights.db flights --protocol more.toml

    A protocol is a TOML file, or YAML where PyYAML is installed:
      arms = {arm = "treatment", treated = "B", control = "A"}
      \[families."end points"]
      listed = \["late", {risk_difference = "died = 1"}, {quantile = "delay"}]
      \[families.carriers]
      subgroups = \["carrier", "origin"]
      of = "arr_delay > 15"
      \[families.texts]
      texts = 40                     # all expressions of up to 40 bits

    Members are answered from the sealed rows, in any order, as often as you like, at a width
    that is known beforehand and never changes. Families of the holdout's creation
    have the narrowest answers; each later one takes one query of the budget.
    'within' is the half-width of a share of rows that takes as many bits.

    Exit codes:
      0  declared or printed
      4  no such holdout
      5  a family cannot be declared; nothing was changed
      6  no query is left that a family could take
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    with arguments.opened(storage, name) as holdout, arguments_checked():
        if protocol is not None:
            from everhold.families.protocol import protocol as read

            holdout.declare_all(read(protocol).families)
        found = holdout.declared.families()
    show_list(found.to_rows(), _FAMILIES, form, document=found.to_dict())
    if form is Format.TABLE and not found.rows:
        note("no family is declared")


@protocols.command()
def check(
    protocol: Annotated[Path, typer.Argument(metavar="FILE", help="The protocol, as TOML or YAML.")],
    certificate: Annotated[Path, typer.Argument(metavar="CERTIFICATE", help="A certificate, as JSON or HTML.")],
    public_key: Annotated[
        str | None, typer.Option(metavar="HEX", help="The steward's public key, from a source that you trust.")
    ] = None,
    form: arguments.FormatOption = Format.TABLE,
) -> None:
    """Compare a protocol with what a certificate says was declared; offline.

    Example:
      everhold protocol check trial.yaml trial.certificate.json

    Each end point has to be declared with the holdout, in the words of the
    protocol, and nothing else. So do groups, or another dependence, and the rules
    for missing values. Share and confidence are compared where the protocol says
    them. The certificate is verified as by 'everhold certificate verify'.

    Exit codes:
      0  the certificate says what the protocol says
      1  something differs; each difference is printed
      2  there is no such file
      5  the protocol cannot be read
      7  the certificate was altered, or the key is another one
    """
    if not certificate.is_file():
        raise Misuse(f"There is no certificate file {str(certificate)!r}. Check the path.")
    from everhold.certificate import Certificate, verify_certificate
    from everhold.families.protocol import compared
    from everhold.families.protocol import protocol as read

    with arguments_checked():
        planned, document = read(protocol), Certificate.load(certificate).to_dict()
        report = verify_certificate(certificate, public_key=public_key)
    rows = compared(planned, document)
    show_list(rows, ["what", "protocol", "certificate", "same"], form, document={"compared": rows, **report.to_dict()})
    if report.findings:
        note(f"the certificate is not to be trusted: {report.findings[0]}")
        raise typer.Exit(7)
    if not all(row["same"] for row in rows):
        raise typer.Exit(1)


_SUSPECTS = (
    "column", "role", "alike_in", "correlation", "error", "clear", "groups", "design_effect", "effective_rows",
    "radius",
)  # fmt: skip
_ALL_OF_SUSPECTS = (*_SUSPECTS, "estimate", "suggestion")


def diagnose(
    storage: arguments.StorageHereArgument,
    name: arguments.NameArgument = None,
    form: arguments.FormatOption = Format.TABLE,
) -> None:
    """Look for rows that depend on each other more than declared, in the training rows only.

    Example:
      everhold diagnose flights.db flights

    Each line is a column that may group the rows (households, patients, days)
    or put them in order (dates), with the correlation of rows that it brings
    together, how many rows are worth one (the design effect), what the sealed
    rows would be worth, and the radius that would then hold. Columns with few
    values are attributes: they describe rows. That a column is 'clear' is no
    proof; how the rows were drawn decides.

    Exit codes:
      0  printed
      4  no such holdout
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
      9  the holdout has no training rows
    """
    from everhold.diagnosis.diagnosis import informed

    with arguments.opened_here(storage, name) as holdout:
        found = holdout.diagnose()
    rows, assumed = found.to_rows(), found.assumed_in_words()
    columns = (*_SUSPECTS, "assumed_independent") if assumed else _SUSPECTS
    show_list(rows, columns if form is Format.TABLE else _ALL_OF_SUSPECTS, form, document=found.to_dict())
    if form is Format.TABLE:
        for suspect in found.suspects:
            advice = suspect.suggestion(shell=True)
            note(f"{suspect.column}: if rows were drawn together or follow each other, declare {advice}")
        for sentence in assumed:
            note(sentence)
        if not (found.suspects or assumed):
            note("no clear column is suspect: rows that share its values are as alike as was declared")
        if found.informative:
            note(informed(found.declared, found.informative))
        for left_out in found.notes:
            note(left_out)


_FOR_EVER = (
    "unsealing releases the sealed value of every query and closes the study: no new query is answered afterwards. "
    "This cannot be undone."
)


def unseal(
    storage: arguments.StorageArgument,
    name: arguments.NameArgument = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for a confirmation.")] = False,
    form: arguments.FormatOption = Format.TABLE,
) -> None:
    """End the study: print what the sealed rows say about all queries asked.

    Example:
      everhold unseal flights.db flights

    For each query, also those asked with --silent, there are the value on the
    sealed rows and an interval that holds for the population, mostly narrower than
    the answer. All of them hold together, and cost nothing. No new query is answered
    afterwards. Repeats and the transcript carry these numbers, too.
    Holdouts that share rows with this one, or hold the next block of the same
    series without an embargo, lose their promise: it says which of this storage
    do, and asks for a confirmation. Unsealed again, a study prints the same.
    Of a competition, final submissions are compared with each other first; then
    'everhold leaderboard' is final.

    Exit codes:
      0  unsealed, now or before
      1  the answer was no; nothing was told or changed
      2  there is no terminal to confirm it, and no --yes
      4  no such holdout
      5  it rests on noise, or nothing was asked; nothing was told or changed
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    with arguments.opened(storage, name) as holdout:
        if not holdout.status()["closed"]:
            for text in (_FOR_EVER, *holdout.affected_holdouts()):
                note(f"warning: {text}")
            if not (yes or _has_terminal()):
                raise Misuse(
                    "Confirmation is needed. Run the command in a terminal, or pass --yes to close the study for ever."
                )
            if not yes:
                typer.confirm("Unseal?", abort=True, err=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EverholdWarning)  # they were said before the confirmation
            unsealed = holdout.unseal()
    rows = unsealed.to_rows()
    columns = ["sequence", "query", "asked", *UNSEALED, *(name for name in ("analyst", "about") if name in rows[0])]
    show_list(rows, columns, form, document=unsealed.to_dict())
    note(unsealed.explain())


def _has_terminal() -> bool:
    """Return whether somebody can be asked."""
    return sys.stdin.isatty()
