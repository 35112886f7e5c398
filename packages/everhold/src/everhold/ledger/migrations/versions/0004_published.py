"""Competitions with a public page."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "published",
        sa.Column("holdout", sa.Text, primary_key=True),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sqlite_strict=True,
    )


def downgrade() -> None:
    """Refused: the ledger beside it has no way back."""
    raise NotImplementedError("the ledger cannot be downgraded; restore a backup instead")
