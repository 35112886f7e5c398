"""Synthetic tables with a promise of their own (S1, S5), outside of any budget.

A holdout sells tables by `everhold_privacy.queries.synthesis`, where they share one promise with all other answers.
Here a maker of `everhold_privacy.synthetic` is paired with a confidence and a dependence model, and drawn once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import erfc

from everhold.dependence import DependenceModel, Independent
from everhold.errors import DependenceError
from everhold_lab.theory.classical import small_database_rows
from everhold_privacy.guarantees.transfer import leakage_bound
from everhold_privacy.synthetic import BLR, MWEM, QueryFamily, Synthesizer, SyntheticTable
from everhold_privacy.synthetic.base import ROUNDING, checked_count
from everhold_privacy.synthetic.blr import MOST_CANDIDATES, candidate_tables

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from everhold.privacy.curves import PrivacyCurve
    from everhold.randomness import Noise
    from everhold_privacy.synthetic import Universe

__all__ = ["TableBound", "TableRelease", "small_tables", "tuned_blr", "tuned_mwem", "uniform_deviation"]

_FIXED = "the queries were fixed before anything that depends on the sealed rows was seen"


@dataclass(frozen=True, slots=True)
class TableBound:
    """Promise of a synthetic table about the population, for all queries of the family at once.

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
    """A maker of synthetic tables and what is promised for one of them.

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
        >>> from everhold_privacy.synthetic import BLR, ListedColumn, Universe
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
            raise ValueError(f"confidence is {self.confidence}; expected a number strictly between 0 and 1")
        if self.beta <= 0.0:
            raise DependenceError(
                f"the dependence model may be wrong with probability {self.dependence.miss:.3g}, and the promise may "
                f"fail with {1.0 - self.confidence:.3g} at most; expected less; request less confidence"
            )

    @property
    def beta(self) -> float:
        """Probability that is left for the statement to fail once the model may be wrong."""
        return 1.0 - self.confidence - self.dependence.miss

    def weights(self, histogram: ArrayLike, noise: Noise) -> NDArray[np.float64]:
        """The drawn weights, shape (cells,), without any promise; arguments and errors as for `draw`."""
        return self.maker.learned(self.maker.release(histogram, noise))

    def draw(self, histogram: ArrayLike, noise: Noise, *, leakage: PrivacyCurve | None = None) -> SyntheticTable:
        """A table; drawing another one costs as much again.

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
        """The promise, before anything is drawn (S1; S5 for fixed queries).

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


def uniform_deviation(queries: int, *, rows: float, beta: float) -> float:
    """``gamma + c(gamma) / beta`` at its least, ``c(gamma) = 2|Q| int_gamma^inf e^{-2 n s^2} ds`` (S5).

    The least is where ``2|Q| e^{-2 n gamma^2} = beta``, the radius of Hoeffding's bound for |Q| fixed queries. The
    second term is the price of having one Markov step for the distance to the rows and that to the population.
    """
    gamma = math.sqrt(math.log(2.0 * queries / beta) / (2.0 * rows))
    tail = 2.0 * queries * math.sqrt(math.pi / (8.0 * rows)) * float(erfc(gamma * math.sqrt(2.0 * rows)))
    return gamma + tail / beta


def small_tables(*, accuracy: float, queries: QueryFamily, **others: Any) -> BLR:
    """BLR with the size of P10, ``s = ceil(ln|Q| / alpha^2)``.

    Args:
        accuracy: alpha, what smallness may cost; at least `everhold_privacy.synthetic.blr.small_table_error`.
        queries: At least 2 queries.
        **others: The other attributes of `everhold_privacy.synthetic.BLR`.
    """
    return BLR(size=small_database_rows(len(queries), accuracy=accuracy), queries=queries, **others)


def tuned_blr(
    *, universe: Universe, queries: QueryFamily, rows: int, epsilon: float | None = None,
    limit: int = MOST_CANDIDATES, **promise: Any,
) -> TableRelease:  # fmt: skip
    """BLR of the size, and of the epsilon if none is requested, with the smallest radius within the limit.

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
    """MWEM with the rounds, and the rho if none is requested, of the smallest radius.

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
    """Argument with the smallest radius, to `fine`."""
    found = minimize_scalar(
        lambda place: draft(place).bound().radius, bounds=(low, high), method="bounded", options={"xatol": fine}
    )
    return float(found.x)


def _check_requested(name: str, promise: dict[str, Any]) -> None:
    if promise.get("fixed_queries"):
        raise ValueError(
            f"{name} is not given and the queries are fixed: then the radius is smallest without any privacy; "
            f"expected a {name} that you request"
        )


def _sizes(cells: int, limit: int) -> Iterator[int]:
    size = 1
    while candidate_tables(cells, size) <= limit:
        yield size
        size += max(1, size // 20)
