"""What every dependence model answers: what a row's neighbours leak about it, and how averages concentrate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from everhold.privacy.curves import PrivacyCurve

__all__ = ["DependenceModel"]


class DependenceModel(ABC):
    """How sealed rows hang together (theory, section 4).

    Attributes:
        binomial_tails: Whether averages have the exact binomial-KL tails of independent rows, not only Hoeffding's.
    """

    binomial_tails: ClassVar[bool] = False

    @abstractmethod
    def leakage(self, curve: PrivacyCurve, rows: int) -> PrivacyCurve:
        """The curve of the transcript about one row, averaged over rows (S4).

        Args:
            curve: The mechanism's own curve, for data sets that differ in one row.
            rows: Number of sealed rows.
        """

    @abstractmethod
    def concentration(self, rows: int) -> float:
        """Effective number of independent rows for the average of a fixed query (S5)."""

    @abstractmethod
    def describe(self) -> str:
        """The assumption in one plain sentence, as it stands in the certificate."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The model as plain data with its ``kind``; part of the certificate."""
