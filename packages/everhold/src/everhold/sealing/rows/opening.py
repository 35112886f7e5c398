"""The rows of a holdout, as its configuration says where they are: in a file of its folder, or in an engine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from everhold.sealing.configuration import schema_from
from everhold.sealing.rows.row_store import table_of
from everhold.sealing.rows.table import StoredRows
from everhold.sealing.sealed_files import sealed_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from everhold.sealing.rows.row_store import SealableTable
    from everhold.sealing.storage import StewardKey


def engine_of(
    configuration: Mapping[str, Any], key: StewardKey, *, given: SealableTable | None = None, checked: bool = False
) -> SealableTable | None:
    """The engine in which the sealed rows are, holding what was sealed; None where they are in a file.

    Args:
        configuration: Of the holdout.
        key: The steward's.
        given: The engine that was handed in, if one was.
        checked: Whether its rows were looked at a moment ago.

    Raises:
        IntegrityError: If it does not hold what was sealed.
        Unavailable: If it cannot be reached.
        ValueError: If an engine is given for rows that are in a file, or one of another kind.
    """
    facts = configuration.get("engine")
    if facts is None:
        if given is not None:
            raise ValueError(
                "an engine is given, and the rows of this holdout are in a file beside its storage; expected none; "
                "leave it out"
            )
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
    """The sealed rows, in an engine if there is one, which was checked; else those of the file, which is checked now.

    Raises:
        IntegrityError: If the file is not the one that was sealed.
    """
    schema = schema_from(configuration)
    if engine is not None:
        return cast("StoredRows", engine.sealed_rows(schema, order_key=key.order_key))  # any RowStore serves
    file = sealed_files(folder, configuration)["holdout"].opened()
    return StoredRows(file, schema, rows=schema.rows, sealed=True, order_key=key.order_key)


def training_rows(folder: Path, configuration: dict[str, Any], engine: SealableTable | None) -> StoredRows | None:
    """The training rows, if there are any; of those in a table of the engine the copied ones, with all behind them.

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
    """Time up to which rows are sealed, as the steward or the table says it; empty if nothing is said."""
    times = [str(each["until"]) for each in arrivals if each.get("until")]
    return max(times, default=str(configuration.get("engine", {}).get("until") or ""))


def arrival_rows(
    configuration: dict[str, Any], key: StewardKey, engine: SealableTable, *, before: Sequence[Mapping[str, Any]],
    arrival: Mapping[str, Any],
) -> StoredRows:  # fmt: skip
    """The rows of one arrival that stay in an engine.

    Args:
        configuration: Of the holdout.
        key: The steward's.
        engine: The table.
        before: Descriptions of the arrivals before this one.
        arrival: Description of this one.

    Raises:
        IntegrityError: If they are not those that were sealed.
        Unavailable: If the engine cannot be reached.
    """
    window = (latest_until(configuration, before), arrival["until"])
    schema = replace(schema_from(configuration), rows=int(arrival["rows"]))
    return cast("StoredRows", engine.arrival_rows(window, arrival["fingerprint"], schema, key))
