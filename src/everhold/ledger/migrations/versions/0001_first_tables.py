"""The first tables: holdouts, head, entries, and the triggers that keep entries append-only."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# Two EXISTS, as one with OR would read all entries for every new one.
# INSERT OR REPLACE deletes without firing a delete trigger, hence the trigger before an insert.
SQLITE_TRIGGERS = (
    """
    CREATE TRIGGER entries_no_update BEFORE UPDATE ON entries
    BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END
    """,
    """
    CREATE TRIGGER entries_no_delete BEFORE DELETE ON entries
    BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END
    """,
    """
    CREATE TRIGGER entries_no_replace BEFORE INSERT ON entries
    WHEN EXISTS (SELECT 1 FROM entries WHERE holdout_id = NEW.holdout_id AND sequence = NEW.sequence)
    OR EXISTS (SELECT 1 FROM entries WHERE holdout_id = NEW.holdout_id AND question = NEW.question)
    BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END
    """,
    """
    CREATE TRIGGER holdouts_no_update BEFORE UPDATE ON holdouts
    BEGIN SELECT RAISE(ABORT, 'a sealed holdout cannot be altered'); END
    """,
    """
    CREATE TRIGGER holdouts_no_delete BEFORE DELETE ON holdouts
    BEGIN SELECT RAISE(ABORT, 'a sealed holdout cannot be altered'); END
    """,
    """
    CREATE TRIGGER head_only_forward BEFORE UPDATE ON head
    WHEN NEW.holdout_id <> OLD.holdout_id OR NEW.sequence <= OLD.sequence OR NEW.charged < OLD.charged
    BEGIN SELECT RAISE(ABORT, 'the head only moves forward'); END
    """,
    """
    CREATE TRIGGER holdouts_no_replace BEFORE INSERT ON holdouts
    WHEN EXISTS (SELECT 1 FROM holdouts WHERE id = NEW.id OR name = NEW.name)
    BEGIN SELECT RAISE(ABORT, 'a sealed holdout cannot be altered'); END
    """,
    """
    CREATE TRIGGER head_no_replace BEFORE INSERT ON head
    WHEN EXISTS (SELECT 1 FROM head WHERE holdout_id = NEW.holdout_id)
    BEGIN SELECT RAISE(ABORT, 'the head only moves forward'); END
    """,
    """
    CREATE TRIGGER head_no_delete BEFORE DELETE ON head
    BEGIN SELECT RAISE(ABORT, 'the head only moves forward'); END
    """,
)


def upgrade() -> None:
    """Create the tables and, on SQLite, the triggers."""
    op.create_table(
        "holdouts",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("created", sa.Text, nullable=False),
        sa.Column("configuration", sa.Text, nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "head",
        sa.Column("holdout_id", sa.Text, sa.ForeignKey("holdouts.id"), primary_key=True),
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("charged", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("entry_hash", sa.Text, nullable=False),
        sa.Column("questions_hash", sa.Text, nullable=False),
        sa.Column("head_seal", sa.Text, nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "entries",
        sa.Column("holdout_id", sa.Text, sa.ForeignKey("holdouts.id"), primary_key=True),
        sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("question", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("answer", sa.Text, nullable=False),
        sa.Column("charged", sa.Integer, nullable=False),
        sa.Column("asked_at", sa.Text, nullable=False),
        sa.Column("state_seal", sa.Text, nullable=False),
        sa.Column("previous_hash", sa.Text, nullable=False),
        sa.Column("entry_hash", sa.Text, nullable=False),
        sa.Column("entry_seal", sa.Text, nullable=False),
        sa.UniqueConstraint("holdout_id", "question"),
        sqlite_strict=True,
    )
    op.create_index("entries_in_order", "entries", ["holdout_id", "sequence", "question"])
    if op.get_bind().dialect.name == "sqlite":
        for trigger in SQLITE_TRIGGERS:
            op.execute(trigger)


def downgrade() -> None:
    """Refused: an append-only record has no way back."""
    raise NotImplementedError("the ledger cannot be downgraded; restore a backup instead")
