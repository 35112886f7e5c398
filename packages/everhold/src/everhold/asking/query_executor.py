"""The query executor: compares a query with the ledger, evaluates it on the sealed rows, and answers it.

Read it from `QueryExecutor.ask` downwards. Repeats and refusals are decided from public state before the sealed rows
are read, and a refusal leaves no record. Spending, also the analyst's, is recorded in the transaction of the answers,
before they leave.
"""

from __future__ import annotations

import hmac
import math
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from everhold.answers import Answer, QuotedPrice
from everhold.asking.budget import SPENT, allotment_of, left_to, warn_of_last_surprises
from everhold.errors import BudgetExhausted, ClippingWarning, EverholdError, QueryRejected, Unavailable, warn_caller
from everhold.ledger import Committed, EntryDraft, Head, HoldoutRecord, Ledger, LedgerStore, Outcome
from everhold.ledger.acts import ANALYST, ARRIVALS, Accounts, arrived, spending_of
from everhold.mechanisms import Mechanism, Promise, PublicLevels, State, has_public_levels
from everhold.progress import progress
from everhold.queries.interval_planner import MemberLevels, RecordedPool, never_declared, no_pools
from everhold.queries.procedures import AskedBefore
from everhold.queries.query import IN_ONE_TRANSACTION, ExecutionResult, Pricing, QueryPlan
from everhold.queries.query_compiler import QueryCompiler
from everhold.randomness import KeyedNoise, Noise, NoNoise, SecureNoise, SeededNoise
from everhold.sealing.rows.code_trials import declared_code
from everhold.strict_json import canonical
from everhold.values.base import CLIPS, BoundQuery, Schema, clips_in_words, kept_clips

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everhold.families.texts import BoundTexts
    from everhold.ledger.ledger import Transaction
    from everhold.queries.means.plans import Batch
    from everhold.queries.predictions.arrays import RowSpan
    from everhold.sealing.rows.table import StoredRows
    from everhold.sealing.storage import StewardKey

Result = TypeVar("Result")

CLOSED_STUDY = (
    "The study was unsealed, so it accepts no new queries. Repeat an earlier query, which is free, or seal new rows."
)
"""Message for a new query or allotment after the end."""

_SURPRISES = 20  # latest ones that guesses may learn from
_MOST_NAMED = 5  # queries in a message

_REFUSED = (
    "The query was refused and nothing was charged, because the rest of the budget may not pay for it. Seal new rows."
)


class RowsArrived(Unavailable):
    """Error: another process appended rows since the holdout was opened. Nothing was charged."""


_NOTHING = State()


class LevelsOfFamilies(Protocol):
    """Protocol of the object that gives queries the levels of their declared families."""

    def __call__(self, executor: QueryExecutor, bound: BoundQuery) -> float | None:
        """Return ln(1 / level) of a query that is a member of a family, else None."""

    def pools(self, executor: QueryExecutor) -> Sequence[RecordedPool]:
        """Return the pools that the holdout has recorded."""


@dataclass(frozen=True, slots=True)
class AmongArrivals:
    """Position of an executor's rows among all rows that arrived, and the counts when the executor's tree opened.

    Attributes:
        changes: Number of arrivals and retirements so far, as `everhold.ledger.acts.arrived` counts them.
        before: The counts of queries and charges when the tree opened (S13).
        rows: Numbers of the first and the last row, from 1, in the order of arrival. None if no rows arrived.
    """

    changes: int = 0
    before: State = _NOTHING
    rows: tuple[int, int] | None = None


_OF_THE_CREATION = AmongArrivals()


class Trees(Protocol):
    """Protocol of the object that knows the executors of all trees of a holdout to which rows are appended."""

    def span_of(self, executor: QueryExecutor) -> RowSpan | None:
        """Return the position of an executor's rows among all sealed rows, or None if it has all of them."""

    def check_unaltered(self) -> None:
        """Check that appended rows in an engine's table are unaltered. Rows in files are checked when read."""


@dataclass(frozen=True, kw_only=True)
class QueryExecutor:
    """Executor of one open holdout: its ledger, its mechanism and its rows, for the steward or for one analyst.

    Attributes:
        store: The open ledger.
        record: The record of the holdout in the ledger.
        mechanism: The mechanism that answers.
        schema: The public facts about the rows.
        key: The steward's key.
        ledger: The ledger of this holdout.
        sealed: The sealed rows.
        level_of: Function from a query to ln(1 / level) if a declared family gives it a level. None if no family is
            declared.
        training: The training rows, if there are any.
        analyst: Name of the analyst who asks; None for the steward.
        place: Position of its rows and its tree among all rows that arrived.
        growth: All executors of the holdout, by tree. None if no rows arrived.
    """

    store: LedgerStore
    record: HoldoutRecord
    mechanism: Mechanism
    schema: Schema
    key: StewardKey
    ledger: Ledger
    sealed: StoredRows
    training: StoredRows | None
    analyst: str | None = None
    level_of: LevelsOfFamilies | None = None
    place: AmongArrivals = _OF_THE_CREATION
    growth: Trees | None = None

    def ask(
        self, plan: QueryPlan[Result], *, strict: bool = False, beside: Mapping[str, Any] | None = None
    ) -> Result:  # fmt: skip
        """Answer a query.

        Its entries are answered in order, as long as public state shows that the budget pays for them.

        Repeats are answered from one read of the ledger. A query that takes at most a few milliseconds is evaluated and
        recorded within one transaction. A longer one is evaluated before its transaction, so that other writers need
        not wait.

        Args:
            plan: The plan of the query.
            strict: Raise `BudgetExhausted` instead of returning a refusal, and answer nothing if the budget may not pay
                for all entries.
            beside: Facts that the ledger keeps with new entries, such as names of models. Two queries that differ only
                in these facts are the same query.

        Raises:
            QueryRejected: If one of its entries is new and the study was unsealed. Nothing is charged.
            Outdated: If the query is about something that changed since it was compiled. Nothing was answered.
        """
        drafts = plan.asked
        if self.analyst is not None or beside or any(ANALYST in draft.description for draft in drafts):
            # The analyst's name is in the descriptions, and no part of the queries' identity.
            name = {**(beside or {}), **({} if self.analyst is None else {ANALYST: self.analyst})}
            unnamed = ({key: of for key, of in draft.description.items() if key != ANALYST} for draft in drafts)
            drafts = [EntryDraft(draft.fingerprint, own | name) for draft, own in zip(drafts, unnamed, strict=True)]
        work = Execution(self, plan, drafts, strict)
        stored = self.ledger.repeated(work.drafts)
        entries: Sequence[Committed | None]
        if stored is not None:
            head, entries = stored
        elif not self.sealed.reads_ahead and plan.is_short(self.sealed.rows):
            with self.ledger.transaction(work.drafts) as transaction:
                work.answer(transaction, transaction.new, transaction.new)
            head, entries = transaction.head, transaction.committed
        else:
            head, entries = ask_in_rounds(work)
        if stored is None:
            if charged := sum(entry.charged for entry in entries if entry is not None):
                state = self.state_from(head)
                warn_of_last_surprises(head.accounts, self.analyst, self.mechanism, state, charged=charged)
            for draft, entry in zip(plan.asked, entries, strict=True):
                if CLIPS not in draft.description or entry is None or entry.repeated:
                    continue
                if many := [clip for clip in kept_clips(draft.description) if clip.is_often]:
                    warn_caller(
                        ClippingWarning(
                            f"{draft.description['shown']}: {clips_in_words(many)}. The answer is about the clipped "
                            "number. For another number pass a wider range, which makes intervals wider."
                        )
                    )
        result = plan.present(
            ExecutionResult(entries, self.remaining(head), self.promise.statement, self.analyst, head.accounts)
        )
        if strict and None in entries:
            refused = getattr(result, "first_refused", result)
            raise BudgetExhausted(work.why_refused(entries, head), **getattr(refused, "to_dict", dict)())
        return result

    def close(self) -> None:
        """Close the database and the engines. They open again when they are needed."""
        self.store.close()
        self.sealed.close()
        if self.training is not None:
            self.training.close()

    @cached_property
    def promise(self) -> Promise:
        """Promise of all answers, computed once."""
        return self.mechanism.promise()

    @cached_property
    def compiler(self) -> QueryCompiler:
        """Compiler that turns queries into plans. It reads public facts and training rows only."""
        configuration = self.record.configuration
        families = replace(
            MemberLevels.recorded(configuration),
            level_of=never_declared if self.level_of is None else partial(self.level_of, self),
            asked_of_tree=partial(_asked_of_tree, self.ledger),
            pools=no_pools if self.level_of is None else partial(self.level_of.pools, self),
        )
        before = AskedBefore(
            lambda query: self.ledger.find(query) is not None, self.ledger.remembers,
            partial(self.ledger.charged, _SURPRISES),
        )  # fmt: skip
        compiler = QueryCompiler(
            self.schema, self.mechanism, self.training, before, families=families, sealed=self.sealed,
            span=None if self.growth is None else self.growth.span_of(self),
        )  # fmt: skip
        if not (has_public_levels(self.mechanism) and self.mechanism.text_bits):
            return compiler
        described = DescribedTexts(compiler, self.mechanism)
        return replace(compiler, families=replace(families, described_of=described))

    def state(self) -> State:
        """Return the mechanism's present state. Secret."""
        return self.state_from(self.ledger.head())

    def check_steward(self, act: str) -> None:
        """Raise QueryRejected if the holdout is open for an analyst and not for the steward.

        Raises:
            QueryRejected: If an analyst asks.
        """
        if self.analyst is not None:
            raise QueryRejected(
                f"Only the steward can {act}, and this holdout is open for the analyst {self.analyst!r}. "
                "Open it as steward."
            )

    def state_from(self, head: Head) -> State:
        """Return the mechanism's state for this tree at a head of the ledger.

        Raises:
            IntegrityError: If the state belongs to other settings of the holdout.
            RowsArrived: If rows arrived or were retired since the executor was made.
        """
        data = head.state
        if (self.place.changes or ARRIVALS in data) and arrived(data) != self.place.changes:
            raise RowsArrived("Rows arrived since this holdout was opened. Ask again.")
        state = State.of(data, self.record.settings)
        if self.growth is None:
            return state
        from everhold.mechanisms.suffixes import since

        return since(state, self.place.before)

    def on_behalf_of(self, analyst: str) -> Self:
        """Return a copy of the executor for one analyst, who can spend no more than their allotment.

        Raises:
            QueryRejected: If there is no allotment of that name.
        """
        allotment_of(self.ledger.head().accounts, analyst)
        return replace(self, analyst=analyst)

    def whole_budget(self, head: Head) -> dict[str, int]:
        """Return the initial budget by name, or the allotment's limits for an analyst."""
        if self.analyst is None:
            return self.mechanism.remaining(State())
        part = allotment_of(head.accounts, self.analyst)
        return left_to(replace(part, asked=0, charged=0), self.mechanism, State())

    def remaining(self, head: Head) -> dict[str, int]:
        """Return the remaining budget by name: for an analyst that of the allotment, and 0 after the unsealing."""
        state = self.state_from(head)
        if head.accounts.closed:
            return dict.fromkeys(self.mechanism.remaining(state), 0)
        if self.analyst is None:
            return self.mechanism.remaining(state)
        return left_to(allotment_of(head.accounts, self.analyst), self.mechanism, state)


@dataclass(frozen=True, slots=True)
class Execution:
    """The execution of one query: its new entries are answered and appended in transactions of the ledger.

    Attributes:
        executor: The executor of the holdout.
        plan: The plan of the query.
        drafts: Drafts of its ledger entries, with the analyst's name.
        strict: Whether nothing is answered if the budget may not pay for all entries.
    """

    executor: QueryExecutor
    plan: QueryPlan[Any]
    drafts: Sequence[EntryDraft]
    strict: bool = False

    def evaluate(self, places: Sequence[int]) -> Any:
        """Return the secret values of some of the query's entries, given by their positions in the plan."""
        with declared_code() if self.plan.pricing.asks_nothing else nullcontext():
            return self.plan.evaluate(self.executor.sealed, places)

    def answer(
        self, transaction: Transaction, new: Sequence[int], turn: Sequence[int],
        known: tuple[Any, Mapping[int, int]] | None = None,
    ) -> None:  # fmt: skip
        """Answer new entries within a transaction, as long as the budget is certain to pay for the next one.

        The charge of an answer is public as soon as it is given, so the decision about the next entry may depend on it.
        The result is the same as if the entries were asked one after the other.

        Args:
            transaction: The open transaction of the ledger.
            new: Positions of the new entries in the plan.
            turn: Positions of the entries to answer now; all others stay out of the ledger.
            known: Secret values that are evaluated already, and for each of these entries the index of its value. None
                to evaluate the entries here.
        """
        executor, most, before = self.executor, self.plan.pricing.most, transaction.head
        state, accounts = executor.state_from(before), before.accounts
        if changing := executor.analyst is not None or bool(accounts.extensions):  # of gates, of teams
            accounts = Accounts.from_state(before.state)
        outcomes: list[Outcome] = []
        while left := turn[len(outcomes) :]:
            if not (batch := left[: self.paid(state, accounts, len(new) - len(outcomes))]):
                break
            if known is None:
                seen, rows = self.evaluate(batch), [*range(len(batch))]
            else:
                seen, rows = known[0], [known[1][place] for place in batch]
            drafts = [self.drafts[place] for place in batch]
            noise: Noise = NoNoise()
            if not executor.mechanism.traits.public_levels:
                noise = noise_for(executor.record, state, [draft.fingerprint for draft in drafts], key=executor.key)
            state, made = self.plan.answer(state, seen, rows, noise)
            if executor.place.rows is not None:
                made = [replace(each, answer={**each.answer, "rows": [*executor.place.rows]}) for each in made]
            try:  # what was charged is public as soon as it was answered
                for draft, outcome in zip(drafts, made, strict=True):
                    source = outcome.answer["source"]
                    if source == "refused" or outcome.charged > most:
                        raise ValueError
                    if executor.analyst is not None:
                        accounts.spend(executor.analyst, *spending_of(draft.description, source, outcome.charged))
            except ValueError:
                raise EverholdError(
                    "The query would charge more than its stated price, so nothing was charged. Ask another query."
                ) from None
            for draft, outcome in zip(drafts, made, strict=True) if changing else ():
                accounts.settle(draft.description, outcome.answer["source"], outcome.charged)
            outcomes += made
        if not outcomes:
            return
        if executor.growth is not None:
            from everhold.mechanisms.suffixes import together

            state = together(state, executor.place.before)
        after = {**before.state, "mechanism": state.to_dict()}
        if changing:
            after = accounts.into({name: after[name] for name in ("configuration", "mechanism")})
        made_of = dict(zip(turn, outcomes, strict=False))
        transaction.record(after, [made_of.get(place) for place in new])

    def paid(self, state: State, accounts: Accounts, count: int) -> int:
        """Return how many of ``count`` new entries the budget covers.

        If the plan must be answered whole, it is all or none.
        """
        paid = affordable(state, accounts, self.executor.analyst, count, pricing=self.plan.pricing)
        paid = min(paid, self.plan.capacity(state, accounts, count))
        return 0 if (self.plan.whole or self.strict) and paid < count else paid

    def why_refused(self, entries: Sequence[Committed | None], head: Head) -> str:
        """Return the message about entries that were refused: which is the first, and which were answered."""
        if limit := self.plan.limit_reached(head.accounts):
            return limit
        if self.plan.whole or len(entries) == 1:
            return _REFUSED if self.executor.analyst is None else SPENT
        names = [str(draft.description.get("shown", draft.fingerprint[:8])) for draft in self.drafts]
        new = [place for place, entry in enumerate(entries) if entry is None]
        if not (answered := [names[place] for place, entry in enumerate(entries) if entry is not None]):
            paid = replace(self, strict=False).paid(self.executor.state_from(head), head.accounts, len(new))
            return (
                f"The budget is certain to pay for {paid:,} of these {len(new):,} new queries, so none was answered. "
                f"The next one is {names[new[min(paid, len(new) - 1)]]!r}. Ask fewer together, or seal new rows."
            )
        told = ", ".join(map(repr, answered[:_MOST_NAMED])) + (", ..." if len(answered) > _MOST_NAMED else "")
        return (
            f"The budget ran out at {names[new[0]]!r}: {len(answered):,} of {len(entries):,} queries were answered "
            f"({told}), and are free when asked again. Seal new rows for the others."
        )


def _asked_of_tree(ledger: Ledger, query: str, member: str) -> bool:
    """Return whether the ledger has an answer to a query that is not an answer to a query of a declared family.

    A silent answer does not count after the unsealing, unless the query was also asked as a query of its family
    (`member`).
    """
    entry = ledger.find(query)
    if entry is None or entry.answer["source"] == "declared":
        return False
    unsealed = entry.answer["source"] == "silent" and ledger.head().accounts.closed
    return not unsealed or ledger.find(member) is not None


def ask_apart(
    executor: QueryExecutor, batch: Batch, *, strict: bool = False, beside: Mapping[str, Any] | None = None
) -> list[Answer]:  # fmt: skip
    """Answer a batch of queries: first those of declared families, then all others in one step.

    If `strict` is true, `BudgetExhausted` is raised instead of returning a refused answer.
    """
    answers: dict[int, Answer] = {}
    for part, places in batch.parts():
        answers |= zip(places, executor.ask(part, strict=strict, beside=beside), strict=True)
    return [answers[place] for place in range(len(answers))]


def affordable(state: State, accounts: Accounts, analyst: str | None, count: int, *, pricing: Pricing) -> int:
    """Return how many of ``count`` new queries the budget certainly covers. If it is 0, the next query is refused.

    The number depends only on public state, so a refusal reveals nothing about the sealed rows.

    Raises:
        QueryRejected: If the study was unsealed. Then only queries of declared families are answered.
    """
    if accounts.closed and count and not pricing.asks_nothing:
        raise QueryRejected(CLOSED_STUDY)
    sure = pricing.sure(state, count)
    if pricing.reserved or analyst is None:
        return sure
    return min(sure, allotment_of(accounts, analyst).affords(pricing.most))


def noise_for(record: HoldoutRecord, state: State, queries: Sequence[str], *, key: StewardKey) -> Noise:
    """Return the noise for new queries. It is the same for the same queries in the same state.

    The state counts the answers, so no two steps of one ledger share noise. It depends on no time and on no hash of the
    ledger, so a ledger that is restored and asked the same queries again draws the same noise. If the noise has a seed,
    anybody who knows the seed can compute it.
    """
    seed = record.configuration["seed"]
    if seed is not None:
        return _seeded(seed, asked=state.asked)
    step = {"holdout": record.id, "queries": list(queries), "state": state.to_dict()}
    return KeyedNoise(hmac.digest(key.seal_key, b"everhold noise\n" + canonical(step).encode(), "sha256"))


def first_noise(seed: int | None) -> Noise:
    """Return the noise of the mechanism's first state: from the operating system, or from the seed if given."""
    return SecureNoise() if seed is None else _seeded(seed, asked=-1)


def _seeded(seed: int, *, asked: int) -> Noise:
    """Return the noise after ``asked`` queries from a public seed, so that anybody can repeat it."""
    return SeededNoise(seed * 2**32 + asked + 1)


# Long queries: each round is evaluated first and then one transaction; mostly one round is enough.


def ask_in_rounds(work: Execution) -> tuple[Head, list[Committed | None]]:
    """Answer a long query in several transactions (rounds). Return the ledger's head afterwards, and the entries.

    The budget for later entries depends on the charges of earlier ones. If the call is interrupted, complete rounds
    stay, and each entry is both answered and charged, or neither. If a pass over the rows is expensive, as in a remote
    engine, one pass also evaluates entries of later rounds. Their values are discarded if the entries are refused
    later.
    """
    ledger = work.executor.ledger
    entries: list[Committed | None] = [None] * len(work.drafts)
    row_of, seen, head, turn = dict[int, int](), None, None, [0]
    with progress("asking", len(entries)) if len(entries) > 1 else nullcontext() as line:
        while turn and None in entries:
            order, turn, ahead = _next_turn(work, entries)
            if not {*turn} <= row_of.keys():
                row_of = dict(zip(ahead, range(len(ahead)), strict=True))
                seen = work.evaluate(ahead)
            with ledger.transaction([work.drafts[place] for place in order]) as transaction:
                new = [order[index] for index in transaction.new]
                evaluated = [place for place in new if turn and place in row_of]
                work.answer(transaction, new, evaluated, (seen, row_of))
            for place, entry in zip(order, transaction.committed, strict=True):
                entries[place] = entry
            if line is not None:
                line(len(entries) - entries.count(None))
            head = transaction.head
    return head or ledger.head(), entries


def _next_turn(work: Execution, entries: Sequence[Committed | None]) -> tuple[list[int], list[int], list[int]]:
    """Return positions of the next round's entries: all of them, the new ones to answer, and those to evaluate.

    If the budget may not pay for the next new entry, no new entry is answered and no sealed row is read.
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
        may_be = executor.remaining(head).get("queries", paid)
        ahead = new[: max(min(may_be, plan.at_once), most)]
        turn = ahead[:IN_ONE_TRANSACTION]
    later = {plan.asked[place].fingerprint for place in new[len(turn) :]}
    return [place for place in order if plan.asked[place].fingerprint not in later], turn, ahead


def _paid(work: Execution, first: Mapping[str, int], *, read: bool) -> tuple[Head, list[int], int]:
    """Return the ledger's head, the positions of new entries, and how many of these entries the budget covers.

    Args:
        work: The execution of the query.
        first: Position of each entry by its fingerprint.
        read: Whether to read the ledger. If False, only what this process has seen of the ledger is used.
    """
    head, stored = work.executor.ledger.look_up([*first], read=read)
    new = [place for fingerprint, place in first.items() if fingerprint not in stored]
    return head, new, work.paid(work.executor.state_from(head), head.accounts, len(new))


# The price of a query before it is asked, from public state alone.


def quoted_price(executor: QueryExecutor, plan: QueryPlan[Any] | None) -> QuotedPrice:
    """Return the price of a query and the width of its answer. If `plan` is None, they are those of any new mean.

    Raises:
        QueryRejected: If the query is new and the study was unsealed.
    """
    head, mechanism = executor.ledger.head(), executor.mechanism
    state = executor.state_from(head)
    if plan is None:
        pricing, needed = Pricing.planned(mechanism, ()), 1
        any_mean = mechanism.quote(state)
        price = QuotedPrice(
            None, any_mean.radius, any_mean.radius_if_charged, any_mean.charged_if_confirmed,
            any_mean.charged_at_most, False, False, {},
        )  # fmt: skip
    else:
        stored = {line.fingerprint: executor.ledger.find(line.fingerprint) for line in plan.asked}
        pricing, new = plan.pricing, sum(entry is None for entry in stored.values())
        needed = new if plan.whole else min(new, 1)
        price = plan.quote(state, [stored[line.fingerprint] for line in plan.asked])
    price = replace(price, remaining=executor.remaining(head))
    if affordable(state, head.accounts, executor.analyst, needed, pricing=pricing) >= needed:
        return price
    return replace(
        price, radius=None, radius_if_charged=None, charged_if_confirmed=0, charged_at_most=0, refused=True
    )  # fmt: skip


# Descriptions of texts on a holdout that was created without a word about them: their levels, from public facts.


@dataclass(frozen=True)
class DescribedTexts:
    """Function that gives a text expression that no family declares the level of its description, by its length.

    Attributes:
        compiler: The compiler of the holdout.
        mechanism: The mechanism that answers.
    """

    compiler: QueryCompiler
    mechanism: PublicLevels

    def __call__(self, bound: BoundQuery) -> float | None:
        """Return ln(1 / level) of a query that is a text, or None for any other query."""
        nats = self._texts.nats(bound)
        return None if nats is None else self.mechanism.of_text(nats)

    @cached_property
    def _texts(self) -> BoundTexts:
        from everhold.families.texts import BoundTexts

        return BoundTexts(float(self.mechanism.text_bits), _Categories(self.compiler), self.compiler.schema)

    @property
    def most_nats(self) -> float:
        """ln(1 / level) of the longest text that has a level by its description."""
        return self.mechanism.of_text(self.mechanism.text_bits * math.log(2.0))


class _Categories(dict[str, tuple[Any, ...]]):
    """Categories of columns by name, read from the training rows when they are first needed."""

    def __init__(self, compiler: QueryCompiler) -> None:
        super().__init__()
        self._compiler = compiler

    def get(self, name: str, default: Any = ()) -> Any:
        """Return the categories of a column, or the default if they are unknown."""
        from everhold.families.base import categories_of

        if name not in self:
            self.update({name: (), **categories_of(self._compiler, [name])})
        return self[name] or default
