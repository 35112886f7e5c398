"""Parts of a `Holdout`: extensions in use, and rows that arrive (append, ask of earlier states and over time)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from everhold.asking.query_executor import QueryExecutor, RowsArrived
from everhold.errors import EverholdWarning, QueryRejected, warn_caller
from everhold.sealing.rows.code_trials import predicted_once

if TYPE_CHECKING:
    from pathlib import Path

    from everhold.asking.accessor import HoldoutAccessor
    from everhold.asking.arrivals.appending import Arrived
    from everhold.asking.arrivals.drift import Drift
    from everhold.asking.arrivals.growth import Growth
    from everhold.asking.arrivals.over_time import OverTime
    from everhold.ledger import Entry, Head, Ledger
    from everhold.queries.query import Query, QueryPlan
    from everhold.sealing.intake.reading import RowSource

__all__ = ["ExtendedHoldout", "GrowingHoldout", "SeesArrivals", "check_asked", "current"]

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


class ExtendedHoldout(SeesArrivals):
    """The part of `everhold.holdout.Holdout` that knows the extensions in use."""

    _recorded: Mapping[str, Any]  # settings of the extensions that it was created with

    def _check_queries(self) -> None:
        if self._recorded:
            for accessor in self._in_charge():
                accessor.check_query()

    def _in_charge(self) -> Sequence[HoldoutAccessor]:
        """Accessors of the extensions that the holdout was created with."""
        return self._accessors_of(()) if self._recorded else ()

    def _accessors(self, head: Head) -> Sequence[HoldoutAccessor]:
        """Accessors of all extensions that the ledger or the settings name."""
        used = [extension.name for extension in head.accounts.extensions.values()]
        return self._accessors_of(used) if used or self._recorded else ()

    def _accessors_of(self, names: Sequence[str]) -> Sequence[HoldoutAccessor]:
        from everhold.asking.accessor import accessors_of

        return accessors_of(self._executor, self._folder, self._recorded, names)

    def _model_names(self, entries: Sequence[Entry]) -> Mapping[str, str]:
        accessors = self._accessors(self._executor.ledger.head())
        if not accessors:
            return {}
        from everhold.asking.reports.model_names import model_names

        known: dict[str, str] = {}
        for accessor in accessors:
            known |= accessor.model_names(entries)
        return model_names(entries, known)


class GrowingHoldout(ExtendedHoldout):
    """The part of `everhold.holdout.Holdout` that is about rows that arrive."""

    def append(
        self, rows: RowSource | None = None, training: RowSource | None = None, *, until: str | None = None
    ) -> Arrived:
        """Append rows that arrived since: old answers stay true, new ones are narrower.

        What is appended, and when, may depend on everything that was told, and on nothing else of the sealed rows. Rows
        whose labels come late are appended when the labels are there, all at the same age. Asking again after an
        arrival is a new query. The same call again, as after a kill, returns the arrival that is there.

        A gate about rows answers no challenge until its champion has values for the new rows (`Gate.complete`), made by
        people who have seen no sealed labels.

        In a holdout that was created with ``planning=eh.Planning(grows=True)`` the budget refills: a tree about the new
        rows opens where it pays. In any other one the trees stay one, and intervals narrow alone.

        Args:
            rows: Rows to seal, of the columns that were sealed; None where training rows arrive alone.
            training: Open rows that arrived; guesses are made from all of them.
            until: When these rows had come, such as ``"2026-12-01"``; compared as text, never before an earlier one.

        Returns:
            Number of the arrival, all rows, and half-widths before and after it.

        Raises:
            HoldoutRejected: If the rows do not fit, are empty or are there already. Nothing was changed.
            QueryRejected: If this holdout cannot grow. Nothing was changed.
            RowsArrived: If a query or an arrival came in the same moment. Nothing was changed.
        """
        from everhold.asking.arrivals.appending import append
        from everhold.progress import progress

        self._as_steward("append rows")
        with progress("appending"):
            arrived, growth = append(
                self._first, self._folder, rows=rows, training=training, until=until, known=self._executor.growth
            )
        self._see(growth)
        return arrived

    def retire(self, before: int) -> Any:
        """End all promises to come about rows before an arrival, and open them: they are training rows from now on.

        Answers that were given stay true. Later ones come from trees about the rows from that arrival on.

        Args:
            before: Number of an arrival at which a tree opened.

        Returns:
            The rows, as an Arrow table. Where the call was interrupted, call it again: rows that are retired already
            are returned, and nothing is changed.

        Raises:
            QueryRejected: If no tree opened there. Nothing was changed.

        Warns:
            EverholdWarning: If other holdouts of this storage have these rows, too, and lose their promise; before
                anything is opened.
        """
        from everhold.asking.accounts.unsealing import affected_holdouts
        from everhold.asking.arrivals.appending import retire

        self._as_steward("retire rows")
        for text in affected_holdouts(self._first):
            warn_caller(EverholdWarning(text))
        opened = retire(self._first, self._folder, before=before)
        self._see_arrivals()
        return opened

    @current
    def over_time(
        self, query: Query[Any] | str, by: str | int = "arrival", *, law: str = "windows",
        guess: float | None = None,
    ) -> OverTime:  # fmt: skip
        """Ask one query about the rows of each window of arrivals: the natural page of monitoring.

        Each window is one query, whose answer stays the same when more rows arrive. All intervals hold at
        once. So windows whose intervals do not meet prove that the population changed.

        Args:
            query: A mean, as a query or as a text.
            by: ``"arrival"``; a number of arrivals to one window; or ``"day"``, ``"month"`` or ``"year"`` of their
                ``until``.
            law: ``"windows"``: each window has another population. ``"one"``: all have the same, so that each
                window narrows what is known by the others. Windows that do not meet contradict that.
            guess: As for `ask`, for all windows.

        Raises:
            QueryRejected: If it cannot be asked, or arrivals have no dates. Nothing was charged.

        Warns:
            EverholdWarning: If one law is supposed, and windows contradict it.
        """
        from everhold.asking.arrivals.over_time import ask_over_time

        self._check_queries()
        return ask_over_time(self._executor, query, by=by, law=law, guess=guess)

    @current
    def drift(
        self, arrival: int | None = None, *, columns: Sequence[str] | None = None,
        also: Sequence[Query[Any] | str] = (),
    ) -> Drift:  # fmt: skip
        """Compare the rows of an arrival with all before it: the label, the columns, and queries of your own.

        Each comparison is two queries and pays like them. A column of numbers is cut at the median of the training
        rows, and one of texts at their most frequent value.

        Args:
            arrival: Its number; by default the latest one with sealed rows.
            columns: Those to compare; by default the label and at most 19 others.
            also: Further queries, such as the accuracy of a model.

        Raises:
            QueryRejected: If there is nothing to compare. Nothing was charged.

        Warns:
            EverholdWarning: If intervals do not meet, so that one law is not credible.
        """
        from everhold.asking.arrivals.drift import diagnose_drift

        self._check_queries()
        return diagnose_drift(self._executor, arrival=arrival, columns=columns, also=also)

    def _as_steward(self, what: str) -> None:
        if self._executor.analyst is not None:
            raise QueryRejected(
                f"an analyst cannot {what}; expected the holdout itself, as the steward opens it; nothing was changed"
            )

    def _asked_of(self, as_of: int | None) -> QueryExecutor:
        """The executor that answers next; with an arrival the one that knows what was answered then."""
        growth = self._executor.growth
        if growth is None:
            if as_of not in (None, 0):
                raise QueryRejected(f"there was no arrival {as_of!r}, as no rows arrived yet; nothing was charged")
            return self._executor
        return growth.best(self._executor.analyst) if as_of is None else growth.as_of(as_of, self._executor.analyst)

    def _check_static(self, what: str) -> None:
        """Refuse what does not know rows that arrive.

        Raises:
            QueryRejected: If rows arrived. Nothing was changed.
        """
        if self._executor.growth is not None:
            raise QueryRejected(
                f"rows arrived in this holdout, and {what} does not know them; expected a holdout without arrivals; "
                "nothing was changed"
            )


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
