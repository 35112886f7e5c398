"""The tables that migrations make are those that the code expects."""

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from everhold.ledger.database import VERSION_TABLE, metadata
from everhold_server.serving import token_store_of


def test_the_migration_makes_the_tables_of_the_code(tmp_path):
    token_store_of(tmp_path / "s.db").records.database.close()
    engine = sa.create_engine(f"sqlite:///{tmp_path}/s.db")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
    engine.dispose()
