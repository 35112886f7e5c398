"""The query executor: compares a query with the ledger, evaluates it on the sealed rows, and answers it.

Read it from `QueryExecutor.ask` downwards. Repeats and refusals are decided from public state before the sealed rows
are read, and a refusal leaves no record. Spending, also the analyst's, is recorded in the transaction of the answers,
before they leave.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from everhold.answers import QuotedPrice
from everhold.asking.budget import SPENT, affordable, allotment_of, left_to, warn_of_last_surprises
from everhold.asking.described import DescribedTexts
from everhold.errors import BudgetExhausted, EverholdError, IntegrityError, QueryRejected, Unavailable
from everhold.ledger import EntryDraft
from everhold.ledger.allotments import ANALYST, Accounts
from everhold.ledger.arrivals import ARRIVALS, arrived
from everhold.ledger.chain import canonical
from everhold.mechanisms import GuessAndCheck, State
from everhold.progress import progress
from everhold.queries.query_compiler import QueryCompiler, never_declared
from everhold.queries.question import IN_ONE_TRANSACTION, ExecutionResult, Pricing
from everhold.randomness import KeyedNoise, Noise, SecureNoise, SeededNoise
from everhold.sealing.configuration import FAMILIES_GROW, LARGEST_GROUP, bound_state, state_from

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from everhold.answers import Answer
    from everhold.asking.growth import Growth
    from everhold.ledger import Committed, Entry, Head, HoldoutRecord, Ledger, LedgerStore, Outcome
    from everhold.ledger.head_file import HeadFile
    from everhold.ledger.ledger import Transaction
    from everhold.mechanisms import Mechanism, Promise
    from everhold.mechanisms.base import Quote
    from everhold.queries.means import Batch
    from everhold.queries.question import QueryPlan
    from everhold.sealing.keys import StewardKey
    from everhold.sealing.table import StoredRows
    from everhold.values.base import BoundQuery, Schema

__all__ = ["CLOSED_STUDY", "QueryExecutor", "RowsArrived", "first_noise", "noise_for"]

Result = TypeVar("Result")

CLOSED_STUDY = (
    "the study was unsealed and accepts no new queries: the analyst may know what the sealed rows say; repeat an "
    "earlier query, which is free, or seal new rows; nothing was charged or changed"
)
"""Message for a new query or allotment after the end."""

_NOTHING = State()

_SURPRISES = 20  # latest ones that guesses may learn from

_REFUSED = "the remaining budget may not cover this query; nothing was charged; seal new rows"


class RowsArrived(Unavailable):
    """Another process appended rows since the holdout was opened; nothing was charged."""


@dataclass(frozen=True, kw_only=True)
class QueryExecutor:
    """One holdout at work: its ledger, its mechanism and its rows, for the steward or for one analyst.

    Attributes:
        store: The open ledger.
        record: What it says of the holdout.
        mechanism: The mechanism that answers.
        schema: What may be known about the rows.
        key: The steward's key.
        head_file: The newest head of the ledger, beside the key.
        sealed: The sealed rows.
        level_of: Of a member of a declared family ln(1 / level); None for other queries, and for a holdout without.
        training: The training rows, if there are any.
        analyst: On whose behalf it is asked; None for the steward.
        arrived: Changes of the rows that this executor knows; see `everhold.ledger.arrivals.arrived`.
        before: What had been counted when its tree opened (S13).
        rows_from: First and last of its rows, from 1, in the order of arrival; None where no rows arrived.
        growth: All executors of the holdout, by tree; None where no rows arrived.
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
    level_of: Callable[[QueryExecutor, BoundQuery], float | None] | None = None
    arrived: int = 0
    before: State = _NOTHING
    rows_from: tuple[int, int] | None = None
    growth: Growth | None = None

    def ask(self, plan: QueryPlan[Result], *, strict: bool = False) -> Result:
        """Answer a query: its entries in order, as far as public state says that they are surely paid for.

        Repeats are answered from one plain read. What is evaluated in no time is reserved, evaluated, answered and
        appended in one transaction. Everything else is evaluated before the transaction, so that nobody waits for it.

        Args:
            plan: The query.
            strict: Raise `BudgetExhausted` instead of returning a refusal.

        Raises:
            QueryRejected: If one of its entries is new and the study was unsealed. Nothing is charged.
            Outdated: If the query is about something that changed since it was compiled; nothing was answered.
        """
        drafts = [self._signed(draft) for draft in plan.asked]
        stored = self.ledger.repeated(drafts)
        entries: Sequence[Committed | None]
        if stored is not None:
            data, entries = stored[0].state, stored[1]
        elif not self.sealed.reads_ahead and plan.is_short(self.sealed.rows):
            with self.ledger.transaction(drafts) as transaction:
                self._answer_here(plan, transaction)
            data, entries = transaction.state, transaction.committed
        else:
            data, entries = self._ask_in_rounds(plan, drafts)
        if stored is None and (charged := sum(entry.charged for entry in entries if entry is not None)):
            accounts, state = Accounts.from_state(data), self.state_from(data)
            warn_of_last_surprises(accounts, self.analyst, self.mechanism, state, charged=charged)
        result = plan.present(ExecutionResult(entries, self.remaining(data), self.promise.statement, self.analyst))
        if strict and None in entries:
            refused = getattr(result, "first_refused", result)
            raise BudgetExhausted(self._why_refused(entries), **getattr(refused, "to_dict", dict)())
        return result

    def check_asked(self, plan: QueryPlan[Any]) -> None:
        """Check that every part of a query was answered before.

        Raises:
            QueryRejected: If one was not. Nothing is charged.
        """
        if self.ledger.repeated(plan.asked) is None:
            raise QueryRejected(
                "this was not asked about the rows as they were then, and nothing new can be; expected a query that "
                "was answered then; leave as_of out to ask about the rows that are there now; nothing was charged"
            )

    def ask_apart(self, batch: Batch) -> list[Answer]:
        """Answer a batch: members of declared families first, for nothing, and then all others as one step."""
        answers: dict[int, Answer] = {}
        for part, places in batch.parts():
            answers |= zip(places, self.ask(part), strict=True)
        return [answers[place] for place in range(len(answers))]

    def _answer_here(self, plan: QueryPlan[Any], transaction: Transaction) -> None:
        """Evaluate and answer within the transaction what is surely paid for, from the first new entry on."""
        state, accounts = self.state_from(transaction.state), Accounts.from_state(transaction.state)
        new = transaction.new
        _check_open(accounts, new=len(new), pricing=plan.pricing)
        outcomes: list[Outcome] = []
        while left := new[len(outcomes) :]:
            batch = left[: min(self._paid(plan, state, accounts, len(left)), plan.at_once)]
            if not batch:
                break
            seen = plan.evaluate(self.sealed, batch)
            state, made = self._step(plan, state, accounts, seen, [*range(len(batch))], batch)
            outcomes += made
        if outcomes:
            self._record(transaction, state, accounts, outcomes + [None] * (len(new) - len(outcomes)))

    def _step(
        self, plan: QueryPlan[Any], state: State, accounts: Accounts, seen: Any, rows: list[int], places: Sequence[int],
    ) -> tuple[State, list[Outcome]]:  # fmt: skip
        """The mechanism's answers to entries that are paid for, counted in the accounts.

        Args:
            plan: The query.
            state: The mechanism's state before.
            accounts: Changed in place.
            seen: What was evaluated.
            rows: Rows of that, one for each entry.
            places: Places of the entries in the plan.
        """
        drafts = [plan.asked[place] for place in places]
        noise = noise_for(self.record, state, [draft.fingerprint for draft in drafts], key=self.key)
        state, made = plan.answer(state, seen, rows, noise)
        if self.rows_from is not None:
            made = [replace(each, answer={**each.answer, "rows": list(self.rows_from)}) for each in made]
        self._charge(accounts, made, most=plan.pricing.most)
        _settle(accounts, drafts, made)
        return state, made

    def _record(
        self, transaction: Transaction, state: State, accounts: Accounts, outcomes: Sequence[Outcome | None]
    ) -> None:
        """Append the outcomes of the new entries, and the state after them."""
        if self.growth is not None:
            from everhold.mechanisms.suffixes import together

            state = together(state, self.before)
        after = accounts.into({"configuration": self._settings, "mechanism": state.to_dict()})
        transaction.record(after, outcomes)

    def _ask_in_rounds(
        self, plan: QueryPlan[Any], drafts: Sequence[EntryDraft]
    ) -> tuple[dict[str, Any], list[Committed | None]]:
        """Answer a long query: each round is evaluated first and then one transaction; mostly one is enough.

        How many entries are surely paid for may depend on what the first of them are charged. Whoever interrupts it
        keeps the rounds until then; each entry is answered and charged, or neither. Where a pass over the rows costs
        much, in an engine elsewhere, what may still be answered is evaluated in the same pass, for the rounds to come;
        what is refused then is forgotten.
        """
        entries: list[Committed | None] = [None] * len(drafts)
        looked, seen, data, turn = list[int](), None, dict[str, Any](), [0]
        with progress("asking", len(entries)) as line:
            while turn and None in entries:
                order, turn, ahead = self._next_turn(plan, entries)
                if not {*turn} <= {*looked}:
                    looked = ahead
                    seen = plan.evaluate(self.sealed, looked)
                with self.ledger.transaction([drafts[place] for place in order]) as transaction:
                    self._answer(plan, order, transaction, looked if turn else [], seen)
                for place, entry in zip(order, transaction.committed, strict=True):
                    entries[place] = entry
                line(len(entries) - entries.count(None))
                data = transaction.state
        return data or self.data(), entries

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
        self, plan: QueryPlan[Any], entries: Sequence[Committed | None]
    ) -> tuple[list[int], list[int], list[int]]:
        """Places of the entries of the next transaction, of those that have a turn there, and of what is looked at.

        Nothing has a turn, and nothing is looked at, if the next new entry is not surely paid for.
        """
        order: list[int] = []
        first: dict[str, int] = {}
        for place, line in enumerate(plan.asked):
            if entries[place] is None:
                order.append(place)
                first.setdefault(line.fingerprint, place)
        head, stored = self.ledger.look_up([*first])
        new = [place for fingerprint, place in first.items() if fingerprint not in stored]
        accounts = Accounts.from_state(head.state)
        _check_open(accounts, new=len(new), pricing=plan.pricing)
        paid = self._paid(plan, self.state_from(head.state), accounts, len(new))
        most = paid if plan.whole else min(paid, plan.at_once, IN_ONE_TRANSACTION)
        ahead = turn = new[:most]
        if turn and not plan.whole and self.sealed.reads_ahead:
            may_be = self.remaining(head.state).get("questions", paid)
            ahead = new[: max(min(may_be, plan.at_once), most)]
            turn = ahead[:IN_ONE_TRANSACTION]
        later = {plan.asked[place].fingerprint for place in new[len(turn) :]}
        return [place for place in order if plan.asked[place].fingerprint not in later], turn, ahead

    def _paid(self, plan: QueryPlan[Any], state: State, accounts: Accounts, count: int) -> int:
        """Number of new entries, of so many, that are surely paid for, from public state; all or none of a whole."""
        paid = affordable(state, accounts, self.analyst, count, pricing=plan.pricing)
        paid = min(paid, plan.room(accounts, count))
        return 0 if plan.whole and paid < count else paid

    def _answer(
        self, plan: QueryPlan[Any], order: Sequence[int], transaction: Transaction, places: Sequence[int], seen: Any
    ) -> None:
        """Answer what was evaluated before the transaction, as long as the next entry is surely paid for.

        What was charged is public as soon as it was answered, so the decision about the next entry may depend on it:
        the result is that of asking one after the other.

        Args:
            plan: The query.
            order: Places of the entries that the transaction is about.
            transaction: Of the ledger; entries that were not evaluated stay out of it.
            places: Those that were evaluated.
            seen: What was seen there.
        """
        state, accounts = self.state_from(transaction.state), Accounts.from_state(transaction.state)
        _check_open(accounts, new=len(transaction.new), pricing=plan.pricing)
        row_of = dict(zip(places, range(len(places)), strict=True))
        rows = [row for index in transaction.new if (row := row_of.get(order[index])) is not None]
        outcomes: list[Outcome] = []
        while left := rows[len(outcomes) :]:
            batch = left[: self._paid(plan, state, accounts, len(transaction.new) - len(outcomes))]
            if not batch:
                break
            state, made = self._step(plan, state, accounts, seen, batch, [places[row] for row in batch])
            outcomes += made
        if outcomes:
            made_of = dict(zip((places[row] for row in rows), outcomes, strict=False))
            self._record(transaction, state, accounts, [made_of.get(order[index]) for index in transaction.new])

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

    def _signed(self, line: EntryDraft) -> EntryDraft:
        """An entry with the analyst's name in its description, which is no part of the question's identity."""
        if self.analyst is None and ANALYST not in line.description:
            return line
        own = {name: value for name, value in line.description.items() if name != ANALYST}
        return EntryDraft(line.fingerprint, own if self.analyst is None else {**own, ANALYST: self.analyst})

    def quote(self, plan: QueryPlan[Any] | None) -> QuotedPrice:
        """Quote of a query: its price and the width of its answer; None for any new mean over [0, 1].

        Raises:
            QueryRejected: If it is new and the study was unsealed.
        """
        data = self.data()
        state, accounts = self.state_from(data), Accounts.from_state(data)
        if plan is None:
            price, pricing, needed = _price_of_any(self.mechanism.quote(state)), Pricing.planned(self.mechanism, ()), 1
            _check_open(accounts, new=1, pricing=pricing)
        else:
            stored = {line.fingerprint: self.find(line.fingerprint) for line in plan.asked}
            price, pricing = plan.quote(state, [stored[line.fingerprint] for line in plan.asked]), plan.pricing
            new = sum(entry is None for entry in stored.values())
            _check_open(accounts, new=new, pricing=pricing)
            needed = new if plan.whole else min(new, 1)
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
        """The executor for an analyst, who can spend no more than their allotment.

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
        """The promise of all answers; computed once."""
        return self.mechanism.promise()

    @cached_property
    def compiler(self) -> QueryCompiler:
        """Makes questions plan; looks at public facts and training rows only."""
        compiler = QueryCompiler(
            self.schema, self.mechanism, self.training,
            answered=lambda question: self.find(question) is not None,
            remembered=self.ledger.remembers,
            sealed_ids=None if (row_id := self.schema.row_id) is None else partial(self.sealed.row_ids, row_id),
            surprises=lambda: [
                (entry.description, {**entry.answer, "sequence": entry.sequence})
                for entry in self.ledger.charged(_SURPRISES)
            ],
            sealed=self.sealed,
            level_of=never_declared if self.level_of is None else partial(self.level_of, self),
            asked_of_tree=self._asked_of_tree,
            families_grow=self.record.configuration.get(FAMILIES_GROW, 0),
            largest_group=self.record.configuration.get(LARGEST_GROUP, 0),
            span=None if self.growth is None else self.growth.span_of(self),
        )  # fmt: skip
        if not (isinstance(self.mechanism, GuessAndCheck) and self.mechanism.text_bits):
            return compiler
        return replace(compiler, described_of=DescribedTexts(compiler, self.mechanism))

    def head(self) -> Head:
        """The ledger's head; secret.

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

    def _asked_of_tree(self, question: str, member: str) -> bool:
        """True for a question with an entry that is not that of a member of a declared family.

        Once the study was unsealed, a silent entry tells its sealed numbers, unless the member was told before.
        """
        entry = self.find(question)
        if entry is None or entry.answer["source"] == "declared":
            return False
        unsealed = entry.answer["source"] == "silent" and self.head().accounts.closed
        return not unsealed or self.find(member) is not None

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
            RowsArrived: If other rows are there by now.
        """
        if (self.arrived or ARRIVALS in data) and arrived(data) != self.arrived:
            raise RowsArrived(
                "rows arrived since this holdout was opened; expected the rows that are there now; nothing was "
                "charged; ask again"
            )
        if data.get("configuration") != self._settings:
            return state_from(data, self.record.configuration)
        state = State.from_dict(data["mechanism"])
        if self.growth is None:
            return state
        from everhold.mechanisms.suffixes import since

        return since(state, self.before)

    @cached_property
    def _settings(self) -> str:
        """Digest of the settings in every state of this holdout; costly for every answer, as its columns are there."""
        return str(bound_state(State(), self.record.configuration)["configuration"])

    def whole(self, data: dict[str, Any]) -> dict[str, int]:
        """The initial budget, by name as in `remaining`; for an analyst the allotment."""
        every = self.mechanism.remaining(State())
        if self.analyst is None:
            return every
        part = allotment_of(Accounts.from_state(data), self.analyst)
        return left_to(replace(part, asked=0, charged=0), self.mechanism, State())

    def remaining(self, data: dict[str, Any]) -> dict[str, int]:
        """The remaining budget, by name, in a state of the ledger; for an analyst that of the allotment.

        Nothing is left of a study that was unsealed.
        """
        state = self.state_from(data)
        if Accounts.from_state(data).closed:
            return dict.fromkeys(self.mechanism.remaining(state), 0)
        if self.analyst is None:
            return self.mechanism.remaining(state)
        return left_to(allotment_of(Accounts.from_state(data), self.analyst), self.mechanism, state)


def _check_open(accounts: Accounts, *, new: int, pricing: Pricing) -> None:
    """Refuse new questions about rows that were unsealed, from public state; not those that were declared before.

    Raises:
        QueryRejected: If there is one. Nothing is charged.
    """
    if accounts.closed and new and not pricing.asks_nothing:
        raise QueryRejected(CLOSED_STUDY)


def _settle(accounts: Accounts, lines: Sequence[EntryDraft], made: Sequence[Outcome]) -> None:
    """Count answers at their gates and with their teams; a promoted challenger is the champion from now on."""
    for line, outcome in zip(lines, made, strict=True):
        accounts.settle(line.description, outcome.answer["source"], outcome.charged)


def _price_of_any(price: Quote) -> QuotedPrice:
    """The price of a mean that is not yet named."""
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
