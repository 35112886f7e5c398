"""The rows of a holdout, as its configuration says where they are: in a file of its folder, or in an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from everhold.sealing.configuration import schema_from
from everhold.sealing.engines.embedded import Embedded
from everhold.sealing.row_store import table_of
from everhold.sealing.storage import HOLDOUT_FILE, TRAINING_FILE
from everhold.sealing.table import StoredRows

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from everhold.sealing.keys import StewardKey
    from everhold.sealing.row_store import SealableTable

__all__ = ["engine_of", "sealed_rows", "training_rows"]


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
    file = Embedded(folder / HOLDOUT_FILE, fingerprint=configuration["fingerprint"])
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
    file = Embedded(folder / TRAINING_FILE, fingerprint=configuration["training_fingerprint"], what="training")
    whole = None
    if (facts := configuration.get("training_table")) is not None and engine is not None:
        whole = engine.training_rows(facts, schema)
    return StoredRows(file, schema, rows=schema.training_rows, sealed=False, whole=whole)
