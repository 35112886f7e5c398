"""The tables that migrations make are those that the code expects, also in a storage of before."""

import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext

from everhold.ledger.database import VERSION_TABLE, metadata
from everhold.ledger.sqlite import SQLite
from everhold_server.principals import Role
from everhold_server.serving import token_store_of


def test_the_migration_makes_the_tables_of_the_code(tmp_path):
    token_store_of(tmp_path / "s.db").records.database.close()
    engine = sa.create_engine(f"sqlite:///{tmp_path}/s.db")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_a_storage_from_before_the_service_can_be_served(tmp_path):
    database = SQLite(tmp_path / "s.db", patience=5.0)
    with database.transaction(writing=True) as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", "everhold.ledger:migrations")
        command.upgrade(config, "0001")
    database.close()
    token_store = token_store_of(tmp_path / "s.db")
    made = token_store.make(Role.VIEWER, "v", by="test")
    assert token_store.authenticate(made.secret) is not None
    token_store.records.database.close()
