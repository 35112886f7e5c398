"""Timeline of a holdout's rows: each arrival with the budget that was spent by then, and the widths around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.ledger.arrivals import ARRIVAL, RETIREMENT
from everhold.mechanisms import State
from everhold.mechanisms.suffixes import Suffix, radius_of, since, tree_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold.asking.arrivals.growth import Growth
    from everhold.ledger import Entry

__all__ = ["timeline"]


def timeline(growth: Growth, acts: Sequence[Entry]) -> list[dict[str, Any]]:
    """One row for the creation, each arrival, and now; all of it public.

    Args:
        growth: The holdout.
        acts: Entries of its arrivals and retirements, in order.

    Returns:
        Rows with moment, arrival, until, rows, training_rows, total, tree, queries, surprises, within_before and
        within. Half-widths are those of the next yes-or-no answer near one half.
    """
    line, zero = _Moments(growth), growth.rows.parts[0]
    found = [line.row("at creation", State(), rows=zero.rows, training=zero.training_rows)]
    for entry in acts:
        public = entry.description
        if entry.answer["source"] == RETIREMENT:
            line.retire(int(public["before"]))
        elif entry.answer["source"] == ARRIVAL:
            asked, charged, labels = public["counted"]
            state = State(asked, charged, 0, labels)
            more = {"arrival": int(public["arrival"]), "until": public["until"]}
            tree = None if public["tree"] is None else Suffix.read(public["tree"])
            found.append(
                line.row(f"arrival {public['arrival']}", state, tree, rows=public["rows"],
                         training=public["training_rows"], **more)
            )  # fmt: skip
    return [*found, line.row("now", growth.state())]


class _Moments:
    """All trees, as they were at one moment after the other."""

    def __init__(self, growth: Growth) -> None:
        self.growth, self.trees = growth, [Suffix(1)]
        self.rows = self.training = self.arrival = 0

    def row(
        self, moment: str, state: State, tree: Suffix | None = None, *, rows: int = 0, training: int = 0, **more: Any
    ) -> dict[str, Any]:
        """Let rows arrive; returns what was true before and after."""
        before = self._within(state) if self.rows else None
        self.rows, self.training = self.rows + rows, self.training + training
        self.arrival = more.get("arrival", self.arrival)
        self.trees += [] if tree is None else [tree]
        return {
            "moment": moment, "arrival": 0 if self.rows == rows else None, "until": None, **more, "rows": rows,
            "training_rows": training, "total": self.rows, "tree": None if tree is None else tree.number,
            "queries": state.asked, "surprises": state.charged, "within_before": before, "within": self._within(state),
        }  # fmt: skip

    def retire(self, before: int) -> None:
        """End the trees about rows before an arrival."""
        self.trees = [tree for tree in self.trees if tree.arrival >= before]
        self.training += sum(part.rows for part in self.growth.rows.parts[:before] if part.number >= self._opened)
        self._opened = before

    _opened = 0

    def _within(self, state: State) -> float:
        mechanism = self.growth.mechanism
        return min(
            radius_of(
                tree_of(
                    mechanism,
                    tree,
                    rows=self.rows - tree.first,
                    training_rows=self.training,
                    dependence=self.growth.dependence(tree.arrival, self.arrival),
                ),
                since(state, tree.before),
            )
            for tree in self.trees
        )
