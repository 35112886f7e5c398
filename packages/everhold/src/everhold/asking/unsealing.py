"""Unsealing, the end of a study: all sealed numbers are revealed, and no new query is answered (S8).

Each query has a sealed interval of its own. All these intervals contain their population values together, whatever
analysts were told of them. When no further query can depend on them, all of them can be revealed exactly. So the entry
that reveals them also closes the ledger, in the same transaction.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from everhold.answers import UNSEALED, Unsealed
from everhold.asking.query_executor import QueryExecutor, noise_for
from everhold.errors import EverholdWarning, IntegrityError, QueryRejected, warn_caller
from everhold.estimand import ABOUT, about_of
from everhold.ledger import Entry, EntryDraft, HoldoutRecord, LedgerStore, Outcome, verify
from everhold.ledger.acts import ANALYST, CLOSED, DISCLOSED, RECOVERY, UNSEALING, Accounts
from everhold.ledger.head_file import HeadFile, Reached
from everhold.ledger.store import all_entries
from everhold.mechanisms import State
from everhold.progress import progress
from everhold.queries.query import NOT_UNSEALABLE, rows_of
from everhold.sealing.configuration import mechanism_from
from everhold.sealing.resealing import also_sealed_as
from everhold.sealing.storage import KEY_FILE, StewardKey
from everhold.strict_json import digest
from everhold.values.units import in_own_units

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from everhold.ledger.chain import Numbers


def unseal(executor: QueryExecutor, *, before: Callable[[], None] | None = None) -> Unsealed:
    """Reveal all sealed numbers and close the study, in one transaction. A repeated call returns the same numbers.

    Args:
        executor: Executor of the open holdout.
        before: Function that is called after all checks and before the unsealing, to ask silent queries.

    Raises:
        QueryRejected: If the study cannot be unsealed. Nothing was told or changed.
        IntegrityError: If the ledger was altered. Nothing was told or changed.

    Warns: EverholdWarning: If other holdouts lose their promise. The warning comes before anything is revealed.
    """
    _check(executor)
    if not executor.ledger.head().accounts.closed:
        for text in affected_holdouts(executor):
            warn_caller(EverholdWarning(text))
        if before is not None:
            before()
    public = {"kind": UNSEALING, "act": secrets.token_hex(16)}
    act = EntryDraft(digest(public), {**public, "shown": "the study is unsealed and closed"})
    with executor.ledger.transaction([act], alone=True) as transaction:
        accounts, entries = Accounts.from_state(transaction.head.state), transaction.earlier()
        if not accounts.unsealings:
            told: list[tuple[int, Numbers]] = []
            with progress("opening envelopes", len(entries)) as line:
                for done, entry in enumerate(entries):
                    line(done)
                    if (numbers := executor.ledger.sealed_of(entry.query, entry.answer)) is not None:
                        told.append((entry.sequence, numbers))
            if not told:
                raise QueryRejected("No query was asked whose sealed value could be told. Ask queries first.")
            accounts.unseal()
            lines = [[sequence, *numbers] for sequence, numbers in told]
            outcome = Outcome.of_act(UNSEALING, {DISCLOSED: lines})
            transaction.record(accounts.into(transaction.head.state), [outcome])
    return _result(executor)


def _check(executor: QueryExecutor) -> None:
    executor.check_steward("unseal the study")
    if executor.mechanism.traits.unsealable:
        return
    name = executor.mechanism.name
    why = (
        f"The guarantee of {name} comes from noise, and exact numbers would have no guarantee"
        if executor.mechanism.traits.adds_noise
        else f"This holdout has the mechanism {name}, and {NOT_UNSEALABLE}"
    )
    raise QueryRejected(
        f"{why}. Only a holdout whose queries have intervals of their own, such as one "
        "with guess_and_check, can be unsealed."
    )


def disclosed(entries: Sequence[Entry]) -> dict[int, Numbers]:
    """Return the numbers that the study's unsealing revealed, by the number of their entry.

    Empty before the unsealing.
    """
    told = {}
    for entry in entries:
        if entry.answer["source"] == UNSEALING:
            told.update({sequence: (mean, low, high) for sequence, mean, low, high in entry.answer[DISCLOSED]})
    return told


def as_row(entry: Entry, numbers: Numbers) -> Numbers:
    """Return unsealed numbers on the scale of their ledger entry: for a challenge, gains in [-1, 1].

    The ledger keeps the mean of ``(1 + gain) / 2``; margin and lower limit of a challenge are gains.
    """
    if entry.description.get("kind") != "challenge":
        return numbers
    value, low, high = numbers
    return 2.0 * value - 1.0, max(_gain(low, towards=-2.0), -1.0), min(_gain(high, towards=2.0), 1.0)


def _gain(mean: float, *, towards: float) -> float:
    """Return the gain of a mean. If floating point cannot hold it, it is rounded in the direction of `towards`."""
    gain = 2.0 * mean - 1.0
    return gain if gain + 1.0 == 2.0 * mean else math.nextafter(gain, towards)


def disclosed_at(executor: QueryExecutor, sequence: int | None) -> dict[int, Numbers]:
    """Return the numbers that an unsealing revealed, by the number of the ledger entry to which they belong."""
    return {} if sequence is None else disclosed([*executor.ledger.entries(sequence - 1, 1)])


def _result(executor: QueryExecutor) -> Unsealed:
    head = executor.ledger.head()
    entries = all_entries(executor.ledger, head.sequence)
    told = disclosed(entries)
    queries = [entry for entry in entries if not entry.is_act]
    named = any(ANALYST in entry.description for entry in queries)
    about = {entry.sequence: about_of(executor.schema, by_position=ABOUT in entry.description) for entry in queries}
    arrived = any(rows_of(entry.answer) for entry in queries)
    rows: list[dict[str, Any]] = [
        in_own_units({
            "sequence": entry.sequence,
            "query": entry.query,
            "asked": entry.description["shown"],
            **dict(zip(UNSEALED, as_row(entry, told[entry.sequence]), strict=True)),
            **({ANALYST: entry.description.get(ANALYST)} if named else {}),
            **({ABOUT: about[entry.sequence]} if any(about.values()) else {}),
            **({"rows": rows_of(entry.answer)} if arrived else {}),
        }, entry.description, row_step=executor.mechanism.row_step)
        for entry in queries if entry.sequence in told
    ]  # fmt: skip
    return Unsealed(
        rows,
        not_kept=len(queries) - len(rows),
        lost=head.accounts.lost.queries,
        unsealed_at=next(entry.asked_at for entry in entries if entry.answer["source"] == UNSEALING),
        confidence=executor.mechanism.confidence,
        statement=executor.promise.statement,
    )


def affected_holdouts(executor: QueryExecutor) -> list[str]:
    """List the other holdouts whose guarantee ends if this one is unsealed, in sentences.

    Raises:
        QueryRejected: If this holdout cannot be unsealed.
    """
    _check(executor)
    said = []
    if same := also_sealed_as(executor.store, executor.record):
        said.append(
            f"the same rows, or most of them, are sealed as {_listed(same)}, too: with these numbers in hand nothing "
            "is promised there about any new query"
        )
    order = executor.record.configuration["dependence"].get("order_by")
    others = [] if order is None else [each for each in executor.store.records() if each.name != executor.record.name]
    series = [other.name for other in others if other.configuration["dependence"].get("order_by") == order]
    if series:
        said.append(
            f"{_listed(series)} may hold a block of the same series: unless unseen rows were left out "
            "between both, these numbers tell about the rows there, and nothing is promised about any new query"
        )
    return said


def _listed(names: Sequence[str]) -> str:
    return " and ".join(map(repr, names))


# Continuing with a ledger that was set back: answers that it has lost count as spent.


def recover_ledger(store: LedgerStore, record: HoldoutRecord, folder: Path) -> None:
    """Count lost answers as spent, in an entry of the ledger. If nothing was lost, nothing is recorded.

    The newest head in the head file has the numbers of answered queries and of charges, so the mechanism continues as
    if it had answered the lost queries. If the head file is lost too, the numbers are unknown, and the whole remaining
    budget counts as spent. The unspent parts of allotments are removed, because it is unknown which analyst spent them.
    If the lost part of the ledger contained the unsealing, the study stays closed.

    Raises:
        IntegrityError: If the database was altered or diverged, or if the mechanism cannot continue.
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
    state = State.of(head.state, record.settings)
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

    with ledger.transaction([EntryDraft(digest(public), {**public, "shown": shown})]) as transaction:
        if transaction.head.state != head.state:
            raise _cannot("another process recovered it at the same time")
        accounts = Accounts.from_state(head.state)
        accounts.recover(queries, charges, generation=generation, closed=closed)
        after_loss = accounts.into(after.bound(record.settings))
        transaction.record(after_loss, [Outcome.of_act(RECOVERY, charged=charges)])
    recovered = Reached.of(transaction.head)
    if known is None:
        head_file.replace(recovered)
    else:
        head_file.advance(recovered)


def _cannot(why: str) -> IntegrityError:
    return IntegrityError(
        f"The ledger cannot be recovered: {why}. Restore the newest backup of database and "
        "folder together, or seal new rows."
    )
