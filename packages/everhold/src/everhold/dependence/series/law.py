"""Laws of series: what is known of how a row follows the one before."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everhold.dependence.series.coupling import Coupling


class SeriesLaw(ABC):
    """A law, or a set of laws one of which is true."""

    @property
    def uncertain(self) -> bool:
        """True for a set."""
        return False

    @abstractmethod
    def coupling(self) -> Coupling:
        """Couplings of two series that differ in a row.

        Raises:
            DependenceError: If the series need not forget.
        """

    @abstractmethod
    def distance(self, steps: int) -> float:
        """Total variation between two rows so many steps apart and independent ones, at most."""

    @property
    @abstractmethod
    def norm(self) -> float:
        """Norm of the kernel on mean-zero functions, at most; 1 where nothing is known."""

    def bayesian_price(self, epsilon: float, longest: int) -> float:
        """Price of a series of so many rows (P5); by default all of its other rows are nearby."""
        return longest / epsilon
