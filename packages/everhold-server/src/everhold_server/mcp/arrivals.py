"""Tools of an agent for rows that arrive: one query of each window, drift, and values of a champion for new rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from pydantic import Field

from everhold.display import left_in_words
from everhold_server.mcp.candidates import PredictionsFolder, candidate
from everhold_server.mcp.cases import NewResults
from everhold_server.mcp.results import CompletedOutput
from everhold_server.mcp.tools import (
    File,
    GateName,
    Given,
    Guess,
    High,
    Low,
    Predictions,
    Rule,
    Text,
    gate_named,
    mean_of,
)

if TYPE_CHECKING:
    from everhold.holdout import Holdout


Window = Annotated[
    Literal["arrival", "day", "month", "year"],
    Field(description="A window for each arrival, or for each day, month or year until which rows arrived."),
]


class WindowsOutput(TypedDict):
    """Answers to one query, window by window."""

    windows: Annotated[list[dict[str, Any]], Field(description="Window, rows, value, low, high, source, charged.")]
    changed: Annotated[list[list[str]], Field(description="Pairs of windows between which the population changed.")]
    left: Annotated[dict[str, int], Field(description="What is left of the budget.")]
    says: str
    next: str


class DriftOutput(TypedDict):
    """Rows of an arrival beside all before it, query by query."""

    arrival: int
    queries: Annotated[list[dict[str, Any]], Field(description="Asked, interval before and since, changed.")]
    changed: Annotated[list[str], Field(description="Queries that prove a change of the population.")]
    left: Annotated[dict[str, int], Field(description="What is left of the budget.")]
    says: str
    next: str


class ArrivalTools:
    """Tools of an agent for a holdout to which rows are appended."""

    def __init__(self, holdout: Holdout) -> None:
        self._holdout = holdout

    def over_time(
        self, query: Text, by: Window = "arrival", guess: Guess = None,
        low: Low = None, high: High = None, given: Given = None,
    ) -> WindowsOutput:  # fmt: skip
        """Where rows arrive: ask one query of the rows of each window.

        Each window counts as a query, and repeats are free.
        All intervals hold at once: windows whose intervals do not meet prove that the population changed.
        """
        found = self._holdout.over_time(mean_of(query, low, high, given), by=by, guess=guess)
        left = self._holdout.remaining
        drift = f"{len(found.changed):,} pairs of windows prove a change" if found.changed else "no change is proved"
        return {
            "windows": found.to_rows(), "changed": [list(pair) for pair in found.changed], "left": dict(left),
            "says": f"{len(found):,} windows; {drift}; {left_in_words(left)} left",
            "next": "ask windows where the population changed; an answer about all rows is the mean over their laws",
        }  # fmt: skip

    def drift(
        self, arrival: Annotated[int | None, Field(description="Its number; by default the latest.", ge=1)] = None,
        columns: Annotated[list[str] | None, Field(description="By default the label and 19 others.")] = None,
    ) -> DriftOutput:  # fmt: skip
        """Where rows arrive: compare those of an arrival with all before it, column by column.

        Each comparison is two queries and is charged like them. Intervals that do not meet prove that the population
        changed.
        """
        found = self._holdout.drift(arrival, columns=columns)
        left = self._holdout.remaining
        changed = f"{len(found.changed):,} prove a change" if found.changed else "no change is proved"
        return {
            "arrival": found.arrival, "queries": found.to_rows(), "changed": list(found.changed), "left": dict(left),
            "says": f"{len(found):,} comparisons; {changed}; {left_in_words(left)} left",
            "next": "ask about the columns that changed, window by window, with over_time",
        }  # fmt: skip


class ChampionTools:
    """Tools for what a champion lacks: values for rows that arrived, or results of cases that it has not run.

    Args:
        holdout: On whose behalf it was opened, the agent acts.
        predictions: The folder from which files of predictions are read; none by default.
    """

    def __init__(self, holdout: Holdout, predictions: PredictionsFolder | None = None) -> None:
        self._holdout, self._predictions = holdout, predictions

    def complete(
        self, results: NewResults = None, rule: Rule = None, predictions: Predictions = None, file: File = None,
        gate: GateName = None, baseline: NewResults = None,
    ) -> CompletedOutput:  # fmt: skip
        """Give what the champion lacks; the gate refuses challenges before. Free.

        Of a gate about cases: its results on cases_left, by whoever promoted it or the steward, and those of the
        baseline for cases that were added where there are guards. Of a gate about rows, by the steward: exactly one of
        the rule that the champion is, and its predictions for the rows that arrived alone. They must come from the same
        model, made without sealed labels, and cannot be changed afterwards.
        """
        found = gate_named(self._holdout, gate, cases=results is not None)
        if results is not None:
            found.complete(results, baseline=baseline)
            left, what, step = len(found.cases_left()), "results of all cases", "open_challenge with another version"
        else:
            found.complete(
                candidate(self._holdout.schema, self._predictions, rule=rule, predictions=predictions, file=file)
            )
            left, what = found.status()["rows_left"], "values for all rows"
            step = "challenge the champion with a model for all rows"
        status = found.status()
        return {
            "gate": status["gate"], "champion": status["champion"], "rows_left": left,
            "left": dict(status["remaining"]), "says": f"the champion of gate {found.name!r} has {what}", "next": step,
        }  # fmt: skip
