"""Is the challenger better than the champion? A challenge of a gate, which tells only whether it is proved.

The query is the paired gain of the challenger in a metric, in [-1, 1]. It is put into [0, 1] as ``(1 + gain) / 2``.
The answer is *promoted*, if the lower limit of the gain exceeds the margin at the node's own level, or *kept*, which
promises nothing. No value is told, so a kept challenge is free and a promotion costs one surprise and no label
(docs/theory, the gate).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.answers import QuotedPrice
from everhold.errors import QueryRejected
from everhold.estimand import about_of, marked
from everhold.gates.history import most_gain
from everhold.gates.metrics import metric_in_words
from everhold.gates.verdict import Decision, Verdict
from everhold.ledger import EntryDraft, Outcome
from everhold.ledger.allotments import Accounts
from everhold.ledger.gates import PROMOTED, Gates
from everhold.mechanisms import GuessAndCheck, Source
from everhold.mechanisms.evaluations import Evaluations
from everhold.queries.means.units import GAIN_OPEN, GAIN_WIDTH
from everhold.queries.query import MOST_SHOWN, ExecutionResult, Outdated, Pricing, QueryPlan, digest

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import NDArray

    from everhold.gates.candidates import Candidate
    from everhold.gates.gains import Gain, Gained
    from everhold.ledger import Entry
    from everhold.ledger.gates import GateAccount
    from everhold.mechanisms import Mechanism, State
    from everhold.randomness import Noise
    from everhold.sealing.model_store import Champion, ModelStore, Written
    from everhold.sealing.rows.table import StoredRows
    from everhold.values.base import Schema


class GateChallenge(QueryPlan[Verdict]):
    """One entry of the ledger that is about the champion which a gate has now.

    Attributes:
        gate: The gate as it was when the challenge was prepared.
    """

    gate: GateAccount

    @property
    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Gate, champion and challenger, and the rows where some arrived."""

    @property
    @abstractmethod
    def shown(self) -> str:
        """The challenge as people read it."""

    @property
    def query(self) -> str:
        """SHA-256 of the identity."""
        return digest(self.identity)

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

    def quote(self, state: State, stored: Sequence[Entry | None]) -> QuotedPrice:
        """Free if kept, a surprise if promoted; there is no half-width."""
        (entry,) = stored
        before = entry is not None
        return QuotedPrice(self.query, None, None, 0, 0 if before else 1, False, before, {})


@dataclass(frozen=True)
class Challenge(GateChallenge):
    """A challenge of the champion that a gate has now.

    Attributes:
        gate: The gate as it was when the challenge was prepared.
        gain: The gain that is looked at; decided by public facts.
        keeping: For so many silent queries there has to be room afterwards.
    """

    gate: GateAccount
    candidate: Candidate
    champion: Champion = field(repr=False)
    gain: Gain
    schema: Schema
    mechanism: Mechanism
    champions: ModelStore = field(repr=False)
    keeping: int = 0

    @cached_property
    def asked(self) -> Sequence[EntryDraft]:  # type: ignore[override]  # an attribute that is made when it is needed
        """One entry."""
        public = {**self.identity, "margin": self.gate.margin}
        described = {**public, **_scale_of_gains(self.candidate), "shown": self.shown[:MOST_SHOWN]}
        return [EntryDraft(self.query, marked(described, by_position=self.by_position))]

    @property
    def identity(self) -> dict[str, Any]:
        """Gate, champion and challenger, and the rows where some arrived."""
        return {**challenge_of(self.gate, self.gate.champion, self.candidate.digest), **dict(self.schema.about)}

    @property
    def shown(self) -> str:
        """The challenge as people read it."""
        return f"gate {self.gate.name!r}: {self.candidate.bound.shown} against champion {self.gate.champion[:8]}"

    @property
    def by_position(self) -> bool:
        """True if one of the two is a prediction for each of these very rows."""
        return self.candidate.by_position or self.champion.by_position

    @property
    def pricing(self) -> Pricing:  # type: ignore[override]
        """A surprise at most."""
        return Pricing.planned(self.mechanism, None, keeping=self.keeping)

    def evaluate(self, sealed: StoredRows, places: Sequence[int]) -> tuple[Evaluations, Written, Gained]:
        """The gain, and the challenger's file, in case it is promoted."""
        unit = self.mechanism.unit
        values, as_champion = self.row_values(sealed)
        written = self.champions.written(as_champion)  # for every verdict: failing tells nothing
        gained = self.gain.evaluate(sealed, values, self.champion.values)
        evaluations = Evaluations(
            totals=np.array([[gained.total]], dtype=np.int64),
            guesses=np.array([-1], dtype=np.int64),
            rows=self.schema.rows,
            unit=unit,
            procedures=[self.gain.procedure],
            seen=[gained.seen],
            margins=np.array([(1.0 + self.gate.margin) / 2.0 + self.mechanism.row_step]),  # what the grid may hide
        )
        return evaluations, written, gained

    def row_values(self, sealed: StoredRows) -> tuple[NDArray[Any], Champion]:
        """Values of the challenger, one for each row, and its file in case it is promoted."""
        values = self.candidate.sealed_values(sealed, unit=self.mechanism.unit)
        return values, self.candidate.as_champion(values)

    def answer(
        self, state: State, seen: tuple[Evaluations, Written, Gained], rows: list[int], noise: Noise
    ) -> tuple[State, list[Outcome]]:
        """The mechanism's verdict; a promoted challenger is kept before the verdict is told.

        The entry says what made the limit: the node's level, all of which is on one side, and the stakes for it.
        """
        evaluations, written, gained = seen
        state, replies = self.mechanism.answer_many(state, evaluations.some(rows), noise)
        source = Source(int(replies.sources[0])).name.lower()
        promoted = source == PROMOTED
        self.champions.settle(written, kept=promoted)
        low = self.gate.margin if promoted else None
        answer: dict[str, Any] = {"value": None, "low": low, "high": None, "source": source}
        nats = float(replies.nats[0])
        if not math.isnan(nats):
            by = {"by": self.gain.procedure.name, "nats": nats, "one_sided": True}
            answer["node"] = {**by, **self.gain.procedure.stakes(nats - math.log(2.0))}
        kept = np.clip(replies.sealed[0], 0.0, 1.0).tolist()  # one-sided: the upper end is 1
        kept[0] = kept[0] if gained.mean is None else gained.mean
        return state, [Outcome(answer, int(replies.charged[0]), None if kept[0] != kept[0] else tuple(kept))]

    def present(self, result: ExecutionResult) -> Verdict:
        """The verdict in the metric's units."""
        decision = Decision.of_challenge(self.gate, result, query=self.query, shown=self.shown)
        about = about_of(self.schema, by_position=self.by_position)
        return verdict(decision, self.candidate, result, confidence=self.mechanism.confidence, about=about)


def _scale_of_gains(candidate: Candidate) -> dict[str, Any]:
    """What a gain of 1 is worth, if not 1, and that gains can be larger, where they can."""
    width = {} if candidate.width == 1.0 else {GAIN_WIDTH: candidate.width}
    return {**width, GAIN_OPEN: True} if any(candidate.bound.unbounded) else width


def verdict(
    decision: Decision, candidate: Candidate, result: ExecutionResult, *, confidence: float, about: str | None
) -> Verdict:  # fmt: skip
    """The verdict that tells a decision in the units of a candidate's metric."""
    width, gate = candidate.width, decision.gate
    return decision.verdict(
        result, confidence=confidence, margin=gate.margin * width, high=most_gain(gate.metric),
        metric=metric_in_words(gate.metric), about=about,
    )  # fmt: skip


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
