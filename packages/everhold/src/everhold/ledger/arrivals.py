"""Arrivals, as the ledger keeps them: rows that were appended to a holdout, and the trees that opened with them.

An arrival is an entry of the chain with the source `ARRIVAL` and no charge. It binds the file of its rows by a
fingerprint, so the rows are part of the holdout if and only if the entry is there. Retiring is an entry with the source
`RETIREMENT`: trees about rows before an arrival have ended, and those rows are training rows from now on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from everhold.ledger.extension import LedgerExtension

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

__all__ = ["ARRIVAL", "ARRIVALS", "MOST_ARRIVALS", "RETIREMENT", "Arrivals", "arrived"]

ARRIVAL = "arrival"
"""Source of the "answer" of an entry that is no query but adds rows."""

RETIREMENT = "retirement"
"""Source of the "answer" of an entry that ends trees and opens their rows."""

ARRIVALS = "arrivals"
"""Field of the sealed state, and name of the extension."""

MOST_ARRIVALS = 10_000
_NUMBERS = 6  # of a tree


def arrived(state: Mapping[str, Any]) -> int:
    """Number of changes of the rows that a sealed state counts: arrivals and retirements."""
    stored = state.get(ARRIVALS)
    return 0 if stored is None else int(stored["arrivals"]) + int(stored["retirements"])


@dataclass(slots=True)
class Arrivals(LedgerExtension):
    """All arrivals of a holdout at one moment, in few numbers; the rest is in their entries.

    Attributes:
        arrivals: How many there were.
        rows: Rows that they added.
        training_rows: Training rows that they added.
        retirements: How many entries retired rows.
        retired: Arrival up to which rows are retired: those before it; 0 for none.
        opened: Trees that were ever opened, with the first one.
        trees: Trees that are open beside the first one, the oldest first; each as number, arrival, rows before it, and
            the queries, surprises and labels that had been counted when it opened.
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
        """The inverse of `stored`.

        Raises:
            ValueError: Or TypeError or KeyError, if `stored` never returns such a thing.
        """
        names = ("arrivals", "rows", "training_rows", "retirements", "retired", "opened")
        counts = {name: stored[name] for name in names}
        if not all(map(_is_count, counts.values())):
            raise ValueError("the arrivals are malformed")
        return cls(**counts, trees=[_tree(line) for line in stored["trees"]])

    def stored(self) -> dict[str, Any] | None:
        """As plain JSON data; None if no rows ever arrived."""
        if not self.arrivals:
            return None
        return {
            "arrivals": self.arrivals, "rows": self.rows, "training_rows": self.training_rows,
            "retirements": self.retirements, "retired": self.retired, "opened": self.opened,
            "trees": [list(tree) for tree in self.trees],
        }  # fmt: skip

    @property
    def entries(self) -> int:
        """Number of arrivals and retirements, each with an entry."""
        return self.arrivals + self.retirements

    def knows_arrivals(self, configuration: Mapping[str, Any]) -> bool:
        """True: it counts them."""
        return True

    def replay(self, description: Mapping[str, Any], source: object) -> None:
        """Take an arrival or a retirement.

        Raises:
            ValueError: If no such entry is ever written here, in words.
        """
        if source == RETIREMENT:
            self._retire(description.get("before"))
            return
        number, rows, trained, tree = (description.get(f) for f in ("arrival", "rows", "training_rows", "tree"))
        if number != self.arrivals + 1 or not _is_count(rows) or not _is_count(trained) or not (rows or trained):
            raise ValueError("an arrival is not the next one, or has no rows")
        opened = None if tree is None else _tree(tree)
        if opened is not None and opened[:2] != (self.opened + 1, number):
            raise ValueError("a tree of suffixes is not the next one")
        self.arrivals, self.rows = self.arrivals + 1, self.rows + description["rows"]
        self.training_rows += description["training_rows"]
        if opened is not None:
            self.trees, self.opened = [*self.trees, opened], self.opened + 1

    def _retire(self, before: object) -> None:
        if type(before) is not int or not self.retired < before <= self.arrivals:
            raise ValueError("a retirement is of no arrival")
        left = [tree for tree in self.trees if tree[1] >= before]
        if not left or left[0][1] != before:
            raise ValueError("rows are retired before an arrival at which no tree opened")
        self.retirements, self.retired, self.trees = self.retirements + 1, before, left

    def settle(self, description: Mapping[str, Any], source: object, charged: int) -> None:
        """Answers are none of its matters."""


def _tree(line: Sequence[int]) -> tuple[int, ...]:
    """One tree as it is kept.

    Raises:
        ValueError: If it is malformed.
    """
    if len(line) != _NUMBERS or not all(map(_is_count, line)):
        raise ValueError("a tree of suffixes is malformed")
    return tuple(line)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0
