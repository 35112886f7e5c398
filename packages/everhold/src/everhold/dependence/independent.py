"""Rows that do not depend on each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from everhold.dependence.base import DependenceModel, Links, require_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.privacy.curves import PrivacyCurve

_SHOWN = 24  # rows of a picture


@dataclass(frozen=True, slots=True)
class Independent(DependenceModel):
    """Every row is drawn without regard to the others; the laws of the rows may differ.

    Examples:
        >>> Independent().concentration(20_000)
        20000.0
    """

    kind: ClassVar[str] = "independent"
    title: ClassVar[str] = "independent rows"
    rows_are: ClassVar[str] = "independent rows"
    how_to_tell: ClassVar[tuple[str, ...]] = (
        "The assumption is wrong if some rows share a source: several visits of one patient, days that follow each "
        "other, members of one household, copies of one record.",
        "To check, look for an identifier that occurs in more than one row or on both sides, holdout and training; "
        "look for an order in time or space; and ask how the rows were collected. The answers themselves cannot "
        "show it.",
        "If it is wrong, the intervals are too narrow. Declare the dependence when the holdout is created.",
    )
    entries: ClassVar[Mapping[str, str]] = {}
    holds_given_features: ClassVar[bool] = True
    independent: ClassVar[bool] = True

    def leakage(self, curve: PrivacyCurve, rows: int) -> PrivacyCurve:
        """One row is one row: the mechanism's own curve (S4 with H = 1)."""
        return curve

    def concentration(self, rows: int) -> float:
        """All rows count (S5)."""
        require_rows(rows)
        return float(rows)

    def bayesian_price(self, epsilon: float, rows: int) -> float:
        """No other row is nearby and none is influenced: differential privacy is Bayesian differential privacy."""
        return 1.0 / epsilon

    def links(self, most: int) -> Links:
        """Some rows, and no line."""
        return Links(min(most, _SHOWN))

    def describe(self) -> str:
        """The assumption in one plain sentence."""
        return "each sealed row was drawn independently of all the others and of the training set"

    def to_dict(self) -> dict[str, Any]:
        """``{"kind": "independent"}``."""
        return {"kind": "independent"}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        return cls()
