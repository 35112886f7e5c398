"""A challenge: is the challenger proved to be better than the champion? It is told in one word.

The answer is *promoted*, if what is claimed is proved at the level of the query, or *kept*, which promises nothing. No
value is told, so a kept challenge is free and a promotion costs one surprise (docs/theory, the gate). A challenge is
one entry and one transaction. It is prepared against the champion of the moment; if that one has gone when the
transaction is open, nothing is answered, and it is prepared again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from everhold.answers import QuotedPrice
from everhold.asking.query_executor import CLOSED_STUDY
from everhold.errors import QueryRejected
from everhold.gates.records import PROMOTED, Gates
from everhold.gates.verdict import Verdict
from everhold.ledger import EntryDraft, Outcome
from everhold.ledger.allotments import Accounts
from everhold.mechanisms import GuessAndCheck
from everhold.queries.query import MOST_SHOWN, ExecutionResult, Outdated, QueryPlan, digest

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from everhold.asking.query_executor import QueryExecutor
    from everhold.gates.evidence import Version
    from everhold.gates.records import GateAccount
    from everhold.ledger import Entry
    from everhold.ledger.extension import LedgerExtension
    from everhold.mechanisms import Mechanism, State

__all__ = [
    "Challenge", "act", "challenge_of", "check_gates", "next_nats", "record_act", "told_nothing",
]  # fmt: skip


@dataclass(frozen=True)
class Challenge(QueryPlan[Verdict]):
    """A challenge of the champion that a gate has now; evidence adds how the two are compared.

    Attributes:
        gate: The gate as it was when the challenge was prepared.
        version: The challenger.
        rows: What says which rows or cases it is about, where some arrived; part of its identity.
        about: What a promotion is about, in words; None for the population.
        mechanism: Of the rows that answer.
        keeping: For so many silent queries there has to be room afterwards.
    """

    gate: GateAccount
    version: Version
    rows: tuple[tuple[str, int], ...]
    about: str | None
    mechanism: Mechanism
    keeping: int = field(default=0, kw_only=True)

    @property
    def described(self) -> dict[str, Any]:
        """Public facts for the entry that are no part of its identity."""
        return {}

    @cached_property
    def asked(self) -> Sequence[EntryDraft]:  # type: ignore[override]  # an attribute that is made when it is needed
        """One entry; gate, champion, challenger, and the rows where some arrived, are its identity."""
        identity = {**challenge_of(self.gate, self.gate.champion, self.version.digest), **dict(self.rows)}
        public = {**identity, "margin": self.gate.margin, **self.described, "shown": self.shown[:MOST_SHOWN]}
        return [EntryDraft(digest(identity), public)]

    @property
    def query(self) -> str:
        """SHA-256 of the identity."""
        return self.asked[0].fingerprint

    @property
    def shown(self) -> str:
        """The challenge as people read it."""
        return f"gate {self.gate.name!r}: {self.version.shown} against champion {self.gate.champion[:8]}"

    def silently(self) -> Self:
        """Refused: a gate that told nothing could not go on with a better model.

        Raises:
            QueryRejected: Always. Nothing is charged.
        """
        raise QueryRejected(
            "a challenge cannot be asked silently, because its verdict is which champion the next one has to beat; "
            "expected a challenge without silent=True; a verdict tells no numbers, and those come with unseal()"
        )

    def capacity(self, accounts: Accounts, count: int) -> int:
        """As many as the gate's own limit allows.

        Raises:
            Outdated: If the gate has another champion by now.
        """
        now = accounts.of(Gates).by_name.get(self.gate.name)
        if now is None or now.champion != self.gate.champion:
            raise Outdated
        return min(count, now.left)

    def present(self, result: ExecutionResult) -> Verdict:
        """The verdict in the metric's units."""
        (entry,) = result.entries
        gate, decided = self.gate, {"refused": True}
        if entry is not None:
            gate = Accounts.from_state(entry.state_after).of(Gates).by_name[gate.name]
            decided = {"promoted": entry.answer["source"] == PROMOTED, "repeated": entry.repeated}
        return Verdict.of(
            gate, result, query=self.query, shown=self.shown, about=self.about, name=self.version.name,
            confidence=self.mechanism.confidence, charged=0 if entry is None else entry.charged, **decided,
        )  # fmt: skip

    def quote(self, state: State, stored: Sequence[Entry | None]) -> QuotedPrice:
        """Free if kept, a surprise if promoted; there is no half-width."""
        (entry,) = stored
        before = entry is not None
        return QuotedPrice(self.query, None, None, 0, 0 if before else 1, False, before, {})


def challenge_of(gate: GateAccount, champion: str, challenger: str) -> dict[str, Any]:
    """Identity of a challenge: gate, champion and challenger."""
    return {"kind": "challenge", "gate": gate.name, "champion": champion, "challenger": challenger}


def check_gates(mechanism: Mechanism) -> None:
    """Check that a mechanism can promise what a gate says."""
    if not isinstance(mechanism, GuessAndCheck):
        raise QueryRejected(
            f"{mechanism.name} cannot keep a gate: what a gate promises rests on counting all courses that queries "
            "and answers can take, each with its own exact interval, and the answers of this mechanism are not of that "
            "kind; expected a holdout that was created with mechanism='guess_and_check'"
        )


def next_nats(mechanism: Mechanism, state: State) -> float:
    """ln(1 / level) of the next query."""
    assert isinstance(mechanism, GuessAndCheck)  # see `check_gates`
    return float(mechanism.nats(state.asked + 1, state.charged, state.labels / 1e6))


def act(public: dict[str, Any], shown: str, identity: dict[str, Any] | None = None) -> EntryDraft:
    """An entry of a gate that is no challenge; its identity is all that is public by default."""
    return EntryDraft(digest(public if identity is None else identity), {**public, "shown": shown[:MOST_SHOWN]})


def told_nothing(source: str) -> Outcome:
    """The "answer" of an act."""
    return Outcome({"value": None, "low": None, "high": None, "source": source}, 0)


def record_act(
    executor: QueryExecutor, draft: EntryDraft, extension: type[LedgerExtension], *,
    check: Callable[[Accounts], None] = lambda _: None, keep: Callable[[], None] = lambda: None,
) -> None:  # fmt: skip
    """Append an act.

    Args:
        executor: The holdout at work.
        draft: The entry; its kind is its source.
        extension: Keeps such acts.
        check: Refuses the act where what it was prepared on has changed.
        keep: Writes files, inside the transaction, when nothing can refuse the act any more.

    Raises:
        QueryRejected: If the study is closed, or `check` says so. Nothing was changed.
        RowsArrived: If other rows are there by now. Nothing was changed.
    """

    def step(data: dict[str, Any], _: list[int]) -> tuple[dict[str, Any], list[Outcome | None]]:
        accounts = Accounts.from_state(data)
        if accounts.closed:
            raise QueryRejected(CLOSED_STUDY)
        executor.state_from(data)
        check(accounts)
        accounts.of(extension).replay(draft.description, draft.description["kind"])
        keep()
        return accounts.into(data), [told_nothing(draft.description["kind"])]

    executor.ledger.commit([draft], step)
