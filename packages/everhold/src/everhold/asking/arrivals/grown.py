"""Objects that go on with the rows that are there after another process appended some."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from everhold.asking.query_executor import QueryExecutor, RowsArrived
from everhold.errors import QueryRejected
from everhold.sealing.rows.code_trials import predicted_once

if TYPE_CHECKING:
    from pathlib import Path

    from everhold.asking.arrivals.growth import Growth
    from everhold.ledger import Ledger
    from everhold.queries.query import QueryPlan

__all__ = ["SeesArrivals", "check_asked", "current"]

Method = TypeVar("Method", bound=Callable[..., Any])

_TRIES = 5


def current(method: Method) -> Method:
    """The method, done again with the rows that are there now where another process appended some.

    Within one call a model predicts the same rows once.
    """

    @wraps(method)
    def done(self: SeesArrivals, *args: Any, **named: Any) -> Any:
        with predicted_once():
            for _ in range(_TRIES):
                try:
                    return method(self, *args, **named)
                except RowsArrived:
                    self._see_arrivals()
            return method(self, *args, **named)

    return cast("Method", done)


class SeesArrivals:
    """An object that answers about the rows that are there, also after another process appended some."""

    _executor: QueryExecutor
    _folder: Path

    @property
    def _first(self) -> QueryExecutor:
        """The executor of the holdout as it was created."""
        growth = self._executor.growth
        return replace(self._executor, analyst=None) if growth is None else growth.first

    def _see_arrivals(self) -> None:
        """Go on with the rows that the ledger says are there."""
        from everhold.asking.arrivals.growth import Growth

        self._see(Growth.of(self._first, self._folder, known=self._executor.growth))

    def _see(self, growth: Growth) -> None:
        if growth.changes:
            self._executor = growth.oldest(self._executor.analyst)


def check_asked(ledger: Ledger, plan: QueryPlan[Any]) -> None:
    """Check that every part of a query was answered before.

    Raises:
        QueryRejected: If one was not. Nothing is charged.
    """
    if ledger.repeated(plan.asked) is None:
        raise QueryRejected(
            "this was not asked about the rows as they were then, and nothing new can be; expected a query that "
            "was answered then; leave as_of out to ask about the rows that are there now; nothing was charged"
        )
