"""Commands about who may use the service: token create, list, revoke."""

from __future__ import annotations

import contextlib
import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from everhold.cli.arguments import FormatOption, StorageArgument, address_of, opened, place_of, storage_of
from everhold.cli.failures import CommandGroup, Misuse, arguments_checked
from everhold.cli.output import Format, note, show_list, show_record
from everhold.cli.serve import service_package

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everhold.service.people import People

__all__ = ["register"]

COLUMNS = ("id", "role", "name", "holdouts", "made", "expires", "used", "state")

group = typer.Typer(cls=CommandGroup, rich_markup_mode="rich")


class RoleOption(StrEnum):
    """What somebody may do."""

    STEWARD = "steward"
    ANALYST = "analyst"
    VIEWER = "viewer"


def register(app: typer.Typer) -> None:
    """Add the group `token`."""
    app.add_typer(group, name="token", help="Who may use the service: create, list, revoke.")


@group.command()
def create(
    storage: StorageArgument,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Who comes with it, such as reports.")] = None,
    *,
    role: Annotated[RoleOption, typer.Option(help="What it may do.")] = RoleOption.ANALYST,
    holdout: Annotated[
        list[str] | None, typer.Option(help="A holdout that it is limited to; may be repeated; all by default.")
    ] = None,
    days: Annotated[float | None, typer.Option(help="How long it lasts; for ever by default.")] = None,
    questions: Annotated[
        int | None, typer.Option(help="Allot so many new questions of each holdout that is named, too.")
    ] = None,
    charges: Annotated[
        int | None, typer.Option(help="Most that they may be charged; by default what they can cost.")
    ] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Make a token for the service; its secret is printed once and not kept.

    Examples:
      everhold token create flights.db reports --holdout flights --questions 200
      everhold token create flights.db steward --role steward --days 30

    Roles: a steward seals rows, sees everything and signs; an analyst asks, and
    spends the allotment of this name; a viewer sees what is public of a holdout.
    Give it to nobody by a channel that others read: who has it, is them.

    Exit codes:
      0  made
      2  wrong usage
      4  no such holdout or storage
      5  the name, a holdout or a limit cannot be used; no token was made
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    storage, name = place_of(storage, name)
    if questions is not None and (role is not RoleOption.ANALYST or not holdout):
        raise Misuse("an allotment needs an analyst and the holdouts; expected --role analyst and --holdout NAME")
    if charges is not None and questions is None:
        raise Misuse("a limit of charges needs one of questions; expected --questions, too")
    with _people(storage) as people:
        for each in holdout or ():
            with opened(storage, each) as found, arguments_checked():
                if questions is not None:
                    found.allot(name, questions=questions, charges=charges)
        made = people.make(service_package().Role(role), name, holdouts=holdout, days=days, by=_HERE)
        _write(people, "make a token", of=made.token.id, role=role.value)
    show_record({**_told(made.token.to_dict()), "secret": made.secret}, form)
    note("the secret is printed this once and is kept nowhere")


@group.command(name="list")
def list_tokens(
    storage: Annotated[str | None, typer.Argument(metavar="STORAGE", help="A path or URL, such as flights.db.")] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Print all tokens, newest first, without their secrets.

    Example:
      everhold token list flights.db

    Exit codes:
      0  printed
      4  no such storage
      7  the ledger was altered
    """
    with _people(storage_of(storage)) as people:
        moment, said = people.records.clock(), service_package().said_of
        rows = [{**token.to_dict(), "state": said(token, moment)} for token in people.all()]
    show_list([_told(row) for row in rows], COLUMNS, form, document=rows)


@group.command()
def revoke(
    storage: StorageArgument,
    token: Annotated[
        str | None, typer.Argument(metavar="ID", help="Its public part: see 'everhold token list'.")
    ] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Take a token back, and end its sessions, at once.

    Example:
      everhold token revoke flights.db 4f1d2c3b5a697887

    Exit codes:
      0  revoked
      2  there is no such token
      4  no such storage
      7  the ledger was altered
    """
    storage, identifier = place_of(storage, token)
    with _people(storage) as people:
        revoked = people.revoke(identifier)
        if revoked is None:
            raise Misuse(f"there is no token {identifier!r}; expected an id of 'everhold token list'")
        _write(people, "revoke a token", of=identifier)
    show_record(_told(revoked.to_dict()), form)


_HERE = "command line"


@contextlib.contextmanager
def _people(storage: str) -> Iterator[People]:
    """The tokens of a storage that is there."""
    service = service_package()
    people = service.people_of(address_of(storage), create=False)
    try:
        yield people
    finally:
        people.records.database.close()


def _told(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "holdouts": "all" if row["holdouts"] is None else ", ".join(row["holdouts"])}


def _write(people: People, act: str, **facts: str) -> None:
    """Into the log of acts, as the service does it."""
    row = {
        "at": service_package().stamp(people.records.clock()), "request": "", "name": _HERE, "token": "", "act": act,
        "holdout": None, "outcome": "done", "facts": json.dumps(facts, sort_keys=True),
    }  # fmt: skip
    service_package().AuditLog(people.records).insert([row])
