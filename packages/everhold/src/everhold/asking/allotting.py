"""Allotments: parts of the budget that the steward gives to named analysts, recorded in the ledger."""

from __future__ import annotations

import operator
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from everhold.arguments import brief
from everhold.asking.budget import checked_name, refuse_look_alikes
from everhold.asking.query_executor import CLOSED_STUDY, QueryExecutor
from everhold.display import Listing, left_in_words
from everhold.errors import EverholdWarning, QueryRejected, warn_caller
from everhold.ledger import EntryDraft, Outcome
from everhold.ledger.acts import ACT, ANALYST, MOST, Accounts, Allotment
from everhold.ledger.store import all_entries
from everhold.mechanisms import Mechanism, State
from everhold.strict_json import digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Allotments(Listing):
    """The budgets allotted to analysts, and the part of the holdout's budget that is not allotted.

    Attributes:
        parts: Allotment of each analyst, in the order of their first allotment.
        not_allotted: What is left of each part of the budget, such as ``{"queries": 99, "surprises": 2}``, minus all
            that analysts can still spend.
        acts: The steward's acts in order: sequence, asked_at, analyst, queries, charges.
    """

    rows_in: ClassVar[str] = "parts"
    rows_called: ClassVar[str] = "allotments"

    parts: Sequence[Allotment]
    not_allotted: Mapping[str, int]
    acts: Sequence[Mapping[str, Any]]

    def __getitem__(self, analyst: str) -> Allotment:
        return next(part for part in self.parts if part.analyst == analyst)

    def _headline(self) -> str:
        return f"not allotted: {left_in_words(self.not_allotted)}"


def allot(executor: QueryExecutor, analyst: str, *, queries: int, charges: int | None) -> Allotment:
    """Set the budget of one analyst for `everhold.Holdout.allot`, and return the analyst's allotment."""
    executor.check_steward("allot")
    analyst = checked_name(analyst)
    most, planned = _limit("queries", queries), max(executor.mechanism.quote(State()).charged_at_most, 1)
    charges = min(most * planned, MOST) if charges is None else _limit("charges", charges)

    act = {"kind": ACT, ANALYST: analyst, "queries": most, "charges": charges, "act": secrets.token_hex(16)}
    draft = EntryDraft(digest(act), {**act, "shown": f"allotment for {analyst!r}"})
    with executor.ledger.transaction([draft]) as transaction:
        accounts = Accounts.from_state(transaction.head.state)
        if accounts.closed:
            raise QueryRejected(CLOSED_STUDY)
        before = accounts.parts.get(analyst)
        if before is None:
            refuse_look_alikes(analyst, accounts.parts, of="analyst")
        if before is None or (before.queries, before.charges) != (most, charges):
            try:
                accounts.allot(analyst, most, charges)
            except ValueError as fault:
                raise QueryRejected(f"{fault}. Pass limits of at least these amounts.") from None
            transaction.record(accounts.into(transaction.head.state), [Outcome.of_act(ACT)])
    head = transaction.head
    _warn_of_promises(head.accounts, executor.mechanism, executor.state_from(head))
    return head.accounts.parts[analyst]


def allotments_of(executor: QueryExecutor) -> Allotments:
    """Return the allotments of all analysts for `everhold.Holdout.allotments`."""
    head = executor.ledger.head()
    acts = [
        {"sequence": entry.sequence, "asked_at": entry.asked_at,
         **{name: entry.description[name] for name in (ANALYST, "queries", "charges")}}
        for entry in all_entries(executor.ledger, head.sequence) if entry.answer["source"] == ACT
    ]  # fmt: skip
    left = _beyond(head.accounts, executor.mechanism, executor.state_from(head))
    return Allotments(tuple(head.accounts.parts.values()), {name: max(count, 0) for name, count in left.items()}, acts)


def _limit(what: str, value: int) -> int:
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number <= MOST:
        raise ValueError(f"{what} is {brief(value)}. Pass a whole number from 0 to {MOST:,}.")
    return number


def _warn_of_promises(accounts: Accounts, mechanism: Mechanism, state: State) -> None:
    """Warn if analysts together can spend more than the budget has left."""
    beyond = _beyond(accounts, mechanism, state)
    missing = [name for name, count in beyond.items() if count < 0]
    if missing:
        warn_caller(EverholdWarning(
            f"The allotments of all analysts together are more {' and '.join(missing)} "
            "than the budget has left. Those who ask first are served first."
        ))  # fmt: skip


def _beyond(accounts: Accounts, mechanism: Mechanism, state: State) -> dict[str, int]:
    """Return the remaining budget minus all that analysts can still spend, by name. A number can be negative."""
    whole, parts = mechanism.remaining(state), accounts.parts.values()
    owed = {
        "queries": sum(part.queries - part.asked for part in parts),
        "charges": sum(part.charges - part.charged for part in parts),
    }
    return {name: count - owed["queries" if name == "queries" else "charges"] for name, count in whole.items()}
