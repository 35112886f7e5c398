"""Parts of the budget for named analysts, as the ledger keeps them: limits, and what was spent of them.

A steward's act is an entry of the chain like any other, with the source `ACT` and no charge; a query that was asked
on behalf of an analyst has the analyst's name in its public description. So every limit and all spending follow from
the entries alone. The sums are kept beside the mechanism's state, under the same seal, to be at hand in a transaction.

A recovery is an act, too, with the source `RECOVERY`: it says how much was answered that the ledger does not hold. As
nobody knows on whose behalf, it takes back what was left of all allotments.

The last act of a study has the source `UNSEALING` and holds all sealed numbers. After it no query is answered and
nothing is allotted any more; nor after a recovery that says that an unsealing was lost.
State of extensions (`everhold.ledger.extension`) is kept beside the allotments in the same way.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from everhold.display import Display
from everhold.errors import IntegrityError
from everhold.ledger.entry_counts import DISCLOSED, OPENED, UNSEALING
from everhold.ledger.extension import LedgerExtension, extension_of_key, extension_of_source, is_act

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ACT",
    "ANALYST",
    "CLOSED",
    "DISCLOSED",
    "LONGEST_NAME",
    "MOST",
    "RECOVERY",
    "UNSEALING",
    "Accounts",
    "Allotment",
    "spending_of",
]

ACT = "allotment"
"""Source of the "answer" of an entry that is no query but a steward's act."""

RECOVERY = "recovery"
"""Source of the "answer" of an entry that says what the ledger lost."""

ANALYST = "analyst"
"""Field of an entry's description: on whose behalf it was asked, or whom the act is about."""

CLOSED = "closed"
"""Field of a recovery's description: whether it lost an unsealing, so that the study is over."""

LONGEST_NAME = 100
MOST = 10**15
"""The largest limit."""

_KEY, _UNSEALED = "allotments", "unsealed"
_NO_EXTENSIONS = frozenset({"configuration", "mechanism", _KEY})
_OWN_ACTS = frozenset({ACT, RECOVERY, UNSEALING})

Extension = TypeVar("Extension", bound=LedgerExtension)


@dataclass(frozen=True, slots=True)
class Allotment(Display):
    """The part of one analyst.

    Attributes:
        analyst: The name.
        queries: Most new queries that may be answered.
        charges: Most that may be charged, in the mechanism's own units.
        asked: New queries answered so far, and those that open challenges have reserved.
        charged: Charged so far, and what open challenges have reserved.
    """

    analyst: str
    queries: int
    charges: int
    asked: int = 0
    charged: int = 0

    def affords(self, price: int) -> int:
        """Number of new queries that it surely pays for if none of them costs more than `price`."""
        left = self.queries - self.asked
        return left if price == 0 else min(left, (self.charges - self.charged) // price)

    def to_dict(self) -> dict[str, Any]:
        """All attributes by name."""
        return {
            "analyst": self.analyst, "asked": self.asked, "queries": self.queries, "charged": self.charged,
            "charges": self.charges,
        }  # fmt: skip


def spending_of(description: Mapping[str, Any], source: object, charged: int) -> tuple[int, int]:
    """Queries and surprises that an entry takes from its analyst's allotment.

    An open challenge reserves all that it can spend when it is opened: its place, the place of its verdict, and a
    surprise. Its verdict takes no more, and gives the surprise back unless it was charged.

    Examples:
        >>> spending_of({"kind": "mean"}, "holdout", 1)
        (1, 1)
        >>> spending_of({"kind": "challenge", "opened": 7}, "kept", 0)
        (0, -1)
    """
    if source == OPENED:
        return 2, 1
    if description.get("kind") == "challenge" and OPENED in description:
        return 0, charged - 1
    return 1, charged


@dataclass(frozen=True, slots=True)
class Losses:
    """Losses of the ledger, as its recoveries say.

    Attributes:
        recoveries: How many entries say what was lost.
        generation: Number of the last of them, which counts those that were lost, too.
        queries: Queries that were answered and lost, in all.
        charges: What they were charged.
    """

    recoveries: int = 0
    generation: int = 0
    queries: int = 0
    charges: int = 0

    def to_dict(self) -> dict[str, int]:
        """Lost answers and charges, by name; empty if there never was a recovery."""
        if not self.recoveries:
            return {}
        return {"recoveries": self.recoveries, "queries": self.queries, "charges": self.charges}


@dataclass(slots=True)
class Accounts:
    """All allotments of a holdout at one moment.

    Attributes:
        acts: How many entries of the ledger are allotments.
        parts: Allotment by analyst, in the order of their first act.
        lost: What the ledger lost.
        closed: Whether the study is over: nothing new is answered or allotted.
        unsealings: How many entries are unsealings, 0 or 1; none if the one that closed the study was lost.
        extensions: State of the extensions that this ledger uses, by the field in which each is kept.
        unread: Fields of the sealed state that no installed extension keeps, as they are.
    """

    acts: int = 0
    parts: dict[str, Allotment] = field(default_factory=dict)
    lost: Losses = Losses()
    closed: bool = False
    unsealings: int = 0
    extensions: dict[str, LedgerExtension] = field(default_factory=dict)
    unread: dict[str, Any] = field(default_factory=dict, repr=False)

    def of(self, extension: type[Extension]) -> Extension:
        """The state of one extension; empty if the ledger has not used it."""
        found = self.extensions.get(extension.key)
        if not isinstance(found, extension):
            self.extensions[extension.key] = found = extension()
        return found

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Accounts:
        """The accounts that a sealed state carries; none in ledgers without acts of that kind.

        Raises:
            IntegrityError: If they are not what everhold writes.
        """
        extensions, unread = _extensions_in(state) if state.keys() - _NO_EXTENSIONS else ({}, {})
        stored = state.get(_KEY)
        if stored is None:
            return cls(extensions=extensions, unread=unread)
        try:
            parts = [Allotment(*line) for line in stored["analysts"]]
            found = cls(stored["acts"], {part.analyst: part for part in parts}, Losses(*stored.get("lost", ())))
            found.closed, found.unsealings = _UNSEALED in stored, stored.get(_UNSEALED, 0)
            counts = (found.acts, *astuple(found.lost), found.unsealings)
            sound = len(found.parts) == len(parts) and found._stored() == stored and all(map(_is_sound, parts))
            sound = sound and all(map(_is_count, counts))
        except (AttributeError, KeyError, TypeError):
            sound = False
        if not sound:
            raise IntegrityError(
                "the allotments in the ledger's head are not what everhold wrote; expected an unaltered ledger; "
                "nothing was charged; verify the ledger"
            )
        found.extensions, found.unread = extensions, unread
        return found

    def into(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The state with these accounts in it; unchanged if there never was an act."""
        carried = {**self.unread, **state, **({_KEY: self._stored()} if self._any else {})}
        for extension in self.extensions.values():
            carried = extension.into(carried)
        return carried

    @property
    def _any(self) -> bool:
        """True if there ever was an act of any kind."""
        return bool(self.acts or self.lost.recoveries or self.closed)

    def _stored(self) -> dict[str, Any]:
        return {
            "acts": self.acts,
            "analysts": [
                [part.analyst, part.queries, part.charges, part.asked, part.charged] for part in self.parts.values()
            ],
            **({"lost": list(astuple(self.lost))} if self.lost.recoveries else {}),
            **({_UNSEALED: self.unsealings} if self.closed else {}),
        }

    def allot(self, analyst: str, queries: int, charges: int) -> None:
        """Set the limits of an analyst.

        Raises:
            ValueError: If more was spent already.
        """
        before = self.parts.get(analyst, Allotment(analyst, 0, 0))
        if queries < before.asked or charges < before.charged:
            raise ValueError(f"{analyst!r} has spent {before.asked} queries and was charged {before.charged} already")
        self.parts[analyst] = replace(before, queries=queries, charges=charges)
        self.acts += 1

    def unseal(self) -> None:
        """Close the study.

        Raises:
            ValueError: If its numbers were told already.
        """
        self.unsealings += 1
        self.closed = True
        if self.unsealings > 1:
            raise ValueError("the study was unsealed twice")

    def recover(self, queries: int, charges: int, *, generation: int, closed: bool = False) -> None:
        """Count what was lost, and take back what was left of all allotments: any of them may have spent it."""
        lost = self.lost
        self.lost = Losses(lost.recoveries + 1, generation, lost.queries + queries, lost.charges + charges)
        self.closed |= closed
        self.parts = {
            name: replace(part, queries=part.asked, charges=part.charged) for name, part in self.parts.items()
        }

    def queries_among(self, entries: int) -> int:
        """Number of different queries: every entry is one but for acts, and lost ones count."""
        acts = self.acts + self.lost.recoveries + self.unsealings
        return entries - acts - sum(each.entries for each in self.extensions.values()) + self.lost.queries

    def spend(self, analyst: str, asked: int, charged: int) -> None:
        """Count what an analyst was answered, or has reserved.

        Raises:
            ValueError: If that is more than the allotment, or there is none.
        """
        before = self.parts.get(analyst)
        if before is None:
            raise ValueError(f"there is no allotment for {analyst!r}")
        after = replace(before, asked=before.asked + asked, charged=before.charged + charged)
        self.parts[analyst] = after
        if after.asked > after.queries or after.charged > after.charges:
            raise ValueError(f"it goes beyond the allotment of {analyst!r}")

    def replay(self, description: Mapping[str, Any], answer: Mapping[str, Any], charged: int) -> str | None:
        """Take one entry of the ledger; returns what is wrong with it, in words."""
        name, source = description.get(ANALYST), answer.get("source")
        extension = extension_of_source(str(source))
        queries, charges = description.get("queries"), description.get("charges")
        try:
            if source == RECOVERY:
                generation = description.get("generation")
                sound = _is_count(queries) and _is_count(charges) and charges == charged
                if not (sound and _is_count(generation) and generation > self.lost.generation):
                    self.lost = replace(self.lost, recoveries=self.lost.recoveries + 1)
                    return "what was lost is malformed"
                lost_unsealing = description.get(CLOSED) is True
                self.recover(int(queries or 0), charged, generation=int(generation), closed=lost_unsealing)
            elif source == UNSEALING:
                self.unseal()
                if charged or not _is_disclosed(answer.get(DISCLOSED)):
                    return "the unsealing is malformed"
            elif self.closed and (extension is None or source not in extension.free):
                self.acts += source == ACT
                return "it was written after the study had been unsealed, and nothing may be asked or allotted then"
            elif source == ACT:
                if not (_is_name(name) and _is_count(queries) and _is_count(charges)) or charged:
                    self.acts += 1
                    return "the allotment is malformed"
                self.allot(name, queries, charges)
            elif extension is not None and source in extension.acts:
                _replay_act(self, extension, description, source, charged)
            elif is_act(description, answer):
                return f"it is an act ({source}) of an extension that is not installed here"
            elif isinstance(name, str) and self.acts:  # before the first act it is a word of the query's own
                self.spend(name, *spending_of(description, source, charged))
        except ValueError as fault:
            kept = "the study went on" if source == UNSEALING else f"{_kept_by(extension)} were not kept"
            return f"{kept}: {fault}"
        if source in _OWN_ACTS or (extension is not None and source in extension.acts):
            return None
        if extension is not None:
            self.of(extension)  # an answer of its own, also where the act is missing that comes before it
        for counting in self.extensions.values():
            try:
                counting.settle(description, source, charged)
            except ValueError as fault:
                return f"{_kept_by(type(counting))} were not kept: {fault}"
        return None

    def settle(self, description: Mapping[str, Any], source: object, charged: int) -> None:
        """Count an answer with the extensions, such as a challenge at its gate.

        Raises:
            ValueError: If no such entry is ever written here, in words.
        """
        for extension in self.extensions.values():
            extension.settle(description, source, charged)

    def agree_with(self, state: Mapping[str, Any]) -> bool:
        """True if a head's state carries exactly these accounts."""
        kept = bool(state.get(_KEY) == (self._stored() if self._any else None))
        used = {key for key in state.keys() - _NO_EXTENSIONS if extension_of_key(key) is not None}
        return (
            kept
            and used <= self.extensions.keys()
            and all(extension.agree_with(state) for extension in self.extensions.values())
        )


def _extensions_in(state: Mapping[str, Any]) -> tuple[dict[str, LedgerExtension], dict[str, Any]]:
    """State of extensions in a sealed state, and fields that no installed extension keeps."""
    found: dict[str, LedgerExtension] = {}
    unread: dict[str, Any] = {}
    for key in sorted(state.keys() - _NO_EXTENSIONS):  # gates come before what is counted by their verdicts
        extension = extension_of_key(key)
        if extension is None:
            unread[key] = state[key]
        else:
            found[key] = extension.from_state(state)
    return found, unread


def _replay_act(
    accounts: Accounts, extension: type[LedgerExtension], description: Mapping[str, Any], source: object, charged: int
) -> None:
    """Replay an act, which is never charged; with an analyst's name the analyst spends what it reserves."""
    accounts.of(extension).replay(description, source)
    if charged:
        raise ValueError(f"an act ({source}) itself is never charged")
    name = description.get(ANALYST)
    if isinstance(name, str):
        accounts.spend(name, *spending_of(description, source, charged))


def _kept_by(extension: type[LedgerExtension] | None) -> str:
    return "the allotments" if extension is None else f"the {extension.key}"


def _is_sound(part: Allotment) -> bool:
    counts = (part.queries, part.charges, part.asked, part.charged)
    return (
        _is_name(part.analyst)
        and all(map(_is_count, counts))
        and part.asked <= part.queries
        and part.charged <= part.charges
    )


def _is_disclosed(lines: object) -> bool:
    """True if these are sealed numbers by entry, in the order of the entries."""
    if not isinstance(lines, list) or not all(isinstance(line, list) and len(line) == 4 for line in lines):
        return False
    sequences = [line[0] for line in lines]
    ordered = all(map(_is_count, sequences)) and all(before < after for before, after in pairwise(sequences))
    return ordered and all(type(number) is float and 0.0 <= number <= 1.0 for line in lines for number in line[1:])


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and 1 <= len(value) <= LONGEST_NAME and value.isprintable()


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= MOST
