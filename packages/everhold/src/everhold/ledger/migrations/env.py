"""Runs the migrations on the connection that `everhold.ledger.database` hands over."""

from __future__ import annotations

from alembic import context

from everhold.ledger.database import VERSION_TABLE, metadata


def run() -> None:
    """Migrate inside the transaction that is already open, so that two processes cannot migrate at once."""
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=metadata,
        version_table=VERSION_TABLE,
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


if __name__ == "env_py":  # the name under which Alembic loads this file; an ordinary import must do nothing
    run()
