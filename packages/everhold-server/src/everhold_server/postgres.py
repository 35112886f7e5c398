"""The ledger in a PostgreSQL database, for the processes of several machines; needs the extra ``postgres``."""

from __future__ import annotations

import hashlib

import sqlalchemy as sa

from everhold.errors import EverholdError
from everhold.ledger.database import LedgerDatabase

_AT_ONCE = {"no_parameters": True}  # several statements in one message to the server
_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_WRITING = (
    "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE; "  # what a statement sees comes after the lock
    "SET LOCAL lock_timeout = {patience}; "
    "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'; "
    "SELECT pg_advisory_xact_lock({turn})"
)
_FOR_CRASHES = ("fsync", "full_page_writes")
_USUAL = {  # of the connection, unless its address says otherwise: a client that vanished keeps no lock for ever
    "application_name": "everhold", "client_encoding": "utf8", "keepalives_idle": "30", "keepalives_interval": "10",
    "keepalives_count": "3",
}  # fmt: skip
_SERVERS_KEEPALIVES = "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3"


class PostgreSQL(LedgerDatabase):
    """Database of a ledger in PostgreSQL, in a schema of its own if the address sets ``search_path``.

    Writers take turns by a lock that the database releases at the end of their transaction, even if a writer crashes. A
    writer takes the lock before it reads, so it sees everything that earlier writers wrote.

    Args:
        address: URL of the database. It may hold a password.
        patience: Seconds to wait for another writer, and for the server to answer.
    """

    drivers = ("postgresql", "postgresql+psycopg")
    example = "a PostgreSQL database such as postgresql://user@host/database"

    def __init__(self, address: sa.URL, *, patience: float) -> None:
        self._address = address
        super().__init__(patience=patience)

    @property
    def url(self) -> str:
        """The complete address, including the password."""
        return self._address.render_as_string(hide_password=False)

    @property
    def shown(self) -> str:
        """The address without password and options."""
        at = self._address
        known = sa.URL.create("postgresql", username=at.username, host=at.host, port=at.port, database=at.database)
        return known.render_as_string()

    def damage(self, connection: sa.Connection) -> tuple[str, ...]:
        """Return no faults, since PostgreSQL checks its pages itself and raises an error on reading."""
        return ()

    def weaknesses(self, connection: sa.Connection) -> tuple[str, ...]:
        """Return warnings of settings under which a crash may lose answers, and of a standby server."""
        settings = {name: connection.exec_driver_sql(f"SHOW {name}").scalar_one() for name in _FOR_CRASHES}
        found = [f"{name} is off: a crash of the server's machine may set the ledger back"
                 for name, value in settings.items() if value == "off"]  # fmt: skip
        if connection.exec_driver_sql("SELECT pg_is_in_recovery()").scalar_one():
            found.append("the server is a standby, which takes no answers")
        return tuple(found)

    def _begin(self, connection: sa.Connection, *, writing: bool, turn: str) -> None:
        begin = _READING
        if writing:
            waits = max(1, min(round(1000 * self.patience), 2**31 - 1))  # milliseconds; 0 would wait for ever
            begin = _WRITING.format(patience=waits, turn=_lock_of(turn))
        connection.exec_driver_sql(begin, execution_options=_AT_ONCE)

    def _connect(self) -> sa.Engine:
        options = {name: value for name, value in self._address.query.items() if name != "rows"}
        usual = {"connect_timeout": str(max(2, round(min(self.patience, 30)))), **_USUAL}
        try:
            engine = sa.create_engine(
                self._address.set(drivername="postgresql+psycopg", query={}),
                connect_args={**usual, **options},  # not in the engine's address, as they may hold a password
                isolation_level="AUTOCOMMIT",  # transactions are begun above
                max_overflow=-1,  # a reader never waits for a connection that a writer keeps
                hide_parameters=True,
            )
        except ModuleNotFoundError as missing:
            raise ModuleNotFoundError(
                "A ledger on PostgreSQL needs the package psycopg. Install it: pip install 'everhold[postgres]'.",
                name=missing.name,
            ) from None

        @sa.event.listens_for(engine, "connect")
        def prepare(connection: sa.engine.interfaces.DBAPIConnection, _record: object) -> None:
            connection.execute(_SERVERS_KEEPALIVES)

        return engine

    def _check_usable(self, connection: sa.Connection) -> None:
        encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
        if encoding != "UTF8":
            raise EverholdError(
                f"The database stores text as {encoding}, which cannot hold every query. "
                "Create it with UTF-8: createdb --encoding UTF8 --template template0."
            )


def _lock_of(turn: str) -> int:
    """Return the number of the advisory lock for a name, a 64-bit hash."""
    return int.from_bytes(hashlib.sha256(f"everhold {turn}".encode()).digest()[:8], "big", signed=True)
