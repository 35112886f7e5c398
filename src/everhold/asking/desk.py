"""The desk: where questions are priced, looked at on the sealed rows, and answered in one transaction of the ledger."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.asking.answering import answer_from, refusal_of, source_name
from everhold.asking.budget import (
    SPENT,
    Answering,
    Pricing,
    affordable,
    allotment_of,
    at_price,
    at_the_planned_price,
    check_all_affordable,
    left_to,
    spend,
)
from everhold.asking.joint import BudgetEndsBetween, KnownPart, joint_answer, joint_shares, stored_estimate
from everhold.errors import BudgetExhausted, QueryRejected
from everhold.estimand import about_of, marked
from everhold.ledger import Outcome, Question
from everhold.ledger.allotments import ANALYST, Accounts
from everhold.ledger.chain import canonical
from everhold.mechanisms import Source, State
from everhold.privacy.noise import KeyedNoise, Noise, SecureNoise, SeededNoise
from everhold.questions.preparation import Preparation, Prepared, paying
from everhold.questions.priced import Drawn, PricedQuery, Purchase, Result
from everhold.sealing.configuration import bound_state, state_from
from everhold.values.evaluation import Evaluations

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from numpy.typing import NDArray

    from everhold.answers import Answer, Shares
    from everhold.ledger import Committed, Entry, Head, HoldoutRecord, Ledger, LedgerStore
    from everhold.ledger.head_file import HeadFile
    from everhold.mechanisms import Mechanism, Promise
    from everhold.questions.derived import BoundDerived, DerivedQuery
    from everhold.questions.histogram import HistogramQuery
    from everhold.sealing.keys import StewardKey
    from everhold.sealing.table import StoredRows
    from everhold.values.base import BoundQuery, Schema

__all__ = ["Desk", "check_not_refused", "first_noise", "noise_for"]

_REFUSED = "the budget is spent and the question was refused; nothing was charged; seal new rows"
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
        head_file: The newest head of the ledger, beside the key.
        sealed: The sealed rows.
        training: The training rows, if there are any.
        analyst: On whose behalf it is asked; None for the steward.
    """

    store: LedgerStore
    record: HoldoutRecord
    mechanism: Mechanism
    schema: Schema
    key: StewardKey
    head_file: HeadFile
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
    def ledger(self) -> Ledger:
        """The ledger of this holdout."""
        return self.store.of(self.record, self.key.seal_key, self.head_file)

    @cached_property
    def promise(self) -> Promise:
        """The promise of all answers; the same as long as the desk is there, and costly for every answer."""
        return self.mechanism.promise()

    def head(self) -> Head:
        """Where the ledger stands; secret.

        Raises:
            IntegrityError: If the head was altered, or the database was set back.
        """
        return self.ledger.head()

    def data(self) -> dict[str, Any]:
        """The ledger's present state; secret."""
        return self.head().state

    def find(self, question: str) -> Entry | None:
        """The stored answer to a question, by its fingerprint; its seal is checked."""
        return self.ledger.find(question)

    @property
    def preparation(self) -> Preparation:
        """Makes questions ready; looks at public facts and training rows only."""
        return Preparation(
            self.schema, self.mechanism, self.training,
            answered=lambda question: self.find(question) is not None,
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
        """Answers to questions that do not depend on each other's answers, in order as far as the budget pays."""
        committed, data = self._commit(prepared)
        said: dict[str, Any] = {
            "remaining": self.remaining(data),
            "statement": self.promise.statement,
            "analyst": self.analyst,
        }
        return [
            refusal_of(question.bound.question, self.mechanism, about=self._about(question), **said)
            if entry is None
            else answer_from(question.bound, entry, self.mechanism, about=self._about(question), **said)
            for question, entry in zip(prepared, committed, strict=True)
        ]

    def _about(self, *prepared: Prepared) -> str | None:
        """What the answer to one question, or to one that is made of these, is about; None for the population."""
        return about_of(self.schema, by_position=any(question.bound.by_position for question in prepared))

    def _commit(
        self, prepared: Sequence[Prepared], *, together: bool = False
    ) -> tuple[list[Committed | None], dict[str, Any]]:
        """Entries of the questions, None where refused, and the ledger's state after them."""
        questions = [Question(question.bound.question, _described(question.bound)) for question in prepared]
        return self._answer(
            questions,
            self._pricing(prepared),
            look=lambda ready: self._answering([prepared[place] for place in ready]),
            together=together,
        )

    def _pricing(self, prepared: Sequence[Prepared]) -> Pricing:
        """What the dearest of the questions costs."""
        finest = min((question.tolerance for question in prepared if not np.isnan(question.tolerance)), default=None)
        if finest is None:
            return at_the_planned_price(self.mechanism)
        budget = paying(self.mechanism)
        return at_price(budget, budget.credits_for(budget.scale_for(finest)))

    def _answering(self, prepared: Sequence[Prepared]) -> Answering:
        """Looks at the sealed rows; the mechanism's answers then come in the ledger's transaction."""
        bound = [question.bound for question in prepared]
        evaluations = Evaluations(
            totals=self.sealed.totals(bound, parts=self.mechanism.parts, unit=self.mechanism.unit),
            guesses=np.array([question.guess for question in prepared], dtype=np.int64),
            rows=self.schema.rows,
            unit=self.mechanism.unit,
            tolerances=_tolerances(prepared),
        )
        return lambda state, new: self._step(state, evaluations, prepared, new)

    def _answer(
        self,
        questions: Sequence[Question],
        pricing: Pricing,
        look: Callable[[Sequence[int]], Answering],
        *,
        together: bool = False,
    ) -> tuple[list[Committed | None], dict[str, Any]]:
        """The one way to answers: in order, as far as public state says that they are surely paid for.

        What is a repeat, and what is refused, is decided before the sealed rows are looked at, and nothing about a
        refusal is recorded. How many of a batch are surely paid for may depend on the charges of the first of them, so
        it is asked in rounds, each one look and one transaction; mostly one is enough.

        Args:
            questions: As the ledger knows them.
            pricing: What the dearest costs.
            look: From positions of questions to what answers them; looks at the sealed rows.
            together: Raise `BudgetEndsBetween` unless all are surely answered.

        Returns:
            Entries in order, None where refused, and the ledger's state after the last of them.
        """
        committed: dict[int, Committed] = {}
        ready = [0]
        while ready and len(committed) < len(questions):
            places = [place for place in range(len(questions)) if place not in committed]
            asked = [questions[place] for place in places]
            ready = self._ready(asked, pricing, together=together)
            answer = look([places[index] for index in ready]) if ready else None
            entries = self._transact(asked, ready, pricing, answer, together=together)
            committed |= {place: entry for place, entry in zip(places, entries, strict=True) if entry is not None}
        last = next(reversed(committed.values()), None)
        data = self.data() if last is None else last.state_after
        return [committed.get(place) for place in range(len(questions))], data

    def _ready(self, questions: Sequence[Question], pricing: Pricing, *, together: bool) -> list[int]:
        """Positions of the questions for which the sealed rows are looked at: those that are new and surely paid for.

        From public state alone. The transaction decides again, and answers nothing that was not looked at.
        """
        head, stored = self.ledger.look_up([question.fingerprint for question in questions])
        first = {question.fingerprint: index for index, question in reversed(list(enumerate(questions)))}
        fresh = sorted(index for fingerprint, index in first.items() if fingerprint not in stored)
        state, accounts = self.state_from(head.state), Accounts.from_state(head.state)
        if together:
            check_all_affordable(state, accounts, self.analyst, len(fresh), pricing=pricing)
        return fresh[: affordable(state, accounts, self.analyst, len(fresh), pricing=pricing)]

    def _transact(
        self, questions: Sequence[Question], ready: Sequence[int], pricing: Pricing, answer: Answering | None, *,
        together: bool,
    ) -> list[Committed | None]:  # fmt: skip
        """Spending, also the analyst's, is checked and recorded in the same transaction as the answers."""
        looked_at = {position: row for row, position in enumerate(ready)}

        def step(data: dict[str, Any], new: list[int]) -> tuple[dict[str, Any], list[Outcome | None]]:
            state, accounts = self.state_from(data), Accounts.from_state(data)
            if together:
                check_all_affordable(state, accounts, self.analyst, len(new), pricing=pricing)
            known = [position for position in new if position in looked_at]
            if answer is None:
                return data, [None] * len(new)
            rows = [looked_at[position] for position in known]
            state, made = spend(state, accounts, self.analyst, rows, pricing=pricing, answer=answer)
            outcomes = dict(zip(known, made, strict=True))
            after = accounts.into(bound_state(state, self.record.configuration))
            return after, [outcomes.get(position) for position in new]

        named = [Question(question.fingerprint, self._signed(question.description)) for question in questions]
        return self.ledger.commit(named, step)

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
        if self.find(purchase.question) is None:
            self.preparation.watch(purchase.means)
        described = {**purchase.description, "shown": purchase.shown[:_MOST_SHOWN]}
        asked = [Question(purchase.question, marked(described, by_position=purchase.by_position))]

        def look(_: Sequence[int]) -> Answering:
            seen = purchase.look(self.sealed, mechanism.unit)

            def answer(state: State, _: list[int]) -> tuple[State, list[Outcome]]:
                noise = noise_for(self.record, state, [purchase.question], key=self.key)
                drawn = purchase.draw(mechanism, state, seen, noise)
                return drawn.state, [Outcome(drawn.answer, drawn.charged)]

            return answer

        (entry,), data = self._answer(asked, at_price(mechanism, purchase.price(mechanism).charged), look)
        answered = Drawn.refused(self.state_from(data)).answer if entry is None else entry.answer
        result = purchase.result(
            answered,
            charged=0 if entry is None else entry.charged,
            remaining=self.remaining(data),
            question=purchase.question,
            repeated=entry is not None and entry.repeated,
            confidence=mechanism.confidence,
            about=about_of(self.schema, by_position=purchase.by_position),
        )
        if strict and answered["source"] == "refused":
            raise BudgetExhausted(_REFUSED if self.analyst is None else SPENT, **result.to_dict())
        return result

    def ask_derived(self, query: DerivedQuery, guess: float | None) -> Answer:
        """All parts in one transaction or none, and the interval that follows from theirs."""
        bound, prepared = self.prepare_derived(query, guess)
        try:
            committed, data = self._commit(prepared, together=True)
        except BudgetEndsBetween:
            committed, data = [], self.data()
        refusal = refusal_of(
            bound.question, self.mechanism, remaining=self.remaining(data),
            statement=self.promise.statement, analyst=self.analyst, about=self._about(*prepared),
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
        return bound, self.preparation.prepare(bound.parts, None, together=True)

    def known(self, prepared: Sequence[Prepared]) -> list[KnownPart]:
        """What is known of the parts before they are asked."""
        known = []
        for part in prepared:
            entry = self.find(part.bound.question)
            stored = None if entry is None else stored_estimate(entry.answer)
            guess = None if part.guess < 0 else part.guess / self.mechanism.steps
            known.append(KnownPart(part.bound.question, stored, guess))
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
        asked = [prepared[index].bound.question for index in new]
        noise = noise_for(self.record, state, asked, key=self.key)
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


def noise_for(record: HoldoutRecord, state: State, questions: Sequence[str], *, key: StewardKey) -> Noise:
    """Noise for new questions, by fingerprint: the same questions on the same state get the same noise again.

    The state counts the answers, so no two steps of one ledger share noise. Times and hashes stay out of it: a ledger
    that is set back and asked the same again has other ones. With a seed, it can be repeated by anybody.
    """
    seed = record.configuration["seed"]
    if seed is not None:
        return _seeded(seed, asked=state.asked)
    step = {"holdout": record.id, "questions": list(questions), "state": state.to_dict()}
    return KeyedNoise(hmac.digest(key.seal_key, b"everhold noise\n" + canonical(step).encode(), "sha256"))


def first_noise(seed: int | None) -> Noise:
    """Noise for the state before the first question, from the operating system unless there is a seed."""
    return SecureNoise() if seed is None else _seeded(seed, asked=-1)


def _seeded(seed: int, *, asked: int) -> Noise:
    """Noise that differs from answer to answer and can be repeated by anybody."""
    return SeededNoise(seed * 2**32 + asked + 1)


def _described(bound: BoundQuery) -> dict[str, Any]:
    described = {**bound.description, "shown": bound.shown[:_MOST_SHOWN]}
    return marked(described, by_position=bound.by_position)


def check_not_refused(answers: Sequence[Answer], *, strict: bool) -> None:
    """Raise `BudgetExhausted` for a refused answer if that is wished."""
    for answer in answers:
        if strict and answer.source == "refused":
            raise BudgetExhausted(_REFUSED if answer.analyst is None else SPENT, **answer.to_dict())
