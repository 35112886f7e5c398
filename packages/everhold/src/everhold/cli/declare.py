"""Commands about families of queries: declare, and protocol check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from everhold.cli.arguments import FormatOption, NameArgument, StorageArgument, opened
from everhold.cli.failures import CommandGroup, Misuse, arguments_checked
from everhold.cli.output import Format, note, show_list

_COLUMNS = ["name", "holds", "declared", "bits", "within"]

group = typer.Typer(cls=CommandGroup, rich_markup_mode="rich")

_ProtocolOption = Annotated[
    Path | None, typer.Option(help="A TOML or YAML file; without it, those that are declared are printed.")
]


def register(app: typer.Typer) -> None:
    """Add the command and the group `protocol`."""
    app.command()(declare)
    app.add_typer(group, name="protocol", help="A study's protocol beside its certificate: check.")


def declare(
    storage: StorageArgument, name: NameArgument = None, *, protocol: _ProtocolOption = None,
    form: FormatOption = Format.TABLE,
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
    with opened(storage, name) as holdout, arguments_checked():
        if protocol is not None:
            from everhold.families.protocol import protocol as read

            holdout.declare_all(read(protocol).families)
        found = holdout.declared.families()
    show_list(found.to_rows(), _COLUMNS, form, document=found.to_dict())
    if form is Format.TABLE and not found.rows:
        note("no family is declared")


@group.command()
def check(
    protocol: Annotated[Path, typer.Argument(metavar="FILE", help="The protocol, as TOML or YAML.")],
    certificate: Annotated[Path, typer.Argument(metavar="CERTIFICATE", help="A certificate, as JSON or HTML.")],
    public_key: Annotated[
        str | None, typer.Option(metavar="HEX", help="The steward's public key, from a source that you trust.")
    ] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Compare a protocol with what a certificate says was declared; offline.

    Example:
      everhold protocol check trial.yaml trial.certificate.json

    Each end point has to be declared with the holdout, in the words of the
    protocol, and nothing else. Share, confidence, groups and the rule for missing
    values are compared where the protocol says them. The certificate is verified
    as by 'everhold certificate verify'.

    Exit codes:
      0  the certificate says what the protocol says
      1  something differs; each difference is printed
      2  there is no such file
      5  the protocol cannot be read
      7  the certificate was altered, or the key is another one
    """
    if not certificate.is_file():
        raise Misuse(f"there is no file {str(certificate)!r}; expected a certificate; check the path")
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
