"""The desk: where every question is priced, looked at on the sealed rows, and answered in one transaction.

Read it from `Desk.ask` downwards. What is a repeat, and what is refused, is decided from public state before the sealed
rows are looked at, and nothing about a refusal is recorded. Spending, also the analyst's, is checked again and recorded
in the same transaction as the answers, before they leave.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from everhold.answers import QuotedPrice
from everhold.asking.budget import SPENT, affordable, allotment_of, left_to, warn_of_last_surprises
from everhold.errors import BudgetExhausted, EverholdError, IntegrityError, QueryRejected
from everhold.ledger import Question as Asked
from everhold.ledger.allotments import ANALYST, Accounts
from everhold.ledger.chain import canonical
from everhold.mechanisms import State
from everhold.privacy.noise import KeyedNoise, Noise, SecureNoise, SeededNoise
from everhold.progress import progress
from everhold.questions.preparation import Preparation
from everhold.questions.question import Pricing, Told
from everhold.sealing.configuration import bound_state, state_from

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from everhold.ledger import Committed, Entry, Head, HoldoutRecord, Ledger, LedgerStore, Outcome
    from everhold.ledger.head_file import HeadFile
    from everhold.ledger.ledger import Page
    from everhold.mechanisms import Mechanism, Promise
    from everhold.mechanisms.base import Quote
    from everhold.questions.question import Ready
    from everhold.sealing.keys import StewardKey
    from everhold.sealing.table import StoredRows
    from everhold.values.base import Schema

__all__ = ["CLOSED_STUDY", "Desk", "first_noise", "noise_for"]

Result = TypeVar("Result")

CLOSED_STUDY = (
    "the study was unsealed, so it is closed: whoever asks now may know what the sealed rows say; expected a question "
    "that was asked before, which is free; nothing was charged or changed; seal new rows"
)
"""What is said to whoever asks a new question, or allots, after the end."""

_SURPRISES = 20  # latest ones that guesses may learn from
_IN_ONE_TRANSACTION = 1_000  # new entries: other writers wait that long, and as much is kept where somebody interrupts

_REFUSED = "what is left of the budget does not surely pay for the question; nothing was charged; seal new rows"


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

    def ask(self, ready: Ready[Result], *, strict: bool = False) -> Result:
        """Answer a question: its entries in order, as far as public state says that they are surely paid for.

        How many are surely paid for may depend on what the first of them are charged, so it is asked in rounds, each
        one transaction; mostly one is enough. Whoever interrupts it keeps the rounds until then; each entry is answered
        and charged, or neither. Where a pass over the rows costs much, in an engine elsewhere, what may still be
        answered is looked at in the same pass, for the rounds to come; what is refused then is forgotten.

        Args:
            ready: The question.
            strict: Raise `BudgetExhausted` instead of returning a refusal.

        Raises:
            QueryRejected: If one of its entries is new and the study was unsealed. Nothing is charged.
            Outdated: If the question is about something that changed since it was prepared; nothing was answered.
        """
        entries: list[Committed | None] = [None] * len(ready.asked)
        looked, seen, data, turn = list[int](), None, None, [0]
        with progress("asking", len(entries)) as line:
            while turn and None in entries:
                order, turn, ahead = self._next_turn(ready, entries)
                if not {*turn} <= {*looked}:
                    looked = ahead
                    seen = ready.look(self.sealed, looked)
                with self.ledger.writing([self._signed(ready.asked[place]) for place in order]) as page:
                    self._answer(ready, order, page, looked if turn else [], seen)
                for place, entry in zip(order, page.committed, strict=True):
                    entries[place] = entry
                line(len(entries) - entries.count(None))
                data = page.state
        data = self.data() if data is None else data
        if self.analyst is not None and any(entry is not None and entry.charged for entry in entries):
            warn_of_last_surprises(Accounts.from_state(data), self.analyst, self.mechanism)
        remaining = self.remaining(data)
        result = ready.result(Told(entries, remaining, self.promise.statement, self.analyst))
        if strict and None in entries:
            refused = getattr(result, "first_refused", result)
            raise BudgetExhausted(self._why_refused(entries), **getattr(refused, "to_dict", dict)())
        return result

    def _why_refused(self, entries: Sequence[Committed | None]) -> str:
        answered = sum(entry is not None for entry in entries)
        if answered:
            charged = sum(entry.charged for entry in entries if entry is not None)
            return (
                f"the budget ended: {answered:,} of {len(entries):,} parts were answered, for {charged:,} in all, and "
                "the others refused, for nothing; what was answered is stored, and free when it is asked again"
            )
        return _REFUSED if self.analyst is None else SPENT

    def _next_turn(
        self, ready: Ready[Any], entries: Sequence[Committed | None]
    ) -> tuple[list[int], list[int], list[int]]:
        """Places of the entries of the next transaction, of those that have a turn there, and of what is looked at.

        Nothing has a turn, and nothing is looked at, if the next new entry is not surely paid for.
        """
        order: list[int] = []
        first: dict[str, int] = {}
        for place, line in enumerate(ready.asked):
            if entries[place] is None:
                order.append(place)
                first.setdefault(line.fingerprint, place)
        head, stored = self.ledger.look_up([*first])
        new = [place for fingerprint, place in first.items() if fingerprint not in stored]
        accounts = Accounts.from_state(head.state)
        _check_open(accounts, new=len(new))
        paid = self._paid(ready, self.state_from(head.state), accounts, len(new))
        most = paid if ready.whole else min(paid, ready.at_once, _IN_ONE_TRANSACTION)
        ahead = turn = new[:most]
        if turn and not ready.whole and not self.sealed.engine.embedded:
            may_be = self.remaining(head.state).get("questions", paid)
            ahead = new[: max(min(may_be, ready.at_once), most)]
            turn = ahead[:_IN_ONE_TRANSACTION]
        later = {ready.asked[place].fingerprint for place in new[len(turn) :]}
        return [place for place in order if ready.asked[place].fingerprint not in later], turn, ahead

    def _paid(self, ready: Ready[Any], state: State, accounts: Accounts, count: int) -> int:
        """How many of so many new entries are surely paid for, from public state; all or none of a whole."""
        paid = affordable(state, accounts, self.analyst, count, pricing=ready.pricing)
        paid = min(paid, ready.room(accounts, count))
        return 0 if ready.whole and paid < count else paid

    def _answer(self, ready: Ready[Any], order: Sequence[int], page: Page, places: Sequence[int], seen: Any) -> None:
        """Answer on a page of the ledger what was looked at, as long as the next entry is surely paid for.

        What was charged is public as soon as it was answered, so the decision about the next entry may depend on it:
        the result is that of asking one after the other.

        Args:
            ready: The question.
            order: Places of the entries that the page is about.
            page: Of the ledger; what nobody looked at stays off it.
            places: Those that were looked at.
            seen: What was seen there.
        """
        state, accounts = self.state_from(page.state), Accounts.from_state(page.state)
        _check_open(accounts, new=len(page.new))
        row_of = dict(zip(places, range(len(places)), strict=True))
        rows = [row for index in page.new if (row := row_of.get(order[index])) is not None]
        outcomes: list[Outcome] = []
        while left := rows[len(outcomes) :]:
            batch = left[: self._paid(ready, state, accounts, len(page.new) - len(outcomes))]
            if not batch:
                break
            noise = noise_for(self.record, state, [ready.asked[places[row]].fingerprint for row in batch], key=self.key)
            state, made = ready.draw(state, seen, batch, noise)
            self._charge(accounts, made, most=ready.pricing.most)
            _settle(accounts, [ready.asked[places[row]] for row in batch], made)
            outcomes += made
        if outcomes:
            made_of = dict(zip((places[row] for row in rows), outcomes, strict=False))
            after = accounts.into({"configuration": self._settings, "mechanism": state.to_dict()})
            page.record(after, [made_of.get(order[index]) for index in page.new])

    def _charge(self, accounts: Accounts, made: Sequence[Outcome], *, most: int) -> None:
        """Count what was answered as the analyst's; what was charged is public as soon as it was answered."""
        charged = 0
        try:
            for outcome in made:
                charged += outcome.charged
                if outcome.answer["source"] == "refused" or outcome.charged > most:
                    raise ValueError
            if self.analyst is not None:
                accounts.spend(self.analyst, asked=len(made), charged=charged)
        except ValueError:
            raise EverholdError(
                "the question would charge more than the price that it named; nothing was charged; ask another one"
            ) from None

    def _signed(self, line: Asked) -> Asked:
        """An entry with the analyst's name in its description, which is no part of the question's identity."""
        if self.analyst is None and ANALYST not in line.description:
            return line
        own = {name: value for name, value in line.description.items() if name != ANALYST}
        return Asked(line.fingerprint, own if self.analyst is None else {**own, ANALYST: self.analyst})

    def quote(self, ready: Ready[Any] | None) -> QuotedPrice:
        """What a question would cost and how sharp its answer would be; None for any new mean over [0, 1].

        Raises:
            QueryRejected: If it is new and the study was unsealed.
        """
        data = self.data()
        state, accounts = self.state_from(data), Accounts.from_state(data)
        if ready is None:
            price, pricing, needed = _price_of_any(self.mechanism.quote(state)), Pricing.planned(self.mechanism, ()), 1
            _check_open(accounts, new=1)
        else:
            stored = {line.fingerprint: self.find(line.fingerprint) for line in ready.asked}
            price, pricing = ready.quote(state, [stored[line.fingerprint] for line in ready.asked]), ready.pricing
            new = sum(entry is None for entry in stored.values())
            _check_open(accounts, new=new)
            needed = new if ready.whole else min(new, 1)
        price = replace(price, remaining=self.remaining(data))
        if affordable(state, accounts, self.analyst, needed, pricing=pricing) >= needed:
            return price
        return replace(
            price, radius=None, radius_if_charged=None, charged_if_confirmed=0, charged_at_most=0, refused=True
        )  # fmt: skip

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

    @cached_property
    def preparation(self) -> Preparation:
        """Makes questions ready; looks at public facts and training rows only."""
        return Preparation(
            self.schema, self.mechanism, self.training,
            answered=lambda question: self.find(question) is not None,
            sealed_ids=None if (row_id := self.schema.row_id) is None else partial(self.sealed.row_ids, row_id),
            surprises=lambda: [(entry.description, entry.answer) for entry in self.ledger.charged(_SURPRISES)],
            engine=self.sealed.engine,
        )  # fmt: skip

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

    def entries(self, limit: int) -> list[Entry]:
        """The entries up to a head, all of them, each with its seal checked.

        Raises:
            IntegrityError: If one is missing or was altered.
        """
        entries = []
        with progress("reading the ledger", limit) as line:
            for entry in self.ledger.entries(limit=limit):
                entries.append(entry)
                line(entry.sequence)
        if [entry.sequence for entry in entries] != list(range(1, limit + 1)):
            raise IntegrityError(
                f"the ledger holds {len(entries):,} entries and {limit:,} were written; expected all of them; verify "
                "the ledger and restore a backup"
            )
        return entries

    def charged_entries(self) -> list[Entry]:
        """All entries that were charged, in order, each with its seal checked.

        Raises:
            IntegrityError: If one is missing or was altered.
        """
        head = self.head()
        entries = [entry for entry in self.ledger.charged(head.charged) if entry.sequence <= head.sequence]
        if sum(entry.charged for entry in entries) != head.charged:
            raise IntegrityError(
                f"the entries of the ledger do not add up to the {head.charged:,} that were charged; expected all of "
                "them; verify the ledger and restore a backup"
            )
        return entries[::-1]

    def state(self) -> State:
        """The mechanism's present state; secret."""
        return self.state_from(self.data())

    def state_from(self, data: dict[str, Any]) -> State:
        """The mechanism's state out of the ledger's.

        Raises:
            IntegrityError: If the state belongs to other settings of the holdout.
        """
        if data.get("configuration") != self._settings:
            return state_from(data, self.record.configuration)
        return State.from_dict(data["mechanism"])

    @cached_property
    def _settings(self) -> str:
        """What every state of this holdout says of its settings; costly for every answer, as its columns are there."""
        return str(bound_state(State(), self.record.configuration)["configuration"])

    def whole(self, data: dict[str, Any]) -> dict[str, int]:
        """What was there at the beginning, by name as in `remaining`; for an analyst what was allotted to them."""
        every = self.mechanism.remaining(State())
        if self.analyst is None:
            return every
        part = allotment_of(Accounts.from_state(data), self.analyst)
        return left_to(replace(part, asked=0, charged=0), self.mechanism, State())

    def remaining(self, data: dict[str, Any]) -> dict[str, int]:
        """What is left of the budget, by name, in a state of the ledger; for an analyst what is left to them.

        Nothing is left of a study that was unsealed.
        """
        state = self.state_from(data)
        if Accounts.from_state(data).closed:
            return dict.fromkeys(self.mechanism.remaining(state), 0)
        if self.analyst is None:
            return self.mechanism.remaining(state)
        return left_to(allotment_of(Accounts.from_state(data), self.analyst), self.mechanism, state)


def _check_open(accounts: Accounts, *, new: int) -> None:
    """Refuse new questions about rows that were unsealed, from public state.

    Raises:
        QueryRejected: If there is one. Nothing is charged.
    """
    if accounts.closed and new:
        raise QueryRejected(CLOSED_STUDY)


def _settle(accounts: Accounts, lines: Sequence[Asked], made: Sequence[Outcome]) -> None:
    """Count answers at their gates and with their teams; a promoted challenger is the champion from now on."""
    for line, outcome in zip(lines, made, strict=True):
        accounts.settle(line.description, outcome.answer["source"], outcome.charged)


def _price_of_any(price: Quote) -> QuotedPrice:
    """The price of a mean that nobody has named yet."""
    return QuotedPrice(
        None, price.radius, price.radius_if_charged, price.charged_if_confirmed, price.charged_at_most, False, False, {}
    )


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
