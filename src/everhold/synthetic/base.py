"""What makers of synthetic tables share: parameters, checks, and the way from the sealed rows to the population."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import erfc

from everhold.dependence import DependenceModel, Independent
from everhold.errors import DependenceError
from everhold.guarantees.transfer import leakage_bound
from everhold.synthetic.table import SyntheticTable
from everhold.synthetic.universe import MOST_ROWS, checked_histogram
from everhold.values.evaluation import UNIT

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from everhold.privacy.curves import PrivacyCurve
    from everhold.privacy.noise import Noise
    from everhold.synthetic.questions import QueryFamily
    from everhold.synthetic.universe import Universe

__all__ = [
    "ROUNDING",
    "Synthesizer",
    "TableBound",
    "checked_count",
    "plus_choice",
    "uniform_deviation",
    "wish_needed",
]

ROUNDING = 3.0 / UNIT
"""Questions, means of public weights and measurements are each rounded by less than one step of the grid."""

_LEAST_SLOPE, _HALVINGS = 1e-15, 24  # of the search for an allowance

FIXED = "the questions were fixed before anything that depends on the sealed rows was seen"


@dataclass(frozen=True, slots=True)
class TableBound:
    """What a synthetic table promises about the population, for all questions of the family at once.

    Attributes:
        radius: Half-width.
        on_rows: Part of it that bounds the distance from the sealed rows, at the same confidence.
        margin: The half-width without the part of S2 that is smaller near 0 and 1.
        tilt: The eps of S2.
        statement: "S1", or "S5" where questions fixed in advance have the smaller bound.
    """

    radius: float
    on_rows: float
    margin: float
    tilt: float
    statement: str


@dataclass(frozen=True, kw_only=True)
class Synthesizer(ABC):
    """A private way from a histogram to a synthetic table.

    Attributes:
        universe: The cells, listed without a look at the sealed rows.
        queries: The family of questions that the table shall answer.
        rows: Number of sealed rows n.
        confidence: 1 - beta, in (0, 1).
        dependence: How the rows depend on each other.
        fixed_questions: Whether the family was fixed before anything that depends on the sealed rows was seen. Then
            Hoeffding's bound for all of them (S5) may be the smaller one.

    Raises:
        ValueError: If an attribute is out of its range or the questions are about other cells.
        DependenceError: If the dependence alone uses up beta.
    """

    universe: Universe
    queries: QueryFamily
    rows: int
    confidence: float = 0.95
    dependence: DependenceModel = field(default_factory=Independent)
    fixed_questions: bool = False

    method: ClassVar[str]

    def __post_init__(self) -> None:
        if self.queries.cells != self.universe.cells:
            raise ValueError(
                f"the questions are about {self.queries.cells} cells and the universe has {self.universe.cells}; "
                "expected vectors over the cells of this universe"
            )
        checked_count("rows", self.rows, most=MOST_ROWS)
        if not 0.0 < self.confidence < 1.0:
            raise ValueError(f"confidence is {self.confidence}; expected a number strictly between 0 and 1")
        if self.beta <= 0.0:
            raise DependenceError(
                f"the dependence model may be wrong with probability {self.dependence.miss:.3g}, and the promise may "
                f"fail with {1.0 - self.confidence:.3g} at most; expected less; wish for less confidence"
            )

    @property
    def beta(self) -> float:
        """Probability that is left for the statement to fail once the model may be wrong."""
        return 1.0 - self.confidence - self.dependence.miss

    @abstractmethod
    def curve(self) -> PrivacyCurve:
        """Hockey-stick curve of the table for one replaced row."""

    @abstractmethod
    def privacy(self) -> tuple[float, float]:
        """(epsilon, delta) of the table."""

    @abstractmethod
    def sampling(self, beta: float) -> tuple[float, float]:
        """An alpha with small ``alpha + r(alpha) / beta``, and ``r(alpha) >= E(max_f |f(y) - f(x)| - alpha)_+``."""

    def allowance(self, exceedance: float) -> float:
        """About the smallest alpha with ``r(alpha)`` of at most this, never too small; 1 if none below is found.

        For a table that shares its promise with other answers: each may add so much to r (theory, budget).
        """
        low, high = _LEAST_SLOPE, 1.0
        alpha = self._alpha_within(low, exceedance)
        for _ in range(_HALVINGS):
            middle = math.sqrt(low * high)
            found = self._alpha_within(middle, exceedance)
            low, high = (low, middle) if math.isinf(found) else (middle, high)
            alpha = min(alpha, found)
        return min(alpha, 1.0)

    def _alpha_within(self, slope: float, exceedance: float) -> float:
        alpha, added = self.sampling(slope)
        return alpha if added <= exceedance else math.inf

    @abstractmethod
    def release(self, histogram: ArrayLike, noise: Noise) -> list[list[int]]:
        """All that is drawn, in few whole numbers; arguments and errors as for `draw`."""

    @abstractmethod
    def learned(self, released: Sequence[Sequence[int]]) -> NDArray[np.float64]:
        """The weights that follow from what was released, the same ones every time, shape (cells,)."""

    def weights(self, histogram: ArrayLike, noise: Noise) -> NDArray[np.float64]:
        """The drawn weights, shape (cells,), without any promise; arguments and errors as for `draw`."""
        return self.learned(self.release(histogram, noise))

    def draw(self, histogram: ArrayLike, noise: Noise, *, leakage: PrivacyCurve | None = None) -> SyntheticTable:
        """A table; drawing another one costs as much again.

        Args:
            histogram: How many sealed rows lie in each cell, shape (cells,).
            noise: Where randomness comes from.
            leakage: As for `bound`.

        Raises:
            ValueError: If the histogram is not one of `rows` rows; nothing was drawn.
        """
        bound = self.bound(leakage)
        assumptions = (self.dependence.describe(), *([FIXED] if bound.statement == "S5" else []))
        return SyntheticTable(
            universe=self.universe, weights=self.weights(histogram, noise), method=self.method, rows=self.rows,
            questions=len(self.queries), radius=bound.radius, confidence=self.confidence, statement=bound.statement,
            assumptions=assumptions, privacy=self.privacy(), margin=bound.margin, tilt=bound.tilt,
            simulated=noise.simulated,
        )  # fmt: skip

    def bound(self, leakage: PrivacyCurve | None = None) -> TableBound:
        """The promise, before anything is drawn (S1; S5 for fixed questions).

        Args:
            leakage: Hockey-stick curve of everything that has been or will be released from these rows, this table
                among it, about one row, averaged over rows; without it that of this table alone.
        """
        curve = self.dependence.leakage(self.curve(), self.rows) if leakage is None else leakage
        leak = leakage_bound(curve, confidence=1.0 - self.beta)
        on_rows = _total(self.sampling(self.beta), self.beta)
        sharp = TableBound(
            radius=on_rows + leak.total + ROUNDING, on_rows=on_rows, margin=on_rows + leak.total - leak.bias + ROUNDING,
            tilt=leak.epsilon, statement="S1",
        )  # fmt: skip
        beta = self.beta - self.dependence.training_distance()
        if not self.fixed_questions or beta <= 0.0:
            return sharp
        effective = self.dependence.concentration(self.rows)
        close = _total(self.sampling(beta), beta)
        radius = close + uniform_deviation(len(self.queries), rows=effective, beta=beta) + ROUNDING
        fixed = TableBound(radius=radius, on_rows=close, margin=radius, tilt=0.0, statement="S5")
        return min(sharp, fixed, key=lambda bound: bound.radius)

    def counts(self, histogram: ArrayLike) -> NDArray[np.int64]:
        """The histogram, checked."""
        return checked_histogram(histogram, cells=self.universe.cells, rows=self.rows)


def uniform_deviation(queries: int, *, rows: float, beta: float) -> float:
    """``gamma + c(gamma) / beta`` at its least, ``c(gamma) = 2|Q| int_gamma^inf e^{-2 n s^2} ds`` (S5).

    The least is where ``2|Q| e^{-2 n gamma^2} = beta``, the radius of Hoeffding's bound for |Q| fixed questions. The
    second term is the price of having one Markov step for the distance to the rows and that to the population.
    """
    gamma = math.sqrt(math.log(2.0 * queries / beta) / (2.0 * rows))
    tail = 2.0 * queries * math.sqrt(math.pi / (8.0 * rows)) * float(erfc(gamma * math.sqrt(2.0 * rows)))
    return gamma + tail / beta


def plus_choice(alpha: float, exceedance: Callable[[float], float], beta: float) -> tuple[float, float]:
    """`alpha` and the extra one with the least ``extra + exceedance(extra) / beta``, with the exceedance there.

    A regret in [0, 1] exceeds no alpha above 1, so nothing is looked for beyond.
    """
    fine = minimize_scalar(
        lambda extra: extra + exceedance(extra) / beta, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-10}
    )
    return alpha + float(fine.x), exceedance(float(fine.x))


def wish_needed(name: str, fixed_questions: object) -> None:
    """Refuse to tune the privacy loss for fixed questions: the smallest radius would have no privacy at all.

    Raises:
        ValueError: If the questions are fixed.
    """
    if fixed_questions:
        raise ValueError(
            f"{name} is not given and the questions are fixed: then the radius is smallest without any privacy; "
            f"expected a {name} that you wish for"
        )


def _total(sampling: tuple[float, float], beta: float) -> float:
    alpha, exceedance = sampling
    return alpha + exceedance / beta


def checked_count(name: str, value: int, *, most: int | None = None) -> None:
    """Refuse what is not a whole number from 1 to `most`."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < 1 or (most is not None and value > most):
        upto = "" if most is None else f" and at most {most:,}"
        raise ValueError(f"{name} is {value!r}; expected a whole number of at least 1{upto}")
