"""Webhooks and answers kept for an Idempotency-Key are gone; their tables, with the secrets in them, are dropped."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TABLES = ("webhook_deliveries", "webhook_cursors", "webhooks", "idempotency")


def upgrade() -> None:
    """Drop the tables."""
    for table in TABLES:
        op.drop_table(table)


def downgrade() -> None:
    """Refused: the ledger beside them has no way back."""
    raise NotImplementedError("the ledger cannot be downgraded; restore a backup instead")
