"""Multiplicative weights on their own: a public histogram that learns from released answers and guesses the next ones.

`MultiplicativeWeights` touches no sealed rows at all. Fed with released answers its guesses are post-processing, so
that whoever confirms guesses (Thresholdout, GuessAndCheck) keeps its promise unchanged, and the number of guesses that
can be wrong is bounded by the logarithm of the number of cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from everhold.errors import BudgetExhausted
from everhold.mechanisms.evaluations import Evaluations
from everhold.mechanisms.guess_and_check import GuessAndCheck
from everhold.values.evaluation import UNIT, to_grid
from everhold.values.universe import checked_histogram
from everhold_privacy.synthetic import SyntheticTable
from everhold_privacy.synthetic.base import ROUNDING, checked_count
from everhold_privacy.synthetic.mwem import mean_under, taught

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from everhold.mechanisms.base import Mechanism, Replies, State
    from everhold.randomness import Noise
    from everhold_privacy.synthetic import QueryFamily, Universe

__all__ = ["MultiplicativeWeights", "PrivateMultiplicativeWeights", "WeightsSession"]

_LONGEST_BATCH = 256


class MultiplicativeWeights:
    """Public weights over cells; immutable, an update makes new ones.

    Updates are those of `everhold_privacy.synthetic.mwem.taught`.

    Args:
        cells: Number of cells N; the weights start equal.
        training: A public histogram to start from, shape (cells,); never the sealed one.
        uniform_share: Share of equal weights that is mixed into the training histogram, in (0, 1].

    Raises:
        ValueError: If an argument is not as described.

    Source: Hardt, Rothblum 2010; the constants: docs/theory, synthetic data.

    Examples:
        >>> weights = MultiplicativeWeights(4)
        >>> query = [1, 1, 0, 0]
        >>> weights.guess(query)
        0.5
        >>> round(weights.update(query, 0.9).guess(query), 3)
        0.832
    """

    __slots__ = ("_weights", "capacity", "updates")

    _weights: NDArray[np.float64]
    capacity: float
    """Relative entropy from any histogram to the first weights, at most; ``ln N`` for equal weights."""
    updates: int
    """Number of updates so far."""

    def __init__(self, cells: int, *, training: ArrayLike | None = None, uniform_share: float = 0.1) -> None:
        checked_count("cells", cells)
        if not 0.0 < uniform_share <= 1.0:
            raise ValueError(f"uniform_share is {uniform_share}; expected a number in (0, 1]")
        start = np.full(cells, 1.0 / cells)
        if training is not None:
            counts = checked_histogram(training, cells=cells)
            start = uniform_share / cells + (1.0 - uniform_share) * counts / counts.sum()
        self._set(start / start.sum(), capacity=-math.log(float(start.min())), updates=0)

    def _set(self, weights: NDArray[np.float64], *, capacity: float, updates: int) -> None:
        weights.setflags(write=False)
        self._weights, self.capacity, self.updates = weights, capacity, updates

    @property
    def cells(self) -> int:
        """Number of cells N."""
        return len(self._weights)

    @property
    def weights(self) -> NDArray[np.float64]:
        """Shape (cells,), summing to 1; read-only."""
        return self._weights

    def guess(self, query: ArrayLike) -> float:
        """The mean of a query under the weights.

        Args:
            query: Shape (cells,), boolean or numbers in [0, 1].

        Raises:
            ValueError: If the shape is another one or a value is outside [0, 1].
        """
        return mean_under(self._weights, _checked_query(query, self.cells))

    def update(self, query: ArrayLike, released: float) -> Self:
        """The weights after an answer that came from the sealed rows.

        Args:
            query: As for `guess`.
            released: The released answer, clipped to [0, 1].

        Raises:
            ValueError: If the query is not as for `guess` or the answer is nan, as refused ones are.
        """
        if math.isnan(released):
            raise ValueError("the released answer is nan; expected a number; do not learn from refused answers")
        return self._updated(_checked_query(query, self.cells), released)

    def _updated(self, query: NDArray[np.float64], released: float) -> Self:
        new = object.__new__(type(self))
        new._set(taught(self._weights, query, released), capacity=self.capacity, updates=self.updates + 1)
        return new

    def most_updates(self, gap: float, *, error: float = 0.0) -> int:
        """Largest possible number of updates: ``capacity / (2 (gap^2 - error^2))``.

        Args:
            gap: Every guess that led to an update was at least this far from the sealed average.
            error: Every released answer was at most this far from it.

        Raises:
            ValueError: If not ``0 <= error < gap``: then updates need not help.

        Examples:
            >>> MultiplicativeWeights(100_000).most_updates(0.1, error=0.02)
            599
        """
        if not 0.0 <= error < gap:
            raise ValueError(f"gap is {gap} and error is {error}; expected 0 <= error < gap")
        return math.floor(self.capacity / (2.0 * (gap - error) * (gap + error)) * (1.0 + 1e-9))

    def __repr__(self) -> str:
        return f"MultiplicativeWeights(cells={self.cells}, updates={self.updates})"


def _checked_query(query: ArrayLike, cells: int) -> NDArray[np.float64]:
    vector = np.asarray(query)
    if vector.shape != (cells,) or vector.dtype.kind not in "biuf":
        raise ValueError(f"the query has the shape {vector.shape}; expected one number for each of {cells} cells")
    real = vector.astype(np.float64)
    if vector.dtype.kind != "b" and not (float(real.min()) >= 0.0 and float(real.max()) <= 1.0):  # also false for nan
        raise ValueError("the query has values that are nan or outside [0, 1]; clip and rescale them")
    return real


@dataclass(frozen=True, slots=True, eq=False)
class WeightsSession:
    """State between two queries.

    Attributes:
        state: The mechanism's; it may hold secret noise.
        weights: Public.
    """

    state: State
    weights: MultiplicativeWeights


@dataclass(frozen=True, kw_only=True)
class PrivateMultiplicativeWeights:
    """Queries are answered from public weights while a mechanism confirms them; each release teaches the weights.

    With Thresholdout that is Hardt and Rothblum's private multiplicative weights; with GuessAndCheck it is the same
    without noise. The promise is the mechanism's own, for all queries that are asked.

    Attributes:
        universe: The cells.
        mechanism: One that confirms guesses.

    Raises:
        ValueError: If the mechanism confirms no guesses or has another grid.

    Source: Hardt, Rothblum 2010; that guesses are post-processing: docs/theory, synthetic data.
    """

    universe: Universe
    mechanism: Mechanism

    method: ClassVar[str] = "private multiplicative weights"

    def __post_init__(self) -> None:
        if not self.mechanism.traits.needs_guess:
            raise ValueError(f"{self.mechanism.name} confirms no guesses; expected Thresholdout or GuessAndCheck")
        if self.mechanism.unit != UNIT:
            raise ValueError(f"the mechanism has a grid of {self.mechanism.unit} steps; expected {UNIT}")
        if isinstance(self.mechanism, GuessAndCheck):  # the table's error is the radius, which holds within the plan
            object.__setattr__(self, "mechanism", replace(self.mechanism, endless=False))

    def start(self, noise: Noise, *, training: ArrayLike | None = None) -> WeightsSession:
        """A session that has not been asked anything; `training` as for `MultiplicativeWeights`."""
        return WeightsSession(
            self.mechanism.start(noise), MultiplicativeWeights(self.universe.cells, training=training)
        )

    def ask(
        self, session: WeightsSession, query: ArrayLike, histogram: ArrayLike, noise: Noise
    ) -> tuple[WeightsSession, Replies]:
        """One query that arrives now, whatever it was chosen after.

        Args:
            session: The session so far.
            query: Shape (cells,), boolean or numbers in [0, 1].
            histogram: The sealed one, of the mechanism's number of rows; always the same.
            noise: Where the mechanism's randomness comes from.

        Raises:
            ValueError: If query or histogram are not as described; nothing was asked.
        """
        counts = checked_histogram(histogram, cells=self.universe.cells, rows=self.mechanism.rows)
        grid = to_grid(_checked_query(query, self.universe.cells))
        vector = grid / UNIT
        mean = np.array([mean_under(session.weights.weights, vector)])
        return self._ask(session, mean, lambda _: vector, np.array([int(grid @ counts)]), noise)

    def _ask(
        self,
        session: WeightsSession,
        means: NDArray[np.float64],
        vector: Callable[[int], NDArray[np.float64]],
        totals: NDArray[np.int64],
        noise: Noise,
    ) -> tuple[WeightsSession, Replies]:
        """A batch with guesses from the same weights; releases teach them in order."""
        steps = self.mechanism.steps
        guesses = np.minimum(np.rint(means * steps).astype(np.int64), steps)
        evaluations = Evaluations(totals=totals[:, None], guesses=guesses, rows=self.mechanism.rows)
        state, replies = self.mechanism.answer_many(session.state, evaluations, noise)
        weights = session.weights
        for index in np.flatnonzero(replies.charged).tolist():
            weights = weights._updated(vector(index), float(replies.values[index]))
        return WeightsSession(state, weights), replies

    def draw(
        self, queries: QueryFamily, histogram: ArrayLike, noise: Noise, *, training: ArrayLike | None = None
    ) -> SyntheticTable:
        """Ask all queries in turns until all are confirmed by the same weights; these are the table.

        The table answers every query of the family within the mechanism's radius. How many updates that takes shows
        only in the run, mostly far fewer than `MultiplicativeWeights.most_updates`.

        Args:
            queries: The queries; the mechanism should be planned for ``|Q| (surprises + 1)`` of them.
            histogram: As for `ask`.
            noise: As for `ask`.
            training: As for `start`.

        Raises:
            BudgetExhausted: If the mechanism refuses before all are confirmed; then there is no table.
            ValueError: As for `ask`.
        """
        if queries.cells != self.universe.cells:
            raise ValueError(f"the queries are about {queries.cells} cells; expected {self.universe.cells}")
        totals = queries.totals(checked_histogram(histogram, cells=queries.cells, rows=self.mechanism.rows))
        session, confirmed, first, length = self.start(noise, training=training), 0, 0, 1
        while confirmed < len(queries):
            last = min(first + length, len(queries))
            means = queries.means(session.weights.weights, first, last)
            vector = partial(_vector_after, queries, first)
            session, replies = self._ask(session, means, vector, totals[first:last], noise)
            if bool(np.any(np.isnan(replies.values))):
                raise _exhausted(session, len(queries))
            quiet = not bool(np.any(replies.charged))
            confirmed, first = (confirmed + last - first if quiet else 0), last % len(queries)
            length = min(2 * length, _LONGEST_BATCH) if quiet else 1  # a batch should hold one release at most
        return self._table(session.weights, len(queries), simulated=noise.simulated)

    def _table(self, weights: MultiplicativeWeights, queries: int, *, simulated: bool) -> SyntheticTable:
        promise = self.mechanism.promise()
        radius = promise.radius + ROUNDING
        return SyntheticTable(
            universe=self.universe, weights=weights.weights, method=self.method, rows=self.mechanism.rows,
            queries=queries, radius=radius, confidence=promise.confidence, statement=promise.statement,
            assumptions=promise.assumptions, privacy=promise.privacy, margin=radius, tilt=0.0, simulated=simulated,
        )  # fmt: skip


def _vector_after(queries: QueryFamily, first: int, index: int) -> NDArray[np.float64]:
    return queries.vector(first + index)


def _exhausted(session: WeightsSession, queries: int) -> BudgetExhausted:
    asked, updates = session.state.asked, session.weights.updates
    return BudgetExhausted(
        f"the mechanism refused after {asked} queries and {updates} updates, before all {queries} were confirmed "
        "by the same weights; plan for more surprises and more queries, or start from a training histogram",
        asked=asked,
        updates=updates,
    )
