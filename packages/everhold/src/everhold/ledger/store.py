"""The store of all holdouts in one database: creates and finds them, and opens their ledgers."""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import sqlalchemy as sa
from sqlalchemy import Connection, bindparam, insert, select

from everhold.errors import HoldoutNotFound, HoldoutRejected, IntegrityError
from everhold.ledger.acts import Head
from everhold.ledger.address import connected
from everhold.ledger.chain import Entry, HoldoutRecord, seal_of
from everhold.ledger.database import LedgerDatabase, database_errors, queries_in_order
from everhold.ledger.head_file import HeadFile, Reached
from everhold.ledger.ledger import Ledger, find_head
from everhold.ledger.schema import VERSION_TABLE, entries, head, holdouts
from everhold.progress import progress
from everhold.strict_json import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from types import TracebackType


_NAMES = select(holdouts.c.name)
_HOLDOUT = select(holdouts).where(holdouts.c.name == bindparam("name"))
_OF_HOLDOUT = entries.c.holdout_id == bindparam("holdout")
_ALL_ENTRIES = select(entries).where(_OF_HOLDOUT).order_by(entries.c.sequence)
_LATER_ENTRIES = _ALL_ENTRIES.where(entries.c.sequence > bindparam("after"))
_ENTRY = select(entries).where(_OF_HOLDOUT, entries.c.sequence == bindparam("sequence"))
_FIELDS = tuple(entries.c.keys())
_AT_ONCE = 1_000  # rows that are fetched together


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Database rows of one holdout at one moment, not parsed, for verification.

    Attributes:
        holdout: The row of the table `holdouts`.
        head: The fields of the head, with its seal as ``head_seal``.
        checkpoint: The holdout's row of the table `checkpoints`; None without a checkpoint.
    """

    holdout: Mapping[str, Any]
    head: Mapping[str, Any]
    checkpoint: Mapping[str, Any] | None
    _database: LedgerDatabase
    _connection: Connection

    def damage(self) -> tuple[str, ...]:
        """Return texts about faults that the database finds in its file, empty if it finds none.

        Raises:
            IntegrityError: If the file is too damaged to be read.
        """
        with database_errors():
            return self._database.damage(self._connection)

    def entries(self, after: int | None = None) -> Iterator[Mapping[str, Any]]:
        """Yield the rows of the table `entries` after a given one, by sequence, fetched as needed."""
        where = {"holdout": self.holdout["id"], "after": after}
        statement = _ALL_ENTRIES if after is None else _LATER_ENTRIES
        with database_errors():
            rows = self._connection.execute(statement.execution_options(yield_per=_AT_ONCE), where)
            for part in rows.partitions():
                for row in part:
                    yield dict(zip(_FIELDS, row, strict=True))

    def entry(self, sequence: int) -> Mapping[str, Any] | None:
        """Return the row of one entry, or None."""
        with database_errors():
            row = self._connection.execute(_ENTRY, {"holdout": self.holdout["id"], "sequence": sequence}).first()
        return None if row is None else row._asdict()

    def queries(self, last: int) -> Iterator[str]:
        """Yield the fingerprints of all entries up to a number, joined into long texts."""
        with database_errors():
            yield from queries_in_order(self._connection, self.holdout["id"], 0, last)


@dataclass(frozen=True, slots=True)
class NewHoldout:
    """Name, settings, initial state and keys of a holdout that is to be created in the ledger.

    Attributes:
        name: Unique in its database; 1 to 200 printable characters.
        configuration: Public facts, plain JSON data; never altered afterwards.
        state: Function from the digest of the new record to the mechanism's first state (secret), plain JSON data.
        seal_key: The steward's key for the keyed seals.
        head_file: Function from the new identifier to the file that keeps the newest head.
    """

    name: str
    configuration: dict[str, Any]
    state: Callable[[str], dict[str, Any]] = field(repr=False)
    seal_key: bytes = field(repr=False)
    head_file: Callable[[str], HeadFile] | None = None


class LedgerStore:
    """All holdouts of one database. Made by `LedgerStore.open`.

    Safe to share between threads, to use from many processes, to pickle, and to use after a fork.

    Attributes:
        database: The open database.
    """

    def __init__(self, database: LedgerDatabase) -> None:
        self.database = database

    @classmethod
    def open(cls, url: str, *, create: bool = True, patience: float = 30.0) -> LedgerStore:
        """Open the database at `url`. If it is missing and `create` is True, create it.

        Args:
            url: URL such as ``sqlite:///study.db`` or ``postgresql://user@host/database``.
            create: Whether a missing file, or missing tables, are created.
            patience: Seconds to wait while another process writes.

        Raises:
            ValueError: If `url` is the address of no such database.
            HoldoutNotFound: If the file or the tables are missing and `create` is false.
            IntegrityError: If the database is damaged or is not a ledger.
            EverholdError: If it cannot be opened or reached, or was written by a newer everhold.
            ModuleNotFoundError: If the driver of PostgreSQL is not installed.
        """
        return _opened(url, patience, create=create)

    def __repr__(self) -> str:
        return f"LedgerStore({self.database.shown!r})"

    @property
    def url(self) -> str:
        """The complete address of the database. It may hold a password."""
        return self.database.url

    def __reduce__(self) -> tuple[Callable[..., LedgerStore], tuple[str, float]]:
        return _opened, (self.database.url, self.database.patience)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all idle connections, which are opened again when needed."""
        self.database.close()

    def create(
        self,
        name: str,
        configuration: dict[str, Any],
        state: dict[str, Any],
        *,
        seal_key: bytes,
        head_file: Callable[[str], HeadFile] | None = None,
    ) -> HoldoutRecord:
        """Record a new holdout, see `NewHoldout` and `create_all`."""
        return self.create_all([NewHoldout(name, configuration, lambda _: state, seal_key, head_file)])[0]

    def create_all(self, new: Sequence[NewHoldout], *, beside: Collection[str] | None = None) -> list[HoldoutRecord]:
        """Record new holdouts with the initial states of their mechanisms in one transaction.

        Args:
            new: The holdouts.
            beside: Names of the holdouts with which the rows were compared. None if rows are not compared.

        Raises:
            HoldoutRejected: If a name is taken or is not usable, or another holdout was created since the rows were
                compared.
            ValueError: If a configuration or state is not plain JSON data.
        """
        with self.database.transaction(writing=True) as connection, database_errors():
            there = {*connection.scalars(_NAMES)} - {each.name for each in new}
            if beside is not None and (since := sorted(there - {*beside})):
                raise HoldoutRejected(
                    f"The holdout {since[0]!r} was created in this storage meanwhile, and the rows were not compared "
                    "with its rows. Create this one again.",
                    names=since,
                )
            return [self._create(connection, each) for each in new]

    def _create(self, connection: Connection, new: NewHoldout) -> HoldoutRecord:
        if not 1 <= len(new.name) <= 200 or not new.name.isprintable():
            raise HoldoutRejected("The holdout's name cannot be used. Pass 1 to 200 printable characters.")
        if new.name in connection.scalars(_NAMES).all():
            raise HoldoutRejected(
                f"A holdout named {new.name!r} exists. Pass a new name.",
                name=new.name,
            )
        holdout, created = secrets.token_hex(16), datetime.now(UTC).isoformat(timespec="microseconds")
        public = {"name": new.name, "created": created, "configuration": canonical(new.configuration)}
        record = HoldoutRecord(holdout, new.name, created, json.loads(public["configuration"]))
        bound = record.settings
        first = Head(0, 0, bound, hashlib.sha256().hexdigest(), canonical(new.state(bound)))
        seal = seal_of(new.seal_key, holdout=holdout, **first.fields())
        connection.execute(insert(holdouts), {"id": holdout, **public})
        connection.execute(insert(head), {"holdout_id": holdout, **first.fields(), "head_seal": seal})
        if new.head_file is not None:
            new.head_file(holdout).create(Reached.of(first))
        return record

    def names(self) -> list[str]:
        """Return the names of all holdouts, sorted."""
        with self.database.transaction() as connection, database_errors():
            return sorted(connection.scalars(_NAMES))  # servers have orders of their own

    def record(self, name: str) -> HoldoutRecord:
        """Return the record of the holdout with this name.

        Raises:
            HoldoutNotFound: If there is no holdout of this name. The message lists the names that exist.
        """
        with self.database.transaction() as connection, database_errors():
            row = _find_holdout(connection, name)
        return HoldoutRecord(**{**row, "configuration": _read(row["configuration"])})

    def records(self) -> list[HoldoutRecord]:
        """Return the records of all holdouts, sorted by name, as of one moment."""
        with self.database.transaction() as connection, database_errors():
            rows = [row._asdict() for row in connection.execute(select(holdouts)).all()]
        found = [HoldoutRecord(**{**row, "configuration": _read(row["configuration"])}) for row in rows]
        return sorted(found, key=lambda record: record.name)

    def of(self, record: HoldoutRecord, seal_key: bytes, head_file: HeadFile | None = None) -> Ledger:
        """Return the ledger of one holdout under the steward's key. Nothing is read yet."""
        return Ledger(self.database, record.id, seal_key, head_file)

    def head(self, holdout_id: str, *, seal_key: bytes | None = None, head_file: HeadFile | None = None) -> Head:
        """Return a holdout's head. Without a key no seal is checked. See `Ledger.head`."""
        if seal_key is not None:
            return Ledger(self.database, holdout_id, seal_key, head_file).head()
        with self.database.transaction() as connection, database_errors():
            found, _ = find_head(connection, holdout_id)
        _read(found.written)
        return found

    @contextlib.contextmanager
    def snapshot(self, name: str) -> Iterator[Snapshot]:
        """Return a context with the database rows of one holdout at one moment. Writers are not blocked.

        Raises:
            HoldoutNotFound: If there is no such holdout.
            IntegrityError: If the file is damaged.
        """
        from everhold.ledger.checkpoints import stored_checkpoint

        with self.database.transaction() as connection:
            with database_errors():
                holdout = _find_holdout(connection, name)
                at, seal = find_head(connection, holdout["id"], missing=IntegrityError)
                checkpoint = stored_checkpoint(connection, holdout["id"])
            yield Snapshot(holdout, {**at.fields(), "head_seal": seal}, checkpoint, self.database, connection)


def _opened(url: str, patience: float, *, create: bool = False) -> LedgerStore:
    database = connected(url, create=create, patience=patience)
    try:
        database.migrate(create=create)
    except BaseException:
        database.close()
        raise
    return LedgerStore(database)


def _find_holdout(connection: Connection, name: str) -> dict[str, Any]:
    """Return the row of a holdout, or raise `HoldoutNotFound` with the names that exist."""
    row = connection.execute(_HOLDOUT, {"name": name}).first()
    if row is None:
        names = sorted(connection.scalars(_NAMES))
        known = f"The holdouts are {', '.join(map(repr, names))}." if names else "There are none yet."
        raise HoldoutNotFound(f"There is no holdout named {name!r}. {known}", name=name, names=names)
    return row._asdict()


def _read(field: str) -> dict[str, Any]:
    """Return a JSON object from a text field of the database.

    Raises:
        IntegrityError: If the field does not hold such JSON.
    """
    try:
        value = json.loads(field)
    except (TypeError, ValueError, RecursionError):  # the original message quotes the text
        value = None
    if not isinstance(value, dict):
        raise IntegrityError(
            "A field of the ledger is not the JSON that everhold wrote. Run 'everhold ledger "
            "verify' and restore a backup."
        )
    return value


def all_entries(ledger: Ledger, last: int | None = None) -> list[Entry]:
    """Return all entries up to one, by default the latest, each with its seal checked.

    Raises:
        IntegrityError: If one is missing or was altered.
    """
    found, limit = [], ledger.head().sequence if last is None else last
    with progress("reading the ledger", limit) as line:
        for entry in ledger.entries(limit=limit):
            found.append(entry)
            line(entry.sequence)
    if [entry.sequence for entry in found] != list(range(1, limit + 1)):
        raise IntegrityError(
            f"The ledger contains {len(found):,} entries, and {limit:,} were written. Run "
            "'everhold ledger verify' and restore a backup."
        )
    return found


def charged_entries(ledger: Ledger) -> list[Entry]:
    """Return all entries that were charged, in order, each with its seal checked.

    Raises:
        IntegrityError: If one is missing or was altered.
    """
    now = ledger.head()
    found = [entry for entry in ledger.charged(now.charged) if entry.sequence <= now.sequence]
    if sum(entry.charged for entry in found) != now.charged:
        raise IntegrityError(
            f"The entries of the ledger do not add up to the {now.charged:,} surprises "
            "that were charged. Run 'everhold ledger verify' and restore a backup."
        )
    return found[::-1]


# Copies of all tables of a ledger to another database.


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
        IntegrityError: If the source has a table that is not among `names`, or lacks one.
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
                source_table = found.tables[table.name]
                columns = [source_table.columns[name] for name in table.columns.keys()]  # noqa: SIM118  # no mapping
                rows = reading.execute(sa.select(*columns).execution_options(yield_per=_AT_ONCE))
                for part in rows.mappings().partitions():
                    writing.execute(sa.insert(table), [dict(row) for row in part])
                if writing.dialect.name != "postgresql":
                    continue
                # Let numbers that the database gives to new rows begin after those that were copied
                for column in (each for each in table.primary_key if isinstance(each.type, sa.Integer)):
                    counter = sa.func.pg_get_serial_sequence(table.name, column.name)
                    last = sa.select(sa.func.max(column)).scalar_subquery()
                    moved = sa.select(sa.func.setval(counter, last)).where(counter.is_not(None), last.is_not(None))
                    writing.execute(moved)
        then()


def _check_same(found: sa.MetaData, made: sa.MetaData) -> None:
    for name, table in made.tables.items():
        if name not in found.tables or {*table.columns.keys()} != {*found.tables[name].columns.keys()}:
            raise IntegrityError(
                "The tables are not those of a ledger of this version of everhold. Use the version that wrote them."
            )
