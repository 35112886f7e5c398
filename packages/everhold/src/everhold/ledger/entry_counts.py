"""Sums over all entries for a certificate, one entry after the other."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from everhold.ledger.extension import is_act

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

__all__ = ["ABOUT", "DISCLOSED", "GATE", "KEPT", "OPENED", "PROMOTED", "UNSEALING", "VERDICTS", "EntryCounts"]

ABOUT = "about"
"""Field of an entry's description, beside what identifies the query: it is about predictions by position."""

DISCLOSED = "disclosed"
"""Field of an unsealing's answer: for each entry that has them sequence, sealed mean, low and high, in order."""

GATE = "gate"
"""Source of the "answer" of an entry that is no query but opens a gate."""

KEPT = "kept"
"""Source of the answer to a challenge that leaves the champion."""

OPENED = "opened"
"""Source of the "answer" of an entry that opens a challenge; in the description of its verdict, that entry's number."""

PROMOTED = "promoted"
"""Source of the answer to a challenge whose challenger is proved to be better."""

VERDICTS = frozenset({PROMOTED, KEPT})
"""Sources of answers to challenges."""

UNSEALING = "unsealing"
"""Source of the "answer" of an entry that closes the study and tells all sealed numbers."""


@dataclass(slots=True)
class EntryCounts:
    """Sums over the entries up to one of them; all of it public.

    Attributes:
        sources: Queries by the source of their answer.
        by_position: How many of them are about predictions by position.
        unsealing: Number of the entry that told all sealed numbers; None before.
        unsealed: How many it told.
        promotions: By gate, in order: number of the entry, the challenger, the champion that it beat, and ``nats``, the
            ln(1 / level) at which that was proved, where the mechanism has levels.
    """

    sources: Counter[str] = field(default_factory=Counter)
    by_position: int = 0
    unsealing: int | None = None
    unsealed: int = 0
    promotions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def take(self, sequence: int, description: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Count one entry; one that cannot have been written is counted as what it says."""
        source = answer.get("source")
        if source == UNSEALING:
            self.unsealing, told = sequence, answer.get(DISCLOSED)
            self.unsealed = len(told) if isinstance(told, list) else 0
        if not is_act(description, answer):
            self.sources[str(source)] += 1
            self.by_position += ABOUT in description
        if source == PROMOTED:
            nats = (answer.get("node") or {}).get("nats")
            promoted = {
                "challenger": description.get("challenger"), "over": description.get("champion"),
                **({} if nats is None else {"nats": nats}),
            }  # fmt: skip
            self.promotions.setdefault(str(description.get("gate")), []).append({"sequence": sequence, **promoted})

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "sources": dict(self.sources), "by_position": self.by_position, "unsealing": self.unsealing,
            "unsealed": self.unsealed, "promotions": self.promotions,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        return cls(**{**data, "sources": Counter(data["sources"])})
