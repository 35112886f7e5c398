"""The audit log: who did what with which holdout, when, and how it ended.

Every unsafe request of a principal is one act, and so is every failed login. An endpoint adds facts about its own act
by `noted`. An act is written before its response leaves. If it cannot be written, the response is an error, although
the act may have been done and recorded in the ledger. Acts that wait at the same moment are written in one transaction.

The log shows stewards what people did. It holds no query, only hashes, and no secret. It has no chain of hashes, so
anybody who can write to the database can alter it unnoticed. The ledger, which is chained, records what was asked,
answered and charged.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from everhold.errors import EverholdError
from everhold.ledger.schema import audit
from everhold_server.authentication import SAFE
from everhold_server.middleware import HttpMiddleware
from everhold_server.tables import BatchedWork, stamp

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from everhold_server.principals import Principal
    from everhold_server.tables import Records

NOT_ACTS = ("quote", "check", "plan", "verify")
"""Last parts of routes that take a POST and change nothing."""

_LONGEST = 200
TOO_MANY, FAULTS = 429, 400


def noted(request: Request, act: str | None = None, *, holdout: str | None = None, **facts: Any) -> None:
    """Add facts to the audit record of a request, or name its act or holdout.

    Args:
        request: Request that performs the act.
        act: Name of the act, such as ``"ask"``. The default is made of method and route.
        holdout: Name of the holdout, needed if the address of the route does not contain it.
        facts: Short facts such as ``outcome="holdout"`` or ``query="9f86..."``, without data and without secrets. Facts
            that are None are left out.
    """
    said = request.scope["state"].setdefault("act", {})
    said.update({name: value for name, value in (("act", act), ("holdout", holdout)) if value is not None})
    said.setdefault("facts", {}).update({name: value for name, value in facts.items() if value is not None})


class AuditLog:
    """Log of the acts of users. Acts of concurrent requests are written in one transaction."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self._turn = f"audit {secrets.token_hex(8)}"  # rows are only added: another process need not wait
        self._written = BatchedWork(self._write_all)

    async def write(self, row: dict[str, Any]) -> None:
        """Write one act to the log, and return when it is committed."""
        await self._written.of({"at": stamp(self.records.clock()), **row})

    def _write_all(self, rows: list[dict[str, Any]]) -> list[None]:
        self.insert(rows)
        return [None] * len(rows)

    def insert_act(
        self, act: str, request: str, principal: Principal, *, holdout: str | None = None, **facts: Any
    ) -> None:  # fmt: skip
        """Write an act that was done. An act without a holdout is visible only to stewards of the whole storage."""
        row = {"request": request, "name": principal.name, "token": principal.token, "act": act, "holdout": holdout}
        facts = {**({"status": 200} if request else {}), **facts}
        moment = stamp(self.records.clock())
        self.insert([{"at": moment, **row, "outcome": "done", "facts": json.dumps(facts, sort_keys=True)}])

    def insert_now(self, scope: Scope, status: int) -> None:
        """Write the act of a request before its response is sent, and mark the act as written."""
        row = _act(scope, status)
        assert row is not None
        self.insert([{"at": stamp(self.records.clock()), **row}])
        scope["state"]["act"] = {"written": True}

    def has_sealed(self, principal: Principal, holdout: str, content: str) -> bool:
        """Return whether this token sealed a holdout by a request with the same content."""
        return self.facts_of(principal, holdout, act="seal rows", content=content) is not None

    def facts_of(self, principal: Principal, holdout: str, *, act: str, content: str) -> dict[str, Any] | None:
        """Return the facts of an act that this token did by a request with the same content, or None."""
        wanted = sa.select(audit.c.facts).where(
            audit.c.act == act, audit.c.token == principal.token, audit.c.holdout == holdout
        )
        with self.records.reading() as connection:
            found: list[dict[str, Any]] = [json.loads(facts) for facts in connection.scalars(wanted)]
        return next((facts for facts in found if facts.get("content") == content), None)

    def insert(self, rows: list[dict[str, Any]]) -> None:
        """Write several acts in one transaction."""
        with self.records.writing(self._turn) as connection:
            connection.execute(sa.insert(audit), rows)

    def page(self, principal: Principal, *, before: int | None = None, limit: int = 100) -> list[dict[str, Any]]:
        """Return the newest acts that a principal may see, as dictionaries.

        Args:
            principal: Reader of the log. A reader who is limited to some holdouts sees the acts on those only.
            before: Only acts with a smaller number.
            limit: Largest number of acts to return.
        """
        wanted = sa.select(audit).order_by(audit.c.number.desc()).limit(limit)
        if before is not None:
            wanted = wanted.where(audit.c.number < before)
        if principal.holdouts is not None:
            wanted = wanted.where(audit.c.holdout.in_(sorted(principal.holdouts)))
        with self.records.reading() as connection:
            rows = [row._asdict() for row in connection.execute(wanted)]
        return [{**row, "facts": json.loads(row["facts"])} for row in rows]


class AuditMiddleware(HttpMiddleware):
    """Middleware that writes the act of every unsafe request to the audit log before its response leaves."""

    def __init__(self, app: ASGIApp, log: AuditLog) -> None:
        self.app, self.log = app, log

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI request, and write its act to the log before the response starts."""
        fault: EverholdError | None = None

        async def sending(message: Message) -> None:
            nonlocal fault
            if message["type"] == "http.response.start":
                row = _act(scope, message["status"])
                try:
                    if row is not None:
                        await self.log.write(row)
                except EverholdError as failed:
                    fault = failed  # raised below: inside the application it would count as a fault of the endpoint
            if fault is None:
                await send(message)

        await self.app(scope, receive, sending)
        if fault is not None:
            raise fault


def _act(scope: Scope, status: int) -> dict[str, Any] | None:
    """Return the audit record of a request, or None for a request that is not recorded."""
    from everhold_server.logs import route_of

    state, route = scope["state"], route_of(scope)
    principal, said = state.get("principal"), state.get("act", {})
    if "written" in said:
        return None
    is_act = scope["method"] not in SAFE and principal is not None and route.rpartition("/")[2] not in NOT_ACTS
    if not (is_act or said) or status == TOO_MANY:  # a flood of refusals must not become one of writing
        return None
    facts = {name: value for name, value in said.get("facts", {}).items() if name not in ("outcome", "name")}
    params = scope.get("path_params", {})
    holdout = said.get("holdout") or params.get("name") or params.get("holdout")
    return {
        "request": state.get("request_id", ""),
        "name": said.get("facts", {}).get("name", "") if principal is None else principal.name,
        "token": "" if principal is None else principal.token,
        "act": said.get("act") or f"{scope['method']} {route}",
        "holdout": None if holdout is None else str(holdout)[:_LONGEST],
        "outcome": str(said.get("facts", {}).get("outcome") or ("done" if status < FAULTS else "not done")),
        "facts": json.dumps({"status": status, **facts}, sort_keys=True, default=str),
    }
