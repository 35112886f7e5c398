"""The same rows sealed twice: two budgets for one set of rows, of which neither knows what the other told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold.errors import HoldoutRejected
from everhold.sealing.configuration import schema_from
from everhold.sealing.content import Content
from everhold.sealing.files import HOLDOUT_FILE
from everhold.sealing.storage import is_folder_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from everhold.ledger import HoldoutRecord, LedgerStore
    from everhold.sealing.files import SealedFiles

__all__ = ["also_sealed_as", "same_rows", "sealed_already"]


def same_rows(folder: Path, sealed: SealedFiles, others: Sequence[HoldoutRecord]) -> list[str]:
    """Names of the holdouts of a storage that hold the rows in a folder, or most of them; keeps what they look like.

    Args:
        folder: Private folder of the rows that are being sealed.
        sealed: What was written there.
        others: All holdouts that the storage has.
    """
    known = {other.name: content for other in others if (content := _content(folder.parent, other)) is not None}
    keys: list[str | None] = [*{content.key for content in known.values()}]  # hardly ever more than one
    mine = [Content.of(folder / HOLDOUT_FILE, sealed.columns, key=key) for key in keys or [None]]
    mine[0].save(folder)
    return [name for name, content in known.items() if any(content.resembles(picture) for picture in mine)]


def _content(parent: Path, other: HoldoutRecord) -> Content | None:
    """What a sealed holdout holds, looked at again if its picture is not there; None if its rows are not either."""
    named = str(other.configuration.get("folder"))
    if not is_folder_name(named):
        return None
    found = Content.load(parent / named)
    if found is None and (parent / named / HOLDOUT_FILE).is_file():
        found = Content.of(parent / named / HOLDOUT_FILE, schema_from(other.configuration).columns)
    return found


def sealed_already(names: Sequence[str]) -> HoldoutRejected:
    """What to say about rows that are sealed already."""
    return HoldoutRejected(
        f"these rows, or most of them, are sealed in this storage already, as {', '.join(map(repr, names))}; expected "
        "rows that nobody has asked about: budgets do not add up, and what one holdout told is not counted by the "
        "other; ask the one that is there, seal other rows, or say again=True (--again) if no question will be "
        "chosen with answers of the other in hand; nothing was created",
        names=list(names),
    )


def also_sealed_as(store: LedgerStore, record: HoldoutRecord) -> list[str]:
    """Names of the holdouts with the same rows, sealed earlier or later."""
    others = [store.record(name) for name in store.names() if name != record.name]
    later = {other.name for other in others if record.name in other.configuration.get("sealed_before", ())}
    return sorted(later | set(record.configuration["sealed_before"]))
