"""Widths over time of a holdout that grows: which tree answers in each month, and how wide its answers are (S13)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from everhold.arguments import as_whole, brief
from everhold.display import Display
from everhold.mechanisms import GuessAndCheck, State
from everhold.mechanisms.suffixes import Suffix, narrowest, opens, since, tree_of
from everhold.planning.request import USUAL_VALUE, check_value

if TYPE_CHECKING:
    import altair as alt

_MOST_MONTHS = 1_200


@dataclass(frozen=True, slots=True)
class GrowthPlan(Display):
    """Half-widths of the last query of each month.

    Attributes:
        rows: One for each month: month, rows, trees (open), tree (that answers), tree_rows, within (of an answer whose
            guess holds), unsealed, and static: unsealed, if the rows of the first month were all there ever are.
        at: Population value at which widths are told.
    """

    rows: Sequence[Mapping[str, Any]]
    at: float = USUAL_VALUE

    def __len__(self) -> int:
        return len(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """``{"months": [...]}``."""
        return {"months": self.to_rows()}

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each month."""
        return [dict(row) for row in self.rows]

    def explain(self) -> str:
        """The columns in words."""
        return (
            f"half-widths at a true value of {self.at:g}; 'static' is unsealed, if the rows of the first month were all"
        )

    def chart(self) -> alt.LayerChart:
        """A picture of the widths over time; needs the extra ``plots``."""
        from everhold.charts.growing import growth_plan_chart

        return growth_plan_chart(self)


def plan_growth(
    *, rows_per_month: int, months: int, queries: int, surprises: float = 1.0, confidence: float = 0.95,
    at: float = USUAL_VALUE, training_rows: int | None = None,
) -> GrowthPlan:  # fmt: skip
    """Plan a holdout to which rows are appended every month.

    Args:
        rows_per_month: Sealed rows that arrive each month; the first ones when the holdout is created.
        months: Number of months.
        queries: Queries of each month.
        surprises: Surprises of each month; a fraction for one in several months.
        confidence: Probability with which all intervals hold together.
        at: Population value at which widths are told.
        training_rows: Rows that guesses are made from; by default as many as arrive in a month.

    Raises:
        ValueError: If a number cannot be used.

    Examples:
        >>> made = plan_growth(rows_per_month=2_000, months=12, queries=50)
        >>> [round(row["unsealed"], 3) for row in made.rows if row["month"] in (1, 12)]
        [0.043, 0.03]
    """
    for name, value, most in (("rows_per_month", rows_per_month, 2**30), ("months", months, _MOST_MONTHS),
                              ("queries", queries, 10**6)):  # fmt: skip
        if not 1 <= (as_whole(value) or 0) <= most:
            raise ValueError(f"{name} is {brief(value)}; expected a whole number from 1 to {most:,}")
    if not 0.0 <= surprises <= queries:
        raise ValueError(f"surprises is {brief(surprises)}; expected a number from 0 to the {queries} queries")
    check_value(at)
    every, asked = max(math.ceil(surprises * months), 1), queries * months
    trained = rows_per_month if training_rows is None else training_rows
    request = GuessAndCheck.tuned(
        rows=rows_per_month, queries=asked, surprises=min(every, asked), confidence=confidence, training_rows=trained
    )
    first, state, trees, made = request.sharing(0.5), State(), [Suffix(1)], []
    for month in range(1, months + 1):
        rows = rows_per_month * month
        if month > 1 and opens(trees[-1], state, rows=rows - rows_per_month, arriving=rows_per_month):
            trees.append(Suffix(len(trees) + 1, month - 1, rows - rows_per_month, state))
        charged = round(surprises * month) - state.charged
        state = state.after(asked=queries, charged=charged, labels=charged * first.cells.cost)
        open_trees = [(tree_of(first, tree, rows=rows - tree.first, training_rows=trained), tree) for tree in trees]
        last = replace(state, asked=state.asked - 1)  # before the last query of the month
        mechanism, tree = open_trees[narrowest(open_trees, last)]
        within, unsealed = _widths(mechanism, since(last, tree.before), at)
        made.append({
            "month": month, "rows": rows, "trees": len(trees), "tree": tree.number, "tree_rows": rows - tree.first,
            "within": within, "unsealed": unsealed, "static": _widths(request, last, at)[1],
        })  # fmt: skip
    return GrowthPlan(made, at)


def _widths(mechanism: GuessAndCheck, state: State, at: float) -> tuple[float, float]:
    """Half-widths of the next answer: told of a guess that holds, and unsealed."""
    expected = mechanism.quotes.expected(state, at, mechanism.yes_no_procedure)
    return _half(expected.confirmed), _half(expected.unsealed)


def _half(ends: tuple[float, float]) -> float:
    return (min(ends[1], 1.0) - max(ends[0], 0.0)) / 2.0
