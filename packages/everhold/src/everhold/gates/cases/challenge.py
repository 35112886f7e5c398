"""A challenge of a gate about cases: one claim about the smallest of several, told as promoted or kept.

Results come from the challenger's side. The plan compares them with those of the champion and of the baseline, which
lie beside the sealed rows. No number of a single claim is ever told, not even after the study was unsealed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import brief
from everhold.display import at_least
from everhold.errors import QueryRejected
from everhold.gates.cases.results import NEW_RUNS
from everhold.gates.challenge import GateChallenge, challenge_of
from everhold.gates.history import most_gain
from everhold.gates.verdict import Decision, Verdict
from everhold.ledger import EntryDraft, Outcome
from everhold.ledger.gates import KEPT, PROMOTED
from everhold.queries.query import MOST_SHOWN, ExecutionResult, Pricing, digest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.gates.cases.evidence import UnitPlan
    from everhold.gates.cases.results import CaseSuite
    from everhold.ledger.gates import GateAccount
    from everhold.ledger.open_challenges import Opened
    from everhold.mechanisms import State
    from everhold.mechanisms.guess_and_check import GuessAndCheck
    from everhold.randomness import Noise
    from everhold.sealing.rows.table import StoredRows

RUNS_OF_THESE = "new runs of these cases"
"""Subject of a promise about `NEW_RUNS`."""


def next_nats(mechanism: GuessAndCheck, state: State) -> float:
    """ln(1 / level) of the next query."""
    return float(mechanism.nats(state.asked + 1, state.charged, state.labels / 1e6))


def interim_label(looks: int) -> int:
    """Cost of the label of a mark's look for later queries, in millionths of a nat: all looks are alike.

    Examples:
        >>> interim_label(20)
        2995733
    """
    return math.ceil(1e6 * math.log(looks))


@dataclass(frozen=True)
class CaseChallenge(GateChallenge):
    """One challenge that is ready to be asked, against the champion of the moment.

    Attributes:
        gate: The gate as it was when this was made.
        units: Its units.
        challenger: The challenger's name.
        keep: Keeps the challenger's results among those of the gate's champions.
        proves: Whether the claims are proved at ln(1 / level). Secret.
        values: The challenger's results, kept if it is promoted; None where they are not complete. Secret.
        about: What identifies the cases, where some were added; part of the challenge's identity.
        opened: The open challenge that this closes; None for one that was given all results at once.
        futile: True if it is ended as kept by what the results say, before all cases were handed out.
    """

    gate: GateAccount
    suite: CaseSuite
    units: UnitPlan
    challenger: str
    mechanism: GuessAndCheck
    keep: Callable[[NDArray[np.float64]], None] = field(repr=False)
    proves: Callable[[float], bool] = field(repr=False)
    values: NDArray[np.float64] | None = field(repr=False)
    about: tuple[tuple[str, int], ...] = ()
    opened: Opened | None = None
    futile: bool = False

    def is_short(self, rows: int) -> bool:
        """Always: nothing is read of the sealed rows."""
        return True

    @cached_property
    def asked(self) -> Sequence[EntryDraft]:  # type: ignore[override]  # an attribute that is made when it is needed
        """One entry."""
        public = {**self.identity, "margin": self.gate.margin}
        if self.opened is not None:
            public["opened"] = self.opened.entry
        return [EntryDraft(self.query, {**public, "shown": self.shown[:MOST_SHOWN]})]

    @property
    def identity(self) -> dict[str, Any]:
        """Gate, champion and the challenger's name, and what was added to the cases; results are no part of it."""
        challenger = challenger_digest(self.gate.name, self.challenger)
        return {**challenge_of(self.gate, self.gate.champion, challenger), **dict(self.about)}

    @property
    def shown(self) -> str:
        """The challenge as people read it."""
        what = ", ".join(self.suite.better)
        return f"gate {self.gate.name!r}: {what} of {self.challenger} against champion {self.gate.champion[:8]}"

    @property
    def pricing(self) -> Pricing:  # type: ignore[override]
        """A surprise at most; refused where no results could prove the claims."""
        return Pricing(1, self._sure, reserved=self.opened is not None)

    def _sure(self, state: State, count: int) -> int:
        if self.opened is not None:  # its place was taken when it was opened
            return min(count, 1)
        return min(count, 1) if self.units.can_prove(next_nats(self.mechanism, state)) else 0

    def evaluate(self, sealed: StoredRows, places: Sequence[int]) -> None:
        """Nothing is read of the sealed rows."""

    def answer(self, state: State, seen: None, rows: list[int], noise: Noise) -> tuple[State, list[Outcome]]:
        """The verdict; a promoted challenger's results are kept before anybody hears of it."""
        nats = next_nats(self.mechanism, state) if self.opened is None else self.opened.nats
        promoted = self.values is not None and not self.futile and self.proves(nats)
        if promoted and self.values is not None:
            self.keep(self.values)
        answer = {
            "value": None, "low": self.gate.margin if promoted else None, "high": None,
            "source": PROMOTED if promoted else KEPT,
            "node": {"by": "claims", "nats": nats, "one_sided": True},
        }  # fmt: skip
        mark = promoted or self.futile
        label = interim_label(self.opened.marks) if mark and self.opened is not None else 0
        return state.after(charged=int(mark), labels=label), [Outcome(answer, int(mark))]

    def present(self, result: ExecutionResult) -> Verdict:
        """The verdict in the metric's units."""
        decision = Decision.of_challenge(self.gate, result, query=self.query, shown=self.shown)
        return case_verdict(
            decision, self.suite, result, confidence=self.mechanism.confidence, challenger=self.challenger
        )


def challenger_digest(gate: str, challenger: str) -> str:
    """SHA-256 of a challenger's name at a gate."""
    return digest({"kind": "cases", "gate": gate, "challenger": challenger})


def case_verdict(
    decision: Decision, suite: CaseSuite, result: ExecutionResult, *, confidence: float, challenger: str
) -> Verdict:  # fmt: skip
    """The verdict that tells a decision on the claims of a suite."""
    metric = decision.gate.metric
    return decision.verdict(
        result, confidence=confidence, margin=suite.margin, high=most_gain(metric), metric=claims_in_words(metric),
        about=RUNS_OF_THESE if suite.population == NEW_RUNS else None, challenger=challenger,
    )  # fmt: skip


def claims_in_words(description: Mapping[str, Any]) -> str:
    """The claims of a gate as people read them.

    Examples:
        >>> claims_in_words({"better": ["accuracy"], "not_worse": {"cost": 0.02}})
        'accuracy (guard: cost at most 0.02 worse than the baseline)'
    """
    better = " or ".join(description["better"])
    slacks = description["not_worse"].items()
    held = [f"{name} at most {at_least(slack)} worse than the baseline" for name, slack in slacks]
    guards = ", ".join([*held, *description.get("limits", {})])
    return f"{better} (guard: {guards})" if guards else str(better)


def checked_challenger(name: Any) -> str:
    """The name of a challenger, such as a commit."""
    if not (isinstance(name, str) and 1 <= len(name) <= 100 and name.isprintable() and name == name.strip()):
        raise QueryRejected(
            f"The challenger's name {brief(name)} cannot be used. Pass 1 to 100 printable characters, such as a commit."
        )
    return name
