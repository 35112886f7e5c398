"""Copies all tables of one database into another, of either kind, as of one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from everhold.errors import HoldoutRejected, IntegrityError
from everhold.ledger.database import database_errors
from everhold.ledger.schema import VERSION_TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from everhold.ledger.database import LedgerDatabase

_AT_ONCE = 500  # rows


def own_tables(database: LedgerDatabase) -> set[str]:
    """Return the names of all tables of a ledger database, without the table of the schema version."""
    with database.transaction() as connection, database_errors():
        return {*sa.inspect(connection).get_table_names()} - {VERSION_TABLE}


def count_rows(database: LedgerDatabase, name: str) -> int:
    """Return the number of rows of a table, or 0 if the table does not exist."""
    with database.transaction() as connection, database_errors():
        if not sa.inspect(connection).has_table(name):
            return 0
        return int(connection.execute(sa.select(sa.func.count()).select_from(sa.table(name))).scalar_one())


def copy_tables(
    source: LedgerDatabase, target: LedgerDatabase, names: Collection[str], *, then: Callable[[], object] = lambda: None
) -> None:
    """Copy tables into empty tables of another database. The source is read in one transaction and not blocked.

    Args:
        source: Database to copy from.
        target: Database to copy to. Its tables must exist and be empty.
        names: Names of the tables.
        then: Function that is called before the copy is committed. If it raises an error, nothing is copied.

    Raises:
        HoldoutRejected: If the target holds anything already.
        IntegrityError: If the source has other tables than these.
    """
    with source.transaction() as reading, target.transaction(writing=True) as writing:
        with database_errors():
            found, made = sa.MetaData(), sa.MetaData()
            found.reflect(reading, only=lambda name, _: name in names)
            made.reflect(writing, only=lambda name, _: name in names)
            _check_same(found, made)
            for table in made.sorted_tables:
                if writing.execute(sa.select(sa.literal(1)).select_from(table).limit(1)).first() is not None:
                    raise HoldoutRejected("The storage is not empty. Pass an address without holdouts and users.")
            for table in made.sorted_tables:
                _copy(found.tables[table.name], table, reading, writing)
        then()


def _check_same(found: sa.MetaData, made: sa.MetaData) -> None:
    for name, table in made.tables.items():
        if name not in found.tables or {*table.columns.keys()} != {*found.tables[name].columns.keys()}:
            raise IntegrityError(
                "The tables are not those of a ledger of this version of everhold. Use the version that wrote them."
            )


def _copy(source: sa.Table, target: sa.Table, reading: sa.Connection, writing: sa.Connection) -> None:
    columns = [source.columns[name] for name in target.columns.keys()]  # noqa: SIM118  # a collection, not a mapping
    rows = reading.execute(sa.select(*columns).execution_options(yield_per=_AT_ONCE))
    for part in rows.mappings().partitions():
        writing.execute(sa.insert(target), [dict(row) for row in part])
    if writing.dialect.name == "postgresql":
        # Let numbers that the database gives to new rows begin after those that were copied
        counted = [column for column in target.primary_key if isinstance(column.type, sa.Integer)]
        for column in counted:
            counter = sa.func.pg_get_serial_sequence(target.name, column.name)
            last = sa.select(sa.func.max(column)).scalar_subquery()
            writing.execute(sa.select(sa.func.setval(counter, last)).where(counter.is_not(None), last.is_not(None)))
