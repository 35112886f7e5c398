"""Commands about the certificate: show, save, verify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from everhold.cli.arguments import FormatOption, HoldoutPlace
from everhold.cli.failures import CommandGroup, Misuse, arguments_checked
from everhold.cli.option_groups import with_option_groups
from everhold.cli.output import Format, note, show_list, show_record

_INTEGRITY, _UNCHECKED = 7, 10
_ROWS = ("section", "item", "value")
_SUFFIXES = (".json", ".html")
_SHORTEST_HASH = 8

_AnswerOption = Annotated[
    list[str] | None,
    typer.Option(
        "--answer",
        metavar="ID=NAME",
        help="Show this answer on the first page: 'sequence' or 'query' of the transcript, and a name for it. May "
        "be given several times.",
    ),
]
_QueriesOption = Annotated[
    bool, typer.Option("--queries/--without-queries", help="Whether to list all queries with their answers.")
]
_TimestampOption = Annotated[
    str | None,
    typer.Option(metavar="URL", help="A time-stamping authority (RFC 3161) that states when it was signed."),
]

group = typer.Typer(cls=CommandGroup, rich_markup_mode="rich")


def register(app: typer.Typer) -> None:
    """Add the group `certificate`."""
    app.add_typer(group, name="certificate", help="The promise as a signed document: show, save, verify.")


@group.command()
@with_option_groups
def show(
    *,
    place: HoldoutPlace,
    output: Annotated[
        Path | None, typer.Option(help="Also write it to this file; the ending, .json or .html, decides the form.")
    ] = None,
    answers: _AnswerOption = None,
    queries: _QueriesOption = True,
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
      5  an answer is not in the ledger, or has no numeric answer
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    _check_ending(output)
    chosen = _chosen(answers)
    with place.opened() as holdout, arguments_checked():
        certificate = holdout.certificate(chosen, queries=queries)
    if output is not None:
        certificate.save(output)
        note(f"saved {output}")
    show_list(certificate.to_rows(), _ROWS, form, document=certificate.to_dict())


@group.command()
@with_option_groups
def save(
    *,
    place: HoldoutPlace,
    output: Annotated[Path, typer.Option(help="The file; its ending, .json or .html, decides the form.")],
    answers: _AnswerOption = None,
    queries: _QueriesOption = True,
    timestamp: _TimestampOption = None,
    form: FormatOption = Format.TABLE,
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
    chosen = _chosen(answers)
    with place.opened() as holdout, arguments_checked():
        certificate = holdout.certificate(chosen, queries=queries, timestamp=timestamp)
    certificate.save(output)
    stated = {} if timestamp is None else {"trusted_time": certificate.claimed_time}
    show_record({"saved": str(output), **stated}, form)


@group.command()
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
            help="Root certificates of time-stamping authorities that you trust, as PEM; then there has to be a "
            "trusted time.",
        ),
    ] = None,
    form: FormatOption = Format.TABLE,
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
     10  no fault was found, but not everything could be checked: its words are
         another version's
    """
    if not file.is_file():
        raise Misuse(f"there is no file {str(file)!r}; expected a certificate; check the path")
    if timestamp_roots is not None and not timestamp_roots.is_file():
        raise Misuse(f"there is no file {str(timestamp_roots)!r}; expected root certificates, as PEM; check the path")
    from everhold.certificate import verify_certificate

    roots = None if timestamp_roots is None else timestamp_roots.read_bytes()
    with arguments_checked():
        report = verify_certificate(file, public_key=public_key, timestamp_roots=roots)
    show_record({"file": str(file), **report.to_dict()}, form)
    if not report.ok:
        raise typer.Exit(_INTEGRITY if report.findings else _UNCHECKED)


def _chosen(answers: list[str] | None) -> dict[str, str | int] | None:
    """The answers of the first page by name, as they are given; None for the usual ones."""
    if not answers:
        return None
    chosen: dict[str, str | int] = {}
    for given in answers:
        choice, sign, name = given.partition("=")
        if not (choice and sign and name) or name in chosen:
            raise Misuse(
                f"--answer {given!r} cannot be used; expected ID=NAME with a name of its own, such as "
                "--answer 12=\"model B\", where 12 is the 'sequence' of 'everhold transcript', or its 'query'"
            )
        chosen[name] = int(choice) if choice.isdecimal() and len(choice) < _SHORTEST_HASH else choice
    return chosen


def _check_ending(output: Path | None) -> None:
    if output is not None and output.suffix.lower() not in _SUFFIXES:
        raise Misuse(f"{output.name!r} ends in {output.suffix!r}; expected a file that ends in .json or .html")
