"""Parts of one table: its rows are divided, by chance or by a column, and each part becomes a holdout, all or none."""

from __future__ import annotations

import secrets
import tempfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from everhold.errors import HoldoutRejected
from everhold.sealing.sealed_files import sealed_note, write_note
from everhold.sealing.storage import make_rows_folder, rows_folder, storage_url

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from everhold.asking.creation import Creation, StudyRequest
    from everhold.ledger import HoldoutRecord, LedgerStore
    from everhold.sealing.intake.request import DealtPart, SealRequest
    from everhold.sealing.storage import StewardKey

PARTS_FILE = "parts.json"
"""Note in the folder of a part with extensions: to which part each row of the table was dealt."""


def create_parts(
    storage: str | Path, name: str, parts: Sequence[DealtPart], request: SealRequest, study: StudyRequest, *,
    make: Callable[[SealRequest, StudyRequest], Creation], allow_resealing: bool,
) -> tuple[LedgerStore, list[HoldoutRecord]]:  # fmt: skip
    """Divide rows into parts, and seal each part as a holdout of its own.

    Args:
        storage: Storage for the holdouts, as for `everhold.Holdout.create`.
        name: Name of the whole.
        parts: The parts, with their shares of the rows.
        request: The rows to divide.
        study: The plan of each part.
        make: Function that makes a creation from the rows of a part and its plan.
        allow_resealing: Whether to seal rows that are already sealed in this storage, as for
            `everhold.Holdout.create`.

    Returns:
        The open database, and the records of the parts.

    Raises:
        HoldoutRejected: If the rows cannot be divided in this way. Nothing was created.
    """
    from everhold.asking.creation import record_all
    from everhold.asking.session import HoldoutSession
    from everhold.sealing.intake.splitting import dealt_files

    model = study.dependence
    if model is not None and not model.dealable:
        raise HoldoutRejected(
            f"Rows that are {model.rows_are} cannot be dealt by chance: each part would depend on the others. Seal "
            "each period as a holdout of its own."
        )
    if study.planning.grows:
        raise HoldoutRejected("Rows that are dealt into parts do not support grows=. Leave grows= out.")
    if hasattr(request.holdout, "sealing"):
        raise HoldoutRejected("Rows in an engine cannot be dealt into parts. Pass a file or a data frame.")
    url, order = storage_url(storage), next((each.order for each in request.extensions.values() if each.order), None)
    if order is not None and order == request.label:
        raise HoldoutRejected(
            f"Rows that are dealt by the order of their labels ({order!r}) show something about the labels of the "
            "other part. Deal them by another column, or by chance."
        )
    make_rows_folder(rows_folder(url))
    with tempfile.TemporaryDirectory(dir=rows_folder(url), prefix=".dealt-") as own:
        files, part_of_row = dealt_files(
            request, Path(own), [part.share for part in parts], order=order,
            groups=None if model is None else model.group_column, rng=np.random.default_rng(request.seed),
        )  # fmt: skip
        key, creations = secrets.token_hex(32), []
        for place, (part, file) in enumerate(zip(parts, files, strict=True), 1):
            planning = replace(study.planning, allow_vacuous=study.planning.allow_vacuous or part.allow_vacuous)
            rows = replace(
                request, holdout=file, extensions=part.extensions, content_key=key,
                dealt={"of": name, "part": place, "parts": len(parts)},
            )  # fmt: skip
            plan = replace(study, confidence=part.confidence, planning=planning)
            creations.append((part.name, make(rows, plan)))
        store, records = record_all(storage, creations, allow_resealing=allow_resealing)
        for (_, creation), record in zip(creations, records, strict=True):
            folder = rows_folder(url) / record.configuration["folder"]
            executor = HoldoutSession(store, record, folder, checked=True).executor
            if creation.request.extensions:
                dealt = zlib.compress(part_of_row.astype(np.uint8).tobytes())
                write_note(folder / PARTS_FILE, dealt, key=executor.key.notes_key)
            creation.finish(executor, folder)
    return store, records


def part_of_each_row(folder: Path, key: StewardKey) -> NDArray[np.uint8] | None:
    """Return for each row of the table the number of its part, counted from 0. None if this was not recorded.

    Raises:
        IntegrityError: If the record was altered.
    """
    note = sealed_note(folder / PARTS_FILE, key=key.notes_key)
    return None if note is None else np.frombuffer(zlib.decompress(note), dtype=np.uint8)
