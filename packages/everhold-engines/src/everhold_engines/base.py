"""The protocol of a table in an engine, the connection to the engine, and its columns as arrays.

Every statement about sealed rows is written by everhold in the engine's dialect, and the engine only runs it.
`everhold_engines.remote_rows.RemoteRows` evaluates queries by such statements. Ledger, mechanism and promise do not
depend on the engine.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from everhold.errors import EverholdError, HoldoutRejected, Unavailable
from everhold.sealing.rows.embedded import errors_hidden
from everhold.sealing.rows.row_store import ENGINE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from everhold.values.expressions import ColumnKind
    from everhold_engines.sql.dialects import Dialect


_NOT_CHARGED = "nothing was charged"
_MOST_DAYS = 106_751_990
_BIG = np.iinfo(np.int64)


def plain(value: Any) -> Any:
    """Convert a driver's value: decimals without a fraction to int, others to float, and times to UTC.

    Examples:
        >>> plain(Decimal("340282366920938463463374607431768211456")), plain(Decimal("0.1"))
        (340282366920938463463374607431768211456, 0.1)
    """
    if isinstance(value, Decimal):
        return int(value) if value.is_finite() and value == value.to_integral_value() else float(value)
    return _utc(value)


def array_of(values: Sequence[Any], *, otherwise: str = "O") -> np.ma.MaskedArray[Any, Any]:
    """Return a column of Python values as an array: int64, float64, bool, datetime64[us] in UTC, or objects.

    Args:
        values: Values from the driver. None is a missing value.
        otherwise: Type of the array if all are missing; decimals become doubles, even whole ones, if that is "float64".

    Examples:
        >>> array_of([1, None, 3])
        masked_array(data=[1, --, 3],
                     mask=[False,  True, False],
               fill_value=999999)
        >>> array_of([2**70]).dtype
        dtype('O')
    """
    missing = np.fromiter((value is None for value in values), dtype=bool, count=len(values))
    known = [value for value in values if value is not None] if missing.any() else list(values)
    found = _known_array(known, otherwise)
    if not missing.any():
        return np.ma.MaskedArray(found, mask=missing)
    column = np.zeros(len(values), dtype=found.dtype) if found.dtype != object else np.full(len(values), None)
    column[~missing] = found
    return np.ma.MaskedArray(column, mask=missing)


def arrow_array(column: Any) -> np.ma.MaskedArray[Any, Any]:
    """Return a column of an Arrow table as a masked array, like `array_of`."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_date32(kind):  # days beyond the microseconds of 64 bits are missing
        days = column.cast(pa.int32()).fill_null(0).to_numpy().astype(np.int64)
        far = np.abs(days) > _MOST_DAYS
        found = np.where(far, 0, days).astype("datetime64[D]").astype("datetime64[us]")
        return np.ma.MaskedArray(found, mask=column.is_null().to_numpy() | far)
    if pa.types.is_string(kind):  # whose bytes may be anything
        texts = column.cast(pa.binary()).to_pylist()
        return array_of([None if text is None else text.decode(errors="replace") for text in texts])
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        column = column.cast(pa.timestamp("us", tz=getattr(kind, "tz", None)))
        return _masked(column, column.cast(pa.int64()).fill_null(0).to_numpy().astype("datetime64[us]"))
    if pa.types.is_boolean(kind):
        return _masked(column, column.fill_null(False).to_numpy())
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return _masked(column, column.fill_null(0).to_numpy().astype(np.int64))
    if pa.types.is_floating(kind):
        return _masked(column, column.fill_null(0.0).to_numpy().astype(np.float64))
    if pa.types.is_decimal(kind) and kind.scale == 0:
        return array_of([None if value is None else int(value) for value in column.to_pylist()], otherwise="int64")
    number = pa.types.is_decimal(kind) or kind == pa.uint64()
    return array_of(column.to_pylist(), otherwise="float64" if number else "O")


def _masked(column: Any, values: NDArray[Any]) -> np.ma.MaskedArray[Any, Any]:
    return np.ma.MaskedArray(values, mask=column.is_null().to_numpy())


def _known_array(values: list[Any], otherwise: str) -> NDArray[Any]:
    """Return an array of values without missing ones. The first value determines its type."""
    first = values[0] if values else None
    if first is None:
        return np.zeros(0, dtype=otherwise)
    if isinstance(first, Decimal):
        if otherwise != "float64" and all(value.is_finite() and value == value.to_integral_value() for value in values):
            return _known_array(list(map(int, values)), otherwise)
        return np.array(list(map(float, values)), dtype=np.float64)
    if isinstance(first, bool):
        return np.array(values, dtype=bool)
    if isinstance(first, int):
        fits = _BIG.min <= min(values) and max(values) <= _BIG.max
        return np.array(values, dtype=np.int64 if fits else object)
    if isinstance(first, float):
        return np.array(values, dtype=np.float64)
    if isinstance(first, (date, np.datetime64)):
        return np.array([_utc(value) for value in values], dtype="datetime64[us]")
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def _utc(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


class Engine(Protocol):
    """One table of rows in an engine that can add them up. Safe to use from several threads.

    No error message of an engine is passed on, because engines quote rows in their errors. Every foreign error becomes
    an `EverholdError` (`everhold.sealing.rows.embedded`), and nothing that was read is logged.

    Attributes:
        kind: Name of the engine in ledger and certificate, such as ``"duckdb"`` or ``"spark"``.
        dialect: The SQL dialect of statements for it.
        most_expressions: Largest number of expressions in one statement.
    """

    most_expressions: ClassVar[int]

    @property
    def kind(self) -> str:
        """Name of the engine in ledger and certificate."""

    @property
    def title(self) -> str:
        """Name of the engine in texts for people."""

    @property
    def dialect(self) -> Dialect:
        """SQL dialect in which statements for the engine are written."""

    @property
    def source(self) -> str:
        """SQL that follows FROM for the table, in the dialect."""

    def columns(self) -> dict[str, ColumnKind]:
        """Return the kind of each column by name, in the table's order.

        Raises:
            HoldoutRejected: If there is no such table, or two of its columns have names that differ in case only.
        """

    def beside(self, table: str) -> Engine:
        """Return another table in the same engine, read through the same session or connection.

        Raises:
            QueryRejected: If the rows are in a file, so that there is no other table.
            ValueError: If ``table`` is not the name of a table.
        """

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the result rows of a statement. Whole numbers are exact ints of any size."""

    def arrays(self, statement: str) -> dict[str, NDArray[Any]]:
        """Return the result of a statement as an array for each column, masked where a value is missing."""

    def batches(self, statement: str) -> Iterator[dict[str, NDArray[Any]]]:
        """Yield the result of a statement in parts as arrays, about 65,536 rows each if the engine can.

        At least one part comes, even if it is empty.
        """

    def reading(self) -> AbstractContextManager[None]:
        """Return a context for reading sealed rows. It raises an error for every change that the engine can detect.

        Raises:
            IntegrityError: If the table is not the one that was sealed. Nothing is charged.
        """

    def contents(self, key: str = "") -> str:
        """Return a fingerprint in hex that changes when any row changes.

        Whoever has all rows and the key can compute it. So it is stored only under another key, and never shown.

        Args:
            key: Part of the text of every row, so that nobody without the key can choose rows with a given digest. The
                engine's logs may show it.
        """

    def to_dict(self) -> dict[str, Any]:
        """Return the public facts that locate the table: kind, table, place, snapshot. They contain no credentials."""

    def pinned(self, facts: Mapping[str, Any]) -> Engine:
        """Return the table at the snapshot named in the facts, or itself if no other snapshot is named.

        Raises:
            IntegrityError: If there is no such snapshot any more.
        """

    def interrupt(self) -> None:
        """Cancel the running statement without waiting for its end. Any thread may call this."""

    def close(self) -> None:
        """Close connections that the engine opened itself. They are opened again when needed."""


class EngineConnection(ABC):
    """Connection to an engine, opened when needed and again in every other process.

    Attributes:
        title: The engine's name in sentences.
        install: Instruction that installs its package.
        address: Address of the engine. It may contain credentials.
        opened: The open connection. None if there is none.
        is_mine: Whether everhold opens the connection, and so closes it.
        running: The statement that runs now.
    """

    title: ClassVar[str]
    install: ClassVar[str]
    here: ClassVar[frozenset[str]] = frozenset({"opened"})
    """Attributes that another process makes anew."""

    def __init__(self, address: Any, opened: Any = None) -> None:
        self.address, self.opened, self.is_mine = address, opened, opened is None
        self._begin()

    def _begin(self) -> None:
        self.lock, self.pid = threading.RLock(), os.getpid()
        self.running: set[Any] = set()

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in vars(self).items() if name not in {"lock", "pid", "running"}}
        return {**kept, **dict.fromkeys(self.here), "is_mine": True}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self._begin()

    @property
    @abstractmethod
    def place(self) -> str:
        """The address without credentials and options."""

    @abstractmethod
    def run(self, statement: str, *, max_seconds: float | None) -> Iterator[tuple[list[str], list[Any]]]:
        """Run a statement, and yield column names and columns in batches. An empty result yields one batch."""

    @abstractmethod
    def array(self, column: Any) -> NDArray[Any]:
        """Return a column of `run` as an array."""

    def values(self, column: Any) -> list[Any]:
        """Return a column of `run` as Python values."""
        return list(map(plain, column))

    @abstractmethod
    def interrupt(self) -> None:
        """Cancel the running statement without waiting for its end. Any thread may call this."""

    @abstractmethod
    def close(self) -> None:
        """Close what the connection opened itself. It is opened again when needed."""

    def is_unreachable(self, error: Exception) -> bool:
        """Return whether an error says that the engine cannot be reached."""
        return isinstance(error, (ConnectionError, TimeoutError))

    def is_refused(self, error: Exception) -> bool:
        """Return whether an error says that the engine rejected the user or password. The base returns False."""
        return False

    def hidden(self, table: str, *, missing: bool = False) -> AbstractContextManager[None]:
        """Return a context that replaces errors of the engine by everhold's errors.

        Args:
            table: The name of the table that is read.
            missing: Whether any other error means that there is no such table.
        """
        return errors_hidden(partial(self._fault, table, missing))

    def _fault(self, table: str, missing: bool, error: Exception) -> EverholdError:
        if isinstance(error, ModuleNotFoundError):
            return EverholdError(
                f"{self.title} needs the package {error.name}, which is not installed. Install it: {self.install}."
            )
        if self.is_refused(error):
            return Unavailable(
                f"{self.title} at {self.place} does not accept the user, the password or the database. Correct them in "
                f"the address or in {ENGINE_VARIABLE}, and ask again.",
                unchanged=_NOT_CHARGED,
            )
        if self.is_unreachable(error):
            return Unavailable(
                f"{self.title} at {self.place} cannot be reached, or the connection was lost. Check the address and "
                "that the engine runs, and ask again.",
                unchanged=_NOT_CHARGED,
            )
        if missing:
            return HoldoutRejected(
                f"There is no table {table!r} that can be read. Pass its name as "
                f"{self.title} has it, and check the right to read it."
            )
        return EverholdError(
            f"{self.title} could not evaluate the rows of {table!r}. Check that the table can be read and that the "
            "engine has enough memory and time.",
            unchanged=_NOT_CHARGED,
        )
