"""Base of makers of synthetic tables: parameters, checks, and the table's distance from the sealed rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy

from everhold.values.evaluation import UNIT
from everhold.values.universe import MOST_ROWS

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from everhold.privacy.curves import PrivacyCurve
    from everhold.randomness import Noise
    from everhold.values.universe import QueryFamily, Universe
    from everhold_privacy.mechanisms.selection import ExponentialMechanism

ROUNDING = 3.0 / UNIT
"""Queries, means of public weights and measurements are each rounded by less than one step of the grid."""

_LEAST_SLOPE, _HALVINGS = 1e-15, 24  # of the search for an allowance


@dataclass(frozen=True, kw_only=True)
class Synthesizer(ABC):
    """A private way from a histogram to a synthetic table, by the exponential mechanism.

    Attributes:
        universe: The cells, listed without a look at the sealed rows.
        queries: The family of queries that the table shall answer.

    Raises:
        ValueError: If an attribute is out of its range or the queries are about other cells.
    """

    universe: Universe
    queries: QueryFamily
    rows: int

    method: ClassVar[str]

    def __post_init__(self) -> None:
        if self.queries.cells != self.universe.cells:
            raise ValueError(
                f"the queries are about {self.queries.cells} cells and the universe has {self.universe.cells}; "
                "expected vectors over the cells of this universe"
            )
        checked_count("rows", self.rows, most=MOST_ROWS)

    @property
    @abstractmethod
    def selection(self) -> ExponentialMechanism:
        """The mechanism of each choice."""

    @property
    @abstractmethod
    def candidates(self) -> int:
        """Number of candidates."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """Units of loss that make a mean of 1."""

    @abstractmethod
    def curve(self) -> PrivacyCurve:
        """Hockey-stick curve of the table for one replaced row."""

    @abstractmethod
    def privacy(self) -> tuple[float, float]:
        """(epsilon, delta) of the table."""

    @abstractmethod
    def release(self, histogram: ArrayLike, noise: Noise) -> list[list[int]]:
        """All that is drawn, in few whole numbers.

        Args:
            histogram: How many sealed rows lie in each cell, shape (cells,).
            noise: Where randomness comes from.

        Raises:
            ValueError: If the histogram is not one of `rows` rows; nothing was drawn.
        """

    @abstractmethod
    def learned(self, released: Sequence[Sequence[int]]) -> NDArray[np.float64]:
        """The weights that follow from what was released, the same ones every time, shape (cells,)."""

    @abstractmethod
    def _apart(self, beta: float) -> tuple[float, float]:
        """The part of `sampling` that is not due to the choices."""

    def sampling(self, beta: float) -> tuple[float, float]:
        """An alpha with small ``alpha + r(alpha) / beta``, and ``r(alpha) >= E(max_f |f(y) - f(x)| - alpha)_+``.

        The excess of a mean regret is at most the mean of the excesses, so the choices add that of one of them.
        """
        alpha, exceedance = self._apart(beta)
        regret, units, number = self.selection.exceedance, self.steps, self.candidates
        found = scipy.optimize.minimize_scalar(  # a regret in [0, 1] exceeds no alpha above 1
            lambda extra: extra + regret(extra, candidates=number, steps=units) / beta,
            bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-10},
        )  # fmt: skip
        extra = float(found.x)
        return alpha + extra, exceedance + regret(extra, candidates=number, steps=units)

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


def checked_count(name: str, value: int, *, most: int | None = None) -> None:
    """Refuse what is not a whole number from 1 to `most`."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < 1 or (most is not None and value > most):
        upto = "" if most is None else f" and at most {most:,}"
        raise ValueError(f"{name} is {value!r}; expected a whole number of at least 1{upto}")
