"""The model of independent rows."""

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
    """A model of rows that are drawn independently of each other, perhaps from different laws.

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
        "To check, look for an identifier that occurs in more than one row, or on both sides, holdout and training. "
        "Look for an order in time or space, and ask how the rows were collected. The answers themselves cannot show "
        "it.",
        "If it is wrong, the intervals are too narrow. Declare the dependence when the holdout is created.",
    )
    entries: ClassVar[Mapping[str, str]] = {}
    holds_given_features: ClassVar[bool] = True
    independent: ClassVar[bool] = True

    def leakage(self, curve: PrivacyCurve, rows: int) -> PrivacyCurve:
        """Return the mechanism's own curve, as a row tells nothing about others (S4 with H = 1)."""
        return curve

    def concentration(self, rows: int) -> float:
        """Return the number of rows, as all of them count (S5)."""
        require_rows(rows)
        return float(rows)

    def bayesian_price(self, epsilon: float, rows: int) -> float:
        """Return ``1 / epsilon``, as no other row is nearby and none is influenced."""
        return 1.0 / epsilon

    def links(self, most: int) -> Links:
        """Return a graph of some rows without lines."""
        return Links(min(most, _SHOWN))

    def describe(self) -> str:
        """Return the assumption as one plain sentence."""
        return "each sealed row was drawn independently of all the others and of the training set"

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"kind": "independent"}``."""
        return {"kind": "independent"}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build the model from plain data."""
        return cls()
