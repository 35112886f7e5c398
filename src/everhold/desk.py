"""The desk: where questions are priced, looked at on the sealed rows, and answered in one transaction of the ledger."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.allotments import (
    SPENT,
    Answering,
    Pricing,
    allotment_of,
    check_all_affordable,
    left_to,
    may_be_answered,
    spend,
)
from everhold.answering import answer_from, refusal_of, source_name
from everhold.configuration import bound_state, state_from
from everhold.errors import BudgetExhausted, QueryRejected
from everhold.joint import BudgetEndsBetween, KnownPart, joint_answer, joint_shares, stored_estimate
from everhold.ledger import Outcome, Question
from everhold.ledger.allotments import ANALYST, Accounts
from everhold.mechanisms import Quote, Source, State
from everhold.preparation import Preparation, Prepared, paying
from everhold.privacy.noise import Noise, SecureNoise, SeededNoise
from everhold.purchases.base import Drawn, PricedQuery, Purchase, Result
from everhold.queries.evaluation import Evaluations

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from numpy.typing import NDArray

    from everhold.answers import Answer, Shares
    from everhold.keys import StewardKey
    from everhold.ledger import Committed, HoldoutRecord, LedgerStore
    from everhold.mechanisms import Mechanism, Promise
    from everhold.queries.base import BoundQuery, Schema
    from everhold.queries.derived import BoundDerived, DerivedQuery
    from everhold.queries.histogram import HistogramQuery
    from everhold.rows.table import StoredRows

__all__ = ["Desk", "check_not_refused", "noise_of"]

_REFUSED = "the budget is spent and the question was refused; seal new rows"
_MOST_SHOWN = 300  # characters of a question that the ledger keeps for people


@dataclass(frozen=True, kw_only=True)
class Desk:
    """One holdout at work: its ledger, its mechanism and its rows, for the steward or for one analyst.

    Attributes:
        store: The open ledger.
        record: What it says of the holdout.
        mechanism: The mechanism that answers.
        schema: What may be known about the rows.
        key: The steward's key.
        sealed: The sealed rows.
        training: The training rows, if there are any.
        analyst: On whose behalf it is asked; None for the steward.
    """

    store: LedgerStore
    record: HoldoutRecord
    mechanism: Mechanism
    schema: Schema
    key: StewardKey
    sealed: StoredRows
    training: StoredRows | None
    analyst: str | None = None

    def close(self) -> None:
        """Close the database and the engines."""
        self.store.close()
        self.sealed.close()
        if self.training is not None:
            self.training.close()

    def on_behalf_of(self, analyst: str) -> Self:
        """The same desk for an analyst, who can spend no more than their allotment.

        Raises:
            QueryRejected: If there is no allotment of that name.
        """
        allotment_of(Accounts.from_state(self.data()), analyst)
        return replace(self, analyst=analyst)

    @cached_property
    def promise(self) -> Promise:
        """The promise of all answers; the same as long as the desk is there, and costly for every answer."""
        return self.mechanism.promise()

    def data(self) -> dict[str, Any]:
        """The ledger's present state; secret."""
        return self.store.head(self.record.id).state

    @property
    def preparation(self) -> Preparation:
        """Makes questions ready; looks at public facts and training rows only."""
        return Preparation(
            self.schema, self.mechanism, self.training,
            answered=lambda question: self.store.find(self.record.id, question) is not None,
            sealed_ids=None if (row_id := self.schema.row_id) is None else partial(self.sealed.row_ids, row_id),
        )  # fmt: skip

    def state(self) -> State:
        """The mechanism's present state; secret."""
        return self.state_from(self.data())

    def state_from(self, data: dict[str, Any]) -> State:
        """The mechanism's state out of the ledger's."""
        return state_from(data, self.record.configuration)

    def remaining(self, data: dict[str, Any]) -> dict[str, int]:
        """What is left of the budget, by name, in a state of the ledger; for an analyst what is left to them."""
        state = self.state_from(data)
        if self.analyst is None:
            return self.mechanism.remaining(state)
        return left_to(allotment_of(Accounts.from_state(data), self.analyst), self.mechanism, state)

    def ask_prepared(self, prepared: Sequence[Prepared]) -> list[Answer]:
        """Answers to questions that do not depend on each other's answers, in one transaction."""
        committed = self._commit(prepared)
        said: dict[str, Any] = {
            "remaining": self.remaining(self._data_after(committed)) if committed else {},
            "statement": self.promise.statement,
            "analyst": self.analyst,
        }
        return [
            refusal_of(question.bound.question, self.mechanism, **said)
            if entry is None
            else answer_from(question.bound, entry, self.mechanism, **said)
            for question, entry in zip(prepared, committed, strict=True)
        ]

    def _data_after(self, committed: Sequence[Committed | None]) -> dict[str, Any]:
        """The ledger's state after a transaction; the present one if it recorded nothing."""
        states = (entry.state_after for entry in committed if entry is not None)
        return next(states, None) or self.data()

    def _commit(self, prepared: Sequence[Prepared], *, together: bool = False) -> list[Committed | None]:
        """Answer in one transaction; ``together`` raises `BudgetEndsBetween` unless all are sure to be answered."""
        questions = [Question(question.bound.question, _described(question.bound)) for question in prepared]

        def pricing(state: State) -> Quote:
            wished = [question.tolerance for question in prepared if not np.isnan(question.tolerance)]
            quotes = [paying(self.mechanism).quote_at(state, tolerance) for tolerance in wished]
            return max(quotes, key=lambda price: price.charged_at_most, default=self.mechanism.quote(state))

        ready = self._ready(questions, pricing, together=together)
        asked = [prepared[index] for index in ready]
        answer = self._answering(asked, ready) if asked else None
        return self._transact(questions, set(ready), pricing, answer, together=together)

    def _answering(self, prepared: Sequence[Prepared], ready: Sequence[int]) -> Answering:
        """Looks at the sealed rows; the mechanism's answers then come in the ledger's transaction."""
        bound = [question.bound for question in prepared]
        place = {position: row for row, position in enumerate(ready)}
        evaluations = Evaluations(
            totals=self.sealed.totals(bound, parts=self.mechanism.parts, unit=self.mechanism.unit),
            guesses=np.array([question.guess for question in prepared], dtype=np.int64),
            rows=self.schema.rows,
            unit=self.mechanism.unit,
            tolerances=_tolerances(prepared),
        )

        return lambda state, new: self._step(state, evaluations, prepared, [place[position] for position in new])

    def _ready(self, questions: Sequence[Question], pricing: Pricing, *, together: bool = False) -> list[int]:
        """Positions of the questions for which the sealed rows are looked at: those that may be answered.

        An allotment that is spent shows in public state, so its refusals need no look. The transaction decides.
        """
        if self.analyst is None:
            return list(range(len(questions)))
        stored = self.store.answered(self.record.id, questions)
        first = {question.fingerprint: index for index, question in reversed(list(enumerate(questions)))}
        fresh = sorted(index for fingerprint, index in first.items() if fingerprint not in stored)
        data = self.data()
        state, accounts = self.state_from(data), Accounts.from_state(data)
        if together:
            check_all_affordable(state, accounts, self.analyst, len(fresh), mechanism=self.mechanism)
        return fresh[: may_be_answered(allotment_of(accounts, self.analyst), state, pricing)]

    def _transact(
        self, questions: Sequence[Question], ready: set[int], pricing: Pricing, answer: Answering | None, *,
        together: bool = False,
    ) -> list[Committed | None]:  # fmt: skip
        """The one way to an answer: spending, also the analyst's, is checked and recorded in the same transaction."""

        def step(data: dict[str, Any], new: list[int]) -> tuple[dict[str, Any], list[Outcome | None]]:
            state, accounts = self.state_from(data), Accounts.from_state(data)
            if together:
                check_all_affordable(state, accounts, self.analyst, len(new), mechanism=self.mechanism)
            can_be = [position for position in new if position in ready]
            if answer is None:
                return data, [None] * len(new)
            if self.analyst is None:
                state, made = answer(state, new)
                outcomes: list[Outcome | None] = [*made]
            else:
                state, some = spend(state, accounts, self.analyst, can_be, pricing=pricing, answer=answer)
                by_position = dict(zip(can_be, some, strict=True))
                outcomes = [by_position.get(position) for position in new]
            return accounts.into(bound_state(state, self.record.configuration)), outcomes

        named = [Question(question.fingerprint, self._signed(question.description)) for question in questions]
        return self.store.commit(self.record.id, named, step, seal_key=self.key.seal_key)

    def _signed(self, description: dict[str, Any]) -> dict[str, Any]:
        """A description with the analyst's name, which is no part of the question's identity."""
        own = {name: value for name, value in description.items() if name != ANALYST}
        return own if self.analyst is None else {**own, ANALYST: self.analyst}

    def prepare_purchase(
        self, query: PricedQuery[Result], guess: float | None, tolerance: float | None
    ) -> Purchase[Any, Result]:
        """A question with a price of its own, ready to be answered."""
        paying(self.mechanism)
        if guess is not None or tolerance is not None:
            raise QueryRejected(
                f"a {type(query).__name__} takes no guess and no tolerance here; expected ask(query), with what "
                "sharpens the answer in the query itself; nothing was charged"
            )
        return query.purchase(self.preparation)

    def buy(self, purchase: Purchase[Any, Result], *, strict: bool = False) -> Result:
        """One draw of its own, in one transaction with what it costs."""
        mechanism = paying(self.mechanism)
        asked = [Question(purchase.question, {**purchase.description, "shown": purchase.shown[:_MOST_SHOWN]})]

        def pricing(state: State) -> Quote:
            price = purchase.price(mechanism).charged
            return Quote(None, None, price, price, refused=not mechanism.can_pay(state, price))

        ready = self._ready(asked, pricing)
        seen = purchase.look(self.sealed, mechanism.unit) if ready else None

        def answer(state: State, _: list[int]) -> tuple[State, list[Outcome]]:
            noise = noise_of(self.record.configuration["seed"], asked=state.asked)
            drawn = purchase.draw(mechanism, state, seen, noise)
            return drawn.state, [Outcome(drawn.answer, drawn.charged)]

        committed = self._transact(asked, set(ready), pricing, answer if ready else None)
        data, entry = self._data_after(committed), committed[0]
        answered = Drawn.refused(self.state_from(data)).answer if entry is None else entry.answer
        result = purchase.result(
            answered,
            charged=0 if entry is None else entry.charged,
            remaining=self.remaining(data),
            question=purchase.question,
            repeated=entry is not None and entry.repeated,
            confidence=mechanism.confidence,
        )
        if strict and answered["source"] == "refused":
            raise BudgetExhausted(_REFUSED if self.analyst is None else SPENT, **result.to_dict())
        return result

    def ask_derived(self, query: DerivedQuery, guess: float | None) -> Answer:
        """All parts in one transaction, and the interval that follows from theirs."""
        bound, prepared = self.prepare_derived(query, guess)
        refused = any(part.refused for part in self.known(prepared))
        try:
            committed = [] if refused else self._commit(prepared, together=True)
        except BudgetEndsBetween:
            committed = []
        refusal = refusal_of(
            bound.question, self.mechanism, remaining=self.remaining(self._data_after(committed)),
            statement=self.promise.statement, analyst=self.analyst,
        )  # fmt: skip
        return joint_answer(bound, [entry for entry in committed if entry is not None], refusal)

    def prepare_derived(
        self, query: DerivedQuery | HistogramQuery, guess: float | None
    ) -> tuple[BoundDerived, list[Prepared]]:
        """A question made of several and its parts, ready to be answered."""
        bound = query.bind(self.schema)
        if self.mechanism.one_sided:
            raise QueryRejected(
                f"{bound.name} is {bound.counted}, and {self.mechanism.name} bounds some answers from one side only; "
                "expected a single question; choose another mechanism when the rows are sealed; nothing was charged"
            )
        if guess is not None:
            raise QueryRejected(
                f"{bound.name} is {bound.counted} and takes no guess of the whole; ask its parts, which are "
                "query.parts(holdout.schema), with a guess each, and then the whole for nothing; nothing was charged"
            )
        return bound, self.preparation.prepare(bound.parts, None)

    def known(self, prepared: Sequence[Prepared]) -> list[KnownPart]:
        """What is known of the parts before they are asked."""
        known = []
        for part in prepared:
            entry = self.store.find(self.record.id, part.bound.question)
            refused = entry is not None and entry.answer["source"] == "refused"
            stored = None if entry is None or refused else stored_estimate(entry.answer)
            guess = None if part.guess < 0 else part.guess / self.mechanism.steps
            known.append(KnownPart(part.bound.question, stored, guess, refused))
        return known

    def shares(self, query: HistogramQuery, *, guess: float | None, strict: bool) -> Shares:
        """One answer for each bin, with intervals made narrower by the fact that shares sum to 1."""
        _, prepared = self.prepare_derived(query, guess)
        answers = self.ask_prepared(prepared)
        check_not_refused(answers, strict=strict)
        return joint_shares(query.shares(self.schema), answers, missing=query.missing)

    def _step(
        self, state: State, evaluations: Evaluations, prepared: Sequence[Prepared], new: list[int]
    ) -> tuple[State, list[Outcome]]:
        batch = Evaluations(
            totals=evaluations.totals[new],
            guesses=evaluations.guesses[new],
            rows=evaluations.rows,
            unit=evaluations.unit,
            tolerances=None if evaluations.tolerances is None else evaluations.tolerances[new],
        )
        noise = noise_of(self.record.configuration["seed"], asked=state.asked)
        state, replies = self.mechanism.answer_many(state, batch, noise)
        columns = zip(
            replies.values.tolist(), replies.lows.tolist(), replies.highs.tolist(), replies.sources.tolist(),
            replies.charged.tolist(), new, strict=True,
        )  # fmt: skip
        outcomes = [
            Outcome(
                answer={
                    "value": None if source == Source.REFUSED else value,
                    "low": None if source == Source.REFUSED else low,
                    "high": None if source == Source.REFUSED else high,
                    "source": source_name(source, from_training=prepared[index].from_training),
                },
                charged=charged,
            )
            for value, low, high, source, charged, index in columns
        ]
        return state, outcomes


def _tolerances(prepared: Sequence[Prepared]) -> NDArray[np.float64] | None:
    """What the questions wish for; None where all are content with the planned half-width."""
    wished = np.array([question.tolerance for question in prepared])
    return None if np.all(np.isnan(wished)) else wished


def noise_of(seed: int | None, *, asked: int) -> Noise:
    """Secure noise; with a seed, noise that differs from answer to answer and can be repeated."""
    return SecureNoise() if seed is None else SeededNoise(seed * 2**32 + asked + 1)


def _described(bound: BoundQuery) -> dict[str, Any]:
    return {**bound.description, "shown": bound.shown[:_MOST_SHOWN]}


def check_not_refused(answers: Sequence[Answer], *, strict: bool) -> None:
    """Raise `BudgetExhausted` for a refused answer if that is wished."""
    for answer in answers:
        if strict and answer.source == "refused":
            raise BudgetExhausted(_REFUSED if answer.analyst is None else SPENT, **answer.to_dict())
