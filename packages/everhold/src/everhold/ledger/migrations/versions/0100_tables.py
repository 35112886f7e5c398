"""All tables: holdouts, head, entries with the triggers that keep them append-only, checkpoints, and the service's."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0100"
down_revision = None
branch_labels = None
depends_on = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
COUNT = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
WAS_CHARGED = sa.text("charged > 0")

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
    OR EXISTS (SELECT 1 FROM entries WHERE holdout_id = NEW.holdout_id AND query = NEW.query)
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

# Keys keep PostgreSQL from inserting anything twice.
POSTGRESQL_TRIGGERS = (
    """
    CREATE FUNCTION everhold_refuses() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION USING MESSAGE = TG_ARGV[0], ERRCODE = 'integrity_constraint_violation'; END $$
    """,
    """
    CREATE TRIGGER entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON entries
    FOR EACH STATEMENT EXECUTE FUNCTION everhold_refuses('entries are append-only')
    """,
    """
    CREATE TRIGGER holdouts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON holdouts
    FOR EACH STATEMENT EXECUTE FUNCTION everhold_refuses('a sealed holdout cannot be altered')
    """,
    """
    CREATE TRIGGER head_stays BEFORE DELETE OR TRUNCATE ON head
    FOR EACH STATEMENT EXECUTE FUNCTION everhold_refuses('the head only moves forward')
    """,
    """
    CREATE TRIGGER head_only_forward BEFORE UPDATE ON head FOR EACH ROW
    WHEN (NEW.holdout_id <> OLD.holdout_id OR NEW.sequence <= OLD.sequence OR NEW.charged < OLD.charged)
    EXECUTE FUNCTION everhold_refuses('the head only moves forward')
    """,
)


def upgrade() -> None:
    """Create the tables and the triggers."""
    op.create_table(
        "holdouts",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("name", TEXT, nullable=False, unique=True),
        sa.Column("created", TEXT, nullable=False),
        sa.Column("configuration", TEXT, nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "head",
        sa.Column("holdout_id", TEXT, sa.ForeignKey("holdouts.id"), primary_key=True),
        sa.Column("sequence", COUNT, nullable=False),
        sa.Column("charged", COUNT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("entry_hash", TEXT, nullable=False),
        sa.Column("queries_hash", TEXT, nullable=False),
        sa.Column("head_seal", TEXT, nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "entries",
        sa.Column("holdout_id", TEXT, sa.ForeignKey("holdouts.id"), primary_key=True),
        sa.Column("sequence", COUNT, primary_key=True, autoincrement=False),
        sa.Column("query", TEXT, nullable=False),
        sa.Column("description", TEXT, nullable=False),
        sa.Column("answer", TEXT, nullable=False),
        sa.Column("charged", COUNT, nullable=False),
        sa.Column("asked_at", TEXT, nullable=False),
        sa.Column("state_seal", TEXT, nullable=False),
        sa.Column("previous_hash", TEXT, nullable=False),
        sa.Column("entry_hash", TEXT, nullable=False),
        sa.Column("entry_seal", TEXT, nullable=False),
        sa.UniqueConstraint("holdout_id", "query"),
        sqlite_strict=True,
    )
    op.create_index("entries_in_order", "entries", ["holdout_id", "sequence", "query"])
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
    for trigger in SQLITE_TRIGGERS if op.get_bind().dialect.name == "sqlite" else POSTGRESQL_TRIGGERS:
        op.execute(trigger)
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("secret_hash", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("holdouts", sa.Text),
        sa.Column("made", sa.Text, nullable=False),
        sa.Column("made_by", sa.Text, nullable=False),
        sa.Column("account", sa.Text, nullable=False),
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
        "published",
        sa.Column("holdout", sa.Text, primary_key=True),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sqlite_strict=True,
    )


def downgrade() -> None:
    """Refused: an append-only record has no way back."""
    raise NotImplementedError("the ledger cannot be downgraded; restore a backup instead")
