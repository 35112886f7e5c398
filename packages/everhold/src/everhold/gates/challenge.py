"""A challenge: is the challenger proved to be better than the champion? The verdict is one word.

The answer is *promoted* if the claim is proved at the level of the query. Otherwise it is *kept*, which promises
nothing. No value is told, so a kept challenge is free and a promotion costs one surprise (docs/theory, the gate). A
challenge is one entry of the ledger. It is prepared for the present champion. If the champion has changed when the
transaction begins, nothing is answered, and the challenge is prepared again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from everhold.answers import QuotedPrice, estimand_in_words
from everhold.arguments import brief
from everhold.asking.query_executor import CLOSED_STUDY, QueryExecutor
from everhold.display import at_least, left_in_words
from everhold.errors import EverholdError, QueryRejected
from everhold.gates.records import CASES, GateAccount, Gates
from everhold.ledger import Entry, EntryDraft, Head, Outcome
from everhold.ledger.acts import PROMOTED, Accounts, Arrivals
from everhold.ledger.store import charged_entries
from everhold.mechanisms import Mechanism, State, has_public_levels, those_with
from everhold.queries.query import MOST_SHOWN, ExecutionResult, Outdated, QueryPlan
from everhold.queries.selection.results import QueryResult
from everhold.strict_json import digest

if TYPE_CHECKING:
    from pathlib import Path

    from everhold.ledger.extension import LedgerExtension
    from everhold.values.base import Schema

# Verdict of a gate on a challenge.


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict(QueryResult):
    """Verdict of a gate on a challenge. A promotion costs 1, and so does a stop for futility.

    The confidence is for all promotions together with all answers of the holdout. If the gate limits challenges,
    ``remaining`` has the number of ``challenges`` left.

    Attributes:
        promoted: True if the challenger is proved to be better by more than the margin, and is the champion now.
        low: Proved lower limit of the challenger's gain over the former champion, in the metric's units; None unless
            promoted.
        high: The largest possible gain, the width of the metric's range; None unless promoted, and for R2.
        champion: SHA-256 of the query about the champion after the challenge.
        promotions: Promotions of the gate so far.
        challenges: Challenges that the gate has answered so far.
        statement: The proved statement in docs/theory on which the promise rests.
        gate: Name of the gate.
        margin: The gain that a promoted challenger is proved to exceed, in the metric's units.
        metric: The metric, in words.
        refused: True if the challenge was not decided, because the budget may not cover it, the gate's limit is
            reached, or no results of its cases could prove it.
        analyst: Name of the analyst who made the challenge; None for the steward.
        challenger: Name of the challenger in a gate about cases; None in a gate about rows.
    """

    promoted: bool
    low: float | None
    high: float | None
    champion: str
    promotions: int
    challenges: int
    statement: str
    gate: str
    margin: float
    metric: str
    refused: bool
    analyst: str | None = None
    challenger: str | None = None

    @classmethod
    def of(
        cls, gate: GateAccount, result: ExecutionResult, *, query: str, shown: str, about: str | None, name: str | None,
        confidence: float, promoted: bool = False, charged: int = 0, repeated: bool = False, refused: bool = False,
    ) -> Self:  # fmt: skip
        """Build the verdict in the metric's units.

        Args:
            gate: The gate after the challenge.
            result: Result of the executed challenge, from the executor.
            query: SHA-256 of the challenge, or of the version if it is the first champion itself.
            shown: The challenge, as people read it.
            about: Population that the verdict is about, in words.
            name: Name of the challenger.
            confidence: Confidence of the holdout.
            promoted: True if the challenger was promoted.
            charged: Number of surprises that the challenge cost.
            repeated: True if the same challenge was decided before, and this is its verdict.
            refused: True if the challenge was refused, so that nothing was decided.
        """
        margin = margin_of(gate)
        return cls(
            promoted=promoted, low=margin if promoted else None, high=most_gain(gate.metric) if promoted else None,
            champion=gate.champion, promotions=gate.promotions, challenges=gate.challenges, gate=gate.name,
            remaining=gate.remaining(result.remaining), statement=result.statement, confidence=confidence,
            margin=margin, metric=metric_in_words(gate.metric), charged=charged, query=query, repeated=repeated,
            refused=refused, analyst=result.analyst, about=about, shown=shown, challenger=name,
        )  # fmt: skip

    def __bool__(self) -> bool:
        return self.promoted

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes by name, with ``verdict``: ``"promoted"``, ``"kept"`` or ``"refused"``."""
        word = "refused" if self.refused else PROMOTED if self.promoted else "kept"
        named = ("low", "high", "champion", "promotions", "challenges", "charged", "remaining", "query", "repeated")
        about = {} if self.about is None else {"about": self.about}
        some = {name: value for name in ("analyst", "challenger") if (value := getattr(self, name)) is not None}
        return {"verdict": word, "promoted": self.promoted, **{name: getattr(self, name) for name in named}, **about,
                **some}  # fmt: skip

    def __str__(self) -> str:
        left = left_in_words(self.remaining)
        if self.refused:
            unprovable = "" if self.challenger is None else ", or no results could prove it"
            return f"refused: what is left does not pay for it{unprovable} ({left} left)"
        stored = f"stored verdict of {self.challenger}: " if self.repeated and self.challenger is not None else ""
        if not self.promoted:
            return f"{stored}kept: nothing is proved, charged {self.charged}, {left} left"
        return (
            f"{stored}promoted: {self.metric} is better by more than {at_least(self.margin)} (proved), charged "
            f"{self.charged}, {left} left"
        )

    def explain(self) -> str:
        """Explain in words what the verdict proves and what it does not prove."""
        if self.refused:
            unprovable = (
                "" if self.challenger is None
                else ", or because no results of so few cases could prove it. Then the gate's status has "
                "provable=False, and more cases help"
            )  # fmt: skip
            return (
                "The challenge was refused because what is left of the budget, of the analyst's allotment or of the "
                f"gate's own limit may not cover it{unprovable}. Nothing was charged, and the champion stays."
            )
        if not self.promoted:
            return (
                "The champion was kept. That promises nothing: the challenger may be worse, equal, or better by less "
                "than these rows can prove at this stage. "
                + (
                    "It was stopped early, for a surprise."
                    if self.charged
                    else "It cost nothing and told nothing else."
                )
            )
        return (
            f"With probability {100.0 * self.confidence:.8g} %, together with all other promotions and answers of this "
            f"holdout, the challenger's {self.metric} is better than that of the champion before by more than "
            f"{at_least(self.margin)}, however many challengers failed in between and however they were chosen "
            f"(statement {self.statement}). By how much was not told. {estimand_in_words(self.about)}"
        )


@dataclass(frozen=True)
class Challenge(QueryPlan[Verdict]):
    """Query plan of a challenge against a gate's present champion. Subclasses add how the two are compared.

    Attributes:
        gate: The gate as it was when the challenge was prepared.
        version: The challenger, as a checked version.
        identity: The facts that identify the challenge, as `challenge_of` returns them.
        described: Public facts that the ledger entry holds besides the identity.
        about: Words for what a promotion is about; None for the population.
        mechanism: The mechanism for the rows that decide.
        keeping: Number of silent queries that the budget must still cover after the challenge.
    """

    gate: GateAccount
    version: Version
    identity: Mapping[str, Any]
    described: Mapping[str, Any]
    about: str | None
    mechanism: Mechanism
    keeping: int = field(default=0, kw_only=True)

    @cached_property
    def asked(self) -> Sequence[EntryDraft]:  # type: ignore[override]  # an attribute that is made when it is needed
        """The single ledger entry of the challenge."""
        public = {**self.identity, "margin": self.gate.margin, **self.described, "shown": self.shown[:MOST_SHOWN]}
        return [EntryDraft(digest(self.identity), public)]

    @property
    def shown(self) -> str:
        """The challenge in words, such as "gate 'main': model B against champion 1f3a9c20"."""
        return f"gate {self.gate.name!r}: {self.version.shown} against champion {self.gate.champion[:8]}"

    def silently(self) -> Self:
        """Raise QueryRejected, because later challenges depend on the verdict.

        Raises:
            QueryRejected: Always. Nothing is charged.
        """
        raise QueryRejected(
            "A challenge cannot be silent, because its verdict decides which champion the next one has to beat. "
            "Leave out silent=True: a verdict tells no numbers before unseal()."
        )

    def capacity(self, state: State, accounts: Accounts, count: int) -> int:
        """Return how many of ``count`` challenges the limit of the gate still allows.

        Raises:
            Outdated: If the gate has another champion than when the challenge was prepared.
        """
        now = accounts.of(Gates).by_name.get(self.gate.name)
        if now is None or now.champion != self.gate.champion:
            raise Outdated
        return min(count, now.left)

    def limit_reached(self, accounts: Accounts) -> str:
        """Return a message if the gate has answered as many challenges as it may, else an empty text."""
        gate = accounts.of(Gates).by_name[self.gate.name]
        told = f"Gate {gate.name!r} has answered all {gate.challenges:,} challenges that its challenges= allows."
        return "" if gate.left else f"{told} Open a gate of another name, with this champion."

    def present(self, result: ExecutionResult) -> Verdict:
        """Return the verdict in the metric's units."""
        (entry,) = result.entries
        gate, decided = self.gate, {"refused": True}
        if entry is not None:
            assert result.accounts is not None
            gate = result.accounts.of(Gates).by_name[gate.name]
            decided = {"promoted": entry.answer["source"] == PROMOTED, "repeated": entry.repeated}
        return Verdict.of(
            gate, result, query=self.query, shown=self.shown, about=self.about, name=self.version.name,
            confidence=self.mechanism.confidence, charged=0 if entry is None else entry.charged, **decided,
        )  # fmt: skip

    def quote(self, state: State, stored: Sequence[Entry | None]) -> QuotedPrice:
        """Return the price: nothing if the champion is kept, and one surprise if the challenger is promoted."""
        (entry,) = stored
        before = entry is not None
        return QuotedPrice(self.query, None, None, 0, 0 if before else 1, False, before, {})


def challenge_of(gate: GateAccount, champion: str, challenger: str, schema: Schema) -> dict[str, Any]:
    """Return the facts that identify a challenge: gate, champion, challenger, and which rows or cases arrived."""
    of = {"kind": "challenge", "gate": gate.name, "champion": champion, "challenger": challenger}
    return {**of, **dict(schema.about)}


def check_gates(mechanism: Mechanism) -> None:
    """Raise QueryRejected if the mechanism has no gates, which need levels that public facts decide."""
    if not has_public_levels(mechanism):
        raise QueryRejected(
            f"The mechanism {mechanism.name} of this holdout does not support gates. Use a holdout with "
            f"{those_with('public_levels')}."
        )


def next_nats(mechanism: Mechanism, state: State) -> float:
    """Return ln(1 / level) of the next query."""
    assert has_public_levels(mechanism)  # see `check_gates`
    return float(mechanism.next_nats(state)[0])


def act(public: dict[str, Any], shown: str, identity: dict[str, Any] | None = None) -> EntryDraft:
    """Return the ledger entry of an act at a gate, such as an opening. By default all its facts identify the act."""
    return EntryDraft(digest(public if identity is None else identity), {**public, "shown": shown[:MOST_SHOWN]})


def record_act(
    executor: QueryExecutor, draft: EntryDraft, extension: type[LedgerExtension], *,
    check: Callable[[Accounts], None] = lambda _: None, keep: Callable[[], None] = lambda: None,
) -> None:  # fmt: skip
    """Append an act to the ledger.

    Args:
        executor: Executor of the open holdout.
        draft: The entry. Its kind becomes the source of its answer.
        extension: Class of the ledger extension that keeps acts of this kind.
        check: Function that refuses the act if the accounts have changed since it was prepared.
        keep: Function that writes files. It is called inside the transaction, after the last check.

    Raises:
        QueryRejected: If the study is closed, or `check` refuses the act. Nothing was changed.
        RowsArrived: If rows arrived since the act was prepared. Nothing was changed.
    """
    with executor.ledger.transaction([draft]) as transaction:
        if not transaction.new:
            return
        head, accounts = transaction.head, Accounts.from_state(transaction.head.state)
        if accounts.closed:
            raise QueryRejected(CLOSED_STUDY)
        executor.state_from(head)
        check(accounts)
        accounts.of(extension).replay(draft.description, draft.description["kind"])
        keep()
        transaction.record(accounts.into(head.state), [Outcome.of_act(draft.description["kind"])])


# The protocol of a gate's evidence: what its versions are compared on, rows or cases.
#
# A gate, its challenges, verdicts and history are written once. Evidence says what a version hands in, how it is
# compared with the stored champion, what is stored of a champion, and what a promotion replaces.


@dataclass(frozen=True, slots=True)
class Version:
    """A model or a version of software that was handed to a gate, and checked.

    Attributes:
        digest: SHA-256 that identifies the version in the ledger.
        shown: The version in words, for people.
        about: Words for what a promise about the version is about; None for the population.
        name: Name of the version, such as a commit; None for a model, which its predictions identify.
    """

    digest: str
    shown: str
    about: str | None
    name: str | None


Handed = TypeVar("Handed", bound=Version)
Made = TypeVar("Made")


def promotions_of(executor: QueryExecutor, name: str) -> list[Entry]:
    """Return the ledger entries of a gate's promotions, in order."""
    return [
        entry for entry in charged_entries(executor.ledger)
        if entry.answer.get("source") == PROMOTED and entry.description.get("gate") == name
    ]  # fmt: skip


@dataclass(frozen=True)
class Evidence(ABC, Generic[Handed]):
    """Base of the data that a gate compares versions on: sealed rows, or results on cases.

    Attributes:
        name: Name of the gate.
        executor: The executor for all sealed rows, of the steward or an analyst.
        folder: The private folder of the sealed rows.
    """

    name: str
    executor: QueryExecutor
    folder: Path

    about_cases: ClassVar[bool] = False

    def gate_at(self, head: Head) -> GateAccount:
        """Return the gate's account as of a head of the ledger.

        Raises:
            RowsArrived: If rows arrived since the evidence was read. `current` returns evidence with these rows.
        """
        self.executor.state_from(head)
        return head.accounts.of(Gates).by_name[self.name]

    def ask(
        self, prepare: Callable[[Head], tuple[QueryExecutor, QueryPlan[Any]] | Verdict], *, strict: bool
    ) -> Any:  # fmt: skip
        """Prepare a challenge or a check, ask it, and return its verdict.

        It is prepared and asked again if another version became the champion meanwhile.

        Args:
            prepare: Function from a head of the ledger to the executor and the plan, or to a stored verdict.
            strict: Raise `BudgetExhausted` instead of returning a refused verdict.

        Raises:
            QueryRejected: If it cannot be prepared, or the version has a verdict on other results. Nothing is charged.
        """
        while True:
            try:
                found = self.on_latest(prepare)
                if not isinstance(found, tuple):
                    return found
                executor, plan = found
                verdict = executor.ask(plan, strict=strict)
                if verdict.repeated:
                    self.check_repeated(plan)
                return verdict
            except Outdated:  # somebody else's challenger was promoted meanwhile
                self.executor.ledger.head()
            finally:
                self.discard()

    def check_repeated(self, plan: Any) -> None:
        """Raise QueryRejected if the stored verdict of a repeated plan is about other results than these."""

    def on_latest(self, make: Callable[[Head], Made]) -> Made:
        """Call ``make`` with the head that this process knows, and again with the newest head if that raises."""
        try:
            return make(self.executor.ledger.latest())
        except EverholdError:
            return make(self.executor.ledger.head())

    def verdict_of_champion(self, gate: GateAccount, champion: Version) -> Verdict:
        """Return the stored verdict on the present champion, or the verdict "kept" if it is the first champion."""
        executor = self.executor
        result = ExecutionResult([], executor.remaining(executor.ledger.latest()), executor.promise.statement,
                                 executor.analyst)  # fmt: skip
        query = promotions_of(executor, self.name)[-1].query if gate.promotions else champion.digest
        return Verdict.of(
            gate, result, query=query, shown=f"gate {gate.name!r}: {champion.shown}, the champion",
            about=champion.about, name=champion.name, confidence=executor.mechanism.confidence,
            promoted=bool(gate.promotions), repeated=True,
        )  # fmt: skip

    @property
    def size(self) -> str:
        """The amount of evidence in words, such as cases and runs; an empty text for rows."""
        return ""

    @abstractmethod
    def version(self, *given: Any, **more: Any) -> Handed:
        """Return a challenger as a version, after checking it.

        Raises:
            QueryRejected: If the challenger cannot be compared with the champion. Nothing is charged.
        """

    def answering(self, head: Head) -> QueryExecutor:
        """Return the executor whose rows decide the next challenge, chosen by public facts.

        Raises:
            QueryRejected: If no executor can answer the next challenge. Nothing is charged.
        """
        return self.executor

    @abstractmethod
    def challenge(self, gate: GateAccount, version: Handed, head: Head) -> tuple[QueryExecutor, Challenge]:
        """Prepare a challenge of the gate's present champion. Returns it with the executor that answers it.

        Args:
            gate: Public record of the gate, as of the head.
            version: The challenger, as a checked version.
            head: Head of the ledger, to which the gate's record belongs.

        Raises:
            QueryRejected: If the champion lacks values or results, or the gate answers no challenge now. Nothing is
                charged.
        """

    @abstractmethod
    def complete(self, *given: Any, **more: Any) -> None:
        """Store values or results of the champion for rows or cases that were added."""

    @abstractmethod
    def facts(self, gate: GateAccount, head: Head) -> dict[str, Any]:
        """Return the facts of `Gate.status` that depend on the kind of evidence, rows or cases."""

    def discard(self) -> None:
        """Remove the file written for a challenger that was not promoted."""


# What a gate compares, in words and in the units of its metric: public facts that its description says.

NEW_CASES = "new cases"
"""Population: cases drawn like these. A case is one unit, with the mean of its runs."""

NEW_RUNS = "these cases, new runs"
"""Population: new runs of these very cases. A run is one unit."""

MISSING = {
    "refuse": "",
    "worst": "no result counts as the worst",
    "drop-case": "no result counts as the worst, and is left out where both versions have none",
}
"""Policies for runs without a result, such as crashes and timeouts, with what they add to a claim (Lemma N)."""

RUNS_OF_THESE = "new runs of these cases"
"""Subject of a promise about `NEW_RUNS`."""

SCORE = "score"
"""Kind of a metric that is no mean of row values."""


def described_gate(gate: GateAccount) -> dict[str, Any]:
    """Return the public facts of a gate as a dict."""
    prefix = "" if gate.about_rows else "cases: "
    return {
        "gate": gate.name, "metric": prefix + metric_in_words(gate.metric), "margin": margin_of(gate),
        "champion": gate.champion, "first_champion": gate.first, "challenges": gate.challenges,
        "promotions": gate.promotions, "limit": gate.limit,
    }  # fmt: skip


def metric_in_words(description: Mapping[str, Any]) -> str:
    """Return the metric or the claims of a gate in words.

    Examples:
        >>> metric_in_words({"kind": "accuracy", "label": "late"})
        'accuracy'
        >>> metric_in_words({"kind": "risk", "loss": "log", "low": 0.0, "high": 5.0, "label": "late"})
        'log loss, from 0 to 5 for a row'
        >>> metric_in_words({"kind": "score", "name": "roc_auc", "label": "late"})
        'roc_auc'
    """
    kind = description.get("kind")
    if kind == CASES:
        return claims_in_words(description)
    if kind == "brier":
        return "Brier score"
    if kind == SCORE:
        return str(description["name"])
    if kind != "risk":
        return str(kind)
    function = description.get("function")
    name = function.get("name") if isinstance(function, Mapping) else None
    loss = f"{description['loss']} loss" if "loss" in description else f"loss {brief(name)}" if name else "loss"
    return f"{loss}, from {description['low']:g} to {description['high']:g} for a row"


def margin_of(gate: GateAccount) -> float:
    """Return the margin, in the metric's units, by which a promoted challenger is better than the champion."""
    return gate.margin * gain_width(gate.metric) if gate.about_rows else float(gate.metric["margin"])


def about_runs(metric: Mapping[str, Any]) -> str | None:
    """Return the words for "new runs of the same cases" if a gate's promise is about them, else None."""
    return RUNS_OF_THESE if metric.get("population") == NEW_RUNS else None


def most_gain(metric: Mapping[str, Any]) -> float | None:
    """Return the largest possible gain in the metric's units, or None for R2 and for ratios."""
    if metric.get("kind") == CASES:
        if not set(metric["better"]).isdisjoint(metric["ratios"]):
            return None
        widths = {each["name"]: float(each["high"]) - float(each["low"]) for each in metric["metrics"]}
        return max(widths[name] for name in metric["better"])
    if metric.get("kind") == SCORE and metric["name"] == "r2":
        return None
    return gain_width(metric)


def bounds_of(gate: GateAccount, number: int, accounts: Accounts) -> dict[str, float | None]:
    """Return the bounds of a champion's gain over the champion before it, and the least gain over the first one.

    The least gain over the first champion is None if gains in this metric do not add up.

    Args:
        gate: Public record of the gate.
        number: Number of promotions up to this champion, from 1.
        accounts: The accounts of the ledger.
    """
    metric, margin = gate.metric, margin_of(gate)
    adds = not gate.about_rows and len(metric["better"]) == 1  # all promotions are about the same mean
    adds = adds and not (about_runs(metric) and accounts.of(Arrivals).arrivals)
    return {"low": margin, "high": most_gain(metric), "since_first": number * margin if adds else None}


def gain_width(metric: Mapping[str, Any]) -> float:
    """Return how many units of a gate's metric about rows correspond to a gain of 1 in row values."""
    if metric.get("kind") == SCORE:
        return float(metric.get("width", 1.0))
    return float(metric["high"]) - float(metric["low"]) if {"high", "low"} <= set(metric) else 1.0


def claims_in_words(description: Mapping[str, Any]) -> str:
    """Return the claims of a gate about cases in words.

    Examples:
        >>> guarded = {"better": ["accuracy"], "not_worse": {"cost": 0.02}, "limits": {}, "missing": "refuse"}
        >>> claims_in_words(guarded)
        'accuracy (guard: cost at most 0.02 worse than the baseline)'
    """
    better = " or ".join(description["better"])
    slacks = description["not_worse"].items()
    held = [f"{name} at most {at_least(slack)} worse than the baseline" for name, slack in slacks]
    guards = ", ".join([*held, *description["limits"]])
    told = "; ".join(filter(None, [guards and f"guard: {guards}", MISSING[description["missing"]]]))
    return f"{better} ({told})" if told else str(better)
