"""A holdout as it lies on the disk: is its ledger what was written, and is every sealed file what was sealed?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from everhold.errors import IntegrityError, Unavailable
from everhold.ledger.allotments import Accounts
from everhold.ledger.head_file import HeadFile
from everhold.ledger.verification import verify
from everhold.sealing.configuration import check_settings, state_from
from everhold.sealing.rows.opening import arrival_rows, engine_of
from everhold.sealing.sealed_files import altered_notes, sealed_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from everhold.ledger import HoldoutRecord, LedgerStore
    from everhold.sealing.keys import StewardKey

__all__ = ["Inspection", "inspect"]


@dataclass(frozen=True, slots=True)
class Inspection:
    """Outcome of an inspection.

    Attributes:
        entries: Number of entries of the ledger.
        checked: What was looked at, such as "hashes", "seals" and "rows".
        findings: Everything that is not as it was written, in words.
    """

    entries: int
    checked: tuple[str, ...]
    findings: tuple[str, ...]


def inspect(
    store: LedgerStore, record: HoldoutRecord, folder: Path, key: StewardKey | None, *,
    expected_head: tuple[int, str] | None = None, head_file: bool = True, tables: bool = True,
) -> Inspection:  # fmt: skip
    """Check the ledger of a holdout, its rows and the files of its gates; rows in an engine are read there.

    Args:
        store: The ledger.
        record: The holdout.
        folder: Its private folder.
        key: The steward's; without it seals, gates and rows in an engine are not checked.
        expected_head: As for `everhold.ledger.verification.verify`.
        head_file: Whether the ledger has to have come as far as the file of the newest head says.
        tables: Whether rows in an engine are read.
    """
    seal_key = None if key is None else key.seal_key
    newest = HeadFile.of(folder, holdout=record.id, seal_key=seal_key) if seal_key and head_file else None
    report = verify(store, record.name, seal_key=seal_key, expected_head=expected_head, head_file=newest)
    checked = {"hashes": True, "sums": True, "seals": report.keyed, "newest head": newest is not None}
    findings = [f"entry {found.sequence}: {found.what}" if found.sequence else found.what for found in report.findings]
    try:
        check_settings(record.configuration)
    except IntegrityError as fault:
        findings.append(fault.message)
    else:
        for arrival in (None, *report.arrivals):
            for file in sealed_files(folder, record.configuration, arrival).values():
                try:
                    file.check()
                except IntegrityError as fault:
                    findings.append(fault.message)
        checked["rows"] = record.configuration.get("engine") is None
        if key is not None:
            findings += altered_notes(folder, key=key.notes_key)
            try:
                state = store.head(record.id).state
                state_from(state, record.configuration)
                for extension in Accounts.from_state(state).extensions.values():
                    findings += extension.file_findings(record, folder, key.seal_key, report.arrivals)
                if tables and not checked["rows"]:
                    findings += _table_findings(record, key, report.arrivals)
                    checked["rows"] = True
            except IntegrityError as fault:
                findings.append(fault.message)
            except (Unavailable, ValueError) as fault:
                findings.append(f"the sealed rows were not looked at: {fault}")
    return Inspection(report.entries, tuple(kind for kind, done in checked.items() if done), tuple(findings))


def _table_findings(record: HoldoutRecord, key: StewardKey, arrivals: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is wrong with the rows that stay in an engine, those of the creation and of each arrival.

    Raises:
        Unavailable: If the engine cannot be reached.
        ValueError: If its address is missing.
    """
    try:
        engine = engine_of(record.configuration, key)
        assert engine is not None
        try:
            for place, arrival in enumerate(arrivals):
                if arrival["rows"]:
                    arrival_rows(record.configuration, key, engine, before=arrivals[:place], arrival=arrival)
        finally:
            engine.close()
    except IntegrityError as fault:
        return [fault.message]
    return []
