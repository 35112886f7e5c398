"""Operations on rows that arrive: append, list and retire them, ask one query of each window, and look for drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from everhold.display import plain
from everhold.errors import EverholdWarning, warn_caller
from everhold.operations.operation import AnyQuery, HoldoutOperation, Param, Role, RowSource, Table
from everhold.progress import progress

if TYPE_CHECKING:
    from everhold.asking.arrivals.appending import Arrived
    from everhold.asking.arrivals.over_time import Drift, OverTime
    from everhold.asking.session import HoldoutSession

By = Literal["arrival", "day", "month", "year"] | int
Law = Literal["windows", "one"]


@dataclass(frozen=True, kw_only=True)
class Append(
    HoldoutOperation["Arrived"], verb="append", role=Role.STEWARD, act="append rows", route="POST /arrivals",
    topic="arrivals", status=201, command="append flights.db flights march.parquet --until 2026-04-01",
):  # fmt: skip
    """Append rows that arrived: old answers stay true, new ones are narrower.

    What is appended, and when, may depend on all answers, and on nothing else of the sealed rows. Rows whose labels
    come late are appended when the labels are there, all at the same age. Asking again after an arrival is a new query.
    A gate answers no challenge until its champion has values for the new rows. The budget refills in holdouts that were
    created to grow. The same call again changes nothing.
    """

    rows: Annotated[RowSource | None, Param("New rows to seal: Parquet, or CSV with named columns in UTF-8.")] = None
    training: Annotated[RowSource | None, Param("New open rows of the same columns, which make guesses.")] = None
    until: Annotated[
        str | None,
        Param("When these rows had come, never before an earlier one. Alone, it takes the rows of a table in an engine "
              "up to then.", longest=100, example="2026-12-01"),
    ] = None  # fmt: skip

    def perform(self, session: HoldoutSession) -> Arrived:
        """Seal the rows and open a tree about them where it pays."""
        from everhold.asking.arrivals.appending import append
        from everhold.asking.session import growth_of

        with progress("appending"):
            arrived, growth = append(
                session.first, session.folder, rows=self.rows, training=self.training, until=self.until,
                known=growth_of(session.executor),
            )  # fmt: skip
        session.see_arrivals(growth)
        return arrived

    def facts(self, result: Arrived) -> Mapping[str, Any]:
        """Return the number of the arrival and of its rows, for the audit log."""
        return {"arrival": result.arrival, "rows": result.rows}


@dataclass(frozen=True, kw_only=True)
class ListArrivals(
    HoldoutOperation[list[dict[str, Any]]], verb="list_arrivals", role=Role.VIEWER, route="GET /arrivals",
    topic="arrivals",
    part="arrivals",
):  # fmt: skip
    """List rows at creation, at each arrival and now, with the budget spent and the half-width of the next answer.

    All of it is public. A half-width of null is one at which queries are refused. Empty where no rows arrived.
    """

    def perform(self, session: HoldoutSession) -> list[dict[str, Any]]:
        """The timeline, with None for widths that are infinite."""
        session.executor.state()  # other rows may be there by now
        rows = session.accessor("arrivals").timeline()  # type: ignore[union-attr]
        return [plain(row) for row in rows]


@dataclass(frozen=True, kw_only=True)
class AskOverTime(
    HoldoutOperation["OverTime"], verb="over_time", role=Role.ANALYST, act="ask over time", route="POST /over-time",
    topic="arrivals", agents=True, command='over-time flights.db flights "arr_delay > 15" --by month',
    picture="Each window of arrivals with its interval.",
):  # fmt: skip
    """Ask one query about the rows of each window of arrivals.

    Each window is a query of its own, and free when it is asked again. All intervals hold at once. So windows whose
    intervals do not meet prove that the population changed.
    """

    query: Annotated[AnyQuery, Param("A mean, as a query or as a text.")]
    by: Annotated[
        By, Param("Windows: arrival, a number of arrivals, or day, month or year of 'until'.", least=1, most=10_000)
    ] = "arrival"
    law: Annotated[
        Law, Param("windows, or one if all rows have one law: then each window narrows what the others leave.")
    ] = "windows"
    guess: Annotated[float | None, Param("Your own guess, for all windows.")] = None

    def perform(self, session: HoldoutSession) -> OverTime:
        """Ask the query of each window."""
        from everhold.asking.arrivals.over_time import ask_over_time

        session.check_queries()
        return ask_over_time(session.executor, self.query, by=self.by, law=self.law, guess=self.guess)

    def facts(self, result: OverTime) -> Mapping[str, Any]:
        """Return the number of windows, for the audit log."""
        return {"windows": len(result)}

    def remark(self, result: OverTime) -> str:
        """Return a sentence that says whether a change of the population is proved."""
        changed = f"the population changed: {len(result.changed):,} pairs of windows do not meet"
        return changed if result.changed else "no change is proved"


@dataclass(frozen=True, kw_only=True)
class CompareArrival(
    HoldoutOperation["Drift"], verb="drift", role=Role.ANALYST, act="compare arrivals", route="POST /drift",
    topic="arrivals", agents=True, command="drift flights.db flights --columns arr_delay --columns carrier",
):  # fmt: skip
    """Compare the rows of an arrival with all before it.

    The label, the columns and queries of your own are compared. Each comparison is two queries, and pays like them.
    Where two intervals do not meet, the population changed.
    """

    arrival: Annotated[
        int | None, Param("Number of the arrival, by default the latest one with sealed rows.", least=1)
    ] = None
    columns: Annotated[
        Sequence[str] | None, Param("Columns to compare, by default the label and at most 19 others.", longest=100)
    ] = None
    also: Annotated[Sequence[AnyQuery], Param("Further queries with one answer each.", longest=100)] = ()

    def perform(self, session: HoldoutSession) -> Drift:
        """Ask each query about the rows of the arrival and about earlier rows."""
        from everhold.asking.arrivals.over_time import diagnose_drift

        session.check_queries()
        return diagnose_drift(session.executor, arrival=self.arrival, columns=self.columns, also=self.also)

    def facts(self, result: Drift) -> Mapping[str, Any]:
        """Return the numbers of the arrival and of the comparisons, for the audit log."""
        return {"arrival": result.arrival, "queries": len(result)}

    def remark(self, result: Drift) -> str:
        """Return a sentence that says whether a change of the population is proved."""
        changed = f"the population changed, as shown by {', '.join(result.changed)}"
        return changed if result.changed else "no change is proved"


@dataclass(frozen=True, kw_only=True)
class Retire(
    HoldoutOperation[Table], verb="retire", role=Role.STEWARD, act="retire rows", route="POST /retire",
    topic="arrivals",
    command="retire flights.db flights 6 --to opened.parquet",
):  # fmt: skip
    """Open the rows before an arrival, and end all promises to come about them.

    Answers that were given stay true. The rows are training rows from now on. The same call again returns the rows and
    changes nothing. The status lists the trees with the arrivals at which they opened.
    """

    before: Annotated[int, Param("An arrival at which a tree opened. Earlier rows are opened.", least=1)]

    def perform(self, session: HoldoutSession) -> Table:
        """End the trees and open the rows, after a warning of other holdouts that lose their promise."""
        from everhold.asking.arrivals.appending import retire
        from everhold.asking.unsealing import affected_holdouts

        for text in affected_holdouts(session.first):
            warn_caller(EverholdWarning(text))
        opened = retire(session.first, session.folder, before=self.before)
        session.see_arrivals()
        return opened

    def facts(self, result: Table) -> Mapping[str, Any]:
        """Return the number of opened rows, for the audit log."""
        return {"before": self.before, "rows": result.num_rows}
