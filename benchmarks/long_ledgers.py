"""Long ledgers to measure: entries of a real holdout, written by its own ledger, with made-up answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from everhold import Holdout
from everhold.ledger import EntryDraft, Outcome
from everhold.ledger.ledger import SEALED_VALUE
from everhold.progress import progress
from everhold.sealing.configuration import bound_state
from everhold.sealing.intake.request import Planning
from everhold.strict_json import digest

__all__ = ["lengthen", "short_ledger"]

ROWS = 2_000
_AT_ONCE = 10_000  # entries of one transaction


def short_ledger(storage: str, *, queries: int) -> None:
    """A holdout in which one query was asked, and so many may be."""
    rng = np.random.default_rng(7)
    rows, training = ({"x": rng.uniform(size=ROWS), "y": rng.integers(0, 2, ROWS)} for _ in range(2))
    with Holdout.create(
        storage, "long", holdout=rows, training=training, label="y", queries=queries, surprises=20,
        mechanism="guess_and_check", planning=Planning(allow_vacuous=True),
    ) as holdout:  # fmt: skip
        holdout.ask("x > 0.5")


def lengthen(holdout: Holdout, entries: int) -> None:
    """Let the ledger have so many entries.

    They are the first one under other fingerprints, sealed and chained by the ledger itself, so all of it verifies.
    """
    executor = holdout._executor
    first = next(executor.ledger.entries(limit=1))
    numbers = executor.ledger.sealed_of(first.query, first.answer)
    answer = {name: value for name, value in first.answer.items() if name != SEALED_VALUE}
    with progress("writing entries", entries) as line:
        while (at := executor.ledger.head().sequence) < entries:
            made = range(at + 1, min(at + _AT_ONCE, entries) + 1)
            described = [first.description | {"shown": f"mean of x > 0.{number:07d}"} for number in made]
            queries = [EntryDraft(digest(description), description) for description in described]
            with executor.ledger.transaction(queries) as transaction:
                state = executor.state_from(transaction.head)
                after = bound_state(replace(state, asked=state.asked + len(made)), executor.record.configuration)
                outcomes = [Outcome(answer, 0, numbers)] * len(made)
                transaction.record(transaction.head.accounts.into(after), outcomes)
            line(made.stop - 1)
