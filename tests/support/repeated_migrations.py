"""Migrations of empty ledgers, which Alembic makes once for all tests of a process: ten times faster from then on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from everhold.ledger import database

if TYPE_CHECKING:
    from collections.abc import Iterator

_executed: dict[str, list[tuple[str, Any]]] = {}
"""Statements of the migrations of an empty database, by its dialect."""

_upgrade = database._upgrade


def _repeated(connection: sa.Connection) -> None:
    """Migrate; an empty database by what Alembic executed in the first one."""
    if database._revision(connection) is not None:
        _upgrade(connection)
        return
    dialect = connection.dialect.name
    if dialect in _executed:
        for statement, parameters in _executed[dialect]:
            connection.exec_driver_sql(statement, parameters)
        return
    executed: list[tuple[str, Any]] = []

    def keep(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_others: Any) -> None:
        if statement.split(maxsplit=1)[0] not in {"SELECT", "PRAGMA"}:
            executed.append((statement, parameters))

    sa.event.listen(connection, "before_cursor_execute", keep)
    try:
        _upgrade(connection)
    finally:
        sa.event.remove(connection, "before_cursor_execute", keep)
    _executed[dialect] = executed


@pytest.fixture(autouse=True, scope="session")
def _migrations_are_repeated() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_upgrade", _repeated)
        yield
