"""Long ledgers to measure: entries of a real holdout, written by its own ledger, with made-up answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from everhold import Holdout
from everhold.ledger import Outcome, Question
from everhold.ledger.allotments import Accounts
from everhold.ledger.envelopes import ENVELOPE
from everhold.progress import progress
from everhold.questions.question import digest
from everhold.sealing.configuration import bound_state

__all__ = ["lengthen", "short_ledger"]

ROWS = 2_000
_AT_ONCE = 10_000  # entries of one transaction


def short_ledger(storage: str, *, questions: int) -> None:
    """A holdout in which one question was asked, and so many may be."""
    rng = np.random.default_rng(7)
    rows, training = ({"x": rng.uniform(size=ROWS), "y": rng.integers(0, 2, ROWS)} for _ in range(2))
    with Holdout.create(
        storage, "long", holdout=rows, training=training, label="y", queries=questions, overfits=20,
        mechanism="guess_and_check", allow_vacuous=True,
    ) as holdout:  # fmt: skip
        holdout.ask("x > 0.5")


def lengthen(holdout: Holdout, entries: int) -> None:
    """Let the ledger have so many entries.

    They are the first one under other fingerprints, sealed and chained by the ledger itself, so all of it verifies.
    """
    desk = holdout._desk
    first = next(desk.ledger.entries(limit=1))
    numbers = desk.ledger.sealed_of(first.question, first.answer)
    answer = {name: value for name, value in first.answer.items() if name != ENVELOPE}
    with progress("writing entries", entries) as line:
        while (at := desk.head().sequence) < entries:
            made = range(at + 1, min(at + _AT_ONCE, entries) + 1)
            described = [first.description | {"shown": f"mean of x > 0.{number:07d}"} for number in made]
            questions = [Question(digest(description), description) for description in described]
            with desk.ledger.writing(questions) as page:
                state = desk.state_from(page.state)
                after = bound_state(replace(state, asked=state.asked + len(made)), desk.record.configuration)
                outcomes = [Outcome(answer, 0, numbers)] * len(made)
                page.record(Accounts.from_state(page.state).into(after), outcomes)
            line(made.stop - 1)
