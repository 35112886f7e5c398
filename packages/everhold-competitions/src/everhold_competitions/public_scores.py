"""Public scores of a competition: what teams are told about the public rows, which do not count for the final board.

The public rows are a holdout of their own, with a ladder for each team (`everhold_competitions.ladder`). A submitted
file has predictions for all rows, which are split into those for public rows and those for final rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import numpy as np

from everhold.asking.creation import part_of_each_row
from everhold.asking.session import HoldoutSession
from everhold.errors import IntegrityError, QueryRejected
from everhold.ledger.store import all_entries
from everhold.queries.predictions.arrays import prediction_table
from everhold.values.units import MeanUnits
from everhold_competitions.competition import Competition, PublicTerms
from everhold_competitions.ladder import Ladder
from everhold_competitions.scoring import Scoring, scoring_of
from everhold_competitions.submission_result import is_score
from everhold_competitions.teams import TOLD_OF, TeamLimited

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from everhold.answers import Answer
    from everhold.asking.query_executor import QueryExecutor
    from everhold.sealing.rows.evaluated_rows import RowStore

    Told = tuple[float, float, float]

_OPENED: WeakKeyDictionary[RowStore, QueryExecutor] = WeakKeyDictionary()
"""Public rows that are open, for as long as the rows of the final board are."""


@dataclass(frozen=True)
class PublicScores:
    """The public rows of a competition, opened for scoring.

    Attributes:
        executor: Executor of the holdout with the public rows.
        final: Executor of the holdout with the rows of the final board.
        competition: Terms that were fixed when the rows were sealed.
        is_public: For each row, in the order in which all rows were sealed, whether it is public, shape (rows,).
    """

    executor: QueryExecutor
    final: QueryExecutor
    competition: Competition
    is_public: NDArray[np.bool_] = field(repr=False)

    @classmethod
    def of(cls, final: QueryExecutor, folder: Path, competition: Competition) -> PublicScores:
        """Open the public rows that were dealt with the rows of the final board.

        Args:
            final: Executor of the holdout with the rows of the final board.
            folder: Private folder of that holdout.
            competition: Terms that were fixed when the rows were sealed.

        Raises:
            HoldoutNotFound: If the holdout with the public rows is gone.
            IntegrityError: If the files of the public rows are missing or altered.
        """
        executor = _OPENED.get(final.sealed)
        if executor is None:
            record = final.store.record(PublicTerms(competition, final.record.name).name)
            session = HoldoutSession(final.store, record, folder.parent / record.configuration["folder"])
            executor = _OPENED[final.sealed] = session.executor
        part = part_of_each_row(folder, final.key)
        if part is None or len(part) != final.schema.rows + executor.schema.rows:
            raise IntegrityError(
                "The note beside the sealed rows that says which of them are public is "
                "missing. Restore the backup of the folder."
            )
        return cls(executor, final, competition, part == 1)

    def close(self) -> None:
        """Close the cached public rows. They are opened again when asked."""
        _OPENED.pop(self.final.sealed, None)
        self.executor.sealed.close()

    @property
    def ladder(self) -> Ladder:
        """The mechanism of the public rows."""
        return cast("Ladder", self.executor.mechanism)

    @cached_property
    def scoring(self) -> Scoring:
        """The scoring of submissions on the public rows."""
        return scoring_of(self.competition, self.executor.compiler)

    def split(self, predictions: Any) -> tuple[Any, Any]:
        """Return the predictions for the public rows, and for those of the final board.

        Args:
            predictions: Predictions for all rows, public and final. A table with row ids may be in any order. An array
                must be in the order in which the rows were sealed.

        Raises:
            QueryRejected: If there is not exactly one prediction for each row. Nothing was received or charged.
        """
        rows, row_id = len(self.is_public), self.final.schema.row_id
        table = prediction_table(predictions)
        if table is not None:
            ids = [] if row_id is None else self._ids(row_id)
            predictions = table.in_order(row_id, ids, rows_are="sealed", check=self._check)
        values = predictions if isinstance(predictions, (np.ndarray, list, tuple)) else np.asarray(predictions)
        count = len(values) if np.ndim(values) else 0
        if count != rows:
            raise QueryRejected(
                f"There are {count:,} predictions, and {rows:,} rows are scored, public "
                "and final ones together. Pass one prediction for each of them."
            )
        self._check(values)
        if isinstance(values, np.ndarray):
            return values[self.is_public], values[~self.is_public]
        both = zip(values, self.is_public.tolist(), strict=True)
        sides: tuple[list[Any], list[Any]] = ([], [])
        for value, public in both:
            sides[not public].append(value)
        return sides

    def _check(self, predictions: Any) -> None:
        """Check predictions for all rows before they are split, so that a message names the row of the team's file."""
        self.scoring.rows(predictions).checked(predictions, self.executor.schema)

    def _ids(self, row_id: str) -> list[Any]:
        """Return the public ids of all rows, in their order."""
        sides = {True: iter(self.executor.sealed.row_ids(row_id)), False: iter(self.final.sealed.row_ids(row_id))}
        return [next(sides[public]) for public in self.is_public.tolist()]

    def tell(self, team: str, predictions: Any, predicted: str) -> Answer:
        """Answer a submission with its team's public score, the best so far, and the interval of this submission.

        Args:
            team: Name of the team that submits.
            predictions: Predictions for the public rows.
            predicted: SHA-256 of the predictions for the rows of the final board, which identifies the submission.
        """
        standing = self.scores().get(team)
        ready = self.executor.compiler.compile(
            self.scoring.query(predictions, None), self.scoring.standing if standing is None else standing[0], None
        )
        answer: Answer = self.executor.ask(TeamLimited(ready, team, predicted, None, apart=True))
        if standing is None or answer.value is None:
            return answer
        best = max if self.scoring.higher_is_better else min
        return replace(answer, value=best(answer.value, standing[0]))  # of a repeated one, too

    def scores(self) -> dict[str, Told]:
        """Return each team's public score with its interval."""
        units, step = MeanUnits.of(self.scoring.facts), self.ladder.row_step
        found: dict[str, Told] = {}
        for entry in all_entries(self.executor.ledger):
            answer = entry.answer
            if TOLD_OF in entry.description and is_score(answer["source"]):
                value, low, high = units.in_units(answer["value"], answer["low"], answer["high"], row_step=step)
                assert value is not None
                assert low is not None
                assert high is not None
                found[entry.description[TOLD_OF]["team"]] = value, low, high
        return found

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Facts about the public rows: their number, the step of scores, and the probability of the intervals."""
        facts = self.scoring.facts
        step = abs(facts.at_one - facts.at_zero) / self.ladder.grid
        return {
            "holdout": self.executor.record.name, "rows": self.executor.schema.rows, "step": step,
            "confidence": self.ladder.confidence,
        }  # fmt: skip
