"""Long queries: each round is evaluated first and then one transaction; mostly one round is enough."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from everhold.errors import EverholdError
from everhold.progress import progress
from everhold.queries.query import IN_ONE_TRANSACTION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everhold.asking.query_executor import Execution
    from everhold.ledger import Committed, Head

__all__ = ["ask_in_rounds"]


def ask_in_rounds(work: Execution) -> tuple[dict[str, Any], list[Committed | None]]:
    """Answer a long query; the ledger's state afterwards, and the entries.

    The budget for later entries depends on the charges of earlier ones. An interruption keeps the rounds that are
    complete; each entry is both answered and charged, or neither. Where a pass over the rows is expensive, as in an
    engine elsewhere, one pass also evaluates the entries that later rounds may answer; those that are refused then
    are forgotten.
    """
    ledger = work.executor.ledger
    entries: list[Committed | None] = [None] * len(work.drafts)
    row_of, seen, data, turn = dict[int, int](), None, dict[str, Any](), [0]
    with progress("asking", len(entries)) as line:
        while turn and None in entries:
            order, turn, ahead = _next_turn(work, entries)
            if not {*turn} <= row_of.keys():
                row_of = dict(zip(ahead, range(len(ahead)), strict=True))
                seen, _ = work.evaluate(ahead)
            with ledger.transaction([work.drafts[place] for place in order]) as transaction:
                new = [order[index] for index in transaction.new]
                evaluated = [place for place in new if turn and place in row_of]
                evaluate = partial(_evaluated, row_of, seen)
                work.answer(transaction, new, evaluated, evaluate, most=len(new))
            for place, entry in zip(order, transaction.committed, strict=True):
                entries[place] = entry
            line(len(entries) - entries.count(None))
            data = transaction.state
    return data or ledger.head().state, entries


def _evaluated(row_of: dict[int, int], seen: Any, places: Sequence[int]) -> tuple[Any, list[int]]:
    """Earlier evaluations, and their rows for these places."""
    return seen, [row_of[place] for place in places]


def _next_turn(work: Execution, entries: Sequence[Committed | None]) -> tuple[list[int], list[int], list[int]]:
    """Places of the entries of the next transaction, of those that have a turn there, and of what is looked at.

    Nothing has a turn, and nothing is looked at, if the next new entry is not surely paid for.
    """
    plan, executor, order, first = work.plan, work.executor, list[int](), dict[str, int]()
    for place, line in enumerate(plan.asked):
        if entries[place] is None:
            order.append(place)
            first.setdefault(line.fingerprint, place)
    try:
        head, new, paid = _paid(work, first, read=False)
    except EverholdError:
        paid = 0
    if not paid:  # this process may not know the newest state
        head, new, paid = _paid(work, first, read=True)
    most = paid if plan.whole else min(paid, plan.at_once, IN_ONE_TRANSACTION)
    ahead = turn = new[:most]
    if turn and not plan.whole and executor.sealed.reads_ahead:
        may_be = executor.remaining(head.state).get("queries", paid)
        ahead = new[: max(min(may_be, plan.at_once), most)]
        turn = ahead[:IN_ONE_TRANSACTION]
    later = {plan.asked[place].fingerprint for place in new[len(turn) :]}
    return [place for place in order if plan.asked[place].fingerprint not in later], turn, ahead


def _paid(work: Execution, first: Mapping[str, int], *, read: bool) -> tuple[Head, list[int], int]:
    """The head, places of new entries among these, and how many of them are surely paid for.

    Args:
        work: The query.
        first: Place of each entry by its fingerprint.
        read: False for what this process has seen of the ledger.
    """
    head, stored = work.executor.ledger.look_up([*first], read=read)
    new = [place for fingerprint, place in first.items() if fingerprint not in stored]
    return head, new, work.paid(*work.opened(head.state, new=len(new)), len(new))
