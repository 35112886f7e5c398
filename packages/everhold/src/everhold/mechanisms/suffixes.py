"""Budgets of arriving rows: each is a tree of queries about the rows of one arrival and all later ones, a suffix (S13).

Tree 1 is about all rows. Tree k, which opens at an arrival, is about the rows from that arrival on. It has the part ``1
/ (k (k + 1))`` of the probability of failure. It counts the queries, surprises and labels since it opened. Every open
tree counts every answer, because the newest rows are in all of them. A query is answered by one tree, which public
facts choose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from everhold.mechanisms.base import State, finest_unit

if TYPE_CHECKING:
    from everhold.dependence import DependenceModel
    from everhold.mechanisms.public_levels import PublicLevels

_NOTHING = State()
_NEW = 0.25  # part of all rows that must have arrived since the latest tree opened


@dataclass(frozen=True, slots=True)
class Suffix:
    """A tree of queries about the rows of one arrival and all later rows, with the counts at its opening. Public.

    Attributes:
        number: k, from 1.
        arrival: The arrival that opened the tree; 0 for the rows that were sealed first.
        first: Number of sealed rows before those of the tree.
        before: The counts of queries and charges when the tree opened.
    """

    number: int
    arrival: int = 0
    first: int = 0
    before: State = _NOTHING

    def stored(self) -> list[int]:
        """Return the tree as a list for JSON."""
        counts = self.before
        return [self.number, self.arrival, self.first, counts.asked, counts.charged, counts.labels]

    @classmethod
    def read(cls, stored: Sequence[int]) -> Suffix:
        """Rebuild the tree from the list that `stored` returned.

        Raises:
            ValueError: If `stored` never returns such data.
        """
        if len(stored) != 6 or any(type(each) is not int or each < 0 for each in stored):
            raise ValueError("The stored record of a budget that began at an arrival cannot be read.")
        number, arrival, first, asked, charged, labels = stored
        return cls(number, arrival, first, State(asked, charged, 0, labels))


def share_of(number: int) -> float:
    """Return the part of the probability of failure that the tree with this number has.

    Examples:
        >>> [round(1 / share_of(k)) for k in (1, 2, 3)]
        [2, 6, 12]
    """
    return 1.0 / (number * (number + 1.0))


def tree_of(
    mechanism: PublicLevels,
    suffix: Suffix,
    *,
    rows: int,
    training_rows: int,
    dependence: DependenceModel | None = None,
) -> PublicLevels:
    """Return the mechanism at the levels of one tree, for the rows of the tree.

    Args:
        mechanism: Mechanism of tree 1, from the creation of the holdout. If later trees may open, it has the part
            `share_of(1)` of the probability of failure.
        suffix: The tree, as the ledger records it.
        rows: Rows of the tree that have arrived.
        training_rows: All training rows.
        dependence: Dependence of these rows. By default the dependence at creation, scaled to the number of rows.
    """
    part = share_of(suffix.number) / share_of(1)
    share = mechanism.share if suffix.number == 1 else 1.0 - (1.0 - mechanism.share) * part
    trained = training_rows if mechanism.training_rows else 0
    unit = min(mechanism.unit, finest_unit(rows))
    # a text about other rows is another event: no text has the level of its description after an arrival (S10)
    of = mechanism.dependence if dependence is None else dependence
    return replace(
        mechanism, rows=rows, unit=unit, share=share, training_rows=trained, text_bits=0, dependence=of
    )  # fmt: skip


def since(state: State, before: State) -> State:
    """Return a state with only the counts since a tree opened."""
    if before == State():
        return state
    return State(
        state.asked - before.asked, state.charged - before.charged, state.carried_noise, state.labels - before.labels
    )


def together(state: State, before: State) -> State:
    """Return the state with the counts from before a tree opened added. It is the inverse of `since`."""
    if before == State():
        return state
    return State(
        state.asked + before.asked, state.charged + before.charged, state.carried_noise, state.labels + before.labels
    )


def opens(latest: Suffix, state: State, *, rows: int, arriving: int) -> bool:
    """Return whether an arrival opens a new tree.

    Public facts decide, so that the tree is worth its share of the level.

    If there was no surprise since the latest tree opened, no new tree opens, because the latest one has more rows and
    nearly the same level. A new tree also needs enough rows since the latest one opened, because otherwise it would
    cost more level than it gains.

    Args:
        latest: The tree that opened last.
        state: The counts so far.
        rows: Rows before the arrival.
        arriving: Rows of the arrival.
    """
    surprised = state.charged > latest.before.charged
    return surprised and rows - latest.first >= _NEW * rows and arriving > 0


def radius_of(mechanism: PublicLevels, state: State) -> float:
    """Return the half-width of the next yes-or-no answer with a guess of 1/2, infinite if it would be refused."""
    radius: float | None = mechanism.quote(state, guess=0.5, procedure=mechanism.yes_no_procedure).radius
    return math.inf if radius is None else radius


def narrowest(trees: Sequence[tuple[PublicLevels, Suffix]], state: State) -> int:
    """Return the index of the tree with the smallest expected half-width, the oldest among equal ones.

    The choice is valid because it depends only on public facts (S13).
    """
    widths = [radius_of(mechanism, since(state, suffix.before)) for mechanism, suffix in trees]
    return widths.index(min(widths))


def facts(trees: Sequence[Suffix]) -> list[dict[str, Any]]:
    """Return the public facts of each tree."""
    return [{"tree": each.number, "since_arrival": each.arrival, "rows_before": each.first} for each in trees]
