"""The tables of the ledger, as SQLAlchemy Core; the migrations create them.

JSON is stored as canonical text, not as a JSON column: the hash chain is over bytes.
"""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Integer, MetaData, Table, Text, UniqueConstraint

__all__ = ["CURRENT_REVISION", "VERSION_TABLE", "entries", "head", "holdouts", "metadata"]

CURRENT_REVISION = "0001"
"""The newest migration: a database that says so is opened without loading Alembic."""

VERSION_TABLE = "everhold_version"
"""Where Alembic notes the revision; not its default name, so that a file may be shared with another program."""

metadata = MetaData()

holdouts = Table(
    "holdouts",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("created", Text, nullable=False),
    Column("configuration", Text, nullable=False),
    sqlite_strict=True,
)

head = Table(
    "head",
    metadata,
    Column("holdout_id", Text, ForeignKey("holdouts.id"), primary_key=True),
    Column("sequence", Integer, nullable=False),
    Column("charged", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("entry_hash", Text, nullable=False),
    Column("questions_hash", Text, nullable=False),
    Column("head_seal", Text, nullable=False),
    sqlite_strict=True,
)

entries = Table(
    "entries",
    metadata,
    Column("holdout_id", Text, ForeignKey("holdouts.id"), primary_key=True),
    Column("sequence", Integer, primary_key=True, autoincrement=False),
    Column("question", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("answer", Text, nullable=False),
    Column("charged", Integer, nullable=False),
    Column("asked_at", Text, nullable=False),
    Column("state_seal", Text, nullable=False),
    Column("previous_hash", Text, nullable=False),
    Column("entry_hash", Text, nullable=False),
    Column("entry_seal", Text, nullable=False),
    UniqueConstraint("holdout_id", "question"),
    Index("entries_in_order", "holdout_id", "sequence", "question"),  # all questions can be read without their answers
    sqlite_strict=True,
)
