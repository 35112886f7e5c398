"""The end of a study: every sealed number is told at once, and no new query is answered any more (S8).

Every query that was asked has an interval of its own that contains the population's value, together with all others,
whatever was told of it. Once no further query can depend on them, all of these intervals can be told exactly. So the
entry that tells them closes the ledger in the same transaction.
"""

from __future__ import annotations

import math
import secrets
from typing import TYPE_CHECKING, Any

from everhold.answers import UNSEALED, Unsealed
from everhold.errors import EverholdWarning, QueryRejected, warn_caller
from everhold.estimand import ABOUT, about_of
from everhold.ledger import EntryDraft, Outcome
from everhold.ledger.allotments import ANALYST, DISCLOSED, UNSEALING, Accounts
from everhold.ledger.store import all_entries
from everhold.progress import progress
from everhold.queries.query import digest, rows_of
from everhold.queries.query_compiler import NOT_UNSEALABLE
from everhold.sealing.duplicates.resealing import also_sealed_as
from everhold.values.units import in_own_units

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from everhold.asking.query_executor import QueryExecutor
    from everhold.ledger import Entry, Ledger
    from everhold.ledger.sealed_values import Numbers

__all__ = ["affected_holdouts", "as_row", "disclosed", "disclosed_at", "unseal"]

_CHANGED_NOTHING = "nothing was told or changed"


def unseal(executor: QueryExecutor, *, before: Callable[[], None] | None = None) -> Unsealed:
    """Tell all sealed numbers and close the study, in one transaction; what was told once is told again.

    Args:
        executor: The holdout at work.
        before: What is to be asked silently first, when nobody has an objection.

    Raises:
        QueryRejected: If it cannot be unsealed. Nothing was told or changed.
        IntegrityError: If the ledger is not what was written. Nothing was told or changed.

    Warns:
        EverholdWarning: If other holdouts lose their promise; before anything is told.
    """
    _check(executor)
    if not Accounts.from_state(executor.ledger.head().state).closed:
        for text in affected_holdouts(executor):
            warn_caller(EverholdWarning(text))
        if before is not None:
            before()
    public = {"kind": UNSEALING, "act": secrets.token_hex(16)}
    act = EntryDraft(digest(public), {**public, "shown": "the study is unsealed and closed"})
    with executor.ledger.transaction([act]) as transaction:
        accounts, entries = Accounts.from_state(transaction.state), transaction.earlier()
        if not accounts.unsealings:
            told = _sealed_numbers(executor.ledger, entries)
            if not told:
                raise QueryRejected(
                    "there is no answer whose sealed numbers were kept; expected a study in which something was "
                    f"asked; {_CHANGED_NOTHING}"
                )
            accounts.unseal()
            transaction.record(accounts.into(transaction.state), [_outcome(told)])
    return _result(executor)


def _check(executor: QueryExecutor) -> None:
    if executor.analyst is not None:
        raise QueryRejected(
            "an analyst cannot unseal the study; expected the holdout itself, as the steward opens it; "
            f"{_CHANGED_NOTHING}"
        )
    if executor.mechanism.traits.unsealable:
        return
    name = executor.mechanism.name
    why = (
        f"the promise of {name} rests on noise, and exact numbers would have none"
        if executor.mechanism.traits.adds_noise
        else f"this is a holdout with {name}, and {NOT_UNSEALABLE}"
    )
    raise QueryRejected(
        f"{why}; expected a holdout whose queries have intervals of their own, such as guess_and_check; "
        f"{_CHANGED_NOTHING}"
    )


def _sealed_numbers(ledger: Ledger, entries: Sequence[Entry]) -> list[tuple[int, Numbers]]:
    """Stored numbers of the answers, by the number of the entry."""
    kept = []
    with progress("opening envelopes", len(entries)) as line:
        for done, entry in enumerate(entries):
            line(done)
            numbers = ledger.sealed_of(entry.query, entry.answer)
            if numbers is not None:
                kept.append((entry.sequence, numbers))
    return kept


def _outcome(told: Sequence[tuple[int, Numbers]]) -> Outcome:
    lines = [[sequence, *numbers] for sequence, numbers in told]
    return Outcome({"value": None, "low": None, "high": None, "source": UNSEALING, DISCLOSED: lines}, 0)


def disclosed(entries: Sequence[Entry]) -> dict[int, Numbers]:
    """Unsealed answers, by the number of the entry; empty if the study was not unsealed."""
    told = {}
    for entry in entries:
        if entry.answer["source"] == UNSEALING:
            told.update({sequence: (mean, low, high) for sequence, mean, low, high in entry.answer[DISCLOSED]})
    return told


def as_row(entry: Entry, numbers: Numbers) -> Numbers:
    """Unsealed numbers on the scale of their entry: of a challenge the mean gain in [-1, 1], ends rounded outwards.

    The ledger keeps the mean of ``(1 + gain) / 2``; margin and lower limit of a challenge are gains.
    """
    if entry.description.get("kind") != "challenge":
        return numbers
    value, low, high = (2.0 * number - 1.0 for number in numbers)
    return value, max(math.nextafter(low, -2.0), -1.0), min(math.nextafter(high, 2.0), 1.0)


def disclosed_at(executor: QueryExecutor, sequence: int | None) -> dict[int, Numbers]:
    """Answers unsealed by an entry of that number; empty without one."""
    return {} if sequence is None else disclosed([*executor.ledger.entries(sequence - 1, 1)])


def _result(executor: QueryExecutor) -> Unsealed:
    """The unsealed result, as the ledger holds it."""
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
        QueryRejected: If it cannot be unsealed.
    """
    _check(executor)
    said = []
    if same := also_sealed_as(executor.store, executor.record):
        said.append(
            f"the same rows, or most of them, are sealed as {_listed(same)}, too: with these numbers in hand nothing "
            "is promised there about any new query"
        )
    if series := _same_series(executor):
        said.append(
            f"{_listed(series)} may hold a block of the same series: unless unseen rows were left out "
            "between both, these numbers tell about the rows there, and nothing is promised about any new query"
        )
    return said


def _same_series(executor: QueryExecutor) -> list[str]:
    """Other holdouts of the storage whose rows are put in order by the same column, under a model of a series."""
    order = executor.record.configuration["dependence"].get("order_by")
    if order is None:
        return []
    others = [each for each in executor.store.records() if each.name != executor.record.name]
    return [other.name for other in others if other.configuration["dependence"].get("order_by") == order]


def _listed(names: Sequence[str]) -> str:
    return " and ".join(map(repr, names))
