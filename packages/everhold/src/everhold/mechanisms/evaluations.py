"""Evaluated queries for a mechanism: exact integer sums and histograms, and no single rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.guarantees.intervals.means import OfMeans
from everhold.values.evaluation import UNIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.mechanisms.described import Description


@dataclass(frozen=True, slots=True)
class Evaluations:
    """A batch of evaluated queries. A single query is a batch of one.

    Attributes:
        totals: Shape (queries, parts): sums over the sealed rows of each part, in grid units.
        guesses: Shape (queries,): the public guess of each mean in ``[0, unit]`` times ``rows``, in the units of a
            sum over all rows; -1 where there is none.
        rows: Number of sealed rows.
        unit: Grid steps between the row values 0 and 1.
        tolerances: Shape (queries,): the half-width of a mean that each query requests, nan for the planned one;
            None where all are content with that.
        procedures: How the interval of each query is made; None where the mechanism decides alone.
        seen: What each procedure needs to know of the sealed rows where that is more than the total; else None. Secret.
        margins: Shape (queries,): what the lower limit of a challenge has to reach, in units of a mean; nan for
            queries that are answered with an interval. None where no query is a challenge.
        silent: Whether nothing is told before the study is unsealed.
        yes_no: Shape (queries,): whether every row value is 0 or 1 by type, so that totals are whole numbers of rows;
            None where that is not known of any.
        failing: Of each query the evaluation of its second number, the share of rows on which a model fails (S16); None
            for each without, or for all.
        described: Level and procedure that a query has by its description; None for each without, or for all.
    """

    totals: NDArray[np.int64] = field(repr=False)
    guesses: NDArray[np.int64]
    rows: int
    unit: int = UNIT
    tolerances: NDArray[np.float64] | None = None
    procedures: Sequence[Procedure] | None = None
    seen: Sequence[Any] | None = field(default=None, repr=False)
    margins: NDArray[np.float64] | None = None
    silent: bool = False
    described: Sequence[Description | None] | None = None
    yes_no: NDArray[np.bool_] | None = None
    failing: Sequence[Evaluations | None] | None = field(default=None, repr=False)

    @property
    def whole(self) -> NDArray[np.bool_]:
        """Whether each total is known to be a whole number of rows, shape (queries,)."""
        return np.zeros(len(self), dtype=bool) if self.yes_no is None else self.yes_no

    def __len__(self) -> int:
        return len(self.totals)

    def summary(self, place: int, procedure: Procedure, mean: float) -> Any:
        """Return the input of a query's interval procedure: its mean, or what else was evaluated. Secret.

        A procedure of means may stand in place of one for which more was evaluated.
        """
        seen = None if self.seen is None or isinstance(procedure, OfMeans) else self.seen[place]
        return mean if seen is None else seen

    def some(self, rows: list[int]) -> Evaluations:
        """Return the queries at these indices, in this order."""
        return replace(
            self,
            totals=self.totals[rows],
            guesses=self.guesses[rows],
            tolerances=None if self.tolerances is None else self.tolerances[rows],
            procedures=None if self.procedures is None else [self.procedures[row] for row in rows],
            seen=None if self.seen is None else [self.seen[row] for row in rows],
            margins=None if self.margins is None else self.margins[rows],
            described=None if self.described is None else [self.described[row] for row in rows],
            yes_no=None if self.yes_no is None else self.yes_no[rows],
            failing=None if self.failing is None else [self.failing[row] for row in rows],
        )

    @classmethod
    def together(cls, queries: Sequence[Evaluations]) -> Evaluations:
        """Join queries that were each evaluated alone into one batch."""
        return replace(
            queries[0],
            totals=np.concatenate([query.totals for query in queries]),
            guesses=np.concatenate([query.guesses for query in queries]),
            procedures=[procedure for query in queries for procedure in query.procedures or ()],
            seen=[seen for query in queries for seen in query.seen or ()],
        )
