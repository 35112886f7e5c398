"""Registers the teams of a competition: an operation that makes a token for each of them."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from everhold.errors import QueryRejected
from everhold.operations.operation import HoldoutOperation, Param
from everhold_server.audit import AuditLog
from everhold_server.principals import Principal, Role
from everhold_server.tables import Records
from everhold_server.token_store import TokenStore

if TYPE_CHECKING:
    from everhold.asking.session import HoldoutSession

HERE = Principal(Role.STEWARD, "command line")
"""Who acts on the machine of the storage, and needs no token."""


@dataclass(frozen=True, kw_only=True)
class RegisterTeams(
    HoldoutOperation[list[dict[str, Any]]], verb="register_teams", role=Role.STEWARD, act="register teams",
    route="POST /teams", topic="competitions", status=201, part="teams", agents=True,
):  # fmt: skip
    """Make a token for each team of a competition. The result has their secrets, which are not stored.

    A team submits under its name with its token. If one token cannot be made, none is.
    """

    teams: Annotated[Sequence[str], Param("Names of teams that have no token yet.", longest=1_000, example=["owls"])]
    days: Annotated[float | None, Param("How long the tokens last (for ever by default).")] = None
    by: Annotated[str, Param("Who makes them.", travels=False)] = HERE.name
    account: Annotated[str | None, Param("The token whose limits theirs share.", travels=False)] = None

    def sent_by(self, principal: Principal) -> Self:
        """Return the same registration with its sender, whose limits the tokens share if there are some."""
        account = None if principal.holdouts is None else principal.limited_as
        return replace(self, by=principal.name, account=account)

    def perform(self, session: HoldoutSession) -> list[dict[str, Any]]:
        """Make all tokens in one transaction."""
        competition: Any = session.accessor("competition")
        most, name = competition.terms.teams, session.executor.record.name
        if competition.is_ended:
            raise QueryRejected("The competition is over. No team can submit any more.")
        there = [row["team"] for row in competition.teams().to_rows()]
        records = Records(session.executor.store.database)
        made = TokenStore(records).register(
            self.teams, name, there=there, most=most, days=self.days, by=self.by, account=self.account
        )  # fmt: skip
        told = [{"team": each.token.name, "id": each.token.id, "token": each.secret} for each in made]
        if self.by == HERE.name:
            AuditLog(records).insert_act(self.act, "", HERE, holdout=name, **self.facts(told))
        return told

    def facts(self, result: list[dict[str, Any]]) -> Mapping[str, Any]:
        """Number of teams, and the public parts of their tokens."""
        return {"teams": len(result), "of": [each["id"] for each in result]}


def names_in(path: Path) -> list[str]:
    """Return the first column of a CSV file below its first row, which has the titles.

    Raises:
        QueryRejected: If the file is not CSV in UTF-8.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
        separator = max(",;\t", key=text.partition("\n")[0].count)
        rows = [row for row in csv.reader(StringIO(text, newline=""), delimiter=separator) if "".join(row).strip()]
    except (csv.Error, UnicodeDecodeError):
        raise QueryRejected(
            "The file of names cannot be read. Choose a CSV file in UTF-8 with one name in each row."
        ) from None
    return list(filter(None, (row[0].strip() for row in rows[1:])))
