"""Tables of the service: tokens, login links, sessions, the audit log, answers to repeatable requests."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("secret_hash", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("holdouts", sa.Text),
        sa.Column("made", sa.Text, nullable=False),
        sa.Column("made_by", sa.Text, nullable=False),
        sa.Column("expires", sa.Text),
        sa.Column("revoked", sa.Text),
        sa.Column("used", sa.Text),
        sqlite_strict=True,
    )
    op.create_table(
        "login_links",
        sa.Column("secret_hash", sa.Text, primary_key=True),
        sa.Column("token", sa.Text, sa.ForeignKey("tokens.id"), nullable=False),
        sa.Column("expires", sa.Text, nullable=False),
        sa.Column("used", sa.Text),
        sqlite_strict=True,
    )
    op.create_table(
        "sessions",
        sa.Column("secret_hash", sa.Text, primary_key=True),
        sa.Column("token", sa.Text, sa.ForeignKey("tokens.id"), nullable=False),
        sa.Column("expires", sa.Text, nullable=False),
        sa.Column("seen", sa.Text, nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "audit",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("token", sa.Text, nullable=False),
        sa.Column("act", sa.Text, nullable=False),
        sa.Column("holdout", sa.Text),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("facts", sa.Text, nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "idempotency",
        sa.Column("token", sa.Text, primary_key=True),
        sa.Column("key_hash", sa.Text, primary_key=True),
        sa.Column("lease", sa.Text, nullable=False),
        sa.Column("until", sa.Text, nullable=False),
        sa.Column("digest", sa.Text),
        sa.Column("status", sa.Integer),
        sa.Column("headers", sa.Text),
        sa.Column("body", sa.LargeBinary),
        sqlite_strict=True,
    )
    op.create_index("idempotency_until", "idempotency", ["until"])


def downgrade() -> None:
    """Refused: the ledger beside them has no way back."""
    raise NotImplementedError("the ledger cannot be downgraded; restore a backup instead")
