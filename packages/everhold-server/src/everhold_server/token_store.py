"""Tokens and login links: each says who may log in, under which name, to which holdouts, and for how long.

A token is ``eh_<id>_<secret>``. The secret has 32 random bytes and is shown once. Only its SHA-256 is stored, from
which a random secret cannot be found. A login link opens one browser session of a token, once, within 15 minutes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from everhold.arguments import brief
from everhold.asking.budget import checked_name, refuse_look_alikes
from everhold.display import Display
from everhold.errors import QueryRejected
from everhold.ledger.schema import login_links, sessions, tokens
from everhold.sealing.storage import check_name
from everhold_server.principals import Principal, Role
from everhold_server.sign_in import SignInRefused
from everhold_server.tables import stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from everhold_server.sign_in import Person, Rule
    from everhold_server.tables import Records

LINK_LASTS = timedelta(minutes=15)
LONGEST = 3_650
"""The most days that a token may last, if it ends at all."""

SIGNED_IN_FOR = timedelta(hours=12)
"""How long a person who signed in with an account stays who they are."""

_USED_EVERY = timedelta(minutes=1)
_NO_SECRET = hashlib.sha256(b"").hexdigest()
_MOST_HOLDOUTS = 1_000
_OF_ID = sa.select(tokens).where(tokens.c.id == sa.bindparam("id"))


@dataclass(frozen=True, slots=True)
class Token(Display):
    """A token of the service without its secret.

    Attributes:
        id: Public part of the token.
        name: Name of the token's holder. An analyst asks, and spends, under this name.
        holdouts: Sorted names of the holdouts that the token is limited to. None for all holdouts.
        account: Id of the token whose rate limits it shares. It is its own id, unless a steward of some holdouts made
            the token: then it is the account of that steward's token.
        made: Time at which the token was made. All times are UTC in ISO 8601.
        expires: Time at which the token expires. None if it never expires.
        revoked: Time at which the token was revoked. None if it was not revoked.
        used: Time of the latest use, to the minute. None if it was never used.
        subject: Person for whom a sign-in with an account made the token. None for a token with a secret.
    """

    id: str
    role: Role
    name: str
    holdouts: tuple[str, ...] | None
    made: str
    made_by: str
    account: str
    expires: str | None = None
    revoked: str | None = None
    used: str | None = None
    subject: str | None = None

    def ended(self, moment: datetime) -> bool:
        """Return whether the token is expired or revoked at a time."""
        return self.revoked is not None or (self.expires is not None and self.expires <= stamp(moment))

    def principal(self, session: str | None = None) -> Principal:
        """Return the principal with the rights of the token."""
        scope = None if self.holdouts is None else frozenset(self.holdouts)
        return Principal(self.role, self.name, scope, self.id, session, self.account)

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes by name, except the account and the subject."""
        said = super(Token, self).to_dict()  # the decorator has made the class anew, for its slots
        return {name: value for name, value in said.items() if name not in ("account", "subject")}


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new token together with its secret, which is shown once.

    Attributes:
        secret: The complete token ``eh_<id>_<secret>``, which `repr` does not show.
    """

    token: Token
    secret: str

    def __repr__(self) -> str:
        return f"NewToken({self.token.id!r})"

    def row(self) -> dict[str, Any]:
        """Return the database row of the token. It has the hash of the secret and not the secret."""
        scope, secret = self.token.holdouts, self.secret.removeprefix(f"eh_{self.token.id}_")
        return {
            **self.token.to_dict(), "account": self.token.account, "secret_hash": hashed(secret),
            "holdouts": None if scope is None else json.dumps(scope),
        }  # fmt: skip


class TokenStore:
    """Tokens and login links of a storage. Thread-safe."""

    def __init__(self, records: Records) -> None:
        self.records = records

    def make(
        self, role: Role, name: str, *, holdouts: Iterable[str] | None = None, days: float | None = None, by: str,
        account: str | None = None,
    ) -> NewToken:  # fmt: skip
        """Make a token, and return it with its secret, which is not stored.

        Args:
            role: What the token allows its holder to do.
            name: Name of the person or program that uses the token.
            holdouts: Names of the holdouts that the token is limited to. They need not exist yet. The default is all
                holdouts.
            days: Number of days for which the token is valid. The default is for ever.
            by: Name of the steward who makes the token.
            account: Id of the token whose rate limits it shares. The default is its own.

        Raises:
            QueryRejected: If name, holdouts or days cannot be used; nothing was made.
        """
        made = self._new(role, name, holdouts, days, by, account)
        with self.records.writing() as connection:
            connection.execute(sa.insert(tokens), made.row())
        return made

    def register(
        self, names: Sequence[str], holdout: str, *, there: Sequence[str] = (), most: int, days: float | None = None,
        by: str, account: str | None = None,
    ) -> list[NewToken]:  # fmt: skip
        """Make a token for each team of a competition in one transaction, and return them with their secrets.

        Args:
            names: Names of the teams.
            holdout: Name of the competition's holdout, to which the tokens are limited.
            there: Teams that have already submitted. They count as teams of the competition, and may get a new token
                once their old one has ended.
            most: Number of teams that the competition was planned for.
            days: Number of days for which the tokens are valid. The default is for ever.
            by: Name of the steward who makes the tokens.
            account: Id of the token whose rate limits the new tokens share.

        Raises:
            QueryRejected: If a name cannot be used, looks like that of a team with a token or of one that submitted, or
                if there would be too many teams.
        """
        moment, analyst = self.records.clock(), Role.ANALYST
        made = [self._new(analyst, name, [holdout], days, by, account, of="team") for name in names]
        if not made:
            raise QueryRejected("The list of team names is empty. Pass at least one name.")
        with self.records.writing() as connection:
            rows = connection.execute(sa.select(tokens).where(tokens.c.role == analyst.value))
            known = [
                token.name for token in map(_token, rows)
                if not token.ended(moment) and token.principal().may_see(holdout)
            ]  # fmt: skip
            for name in names:
                refuse_look_alikes(name, [*known, *(each for each in there if each != name)], of="team")
                known.append(name)
            if (count := len({*known, *there})) > most:
                raise QueryRejected(
                    f"With these, {count:,} teams would have a token or have submitted, and the competition was "
                    f"planned for {most:,}. Register fewer teams, or revoke tokens of teams that did not submit."
                )
            connection.execute(sa.insert(tokens), [each.row() for each in made])
        return made

    def _new(
        self, role: Role, name: str, holdouts: Iterable[str] | None, days: float | None, by: str, account: str | None,
        *, of: str = "analyst",
    ) -> NewToken:  # fmt: skip
        """Return a new token that is not stored yet."""
        moment, identifier = self.records.clock(), secrets.token_hex(8)
        token = Token(
            identifier, role, _checked(name, of=of), _scope(holdouts), stamp(moment), by, account or identifier,
            _end(moment, days),
        )  # fmt: skip
        return NewToken(token, f"eh_{identifier}_{secrets.token_urlsafe(32)}")

    def sign_in(self, person: Person, rule: Rule) -> Token:
        """Return the token of a person who signed in: a new one, or the existing one with the rule's rights.

        The token has no usable secret. It expires after `SIGNED_IN_FOR`, and the next sign-in prolongs it.

        Raises:
            SignInRefused: If a steward revoked the person's token, or another person or token has the name. Nothing was
                made.
        """
        moment, identifier, name = self.records.clock(), secrets.token_hex(8), _checked(person.name)
        scope = _scope(rule.holdouts)
        rights = {
            "role": rule.role.value, "holdouts": None if scope is None else json.dumps(scope),
            "expires": stamp(moment + SIGNED_IN_FOR), "used": stamp(moment),
        }  # fmt: skip
        mine = tokens.c.subject == person.subject
        alike = sa.or_(tokens.c.name == name, sa.func.lower(tokens.c.name) == name.lower())
        with self.records.writing() as connection:
            found = connection.execute(sa.select(tokens).where(mine)).first()
            if found is not None and found.revoked is not None:
                raise SignInRefused(f"A steward has withdrawn the access of {found.name}. Ask the steward for access.")
            if found is not None:
                connection.execute(sa.update(tokens).where(mine).values(rights))
            elif connection.scalar(sa.select(tokens.c.id).where(alike).limit(1)) is not None:
                raise SignInRefused(
                    f"The name {name} is used by another person or token. Ask the steward for another name."
                )
            else:
                made = {
                    **rights, "id": identifier, "secret_hash": hashed(secrets.token_urlsafe(32)), "name": name,
                    "made": stamp(moment), "made_by": "sign-in", "account": identifier, "subject": person.subject,
                }  # fmt: skip
                connection.execute(sa.insert(tokens), made)
            row = connection.execute(sa.select(tokens).where(mine)).one()
        return _token(row)

    def sign_out(self, person: Person) -> None:
        """Expire the token of a person who is not allowed to sign in any more. A later sign-in prolongs it."""
        moment = stamp(self.records.clock())
        with self.records.writing() as connection:
            mine = sa.update(tokens).where(tokens.c.subject == person.subject)
            connection.execute(mine.values(expires=moment))

    def authenticate(self, text: str) -> Token | None:
        """Return the token if its text is valid, with the time of this use, else None."""
        (token,) = self.authenticate_all([text])
        return None if token is None else self.noting_use(token)

    def authenticate_all(self, texts: Sequence[str]) -> list[Token | None]:
        """Return the token of each text that is valid, and None for any other text. All are read in one transaction.

        Nothing is written, so none of them waits for a writer. `noting_use` records that a token was used.

        Unknown, revoked, expired and wrong texts take the same steps, and secrets are compared in constant time.
        """
        moment = self.records.clock()
        found: dict[str, Token | None] = dict.fromkeys(texts)
        with self.records.reading() as connection:
            rows = {
                text: connection.execute(_OF_ID, {"id": _readable(text.partition("_")[2].partition("_")[0])}).first()
                for text in found
            }
        for text, row in rows.items():
            begins, _, rest = text.partition("_")
            secret = rest.partition("_")[2]
            expected = _NO_SECRET if row is None else row.secret_hash
            right = hmac.compare_digest(hashed(secret), expected) and begins == "eh" and bool(secret)
            token = None if row is None else _token(row)
            if right and token is not None and not token.ended(moment):
                found[text] = token
        return [found[text] for text in texts]

    def is_noted(self, token: Token) -> bool:
        """Return whether a use within the last minute is recorded, so that a use now need not be."""
        return token.used is not None and token.used > stamp(self.records.clock() - _USED_EVERY)

    def noting_use(self, token: Token) -> Token:
        """Record the time of use, at most once a minute, and return the token."""
        if self.is_noted(token):
            return token
        moment = self.records.clock()
        with self.records.writing() as connection:
            connection.execute(sa.update(tokens).where(tokens.c.id == token.id).values(used=stamp(moment)))
        return replace(token, used=stamp(moment))

    def all(self) -> list[Token]:
        """Return all tokens, newest first."""
        with self.records.reading() as connection:
            rows = connection.execute(sa.select(tokens).order_by(tokens.c.made.desc(), tokens.c.id)).all()
        return [_token(row) for row in rows]

    def find(self, identifier: str) -> Token | None:
        """Return the token with this public identifier, or None."""
        with self.records.reading() as connection:
            row = connection.execute(_OF_ID, {"id": _readable(identifier)}).first()
        return None if row is None else _token(row)

    def revoke(self, identifier: str) -> Token | None:
        """Revoke a token, and end its sessions and login links. Return the token, or None if it does not exist."""
        moment = stamp(self.records.clock())
        with self.records.writing() as connection:
            mine = tokens.c.id == _readable(identifier)
            connection.execute(sa.update(tokens).where(mine, tokens.c.revoked.is_(None)).values(revoked=moment))
            for table in (sessions, login_links):
                connection.execute(sa.delete(table).where(table.c.token == _readable(identifier)))
        return self.find(identifier)

    def link(self, identifier: str) -> str:
        """Make a login link for a token, and return its secret."""
        secret, until = secrets.token_urlsafe(32), self.records.clock() + LINK_LASTS
        with self.records.writing() as connection:
            connection.execute(
                sa.insert(login_links),
                {"secret_hash": hashed(secret), "token": identifier, "expires": stamp(until)},
            )
        return secret

    def use_link(self, secret: str) -> Token | None:
        """Use up a login link, and return its token. None if the link is not valid.

        One conditional update decides, so if two people use the link at the same moment, only one logs in.
        """
        moment = self.records.clock()
        mine = login_links.c.secret_hash == hashed(secret)
        with self.records.writing() as connection:
            open_still = (login_links.c.used.is_(None), login_links.c.expires > stamp(moment))
            used = connection.execute(sa.update(login_links).where(mine, *open_still).values(used=stamp(moment)))
            found = connection.scalar(sa.select(login_links.c.token).where(mine)) if used.rowcount == 1 else None
        token = None if found is None else self.find(found)
        return None if token is None or token.ended(moment) else self.noting_use(token)


def hashed(secret: str) -> str:
    """Return the hexadecimal SHA-256 of a secret, which the database stores instead of the secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def said_of(token: Token, moment: datetime) -> str:
    """Return the state of a token in a word: ``"valid"``, ``"expired"`` or ``"revoked"``."""
    if token.revoked is not None:
        return "revoked"
    return "expired" if token.ended(moment) else "valid"


def _token(row: sa.Row[Any]) -> Token:
    facts = {name: value for name, value in row._asdict().items() if name != "secret_hash"}
    scope = None if row.holdouts is None else tuple(json.loads(row.holdouts))
    return Token(**{**facts, "role": Role(row.role), "holdouts": scope})


def _readable(identifier: str) -> str:
    """Return an identifier of letters and digits unchanged, and an empty text for another one."""
    return identifier if identifier.isascii() and identifier.isalnum() else ""


def _checked(name: str, *, of: str = "analyst") -> str:
    try:
        return checked_name(name, of=of)
    except QueryRejected as fault:
        raise QueryRejected(f"{fault.message} No token was made.") from None


def _scope(holdouts: Iterable[str] | None) -> tuple[str, ...] | None:
    if holdouts is None:
        return None
    named = sorted(set(holdouts))
    if not 1 <= len(named) <= _MOST_HOLDOUTS:
        raise QueryRejected(
            f"The token is for {len(named)} holdouts. Name 1 to {_MOST_HOLDOUTS:,}, or none for all holdouts."
        )
    for name in named:
        check_name(name)
    return tuple(named)


def _end(moment: datetime, days: float | None) -> str | None:
    if days is None:
        return None
    if not 0 < days <= LONGEST:
        raise QueryRejected(
            f"days is {brief(days)}. Pass a number above 0 and at most {LONGEST:,}, or "
            "leave it out for a token that never ends."
        )
    return stamp((moment + timedelta(days=days)).astimezone(UTC))
