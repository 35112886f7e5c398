"""The tables of webhooks: where to send, how far the ledgers were read, and what is on its way.

They lie in the ledger's database, so that a backup holds all of it at one moment. Times are UTC, ISO 8601 with
microseconds, so that their texts sort like the times.
"""

from __future__ import annotations

import sqlalchemy as sa

from everhold.ledger.database import metadata

__all__ = ["cursors", "deliveries", "webhooks"]

webhooks = sa.Table(
    "webhooks",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("events", sa.Text, nullable=False),
    sa.Column("holdout", sa.Text),
    sa.Column("secret", sa.Text, nullable=False),
    sa.Column("created", sa.Text, nullable=False),
    sa.Column("created_by", sa.Text, nullable=False),
    sqlite_strict=True,
)

cursors = sa.Table(
    "webhook_cursors",
    metadata,
    sa.Column("webhook", sa.Text, sa.ForeignKey("webhooks.id"), primary_key=True),
    sa.Column("holdout", sa.Text, primary_key=True),
    sa.Column("sequence", sa.Integer, nullable=False),
    sa.Column("told", sa.Text, nullable=False),
    sqlite_strict=True,
)

deliveries = sa.Table(
    "webhook_deliveries",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("webhook", sa.Text, sa.ForeignKey("webhooks.id"), nullable=False),
    sa.Column("event", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("created", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("due", sa.Text, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("outcome", sa.Text),
    sa.Index("webhook_deliveries_due", "state", "due"),
    sa.Index("webhook_deliveries_of", "webhook", "created"),
    sqlite_strict=True,
)
