"""Acts of the steward, as the ledger keeps them: allotments, declarations of families, arrivals of rows.

Each act is an entry of the chain without a charge. Its effect is stored beside the mechanism's state under the same
seal, and can be computed again from the entries.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeGuard, TypeVar

from everhold.display import Display
from everhold.errors import IntegrityError
from everhold.ledger.chain import is_act
from everhold.ledger.extension import LedgerExtension, extension_of_key, extension_of_source
from everhold.strict_json import canonical

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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

CHECK = "check"
"""Field of an entry's description: the margin of a check against a gate's baseline, and the verdict that is free."""

NOT_WORSE, REGRESSION, UNDECIDED = CHECKED = ("not worse", "regression", "undecided")
"""Verdicts of checks."""


def told_as(answer: Mapping[str, Any]) -> str:
    """Return the verdict of an answer that is a check, and the source of any other answer."""
    node = answer.get("node") or {}
    return str(node.get("verdict", answer["source"]))


UNSEALING = "unsealing"
"""Source of the "answer" of an entry that closes the study and tells all sealed numbers."""


@dataclass(slots=True)
class EntryCounts:
    """Public counts over all entries up to a certain entry.

    Attributes:
        sources: Queries by the source of their answer.
        by_position: Number of queries about predictions that were given as an array in the order of the rows.
        unsealing: Number of the ledger entry by which the study was unsealed, None before that.
        unsealed: Number of answers whose sealed numbers that entry revealed.
        promotions: Promotions of each gate in order: number of the entry, the challenger, the champion that it beat,
            and ``nats``, the ln(1 / level) at which this was proved. ``nats`` is missing if the mechanism has no
            levels.
    """

    sources: Counter[str] = field(default_factory=Counter)
    by_position: int = 0
    unsealing: int | None = None
    unsealed: int = 0
    promotions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def take(self, sequence: int, description: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Count one entry according to its content, which is not checked here."""
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
        """Return the counts as plain JSON data."""
        return {
            "sources": dict(self.sources), "by_position": self.by_position, "unsealing": self.unsealing,
            "unsealed": self.unsealed, "promotions": self.promotions,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build the counts from the dictionary that `to_dict` returned."""
        return cls(**{**data, "sources": Counter(data["sources"])})


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
    """An analyst's part of the budget, with its spent amounts.

    Attributes:
        analyst: Name of the analyst.
        queries: Largest number of new queries that may be answered.
        charges: Largest total charge, in the mechanism's own units.
        asked: New queries answered so far, and those that open challenges have reserved.
        charged: Total charge so far, including what open challenges have reserved.
    """

    analyst: str
    queries: int
    charges: int
    asked: int = 0
    charged: int = 0

    def affords(self, price: int) -> int:
        """Return the number of new queries that the allotment certainly covers if each costs at most `price`."""
        left = self.queries - self.asked
        return left if price == 0 else min(left, (self.charges - self.charged) // price)

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes by name."""
        return {
            "analyst": self.analyst, "asked": self.asked, "queries": self.queries, "charged": self.charged,
            "charges": self.charges,
        }  # fmt: skip


def spending_of(description: Mapping[str, Any], source: object, charged: int) -> tuple[int, int]:
    """Return the queries and surprises that an entry takes from its analyst's allotment.

    An open challenge reserves all that it can spend when it is opened: a query for itself, a query for its verdict, and
    a surprise. Its verdict takes no more, and returns the surprise if none was charged.

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
    """Numbers of answers and charges that the ledger lost, according to its recoveries.

    Attributes:
        recoveries: Number of entries that record a loss.
        generation: Number of the latest recovery, in a count that includes lost recoveries.
        queries: Queries that were answered and lost, in all.
        charges: Total charge of the lost answers.
    """

    recoveries: int = 0
    generation: int = 0
    queries: int = 0
    charges: int = 0

    def to_dict(self) -> dict[str, int]:
        """Return lost queries and charges by name, empty without a recovery."""
        if not self.recoveries:
            return {}
        return {"recoveries": self.recoveries, "queries": self.queries, "charges": self.charges}


@dataclass(slots=True)
class Accounts:
    """All allotments of a holdout at one moment, with losses, the unsealing and the state of extensions.

    Attributes:
        acts: Number of ledger entries that set an allotment.
        parts: Allotment by analyst, in the order of their first act.
        lost: Losses that the ledger records.
        closed: Whether the study is over: nothing new is answered or allotted.
        unsealings: Number of entries that are unsealings, 0 or 1. It is 0 if the entry that closed the study was lost.
        extensions: State of the extensions that this ledger uses, by the field in which each is kept.
        unread: Fields of the sealed state that no installed extension reads. They are kept unchanged.
    """

    acts: int = 0
    parts: dict[str, Allotment] = field(default_factory=dict)
    lost: Losses = Losses()
    closed: bool = False
    unsealings: int = 0
    extensions: dict[str, LedgerExtension] = field(default_factory=dict)
    unread: dict[str, Any] = field(default_factory=dict, repr=False)

    def of(self, extension: type[Extension]) -> Extension:
        """Return the state of one extension, a new empty one if the ledger has not used it."""
        found = self.extensions.get(extension.key)
        if not isinstance(found, extension):
            found = extension()
            self.extensions = {**self.extensions, extension.key: found}  # other threads may go through the old one
        return found

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Accounts:
        """Read the accounts from a sealed state.

        Raises:
            IntegrityError: If the accounts are not in the form in which everhold writes them.
        """
        extensions: dict[str, LedgerExtension] = {}
        unread: dict[str, Any] = {}  # what no installed extension reads
        for key in sorted(state.keys() - _NO_EXTENSIONS):  # gates come before what is counted by their verdicts
            if (extension := extension_of_key(key)) is None:
                unread[key] = state[key]
            else:
                extensions[key] = extension.from_state(state)
        stored = state.get(_KEY)
        if stored is None:
            return cls(extensions=extensions, unread=unread)
        try:
            parts = [Allotment(*line) for line in stored["analysts"]]
            found = cls(stored["acts"], {part.analyst: part for part in parts}, Losses(*stored.get("lost", ())))
            found.closed, found.unsealings = _UNSEALED in stored, stored.get(_UNSEALED, 0)
            counts = (found.acts, *astuple(found.lost), found.unsealings)
            sound = len(found.parts) == len(parts) and found._stored() == stored and all(map(_is_sound, parts))
            sound = sound and all(map(is_count, counts))
        except (AttributeError, KeyError, TypeError):
            sound = False
        if not sound:
            raise IntegrityError(
                "The record of allotments in the ledger was altered or is damaged. Run "
                "'everhold ledger verify' and restore a backup."
            )
        found.extensions, found.unread = extensions, unread
        return found

    def into(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return a sealed state with these accounts included."""
        stored = self._stored()
        carried = {**self.unread, **state, **({} if stored is None else {_KEY: stored})}
        for extension in self.extensions.values():
            carried = extension.into(carried)
        return carried

    def _stored(self) -> dict[str, Any] | None:
        """Return the accounts as plain JSON data, or None if no act was ever recorded."""
        if not (self.acts or self.lost.recoveries or self.closed):
            return None
        return {
            "acts": self.acts,
            "analysts": [
                [part.analyst, part.queries, part.charges, part.asked, part.charged] for part in self.parts.values()
            ],
            **({"lost": list(astuple(self.lost))} if self.lost.recoveries else {}),
            **({_UNSEALED: self.unsealings} if self.closed else {}),
        }

    def allot(self, analyst: str, queries: int, charges: int) -> None:
        """Set the limits of an analyst's allotment.

        Raises:
            ValueError: If the analyst has spent more than these limits already.
        """
        before = self.parts.get(analyst, Allotment(analyst, 0, 0))
        if queries < before.asked or charges < before.charged:
            raise ValueError(f"{analyst!r} has spent {before.asked} queries and was charged {before.charged} already")
        self.parts[analyst] = replace(before, queries=queries, charges=charges)
        self.acts += 1

    def unseal(self) -> None:
        """Record that the study is closed.

        Raises:
            ValueError: If the study was unsealed already.
        """
        self.unsealings += 1
        self.closed = True
        if self.unsealings > 1:
            raise ValueError("the study was unsealed twice")

    def recover(self, queries: int, charges: int, *, generation: int, closed: bool = False) -> None:
        """Add lost queries and charges, and reduce every allotment to the spent part.

        The unspent parts are removed, because any analyst may have spent them in the lost answers.

        Args:
            queries: Number of lost queries.
            charges: Lost charges.
            generation: Generation of the ledger after the recovery.
            closed: Whether no new query may be answered after the recovery.
        """
        lost = self.lost
        self.lost = Losses(lost.recoveries + 1, generation, lost.queries + queries, lost.charges + charges)
        self.closed |= closed
        self.parts = {
            name: replace(part, queries=part.asked, charges=part.charged) for name, part in self.parts.items()
        }

    def queries_among(self, entries: int) -> int:
        """Return the number of queries among the first entries of the ledger: without acts, and with lost queries."""
        acts = self.acts + self.lost.recoveries + self.unsealings
        return entries - acts - sum(each.entries for each in self.extensions.values()) + self.lost.queries

    def spend(self, analyst: str, asked: int, charged: int) -> None:
        """Add queries and surprises to an analyst's spent amounts.

        Raises:
            ValueError: If the analyst has no allotment, or if the allotment does not cover the charge.
        """
        before = self.parts.get(analyst)
        if before is None:
            raise ValueError(f"there is no allotment for {analyst!r}")
        after = replace(before, asked=before.asked + asked, charged=before.charged + charged)
        self.parts[analyst] = after
        if after.asked > after.queries or after.charged > after.charges:
            raise ValueError(f"an entry spends more than the allotment of {analyst!r} has")

    def replay(self, description: Mapping[str, Any], answer: Mapping[str, Any], charged: int) -> str | None:
        """Apply one ledger entry to the accounts. Return a text about a fault of the entry, or None."""
        name, source = description.get(ANALYST), answer.get("source")
        extension = extension_of_source(str(source))
        queries, charges = description.get("queries"), description.get("charges")
        try:
            if source == RECOVERY:
                generation = description.get("generation")
                sound = is_count(queries) and is_count(charges) and charges == charged
                if not (sound and is_count(generation) and generation > self.lost.generation):
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
                if not (_is_name(name) and is_count(queries) and is_count(charges)) or charged:
                    self.acts += 1
                    return "the allotment is malformed"
                self.allot(name, queries, charges)
            elif extension is not None and source in extension.acts:
                self.of(extension).replay(description, source)
                if charged:
                    raise ValueError(f"the entry of an act ({source}) has a charge, and acts are never charged")
                if isinstance(name, str):  # the allotment is reduced by what the act reserves
                    self.spend(name, *spending_of(description, source, charged))
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
        """Pass an answer to all extensions, which update their state with it, such as the challenges of a gate.

        Raises:
            ValueError: If everhold never writes such an entry.
        """
        for extension in self.extensions.values():
            extension.settle(description, source, charged)

    def agree_with(self, state: Mapping[str, Any]) -> bool:
        """Return whether a head's sealed state contains exactly these accounts."""
        kept = bool(state.get(_KEY) == self._stored())
        used = {key for key in state.keys() - _NO_EXTENSIONS if extension_of_key(key) is not None}
        return (
            kept
            and used <= self.extensions.keys()
            and all(extension.agree_with(state) for extension in self.extensions.values())
        )


def _kept_by(extension: type[LedgerExtension] | None) -> str:
    return "the allotments" if extension is None else f"the {extension.key}"


def _is_sound(part: Allotment) -> bool:
    counts = (part.queries, part.charges, part.asked, part.charged)
    return (
        _is_name(part.analyst)
        and all(map(is_count, counts))
        and part.asked <= part.queries
        and part.charged <= part.charges
    )


def _is_disclosed(lines: object) -> bool:
    """Return whether a value has the form of the numbers that an unsealing reveals: four numbers by entry, in order."""
    if not isinstance(lines, list) or not all(isinstance(line, list) and len(line) == 4 for line in lines):
        return False
    sequences = [line[0] for line in lines]
    ordered = all(map(is_count, sequences)) and all(before < after for before, after in pairwise(sequences))
    return ordered and all(type(number) is float and 0.0 <= number <= 1.0 for line in lines for number in line[1:])


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and 1 <= len(value) <= LONGEST_NAME and value.isprintable()


def is_count(value: object) -> TypeGuard[int]:
    """Return whether a value is a whole number that the ledger can hold as a count or a limit."""
    return type(value) is int and 0 <= value <= MOST


DECLARATION = "declaration"
"""Source of the "answer" of an entry that is no query but declares a family."""

DECLARED = "declared"
"""Source of answers to members of declared families."""

LONGEST_FAMILY = 100


@dataclass(frozen=True, slots=True)
class Declaration:
    """Public record of one declared family.

    Attributes:
        name: Name of the family, unique in the holdout.
        shown: The family as a text for people.
        family: The family as canonical JSON.
        nats: ln(1 / level) of the family as a whole. All its queries share this level.
        entry: Number of its entry in the ledger.
        later: Whether it was declared after the holdout had been created. Then it took one of the holdout's queries.
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
        """Return the declaration as plain JSON data."""
        return {
            "name": self.name, "shown_family": self.shown, "family": json.loads(self.family), "nats": self.nats,
            "entry": self.entry, "later": self.later,
        }  # fmt: skip

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        """Build a declaration from the data that `stored` returned. Other fields are ignored.

        Raises:
            ValueError: If `stored` never returns such data.
        """
        if not isinstance(stored.get("family"), dict):
            raise ValueError("the declaration is malformed")
        name, shown, nats, entry, later = (stored.get(f) for f in ("name", "shown_family", "nats", "entry", "later"))
        return cls(name, shown, canonical(stored["family"]), nats, entry, later)  # type: ignore[arg-type]  # checked


@dataclass(slots=True)
class Declarations(LedgerExtension):
    """Ledger extension with all declared families of a holdout.

    Attributes:
        by_name: Declarations by name, in the order in which they were declared.
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
        """Build the extension from the data that `stored` returned.

        Raises:
            ValueError: If `stored` never returns such data. It may be a TypeError as well.
        """
        found = cls()
        for line in stored:
            found._take(Declaration.read(line))
        if not found.by_name:
            raise ValueError("there are no families")
        return found

    def stored(self) -> list[dict[str, Any]] | None:
        """Return all declarations as plain JSON data, or None if nothing is declared."""
        return [declaration.stored() for declaration in self.by_name.values()] or None

    @property
    def entries(self) -> int:
        """Number of ledger entries that declare a family."""
        return len(self.by_name)

    def knows_arrivals(self, configuration: Mapping[str, Any]) -> bool:
        """Return whether rows may arrive, because intervals of declared queries hold at all numbers of rows (S14)."""
        return "families_grow" in configuration

    def replay(self, description: Mapping[str, Any], source: object) -> None:
        """Apply the entry that declares a family.

        Raises:
            ValueError: If everhold never writes such an entry.
        """
        self._take(Declaration.read(description))

    def _take(self, declaration: Declaration) -> None:
        if declaration.name in self.by_name:
            raise ValueError("a family was declared twice")
        if not declaration.later and declaration.entry != len(self.by_name) + 1:
            raise ValueError("a family is recorded as declared at creation, and other entries came before it")
        self.by_name[declaration.name] = declaration

    def settle(self, description: Mapping[str, Any], source: object, charged: int) -> None:
        """Check that the answer to a query of a declared family has no charge.

        Raises:
            ValueError: If the answer was charged.
        """
        if source == DECLARED and charged:
            raise ValueError("an answer to a member of a declared family is never charged")


ARRIVAL = "arrival"
"""Source of the "answer" of an entry that is no query but adds rows."""

RETIREMENT = "retirement"
"""Source of the "answer" of an entry that ends trees and opens their rows."""

ARRIVALS = "arrivals"
"""Field of the sealed state, and name of the extension."""

MOST_ARRIVALS = 10_000
_NUMBERS = 6  # of a tree


def arrived(state: Mapping[str, Any]) -> int:
    """Return the number of arrivals and retirements of rows that a sealed state has recorded."""
    stored = state.get(ARRIVALS)
    return 0 if stored is None else int(stored["arrivals"]) + int(stored["retirements"])


@dataclass(slots=True)
class Arrivals(LedgerExtension):
    """Ledger extension that counts the arrivals and retirements of rows.

    Attributes:
        arrivals: Number of arrivals.
        rows: Sealed rows that the arrivals added.
        training_rows: Training rows that the arrivals added.
        retirements: Number of entries that retired rows.
        retired: Arrival before which all rows are retired; 0 if no rows are retired.
        opened: Number of trees (budgets with their own intervals) that were ever opened, the first one included.
        trees: Open trees apart from the first one, the oldest first. For each: its number, its arrival, the number of
            rows before it, and the queries, surprises and labels that had been counted when it opened.
    """

    name: ClassVar[str] = ARRIVALS
    key: ClassVar[str] = ARRIVALS
    acts: ClassVar[frozenset[str]] = frozenset({ARRIVAL, RETIREMENT})
    answers: ClassVar[frozenset[str]] = frozenset()
    free: ClassVar[frozenset[str]] = frozenset()
    accessor: ClassVar[str] = "everhold.asking.arrivals.accessor:HoldoutArrivals"

    arrivals: int = 0
    rows: int = 0
    training_rows: int = 0
    retirements: int = 0
    retired: int = 0
    opened: int = 1
    trees: list[tuple[int, ...]] = field(default_factory=list)

    @classmethod
    def read(cls, stored: Any) -> Self:
        """Build the extension from the data that `stored` returned.

        Raises:
            ValueError: If `stored` never returns such data. It may be a TypeError or KeyError as well.
        """
        names = ("arrivals", "rows", "training_rows", "retirements", "retired", "opened")
        counts = {name: stored[name] for name in names}
        if not all(map(_is_whole, counts.values())):
            raise ValueError("the record of arrivals is malformed")
        return cls(**counts, trees=[_tree(line) for line in stored["trees"]])

    def stored(self) -> dict[str, Any] | None:
        """Return the counts as plain JSON data, or None if no rows ever arrived."""
        if not self.arrivals:
            return None
        return {
            "arrivals": self.arrivals, "rows": self.rows, "training_rows": self.training_rows,
            "retirements": self.retirements, "retired": self.retired, "opened": self.opened,
            "trees": [list(tree) for tree in self.trees],
        }  # fmt: skip

    @property
    def entries(self) -> int:
        """Number of ledger entries that are arrivals or retirements."""
        return self.arrivals + self.retirements

    def knows_arrivals(self, configuration: Mapping[str, Any]) -> bool:
        """Return True, because this extension counts the arrivals."""
        return True

    def replay(self, description: Mapping[str, Any], source: object) -> None:
        """Apply an arrival or a retirement.

        Raises:
            ValueError: If everhold never writes such an entry.
        """
        if source == RETIREMENT:
            before = description.get("before")
            if type(before) is not int or not self.retired < before <= self.arrivals:
                raise ValueError("rows were retired before an arrival that does not exist")
            left = [tree for tree in self.trees if tree[1] >= before]
            if not left or left[0][1] != before:
                raise ValueError("rows were retired before an arrival at which no budget began")
            self.retirements, self.retired, self.trees = self.retirements + 1, before, left
            return
        number, rows, trained, tree = (description.get(f) for f in ("arrival", "rows", "training_rows", "tree"))
        if number != self.arrivals + 1 or not _is_whole(rows) or not _is_whole(trained) or not (rows or trained):
            raise ValueError("an arrival has the wrong number, or has no rows")
        opened = None if tree is None else _tree(tree)
        if opened is not None and opened[:2] != (self.opened + 1, number):
            raise ValueError("a budget that began at an arrival has the wrong number")
        self.arrivals, self.rows = self.arrivals + 1, self.rows + description["rows"]
        self.training_rows += description["training_rows"]
        if opened is not None:
            self.trees, self.opened = [*self.trees, opened], self.opened + 1

    def settle(self, description: Mapping[str, Any], source: object, charged: int) -> None:
        """Do nothing, because answers do not change the arrivals."""


def _tree(line: Sequence[int]) -> tuple[int, ...]:
    """Return the six numbers of a tree, a budget that began at an arrival, after a check of their form.

    Raises:
        ValueError: If a number is missing or malformed.
    """
    if len(line) != _NUMBERS or not all(map(_is_whole, line)):
        raise ValueError("the record of a budget that began at an arrival is malformed")
    return tuple(line)


def _is_whole(value: object) -> bool:
    return type(value) is int and value >= 0


@dataclass(frozen=True)
class Head:
    """Head of a holdout's ledger: its last entry and state.

    Attributes:
        sequence: Number of the last entry, 0 before the first.
        charged: Sum of all charges.
        entry_hash: Hash of the last entry. Before the first entry: the hash of the sealed holdout.
        queries_hash: SHA-256 of the fingerprints of all queries, in order.
        written: The mechanism's state as canonical JSON (secret).
    """

    sequence: int
    charged: int
    entry_hash: str
    queries_hash: str
    written: str = field(repr=False)

    def fields(self) -> dict[str, Any]:
        """Return the head as the database keeps it, which is what its seal covers."""
        return {
            "sequence": self.sequence, "charged": self.charged, "entry_hash": self.entry_hash,
            "queries_hash": self.queries_hash, "state": self.written,
        }  # fmt: skip

    @cached_property
    def state(self) -> dict[str, Any]:
        """The mechanism's state, for reading only (secret)."""
        found: dict[str, Any] = json.loads(self.written)
        return found

    @cached_property
    def accounts(self) -> Accounts:
        """Allotments, losses and states of extensions, from the state of the ledger, for reading only."""
        return Accounts.from_state(self.state)

    @property
    def asked(self) -> int:
        """Number of different queries that were asked."""
        return self.accounts.queries_among(self.sequence)
