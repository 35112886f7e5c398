"""Commands about the certificate: show, save, verify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from everhold.cli.arguments import FormatOption, NameArgument, StorageArgument, opened
from everhold.cli.failures import CommandGroup, Misuse, arguments_checked
from everhold.cli.output import Format, note, show_list, show_record

__all__ = ["register"]

_INTEGRITY, _UNCHECKED = 7, 10
_ROWS = ("section", "item", "value")
_SUFFIXES = (".json", ".html")

group = typer.Typer(cls=CommandGroup, rich_markup_mode="rich")


def register(app: typer.Typer) -> None:
    """Add the group `certificate`."""
    app.add_typer(group, name="certificate", help="The promise as a signed document: show, save, verify.")


@group.command()
def show(
    storage: StorageArgument,
    name: NameArgument = None,
    *,
    output: Annotated[
        Path | None, typer.Option(help="Also write it to this file; the ending, .json or .html, decides the form.")
    ] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Print what is promised, for which rows, by which theorem.

    Example:
      everhold certificate show flights.db flights --output flights.html

    Exit codes:
      0  printed
      1  the file cannot be written
      2  wrong usage
      4  no such holdout
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    _check_ending(output)
    with opened(storage, name) as holdout:
        certificate = holdout.certificate()
    if output is not None:
        certificate.save(output)
        note(f"saved {output}")
    show_list(certificate.to_rows(), _ROWS, form, document=certificate.to_dict())


@group.command()
def save(
    storage: StorageArgument,
    name: NameArgument = None,
    *,
    output: Annotated[Path, typer.Option(help="The file; its ending, .json or .html, decides the form.")],
    form: FormatOption = Format.TABLE,
) -> None:
    """Write the signed certificate to a file, JSON or HTML.

    Example:
      everhold certificate save flights.db flights --output flights.certificate.json

    Exit codes:
      0  saved
      1  the file cannot be written
      2  wrong usage
      4  no such holdout
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    _check_ending(output)
    with opened(storage, name) as holdout:
        holdout.certificate().save(output)
    show_record({"saved": str(output)}, form)


@group.command()
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A certificate, as JSON or HTML.")],
    public_key: Annotated[
        str | None,
        typer.Option(metavar="HEX", help="The steward's public key, from a source that you trust."),
    ] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Check a certificate, offline.

    Example:
      everhold certificate verify flights.certificate.json

    The signature shows that nothing was altered since; only --public-key shows
    who signed.

    Exit codes:
      0  all is well
      2  there is no such file, or --public-key is not a key
      7  something was altered or is false, or the key is another one
     10  no fault was found, but not everything could be checked: its words are
         another version's
    """
    if not file.is_file():
        raise Misuse(f"there is no file {str(file)!r}; expected a certificate; check the path")
    from everhold.certificate import verify_certificate

    with arguments_checked():
        report = verify_certificate(file, public_key=public_key)
    show_record({"file": str(file), **report.to_dict()}, form)
    if not report.ok:
        raise typer.Exit(_INTEGRITY if report.findings else _UNCHECKED)


def _check_ending(output: Path | None) -> None:
    if output is not None and output.suffix.lower() not in _SUFFIXES:
        raise Misuse(f"{output.name!r} ends in {output.suffix!r}; expected a file that ends in .json or .html")
