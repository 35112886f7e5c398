"""Webhooks and their deliveries in the database, shared by all processes of a service.

Events are not handed over by whoever answers a question: they are read from the ledger, and how far it was read is
written in the transaction that writes the deliveries. So an answer that was committed is told of, also if the process
was killed right after it. A delivery is taken for a while; if whoever took it is killed, it is due again when that
time is over. So every event arrives at least once, and may arrive twice: its id is the same then.
"""

from __future__ import annotations

import json
import random
import secrets
from base64 import b64encode
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from everhold.errors import EverholdError
from everhold.ledger.chain import canonical
from everhold.ledger.database import head, holdouts
from everhold.service.tables import Records
from everhold.service.webhooks.addresses import WebhookRejected
from everhold.service.webhooks.happenings import TEST, Event, Kind
from everhold.service.webhooks.sending import SECRET
from everhold.service.webhooks.tables import cursors, deliveries, webhooks

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Self

    from everhold.ledger.database import Database
    from everhold.service.webhooks.sending import Sent

__all__ = ["MOST", "MOST_TRIES", "Behind", "Delivery", "Webhook", "WebhookNotFound", "WebhookStore"]

MOST = 50
"""Webhooks of one service."""

MOST_TRIES = 10
"""Attempts at a delivery, over about twenty hours."""

LEASE = timedelta(minutes=2)
"""How long a delivery is taken for; longer than an attempt."""

KEPT = timedelta(days=30)
"""How long a delivery that ended is listed."""

_FIRST_WAIT, _LONGEST_WAIT = 5.0, 6 * 3600.0
_WAITING, _DELIVERED, _FAILED = "waiting", "delivered", "failed"
_TOLD = sa.func.coalesce(cursors.c.told, "[]")
_READ = sa.func.coalesce(cursors.c.sequence, 0)
_BEHIND = (
    sa.select(webhooks.c.id, holdouts.c.name, _READ, _TOLD, webhooks.c.events)
    .select_from(webhooks)
    .join(holdouts, sa.or_(webhooks.c.holdout.is_(None), webhooks.c.holdout == holdouts.c.name))
    .join(head, head.c.holdout_id == holdouts.c.id)
    .outerjoin(cursors, sa.and_(cursors.c.webhook == webhooks.c.id, cursors.c.holdout == holdouts.c.name))
    .where(head.c.sequence > _READ)
    .order_by(holdouts.c.name, webhooks.c.id)
)
_FIRST_CURSOR = sa.text(
    "INSERT INTO webhook_cursors (webhook, holdout, sequence, told) "
    "SELECT id, :holdout, 0, '[]' FROM webhooks WHERE id = :webhook ON CONFLICT DO NOTHING"
)


class WebhookNotFound(EverholdError, LookupError):
    """There is no such webhook for this visitor."""

    exit_code = 4
    http_status = 404

    @classmethod
    def of(cls) -> Self:
        """The error, which is the same whether there is none or it is not theirs."""
        return cls("there is no such webhook for you; expected an id of the list of webhooks; nothing was changed")


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where events are sent.

    Attributes:
        id: Its identifier.
        url: The receiver's address.
        events: What it is told of.
        holdout: The holdout that it is told about; None for all.
        created: When it was made; UTC, ISO 8601.
        created_by: Who made it.
        secret: What its deliveries are signed with.
    """

    id: str
    url: str
    events: tuple[str, ...]
    holdout: str | None
    created: str
    created_by: str
    secret: str = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """All attributes by name but for the secret, which is told once, when it is made."""
        return {name: value for name, value in asdict(self).items() if name != "secret"}


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event on its way to one receiver.

    Attributes:
        id: Its identifier, the same in every attempt.
        webhook: The webhook's identifier.
        event: What it tells.
        body: What is sent, JSON.
        created: When it was written; UTC, ISO 8601.
        state: ``"waiting"``, ``"delivered"`` or ``"failed"``.
        due: When it is tried next, or was tried last.
        tries: Attempts so far.
        outcome: How the last attempt ended, in words; None before.
    """

    id: str
    webhook: str
    event: str
    body: str
    created: str
    state: str
    due: str
    tries: int
    outcome: str | None

    def to_dict(self) -> dict[str, Any]:
        """All attributes by name."""
        return {**asdict(self), "body": json.loads(self.body)}


@dataclass(frozen=True, slots=True)
class Behind:
    """A webhook that was not told of the latest entries of a holdout.

    Attributes:
        webhook: Its identifier.
        holdout: The holdout's name.
        sequence: The last entry that was read for it.
        told: Which counts were low or spent then.
        events: What it is told of.
    """

    webhook: str
    holdout: str
    sequence: int
    told: tuple[str, ...]
    events: frozenset[str]


class WebhookStore:
    """Webhooks and deliveries of a service; safe to share between threads.

    Args:
        database: The ledger's.
    """

    def __init__(self, database: Database) -> None:
        self._records = Records(database)

    def create(self, url: str, *, events: Sequence[Kind], holdout: str | None, by: str) -> Webhook:
        """Make a webhook, which is told of what happens from now on.

        Args:
            url: The receiver's address, checked.
            events: What it is told of.
            holdout: A holdout's name; None for all, also later ones.
            by: Who makes it.

        Raises:
            WebhookRejected: If there are too many.
        """
        secret = SECRET + b64encode(secrets.token_bytes(32)).decode()
        names = tuple(dict.fromkeys(map(str, events)))
        made = Webhook(f"wh_{secrets.token_hex(8)}", url, names, holdout, _text(_now()), by, secret)
        with self._records.writing() as connection:
            if len(connection.execute(sa.select(webhooks.c.id)).all()) >= MOST:
                raise WebhookRejected(
                    f"there are {MOST} webhooks already; expected fewer; delete one that is not needed; none was made"
                )
            connection.execute(sa.insert(webhooks), {**asdict(made), "events": canonical(list(names))})
            for name, sequence in connection.execute(
                sa.select(holdouts.c.name, head.c.sequence).join(head, head.c.holdout_id == holdouts.c.id)
            ).all():
                start = {"webhook": made.id, "holdout": name, "sequence": sequence, "told": "[]"}
                connection.execute(sa.insert(cursors), start)
        return made

    def every(self) -> list[Webhook]:
        """All webhooks, the oldest first."""
        with self._records.reading() as connection:
            rows = connection.execute(sa.select(webhooks).order_by(webhooks.c.created, webhooks.c.id)).mappings().all()
        return [Webhook(**{**row, "events": tuple(json.loads(row["events"]))}) for row in rows]

    def find(self, webhook: str) -> Webhook:
        """One webhook.

        Raises:
            WebhookNotFound: If there is none.
        """
        found = next((each for each in self.every() if each.id == webhook), None)
        if found is None:
            raise WebhookNotFound.of()
        return found

    def delete(self, webhook: str) -> None:
        """Delete a webhook and its deliveries, sent or not."""
        with self._records.writing() as connection:
            for table, column in (
                (deliveries, deliveries.c.webhook), (cursors, cursors.c.webhook), (webhooks, webhooks.c.id),
            ):  # fmt: skip
                connection.execute(sa.delete(table).where(column == webhook))

    def deliveries(self, webhook: str, *, limit: int = 100) -> list[Delivery]:
        """The latest deliveries of a webhook, the newest first."""
        latest = sa.select(deliveries).where(deliveries.c.webhook == webhook)
        latest = latest.order_by(deliveries.c.created.desc(), deliveries.c.id).limit(limit)
        with self._records.reading() as connection:
            return [Delivery(**row) for row in connection.execute(latest).mappings()]

    def test(self, webhook: Webhook) -> Delivery:
        """Write a delivery that tells nothing, to see whether it arrives."""
        made = _delivery(webhook.id, Event(TEST, None, {"webhook": webhook.id}))
        with self._records.writing() as connection:
            connection.execute(sa.insert(deliveries), asdict(made))
        return made

    def behind(self) -> list[Behind]:
        """Which webhooks have not been told of the latest entries of which holdouts."""
        with self._records.reading() as connection:
            rows = connection.execute(_BEHIND).all()
        return [
            Behind(webhook, name, sequence, tuple(json.loads(told)), frozenset(json.loads(events)))
            for webhook, name, sequence, told, events in rows
        ]

    def advance(self, behind: Behind, sequence: int, told: Sequence[str], events: Sequence[Event]) -> bool:
        """Write the deliveries of what happened up to an entry, unless another process did; returns whether it did.

        Args:
            behind: Where it stood.
            sequence: The last entry that was read.
            told: Which counts are low or spent now.
            events: What happened; what the webhook is not told of is left out.
        """
        key = {"webhook": behind.webhook, "holdout": behind.holdout}
        moved = (
            sa.update(cursors)
            .where(cursors.c.webhook == behind.webhook, cursors.c.holdout == behind.holdout)
            .where(cursors.c.sequence == behind.sequence)
            .values(sequence=sequence, told=canonical(list(told)))
        )
        with self._records.writing() as connection:
            if behind.sequence == 0:  # the holdout may be younger than the webhook
                connection.execute(_FIRST_CURSOR, key)
            if connection.execute(moved).rowcount != 1:
                return False
            lines = [asdict(_delivery(behind.webhook, each)) for each in events if each.kind in behind.events]
            if lines:
                connection.execute(sa.insert(deliveries), lines)
        return True

    def take(
        self, *, busy: Collection[str] = (), of: str | None = None, now: datetime | None = None
    ) -> tuple[Webhook, Delivery] | None:
        """Take a delivery that is due, for as long as the lease; None if there is none.

        Args:
            busy: Webhooks that are left alone, as a delivery to each is under way.
            of: One of this webhook alone.
            now: The time.
        """
        now = _now() if now is None else now
        oldest = (
            sa.select(deliveries)
            .where(deliveries.c.state == _WAITING, deliveries.c.due <= _text(now), deliveries.c.webhook.not_in(busy))
            .where(sa.true() if of is None else deliveries.c.webhook == of)
            .order_by(deliveries.c.due, deliveries.c.id)
            .limit(1)
        )
        with self._records.reading() as connection:  # mostly there is none, and no one waits
            row = connection.execute(oldest).mappings().first()
        if row is None:
            return None
        taken = Delivery(**{**row, "due": _text(now + LEASE), "tries": row["tries"] + 1})
        with self._records.writing() as connection:
            is_as_seen = (deliveries.c.id == taken.id, deliveries.c.due == row["due"], deliveries.c.state == _WAITING)
            change = sa.update(deliveries).where(*is_as_seen).values(due=taken.due, tries=taken.tries)
            mine = connection.execute(change).rowcount == 1
        return (self.find(taken.webhook), taken) if mine else self.take(busy=busy, of=of, now=now)

    def settle(self, taken: Delivery, sent: Sent, *, now: datetime | None = None) -> None:
        """Write down how an attempt ended, and when the next one is due."""
        now = _now() if now is None else now
        state, due = _DELIVERED, now
        if not sent.accepted:
            state = _FAILED if taken.tries >= MOST_TRIES else _WAITING
            due = now + (timedelta() if state == _FAILED else _wait(taken.tries))
        mine = (deliveries.c.id == taken.id, deliveries.c.tries == taken.tries, deliveries.c.state == _WAITING)
        change = sa.update(deliveries).where(*mine).values(state=state, due=_text(due), outcome=sent.outcome)
        with self._records.writing() as connection:
            connection.execute(change)

    def forget(self, *, now: datetime | None = None) -> None:
        """Delete deliveries that ended long ago."""
        before = _text((_now() if now is None else now) - KEPT)
        ended = sa.delete(deliveries).where(deliveries.c.state != _WAITING, deliveries.c.due < before)
        with self._records.writing() as connection:
            connection.execute(ended)


def _wait(tries: int) -> timedelta:
    """Longer after every attempt, and never the same for two that failed together."""
    seconds = min(_FIRST_WAIT * 4.0 ** (tries - 1), _LONGEST_WAIT)
    return timedelta(seconds=seconds * random.uniform(0.75, 1.25))


def _delivery(webhook: str, event: Event) -> Delivery:
    now = _text(_now())
    body = canonical({"type": event.kind, "timestamp": event.at or now, "data": event.facts})
    return Delivery(f"msg_{secrets.token_hex(12)}", webhook, event.kind, body, now, _WAITING, now, 0, None)


def _now() -> datetime:
    return datetime.now(UTC)


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds")
