"""Declared families, as the ledger keeps them: what they hold, when they were declared, and at which level.

Declaring a family is an entry of the chain with the source `DECLARATION` and no charge. A family of the holdout's
creation has a part of the share that was set apart for it, and comes before any answer. One that is declared later
takes a place among the queries, at whose level its members share (S10).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from everhold.ledger.chain import canonical
from everhold.ledger.extension import LedgerExtension

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

__all__ = ["DECLARATION", "DECLARED", "LONGEST_FAMILY", "Declaration", "Declarations"]

DECLARATION = "declaration"
"""Source of the "answer" of an entry that is no query but declares a family."""

DECLARED = "declared"
"""Source of answers to members of declared families."""

LONGEST_FAMILY = 100


@dataclass(frozen=True, slots=True)
class Declaration:
    """One declared family; all of it public.

    Attributes:
        name: Its name, unique in the holdout.
        shown: What it holds, as people read it.
        family: What it holds, as canonical JSON.
        nats: ln(1 / level) that all of its members share.
        entry: Number of its entry in the ledger.
        later: Whether it was declared after the holdout had been created, and took a place among the queries.
    """

    name: str
    shown: str
    family: str
    nats: float
    entry: int
    later: bool

    def __post_init__(self) -> None:
        texts = (self.name, self.shown)
        sound = all(isinstance(text, str) and text.isprintable() and text for text in texts)
        sound = sound and len(self.name) <= LONGEST_FAMILY and type(self.later) is bool
        sound = sound and type(self.entry) is int and self.entry >= 1
        if not (sound and type(self.nats) is float and math.isfinite(self.nats) and self.nats > 0.0):
            raise ValueError("the declaration is malformed")

    def stored(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "name": self.name, "shown_family": self.shown, "family": json.loads(self.family), "nats": self.nats,
            "entry": self.entry, "later": self.later,
        }  # fmt: skip

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        """The inverse of `stored`, which may hold more.

        Raises:
            ValueError: If `stored` never returns such a thing.
        """
        if not isinstance(stored.get("family"), dict):
            raise ValueError("the declaration is malformed")
        name, shown, nats, entry, later = (stored.get(f) for f in ("name", "shown_family", "nats", "entry", "later"))
        return cls(name, shown, canonical(stored["family"]), nats, entry, later)  # type: ignore[arg-type]  # checked


@dataclass(slots=True)
class Declarations(LedgerExtension):
    """All declared families of a holdout at one moment.

    Attributes:
        by_name: In the order in which they were declared.
    """

    name: ClassVar[str] = "declared"
    key: ClassVar[str] = "declared"
    acts: ClassVar[frozenset[str]] = frozenset({DECLARATION})
    answers: ClassVar[frozenset[str]] = frozenset({DECLARED})
    free: ClassVar[frozenset[str]] = frozenset({DECLARED})
    accessor: ClassVar[str] = "everhold.asking.declared:HoldoutFamilies"

    by_name: dict[str, Declaration] = field(default_factory=dict)

    @classmethod
    def read(cls, stored: Any) -> Self:
        """The inverse of `stored`.

        Raises:
            ValueError: Or TypeError, if `stored` never returns such a thing.
        """
        found = cls()
        for line in stored:
            found._take(Declaration.read(line))
        if not found.by_name:
            raise ValueError("there are no families")
        return found

    def stored(self) -> list[dict[str, Any]] | None:
        """As plain JSON data; None if nothing is declared."""
        return [declaration.stored() for declaration in self.by_name.values()] or None

    @property
    def entries(self) -> int:
        """Number of declared families, each with an entry."""
        return len(self.by_name)

    def knows_arrivals(self, configuration: Mapping[str, Any]) -> bool:
        """True where members hold at all numbers of rows at once (S14)."""
        return "families_grow" in configuration

    def replay(self, description: Mapping[str, Any], source: object) -> None:
        """Take the entry that declares a family.

        Raises:
            ValueError: If no such entry is ever written here, in words.
        """
        self._take(Declaration.read(description))

    def _take(self, declaration: Declaration) -> None:
        if declaration.name in self.by_name:
            raise ValueError("a family was declared twice")
        if not declaration.later and declaration.entry != len(self.by_name) + 1:
            raise ValueError("a family is said to be of the holdout's creation, and other entries came before it")
        self.by_name[declaration.name] = declaration

    def settle(self, description: Mapping[str, Any], source: object, charged: int) -> None:
        """Answers to members cost nothing.

        Raises:
            ValueError: If one was charged.
        """
        if source == DECLARED and charged:
            raise ValueError("an answer to a member of a declared family is never charged")
