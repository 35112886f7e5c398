"""Tools of an agent for what a champion lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold_server.mcp.candidates import PredictionsFolder, candidate
from everhold_server.mcp.cases import NewResults
from everhold_server.mcp.results import CompletedOutput
from everhold_server.mcp.tools import (
    File,
    GateName,
    Predictions,
    Rule,
    gate_named,
)

if TYPE_CHECKING:
    from everhold.holdout import Holdout


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
