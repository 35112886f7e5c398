"""`holdout.arrivals`: rows that were appended, and what the trees about them can still say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from everhold.asking.accessor import HoldoutAccessor
from everhold.display import Display
from everhold.ledger.arrivals import ARRIVAL, RETIREMENT, Arrivals
from everhold.ledger.store import all_entries
from everhold.mechanisms.suffixes import Suffix, opens, radius_of, since, tree_of
from everhold.sealing.configuration import GROWS

if TYPE_CHECKING:
    from everhold.asking.arrivals.growth import Growth
    from everhold.ledger import Head
    from everhold.ledger.entry_counts import EntryCounts
    from everhold.mechanisms.guess_and_check import GuessAndCheck

__all__ = ["ArrivedRows", "HoldoutArrivals"]


@dataclass(frozen=True, slots=True)
class ArrivedRows(Display):
    """The arrivals of a holdout.

    Attributes:
        rows: One for each: arrival, rows, training_rows, until, and the number of its entry.
    """

    rows: Sequence[Mapping[str, Any]]

    def __len__(self) -> int:
        return len(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """``{"arrivals": [...]}``."""
        return {"arrivals": self.to_rows()}

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each arrival."""
        return [dict(row) for row in self.rows]


class HoldoutArrivals(HoldoutAccessor):
    """The arrivals of a holdout; public facts."""

    def listed(self) -> ArrivedRows:
        """Every arrival with its entry in the ledger."""
        return ArrivedRows(self._entries(ARRIVAL, ("arrival", "rows", "training_rows", "until", "tree")))

    @property
    def expected(self) -> bool:
        """True if the holdout was created with ``grows=True``, so that trees open for rows that arrive."""
        return bool(self._executor.record.configuration.get(GROWS))

    def timeline(self) -> list[dict[str, Any]]:
        """Rows at creation, at each arrival and now, with the budget spent and the half-widths before and after.

        Half-widths are those of the next yes-or-no answer. Where rows arrive it narrows, and queries widen it.
        """
        from everhold.asking.arrivals.timeline import timeline

        growth = self._executor.growth
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
        """Rows that arrived, the trees that are open, and which one answers next."""
        account, growth = head.accounts.of(Arrivals), self._executor.growth
        if growth is None:
            return {}
        best, trees = growth.best(self._executor.analyst), _outlooks(growth)
        remaining = best.remaining(head.state)
        return {
            "rows": growth.rows.ever - growth.rows.retired_rows, "training_rows": growth.rows.training_rows,
            "queries_asked": growth.state().asked, "queries_left": remaining["queries"], "remaining": remaining,
            "outlook": best.mechanism.outlook(best.state_from(head.state)),
            "arrivals": {
                "number": account.arrivals, "rows": account.rows, "training_rows": account.training_rows,
                "retired_before": account.retired or None, "trees": trees,
                "answers_from": next(tree.number for tree in growth.trees if tree.before == best.place.before),
                "next": _next_arrival(growth),
            },
        }  # fmt: skip

    def certificate_facts(self, head: Head, counts: EntryCounts) -> dict[str, Any]:
        """Every arrival with its entry, rows and fingerprint, and every retirement."""
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
    """Forecast of an arrival of as many rows as the latest one, from public facts."""
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
    """Each open tree with its rows, what was counted in it, and the half-width of its next answer."""
    state, found = growth.state(), []
    for tree, executor in zip(growth.trees, growth.executors, strict=True):
        counted = since(state, tree.before)
        found.append({
            "tree": tree.number, "since_arrival": tree.arrival, "rows": executor.schema.rows,
            "queries": counted.asked, "surprises": counted.charged,
            "within": radius_of(cast("GuessAndCheck", executor.mechanism), counted),
        })  # fmt: skip
    return found
