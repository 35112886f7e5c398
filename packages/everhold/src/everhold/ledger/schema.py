"""The tables of a ledger with their triggers, and those of the service, and how they are made.

The ledger's revision is in a table of the form that Alembic uses, so that a later version can migrate the tables.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex, CreateTable, DDLElement

CURRENT_REVISION = "0100"
"""What a database says that has these tables."""

VERSION_TABLE = "everhold_version"
"""Table of the revision."""

metadata = sa.MetaData()

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
"""Text whose order, and so whose indexes, no update of the operating system changes."""

COUNT = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
"""A whole number of 64 bits on every database."""

holdouts = sa.Table(
    "holdouts",
    metadata,
    sa.Column("id", TEXT, primary_key=True),
    sa.Column("name", TEXT, nullable=False, unique=True),
    sa.Column("created", TEXT, nullable=False),
    sa.Column("configuration", TEXT, nullable=False),
    sqlite_strict=True,
)

head = sa.Table(
    "head",
    metadata,
    sa.Column("holdout_id", TEXT, sa.ForeignKey("holdouts.id"), primary_key=True),
    sa.Column("sequence", COUNT, nullable=False),
    sa.Column("charged", COUNT, nullable=False),
    sa.Column("state", TEXT, nullable=False),
    sa.Column("entry_hash", TEXT, nullable=False),
    sa.Column("queries_hash", TEXT, nullable=False),
    sa.Column("head_seal", TEXT, nullable=False),
    sqlite_strict=True,
)

entries = sa.Table(
    "entries",
    metadata,
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
    sa.Index("entries_in_order", "holdout_id", "sequence", "query"),  # all queries can be read without their answers
    sqlite_strict=True,
)

checkpoints = sa.Table(
    "checkpoints",
    metadata,
    sa.Column("holdout_id", TEXT, sa.ForeignKey("holdouts.id"), primary_key=True),
    sa.Column("sequence", COUNT, nullable=False),
    sa.Column("content", TEXT, nullable=False),
    sa.Column("seal", TEXT, nullable=False),
    sqlite_strict=True,
)

tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("secret_hash", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("holdouts", sa.Text),  # a JSON list; null for all
    sa.Column("made", sa.Text, nullable=False),
    sa.Column("made_by", sa.Text, nullable=False),
    sa.Column("account", sa.Text, nullable=False),  # the token whose limits it shares
    sa.Column("expires", sa.Text),
    sa.Column("revoked", sa.Text),
    sa.Column("used", sa.Text),
    sa.Column("subject", sa.Text, unique=True),  # a person who signs in with an account; null for a token with a secret
    sqlite_strict=True,
)
sa.Index(
    "one_person_of_a_name", tokens.c.name, unique=True, sqlite_where=tokens.c.subject.is_not(None),
    postgresql_where=tokens.c.subject.is_not(None),
)  # fmt: skip

login_links = sa.Table(
    "login_links",
    metadata,
    sa.Column("secret_hash", sa.Text, primary_key=True),
    sa.Column("token", sa.Text, sa.ForeignKey("tokens.id"), nullable=False),
    sa.Column("expires", sa.Text, nullable=False),
    sa.Column("used", sa.Text),
    sqlite_strict=True,
)

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("secret_hash", sa.Text, primary_key=True),
    sa.Column("token", sa.Text, sa.ForeignKey("tokens.id"), nullable=False),
    sa.Column("expires", sa.Text, nullable=False),
    sa.Column("seen", sa.Text, nullable=False),
    sqlite_strict=True,
)

audit = sa.Table(
    "audit",
    metadata,
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

published = sa.Table(
    "published",
    metadata,
    sa.Column("holdout", sa.Text, primary_key=True),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("by", sa.Text, nullable=False),
    sqlite_strict=True,
)

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("holdout", sa.Text, nullable=False),
    sa.Column("verb", sa.Text, nullable=False),
    sa.Column("arguments", sa.Text, nullable=False),
    sa.Column("by", sa.Text, nullable=False),
    sa.Column("made", sa.Text, nullable=False),
    sa.Column("worker", sa.Text, nullable=False),  # who performs it
    sa.Column("until", COUNT, nullable=False),  # when somebody else may perform it, in milliseconds since 1970
    sa.Column("tries", sa.Integer, nullable=False),  # since it last came further
    sa.Column("what", sa.Text, nullable=False),
    sa.Column("done", sa.Integer, nullable=False),
    sa.Column("total", sa.Integer),
    sa.Column("ended", sa.Text),
    sa.Column("fault", sa.Text, nullable=False),
    sqlite_strict=True,
)
sa.Index(
    "one_open_job", jobs.c.holdout, jobs.c.verb, unique=True, sqlite_where=jobs.c.ended.is_(None),
    postgresql_where=jobs.c.ended.is_(None),
)  # fmt: skip

_REVISION_TABLE = (
    f"CREATE TABLE {VERSION_TABLE} "
    f"(version_num VARCHAR(32) NOT NULL, CONSTRAINT {VERSION_TABLE}_pkc PRIMARY KEY (version_num))",
    f"INSERT INTO {VERSION_TABLE} (version_num) VALUES ('{CURRENT_REVISION}')",
)

_CHARGED_INDEX = "CREATE INDEX entries_charged ON entries (holdout_id, sequence) WHERE charged > 0"

# Two EXISTS, as one with OR would read all entries for every new one.
# INSERT OR REPLACE deletes without firing a delete trigger, hence the trigger before an insert.
_SQLITE_TRIGGERS = (
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
_POSTGRESQL_TRIGGERS = (
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

_statements: dict[str, tuple[str, ...]] = {}
"""What makes the tables of each kind of database; SQLAlchemy takes longer to write it than a database to do it."""


def create_tables(connection: sa.Connection) -> None:
    """Make all tables in an empty database, without a commit."""
    dialect = connection.dialect
    if dialect.name not in _statements:
        tables = metadata.sorted_tables
        made: list[DDLElement] = [
            *map(CreateTable, tables),
            *(CreateIndex(index) for table in tables for index in table.indexes),
        ]
        triggers = _SQLITE_TRIGGERS if dialect.name == "sqlite" else _POSTGRESQL_TRIGGERS
        compiled = (str(each.compile(dialect=dialect)) for each in made)
        _statements[dialect.name] = (*compiled, _CHARGED_INDEX, *triggers, *_REVISION_TABLE)
    for statement in _statements[dialect.name]:
        connection.exec_driver_sql(statement)
