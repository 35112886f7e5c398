"""Requests that may be sent twice: with the header ``Idempotency-Key`` the second one is told what the first one was.

Whoever did not hear an answer sends the same again. Asking is safe without it, as the ledger knows every question; this
is for acts that are not, and for clients that treat all alike. A key belongs to a token and is kept for 24 hours, with
a digest of the request: method, path, query and body, of which the boundary between parts is left out, because clients
draw it anew.

What is kept is the response, which may hold an answer; so does the ledger, in the same database. A response that tells
a secret sets ``request.state.kept`` to what is kept in its place. Faults (500 and above) and refusals for a while (408,
429) are not kept, nor are responses of more than 4 MiB: the next one with the key is a new request. While one is in
progress others with the key are told to come later (409). A process that dies leaves a lease, which ends by itself
after five minutes.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import anyio
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError as AlreadyThere
from starlette.datastructures import Headers
from starlette.responses import Response

from everhold.service.audit import NOT_ACTS
from everhold.service.people import hashed
from everhold.service.problems import problem
from everhold.service.recognition import SAFE
from everhold.service.tables import idempotency, stamp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from everhold.service.tables import Records

__all__ = ["KEPT", "LEASE", "Idempotency", "Kept", "Keys"]

KEPT = timedelta(hours=24)
LEASE = timedelta(minutes=5)

_API = "/api/"
_KEY = re.compile(r"[!-~]{1,200}")
_MOST_KEPT = 2**22
_MOST_DRAINED = 2**16
_RETRY = 2  # seconds
_TOLD = ("content-type", "location")
_FOR_A_WHILE = frozenset({408, 429})
_FREE = "nothing was changed or charged"


@dataclass(frozen=True, slots=True)
class Kept:
    """A response that was given before.

    Attributes:
        digest: Of its request.
        status: Of the response.
        headers: Those that are told again.
        body: Of the response.
    """

    digest: str
    status: int
    headers: Mapping[str, str]
    body: bytes


class Keys:
    """All keys of a storage; safe to share between threads and processes.

    Args:
        records: The database.
    """

    def __init__(self, records: Records) -> None:
        self.records = records

    def claim(self, token: str, key: str) -> str | Kept | None:
        """Begin a request: a lease, or what was kept; None while another one is in progress."""
        moment, lease = self.records.clock(), secrets.token_hex(16)
        until = stamp(moment + LEASE)
        fresh = {"token": token, "key_hash": hashed(key), "lease": lease, "until": until}
        mine = _place(token, key)
        try:
            with self.records.writing() as connection:
                over = sa.delete(idempotency).where(idempotency.c.until <= stamp(moment))
                connection.execute(over)
                row = connection.execute(sa.select(idempotency).where(mine)).first()
                if row is None:
                    _insert(connection, fresh)
                    return lease
        except _Taken:  # by another process, since it was looked for
            return None
        return None if row.digest is None else Kept(row.digest, row.status, json.loads(row.headers), row.body)

    def end(self, token: str, key: str, lease: str, kept: Kept | None) -> None:
        """Keep a response, or forget a request that gave nothing to keep, if the lease is still this one's."""
        change: sa.Update | sa.Delete = sa.delete(idempotency)
        if kept is not None:
            change = sa.update(idempotency).values(
                digest=kept.digest, status=kept.status, headers=json.dumps(dict(kept.headers)), body=kept.body,
                until=stamp(self.records.clock() + KEPT),
            )  # fmt: skip
        with self.records.writing() as connection:
            connection.execute(change.where(_place(token, key), idempotency.c.lease == lease))


class _Taken(Exception):
    """The key was claimed in between."""


def _insert(connection: sa.Connection, row: dict[str, Any]) -> None:
    try:
        connection.execute(sa.insert(idempotency), row)
    except AlreadyThere:
        raise _Taken from None


def _place(token: str, key: str) -> sa.ColumnElement[bool]:
    return sa.and_(idempotency.c.token == token, idempotency.c.key_hash == hashed(key))


def _changes_something(scope: Scope) -> bool:
    """Whether the request is one of the API that may change something: of others nothing has to be kept."""
    path = scope["path"]
    return scope["method"] not in SAFE and path.startswith(_API) and path.rpartition("/")[2] not in NOT_ACTS


class Idempotency:
    """Lets unsafe requests of the API with a key happen once.

    Args:
        app: What comes after it.
        keys: Where they are kept.
    """

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self.app, self.keys = app, keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one request."""
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        visitor = scope.get("state", {}).get("visitor")
        given = headers.getlist("idempotency-key")
        if not given or visitor is None or not _changes_something(scope):
            await self.app(scope, receive, send)
            return
        key = given[0]
        if len(given) != 1 or not _KEY.fullmatch(key):
            detail = f"the header Idempotency-Key is no key; expected one of 1 to 200 visible characters; {_FREE}"
            await problem(400, "MalformedKey", detail)(scope, receive, send)
            return
        claimed = await anyio.to_thread.run_sync(self.keys.claim, visitor.token, key)
        body = _Digested(scope, headers, receive)
        if claimed is None:
            await _in_progress()(scope, receive, send)
        elif isinstance(claimed, Kept):
            await (await _told_again(claimed, body))(scope, receive, send)
        else:
            await self._first(scope, body, send, visitor.token, key, claimed)

    async def _first(self, scope: Scope, body: _Digested, send: Send, token: str, key: str, lease: str) -> None:
        """Let it happen, and keep the response before it leaves."""
        messages: list[Message] = []

        async def holding(message: Message) -> None:
            messages.append(message)

        kept: Kept | None = None
        try:
            await self.app(scope, body.receive, holding)
            kept = await _worth_keeping(scope, messages, body)
        finally:
            with anyio.CancelScope(shield=True):  # the client may have left meanwhile
                await anyio.to_thread.run_sync(self.keys.end, token, key, lease, kept)
        for message in messages:
            await send(message)


async def _worth_keeping(scope: Scope, messages: list[Message], body: _Digested) -> Kept | None:
    start, told = messages[0], b"".join(message.get("body", b"") for message in messages[1:])
    told = scope["state"].get("kept", told)
    if start["status"] >= 500 or start["status"] in _FOR_A_WHILE or len(told) > _MOST_KEPT:
        return None
    digest = await body.digest(at_most=_MOST_DRAINED)
    headers = {name: value for name, value in Headers(raw=start["headers"]).items() if name in _TOLD}
    return None if digest is None else Kept(digest, start["status"], headers, told)


async def _told_again(kept: Kept, body: _Digested) -> Response:
    if await body.digest() != kept.digest:
        return problem(
            422, "KeyUsedBefore", "the Idempotency-Key was used with another request; expected the same request, or a "
            f"new key; {_FREE}",
        )  # fmt: skip
    return Response(kept.body, kept.status, {**kept.headers, "idempotency-replayed": "true"})


def _in_progress() -> Response:
    detail = f"a request with this Idempotency-Key is in progress; expected its end; send it again in {_RETRY} s"
    response = problem(409, "RequestInProgress", detail, retry_after=_RETRY)
    response.headers["retry-after"] = str(_RETRY)
    return response


class _Digested:
    """A body that is digested while it is read, without the boundary between its parts."""

    def __init__(self, scope: Scope, headers: Headers, receive: Receive) -> None:
        self._receive, self._whole = receive, False
        kind = headers.get("content-type", "")
        found = re.search(r'^multipart/.*\bboundary="?([^";,]{1,70})"?', kind, re.IGNORECASE)
        self._boundary = b"" if found is None else b"--" + found[1].encode("latin-1")
        self._hash, self._tail = hashlib.sha256(), b""
        kind = kind.partition(";")[0].strip().lower()
        for part in (scope["method"], scope["path"], scope["query_string"].decode("latin-1"), kind):
            self._hash.update(f"{len(part)}:{part};".encode("utf-8", "surrogatepass"))

    async def receive(self) -> Message:
        message = await self._receive()
        if not self._whole:
            self._whole = message["type"] == "http.request" and not message.get("more_body", False)
            self._take(message.get("body", b""))
        return message

    async def digest(self, *, at_most: float = float("inf")) -> str | None:
        """Of all of it, the rest of which is read; None if there is more than that, or the client has left."""
        rest = 0
        while not self._whole:
            message = await self.receive()
            rest += len(message.get("body", b""))
            if rest > at_most or message["type"] != "http.request":
                return None
        return self._hash.hexdigest()

    def _take(self, chunk: bytes) -> None:
        if not self._boundary:
            self._hash.update(chunk)
            return
        read = (self._tail + chunk).replace(self._boundary, b"\0boundary\0")
        kept = 0 if self._whole else len(self._boundary) - 1  # of which a boundary may have begun
        self._tail = read[len(read) - kept :]
        self._hash.update(read[: len(read) - kept])
