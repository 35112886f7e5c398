"""Browser sessions by a secret cookie, which pages of other sites cannot use.

The cookie holds 32 random bytes, of which the database keeps the SHA-256. It is HttpOnly and SameSite=Strict, so that
no other site has a request sent with it, not even by a link; over TLS it has the prefix ``__Host-``, so that no other
host and no page without TLS can set it. A new one is made at every login. A session ends after two hours without a
request, after twelve in any case, at logout, and with its token.

The token against forged requests (CSRF) is a keyed hash with the cookie's secret as key. It need not be stored, and
somebody who reads a page cannot compute the cookie from it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import sqlalchemy as sa

from everhold.ledger.schema import sessions
from everhold_server.tables import stamp
from everhold_server.token_store import hashed

if TYPE_CHECKING:
    from starlette.responses import Response

    from everhold_server.settings import Settings
    from everhold_server.token_store import Token, TokenStore

IDLE = timedelta(hours=2)
LASTS = timedelta(hours=12)
_SEEN_EVERY = timedelta(minutes=1)
_LENGTH = 43  # characters of 32 bytes
_CSRF = b"everhold csrf"


@dataclass(frozen=True, slots=True)
class Session:
    """An open session of a token.

    Attributes:
        id: Hash of the session's cookie. It is not shown to anybody, but can be read in the database.
        token: Public part of the token with which the session was opened.
    """

    id: str
    token: Token


class Sessions:
    """Sessions of a storage's browsers. Thread-safe."""

    def __init__(self, token_store: TokenStore) -> None:
        self.token_store, self.records = token_store, token_store.records

    def open(self, token: Token) -> str:
        """Open a session for a token, delete expired sessions, and return the secret for the cookie."""
        moment, secret = self.records.clock(), secrets.token_urlsafe(32)
        row = {
            "secret_hash": hashed(secret), "token": token.id, "expires": stamp(moment + LASTS), "seen": stamp(moment),
        }  # fmt: skip
        over = sa.or_(sessions.c.expires <= stamp(moment), sessions.c.seen <= stamp(moment - IDLE))
        with self.records.writing() as connection:
            connection.execute(sa.delete(sessions).where(over))
            connection.execute(sa.insert(sessions), row)
        return secret

    def find(self, secret: str) -> Session | None:
        """Return the session of a cookie's secret, or None if the session or its token has ended."""
        if len(secret) != _LENGTH:
            return None
        moment, mine = self.records.clock(), sessions.c.secret_hash == hashed(secret)
        with self.records.reading() as connection:
            row = connection.execute(sa.select(sessions).where(mine)).first()
        if row is None or row.expires <= stamp(moment) or row.seen <= stamp(moment - IDLE):
            return None
        token = self.token_store.find(row.token)
        if token is None or token.ended(moment):
            return None
        if row.seen <= stamp(moment - _SEEN_EVERY):
            with self.records.writing() as connection:
                connection.execute(sa.update(sessions).where(mine).values(seen=stamp(moment)))
        return Session(row.secret_hash, token)

    def close(self, secret: str) -> None:
        """Delete the session of a cookie's secret, if it exists."""
        with self.records.writing() as connection:
            connection.execute(sa.delete(sessions).where(sessions.c.secret_hash == hashed(secret)))


def csrf_of(secret: str) -> str:
    """Return the CSRF token that every unsafe request of a session has to carry."""
    return hmac.new(secret.encode(), _CSRF, hashlib.sha256).hexdigest()


def cookie_name(settings: Settings) -> str:
    """Return the name of the session cookie. Under TLS, its prefix ``__Host-`` binds it to this host."""
    return "__Host-everhold" if settings.secure else "everhold"


def give_cookie(response: Response, secret: str, settings: Settings) -> None:
    """Set a session's cookie in a response."""
    response.set_cookie(
        cookie_name(settings), secret, max_age=int(LASTS.total_seconds()), path="/", secure=settings.secure,
        httponly=True, samesite="strict",
    )  # fmt: skip


def take_cookie(response: Response, settings: Settings) -> None:
    """Delete the session's cookie in a response."""
    response.delete_cookie(cookie_name(settings), path="/", secure=settings.secure, httponly=True, samesite="strict")
