"""Continuing with a ledger that was set back: answers that it has lost count as spent."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from everhold.asking.query_executor import noise_for
from everhold.errors import IntegrityError
from everhold.ledger import EntryDraft, Outcome, verify
from everhold.ledger.allotments import CLOSED, RECOVERY, Accounts
from everhold.ledger.head_file import HeadFile, Reached
from everhold.queries.query import digest
from everhold.sealing.configuration import bound_state, mechanism_from, state_from
from everhold.sealing.storage import KEY_FILE, StewardKey

if TYPE_CHECKING:
    from pathlib import Path

    from everhold.ledger import HoldoutRecord, LedgerStore

__all__ = ["recover_ledger"]


def recover_ledger(store: LedgerStore, record: HoldoutRecord, folder: Path) -> None:
    """Count what was lost as spent, as an act in the ledger; does nothing if nothing was lost.

    The newest head says how many queries were answered and what they were charged, so the mechanism goes on as if it
    had answered them. If that file is lost, too, nobody knows, and all that is left counts as spent. What was left of
    allotments is taken back, because nobody knows on whose behalf it was spent. If the study was unsealed in what was
    lost, it stays closed.

    Raises:
        IntegrityError: If the database was altered, diverged, or its mechanism cannot go on.
        AuthError: If the steward's key is missing or wrong.
    """
    key = StewardKey.load(folder / KEY_FILE, public_key=record.configuration["public_key"])
    head_file = HeadFile.of(folder, holdout=record.id, seal_key=key.seal_key)
    report = verify(store, record.name, seal_key=key.seal_key)
    if not report.ok:
        raise _cannot(f"it is not what was written: {report.findings[0].what}")
    ledger = store.of(record, key.seal_key)  # believes what carries the seal, however old it is
    head, known = ledger.head(), head_file.find()
    found = Reached.of(head)
    if known is not None and found >= known:
        store.of(record, key.seal_key, head_file).head()  # on the same way, or it says so
        return
    asked = None if known is None else max(known.asked - found.asked, known.places - found.places)
    charged = None if known is None else known.charged - found.charged
    if min(asked or 0, charged or 0) < 0:
        raise _cannot("it holds more answers than the newest ledger did, so it diverged")
    generation = 1 + (found.generation if known is None else known.generation)
    mechanism, act = mechanism_from(record.configuration), secrets.token_hex(16)
    state = state_from(head.state, record.configuration)
    noise = noise_for(record, state, [act], key=key)
    try:
        after = mechanism.accounts.after_loss(state, asked=asked, charged=charged, noise=noise)
    except ValueError as reason:
        raise _cannot(str(reason)) from None
    if known is not None:  # labels that were always told are none of the charges
        after = replace(after, labels=max(after.labels, known.labels))
    queries, charges = after.asked - state.asked, after.charged - state.charged
    closed = mechanism.traits.unsealable if known is None else known.closed  # if unknown, it may have been
    public = {"kind": RECOVERY, "queries": queries, "charges": charges, "generation": generation, "act": act}
    public |= {CLOSED: True} if closed else {}
    shown = f"recovery: {queries:,} lost queries, charged {charges:,}, count as spent"

    def step(data: dict[str, Any], _: list[int]) -> tuple[dict[str, Any], list[Outcome | None]]:
        if data != head.state:
            raise _cannot("another process recovered it at the same time")
        accounts = Accounts.from_state(data)
        accounts.recover(queries, charges, generation=generation, closed=closed)
        outcome = Outcome({"value": None, "low": None, "high": None, "source": RECOVERY}, charges)
        return accounts.into(bound_state(after, record.configuration)), [outcome]

    ledger.commit([EntryDraft(digest(public), {**public, "shown": shown})], step)
    recovered = Reached.of(ledger.head())
    if known is None:
        head_file.replace(recovered)
    else:
        head_file.advance(recovered)


def _cannot(why: str) -> IntegrityError:
    return IntegrityError(
        f"the ledger cannot be recovered: {why}; nothing was changed; restore the newest backup of database and "
        "folder together, or seal new rows"
    )
