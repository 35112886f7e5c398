"""Gates, as the ledger keeps them: which champion each of them has, and how often it was challenged.

Opening a gate is an entry of the chain with the source `GATE` and no charge; every challenge is a query whose answer
has the source `PROMOTED` or `KEPT`. So the champion follows from the entries alone. It is kept beside the mechanism's
state, under the same seal, to be at hand in a transaction. Where rows arrived, an entry with the source `COMPLETED`
says that the champion has values for them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard

from everhold.ledger.entry_counts import PROMOTED
from everhold.ledger.extension import LedgerExtension

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

__all__ = [
    "CASES", "COMPLETED", "GATE", "KEPT", "LONGEST_GATE", "MOST_CHALLENGES", "PROMOTED", "VERDICTS", "GateAccount",
    "Gates",
]  # fmt: skip

GATE = "gate"
"""Source of the "answer" of an entry that is no query but opens a gate."""

CASES = "cases"
"""Kind of the metric of a gate about cases."""

COMPLETED = "completed"
"""Source of the "answer" of an entry by which a champion has values for rows that arrived."""

KEPT = "kept"
VERDICTS = frozenset({PROMOTED, KEPT})
"""Sources of answers to challenges."""

LONGEST_GATE = 100
MOST_CHALLENGES = 10**15
"""The largest limit of a gate's own."""

_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class GateAccount:
    """One gate at one moment; all of it public.

    Attributes:
        name: Its name, unique in the holdout.
        metric: What is compared, without the candidates; plain JSON data.
        margin: By more than this a promoted challenger is better, in units of row values in [0, 1].
        limit: Most challenges that are answered; None for as many as the holdout's budget pays.
        first: The champion that it began with: SHA-256 of the query about it.
        champion: The present champion.
        before: The champion before, against which the present one was promoted; empty if there was none.
        challenges: Challenges answered so far.
        promotions: How many of them promoted the challenger.
        arrived: Arrival up to which the champion of a gate about rows has values.
        completions: Entries by which champions got values for rows that arrived.
    """

    name: str
    metric: Mapping[str, Any]
    margin: float
    limit: int | None
    first: str
    champion: str
    before: str = ""
    challenges: int = 0
    promotions: int = 0
    arrived: int = 0
    completions: int = 0

    @property
    def left(self) -> int:
        """Number of further challenges that its own limit allows."""
        return (MOST_CHALLENGES if self.limit is None else self.limit) - self.challenges

    @property
    def about_rows(self) -> bool:
        """True for a gate about rows, False for one about cases."""
        return self.metric.get("kind") != CASES

    def after(self, challenger: str, *, promoted: bool, arrived: int = 0) -> GateAccount:
        """The gate after one more challenge."""
        asked = replace(self, challenges=self.challenges + 1)
        if not promoted:
            return asked
        return replace(
            asked, champion=challenger, before=self.champion, promotions=self.promotions + 1, arrived=arrived
        )

    def completed(self, arrived: int) -> GateAccount:
        """The gate whose champion has values for the rows up to an arrival."""
        return replace(self, arrived=arrived, completions=self.completions + 1)

    def stored(self) -> list[Any]:
        """As plain JSON data; without the last two where no rows arrived."""
        counts = [self.name, self.metric, self.margin, self.limit, self.first, self.champion, self.before]
        later = [self.arrived, self.completions] if self.arrived or self.completions else []
        return [*counts, self.challenges, self.promotions, *later]


@dataclass(slots=True)
class Gates(LedgerExtension):
    """All gates of a holdout at one moment.

    Attributes:
        by_name: In the order in which they were opened.
    """

    name: ClassVar[str] = "gates"
    key: ClassVar[str] = "gates"
    acts: ClassVar[frozenset[str]] = frozenset({GATE, COMPLETED})
    answers: ClassVar[frozenset[str]] = VERDICTS
    accessor: ClassVar[str] = "everhold.gates.holdout_gates:HoldoutGates"

    by_name: dict[str, GateAccount] = field(default_factory=dict)

    @classmethod
    def read(cls, stored: Any) -> Self:
        """The inverse of `stored`.

        Raises:
            ValueError: Or TypeError, if `stored` never returns such a thing.
        """
        lines = [GateAccount(*line) for line in stored]
        if not (lines and all(map(_is_sound, lines))):
            raise ValueError("there are no gates, or one is impossible")
        return cls({line.name: line for line in lines})

    def stored(self) -> list[list[Any]] | None:
        """As plain JSON data; None if there is no gate."""
        return [gate.stored() for gate in self.by_name.values()] or None

    @property
    def entries(self) -> int:
        """Number of gates that were opened and of champions that were completed, each by an entry."""
        return len(self.by_name) + sum(gate.completions for gate in self.by_name.values())

    def knows_arrivals(self, configuration: Mapping[str, Any]) -> bool:
        """True where all rows have one tree, and for gates about rows."""
        return not configuration.get("grows") or all(gate.about_rows for gate in self.by_name.values())

    def replay(self, description: Mapping[str, Any], source: object) -> None:
        """Take the entry that opens a gate, or by which its champion has values for rows that arrived.

        Raises:
            ValueError: If no such entry is ever written here, in words.
        """
        if source == COMPLETED:
            self._complete(description)
        else:
            self._open(description)

    def settle(self, description: Mapping[str, Any], source: object, charged: int) -> None:
        """Take the answer to a challenge; a promoted challenger is the champion from now on.

        Raises:
            ValueError: If no such entry is ever written here, in words.
        """
        if source not in VERDICTS:
            return
        stopped = source == KEPT and charged == 1 and description.get("opened") is not None
        if charged != (source == PROMOTED) and not stopped:
            raise ValueError("a promotion or a stop for futility costs one surprise, and nothing else is charged")
        self._challenge(description, promoted=source == PROMOTED)

    def _open(self, description: Mapping[str, Any]) -> None:
        name, metric, margin, limit, champion = (
            description.get(field) for field in ("gate", "metric", "margin", "challenges", "champion")
        )
        sound = _is_name(name) and isinstance(metric, dict) and _is_margin(margin) and _is_limit(limit)
        if not (sound and _is_digest(champion)):
            raise ValueError("the gate is malformed")
        if name in self.by_name:
            raise ValueError("the gate was opened twice")
        opened = GateAccount(name, metric, margin, limit, champion, champion)  # type: ignore[arg-type]
        self.by_name[opened.name] = replace(opened, arrived=_arrived_in(description))

    def _complete(self, description: Mapping[str, Any]) -> None:
        gate, arrived = self._gate_of(description), _arrived_in(description)
        if gate is None or description.get("champion") != gate.champion or arrived <= gate.arrived:
            raise ValueError("a champion was completed that is not the one of its gate, or not with later rows")
        self.by_name[gate.name] = gate.completed(arrived)

    def _gate_of(self, description: Mapping[str, Any]) -> GateAccount | None:
        name = description.get("gate")
        return self.by_name.get(name) if isinstance(name, str) else None

    def _challenge(self, description: Mapping[str, Any], *, promoted: bool) -> None:
        champion, challenger = description.get("champion"), description.get("challenger")
        gate = self._gate_of(description)
        if gate is None or not _is_digest(challenger):
            raise ValueError("the challenge is malformed")
        if champion != gate.champion:
            raise ValueError("the challenge was not about the champion of its gate")
        if gate.left < 1:
            raise ValueError("the gate answered more challenges than its limit")
        arrived = _arrived_in(description) if gate.about_rows else 0
        self.by_name[gate.name] = gate.after(challenger, promoted=promoted, arrived=arrived)


def _is_sound(gate: GateAccount) -> bool:
    return (
        _is_name(gate.name)
        and isinstance(gate.metric, dict)
        and _is_margin(gate.margin)
        and _is_limit(gate.limit)
        and all(map(_is_digest, (gate.first, gate.champion, *([gate.before] if gate.promotions else []))))
        and all(map(_is_count, (gate.challenges, gate.promotions, gate.arrived, gate.completions)))
        and gate.promotions <= gate.challenges
        and gate.left >= 0
    )


def _arrived_in(description: Mapping[str, Any]) -> int:
    """Arrival up to which rows had come, as an entry says it.

    Raises:
        ValueError: If it says none that can be.
    """
    arrived = description.get("arrived", 0)
    if not _is_count(arrived):
        raise ValueError("an entry of a gate is about no arrival")
    return arrived


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and 1 <= len(value) <= LONGEST_GATE and value.isprintable()


def _is_margin(value: object) -> TypeGuard[float]:
    return type(value) is float and math.isfinite(value) and 0.0 <= value < 1.0


def _is_limit(value: object) -> bool:
    return value is None or (_is_count(value) and value >= 1)


def _is_digest(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) == 64 and _HEX.issuperset(value)


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= MOST_CHALLENGES
