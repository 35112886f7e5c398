"""Commands about who may use the service: token create, register, list, revoke."""

from __future__ import annotations

import contextlib
import csv
import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO
from urllib.parse import quote

import typer

from everhold.cli.arguments import (
    FormatOption,
    StorageArgument,
    address_of,
    opened,
    place_of,
    storage_of,
    with_option_groups,
)
from everhold.cli.failures import CommandGroup, Misuse, arguments_checked
from everhold.cli.output import Format, note, show_list, show_record
from everhold.private_files import create_private
from everhold.remote import is_address
from everhold_server.commands.serve import service_package

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everhold_server.token_store import TokenStore
    from everhold_server.wire.connection import Connection

COLUMNS = ("id", "role", "name", "holdouts", "made", "expires", "used", "state")

group = typer.Typer(cls=CommandGroup, rich_markup_mode="rich")


class RoleOption(StrEnum):
    """Roles of a token."""

    STEWARD = "steward"
    ANALYST = "analyst"
    VIEWER = "viewer"


def register(app: typer.Typer) -> None:
    """Add the group `token`."""
    app.add_typer(group, name="token", help="Who may use the service: create, register, list, revoke.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RightOptions:
    """Options for the role, holdouts and lifetime of the token."""

    role: Annotated[RoleOption, "What it may do."] = RoleOption.ANALYST
    holdout: Annotated[list[str] | None, "A holdout that it is limited to. May be repeated. All by default."] = None
    days: Annotated[float | None, "How long it lasts (for ever by default)."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllotmentOptions:
    """Allotment of the token's analyst in each named holdout."""

    queries: Annotated[int | None, "Allot so many new queries of each holdout that is named, too."] = None
    charges: Annotated[int | None, "Most that they may be charged (by default what they can cost)."] = None

    def part(self) -> dict[str, Any] | None:
        """Return the allotment as plain data, or None if no option names one.

        Raises:
            Misuse: If there are charges without queries.
        """
        if self.charges is not None and self.queries is None:
            raise Misuse("--charges is given without --queries. Pass both.")
        return None if self.queries is None else {"queries": self.queries, "charges": self.charges}


@group.command()
@with_option_groups
def create(
    storage: StorageArgument,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Who comes with it, such as reports.")] = None,
    *,
    rights: RightOptions,
    allotment: AllotmentOptions,
    form: FormatOption = Format.TABLE,
) -> None:
    """Make a token for the service; its secret is printed once and not kept.

    Examples:
      everhold token create flights.db reports --holdout flights --queries 200
      everhold token create flights.db steward --role steward --days 30
      everhold token create https://holdout.example owls --holdout contest

    Roles: a steward seals rows, sees everything and signs; an analyst asks, and
    spends the allotment of this name; a viewer sees what is public of a holdout.
    Send it by a private channel: its holder acts under that name.

    Exit codes:
      0  made
      2  wrong usage
      4  no such holdout or storage
      5  the name, a holdout or a limit cannot be used; no token was made
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    storage, name = place_of(storage, name)
    part = allotment.part()
    if part is not None and (rights.role is not RoleOption.ANALYST or not rights.holdout):
        raise Misuse(
            "--queries sets an allotment, which is for an analyst and a holdout. Pass --role analyst and --holdout "
            "with it."
        )
    with _tokens(storage) as tokens:
        made = tokens.make(name, role=rights.role.value, holdouts=rights.holdout, days=rights.days, part=part)
    show_record(_described(made), form)
    note("the secret is printed this once and is kept nowhere")


@group.command(name="register")
@with_option_groups
def register_teams(
    storage: StorageArgument,
    names: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV whose first column has one name in each row, below its title.")
    ],
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="New CSV for the names and their secrets.")],
    *,
    holdout: Annotated[str, "The competition."],
    days: Annotated[float | None, "How long the tokens last (for ever by default)."] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Make a token for each team of a competition, all of them or none.

    Example:
      everhold token register birds.db teams.csv tokens.csv --holdout birds

    The secrets are written to OUTPUT, for your eyes alone, and kept nowhere else.

    Exit codes:
      0  made
      1  a file cannot be read or written
      2  wrong usage, or OUTPUT is there already
      4  no such holdout or storage
      5  a name cannot be used, is there twice, has a token already or is one too
         many, or the holdout is no competition; no token was made
    """
    from everhold_server.registration import RegisterTeams, names_in

    listed = names_in(names)
    with output_file(output) as file, opened(storage, holdout) as competition, arguments_checked():
        made = competition.perform(RegisterTeams(teams=listed, days=days))
        written = csv.writer(file)
        written.writerows([("team", "token"), *((each["team"], each["token"]) for each in made)])
    show_record({"tokens": len(made), "file": str(output)}, form)


@contextlib.contextmanager
def output_file(output: Path) -> Iterator[TextIO]:
    """Return a context with a new file that only its owner can read. The file is removed after an error.

    Raises:
        Misuse: If the file is there already.
    """
    if output.exists():
        raise Misuse(f"{output} is there already. Name a new file. No token was made.")
    try:
        with os.fdopen(create_private(output), "w", newline="", encoding="utf-8") as file:
            yield file
    except BaseException:
        output.unlink()
        raise


@group.command(name="list")
def list_tokens(
    storage: Annotated[
        str | None,
        typer.Argument(metavar="STORAGE", help="A path or URL, such as flights.db, or https://HOST of a service."),
    ] = None,
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
    with _tokens(storage_of(storage)) as tokens:
        rows = tokens.all()
    show_list([_described(row) for row in rows], COLUMNS, form, document=rows)


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
      2  there is no such token in the storage
      4  no such storage, or no such token of the service
      7  the ledger was altered
    """
    storage, identifier = place_of(storage, token)
    with _tokens(storage) as tokens:
        revoked = tokens.revoke(identifier)
    show_record(_described(revoked), form)


@contextlib.contextmanager
def _tokens(storage: str) -> Iterator[_Here | _There]:
    """Open the tokens of a local storage or of a service."""
    if is_address(storage):
        from everhold_server.wire.connection import Connection

        with arguments_checked(), Connection(storage) as connection:
            yield _There(connection)
        return
    token_store = service_package().token_store_of(address_of(storage), create=False)
    try:
        yield _Here(storage, token_store)
    finally:
        token_store.records.database.close()


class _Here:
    """Tokens of a storage on this machine, for which no token is needed."""

    def __init__(self, storage: str, token_store: TokenStore) -> None:
        self._storage, self._token_store = storage, token_store

    def all(self) -> list[dict[str, Any]]:
        """Return all tokens, newest first."""
        moment, said = self._token_store.records.clock(), service_package().said_of
        return [{**token.to_dict(), "state": said(token, moment)} for token in self._token_store.all()]

    def make(
        self, name: str, *, role: str, holdouts: list[str] | None, days: float | None, part: dict[str, Any] | None
    ) -> dict[str, Any]:  # fmt: skip
        """Make a token, and return it with its secret. Allotments in the holdouts are made first."""
        for each in holdouts or ():
            with opened(self._storage, each) as found, arguments_checked():
                if part is not None:
                    found.allot(name, **part)
        service = service_package()
        made = self._token_store.make(service.Role(role), name, holdouts=holdouts, days=days, by=service.HERE.name)
        self._note("make a token", of=made.token.id, role=role)
        return {**made.token.to_dict(), "secret": made.secret}

    def revoke(self, identifier: str) -> dict[str, Any]:
        """Revoke a token, and return its new state."""
        revoked = self._token_store.revoke(identifier)
        if revoked is None:
            raise Misuse(f"There is no token {identifier!r}. Pass an id from 'everhold token list'.")
        self._note("revoke a token", of=identifier)
        return revoked.to_dict()

    def _note(self, act: str, **facts: str) -> None:
        service = service_package()
        service.AuditLog(self._token_store.records).insert_act(act, "", service.HERE, **facts)


class _There:
    """Tokens of a service, managed with a steward's token."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def all(self) -> list[dict[str, Any]]:
        """Return all tokens, newest first."""
        found: list[dict[str, Any]] = self._connection.get("/tokens")["tokens"]
        return found

    def make(
        self, name: str, *, role: str, holdouts: list[str] | None, days: float | None, part: dict[str, Any] | None
    ) -> dict[str, Any]:  # fmt: skip
        """Make a token with an allotment in each holdout at a service, and return it with its secret."""
        allotments = {} if part is None else dict.fromkeys(holdouts or (), part)
        request = {"name": name, "role": role, "holdouts": holdouts, "days": days, "allotments": allotments}
        return self._connection.send("POST", "/tokens", request, repeatable=False)

    def revoke(self, identifier: str) -> dict[str, Any]:
        """Revoke a token, and return its new state."""
        return self._connection.send("DELETE", f"/tokens/{quote(identifier, safe='')}", {})


def _described(row: dict[str, Any]) -> dict[str, Any]:
    shown = {name: value for name, value in row.items() if name != "note"}
    return {**shown, "holdouts": "all" if row["holdouts"] is None else ", ".join(row["holdouts"])}
