"""`holdout.arrivals`: the rows that were appended, and how many queries about them can still be answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

from everhold.asking.accessor import HoldoutAccessor
from everhold.asking.session import growth_of
from everhold.display import Listing
from everhold.ledger.acts import ARRIVAL, RETIREMENT, Arrivals, EntryCounts
from everhold.ledger.store import all_entries
from everhold.mechanisms import PublicLevels, State
from everhold.mechanisms.suffixes import Suffix, opens, radius_of, since, tree_of
from everhold.sealing.configuration import GROWS

if TYPE_CHECKING:
    from everhold.asking.arrivals.growth import Growth
    from everhold.ledger import Entry, Head


@dataclass(frozen=True, slots=True)
class ArrivedRows(Listing):
    """List of a holdout's arrivals.

    Attributes:
        rows: One dict for each arrival: arrival, rows, training_rows, until, and the number of its ledger entry.
    """

    rows_called: ClassVar[str] = "arrivals"

    rows: Sequence[Mapping[str, Any]]


class HoldoutArrivals(HoldoutAccessor):
    """Public facts about the arrivals of a holdout: `holdout.arrivals`."""

    def listed(self) -> ArrivedRows:
        """Return every arrival with its entry in the ledger."""
        return ArrivedRows(self._entries(ARRIVAL, ("arrival", "rows", "training_rows", "until", "tree")))

    @property
    def expected(self) -> bool:
        """Whether the holdout was created with ``grows=True``, so that trees open for rows that arrive."""
        return bool(self._executor.record.configuration.get(GROWS))

    def timeline(self) -> list[dict[str, Any]]:
        """Return rows, spent budget and half-widths at creation, at each arrival and now.

        Half-widths are those of the next yes-or-no answer. Arrivals make them narrower, and queries make them wider.
        """
        growth = growth_of(self._executor)
        if growth is None:
            return []
        entries = all_entries(self._executor.ledger)
        return timeline(growth, [entry for entry in entries if entry.answer["source"] in Arrivals.acts])

    def _entries(self, kind: str, names: Sequence[str]) -> list[dict[str, Any]]:
        head = self._executor.ledger.head()
        return [
            {"entry": entry.sequence, "asked_at": entry.asked_at, **{name: entry.description[name] for name in names}}
            for entry in all_entries(self._executor.ledger, head.sequence)
            if entry.answer["source"] == kind
        ]

    def status_facts(self, head: Head) -> dict[str, Any]:
        """Return the rows that arrived, the open trees, and the tree that answers next, for `Holdout.status`."""
        account, growth = head.accounts.of(Arrivals), growth_of(self._executor)
        if growth is None:
            return {}
        best, trees = growth.best(self._executor.analyst), _outlooks(growth)
        remaining = best.remaining(head)
        return {
            "rows": growth.rows.ever - growth.rows.retired_rows, "training_rows": growth.rows.training_rows,
            "queries_asked": growth.state().asked, "queries_left": remaining["queries"], "remaining": remaining,
            "outlook": best.mechanism.outlook(best.state_from(head)),
            "arrivals": {
                "number": account.arrivals, "rows": account.rows, "training_rows": account.training_rows,
                "retired_before": account.retired or None, "trees": trees,
                "answers_from": next(tree.number for tree in growth.trees if tree.before == best.place.before),
                "next": _next_arrival(growth),
            },
        }  # fmt: skip

    def certificate_facts(self, head: Head, counts: EntryCounts) -> dict[str, Any]:
        """Return every arrival with entry, rows and fingerprint, and every retirement, for the certificate."""
        names = ("arrival", "rows", "training_rows", "fingerprint", "training_fingerprint", "until")
        if not head.accounts.of(Arrivals).arrivals:
            return {}
        found = self._entries(ARRIVAL, (*names, "tree"))
        retired = self._entries(RETIREMENT, ("before",))
        arrived = [{name: each[name] for name in ("entry", *names)} | {"tree": _number(each["tree"])} for each in found]
        facts = {"retired": [{name: each[name] for name in ("entry", "before")} for each in retired]}
        return {"arrivals": arrived, **(facts if retired else {})}


def _number(tree: Sequence[int] | None) -> int | None:
    return None if tree is None else tree[0]


def _next_arrival(growth: Growth) -> dict[str, Any]:
    """Forecast the half-width after another arrival of as many rows as the latest one, from public facts."""
    rows, state = growth.rows, growth.state()
    ever, coming = rows.ever, next((part.rows for part in rows.parts[::-1] if part.rows), 0)
    trees, later = list(growth.trees), Suffix(growth.account.opened + 1, len(rows.parts), ever, state)
    pays = growth.first.record.configuration.get(GROWS, False)
    will = bool(pays) and opens(trees[-1], state, rows=ever, arriving=coming)
    trees += [later] if will else []
    widths = [
        radius_of(
            tree_of(growth.mechanism, tree, rows=ever - tree.first + coming, training_rows=rows.training_rows),
            since(state, tree.before),
        )
        for tree in trees
    ]
    return {"rows": coming, "within": min(widths), "opens_tree": will}


def _outlooks(growth: Growth) -> list[dict[str, Any]]:
    """Return for each open tree its rows, its counts and the half-width of its next answer."""
    state, found = growth.state(), []
    for tree, executor in zip(growth.trees, growth.executors, strict=True):
        counted = since(state, tree.before)
        found.append({
            "tree": tree.number, "since_arrival": tree.arrival, "rows": executor.schema.rows,
            "queries": counted.asked, "surprises": counted.charged,
            "within": radius_of(cast("PublicLevels", executor.mechanism), counted),
        })  # fmt: skip
    return found


# Timeline of a holdout's rows: each arrival with the budget that was spent by then, and the widths around it.


def timeline(growth: Growth, acts: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return one public row for the creation, for each arrival, and for now.

    Args:
        growth: The rows and trees of the holdout.
        acts: Ledger entries of its arrivals and retirements, in order.

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
    """Rows and trees at one moment of a timeline, updated arrival by arrival."""

    def __init__(self, growth: Growth) -> None:
        self.growth, self.trees = growth, [Suffix(1)]
        self.rows = self.training = self.arrival = 0

    def row(
        self, moment: str, state: State, tree: Suffix | None = None, *, rows: int = 0, training: int = 0, **more: Any
    ) -> dict[str, Any]:
        """Count rows that arrived and a tree that they open, and return the timeline's row of this moment.

        The row has the half-width of the next query just before the arrival, and just after it.
        """
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
        """Remove the trees whose rows include rows from before an arrival, and count these rows as training rows."""
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
