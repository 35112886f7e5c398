"""Synthetic tables with a promise of their own (S1, S5), outside of any budget.

A holdout sells tables by `everhold_privacy.queries.synthesis`, where they share one promise with all other answers.
Here a maker of `everhold_privacy.synthetic` is paired with a confidence and a dependence model, and drawn once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.optimize import minimize_scalar

from everhold.dependence import DependenceModel, Independent
from everhold.errors import BudgetExhausted, DependenceError
from everhold.mechanisms import has_public_levels
from everhold.mechanisms.records import Evaluations
from everhold.privacy.curves import PureCurve
from everhold.values.evaluation import UNIT, to_grid
from everhold.values.universe import QueryFamily, checked_histogram
from everhold_lab.theory.classical import small_database_rows, uniform_deviation
from everhold_privacy.guarantees import leakage_bound
from everhold_privacy.synthetic import (
    BLR,
    EXCESSES,
    MOST_CANDIDATES,
    MWEM,
    ROUNDING,
    Synthesizer,
    SyntheticTable,
    candidate_tables,
    checked_count,
    mean_under,
    taught,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from everhold.mechanisms.base import Mechanism, Replies, State
    from everhold.privacy.curves import PrivacyCurve
    from everhold.randomness import Noise
    from everhold.values.universe import Universe


_FIXED = "the queries were fixed before anything that depends on the sealed rows was seen"


@dataclass(frozen=True, slots=True)
class TableBound:
    """What a synthetic table promises about the population, for all queries of the family at once.

    Attributes:
        radius: Half-width.
        on_rows: Part of it that bounds the distance from the sealed rows, at the same confidence.
        margin: The half-width without the part of S2 that is smaller near 0 and 1.
        tilt: The eps of S2.
        statement: "S1", or "S5" where queries fixed in advance have the smaller bound.
    """

    radius: float
    on_rows: float
    margin: float
    tilt: float
    statement: str


@dataclass(frozen=True)
class TableRelease:
    """A synthesizer, with what is promised for one of its tables.

    Attributes:
        maker: MWEM or BLR.
        confidence: 1 - beta, in (0, 1).
        dependence: How the rows depend on each other.
        fixed_queries: Whether the family was fixed before anything that depends on the sealed rows was seen. Then
            Hoeffding's bound for all of them (S5) may be the smaller one.

    Raises:
        ValueError: If the confidence is out of its range.
        DependenceError: If the dependence alone uses up beta.

    Examples:
        >>> from everhold.randomness import SeededNoise
        >>> from everhold.values.universe import ListedColumn, Universe
        >>> from everhold_privacy.synthetic import BLR
        >>> universe = Universe((ListedColumn("colour", ("red", "green", "blue")),))
        >>> blr = BLR(universe=universe, queries=universe.marginals(1), rows=10_000, epsilon=0.05, size=10)
        >>> table = TableRelease(blr).draw([5000, 3000, 2000, 0], SeededNoise(1))
        >>> table.weights
        array([0.5, 0.3, 0.2, 0. ])
        >>> round(table.radius, 3)
        0.147
    """

    maker: Synthesizer
    _: KW_ONLY
    confidence: float = 0.95
    dependence: DependenceModel = field(default_factory=Independent)
    fixed_queries: bool = False

    def __post_init__(self) -> None:
        if not 0.0 < self.confidence < 1.0:
            raise ValueError(f"confidence is {self.confidence}. Pass a number between 0 and 1.")
        if self.beta <= 0.0:
            raise DependenceError(
                "The dependence model may be wrong with probability "
                f"{self.dependence.miss:.3g}, and the promise may fail with probability "
                f"{1.0 - self.confidence:.3g} at most. Pass a smaller confidence."
            )

    @property
    def beta(self) -> float:
        """Probability that is left for the statement to fail, besides that the model is wrong."""
        return 1.0 - self.confidence - self.dependence.miss

    def weights(self, histogram: ArrayLike, noise: Noise) -> NDArray[np.float64]:
        """Return drawn weights without any promise, shape (cells,). Takes and raises the same as `draw`."""
        return self.maker.learned(self.maker.release(histogram, noise))

    def draw(self, histogram: ArrayLike, noise: Noise, *, leakage: PrivacyCurve | None = None) -> SyntheticTable:
        """Draw a table, and return it. Drawing another one costs as much again.

        Args:
            histogram: How many sealed rows lie in each cell, shape (cells,).
            noise: Where randomness comes from.
            leakage: As for `bound`.

        Raises:
            ValueError: If the histogram is not one of the maker's number of rows; nothing was drawn.
        """
        bound, maker = self.bound(leakage), self.maker
        assumptions = (self.dependence.describe(), *([_FIXED] if bound.statement == "S5" else []))
        return SyntheticTable(
            universe=maker.universe, weights=self.weights(histogram, noise), method=maker.method, rows=maker.rows,
            queries=len(maker.queries), radius=bound.radius, confidence=self.confidence, statement=bound.statement,
            assumptions=assumptions, privacy=maker.privacy(), margin=bound.margin, tilt=bound.tilt,
            simulated=noise.simulated,
        )  # fmt: skip

    def bound(self, leakage: PrivacyCurve | None = None) -> TableBound:
        """Return the promise before anything is drawn (S1, or S5 for fixed queries).

        Args:
            leakage: Hockey-stick curve of everything that has been or will be released from these rows, this table
                among it, about one row, averaged over rows; without it that of this table alone.
        """
        rows = self.maker.rows
        curve = self.dependence.leakage(self.maker.curve(), rows) if leakage is None else leakage
        leak = leakage_bound(curve, confidence=1.0 - self.beta)
        on_rows = self._on_rows(self.beta)
        sharp = TableBound(
            radius=on_rows + leak.total + ROUNDING, on_rows=on_rows, margin=on_rows + leak.total - leak.bias + ROUNDING,
            tilt=leak.epsilon, statement="S1",
        )  # fmt: skip
        beta = self.beta - self.dependence.training_distance()
        if not self.fixed_queries or beta <= 0.0:
            return sharp
        close, effective = self._on_rows(beta), self.dependence.concentration(rows)
        radius = close + uniform_deviation(len(self.maker.queries), rows=effective, beta=beta) + ROUNDING
        fixed = TableBound(radius=radius, on_rows=close, margin=radius, tilt=0.0, statement="S5")
        return min(sharp, fixed, key=lambda bound: bound.radius)

    def _on_rows(self, beta: float) -> float:
        alpha, exceedance = self.maker.sampling(beta)
        return alpha + exceedance / beta


def small_tables(*, accuracy: float, queries: QueryFamily, **others: Any) -> BLR:
    """Return BLR with the size of P10, ``s = ceil(ln|Q| / alpha^2)``.

    Args:
        accuracy: alpha, what smallness may cost; at least `everhold_privacy.synthetic.small_table_error`.
        queries: At least 2 queries.
        **others: The other attributes of `everhold_privacy.synthetic.BLR`.
    """
    return BLR(size=small_database_rows(len(queries), accuracy=accuracy), queries=queries, **others)


def tuned_blr(
    *, universe: Universe, queries: QueryFamily, rows: int, epsilon: float | None = None,
    limit: int = MOST_CANDIDATES, **promise: Any,
) -> TableRelease:  # fmt: skip
    """Return BLR with the size, and without a request the epsilon, of the smallest radius within the limit.

    Args:
        universe: As for `everhold_privacy.synthetic.BLR`.
        queries: As for `everhold_privacy.synthetic.BLR`.
        rows: As for `everhold_privacy.synthetic.BLR`.
        epsilon: Privacy loss, or None for the one with the smallest radius.
        limit: Largest number of candidate tables.
        **promise: Confidence, dependence and whether the queries are fixed, as for `TableRelease`.

    Raises:
        ValueError: If no epsilon is requested and the queries are fixed: the best would be no privacy.
    """

    def draft(size: int, chosen: float) -> TableRelease:
        maker = BLR(universe=universe, queries=queries, rows=rows, size=size, epsilon=chosen, limit=limit)
        return TableRelease(maker, **promise)

    if epsilon is None:
        _check_requested("epsilon", promise)
    requested = [epsilon] if epsilon else np.geomspace(1.0 / rows, 10.0, 12).tolist()
    sizes = list(islice(_sizes(universe.cells, limit), 400)) or [1]  # which is refused with the number of candidates
    pairs = [(size, chosen) for size in sizes for chosen in requested]
    size, chosen = min(pairs, key=lambda pair: draft(*pair).bound().radius)
    if epsilon:
        return draft(size, epsilon)
    finer = _least(lambda log: draft(size, math.exp(log)), math.log(chosen) - 0.5, math.log(chosen) + 0.5, 1e-5)
    return min(draft(size, chosen), draft(size, math.exp(finer)), key=lambda each: each.bound().radius)


def tuned_mwem(
    *, universe: Universe, queries: QueryFamily, rows: int, rho: float | None = None, most_rounds: int = 2000,
    **promise: Any,
) -> TableRelease:  # fmt: skip
    """Return MWEM with the rounds, and without a request the rho, of the smallest radius.

    Args:
        universe: As for `everhold_privacy.synthetic.MWEM`.
        queries: As for `everhold_privacy.synthetic.MWEM`.
        rows: As for `everhold_privacy.synthetic.MWEM`.
        rho: Zero-concentrated privacy loss of the whole run, or None for the one with the smallest radius.
        most_rounds: Largest number of rounds; each of them reads all queries once.
        **promise: Confidence, dependence and whether the queries are fixed, as for `TableRelease`.

    Raises:
        ValueError: If no rho is requested and the queries are fixed: the best would be no privacy.
    """

    def draft(rounds: int, log_rho: float) -> TableRelease:
        maker = MWEM.concentrated(rho=math.exp(log_rho), rounds=rounds, rows=rows, universe=universe, queries=queries)
        return TableRelease(maker, **promise)

    if rho is None:
        _check_requested("rho", promise)
    checked_count("most_rounds", most_rounds)
    drafts = []
    for rounds in np.unique(np.geomspace(1, most_rounds, 20).astype(int)).tolist():
        share = partial(draft, rounds)
        drafts.append(share(_least(share, math.log(1e-8), math.log(10.0), 0.02) if rho is None else math.log(rho)))
    return min(drafts, key=lambda each: each.bound().radius)


def _least(draft: Callable[[float], TableRelease], low: float, high: float, fine: float) -> float:
    """Return the argument with the smallest radius, to the precision `fine`."""
    found = minimize_scalar(
        lambda place: draft(place).bound().radius, bounds=(low, high), method="bounded", options={"xatol": fine}
    )
    return float(found.x)


def _check_requested(name: str, promise: dict[str, Any]) -> None:
    if promise.get("fixed_queries"):
        raise ValueError(
            f"{name} is missing and the queries are fixed, so the radius would be smallest "
            f"without any privacy. Pass the {name} that you want."
        )


def _sizes(cells: int, limit: int) -> Iterator[int]:
    size = 1
    while candidate_tables(cells, size) <= limit:
        yield size
        size += max(1, size // 20)


class LaplaceMWEM(MWEM):
    """MWEM with Laplace noise of the same scale in its measurements."""

    method: ClassVar[str] = "mwem"

    @classmethod
    def hardt2012(cls, *, epsilon: float, rounds: int, rows: int, **others: Any) -> Self:
        """Return the calibration of the paper: ``epsilon / 2T`` for each choice and each measurement.

        Args:
            epsilon: Pure privacy loss of the whole run.
            rounds: T.
            rows: n.
            **others: As in the constructor.
        """
        if not 0.0 < epsilon < math.inf:
            raise ValueError(f"epsilon is {epsilon}. Pass a positive finite number.")
        checked_count("rounds", rounds)
        checked_count("rows", rows)
        share = epsilon / (2 * rounds)
        return cls(rounds=rounds, rows=rows, choice_epsilon=share, scale=1.0 / (share * rows), **others)

    def curve(self) -> PrivacyCurve:
        """Return the privacy curve of the whole run in closed form.

        Laplace measurements are ``1/(2 s^2)``-zero-concentrated at most, too, with s the noise in rows. The 2T-fold
        pure curve of the larger loss holds as well. Of the two the one is returned that adds less to the radius with
        independent rows at 95% confidence: the pure one for few rounds.
        """
        pure = PureCurve(max(self.choice_epsilon, UNIT / self.scale_on_grid), times=2 * self.rounds)
        return min((pure, super().curve()), key=lambda curve: leakage_bound(curve, confidence=0.95).total)

    def privacy(self) -> tuple[float, float]:
        """Pure."""
        return self.rounds * (self.choice_epsilon + UNIT / self.scale_on_grid), 0.0

    def measured(self, noise: Noise) -> int:
        """Return the Laplace noise of one measurement in grid units."""
        return int(noise.laplace(self.scale_on_grid, 1, stream="measurement")[0])

    def excess(self) -> NDArray[np.float64]:
        """Return ``2 (t + 1) e^{-t}``, ``t = sqrt(v)``, which bounds ``E(V - v)_+`` in units of the squared scale."""
        t = np.sqrt(EXCESSES)
        return np.asarray(2.0 * (t + 1.0) * np.exp(-t))


def published_error(*, rows: int, cells: int, queries: int, rounds: int, epsilon: float) -> tuple[float, float]:
    """Return the largest error on the sealed rows as published, ``2 sqrt(ln N / T) + 10 T ln|Q| / (n epsilon)``.

    For the calibration of `LaplaceMWEM.hardt2012`; it may fail with probability ``2T/|Q|``, which has to be below 1 for
    the statement to say anything.

    Returns:
        The error in the units of a mean, and the probability, at most 1.

    Source: Hardt, Ligett, McSherry 2012, Theorem 2.2 (there for sums over rows).

    Examples:
        >>> error, failure = published_error(rows=10**6, cells=1024, queries=1000, rounds=50, epsilon=1.0)
        >>> round(error, 3), failure
        (0.748, 0.1)
    """
    error = 2.0 * math.sqrt(math.log(cells) / rounds) + 10.0 * rounds * math.log(queries) / (rows * epsilon)
    return error, min(1.0, 2.0 * rounds / queries)


_LONGEST_BATCH = 256


class MultiplicativeWeights:
    """Immutable public weights over cells. An update returns new ones.

    Updates are those of `everhold_privacy.synthetic.taught`.

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
            raise ValueError(f"uniform_share is {uniform_share}. Pass a number above 0 and at most 1.")
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
        """The weights, read-only, shape (cells,), with sum 1."""
        return self._weights

    def guess(self, query: ArrayLike) -> float:
        """Return the mean of a query under the weights.

        Args:
            query: Shape (cells,), boolean or numbers in [0, 1].

        Raises:
            ValueError: If the shape is another one or a value is outside [0, 1].
        """
        return mean_under(self._weights, _checked_query(query, self.cells))

    def update(self, query: ArrayLike, released: float) -> Self:
        """Return the weights after an answer that came from the sealed rows.

        Args:
            query: As for `guess`.
            released: The released answer, clipped to [0, 1].

        Raises:
            ValueError: If the query is not as for `guess` or the answer is nan, as refused ones are.
        """
        if math.isnan(released):
            raise ValueError("The released answer is NaN. Do not learn from refused answers.")
        return self._updated(_checked_query(query, self.cells), released)

    def _updated(self, query: NDArray[np.float64], released: float) -> Self:
        new = object.__new__(type(self))
        new._set(taught(self._weights, query, released), capacity=self.capacity, updates=self.updates + 1)
        return new

    def most_updates(self, gap: float, *, error: float = 0.0) -> int:
        """Return the largest possible number of updates: ``capacity / (2 (gap^2 - error^2))``.

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
            raise ValueError(f"gap is {gap} and error is {error}. Pass an error of at least 0 and below gap.")
        return math.floor(self.capacity / (2.0 * (gap - error) * (gap + error)) * (1.0 + 1e-9))

    def __repr__(self) -> str:
        return f"MultiplicativeWeights(cells={self.cells}, updates={self.updates})"


def _checked_query(query: ArrayLike, cells: int) -> NDArray[np.float64]:
    vector = np.asarray(query)
    if vector.shape != (cells,) or vector.dtype.kind not in "biuf":
        raise ValueError(
            f"The query has the shape {vector.shape} and type {vector.dtype}. Pass one number "
            f"for each of {cells} cells."
        )
    real = vector.astype(np.float64)
    if vector.dtype.kind != "b" and not (float(real.min()) >= 0.0 and float(real.max()) <= 1.0):  # also false for nan
        raise ValueError("The query has values that are NaN or outside 0 to 1. Clip and rescale them.")
    return real


@dataclass(frozen=True, slots=True, eq=False)
class WeightsSession:
    """State of a session with public weights between two queries.

    Attributes:
        state: The mechanism's; it may hold secret noise.
        weights: Public.
    """

    state: State
    weights: MultiplicativeWeights


@dataclass(frozen=True, kw_only=True)
class PrivateMultiplicativeWeights:
    """Answers queries by public weights while a mechanism confirms them, and updates the weights if not.

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
            raise ValueError(f"{self.mechanism.name} confirms no guesses. Pass Thresholdout or GuessAndCheck.")
        if self.mechanism.unit != UNIT:
            raise ValueError(f"The mechanism has a grid of {self.mechanism.unit} steps. Pass a mechanism with {UNIT}.")
        if has_public_levels(self.mechanism):  # the table's error is the radius, which holds within the plan
            object.__setattr__(self, "mechanism", replace(self.mechanism, endless=False))

    def start(self, noise: Noise, *, training: ArrayLike | None = None) -> WeightsSession:
        """Return a session without queries. `training` is as for `MultiplicativeWeights`."""
        return WeightsSession(
            self.mechanism.start(noise), MultiplicativeWeights(self.universe.cells, training=training)
        )

    def ask(
        self, session: WeightsSession, query: ArrayLike, histogram: ArrayLike, noise: Noise
    ) -> tuple[WeightsSession, Replies]:
        """Answer one query, which may depend on earlier answers, and return the new session with the reply.

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
        """Answer a batch with guesses from the same weights, which releases then update in order."""
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
        """Ask all queries in turns until the same weights confirm them all, and return these as a table.

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
            raise ValueError(
                f"The queries are about {queries.cells} cells, and the universe has "
                f"{self.universe.cells}. Pass queries about the cells of this universe."
            )
        totals = queries.totals(checked_histogram(histogram, cells=queries.cells, rows=self.mechanism.rows))
        session, confirmed, first, length = self.start(noise, training=training), 0, 0, 1
        while confirmed < len(queries):
            last = min(first + length, len(queries))
            means = queries.means(session.weights.weights, first, last)
            vector = partial(lambda first, index: queries.vector(first + index), first)
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


def _exhausted(session: WeightsSession, queries: int) -> BudgetExhausted:
    asked, updates = session.state.asked, session.weights.updates
    return BudgetExhausted(
        f"The mechanism refused after {asked} queries and {updates} updates, before all "
        f"{queries} were confirmed by the same weights. Plan for more surprises and more "
        "queries, or start from a training histogram.",
        asked=asked,
        updates=updates,
    )
