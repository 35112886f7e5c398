"""Webhooks of the service: where events are sent, how far the ledgers were read, and what is on its way."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "webhooks",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("events", sa.Text, nullable=False),
        sa.Column("holdout", sa.Text),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("created", sa.Text, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "webhook_cursors",
        sa.Column("webhook", sa.Text, sa.ForeignKey("webhooks.id"), primary_key=True),
        sa.Column("holdout", sa.Text, primary_key=True),
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("told", sa.Text, nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("webhook", sa.Text, sa.ForeignKey("webhooks.id"), nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("created", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("due", sa.Text, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("outcome", sa.Text),
        sqlite_strict=True,
    )
    op.create_index("webhook_deliveries_due", "webhook_deliveries", ["state", "due"])
    op.create_index("webhook_deliveries_of", "webhook_deliveries", ["webhook", "created"])


def downgrade() -> None:
    """Refused: the ledger beside them has no way back."""
    raise NotImplementedError("the ledger cannot be downgraded; restore a backup instead")
