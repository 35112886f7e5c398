"""Challenges that stay open while cases are handed out, as the ledger keeps them.

Opening takes a place among the queries and fixes the level. Each look that ends nothing is an act of its own. The
verdict takes another place, and names the entry that opened the challenge; until then the gate answers no other one. An
analyst's allotment pays for both places, and for a surprise, when the challenge is opened (`spending_of`). A challenge
belongs to the analyst who opened it, and its verdict is an entry of that analyst, whoever ends it.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from everhold.ledger.entry_counts import OPENED
from everhold.ledger.extension import LedgerExtension
from everhold.ledger.gates import KEPT, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

__all__ = ["LOOKED", "OPENED", "OpenChallenges", "Opened"]

LOOKED = "looked"
"""Source of the acts that record a look after which a challenge goes on."""

_MOST_LOOKS = 10_000


@dataclass(frozen=True, slots=True)
class Opened:
    """One open challenge; all of it public.

    Attributes:
        gate: Name of the gate.
        name: The challenger's name.
        challenger: Digest of that name.
        champion: Digest of the champion.
        nats: ln(1 / level), fixed at opening.
        looks: How many looks there can be.
        entry: Number of the entry that opened it.
        analyst: Who opened it; None for the steward.
        futility: True if a look may also end it as kept, which is a mark as a promotion is.
        results: Keyed digest of what was reported at each look so far.
    """

    gate: str
    name: str
    challenger: str
    champion: str
    nats: float
    looks: int
    entry: int
    analyst: str | None = None
    futility: bool = False
    results: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        texts = (self.gate, self.name, self.challenger, self.champion, *self.results)
        sound = all(isinstance(text, str) and text for text in texts)
        sound = sound and type(self.nats) is float and math.isfinite(self.nats) and self.nats > 0.0
        counts = (self.looks, self.entry)
        sound = sound and all(type(count) is int and count >= 1 for count in counts) and self.looks <= _MOST_LOOKS
        sound = sound and type(self.futility) is bool and (self.analyst is None or isinstance(self.analyst, str))
        if not (sound and len(self.results) < self.looks):
            raise ValueError("the open challenge is malformed")

    @property
    def marks(self) -> int:
        """Number of labels that its mark can have, all alike: looks, twice where futility may end it, too."""
        return self.looks * (2 if self.futility else 1)

    def belongs_to(self, analyst: str | None) -> bool:
        """True if this analyst opened it, or it is the steward who asks."""
        return analyst is None or analyst == self.analyst

    def stored(self) -> list[Any]:
        """As plain JSON data."""
        return [*astuple(self)[:-1], list(self.results)]

    @classmethod
    def read(cls, stored: list[Any]) -> Self:
        """The inverse of `stored`."""
        gate, name, challenger, champion, nats, looks, entry, analyst, futility, results = stored
        return cls(gate, name, challenger, champion, nats, looks, entry, analyst, futility, tuple(results))

    def after(self, results: str) -> Opened:
        """After one more look."""
        return replace(self, results=(*self.results, results))


@dataclass(slots=True)
class OpenChallenges(LedgerExtension):
    """All open challenges of a holdout at one moment, and how many acts there were.

    Attributes:
        by_gate: One for each gate at most.
        opened: How many were opened so far.
        looked: How many looks ended nothing so far.
        futile: How many challenges were ended as kept before all cases were handed out, each for a surprise.
    """

    name: ClassVar[str] = "open_challenges"
    key: ClassVar[str] = "open_challenges"
    acts: ClassVar[frozenset[str]] = frozenset({OPENED, LOOKED})
    accessor: ClassVar[str] = "everhold.gates.cases.open_challenge:HoldoutOpenChallenges"

    by_gate: dict[str, Opened] = field(default_factory=dict)
    opened: int = 0
    looked: int = 0
    futile: int = 0

    @classmethod
    def read(cls, stored: Any) -> Self:
        """The inverse of `stored`.

        Raises:
            ValueError: If `stored` never returns such a thing.
        """
        found = [Opened.read(line) for line in stored["open"]]
        counts = opened, looked, futile = stored["opened"], stored["looked"], stored.get("futile", 0)
        sound = all(type(count) is int and count >= 0 for count in counts) and opened >= max(len(found) + futile, 1)
        if not sound:
            raise ValueError("the counts are impossible")
        return cls({each.gate: each for each in found}, opened, looked, futile)

    def stored(self) -> dict[str, Any] | None:
        """As plain JSON data; None if none was ever opened."""
        if not self.opened:
            return None
        counts = {"opened": self.opened, "looked": self.looked, **({"futile": self.futile} if self.futile else {})}
        return {"open": [each.stored() for each in self.by_gate.values()], **counts}

    @property
    def entries(self) -> int:
        """Number of acts."""
        return self.opened + self.looked

    def knows_arrivals(self, configuration: Mapping[str, Any]) -> bool:
        """True: see `keeps_out`."""
        return True

    def keeps_out(self) -> str:
        """While cases are handed out none arrive, as the order of the challenge is that of the cases there."""
        return "".join(
            f"a challenge of gate {gate!r} is open; expected its report first; report it, or withdraw it; nothing was "
            "changed"
            for gate in list(self.by_gate)[:1]
        )

    def replay(self, description: Mapping[str, Any], source: object) -> None:
        """Take an act.

        Raises:
            ValueError: If no such entry is ever written here, in words.
        """
        if source == OPENED:
            named = ("gate", "name", "challenger", "champion", "nats", "looks", "entry", "analyst")
            made = Opened.read([*map(description.get, named), description.get("futility", False), []])
            if made.gate in self.by_gate:
                raise ValueError("the gate has an open challenge already")
            self.by_gate[made.gate] = made
            self.opened += 1
            return
        before = self.by_gate.get(str(description.get("gate")))
        if before is None or before.entry != description.get("entry"):
            raise ValueError("there is no such open challenge")
        if description.get("look") != len(before.results) + 1:
            raise ValueError("the look is not the next one")
        self.by_gate[before.gate] = before.after(str(description.get("results")))
        self.looked += 1

    def settle(self, description: Mapping[str, Any], source: object, charged: int) -> None:
        """Take a verdict; that of an open challenge closes it.

        Raises:
            ValueError: If a gate with an open challenge answered another one.
        """
        if source not in VERDICTS:
            return
        before = self.by_gate.get(str(description.get("gate")))
        entry = description.get("opened")
        if before is None and entry is None:
            return
        if before is None or before.entry != entry:
            raise ValueError("the gate has another open challenge, or none")
        if before.analyst != description.get("analyst"):
            raise ValueError("the verdict of an open challenge is not an entry of the analyst who opened it")
        if source == KEPT and charged:
            if not before.futility:
                raise ValueError("an early end was charged that the challenge cannot have")
            self.futile += 1
        del self.by_gate[before.gate]
