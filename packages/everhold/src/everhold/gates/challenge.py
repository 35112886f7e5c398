"""A challenge: is the challenger proved to be better than the champion? It is told in one word.

The answer is *promoted*, if what is claimed is proved at the level of the query, or *kept*, which promises nothing. No
value is told, so a kept challenge is free and a promotion costs one surprise (docs/theory, the gate). A challenge is
one entry and one transaction. It is prepared against the champion of the moment; if that one has gone when the
transaction is open, nothing is answered, and it is prepared again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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
from everhold.queries.query import MOST_SHOWN, ExecutionResult, Outdated, Pricing, QueryPlan, digest

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from everhold.asking.query_executor import QueryExecutor
    from everhold.gates.evidence import Version
    from everhold.gates.records import GateAccount
    from everhold.ledger import Entry
    from everhold.ledger.extension import LedgerExtension
    from everhold.mechanisms import Mechanism, State
    from everhold.randomness import Noise
    from everhold.sealing.rows.table import StoredRows

__all__ = [
    "Challenge", "VersionComparison", "act", "challenge_of", "check_gates", "next_nats", "record_act", "told_nothing",
]  # fmt: skip


class VersionComparison(ABC):
    """The challenger beside the champion of the moment, on rows or on cases."""

    @property
    @abstractmethod
    def described(self) -> dict[str, Any]:
        """Public facts for the entry that are no part of its identity."""

    @abstractmethod
    def pricing(self, keeping: int) -> Pricing:
        """A surprise at most; with room afterwards for so many silent queries."""

    def is_short(self, rows: int) -> bool:
        """See `QueryPlan.is_short`."""
        return False

    @abstractmethod
    def evaluate(self, sealed: StoredRows) -> Any:
        """What is seen of both; secret."""

    @abstractmethod
    def answer(
        self, state: State, seen: Any, rows: list[int], noise: Noise, *, margin: float
    ) -> tuple[State, Outcome]:  # fmt: skip
        """The verdict; what is kept of a promoted challenger is written before anybody hears of it."""


@dataclass(frozen=True)
class Challenge(QueryPlan[Verdict]):
    """A challenge of the champion that a gate has now.

    Attributes:
        gate: The gate as it was when the challenge was prepared.
        version: The challenger.
        comparison: Of the two.
        rows: What says which rows or cases it is about, where some arrived; part of its identity.
        about: What a promotion is about, in words; None for the population.
        confidence: That of the holdout.
        keeping: For so many silent queries there has to be room afterwards.
    """

    gate: GateAccount
    version: Version
    comparison: VersionComparison = field(repr=False)
    rows: tuple[tuple[str, int], ...]
    about: str | None
    confidence: float
    keeping: int = 0

    @cached_property
    def asked(self) -> Sequence[EntryDraft]:  # type: ignore[override]  # an attribute that is made when it is needed
        """One entry."""
        public = {**self._identity, "margin": self.gate.margin, **self.comparison.described}
        return [EntryDraft(self.query, {**public, "shown": self.shown[:MOST_SHOWN]})]

    @property
    def _identity(self) -> dict[str, Any]:
        return {**challenge_of(self.gate, self.gate.champion, self.version.digest), **dict(self.rows)}

    @property
    def query(self) -> str:
        """SHA-256 of gate, champion and challenger, and of the rows where some arrived."""
        return digest(self._identity)

    @property
    def shown(self) -> str:
        """The challenge as people read it."""
        return f"gate {self.gate.name!r}: {self.version.shown} against champion {self.gate.champion[:8]}"

    @property
    def pricing(self) -> Pricing:  # type: ignore[override]
        """A surprise at most."""
        return self.comparison.pricing(self.keeping)

    def is_short(self, rows: int) -> bool:
        """See `QueryPlan.is_short`."""
        return self.comparison.is_short(rows)

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

    def evaluate(self, sealed: StoredRows, places: Sequence[int]) -> Any:
        """What is seen of both; secret."""
        return self.comparison.evaluate(sealed)

    def answer(self, state: State, seen: Any, rows: list[int], noise: Noise) -> tuple[State, list[Outcome]]:
        """The verdict."""
        state, outcome = self.comparison.answer(state, seen, rows, noise, margin=self.gate.margin)
        return state, [outcome]

    def present(self, result: ExecutionResult) -> Verdict:
        """The verdict in the metric's units."""
        (entry,) = result.entries
        gate, decided = self.gate, {"refused": True}
        if entry is not None:
            gate = Accounts.from_state(entry.state_after).of(Gates).by_name[gate.name]
            decided = {"promoted": entry.answer["source"] == PROMOTED, "repeated": entry.repeated}
        return Verdict.of(
            gate, result, query=self.query, shown=self.shown, about=self.about, name=self.version.name,
            confidence=self.confidence, charged=0 if entry is None else entry.charged, **decided,
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
