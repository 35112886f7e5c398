"""Checkpoints of long ledgers, and an index of the few entries that were charged."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
COUNT = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
WAS_CHARGED = sa.text("charged > 0")


def upgrade() -> None:
    """Create the table and the index."""
    op.create_table(
        "checkpoints",
        sa.Column("holdout_id", TEXT, sa.ForeignKey("holdouts.id"), primary_key=True),
        sa.Column("sequence", COUNT, nullable=False),
        sa.Column("content", TEXT, nullable=False),
        sa.Column("seal", TEXT, nullable=False),
        sqlite_strict=True,
    )
    op.create_index(
        "entries_charged", "entries", ["holdout_id", "sequence"], sqlite_where=WAS_CHARGED, postgresql_where=WAS_CHARGED
    )


def downgrade() -> None:
    """Refused: the ledger beside it has no way back."""
    raise NotImplementedError("the ledger cannot be downgraded; restore a backup instead")
