"""Opens the rows of a holdout, sealed and training, in a file or in a table that stays where it is.

Rows of a file are read by `table.StoredRows`. Tables in engines come from extensions. An entry point of the group
``everhold.rows`` has the scheme of an address as its name, as in ``scheme://host``, and a class of `SealableTable` as
its object. The class is imported when an address has its scheme. If a table is passed as an object, no entry point is
needed until its holdout is opened again without the object.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, cast

from everhold.errors import IntegrityError
from everhold.extensions import Registry
from everhold.sealing.configuration import SealedFiles, schema_from
from everhold.sealing.rows.table import StoredRows
from everhold.sealing.sealed_files import sealed_files

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from everhold.sealing.arrivals import ArrivedFiles
    from everhold.sealing.intake.request import SealRequest
    from everhold.sealing.intake.structure import FileStructure
    from everhold.sealing.resealing import Content
    from everhold.sealing.rows.evaluated_rows import RowStore
    from everhold.sealing.storage import StewardKey
    from everhold.values.base import Schema

ENGINE_VARIABLE = "EVERHOLD_ENGINE"
"""Environment variable: addresses of tables' engines, with their credentials, separated by blanks."""

_SCHEME = re.compile(r"([a-z][a-z0-9_]*)(\+[a-z0-9_]+)?(://|\[[^\]]*\]$|$)", re.IGNORECASE)
_METHODS = ("check_unaltered", "close", "pinned", "sealed_rows", "sealing", "to_dict", "training_rows")


class SealableTable(Protocol):
    """Protocol of a table in an engine, which can be passed to `Holdout.create` instead of rows.

    Only a table to which rows arrive needs `arrival_rows` and `arriving`. The facts that `to_dict` returns for such a
    table include ``arrived`` and ``until``.

    Attributes:
        kind: Name in ledger and certificate.
        title: Name in sentences.
    """

    kind: str
    title: str

    @classmethod
    def from_url(cls, url: str, table: str) -> SealableTable:
        """Return the table at an address, which may hold credentials.

        Raises:
            ValueError: If it is not such an address. The message quotes nothing of it.
            Unavailable: If the engine cannot be reached.
        """

    def to_dict(self) -> dict[str, Any]:
        """Return public facts that identify the table: kind, table, place, snapshot. Never credentials."""

    def pinned(self, facts: Mapping[str, Any]) -> SealableTable:
        """Return the same table at the snapshot that facts name, or itself without one.

        Raises:
            IntegrityError: If the snapshot does not exist any more.
        """

    def sealing(
        self, folder: Path, request: SealRequest, *, key: StewardKey
    ) -> AbstractContextManager[SealedRows]:  # fmt: skip
        """Context that checks the table and writes the training rows to a private folder. See `files.seal_rows`.

        Args:
            folder: Private folder for the training file.
            request: The request to seal, whose `holdout` is this table.
            key: The steward's key, for the fingerprint.

        Raises:
            HoldoutRejected: If the rows cannot be sealed as they stand.
            Unavailable: If the engine cannot be reached.
        """

    def check_unaltered(self, configuration: Mapping[str, Any], key: StewardKey) -> None:
        """Check that the table still has the sealed rows and columns.

        Raises:
            IntegrityError: If it does not, or does not exist any more.
            Unavailable: If the engine cannot be reached.
        """

    def sealed_rows(self, schema: Schema, *, order_key: bytes) -> RowStore:
        """Return the sealed rows. ``order_key`` determines the secret order in which functions receive them."""

    def arrival_rows(self, window: tuple[str, str], fingerprint: str, schema: Schema, key: StewardKey) -> RowStore:
        """Return the rows whose watermark time is between two values.

        Raises:
            IntegrityError: If the rows are not those that were sealed.
            Unavailable: If the engine cannot be reached.
        """

    def arriving(
        self, window: tuple[str, str], schema: Schema, key: StewardKey, *, training_ids: set[Any]
    ) -> ArrivedFiles:
        """Check arriving rows inside the engine before they are sealed.

        Raises:
            HoldoutRejected: If the rows do not fit the sealed rows. Nothing was changed.
            Unavailable: If the engine cannot be reached.
        """

    def training_rows(self, facts: Mapping[str, Any], schema: Schema) -> RowStore:
        """Return all training rows from their own table in the same engine.

        Raises:
            IntegrityError: If that table has other columns, or more or fewer rows.
            Unavailable: If the engine cannot be reached.
        """

    def close(self) -> None:
        """Release connections, which open again when needed."""


@dataclass(frozen=True, slots=True)
class SealedRows:
    """Rows that were checked and are about to be sealed.

    Attributes:
        facts: Public facts of the rows.
        structure: Arrangement of the rows, for dependence models and for diagnosis.
        content: Function from the storage's key, or from None for a new key, to a sketch that shows whether other rows
            are equal.
        check_still: Raises `HoldoutRejected` if the rows were changed meanwhile.
    """

    facts: SealedFiles
    structure: FileStructure
    content: Callable[[str | None], Content]
    check_still: Callable[[], None] = lambda: None


def _fault_of(name: str, extension: Any) -> str:
    """Return a text that names the methods that a table class lacks, empty if it has all."""
    missing = [each for each in ("from_url", *_METHODS) if not callable(getattr(extension, each, None))]
    return f"The class has no {', '.join(missing)}. Write it as a subclass of `SealableTable`." if missing else ""


TABLES: Registry[type[SealableTable]] = Registry("everhold.rows", {}, _fault_of)
"""Classes of tables by the scheme of their addresses."""


def is_table(rows: object) -> TypeGuard[SealableTable]:
    """Return whether rows are a table in an engine, which is not copied."""
    return all(hasattr(type(rows), name) for name in _METHODS)


def table_at(url: str, table: str) -> SealableTable:
    """Return the table with a name in the engine at an address.

    Args:
        url: The address, with a password if it needs one.
        table: Name of the table, as the engine has it.

    Raises:
        ValueError: If no installed extension takes the address; the message quotes nothing of it, as it may hold a
            password.
        ModuleNotFoundError: If the package of the engine is not installed.
        Unavailable: If it cannot be reached.

    Examples:
        >>> table_at("sealed.parquet", "flights")
        Traceback (most recent call last):
        ...
        ValueError: The address of the engine has no scheme that is known. Expected one of ...
    """
    found = _SCHEME.match(url)
    scheme = found[1].lower() if found else ""
    if scheme not in TABLES:
        raise ValueError(f"The address of the engine has no scheme that is known. {TABLES.missing(scheme)}")
    return TABLES[scheme].from_url(url, table)


def table_of(facts: Mapping[str, Any], given: SealableTable | None = None) -> SealableTable:
    """Return a holdout's table at the snapshot that was sealed. Its rows are not checked yet.

    Args:
        facts: The facts of `SealableTable.to_dict` when it was sealed.
        given: Table that the caller passed. If None, `ENGINE_VARIABLE` says where the table is, or else the facts do.

    Raises:
        IntegrityError: If the facts are not in the form in which everhold wrote them.
        ValueError: If the table is of another kind.
        Unavailable: If the engine cannot be reached.
    """
    if not all(isinstance(facts.get(name), str) for name in ("kind", "table", "place")):
        raise IntegrityError(
            "The ledger's record of the engine was altered or is damaged. "
            "Run 'everhold ledger verify' and restore a backup."
        )
    table = _of_environment(facts) if given is None else given
    if table.kind != facts["kind"]:
        raise ValueError(
            f"The rows were sealed in an engine of kind {facts['kind']!r}, and engine= is "
            f"of kind {table.kind!r}. Pass an engine of kind {facts['kind']!r}."
        )
    return table.pinned(facts)


def _of_environment(facts: Mapping[str, Any]) -> SealableTable:
    """Return the table at the address that the environment has for its recorded place, or else for its kind."""
    name = str(facts["table"])
    tables = [table_at(url, name) for url in os.environ.get(ENGINE_VARIABLE, "").split()]
    kin = [table for table in tables if table.kind == facts["kind"]]
    there = [table for table in kin if table.to_dict().get("place") == facts["place"]]
    chosen = next(iter([*there, *kin, *tables]), None)
    for table in tables:
        if table is not chosen:
            table.close()
    return table_at(str(facts["place"]), name) if chosen is None else chosen


# The rows of a holdout, as its configuration says where they are: in a file of its folder, or in an engine.


def engine_of(
    configuration: Mapping[str, Any], key: StewardKey, *, given: SealableTable | None = None, checked: bool = False
) -> SealableTable | None:
    """Return the engine's table with the sealed rows, after a check, or None if they are in a file.

    Args:
        configuration: Settings of the holdout.
        key: Key of the steward.
        given: Engine that the caller passed, or None.
        checked: Whether the rows of the table were just checked, so that they need no check here.

    Raises:
        IntegrityError: If the table does not hold the rows that were sealed.
        Unavailable: If it cannot be reached.
        ValueError: If an engine is given for rows that are in a file, or the engine is of another kind.
    """
    facts = configuration.get("engine")
    if facts is None:
        if given is not None:
            raise ValueError("The rows of this holdout are in a file beside its storage. Leave out engine=.")
        return None
    engine = table_of(facts, given)
    try:
        if not checked:
            engine.check_unaltered(configuration, key)
    except BaseException:
        if given is None:
            engine.close()
        raise
    return engine


def sealed_rows(
    folder: Path, configuration: dict[str, Any], key: StewardKey, engine: SealableTable | None
) -> StoredRows:  # fmt: skip
    """Open the sealed rows of a holdout, from an engine or from their file.

    Raises:
        IntegrityError: If the file is not the one that was sealed.
    """
    schema = schema_from(configuration)
    if engine is not None:
        return cast("StoredRows", engine.sealed_rows(schema, order_key=key.order_key))  # any RowStore serves
    file = sealed_files(folder, configuration)["holdout"].opened()
    return StoredRows(file, schema, rows=schema.rows, sealed=True, order_key=key.order_key)


def training_rows(folder: Path, configuration: dict[str, Any], engine: SealableTable | None) -> StoredRows | None:
    """Open the training rows, or return None if there are none.

    Raises:
        IntegrityError: If their file is not the one that was written, or the table has other columns or rows.
        Unavailable: If the engine cannot be reached.
    """
    schema = schema_from(configuration)
    if not schema.training_rows:
        return None
    file = sealed_files(folder, configuration)["training"].opened()
    whole = None
    if (facts := configuration.get("training_table")) is not None and engine is not None:
        whole = engine.training_rows(facts, schema)
    return StoredRows(file, schema, rows=schema.training_rows, sealed=False, whole=whole)


def latest_until(configuration: Mapping[str, Any], arrivals: Sequence[Mapping[str, Any]]) -> str:
    """Return the time until which rows have arrived, as the steward or the table recorded it, or an empty text."""
    times = [str(each["until"]) for each in arrivals if each.get("until")]
    return max(times, default=str(configuration.get("engine", {}).get("until") or ""))


def arrival_rows(
    configuration: dict[str, Any], key: StewardKey, engine: SealableTable, *, before: Sequence[Mapping[str, Any]],
    arrival: Mapping[str, Any],
) -> StoredRows:  # fmt: skip
    """Open the rows of one arrival that stay in an engine.

    Args:
        configuration: Settings of the holdout.
        key: Key of the steward.
        engine: The engine's table.
        before: Descriptions of the arrivals before this one.
        arrival: Description of this one.

    Raises:
        IntegrityError: If the rows are not those that were sealed.
        Unavailable: If the engine cannot be reached.
    """
    window = (latest_until(configuration, before), arrival["until"])
    schema = replace(schema_from(configuration), rows=int(arrival["rows"]))
    return cast("StoredRows", engine.arrival_rows(window, arrival["fingerprint"], schema, key))
