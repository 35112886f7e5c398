"""Facts of a holdout's ledger beside answers: `holdout.ledger`. All are free and none asks anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.asking.reports.event_feed import EventFeed, event_feed
from everhold.ledger.allotments import ANALYST
from everhold.ledger.store import all_entries
from everhold.values.units import MeanUnits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from everhold.asking.query_executor import QueryExecutor
    from everhold.ledger import Entry

__all__ = ["HoldoutLedger"]


class HoldoutLedger:
    """The ledger of a holdout; made by `Holdout.ledger`.

    Args:
        executor: The holdout at work.
        names: From entries to the names of models that are in them.
    """

    def __init__(
        self, executor: QueryExecutor, names: Callable[[Sequence[Entry]], Mapping[str, str]]
    ) -> None:  # fmt: skip
        """Use `Holdout.ledger` instead."""
        self._executor, self._names = executor, names

    def __repr__(self) -> str:
        return f"HoldoutLedger({self._executor.record.name!r})"

    def events(self, after: int = 0, *, limit: int = 1_000) -> EventFeed:
        """Events after an entry of the ledger, and how much is left; without any value.

        Args:
            after: Number of the last entry that is known already.
            limit: Read at most so many entries.
        """
        return event_feed(self._executor, after, limit=limit)

    def readings(self, rows: Sequence[Mapping[str, Any]]) -> list[MeanUnits | None]:
        """Units of rows of the transcript, in their order; None of a choice, a challenge and the like."""
        numbers = [row["sequence"] for row in rows] or [1]
        found = self._executor.ledger.entries(min(numbers) - 1, max(numbers) - min(numbers) + 1)
        kept = {each.sequence: MeanUnits.kept(each.description) for each in found}
        return [kept.get(row["sequence"]) for row in rows]

    def model_names(self, *, asked_by: str | None = None) -> dict[str, str]:
        """Names of the models of gates and extensions, by their SHA-256.

        Args:
            asked_by: Only of what this analyst proposed; by default of all.
        """
        entries = all_entries(self._executor.ledger)
        own = [entry for entry in entries if asked_by is None or entry.description.get(ANALYST) == asked_by]
        return dict(self._names(own))
